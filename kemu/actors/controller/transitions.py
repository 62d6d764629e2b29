"""The code that the partition state machine and the replica state machine share.

A table lists the allowed previous states of each state. Other transitions are refused and noted. A transition is also
refused if it begins while the batch has requests of another transition. Source: Kafka 2.8 ``PartitionStateMachine``,
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
    """The state changes of all partitions, or of all replicas.

    Args:
        may_follow: new state -> the states that may precede it.
        phase: returns a subject's state; ``set_phase`` changes the state.
        name: a subject's name in notes.
        became: makes the note of a change from (subject, old, new).
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
        """Open a batch for transitions of these subjects. False if a batch is open; Kafka logs this error and continues
        with the next event.
        """
        try:
            self._machine.batch.begin()
        except BatchNotEmpty:
            self.refuse(subjects[0], target, BATCH_IS_OPEN)
            return False
        return True

    def allows(self, subject: Subject, target: Phase) -> bool:
        """Whether the table allows this transition; another transition is refused and noted."""
        if self._phase(subject) in self._may_follow[target]:
            return True
        self.refuse(subject, target, NO_SUCH_MOVE)
        return False

    def become(self, subject: Subject, phase: Phase) -> None:
        """Change the state, and note the change."""
        old = self._phase(subject)
        self._set_phase(subject, phase)
        if old is not phase:
            self._machine.note(self._became(subject, old.value, phase.value))

    def refuse(self, subject: Subject, target: Phase, why: str) -> None:
        """Note a refused transition; the state does not change."""
        old = self._phase(subject).value
        self._machine.note(StateChangeRefused(what=self._name(subject), old=old, new=target.value, why=why))
