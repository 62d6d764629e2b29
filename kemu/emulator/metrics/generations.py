"""The times at which a group prepared for its generations, and at which they began."""

from bisect import bisect_right


class Generations:
    """The generations of one group; facts of zombie coordinators are excluded."""

    __slots__ = ("begun_us", "prepared_us", "preparing_us")

    def __init__(self) -> None:
        self.preparing_us = 0
        """The last time at which the group prepared for a generation."""
        self.prepared_us: list[int] = []
        self.begun_us: list[int] = []

    def begin(self, at_us: int) -> None:
        """Note that a join phase completed."""
        self.prepared_us.append(self.preparing_us)
        self.begun_us.append(at_us)

    def within(self, from_us: int, until_us: int) -> list[tuple[int, int]]:
        """The join phases of generations that began in the interval, as disjoint spans in order.

        A span begins when the group prepared for the generation, but never before the start of the interval or of the
        previous generation. The span ends when the generation began.
        """
        low, high = bisect_right(self.begun_us, from_us), bisect_right(self.begun_us, until_us)
        spans: list[tuple[int, int]] = []
        for prepared_us, begun_us in zip(self.prepared_us[low:high], self.begun_us[low:high], strict=True):
            spans.append((max(from_us, prepared_us, spans[-1][1] if spans else 0), begun_us))
        return spans
