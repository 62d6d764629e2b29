"""The choice of the partitions that begin their next step, under three limits. Source: KIP-435.

An unfinished partition keeps its place until it is finished, cancelled or blocked. Its next step begins before the
steps of queued partitions. Among the queued partitions, partitions whose step moves a leader are first. A running
step is never chosen a second time: changes of limits or brokers affect only later choices. If the limit of partitions
was lowered, the next steps of started partitions wait until fewer steps run.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from kemu.protocol.reassign.moves import Limits, ReassignmentStep, StepKind

At = TypeVar("At", bound=Hashable)
"""The identifier of a partition."""

_Place = tuple[int, int]
"""A place in the queue: (0 for a partition that was started before, else 1; its number in the order of requests)."""


class Batches(Generic[At]):
    """The waiting, started and blocked partitions.

    ``step_of(at)``: the next step of a partition, None for a blocked partition. ``step_of`` is called when a partition
    is queued, has committed a step, or may begin, and for all idle partitions after ``reconsider``.
    """

    def __init__(self, step_of: Callable[[At], ReassignmentStep | None], limits: Limits) -> None:
        self.limits = limits
        self.running: dict[At, ReassignmentStep] = {}
        self.blocked: dict[At, None] = {}
        self._step_of = step_of
        self._number: dict[At, int] = {}
        self._counter = 0
        self._started: set[At] = set()
        self._idle: dict[At, None] = {}
        """Started partitions without a running step."""
        self._steps: dict[At, ReassignmentStep] = {}
        """The next step of each queued partition."""
        self._leaders: list[tuple[_Place, At]] = []
        self._others: list[tuple[_Place, At]] = []
        self._leaders_running = 0

    def __contains__(self, at: At) -> bool:
        return at in self._number

    def submit(self, at: At) -> None:
        """Queue a partition for its reassignment, behind all others. A known partition keeps its place."""
        if at not in self._number:
            self._number[at] = self._counter = self._counter + 1
            self._queue(at)

    def resume(self, at: At, step: ReassignmentStep) -> None:
        """Add a partition whose step already runs, regardless of the limits."""
        assert at not in self._number, f"{at} is queued already"
        self._number[at] = self._counter = self._counter + 1
        self._begin(at, step)

    def committed(self, at: At) -> None:
        """The partition's running step is committed; the partition keeps its place."""
        self._stop(at)
        self._idle[at] = None

    def remove(self, at: At) -> None:
        """Remove a finished or cancelled partition."""
        self._stop(at)
        self._idle.pop(at, None)
        self.blocked.pop(at, None)
        self._steps.pop(at, None)  # the entries in a heap are skipped later
        self._number.pop(at, None)
        self._started.discard(at)

    def restart(self, at: At) -> None:
        """Drop the running step of a partition whose target has changed (cancelled, overridden); keep its place."""
        had_place = at in self.running or at in self._idle
        self._stop(at)
        if had_place:
            self._idle[at] = None
        else:
            self._requeue(at)

    def reconsider(self, limits: Limits | None = None) -> None:
        """Choose again among the steps that have not begun, because limits or brokers have changed."""
        self.limits = limits or self.limits
        for at in sorted((*self._steps, *self.blocked), key=self._number.__getitem__):
            self._requeue(at)

    def waits_for_leaders(self, at: At) -> bool:
        """Whether a queued or idle partition waits for the limit of leader movements, not for the limit of
        partitions.
        """
        begun = self.running if at in self._idle else (*self.running, *self._idle)
        return len(begun) < self.limits.partition_movements

    def start(self) -> list[tuple[At, ReassignmentStep]]:
        """Choose the steps that begin now, in order, and mark these steps as running."""
        begun: list[tuple[At, ReassignmentStep]] = []
        for at in sorted(self._idle, key=self._number.__getitem__):
            step = self._step_of(at)
            if step is None:
                del self._idle[at]
                self.blocked[at] = None
            elif self._may_continue(step):
                del self._idle[at]
                begun.append(self._begin(at, step))
        while len(self.running) + len(self._idle) < self.limits.partition_movements:
            at_next = self._pop(self._leaders) if self._leaders_running < self.limits.leader_movements else None
            if at_next is None:
                at_next = self._pop(self._others)
            if at_next is None:
                break
            # The brokers and the ISR may have changed since the partition was queued.
            self._requeue(at_next)
            step = self._steps.get(at_next)
            if step is not None and (not step.moves_leader or self._leaders_running < self.limits.leader_movements):
                begun.append(self._begin(at_next, self._steps.pop(at_next)))
        return begun

    def _may_continue(self, step: ReassignmentStep) -> bool:
        """Whether a started partition may begin its next step. A step that only corrects the order ends at once."""
        has_room = step.kind is StepKind.REORDER or len(self.running) < self.limits.partition_movements
        return has_room and (not step.moves_leader or self._leaders_running < self.limits.leader_movements)

    def _begin(self, at: At, step: ReassignmentStep) -> tuple[At, ReassignmentStep]:
        self.running[at] = step
        self._started.add(at)
        self._leaders_running += step.moves_leader
        return at, step

    def _stop(self, at: At) -> None:
        step = self.running.pop(at, None)
        if step is not None:
            self._leaders_running -= step.moves_leader

    def _requeue(self, at: At) -> None:
        self.blocked.pop(at, None)
        self._steps.pop(at, None)
        self._queue(at)

    def _queue(self, at: At) -> None:
        step = self._step_of(at)
        if step is None:
            self.blocked[at] = None
            return
        self._steps[at] = step
        place = (at not in self._started, self._number[at])
        heappush(self._leaders if step.moves_leader else self._others, (place, at))

    def _pop(self, heap: list[tuple[_Place, At]]) -> At | None:
        """The first valid entry of a queue, removed from the queue."""
        of_leaders = heap is self._leaders
        while heap:
            (_, number), at = heappop(heap)
            step = self._steps.get(at)
            if step is not None and step.moves_leader is of_leaders and self._number[at] == number:
                return at
        return None
