"""How fresh what a group sees is, and in which order it comes (a part of the metrics, kept by ``waiting``).

Per partition. The *age of the newest processed record* is counted while a newer one waits: its mean over the time in
which the group had a position there, and at its worst. *Fresh after*: from a member's coming to a partition where
records wait until one was processed that was appended since, or nothing waits any more. *Gap*: from there until all
that waited was processed. *Reordered*: records processed for the first time after one with a higher offset, which only
a second consumer does (KIP-333); the distance is how many offsets higher that was.
"""

from collections.abc import Iterable, Sequence

from kemu.emulator.metrics.figures import FreshnessFigures


class Freshness:
    """Of one group on one partition."""

    __slots__ = (
        *("aged_max_us", "aged_us2", "came_us", "changed_us", "fresh_max_us", "fresh_since_us", "gap_end"),
        *("gap_max_us", "highest", "newest_us", "reorder_most", "reordered_count"),
    )

    def __init__(self) -> None:
        self.highest = 0
        """Behind the highest record processed."""
        self.newest_us = -1
        """When that was appended; -1: nothing is processed, or its append was not seen."""
        self.changed_us = 0
        """When the newest was processed."""
        self.aged_us2 = 0
        """Integral of its age while a newer one waited (square microseconds)."""
        self.aged_max_us = 0
        self.came_us = -1
        """When a member came, and not all that waited then is processed yet; -1: it is."""
        self.gap_end = 0
        """Behind what waited then."""
        self.gap_max_us = 0
        self.fresh_since_us = -1
        """When it came, until something that was appended since is processed."""
        self.fresh_max_us = 0
        self.reordered_count = 0
        self.reorder_most = 0

    @property
    def waits(self) -> bool:
        """Whether a member that came has not caught up."""
        return self.came_us >= 0 or self.fresh_since_us >= 0

    def came(self, at_us: int, log_end: int) -> None:
        """A member set its position while records wait."""
        if self.came_us < 0:
            self.came_us = at_us
        if self.fresh_since_us < 0:
            self.fresh_since_us = at_us
        self.gap_end = log_end

    def looked(self, at_us: int, frontier: int, log_end: int, behind: tuple[int, int] | None) -> None:
        """The group has got on to ``frontier``; ``behind``: the first that a jump left behind and nobody processed."""
        since_us = self.fresh_since_us
        if since_us >= 0 and (self.newest_us >= since_us or frontier >= log_end):
            self.fresh_max_us = max(self.fresh_max_us, at_us - since_us)
            self.fresh_since_us = -1
        if self.came_us >= 0 and frontier >= self.gap_end and (behind is None or behind[0] >= self.gap_end):
            self.gap_max_us = max(self.gap_max_us, at_us - self.came_us)
            self.came_us = -1

    def got_on(self, at_us: int, newest_us: int, next_us: int | None, last: int) -> None:
        """Records behind all others were processed, up to ``last``; the first of them was appended at ``next_us``."""
        before_us = self.newest_us
        if before_us >= 0 and next_us is not None:
            self._age(at_us, next_us if next_us > self.changed_us else self.changed_us, before_us)
        self.newest_us, self.changed_us, self.highest = newest_us, at_us, last

    def _age(self, at_us: int, from_us: int, newest_us: int) -> None:
        """Until now the newest that was processed was the same, and from ``from_us`` on a newer one waited."""
        if at_us > from_us:
            young, old = from_us - newest_us, at_us - newest_us
            self.aged_us2 += (old - young) * (old + young) // 2
            if old > self.aged_max_us:
                self.aged_max_us = old

    def reordered(self, distance: int, count: int) -> None:
        """These are processed for the first time, after a record with an offset so much higher."""
        self.reordered_count += count
        self.reorder_most = max(self.reorder_most, distance)

    def finish(self, at_us: int, next_us: int | None) -> None:
        """The run is over: what is still waited for has taken this long."""
        if self.newest_us >= 0 and next_us is not None:
            self._age(at_us, max(self.changed_us, next_us), self.newest_us)
        self.changed_us = at_us
        if self.came_us >= 0:
            self.gap_max_us = max(self.gap_max_us, at_us - self.came_us)
        if self.fresh_since_us >= 0:
            self.fresh_max_us = max(self.fresh_max_us, at_us - self.fresh_since_us)


def freshness_of(parts: Sequence[tuple[Freshness, int]]) -> FreshnessFigures:
    """Of several partitions, each with how long its group has had a position there (us)."""
    watched_us = sum(us for _, us in parts)
    return FreshnessFigures(
        newest_age_mean_us=sum(each.aged_us2 for each, _ in parts) // watched_us if watched_us else 0,
        newest_age_max_us=max((each.aged_max_us for each, _ in parts), default=0),
        fresh_after_max_us=max((each.fresh_max_us for each, _ in parts), default=0),
        gap_max_us=max((each.gap_max_us for each, _ in parts), default=0),
        reordered=sum(each.reordered_count for each, _ in parts),
        reorder_max=max((each.reorder_most for each, _ in parts), default=0),
    )


def freshness_together(groups: Iterable[FreshnessFigures]) -> FreshnessFigures:
    """Of several groups."""
    found = list(groups)
    return FreshnessFigures(
        newest_age_mean_us=sum(each.newest_age_mean_us for each in found) // len(found) if found else 0,
        newest_age_max_us=max((each.newest_age_max_us for each in found), default=0),
        fresh_after_max_us=max((each.fresh_after_max_us for each in found), default=0),
        gap_max_us=max((each.gap_max_us for each in found), default=0),
        reordered=sum(each.reordered for each in found),
        reorder_max=max((each.reorder_max for each in found), default=0),
    )
