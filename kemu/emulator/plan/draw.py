"""Draws for random plans: what an action's random form picks from."""

from kemu.emulator.chance import Stream

SECOND = 1_000_000
LONGEST_US = 25 * SECOND


class Draw:
    """One seed's draws, in the names of one scenario."""

    def __init__(
        self, chance: Stream, members: tuple[str, ...], brokers: tuple[str, ...], groups: tuple[str, ...]
    ) -> None:
        self.chance = chance
        self.members = members
        self.brokers = brokers
        self.groups = groups

    def one_of(self, names: tuple[str, ...]) -> str:
        """One of these names."""
        return names[self.chance.below(len(names))]

    def member(self) -> str:
        """A member's host."""
        return self.one_of(self.members)

    def broker(self) -> str:
        """A broker's host."""
        return self.one_of(self.brokers)

    def broker_or_controller(self) -> str:
        """A broker's host, or whichever is the controller then."""
        return self.one_of((*self.brokers, "controller"))

    def group(self) -> str:
        """A group."""
        return self.one_of(self.groups)

    def span(self, least_us: int = SECOND, most_us: int = LONGEST_US) -> int:
        """A bounded length of time, in microseconds."""
        return self.chance.between(least_us, most_us)
