"""A broker's answers about the cluster and the partitions that it leads (a part of every broker).

The requests are Metadata, FindCoordinator, ListOffsets and DescribeCluster. Leaders are known from the controller's
``UpdateMetadata`` or, without replication, from a ``ClusterView``. A topic's metadata is built once per view of the
cluster.
"""

from collections.abc import Callable, Iterable, Mapping

from kemu.actors.broker.consumer_fetches import Readable
from kemu.actors.broker.metadata_cache import cached, topics_after
from kemu.actors.injection import Injections
from kemu.actors.machine import Machine, Received
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import NO_TOPIC_ID, DescribeClusterReply, DescribedBroker, UpdateMetadata
from kemu.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BrokerMetadata,
    InitProducerIdReply,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    OffsetAnswer,
    OffsetQuestion,
    TopicMetadata,
)
from kemu.protocol.messages.group import FindCoordinator, FindCoordinatorReply
from kemu.protocol.messages.negotiation import versions_reply
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.names import OFFSETS_TOPIC, TopicPartition, broker_host, coordinator_on, offsets_partition_of
from kemu.protocol.notes.replication import MetadataCached

_OFFSET_NOT_AVAILABLE_SINCE = 5
"""The first version of ListOffsets with OFFSET_NOT_AVAILABLE (KIP-207)."""
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""The key types of FindCoordinator; this broker has no coordinator of transactions."""
IDS_OF_A_LIFE, LIVES_OF_A_NODE = 1_000_000, 100_000
"""Each start of a broker's process has a range of producer ids of its own. In Kafka, the controller assigns blocks of
1,000 ids (KIP-730)."""


class ClusterAnswers:
    """A broker's answers about the cluster. ``versions``: the broker's message versions."""

    def __init__(
        self, machine: Machine, injections: Injections, versions: SpokenVersions, node_id: int, life: int
    ) -> None:
        self._machine = machine
        self._injections = injections
        self._versions = versions
        self.brokers: tuple[BrokerMetadata, ...] = ()
        """The live brokers."""
        self.topics: dict[str, TopicMetadata] = {}
        self.offsets_leaders: tuple[int, ...] = ()
        """The node id of the leader of each partition of ``__consumer_offsets``, -1 without a leader."""
        self.controller_id = -1
        self._last_producer_id = (node_id * LIVES_OF_A_NODE + life) * IDS_OF_A_LIFE
        self._last_metadata = MetadataReply(brokers=(), controller_id=-1, topics=())
        """The last Metadata response. An equal response is the same object, so that it is encoded only once."""
        self.no_offsets_topic: Callable[[], None] | None = None
        """The action for a FindCoordinator without an offsets topic; None: the topic always exists."""

    def update(self, request: UpdateMetadata) -> None:
        """Apply the controller's UpdateMetadata."""
        self.controller_id = request.controller_id
        self.brokers = tuple(
            BrokerMetadata(node_id=broker.id, host=broker.host, rack=broker.rack) for broker in request.live_brokers
        )
        self.topics = topics_after(self.topics, request)
        topics, absent = cached(self.topics, request)
        live = tuple(broker.id for broker in request.live_brokers)
        self._machine.note(MetadataCached(live_brokers=live, topics=topics, gone=absent))
        offsets = self.topics.get(OFFSETS_TOPIC)
        self.offsets_leaders = (
            tuple(row.leader if row.error is ErrorCode.NONE else -1 for row in offsets.partitions)
            if offsets is not None
            else ()
        )

    def api_versions(self, event: Received) -> None:
        """Answer ApiVersions, even before the broker knows the cluster."""
        self._machine.reply(event, versions_reply(self._versions))

    def knows(self, topic: str, partition: int) -> bool:
        """Whether the cluster has this partition, according to the last metadata."""
        known = self.topics.get(topic)
        if known is None:
            return False
        rows = known.partitions
        is_at_its_index = 0 <= partition < len(rows) and rows[partition].partition == partition
        return is_at_its_index or any(row.partition == partition for row in rows)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """(leader, leader epoch) of a partition in the last metadata; -1 for an unknown partition."""
        known = self.topics.get(topic)
        rows = known.partitions if known is not None else ()
        return next(((row.leader, row.leader_epoch) for row in rows if row.partition == partition), (-1, -1))

    def broker(self, node_id: int) -> BrokerMetadata | None:
        """A live broker in the last metadata."""
        return next((broker for broker in self.brokers if broker.node_id == node_id), None)

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """The error for a partition that this broker lacks. Source: Kafka's ``ReplicaManager.getPartitionOrError``."""
        if self.knows(topic, partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def metadata(self, event: Received) -> None:
        """Answer a Metadata request."""
        request: Metadata = event.message
        asked = self.topics if request.topics is None else request.topics
        error = self._injections.take("Metadata", event.peer)
        topics = tuple(
            self.topics.get(topic) or _no_topic(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if error is None
            else _no_topic(topic, error)
            for topic in asked
        )
        if request.topic_ids:
            topics += self._topics_by_id(request.topic_ids, error)
        reply = MetadataReply(brokers=self.brokers, controller_id=self.controller_id, topics=topics)
        if reply == self._last_metadata:
            reply = self._last_metadata
        self._last_metadata = reply
        self._machine.reply(event, reply)

    def _topics_by_id(self, wanted: Iterable[str], error: ErrorCode | None) -> tuple[TopicMetadata, ...]:
        """A row for each id. Source: ``KafkaApis.handleTopicMetadataRequest`` (3.4)."""
        known = {topic.topic_id: topic for topic in self.topics.values() if topic.topic_id}
        return tuple(
            known.get(topic_id) or _no_topic("", ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
            if error is None
            else _no_topic("", error, topic_id)
            for topic_id in wanted
        )

    def describe_cluster(self, event: Received) -> None:
        """Answer DescribeCluster. Source: ``KafkaApis.handleDescribeCluster`` (3.4)."""
        error = self._injections.take("DescribeCluster", event.peer)
        if error is not None:
            self._machine.reply(event, DescribeClusterReply(error_code=error))
            return
        brokers = tuple(
            DescribedBroker(broker_id=each.node_id, host=each.host, rack=each.rack) for each in self.brokers
        )
        reply = DescribeClusterReply(error_code=ErrorCode.NONE, controller_id=self.controller_id, brokers=brokers)
        self._machine.reply(event, reply)

    def init_producer_id(self, event: Received) -> None:
        """Answer InitProducerId with a new producer id; refuse transactions.

        Source: ``TransactionCoordinator.handleInitProducerId`` (3.4): without a transactional id,
        each request gets a new id of epoch 0.
        """
        error = self._injections.take("InitProducerId", event.peer)
        if error is None and event.message.transactional_id is not None:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if error is not None:
            self._machine.reply(event, InitProducerIdReply(error=error))
            return
        self._last_producer_id += 1
        reply = InitProducerIdReply(error=ErrorCode.NONE, producer_id=self._last_producer_id, producer_epoch=0)
        self._machine.reply(event, reply)

    def find_coordinator(self, event: Received) -> None:
        """Answer a FindCoordinator request."""
        request: FindCoordinator = event.message
        error = self._injections.take("FindCoordinator", event.peer)
        if error is None and request.key_type == TRANSACTION_KEY:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if error is None:
            node = -1
            if request.key_type == GROUP_KEY and self.offsets_leaders:
                node = self.offsets_leaders[offsets_partition_of(request.key, len(self.offsets_leaders))]
            if node >= 0:
                reply = FindCoordinatorReply(error=ErrorCode.NONE, node_id=node, host=coordinator_on(broker_host(node)))
                self._machine.reply(event, reply)
                return
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if self.no_offsets_topic is not None and OFFSETS_TOPIC not in self.topics:
                self.no_offsets_topic()
        self._machine.reply(event, FindCoordinatorReply(error=error, node_id=-1, host=""))

    def list_offsets(self, event: Received, partitions: Mapping[TopicPartition, Readable]) -> None:
        """Answer a ListOffsets request from the partitions that this broker leads."""
        request: ListOffsets = event.message
        error = self._injections.take("ListOffsets", event.peer)
        answers = tuple(
            self._offset(question, partitions, event) if error is None else no_offset(question, error)
            for question in request.questions
        )
        self._machine.reply(event, ListOffsetsReply(answers=answers))

    def _offset(
        self, question: OffsetQuestion, partitions: Mapping[TopicPartition, Readable], event: Received
    ) -> OffsetAnswer:
        at = (question.topic, question.partition)
        hosted = partitions.get(at)
        if hosted is None:
            return no_offset(question, self.absent(*at))
        error = hosted.epoch_error(question.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return no_offset(question, error)
        log = hosted.log
        found: tuple[int, int] | None
        match question.timestamp_ms:
            case timestamp if timestamp == LATEST_TIMESTAMP and event.message.replica_id >= 0:
                found = (-1, log.end_offset)
            case timestamp if timestamp == LATEST_TIMESTAMP:
                found = (-1, log.high_watermark) if not hosted.may_be_behind else None
            case timestamp if timestamp == EARLIEST_TIMESTAMP:
                found = (-1, log.start_offset)
            case timestamp if timestamp < 0:
                return no_offset(question, ErrorCode.UNSUPPORTED_VERSION)  # KIP-734, KIP-405: not supported
            case timestamp:
                found = log.offset_at(timestamp)
        if found is None:
            return no_offset(question, _unknown_yet(event.version) if hosted.may_be_behind else ErrorCode.NONE)
        return OffsetAnswer(
            topic=question.topic,
            partition=question.partition,
            error=ErrorCode.NONE,
            timestamp_ms=found[0],
            offset=found[1],
            leader_epoch=hosted.leader_epoch,
        )


def _unknown_yet(version: int) -> ErrorCode:
    """The retriable error for an offset that may be above the new leader's high watermark. Source: KIP-207,
    ``KafkaApis``.
    """
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= _OFFSET_NOT_AVAILABLE_SINCE else ErrorCode.LEADER_NOT_AVAILABLE


def no_offset(question: OffsetQuestion, error: ErrorCode) -> OffsetAnswer:
    """The answer to one question of ListOffsets with an error and no offset."""
    return OffsetAnswer(topic=question.topic, partition=question.partition, error=error)


def _no_topic(topic: str, error: ErrorCode, topic_id: str = NO_TOPIC_ID) -> TopicMetadata:
    return TopicMetadata(error=error, topic=topic, topic_id=topic_id, partitions=())
