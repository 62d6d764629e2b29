"""The agenda: all future events of a run in order. Nothing else decides the order of events.

A drawn tie orders entries with the same due time. So every order that some delays permit can occur in a run. Entries
with equal ties are ordered by number. An explorer may supply the ties instead.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from kemu.emulator.chance import Choices, Entry

IN_ORDER = -1
"""Tie of entries that keep their order of arrival. Entries with this tie precede all entries with drawn ties."""


class Agenda:
    """A heap of entries; ``pop(heap)`` removes and returns the earliest entry."""

    __slots__ = ("_pick", "_seq", "heap", "pop", "ties")

    def __init__(self, choices: Choices) -> None:
        self.heap: list[Entry] = []
        self.ties = choices.stream("ties").bits
        """Source of the ties of further entries."""
        self._pick = choices.tie
        self._seq = 0
        self.pop: Callable[[list[Entry]], Entry] = heappop if self._pick is None else self._pop_picked

    def push(self, due_us: int, action: Callable[[Any], Any], argument: Any) -> int:
        """Add an action at a time; return the entry's number."""
        self._seq = seq = self._seq + 1
        heappush(self.heap, (due_us, self.ties(32), seq, action, argument))
        return seq

    def push_tied(self, due_us: int, tie: int, action: Callable[[Any], Any], argument: Any) -> None:
        """Add an action at a time with this tie."""
        self._seq = seq = self._seq + 1
        heappush(self.heap, (due_us, tie, seq, action, argument))

    def push_in_order(self, due_us: int, action: Callable[[Any], Any], argument: Any) -> int:
        """Add an action before all drawn entries of the same time, after earlier entries of this method."""
        self._seq = seq = self._seq + 1
        heappush(self.heap, (due_us, IN_ORDER, seq, action, argument))
        return seq

    def _pop_picked(self, heap: list[Entry]) -> Entry:
        """Remove the entry that the explorer picks among the drawn entries that are due first."""
        first = heappop(heap)
        if first[1] == IN_ORDER:
            return first
        candidates = [first]
        while heap and heap[0][0] == first[0]:
            candidates.append(heappop(heap))
        assert self._pick is not None
        chosen = candidates.pop(self._pick(candidates)) if len(candidates) > 1 else candidates.pop()
        for entry in candidates:
            heappush(heap, entry)
        return chosen
