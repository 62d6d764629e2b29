"""Brokers that take part in a partition of a topic that is deleted, and heard nothing of its end (a part of the panel).

A StopReplica that is lost with its controller, or sent to nobody because the broker is no replica any more as the
controller knows it, is not repeated: the broker goes on as leader or follower of a log that the cluster does not have.
If a topic of that name is created again and the broker's metadata cache has the partition, clients that take this
broker for the leader still may write to that log and read from it. A LeaderAndIsr of the new topic that says another
topic id is refused (INCONSISTENT_TOPIC_ID, KIP-516); one that says none is heeded once its leader epoch is higher.

What such a broker does is about the log of the deleted topic alone: nothing of it counts for the topic of now.

Source: Kafka 3.4 ``RequestSendThread`` (what is queued goes with its controller), ``ReplicaManager`` of brokers with
ZooKeeper (no look for stray replicas at the start; ``hasConsistentTopicId``), ``KafkaApis.handleProduceRequest``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.protocol.names import ActorName, TopicPartition, host_of
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, ReplicaStopped


class FormerLives:
    """``states``: the panel's; the handlers here run before all others of the panel."""

    def __init__(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._states = states
        self._deleted: dict[TopicPartition, None] = {}
        """Partitions that were deleted at some time."""
        self._in: dict[tuple[ActorName, TopicPartition], None] = {}
        """Who takes part in a former life of a partition."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._takes_part,
            BecameFollower: self._takes_part,
            ReplicaStopped: self._stopped,
            HostDown: self._down,
        }

    def has(self, actor: ActorName, at: TopicPartition) -> bool:
        """Whether what a broker does with a partition is about a deleted topic's."""
        return bool(self._in) and (actor, at) in self._in

    def deleted(self, at: TopicPartition, holders: Iterable[ActorName]) -> None:
        """The store has the partition no more; these brokers take part in it."""
        self._deleted[at] = None
        self._in.update(dict.fromkeys((holder, at) for holder in holders))

    def _takes_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        """The store has a leader epoch before brokers hear of it: one that it does not have yet is a former life's."""
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
        """It takes part in nothing until it is told."""
        for key in [key for key in self._in if host_of(key[0]) == fact.host]:
            del self._in[key]
