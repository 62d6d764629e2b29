"""Events and effects as rows of a trace, and back.

A row is a flat, packable tuple whose first item is a small number. The bytes of a message stand once in a trace: in the
``Send`` of its sender's step; the receiver's step names the packet. So a row of ``Received`` becomes an event again
only with the packets that were sent before it at hand (``Packets``).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgpack

from kemu.actors.machine import (
    Append,
    Appended,
    Effect,
    Event,
    Flush,
    Hangup,
    LinkDown,
    Loaded,
    Note,
    Received,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
    WriteOnly,
)
from kemu.protocol import commands as _commands  # noqa: F401 - importing registers what rows may hold
from kemu.protocol import messages as _messages  # noqa: F401
from kemu.protocol import notes as _notes  # noqa: F401
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, part_on, path_and_peer
from kemu.protocol.wire.codec import Malformed, seal, unseal
from kemu.protocol.wire.values import from_row, to_row

Row: TypeAlias = tuple[Any, ...]

RECEIVED, LINK_DOWN, TIMER_FIRED, APPENDED, LOADED, TOLD = range(6)
SEND, HANGUP, START_TIMER, STOP_TIMER, APPEND, NOTE, WRITE_ONLY, FLUSH = range(8)

_EVENT_TAGS: dict[type, int] = {LinkDown: LINK_DOWN, TimerFired: TIMER_FIRED, Appended: APPENDED, Loaded: LOADED}
"""Events whose rows are their fields."""

EVENT_NAMES = ("Received", "LinkDown", "TimerFired", "Appended", "Loaded", "Told")
EFFECT_NAMES = ("Send", "Hangup", "StartTimer", "StopTimer", "Append", "Note", "WriteOnly", "Flush")


class PacketInFlight(NamedTuple):
    """A packet on its way: what its arrival will be made of."""

    sender: str
    connection: int
    request_id: int
    sealed: bytes


class Packets:
    """The packets of a run that were sent and not yet received: all the memory a replay needs.

    Feed it every step and every packet record in the order of the trace. A packet arrives once at most (a repeated
    request is another packet).
    """

    def __init__(self) -> None:
        self._sent: dict[int, PacketInFlight] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def sent(self, sender: str, effects: Sequence[Row]) -> None:
        """Remember what a step sent."""
        for row in effects:
            if row[0] == SEND:
                _, packet_id, to, connection, request_id, sealed = row
                by = part_on(sender, path_and_peer(to)[0])
                self._sent[packet_id] = PacketInFlight(by, connection, request_id, sealed)

    def routed(self, packet_id: int, connection: int) -> None:
        """The network put the packet on this connection (a client's own Send does not name one)."""
        packet = self._sent.get(packet_id)
        if packet is not None:
            self._sent[packet_id] = packet._replace(connection=connection)

    def lost(self, packet_id: int) -> None:
        """The packet will not arrive."""
        self._sent.pop(packet_id, None)

    def take(self, packet_id: int) -> PacketInFlight:
        """The packet that arrives now.

        Raises:
            Malformed: no such packet is on its way.
        """
        packet = self._sent.pop(packet_id, None)
        if packet is None:
            raise Malformed(f"packet {packet_id} arrives but was never sent")
        return packet


def event_row(event: Event, packet_id: int = 0) -> Row:
    """The row of an event; ``packet_id`` matters for ``Received`` only."""
    kind = type(event)
    if kind is Received:
        return (RECEIVED, packet_id)
    if kind is Told:
        return (TOLD, to_row(event[0]))
    return (_EVENT_TAGS[kind], *event)


def event_from_row(row: Row, packets: Packets) -> Event:
    """The event of a row, with fresh objects in it.

    Args:
        row: as ``event_row`` made it.
        packets: knows the packets on their way; the one received is taken from it.

    Raises:
        Malformed: a row nobody wrote, or a packet that was never sent.
    """
    match row:
        case (0, int(packet_id)):
            packet = packets.take(packet_id)
            message, version = unseal(packet.sealed)
            return Received(packet.sender, packet.connection, packet.request_id, version, message)
        case (1, str(peer)):
            return LinkDown(peer)
        case (2, tuple(key)):
            return TimerFired(key)
        case (3, int(token), int(error), int(base_offset)):
            return Appended(token, ErrorCode(error), base_offset)
        case (4, str(log), tuple(records)):
            return Loaded(log, records)
        case (5, tuple(command)):
            return Told(from_row(command))
        case _:
            raise Malformed(f"{row!r:.80} is no row of an event")


def note_row(fact: object, part: str) -> Row:
    """The row of a note; who made none of its own says for which of its parts."""
    return (NOTE, to_row(fact), part) if part else (NOTE, to_row(fact))


def noted_by(actor: ActorName, row: Row) -> ActorName:
    """Whose note a row of one is: the actor of its step, or a part of it."""
    return part_on(actor, row[2]) if len(row) > 2 else actor


def effect_row(effect: Effect, packet_id: int = 0, sealed: bytes | None = None) -> Row:
    """The row of an effect.

    Args:
        effect: what a machine wants done.
        packet_id: the number the world gave the packet (``Send`` only).
        sealed: the message's bytes, when the caller has sealed it already.
    """
    match effect:
        case Send(to, connection, request_id, version, message):
            data = seal(message, version) if sealed is None else sealed
            return (SEND, packet_id, to, connection, request_id, data)
        case Note(fact, part):
            return note_row(fact, part)
        case StartTimer(key, after_us):
            return (START_TIMER, key, after_us)
        case StopTimer(key):
            return (STOP_TIMER, key)
        case Append(log, records, token):
            return (APPEND, log, records, token)
        case WriteOnly(log, records, token):
            return (WRITE_ONLY, log, records, token)
        case Flush(log):
            return (FLUSH, log)
        case Hangup(peer):
            return (HANGUP, peer)
        case _:
            raise AssertionError(f"{effect!r} is no effect")


def effect_from_row(row: Row) -> Effect:
    """The effect of a row, with fresh objects in it.

    Raises:
        Malformed: a row nobody wrote.
    """
    match row:
        case (0, int(), str(to), int(connection), int(request_id), bytes(sealed)):
            message, version = unseal(sealed)
            return Send(to, connection, request_id, version, message)
        case (1, str(peer)):
            return Hangup(peer)
        case (2, tuple(key), int(after_us)):
            return StartTimer(key, after_us)
        case (3, tuple(key)):
            return StopTimer(key)
        case (4, str(log), tuple(records), int(token)):
            return Append(log, records, token)
        case (6, str(log), tuple(records), int(token)):
            return WriteOnly(log, records, token)
        case (7, str(log)):
            return Flush(log)
        case (5, tuple(fact), *part):
            return Note(from_row(fact), *part)
        case _:
            raise Malformed(f"{row!r:.80} is no row of an effect")


def same_effects(made: Sequence[Effect], recorded: Sequence[Row]) -> bool:
    """Whether a step's effects are what was recorded, byte for byte but for the packets' numbers."""
    if len(made) != len(recorded):
        return False
    rows = [
        effect_row(effect, row[1] if row and row[0] == SEND else 0) for effect, row in zip(made, recorded, strict=True)
    ]
    return bool(msgpack.packb(rows) == msgpack.packb(list(recorded)))
