"""What the control plane and replicas report: the store, controllers, leaders and followers."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import TopicMetadata
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.values import value

# --- metadata store ------------------------------------------------------------------------------------------------


@value
class SessionOpened:
    """The store began a session for this actor."""

    session_id: int
    client: str


@value
class SessionEnded:
    """The store ended a session (why: expired, closed); its ephemeral nodes and watches are gone."""

    session_id: int
    client: str
    why: str


EXPIRED = "expired"
"""``SessionEnded.why`` of a session whose client was not heard in time; the others were closed."""


@value
class StoreTookOver:
    """A leader of the store's ensemble serves: with so many nodes, and sessions whose timeouts begin anew."""

    zxid: int
    nodes: int
    sessions: int


@value
class NodeWritten:
    """The store changed a node: the truth of this moment. ``what``: created, set or deleted; ``client`` may be ""."""

    what: str
    path: str
    data: bytes
    version: int
    zxid: int
    client: str


@value
class StoreFaultHit:
    """A fault told to the store took effect (LoseStoreAnswer, FreezeSession, DelayWatches, ExpireSession).

    ``number``: what the one who told it calls it (-1: nothing).
    """

    fault: str
    client: str
    number: int = -1


# --- controller ----------------------------------------------------------------------------------------------------


@value
class BrokerRegistered:
    """A broker is registered in the store under this epoch, as it knows itself."""

    broker_id: int
    broker_epoch: int


@value
class BrokerFenced:
    """A broker learned that its session has expired: its registration is gone (another follows)."""

    broker_id: int
    broker_epoch: int


@value
class BecameController:
    """A broker won the election; it acts under this epoch from now on."""

    broker_id: int
    controller_epoch: int


@value
class ControllerReady:
    """A new controller has read everything and brought its state machines up: the failover is over."""

    broker_id: int
    controller_epoch: int
    brokers: tuple[int, ...]
    topics: int
    partitions: int


@value
class ControllerResigned:
    """A broker that was the controller is it no more, and knows it."""

    broker_id: int
    controller_epoch: int
    why: str


@value
class ControllerWriteRefused:
    """The store refused a controller's write, because a newer controller was elected (its fence)."""

    broker_id: int
    controller_epoch: int
    path: str


@value
class BrokersChanged:
    """The controller noticed brokers that came, went, or went and came between two looks."""

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


@value
class StateChangeRefused:
    """The controller was asked for a move its tables do not have, or an election found no leader."""

    what: str
    old: str
    new: str
    why: str


@value
class LeaderElectedForPartition:
    """The store took an election's outcome. ``strategy``: new, offline, reassign, preferred, controlled-shutdown."""

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
    """An admin had the controller elect any live replica as leader of these, whatever the topic says (KIP-460)."""

    topic: str
    partitions: tuple[int, ...]


