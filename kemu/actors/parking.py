"""Requests that a machine holds and answers later: each exactly once, or never if a later one takes its place.

A coordinator parks joins and syncs until the group moves on; a broker parks fetches until there is enough and produces
until all in-sync replicas have the records. Source: Kafka's ``DelayedOperationPurgatory``, whose operations are also
completed exactly once, by what they wait for or by their timer.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from kemu.actors.machine import Timers

Key = TypeVar("Key", bound=Hashable)
Held = TypeVar("Held")


class Parking(Generic[Key, Held]):
    """What is held, by key, in the order of arrival.

    Args:
        machine: whose timers end the waits that may not last for ever; None: nothing here has a timer of its own.
        timer: the first element of those timers' keys; the second is the key of what is held, as text.
    """

    __slots__ = ("_held", "_machine", "_timer")

    def __init__(self, machine: Timers | None = None, timer: str = "") -> None:
        assert (machine is None) == (not timer), "timers need a machine and a name"
        self._held: dict[Key, Held] = {}
        self._machine = machine
        self._timer = timer

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[Key]:
        return iter(self._held)

    def __getitem__(self, key: Key) -> Held:
        return self._held[key]

    def get(self, key: Key) -> Held | None:
        """What is held under a key, and goes on being held."""
        return self._held.get(key)

    def hold(self, key: Key, held: Held, wait_us: int | None = None) -> None:
        """Keep a request, no longer than ``wait_us``; one that is held under this key already is never answered."""
        self._held[key] = held
        if wait_us is not None:
            assert self._machine is not None, "a wait that ends needs a timer"
            self._machine.start_timer((self._timer, str(key)), wait_us)

    def release(self, key: Key) -> Held | None:
        """What is held under a key, to be answered now; its timer, if it has one, goes with it."""
        held = self._held.pop(key, None)
        if held is not None and self._machine is not None:
            self._machine.stop_timer((self._timer, str(key)))
        return held

    def time_is_over(self, key: Key) -> Held:
        """As ``release``, for what its own timer ends."""
        return self._held.pop(key)
