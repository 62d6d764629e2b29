"""The messages of a run for its report: sender, receiver, API, error, latency and fate."""

from array import array
from bisect import bisect_left
from functools import cache
from typing import Any, get_args, get_type_hints

import attrs

from kemu.emulator.trace.rows import SEND
from kemu.emulator.trace.traces import BrokenRow, PacketRow, StepRow
from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.codec import HEADER_BYTES, CodecError, unseal
from kemu.tools.report.frames import Frame, frame_of

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
_KIND_AT = 2
"""Byte of a sealed message that is 1 for a reply (``protocol.wire.codec``)."""


@cache
def _paths_to_errors(cls: type) -> tuple[tuple[str, type | None], ...]:
    """The fields of a message that hold an error (None), or parts with errors (the class of the parts)."""
    if not attrs.has(cls):
        return ()
    hints = get_type_hints(cls)
    found: list[tuple[str, type | None]] = []
    for field in attrs.fields(cls):
        hint = hints[field.name]
        if hint is ErrorCode:
            found.append((field.name, None))
        for part in get_args(hint):
            if isinstance(part, type) and _paths_to_errors(part):
                found.append((field.name, part))
    return tuple(found)


def first_error(message: Any, cls: type) -> ErrorCode:
    """The error of a message of this class, or the first error of its parts; NONE if there is none."""
    for name, part in _paths_to_errors(cls):
        item = getattr(message, name)
        if part is None:
            if item:
                return ErrorCode(item)
        else:
            for each in item if isinstance(item, tuple) else () if item is None else (item,):
                error = first_error(each, part)
                if error is not ErrorCode.NONE:
                    return error
    return ErrorCode.NONE


class _Names:
    """Texts as numbers, in the order of their first use."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of a text."""
        return self.known.setdefault(name, len(self.known))

    def texts(self, codes: Any) -> list[str]:
        """The texts of these numbers."""
        names = list(self.known)
        return [names[code] for code in codes]


class Messages:
    """A recorder of a run (``emulator.trace.recorder``) that keeps the messages, and not their contents."""

    def __init__(self, kind: str = "all", most: int = MOST_MESSAGES) -> None:
        assert kind in KINDS, kind
        self._kind = kind
        self._most = most
        self._packets = array("q")
        self._at, self._took = array("q"), array("q")
        self._from, self._to, self._api, self._verdict, self._size = (array("l") for _ in range(5))
        self._actors, self._apis, self._verdicts = _Names(), _Names(), _Names()
        self._is_reply = array("b")
        self._replies: set[int] = set()
        """Packets of the last step that are replies."""
        self._errors: dict[int, str] = {}
        """Packet -> the error that it reports."""
        self._known: dict[bytes, str] = {}
        """Short replies -> the errors that they report."""
        self._paths: dict[bytes, bool] = {}
        """First bytes of a message -> whether such a message may report an error."""

    # --- recording ---------------------------------------------------------------------------------------------

    def step(self, row: StepRow) -> None:
        """Find the errors in the replies of a step."""
        for effect in row[6]:
            if effect[0] == SEND and effect[5][_KIND_AT]:
                self._replies.add(effect[1])
                error = self._error_of(effect[5])
                if error:
                    self._errors[effect[1]] = error

    def packet(self, row: PacketRow) -> None:
        """Take the fate of a packet; a later one replaces it."""
        packet_id, at_us, sender, to, _, api, size, verdict, due_us = row
        took = due_us - at_us if due_us >= 0 else -1
        packets = self._packets
        if packets and packet_id <= packets[-1]:
            index = bisect_left(packets, packet_id)
            if packets[index] == packet_id:
                self._verdict[index] = self._verdicts.of(str(verdict))
                self._took[index] = due_us - self._at[index] if due_us >= 0 else -1
            return
        packets.append(packet_id)
        self._at.append(at_us)
        self._took.append(took)
        self._from.append(self._actors.of(sender))
        self._to.append(self._actors.of(to))
        self._api.append(self._apis.of(api))
        self._verdict.append(self._verdicts.of(str(verdict)))
        self._size.append(size)
        self._is_reply.append(packet_id in self._replies)
        self._replies.discard(packet_id)

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Ignore a fact of the world."""

    def broken(self, row: BrokenRow) -> None:
        """Ignore a step that raised: it sent nothing."""

    def _error_of(self, sealed: bytes) -> str:
        head = sealed[:HEADER_BYTES]
        if self._paths.get(head) is False:
            return ""
        known = self._known.get(sealed)
        if known is not None:
            return known
        try:
            message, _ = unseal(sealed)
        except CodecError:
            return ""
        cls: type = type(message)
        if head not in self._paths:
            self._paths[head] = bool(_paths_to_errors(cls))
        error = first_error(message, cls)
        name = "" if error is ErrorCode.NONE else error.name
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
        kind = "control" if self._kind == "all" and len(self) > self._most else self._kind
        rows = self._chosen(kind)
        codes = (self._from, self._to, self._api, self._verdict)
        names = (self._actors, self._actors, self._apis, self._verdicts)
        sender, to, api, verdict = (
            name.texts([column[row] for row in rows]) for name, column in zip(names, codes, strict=True)
        )
        messages = Frame(
            {
                "at_us": [self._at[row] for row in rows],
                "took_us": [self._took[row] for row in rows],
                "sender": sender,
                "to": to,
                "api": api,
                "reply": [self._is_reply[row] for row in rows],
                "error": [self._errors.get(self._packets[row], "") for row in rows],
                "verdict": verdict,
                "size": [self._size[row] for row in rows],
            }
        )
        return {"messages": messages, "traffic": self._traffic() if kind != self._kind else frame_of(_TRAFFIC, ())}

    def _chosen(self, kind: str) -> Any:
        if kind == "all":
            return range(len(self))
        arrives = {self._verdicts.known.get(name, -1) for name in ARRIVES}
        apis = self._apis.known
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
        names = list(self._actors.known)
        return frame_of(
            _TRAFFIC, [(at * BUCKET_US, names[sender], count) for (at, sender), count in sorted(counts.items())]
        )


_TRAFFIC = ("at_us", "sender", "messages")
