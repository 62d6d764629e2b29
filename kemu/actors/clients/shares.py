"""Division of a producer's records among partitions, in proportion to whole numbers and without rounding loss."""

from collections.abc import Sequence
from math import lcm

MILLIONTHS = 1_000_000
"""Millionths of a record in a record: a rate in records per second gives this many in a second, as time is in us."""


class LoadShares:
    """The records that have arisen for each partition, and are in no batch yet.

    While the shares do not change, a partition with share ``s`` of the sum ``S`` gets exactly the whole part of
    ``records * s / S``. The fractions are kept as whole numbers of ``1 / _unit`` record.

    Args:
        given: the share of each partition. A partition that comes later gets the smallest share.
    """

    def __init__(self, given: Sequence[int]) -> None:
        assert given and min(given) >= 0 and sum(given) > 0, given
        self._given = tuple(given)
        self._now: tuple[int, ...] = ()
        """The shares of the present partitions."""
        self._owed: list[int] = []
        self._unit = MILLIONTHS

    def grow(self, partitions: int) -> None:
        """Take note of the number of partitions. Records that have arisen before stay with the older partitions."""
        later = (min(self._given),) * (partitions - len(self._given))
        self._now = (*self._given[:partitions], *later)
        if not any(self._now):
            self._now = (1,) * partitions  # the topic was made again without the partitions that have a load
        unit = lcm(self._unit, MILLIONTHS * sum(self._now))
        self._owed = [owed * (unit // self._unit) for owed in self._owed]
        self._owed += [0] * (partitions - len(self._owed))
        self._unit = unit

    def add(self, millionths: int) -> None:
        """Divide arisen records, in millionths of a record, among the present partitions."""
        each = millionths * self._unit // (MILLIONTHS * sum(self._now))
        self._owed = [owed + each * share for owed, share in zip(self._owed, self._now, strict=True)]

    def take(self) -> list[tuple[int, int]]:
        """Return (partition, records) of the partitions with whole records, and keep the fractions."""
        taken: list[tuple[int, int]] = []
        for partition, owed in enumerate(self._owed):
            if owed >= self._unit:
                count, self._owed[partition] = divmod(owed, self._unit)
                taken.append((partition, count))
        return taken
