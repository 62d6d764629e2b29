"""Where the records of groups are written: a partition of ``__consumer_offsets``, the port to its log, and what waits.

A record is written before what it says is told. What is to follow is carried by the write: ``Writes`` is the one place
that goes on when an append is over, or when it will never be known here how it ended.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from kemu.actors.machine import Machine, Received, Record
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

    __slots__ = ("epoch", "load_us", "log", "number", "records", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.log = f"{OFFSETS_TOPIC}-{number}"
        self.epoch = -1
        self.state = OffsetsPartitionState.RESIGNED
        self.records: tuple[Record, ...] = ()
        """Only while queued or loading."""
        self.load_us = 0
        """How long its log takes to read."""


class LogNews(Protocol):
    """Who is told what a log has to say."""

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        """An append is over."""
        ...

    def lead(self, command: LeadOffsets) -> None:
        """This broker begins to lead a partition."""
        ...

    def leads_no_more(self, number: int, leader_epoch: int) -> None:
        """The leadership under this epoch (or an older one) is over."""
        ...


class GroupLog(Protocol):
    """The logs of the offsets topic's partitions, wherever they are: on this host's disk, or at the broker."""

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int) -> None:
        """Append records, all or none; ``LogNews.written`` or an ``Appended`` event tells how it ended."""
        ...

    def heard(self, event: Received, news: LogNews) -> None:
        """A message that is no request of a client: it is about the log."""
        ...

    def link_down(self, peer: ActorName, news: LogNews) -> None:
        """The connection to this actor broke."""
        ...


class OwnDisk:
    """The logs of a cluster whose leaderships are arranged: on the coordinator's own disk (a ``GroupLog``)."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int) -> None:
        """To this host's disk."""
        self._machine.append(partition.log, records, token)

    def heard(self, event: Received, news: LogNews) -> None:
        """A disk does not talk."""
        raise AssertionError(f"{self._machine.name}: not a request of a coordinator: {event.message!r}")

    def link_down(self, peer: ActorName, news: LogNews) -> None:
        """It is not behind a connection; parked requests of members outlive theirs."""


def _no_more() -> None:
    """Whoever waited is answered otherwise, or nobody did."""


class Write(NamedTuple):
    """What follows an append: one of the two is called, once."""

    done: Callable[[ErrorCode, int], None]
    """``(error, base_offset)``: the records are in the log (NONE), or not as far as is known."""
    abandoned: Callable[[], None] = _no_more
    """The partition moved while the append was under way; the groups themselves answer parked joins and syncs."""


BATCH_BYTES = 61
"""Source: ``DefaultRecordBatch.RECORD_BATCH_OVERHEAD``."""
_RECORD_BYTES = 12
"""At most, beside key and value: length, attributes, deltas, the two lengths, number of headers (``DefaultRecord``)."""


def batch_bytes(records: Iterable[Record]) -> int:
    """What records weigh as a batch of their own, uncompressed; a few bytes too much."""
    return BATCH_BYTES + sum(_RECORD_BYTES + len(key) + len(value or b"") for key, value in records)


class Writes:
    """The appends under way, by token.

    Args:
        log: where they go.
        most_bytes: ``message.max.bytes``: what a batch may weigh. A larger one is refused before it is written
            (``UnifiedLog.analyzeAndValidateRecords``, ``RecordTooLargeException``).
    """

    def __init__(self, log: GroupLog, most_bytes: int) -> None:
        self._log = log
        self._most_bytes = most_bytes
        self._last_token = 0
        self._waiting: dict[int, tuple[OffsetsPartition, Write]] = {}

    def begin(self, partition: OffsetsPartition, records: tuple[Record, ...], write: Write) -> None:
        """Append records to a partition's log; ``write`` goes on when that is over."""
        if batch_bytes(records) > self._most_bytes:
            write.done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        self._last_token = token = self._last_token + 1
        self._waiting[token] = (partition, write)
        self._log.append(partition, records, token)

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        """An append is over."""
        assert 0 < token <= self._last_token, f"append {token} was never asked for"
        entry = self._waiting.pop(token, None)
        if entry is not None:  # else the partition was resigned meanwhile; whoever waited was told
            entry[1].done(error, base_offset)

    def abandon(self, partition: OffsetsPartition) -> None:
        """A partition is led here no more: how its appends end is not for us to say."""
        left = {token: write for token, (where, write) in self._waiting.items() if where is partition}
        for token, write in left.items():
            del self._waiting[token]
            write.abandoned()
