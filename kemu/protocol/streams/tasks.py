"""Tasks, and clients (Streams instances) in the view of a task assignor."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from attrs import field

from kemu.protocol.frozen import define, frozen

MAX_LAG = 2**63 - 1
"""The lag of unknown state: Long.MAX_VALUE."""
LATEST_OFFSET = -2
"""The lag of a running active task. Source: ``Task.LATEST_OFFSET``."""
UNKNOWN_LAG = -3
"""The lag in newer metadata that the leader cannot read. Source: ``UNKNOWN_OFFSET_SUM``."""

ClientId: TypeAlias = str
"""A process: its process id in hexadecimal digits, or any other name. ``client_order`` is the order of processes."""
PROCESS_ID = re.compile("[0-9a-f]{32}", re.ASCII)


def client_order(name: ClientId) -> str:
    """The sort key of a process. Java compares process ids as signed numbers (``UUID.compareTo``), other names are
    text.
    """
    return f"{int(name[0], 16) ^ 8:x}{name[1:]}" if PROCESS_ID.fullmatch(name) else name


class TaskId(NamedTuple):
    """A task, ordered by number: "0_2" comes before "0_10". Names without numbers keep the order of their text."""

    subtopology: int
    partition: int
    name: str

    def __str__(self) -> str:
        return self.name


_NUMBERS = re.compile(r"(\d+)_(\d+)$|\D*?(\d+)$", re.ASCII)


def task_id(name: str) -> TaskId:
    """A task by its name: "1_0" (subtopology_partition), or a name with a number such as "T1" of KIP-429's page."""
    found = _NUMBERS.match(name)
    if found is None:
        return TaskId(0, 0, name)
    subtopology, partition, number = found.groups()
    if number is not None:
        return TaskId(0, int(number), name)
    return TaskId(int(subtopology), int(partition), name)


@frozen
class ClientState:
    """The report of a client. ``lags``: task -> lag in records; the lag of a missing task is ``MAX_LAG``."""

    capacity: int
    prev_active: tuple[TaskId, ...] = ()
    prev_standby: tuple[TaskId, ...] = ()
    lags: Mapping[TaskId, int] = field(factory=dict)

    def lag(self, task: TaskId) -> int:
        """The lag of the client's copy of a task."""
        return self.lags.get(task, MAX_LAG)


@frozen
class TaskConfig:
    """The settings ``num.standby.replicas``, ``max.warmup.replicas`` and ``acceptable.recovery.lag`` (records)."""

    num_standby: int = 0
    max_warmup: int = 2
    acceptable_lag: int = 10_000


@define
class Load:
    """The tasks assigned to one client so far."""

    capacity: int
    active: set[TaskId] = field(factory=set)
    standby: set[TaskId] = field(factory=set)

    @property
    def count(self) -> int:
        """The number of active and standby tasks."""
        return len(self.active) + len(self.standby)

    def has(self, task: TaskId) -> bool:
        """Whether the client has the task as active or standby."""
        return task in self.active or task in self.standby

    def has_more_room_than(self, other: "Load") -> bool:
        """Whether this client has less load per thread; with equal load, whether it has more threads."""
        mine, others = self.count * other.capacity, other.count * self.capacity
        return mine < others or (mine == others and self.capacity > other.capacity)


@frozen
class TaskAssignment:
    """The sorted tasks of each client. ``probing``: a later rebalance must check whether warm-ups have caught up."""

    active: Mapping[ClientId, tuple[TaskId, ...]]
    standby: Mapping[ClientId, tuple[TaskId, ...]]
    probing: bool = False


def assignment_of(loads: Mapping[ClientId, Load], probing: bool = False) -> TaskAssignment:
    """The assigned tasks as a frozen value."""
    return TaskAssignment(
        {client: tuple(sorted(loads[client].active)) for client in sorted(loads, key=client_order)},
        {client: tuple(sorted(loads[client].standby)) for client in sorted(loads, key=client_order)},
        probing,
    )


def loads_of(clients: Mapping[ClientId, ClientState]) -> dict[ClientId, Load]:
    """A load without tasks for each client, in order.

    Raises:
        ValueError: a client without threads.
    """
    empty = [name for name, client in clients.items() if client.capacity < 1]
    if empty:
        raise ValueError(f"client {empty[0]} has no thread")
    return {name: Load(clients[name].capacity) for name in sorted(clients, key=client_order)}


def in_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """The tasks by number, each once."""
    return sorted(set(tasks))
