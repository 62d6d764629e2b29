"""A small picture of a run for a document: SVG without scripts, fonts or colours of its surroundings.

The first lanes are faults, violations, and the share of partitions without service. Then come the lanes of the run's
own system: Streams tasks, steps of reassignments, ranges of KIP-333, or else members and partitions. A run without a
group or with leaderless partitions has a lane of leaders.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping

from kemu.protocol.names import host_of
from kemu.tools.report.collecting import RunReport
from kemu.tools.report.frames import FROM, UNTIL, Frame, Row
from kemu.tools.report.lanes import IN_GROUP, JOINING
from kemu.tools.report.layout import natural
from kemu.tools.report.strip import Columns

WIDTH, GUTTER, RIGHT = 760, 116, 12
ROW, BAR, STRIP = 13, 10, 30
MOST_ROWS = 16
"""Rows of a lane; the others are counted."""
COLOURS = {
    "stable": "#c3dbe9", "joining": "#e3a400", "down": "#566173", "home": "#c5ccd8", "away": "#2099d2",
    "red": "#cc2a0a", "fault": "#d08700", "learner": "#d98c00", "standby": "#7c7fd0", "active": "#2f62b8",
    "step": "#3469d8", "range": "#c9a000", "wait": "#2f62b8",
}  # fmt: skip
LEGENDS = {
    "members": (("stable", "in the group"), ("joining", "joining"), ("down", "host down")),
    "partitions": (("home", "first owner"), ("away", "another owner"), ("red", "without service")),
    "tasks": (("active", "active"), ("learner", "learner, warm-up"), ("standby", "standby"), ("red", "stopped")),
    "reassignments": (("step", "step"), ("home", "reassignment")),
    "leaders": (
        ("home", "first leader"),
        ("away", "another leader"),
        ("fault", "under-replicated"),
        ("red", "leaderless"),
    ),
    "ranges": (("range", "a second consumer reads the range"), ("red", "without service")),
}
Bars = dict[str, list[tuple[int, int, str, float]]]
"""Label of a row -> (start, end, colour, share of the height)."""


def svg_of(report: RunReport) -> str:
    """The picture of a run with all frames."""
    return _Picture(report).text()


def lanes_of(report: RunReport) -> Iterator[tuple[str, Bars]]:
    """The lanes of the run's own system, with their bars."""
    frames = report.frames
    if len(frames["tasks"]):
        yield "tasks", _tasks(frames)
    elif len(frames["steps"]):
        yield "reassignments", _steps(frames, report.result.virtual_us)
    elif len(frames["ranges"]):
        ranges = _bars(frames["ranges"], lambda row: row["partition"], lambda row: "range")
        yield "ranges", _with(ranges, frames["down"], lambda row: row["partition"])
    elif not len(frames["members"]) or len(frames["leaderless"]):
        yield "leaders", _leaders(frames)
    else:
        yield "members", _members(frames)
        yield "partitions", _partitions(frames)


# --- bars ------------------------------------------------------------------------------------------------------------


def _bars(frame: Frame, label: Callable[[Row], str], colour: Callable[[Row], str]) -> Bars:
    found: Bars = {}
    for row in frame.named():
        found.setdefault(label(row), []).append((row[FROM], row[UNTIL], colour(row), 1.0))
    return found


def _with(bars: Bars, stops: Frame, label: Callable[[Row], str]) -> Bars:
    """The bars with red ones of half their height over them, for the rows that are there."""
    for row in stops.named():
        if label(row) in bars:
            bars[label(row)].append((row[FROM], row[UNTIL], "red", 0.5))
    return bars


def _members(frames: Mapping[str, Frame]) -> Bars:
    colours = {**dict.fromkeys(IN_GROUP, "stable"), **dict.fromkeys(JOINING, "joining")}
    bars = _bars(frames["members"], lambda row: row["member"], lambda row: colours.get(row["state"], ""))
    for row in frames["hosts"].named():
        for member in bars:
            if host_of(member) == row["host"]:
                bars[member].append((row[FROM], row[UNTIL], "down", 0.3))
    return bars


def _partitions(frames: Mapping[str, Frame]) -> Bars:
    first: dict[str, str] = {}

    def colour(row: Row) -> str:
        return "home" if first.setdefault(row["partition"], row["owner"]) == row["owner"] else "away"

    bars = _bars(frames["ownership"], lambda row: row["partition"], colour)
    return _with(bars, frames["down"], lambda row: row["partition"])


def _leaders(frames: Mapping[str, Frame]) -> Bars:
    first: dict[str, str] = {}

    def colour(row: Row) -> str:
        return "home" if first.setdefault(row["partition"], row["leader"]) == row["leader"] else "away"

    bars = _bars(frames["leaders"], lambda row: row["partition"], colour)
    for name, half in (("under_replicated", "fault"), ("leaderless", "red")):
        for row in frames[name].named():
            bars.setdefault(row["partition"], []).append((row[FROM], row[UNTIL], half, 0.5))
    return bars


def _tasks(frames: Mapping[str, Frame]) -> Bars:
    def colour(row: Row) -> str:
        return row["role"] if row["role"] in ("active", "standby") else "learner"

    bars = _bars(frames["tasks"], lambda row: f"{row['task']} at {row['instance']}", colour)
    stopped = _bars(
        frames["task_stops"], lambda row: f"{row['task'].rpartition('/')[2]} at {row['taken_by']}", lambda row: "red"
    )
    for label, stops in stopped.items():
        for name in (label, f"{label.partition(' ')[0]} at {host_of(label.rpartition(' ')[2])}"):
            if name in bars:
                bars[name] += [(since_us, until_us, "red", 0.5) for since_us, until_us, _, _ in stops]
                break
    return bars


