"""A partition as the consumer that owns it sees it."""

from enum import Enum
from typing import NamedTuple

from kemu.protocol.messages.data import FetchPartition
from kemu.protocol.names import ActorName, TopicPartition


class Seeking(Enum):
    """How far a partition is on the way to its position."""

    COMMITTED = "asks for the committed offset"
    RESET = "asks its leader for the start or the end"
    FETCHING = "has a position"


class Partition:
    """A partition this consumer owns. A partition that comes back after it was given up is another object."""

    __slots__ = (
        "at",
        "buffer",
        "epoch_read",
        "leader",
        "leader_epoch",
        "number",
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
        self.leader: ActorName | None = None
        self.leader_epoch = -1
        self.epoch_read = 0
        """Leader epoch of the last records fetched since the position was set."""
        self.buffer: list[tuple[int, int]] = []
        """Fetched and not returned yet: (first, last + 1), in order."""
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
