"""The trace file: all events of a run, written once and read as a stream.

The payloads of the file's blocks (``emulator.trace.blocks``) are msgpack arrays, one per record, whose first item is
the kind of the record. A run begins with a block that holds only the ``Header``, and ends with a ``Footer``. A file may
hold many runs, as a part of a campaign does.

The digest is BLAKE2b-128 over all records between header and footer. So the digest depends neither on the event loop,
which only the header names, nor on the division into blocks. A run without a file has the same digest.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, get_origin

import attrs
import msgpack
from attrs import Factory, asdict

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.facts import Seen, of_part, received, sent
from kemu.emulator.findings import Violation, expected_among
from kemu.emulator.trace.blocks import TRACE_VERSION, TraceError, blocks_of, first_block, write_block, write_magic
from kemu.emulator.trace.rows import (
    HANGUP,
    LINK_DOWN,
    NOTE,
    RECEIVED,
    SEND,
    Row,
    check_effect,
    check_event,
    noted_by,
)
from kemu.protocol.frozen import frozen
from kemu.protocol.names import part_on, path_and_peer
from kemu.protocol.wire.codec import HEADER_BYTES, unseal
from kemu.protocol.wire.schema import SPECS
from kemu.protocol.wire.values import VALUES, from_row, to_row

BLOCK_BYTES = 64 * 1024
CHECK_EVERY = 64
"""Number of records between two checks of the size of the open block."""

HEADER, STEP, PACKET, FACT, VIOLATION, BROKEN, FOOTER = range(7)
_STEP_HEAD, _PACKET_HEAD = (STEP,), (PACKET,)


@frozen
class Header:
    """The data needed to repeat a run. ``scenario`` and ``plan`` are plain data as in JSON."""

    scenario: dict[str, Any]
    plan: list[Any]
    seed: int
    profile: str
    loop: str
    package: str
    """The version of kemu that wrote the trace."""
    live: bool = False
    """Whether the run followed the wall clock. A live run can be replayed but not run again."""
    listeners: list[str] = Factory(list)
    """Members with a rebalance listener of the caller. A replay needs the same listeners."""
    applications: list[str] = Factory(list)
    """Members with an application of the caller. A replay needs the same applications."""
    steered: bool = False
    """Whether the caller's ``Choices`` replaced the draws from the seed. The trace of such a run can be read but not
    repeated."""
    driven: bool = False
    """Whether code outside of the plan, such as a test, acted on the run. Such a run can be replayed but not run
    again."""
    source: str = "run"
    """"run", or "log" for facts that ``kemu import-log`` read: each step is a ``LogRecord``. The facts of logs cannot be
    repeated."""
    vocabulary: str = ""
    """``vocabulary()`` of the kemu that wrote the trace; "" in old traces."""
    trace_version: int = TRACE_VERSION


class Step(NamedTuple):
    """A step of a machine. ``local_us`` is the time of the host's clock; ``emulator.trace.rows`` explains rows."""

    seq: int
    at_us: int
    actor: str
    life: int
    local_us: int
    event: Row
    effects: tuple[Row, ...]


class PacketRecord(NamedTuple):
    """The fate of a packet ("sent", "lost", ...). ``due_us`` is the time of arrival, or -1."""

    packet_id: int
    at_us: int
    sender: str
    to: str
    connection: int
    api: str
    size: int
    verdict: str
    due_us: int


class WorldFact(NamedTuple):
    """A fact of the world (``emulator.facts``)."""

    seq: int
    at_us: int
    fact: Any


class Broken(NamedTuple):
    """A step that raised an exception and therefore has no effects."""

    seq: int
    at_us: int
    actor: str
    life: int
    local_us: int
    event: Row
    text: str


class Footer(NamedTuple):
    """The end of a run. ``fired``: number of effects of each entry of the plan; None in old traces."""

    verdict: str
    steps: int
    messages: int
    virtual_us: int
    digest: str
    fired: tuple[int, ...] | None = None


class Torn(NamedTuple):
    """The end of a torn trace, in place of a footer. The last ``unread_bytes`` of the file could not be read."""

    offset: int
    unread_bytes: int
    why: str

    @property
    def words(self) -> str:
        """Return the place and the reason."""
        return f"torn at byte {self.offset}: {self.why} ({self.unread_bytes} bytes unread)"


