"""Brokers that still host a partition of a deleted topic (part of the panel).

A StopReplica may be lost with its controller. A controller that no longer considers the broker a replica sends no
StopReplica. No controller repeats the request, so the broker remains leader or follower of a log that the cluster has
deleted. If a topic with the same name is created later, clients with old metadata may write to the deleted log and read
from it. The broker refuses a LeaderAndIsr of the new topic with another topic id (INCONSISTENT_TOPIC_ID, KIP-516). The
broker executes a LeaderAndIsr without a topic id if the leader epoch is higher.

The actions of such a broker concern only the deleted log, not the present topic.

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
    """All brokers that still host a deleted partition. The handlers of this class run before all other handlers of the
    panel.

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
        """Note that the store has deleted a partition that ``holders`` host."""
        self._deleted[at] = None
        self._in.update(dict.fromkeys((holder, at) for holder in holders))

    def _takes_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        """Note a broker's role. A leader epoch that the store lacks belongs to a deleted topic, because the store knows
        each epoch first.
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
        """Forget a broker that is down: after its start the broker hosts nothing until a LeaderAndIsr."""
        for key in [key for key in self._in if host_of(key[0]) == fact.host]:
            del self._in[key]
