"""ISRs in the store that the controller wrote and does not know (part of the panel).

A controller that receives AlterIsr writes the state node. If the connection loses the answer, the controller writes
again and is refused, because its own first write changed the version. After the refusal Kafka's controller does not
read the node. The controller keeps its old state, sends this state to brokers, and answers INVALID_UPDATE_VERSION. The
leader waits, because both outcomes are possible, until it leads in another epoch.

- The controller reports a wrong ISR until another controller is elected, which reads all states.
- The ISR in the store stays until the controller writes the state again, or until a new controller informs the leader
  of this ISR. The controller writes, after a read, for an election, a stopping broker, or a step of a reassignment.

Source: Kafka 2.7 to 3.9 ``KafkaController.processAlterIsr`` (since 3.2 ``tryProcessAlterPartition``: only partitions
that were written are read again); ``KafkaZkClient.updateLeaderAndIsr`` and ``retryRequestsUntilConnected`` (a retried
write); ``Partition.handleAlterIsrResponse`` (since 3.2 ``handleAlterPartitionError``); ``ReplicaManager`` (ignores a
LeaderAndIsr of the same leader epoch).
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import PartitionState, partition_of_state
from kemu.protocol.notes.replication import (
    BecameController,
    BecameLeader,
    IsrChanged,
    IsrChangePending,
    IsrWriteRefused,
    NodeWritten,
)


class UnknownIsr:
    """An ISR, in one leader epoch, that the controller does not know."""

    __slots__ = ("believed_isr", "controller_replaced_us", "leader_waits")

    def __init__(self, believed_isr: tuple[int, ...]) -> None:
        self.believed_isr = believed_isr
        """The ISR that the controller believes to be in the store."""
        self.controller_replaced_us: int | None = None
        """Time at which another controller was elected and read the store, in us; None before the election."""
        self.leader_waits = False
        """Whether the leader received INVALID_UPDATE_VERSION."""


class UnknownIsrs:
    """All ISRs that the controller does not know. The handlers of this class run before the panel takes the fact.

    Args:
        states: the panel's partition states.
    """

    def __init__(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._states = states
        self._of: dict[TopicPartition, UnknownIsr] = {}
        self._controller_epoch = 0
        """Epoch of the newest controller."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            IsrWriteRefused: self._refused,
            IsrChangePending: self._pending,
            IsrChanged: self._known,
            BecameLeader: self._known,
            BecameController: self._elected,
            NodeWritten: self._written,
        }

    def of(self, at: TopicPartition) -> UnknownIsr | None:
        """The unknown ISR of a partition; None for a partition with a known ISR."""
        return self._of.get(at)

    def _refused(self, seen: Seen, fact: IsrWriteRefused) -> None:
        """Note a refused write. If the store has exactly the state to be written, the same controller has written this
        state before.
        """
        at = (fact.topic, fact.partition)
        asked = PartitionState(fact.leader, fact.leader_epoch, fact.isr, fact.controller_epoch)
        if fact.controller_epoch >= self._controller_epoch and self._states.get(at) == asked:
            self._of[at] = UnknownIsr(fact.known_isr)

    def _pending(self, seen: Seen, fact: IsrChangePending) -> None:
        unknown, state = self._of.get((fact.topic, fact.partition)), self._states.get((fact.topic, fact.partition))
        if unknown is not None and state is not None and fact.leader_epoch == state.leader_epoch:
            unknown.leader_waits = fact.why == ErrorCode.INVALID_UPDATE_VERSION.name

    def _known(self, seen: Seen, fact: IsrChanged | BecameLeader) -> None:
        """Note that the leader no longer waits, because it learned of a written ISR or began another epoch."""
        unknown = self._of.get((fact.topic, fact.partition))
        if unknown is not None:
            unknown.leader_waits = False

    def _elected(self, seen: Seen, fact: BecameController) -> None:
        self._controller_epoch = max(self._controller_epoch, fact.controller_epoch)
        for unknown in self._of.values():
            if unknown.controller_replaced_us is None:
                unknown.controller_replaced_us = seen.at_us

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if self._of:
            at = partition_of_state(fact.path)
            if at is not None:
                self._of.pop(at, None)
