"""Draws for random plans, used by the random forms of actions."""

from kemu.emulator.chance import Stream

SECOND = 1_000_000
LONGEST_US = 25 * SECOND


class Draw:
    """The draws of one seed, with the names of one scenario."""

    def __init__(
        self, chance: Stream, members: tuple[str, ...], brokers: tuple[str, ...], groups: tuple[str, ...]
    ) -> None:
        self.chance = chance
        self.members = members
        self.brokers = brokers
        self.groups = groups

    def one_of(self, names: tuple[str, ...]) -> str:
        """Pick one of these names."""
        return names[self.chance.below(len(names))]

    def member(self) -> str:
        """A member's host."""
        return self.one_of(self.members)

    def broker(self) -> str:
        """A broker's host."""
        return self.one_of(self.brokers)

    def broker_or_controller(self) -> str:
        """A broker's host, or the role "controller"."""
        return self.one_of((*self.brokers, "controller"))

    def group(self) -> str:
        """A group."""
        return self.one_of(self.groups)

    def span(self, least_us: int = SECOND, most_us: int = LONGEST_US) -> int:
        """A bounded duration in microseconds."""
        return self.chance.between(least_us, most_us)