StepRow: TypeAlias = tuple[int, int, str, int, int, Row, Sequence[Row]]
"""Fields of a ``Step``."""
PacketRow: TypeAlias = tuple[int, int, str, str, int, str, int, str, int]
"""Fields of a ``PacketRecord``."""
BrokenRow: TypeAlias = tuple[int, int, str, int, int, Row, str]
"""Fields of a ``Broken``."""
Record: TypeAlias = Header | Step | PacketRecord | WorldFact | Violation | Broken | Footer | Torn


class TraceWriter:
    """Writes one run and computes its digest; without a sink it only computes the digest."""

    def __init__(self, sink: BinaryIO | None, header: Header, *, new_file: bool = True) -> None:
        """Begin a run. With ``new_file`` False, the run is appended to a file with other runs."""
        self.steps = 0
        self.messages = 0
        self._last_packet = 0
        self._sink = sink
        self._hash = hashlib.blake2b(digest_size=16)
        self._records = 0
        self._packer = msgpack.Packer(use_bin_type=True, autoreset=False, buf_size=2 * BLOCK_BYTES)
        self._pack = self._packer.pack
        self._finished = False
        if sink is not None:
            if new_file:
                write_magic(sink)
            fields = asdict(header) | {"vocabulary": header.vocabulary or vocabulary()}
            write_block(sink, msgpack.packb((HEADER, fields)))

    def step(self, row: StepRow) -> None:
        """Write a step of a machine."""
        self.steps += 1
        self._pack(_STEP_HEAD + row)
        self._records = records = self._records + 1
        if records >= CHECK_EVERY:
            self._end_block_if_full()

    def packet(self, row: PacketRow) -> None:
        """Write the fate of a packet (``due_us`` -1: no arrival). A packet is counted at its first record."""
        if row[0] > self._last_packet:
            self._last_packet = row[0]
            self.messages += 1
        self._pack(_PACKET_HEAD + row)
        self._records = records = self._records + 1
        if records >= CHECK_EVERY:
            self._end_block_if_full()

    def fact(self, seq: int, at_us: int, fact: object) -> None:
        """Write a fact of the world."""
        self._pack((FACT, seq, at_us, to_row(fact)))
        self._records += 1

    def violation(self, violation: Violation) -> None:
        """Write a violation."""
        v = violation
        self._pack((VIOLATION, v.checker, v.at_us, v.seq, v.entities, v.text, v.liveness, v.kind))
        self._records += 1

    def broken(self, row: BrokenRow) -> None:
        """Write a step that raised an exception."""
        self._pack((BROKEN, *row))
        self._records += 1

    def digest(self) -> str:
        """Return the digest of all records so far, as 32 hexadecimal digits."""
        self._end_block()
        return self._hash.copy().hexdigest()

    def flush(self) -> None:
        """Write the open block to the sink."""
        self._end_block()
        if self._sink is not None:
            self._sink.flush()

    def finish(self, verdict: str, virtual_us: int, fired: tuple[int, ...] | None = None) -> str:
        """Write the footer, which is no part of the digest; return the run's digest."""
        assert not self._finished, "a run ends once"
        self._finished = True
        digest = self.digest()
        if self._sink is not None:
            footer = Footer(verdict, self.steps, self.messages, virtual_us, digest, fired)
            write_block(self._sink, msgpack.packb((FOOTER, *footer)))
            self._sink.flush()
        return digest

    def _end_block_if_full(self) -> None:
        if len(self._packer.getbuffer()) >= BLOCK_BYTES:
            self._end_block()
        else:
            self._records = 0

    def _end_block(self) -> None:
        payload = self._packer.bytes()
        self._records = 0
        if payload:
            self._packer.reset()
            self._hash.update(payload)
            if self._sink is not None:
                write_block(self._sink, payload)


