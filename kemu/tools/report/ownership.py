"""The owners of partitions over time, as members report ownership, and a diagram of owners in plain text."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from kemu.emulator.facts import HostDown, HostStarted, RunEnded, RunStarted, Seen, TopicGrown
from kemu.emulator.metrics.serving import MOVERS
from kemu.emulator.watching.panel import Panel
from kemu.protocol.frozen import define
from kemu.protocol.names import ActorName, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from kemu.tools.report.frames import FROM, UNTIL, Frame, frame_of, name_of

NO_OWNER = "."
SEVERAL = "!"
MARKS = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


_MOVERS = (
    *(AssignmentReceived, PartitionsAssigned, PartitionsRevoked, PartitionsLost, MemberFailed),
    *(HostDown, HostStarted, TopicGrown, RunStarted, RunEnded),
)


@define
class Interval:
    """One member owned a partition from ``start_us`` until ``end_us`` (exclusive)."""

    partition: TopicPartition
    owner: ActorName
    start_us: int
    end_us: int
    generation: int = -1
    """The generation in which the member received the partition; -1: unknown."""
    ended: str = ""
    """How the ownership ended: a cause of ``emulator.metrics.serving.MOVERS``; "": it had not ended."""


class Ownership:
    """An observer that records intervals of ownership from the panel. A member that dies or fails owns no partition."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.intervals: dict[str, list[Interval]] = {}
        """Group -> intervals in order of ``start_us``."""
        self.subscribed: dict[str, set[str]] = {}
        """Group -> topics that were ever assigned in the group."""
        self._open: dict[tuple[str, ActorName], dict[TopicPartition, Interval]] = {}
        self.end_us = 0

    @property
    def partitions(self) -> Mapping[str, int]:
        """Topic -> number of partitions."""
        return self._panel.topics

    def wants(self, kind: type) -> bool:
        """Whether facts of this kind change owners or end the run."""
        return kind in _MOVERS

    def see(self, seen: Seen) -> None:
        """Receive one fact, which the panel must have received before."""
        self.end_us = seen.at_us
        panel = self._panel
        if panel.now is not seen:
            return  # the end of the run
        how = MOVERS.get(type(seen.fact), "")
        for ended in panel.ended:
            self._gives_up(ended.group, ended.actor, ended.owned, seen.at_us, how)
        if panel.left is not None and type(seen.fact) is MemberFailed:
            self._gives_up(panel.left.group, seen.actor, panel.left.owned, seen.at_us, how)
        if panel.given_up or panel.gained:
            holding = panel.holding(seen)
            self._gives_up(holding.group, seen.actor, panel.given_up, seen.at_us, how)
            self._gets(holding.group, seen.actor, panel.gained, seen.at_us, holding.generation)

    def finish(self) -> None:
        """Close the open intervals at the end of the run."""
        for (group, owner), held in self._open.items():
            self._gives_up(group, owner, list(held), self.end_us, "")

    def frame(self) -> Frame:
        """All intervals, by start."""
        rows: list[tuple[Any, ...]] = [
            (each.start_us, each.end_us, group, name_of(each.partition), each.owner, each.generation, each.ended)
            for group, intervals in self.intervals.items()
            for each in intervals
            if each.end_us > each.start_us
        ]
        names = (FROM, UNTIL, "group", "partition", "owner", "generation", "ended")
        return frame_of(names, sorted(rows, key=itemgetter(0, 1)))

    def _gets(
        self, group: str, owner: ActorName, partitions: Iterable[TopicPartition], at_us: int, generation: int
    ) -> None:
        held = self._open.setdefault((group, owner), {})
        for partition in partitions:
            held[partition] = interval = Interval(partition, owner, at_us, 1 << 62, generation)
            self.intervals.setdefault(group, []).append(interval)
            self.subscribed.setdefault(group, set()).add(partition[0])

    def _gives_up(
        self, group: str, owner: ActorName, partitions: Iterable[TopicPartition], at_us: int, how: str
    ) -> None:
        held = self._open.get((group, owner), {})
        for partition in partitions:
            if partition in held:  # otherwise the member failed before its host ended
                interval = held.pop(partition)
                interval.end_us, interval.ended = at_us, how


