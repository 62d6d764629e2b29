"""Chance: one stream per purpose, all from the run's seed.

A stream is named ("net/c1>b0", "ties", "disk/b0"), so that one more draw in one place moves nothing elsewhere. Seeding
from text goes through SHA-512 inside ``random.Random``: the same on every machine and in every process.
"""

from random import Random


class Stream:
    """Draws for one purpose. Whole numbers only: nothing that orders events is a float."""

    __slots__ = ("bits",)

    def __init__(self, seed: int, purpose: str) -> None:
        self.bits = Random(f"{seed}/{purpose}").getrandbits

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1`` (the bias of at most 2^-32 does not matter here)."""
        return (self.bits(32) * bound) >> 32

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + ((self.bits(32) * (high - low + 1)) >> 32)
