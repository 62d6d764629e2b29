"""Requests that a machine holds for a later answer. A held request is answered once, unless another request replaces
it.

A coordinator parks joins and syncs until the group's next state. A broker parks fetches until there are enough bytes,
and produce requests until all in-sync replicas have the records. Source: Kafka's ``DelayedOperationPurgatory``, whose
operations also complete exactly once, by their condition or by their timer.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from kemu.actors.machine import Timers

Key = TypeVar("Key", bound=Hashable)
Held = TypeVar("Held")


class Parking(Generic[Key, Held]):
    """Held requests by key, in order of arrival.

    Args:
        machine: the owner of the timers that limit waits; None: no wait has a timer.
        timer: the first element of the timers' keys; the second element is the request's key, as text.
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
        """The request under this key, which remains held; None without a request."""
        return self._held.get(key)

    def hold(self, key: Key, held: Held, wait_us: int | None = None) -> None:
        """Hold a request for at most ``wait_us``. A request that is already held under this key is never answered."""
        self._held[key] = held
        if wait_us is not None:
            assert self._machine is not None, "a wait that ends needs a timer"
            self._machine.start_timer((self._timer, str(key)), wait_us)

    def release(self, key: Key) -> Held | None:
        """Remove and return the request under this key, to be answered now. The request's timer is stopped."""
        held = self._held.pop(key, None)
        if held is not None and self._machine is not None:
            self._machine.stop_timer((self._timer, str(key)))
        return held

    def time_is_over(self, key: Key) -> Held:
        """Remove and return a request whose timer fired."""
        return self._held.pop(key)
