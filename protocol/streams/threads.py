"""Which of an instance's threads gets which of its tasks.

Tasks come in buckets (with state, copies, without state) that are dealt one after the other and share the threads'
loads. In a bucket a task first stays on the thread that has it while that has less than its share; the others go in
turn to threads that have less than theirs; what is left makes up the shares that are larger by one, on the threads that
have them first.

Source: Kafka's ``StreamsPartitionAssignor.assignTasksToThreads`` (3.2 and later; before, copies did not count:
KAFKA-12959).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from kemu.protocol.names import MemberId
from kemu.protocol.streams.tasks import TaskId, in_order

_Give: TypeAlias = Callable[[TaskId, MemberId], None]


class Threads:
    """The threads of one instance while its tasks are dealt.

    Args:
        held: thread -> tasks that it has in any role; every thread is a key.
    """

    def __init__(self, held: Mapping[MemberId, Collection[TaskId]]) -> None:
        self._threads = sorted(held)
        self._holder = {task: thread for thread in reversed(self._threads) for task in held[thread]}
        self._load = dict.fromkeys(self._threads, 0)

    def deal(self, bucket: Collection[TaskId]) -> dict[MemberId, list[TaskId]]:
        """Who gets which of these; every thread is a key, its tasks are in order."""
        share = (sum(self._load.values()) + len(bucket)) // len(self._threads)
        dealt: dict[MemberId, list[TaskId]] = {thread: [] for thread in self._threads}

        def give(task: TaskId, thread: MemberId) -> None:
            dealt[thread].append(task)
            self._load[thread] += 1

        rest: list[TaskId] = []
        for task in in_order(bucket):
            holder = self._holder.get(task)
            if holder is not None and self._load[holder] < share:
                give(task, holder)
            else:
                rest.append(task)
        rest = self._interleave(rest, share, give)
        for task in rest:
            holder = self._holder.get(task)
            if holder is not None and self._load[holder] == share:
                give(task, holder)
            else:
                give(task, min(self._threads, key=lambda thread: (self._load[thread], thread)))
        return {thread: sorted(tasks) for thread, tasks in dealt.items()}

    def _interleave(self, tasks: Sequence[TaskId], share: int, give: _Give) -> list[TaskId]:
        """In turn to the threads that have less than their share; what is left over."""
        left = list(tasks)
        while left:
            short = [thread for thread in self._threads if self._load[thread] < share]
            if not short:
                break
            for thread in short[: len(left)]:
                give(left.pop(0), thread)
        return left
