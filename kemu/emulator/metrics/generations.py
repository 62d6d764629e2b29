"""When a group prepared for its generations, and when these began (of use to whoever says where downtime went)."""

from bisect import bisect_right


class Generations:
    """One group's; what a zombie coordinator says is not shown to it."""

    __slots__ = ("begun_us", "prepared_us", "preparing_us")

    def __init__(self) -> None:
        self.preparing_us = 0
        """When it last prepared for one."""
        self.prepared_us: list[int] = []
        self.begun_us: list[int] = []

    def begin(self, at_us: int) -> None:
        """A join phase completed."""
        self.prepared_us.append(self.preparing_us)
        self.begun_us.append(at_us)

    def within(self, from_us: int, until_us: int) -> list[tuple[int, int]]:
        """The join phases of the generations that began in the interval, as disjoint spans in order.

        Each is (when the group prepared for it, but not before the interval or the generation before; when it began).
        """
        low, high = bisect_right(self.begun_us, from_us), bisect_right(self.begun_us, until_us)
        spans: list[tuple[int, int]] = []
        for prepared_us, begun_us in zip(self.prepared_us[low:high], self.begun_us[low:high], strict=True):
            spans.append((max(from_us, prepared_us, spans[-1][1] if spans else 0), begun_us))
        return spans
