"""The state of one partition in its consumer."""

from enum import Enum
from typing import NamedTuple

from kemu.protocol.messages.data import FetchPartition
from kemu.protocol.names import ActorName, TopicPartition


class Seeking(Enum):
    """The stage of a partition on the way to its position."""

    COMMITTED = "asks for the committed offset"
    END = "asks its leader for the log's end, to jump there (KIP-333)"
    JUMPING = "writes a token for the gap, then commits the end (KIP-333)"
    RESET = "asks its leader for the start or the end"
    VALIDATING = "asks its leader to validate the position"
    """Kafka's AWAIT_VALIDATION (KIP-320): the partition is neither fetched nor committed."""
    FETCHING = "has a position"


class Partition:
    """A partition of a consumer. A partition that is revoked and assigned again is a new object."""

    __slots__ = (
        "at",
        "buffer",
        "checked",
        "end",
        "epoch_read",
        "jumps",
        "leader",
        "leader_epoch",
        "life_read",
        "number",
        "offset_epoch",
        "paused",
        "position",
        "row",
        "seeking",
        "serving",
        "topic",
        "waits_for_metadata",
    )

    def __init__(self, at: TopicPartition) -> None:
        self.at = at
        self.topic, self.number = at
        self.seeking = Seeking.COMMITTED
        self.position = -1
        """The offset of the next record to return; -1: unknown."""
        self.offset_epoch = -1
        """The leader epoch of the last record before the position; -1: unknown."""
        self.checked: tuple[ActorName | None, int] | None = None
        """The leader and its epoch for which the position was validated, or is being validated."""
        self.leader: ActorName | None = None
        self.leader_epoch = -1
        """The newest known leader epoch."""
        self.epoch_read = self.life_read = -1
        """The leader epoch of the last records fetched since the position was set, and the life of that leader."""
        self.jumps = False
        """Whether the validated offset is the commit before a jump (KIP-333), not a position."""
        self.buffer: list[tuple[int, int, int]] = []
        """Fetched records that no poll has returned: (first, last + 1, leader epoch), in order."""
        self.end = -1
        """The high watermark of the last answer with records; -1 before the first such answer."""
        self.row: FetchPartition | None = None
        """The partition's row in a Fetch from this position. A change of the position or the leader makes a
        new object.
        """
        self.serving = True
        """False from the commit before a join on: polls return no more records (Kafka's pending revocation)."""
        self.paused = False
        """Whether the application paused the partition: it is neither fetched nor returned; the buffer remains."""
        self.waits_for_metadata = False
        """Whether the known leader was wrong, so that the next fetch waits for new metadata."""


class Returned(NamedTuple):
    """A partition's share of a poll's records: ``first .. last - 1``."""

    at: TopicPartition
    first: int
    last: int


class ReturnedOfRange(Returned):
    """A partition's share of a poll's records, read by KIP-333's second consumer."""

    __slots__ = ()
