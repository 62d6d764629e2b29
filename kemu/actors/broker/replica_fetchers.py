"""Replication on the follower (a part of the replicated broker): one fetch loop per leading broker.

Like Kafka's fetcher threads, a loop fetches all its partitions in one request, which the leader delays until data is
available. A new follower must learn the offset at which its log diverges (``leader_epochs``). The answer to the
follower's first fetch contains this offset. In older releases, the answer to a separate request contains this offset
(``Truncation``). One request is in flight at a time; the loop sends the next request when the received data is written.
A partition with an error waits for a back-off. A partition with an outdated leader epoch waits for the controller.

Source: Kafka 2.6's and 3.4's ``AbstractFetcherThread``, ``ReplicaFetcherThread``.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from kemu.actors.broker.leader_epochs import UNDEFINED_EPOCH, EpochEndOffset, truncation_for
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_log import batch_entry
from kemu.actors.broker.replica_manager import US_PER_MS, ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.client import Client
from kemu.actors.fetch_session import FetchSessionHandler
from kemu.actors.machine import Draws, Machine, Record, TimerKey
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import EpochQuestion, OffsetForLeaderEpoch, OffsetForLeaderEpochReply
from kemu.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    REPLICA_FETCH_VERSION,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    ListOffsets,
    ListOffsetsReply,
    OffsetQuestion,
)
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, TopicPartition
from kemu.protocol.notes.replication import RecordsReplicated
from kemu.protocol.replication import Truncation
from kemu.protocol.wire.compile import maker

_EPOCH_VERSION = 4
_LIST_VERSION = 8

_new = tuple.__new__
_NONE, _FOLLOWER = ErrorCode.NONE, Role.FOLLOWER
_records_replicated = maker(RecordsReplicated)
_fetch_partition = maker(FetchPartition)
_fetch_of = maker(Fetch)


class Copying(Enum):
    """The state of a partition in its fetch loop."""

    TRUNCATING = "requests the end of its latest epoch"
    FETCHING = "is fetched from its log's end on"
    OUT_OF_RANGE = "requests start and end of the leader's log"


_FETCHING = Copying.FETCHING


class Followed:
    """A partition in a fetch loop. A follower in another epoch is a new object."""

    __slots__ = ("asked", "at", "in_sync", "not_before_us", "replica", "row", "state")

    def __init__(self, replica: Replica, state: Copying) -> None:
        self.replica = replica
        self.at = replica.at
        self.state = state
        self.not_before_us = 0
        self.in_sync = False
        """Whether the log was complete up to the leader's high watermark in the last answer."""
        self.row: FetchPartition | None = None
        """The partition's row in the last fetch, which is reused until a field changes."""
        self.asked = Asked(self, -1, -1)


class Asked(NamedTuple):
    """A partition's part in a request: leader epoch and offset when the request was sent (epoch requests:
    offset -1).
    """

    followed: Followed
    leader_epoch: int
    offset: int


class ReplicaFetchers:
    """The fetch loops of a broker, by leader."""

    def __init__(self, machine: Machine, client: Client, manager: ReplicaManager, draws: Draws = CALM) -> None:
        self._draws = draws
        self._machine = machine
        self._client = client
        self._manager = manager
        self._loops: dict[int, ReplicaFetcher] = {}

    def follow(self, replica: Replica, host: ActorName, *, truncates: bool) -> None:
        """Copy this partition from its leader, whose broker has the address ``host``."""
        self.forget(replica.at)
        loop = self._loops.get(replica.leader)
        if loop is None:
            loop = self._loops[replica.leader] = ReplicaFetcher(
                self._machine, self._client, self._manager, replica.leader, host
            )
        truncates_on_fetch = self._manager.rules.truncation is Truncation.ON_FETCH
        if truncates_on_fetch and replica.log.epochs.latest != UNDEFINED_EPOCH:
            truncates = False
        followed = Followed(replica, Copying.TRUNCATING if truncates else Copying.FETCHING)
        loop.followed[followed.at] = followed

    def hours_pass(self) -> None:
        """Delay each loop's next fetch by a random time, so that loops are at random points of their waits."""
        longest_us = self._manager.replication.replica_fetch_wait_max_ms * US_PER_MS
        for loop in self._loops.values():
            loop.pause(self._draws.us(DrawName.FOLLOWER_FETCH_PHASE, 0, longest_us))

    def forget(self, at: TopicPartition) -> None:
        """Stop copying this partition. The loop ignores answers in flight for the partition."""
        for loop in self._loops.values():
            loop.followed.pop(at, None)

    def run(self) -> None:
        """Continue every idle loop."""
        for loop in self._loops.values():
            loop.run()

    def durable(self, replica: Replica) -> None:
        """Continue the loop of this replica after a write of the replica became durable."""
        loop = self._loops.get(replica.leader)
        if loop is not None and replica.at in loop.followed:
            loop.run()

    def due(self, leader: int) -> None:
        """Continue a loop whose timer fired."""
        self._loops[leader].run()


