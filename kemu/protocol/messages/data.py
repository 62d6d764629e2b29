"""Messages about records, metadata and offsets, between clients and brokers.

Records have no payload: a batch is a base offset, a count and an append time. All records of a topic have the size
``record_bytes``. So lag, duplicates and losses are exact, and millions of records cost little.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import FINAL_EPOCH, NO_FETCH_SESSION
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since, struct

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
TOPIC_IDS_SINCE = 13
"""The first version of kemu's Metadata request with topic ids."""
PRODUCE_NAMES_LEADERS_SINCE, FETCH_NAMES_LEADERS_SINCE = 10, 16
"""The first versions of Produce and Fetch whose errors name new leaders (KIP-951)."""
OUTDATED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors that name a new leader: the client's metadata is outdated. A Produce gets only the first of them."""


@message(api_key=3, kind=REQUEST, versions=range(0, 13))
class Metadata:
    """Client -> any broker: describe topics. ``topics`` None (v1+) requests all topics, () requests no topic.

    ``topic_ids``: further topics, by id. Kafka's request has ids since v12; kemu's codec has them in its own version.
    """

    topics: tuple[str, ...] | None
    allow_auto_topic_creation: bool = since(4, default=True, ignorable=True)
    topic_ids: tuple[str, ...] = since(TOPIC_IDS_SINCE, default=())


@struct
class BrokerMetadata:
    """A live broker: its node id, address (actor name) and rack."""

    node_id: int
    host: str
    rack: str | None = since(1, default=None, ignorable=True)


@struct
class NewLeader:
    """The present leader of a partition whose row has an error of ``OUTDATED`` (KIP-951).

    ``broker``: the leader's address; None if the answering broker does not know it as live. Kafka has the leader in the
    row (``CurrentLeader``) and the address beside the rows (``NodeEndpoints``).
    """

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int
    broker: BrokerMetadata | None


@struct
class PartitionMetadata:
    """A partition's leader (-1 = none) and replicas (node ids, preferred first)."""

    error: ErrorCode
    partition: int
    leader: int
    leader_epoch: int = since(7, default=-1, ignorable=True)
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@struct
class TopicMetadata:
    """A topic's partitions, by number. ``topic_id``: distinguishes topics of the same name (KIP-516); "": unknown."""

    error: ErrorCode
    topic: str
    topic_id: str = since(10, default="", ignorable=True)
    partitions: tuple[PartitionMetadata, ...]


@message(api_key=3, kind=REPLY, versions=range(0, 13))
class MetadataReply:
    """The metadata in the answering broker's cache."""

    brokers: tuple[BrokerMetadata, ...]
    controller_id: int = since(1, default=-1, ignorable=True)
    topics: tuple[TopicMetadata, ...]


@struct
class ProduceBatch:
    """``count`` records for one partition; ``sequence`` -1 = not idempotent."""

    topic: str
    partition: int
    count: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1


@message(api_key=0, kind=REQUEST, versions=range(3, 12))
class Produce:
    """Producer -> leader: append batches. ``acks``: 0 no answer, 1 the leader's append, -1 all in-sync replicas'
    appends.
    """

    acks: int
    timeout_ms: int
    batches: tuple[ProduceBatch, ...]


@struct
class ProducedBatch:
    """The base offset of a batch (-1 with an error) and the leader's append time."""

    topic: str
    partition: int
    error: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1


@message(api_key=0, kind=REPLY, versions=range(3, 12))
class ProduceReply:
    """The reply to Produce: one row per batch, in the order of the request."""

    batches: tuple[ProducedBatch, ...]
    new_leaders: tuple[NewLeader, ...] = since(PRODUCE_NAMES_LEADERS_SINCE, default=(), ignorable=True)


@message(api_key=22, kind=REQUEST, versions=range(0, 5))
class InitProducerId:
    """Producer -> broker: request a producer id, or (v3+, KIP-360) a higher epoch for a known id. A transactional
    producer (``transactional_id``) asks its transaction coordinator, another producer any broker.

    Source: InitProducerIdRequest.json, Kafka 3.9; v4 adds PRODUCER_FENCED (KIP-588) without a change of the bytes.
    """

    transactional_id: str | None = None
    transaction_timeout_ms: int
    producer_id: int = since(3, default=-1)
    producer_epoch: int = since(3, default=-1)


@message(api_key=22, kind=REPLY, versions=range(0, 5))
class InitProducerIdReply:
    """The producer's id and epoch; -1 with an error."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


@struct
class FetchPartition:
    """The offset to read from in one partition, and the most bytes to return.

    ``last_fetched_epoch``: the leader epoch of the record before the offset. If this epoch ends earlier on the leader,
    the answer is a diverging epoch (KIP-595). Consumers send the epoch -1.
    """

    topic: str
    partition: int
    current_leader_epoch: int = since(9, default=-1, ignorable=True)
    fetch_offset: int
    last_fetched_epoch: int = since(12, default=-1)
    log_start_offset: int = since(5, default=-1, ignorable=True)
    max_bytes: int = 1_048_576


REPLICA_FETCH_VERSION = 18
"""The version of Fetch that followers send, whose answer has batches in their on-disk form.