class Trace:
    """A run in a file. Only the header is in memory; every ``records()`` reads the file."""

    def __init__(self, path: Path, header: Header, offset: int) -> None:
        self.path = path
        self.header = header
        self.offset = offset
        """Offset of the block after the header."""
        self.at = offset
        """Offset of the block that ``records`` has read last."""

    def records(self) -> Iterator[Record]:
        """Yield all records after the header in order; the last one is a ``Footer`` or a ``Torn``.

        The digest, the counts and the verdict of a footer are those of the records.

        Raises:
            TraceError: a damaged block before the tail, an invalid record, or a footer that contradicts the records.
        """
        end = self._end()
        tally = _Tally(self.header)
        for offset, _, payload in blocks_of(self.path, self.offset):
            self.at = offset
            if isinstance(payload, str) or payload[1:2] == bytes((HEADER,)):
                break
            for record in map(self._record, _rows(self.path, offset, payload)):
                if not isinstance(record, Footer):
                    tally.add(record)
                    yield record
                elif isinstance(end, Torn) or offset != end[0]:
                    raise self.damaged("a footer among other records")
                elif wrong := tally.contradiction(record):
                    raise self.damaged(wrong)
                else:
                    yield record
                    return
        assert isinstance(end, Torn)
        yield end

    def footer(self) -> Footer:
        """Return the footer, after a check of the digest.

        Raises:
            TraceError: the trace is torn or damaged.
        """
        end = self._end()
        if isinstance(end, Torn):
            raise TraceError(f"{self.path}: {end.words}")
        return end[1]

    def damaged(self, why: str) -> TraceError:
        """Return the error for the block that was read last."""
        return TraceError(f"{self.path}: block at byte {self.at}: {why}")

    @contextmanager
    def interpreted(self) -> Iterator[None]:
        """Report an error of the code in the block as a trace that contradicts itself.

        Raises:
            TraceError: names the block that ``records`` has read last.
        """
        try:
            yield
        except TraceError as error:
            if str(self.path) in str(error):
                raise
            raise TraceError(f"{self.path}: {error}") from error
        except OSError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}".rstrip(": ").splitlines()[0]
            raise self._unreadable(f"the records contradict each other: {said:.200}") from error

    @property
    def is_of_this_vocabulary(self) -> bool:
        """Whether a kemu with the same messages, notes, facts and commands wrote the trace."""
        return self.header.vocabulary == vocabulary()

    def _unreadable(self, why: str) -> TraceError:
        """Return the error for records that this version cannot read."""
        if not self.is_of_this_vocabulary:
            why += f"; another version of kemu ({self.header.package}) wrote this trace: read it with that version"
        return self.damaged(why)

    def _end(self) -> "tuple[int, Footer] | Torn":
        """Return the footer and the offset of its block, after a comparison of the digests."""
        digest = hashlib.blake2b(digest_size=16)
        offset = self.offset
        for offset, after, payload in blocks_of(self.path, self.offset):
            self.at = offset
            if isinstance(payload, str):
                return Torn(offset, os.path.getsize(self.path) - offset, payload)
            if payload[1:2] == bytes((HEADER,)):
                break
            if payload[1:2] == bytes((FOOTER,)):
                first, *others = map(self._record, _rows(self.path, offset, payload))
                if others or not isinstance(first, Footer):
                    raise self.damaged("a footer among other records")
                if first.digest != digest.hexdigest():
                    raise self.damaged(
                        f"the footer has digest {first.digest}, the records have {digest.hexdigest()}: a block is"
                        " missing, added or changed"
                    )
                return offset, first
            digest.update(payload)
            offset = after
        return Torn(offset, 0, "the run has no footer")

    def _record(self, row: Row) -> Record:
        try:
            return record_of(row)
        except (TypeError, ValueError) as error:
            raise self._unreadable(str(error)) from None


class _Tally:
    """Counts the records of a run, to compare them with its footer."""

    def __init__(self, header: Header) -> None:
        self._expect = header.scenario.get("expect", ())
        self._steps = self._messages = self._last_packet = self._at_us = self._seq = 0
        self._violations: list[Violation] = []
        self._broke = False

    def add(self, record: Record) -> None:
        """Count a record."""
        if isinstance(record, Step):
            self._steps += 1
        elif isinstance(record, PacketRecord):
            if record.packet_id > self._last_packet:
                self._last_packet = record.packet_id
                self._messages += 1
        elif isinstance(record, Violation):
            self._violations.append(record)
        elif isinstance(record, Broken):
            self._broke = True

    def contradiction(self, footer: Footer) -> str:
        """Return the first difference between the footer and the records; "" if there is none."""
        for what, said, found in (
            ("steps", footer.steps, self._steps),
            ("messages", footer.messages, self._messages),
        ):
            if said != found:
                return f"the footer has {said} {what}, the records have {found}"
        verdicts = self._verdicts()
        if verdicts and footer.verdict not in verdicts:
            return f'the footer has the verdict "{footer.verdict}", the records have "{verdicts[0]}"'
        return ""

    def _verdicts(self) -> tuple[str, ...]:
        """The possible verdicts; empty if this version cannot read the scenario's expectations.

        A checker that raises breaks a run without a record.
        """
        if self._broke:
            return ("broken", "livelock")
        left = list(self._violations)
        try:
            for each in self._expect:
                wanted = {"checker": each} if isinstance(each, str) else {**each}
                wanted.pop("may", None)
                covered = expected_among(self._violations, **wanted)
                left = [violation for violation in left if violation not in covered]
        except TypeError:
            return ()
        kinds = {each.liveness for each in left}
        return ("holds" if not kinds else "violated" if False in kinds else "liveness", "broken")


