"""The second commit logs of one group (KIP-333): tokens of ranges, and how far the second consumer came.

What it holds is in the log of the group's partition. A token is closed when the second consumer has committed its end
and the first log has gone past it; then its record has no more to say, and a tombstone follows. The last commit stays,
as an offset does, and goes when the partition's offset goes.
"""

from typing import NamedTuple

from kemu.actors.coordinator.offsets import Kept
from kemu.protocol.messages.records import StoredRange
from kemu.protocol.names import TopicPartition


class KeptRange(NamedTuple):
    """A token in the log, and where."""

    value: StoredRange
    position: int


class SecondLog:
    """Of one partition: tokens by their start in order of opening, and the last commit."""

    __slots__ = ("committed", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[int, KeptRange] = {}
        self.committed: Kept | None = None

    @property
    def progress(self) -> int:
        """Behind what the second consumer committed; -1: nothing."""
        return -1 if self.committed is None else self.committed.value.offset

    @property
    def newest_ms(self) -> int:
        """When it was written to last."""
        times = [kept.value.commit_timestamp_ms for kept in self.tokens.values()]
        if self.committed is not None:
            times.append(self.committed.value.commit_timestamp_ms)
        return max(times, default=0)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of every token, by start."""
        return tuple((start, kept.value.end) for start, kept in sorted(self.tokens.items()))

    @property
    def last_position(self) -> int:
        """Where the last of its records is in the group's log; -1 without any."""
        positions = [kept.position for kept in self.tokens.values()]
        return max((*positions, -1 if self.committed is None else self.committed.position), default=-1)

    def contains(self, start: int, end: int) -> bool:
        """Whether a token brings no listener: it is sent once more."""
        kept = self.tokens.get(start)
        return kept is not None and kept.value.end == end

    def closed_by(self, progress: int, primary: int) -> list[int]:
        """Starts of the tokens that are over with this commit of the second consumer."""
        return [start for start, kept in self.tokens.items() if kept.value.end <= min(progress, primary)]


class SecondLogs:
    """Of all partitions of a group, in order of first use."""

    __slots__ = ("by_partition",)

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, SecondLog] = {}

    def of(self, partition: TopicPartition) -> SecondLog:
        """The log of a partition; an empty one that is not kept if there is none."""
        return self.by_partition.get(partition) or SecondLog()

    def open(self, partition: TopicPartition, start: int, kept: KeptRange) -> None:
        """A token is in the log."""
        log = self._kept(partition)
        known = log.tokens.get(start)
        if known is None or known.position < kept.position:
            log.tokens[start] = kept

    def commit(self, partition: TopicPartition, kept: Kept) -> None:
        """A commit of the second consumer is in the log."""
        log = self._kept(partition)
        if log.committed is None or log.committed.position < kept.position:
            log.committed = kept

    def close(self, partition: TopicPartition, start: int, position: int) -> None:
        """A token's tombstone is at this position of the log."""
        log = self.of(partition)
        if start in log.tokens and log.tokens[start].position < position:
            del log.tokens[start]
            self._forget_if_empty(partition, log)

    def remove_commit(self, partition: TopicPartition, position: int) -> None:
        """The tombstone of the commit is at this position of the log."""
        log = self.of(partition)
        if log.committed is not None and log.committed.position < position:
            log.committed = None
            self._forget_if_empty(partition, log)

    def _kept(self, partition: TopicPartition) -> SecondLog:
        return self.by_partition.setdefault(partition, SecondLog())

    def _forget_if_empty(self, partition: TopicPartition, log: SecondLog) -> None:
        if not log.tokens and log.committed is None:
            del self.by_partition[partition]
