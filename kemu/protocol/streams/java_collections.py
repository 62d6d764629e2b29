"""Java's collections, as far as Kafka's task assignors depend on them: the order of hash sets, and heaps whose keys
change.

Both collections are deterministic for given process ids of the members. Clients whose id is not a process id (32
hexadecimal digits) are visited in order, as are all collections outside ``HashOrder``.

Source: OpenJDK's ``HashMap``, ``PriorityQueue``, ``UUID.hashCode``; Kafka's ``TaskId.hashCode``,
``ConstrainedPrioritySet``.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from kemu.protocol.frozen import frozen
from kemu.protocol.streams.tasks import PROCESS_ID, ClientId, TaskId, client_order

K = TypeVar("K")
TaskHash: TypeAlias = Callable[[TaskId], int]

_LEAST_TABLE = 16
_TREES_FROM = 64
"""The table size from which bins may become trees: a smaller table grows when a bin is full.

Source: ``HashMap.MIN_TREEIFY_CAPACITY``.
"""
_FULL_BIN = 8
_INT = 1 << 32


class Visits(Protocol):
    """An order for visiting sets of tasks and of clients.

    ``copied``: the set was created as a copy of another collection, which determines the size of its table.
    """

    def tasks(self, tasks: Collection[TaskId], *, copied: bool = False) -> list[TaskId]:
        """The tasks in the order of visits, each once."""
        ...

    def clients(self, names: Collection[ClientId], *, copied: bool = False) -> list[ClientId]:
        """The clients in the order of visits, each once."""
        ...


class InOrder:
    """The order by number for tasks, and by name for clients."""

    def tasks(self, tasks: Collection[TaskId], *, copied: bool = False) -> list[TaskId]:
        """The tasks by number."""
        return sorted(set(tasks))

    def clients(self, names: Collection[ClientId], *, copied: bool = False) -> list[ClientId]:
        """By process id, or by name."""
        return sorted(set(names), key=client_order)


IN_ORDER = InOrder()


@frozen
class HashOrder:
    """The order of a ``HashSet`` whose elements were inserted in the given order."""

    task_hash: TaskHash

    def tasks(self, tasks: Collection[TaskId], *, copied: bool = False) -> list[TaskId]:
        """The tasks in the order of their hashes."""
        return hash_order(tasks, self.task_hash, copied=copied)

    def clients(self, names: Collection[ClientId], *, copied: bool = False) -> list[ClientId]:
        """By the hashes of their process ids."""
        if not all(PROCESS_ID.fullmatch(name) for name in names):
            return sorted(set(names))
        return hash_order(names, process_hash, copied=copied)


def process_hash(name: ClientId) -> int:
    """``UUID.hashCode`` of a process id in hexadecimal digits."""
    both = int(name[:16], 16) ^ int(name[16:], 16)
    return (both >> 32 ^ both) % _INT


def task_hash_before_3_0(task: TaskId) -> int:
    """``TaskId.hashCode`` of 2.3 to 2.8."""
    return ((task.subtopology << 32) | task.partition) % (_INT - 1)


def task_hash(task: TaskId) -> int:
    """``TaskId.hashCode`` since named topologies (3.0), here without a name."""
    return (31 * (31 * (31 + task.subtopology) + task.partition)) % _INT


def hash_order(keys: Collection[K], hash_of: Callable[[K], int], *, copied: bool = False) -> list[K]:
    """The iteration order of a ``HashSet`` with these keys, inserted in this order.

    ``copied``: ``new HashSet<>(keys)`` created the set, with a table for this number of keys. Unlike in Java, a bin of
    more than eight keys in a table of at least 64 bins does not become a tree.
    """
    capacity = _LEAST_TABLE
    if copied:
        while capacity < int(len(keys) / 0.75) + 1:
            capacity *= 2
    bins: _Bins[K] = _Bins(capacity)
    for key in keys:
        whole = hash_of(key)
        bins.put(whole ^ whole >> 16, key)
    return [key for _, key in bins.listed()]


class _Bins(Generic[K]):
    def __init__(self, capacity: int) -> None:
        self._bins: list[list[tuple[int, K]]] = [[] for _ in range(capacity)]
        self._count = 0

    def listed(self) -> Iterator[tuple[int, K]]:
        for each in self._bins:
            yield from each

    def put(self, spread: int, key: K) -> None:
        found = self._bins[spread % len(self._bins)]
        if any(known == key for _, known in found):
            return
        found.append((spread, key))
        if len(found) > _FULL_BIN and len(self._bins) < _TREES_FROM:
            self._grow()
        self._count += 1
        if self._count * 4 > len(self._bins) * 3:
            self._grow()

    def _grow(self) -> None:
        entries = list(self.listed())
        self._bins = [[] for _ in range(2 * len(self._bins))]
        for spread, key in entries:
            self._bins[spread % len(self._bins)].append((spread, key))


class PriorityQueue(Generic[K]):
    """Java's binary heap. Keys are computed at each comparison: an item whose key changes keeps its place."""

    def __init__(self, key_of: Callable[[K], Any]) -> None:
        self._key_of = key_of
        self._heap: list[K] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[K]:
        """The items in the internal order of the heap."""
        return iter(list(self._heap))

    def offer(self, item: K) -> None:
        """Insert an item."""
        self._heap.append(item)
        self._sift_up(len(self._heap) - 1, item)

    def poll(self) -> K:
        """Remove and return the first item."""
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._sift_down(0, last)
        return first

    def remove(self, item: K) -> None:
        """Remove this item, if present."""
        if item not in self._heap:
            return
        at, last = self._heap.index(item), self._heap.pop()
        if at < len(self._heap):
            self._sift_down(at, last)
            if self._heap[at] is last:
                self._sift_up(at, last)

    def _sift_up(self, at: int, item: K) -> None:
        key = self._key_of(item)
        while at > 0:
            parent = (at - 1) // 2
            if key >= self._key_of(self._heap[parent]):
                break
            self._heap[at] = self._heap[parent]
            at = parent
        self._heap[at] = item

    def _sift_down(self, at: int, item: K) -> None:
        key = self._key_of(item)
        while 2 * at + 1 < len(self._heap):
            child = 2 * at + 1
            if child + 1 < len(self._heap) and self._key_of(self._heap[child]) > self._key_of(self._heap[child + 1]):
                child += 1
            if key <= self._key_of(self._heap[child]):
                break
            self._heap[at] = self._heap[child]
            at = child
        self._heap[at] = item


class LeastLoaded:
    """Clients by load, from which the assignor polls the next possible client of a task.

    A client whose load changes in the queue keeps its place until it is offered again, as in Kafka.
    """

    def __init__(self, load_of: Callable[[ClientId], Any], visits: Visits) -> None:
        self._queue: PriorityQueue[ClientId] = PriorityQueue(lambda name: (load_of(name), client_order(name)))
        self._waiting: set[ClientId] = set()
        self._visits = visits

    def offer(self, names: Iterable[ClientId]) -> None:
        """Insert clients, even if they are already queued."""
        for name in names:
            if name in self._waiting:
                self._queue.remove(name)
            self._waiting.add(name)
            self._queue.offer(name)

    def poll(self, among: Collection[ClientId]) -> ClientId | None:
        """Remove and return the first of these clients; None if no such client is queued."""
        passed: list[ClientId] = []
        found: ClientId | None = None
        while found is None and len(self._queue):
            name = self._queue.poll()
            self._waiting.remove(name)
            if name in among:
                found = name
            else:
                passed.append(name)
        self.offer(self._visits.clients(passed))
        return found