def _steps(frames: Mapping[str, Frame], end_us: int) -> Bars:
    bars = _bars(frames["reassignments"], lambda row: row["partition"], lambda row: "home")
    for row in frames["steps"].named():
        until_us = row["committed_us"] if row["committed_us"] >= 0 else end_us
        label = f"{row['partition']} step {row['number']}"
        bars.setdefault(label, []).append((row["started_us"], until_us, "step", 1.0))
    return bars


# --- the picture -----------------------------------------------------------------------------------------------------


class _Picture:
    """Draws from top to bottom."""

    def __init__(self, report: RunReport) -> None:
        self._report = report
        self._columns = Columns(report.result.virtual_us, WIDTH - GUTTER - RIGHT)
        self._parts: list[str] = []
        self._y = 8

    def text(self) -> str:
        """The whole picture."""
        self._ruler()
        self._faults()
        self._violations()
        self._service()
        for name, bars in lanes_of(self._report):
            self._lane(name, bars)
        result = self._report.result
        title = html.escape(f"{result.scenario}, {result.profile}, seed {result.seed}: {result.verdict}")
        height = self._y + 4
        style = "".join(f".{name}{{fill:{colour}}}" for name, colour in COLOURS.items())
        return "\n".join((
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" font-family="sans-serif" font-size="10">',
            f"<title>{title}</title>",
            f"<style>{style}text{{fill:#18212f}}.dim{{fill:#566173}}.grid{{fill:#e2e6ec}}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            *self._parts,
            "</svg>",
            "",
        ))  # fmt: skip

    def _x(self, us: int) -> float:
        return GUTTER + us * (WIDTH - GUTTER - RIGHT) / self._columns.end_us

    def _write(self, x: float, y: float, text: str, kind: str = "") -> None:
        named = f' class="{kind}"' if kind else ""
        self._parts.append(f'<text x="{x:.0f}" y="{y:.0f}"{named}>{html.escape(text)}</text>')

    def _ruler(self) -> None:
        seconds = self._columns.end_us / 1e6
        step = next(
            (each for each in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600) if seconds / each <= 9), 7200
        )
        for at in range(0, int(seconds) + 1, step):
            if self._x(at * 1_000_000) > WIDTH - 30:
                break
            self._write(self._x(at * 1_000_000) + 2, self._y + 6, f"{at // 60}:{at % 60:02}", "dim")
        self._y += 12

    def _faults(self) -> None:
        faults = list(self._report.frames["faults"].named())
        if not faults:
            return
        self._write(4, self._y + BAR - 1, "faults")
        self._paths(
            (row[FROM], max(row[UNTIL], row[FROM] + self._columns.end_us // 300), "fault", 1.0) for row in faults
        )
        self._y += ROW + 2

    def _violations(self) -> None:
        found = self._report.result.violations
        if found:
            self._write(4, self._y + BAR - 1, "violations")
            wide_us = self._columns.end_us // 250
            self._paths((each.at_us, each.at_us + wide_us, "red", 1.0) for each in found)
            first, last = (of(found, key=lambda each: each.at_us) for of in (min, max))
            self._write(self._x(last.at_us + wide_us) + 4, self._y + BAR - 1, f"{first.checker} ({first.kind})", "dim")
            self._y += ROW + 2

    def _service(self) -> None:
        down = self._report.frames["down"]
        partitions = sum(each.partitions for each in self._report.result.figures.service.values())
        if not len(down) or not partitions:
            return
        spans = zip(down.columns[FROM], down.columns[UNTIL], strict=True)
        wide_us = self._columns.end_us / self._columns.count
        base = self._y + STRIP - 3
        path = f"M{GUTTER} {base}"
        for us in self._columns.covered_us(spans):
            path += f"V{base - min(1.0, us / partitions / wide_us) * (STRIP - 4):.1f}h1"
        self._write(4, self._y + 12, "without service")
        self._write(4, self._y + 24, f"of {partitions:,} partitions", "dim")
        self._parts.append(f'<path class="red" d="{path}V{base}z"/><rect class="grid" x="{GUTTER}" y="{base}" '
                           f'width="{self._columns.count}" height="1"/>')  # fmt: skip
        self._y += STRIP

    def _lane(self, name: str, bars: Bars) -> None:
        self._y += 5
        self._write(4, self._y + 9, name)
        x = GUTTER
        for colour, text in LEGENDS[name]:
            self._parts.append(f'<rect class="{colour}" x="{x}" y="{self._y + 1}" width="9" height="9"/>')
            self._write(x + 13, self._y + 9, text, "dim")
            x += 24 + 6 * len(text)
        self._y += ROW + 3
        labels = sorted(bars, key=lambda label: (label.startswith("__"), natural(label)))
        for label in labels[:MOST_ROWS]:
            self._write(4, self._y + BAR - 2, label if len(label) < 20 else f"{label[:9]}…{label[-9:]}", "dim")
            self._paths(bars[label])
            self._y += ROW
        if len(labels) > MOST_ROWS:
            self._write(4, self._y + BAR - 2, f"and {len(labels) - MOST_ROWS} more", "dim")
            self._y += ROW

    def _paths(self, bars: Iterable[tuple[int, int, str, float]]) -> None:
        """Bars of one row: one path for each colour."""
        drawn: dict[str, str] = {}
        for since_us, until_us, colour, share in bars:
            if colour:
                wide = max(self._x(until_us) - self._x(since_us), 0.6)
                high = BAR * share
                drawn[colour] = (
                    drawn.get(colour, "") + f"M{self._x(since_us):.1f} {self._y}h{wide:.1f}v{high:g}h-{wide:.1f}z"
                )
        self._parts += [f'<path class="{colour}" d="{path}"/>' for colour, path in drawn.items()]
