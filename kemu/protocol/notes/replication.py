"""Notes of the control plane and the replicas: the store, controllers, leaders and followers."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import TopicMetadata
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.values import value

# --- metadata store ------------------------------------------------------------------------------------------------


@value
class SessionOpened:
    """The store opened a session for this actor."""

    session_id: int
    client: str


@value
class SessionEnded:
    """The store ended a session (why: expired, closed) and removed its ephemeral nodes and watches."""

    session_id: int
    client: str
    why: str


EXPIRED = "expired"
"""``SessionEnded.why`` of a session that sent no message within its timeout. Any other session was closed by its
client.
"""


@value
class StoreTookOver:
    """A new leader of the store's ensemble serves this number of nodes; the timeouts of all sessions start anew."""

    zxid: int
    nodes: int
    sessions: int


@value
class NodeWritten:
    """The store changed a node. ``what``: created, set or deleted; ``client`` may be ""."""

    what: str
    path: str
    data: bytes
    version: int
    zxid: int
    client: str


@value
class StoreFaultHit:
    """A fault that was ordered from the store took effect (LoseStoreAnswer, FreezeSession, DelayWatches,
    ExpireSession).

    ``number``: the number in the order of the fault (-1 without a number).
    """

    fault: str
    client: str
    number: int = -1


# --- controller ----------------------------------------------------------------------------------------------------


@value
class BrokerRegistered:
    """A broker learned that it is registered in the store under this epoch."""

    broker_id: int
    broker_epoch: int


@value
class BrokerFenced:
    """A broker learned that its session has expired and its registration was removed; it will register again."""

    broker_id: int
    broker_epoch: int


@value
class BecameController:
    """A broker won the controller election; its controller epoch is now this epoch."""

    broker_id: int
    controller_epoch: int


@value
class ControllerReady:
    """A new controller has read the whole state and started its state machines: the failover is complete."""

    broker_id: int
    controller_epoch: int
    brokers: tuple[int, ...]
    topics: int
    partitions: int


@value
class ControllerResigned:
    """A broker that was the controller learned that it is deposed, and resigned."""

    broker_id: int
    controller_epoch: int
    why: str


@value
class ControllerWriteRefused:
    """The store refused a controller's write, because a newer controller was elected (the write's fence)."""

    broker_id: int
    controller_epoch: int
    path: str


@value
class BrokersChanged:
    """The controller noticed new, failed and restarted brokers since its last check."""

    controller_epoch: int
    new: tuple[int, ...]
    dead: tuple[int, ...]
    bounced: tuple[int, ...]


@value
class PartitionStateBecame:
    """The controller moved a partition in its state machine (names as Kafka's: NewPartition, OnlinePartition, ...)."""

    topic: str
    partition: int
    old: str
    new: str


@value
class ReplicaStateBecame:
    """The controller moved a replica in its state machine (NewReplica, OnlineReplica, ...)."""

    topic: str
    partition: int
    replica: int
    old: str
    new: str


REASSIGNED = "reassigned"
"""The new state in the note of a failed reassignment."""


@value
class StateChangeRefused:
    """The controller refused a state change that is not allowed, or an election found no leader."""

    what: str
    old: str
    new: str
    why: str


@value
class LeaderElectedForPartition:
    """The store accepted an election's result. ``strategy``: new, offline, reassign, preferred, controlled-shutdown."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    strategy: str
    unclean: bool


@value
class UncleanElectionAsked:
    """An admin requested the election of any live replica as leader of these partitions, whatever the topic's setting
    (KIP-460).
    """

    topic: str
    partitions: tuple[int, ...]


@value
class IsrChanged:
    """The store accepted a new ISR. ``leader`` -1: the controller removed the last online member."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    why: str


@value
class LeaderEpochBumped:
    """The controller raised a leader epoch without a change of leader or ISR (a reassignment's step)."""

    topic: str
    partition: int
    leader_epoch: int
    why: str


@value
class ReassignmentStarted:
    """The controller starts to move a partition to ``target``, on request or (``resumed``) after a failover.

    ``replicas``: the current replicas. ``called_back``: whether the new target cancels the old target.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    resumed: bool
    called_back: bool = False


@value
class ReassignmentStepStarted:
    """A step of a reassignment runs: ``adding`` replicate, and ``removing`` are removed when ``adding`` are in sync.

    ``waits_for``: the reason why the step cannot be committed yet, "" without a reason.
    """

    topic: str
    partition: int
    kind: str
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    waits_for: str


@value
class ReassignmentStepCommitted:
    """The store has the new replica list of a step."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@value
class ReassignmentWaits:
    """The reason why a partition's reassignment waits; noted when the reason changes.

    ``reason``: a ``WaitReason`` of ``protocol.reassign.waiting``; ``brokers``: the awaited brokers, if any.
    """

    topic: str
    partition: int
    reason: str
    brokers: tuple[int, ...]
    why: str


@value
class ReassignmentBlocked:
    """A reassignment cannot take a step; ``why``: the reason."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    why: str = ""


@value
class ReassignmentFinished:
    """A partition has reached the target of its reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@value
