"""First states of partitions that the controller wrote and does not know (part of the panel).

A controller creates the state node of a new partition. If the connection loses the answer, the controller creates the
node again, and is refused (NODE_EXISTS). After the refusal Kafka's controller does not read the node. The partition
stays a new partition: the controller sends no state to brokers, and each later attempt to elect a leader is refused,
too. The partition has no leader until another controller is elected, which reads all states.

Source: Kafka 2.4 to 3.9 ``PartitionStateMachine.initializeLeaderAndIsrForPartitions``;
``KafkaZkClient.createTopicPartitionStatesRaw`` and ``retryRequestsUntilConnected`` (a retried write).
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.protocol.messages.store import StoreCode
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.nodes import partition_of_state
from kemu.protocol.notes.replication import (
    BecameController,
    LeaderElectedForPartition,
    NodeWritten,
    StateChangeRefused,
)


class UnknownStates:
    """All partitions whose first state the controller does not know."""

    def __init__(self) -> None:
        self._made_by: dict[TopicPartition, ActorName] = {}
        """Partition -> controller that created the state and has not learned so."""
        self._refused: dict[TopicPartition, None] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            NodeWritten: self._written,
            LeaderElectedForPartition: self._learned,
            StateChangeRefused: self._is_refused,
            BecameController: self._elected,
        }

    def has(self, at: TopicPartition) -> bool:
        """Whether the controller does not know the first state of the partition, which the controller wrote."""
        return at in self._refused

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = partition_of_state(fact.path)
        if at is not None:
            self._forget(at)
            if fact.what == "created":
                self._made_by[at] = fact.client

    def _learned(self, seen: Seen, fact: LeaderElectedForPartition) -> None:
        self._forget((fact.topic, fact.partition))

    def _forget(self, at: TopicPartition) -> None:
        self._made_by.pop(at, None)
        self._refused.pop(at, None)

    def _is_refused(self, seen: Seen, fact: StateChangeRefused) -> None:
        topic, _, number = fact.what.rpartition("-")
        if fact.why.endswith(StoreCode.NODE_EXISTS.name) and number.isdecimal():
            at = (topic, int(number))
            if self._made_by.get(at) == seen.actor:
                self._refused[at] = None

    def _elected(self, seen: Seen, fact: BecameController) -> None:
        self._made_by.clear()
        self._refused.clear()
