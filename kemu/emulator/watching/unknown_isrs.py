"""ISRs in the store of which the controller that wrote them does not know (a part of the panel).

A controller that is asked for an ISR (AlterIsr) writes the state node. If the answer is lost with its connection, it
writes again, and is refused for the version that its own first write made. Kafka's controller does not read then what
is there: it goes on with what it knew, tells brokers that, and answers INVALID_UPDATE_VERSION. The leader waits then,
with both outcomes possible, until it leads in another epoch; it asks for nothing any more.

* What the controller tells of the ISR is wrong until another one is elected, which reads all states.
* The ISR stays as it is until the controller writes the state again (an election, a broker that goes, a step of a
  reassignment: these read first), or the leader hears from another controller that its ISR is there already.

Source: Kafka 2.7 to 3.9: ``KafkaController.processAlterIsr`` (since 3.2 ``tryProcessAlterPartition``: only partitions
that were written are read again), ``KafkaZkClient.updateLeaderAndIsr`` and ``retryRequestsUntilConnected`` (a retried
write), ``Partition.handleAlterIsrResponse`` (since 3.2 ``handleAlterPartitionError``), ``ReplicaManager``
(a LeaderAndIsr of the same leader epoch is ignored).
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
    """One of them, in one leader epoch."""

    __slots__ = ("leader_waits", "outlived_us", "told")

    def __init__(self, told: tuple[int, ...]) -> None:
        self.told = told
        """The ISR that the controller takes for the one in the store."""
        self.outlived_us: int | None = None
        """When another controller was elected, which knows better; None: not yet."""
        self.leader_waits = False
        """Whether the leader was answered INVALID_UPDATE_VERSION."""


class UnknownIsrs:
    """``states``: the panel's; its handlers run before the panel takes the fact."""

    def __init__(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._states = states
        self._of: dict[TopicPartition, UnknownIsr] = {}
        self._controller_epoch = 0
        """Of the newest controller."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            IsrWriteRefused: self._refused,
            IsrChangePending: self._pending,
            IsrChanged: self._known,
            BecameLeader: self._known,
            BecameController: self._elected,
            NodeWritten: self._written,
        }

    def of(self, at: TopicPartition) -> UnknownIsr | None:
        """The partition's, if there is one now."""
        return self._of.get(at)

    def _refused(self, seen: Seen, fact: IsrWriteRefused) -> None:
        """If the store has just what was to be written, this controller wrote it: states tell their controller."""
        at = (fact.topic, fact.partition)
        asked = PartitionState(fact.leader, fact.leader_epoch, fact.isr, fact.controller_epoch)
        if fact.controller_epoch >= self._controller_epoch and self._states.get(at) == asked:
            self._of[at] = UnknownIsr(fact.known_isr)

    def _pending(self, seen: Seen, fact: IsrChangePending) -> None:
        unknown, state = self._of.get((fact.topic, fact.partition)), self._states.get((fact.topic, fact.partition))
        if unknown is not None and state is not None and fact.leader_epoch == state.leader_epoch:
            unknown.leader_waits = fact.why == ErrorCode.INVALID_UPDATE_VERSION.name

    def _known(self, seen: Seen, fact: IsrChanged | BecameLeader) -> None:
        """The leader knows of an ISR that was written, or begins anew: it waits no more."""
        unknown = self._of.get((fact.topic, fact.partition))
        if unknown is not None:
            unknown.leader_waits = False

    def _elected(self, seen: Seen, fact: BecameController) -> None:
        self._controller_epoch = max(self._controller_epoch, fact.controller_epoch)
        for unknown in self._of.values():
            if unknown.outlived_us is None:
                unknown.outlived_us = seen.at_us

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if self._of:
            at = partition_of_state(fact.path)
            if at is not None:
                self._of.pop(at, None)
