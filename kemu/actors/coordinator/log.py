"""The log of a group's records: a partition of ``__consumer_offsets``, the port to it, and the writes in progress.

An answer waits until its record is written. Each write has a continuation, which only ``Writes`` calls. ``Writes``
calls the continuation when the append ended, or when this broker can no longer learn the outcome of the append.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from kemu.actors.coordinator.rules import GroupRules
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import Machine, Received, Record, TimerKey, Timers
from kemu.protocol.commands import LeadOffsets
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.offsets_log import KnownTopic
from kemu.protocol.messages.records import BATCH_BYTES, batch_bytes
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId


class OffsetsPartitionState(Enum):
    """The state of a partition of the offsets topic at a coordinator."""

    QUEUED = "queued"
    """Other partitions' logs are read first. Requests get NOT_COORDINATOR, as if another broker led the partition."""
    LOADING = "loading"
    """The partition's log is being read. Requests get COORDINATOR_LOAD_IN_PROGRESS."""
    ACTIVE = "active"
    FAILED = "failed"
    """The partition's log could not be read. Requests get NOT_COORDINATOR, as if another broker led the partition."""
    RESIGNED = "resigned"


class OffsetsPartition:
    """A partition of ``__consumer_offsets``: its state at this coordinator, and the leader epoch."""

    __slots__ = ("batch", "epoch", "last_done", "last_write", "load_us", "log", "number", "records", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.log = f"{OFFSETS_TOPIC}-{number}"
        self.epoch = -1
        self.last_write = 0
        """The token of the newest write."""
        self.last_done = 0
        """The token of the newest write whose records are in the log."""
        self.batch: CoordinatorBatch | None = None
        """Writes gathered for the next append."""
        self.state = OffsetsPartitionState.RESIGNED
        self.records: tuple[Record, ...] = ()
        """Records to replay, while queued or loading."""
        self.load_us = 0
        """The time to read the partition's log."""


class LogListener(Protocol):
    """The receiver of the events of a log."""

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        """Continue after an append ended."""
        ...

    def lead(self, command: LeadOffsets) -> None:
        """Begin to load a partition of the offsets topic, which this broker now leads."""
        ...

    def leadership_ended(self, number: int, leader_epoch: int) -> None:
        """Unload a partition after this broker's leadership ended, under this epoch or an older epoch."""
        ...

    def know_topics(self, topics: tuple[KnownTopic, ...]) -> None:
        """Use these topics of the cluster from now on."""
        ...

    def know_group_settings(self, group: GroupId, settings: Mapping[str, str]) -> None:
        """Use these settings of a group from now on."""
        ...


class GroupLog(Protocol):
    """The logs of the offsets topic's partitions: on this host's disk, or at the broker.

    ``commit_timeout_us``: ``offsets.commit.timeout.ms``; None if a record is valid as soon as it is appended.
    """

    commit_timeout_us: int | None

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int, required_acks: int) -> None:
        """Append all of the records, or none. ``LogListener.written`` or an ``Appended`` event has the outcome."""
        ...

    def receive(self, event: Received, listener: LogListener) -> None:
        """React to a message about the log, which is no request of a client."""
        ...

    def link_down(self, peer: ActorName, listener: LogListener) -> None:
        """React to the broken connection to this actor."""
        ...


class OwnDisk:
    """Logs on the coordinator's own disk, in a cluster whose scenario arranges the leaders (a ``GroupLog``)."""

    commit_timeout_us: int | None = None

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int, required_acks: int) -> None:
        """Append to this host's disk, the only replica."""
        self._machine.append(partition.log, records, token)

    def receive(self, event: Received, listener: LogListener) -> None:
        """Raise an error: a disk sends no messages."""
        raise AssertionError(f"{self._machine.name}: not a request of a coordinator: {event.message!r}")

    def link_down(self, peer: ActorName, listener: LogListener) -> None:
        """Do nothing: a disk has no connection, and parked requests survive a broken connection."""


def _ignore() -> None:
    """Do nothing: the request gets its answer elsewhere, or gets no answer."""


