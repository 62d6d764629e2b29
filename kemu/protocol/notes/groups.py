"""Notes: typed facts that machines report to checkers, metrics, transcripts and tables. No machine ever reads one.

A note states a change inside the machine. The step that contains the note adds time and actor.
"""

from enum import StrEnum

from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.values import value

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
    """A member entered the group. A member id assigned with MEMBER_ID_REQUIRED is not an entry yet."""

    group: str
    member_id: str
    client_id: str
    instance_id: str | None


class Removal(StrEnum):
    """Why a coordinator removed a member (``MemberRemoved.why``); after ``REPLACED`` follows the new id."""

    LEFT = "left"
    SESSION_EXPIRED = "session expired"
    NOT_REJOINED = "did not rejoin in time"
    NOT_SYNCED = "did not sync in time"
    JOIN_TOO_LONG = "new member's join took too long"
    FULL = "the group is full"
    REPLACED = "replaced by"
    NOT_REPLACED = "its replacement could not be written"


@value
class MemberRemoved:
    """A member left, was expired or was replaced by a member of the same instance (``why``: a ``Removal``)."""

    group: str
    member_id: str
    client_id: str
    why: str

    @property
    def removal(self) -> Removal:
        """The reason without the new id."""
        return next(each for each in Removal if self.why.startswith(each))


@value
class LeaderElected:
    """The group has a new leader."""

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
class GroupRecordWritten:
    """A coordinator wrote the record of a generation with all subscriptions and assignments, or failed to write it.

    ``size``: bytes of its batch; ``most``: ``message.max.bytes`` of the brokers. ``error``: why it is not in the log.
    """

    group: str
    generation: int
    size: int
    most: int
    error: ErrorCode


@value
class GroupLoaded:
    """A coordinator loaded a group from the log after it moved here or restarted."""

    group: str
    state: str
    generation: int
    members: tuple[str, ...]


@value
class GroupUnloaded:
    """The coordinator unloaded the group, as another broker leads its partition."""

    group: str


@value
class OffsetsLoadFailed:
    """A coordinator could not read the log of a partition of the offsets topic: its groups are not available."""

    partition: int
    why: str


@value
class OffsetCommitted:
    """A committed offset is in the log. Generation -1 and member "" outside group management.

    ``position``: offset of its record in the group's log; -1 = unknown.
    """

    group: str
    topic: str
    partition: int
    offset: int
    generation: int
    member_id: str
    position: int = -1


@value
class LateCommit:
    """The log has a commit that came over a connection which its client had already replaced.

    The client may have committed a newer offset over its new connection before. This note precedes the commit's
    ``OffsetCommitted`` notes, whose records have these positions in the group's log.
    """

    group: str
    member_id: str
    first_position: int
    last_position: int


@value
class OffsetRemoved:
    """A committed offset was removed: it expired, was deleted, or its group was deleted."""

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
class GroupRequestRead:
    """A coordinator read a request about a group's members from a connection, and serves it from this step on.

    (``client``, ``connection``, ``request_id``) identifies it. ``ids``: the request's (member id, instance id) pairs; a
    LeaveGroup may have several. ``rows``: (name, bytes) as received: the protocols of a JoinGroup, or the assignments
    of a
    SyncGroup.
    """

    group: str
    api: str
    client: str
    connection: int
    request_id: int
    ids: tuple[tuple[str, str | None], ...]
    generation: int = -1
    session_timeout_ms: int = -1
    rebalance_timeout_ms: int = -1
    rows: tuple[tuple[str, bytes], ...] = ()


@value
class GroupRequestAnswered:
    """A coordinator sent the answer to a ``GroupRequestRead``. ``error``: the first that it carries.

    Of a JoinGroup: generation, protocol, leader, the member's id and the listed members. Of a SyncGroup: the
    assignment.
    """

    client: str
    connection: int
    request_id: int
    error: ErrorCode
    generation: int = -1
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[str, ...] = ()
    assignment: bytes = b""


@value
class GroupDescribed:
    """Admin: the answer to DescribeGroups."""

    group: str
    state: str
    members: tuple[str, ...]
    error: ErrorCode


@value
class AdminAnswered:
    """Admin: the result of a command, by the API of its last request: RemoveMember is "LeaveGroup".

    ``group``: "" for a command about no group. ``text``: the result, or the reason of a failure, in words.
    """

    group: str
    api: str
    error: ErrorCode
    text: str = ""


# --- consumer ------------------------------------------------------------------------------------------------------


