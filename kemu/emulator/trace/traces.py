"""The trace file: all events of a run, written once and read as a stream.

The payloads of the file's blocks (``emulator.trace.blocks``) are msgpack arrays, one per record, whose first item is
the kind of the record. A run begins with a block that holds only the ``Header``, and ends with an index and a
``Footer``, each in a block of its own. A file may hold many runs, as a part of a campaign does.

``Trace.records`` reads a whole run, and checks everything. ``Trace.within`` reads a part of a run, whose blocks are
checked against the index, and the index against the footer. Without an index, readers of a part read the whole run.

The digest is BLAKE2b-128 over all records between header and index. So the digest depends neither on the event loop,
which only the header names, nor on the division into blocks. A run without a file has the same digest.
"""

import hashlib
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, get_origin

import attrs
import msgpack
from attrs import Factory, asdict

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.facts import RunEnded, Seen, of_part, received, sent
from kemu.emulator.findings import Violation, expected_among
from kemu.emulator.trace.blocks import (
    FIRST_WITH_INDEX,
    HEAD_BYTES,
    TRACE_VERSION,
    TraceError,
    block_at,
    blocks_of,
    first_block,
    rows_of,
    version_of,
    write_block,
    write_magic,
)
from kemu.emulator.trace.index import (
    INDEX,
    TAIL_BYTES,
    Index,
    IndexBuilder,
    Tail,
    Window,
    digest_of,
    index_of,
    rows_about,
    tail_of,
)
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
CHECK_EVERY = 32
"""Number of steps between two checks of the size of the open block."""
MOST_EXTENTS = 8
"""Number of extents whose sent packets a reader of a part keeps."""

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
    """Source of the facts: "run", or "log" for facts that ``kemu import-log`` read, with a ``LogRecord`` for each step.
    A replay cannot repeat the facts of logs."""
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
        self._unchecked = CHECK_EVERY
        """Number of steps until the size of the open block is checked; 0: the next step begins a block."""
        self._packer = msgpack.Packer(use_bin_type=True, autoreset=False, buf_size=2 * BLOCK_BYTES)
        self._pack = self._packer.pack
        self._finished = False
        self._is_cut = False
        """Whether the open block must end before the next step."""
        self._offset = 0
        """Offset of the open block, from the header on."""
        if sink is not None:
            if new_file:
                write_magic(sink)
            self._write(msgpack.packb((HEADER, asdict(header) | {"vocabulary": header.vocabulary or vocabulary()})))
        self._index = IndexBuilder(self._offset)
        self._acted = self._index.acted

    def step(self, row: StepRow) -> None:
        """Write a step of a machine."""
        self.steps += 1
        if self._unchecked:
            self._unchecked -= 1
        else:
            self._begin_block_if_full(row)
        self._acted[row[2]] += 1
        self._pack(_STEP_HEAD + row)

    def packet(self, row: PacketRow) -> None:
        """Write the fate of a packet (``due_us`` -1: no arrival). A packet is counted at its first record."""
        if row[0] > self._last_packet:
            self._last_packet = row[0]
            self.messages += 1
        else:
            self._index.about(row[2], row[3])
        self._pack(_PACKET_HEAD + row)

    def fact(self, seq: int, at_us: int, fact: object) -> None:
        """Write a fact of the world."""
        self._index.fact(fact)
        self._pack((FACT, seq, at_us, to_row(fact)))

    def violation(self, violation: Violation) -> None:
        """Write a violation."""
        v = violation
        self._index.finding()
        self._pack((VIOLATION, v.checker, v.at_us, v.seq, v.entities, v.text, v.liveness, v.kind))

    def broken(self, row: BrokenRow) -> None:
        """Write a step that raised an exception."""
        self._index.finding()
        self._index.about(row[2])
        self._pack((BROKEN, *row))

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
        """Write index and footer, which are no part of the digest; return the run's digest."""
        assert not self._finished, "a run ends once"
        self._finished = True
        digest = self.digest()
        if self._sink is not None:
            index, index_at = self._index.payload(TRACE_VERSION), self._offset
            self._write(index)
            footer = Footer(verdict, self.steps, self.messages, virtual_us, digest, fired)
            self._write(footer_payload(footer, index, index_at, self._offset))
            self._sink.flush()
        return digest

    def _begin_block_if_full(self, row: StepRow) -> None:
        """Begin a block with a step, if the open block is full or was ended by ``flush``."""
        if self._is_cut or len(self._packer.getbuffer()) >= BLOCK_BYTES:
            self._end_block()
            if self._sink is not None:
                self._index.begin(self._offset, row[0], row[1], self._last_packet)
        self._unchecked = CHECK_EVERY
        self._is_cut = False

    def _end_block(self) -> None:
        payload = self._packer.bytes()
        self._unchecked = 0
        if payload:
            self._is_cut = True
            self._packer.reset()
            self._hash.update(payload)
            if self._sink is not None:
                self._index.add(payload)
            self._write(payload)

    def _write(self, payload: bytes) -> None:
        self._offset += HEAD_BYTES + len(payload)
        if self._sink is not None:
            write_block(self._sink, payload)


