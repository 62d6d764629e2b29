"""The committed offsets of one group: offsets in the log, and offsets that are being written.

Source: KIP-211 (expiry), Kafka's OffsetMetadataManager.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kemu.protocol.messages.records import StoredOffset
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, TopicPartition

MS_PER_MINUTE = 60_000


class Kept(NamedTuple):
    """An offset, and its record's position in the log. Of two offsets, the one at the higher position is valid."""

    value: StoredOffset
    position: int
    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER


class GroupOffsets:
    """Committed offsets by partition, in order of the first commit."""

    __slots__ = ("being_written", "committed")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Kept] = {}
        self.being_written: dict[TopicPartition, int] = {}
        """Partition -> number of appends in progress that contain an offset of the partition."""

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the start of an append with offsets of these partitions."""
        for partition in partitions:
            self.being_written[partition] = self.being_written.get(partition, 0) + 1

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the end of an append with offsets of these partitions."""
        for partition in partitions:
            left = self.being_written[partition] - 1
            if left:
                self.being_written[partition] = left
            else:
                del self.being_written[partition]

    def commit(self, partition: TopicPartition, kept: Kept) -> bool:
        """Store an offset from the log, unless a later offset is known."""
        known = self.committed.get(partition)
        if known is not None and known.position >= kept.position:
            return False
        self.committed[partition] = kept
        return True

    def remove(self, partition: TopicPartition, position: int) -> bool:
        """Remove the offset if its record precedes the tombstone at this position."""
        known = self.committed.get(partition)
        if known is None or known.position >= position:
            return False
        del self.committed[partition]
        return True

    def is_empty(self) -> bool:
        """Whether the group has no offset, committed or being written."""
        return not (self.committed or self.being_written)

    def everything(self) -> tuple[TopicPartition, ...]:
        """All partitions with a committed offset or an offset being written; a deletion writes tombstones for them."""
        found = dict.fromkeys(self.committed)
        found.update(dict.fromkeys(self.being_written))
        return tuple(found)

    def expired(
        self, now_ms: int, retention_ms: int, base: Callable[[TopicPartition, StoredOffset], int | None]
    ) -> tuple[TopicPartition, ...]:
        """The partitions whose offset expires.

        Args:
            now_ms: the current time.
            retention_ms: the retention of an offset, from its base.
            base: the start of the retention (ms); None: the offset does not expire. An explicit expiry time of an
                offset overrides the retention.
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
