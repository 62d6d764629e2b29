"""A partition as the consumer that owns it sees it."""

from enum import Enum
from typing import NamedTuple

from kemu.protocol.messages.data import FetchPartition
from kemu.protocol.names import ActorName, TopicPartition


class Seeking(Enum):
    """How far a partition is on the way to its position."""

    COMMITTED = "asks for the committed offset"
    END = "asks its leader for the end, to jump there (KIP-333)"
    JUMPING = "writes down what it jumps over, then that it did (KIP-333)"
    RESET = "asks its leader for the start or the end"
    VALIDATING = "asks its leader whether it still has what was read so far"
    """Kafka's AWAIT_VALIDATION (KIP-320): neither fetched nor committed meanwhile."""
    FETCHING = "has a position"


class Partition:
    """A partition this consumer owns. A partition that comes back after it was given up is another object."""

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
        """Offset of the next record a poll returns; -1 while unknown."""
        self.offset_epoch = -1
        """Leader epoch of the last record before the position, as far as it is known; -1: it is not."""
        self.checked: tuple[ActorName | None, int] | None = None
        """The leader and its epoch for which the position was found good, or is being looked at."""
        self.leader: ActorName | None = None
        self.leader_epoch = -1
        """The newest heard of."""
        self.epoch_read = self.life_read = -1
        """Leader epoch of the last records fetched since the position was set."""
        self.jumps = False
        """What is validated is the commit that it jumps away from (KIP-333), not a position."""
        self.buffer: list[tuple[int, int, int]] = []
        """Fetched and not returned yet: (first, last + 1, leader epoch), in order."""
        self.end = -1
        """The high watermark that came with the last records; -1: none came yet."""
        self.row: FetchPartition | None = None
        """Its row in a Fetch from this position; another object whenever the position or the leader changed."""
        self.serving = True
        """False from the commit before a join on: nothing more is returned (pending revocation)."""
        self.paused = False
        """By the application: it is neither fetched nor returned; what is buffered stays."""
        self.waits_for_metadata = False
        """Its leader proved wrong; not fetched until metadata was refreshed."""


class Returned(NamedTuple):
    """A partition's part of what a poll returned: records ``first .. last - 1``."""

    at: TopicPartition
    first: int
    last: int


class ReturnedOfRange(Returned):
    """The same of records that KIP-333's second consumer read."""

    __slots__ = ()
