"""What a broker and the group coordinator of the same process tell each other about the replicated offsets topic.

In Kafka these are method calls (``ReplicaManager.appendRecords``, ``GroupCoordinator.onElection``); here they are
messages between two actors of one host (``b0`` and ``b0/coordinator``). The keys are ours.

A coordinator's append is answered when the record is below the high watermark, so that nothing is told to a member that
another broker, elected from the in-sync replicas, would not know. Scala's coordinator asks for that (acks=all); Java's
appends to the leader alone and hears of the high watermark by itself (``CoordinatorRuntime.HighWatermarkListener``).
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since


@message(api_key=112, kind=REQUEST, versions=range(0, 1))
class LeadGroups:
    """Broker -> coordinator: we lead this partition of ``__consumer_offsets``; this is its log, to its very end.

    Source: Kafka's ``onElection``; the log is read to its end, not to the high watermark.
    """

    partition: int
    leader_epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]


@message(api_key=112, kind=REPLY, versions=range(0, 1))
class LeadGroupsReply:
    """Heard."""


@message(api_key=113, kind=REQUEST, versions=range(0, 1))
class ResignGroups:
    """Broker -> coordinator: we do not lead this partition of ``__consumer_offsets`` (any more), as of this epoch."""

    partition: int
    leader_epoch: int


@message(api_key=113, kind=REPLY, versions=range(0, 1))
class ResignGroupsReply:
    """Heard."""


@message(api_key=114, kind=REQUEST, versions=range(0, 2))
class AppendGroups:
    """Coordinator -> broker: append these records, all together, and tell when all in-sync replicas have them.

    ``leader_epoch``: under which the coordinator leads the partition; an older one is NOT_LEADER_OR_FOLLOWER.
    ``required_acks``: -1: as acks=all of a producer, with ``min.insync.replicas`` and ``offsets.commit.timeout.ms``;
    1: neither counts, and the answer is the news that the high watermark has passed the records.
    """

    partition: int
    leader_epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]
    required_acks: int = since(1, default=-1)


@message(api_key=114, kind=REPLY, versions=range(0, 2))
class AppendGroupsReply:
    """NONE and the first record's offset; or why not. See ``ErrorCode.definite`` for what may be in the log anyway."""

    error: ErrorCode
    base_offset: int