def picture(
    ownership: Ownership, group: str, *, width: int = 72, rows: int = 24, columns: int | None = None
) -> list[str]:
    """The lines of a diagram with a row for each partition, a column for each span of time, and marks for owners.

    A column shows "!" if the partition had several owners at any moment of the span. A column shows "." if the
    partition had no owner at the begin of the span. A gap that is shorter than a column may be invisible. Of more than
    ``rows`` partitions, the diagram shows the partitions with the most moves. ``columns``: the width of a line in
    characters; None: ``width`` columns for the time.
    """
    end_us = max(ownership.end_us, 1)
    intervals = ownership.intervals.get(group, [])
    owners = sorted({interval.owner for interval in intervals}, key=_numbered)
    mark = {owner: MARKS[index] if index < len(MARKS) else "#" for index, owner in enumerate(owners)}
    partitions = [
        (topic, number)
        for topic in sorted(ownership.subscribed.get(group, ()))
        for number in range(ownership.partitions.get(topic, 0))
    ]
    shown = _most_moved(partitions, intervals, rows)
    name_width = max((len(f"{topic}-{number}") for topic, number in shown), default=0)
    if columns is not None:
        width = max(12, min(width, columns - name_width - 1))
    step_us = -(-end_us // width)
    lines = [f"{'':{name_width}} {_ruler(step_us, width)}"]
    for partition in shown:
        own = [interval for interval in intervals if interval.partition == partition]
        cells = "".join(_cell(own, column * step_us, step_us, mark) for column in range(-(-end_us // step_us)))
        lines.append(f"{f'{partition[0]}-{partition[1]}':{name_width}} {cells}")
    if len(partitions) > rows:
        lines.append(f"... and {len(partitions) - rows} more partitions with fewer or equal moves")
    legend = [f"{mark[owner]} {owner}" for owner in owners if mark[owner] != "#"]
    more = [f"# {len(owners) - len(MARKS)} more members"] if len(owners) > len(MARKS) else []
    lines += _wrapped([*legend, *more, "! several owners", ". no owner"], width + name_width)
    return lines


def _most_moved(partitions: list[TopicPartition], intervals: Sequence[Interval], rows: int) -> list[TopicPartition]:
    """The ``rows`` partitions with the most moves, in the order of ``partitions``."""
    moves = dict.fromkeys(partitions, 0)
    for interval in intervals:
        if interval.partition in moves:
            moves[interval.partition] += 1
    chosen = set(sorted(partitions, key=lambda partition: -moves[partition])[:rows])
    return [partition for partition in partitions if partition in chosen]


def _cell(own: Sequence[Interval], start_us: int, step_us: int, mark: dict[str, str]) -> str:
    inside = [interval for interval in own if interval.start_us < start_us + step_us and interval.end_us > start_us]
    for index, interval in enumerate(inside):
        for other in inside[index + 1 :]:
            if other.owner != interval.owner and other.start_us < interval.end_us and interval.start_us < other.end_us:
                return SEVERAL
    return next((mark[interval.owner] for interval in inside if interval.start_us <= start_us), NO_OWNER)


def _ruler(step_us: int, width: int) -> str:
    """The line of times above the columns, with a time about every twelve columns."""
    ruler = ""
    for column in range(0, width, 12):
        seconds = column * step_us // 1_000_000
        said = f"|{seconds // 60}:{seconds % 60:02}"
        ruler += f"{said:12}"
    return ruler.rstrip()


def _numbered(owner: ActorName) -> tuple[int, str]:
    digits = "".join(character for character in host_of(owner) if character.isdecimal())
    return (int(digits[:18]) if digits else 0, owner)


def _wrapped(items: Sequence[str], width: int) -> list[str]:
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 3 > width:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "") + item
    return lines