class End(NamedTuple):
    """The end of a run with an index, as found from the end of the file. The run's records are unchecked."""

    footer: Footer
    tail: Tail


class Survey(NamedTuple):
    """The actors of a run with the number of their steps, and the run's violations and steps that raised."""

    steps_of: Mapping[str, int]
    findings: tuple[Violation | Broken, ...]


class Trace:
    """A run in a file. Only the header is in memory; every ``records()`` reads the file."""

    def __init__(self, path: Path, header: Header, start: int, offset: int, end: End | None = None) -> None:
        self.path = path
        self.header = header
        self.start = start
        """Offset of the header's block."""
        self.offset = offset
        """Offset of the block after the header."""
        self.at = offset
        """Offset of the block that was read last."""
        self._known_end = end
        self._sends: dict[int, dict[int, tuple[Row, Row]]] = {}
        """Extent -> packet -> (unchecked row of the step that sent the packet, row of the ``Send``)."""

    def records(self) -> Iterator[Record]:
        """Yield all records after the header in order; the last one is a ``Footer`` or a ``Torn``.

        The digest, the counts and the verdict of a footer are those of the records, and so is the index.

        Raises:
            TraceError: a damaged block before the tail, an invalid record, or a footer or an index that contradicts the
            records.
        """
        end = self._end()
        tally = _Tally(self.header, self.offset - self.start)
        index: tuple[int, bytes] | None = None
        for offset, _, payload in blocks_of(self.path, self.offset):
            self.at = offset
            if isinstance(payload, str) or payload[1:2] == bytes((HEADER,)):
                break
            if payload[1:2] == bytes((INDEX,)):
                if index is not None:
                    raise self.damaged("a second index")
                index = offset, payload
                continue
            for number, record in enumerate(map(self._record, rows_of(self.path, offset, payload))):
                if not isinstance(record, Footer):
                    if index is not None:
                        raise self.damaged("records after the index")
                    if number == 0:
                        tally.block(offset - self.start, payload, record)
                    tally.add(record)
                    yield record
                elif isinstance(end, Torn) or offset != end[0]:
                    raise self.damaged("a footer among other records")
                elif wrong := tally.contradiction(record):
                    raise self.damaged(wrong)
                else:
                    self._check_index(index, tally.index, payload, record)
                    yield record
                    return
        assert isinstance(end, Torn)
        yield end

    def _check_index(self, index: tuple[int, bytes] | None, made: IndexBuilder, payload: bytes, footer: Footer) -> None:
        """Compare the index with the records, and the footer's tail with the index."""
        version = version_of(self.path)
        if index is None:
            if version >= FIRST_WITH_INDEX:
                raise self.damaged("there is no index before the footer")
            return
        at, said = index
        if payload != footer_payload(footer, said, at - self.start, self.at - self.start):
            raise self.damaged(f"the footer does not name the index at byte {at}")
        if said != made.payload(version):
            self.at = at
            raise self.damaged("the index contradicts the records")

    # --- parts -----------------------------------------------------------------------------------------------------

    @cached_property
    def index(self) -> Index | None:
        """The run's index; None if it is absent or damaged, so that all records must be read."""
        if self._known_end is None:
            return None
        tail = self._known_end.tail
        with self.path.open("rb") as file:
            payload = block_at(file, self.start + tail.index_at)
        if isinstance(payload, str) or len(payload) != tail.index_bytes or digest_of(payload) != tail.digest:
            return None
        return index_of(payload, tail.index_at)

    def within(self, windows: Sequence[Window], actors: Collection[str] = ()) -> Iterator[Record]:
        """Yield the records of at least these windows in order, and the end of the run.

        With an index, only extents with such records are read; their checksums must be those of the index. Without an
        index, the records are all of ``records``.

        Args:
            windows: the parts of the run.
            actors: with an index, the steps of other actors or hosts are left out, with the first records of the
                packets that they sent; empty for all actors.

        Raises:
            TraceError: as for ``records``, in the part that is read.
        """
        if self.index is None or self._known_end is None:
            yield from self.records()
            return
        wanted = {number for window in windows for number in self.index.extents(window)}
        if actors:
            wanted &= {*self.index.extents_about(actors)}
        for number in sorted(wanted):
            yield from self._extent(self.index, number, actors)
        yield self._known_end.footer

    def survey(self) -> Survey:
        """Return the actors and the findings of the run, from the index or else from all records.

        Raises:
            TraceError: as for ``records``.
        """
        if self.index is not None:
            index = self.index
            read = (record for number in index.findings for record in self._extent(index, number))
            return Survey(index.steps_of, tuple(each for each in read if isinstance(each, Violation | Broken)))
        made = IndexBuilder(0)
        found: list[Violation | Broken] = []
        for record in self.records():
            if isinstance(record, Step):
                made.acted[record.actor] += 1
            elif isinstance(record, WorldFact):
                made.fact(record.fact)
            elif isinstance(record, Violation | Broken):
                found.append(record)
        return Survey(made.steps_of(), tuple(found))

    def has_step(self, step: int) -> bool:
        """Whether the run has a step with this number.

        Raises:
            TraceError: as for ``within``.
        """
        records = self.within([Window(step, step)])
        return any(isinstance(record, Step | Broken) and record.seq == step for record in records)

    def sent(self, packet: int) -> tuple[str, Row] | None:
        """Find the step that sent a packet with the index: (actor, row of the ``Send``); None if there is none."""
        if self.index is None:
            return None
        number = self.index.extent_of_packet(packet)
        if number not in self._sends:
            if len(self._sends) >= MOST_EXTENTS:
                del self._sends[next(iter(self._sends))]
            at, rows = self.at, self._extent_rows(self.index, number)
            self._sends[number] = {
                effect[1]: (row, effect)
                for row in rows
                if row[0] == STEP and type(row[-1]) is tuple
                for effect in row[-1]
                if type(effect) is tuple and effect[:1] == (SEND,)
            }
            self.at = at
        row, effect = self._sends[number].get(packet, ((), ()))
        return (self._step(row).actor, effect) if row else None

    def _step(self, row: Row) -> Step:
        step = self._record(row)
        assert isinstance(step, Step), "checked by the caller"
        return step

    def _extent(self, index: Index, number: int, actors: Collection[str] = ()) -> Iterator[Record]:
        """Yield the records of an extent, of these actors or of all, after a comparison of its bytes with the index."""
        rows = self._extent_rows(index, number)
        return map(self._record, rows_about(rows, actors, index.extent(number).packet) if actors else rows)

    def _extent_rows(self, index: Index, number: int) -> Iterator[Row]:
        """Yield the rows of an extent, after a comparison of its bytes with the index."""
        extent, end = index.extent(number), index.extent(number + 1).offset
        crc = 0
        for payload in self._blocks(extent.offset, end):
            crc = zlib.crc32(payload, crc)
        if crc != extent.crc:
            self.at = self.start + extent.offset
            raise self.damaged("the index has another checksum for this block")
        for payload in self._blocks(extent.offset, end):
            yield from rows_of(self.path, self.at, payload)

    def _blocks(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the payloads of the blocks between two offsets from the header on."""
        for offset, _, payload in blocks_of(self.path, self.start + first, self.start + end):
            self.at = offset
            if isinstance(payload, str):
                raise self.damaged(payload)
            yield payload

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
            if payload[1:2] == bytes((INDEX,)):
                offset = after
                continue
            if payload[1:2] == bytes((FOOTER,)):
                first, *others = map(self._record, rows_of(self.path, offset, payload))
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


def footer_payload(footer: Footer, index: bytes, index_at: int, footer_at: int) -> bytes:
    """Return the payload of a footer with a tail. Offsets count from the header; ``index``: payload of the index."""
    packed: bytes = msgpack.packb((FOOTER, *footer, bytes(TAIL_BYTES)))
    tail = Tail(len(packed), footer_at, index_at, len(index), digest_of(index))
    return packed[:-TAIL_BYTES] + tail.packed()


class _Tally:
    """Counts the records of a run, to compare them with its footer, and makes the run's index."""

    def __init__(self, header: Header, offset: int) -> None:
        self.index = IndexBuilder(offset)
        self._expect = header.scenario.get("expect", ())
        self._of_logs = header.source == "log"
        self._steps = self._messages = self._last_packet = 0
        self._ended_us: int | None = None
        self._violations: list[Violation] = []
        self._broke = self._is_begun = False

    def block(self, offset: int, payload: bytes, first: Record) -> None:
        """Begin a block. Every block that begins with a step, but the first of the run, begins an extent."""
        if self._is_begun and isinstance(first, Step):
            self.index.begin(offset, first.seq, first.at_us, self._last_packet)
        self._is_begun = True
        self.index.add(payload)

    def add(self, record: Record) -> None:
        """Count a record."""
        if isinstance(record, Step):
            self._steps += 1
            self.index.acted[record.actor] += 1
        elif isinstance(record, WorldFact):
            self.index.fact(record.fact)
            self._ended_us = record.at_us if isinstance(record.fact, RunEnded) else self._ended_us
        elif isinstance(record, PacketRecord):
            if record.packet_id > self._last_packet:
                self._last_packet = record.packet_id
                self._messages += 1
            else:
                self.index.about(record.sender, record.to)
        elif isinstance(record, Violation):
            self._violations.append(record)
            self.index.finding()
        elif isinstance(record, Broken):
            self._broke = True
            self.index.finding()
            self.index.about(record.actor)

    def contradiction(self, footer: Footer) -> str:
        """Return the first difference between the footer and the records; "" if there is none."""
        counts = (("steps", footer.steps, self._steps), ("messages", footer.messages, self._messages))
        for what, said, found in counts:
            if said != found:
                return f"the footer has {said} {what}, the records have {found}"
        if self._ended_us not in (None, footer.virtual_us):
            return f"the footer ends after {footer.virtual_us} us, the records after {self._ended_us} us"
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
        if self._of_logs and not kinds:
            return ("holds", "unjudged", "broken")
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
    """Yield all runs of a trace file in order. A torn tail belongs to the last run.

    Raises:
        TraceError: as for ``read_trace``, or bytes after the last run are no run.
        OSError: the file cannot be read.
    """
    path = Path(path)
    start = first_block(path)
    ends = _ends(path, start)
    if ends:
        for at, end in ends:
            for offset, after, payload in blocks_of(path, at, at + 1):
                assert isinstance(payload, bytes), "what was read once can be read again"
                yield Trace(path, _header(path, offset, payload), offset, after, end)
        return
    is_between = True
    for offset, after, payload in blocks_of(path, start):
        if isinstance(payload, str):
            if is_between:
                where = "before the first run's header" if offset == start else "after the end of a run"
                raise TraceError(f"{path}: damaged at byte {offset}, {where}: {payload}")
            return
        is_between = payload[1:2] == bytes((FOOTER,))
        if payload[1:2] == bytes((HEADER,)):
            yield Trace(path, _header(path, offset, payload), offset, after)
        elif offset == start:
            raise TraceError(f"{path}: byte {offset}: a run must begin with its header")


def _ends(path: Path, first: int) -> list[tuple[int, End]]:
    """Return (offset of the header, end) of each run, found from the end of the file.

    Empty if not every run has a header, a footer and an index: the blocks must then be read one by one.
    """
    ends: list[tuple[int, End]] = []
    with path.open("rb") as file:
        after = os.fstat(file.fileno()).st_size
        while after > first:
            file.seek(max(first, after - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
            if len(data) < TAIL_BYTES:
                return []
            tail = tail_of(data)
            at = after - HEAD_BYTES - tail.footer_bytes
            start = at - tail.footer_at
            if not first <= start < at:
                return []
            footer, header = block_at(file, at), block_at(file, start)
            if not isinstance(footer, bytes) or len(footer) != tail.footer_bytes:
                return []
            if not isinstance(header, bytes) or header[1:2] != bytes((HEADER,)):
                return []
            try:
                (record,) = map(record_of, rows_of(path, at, footer))
            except ValueError:
                return []
            if not isinstance(record, Footer):
                return []
            ends.append((start, End(record, tail)))
            after = start
    return ends[::-1]


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
    if row[0] == FOOTER and types[6:] == (bytes,):
        fields = fields[:6]
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
