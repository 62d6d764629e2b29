"""Which partitions take their next step now: the three limits over many partitions. Source: KIP-435.

An unfinished partition keeps its place until it is finished, cancelled or blocked; steps that move a leader go first.
A step that runs is never chosen again: what changes meanwhile (limits, brokers) acts on later choices alone.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from kemu.protocol.reassign.moves import Limits, ReassignmentStep

At = TypeVar("At", bound=Hashable)
"""What names a partition."""

_Place = tuple[int, int]
"""(0 if it was under way before, 1 if not; number in the order asked for): its place in the queue."""


class Batches(Generic[At]):
    """Partitions that wait, that are under way, and that are blocked.

    ``step_of(at)``: the next step of a partition, None if it is blocked. It is asked once when a partition is queued or
    has committed a step, and for all that do not run after ``look_again``.
    """

    def __init__(self, step_of: Callable[[At], ReassignmentStep | None], limits: Limits) -> None:
        self.limits = limits
        self.running: dict[At, ReassignmentStep] = {}
        self.blocked: dict[At, None] = {}
        self._step_of = step_of
        self._number: dict[At, int] = {}
        self._counter = 0
        self._idle: dict[At, None] = {}
        """They have a place and no step under way."""
        self._steps: dict[At, ReassignmentStep] = {}
        """The next step of each that is queued."""
        self._leaders: list[tuple[_Place, At]] = []
        self._others: list[tuple[_Place, At]] = []
        self._leaders_running = 0

    def __contains__(self, at: At) -> bool:
        return at in self._number

    def submit(self, at: At) -> None:
        """A partition is to be moved; behind all others. One that is there keeps its place."""
        if at not in self._number:
            self._number[at] = self._counter = self._counter + 1
            self._queue(at, was_under_way=False)

    def resume(self, at: At, step: ReassignmentStep) -> None:
        """A partition whose step runs already, as it was found: whatever the limits say now."""
        assert at not in self._number, f"{at} is there"
        self._number[at] = self._counter = self._counter + 1
        self._begin(at, step)

    def committed(self, at: At) -> None:
        """Its step is over; it keeps its place."""
        self._stop(at)
        self._idle[at] = None

    def remove(self, at: At) -> None:
        """It is finished, or nobody wants it any more."""
        self._stop(at)
        self._idle.pop(at, None)
        self.blocked.pop(at, None)
        self._steps.pop(at, None)  # what is left in a heap is passed over
        self._number.pop(at, None)

    def restart(self, at: At) -> None:
        """Its goal has changed (cancelled, overridden): what ran is dropped, its place stays."""
        had_place = at in self.running or at in self._idle
        self._stop(at)
        if had_place:
            self._idle[at] = None
        else:
            self._requeue(at)

    def look_again(self, limits: Limits | None = None) -> None:
        """Limits or brokers have changed: forget what was chosen and not begun."""
        self.limits = limits or self.limits
        for at in sorted((*self._steps, *self.blocked), key=self._number.__getitem__):
            self._requeue(at)

    def waits_for_leaders(self, at: At) -> bool:
        """Whether a partition that is queued or between two steps waits for leaders to be moved, not for a place."""
        return at in self._idle or len(self.running) + len(self._idle) < self.limits.partition_movements

    def start(self) -> list[tuple[At, ReassignmentStep]]:
        """Choose what begins now, in order; it runs from here on."""
        begun: list[tuple[At, ReassignmentStep]] = []
        for at in sorted(self._idle, key=self._number.__getitem__):
            step = self._step_of(at)
            if step is None:
                del self._idle[at]
                self.blocked[at] = None
            elif not step.moves_leader or self._leaders_running < self.limits.leader_movements:
                del self._idle[at]
                begun.append(self._begin(at, step))
        while len(self.running) + len(self._idle) < self.limits.partition_movements:
            at_next = self._pop(self._leaders) if self._leaders_running < self.limits.leader_movements else None
            if at_next is None:
                at_next = self._pop(self._others)
            if at_next is None:
                break
            begun.append(self._begin(at_next, self._steps.pop(at_next)))
        return begun

    def _begin(self, at: At, step: ReassignmentStep) -> tuple[At, ReassignmentStep]:
        self.running[at] = step
        self._leaders_running += step.moves_leader
        return at, step

    def _stop(self, at: At) -> None:
        step = self.running.pop(at, None)
        if step is not None:
            self._leaders_running -= step.moves_leader

    def _requeue(self, at: At) -> None:
        was_blocked = at in self.blocked
        self.blocked.pop(at, None)
        self._steps.pop(at, None)
        self._queue(at, was_under_way=was_blocked)

    def _queue(self, at: At, was_under_way: bool) -> None:
        step = self._step_of(at)
        if step is None:
            self.blocked[at] = None
            return
        self._steps[at] = step
        place = (not was_under_way, self._number[at])
        heappush(self._leaders if step.moves_leader else self._others, (place, at))

    def _pop(self, heap: list[tuple[_Place, At]]) -> At | None:
        """The first of a queue that still stands in it."""
        of_leaders = heap is self._leaders
        while heap:
            (_, number), at = heappop(heap)
            step = self._steps.get(at)
            if step is not None and step.moves_leader is of_leaders and self._number[at] == number:
                return at
        return None
