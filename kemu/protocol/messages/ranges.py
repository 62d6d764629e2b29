"""Messages about the second commit log, between a consumer in KIP-333's mode and its coordinator.

The KIP's page defines no requests for the log; the API keys are kemu's own. As in OffsetCommit, requests contain the
generation, so that offsets and ranges have the same fence.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import OffsetOutcome, TopicPartitions
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER
from kemu.protocol.wire.schema import REPLY, REQUEST, message, struct

RANGES_VERSION = 0
"""The only version of RangeCommit and RangeFetch."""


@struct
class RangeToOpen:
    """A token: the second consumer must process offsets ``start .. end - 1`` of a partition."""

    topic: str
    partition: int
    start: int
    end: int


@struct
class RangeProgress:
    """The second consumer's commit: the next offset to process in a partition."""

    topic: str
    partition: int
    offset: int


@message(api_key=116, kind=REQUEST, versions=range(0, 1))
class RangeCommit:
    """Member -> coordinator: write tokens and offsets to the second commit log, as one batch."""

    group: str
    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    tokens: tuple[RangeToOpen, ...] = ()
    offsets: tuple[RangeProgress, ...] = ()


@message(api_key=116, kind=REPLY, versions=range(0, 1))
class RangeCommitReply:
    """The reply to RangeCommit: one outcome per token, then one outcome per offset."""

    outcomes: tuple[OffsetOutcome, ...]


def outcome_of_all(request: RangeCommit, error: ErrorCode) -> RangeCommitReply:
    """A reply to RangeCommit with the same error for all rows of the request."""
    tokens = [OffsetOutcome(topic=row.topic, partition=row.partition, error=error) for row in request.tokens]
    offsets = [OffsetOutcome(topic=row.topic, partition=row.partition, error=error) for row in request.offsets]
    return RangeCommitReply(outcomes=(*tokens, *offsets))


@message(api_key=117, kind=REQUEST, versions=range(0, 1))
class RangeFetch:
    """Member -> coordinator: read both commit logs of these partitions."""

    group: str
    topics: tuple[TopicPartitions, ...]


@struct
class FetchedLogs:
    """Both commit logs of one partition; -1 without a commit.

    ``tokens``: (start, end) of the open ranges, oldest first.
    """

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    tokens: tuple[tuple[int, int], ...] = ()
    second_offset: int = -1


@message(api_key=117, kind=REPLY, versions=range(0, 1))
class RangeFetchReply:
    """The reply to RangeFetch: one row per requested partition, and the error of the whole request."""

    error: ErrorCode = ErrorCode.NONE
    logs: tuple[FetchedLogs, ...] = ()
