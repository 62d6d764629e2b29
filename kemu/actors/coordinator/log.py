"""Where the records of groups are written: a partition of ``__consumer_offsets``, the port to its log, and what waits.

A record is written before what it says is told. What is to follow is carried by the write: ``Writes`` is the one place
that goes on when an append is over, or when it will never be known here how it ended.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from kemu.actors.coordinator.rules import GroupRules
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import Machine, Received, Record, TimerKey, Timers
from kemu.protocol.commands import LeadOffsets
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC, ActorName


class OffsetsPartitionState(Enum):
    """What a coordinator can say of a partition of the offsets topic."""

    QUEUED = "queued"
    """Its log is to be read after those of others: NOT_COORDINATOR, as nothing says yet that it is led here."""
    LOADING = "loading"
    """Its log is being read: COORDINATOR_LOAD_IN_PROGRESS."""
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be read: NOT_COORDINATOR, as when it is not led here."""
    RESIGNED = "resigned"


class OffsetsPartition:
    """A partition of ``__consumer_offsets``: whether, and under which leader epoch, it is led here."""

    __slots__ = ("batch", "epoch", "last_write", "load_us", "log", "number", "records", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.log = f"{OFFSETS_TOPIC}-{number}"
        self.epoch = -1
        self.last_write = 0
        """The token of the newest write."""
        self.batch: CoordinatorBatch | None = None
        """What is gathered for the next append."""
        self.state = OffsetsPartitionState.RESIGNED
        self.records: tuple[Record, ...] = ()
        """Only while queued or loading."""
        self.load_us = 0
        """How long its log takes to read."""


class LogListener(Protocol):
    """Who is told what a log has to say."""

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        """An append is over."""
        ...

    def lead(self, command: LeadOffsets) -> None:
        """This broker begins to lead a partition."""
        ...

    def leadership_ended(self, number: int, leader_epoch: int) -> None:
        """The leadership under this epoch (or an older one) is over."""
        ...


class GroupLog(Protocol):
    """The logs of the offsets topic's partitions, wherever they are: on this host's disk, or at the broker.

    ``commit_timeout_us``: ``offsets.commit.timeout.ms``, None where a record counts as soon as it is appended.
    """

    commit_timeout_us: int | None

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int, required_acks: int) -> None:
        """Append records, all or none; ``LogListener.written`` or an ``Appended`` event tells how it ended."""
        ...

    def receive(self, event: Received, listener: LogListener) -> None:
        """A message that is no request of a client: it is about the log."""
        ...

    def link_down(self, peer: ActorName, listener: LogListener) -> None:
        """The connection to this actor broke."""
        ...


class OwnDisk:
    """The logs of a cluster whose leaderships are arranged: on the coordinator's own disk (a ``GroupLog``)."""

    commit_timeout_us: int | None = None

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int, required_acks: int) -> None:
        """To this host's disk, which is all there is."""
        self._machine.append(partition.log, records, token)

    def receive(self, event: Received, listener: LogListener) -> None:
        """A disk does not talk."""
        raise AssertionError(f"{self._machine.name}: not a request of a coordinator: {event.message!r}")

    def link_down(self, peer: ActorName, listener: LogListener) -> None:
        """It is not behind a connection; parked requests of members outlive theirs."""


def _no_more() -> None:
    """Whoever waited is answered otherwise, or nobody did."""


class Write(NamedTuple):
    """What follows an append: one of ``done`` and ``abandoned`` is called, once, or ``late`` where that is given."""

    done: Callable[[ErrorCode, int], None]
    """``(error, base_offset)``: the records are in the log (NONE), or not as far as is known."""
    abandoned: Callable[[], None] = _no_more
    """The partition moved while the append was under way; the groups themselves answer parked joins and syncs."""
    late: Callable[[ErrorCode, int], None] | None = None
    """``(error, base_offset)``: called when it took too long (REQUEST_TIMED_OUT), and if the records are in the log in
    the end (NONE), which nobody waits for any more. None: what takes too long has failed, its end is of no interest."""


BATCH_BYTES = 61
"""Source: ``DefaultRecordBatch.RECORD_BATCH_OVERHEAD``."""
_RECORD_BYTES = 12
"""At most, beside key and value: length, attributes, deltas, the two lengths, number of headers (``DefaultRecord``)."""


def batch_bytes(records: Iterable[Record]) -> int:
    """What records weigh as a batch of their own, uncompressed; a few bytes too much."""
    return BATCH_BYTES + sum(_RECORD_BYTES + len(key) + len(value or b"") for key, value in records)


