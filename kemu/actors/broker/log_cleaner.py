"""The log cleaner of ``__consumer_offsets``: when a log is cleaned, and which records remain.

The newest record of each key remains below the active segment and the high watermark, with its offset. Removed records
leave gaps of offsets. A tombstone remains for ``log.cleaner.delete.retention.ms``, so that a follower that was away
copies the tombstone. Every broker cleans its own logs.

Kafka's cleaner looks for work every ``log.cleaner.backoff.ms`` (15 s). Here an append that closes a segment cleans the
log. A restarted broker counts the bytes of its segments anew.

Source: ``LogCleanerManager.cleanableOffsets``, ``LogToClean``, ``Cleaner.shouldRetainRecord``, Kafka 3.4.
"""

from collections.abc import Callable, Sequence

from kemu.actors.machine import Record
from kemu.protocol.messages.records import removed_count, removed_records

TOMBSTONES_MS = 86_400_000
"""``log.cleaner.delete.retention.ms``."""


class Segments:
    """The bytes in the segments of one log: cleaned, closed since the last cleaning, and active."""

    __slots__ = ("active_bytes", "clean_bytes", "closed_bytes", "first_ms")

    def __init__(self) -> None:
        self.clean_bytes = 0
        self.closed_bytes = 0
        self.active_bytes = 0
        self.first_ms = 0
        """The time of the active segment's first batch."""

    def append(self, size: int, now_ms: int, *, segment_bytes: int, segment_ms: int) -> bool:
        """Add a batch; return whether it starts a segment after which the earlier segments must be cleaned.

        At least half of these segments' bytes must be dirty (``log.cleaner.min.cleanable.ratio`` 0.5).
        """
        full = self.active_bytes + size > segment_bytes or now_ms - self.first_ms > segment_ms
        closes = self.active_bytes > 0 and full
        if closes:
            self.closed_bytes += self.active_bytes
            self.active_bytes = 0
        if not self.active_bytes:
            self.first_ms = now_ms
        self.active_bytes += size
        return closes and self.closed_bytes >= self.clean_bytes

    def cleaned(self, left_bytes: int) -> None:
        """Note the size of the cleaned segments."""
        self.clean_bytes, self.closed_bytes = left_bytes, 0


def newest(records: Sequence[Record], first_position: int, found: dict[bytes, int]) -> None:
    """Add the position of each key's newest record to ``found``."""
    position = first_position
    for record in records:
        count = removed_count(record)
        if not count:
            found[record[0]] = position
        position += count or 1


def cleaned(records: Sequence[Record], keeps: Callable[[Record, int], bool]) -> list[Record]:
    """The records that remain, and the places of the others (``removed_records``).

    ``keeps``: whether the record at this position remains.
    """
    left: list[Record] = []
    removed = position = 0
    for record in records:
        count = removed_count(record)
        if not count and keeps(record, position):
            if removed:
                left.append(removed_records(removed))
                removed = 0
            left.append(record)
        else:
            removed += count or 1
        position += count or 1
    if removed:
        left.append(removed_records(removed))
    return left