class TopicCreated:
    """The controller learned of a new topic, whose partitions now exist. ``incarnation``: the czxid of the topic's
    node.
    """

    topic: str
    partitions: int
    incarnation: int


@value
class PartitionsAdded:
    """The controller learned of more partitions of a topic, which now has this number of partitions."""

    topic: str
    partitions: int


@value
class OffsetsTopicAsked:
    """The controller answered a broker's request to create ``__consumer_offsets`` after a FindCoordinator."""

    error: ErrorCode
    text: str


@value
class TopicDeletionQueued:
    """The controller queued a topic for deletion, on request or on behalf of a former controller."""

    topic: str


@value
class TopicDeletionHalted:
    """A topic's deletion waits; ``why``: the reason."""

    topic: str
    why: str


@value
class TopicDeleted:
    """All replicas and nodes of a topic are deleted."""

    topic: str


@value
class ControlledShutdownAnswered:
    """The controller answered a broker's ControlledShutdown; the broker still leads ``remaining`` partitions."""

    broker_id: int
    error: ErrorCode
    remaining: int


# --- replicas ------------------------------------------------------------------------------------------------------


@value
class ControlRequestRefused:
    """A broker refused a whole control request, because its controller epoch or broker epoch is stale."""

    api: str
    error: ErrorCode
    controller_epoch: int
    broker_epoch: int


@value
class ControlRequestTaken:
    """A broker executed a control request with other epochs than the last request. Broker epoch -1: no broker epoch."""

    api: str
    controller_epoch: int
    broker_epoch: int


@value
class MetadataCached:
    """A broker's metadata cache changed by an UpdateMetadata: the live brokers, and the partitions in the request.

    ``gone``: the partitions in the request that were removed from the cache.
    """

    live_brokers: tuple[int, ...]
    topics: tuple[TopicMetadata, ...]
    gone: tuple[TopicPartition, ...]


@value
class BecameLeader:
    """A replica became leader; its log ends at ``end_offset`` (the epoch's start) with this high watermark.

    ``epochs``: (leader epoch, offset of its first record) of the log, ascending; () = unknown.
    """

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    end_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...] = ()


@value
class BecameFollower:
    """A replica became a follower of ``leader`` (before any truncation)."""

    topic: str
    partition: int
    leader_epoch: int
    leader: int
    end_offset: int
    high_watermark: int


@value
class RecordsReplicated:
    """A follower appended fetched records ``base_offset .. base_offset + count - 1``, written in this epoch.

    ``life``: the number of the start of the leader's process that appended the records.
    """

    topic: str
    partition: int
    base_offset: int
    count: int
    leader_epoch: int
    life: int = 0


@value
class ReplicaRestored:
    """A broker loaded this log from its disk, with this end and with the high watermark of the checkpoint.

    ``epochs``: (leader epoch, offset of its first record), ascending.
    """

    topic: str
    partition: int
    end_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]


@value
class Truncated:
    """A replica truncated its log from ``old_end_offset`` to ``end_offset`` (why: leader-epoch, high-watermark,
    ...).
    """

    topic: str
    partition: int
    leader_epoch: int
    old_end_offset: int
    end_offset: int
    why: str


@value
class LogDirFailed:
    """A broker's log directory has failed, so these replicas of the broker are now offline."""

    log_dir: int
    partitions: tuple[tuple[str, int], ...]


@value
class LogOfAnotherTopic:
    """A broker refuses to host a partition: its log is a leftover of a deleted topic of the same name (KIP-516).

    The broker answers INCONSISTENT_TOPIC_ID and keeps the log. No controller removes the log before the new topic is
    also deleted.
    """

    topic: str
    partition: int
    topic_id: str
    topic_id_of_log: str


@value
class LogStartMoved:
    """A log now starts at ``start_offset``: older records were deleted (why: retention, leader, ...).

    ``end_offset``: the log's end; equal to the start of an empty log.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    why: str


@value
class LogCleaned:
    """A broker's log cleaner removed superseded records of ``__consumer_offsets`` below ``end_offset``."""

    topic: str
    partition: int
    end_offset: int
    removed_records: int


@value
class HighWatermarkAdvanced:
    """A leader's high watermark rose: all in-sync replicas have all records below it, according to the leader."""

    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int


@value
class IsrProposed:
    """A leader asks the store or the controller for a new ISR.

    Until the answer arrives, the high watermark waits for the replicas in ``counted``.
    """

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    counted: tuple[int, ...]


@value
class IsrChangePending:
    """The controller refused a leader's ISR; the leader keeps its change pending until the next LeaderAndIsr."""

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    why: str


@value
class IsrWriteRefused:
    """The store refused the controller's write of a leader's ISR: the controller knows another version of the state.

    ``known_isr``, ``zk_version``: the state in the controller's memory, which the controller continues to use.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    known_isr: tuple[int, ...]
    zk_version: int


@value
class IsrChangeFailed:
    """The store or the controller refused a leader's ISR change, or the leader could not learn the result."""

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    why: str


@value
class ReplicaStopped:
    """A broker stopped a replica; ``deleted``: whether it also deleted the replica's log."""

    topic: str
    partition: int
    leader_epoch: int
    deleted: bool
