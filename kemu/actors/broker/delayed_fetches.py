"""Delayed fetches of consumers or followers (a part of the broker).

Each partition refers to its delayed fetches: an append touches only the fetches that wait for this partition.
Source: Kafka's ``DelayedFetch``, whose purgatory watches the same keys.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from kemu.actors.broker.fetch_sessions import FetchContext
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Caller, Machine
from kemu.actors.parking import Parking
from kemu.protocol.messages.data import FetchPartition


class DelayedFetch:
    """A Fetch that waits for ``missing`` more bytes, or for its timeout."""

    __slots__ = (
        "available",
        "caller",
        "context",
        "held",
        "is_reusable",
        "max_bytes",
        "missing",
        "number",
        "rows",
        "watched",
    )

    def __init__(self, number: int, caller: Caller, max_bytes: int, context: FetchContext) -> None:
        self.number = number
        self.caller = caller
        self.max_bytes = max_bytes
        self.context = context
        self.rows = context.rows
        self.missing = 0
        self.available: dict[int, int] = {}
        """Index into ``rows`` -> bytes of the row's partition for the answer; only rows with bytes or an
        error.
        """
        self.watched: Sequence[Waiters] = ()
        """The waiter sets of the fetch's partitions, while the fetch is delayed or is kept for reuse."""
        self.held = False
        """Whether the fetch is delayed; False if the fetch is only kept for reuse."""
        self.is_reusable = True
        """Whether the checks made on arrival are still valid, so that the answered fetch can be reused."""


Waiters: TypeAlias = dict[DelayedFetch, int]
"""The fetches that wait for a partition, each with the index of the partition's row in the fetch."""

F = TypeVar("F", bound=DelayedFetch)


class DelayedFetches(Generic[F]):
    """The delayed fetches of one kind. ``timer``: the timer of their timeouts. ``fulfilled``: the function that answers
    a fetch with enough bytes.
    """

    def __init__(self, machine: Machine, timer: BrokerTimer, fulfilled: Callable[[F], None]) -> None:
        self._fulfilled = fulfilled
        self._held: Parking[int, F] = Parking(machine, timer)
        self._last_number = 0

    def next_number(self) -> int:
        """A new number for a fetch, delayed or not."""
        self._last_number = number = self._last_number + 1
        return number

    def hold(self, fetch: F, watched: Sequence[Waiters], max_wait_ms: int) -> None:
        """Delay a fetch; ``watched``: the waiter set of each of its rows."""
        fetch.watched = watched
        for index, waiters in enumerate(watched):
            waiters[fetch] = index
        self.hold_reused(fetch, max_wait_ms)

    def hold_reused(self, fetch: F, max_wait_ms: int) -> None:
        """Delay a reused fetch, which is already in its waiter sets."""
        fetch.held = True
        self._held.hold(fetch.number, fetch, max_wait_ms * 1_000)

    def grown(self, waiters: Waiters, available_bytes: Callable[[FetchPartition], int]) -> None:
        """Answer the fetches that have enough bytes now, after a partition has grown."""
        ready: list[int] = []
        answered: list[DelayedFetch] = []
        for fetch, index in waiters.items():
            if not fetch.held:
                answered.append(fetch)
                continue
            there = available_bytes(fetch.rows[index])
            fetch.missing -= there - fetch.available.get(index, 0)
            fetch.available[index] = there
            if fetch.missing <= 0:
                ready.append(fetch.number)
        for fetch in answered:
            unwatch(fetch)
        if len(ready) > 1:
            ready.sort()  # in order of arrival
        for number in ready:
            self._fulfilled(self._stop(number))

    def time_is_over(self, number: int) -> F:
        """Remove the timeout of a fetch that timed out. The caller must answer the fetch, which is in its waiter sets
        until ``unwatch``.
        """
        fetch = self._held.time_is_over(number)
        fetch.held = False
        return fetch

    def give_up(self, waiters: Waiters) -> list[F]:
        """Stop the wait of all fetches of this partition; the caller must answer them."""
        invalidate(waiters)
        return [self._stop(number) for number in sorted(fetch.number for fetch in waiters)]

    def _stop(self, number: int) -> F:
        fetch = self._held.release(number)
        assert fetch is not None, f"fetch {number} is not delayed"
        fetch.held = False
        unwatch(fetch)
        return fetch


def unwatch(fetch: DelayedFetch) -> None:
    """Remove the fetch from all its waiter sets."""
    for waiters in fetch.watched:
        waiters.pop(fetch, None)
    fetch.watched = ()


def invalidate(waiters: Waiters) -> None:
    """Make the fetches of a changed partition repeat their checks when they arrive again."""
    for fetch in tuple(waiters):
        fetch.is_reusable = False
        if not fetch.held:
            unwatch(fetch)
