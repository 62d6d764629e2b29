"""The lost service of a group, computed from the downtime of its partitions.

*Service lost*: the share of a group's partitions that are down, among the partitions served so far; all partitions
weigh the same. The integral of the lost share over time is in seconds. All partitions down for 1 s give 1 s, as do half
of the partitions for 2 s. The part of a member is the downtime of partitions that the member served last. The members'
parts add up to the group's downtime.

*Stopped*: the time in which no partition of the group is served ("stop the world").
"""

from collections.abc import Iterable, Sequence

from kemu.emulator.metrics.figures import DowntimeFigures, ServiceFigures
from kemu.protocol.frozen import frozen


@frozen
class ServiceLost:
    """A group's figures, and the intervals (from, until) without any served partition."""

    figures: ServiceFigures
    stops: tuple[tuple[int, int], ...]


def service_lost(intervals: Iterable[DowntimeFigures], first_us: Sequence[int], ended_us: int) -> ServiceLost:
    """Compute the lost service of one group.

    Args:
        intervals: the downtime of its partitions.
        first_us: the time at which each partition was first served.
        ended_us: the end of the run.
    """
    changes: dict[int, list[int]] = {}
    members: dict[str, int] = {}
    for at_us in first_us:
        changes.setdefault(at_us, [0, 0])[0] += 1
    for row in intervals:
        changes.setdefault(row.from_us, [0, 0])[1] += 1
        changes.setdefault(row.until_us, [0, 0])[1] -= 1
        members[row.member] = members.get(row.member, 0) + row.until_us - row.from_us
    served = down = 0
    lost_us = worst = share = 0.0
    stops: list[tuple[int, int]] = []
    series: list[tuple[int, float]] = []
    before_us = 0
    for at_us in sorted(changes):
        lost_us += (at_us - before_us) * share
        if share == 1.0 and at_us > before_us:
            if stops and stops[-1][1] == before_us:
                stops[-1] = (stops[-1][0], at_us)
            else:
                stops.append((before_us, at_us))
        more, fewer = changes[at_us]
        served, down, before_us = served + more, down + fewer, at_us
        assert 0 <= down <= served, f"{down} of {served} partitions down at {at_us}"
        share = down / served if served else 0.0
        worst = max(worst, share) if at_us < ended_us else worst
        percent = round(100 * share, 2)
        if percent != (series[-1][1] if series else 0.0):
            series.append((at_us, percent))
    figures = ServiceFigures(
        partitions=served,
        lost_us=round(lost_us),
        lost_max_percent=round(100 * worst, 2),
        stopped_us=sum(until - start for start, until in stops),
        series=tuple(series),
        members_us=dict(sorted(members.items())),
    )
    return ServiceLost(figures, tuple(stops))
