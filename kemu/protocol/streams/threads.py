"""The placement of an instance's tasks on its threads.

Tasks are dealt in buckets (with state, copies, without state), one bucket after the other, with common loads of the
threads. In each bucket, tasks first stay on their threads while a thread has less than its share. Other tasks are dealt
in turn to threads below their share. The remaining tasks are placed on the threads whose share is larger by one,
preferably on their former threads. ``ThreadPlacement`` lists the differences between releases.

Source: Kafka's ``StreamsPartitionAssignor``: ``assignTasksToThreads`` and its predecessors, of 2.3.1, 2.4.1, 2.6.3 and
3.4.1. In Kafka the remaining tasks are in the order of a heap; here the remaining tasks are ordered by number.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId
from kemu.protocol.streams.modes import ThreadPlacement
from kemu.protocol.streams.tasks import TaskId, in_order


class Bucketed(NamedTuple):
    """The tasks of an instance, or of one of its threads, by bucket."""

    stateful: Collection[TaskId] = ()
    copies: Collection[TaskId] = ()
    stateless: Collection[TaskId] = ()


@frozen
class InstanceThreads:
    """The state of an instance's threads before its tasks are placed.

    ``held``: thread -> its tasks in any role, smallest lag first; every thread is a key. ``owned``: task -> threads
    that own partitions of the task, "" for a thread of another instance. ``own_nothing``: whether no thread owns
    partitions.
    """

    held: Mapping[MemberId, Sequence[TaskId]]
    owned: Mapping[TaskId, Collection[MemberId]]
    own_nothing: bool


class Placer:
    """The placement of the tasks of all instances in one rebalance, one instance after the other."""

    def __init__(self, placement: ThreadPlacement) -> None:
        self._placement = placement
        self._another_follows = False
        """Whether another rebalance follows in any case, so that tasks need not stay with their owners."""

    def place(self, threads: InstanceThreads, tasks: Bucketed) -> dict[MemberId, Bucketed]:
        """The tasks of each thread; every thread is a key, its tasks are in order."""
        names = sorted(threads.held)
        match self._placement:
            case ThreadPlacement.TOGETHER | ThreadPlacement.KEEPING:
                dealer = Threads(threads.held)
                stateful = dealer.deal(tasks.stateful)
                copies = dealer.deal(tasks.copies)
                stateless = dealer.deal(tasks.stateless, keep=self._placement is ThreadPlacement.KEEPING)
            case ThreadPlacement.COPIES_APART:
                dealer = Threads(threads.held)
                stateful = dealer.deal(tasks.stateful)
                stateless = dealer.fill_up(tasks.stateless)
                copies = Threads(threads.held).deal(tasks.copies)
            case _:
                active = (*tasks.stateful, *tasks.stateless)
                stateful = self._sticky(names, threads, active) or _in_turn(names, active)
                stateless = {name: [] for name in names}
                copies = _in_turn(names, tasks.copies)
        return {name: Bucketed(stateful[name], copies[name], stateless[name]) for name in names}

    def _sticky(
        self, names: Sequence[MemberId], threads: InstanceThreads, tasks: Collection[TaskId]
    ) -> dict[MemberId, list[TaskId]] | None:
        """The result of ``tryStickyAndBalancedTaskAssignmentWithinClient``; None: deal in turn."""
        if self._placement is ThreadPlacement.IN_TURN or self._another_follows or threads.own_nothing:
            return None
        most = -(-len(tasks) // len(names))
        dealt: dict[MemberId, list[TaskId]] = {name: [] for name in names}
        new: list[TaskId] = []
        for task in in_order(tasks):
            owners = frozenset(threads.owned.get(task, ()))
            if not owners:
                new.append(task)
                continue
            owner = min(owners)
            if len(owners) > 1 or owner not in dealt or len(dealt[owner]) == most:
                self._another_follows = True
                return None
            dealt[owner].append(task)
        while new:
            for name in names:
                if new and len(dealt[name]) < most:
                    dealt[name].append(new.pop(0))
        return {name: sorted(given) for name, given in dealt.items()}


def _in_turn(names: Sequence[MemberId], tasks: Collection[TaskId]) -> dict[MemberId, list[TaskId]]:
    """The result of ``interleaveTasksByGroupId``."""
    ordered = in_order(tasks)
    return {name: ordered[number :: len(names)] for number, name in enumerate(names)}


class Threads:
    """The threads of one instance while its tasks are dealt.

    Args:
        held: thread -> its tasks in any role, smallest lag first; every thread is a key.
    """

    def __init__(self, held: Mapping[MemberId, Sequence[TaskId]]) -> None:
        self._held = held
        self._threads = sorted(held)
        self._load = dict.fromkeys(self._threads, 0)

    def deal(self, bucket: Collection[TaskId], *, keep: bool = True) -> dict[MemberId, list[TaskId]]:
        """The tasks of each thread; every thread is a key, its tasks are in order. ``keep``: tasks stay if possible."""
        share = (sum(self._load.values()) + len(bucket)) // len(self._threads)
        dealt: dict[MemberId, list[TaskId]] = {thread: [] for thread in self._threads}
        left = dict.fromkeys(in_order(bucket))
        too_many: dict[TaskId, MemberId] = {}

        def give(task: TaskId, thread: MemberId) -> None:
            del left[task]
            dealt[thread].append(task)
            self._load[thread] += 1

        for thread in self._threads if keep else ():
            for task in self._held[thread]:
                if task in left and self._load[thread] < share:
                    give(task, thread)
                elif task in left:
                    too_many[task] = thread
        short = [thread for thread in self._threads if self._load[thread] < share]
        while short and left:
            thread = short.pop(0)
            give(next(iter(left)), thread)
            if self._load[thread] < share:
                short.append(thread)
        for task in in_order(too_many):
            if task in left and self._load[too_many[task]] == share:
                give(task, too_many[task])
        for task in list(left):
            give(task, min(self._threads, key=lambda thread: (self._load[thread], thread)))
        return {thread: sorted(tasks) for thread, tasks in dealt.items()}

    def fill_up(self, bucket: Collection[TaskId]) -> dict[MemberId, list[TaskId]]:
        """The tasks of each thread: first to threads with fewer tasks than others, then in turn, regardless of owners.

        Source: 2.6.3.
        """
        most = max(self._load.values())
        turns = [thread for thread in self._threads if self._load[thread] < most]
        dealt: dict[MemberId, list[TaskId]] = {thread: [] for thread in self._threads}
        for task in in_order(bucket):
            turns = turns or list(self._threads)
            thread = turns.pop(0)
            dealt[thread].append(task)
            self._load[thread] += 1
        return dealt
