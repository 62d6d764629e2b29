"""Kafka's high-availability task assignor (KIP-441, the default since Kafka Streams 2.6).

First the assignor computes the ideal balanced assignment from scratch. If an ideal client is not caught up with its
task, a caught-up client gets the task. The ideal client then warms up a copy.
Source: ``HighAvailabilityTaskAssignor``, 3.4.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from kemu.protocol.frozen import frozen
from kemu.protocol.streams.java_collections import IN_ORDER, LeastLoaded, PriorityQueue, Visits
from kemu.protocol.streams.tasks import (
    LATEST_OFFSET,
    MAX_LAG,
    ClientId,
    ClientState,
    Load,
    TaskAssignment,
    TaskConfig,
    TaskId,
    assignment_of,
    client_order,
    in_order,
    loads_of,
)


@frozen
class HighAvailabilityRules:
    """The differences between releases.

    ``to_most_caught_up``: a task without a caught-up client is assigned to the client with the least lag (KAFKA-13600).
    Before 3.2 the task is assigned to its ideal client, which restores the task from the beginning. ``in_turn``:
    movements are made in order; before 3.3 they were made in the internal order of a heap.
    """

    to_most_caught_up: bool = True
    in_turn: bool = True
    visits: Visits = IN_ORDER


BEFORE_3_2 = HighAvailabilityRules(to_most_caught_up=False, in_turn=False)
"""The rules of 2.6 to 3.1."""
SINCE_3_3 = HighAvailabilityRules()


def assign_high_availability(
    clients: Mapping[ClientId, ClientState],
    tasks: Collection[TaskId],
    stateful: Collection[TaskId],
    config: TaskConfig,
    rules: HighAvailabilityRules = SINCE_3_3,
) -> TaskAssignment:
    """The assignment: active tasks on caught-up clients, standbys, and at most ``max_warmup`` additional warm-ups.

    Args:
        clients: clients by id; at least one. A missing lag of a stateful task is taken as the largest possible lag.
        tasks: all tasks.
        stateful: the tasks with state.
        config: the settings of the assignor.
        rules: the rules of a release.

    Raises:
        ValueError: there is no client, or a client has no threads.
    """
    if not clients:
        raise ValueError("there is no client")
    with_state = in_order(stateful)
    loads = loads_of(clients)
    names = list(loads)
    for number, task in enumerate(with_state):
        loads[names[number % len(names)]].active.add(task)
    _balance(loads, lambda load: load.active)
    _give_standbys(loads, with_state, config.num_standby)
    movements = _Movements(clients, loads, with_state, config, rules)
    moved = movements.move_active() + movements.move_standby()
    for task in in_order(set(tasks) - set(with_state)):
        least = min(names, key=lambda name: (_load(loads[name], len(loads[name].active)), client_order(name)))
        loads[least].active.add(task)
    return assignment_of(loads, probing=moved > 0)


def _load(load: Load, count: int) -> float:
    return count / load.capacity


def _by_load(loads: Mapping[ClientId, Load], name: ClientId) -> tuple[float, str]:
    return _load(loads[name], loads[name].count), client_order(name)


def _give_standbys(loads: Mapping[ClientId, Load], tasks: list[TaskId], copies: int) -> None:
    for task in tasks:
        for _ in range(copies):
            without = [name for name, load in loads.items() if not load.has(task)]
            if not without:
                break
            loads[min(without, key=lambda name: _by_load(loads, name))].standby.add(task)
    if copies:
        _balance(loads, lambda load: load.standby)


def _balance(loads: Mapping[ClientId, Load], kind: Callable[[Load], set[TaskId]]) -> None:
    """Move tasks between clients while a move evens out the load per thread."""
    going = True
    while going:
        going = False
        for source in loads.values():
            for target in loads.values():
                for task in _movable(source, target, kind):
                    if not target.has(task):
                        kind(source).remove(task)
                        kind(target).add(task)
                        going = True


def _movable(source: Load, target: Load, kind: Callable[[Load], set[TaskId]]) -> Iterator[TaskId]:
    if _evens_out(source, target):
        for task in in_order(kind(source)):
            if not _evens_out(source, target):
                return
            yield task


def _evens_out(source: Load, target: Load) -> bool:
    skew = _load(source, source.count) - _load(target, target.count)
    if skew <= 0:
        return False
    then = _load(source, source.count - 1) - _load(target, target.count + 1)
    return 0 <= then < skew


class _Movements:
    """The movements from the ideal assignment to an assignment whose active tasks can process at once."""

    def __init__(
        self,
        clients: Mapping[ClientId, ClientState],
        loads: dict[ClientId, Load],
        tasks: list[TaskId],
        config: TaskConfig,
        rules: HighAvailabilityRules,
    ) -> None:
        self._clients = clients
        self._loads = loads
        self._rules = rules
        self._warmups_left = config.max_warmup
        self._warmups: set[tuple[ClientId, TaskId]] = set()
        self._caught_up = {
            task: [name for name in loads if self._is_caught_up(clients[name].lag(task), config.acceptable_lag)]
            for task in tasks
        }

    @staticmethod
    def _is_caught_up(lag: int, acceptable: int) -> bool:
        return lag == LATEST_OFFSET or acceptable == MAX_LAG or 0 <= lag <= acceptable

    def _by_lag(self, task: TaskId) -> list[ClientId]:
        return sorted(self._loads, key=lambda name: (self._clients[name].lag(task), client_order(name)))

    def _must_move(self, task: TaskId, name: ClientId) -> bool:
        """Whether the client is not caught up, and another client is caught up or at least has a smaller lag."""
        if name in self._caught_up[task]:
            return False
        if not self._rules.to_most_caught_up:
            return bool(self._caught_up[task])
        return self._clients[self._by_lag(task)[0]].lag(task) < self._clients[name].lag(task)

    def _in_turn(self, found: Iterable[tuple[TaskId, ClientId]]) -> Iterator[tuple[TaskId, ClientId]]:
        """The movements in order, tasks with the fewest caught-up clients first."""
        queue: PriorityQueue[tuple[TaskId, ClientId]] = PriorityQueue(
            lambda pair: (len(self._caught_up[pair[0]]), pair[0])
        )
        for pair in found:
            queue.offer(pair)
        if not self._rules.in_turn:
            yield from queue
            return
        while queue:
            yield queue.poll()

    def _least_loaded(self) -> LeastLoaded:
        clients = LeastLoaded(lambda name: _load(self._loads[name], self._loads[name].count), self._rules.visits)
        clients.offer(self._loads)
        return clients

    def move_active(self) -> int:
        """Move active tasks to caught-up clients; returns the number of moved tasks."""
        found = [
            (task, name)
            for name, load in self._loads.items()
            for task in in_order(load.active)
            if self._must_move(task, name)
        ]
        clients = self._least_loaded()
        for task, wanted in self._in_turn(found):
            caught_up = self._caught_up[task]
            source = clients.poll([name for name in caught_up if task in self._loads[name].standby])
            if source is None:
                source = clients.poll(caught_up)
            if source is None:
                source = self._by_lag(task)[0]
            self._loads[wanted].active.remove(task)
            if task in self._loads[source].standby:
                self._loads[source].standby.remove(task)
                self._loads[wanted].standby.add(task)
            elif self._take_warmup():
                self._loads[wanted].standby.add(task)
                self._warmups.add((wanted, task))
            self._loads[source].active.add(task)
            clients.offer((source, wanted))
        return len(found)

    def move_standby(self) -> int:
        """Move standbys to caught-up clients; returns the number of moved tasks."""
        found = [
            (task, name)
            for name, load in self._loads.items()
            for task in in_order(load.standby)
            if (name, task) not in self._warmups and self._must_move(task, name)
        ]
        clients = self._least_loaded()
        moved = 0
        for task, wanted in self._in_turn(found):
            source = clients.poll([name for name in self._caught_up[task] if not self._loads[name].has(task)])
            if source is None and self._rules.to_most_caught_up:
                source = self._less_behind_without_copy(task, wanted)
            if source is None:
                continue
            moved += 1
            self._loads[source].standby.add(task)
            if not self._take_warmup():
                self._loads[wanted].standby.remove(task)
            clients.offer((source, wanted))
        return moved

    def _less_behind_without_copy(self, task: TaskId, wanted: ClientId) -> ClientId | None:
        """The client with the least lag among clients without a copy, if this lag is smaller than the ideal
        client's.
        """
        for name in self._by_lag(task):
            if name == wanted:
                return None
            if not self._loads[name].has(task):
                return name
        return None

    def _take_warmup(self) -> bool:
        self._warmups_left -= 1
        return self._warmups_left >= 0
