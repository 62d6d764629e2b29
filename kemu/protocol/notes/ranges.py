"""Notes of coordinators and members about KIP-333's mode: ranges, the second commit log, and the second consumer."""

from kemu.protocol.wire.values import value

# --- group coordinator ---------------------------------------------------------------------------------------------


@value
class RangeOpened:
    """A token is in the second commit log: the second consumer must process ``start .. end - 1``.

    ``position``: the offset of the token's record in the group's log.
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
    """A coordinator loaded the second commit log of a partition from the group's log.

    The log may include records whose writes the former coordinator never reported, because it lost its partition first.

    ``tokens``: (start, end), by start; ``second_offset``: -1 without a commit; ``position``: the offset of the last
    record.
    """

    group: str
    topic: str
    partition: int
    tokens: tuple[tuple[int, int], ...]
    second_offset: int
    position: int


@value
class RangesRemoved:
    """The second commit log of a partition was removed: it expired, was deleted, or an operator reset the offset."""

    group: str
    topic: str
    partition: int
    why: str


# --- consumer ------------------------------------------------------------------------------------------------------


@value
class RangeProcessed:
    """The application finished records that the second consumer read; the fields are those of ``Processed``."""

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
    """Records ``first .. last - 1`` of a range were deleted from the log before the second consumer read them."""

    group: str
    topic: str
    partition: int
    first: int
    last: int


@value
class RangePositionSet:
    """The offset at which the second consumer starts or resumes in the ranges of a partition that its member owns."""

    group: str
    topic: str
    partition: int
    offset: int


@value
class RangeEpochRead:
    """The second consumer reads records of another leader epoch; the fields are those of ``EpochRead``."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    life: int = 0


@value
class ParallelRebalance:
    """A member started with ``enable.parallel.rebalance``."""

    group: str


@value
class ChildConsumerStarted:
    """A member's second consumer was created; it runs until it crashes or the member ends."""

    group: str


@value
class ChildConsumerDied:
    """The second consumer crashed; its uncommitted records are read again."""

    group: str
    why: str
