"""Notes: typed facts that machines report to checkers, metrics, transcripts and tables. No machine reads a note.

A note reports a change inside a machine. The step that contains the note adds time and actor.
"""

from enum import StrEnum

from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.values import value

# --- group coordinator ---------------------------------------------------------------------------------------------


@value
class GroupBecame:
    """A group changed its state. States have Kafka's names (Empty, PreparingRebalance, ...)."""

    group: str
    old: str
    new: str
    generation: int
    why: str


@value
class MemberAdded:
    """A member entered the group. A member that only has an id from MEMBER_ID_REQUIRED has not entered yet."""

    group: str
    member_id: str
    client_id: str
    instance_id: str | None


class Removal(StrEnum):
    """The reason why a coordinator removed a member (``MemberRemoved.why``); the new id follows ``REPLACED``."""

    LEFT = "left"
    SESSION_EXPIRED = "session expired"
    NOT_REJOINED = "did not rejoin in time"
    NOT_SYNCED = "did not sync in time"
    NOT_REVOKED = "did not give up its partitions in time"
    JOIN_TOO_LONG = "new member's join took too long"
    FULL = "the group is full"
    REPLACED = "replaced by"
    NOT_REPLACED = "its replacement could not be written"


@value
class MemberRemoved:
    """A member left, expired, or was replaced by a member of the same instance (``why``: a ``Removal``)."""

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

    ``size``: bytes of the record's batch; ``most``: ``message.max.bytes`` of the brokers. ``error``: the reason of a
    failure.
    """

    group: str
    generation: int
    size: int
    most: int
    error: ErrorCode


@value
class GroupLoaded:
    """A coordinator loaded a group from the log, after the group moved to this broker or the broker restarted."""

    group: str
    state: str
    generation: int
    members: tuple[str, ...]


@value
class GroupUnloaded:
    """A coordinator unloaded a group, because another broker leads the group's partition."""

    group: str


@value
class OffsetsLoadFailed:
    """A coordinator could not read the log of a partition of the offsets topic, so the partition's groups are not
    available.
    """

    partition: int
    why: str


@value
class OffsetCommitted:
    """A committed offset is in the log. Outside group management, the generation is -1 and the member "".

    ``position``: the offset of the commit's record in the group's log; -1 = unknown.
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
    """The log has a commit that the coordinator read after the client had opened a newer connection.

    Before that, the client may have committed a newer offset over its new connection. The commit's ``OffsetCommitted``
    notes follow, whose records have these positions in the group's log.
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
    """A coordinator read a request about a group's members from a connection, and serves the request from this step on.

    (``client``, ``connection``, ``request_id``) identifies the request. ``ids``: the request's (member id, instance id)
    pairs; a LeaveGroup may have several pairs. ``rows``: (name, bytes) as received: the protocols of a JoinGroup, or
    the assignments of a SyncGroup.
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
    """A coordinator sent the answer to a ``GroupRequestRead``. ``error``: the first error in the answer.

    For a JoinGroup: generation, protocol, leader, the member's id and the listed members. For a SyncGroup: the
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
    """An admin received a group's description. ``api``: DescribeGroups or ConsumerGroupDescribe.

    ``text``: of a group of the consumer protocol, its epochs and the epoch and partitions of each member.
    """

    group: str
    state: str
    members: tuple[str, ...]
    error: ErrorCode
    api: str = "DescribeGroups"
    text: str = ""


@value
class AdminAnswered:
    """An admin's command has a result. ``api``: the API of the last request; for RemoveMember "LeaveGroup".

    ``group``: "" for a command without a group. ``text``: the result, or the reason of a failure, as text.
    """

    group: str
    api: str
    error: ErrorCode
    text: str = ""


# --- consumer ------------------------------------------------------------------------------------------------------


class Rejoin(StrEnum):
    """The reasons of a member's rejoin (``MemberBecame.why``) to which other code reacts, or which other
    code counts.
    """

    REVOKED = "need to revoke partitions and re-join"
    PROBING = "Scheduled probing rebalance"
    """A reason of Streams with KIP-441; the text is from ``StreamThread``."""
    READY = "a learner is ready"
    """A reason of Streams with KIP-429's page, as are the next reasons."""
    LEAVING = "the instance is to hand its tasks over and leave"
    STAYING = "the instance is to stay after all"
    EXPIRED = "scale.down.timeout.ms is over"


@value
class MemberBecame:
    """A member changed its state (UNJOINED, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, CLOSED, FAILED).

    ``why``: the reason as text; a ``Rejoin`` if one applies.
    """

    group: str
    member_id: str
    old: str
    new: str
    generation: int
    why: str


