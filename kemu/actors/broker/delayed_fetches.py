"""The fetches a broker holds back until there is enough to answer, consumers' or followers' (a part of the broker).

A fetch that is held back is known to each of its partitions: an append touches only those who wait for
that partition. Source: Kafka's ``DelayedFetch``, whose purgatory watches the same keys.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Caller, Machine
from kemu.actors.parking import Parking
from kemu.protocol.messages.data import FetchPartition


class DelayedFetch:
    """A Fetch that waits for ``missing`` more bytes, or for its time to be over."""

    __slots__ = ("available", "caller", "held", "max_bytes", "may_stand", "missing", "number", "rows", "watched")

    def __init__(self, number: int, caller: Caller, max_bytes: int, rows: tuple[FetchPartition, ...]) -> None:
        self.number = number
        self.caller = caller
        self.max_bytes = max_bytes
        self.rows = rows
        self.missing = 0
        self.available: dict[int, int] = {}
        """Index into ``rows`` -> bytes this partition has for the answer; only those that have something to say."""
        self.watched: Sequence[Waiters] = ()
        """The places where it waits, while it does; or stands, answered, in case it comes again."""
        self.held = False
        """It waits; False of one that only stands."""
        self.may_stand = True
        """What was found when it came holds still, so it may stand when it is answered."""


Waiters: TypeAlias = dict[DelayedFetch, int]
"""Those who wait for a partition, and which of their rows is about it."""

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
        fetch.watched = watched
        for index, waiters in enumerate(watched):
            waiters[fetch] = index
        self.hold_again(fetch, max_wait_ms)

    def hold_again(self, fetch: F, max_wait_ms: int) -> None:
        """Hold one back that stands where it waited before."""
        fetch.held = True
        self._held.hold(fetch.number, fetch, max_wait_ms * 1_000)

    def grown(self, waiters: Waiters, available_bytes: Callable[[FetchPartition], int]) -> None:
        """A partition has more bytes: answer the fetches that have enough now."""
        ready: list[int] = []
        only_stand: list[DelayedFetch] = []
        for fetch, index in waiters.items():
            if not fetch.held:
                only_stand.append(fetch)
                continue
            there = available_bytes(fetch.rows[index])
            fetch.missing -= there - fetch.available.get(index, 0)
            fetch.available[index] = there
            if fetch.missing <= 0:
                ready.append(fetch.number)
        for fetch in only_stand:
            unwatch(fetch)
        if len(ready) > 1:
            ready.sort()  # as they came
        for number in ready:
            self._fulfilled(self._stop(number))

    def time_is_over(self, number: int) -> F:
        """A fetch's timer fired: it is to be answered with what there is, and stands until ``unwatch``."""
        fetch = self._held.time_is_over(number)
        fetch.held = False
        return fetch

    def give_up(self, waiters: Waiters) -> list[F]:
        """Whoever waits at this partition waits no more, and is to be answered."""
        look_again(waiters)
        return [self._stop(number) for number in sorted(fetch.number for fetch in waiters)]

    def _stop(self, number: int) -> F:
        fetch = self._held.release(number)
        assert fetch is not None, f"fetch {number} is not held back"
        fetch.held = False
        unwatch(fetch)
        return fetch


def unwatch(fetch: DelayedFetch) -> None:
    """It waits and stands nowhere any more."""
    for waiters in fetch.watched:
        waiters.pop(fetch, None)
    fetch.watched = ()


def look_again(waiters: Waiters) -> None:
    """What was found at this partition holds no more: if a fetch comes again that waits or stands there, look anew."""
    for fetch in tuple(waiters):
        fetch.may_stand = False
        if not fetch.held:
            unwatch(fetch)