@cache
def vocabulary() -> str:
    """Return a digest of the names and fields of all messages, notes, facts and commands, 16 hexadecimal digits."""
    known = [(name, getattr(cls, "__slots__", ())) for name, cls in VALUES.items()]
    known += [
        (f"{spec.name} {spec.kind.name} {spec.versions}", getattr(spec.cls, "__slots__", ())) for spec in SPECS.values()
    ]
    return hashlib.blake2b(repr(sorted(known)).encode(), digest_size=8).hexdigest()


def read_trace(path: str | Path) -> Trace:
    """Return the first run of a trace file.

    Raises:
        TraceError: the file is no trace, has another format version, or is damaged at its start.
        OSError: the file cannot be read.
    """
    for trace in read_runs(path):
        return trace
    raise TraceError(f"{path}: the file holds no run")


def read_runs(path: str | Path) -> Iterator[Trace]:
    """Yield all runs of a trace file in order, up to a torn tail. The exceptions are those of ``read_trace``."""
    path = Path(path)
    start = first_block(path)
    for offset, after, payload in blocks_of(path, start):
        if isinstance(payload, str):
            if offset == start:
                raise TraceError(f"{path}: damaged at byte {offset}, before the first run's header: {payload}")
            return
        if payload[1:2] == bytes((HEADER,)):
            yield Trace(path, _header(path, offset, payload), after)
        elif offset == start:
            raise TraceError(f"{path}: byte {offset}: a run must begin with its header")


def facts_of(trace: Trace, wants: Callable[[type], bool] | None = None) -> Iterator[Seen]:
    """Yield the notes and facts of a run in order, as checkers and metrics saw them live.

    Args:
        wants: whether messages of a type are wanted (``Judging.wants``); wanted messages are decoded.
    """
    return facts_of_records(trace.records(), wants)


def facts_of_records(records: Iterable[Record], wants: Callable[[type], bool] | None = None) -> Iterator[Seen]:
    """Yield the facts of these records, like ``facts_of``."""
    wire = None if wants is None else _Wire(wants)
    for record in records:
        if isinstance(record, Step):
            seq, at_us, actor, life, _, event, effects = record
            if wire is not None and (arrived := wire.arrived(actor, event)) is not None:
                yield Seen(seq, at_us, arrived[0], life, arrived[1])
            for row in effects:
                if row[0] == NOTE:
                    yield Seen(seq, at_us, noted_by(actor, row), life, from_row(row[1]))
                elif wire is not None and (left := wire.left(actor, row)) is not None:
                    yield Seen(seq, at_us, left[0], life, left[1])
        elif isinstance(record, WorldFact):
            yield Seen(record.seq, record.at_us, "", 0, record.fact)
        elif wire is not None and isinstance(record, PacketRecord):
            wire.routed(record)


class _Wire:
    """Decodes the wanted messages of a run to events and effects, each with its actor."""

    def __init__(self, wants: Callable[[type], bool]) -> None:
        self._wants = wants
        self._watched: dict[bytes, tuple[bool, bool]] = {}
        """First bytes of a message -> (whether sent messages are wanted, whether received messages are wanted)."""
        self._sent: dict[int, tuple[Row, str]] = {}
        """Packet in flight -> (row of its ``Send``, sender)."""
        self._connections: dict[int, int] = {}

    def _is_watched(self, data: bytes) -> tuple[bool, bool]:
        head = data[:HEADER_BYTES]
        watched = self._watched.get(head)
        if watched is None:
            message = type(unseal(data)[0])
            watched = self._watched[head] = self._wants(sent(message)), self._wants(received(message))
        return watched

    def left(self, actor: str, row: Row) -> tuple[str, Send | Hangup] | None:
        if row[0] == HANGUP and self._wants(Hangup):
            return of_part(actor, Hangup(row[1]))
        if row[0] != SEND:
            return None
        _, packet_id, to, connection, request_id, data = row
        is_sent, is_received = self._is_watched(data)
        if is_received:
            self._sent[packet_id] = row, part_on(actor, path_and_peer(to)[0])
            self._connections[packet_id] = connection
        if not is_sent:
            return None
        message, version = unseal(data)
        return of_part(actor, Send(to, connection, request_id, version, message))

    def routed(self, record: PacketRecord) -> None:
        """Note the fate of a packet."""
        if record.packet_id in self._sent:
            if record.verdict in ("sent", "queued", "held", "released"):
                self._connections[record.packet_id] = record.connection
            else:
                del self._sent[record.packet_id], self._connections[record.packet_id]

    def arrived(self, actor: str, row: Row) -> tuple[str, Received | LinkDown] | None:
        if row[0] == LINK_DOWN and self._wants(LinkDown):
            return of_part(actor, LinkDown(row[1]))
        if row[0] != RECEIVED or row[1] not in self._sent:
            return None
        (_, packet_id, to, replies, request_id, data), sender = self._sent.pop(row[1])
        message, version = unseal(data)
        by = to if replies else actor
        return by, Received(sender, self._connections.pop(packet_id), request_id, version, message)


