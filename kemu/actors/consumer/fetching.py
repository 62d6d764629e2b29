"""The fetch loop: one Fetch per leader in flight; a buffer keeps the records until a poll returns them.

A part of the consumer's positions, and its hottest one. A partition is fetched while it has a position and an empty
buffer. A changed partition of a leader makes a new plan; the session with the leader finds the rows that the leader
does not know yet (KIP-227). As in Kafka's ``Fetcher``, requests leave only while the polling thread polls. Before a
poll returns records it sends the next requests.

Not emulated: from 3.5 on a closing consumer closes its sessions.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kemu.actors.consumer.machine import FetchingMachine
from kemu.actors.consumer.partition import Partition, Returned, Seeking
from kemu.actors.fetch_session import FetchSessionHandler
from kemu.actors.machine import at_least_1_ms
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchPartition, FetchReply, NewLeader, RecordBatch
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.notes.groups import EpochRead
from kemu.protocol.wire.compile import maker

_NONE = ErrorCode.NONE
_new = tuple.__new__
_FETCHING = Seeking.FETCHING
_fetch = maker(Fetch)
_fetch_partition = maker(FetchPartition)

_STALE_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which the consumer refreshes metadata before the partition's next fetch. Source: ``FetchCollector``."""


Plan: TypeAlias = dict[TopicPartition, FetchPartition]
"""The rows of a Fetch. An answer counts only while the partition still has the same row."""


class Leader:
    """A broker that leads some of the consumer's partitions."""

    __slots__ = ("in_flight", "name", "not_before_us", "partitions", "plan", "session")

    def __init__(self, name: ActorName) -> None:
        self.name = name
        self.partitions: list[Partition] = []
        self.in_flight = False
        self.not_before_us = 0
        self.plan: Plan | None = None
        """The next Fetch; None: to be made anew."""
        self.session = FetchSessionHandler()


