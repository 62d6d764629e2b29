"""The messages of a run for its report: sender, receiver, API, error, latency and fate."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin

import msgpack

from kemu.emulator.trace.rows import SEND
from kemu.emulator.trace.traces import BrokenRow, PacketRow, StepRow
from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.codec import HEADER_BYTES, unseal
from kemu.protocol.wire.schema import SPECS, STRUCTS
from kemu.tools.report.frames import Coded, Frame, frame_of

KINDS = ("all", "control", "errors", "none")
"""The messages in a report."""
ROUTINE = ("Fetch", "Produce", "Heartbeat", "Metadata")
"""APIs that are no control messages, unless there was an error."""
MOST_MESSAGES = 1_000_000
"""A report with more messages has only control messages, and the number of all by actor and ``BUCKET_US``."""
BUCKET_US = 10_000
ARRIVES = ("sent", "released", "queued")
"""Fates of packets that arrive."""
_SHORT_BYTES = 64
_MOST_KNOWN = 10_000
_MOST_NEW = 50_000
_KIND_AT = 2
"""Byte of a sealed message that is 1 for a reply (``protocol.wire.codec``)."""


Paths: TypeAlias = "tuple[tuple[int, bool, Paths | None, int], ...]"
"""Place of a field with errors, whether the field holds several rows, the paths inside of these rows (None: the field
is an error), and the only place of errors inside of these rows (-1: there are several)."""


@cache
def paths_to_errors(cls: type, version: int) -> Paths:
    """The places of errors in the row of a message of this class and version."""
    fields = SPECS[cls].fields if cls in SPECS else STRUCTS[cls]
    found: list[tuple[int, bool, Paths | None, int]] = []
    for place, field in enumerate(each for each in fields if each.since <= version <= each.until):
        if field.annotation is ErrorCode:
            found.append((place, False, None, -1))
        for part, is_many in _structs_in(field.annotation):
            inside = paths_to_errors(part, version)
            if inside:
                only = inside[0][0] if len(inside) == 1 and inside[0][2] is None else -1
                found.append((place, is_many, inside, only))
    return tuple(found)


def _structs_in(annotation: Any) -> Iterator[tuple[type, bool]]:
    """The structs that a field holds, and whether it holds several of them."""
    if isinstance(annotation, type) and annotation in STRUCTS:
        yield annotation, False
    for part in get_args(annotation):
        for struct, _ in _structs_in(part):
            yield struct, get_origin(annotation) is tuple or part is not struct


def error_in(row: Sequence[Any], paths: Paths) -> int:
    """The first error in a row; 0 if there is none."""
    for place, is_many, inside, only in paths:
        item = row[place]
        if inside is None:
            if item:
                return int(item)
        elif item:
            for each in item if is_many else (item,):
                error = each[only] if only >= 0 else error_in(each, inside)
                if error:
                    return int(error)
    return 0


class _Names(dict[str, int]):
    """Texts as numbers, in the order of their first use."""

    def __missing__(self, name: str) -> int:
        self[name] = code = len(self)
        return code


class Messages:
    """A recorder of a run (``emulator.trace.recorder``) that keeps the messages, and not their contents."""

    def __init__(self, kind: str = "all", most: int = MOST_MESSAGES) -> None:
        assert kind in KINDS, kind
        self._kind = kind
        self._most = most
        self._new: list[PacketRow] = []
        self.packet: Callable[[PacketRow], None] = self._new.append
        """Takes the fate of a packet; a later one replaces it."""
        self._packets, self._at, self._took = array("q"), array("q"), array("q")
        self._from, self._to, self._api, self._verdict, self._size = (array("i") for _ in range(5))
        self._actors, self._apis, self._verdicts = _Names(), _Names(), _Names()
        self._is_reply = array("b")
        self._replies: set[int] = set()
        """Packets in ``_new`` that are replies."""
        self._errors: dict[int, str] = {}
        """Packet -> the error that it reports."""
        self._known: dict[bytes, str] = {}
        """Short replies -> the errors that they report."""
        self._paths: dict[bytes, Paths] = {}
        """First bytes of a message -> the places of its errors."""

    # --- recording ---------------------------------------------------------------------------------------------

    def step(self, row: StepRow) -> None:
        """Find the errors in the replies of a step."""
        for effect in row[6]:
            if effect[0] == SEND and effect[5][_KIND_AT]:
                self._replies.add(effect[1])
                error = self._error_of(effect[5])
                if error:
                    self._errors[effect[1]] = error
        if len(self._new) > _MOST_NEW:
            self._take()

    def _take(self) -> None:
        """Move new rows into the columns."""
        last = self._packets[-1] if self._packets else 0
        new: list[PacketRow] = []
        later: list[PacketRow] = []
        for row in self._new:
            if row[0] > last:
                last = row[0]
                new.append(row)
            else:
                later.append(row)
        self._packets.extend([row[0] for row in new])
        self._at.extend([row[1] for row in new])
        self._took.extend([_took(row[1], row[8]) for row in new])
        for column, names, place in (
            (self._from, self._actors, 2), (self._to, self._actors, 3),
            (self._api, self._apis, 5), (self._verdict, self._verdicts, 7),
        ):  # fmt: skip
            column.extend([names[str(row[place])] for row in new])
        self._size.extend([row[6] for row in new])
        self._is_reply.extend([row[0] in self._replies for row in new])
        for row in later:
            index = self._index(row[0])
            if self._packets[index] == row[0]:
                self._verdict[index] = self._verdicts[row[7]]
                self._took[index] = _took(self._at[index], row[8])
        self._new.clear()
        self._replies.clear()

    def _index(self, packet: int) -> int:
        return bisect_left(self._packets, packet)

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Ignore a fact of the world."""

    def broken(self, row: BrokenRow) -> None:
        """Ignore a step that raised: it sent nothing."""

    def _error_of(self, sealed: bytes) -> str:
        paths = self._paths.get(sealed[:HEADER_BYTES])
        if paths is None:
            message, version = unseal(sealed)
            cls: type = type(message)
            paths = self._paths[sealed[:HEADER_BYTES]] = paths_to_errors(cls, version)
        if not paths:
            return ""
        known = self._known.get(sealed)
        if known is not None:
            return known
        error = error_in(msgpack.unpackb(sealed, use_list=False)[3], paths)
        name = ErrorCode(error).name if error else ""
        if len(sealed) <= _SHORT_BYTES and len(self._known) < _MOST_KNOWN:
            self._known[sealed] = name
        return name

    # --- the frames --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._packets)

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``messages``, and ``traffic`` (the number by actor and ``BUCKET_US``) of a run with too many of them.

        ``took_us`` is -1 for a message that does not arrive.
        """
        self._take()
        kind = "control" if self._kind == "all" and len(self) > self._most else self._kind
        rows = self._chosen(kind)

        def chosen(column: "array[int]") -> Sequence[int]:
            return column if rows is None else [column[row] for row in rows]

        errors, names = array("i", bytes(4 * len(self))), _Names({"": 0})
        for packet, error in self._errors.items():
            errors[self._index(packet)] = names[error]
        messages = Frame(
            {
                "at_us": chosen(self._at),
                "took_us": chosen(self._took),
                "sender": Coded([*self._actors], chosen(self._from)),
                "to": Coded([*self._actors], chosen(self._to)),
                "api": Coded([*self._apis], chosen(self._api)),
                "reply": chosen(self._is_reply),
                "error": Coded([*names], chosen(errors)),
                "verdict": Coded([str(each) for each in self._verdicts], chosen(self._verdict)),
                "size": chosen(self._size),
            }
        )
        return {"messages": messages, "traffic": self._traffic() if kind != self._kind else frame_of(_TRAFFIC, ())}

    def _chosen(self, kind: str) -> list[int] | None:
        """The rows of a kind of messages; None: all."""
        if kind == "all":
            return None
        arrives = {self._verdicts.get(name, -1) for name in ARRIVES}
        apis = self._apis
        routine = {apis.get(name, -1) for name in (ROUTINE if kind == "control" else apis)}
        return [
            row
            for row in range(len(self) if kind != "none" else 0)
            if self._api[row] not in routine or self._verdict[row] not in arrives or self._packets[row] in self._errors
        ]

    def _traffic(self) -> Frame:
        counts: dict[tuple[int, int], int] = {}
        for at_us, sender in zip(self._at, self._from, strict=True):
            key = at_us // BUCKET_US, sender
            counts[key] = counts.get(key, 0) + 1
        names = list(self._actors)
        return frame_of(
            _TRAFFIC, [(at * BUCKET_US, names[sender], count) for (at, sender), count in sorted(counts.items())]
        )


def _took(at_us: int, due_us: int) -> int:
    return due_us - at_us if due_us >= 0 else -1


_TRAFFIC = ("at_us", "sender", "messages")
