"""What a consumer in KIP-333's mode and its coordinator say of the second commit log: range tokens, and how far.

The page names no requests for it; the keys are ours. A generation is asked for as by OffsetCommit: what fences a
member's offsets fences its ranges.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import OffsetOutcome, TopicPartitions
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER
from kemu.protocol.wire.schema import REPLY, REQUEST, message, struct

RANGES_VERSION = 0
"""Of both requests: there is one."""


@struct
class RangeToOpen:
    """A token: offsets ``start .. end - 1`` of a partition are to be worked off by the second consumer."""

    topic: str
    partition: int
    start: int
    end: int


@struct
class RangeProgress:
    """The second consumer's commit: the next offset it will work off in a partition."""

    topic: str
    partition: int
    offset: int


@message(api_key=116, kind=REQUEST, versions=range(0, 1))
class RangeCommit:
    """Member -> coordinator: write these to the second commit log, all together."""

    group: str
    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    tokens: tuple[RangeToOpen, ...] = ()
    offsets: tuple[RangeProgress, ...] = ()


@message(api_key=116, kind=REPLY, versions=range(0, 1))
class RangeCommitReply:
    """One outcome per token, then one per offset."""

    outcomes: tuple[OffsetOutcome, ...]


def outcome_of_all(request: RangeCommit, error: ErrorCode) -> RangeCommitReply:
    """The reply that says the same of everything in the request."""
    tokens = [OffsetOutcome(topic=row.topic, partition=row.partition, error=error) for row in request.tokens]
    offsets = [OffsetOutcome(topic=row.topic, partition=row.partition, error=error) for row in request.offsets]
    return RangeCommitReply(outcomes=(*tokens, *offsets))


@message(api_key=117, kind=REQUEST, versions=range(0, 1))
class RangeFetch:
    """Member -> coordinator: what do both commit logs of these partitions say?"""

    group: str
    topics: tuple[TopicPartitions, ...]


@struct
class FetchedLogs:
    """Both commit logs of one partition; -1 where nothing is committed.

    ``tokens``: (start, end) of the ranges that still count, oldest first.
    """

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    tokens: tuple[tuple[int, int], ...] = ()
    second_offset: int = -1


@message(api_key=117, kind=REPLY, versions=range(0, 1))
class RangeFetchReply:
    """One row per partition asked for; the whole request's error."""

    error: ErrorCode = ErrorCode.NONE
    logs: tuple[FetchedLogs, ...] = ()
