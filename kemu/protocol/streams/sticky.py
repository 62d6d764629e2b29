"""Kafka's sticky task assignor (Kafka Streams up to 2.5; since 2.6 only behind an internal setting).

The assignor visits hash sets, so its choice among equals depends on hashes of tasks and of process ids.
``StickyTaskRules`` defines the order of visits; the default is by number and by name.
Source: ``StickyTaskAssignor``, 2.3 to 3.5.
"""

from collections.abc import Collection, Mapping, Sequence

from kemu.protocol.frozen import frozen
from kemu.protocol.streams.java_collections import IN_ORDER, Visits
from kemu.protocol.streams.tasks import (
    ClientId,
    ClientState,
    Load,
    TaskAssignment,
    TaskConfig,
    TaskId,
    assignment_of,
    in_order,
    loads_of,
)


class _Pairs:
    """Pairs of tasks on the same client. New pairs are preferred, to separate tasks that would fail together."""

    def __init__(self, tasks: int) -> None:
        self._most = tasks * (tasks - 1) // 2
        self._known: set[tuple[TaskId, TaskId]] = set()

    def is_new_with(self, task: TaskId, load: Load) -> bool:
        if len(self._known) == self._most:
            return False
        return any(self._pair(task, other) not in self._known for other in (*load.active, *load.standby))

    def add(self, task: TaskId, load: Load) -> None:
        self._known.update(self._pair(task, other) for other in (*load.active, *load.standby) if other != task)

    @staticmethod
    def _pair(one: TaskId, other: TaskId) -> tuple[TaskId, TaskId]:
        return (one, other) if one < other else (other, one)


@frozen
class StickyTaskRules:
    """The differences between releases. ``standbys_without_state``: tasks without state also get standbys
    (up to 2.5).
    """

    visits: Visits = IN_ORDER
    standbys_without_state: bool = False


SINCE_2_6 = StickyTaskRules()


class _Sticky:
    def __init__(self, clients: Mapping[ClientId, ClientState], tasks: list[TaskId], visits: Visits) -> None:
        loads = loads_of(clients)
        self.loads = {name: loads[name] for name in visits.clients(loads)}
        self._tasks = visits.tasks(tasks)
        self._visits = visits
        self._pairs = _Pairs(len(tasks))
        self._owner: dict[TaskId, ClientId] = {}
        self._standbys: dict[TaskId, list[ClientId]] = {}
        for name in self.loads:
            for task in in_order(clients[name].prev_active):
                self._owner[task] = name
            for task in in_order(clients[name].prev_standby):
                self._standbys.setdefault(task, []).append(name)

    def assign_active(self, must_preserve: bool) -> None:
        per_thread = len(self._tasks) // sum(load.capacity for load in self.loads.values())
        left = dict.fromkeys(self._visits.tasks(self._tasks, copied=True))

        def below_quota(load: Load) -> bool:
            return len(load.active) < load.capacity * per_thread

        for task in self._visits.tasks(self._owner):
            load = self.loads[self._owner[task]]
            if task in left and (must_preserve or below_quota(load)):
                self._give(task, load)
                del left[task]
        for task in list(left):
            for name in self._visits.clients(self._standbys.get(task, ())):
                if below_quota(self.loads[name]):
                    self._give(task, self.loads[name])
                    del left[task]
                    break
        for task in sorted(left):
            self._give(task, self._find(task, tuple(self.loads)))

    def assign_standby(self, tasks: list[TaskId], copies: int) -> None:
        for task in self._visits.tasks(tasks):
            for _ in range(copies):
                without = self._visits.clients([name for name, load in self.loads.items() if not load.has(task)])
                if not without:
                    break
                load = self._find(task, without)
                self._pairs.add(task, load)
                load.standby.add(task)

    def _give(self, task: TaskId, load: Load) -> None:
        self._pairs.add(task, load)
        load.active.add(task)

    def _find(self, task: TaskId, within: Sequence[ClientId]) -> Load:
        if len(within) == 1:
            return self.loads[within[0]]
        standbys = self._visits.clients(self._visits.clients(self._standbys.get(task, ())), copied=True)
        standby = self._least_loaded(task, [name for name in standbys if name in within])
        owner = self._owner.get(task)
        previous = self.loads[owner] if owner in within and owner is not None else standby
        if previous is not None and not self._should_balance(previous):
            return previous
        if previous is not None and standby is not None and not self._should_balance(standby):
            return standby
        found = self._least_loaded(task, within)
        assert found is not None
        return found

    def _should_balance(self, load: Load) -> bool:
        full = load.count >= load.capacity
        return full and any(other.has_more_room_than(load) for other in self.loads.values())

    def _least_loaded(self, task: TaskId, within: Collection[ClientId]) -> Load | None:
        """The least loaded client that forms a new pair of tasks, else the least loaded; an empty client
        is always chosen.
        """
        for wants_new_pair in (True, False):
            least: Load | None = None
            for name in within:
                load = self.loads[name]
                if load.count == 0:
                    return load
                if (least is None or load.has_more_room_than(least)) and (
                    not wants_new_pair or self._pairs.is_new_with(task, load)
                ):
                    least = load
            if least is not None:
                return least
        return None


def assign_sticky(
    clients: Mapping[ClientId, ClientState],
    tasks: Collection[TaskId],
    stateful: Collection[TaskId],
    config: TaskConfig,
    rules: StickyTaskRules = SINCE_2_6,
    *,
    must_preserve_active: bool = False,
) -> TaskAssignment:
    """The assignment. Tasks remain on their owners below each client's quota, then move to their standbys, then to the
    least loaded client.

    Args:
        clients: clients by id; at least one.
        tasks: all tasks.
        stateful: the tasks that get standbys.
        config: the settings; the assignor reads only ``num_standby``, and ignores lags.
        rules: the rules of a release.
        must_preserve_active: previous owners keep their tasks, whatever the load (``FallbackPriorTaskAssignor``).

    Raises:
        ValueError: there is no client, or a client has no threads.
    """
    if not clients:
        raise ValueError("there is no client")
    sticky = _Sticky(clients, in_order(tasks), rules.visits)
    sticky.assign_active(must_preserve_active)
    sticky.assign_standby(in_order(tasks if rules.standbys_without_state else stateful), config.num_standby)
    return assignment_of(sticky.loads)
