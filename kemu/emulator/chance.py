"""Random draws: one named stream per purpose, all streams from one seed.

Streams have names ("net/c1>b0", "ties", "disk/b0"), so that an additional draw for one purpose changes no other stream.
The draws are those of ``random.Random``, which hashes a text with SHA-512, so they are the same on every machine and in
every process.

A world receives its ``Choices``. ``Seeded`` draws all choices from a seed. An explorer supplies its own streams, and
the order of entries that are due at the same time.
"""

from _random import Random  # the generator of ``random.Random``, without its attribute dictionary
from collections.abc import Callable, Sequence
from hashlib import sha512
from typing import Any, Protocol, TypeAlias

LARGEST_SEED = 2**63 - 1
"""The largest seed that a trace holds."""
Entry: TypeAlias = tuple[int, int, int, Callable[[Any], Any], Any]
"""An entry of the agenda: (due_us, tie, seq, action, argument). The world calls the action with the entry."""


class Stream:
    """The random draws for one purpose. All draws are integers, because floats must not order events."""

    __slots__ = ("bits",)

    def __init__(self, bits: Callable[[int], int]) -> None:
        """Take ``bits(n)``, which returns the next n random bits as an integer."""
        self.bits = bits

    def word(self) -> int:
        """Draw 32 bits; ``bits`` is for streams that draw all the time, since it keeps a generator."""
        return self.bits(32)

    def below(self, bound: int) -> int:
        """Draw an integer from 0 to ``bound - 1``, with a bias of at most 2^-32."""
        return (self.word() * bound) >> 32

    def between(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included."""
        return low + ((self.word() * (high - low + 1)) >> 32)


LEAST_AHEAD, MOST_AHEAD = 4, 64
"""Bounds of the number of words that a stream without a generator draws at once: as many as it has drawn before."""
MOST_DRAWS = 256
"""First draws of a stream for which no generator is kept: to make it again, it must repeat all draws before."""


class _SeededStream(Stream):
    """A stream whose generator, of 2.5 KB, is kept once ``bits`` is taken, or after many draws."""

    __slots__ = ("_ahead", "_drawn", "_left", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._drawn = 0
        """Number of draws without a kept generator; ``MOST_DRAWS`` once it is kept."""
        self._ahead = self._left = 0
        """The next words, the lowest bits first, and their number."""

    def __getattr__(self, name: str) -> Callable[[int], int]:
        """Make ``bits`` at its first use."""
        if name != "bits":
            raise AttributeError(name)
        self.bits = bits = self._generator()
        self._drawn = MOST_DRAWS
        return bits

    def word(self) -> int:
        """Draw 32 bits."""
        if self._drawn == MOST_DRAWS:
            return self.bits(32)
        if not self._left:
            self._left = min(max(self._drawn, LEAST_AHEAD), MOST_AHEAD)
            self._ahead = self._generator()(32 * self._left)
        self._drawn += 1
        self._left -= 1
        word = self._ahead & 0xFFFFFFFF
        self._ahead >>= 32
        return word

    def _generator(self) -> Callable[[int], int]:
        """The generator, after the draws so far."""
        name = self._name.encode()
        bits = Random(int.from_bytes(name + sha512(name).digest(), "big")).getrandbits
        bits(32 * self._drawn)
        return bits


class Choices(Protocol):
    """All random choices of a world."""

    def stream(self, purpose: str) -> Stream:
        """Return the stream for a purpose, from its beginning; called once per purpose."""
        ...

    @property
    def tie(self) -> Callable[[Sequence[Entry]], int] | None:
        """Function that picks the next of the entries that are due at one time; returns an index in the order of drawn
        ties.

        The function is called for two or more entries. Entries that the world has ordered (commands, actions of
        operators) precede these entries and are not offered. None if the drawn ties decide.
        """
        ...


class Seeded:
    """Choices drawn from one seed."""

    tie = None
    """The drawn ties decide, so that every order that is possible under some delays can occur in some run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, purpose: str) -> Stream:
        """Return the stream of a purpose, which depends only on the seed and the purpose."""
        return _SeededStream(f"{self.seed}/{purpose}")
