"""The committed offsets of one group: what is in the log, and what is being written.

Source: KIP-211 (expiry), Kafka's OffsetMetadataManager.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kemu.protocol.messages.records import StoredOffset
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, TopicPartition

MS_PER_MINUTE = 60_000


class Kept(NamedTuple):
    """An offset in the log, and where: of two, the later position counts."""

    value: StoredOffset
    position: int
    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER


class GroupOffsets:
    """Keyed by partition, in order of first commit."""

    __slots__ = ("being_written", "committed")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Kept] = {}
        self.being_written: dict[TopicPartition, int] = {}
        """Partition -> how many appends with an offset of it are under way."""

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """An append with offsets of these is under way."""
        for partition in partitions:
            self.being_written[partition] = self.being_written.get(partition, 0) + 1

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """It is over."""
        for partition in partitions:
            left = self.being_written[partition] - 1
            if left:
                self.being_written[partition] = left
            else:
                del self.being_written[partition]

    def commit(self, partition: TopicPartition, kept: Kept) -> bool:
        """Take an offset from the log, unless a later one is known."""
        known = self.committed.get(partition)
        if known is not None and known.position >= kept.position:
            return False
        self.committed[partition] = kept
        return True

    def remove(self, partition: TopicPartition, position: int) -> bool:
        """A tombstone at this position removes what was written before it."""
        known = self.committed.get(partition)
        if known is None or known.position >= position:
            return False
        del self.committed[partition]
        return True

    def is_empty(self) -> bool:
        """Whether a group can go without leaving offsets behind."""
        return not (self.committed or self.being_written)

    def everything(self) -> tuple[TopicPartition, ...]:
        """Every partition with an offset of any kind: what a deletion must write tombstones for."""
        found = dict.fromkeys(self.committed)
        found.update(dict.fromkeys(self.being_written))
        return tuple(found)

    def expired(
        self, now_ms: int, retention_ms: int, base: Callable[[TopicPartition, StoredOffset], int | None]
    ) -> tuple[TopicPartition, ...]:
        """The partitions whose offset is to go.

        Args:
            now_ms: the time.
            retention_ms: how long an offset lasts from its base.
            base: when that time began (ms), None: this offset does not expire. An offset with an explicit time of its
                own goes by that instead.
        """
        found = []
        for partition, kept in self.committed.items():
            if partition in self.being_written:
                continue
            since = base(partition, kept.value)
            if since is None:
                continue
            explicit = kept.value.expire_timestamp_ms
            if now_ms >= (since + retention_ms if explicit is None else explicit):
                found.append(partition)
        return tuple(found)
