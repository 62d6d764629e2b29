"""A client's view of the cluster: the leaders of partitions, and a filter for outdated answers of brokers.

Source: Kafka's ``MetadataCache`` and ``Metadata`` (``lastSeenLeaderEpochs``, ``updateLatestMetadata``), KIP-320.
"""

from array import array
from collections.abc import Callable, Sequence
from operator import ge

from kemu.actors.clients.once import OncePerValue
from kemu.protocol.assign.base import Topics
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.control import NO_TOPIC_ID
from kemu.protocol.messages.data import MetadataReply, NewLeader, PartitionMetadata, TopicMetadata
from kemu.protocol.metadata_rules import MetadataRules
from kemu.protocol.names import ActorName, TopicPartition

_NO_LEADER = -1
_NO_EPOCH = -1
_NOT_THERE = -2
"""The leader's value for an unknown partition of a topic whose higher partition numbers are known."""


@frozen
class TopicLayout:
    """Leaders, epochs and replicas of a topic's partitions by number, in a compact form for many clients.

    ``replicas`` is empty while no broker has a rack, since only rack-aware assignors need the replicas.
    """

    leaders: "array[int]"
    """The node ids of the leaders; negative: no leader."""
    epochs: "array[int]"
    replicas: tuple[tuple[int, ...], ...]
    topic_id: str
    count: int
    """The number of known partitions. Source: ``Cluster.partitionCountForTopic``."""


@frozen
class KnownCluster:
    """The content of the last Metadata response about the requested topics.

    Partitions with a newer known epoch keep their former entry.
    """

    brokers: dict[int, ActorName]
    racks: dict[int, str]
    topics: dict[str, TopicLayout]

    def leader_of(self, topic: str, partition: int) -> tuple[ActorName | None, int]:
        """(address of a partition's leader, its epoch); the address is None if the leader is unknown."""
        layout = self.topics.get(topic)
        if layout is None or partition >= len(layout.leaders):
            return None, _NO_EPOCH
        return self.brokers.get(layout.leaders[partition]), layout.epochs[partition]

    def seen_by_assignor(self, names: tuple[str, ...]) -> Topics:
        """The topics as assignors see them: partition counts and, if brokers have racks, the racks of the replicas."""
        known = {name: self.topics[name] for name in names if name in self.topics}
        racks = None
        if self.racks:
            racks = {
                name: tuple(
                    tuple(dict.fromkeys(self.racks[node] for node in replicas if node in self.racks))
                    for replicas in layout.replicas
                )
                for name, layout in known.items()
            }
        return Topics({name: layout.count for name, layout in known.items()}, racks)


NOTHING_KNOWN = KnownCluster({}, {}, {})


class LastSeen:
    """The highest leader epoch that a client has seen of each partition, while it is interested in the topic.

    This class stores only epochs that are not in ``KnownCluster``. These are epochs of topics missing from the last
    response, and newer epochs from sources other than metadata.
    """

    def __init__(self, rules: MetadataRules) -> None:
        self._rules = rules
        self._epochs: dict[str, array[int]] = {}
        self._ids: dict[str, str] = {}
        """The ids of topics without a usable partition in the last response."""

    def current_leader(self, cluster: KnownCluster, topic: str, partition: int) -> tuple[ActorName | None, int]:
        """(address of a partition's leader, highest epoch seen).

        The address is None if the leader is unknown, or older than the highest epoch.
        Source: ``Metadata.currentLeader``, ``partitionMetadataIfCurrent``.
        """
        leader, epoch = cluster.leader_of(topic, partition)
        if topic in self._epochs:
            seen = _at(self._epochs[topic], partition)
            if seen > epoch:
                return None, seen
        return leader, epoch

    def saw(self, cluster: KnownCluster, topic: str, partition: int, epoch: int) -> bool:
        """Record a leader epoch. Returns whether the epoch is the highest so far, so that the metadata is outdated.

        Source: ``Metadata.updateLastSeenEpochIfNewer``.
        """
        if self.current_leader(cluster, topic, partition)[1] in range(epoch):
            newer = list(self._seen_of(cluster, topic) or ())
            newer[partition] = epoch
            self._epochs[topic] = _compact(newer)
            return True
        return False

    def learned(
        self, known: KnownCluster, reply: MetadataReply, version: int, is_retained: Callable[[str], bool]
    ) -> KnownCluster:
        """The new view of the cluster after a Metadata response, without topics that have an error.

        A partition with an older epoch than the highest seen keeps its former entry, or is omitted without a former
        entry.
        Source: ``Metadata.handleMetadataResponse``, ``updateLatestMetadata``.
        """
        brokers, racks = _brokers_once(reply)
        reliable = version >= self._rules.epochs_since
        topics: dict[str, TopicLayout] = {}
        ids: dict[str, str] = {}
        epochs: dict[str, array[int]] = {}
        for topic in reply.topics:
            if topic.error is not ErrorCode.NONE:
                continue
            name = topic.topic
            layout = _layout_once(topic, bool(racks), reliable)
            before, seen = known.topics.get(name), self._seen_of(known, name)
            if seen is not None and reliable:
                recreated = topic.topic_id not in (NO_TOPIC_ID, self._former_id(name, before))
                if not (recreated and self._rules.new_topic_ids_reset_epochs):
                    layout = _newest(layout, before, seen)
                else:
                    seen = _reset(layout, seen)
                if not _none_older(layout.epochs, seen):
                    epochs[name] = _highest(layout.epochs, seen)
            if layout.count:
                topics[name] = layout
            else:
                ids[name] = topic.topic_id
        for name in (*self._epochs, *known.topics):
            unlisted = self._seen_of(known, name) if name not in topics and name not in epochs else None
            if unlisted is not None and is_retained(name):
                epochs[name] = unlisted
        self._epochs, self._ids = epochs, ids
        return KnownCluster(brokers, racks, topics)

    def moved(
        self, known: KnownCluster, leaders: Sequence[NewLeader]
    ) -> tuple[KnownCluster, tuple[TopicPartition, ...]]:
        """The view of the cluster with newer leaders that a broker's errors name, and their partitions.

        Source: ``Metadata.updatePartitionLeadership`` (3.7 to 4.3).
        """
        brokers, topics = dict(known.brokers), dict(known.topics)
        moved: list[TopicPartition] = []
        for new in leaders:
            if new.broker is not None:
                brokers[new.broker.node_id] = new.broker.host
        for new in leaders:
            layout, number = topics.get(new.topic), new.partition
            is_known = layout is not None and number < len(layout.leaders) and layout.leaders[number] != _NOT_THERE
            newest = self.current_leader(known, new.topic, number)[1]
            if layout is None or not is_known or new.leader_epoch <= newest or new.leader_id not in brokers:
                continue
            ids, epochs = list(layout.leaders), list(layout.epochs)
            ids[number], epochs[number] = new.leader_id, new.leader_epoch
            topics[new.topic] = _laid_out(ids, epochs, layout.replicas, layout.topic_id)
            moved.append((new.topic, number))
        return KnownCluster(brokers, known.racks, topics) if moved else known, tuple(moved)

    def _seen_of(self, known: KnownCluster, topic: str) -> "array[int] | None":
        if topic in self._epochs:
            return self._epochs[topic]
        return known.topics[topic].epochs if topic in known.topics else None

    def _former_id(self, topic: str, before: TopicLayout | None) -> str:
        """The topic's id in the last response; none if the topic was missing. Source: ``MetadataCache.topicIds``."""
        return before.topic_id if before is not None else self._ids.get(topic, NO_TOPIC_ID)