class Rejoin(StrEnum):
    """Reasons of a member to rejoin (``MemberBecame.why``) that other code reacts to or counts."""

    REVOKED = "need to revoke partitions and re-join"
    PROBING = "Scheduled probing rebalance"
    """Streams, KIP-441; the text is from ``StreamThread``."""
    READY = "a learner is ready"
    """Streams, KIP-429's page, like all that follow."""
    LEAVING = "the instance is to hand its tasks over and leave"
    STAYING = "the instance is to stay after all"
    EXPIRED = "scale.down.timeout.ms is over"


@value
class MemberBecame:
    """A member changed its state (UNJOINED, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, CLOSED, FAILED).

    ``why``: the reason in words; a ``Rejoin`` where one applies.
    """

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
class AssignmentRefused:
    """An assignment fails a check that a member makes of every assignment. ``MemberFailed`` follows.

    Source: KIP-429's page, PROTOCOL_VIOLATION.
    """

    group: str
    member_id: str
    generation: int
    why: str


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
    """onPartitionsRevoked has returned: the member stopped reading ``revoked`` before the call, and now owns
    ``owned``.
    """

    group: str
    member_id: str
    generation: int
    revoked: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]


@value
class PartitionsLost:
    """onPartitionsLost has returned: the member learned that its membership had ended. The member owns no partitions
    now.
    """

    group: str
    member_id: str
    lost: tuple[TopicPartition, ...]


@value
class CallbackReturned:
    """A callback of the rebalance listener returned after some time; meanwhile the polling thread did nothing else.

    ``took_us``: by the member's clock. The note about the changed partitions follows. During onPartitionsRevoked and
    onPartitionsLost the member still owned its old partitions, during onPartitionsAssigned already its new ones.
    """

    group: str
    member_id: str
    callback: str
    took_us: int


@value
class ListenerFailed:
    """A rebalance listener raised."""

    group: str
    member_id: str
    callback: str
    why: str


SEEK = "seek"
"""``PositionSet.why`` of a position that the application chose."""
COMMITTED = "committed"
"""``PositionSet.why`` of a position from the committed offset; any other is a reset."""
TRUNCATED = "truncated"
"""``PositionSet.why`` of a position beyond its leader's log end: the member resumes from that end (KIP-320)."""
JUMPED = "jumped"
"""``PositionSet.why`` of a position at the end of a range for the second consumer (KIP-333)."""


@value
class PositionSet:
    """The offset from which a member starts to read a partition (why: committed, reset, seek, truncated, jumped)."""

    group: str
    member_id: str
    topic: str
    partition: int
    offset: int
    why: str


@value
class Processed:
    """The application finished records ``first .. last - 1`` of a partition, begun at ``started_us``.

    Reported when the work on one partition's part of a poll is done. Work that a crash interrupts is never reported.
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
class EpochRead:
    """From this offset on, a member reads records of a partition that were written in another leader epoch.

    After a new position the epoch counts as 0 until such a note; -1: unknown. ``life``: number of the start of the
    leader's
    process that appended the records.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    life: int = 0


@value
class CommitAnswered:
    """A commit was answered: the request's generation and the first error."""

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
    """A fatal error reached the application; the member stops working."""

    group: str
    member_id: str
    error: ErrorCode
    why: str


# --- servers -------------------------------------------------------------------------------------------------------


@value
class AnswerInjected:
    """A server answered this request with an error, as ``AnswerNext`` had ordered, and did not execute it."""

    api: str
    sender: str
    error: ErrorCode


# --- data path -----------------------------------------------------------------------------------------------------


@value
class ProducerStarted:
    """A producer of a topic runs; ``acks``: 0 none, 1 the leader's, -1 all in-sync replicas'."""

    topic: str
    acks: int


@value
class RecordsAppended:
    """A leader appended records ``base_offset .. base_offset + count - 1``.

    ``producer_id``, ``producer_epoch``, ``sequence``: of an idempotent producer's batch; -1 of any other.
    """

    topic: str
    partition: int
    base_offset: int
    count: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1


@value
class PartitionHosted:
    """A broker serves a partition (from its start, or since the topic was created or grew); its log ends here.

    ``epochs``: (leader epoch, offset of its first record) of its log, ascending; () = unknown.
    """

    topic: str
    partition: int
    end_offset: int
    leader_epoch: int = 0
    epochs: tuple[tuple[int, int], ...] = ()


@value
class RecordsAcknowledged:
    """A producer received the acknowledgement of these records."""

    topic: str
    partition: int
    base_offset: int
    count: int


@value
class ProduceFailed:
    """A producer gave up on a batch; ``definite``: the batch is certainly not in the log."""

    topic: str
    partition: int
    count: int
    error: ErrorCode
    definite: bool
