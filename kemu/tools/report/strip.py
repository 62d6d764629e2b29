"""A run on a terminal: one line for each member over time, at most 100 columns wide.

faults            x------
no service        ▁▄▅▁ ▄▁                of 12
waiting max    █▃▃▁▂▂▂▂▂                 52
c1            jjjj222222______1222
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kemu.protocol.names import host_of
from kemu.tools.report import lanes
from kemu.tools.report.collecting import RunReport
from kemu.tools.report.frames import FROM, UNTIL, Frame
from kemu.tools.report.layout import natural

MOST_WIDTH = 100
MOST_MEMBERS = 12
"""Members with a line; the others are counted."""
LABEL, TAIL = 14, 8
"""Columns before and behind the picture."""
BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " .:-=+*#@"
"""The same for a terminal without UTF-8."""
DOWN, PAUSED, JOINING, MANY, ABSENT = "_", "z", "j", "+", " "
_OWNS = "owns"
KEY = f"digits: partitions ({MANY} ten or more)  {JOINING} joining  {PAUSED} paused  {DOWN} down"

Spans = Sequence[tuple[int, int]]


class Columns:
    """The columns of a picture: equal spans of a run."""

    def __init__(self, end_us: int, count: int) -> None:
        self.end_us = max(end_us, 1)
        self.count = count

    def at(self, us: int) -> int:
        """The column of a time."""
        return min(us * self.count // self.end_us, self.count - 1)

    def start_us(self, column: int) -> int:
        """The time at which a column begins."""
        return self.end_us * column // self.count

    def covered_us(self, spans: Iterable[tuple[int, int]]) -> list[int]:
        """The time of the spans in each column."""
        found = [0] * self.count
        for since_us, until_us in spans:
            for column in range(self.at(since_us), self.at(max(since_us, until_us - 1)) + 1):
                begin, end = self.start_us(column), self.start_us(column + 1)
                found[column] += max(0, min(until_us, end) - max(since_us, begin))
        return found


def strip(report: RunReport, width: int, *, plain: bool = False) -> Iterator[str]:
    """The lines of the picture.

    Args:
        report: a run with all frames.
        width: columns of the terminal.
        plain: whether the terminal has only ASCII.
    """
    columns = Columns(report.result.virtual_us, max(20, min(width, MOST_WIDTH) - LABEL - TAIL))
    blocks = PLAIN_BLOCKS if plain else BLOCKS
    yield _line("", _ruler(columns))
    yield from _faults(report.frames["faults"], columns)
    yield from _no_service(report, columns, blocks)
    yield from _waiting(report.frames["waiting"], columns, blocks)
    yield from _members(report.frames, columns)


def _line(label: str, picture: str, tail: str = "") -> str:
    short = label if len(label) < LABEL else f"{label[: LABEL - 2]}~"
    return f"{short:{LABEL}}{picture}  {tail}".rstrip()


def _ruler(columns: Columns) -> str:
    steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400]
    fitting = (step * 1_000_000 for step in steps if columns.count * step * 1_000_000 >= 11 * columns.end_us)
    step_us = next(fitting, columns.end_us)
    text = ""
    for us in range(0, columns.end_us, step_us):
        mark = f"|{us // 60_000_000}:{us // 1_000_000 % 60:02}"
        if not text or columns.at(us) > len(text):
            text = f"{text:{columns.at(us)}}{mark}"
    return text[: columns.count]


def _faults(frame: Frame, columns: Columns) -> Iterator[str]:
    cells = [" "] * columns.count
    for since_us, until_us in zip(frame.columns[FROM], frame.columns[UNTIL], strict=True):
        for column in range(columns.at(since_us), columns.at(until_us) + 1):
            cells[column] = "-" if cells[column] == " " else cells[column]
        cells[columns.at(since_us)] = "x"
    if len(frame):
        yield _line("faults", "".join(cells))


def _no_service(report: RunReport, columns: Columns, blocks: str) -> Iterator[str]:
    partitions = sum(service.partitions for service in report.result.figures.service.values())
    down = report.frames["down"].columns
    if partitions and len(report.frames["down"]):
        shares = [
            us / partitions / (columns.start_us(column + 1) - columns.start_us(column) or 1)
            for column, us in enumerate(columns.covered_us(zip(down[FROM], down[UNTIL], strict=True)))
        ]
        yield _line("no service", _bars(shares, 1.0, blocks), f"of {partitions:,}")


def _waiting(frame: Frame, columns: Columns, blocks: str) -> Iterator[str]:
    times, records = frame.columns["at_us"], frame.columns["records"]
    most = max(records, default=0)
    if not most:
        return
    values = []
    for column in range(columns.count):
        first = bisect_right(times, columns.start_us(column))
        last = bisect_right(times, columns.start_us(column + 1))
        values.append(max(records[max(first - 1, 0) : last], default=0) if last else 0)
    yield _line("waiting max", _bars(values, most, blocks), f"{most:,}")


def _bars(values: Iterable[float], top: float, blocks: str) -> str:
    """A block for each value; a value above 0 is always visible."""
    highest = len(blocks) - 1
    return "".join(blocks[min(highest, max(value > 0, round(value / top * highest)))] for value in values)


def _members(frames: Mapping[str, Frame], columns: Columns) -> Iterator[str]:
    states: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for row in frames["members"].named():
        states.setdefault(row["member"], {}).setdefault(row["state"], []).append((row[FROM], row[UNTIL]))
    owned: dict[str, list[tuple[int, int]]] = {}
    for row in frames["ownership"].named():
        owned.setdefault(row["owner"], []).append((row[FROM], row[UNTIL]))
    hosts: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in frames["hosts"].named():
        hosts.setdefault((row["host"], row["state"]), []).append((row[FROM], row[UNTIL]))
    lines = []
    for member, mine in states.items():
        outs = {
            DOWN: hosts.get((host_of(member), "down"), []),
            PAUSED: hosts.get((host_of(member), "paused"), []),
            JOINING: [span for state in lanes.JOINING for span in mine.get(state, ())],
        }
        out_us = sum(until_us - since_us for spans in outs.values() for since_us, until_us in spans)
        there = [span for state in lanes.IN_GROUP for span in mine.get(state, ())]
        lines.append((out_us, member, _cells(there, outs, owned.get(member, []), columns)))
    shown = sorted(sorted(lines, key=lambda line: -line[0])[:MOST_MEMBERS], key=lambda line: natural(line[1]))
    yield from (_line(member, cells) for _, member, cells in shown)
    rest = len(lines) - len(shown)
    if rest:
        yield _line("", f"and {rest:,} member{'s' * (rest != 1)} out of service for less time")
    if lines:
        yield _line("", KEY)


def _cells(there: Spans, outs: Mapping[str, Spans], owned: Spans, columns: Columns) -> str:
    """For each column, the state that takes the most of its time; of a member in the group, its partitions."""
    times = {ABSENT: [0] * columns.count, _OWNS: columns.covered_us(there)}
    times |= {mark: columns.covered_us(spans) for mark, spans in outs.items()}
    partitions = columns.covered_us(owned)
    text = ""
    for column in range(columns.count):
        state = max(times, key=lambda mark: times[mark][column])
        if state == _OWNS:
            count = round(partitions[column] / (columns.start_us(column + 1) - columns.start_us(column) or 1))
            state = str(count) if count < 10 else MANY
        text += state
    return text
