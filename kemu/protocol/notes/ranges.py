"""What coordinators and members report of KIP-333's mode: ranges, the second commit log, and the second consumer."""

from kemu.protocol.wire.values import value

# --- group coordinator ---------------------------------------------------------------------------------------------


@value
class RangeOpened:
    """A token is in the second commit log: ``start .. end - 1`` are the second consumer's to work off.

    ``position``: where its record is in the group's log.
    """

    group: str
    topic: str
    partition: int
    start: int
    end: int
    generation: int
    member_id: str
    position: int


@value
class RangeCommitted:
    """A commit of the second consumer is in the second commit log."""

    group: str
    topic: str
    partition: int
    offset: int
    generation: int
    member_id: str
    position: int


@value
class RangesLoaded:
    """The second commit log of a partition came back from the group's log.

    What a coordinator wrote last and never told of, because its office ended first, is among it.

    ``tokens``: (start, end), by start; ``second_offset``: -1 without a commit; ``position``: of its last record.
    """

    group: str
    topic: str
    partition: int
    tokens: tuple[tuple[int, int], ...]
    second_offset: int
    position: int


@value
class RangesRemoved:
    """The second commit log of a partition is gone: expired, deleted, or an operator chose an offset."""

    group: str
    topic: str
    partition: int
    why: str


# --- consumer ------------------------------------------------------------------------------------------------------


@value
class RangeProcessed:
    """As ``Processed``, of records that the second consumer read."""

    group: str
    member_id: str
    generation: int
    topic: str
    partition: int
    first: int
    last: int
    started_us: int


@value
class RangeTrimmed:
    """Records ``first .. last - 1`` of a range are not in the log any more, and were never read there."""

    group: str
    topic: str
    partition: int
    first: int
    last: int


@value
class RangePositionSet:
    """Where the second consumer begins, or goes on, in the ranges of a partition that its member owns."""

    group: str
    topic: str
    partition: int
    offset: int


@value
class RangeEpochRead:
    """As ``EpochRead``, of what the second consumer reads."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    life: int = 0


@value
class ParallelRebalance:
    """A member runs with ``enable.parallel.rebalance``."""

    group: str


@value
class ChildConsumerStarted:
    """A member's second consumer was created; it lives until it dies or the member ends."""

    group: str


@value
class ChildConsumerDied:
    """The second consumer died; what it had read and not committed is read again."""

    group: str
    why: str
