"""The partitions of a consumer and its positions in them: committed offsets, resets, validation. A part of the
consumer.

The first position of a partition is the group's committed offset. Without a committed offset, the leader has the first
position, according to ``auto.offset.reset``. A partition with a position is fetched. The position advances when a poll
returns records.

A position remembers the leader epoch of the record before it. After a change of the leader or its epoch, the consumer
pauses the fetch. The consumer asks the new leader for the end of the position's epoch. If the epoch ends before the
position, the log was truncated, and the consumer continues at the epoch's end (KIP-320; clients since 2.3). Without
OffsetForLeaderEpoch in its version table a consumer is an older client, which keeps its position unchecked. After an
undefined answer Kafka 2.3 to 2.6 moves to offset -1, gets OFFSET_OUT_OF_RANGE, and resets. Later clients reset at once,
as here.

Source: Kafka's ``SubscriptionState``, ``OffsetFetcher``, ``ConsumerCoordinator.refreshCommittedOffsetsIfNeeded``.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kemu.actors.client import backoff_ms
from kemu.actors.consumer.fetching import Fetching
from kemu.actors.consumer.machine import ConsumerMachine
from kemu.actors.consumer.offset_topics import is_retried, is_retried_by_group, offset_fetch
from kemu.actors.consumer.partition import Partition, Returned, Seeking
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import EpochEnd, EpochQuestion, OffsetForLeaderEpoch, OffsetForLeaderEpochReply
from kemu.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsets,
    ListOffsetsReply,
    OffsetQuestion,
)
from kemu.protocol.messages.group import OffsetFetchReply, OffsetToCommit
from kemu.protocol.messages.ranges import RANGES_VERSION, RangeFetch, RangeFetchReply
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, ActorName, TopicPartition
from kemu.protocol.notes.groups import COMMITTED, SEEK, TRUNCATED, PartitionsLost, PartitionsRevoked, PositionSet
from kemu.protocol.rebalancing.rules import minus
from kemu.protocol.wire.compile import maker

_FETCHING = Seeking.FETCHING
_offset_to_commit = maker(OffsetToCommit)

Asked = tuple[ActorName, dict[TopicPartition, tuple[Partition, int, int, tuple[ActorName | None, int] | None]]]
"""A leader with a request for ends of epochs, and per partition the position in question."""


class SharedFetch(NamedTuple):
    """A question that shares an OffsetFetch for positions: exactly one of the two is called."""

    answered: Callable[[OffsetFetchReply], None]
    unanswered: Callable[[str], None]


RESETS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Positions:
    """The partitions and positions of one consumer."""

    def __init__(self, machine: ConsumerMachine) -> None:
        config = machine.config
        if config.auto_offset_reset not in (*RESETS, "none"):
            raise ValueError(f"auto.offset.reset: {config.auto_offset_reset!r} is not latest, earliest or none")
        self.partitions: dict[TopicPartition, Partition] = {}
        """The owned partitions, in the order of the assignment."""
        self.generation = NO_GENERATION
        """The generation of the assignment; ``member_id`` is the member's id in this generation."""
        self.member_id = UNKNOWN_MEMBER
        self.fetching = Fetching(machine, self.reset, self._leaders_moved)
        self._machine = machine
        self._owned: tuple[TopicPartition, ...] = ()
        self._group = config.group_id
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._seeking: dict[TopicPartition, Partition] = {}
        """The partitions without a valid position."""
        self._asked: dict[TopicPartition, Partition] | None = None
        """The partitions of the OffsetFetch in flight; None without an OffsetFetch, or if its answer is outdated."""
        self._sharing: tuple[tuple[dict[TopicPartition, Partition], SharedFetch], ...] = ()
        """(partitions of an OffsetFetch in flight, question that shares it)."""
        self._asking_leaders: tuple[ActorName, ...] = ()
        """The leaders with a ListOffsets in flight."""
        self._validating: tuple[ActorName, ...] = ()
        """The leaders with an OffsetForLeaderEpoch in flight."""
        self._epoch_version = machine.versions.requests.get("OffsetForLeaderEpoch")
        self._retry_at_us = 0
        self._api_timeout_us = config.default_api_timeout_ms * 1000
        self._retry_until_us = 0
        """The time from which a partition with an error in the answer to OffsetFetch has no committed offset."""
        self._failures = 0
        self._held: dict[TopicPartition, str] = {}
        """New partitions whose callback has not run yet -> the reason of their position, or ""."""

    # --- owned partitions --------------------------------------------------------------------------------------

    def owned(self) -> tuple[TopicPartition, ...]:
        """The owned partitions, in the order of the assignment."""
        return self._owned

    def assign(self, assigned: tuple[TopicPartition, ...], generation: int, member_id: str) -> None:
        """Own exactly these partitions. Partitions that were owned before keep their position and buffer."""
        old = self.partitions
        self.partitions = {at: old.get(at) or Partition(at) for at in assigned}
        self.generation, self.member_id = generation, member_id
        self._owned = tuple(self.partitions)
        self._seeking = {at: one for at, one in self.partitions.items() if one.seeking is not Seeking.FETCHING}
        self._retry_at_us = self._failures = 0
        self._asked = None
        for one in self.partitions.values():
            one.serving = True
        if self._machine.catch_up is not None:
            self._machine.catch_up.assigned(self._machine.membership.generation)
        self.locate()

    def drop(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Remove these partitions from the owned partitions."""
        for at in partitions:
            self.partitions.pop(at, None)
            self._seeking.pop(at, None)
            self._held.pop(at, None)
        self._owned = tuple(self.partitions)
        self.fetching.redistribute(self.partitions)
        if self._machine.catch_up is not None:
            self._machine.catch_up.partitions_dropped(partitions)

    def lose(self, lost: tuple[TopicPartition, ...]) -> None:
        """Drop partitions that onPartitionsLost has given up."""
        member_id = self.member_id
        self.drop(lost)
        self._machine.note(PartitionsLost(group=self._group, member_id=member_id, lost=lost))

    def revoke(self, revoked: tuple[TopicPartition, ...], *, drops: bool = True) -> None:
        """Drop partitions that onPartitionsRevoked has given up.

        A member of the consumer protocol keeps them if its membership has ended during the callback.
        Source: ``AbstractMembershipManager.revokeAndAssign`` (4.0 to 4.3).
        """
        if drops:
            self.drop(revoked)
        self._machine.note(
            PartitionsRevoked(
                group=self._group,
                member_id=self.member_id,
                generation=self.generation,
                revoked=revoked,
                owned=self._owned if drops else minus(self._owned, revoked),
            )
        )

    def give_up_everything(self, is_lost: bool, then: Callable[[], None]) -> None:
        """Give up all partitions as lost or revoked; ``then`` follows the callback."""
        give_up, callback = (self.lose, "onPartitionsLost") if is_lost else (self.revoke, "onPartitionsRevoked")

        def given_up(partitions: tuple[TopicPartition, ...], raised: bool) -> None:
            give_up(partitions)
            then()

        if self._owned:
            self._machine.call_listener(callback, self._owned, given_up)
        else:
            then()

    def hold(self, partitions: tuple[TopicPartition, ...], loads_us: int = 0) -> None:
        """Neither fetch these new partitions nor report their positions before their callback.

        ``loads_us``: time that the network thread needs before its first request for positions.
        """
        self._held = dict.fromkeys(partitions, "")
        if loads_us:
            self._retry_at_us = self._machine.now_us + loads_us
        self.stop_serving(partitions)

    def report(self) -> None:
        """Report the positions that partitions got during ``hold``."""
        held, self._held = self._held, {}
        for at, why in held.items():
            if why and at in self.partitions:
                self._note_position(self.partitions[at], self.partitions[at].position, why)

    def serve(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Fetch partitions after ``hold``."""
        for at in partitions:
            if at in self.partitions:
                self.partitions[at].serving = True
        self.fetching.redistribute(self.partitions)

    @property
    def are_missing(self) -> bool:
        """Whether a partition has no position; a position that a leader validates counts."""
        return any(one.seeking is not Seeking.VALIDATING for one in self._seeking.values())

    @property
    def are_requested(self) -> bool:
        """Whether a ListOffsets is in flight, or an OffsetFetch, which the network thread repeats by itself."""
        return bool(self._asking_leaders) or any(one.seeking is Seeking.COMMITTED for one in self._seeking.values())

    @property
    def await_validation(self) -> bool:
        """Whether a position is to be validated, and no request to its leader is in flight."""
        return any(
            one.seeking is Seeking.VALIDATING and one.leader not in self._validating for one in self._seeking.values()
        )

    def stop_serving(self, partitions: tuple[TopicPartition, ...] | None = None) -> None:
        """Return no more records of partitions that may be revoked: all partitions, or these owned partitions.

        Buffers are dropped; a later fetch reads the dropped records again.
        """
        stopped = self._owned if partitions is None else partitions
        for at in stopped:
            one = self.partitions[at]
            one.serving = False
            one.buffer = []
        self.fetching.redistribute(self.partitions)
        if self._machine.catch_up is not None:
            self._machine.catch_up.stop_serving(stopped)

    def locate(self) -> None:
        """Look up the leaders of all partitions in the metadata, which lacks topics that are no longer subscribed."""
        missing = False
        for one in self.partitions.values():
            self._locate(one)
            missing = missing or (one.leader is None and self._machine.subscription.includes(one.topic))
        if missing:
            self._machine.metadata.refresh()
        self.fetching.redistribute(self.partitions)

    def _locate(self, one: Partition) -> None:
        leader, epoch = self._machine.metadata.current_leader(one.topic, one.number)
        one.waits_for_metadata = False
        if leader != one.leader or epoch != one.leader_epoch:
            one.leader, one.leader_epoch, one.row = leader, epoch, None
            if one.seeking is Seeking.END and self._machine.catch_up is not None:
                self._machine.catch_up.leader_changed(one)
            self._validate(one)

    def _leaders_moved(self, moved: tuple[TopicPartition, ...]) -> None:
        """Look up the leaders of these partitions, which the errors of a Fetch named."""
        for at in moved:
            if at in self.partitions:
                self._locate(self.partitions[at])
        self.fetching.redistribute(self.partitions)

    def consumed(self) -> tuple[OffsetToCommit, ...]:
        """The offsets to commit: all valid positions, with the leader epochs of the records before them."""
        return tuple(
            [
                _offset_to_commit(
                    topic=one.topic, partition=one.number, offset=one.position, leader_epoch=one.offset_epoch
                )
                for one in self.partitions.values()
                if one.seeking is _FETCHING
            ]
        )

    # --- finding positions -------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Request missing positions, unless a request is in flight or the backoff has not passed."""
        if not self._seeking:
            return
        machine = self._machine
        if machine.now_us < self._retry_at_us:
            machine.wake_at(self._retry_at_us)
            return
        committed: list[Partition] = []
        jumping: list[Partition] = []
        by_leader: dict[ActorName, list[Partition]] = {}
        validating: dict[ActorName, list[Partition]] = {}
        for one in self._seeking.values():
            if one.seeking is Seeking.COMMITTED:
                committed.append(one)
            elif one.seeking is Seeking.JUMPING:
                jumping.append(one)
            elif one.leader is not None:
                asked = validating if one.seeking is Seeking.VALIDATING else by_leader
                asked.setdefault(one.leader, []).append(one)
        if committed and self._asked is None:
            self._ask_coordinator(committed)
        if jumping and machine.catch_up is not None:
            machine.catch_up.write(jumping)
        for leader, partitions in by_leader.items():
            if leader not in self._asking_leaders:
                self._ask_leader(leader, partitions)
        for leader, partitions in validating.items():
            if leader not in self._validating:
                self._ask_epochs(leader, partitions)

    def try_later(self) -> None:
        """Retry after the backoff, which stays constant.

        Source: ``OffsetFetcher`` (3.4.1), ``OffsetFetcherUtils`` (3.9): ``requestFailed``.
        """
        self._retry_at_us = self._machine.now_us + self._retry.first_us
        self._machine.wake()

    def _refetch_later(self) -> None:
        """Retry the OffsetFetch after a backoff, which grows since KIP-580 (``fetchCommittedOffsets`` 3.7.1)."""
        self._failures += 1
        self._retry_at_us = self._machine.now_us + self._retry.after(self._failures, self._machine.chance)
        self._machine.wake()

    def _set(self, one: Partition, offset: int, why: str, epoch: int = -1) -> None:
        one.position, one.offset_epoch = offset, epoch
        one.epoch_read = one.life_read = -1
        one.seeking = Seeking.FETCHING
        one.row = None
        one.buffer = []
        self._seeking.pop(one.at, None)
        self._failures = 0
        self._note_position(one, offset, why)
        if why != TRUNCATED:
            one.checked = None
            self._saw_epoch(one, epoch)
            self._validate(one)
        elif self._machine.catch_up is not None:
            self._machine.catch_up.truncated(one.at, offset)
        self.fetching.changed(one)

    def _note_position(self, one: Partition, offset: int, why: str) -> None:
        if one.at in self._held:
            self._held[one.at] = why
        elif self._group:  # no checker reads the positions of a consumer without a group
            self._machine.note(
                PositionSet(
                    group=self._group,
                    member_id=self.member_id,
                    topic=one.topic,
                    partition=one.number,
                    offset=offset,
                    why=why,
                )
            )

    def begin(self, one: Partition, offset: int, why: str, epoch: int) -> None:
        """Read from the end of a recovery (KIP-333); ``epoch`` is the leader epoch of the record before the end."""
        self._set(one, offset, why, epoch)
        self._machine.wake()

    def drain(self, at_most: int) -> list[Returned]:
        """Take the records for a poll."""
        return self.fetching.drain(at_most)

    def has_records(self) -> bool:
        """Whether a poll would get records."""
        return self.fetching.has_records

    def seek(self, one: Partition, offset: int) -> None:
        """Continue from this offset; the buffer and pending answers are dropped.

        Source: ``SubscriptionState.seekUnvalidated``.
        """
        assert offset >= 0, f"{one.at}: offset {offset}"
        self._set(one, offset, SEEK)
        self._machine.wake()

    def reset(self, one: Partition, why: str) -> None:
        """Read from the offset that ``auto.offset.reset`` selects. With "none", raise an error to the application."""
        machine = self._machine
        if machine.config.auto_offset_reset == "none":
            machine.fail_later(ErrorCode.OFFSET_OUT_OF_RANGE, f"{one.topic}-{one.number}: {why}, and no reset policy")
            return
        one.seeking = Seeking.RESET
        one.jumps = False
        one.position = -1
        one.row = None
        one.buffer = []
        self._seeking[one.at] = one
        self.fetching.changed(one)
        machine.wake()

    def _is_owned(self, one: Partition, seeking: Seeking) -> bool:
        """Whether the consumer still needs an answer about this partition."""
        return self.partitions.get(one.at) is one and one.seeking is seeking

    # --- committed offsets -------------------------------------------------------------------------------------

    def _ask_coordinator(self, partitions: list[Partition]) -> None:
        coordinator = self._machine.discovery.coordinator
        if coordinator is None:
            self._machine.discovery.find()
            return
        by_partition = {one.at: one for one in partitions}
        request, version, answered = offset_fetch(self._machine, by_partition)
        asked = self._asked = {key: by_partition[at] for key, at in answered.items()}
        if self._machine.catch_up is not None and not self._machine.subscription.by_hand:
            logs = RangeFetch(group=self._group, topics=request.topics or ())
            self._machine.client.call(coordinator, logs, RANGES_VERSION, self._logs_answered, self._no_committed, asked)
            return
        if not self._failures:
            self._retry_until_us = self._machine.now_us + self._api_timeout_us
        self._machine.client.call(coordinator, request, version, self._committed, self._no_committed, asked)

    def share_fetch(self, partitions: Iterable[TopicPartition], question: SharedFetch) -> bool:
        """Give a question the answer to the OffsetFetch in flight, if that is about these partitions alone.

        Source: ``CommitRequestManager.PendingRequests.addOffsetFetchRequest`` 4.0 to 4.3.
        """
        asked = self._asked
        if asked is None or {one.at for one in asked.values()} != set(partitions):
            return False
        self._sharing += ((asked, question),)
        return True

    def _shared(self, asked: dict[TopicPartition, Partition]) -> list[SharedFetch]:
        """Take the questions that share this OffsetFetch."""
        taken = [question for of, question in self._sharing if of is asked]
        self._sharing = tuple([(of, question) for of, question in self._sharing if of is not asked])
        return taken

    def _no_committed(self, why: str, asked: dict[TopicPartition, Partition]) -> None:
        for question in self._shared(asked):
            question.unanswered(why)
        if asked is self._asked:
            self._asked = None
            self._refetch_later()

    def _committed(self, reply: OffsetFetchReply, asked: dict[TopicPartition, Partition]) -> None:
        for question in self._shared(asked):
            question.answered(reply)
        self._look_up_after(reply.error)
        if asked is not self._asked:
            return
        self._asked = None
        self._machine.wake()
        if reply.error is not ErrorCode.NONE:
            self._committed_failed(reply.error)
            return
        errors: dict[ErrorCode, None] = {}
        for row in reply.offsets:
            if row.error is not ErrorCode.NONE:
                errors[row.error] = None
                if not is_retried(self._machine, row.error):  # the error of one partition is raised
                    one = asked[row.topic or row.topic_id, row.partition]
                    self._machine.fail_later(row.error, f"OffsetFetch: {one.topic}-{one.number}")
                    return
        if ErrorCode.UNSTABLE_OFFSET_COMMIT in errors or (errors and self._machine.now_us < self._retry_until_us):
            self._refetch_later()
            return
        for row in reply.offsets:
            one = asked[row.topic or row.topic_id, row.partition]
            if not self._is_owned(one, Seeking.COMMITTED):
                continue
            if row.offset >= 0:
                self._set(one, row.offset, COMMITTED, row.leader_epoch)
            else:
                self.reset(one, "no committed offset")

    def _logs_answered(self, reply: RangeFetchReply, asked: dict[TopicPartition, Partition]) -> None:
        """Use both commit logs (KIP-333)."""
        catch_up = self._machine.catch_up
        self._look_up_after(reply.error)
        if asked is not self._asked or catch_up is None:
            return
        self._asked = None
        self._machine.wake()
        if reply.error is not ErrorCode.NONE:
            self._committed_failed(reply.error)
            return
        for row in reply.logs:
            one = asked.get((row.topic, row.partition))
            if one is not None and self._is_owned(one, Seeking.COMMITTED):
                catch_up.logs_known(one, row)

    def _look_up_after(self, error: ErrorCode) -> None:
        """Forget a coordinator that is none, also after an answer whose partitions nobody needs any more.

        Source: ``ConsumerCoordinator.OffsetFetchResponseHandler``, ``CommitRequestManager.OffsetFetchRequestState``.
        """
        if error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._machine.discovery.lose_coordinator(f"OffsetFetch: {error.name}")

    def _committed_failed(self, error: ErrorCode) -> None:
        if is_retried_by_group(self._machine, error):
            self._refetch_later()
        else:
            self._machine.fail_later(error, "OffsetFetch")

    # --- resets ------------------------------------------------------------------------------------------------

    def _ask_leader(self, leader: ActorName, partitions: list[Partition]) -> None:
        machine = self._machine
        at_us = machine.client.available_at(leader)
        if at_us > machine.now_us:
            machine.wake_at(at_us)
            return
        self._asking_leaders += (leader,)
        timestamp = RESETS.get(machine.config.auto_offset_reset, LATEST_TIMESTAMP)
        request = ListOffsets(
            questions=tuple(
                OffsetQuestion(
                    topic=one.topic,
                    partition=one.number,
                    current_leader_epoch=one.leader_epoch,
                    timestamp_ms=LATEST_TIMESTAMP if one.seeking is Seeking.END else timestamp,
                )
                for one in partitions
            )
        )
        asked = leader, {one.at: one for one in partitions}
        version = machine.versions["ListOffsets"]
        machine.client.call(leader, request, version, self._listed, self._not_listed, asked)

    def _not_listed(self, why: str, asked: tuple[ActorName, dict[TopicPartition, Partition]]) -> None:
        self._asking_leaders = _without(self._asking_leaders, asked[0])
        self.try_later()

    def _listed(self, reply: ListOffsetsReply, asked: tuple[ActorName, dict[TopicPartition, Partition]]) -> None:
        leader, partitions = asked
        machine = self._machine
        self._asking_leaders = _without(self._asking_leaders, leader)
        machine.wake()
        failed = False
        for row in reply.answers:
            one = partitions.get((row.topic, row.partition))
            if row.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._machine.fail_later(row.error, "ListOffsets")
            elif row.error is not ErrorCode.NONE or row.offset < 0:
                failed = True
            elif one is not None and self._is_owned(one, Seeking.RESET):
                # An offset without an epoch is not validated. Source: resetPositionIfNeeded
                self._set(one, row.offset, "reset")
                if machine.catch_up is not None:
                    machine.catch_up.was_reset(one)
            elif one is not None and self._is_owned(one, Seeking.END) and machine.catch_up is not None:
                machine.catch_up.end_known(one, row.offset, row.leader_epoch)
        if failed:
            self._machine.metadata.refresh()
            self.try_later()

    # --- truncation --------------------------------------------------------------------------------------------

    def _validate(self, one: Partition) -> None:
        """Ask the leader to validate the position, unless this leader and epoch were already checked. The partition is
        not fetched before the answer.

        Source: ``SubscriptionState.maybeValidatePosition``, ``validatePosition``.
        """
        leader = (one.leader, one.leader_epoch)
        if one.position < 0 or one.leader is None or one.checked == leader:
            return
        one.checked = leader
        if one.offset_epoch >= 0 and one.leader_epoch >= 0 and self._epoch_version is not None:
            one.seeking = Seeking.VALIDATING
            self._seeking[one.at] = one
            if one.buffer:
                one.buffer = []
                one.epoch_read, one.life_read = -1, 0
            self._machine.wake()
        elif one.seeking is Seeking.VALIDATING:
            self._validated(one)

    def _saw_epoch(self, one: Partition, epoch: int) -> None:
        """Adopt the leader epoch of a commit. While the metadata is older than this epoch, the partition has no known
        leader.

        Source: ``ConsumerCoordinator.refreshCommittedOffsetsIfNeeded``.
        """
        if self._machine.metadata.saw_epoch(one.topic, one.number, epoch):
            one.leader, one.leader_epoch = None, epoch
            self.fetching.redistribute(self.partitions)

    def check_before_jump(self, one: Partition, offset: int, epoch: int) -> None:
        """Ask the leader whether it still has the committed records (KIP-333). Lost records belong to no range."""
        self._saw_epoch(one, epoch)
        without_epochs = one.leader is not None and one.leader_epoch < 0
        if epoch >= 0 and self._epoch_version is not None and not without_epochs:
            one.position, one.offset_epoch, one.checked, one.jumps = offset, epoch, None, True
            one.seeking = Seeking.VALIDATING
        else:
            one.seeking = Seeking.END
        self._machine.wake()

    def _validated(self, one: Partition) -> None:
        if one.jumps:
            one.jumps, one.position, one.seeking = False, -1, Seeking.END
            self._machine.wake()
            return
        one.seeking = Seeking.FETCHING
        self._seeking.pop(one.at, None)
        self.fetching.changed(one)

    def _ask_epochs(self, leader: ActorName, partitions: list[Partition]) -> None:
        machine, version = self._machine, self._epoch_version
        assert version is not None, "nothing is validated"
        at_us = machine.client.available_at(leader)
        if at_us > machine.now_us:
            machine.wake_at(at_us)
            return
        self._validating += (leader,)
        request = OffsetForLeaderEpoch(
            replica_id=-1,
            questions=tuple(
                EpochQuestion(
                    topic=one.topic,
                    partition=one.number,
                    current_leader_epoch=one.leader_epoch,
                    leader_epoch=one.offset_epoch,
                )
                for one in partitions
            ),
        )
        asked = leader, {one.at: (one, one.position, one.offset_epoch, one.checked) for one in partitions}
        machine.client.call(leader, request, version, self._epochs_answered, self._epochs_unanswered, asked)

    def _epochs_unanswered(self, why: str, asked: Asked) -> None:
        self._validating = _without(self._validating, asked[0])
        self._machine.metadata.refresh()
        self.try_later()

    def _epochs_answered(self, reply: OffsetForLeaderEpochReply, asked: Asked) -> None:
        leader, partitions = asked
        self._validating = _without(self._validating, leader)
        self._machine.wake()
        failed = False
        for row in reply.answers:
            one, *position = partitions[row.topic, row.partition]
            if not self._is_owned(one, Seeking.VALIDATING):
                continue
            if [one.position, one.offset_epoch, one.checked] != position:
                continue  # the position or the leader changed: the new leader validates it
            if row.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._machine.fail_later(row.error_code, "OffsetForLeaderEpoch")
            elif row.error_code is not ErrorCode.NONE:
                failed = True
            else:
                self._epoch_ends(one, row)
        if failed:
            self._machine.metadata.refresh()
            self.try_later()

    def _epoch_ends(self, one: Partition, row: EpochEnd) -> None:
        """Compare the position with the end of its epoch in the answer; reset a position beyond this end. Source:
        ``SubscriptionState.maybeCompleteValidation``.
        """
        undefined = row.end_offset < 0 or row.leader_epoch < 0
        catch_up = self._machine.catch_up
        if not undefined and row.end_offset >= one.position:
            self._validated(one)
        elif self._machine.config.auto_offset_reset == "none":
            to = "" if undefined else f" to {row.end_offset}"
            why = f"LogTruncationException: {one.topic}-{one.number} was truncated{to}, the position is {one.position}"
            self._machine.fail_later(ErrorCode.OFFSET_OUT_OF_RANGE, f"{why}, and no reset policy")
        elif undefined:
            self.reset(one, "the leader does not know the position's epoch")
        elif one.jumps and catch_up is not None:
            self._note_position(one, row.end_offset, TRUNCATED)
            catch_up.commit_truncated(one.at, row.end_offset, row.leader_epoch)
            self._validated(one)
        else:
            self._set(one, row.end_offset, TRUNCATED, row.leader_epoch)


def _without(leaders: tuple[ActorName, ...], leader: ActorName) -> tuple[ActorName, ...]:
    return tuple([each for each in leaders if each != leader])