class Fetching:
    """The fetch loop of one consumer."""

    def __init__(
        self,
        machine: FetchingMachine,
        reset: Callable[[Partition, str], None],
        leaders_moved: Callable[[tuple[TopicPartition, ...]], None],
    ) -> None:
        config = machine.config
        self._client = machine.client
        self._machine = machine
        self._reset = reset
        self._leaders_moved = leaders_moved
        self._owned: Mapping[TopicPartition, Partition] = {}
        self._leaders: dict[ActorName, Leader] = {}
        self._ready: list[Partition] = []
        """Partitions with buffered records, in order of arrival."""
        self._version = machine.versions["Fetch"]
        self._max_wait_ms = config.fetch_max_wait_ms
        self._min_bytes = config.fetch_min_bytes
        self._max_bytes = config.fetch_max_bytes
        self._retry_us = at_least_1_ms(config.retry_backoff_ms)
        self._tells_epochs = bool(config.group_id)
        self._max_partition_bytes = config.max_partition_fetch_bytes
        self.tells_empty_answers = False
        """Whether an answer without records wakes the polling thread."""
        self.tells_dropped_records = False
        """Whether records of a partition that is being revoked, which no poll() returns, wake the polling thread."""
        self._empty_answer = False

    # --- leaders -----------------------------------------------------------------------------------------------

    def redistribute(self, owned: Mapping[TopicPartition, Partition]) -> None:
        """Distribute the partitions to their leaders, after a change of ownership, of leaders or of ``serving``."""
        self._owned = owned
        for leader in self._leaders.values():
            leader.partitions = []
            leader.plan = None
        for one in owned.values():
            if one.leader is not None:
                leader = self._leaders.get(one.leader) or self._leaders.setdefault(one.leader, Leader(one.leader))
                leader.partitions.append(one)
        self._ready = [one for one in self._ready if one.buffer and owned.get(one.at) is one]

    def changed(self, one: Partition) -> None:
        """Plan the leader's next Fetch anew: the partition's position or buffer changed."""
        leader = self._leaders.get(one.leader) if one.leader is not None else None
        if leader is not None:
            leader.plan = None

    def pause(self, one: Partition) -> None:
        """Neither fetch the partition nor return its records. The buffer keeps buffered and requested records of the
        partition. Source: KAFKA-7548.
        """
        one.paused = True
        self._ready = [other for other in self._ready if other is not one]
        self.changed(one)

    def resume(self, one: Partition) -> None:
        """Fetch and return the partition again."""
        if one.paused:
            one.paused = False
            if one.buffer:
                self._ready.append(one)
            self.changed(one)
            self._machine.wake()

    # --- requests ----------------------------------------------------------------------------------------------

    def send(self) -> bool:
        """Send a Fetch to every leader that has no Fetch in flight and has partitions to fetch. Returns whether a Fetch
        was sent.
        """
        sent = False
        for leader in self._leaders.values():
            if not leader.in_flight:
                self._send(leader)
                sent = sent or leader.in_flight
        return sent

    @property
    def has_more(self) -> bool:
        """Whether a leader without a Fetch in flight has partitions to fetch."""
        return any(not leader.in_flight and self._planned(leader) for leader in self._leaders.values())

    def take_empty_answer(self) -> bool:
        """Whether an answer that wakes the polling thread has arrived since the last call."""
        taken, self._empty_answer = self._empty_answer, False
        return taken

    def _planned(self, leader: Leader) -> Plan:
        if leader.plan is None:
            leader.plan = self._plan(leader)
        return leader.plan

    def _send(self, leader: Leader) -> None:
        plan = self._planned(leader)
        if not plan:
            return
        client = self._client
        at_us = max(client.available_at(leader.name), leader.not_before_us)
        if at_us > self._machine.now_us:
            self._machine.wake_at(at_us)
            return
        leader.in_flight = True
        session = leader.session
        changed, forgotten = session.news(plan)
        request = _fetch(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            partitions=changed,
            forgotten=forgotten,
        )
        client.call(leader.name, request, self._version, self._fetched, self._not_fetched, (leader, plan))

    def _plan(self, leader: Leader) -> Plan:
        rows: Plan = {}
        for one in leader.partitions:
            if one.buffer or one.seeking is not _FETCHING or one.paused:
                continue
            if one.serving and not one.waits_for_metadata:
                row = one.row
                if row is None:
                    row = one.row = _fetch_partition(
                        topic=one.topic,
                        partition=one.number,
                        current_leader_epoch=one.leader_epoch,
                        fetch_offset=one.position,
                        max_bytes=self._max_partition_bytes,
                    )
                rows[one.at] = row
        return rows

    # --- answers -----------------------------------------------------------------------------------------------

    def _fetched(self, reply: FetchReply, context: tuple[Leader, Plan]) -> None:
        leader, plan = context
        leader.in_flight = False
        owned = self._owned
        news = not leader.session.answered(reply)
        told = self.tells_empty_answers
        moved = self._learn_leaders(reply.new_leaders) if reply.new_leaders else ()
        for row in () if news else reply.partitions:
            if row.batches or row.error is not _NONE:
                at = (row.topic, row.partition)
                one = owned.get(at)
                if one is not None and one.serving and one.row is not None and one.row is plan.get(at):
                    news = True
                    self._take(one, row)
                elif at in moved:
                    news = True
                    if one is not None and one.seeking is _FETCHING:  # else nobody looks at the error
                        self._machine.metadata.refresh()
                else:
                    told = told or self.tells_dropped_records
        if news:
            leader.plan = None
            self._machine.wake()
        elif self._machine.polling and not self._machine.awake and not told:
            self._send(leader)
        else:
            self._machine.wake()
        self._empty_answer = told

    def _learn_leaders(self, leaders: tuple[NewLeader, ...]) -> tuple[TopicPartition, ...]:
        """Learn the leaders that errors name. A position that its new leader must validate hides its error.

        Source: ``AbstractFetch.handleFetchSuccess``, ``FetchCollector.initialize`` (3.7 to 4.3).
        """
        moved = self._machine.metadata.learn_leaders(leaders)
        if moved:
            self._leaders_moved(moved)
        return moved

    def _not_fetched(self, why: str, context: tuple[Leader, Plan]) -> None:
        leader = context[0]
        leader.in_flight = False
        leader.session.unanswered()
        leader.not_before_us = self._machine.now_us + self._retry_us
        self._machine.metadata.refresh()
        self._machine.wake()

    def _take(self, one: Partition, row: FetchedPartition) -> None:
        error = row.error
        if error is _NONE:
            position = one.position
            buffer = one.buffer
            batches = row.batches
            one.end = row.high_watermark
            assert not buffer, f"{one.at} was fetched with something buffered"
            is_same = True
            for batch in batches:
                first, epoch = batch.base_offset, batch.leader_epoch
                last = first + batch.count
                if first < position:
                    first = position
                if epoch != one.epoch_read or batch.life != one.life_read:
                    is_same = False
                if first >= last:
                    continue  # the batch is below the fetch offset
                if buffer and buffer[-1][1:] == (first, epoch):
                    buffer[-1] = (buffer[-1][0], last, epoch)
                else:
                    buffer.append((first, last, epoch))
            if not is_same and self._tells_epochs:
                self._note_epochs(one, batches)
            if buffer and not one.paused:
                self._ready.append(one)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(one, f"offset {one.position} is out of range")
        elif error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._machine.fail_later(error, f"Fetch of {one.topic}")
        elif error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            # The broker does not know the epoch yet: retry. Source: ``Fetcher.initializeCompletedFetch``.
            one.row = None
        else:
            # Kafka raises an unexpected error to the application; here the leader is looked up again.
            one.waits_for_metadata = True
            self._machine.metadata.refresh()

    def _note_epochs(self, one: Partition, batches: tuple[RecordBatch, ...]) -> None:
        """Report each offset at which a new leader epoch, or a new life of its leader, begins."""
        for batch in batches:
            is_same = batch.leader_epoch == one.epoch_read and batch.life == one.life_read
            if not is_same and batch.base_offset + batch.count > one.position:
                one.epoch_read, one.life_read = batch.leader_epoch, batch.life
                note = EpochRead(
                    topic=one.topic,
                    partition=one.number,
                    offset=max(batch.base_offset, one.position),
                    leader_epoch=batch.leader_epoch,
                    life=batch.life,
                )
                self._machine.note(note)

    # --- polls -------------------------------------------------------------------------------------------------

    @property
    def has_records(self) -> bool:
        """Whether a poll would get records."""
        return bool(self._ready)

    def drain(self, at_most: int) -> list[Returned]:
        """Take at most this many records, partition by partition, and advance the positions."""
        returned: list[Returned] = []
        ready = self._ready
        while ready and at_most > 0:
            one = ready[0]
            buffer, end = one.buffer, -1
            while buffer and at_most > 0:
                first, last, epoch = buffer[0]
                if last - first > at_most:
                    last = first + at_most
                    buffer[0] = (last, buffer[0][1], epoch)
                else:
                    del buffer[0]
                at_most -= last - first
                one.position, one.offset_epoch = last, epoch
                if first == end:
                    first = returned.pop().first
                end = last
                returned.append(_new(Returned, (one.at, first, last)))
            one.row = None
            if not buffer:
                ready.pop(0)
                self.changed(one)
        return returned
