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

    def within(self, from_us: int, until_us: int) -> tuple[int, int] | None:
        """(when it prepared for the first that began in the interval, when the last one began); None: none did."""
        low, high = bisect_right(self.begun_us, from_us), bisect_right(self.begun_us, until_us)
        return None if low == high else (max(from_us, self.prepared_us[low]), self.begun_us[high - 1])