class Write(NamedTuple):
    """The continuation of an append. ``Writes`` calls either ``done`` or ``abandoned``, once.

    After a timeout ``Writes`` calls ``late``, if present, instead of ``done``.
    """

    done: Callable[[ErrorCode, int], None]
    """``(error, base_offset)``: the records are in the log (NONE), or the append failed as far as the broker knows."""
    abandoned: Callable[[], None] = _ignore
    """Called if the partition's leader changed during the append. The groups themselves answer parked joins
    and syncs.
    """
    late: Callable[[ErrorCode, int], None] | None = None
    """``(error, base_offset)``: called at the timeout (REQUEST_TIMED_OUT), and again if the records reach the log later
    (NONE).

    None: a timeout is a failure, and the later outcome is ignored.
    """


ALL_IN_SYNC, LEADER_ALONE = -1, 1
"""The values of an append's ``acks``."""


class CoordinatorBatch:
    """Writes to one partition that share an append. Source: ``CoordinatorRuntime``."""

    __slots__ = ("parts", "records", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []
        """(token of a write, number of records before the write's records)."""
        self.records: list[Record] = []
        self.size_bytes = BATCH_BYTES

    def add(self, token: int, records: tuple[Record, ...]) -> None:
        """Add a write to the batch."""
        self.parts.append((token, len(self.records)))
        self.records.extend(records)
        self.size_bytes += batch_bytes(records) - BATCH_BYTES


class Writes:
    """The writes in progress by token, and the answers that wait for these writes.

    A batch fails as a whole: each of its writes gets the error, in order. If the partition's leader changes or the
    broker dies before the append, the gathered writes are lost. No gathered write was acknowledged.

    Args:
        machine: the owner of the timers.
        log: the log to write to.
        rules: the rules; ``waits_for_watermark`` and ``gathers_writes`` are used here.
        most_bytes: ``message.max.bytes``, the limit of a batch. A larger batch is refused before the append
            (``UnifiedLog.analyzeAndValidateRecords``, ``RecordTooLargeException``). The estimated size of a gathered
            write includes a second batch header, as in Kafka (``CoordinatorContext.append``).
        linger_us: the time for gathering writes, if the rules gather writes; 0: each write is appended at once.
    """

    def __init__(self, machine: Timers, log: GroupLog, rules: GroupRules, *, most_bytes: int, linger_us: int) -> None:
        self._machine = machine
        self._log = log
        self._batch_bytes = most_bytes
        self._most_bytes = most_bytes - BATCH_BYTES if rules.gathers_writes else most_bytes
        self._linger_us = linger_us if rules.gathers_writes else 0
        self._acks = LEADER_ALONE if rules.waits_for_watermark else ALL_IN_SYNC
        self._waits = rules.waits_for_watermark
        self._timeout_us = log.commit_timeout_us if rules.waits_for_watermark else None
        self._last_token = 0
        self._waiting: dict[int, tuple[OffsetsPartition, Write]] = {}
        self._late: dict[int, tuple[OffsetsPartition, Write]] = {}
        """Writes after their timeout, whose append is still in progress."""
        self._batch_parts: dict[int, list[tuple[int, int]]] = {}
        """Token of a batch's append -> the ``parts`` of the batch."""
        self._behind: dict[int, dict[int, Callable[[ErrorCode], None]]] = {}
        """Token of a write -> the answers that wait for the write, numbered in the same sequence as the tokens."""

    def begin(
        self, partition: OffsetsPartition, records: tuple[Record, ...], write: Write, acks: int | None = None
    ) -> None:
        """Write records to a partition's log; ``write`` receives the outcome. ``acks``: None for the rules' value."""
        if batch_bytes(records) > self._most_bytes:
            write.done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        token = self._next()
        partition.last_write = token
        self._waiting[token] = (partition, write)
        if self._linger_us:
            self._gather(partition, records, token)
        else:
            self._log.append(partition, records, token, self._acks if acks is None else acks)
        self._start_timer(token)

    def _gather(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int) -> None:
        batch = partition.batch
        if batch is not None and batch.size_bytes + batch_bytes(records) > self._batch_bytes:
            self._machine.stop_timer(_linger_key(partition))
            self.flush(partition)
            batch = None
        if batch is None:
            partition.batch = batch = CoordinatorBatch()
            self._machine.start_timer(_linger_key(partition), self._linger_us)
        batch.add(token, records)

    def flush(self, partition: OffsetsPartition) -> None:
        """Append the gathered writes of a partition."""
        batch, partition.batch = partition.batch, None
        assert batch is not None, f"nothing is gathered for {partition.log}"
        token, _ = batch.parts[-1]
        self._batch_parts[token] = batch.parts
        self._log.append(partition, tuple(batch.records), token, self._acks)

    def must_wait(self, partition: OffsetsPartition) -> bool:
        """Whether an answer without a record must wait for the writes in progress (``behind``)."""
        token = partition.last_write
        return self._waits and (token in self._waiting or token in self._late)

    def behind(self, partition: OffsetsPartition, answer: Callable[[ErrorCode], None]) -> None:
        """Call ``answer`` when all present writes of a partition are in its log, or with the error of a
        failed write.
        """
        if not self.must_wait(partition):
            answer(ErrorCode.NONE)
            return
        number = self._next()
        self._behind.setdefault(partition.last_write, {})[number] = answer
        self._start_timer(number)

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        """Call the continuations of an append that ended."""
        assert 0 < token <= self._last_token, f"append {token} was never requested"
        parts = self._batch_parts.pop(token, None)
        if parts is None:
            self._over(token, error, base_offset)
            return
        for each, before in parts:
            self._over(each, error, base_offset + before if error is ErrorCode.NONE else base_offset)

    def _over(self, token: int, error: ErrorCode, base_offset: int) -> None:
        entry = self._waiting.pop(token, None)
        late = self._late.pop(token, None)
        known = entry or late
        if known is not None and error is ErrorCode.NONE:
            known[0].last_done = token
        if entry is not None:  # otherwise the partition was resigned before, and the request was answered
            self._stop_timer(token)
            entry[1].done(error, base_offset)
        elif late is not None and late[1].late is not None and error is ErrorCode.NONE:
            late[1].late(error, base_offset)
        self._answer_behind(token, error)

    def time_is_over(self, number: int) -> None:
        """React to the timeout of an append, or of an answer that waits for an append."""
        entry = self._waiting.pop(number, None)
        if entry is None:
            waits = next(waits for waits in self._behind.values() if number in waits)
            waits.pop(number)(ErrorCode.REQUEST_TIMED_OUT)
            return
        self._late[number] = entry
        write = entry[1]
        (write.late or write.done)(ErrorCode.REQUEST_TIMED_OUT, -1)

    def abandon(self, partition: OffsetsPartition) -> None:
        """Abandon the appends of a partition that has another leader, and drop its gathered writes."""
        if partition.batch is not None:
            self._machine.stop_timer(_linger_key(partition))
            partition.batch = None
        left = [token for token, (where, _) in (*self._late.items(), *self._waiting.items()) if where is partition]
        for token in sorted(left):
            self._late.pop(token, None)
            entry = self._waiting.pop(token, None)
            if entry is not None:
                self._stop_timer(token)
                entry[1].abandoned()
            self._answer_behind(token, ErrorCode.NOT_COORDINATOR)

    def _answer_behind(self, token: int, error: ErrorCode) -> None:
        for number, answer in self._behind.pop(token, {}).items():
            self._stop_timer(number)
            answer(error)

    def _next(self) -> int:
        self._last_token += 1
        return self._last_token

    def _start_timer(self, number: int) -> None:
        if self._timeout_us is not None:
            self._machine.start_timer((GroupTimer.WRITE, str(number)), self._timeout_us)

    def _stop_timer(self, number: int) -> None:
        if self._timeout_us is not None:
            self._machine.stop_timer((GroupTimer.WRITE, str(number)))


def _linger_key(partition: OffsetsPartition) -> TimerKey:
    return (GroupTimer.LINGER, str(partition.number))
