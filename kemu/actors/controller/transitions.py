"""Moves as data: what the partition and the replica state machine do alike.

A table says from where each state may be reached; a move that it does not name is refused and noted, and so is a move
that begins while requests of another are still in the batch. Source: Kafka 2.8 ``PartitionStateMachine``,
``ReplicaStateMachine`` (``validPreviousStates``).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Generic, TypeVar

from kemu.actors.controller.batch import BatchNotEmpty
from kemu.actors.controller.machine import ControllerMachine
from kemu.protocol.notes.replication import StateChangeRefused

Subject = TypeVar("Subject")
Phase = TypeVar("Phase", bound=Enum)

BATCH_IS_OPEN = "a batch is open"
NO_SUCH_MOVE = "no such move"


class Transitions(Generic[Subject, Phase]):
    """The moves of one kind of subjects.

    Args:
        may_follow: new state -> the states it may follow.
        phase: a subject's state; ``set_phase`` changes it.
        name: what a subject is called in notes.
        became: the note of a change (subject, old, new).
    """

    def __init__(
        self,
        machine: ControllerMachine,
        may_follow: Mapping[Phase, tuple[Phase, ...]],
        *,
        phase: Callable[[Subject], Phase],
        set_phase: Callable[[Subject, Phase], None],
        name: Callable[[Subject], str],
        became: Callable[[Subject, str, str], object],
    ) -> None:
        self._machine = machine
        self._may_follow = may_follow
        self._phase = phase
        self._set_phase = set_phase
        self._name = name
        self._became = became

    def begin(self, subjects: Sequence[Subject], target: Phase) -> bool:
        """Open a batch for a move of these. False: one is open; Kafka logs that and goes on with the next event."""
        try:
            self._machine.batch.begin()
        except BatchNotEmpty:
            self.refuse(subjects[0], target, BATCH_IS_OPEN)
            return False
        return True

    def allows(self, subject: Subject, target: Phase) -> bool:
        """Whether the table has this move; if not, it is refused."""
        if self._phase(subject) in self._may_follow[target]:
            return True
        self.refuse(subject, target, NO_SUCH_MOVE)
        return False

    def become(self, subject: Subject, phase: Phase) -> None:
        """Make the move."""
        old = self._phase(subject)
        self._set_phase(subject, phase)
        if old is not phase:
            self._machine.note(self._became(subject, old.value, phase.value))

    def refuse(self, subject: Subject, target: Phase, why: str) -> None:
        """It stays where it is."""
        old = self._phase(subject).value
        self._machine.note(StateChangeRefused(what=self._name(subject), old=old, new=target.value, why=why))