ALL_IN_SYNC, LEADER_ALONE = -1, 1
"""``acks`` of an append."""


class CoordinatorBatch:
    """Writes to one partition that are gathered to be appended together. Source: ``CoordinatorRuntime``."""

    __slots__ = ("parts", "records", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []
        """(token of a write, how many records are before its own)."""
        self.records: list[Record] = []
        self.size_bytes = BATCH_BYTES

    def add(self, token: int, records: tuple[Record, ...]) -> None:
        """One more write."""
        self.parts.append((token, len(self.records)))
        self.records.extend(records)
        self.size_bytes += batch_bytes(records) - BATCH_BYTES


class Writes:
    """What is being written, by token, and the answers that wait behind it.

    A batch fails as a whole: each of its writes is told the error, in their order. One that is not appended yet when
    its partition moves, or its broker dies, is lost, and nobody was told that it is written.

    Args:
        machine: whose timers end what waits.
        log: where they go.
        rules: ``waits_for_watermark`` and ``gathers_writes``.
        most_bytes: ``message.max.bytes``: what a batch may weigh. A larger one is refused before it is written
            (``UnifiedLog.analyzeAndValidateRecords``, ``RecordTooLargeException``). A write that is gathered must fit
            with a second header, as its own estimated size has one (``CoordinatorContext.append``).
        linger_us: how long writes are gathered, where they are; 0: each is appended by itself, at once.
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
        """Those that took too long, and are under way still."""
        self._batch_parts: dict[int, list[tuple[int, int]]] = {}
        """Token of the append of a batch -> the ``parts`` of the batch."""
        self._behind: dict[int, dict[int, Callable[[ErrorCode], None]]] = {}
        """Token of a write -> what waits behind it, by a number of its own out of the same row."""

    def begin(self, partition: OffsetsPartition, records: tuple[Record, ...], write: Write) -> None:
        """Write records to a partition's log; ``write`` goes on when that is over."""
        if batch_bytes(records) > self._most_bytes:
            write.done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        token = self._next()
        partition.last_write = token
        self._waiting[token] = (partition, write)
        if self._linger_us:
            self._gather(partition, records, token)
        else:
            self._log.append(partition, records, token, self._acks)
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
        """Append what was gathered for a partition."""
        batch, partition.batch = partition.batch, None
        assert batch is not None, f"nothing is gathered for {partition.log}"
        token, _ = batch.parts[-1]
        self._batch_parts[token] = batch.parts
        self._log.append(partition, tuple(batch.records), token, self._acks)

    def must_wait(self, partition: OffsetsPartition) -> bool:
        """Whether an answer that needs no record of its own has to wait ``behind`` what is being written."""
        token = partition.last_write
        return self._waits and (token in self._waiting or token in self._late)

    def behind(self, partition: OffsetsPartition, answer: Callable[[ErrorCode], None]) -> None:
        """Call ``answer`` when all that a partition was to take until now is in its log, or with an error."""
        if not self.must_wait(partition):
            answer(ErrorCode.NONE)
            return
        number = self._next()
        self._behind.setdefault(partition.last_write, {})[number] = answer
        self._start_timer(number)

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        """An append is over."""
        assert 0 < token <= self._last_token, f"append {token} was never asked for"
        parts = self._batch_parts.pop(token, None)
        if parts is None:
            self._over(token, error, base_offset)
            return
        for each, before in parts:
            self._over(each, error, base_offset + before if error is ErrorCode.NONE else base_offset)

    def _over(self, token: int, error: ErrorCode, base_offset: int) -> None:
        entry = self._waiting.pop(token, None)
        late = self._late.pop(token, None)
        if entry is not None:  # else the partition was resigned meanwhile; whoever waited was told
            self._stop_timer(token)
            entry[1].done(error, base_offset)
        elif late is not None and late[1].late is not None and error is ErrorCode.NONE:
            late[1].late(error, base_offset)
        self._answer_behind(token, error)

    def time_is_over(self, number: int) -> None:
        """An append, or what waits behind one, took too long."""
        entry = self._waiting.pop(number, None)
        if entry is None:
            waits = next(waits for waits in self._behind.values() if number in waits)
            waits.pop(number)(ErrorCode.REQUEST_TIMED_OUT)
            return
        self._late[number] = entry
        write = entry[1]
        (write.late or write.done)(ErrorCode.REQUEST_TIMED_OUT, -1)

    def abandon(self, partition: OffsetsPartition) -> None:
        """A partition is led here no more: how its appends end is not for us to say; what is gathered is lost."""
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
