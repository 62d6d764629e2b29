"""Chance: everything that a scenario leaves open is chosen in one place, one stream per purpose.

A stream is named ("net/c1>b0", "ties", "disk/b0"), so that one more draw in one place moves nothing elsewhere. Seeding
from text goes through SHA-512 inside ``random.Random``: the same on every machine and in every process.

A world is handed its ``Choices``. ``Seeded`` draws them from a seed; whoever explores or shrinks runs hands in others,
which give streams of their own and say what comes first of all that is due at one instant.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeAlias

Entry: TypeAlias = tuple[int, int, int, Callable[[Any], Any], Any]
"""What the agenda holds: (due_us, tie, seq, action, argument); the action is called with the entry."""


class Stream:
    """Draws for one purpose. Whole numbers only: nothing that orders events is a float."""

    __slots__ = ("bits",)

    def __init__(self, bits: Callable[[int], int]) -> None:
        """``bits(n)``: the next n random bits, as a whole number."""
        self.bits = bits

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1`` (the bias of at most 2^-32 does not matter here)."""
        return (self.bits(32) * bound) >> 32

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + ((self.bits(32) * (high - low + 1)) >> 32)


class Choices(Protocol):
    """All that is left open in a world."""

    def stream(self, purpose: str) -> Stream:
        """The draws for a purpose, from their beginning; asked for once per purpose."""
        ...

    @property
    def tie(self) -> Callable[[Sequence[Entry]], int] | None:
        """Which of the entries due at one instant comes next: an index into them, in the order of their drawn ties.

        Asked whenever there are two or more; what the world put in order (commands, an operator's acts) comes before
        them and is no choice. None: their ties decide, at no cost.
        """
        ...


class Seeded:
    """Every choice is drawn from one seed."""

    tie = None
    """The drawn ties decide, so that every order some set of delays allows can occur in some run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, purpose: str) -> Stream:
        """The same draws for the same seed and purpose."""
        return Stream(Random(f"{self.seed}/{purpose}").getrandbits)
