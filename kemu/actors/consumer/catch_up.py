"""KIP-333's mode of a member (``enable.parallel.rebalance``): jump to the log's end; a second consumer reads the gap.

The module is a part of the consumer. This part acts in four steps when the member gets a partition with a commit and
unread records.

1. Read both commit logs of the partition.
2. Check that the log still holds the committed records (KIP-320), and read the log's end, once.
3. Write a token for the gap, and wait until it is stored.
4. Commit the end, and then jump to the end.

So the next owner can recover from a crash at any step. A second consumer (``actors.consumer.child``) processes the
ranges of open tokens. The member creates the second consumer with the first open range, and keeps it on standby later.

| method | effect in this mode |
|---|---|
| ``poll`` | records of the first, then of the second consumer; half of ``max.poll.records`` each if both have some (*)
|
| ``position``, ``seek``, ``subscribe``, ``assign``, ``unsubscribe`` | the first consumer alone; ranges remain |
| ``committed`` | the progress in the first open range; without an open range, the first consumer's commit |
| ``commitSync``, ``commitAsync`` | each consumer commits its offsets; an offset inside an open range is the second's |
| ``beginningOffsets``, ``endOffsets`` | unchanged: offsets of the log (*) |
| ``offsetsForTimes`` | unchanged |
| ``pause``, ``resume``, ``close`` | both consumers |
| auto-commit | each consumer at its own interval: the records of former polls |

(*) ``emulated.parallel.rebalance.calls = page`` follows the KIP's page literally: a poll returns ``max.poll.records``
of each consumer ("twice as many records could be returned"). ``beginningOffsets`` and ``endOffsets`` are "the
earliest/latest offsets that they have processed". This reading contradicts Kafka's meaning of these calls, so it is
not the default.

Partitions assigned with ``assign()`` have no such mode: without membership no generation fences the second consumer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kemu.actors.consumer.application import IllegalState
from kemu.actors.consumer.child import (
    ChildConsumer,
    Clip,
    CommitNow,
    Leave,
    PauseChild,
    Serve,
    Take,
    Worked,
    WorkOff,
)
from kemu.actors.consumer.commits import CommitSplit, to_commit
from kemu.actors.consumer.machine import ConsumerMachine, ConsumerTimer
from kemu.actors.consumer.offset_topics import to_send
from kemu.actors.consumer.partition import Partition, Returned, Seeking
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.questions import logs_of
from kemu.actors.consumer.state import Generation, MemberState, Result
from kemu.actors.machine import Machine
from kemu.protocol.catch_up import (
    PAGE,
    PART,
    CommitLogs,
    CommitPrimary,
    CommitSecondary,
    LogWrite,
    OpenRange,
    Route,
    recover,
    route_commit,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.group import OffsetCommit, OffsetCommitReply, OffsetToCommit
from kemu.protocol.messages.ranges import RANGES_VERSION, FetchedLogs, RangeCommit, RangeCommitReply, RangeToOpen
from kemu.protocol.names import ActorName, TopicPartition, part_on
from kemu.protocol.notes.groups import COMMITTED, JUMPED, CommitAnswered
from kemu.protocol.notes.ranges import ChildConsumerDied, ChildConsumerStarted


class HostOfChild(ConsumerMachine, Protocol):
    """The interface of the member's machine, which hosts the second consumer's machine."""

    @property
    def bootstrap(self) -> tuple[ActorName, ...]:
        """The brokers to ask first."""
        ...

    def admit(self, part: str, machine: Machine) -> None:
        """Host a machine, as ``HostingMachine.admit`` does."""
        ...

    def dismiss(self, part: str) -> None:
        """End a hosted machine, as ``HostingMachine.dismiss`` does."""
        ...

    def tell_part(self, part: str, command: object) -> None:
        """Send a command to a hosted machine, as ``HostingMachine.tell_part`` does."""
        ...


class _Jump:
    """A partition before its jump to the log's end: the remaining writes, in order, and the target position."""

    __slots__ = ("asked", "epoch", "one", "position", "writes")

    def __init__(self, one: Partition, writes: Sequence[LogWrite], position: int, epoch: int) -> None:
        self.one = one
        self.writes = list(writes)
        self.position = position
        self.epoch = epoch
        self.asked = False
        """Whether the next write is in flight."""