# --- reading -------------------------------------------------------------------------------------------------------


def _rows(path: Path, offset: int, payload: bytes) -> Iterator[Row]:
    unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(payload))
    unpacker.feed(payload)
    try:
        for row in unpacker:
            if type(row) is not tuple or not row:
                raise TraceError(f"{path}: block at byte {offset}: {row!r:.40} is no record")
            yield row
    except (ValueError, msgpack.UnpackException) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path}: block at byte {offset}: not msgpack: {error}") from None
    if unpacker.tell() != len(payload):
        raise TraceError(f"{path}: block at byte {offset}: it ends inside a record")


_STEP_FIELDS = (int, int, str, int, int, tuple, tuple)
_PACKET_FIELDS = (int, int, str, str, int, str, int, str, int)
_FACT_FIELDS = (int, int, tuple)
_VIOLATION_FIELDS = (str, int, int, tuple, str, bool, str)
_BROKEN_FIELDS = (int, int, str, int, int, tuple, str)
_FOOTER_FIELDS = (str, int, int, int, str)


def record_of(row: Row) -> Record:
    """Return the record of a row, with the types of all its fields checked.

    Raises:
        ValueError: the row is invalid; the text says how.
    """
    fields = row[1:]
    types = tuple(map(type, fields))
    match row[0]:
        case 1 if types == _STEP_FIELDS:
            check_event(fields[5])
            for effect in fields[6]:
                check_effect(effect)
            return Step(*fields)
        case 2 if types == _PACKET_FIELDS:
            return PacketRecord(*fields)
        case 3 if types == _FACT_FIELDS:
            return WorldFact(fields[0], fields[1], from_row(fields[2]))
        case 4 if types == _VIOLATION_FIELDS and all(type(each) is str for each in fields[3]):
            return Violation(*fields)
        case 5 if types == _BROKEN_FIELDS:
            check_event(fields[5])
            return Broken(*fields)
        case 6 if types[:5] == _FOOTER_FIELDS and len(fields) < 7:
            fired = fields[5] if len(fields) > 5 else None
            if fired is None or (type(fired) is tuple and all(type(each) is int for each in fired)):
                return Footer(*fields)
    kind = row[0] if type(row[0]) is int else -1
    what = ("header", "step", "packet", "fact", "violation", "broken step", "footer")[kind] if 0 <= kind <= 6 else ""
    raise ValueError(f"{row!r:.80} is no {what}" if what else f"unknown kind of record {row[0]!r:.40}")


_RENAMED = {"drive": "loop"}
"""Former name of a header's field -> present name."""


def _header(path: Path, offset: int, payload: bytes) -> Header:
    """Return the header, with lists in place of tuples."""
    try:
        kind, fields = msgpack.unpackb(payload, strict_map_key=False)
        assert kind == HEADER
        fields = {_RENAMED.get(name, name): value for name, value in fields.items()}
        header = Header(**fields)
    except (TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"{path}: block at byte {offset}: no header that this kemu reads: {error}") from None
    for field in attrs.fields(Header):
        wanted: Any = get_origin(field.type) or field.type
        given = getattr(header, field.name)
        if type(given) is not wanted:
            said = f"{field.name} must be of type {wanted.__name__}, not {type(given).__name__}"
            raise TraceError(f"{path}: block at byte {offset}: no header: {said}")
    return header
