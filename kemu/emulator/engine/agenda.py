"""The agenda: what happens when. The only order there is.

An entry is due at a time; entries due at the same time are ordered by a drawn tie, so that every order some set of
delays allows can occur in some run, and by their number where ties are equal. Choices that steer ties take their place.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from kemu.emulator.chance import Choices, Entry

IN_ORDER = -1
"""The tie of entries that keep the order they were pushed in, before all drawn ones."""


class Agenda:
    """A heap of entries; whoever takes turns takes them with ``pop(heap)``, earliest first."""

    __slots__ = ("_bits", "_pick", "_seq", "heap", "pop")

    def __init__(self, choices: Choices) -> None:
        self.heap: list[Entry] = []
        self._bits = choices.stream("ties").bits
        self._pick = choices.tie
        self._seq = 0
        self.pop: Callable[[list[Entry]], Entry] = heappop if self._pick is None else self._pop_picked

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

    @property
    def ties(self) -> Callable[[int], int]:
        """Where ties come from now."""
        return self._bits

    def draw_ties(self, bits: Callable[[int], int]) -> None:
        """From now on ties come from here."""
        self._bits = bits

    def _pop_picked(self, heap: list[Entry]) -> Entry:
        """Of the drawn entries due first, the one that is picked; the others stay."""
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
