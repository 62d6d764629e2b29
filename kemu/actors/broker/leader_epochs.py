"""The leader epochs of a log, and the offset at which a follower's log diverges from its leader's.

Each epoch is stored with the offset of its first record: an epoch ends where the next known epoch begins. From these
entries a leader answers a request for the end of an epoch (OffsetForLeaderEpoch, or since 2.7 a fetch with its last
epoch). From the answer a follower derives the part of its own log to keep. Both answer and derivation are pure
functions. Sources: KIP-101 (truncate by epoch, not by high watermark), KIP-279 (repeat the request when the leader does
not know the epoch), KIP-595 (by fetches). Kafka: ``LeaderEpochFileCache``, ``AbstractFetcherThread``.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import EpochEnd, EpochQuestion
from kemu.protocol.replication import Truncation

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEndOffset(NamedTuple):
    """An epoch and the offset after its last record; both -1 if undefined."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class LeaderEpochs:
    """The leader epochs of a log: (epoch, start offset) in ascending order of both."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self) -> None:
        self._epochs: tuple[int, ...] = ()
        self._starts: tuple[int, ...] = ()
        self.latest = UNDEFINED_EPOCH
        """The newest epoch, -1 without a known epoch."""

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """All entries, oldest first."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add an epoch with its start offset; returns whether the epoch is new.

        Contradicting entries (a newer epoch, or an epoch that starts at or after the offset) are removed. Such entries
        are from before a truncation, or from another leader.
        """
        assert epoch >= 0 and start_offset >= 0, f"({epoch}, {start_offset})"
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._epochs = (*self._epochs[:keep], epoch)
        self._starts = (*self._starts[:keep], start_offset)
        self.latest = epoch
        return True

    def truncate_end(self, end_offset: int) -> None:
        """Remove epochs that start at or after the log's new end. An undefined end (-1) changes nothing."""
        if end_offset == UNDEFINED_OFFSET:
            return
        keep = bisect_left(self._starts, end_offset)
        self._epochs, self._starts = self._epochs[:keep], self._starts[:keep]
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def truncate_start(self, start_offset: int) -> None:
        """Move the epoch of the log's new first record to the log's new start, and remove older epochs."""
        index = bisect_right(self._starts, start_offset) - 1
        if index >= 0:
            self._epochs, self._starts = self._epochs[index:], (start_offset, *self._starts[index + 1 :])

    def clear(self) -> None:
        """Remove all entries."""
        self._epochs, self._starts = (), ()
        self.latest = UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest known epoch that is not above ``epoch``, and its end offset.

        The result is undefined if ``epoch`` is undefined or newer than all known epochs. An epoch older than all known
        epochs ends where the first known epoch begins.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return UNDEFINED
        if above == 0:
            return EpochEndOffset(epoch, self._starts[0])
        return EpochEndOffset(self._epochs[above - 1], self._starts[above])

    def divergence(self, last_epoch: int, offset: int, log_end_offset: int) -> EpochEndOffset | None:
        """Compare this log with a log that ends at ``offset`` with a record of ``last_epoch``.

        Returns the newest epoch that both logs may have, and its end in this log; None without a divergence. The
        result is undefined if ``last_epoch`` is newer than all known epochs.

        Source: ``Partition.readRecords`` (KIP-595).
        """
        found = self.end_offset_for(last_epoch, log_end_offset)
        return None if found.epoch == last_epoch and offset <= found.end_offset else found


def no_epoch_end(question: EpochQuestion, error: ErrorCode) -> EpochEnd:
    """A row of OffsetForLeaderEpoch with only an error."""
    return EpochEnd(topic=question.topic, partition=question.partition, error_code=error)


def epoch_end(question: EpochQuestion, error: ErrorCode, epochs: LeaderEpochs, log_end_offset: int) -> EpochEnd:
    """A leader's answer to one row of OffsetForLeaderEpoch; with an error, the row has no offset."""
    if error is not ErrorCode.NONE:
        return no_epoch_end(question, error)
    found = epochs.end_offset_for(question.leader_epoch, log_end_offset)
    return EpochEnd(
        topic=question.topic,
        partition=question.partition,
        error_code=error,
        leader_epoch=found.epoch,
        end_offset=found.end_offset,
    )


class TruncationPoint(NamedTuple):
    """The end of the log part to keep. ``done``: fetch from ``end_offset``; otherwise repeat the request."""

    end_offset: int
    done: bool
    why: str


def truncation_for(
    answer: EpochEndOffset, own: LeaderEpochs, log_end_offset: int, high_watermark: int, mode: Truncation
) -> TruncationPoint:
    """The part of its log that a follower keeps after its leader's answer about the follower's latest epoch.

    With truncation by fetches the follower always fetches next, so the next fetch repeats the request.
    """
    epoch, end_offset = answer
    if end_offset == UNDEFINED_OFFSET:
        return TruncationPoint(min(high_watermark, log_end_offset), True, "high-watermark")
    if mode is Truncation.SINGLE_ROUND or epoch == UNDEFINED_EPOCH:
        return TruncationPoint(min(end_offset, log_end_offset), True, "leader-epoch")
    found = own.end_offset_for(epoch, log_end_offset)
    if found.end_offset == UNDEFINED_OFFSET:
        return TruncationPoint(min(end_offset, log_end_offset), True, "leader-epoch")
    if found.epoch == epoch:
        return TruncationPoint(min(found.end_offset, end_offset, log_end_offset), True, "leader-epoch")
    return TruncationPoint(min(found.end_offset, log_end_offset), mode is Truncation.ON_FETCH, "leader-epoch")


def leader_epoch_error(believed: int, epoch: int) -> ErrorCode:
    """The error for a client's leader epoch (-1 = unknown to the client) at a leader of this epoch.

    Source: KIP-320.
    """
    if believed in (-1, epoch):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if believed < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