def _brokers(reply: MetadataReply) -> tuple[dict[int, ActorName], dict[int, str]]:
    """The addresses of the brokers, and their racks."""
    racks = {broker.node_id: broker.rack for broker in reply.brokers if broker.rack}
    return {broker.node_id: broker.host for broker in reply.brokers}, racks


_brokers_once = OncePerValue(_brokers)


def _layout(topic: TopicMetadata, racks: bool, reliable: bool) -> TopicLayout:
    rows = sorted(topic.partitions, key=_number)
    if rows and rows[-1].partition >= len(rows):
        listed = {row.partition: row for row in rows}
        rows = [listed.get(number) or _unknown(number) for number in range(rows[-1].partition + 1)]
    return _laid_out(
        [row.leader for row in rows],
        [row.leader_epoch if reliable else _NO_EPOCH for row in rows],
        tuple(row.replicas for row in rows) if racks else (),
        topic.topic_id,
    )


def _laid_out(
    leaders: list[int], epochs: list[int], replicas: tuple[tuple[int, ...], ...], topic_id: str
) -> TopicLayout:
    count = len(leaders) - leaders.count(_NOT_THERE)
    return TopicLayout(_compact(leaders), _compact(epochs), replicas, topic_id, count)


_layout_once = OncePerValue(_layout)
"""``_layout`` with shared results: clients share layouts, whose arrays never change."""


def _unknown(number: int) -> PartitionMetadata:
    return PartitionMetadata(error=ErrorCode.NONE, partition=number, leader=_NOT_THERE, replicas=(), isr=())


def _newest(answer: TopicLayout, before: TopicLayout | None, seen: "array[int]") -> TopicLayout:
    """The response's layout with the former entry of each partition whose epoch in the response is outdated."""
    if _none_older(answer.epochs, seen):
        return answer
    leaders, epochs, replicas = list(answer.leaders), list(answer.epochs), list(answer.replicas)
    for number, epoch in enumerate(answer.epochs):
        if epoch >= _at(seen, number) or leaders[number] == _NOT_THERE:
            continue
        if before is not None and number < len(before.leaders):
            leaders[number], epochs[number] = before.leaders[number], before.epochs[number]
            if replicas and before.replicas:
                replicas[number] = before.replicas[number]
        else:
            leaders[number], epochs[number] = _NOT_THERE, _NO_EPOCH
    return _laid_out(leaders, epochs, tuple(replicas), answer.topic_id)


def _reset(answer: TopicLayout, seen: "array[int]") -> "array[int]":
    """Per partition the epoch in the response; the last epoch seen if the partition is missing from the response."""
    epochs = list(answer.epochs)
    for number in range(len(seen)):
        if number >= len(epochs):
            epochs.append(seen[number])
        elif answer.leaders[number] == _NOT_THERE:
            epochs[number] = seen[number]
    return _compact(epochs)


def _none_older(answer: "array[int]", seen: "array[int]") -> bool:
    return answer is seen or (len(answer) >= len(seen) and all(map(ge, answer, seen)))


def _highest(answer: "array[int]", seen: "array[int]") -> "array[int]":
    return _compact([max(_at(answer, number), _at(seen, number)) for number in range(max(len(answer), len(seen)))])


def _at(epochs: "array[int]", number: int) -> int:
    return epochs[number] if number < len(epochs) else _NO_EPOCH


def _compact(numbers: list[int]) -> "array[int]":
    """An array of node ids or epochs. These numbers are usually small, so one byte each is enough."""
    small = not numbers or (min(numbers) >= -128 and max(numbers) < 128)
    return array("b" if small else "i", numbers)


def _number(partition: PartitionMetadata) -> int:
    return partition.partition
