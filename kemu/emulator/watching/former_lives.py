"""Brokers that still host a partition of a deleted topic (part of the panel).

A StopReplica may be lost with its controller. StopReplica is not sent at all if the controller no longer considers
the broker a replica. No controller repeats the request, so the broker remains leader or follower of a log that the
cluster has
deleted. If a topic of that name is created again, clients with old metadata may write to that log and read from it. The
broker refuses a LeaderAndIsr of the new topic with another topic id (INCONSISTENT_TOPIC_ID, KIP-516). The broker obeys
a LeaderAndIsr without a topic id if its leader epoch is higher.

The actions of such a broker concern only the deleted log, not the topic that exists now.

Source: Kafka 3.4 ``RequestSendThread`` (its queue ends with its controller); ``ReplicaManager`` with ZooKeeper (does
not look for stray replicas at the start; ``hasConsistentTopicId``); ``KafkaApis.handleProduceRequest``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.protocol.names import ActorName, TopicPartition, host_of
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, ReplicaStopped


class FormerLives:
    """All such brokers. The handlers of this class run before all others of the panel.

    Args:
        states: the panel's partition states.
    """

    def __init__(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._states = states
        self._deleted: dict[TopicPartition, None] = {}
        """Partitions that were deleted at some time."""
        self._in: dict[tuple[ActorName, TopicPartition], None] = {}
        """(broker, partition) of brokers that host a deleted log."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._takes_part,
            BecameFollower: self._takes_part,
            ReplicaStopped: self._stopped,
            HostDown: self._down,
        }

    def has(self, actor: ActorName, at: TopicPartition) -> bool:
        """Whether the broker's log of this partition belongs to a deleted topic."""
        return bool(self._in) and (actor, at) in self._in

    def deleted(self, at: TopicPartition, holders: Iterable[ActorName]) -> None:
        """The store has deleted the partition; these brokers host it."""
        self._deleted[at] = None
        self._in.update(dict.fromkeys((holder, at) for holder in holders))

    def _takes_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        """The store knows a leader epoch before brokers do. An epoch that the store does not have belongs to a deleted
        topic.
        """
        at = (fact.topic, fact.partition)
        if at not in self._deleted:
            return
        state = self._states.get(at)
        if state is None or fact.leader_epoch > state.leader_epoch:
            self._in[seen.actor, at] = None
        else:
            self._in.pop((seen.actor, at), None)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        self._in.pop((seen.actor, (fact.topic, fact.partition)), None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        """A broker that starts hosts nothing until it gets a LeaderAndIsr."""
        for key in [key for key in self._in if host_of(key[0]) == fact.host]:
            del self._in[key]