@value
class AssignmentReceived:
    """A member received the assignment of this generation in the answer to SyncGroup."""

    group: str
    member_id: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@value
class IncompatibleRebalance:
    """An assignment of KIP-429's page said that members of V0 and V1 met (metric ``num.incompatible.rebalance``)."""

    group: str
    member_id: str
    generation: int


@value
class AssignmentRefused:
    """An assignment failed a check that a member makes of every assignment. ``MemberFailed`` follows.

    Source: KIP-429's page, PROTOCOL_VIOLATION.
    """

    group: str
    member_id: str
    generation: int
    why: str


@value
class PartitionsAssigned:
    """onPartitionsAssigned was called with ``added``; the member now owns ``owned``."""

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
    """onPartitionsLost has returned after the member learned that its membership had ended.

    The member now owns no partitions.
    """

    group: str
    member_id: str
    lost: tuple[TopicPartition, ...]


@value
class CallbackReturned:
    """A callback of the rebalance listener returned after some time, in which the polling thread did nothing else.

    ``took_us``: the time by the member's clock. The note about the changed partitions follows. During
    onPartitionsRevoked and onPartitionsLost the member still owned its old partitions; during onPartitionsAssigned it
    owned its new partitions.
    """

    group: str
    member_id: str
    callback: str
    took_us: int


@value
class ListenerFailed:
    """A callback of a rebalance listener raised an error."""

    group: str
    member_id: str
    callback: str
    why: str


SEEK = "seek"
"""``PositionSet.why`` of a position that the application chose."""
COMMITTED = "committed"
"""``PositionSet.why`` of a position from the committed offset."""
TRUNCATED = "truncated"
"""``PositionSet.why`` of a position beyond its leader's log end: the member resumes from the log end (KIP-320)."""
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

    The note is reported when the work on one partition's part of a poll is done. Interrupted work is never reported.
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
    """A member reads records of a partition from this offset on that were written in another leader epoch.

    After a new position the epoch is taken as 0 until such a note; -1: unknown. ``life``: the number of the start of
    the leader's process that appended the records.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    life: int = 0


@value
class CommitAnswered:
    """A member received the answer to a commit: the request's generation and the first error."""

    group: str
    member_id: str
    generation: int
    error: ErrorCode


@value
class CoordinatorKnown:
    """A member found its coordinator (host), or lost it ("")."""

    group: str
    host: str
    why: str


@value
class MemberFailed:
    """A fatal error reached the application; the member ends."""

    group: str
    member_id: str
    error: ErrorCode
    why: str


# --- real clients ------------------------------------------------------------------------------------------------


@value
class ClientConnected:
    """A real client opened a TCP connection, which is the actor of the note.

    ``client_id``: of its first request. ``broker``: at whose port; "" for a scripted client.
    """

    client_id: str
    broker: str = ""


@value
class ClientDisconnected:
    """The TCP connection of a real client ended."""


@value
class ScriptDeparted:
    """An answer to a scripted client has another error than in the recording, or did not come.

    ``request``: Kafka's name of the API. ``recorded_us``: the time of the request in the recording. ``recorded`` and
    ``now``: the two errors. ``then``: what the client does.
    """

    request: str
    recorded_us: int
    recorded: str
    now: str
    then: str


@value
class ScriptEnded:
    """A scripted client has sent all requests of its script. ``departures``: number of departures."""

    departures: int


# --- servers -------------------------------------------------------------------------------------------------------


@value
class AnswerInjected:
    """A server answered this request with an error, as ``AnswerNext`` ordered, and did not execute the request."""

    api: str
    sender: str
    error: ErrorCode


# --- data path -----------------------------------------------------------------------------------------------------


@value
class ProducerStarted:
    """A producer of a topic started. ``acks``: 0 no acknowledgement, 1 the leader's, -1 all in-sync replicas'."""

    topic: str
    acks: int


@value
class RecordsAppended:
    """A leader appended records ``base_offset .. base_offset + count - 1``.

    ``producer_id``, ``producer_epoch``, ``sequence``: the values of an idempotent producer's batch; otherwise -1.
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
    """A broker serves a partition from its start on, or since the topic was created or grew.

    The note has the end of the partition's log. ``epochs``: (leader epoch, offset of its first record) of the log,
    ascending; () = unknown.
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
    """A producer failed a batch; ``definite``: the batch is certainly not in the log."""

    topic: str
    partition: int
    count: int
    error: ErrorCode
    definite: bool
