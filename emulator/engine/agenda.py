"""The agenda: what happens when. The only order there is.

An entry is due at a time; entries due at the same time are ordered by a tie drawn from the seed, so that every order
some set of delays allows can occur in some run, and by their number where ties are equal.
"""

from collections.abc import Callable
from heapq import heappush
from typing import Any, TypeAlias

from kemu.emulator.engine.chance import Stream

Entry: TypeAlias = tuple[int, int, int, Callable[[Any], Any], Any]
"""(due_us, tie, seq, action, argument); the action is called with the entry."""

IN_ORDER = -1
"""The tie of entries that keep the order they were pushed in, before all drawn ones."""


class Agenda:
    """A heap of entries; whoever takes turns pops from ``heap`` itself."""

    __slots__ = ("_bits", "_seq", "heap")

    def __init__(self, ties: Stream) -> None:
        self.heap: list[Entry] = []
        self._bits = ties.bits
        self._seq = 0

    def push(self, due_us: int, action: Callable[[Any], Any], argument: Any) -> int:
        """Plan an action; its number."""
        self._seq = seq = self._seq + 1
        heappush(self.heap, (due_us, self._bits(32), seq, action, argument))
        return seq

    def push_in_order(self, due_us: int, action: Callable[[Any], Any], argument: Any) -> int:
        """Plan an action before all that is drawn at the same time and after all that was pushed so before."""
        self._seq = seq = self._seq + 1
        heappush(self.heap, (due_us, IN_ORDER, seq, action, argument))
        return seq