class ReplicaFetcher:
    """The fetch loop for one leading broker."""

    def __init__(self, machine: Machine, client: Client, manager: ReplicaManager, leader: int, host: ActorName) -> None:
        self._machine = machine
        self._client = client
        self._manager = manager
        self._leader = leader
        self._host = host
        self._busy = False
        self._timer: TimerKey = (BrokerTimer.FETCHER, str(leader))
        self._asked: dict[TopicPartition, Asked] = {}
        """Partition -> its part in the last fetch with it."""
        self._session = FetchSessionHandler()
        self._rows: dict[TopicPartition, FetchPartition] = {}
        """The partitions of the last fetch."""
        self._writing: Followed | None = None
        """A partition that had a write in progress at the last check."""
        self.followed: dict[TopicPartition, Followed] = {}

    def pause(self, for_us: int) -> None:
        """Do not fetch for this time; the answer to a request in flight is still read."""
        for each in self.followed.values():
            each.not_before_us = max(each.not_before_us, self._machine.now_us + for_us)

    def run(self) -> None:
        """Send the next request, unless one is in flight or data is still being written."""
        if self._busy:
            return
        if not self.followed:
            self._session = (
                FetchSessionHandler()
            )  # Kafka ends the thread and its session (``shutdownIdleFetcherThreads``)
            return
        if self._is_writing():
            return  # the end of the append calls this method again
        now_us = self._machine.now_us
        wait_us = self._client.available_at(self._host) - now_us
        if wait_us > 0:
            self._machine.start_timer(self._timer, wait_us)
            return
        state = _FETCHING
        fetching = [each for each in self.followed.values() if each.state is state and each.not_before_us <= now_us]
        if len(fetching) == len(self.followed):
            self._fetch(fetching)
        else:
            self._run_some([each for each in self.followed.values() if each.not_before_us <= now_us])

    def _run_some(self, ready: list[Followed]) -> None:
        """Send the next request when not all partitions are in the state FETCHING."""
        if self._truncate([each for each in ready if each.state is Copying.TRUNCATING]):
            return
        if self._ask_range([each for each in ready if each.state is Copying.OUT_OF_RANGE]):
            return
        if self._is_writing():
            return
        sent = self._fetch([each for each in ready if each.state is Copying.FETCHING])
        if not sent or len(ready) < len(self.followed):
            self._wait()

    def _is_writing(self) -> bool:
        """Whether a followed partition has a write in progress."""
        if not self._manager.writes:
            return False
        last = self._writing
        if last is not None and last.replica.writes and self.followed.get(last.at) is last:
            return True
        for each in self.followed.values():
            if each.replica.writes:
                self._writing = each
                return True
        return False

    def _wait(self) -> None:
        due_us = min(each.not_before_us for each in self.followed.values() if each.not_before_us > self._machine.now_us)
        self._machine.start_timer(self._timer, due_us - self._machine.now_us)

    # --- truncation --------------------------------------------------------------------------------------------

    def _truncate(self, which: list[Followed]) -> bool:
        """Truncate the logs of new followers, after a request if necessary; returns whether a request was sent."""
        manager = self._manager
        asks = []
        for each in which:
            replica = each.replica
            if replica.log.epochs.latest == UNDEFINED_EPOCH or manager.rules.truncation is Truncation.HIGH_WATERMARK:
                manager.truncate(replica, replica.log.high_watermark, "high-watermark")
                each.state = Copying.FETCHING
            else:
                asks.append(Asked(each, replica.leader_epoch, -1))
        if not asks:
            return False
        questions = tuple(
            EpochQuestion(
                topic=ask.followed.replica.topic,
                partition=ask.followed.replica.number,
                current_leader_epoch=self._current_epoch(ask.followed.replica),
                leader_epoch=ask.followed.replica.log.epochs.latest,
            )
            for ask in asks
        )
        by_partition = {ask.followed.at: ask for ask in asks}
        self._send(OffsetForLeaderEpoch(replica_id=manager.node_id, questions=questions), _EPOCH_VERSION, by_partition)
        return True

    def _epochs_answered(self, reply: OffsetForLeaderEpochReply, asked: dict[TopicPartition, Asked]) -> None:
        for row in reply.answers:
            ask = asked[row.topic, row.partition]
            each = self._current(ask, Copying.TRUNCATING, checked=False)
            if each is None:
                continue
            if each.replica.leader_epoch != ask.leader_epoch and self._manager.rules.checks_answer_epoch:
                continue
            if row.error_code is not ErrorCode.NONE:
                self._failed(each, row.error_code, ask)
            else:
                self._truncate_by(each, EpochEndOffset(row.leader_epoch, row.end_offset))

    def _truncate_by(self, each: Followed, answer: EpochEndOffset) -> None:
        log = each.replica.log
        point = truncation_for(answer, log.epochs, log.end_offset, log.high_watermark, self._manager.rules.truncation)
        self._manager.truncate(each.replica, point.end_offset, point.why)
        each.row = None  # another last epoch may end at the same offset
        if point.done:
            each.state = Copying.FETCHING

    # --- out of range ------------------------------------------------------------------------------------------

    def _ask_range(self, which: list[Followed]) -> bool:
        if not which:
            return False
        questions = tuple(
            OffsetQuestion(
                topic=each.replica.topic,
                partition=each.replica.number,
                current_leader_epoch=self._current_epoch(each.replica),
                timestamp_ms=timestamp,
            )
            for each in which
            for timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        asked = {each.at: Asked(each, each.replica.leader_epoch, -1) for each in which}
        self._send(ListOffsets(replica_id=self._manager.node_id, questions=questions), _LIST_VERSION, asked)
        return True

    def _range_answered(self, reply: ListOffsetsReply, asked: dict[TopicPartition, Asked]) -> None:
        rows = iter(reply.answers)
        for earliest, latest in zip(rows, rows, strict=True):
            ask = asked[earliest.topic, earliest.partition]
            each = self._current(ask, Copying.OUT_OF_RANGE, checked=True)
            if each is None:
                continue
            error = earliest.error if earliest.error is not ErrorCode.NONE else latest.error
            if error is not ErrorCode.NONE:
                self._failed(each, error, ask)
                continue
            if earliest.offset > each.replica.log.end_offset:
                # The leader deleted the records that the follower needs next.
                self._manager.empty(each.replica, earliest.offset, "leader")
            else:  # the leader's log is shorter: unclean election, or truncation by high watermark
                self._manager.truncate(each.replica, latest.offset, "out-of-range")
            each.row = None
            each.state = Copying.FETCHING

    # --- fetching ----------------------------------------------------------------------------------------------

    def _fetch(self, which: list[Followed]) -> bool:
        if self._manager.follower_quota.rate is not None:
            which = self._not_held_back(which)
        if not which:
            return False
        config = self._manager.replication
        tells_epochs = self._manager.rules.truncation is Truncation.ON_FETCH
        rows = self._rows
        same = len(rows) == len(which)
        for each in which:
            log, epoch, row, ask = each.replica.log, each.replica.leader_epoch, each.row, each.asked
            if row is None or ask.offset != log.end_offset or ask.leader_epoch != epoch:
                same = False
                each.asked = self._asked[each.at] = _new(Asked, (each, epoch, log.end_offset))
                each.row = _fetch_partition(
                    topic=each.replica.topic,
                    partition=each.replica.number,
                    current_leader_epoch=self._current_epoch(each.replica),
                    fetch_offset=log.end_offset,
                    last_fetched_epoch=log.epochs.latest if tells_epochs else UNDEFINED_EPOCH,
                    log_start_offset=log.start_offset,
                    max_bytes=config.replica_fetch_max_bytes,
                )
            elif same and rows.get(each.at) is not row:
                same = False
        if not same:
            rows = self._rows = {each.at: each.row for each in which if each.row is not None}
        session = self._session
        changed, forgotten = session.news(rows)
        request = _fetch_of(
            replica_id=self._manager.node_id,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            partitions=changed,
            forgotten=forgotten,
        )
        self._send(request, REPLICA_FETCH_VERSION, self._asked)
        return True

    def _not_held_back(self, which: list[Followed]) -> list[Followed]:
        """The partitions that may be fetched under the throttled rate; without any, set a timer."""
        quota, now_us = self._manager.follower_quota, self._machine.now_us
        free = [each for each in which if each.in_sync or not quota.holds_back(each.at, now_us)]
        if which and not free:
            self._machine.start_timer(self._timer, self._manager.replication.replica_fetch_backoff_ms * US_PER_MS)
        return free

    def _fetch_answered(self, reply: FetchReply, asked: dict[TopicPartition, Asked]) -> None:
        if not self._session.answered(reply):
            return
        checked = self._manager.rules.checks_fetch_epoch
        for row in reply.partitions:
            ask = asked[row.topic, row.partition]
            each = self._current(ask, _FETCHING, checked=checked)
            if each is None or each.replica.log.end_offset != ask.offset:
                continue
            if row.diverging is not None:
                self._truncate_by(each, EpochEndOffset(row.diverging.epoch, row.diverging.end_offset))
            elif row.error is _NONE:
                self._copy(each.replica, row)
                if each.row is not None and each.row.log_start_offset != each.replica.log.start_offset:
                    each.row = None  # the next fetch must inform the leader
                each.in_sync = each.replica.log.end_offset >= row.high_watermark
            elif row.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                each.state = Copying.OUT_OF_RANGE
            else:
                self._failed(each, row.error, ask)

    def _copy(self, replica: Replica, row: FetchedPartition) -> None:
        log = replica.log
        entries: list[Record] = []
        for batch in row.replica_batches:
            log.take(batch)
            entries += batch_entry(batch)
            self._machine.note(
                _records_replicated(
                    topic=replica.topic,
                    partition=replica.number,
                    base_offset=batch.base_offset,
                    count=batch.count,
                    leader_epoch=batch.leader_epoch,
                    life=batch.life,
                )
            )
        if entries:
            self._manager.write_journal(replica, tuple(entries))
            if self._manager.follower_quota.rate is not None:
                copied = replica.record_bytes * sum([batch.count for batch in row.replica_batches])
                self._manager.follower_quota.record(replica.at, copied, self._machine.now_us)
        # The high watermark may decrease: a new leader starts with its own high watermark, which can be lower.
        log.high_watermark = max(log.start_offset, min(row.high_watermark, log.end_offset))
        if entries and replica.topic == OFFSETS_TOPIC:
            self._manager.clean(replica, row.replica_batches)
        if row.log_start_offset > log.start_offset:
            self._manager.advance_start(replica, min(row.log_start_offset, log.high_watermark), "leader")

    # --- requests ----------------------------------------------------------------------------------------------

    def _current_epoch(self, replica: Replica) -> int:
        return replica.leader_epoch if self._manager.rules.fences_fetches else -1

    def _send(self, request: object, version: int, asked: dict[TopicPartition, Asked]) -> None:
        self._busy = True
        self._client.call(self._host, request, version, self._answered, self._unanswered, asked)

    def _answered(self, reply: object, asked: dict[TopicPartition, Asked]) -> None:
        self._busy = False
        match reply:
            case FetchReply():
                self._fetch_answered(reply, asked)
            case OffsetForLeaderEpochReply():
                self._epochs_answered(reply, asked)
            case ListOffsetsReply():
                self._range_answered(reply, asked)
            case _:
                raise AssertionError(f"no answer to a follower: {reply!r}")
        self.run()

    def _unanswered(self, why: str, asked: dict[TopicPartition, Asked]) -> None:
        self._busy = False
        if asked is self._asked:
            self._session.unanswered()
        waits_longer = asked is self._asked and self._manager.rules.waits_twice_for_lost_fetches
        self._back_off(self.followed.values(), 1 + waits_longer)
        self.run()

    def _current(self, ask: Asked, state: Copying, *, checked: bool) -> Followed | None:
        """The partition of an answer, if it is still in this state (and, ``checked``, in this leader epoch)."""
        each = self.followed.get(ask.followed.at)
        if each is None or each.state is not state or each.replica.role is not _FOLLOWER:
            return None
        if checked and each.replica.leader_epoch != ask.leader_epoch:
            return None
        return each

    def _failed(self, each: Followed, error: ErrorCode, ask: Asked) -> None:
        """Back off a partition with an error. A fenced partition waits for a LeaderAndIsr, unless the
        LeaderAndIsr has already arrived.
        """
        replica = each.replica
        same_epoch = replica.leader_epoch == ask.leader_epoch or not self._manager.rules.checks_answer_epoch
        if error is ErrorCode.FENCED_LEADER_EPOCH and same_epoch:
            del self.followed[each.at]
        else:
            self._back_off([each])

    def _back_off(self, which: Iterable[Followed], times: int = 1) -> None:
        until_us = self._machine.now_us + times * self._manager.replication.replica_fetch_backoff_ms * US_PER_MS
        for each in which:
            each.not_before_us = until_us
