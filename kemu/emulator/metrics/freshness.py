"""The age and the order of the records that a group processes (a part of the metrics, kept by ``waiting``).

All figures are per partition.

* The *age of the newest processed record* counts while a newer record waits. The mean age is over the time in which the
  group had a position.
* *Fresh after*: the time from a member's arrival, while records wait, until the group processed a record appended after
  the arrival, or until no record waits.
* *Gap*: the time from a member's arrival until the group processed all records that waited at the arrival.
* *Reordered*: records processed for the first time after a record with a higher offset. Only a second consumer reorders
  records (KIP-333). The distance is the difference of the two offsets.
"""

from collections.abc import Iterable, Sequence

from kemu.emulator.metrics.figures import FreshnessFigures


class Freshness:
    """Counts the freshness of one group on one partition."""

    __slots__ = (
        *("aged_max_us", "aged_us2", "arrived_us", "changed_us", "fresh_max_us", "fresh_since_us", "gap_end"),
        *("gap_max_us", "highest", "newest_us", "reorder_most", "reordered_count"),
    )

    def __init__(self) -> None:
        self.highest = 0
        """The offset after the highest processed record."""
        self.newest_us = -1
        """Append time of the highest processed record; -1 if no record was processed, or if no fact reported the
        append."""
        self.changed_us = 0
        """Time at which the newest record was processed."""
        self.aged_us2 = 0
        """Integral over time of the newest processed record's age while a newer record waits, in square
        microseconds."""
        self.aged_max_us = 0
        self.arrived_us = -1
        """Arrival of a member, until the group processes all records that waited at the arrival; -1 without such a
        member."""
        self.gap_end = 0
        """Log end offset at the arrival of the member (``arrived_us``)."""
        self.gap_max_us = 0
        self.fresh_since_us = -1
        """Arrival of a member, until the group processes a record appended after the arrival; -1 without such a
        member."""
        self.fresh_max_us = 0
        self.reordered_count = 0
        self.reorder_most = 0

    @property
    def waits(self) -> bool:
        """Whether ``gap`` or ``fresh after`` of a member's arrival is still unknown."""
        return self.arrived_us >= 0 or self.fresh_since_us >= 0

    def arrived(self, at_us: int, log_end: int) -> None:
        """Note that a member set its position while records wait."""
        if self.arrived_us < 0:
            self.arrived_us = at_us
        if self.fresh_since_us < 0:
            self.fresh_since_us = at_us
        self.gap_end = log_end

    def reached(self, at_us: int, frontier: int, log_end: int, behind: tuple[int, int] | None) -> None:
        """Note that the group's frontier advanced.

        ``behind``: the first unprocessed range that a jump left behind.
        """
        since_us = self.fresh_since_us
        if since_us >= 0 and (self.newest_us >= since_us or frontier >= log_end):
            self.fresh_max_us = max(self.fresh_max_us, at_us - since_us)
            self.fresh_since_us = -1
        if self.arrived_us >= 0 and frontier >= self.gap_end and (behind is None or behind[0] >= self.gap_end):
            self.gap_max_us = max(self.gap_max_us, at_us - self.arrived_us)
            self.arrived_us = -1

    def advanced(self, at_us: int, newest_us: int, next_us: int | None, last: int) -> None:
        """Note that the group processed new records up to ``last``; the first of these records was appended at
        ``next_us``.
        """
        before_us = self.newest_us
        if before_us >= 0 and next_us is not None:
            from_us = next_us if next_us > self.changed_us else self.changed_us
            if at_us > from_us:  # a newer record has waited since ``from_us``
                young, old = from_us - before_us, at_us - before_us
                self.aged_us2 += (old - young) * (old + young) // 2
                if old > self.aged_max_us:
                    self.aged_max_us = old
        self.newest_us, self.changed_us, self.highest = newest_us, at_us, last

    def advanced_each(self, at_us: Sequence[int], appended_us: Sequence[int], last: int) -> None:
        """Call ``advanced`` for reports of one append each, with less work."""
        before_us, changed_us, aged_us2, most_us = self.newest_us, self.changed_us, self.aged_us2, self.aged_max_us
        for now_us, next_us in zip(at_us, appended_us, strict=True):
            from_us = next_us if next_us > changed_us else changed_us
            if now_us > from_us and before_us >= 0:
                old = now_us - before_us
                aged_us2 += (now_us - from_us) * (old + from_us - before_us) // 2
                if old > most_us:
                    most_us = old
            before_us, changed_us = next_us, now_us
        self.newest_us, self.changed_us, self.highest = before_us, changed_us, last
        self.aged_us2, self.aged_max_us = aged_us2, most_us

    def reordered(self, distance: int, count: int) -> None:
        """Count records processed for the first time after a record whose offset is higher by ``distance``."""
        self.reordered_count += count
        self.reorder_most = max(self.reorder_most, distance)

    def finish(self, at_us: int, next_us: int | None) -> None:
        """End the run: count unfinished waits until now."""
        self.advanced(at_us, self.newest_us, next_us, self.highest)
        if self.arrived_us >= 0:
            self.gap_max_us = max(self.gap_max_us, at_us - self.arrived_us)
        if self.fresh_since_us >= 0:
            self.fresh_max_us = max(self.fresh_max_us, at_us - self.fresh_since_us)


def freshness_of(parts: Sequence[tuple[Freshness, int]]) -> FreshnessFigures:
    """The figures of several partitions together. The number beside each partition: time (us) in which the group had a
    position.
    """
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
    """The figures of several groups together."""
    found = list(groups)
    return FreshnessFigures(
        newest_age_mean_us=sum(each.newest_age_mean_us for each in found) // len(found) if found else 0,
        newest_age_max_us=max((each.newest_age_max_us for each in found), default=0),
        fresh_after_max_us=max((each.fresh_after_max_us for each in found), default=0),
        gap_max_us=max((each.gap_max_us for each in found), default=0),
        reordered=sum(each.reordered for each in found),
        reorder_max=max((each.reorder_max for each in found), default=0),
    )
