"""The fetches a broker holds back until there is enough to answer, consumers' or followers' (a part of the broker).

A fetch that is held back is known to each of its partitions, by its number: an append touches only those who wait for
that partition. Source: Kafka's ``DelayedFetch``, whose purgatory watches the same keys.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Caller, Machine
from kemu.actors.parking import Parking
from kemu.protocol.messages.data import FetchPartition


class DelayedFetch:
    """A Fetch that waits for ``missing`` more bytes, or for its time to be over."""

    __slots__ = ("available", "caller", "max_bytes", "missing", "number", "rows", "watched")

    def __init__(self, number: int, caller: Caller, max_bytes: int, rows: tuple[FetchPartition, ...]) -> None:
        self.number = number
        self.caller = caller
        self.max_bytes = max_bytes
        self.rows = rows
        self.missing = 0
        self.available: dict[int, int] = {}
        """Index into ``rows`` -> bytes this partition has for the answer; only those that have something to say."""
        self.watched: Sequence[Waiters] = ()
        """The places where it waits, while it does."""


class Waiter(NamedTuple):
    """A fetch that is held back, and which of its rows is about the partition where it waits."""

    fetch: DelayedFetch
    row: int


Waiters: TypeAlias = dict[int, Waiter]
"""A partition's: number of a fetch -> the fetch."""

F = TypeVar("F", bound=DelayedFetch)


class DelayedFetches(Generic[F]):
    """See the module. ``timer``: whose time is over; ``fulfilled``: answers a fetch for which enough is there."""

    def __init__(self, machine: Machine, timer: BrokerTimer, fulfilled: Callable[[F], None]) -> None:
        self._fulfilled = fulfilled
        self._held: Parking[int, F] = Parking(machine, timer)
        self._last_number = 0

    def next_number(self) -> int:
        """The number of one more fetch, held back or not."""
        self._last_number = number = self._last_number + 1
        return number

    def hold(self, fetch: F, watched: Sequence[Waiters], max_wait_ms: int) -> None:
        """Hold a fetch back; ``watched``: where each of its rows waits."""
        number = fetch.number
        fetch.watched = watched
        for index, waiters in enumerate(watched):
            waiters[number] = Waiter(fetch, index)
        self._held.hold(number, fetch, max_wait_ms * 1_000)

    def grown(self, waiters: Waiters, available_bytes: Callable[[FetchPartition], int]) -> None:
        """A partition has more bytes: answer the fetches that have enough now."""
        ready: list[int] = []
        for number, (fetch, index) in waiters.items():
            there = available_bytes(fetch.rows[index])
            fetch.missing -= there - fetch.available.get(index, 0)
            fetch.available[index] = there
            if fetch.missing <= 0:
                ready.append(number)
        for number in ready:
            self._fulfilled(self._stop(number))

    def time_is_over(self, number: int) -> F:
        """A fetch's timer fired: it is to be answered with what there is."""
        return _unwatched(self._held.time_is_over(number))

    def give_up(self, waiters: Waiters) -> list[F]:
        """Whoever waits at this partition waits no more, and is to be answered."""
        return [self._stop(number) for number in tuple(waiters)]

    def _stop(self, number: int) -> F:
        fetch = self._held.release(number)
        assert fetch is not None, f"fetch {number} is not held back"
        return _unwatched(fetch)


def _unwatched(fetch: F) -> F:
    """It waits nowhere any more."""
    for waiters in fetch.watched:
        waiters.pop(fetch.number, None)
    return fetch