@value
class IsrChanged:
    """The store took a new ISR. ``leader`` -1: the controller took its last online member out of it."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    why: str


@value
class LeaderEpochBumped:
    """The controller raised a leader epoch and left leader and ISR as they were (a reassignment's step)."""

    topic: str
    partition: int
    leader_epoch: int
    why: str


@value
class ReassignmentStarted:
    """The controller takes a partition on its way to ``target``: an admin asked, or (``resumed``) a failover found it.

    ``replicas``: where it is. Cancelled or overridden, it starts again; ``called_back``: cancelled.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    resumed: bool
    called_back: bool = False


@value
class ReassignmentStepStarted:
    """A step of a reassignment runs: ``adding`` copy, and ``removing`` go when those are in sync.

    ``waits_for``: why it cannot be committed yet, "" if it can.
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
    """The store has a step's replicas, and only these."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@value
class ReassignmentWaits:
    """What a partition on its way waits for now; told when that changes.

    ``reason``: a ``WaitReason`` of ``protocol.reassign.waiting``; ``brokers``: whom it is about, perhaps nobody.
    """

    topic: str
    partition: int
    reason: str
    brokers: tuple[int, ...]
    why: str


@value
class ReassignmentBlocked:
    """No step can be taken; ``why`` says for what it waits."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    why: str = ""


@value
class ReassignmentFinished:
    """The target is reached."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@value
class TopicCreated:
    """The controller took up a topic: its partitions exist from now on. ``incarnation``: czxid of its node."""

    topic: str
    partitions: int
    incarnation: int


@value
class PartitionsAdded:
    """The controller took up more partitions of a topic; it has this many now."""

    topic: str
    partitions: int


@value
class OffsetsTopicAsked:
    """A broker that was asked for a coordinator had the controller create ``__consumer_offsets``: what came of it."""

    error: ErrorCode
    text: str


@value
class TopicDeletionQueued:
    """The controller is to delete a topic: it was asked to, or found that its predecessor was."""

    topic: str


@value
class TopicDeletionHalted:
    """A topic's deletion waits, and for what."""

    topic: str
    why: str


@value
class TopicDeleted:
    """Every replica of a topic is deleted and its nodes are gone."""

    topic: str


@value
class ControlledShutdownAnswered:
    """The controller answered a broker that wants to stop; it still leads ``remaining`` partitions."""

    broker_id: int
    error: ErrorCode
    remaining: int


# --- replicas ------------------------------------------------------------------------------------------------------


@value
class ControlRequestRefused:
    """A broker refused a whole control request: stale controller or broker epoch."""

    api: str
    error: ErrorCode
    controller_epoch: int
    broker_epoch: int


@value
class ControlRequestTaken:
    """A broker obeyed a control request; said when its epochs are not the last one's. Broker epoch -1: it has none."""

    api: str
    controller_epoch: int
    broker_epoch: int


@value
class MetadataCached:
    """What a broker's metadata cache has after an UpdateMetadata: who lives, and the partitions that it spoke of.

    ``gone``: partitions that it spoke of and that are not in the cache.
    """

    live_brokers: tuple[int, ...]
    topics: tuple[TopicMetadata, ...]
    gone: tuple[TopicPartition, ...]


@value
class BecameLeader:
    """A replica leads from now on; its log ends at ``end_offset`` (the epoch's start) and it knows this watermark.

    ``epochs``: (leader epoch, offset of its first record) of its log, ascending; () = not told.
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
    """A replica follows ``leader`` from now on (before any truncation)."""

    topic: str
    partition: int
    leader_epoch: int
    leader: int
    end_offset: int
    high_watermark: int


@value
class RecordsReplicated:
    """A follower appended records it fetched: ``base_offset .. base_offset + count - 1``, written in that epoch.

    ``life``: of the leader's process that appended them.
    """

    topic: str
    partition: int
    base_offset: int
    count: int
    leader_epoch: int
    life: int = 0


@value
class ReplicaRestored:
    """A broker found this log on its disk: it ends here, with this watermark (the checkpoint's).

    ``epochs``: (leader epoch, offset of its first record), ascending.
    """

    topic: str
    partition: int
    end_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]


@value
class Truncated:
    """A replica cut its log from ``old_end_offset`` to ``end_offset`` (why: leader-epoch, high-watermark, ...)."""

    topic: str
    partition: int
    leader_epoch: int
    old_end_offset: int
    end_offset: int
    why: str


@value
class LogDirFailed:
    """A broker's log directory has failed: these replicas of its are offline now."""

    log_dir: int
    partitions: tuple[tuple[str, int], ...]


@value
class LogOfAnotherTopic:
    """A broker takes no part in a partition: its log was left over of a topic of that name that is deleted (KIP-516).

    It answers INCONSISTENT_TOPIC_ID, and keeps the log: until this topic is deleted, too, no controller minds it.
    """

    topic: str
    partition: int
    topic_id: int
    topic_id_of_log: int


@value
class LogStartMoved:
    """A log starts at ``start_offset`` now: what was before is deleted, and no loss (why: retention, leader, ...).

    ``end_offset``: its end; equal to the start when nothing is left in it.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    why: str


@value
class HighWatermarkAdvanced:
    """A leader's high watermark: everything below is on all in-sync replicas, as far as the leader knows."""

    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int


@value
class IsrProposed:
    """A leader asks (the store, or the controller) for a new ISR.

    Until it knows the outcome, ``counted`` count for its high watermark.
    """

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    counted: tuple[int, ...]


@value
class IsrChangePending:
    """The controller refused a leader's ISR for what it knows: until its LeaderAndIsr comes, nothing changes."""

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    why: str


@value
class IsrWriteRefused:
    """The store refused the ISR that a leader had asked a controller for: the state has another version than it knows.

    ``known_isr``, ``zk_version``: what the controller knows of the state, and goes on with.
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
    """A leader's ISR change was refused by the store or the controller, or its outcome could not be learned."""

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    why: str


@value
class ReplicaStopped:
    """A broker stopped a replica; ``deleted``: and removed its log."""

    topic: str
    partition: int
    leader_epoch: int
    deleted: bool