class CatchUp:
    """KIP-333's mode of one member."""

    def __init__(self, machine: HostOfChild, positions: Positions) -> None:
        self.logs: dict[TopicPartition, CommitLogs] = {}
        """Both commit logs of the owned partitions, as far as this member knows them."""
        self._machine = machine
        self._positions = positions
        self._stored: dict[TopicPartition, tuple[int, int]] = {}
        """The first log's commit and its leader epoch, as read from the coordinator."""
        self._kept: dict[TopicPartition, tuple[int, int]] = {}
        """The part of this commit that a leader's log still had, and its leader epoch; no entry without a
        truncation."""
        self._jumps: dict[TopicPartition, _Jump] = {}
        self._child: ChildConsumer | None = None
        self._dead = False
        """Whether the second consumer failed and has not restarted."""
        self._waiting: list[Callable[[Result], None]] = []
        """Continuations of commits that wait for the second consumer."""
        self._first_takes_more = True
        """Whether the first consumer gets the odd record when both consumers share a poll."""
        self._by_page = machine.config.emulated_parallel_rebalance_calls == PAGE
        self._returned: dict[TopicPartition, tuple[int, int]] = {}
        """Partition -> (first offset that a poll of either consumer returned, last such offset + 1)."""

    # --- jumps of new partitions -------------------------------------------------------------------------------

    def logs_known(self, one: Partition, row: FetchedLogs) -> None:
        logs = self.logs[one.at] = logs_of(row)
        if logs.primary is None and not logs.tokens:
            self._positions.reset(one, "no committed offset")
        else:
            self._stored[one.at] = row.offset, row.leader_epoch
            self._kept.pop(one.at, None)
            self._positions.check_before_jump(one, row.offset, row.leader_epoch)

    def leader_changed(self, one: Partition) -> None:
        """Ask the next leader whether it has the committed records that the last leader had."""
        self._positions.check_before_jump(one, *self._kept.get(one.at, self._stored[one.at]))

    def commit_truncated(self, at: TopicPartition, end: int, epoch: int) -> None:
        """Note that the leader lost the committed records from ``end`` on, and its leader epoch before ``end``."""
        self._kept[at] = end, epoch
        self.truncated(at, end)

    def end_known(self, one: Partition, log_end: int, epoch: int) -> None:
        found = recover(self.logs[one.at], log_end)
        assert found is not None, f"{one.at}: nothing was committed"
        if found.writes:
            self._jumps[one.at] = _Jump(one, found.writes, found.position, epoch)
            one.seeking = Seeking.JUMPING
            self._machine.wake()
        else:
            # If the log was truncated below the commit, the validation detects the truncation, as without KIP-333's
            # mode.
            offset, epoch = self._stored[one.at]
            self._begin(one, max(offset, found.position), COMMITTED, epoch)

    def was_reset(self, one: Partition) -> None:
        logs = self.logs.get(one.at)
        if logs is not None:
            if logs.primary is not None and one.position < logs.primary:
                self.truncated(one.at, one.position)
            self._work_off(one.at)

    def write(self, jumping: Sequence[Partition]) -> None:
        machine = self._machine
        coordinator = machine.discovery.coordinator
        if coordinator is None or machine.membership.state is not MemberState.STABLE:
            return
        jumps = [self._jumps[one.at] for one in jumping if not self._jumps[one.at].asked]
        opening = [jump for jump in jumps if isinstance(jump.writes[0], OpenRange)]
        committing = [jump for jump in jumps if isinstance(jump.writes[0], CommitPrimary)]
        generation, group = machine.membership.generation, machine.config.group_id
        if opening:
            request = RangeCommit(
                group=group,
                generation=generation.id,
                member_id=generation.member_id,
                instance_id=machine.config.group_instance_id,
                tokens=tuple(_token(jump.one, jump.writes[0]) for jump in opening),
            )
            self._ask(coordinator, request, RANGES_VERSION, opening, generation)
        if committing:
            offsets, version = to_send(machine, tuple(_offset(jump) for jump in committing))
            commit = OffsetCommit(
                group=group,
                generation=generation.id,
                member_id=generation.member_id,
                instance_id=machine.config.group_instance_id,
                offsets=offsets,
            )
            self._ask(coordinator, commit, version, committing, generation)

    def _ask(
        self, coordinator: ActorName, request: object, version: int, jumps: list[_Jump], generation: Generation
    ) -> None:
        for jump in jumps:
            jump.asked = True
        self._machine.client.call(coordinator, request, version, self._written, self._broke, (jumps, generation))

    def _broke(self, why: str, context: tuple[list[_Jump], Generation]) -> None:
        self._retry_later(context[0])

    def _retry_later(self, jumps: list[_Jump]) -> None:
        for jump in jumps:
            jump.asked = False
        self._positions.try_later()

    def _written(self, reply: RangeCommitReply | OffsetCommitReply, context: tuple[list[_Jump], Generation]) -> None:
        jumps, sent = context
        self._machine.wake()
        error = next((row.error for row in reply.outcomes if row.error is not ErrorCode.NONE), ErrorCode.NONE)
        if isinstance(reply, OffsetCommitReply):
            group = self._machine.config.group_id
            self._machine.note(CommitAnswered(group=group, member_id=sent.member_id, generation=sent.id, error=error))
        if error is ErrorCode.NONE:
            for jump in jumps:
                self._wrote(jump)
        else:
            self._machine.commit_refused(type(reply).__name__.removesuffix("Reply"), error, sent)
            self._retry_later(jumps)

    def _wrote(self, jump: _Jump) -> None:
        at = jump.one.at
        if self._jumps.get(at) is not jump:
            return  # the partition has another owner
        jump.asked = False
        self.logs[at] = self.logs[at].after(jump.writes.pop(0))
        if not jump.writes:
            del self._jumps[at]
            self._begin(jump.one, jump.position, JUMPED, jump.epoch)

    def _begin(self, one: Partition, position: int, why: str, epoch: int) -> None:
        self._positions.begin(one, position, why, epoch)
        self._work_off(one.at)

    # --- owned partitions --------------------------------------------------------------------------------------

    def assigned(self, generation: Generation) -> None:
        partitions = self._positions.partitions
        self._jumps = {at: jump for at, jump in self._jumps.items() if partitions.get(at) is jump.one}
        for at in [at for at in self.logs if at not in partitions]:
            del self.logs[at]
        if self._child is not None:
            begun = [at for at in self.logs if partitions[at].seeking in (Seeking.FETCHING, Seeking.VALIDATING)]
            self._tell(Serve(generation, tuple(begun)))

    def partitions_dropped(self, partitions: tuple[TopicPartition, ...]) -> None:
        for at in partitions:
            self.logs.pop(at, None)
            self._jumps.pop(at, None)
        self.stop_serving(partitions)

    def stop_serving(self, partitions: tuple[TopicPartition, ...]) -> None:
        if self._child is not None:
            self._tell(Leave(partitions))

    def truncated(self, at: TopicPartition, end: int) -> None:
        logs = self.logs.get(at)
        if logs is None:
            return
        logs = logs.clipped(end)
        primary = None if logs.primary is None else min(logs.primary, end)
        secondary = None if logs.secondary is None else min(logs.secondary, end)
        self.logs[at] = evolve(logs, primary=primary, secondary=secondary)
        if self._child is not None:
            self._tell(Clip(at, end))

    # --- the second consumer -----------------------------------------------------------------------------------

    @property
    def child_is_alive(self) -> bool:
        """Whether the second consumer exists, active or on standby."""
        return self._child is not None

    def _work_off(self, at: TopicPartition) -> None:
        ranges = self.logs[at].open_ranges
        if not ranges or self._dead:
            return
        machine = self._machine
        if self._child is None:
            self._child = ChildConsumer(
                part_on(machine.name, PART),
                machine.config,
                bootstrap=machine.bootstrap,
                chance=machine.chance,
                versions=machine.versions,
                metadata_rules=machine.metadata.rules,
            )
            machine.admit(PART, self._child)
            machine.note(ChildConsumerStarted(group=machine.config.group_id))
        self._tell(Serve(machine.membership.generation))
        self._tell(WorkOff(at, ranges))
        if self._positions.partitions[at].paused:
            self._tell(PauseChild((at,), True))

    def fail_child(self, for_us: int) -> None:
        """Stop the second consumer, if it exists, and restart it after this time."""
        if self._child is None:
            return
        self.end()
        self._dead = True
        self._machine.note(ChildConsumerDied(group=self._machine.config.group_id, why="failed on command"))
        self._machine.start_timer((ConsumerTimer.CHILD,), for_us)

    def restart_child(self) -> None:
        """Start a new second consumer, which continues from the last commit (the timer CHILD fired)."""
        self._dead = False
        for at, one in self._positions.partitions.items():
            if at in self.logs and one.seeking in (Seeking.FETCHING, Seeking.VALIDATING):
                self._work_off(at)

    def end(self) -> None:
        """Dismiss the second consumer."""
        if self._child is not None:
            self._child = None
            self._machine.dismiss(PART)
            self._outcome(Result.FAILED)

    def _tell(self, command: object) -> None:
        self._machine.tell_part(PART, command)
        self.child_stepped()

    def child_stepped(self) -> None:
        """React to a step of the second consumer."""
        child = self._child
        if child is None:
            return
        committed, child.committed = child.committed, []
        for at, offset in committed:
            logs = self.logs.get(at)
            if logs is not None and (logs.secondary is None or offset > logs.secondary):
                self.logs[at] = logs.after(CommitSecondary(offset))
        if child.fatal is not None:
            self._machine.fail_later(*child.fatal)
        if child.outcome is not None:
            outcome, child.outcome = child.outcome, None
            self._outcome(outcome)
        if child.has_records:
            self._machine.wake()

    def _outcome(self, result: Result) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(result)

    # --- polls -------------------------------------------------------------------------------------------------

    def poll(self, most: int) -> list[Returned]:
        """The records of a poll: the first consumer's records, then the second consumer's."""
        records = self._drain(most)
        if self._by_page:
            for at, first, last in records:
                before = self._returned.get(at, (first, last))
                self._returned[at] = min(first, before[0]), max(last, before[1])
        return records

    def returned_offsets(
        self, partitions: Sequence[TopicPartition], *, end: bool
    ) -> Mapping[TopicPartition, int | None] | None:
        """The page's literal answer to ``beginningOffsets`` (or ``endOffsets``); None: the log's offsets are the
        answer.

        An offset is None if no poll has returned a record of the partition.
        """
        if not self._by_page:
            return None
        return {at: self._returned[at][end] if at in self._returned else None for at in partitions}

    def _drain(self, most: int) -> list[Returned]:
        """The records of both consumers. The consumers share the limit, or (by the page) each consumer has its own
        limit.
        """
        positions, child = self._positions, self._child
        if child is None or not child.has_records:
            return positions.drain(most)
        if self._by_page:
            return [*positions.drain(most), *self._take(most)]
        if not positions.has_records():
            return self._take(most)
        first = (most + self._first_takes_more) // 2
        self._first_takes_more = not self._first_takes_more
        returned = positions.drain(first) if first else []
        return [*returned, *self._take(most - first)] if most > first else returned

    def _take(self, most: int) -> list[Returned]:
        self._tell(Take(most))
        assert self._child is not None
        return [*self._child.taken]

    def application_returned(self) -> None:
        """Inform the second consumer that the records of former polls are processed."""
        if self._child is not None and self._child.unfinished:
            self._tell(Worked())

    def pause(self, at: TopicPartition, paused: bool) -> None:
        """Pause or resume the second consumer's records of a partition."""
        if self._child is not None:
            self._tell(PauseChild((at,), paused))

    # --- commits -----------------------------------------------------------------------------------------------

    def not_committed(self, offsets: tuple[OffsetToCommit, ...]) -> tuple[OffsetToCommit, ...]:
        return tuple(row for row in offsets if row.offset > self._primary((row.topic, row.partition)))

    def _primary(self, at: TopicPartition) -> int:
        logs = self.logs.get(at)
        return -1 if logs is None or logs.primary is None else logs.primary

    def committed_first(self, offsets: tuple[OffsetToCommit, ...]) -> None:
        for row in offsets:
            at = (row.topic, row.partition)
            if at in self.logs and row.offset > self._primary(at):
                self.logs[at] = self.logs[at].after(CommitPrimary(row.offset))

    def commit_second(
        self,
        generation: Generation,
        then: Callable[[Result], None],
        only: Sequence[tuple[TopicPartition, int]] | None = None,
    ) -> bool:
        if self._child is None or not (self._child.to_commit() if only is None else only):
            return False
        self._waiting.append(then)
        self._tell(CommitNow(generation, None if only is None else dict(only)))
        return True

    def second_offsets(self) -> tuple[tuple[TopicPartition, int], ...]:
        rows = () if self._child is None else self._child.to_commit()
        return tuple(((row.topic, row.partition), row.offset) for row in rows)

    def split(self, offsets: Mapping[TopicPartition, int]) -> CommitSplit:
        """The given offsets, by the consumer that commits them; already committed offsets are omitted.

        Raises:
            IllegalState: an offset lies beyond the records that polls returned.
        """
        first, second = [], []
        for at, offset in offsets.items():
            match self._route(at, offset):
                case Route.PRIMARY:
                    first.append(to_commit(at, offset))
                case Route.SECONDARY:
                    second.append((at, offset))
                case Route.REFUSED:
                    raise IllegalState(
                        f"{at[0]}-{at[1]}: offset {offset} cannot be committed: polls have not reached it"
                    )
        return CommitSplit(tuple(first), tuple(second))

    def _route(self, at: TopicPartition, offset: int) -> Route:
        child = self._child
        second = -1 if child is None else child.position(at)
        logs, first = self.logs.get(at, CommitLogs()), self._positions.partitions[at].position
        return route_commit(logs, offset, first, second)


def _token(one: Partition, write: LogWrite) -> RangeToOpen:
    assert isinstance(write, OpenRange)
    return RangeToOpen(topic=one.topic, partition=one.number, start=write.range.start, end=write.range.end)


def _offset(jump: _Jump) -> OffsetToCommit:
    write, one = jump.writes[0], jump.one
    assert isinstance(write, CommitPrimary)
    return OffsetToCommit(topic=one.topic, partition=one.number, offset=write.offset, leader_epoch=jump.epoch)
