"""Draws for random plans, used by the random forms of actions."""

from kemu.emulator.chance import Stream

SECOND = 1_000_000
LONGEST_US = 25 * SECOND


class Draw:
    """Draws names of one scenario, and durations, from the random stream of one seed."""

    def __init__(
        self, chance: Stream, members: tuple[str, ...], brokers: tuple[str, ...], groups: tuple[str, ...]
    ) -> None:
        self.chance = chance
        self.members = members
        self.brokers = brokers
        self.groups = groups

    def one_of(self, names: tuple[str, ...]) -> str:
        """Draw one of these names."""
        return names[self.chance.below(len(names))]

    def member(self) -> str:
        """Draw a member's host."""
        return self.one_of(self.members)

    def broker(self) -> str:
        """Draw a broker's host."""
        return self.one_of(self.brokers)

    def broker_or_controller(self) -> str:
        """Draw a broker's host or the role "controller"."""
        return self.one_of((*self.brokers, "controller"))

    def group(self) -> str:
        """Draw a group."""
        return self.one_of(self.groups)

    def span(self, least_us: int = SECOND, most_us: int = LONGEST_US) -> int:
        """Draw a duration in microseconds between the bounds."""
        return self.chance.between(least_us, most_us)
