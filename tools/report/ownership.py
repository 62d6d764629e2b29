"""Who owned which partition when, as the members themselves knew it; and a picture of it in plain text."""

from collections.abc import Iterable, Sequence

from attrs import define

from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.notes import groups as notes

NOBODY = "."
SEVERAL = "!"
MARKS = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


_MOVERS = (
    notes.PartitionsAssigned,
    notes.PartitionsRevoked,
    notes.PartitionsLost,
    facts.HostDown,
    facts.RunStarted,
    facts.TopicGrown,
    facts.RunEnded,
)


@define
class Interval:
    """One member owned a partition from ``start_us`` until ``end_us`` (exclusive)."""

    partition: TopicPartition
    host: str
    start_us: int
    end_us: int


class Ownership:
    """An observer: intervals of ownership from the members' callbacks. A member that dies owns nothing."""

    def __init__(self) -> None:
        self.intervals: dict[str, list[Interval]] = {}
        """By group, in order of start."""
        self.partitions: dict[str, int] = {}
        """topic -> partitions"""
        self.subscribed: dict[str, set[str]] = {}
        """group -> topics that were ever assigned in it"""
        self._open: dict[tuple[str, str], dict[TopicPartition, Interval]] = {}
        self.end_us = 0

    def wants(self, kind: type) -> bool:
        """Facts that move partitions, and the last one."""
        return kind in _MOVERS

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        self.end_us = seen.at_us
        match seen.fact:
            case notes.PartitionsAssigned(group=group, owned=owned) | notes.PartitionsRevoked(group=group, owned=owned):
                self._owns(group, host_of(seen.actor), owned, seen.at_us)
            case notes.PartitionsLost(group=group):
                self._owns(group, host_of(seen.actor), (), seen.at_us)
            case facts.HostDown(host=host):
                for group, owner in list(self._open):
                    if owner == host:
                        self._owns(group, host, (), seen.at_us)
            case facts.RunStarted(topics=topics):
                self.partitions = dict(topics)
            case facts.TopicGrown(topic=topic, partitions=partitions):
                self.partitions[topic] = partitions
            case _:
                pass

    def finish(self) -> None:
        """Close what is still open at the end of the run."""
        for (group, host), _ in list(self._open.items()):
            self._owns(group, host, (), self.end_us)

    def _owns(self, group: str, host: str, owned: Iterable[TopicPartition], at_us: int) -> None:
        held = self._open.setdefault((group, host), {})
        now = dict.fromkeys(owned)
        for partition in [each for each in held if each not in now]:
            held.pop(partition).end_us = at_us
        for partition in now:
            if partition not in held:
                held[partition] = interval = Interval(partition, host, at_us, 1 << 62)
                self.intervals.setdefault(group, []).append(interval)
                self.subscribed.setdefault(group, set()).add(partition[0])


def picture(ownership: Ownership, group: str, *, width: int = 72, rows: int = 24) -> list[str]:
    """One line per partition, one column per span of time: a member's mark, "." nobody, "!" several at once.

    A column shows "!" if several owned the partition at any moment in it, "." if nobody did at its start; so a gap
    shorter than a column may not be seen. Of more than ``rows`` partitions those that moved most are drawn.
    """
    end_us = max(ownership.end_us, 1)
    intervals = ownership.intervals.get(group, [])
    hosts = sorted({interval.host for interval in intervals}, key=_numbered)
    mark = {host: MARKS[index] if index < len(MARKS) else "#" for index, host in enumerate(hosts)}
    partitions = [
        (topic, number)
        for topic in sorted(ownership.subscribed.get(group, ()))
        for number in range(ownership.partitions.get(topic, 0))
    ]
    step_us = -(-end_us // width)
    shown = _most_moved(partitions, intervals, rows)
    name_width = max((len(f"{topic}-{number}") for topic, number in shown), default=0)
    lines = [f"{'':{name_width}} {_ruler(step_us, width)}"]
    for partition in shown:
        own = [interval for interval in intervals if interval.partition == partition]
        cells = "".join(_cell(own, column * step_us, step_us, mark) for column in range(-(-end_us // step_us)))
        lines.append(f"{f'{partition[0]}-{partition[1]}':{name_width}} {cells}")
    if len(partitions) > rows:
        lines.append(f"... and {len(partitions) - rows} more partitions, which moved no more often than these")
    legend = [f"{mark[host]} {host}" for host in hosts if mark[host] != "#"]
    more = [f"# {len(hosts) - len(MARKS)} more members"] if len(hosts) > len(MARKS) else []
    lines += _wrapped([*legend, *more, "! several at once", ". nobody"], width + name_width)
    return lines


def _most_moved(partitions: list[TopicPartition], intervals: Sequence[Interval], rows: int) -> list[TopicPartition]:
    """The partitions to draw, in their own order."""
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
            if other.host != interval.host and other.start_us < interval.end_us and interval.start_us < other.end_us:
                return SEVERAL
    return next((mark[interval.host] for interval in inside if interval.start_us <= start_us), NOBODY)


def _ruler(step_us: int, width: int) -> str:
    """The times above the columns, one about every twelve columns."""
    ruler = ""
    for column in range(0, width, 12):
        seconds = column * step_us // 1_000_000
        said = f"|{seconds // 60}:{seconds % 60:02}"
        ruler += f"{said:12}"
    return ruler.rstrip()


def _numbered(host: str) -> tuple[int, str]:
    digits = "".join(character for character in host if character.isdigit())
    return (int(digits) if digits else 0, host)


def _wrapped(items: Sequence[str], width: int) -> list[str]:
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 3 > width:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "") + item
    return lines
