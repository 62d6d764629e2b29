"""The second commit logs at a coordinator (KIP-333): write tokens and commits, read both logs, remove them.

As with offsets, a record is in the log before it is acknowledged or visible, and the member's generation must be valid.
The coordinator does not interpret ranges. The coordinator stores each token and each commit, unless a request repeats a
stored token or commit.
"""

from collections.abc import Iterable
from functools import partial

from kemu.actors.coordinator.groups import AnyGroup, Groups
from kemu.actors.coordinator.log import Write
from kemu.actors.coordinator.offsets import Kept
from kemu.actors.coordinator.second_log import KeptRange
from kemu.actors.coordinator.shared_state import GroupMachine
from kemu.actors.machine import Caller, Received, Record, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.ranges import (
    FetchedLogs,
    RangeCommit,
    RangeFetch,
    RangeFetchReply,
    RangeProgress,
    RangeToOpen,
    outcome_of_all,
)
from kemu.protocol.messages.records import (
    StoredOffset,
    StoredRange,
    range_progress_record,
    range_progress_tombstone,
    range_record,
    range_tombstone,
)
from kemu.protocol.messages.refusals import refusal
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import RequestRefused
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened, RangesRemoved

_NONE = ErrorCode.NONE


@frozen
class _RangeWrite:
    """The content of a RangeCommit: tokens, offsets, then tombstones of closed tokens."""

    group: AnyGroup
    caller: Caller
    request: RangeCommit
    tokens: tuple[RangeToOpen, ...]
    offsets: tuple[RangeProgress, ...]
    closed: tuple[tuple[TopicPartition, int], ...]
    now_ms: int

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the tokens and of the offsets."""
        tokens = [(each.topic, each.partition) for each in self.tokens]
        return tokens + [(each.topic, each.partition) for each in self.offsets]


class RangeRequests:
    """The part of a coordinator that stores second commit logs."""

    def __init__(self, machine: GroupMachine, groups: Groups) -> None:
        self._machine = machine
        self._groups = groups

    # --- writing -----------------------------------------------------------------------------------------------

    def commit(self, event: Received, request: RangeCommit) -> None:
        """Store the tokens and offsets of a member's RangeCommit. An unknown group has no members."""
        group = self._groups.by_name.get(request.group)
        error = ErrorCode.ILLEGAL_GENERATION
        if group is not None:
            error = group.why_no_commit(request.generation, request.member_id, request.instance_id)
        if group is None or error is not _NONE:
            self._refuse(event, request, error)
            return
        group.committed_by(request.member_id)
        self._write(event, request, group)

    def _write(self, event: Received, request: RangeCommit, group: AnyGroup) -> None:
        now_ms = self._machine.now_ms
        tokens: list[RangeToOpen] = []
        offsets: list[RangeProgress] = []
        closed: list[tuple[TopicPartition, int]] = []
        for token in request.tokens:
            at = (token.topic, token.partition)
            log = group.second.of(at)
            if log.contains(token.start, token.end):
                continue
            if log.progress > token.start:  # the log was truncated below the progress (an unclean election)
                offsets.append(RangeProgress(topic=token.topic, partition=token.partition, offset=token.start))
            tokens.append(token)
        for row in request.offsets:
            at = (row.topic, row.partition)
            log = group.second.of(at)
            if row.offset > log.progress:
                offsets.append(row)
                closed += [(at, start) for start in log.closed_by(row.offset, self._primary(group, at))]
        write = _RangeWrite(group, caller_of(event), request, tuple(tokens), tuple(offsets), tuple(closed), now_ms)
        records: list[Record] = [
            range_record(group.name, each.topic, each.partition, each.start, StoredRange(each.end, now_ms))
            for each in tokens
        ]
        records += [
            range_progress_record(group.name, each.topic, each.partition, StoredOffset(each.offset, -1, "", now_ms))
            for each in offsets
        ]
        records += [range_tombstone(group.name, *at, start) for at, start in closed]
        if not records:
            self._answer(write, _NONE)
            return
        group.offsets.begin(write.partitions)
        abandoned = partial(self._written, write, ErrorCode.NOT_COORDINATOR, -1)
        on = Write(partial(self._written, write), abandoned, partial(self._written_late, write))
        self._machine.writes.begin(group.partition, tuple(records), on)

    @staticmethod
    def _primary(group: AnyGroup, at: TopicPartition) -> int:
        kept = group.offsets.committed.get(at)
        return -1 if kept is None else kept.value.offset

    def _written(self, write: _RangeWrite, error: ErrorCode, base_offset: int) -> None:
        """Store the result after its write, report it, and answer."""
        if error is _NONE:
            self._keep(write, base_offset)
        else:
            write.group.offsets.end(write.partitions)
        self._answer(write, self._machine.rules.offset_append_errors.get(error, error))

    def _written_late(self, write: _RangeWrite, error: ErrorCode, base_offset: int) -> None:
        """React to a write that timed out, or ended after its timeout; records in the log are valid."""
        if error is _NONE:
            self._keep(write, base_offset)
        else:
            self._answer(write, self._machine.rules.offset_append_errors.get(error, error))

    def _keep(self, write: _RangeWrite, base_offset: int) -> None:
        """Store tokens and offsets that are in the log."""
        group, request = write.group, write.request
        group.offsets.end(write.partitions)
        position = base_offset
        for token in write.tokens:
            kept = KeptRange(StoredRange(token.end, write.now_ms), position)
            group.second.open((token.topic, token.partition), token.start, kept)
            self._machine.note(
                RangeOpened(
                    group=group.name,
                    topic=token.topic,
                    partition=token.partition,
                    start=token.start,
                    end=token.end,
                    generation=request.generation,
                    member_id=request.member_id,
                    position=position,
                )
            )
            position += 1
        for row in write.offsets:
            value = StoredOffset(row.offset, -1, "", write.now_ms)
            group.second.commit((row.topic, row.partition), Kept(value, position))
            self._machine.note(
                RangeCommitted(
                    group=group.name,
                    topic=row.topic,
                    partition=row.partition,
                    offset=row.offset,
                    generation=request.generation,
                    member_id=request.member_id,
                    position=position,
                )
            )
            position += 1
        for at, start in write.closed:
            group.second.close(at, start, position)
            position += 1

    def _answer(self, write: _RangeWrite, error: ErrorCode) -> None:
        request = write.request
        if error is not _NONE:
            refused = RequestRefused(group=request.group, api="RangeCommit", member_id=request.member_id, error=error)
            self._machine.note(refused)
        self._machine.reply(write.caller, outcome_of_all(request, error))

    # --- reading -----------------------------------------------------------------------------------------------

    def fetch(self, event: Received, request: RangeFetch) -> None:
        """Answer RangeFetch with both commit logs of the partitions, unless a write to one of the logs is
        in progress.
        """
        group = self._groups.by_name.get(request.group)
        wanted = [(row.topic, partition) for row in request.topics for partition in row.partitions]
        if group is not None and any(at in group.offsets.being_written for at in wanted):
            self._refuse(event, request, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            return
        self._machine.reply(event, RangeFetchReply(logs=tuple([_fetched(group, at) for at in wanted])))

    # --- removing ----------------------------------------------------------------------------------------------

    @staticmethod
    def tombstones(group: AnyGroup, partitions: Iterable[TopicPartition]) -> list[Record]:
        """The tombstones of these partitions' second logs."""
        records: list[Record] = []
        for at in partitions:
            log = group.second.of(at)
            records += [range_tombstone(group.name, *at, start) for start in log.tokens]
            if log.committed is not None:
                records.append(range_progress_tombstone(group.name, *at))
        return records

    def removed(self, group: AnyGroup, partitions: Iterable[TopicPartition], position: int, why: str) -> None:
        """Remove all tokens and commits older than these tombstones, which are in the log from this position on."""
        for at in partitions:
            log = group.second.by_partition.get(at)
            if log is None:
                continue
            for start in tuple(log.tokens):
                group.second.close(at, start, position)
            group.second.remove_commit(at, position)
            if at not in group.second.by_partition:
                self._machine.note(RangesRemoved(group=group.name, topic=at[0], partition=at[1], why=why))

    # --- helpers -----------------------------------------------------------------------------------------------

    def _refuse(self, event: Received, request: RangeCommit | RangeFetch, error: ErrorCode) -> None:
        self._machine.refuse(
            event,
            refusal(request, error, event.version),
            group=request.group,
            api=type(request).__name__,
            member_id=request.member_id if isinstance(request, RangeCommit) else "",
            error=error,
        )


def _fetched(group: "AnyGroup | None", at: TopicPartition) -> FetchedLogs:
    if group is None:
        return FetchedLogs(topic=at[0], partition=at[1])
    kept, second = group.offsets.committed.get(at), group.second.of(at)
    return FetchedLogs(
        topic=at[0],
        partition=at[1],
        offset=-1 if kept is None else kept.value.offset,
        leader_epoch=-1 if kept is None else kept.value.leader_epoch,
        tokens=second.spans,
        second_offset=second.progress,
    )
