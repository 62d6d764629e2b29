"""The second commit logs of one group (KIP-333): tokens of ranges, and the second consumer's progress.

All of this state is in the log of the group's partition. A token closes when the second consumer has committed the
token's end and the offset in the first log is higher. A tombstone then removes the token's record. The last commit
remains until the partition's offset is removed.
"""

from typing import NamedTuple

from kemu.actors.coordinator.offsets import Kept
from kemu.protocol.messages.records import StoredRange
from kemu.protocol.names import TopicPartition


class KeptRange(NamedTuple):
    """A token, and the position of its record in the log."""

    value: StoredRange
    position: int


class SecondLog:
    """The second commit log of one partition: tokens by start, in the order in which they opened, and the
    last commit.
    """

    __slots__ = ("committed", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[int, KeptRange] = {}
        self.committed: Kept | None = None

    @property
    def progress(self) -> int:
        """The second consumer's committed offset; -1 without a commit."""
        return -1 if self.committed is None else self.committed.value.offset

    @property
    def newest_ms(self) -> int:
        """The time of the newest record."""
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
        """The position of the last record in the group's log; -1 without records."""
        positions = [kept.position for kept in self.tokens.values()]
        return max((*positions, -1 if self.committed is None else self.committed.position), default=-1)

    def contains(self, start: int, end: int) -> bool:
        """Whether a token is already stored, so that the request repeats the token."""
        kept = self.tokens.get(start)
        return kept is not None and kept.value.end == end

    def closed_by(self, progress: int, primary: int) -> list[int]:
        """Starts of the tokens that a commit of the second consumer closes."""
        return [start for start, kept in self.tokens.items() if kept.value.end <= min(progress, primary)]


class SecondLogs:
    """The second commit logs of a group's partitions, in order of first use."""

    __slots__ = ("by_partition",)

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, SecondLog] = {}

    def of(self, partition: TopicPartition) -> SecondLog:
        """The log of a partition, or a new empty log that is not stored."""
        return self.by_partition.get(partition) or SecondLog()

    def open(self, partition: TopicPartition, start: int, kept: KeptRange) -> None:
        """Add a token that is in the log."""
        log = self._kept(partition)
        known = log.tokens.get(start)
        if known is None or known.position < kept.position:
            log.tokens[start] = kept

    def commit(self, partition: TopicPartition, kept: Kept) -> None:
        """Add a commit of the second consumer that is in the log."""
        log = self._kept(partition)
        if log.committed is None or log.committed.position < kept.position:
            log.committed = kept

    def close(self, partition: TopicPartition, start: int, position: int) -> None:
        """Remove a token whose tombstone has this position in the log."""
        log = self.of(partition)
        if start in log.tokens and log.tokens[start].position < position:
            del log.tokens[start]
            self._forget_if_empty(partition, log)

    def remove_commit(self, partition: TopicPartition, position: int) -> None:
        """Remove the commit, whose tombstone has this position in the log."""
        log = self.of(partition)
        if log.committed is not None and log.committed.position < position:
            log.committed = None
            self._forget_if_empty(partition, log)

    def _kept(self, partition: TopicPartition) -> SecondLog:
        return self.by_partition.setdefault(partition, SecondLog())

    def _forget_if_empty(self, partition: TopicPartition, log: SecondLog) -> None:
        if not log.tokens and log.committed is None:
            del self.by_partition[partition]
