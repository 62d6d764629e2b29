"""What machines report: typed facts for checkers, metrics, transcripts and tables. No machine ever reads one.

A note says what became true inside the machine at the step it is part of; time and actor come with the step.
"""

from protocol.errors import ErrorCode
from protocol.names import TopicPartition
from protocol.values import value

# --- group coordinator ---------------------------------------------------------------------------------------------


@value
class GroupBecame:
    """A group changed its state (names as Kafka prints them: Empty, PreparingRebalance, ...)."""

    group: str
    old: str
    new: str
    generation: int
    why: str


@value
class MemberAdded:
    """A member entered the group (not: an id was handed out)."""

    group: str
    member_id: str
    client_id: str
    instance_id: str | None


@value
class MemberRemoved:
    """A member left, was expired or was replaced by a member of the same instance."""

    group: str
    member_id: str
    client_id: str
    why: str


@value
class LeaderElected:
    """The group has this leader now."""

    group: str
    member_id: str


@value
class JoinPhaseCompleted:
    """A generation began: these members (ids) were in the group when the join phase completed."""

    group: str
    generation: int
    protocol: str | None
    leader: str
    members: tuple[str, ...]


@value
class GroupLoaded:
    """A group came back from the log after the coordinator moved here or restarted."""

    group: str
    state: str
    generation: int
    members: tuple[str, ...]


@value
class GroupUnloaded:
    """The coordinator gave the group up (another broker leads its partition)."""

    group: str


@value
class OffsetsLoadFailed:
    """A coordinator could not read the log of a partition of the offsets topic: its groups are out of reach."""

    partition: int
    why: str


@value
class OffsetCommitted:
    """A committed offset is in the log. Generation -1 and member "" outside group management."""

    group: str
    topic: str
    partition: int
    offset: int
    generation: int
    member_id: str


@value
class OffsetRemoved:
    """A committed offset is gone: expired, deleted, or its group was."""

    group: str
    topic: str
    partition: int
    why: str


@value
class RequestRefused:
    """A coordinator answered a request with an error."""

    group: str
    api: str
    member_id: str
    error: ErrorCode


@value
class GroupDescribed:
    """Admin: what DescribeGroups answered."""

    group: str
    state: str
    members: tuple[str, ...]
    error: ErrorCode


@value
class AdminAnswered:
    """Admin: what became of a RemoveMember ("LeaveGroup") or DeleteGroup ("DeleteGroups") command."""

    group: str
    api: str
    error: ErrorCode


# --- consumer ------------------------------------------------------------------------------------------------------


@value
class MemberBecame:
    """A member changed its state (UNJOINED, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, CLOSED, FAILED)."""

    group: str
    member_id: str
    old: str
    new: str
    generation: int
    why: str


@value
class AssignmentReceived:
    """A member took the assignment of this generation from its SyncGroup answer."""

    group: str
    member_id: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@value
class IncompatibleRebalance:
    """KIP-429's page: an assignment said that members of V0 and V1 met (metric ``num.incompatible.rebalance``)."""

    group: str
    member_id: str
    generation: int


@value
class PartitionsAssigned:
    """onPartitionsAssigned was called with ``added``; the member owns ``owned`` from now on."""

    group: str
    member_id: str
    generation: int
    added: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]


@value
class PartitionsRevoked:
    """onPartitionsRevoked is over: the member stopped serving ``revoked`` before, and owns ``owned`` now."""

    group: str
    member_id: str
    generation: int
    revoked: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]


@value
class PartitionsLost:
    """onPartitionsLost is over: the member learned that it was no member any more. It owns nothing now."""

    group: str
    member_id: str
    lost: tuple[TopicPartition, ...]


@value
class ListenerFailed:
    """A rebalance listener raised."""

    group: str
    member_id: str
    callback: str
    why: str


@value
class PositionSet:
    """Where a member starts to read a partition (why: committed, reset)."""

    group: str
    member_id: str
    topic: str
    partition: int
    offset: int
    why: str


@value
class Processed:
    """The application finished records ``first .. last - 1`` of a partition; it began them at ``started_us``.

    Reported when the work on one partition's part of a poll is done; work cut off by a crash is never reported.
    """

    group: str
    member_id: str
    generation: int
    topic: str
    partition: int
    first: int
    last: int
    started_us: int


@value
class CommitAnswered:
    """A commit was answered: offsets by partition, the request's generation, and the first error."""

    group: str
    member_id: str
    generation: int
    error: ErrorCode


@value
class CoordinatorKnown:
    """A member found (host) or lost ("") its coordinator."""

    group: str
    host: str
    why: str


@value
class MemberFailed:
    """A fatal error reached the application; the member is of no use any more."""

    group: str
    member_id: str
    error: ErrorCode
    why: str


# --- servers -------------------------------------------------------------------------------------------------------


@value
class AnswerInjected:
    """A server answered this request with an error because it was told to (``AnswerNext``), and did not execute it."""

    api: str
    sender: str
    error: ErrorCode


# --- data path -----------------------------------------------------------------------------------------------------


@value
class RecordsAppended:
    """A leader appended records ``base_offset .. base_offset + count - 1``."""

    topic: str
    partition: int
    base_offset: int
    count: int


@value
class PartitionHosted:
    """A broker serves a partition (from its start, or since the topic was created or grew); its log ends here."""

    topic: str
    partition: int
    end_offset: int


@value
class RecordsAcknowledged:
    """A producer knows that these records are in the log."""

    topic: str
    partition: int
    base_offset: int
    count: int


@value
class ProduceFailed:
    """A producer gave up on a batch; ``definite`` says whether it surely is not in the log."""

    topic: str
    partition: int
    count: int
    error: ErrorCode
    definite: bool


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
    """A fault told to the store took effect (LoseStoreAnswer, FreezeSession, DelayWatches, ExpireSession)."""

    fault: str
    client: str


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
class BecameLeader:
    """A replica leads from now on; its log ends at ``end_offset`` (the epoch's start) and it knows this watermark."""

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    end_offset: int
    high_watermark: int


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
    """A follower appended records it fetched: ``base_offset .. base_offset + count - 1``, written in that epoch."""

    topic: str
    partition: int
    base_offset: int
    count: int
    leader_epoch: int


@value
class ReplicaRestored:
    """A broker found this log on its disk: it ends here, with this watermark (the checkpoint's)."""

    topic: str
    partition: int
    end_offset: int
    high_watermark: int


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
class HighWatermarkAdvanced:
    """A leader's high watermark: everything below is on all in-sync replicas, as far as the leader knows."""

    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int


@value
class IsrChangeFailed:
    """A leader's ISR write was refused by the store, or its outcome could not be learned."""

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