The version is kemu's own; Kafka has only one form of batches.
"""


@message(api_key=1, kind=REQUEST, versions=range(4, 19))
class Fetch:
    """Consumer (replica id -1) or follower -> leader: fetch records from these offsets.

    The broker delays the answer until ``min_bytes`` are available or ``max_wait_ms`` have passed. A follower's fetch
    offset confirms that the follower has all records below the offset.
    """

    replica_id: int = -1
    max_wait_ms: int
    min_bytes: int
    max_bytes: int = 52_428_800
    session_id: int = since(7, default=NO_FETCH_SESSION, ignorable=True)
    session_epoch: int = since(7, default=FINAL_EPOCH, ignorable=True)
    partitions: tuple[FetchPartition, ...]
    """All partitions; in a session, those with other offsets or epochs than before (KIP-227)."""
    forgotten: tuple[TopicPartition, ...] = since(7, default=())
    """Partitions that leave the session."""


@struct
class RecordBatch:
    """Records ``base_offset .. base_offset + count - 1``, appended together at this time of the leader's clock.

    ``life``: the number of the start of the leader's process that appended the records. Only checkers use this number,
    to identify records.
    """

    base_offset: int
    count: int
    append_time_ms: int
    leader_epoch: int = -1
    life: int = 0


@struct
class ReplicaBatch:
    """One append of a leader, for followers to copy.

    Producer id -1: the producer is not idempotent. ``records``: (key, value) of each record with content
    (``__consumer_offsets``); () in other topics, where only ``count`` matters. ``life``: the number in ``RecordBatch``.
    """

    base_offset: int
    count: int
    append_time_ms: int
    leader_epoch: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    records: tuple[tuple[bytes, bytes | None], ...] = ()
    life: int = 0


@struct
class DivergingEpoch:
    """The leader's largest epoch that is not above the last fetched epoch, and its end offset, where the
    logs diverge.
    """

    epoch: int
    end_offset: int


@struct
class FetchedPartition:
    """Records of one partition from the fetch offset on; none if the logs diverge earlier (``diverging``, KIP-595)."""

    topic: str
    partition: int
    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = since(5, default=-1, ignorable=True)
    diverging: DivergingEpoch | None = since(12, default=None, ignorable=True)
    batches: tuple[RecordBatch, ...] = ()
    replica_batches: tuple[ReplicaBatch, ...] = since(18, default=())


@message(api_key=1, kind=REPLY, versions=range(4, 19))
class FetchReply:
    """One row per requested partition; in a fetch session (KIP-227), per partition with news.

    ``error``: of the session; the answer then has no rows. ``session_id``: the session that begins or continues.
    """

    error: ErrorCode = since(7, default=ErrorCode.NONE, ignorable=True)
    session_id: int = since(7, default=NO_FETCH_SESSION)
    partitions: tuple[FetchedPartition, ...]
    new_leaders: tuple[NewLeader, ...] = since(FETCH_NAMES_LEADERS_SINCE, default=(), ignorable=True)


@struct
class OffsetQuestion:
    """A request for the offset at a timestamp in ms (-1: the end, -2: the start)."""

    topic: str
    partition: int
    current_leader_epoch: int = since(4, default=-1, ignorable=True)
    timestamp_ms: int


@message(api_key=2, kind=REQUEST, versions=range(1, 9))
class ListOffsets:
    """Client -> leader: request offsets by time."""

    replica_id: int = -1
    questions: tuple[OffsetQuestion, ...]


@struct
class OffsetAnswer:
    """The first offset at or after the timestamp, -1 without such an offset."""

    topic: str
    partition: int
    error: ErrorCode
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = since(4, default=-1, ignorable=True)


@message(api_key=2, kind=REPLY, versions=range(1, 9))
class ListOffsetsReply:
    """The reply to ListOffsets: one row per requested offset."""

    answers: tuple[OffsetAnswer, ...]


@struct
class RecordsToDelete:
    """An order to delete the records of a partition below this offset; -1: below the high watermark."""

    topic: str
    partition: int
    offset: int


@message(api_key=21, kind=REQUEST, versions=range(0, 3))
class DeleteRecords:
    """Admin -> leader: delete these records. Source: KIP-107, DeleteRecordsRequest.json."""

    partitions: tuple[RecordsToDelete, ...]
    timeout_ms: int


@struct
class DeletedRecords:
    """The lowest log start offset of a partition's live replicas; -1 with an error."""

    topic: str
    partition: int
    low_watermark: int = -1
    error: ErrorCode


@message(api_key=21, kind=REPLY, versions=range(0, 3))
class DeleteRecordsReply:
    """The reply to DeleteRecords: one row per partition."""

    partitions: tuple[DeletedRecords, ...]
