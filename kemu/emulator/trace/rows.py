"""Converts events and effects to rows of a trace, and rows to events and effects.

A row is a flat tuple for msgpack whose first item is a small number. The bytes of a message occur once in a trace, in
the ``Send`` of its sender's step; the receiver's step names the packet. So a row of ``Received`` can be decoded only
with the packets that were sent before (``Packets``).
"""

from collections.abc import Callable, Sequence
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
from kemu.protocol import commands as _commands  # noqa: F401 - the imports register the classes that rows may hold
from kemu.protocol import messages as _messages  # noqa: F401
from kemu.protocol import notes as _notes  # noqa: F401
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, part_on, path_and_peer
from kemu.protocol.wire.codec import Malformed, seal, unseal
from kemu.protocol.wire.values import from_row, to_row

Row: TypeAlias = tuple[Any, ...]

RECEIVED, LINK_DOWN, TIMER_FIRED, APPENDED, LOADED, TOLD = range(6)
SEND, HANGUP, START_TIMER, STOP_TIMER, APPEND, NOTE, WRITE_ONLY, FLUSH = range(8)

_EVENT_TAGS: dict[type, tuple[int]] = {
    LinkDown: (LINK_DOWN,),
    TimerFired: (TIMER_FIRED,),
    Appended: (APPENDED,),
    Loaded: (LOADED,),
}
"""Type of an event whose row consists of the event's fields -> number of the row."""

EVENT_NAMES = ("Received", "LinkDown", "TimerFired", "Appended", "Loaded", "Told")
EFFECT_NAMES = ("Send", "Hangup", "StartTimer", "StopTimer", "Append", "Note", "WriteOnly", "Flush")


class PacketInFlight(NamedTuple):
    """A packet in flight, with the data for its arrival."""

    sender: str
    connection: int
    request_id: int
    sealed: bytes


class Packets:
    """The packets in flight, the only state that a replay needs.

    Call the methods for every step and every packet record in the order of the trace. A packet arrives at most once; a
    repeated request is another packet.

    Args:
        find: for a reader of a part of a trace: returns the sender and the ``Send`` row of a packet that was sent
            before the part.
    """

    def __init__(self, find: Callable[[int], tuple[str, Row] | None] | None = None) -> None:
        self._sent: dict[int, PacketInFlight] = {}
        self._find = find

    def __len__(self) -> int:
        return len(self._sent)

    def sent(self, sender: str, effects: Sequence[Row]) -> None:
        """Add the packets that a step sent."""
        for row in effects:
            if row[0] == SEND:
                _, packet_id, to, connection, request_id, sealed = row
                by = part_on(sender, path_and_peer(to)[0])
                self._sent[packet_id] = PacketInFlight(by, connection, request_id, sealed)

    def routed(self, packet_id: int, connection: int) -> None:
        """Set the connection of a packet, which a client's ``Send`` does not name."""
        packet = self._sent.get(packet_id)
        if packet is not None:
            self._sent[packet_id] = packet._replace(connection=connection)

    def lost(self, packet_id: int) -> None:
        """Remove a packet that will not arrive."""
        self._sent.pop(packet_id, None)

    def clear(self) -> None:
        """Remove all packets; ``find`` finds them again."""
        self._sent.clear()

    def take(self, packet_id: int) -> PacketInFlight:
        """Remove and return the packet that arrives.

        Raises:
            Malformed: no such packet is in flight.
        """
        if packet_id not in self._sent and self._find is not None and (found := self._find(packet_id)) is not None:
            self.sent(found[0], found[1:])
        packet = self._sent.pop(packet_id, None)
        if packet is None:
            raise Malformed(f"packet {packet_id} arrives but was never sent")
        return packet


_EVENT_FIELDS: dict[int, tuple[type, ...]] = {
    RECEIVED: (int,),
    LINK_DOWN: (str,),
    TIMER_FIRED: (tuple,),
    APPENDED: (int, int, int),
    LOADED: (str, tuple),
    TOLD: (tuple,),
}
_EFFECT_FIELDS: dict[int, tuple[tuple[type, ...], ...]] = {
    SEND: ((int, str, int, int, bytes),),
    HANGUP: ((str,),),
    START_TIMER: ((tuple, int),),
    STOP_TIMER: ((tuple,),),
    APPEND: ((str, tuple, int),),
    NOTE: ((tuple,), (tuple, str)),
    WRITE_ONLY: ((str, tuple, int),),
    FLUSH: ((str,),),
}
"""Tag -> types of the other fields of a row; a note has two forms."""
_ERRORS = frozenset(error.value for error in ErrorCode)


def check_event(row: Row) -> None:
    """Check the types of an event's row. Raises ``Malformed``."""
    tag = row[0] if row else None
    good = type(tag) is int and tuple(map(type, row[1:])) == _EVENT_FIELDS.get(tag)
    if not good or (tag == TIMER_FIRED and not _is_key(row[1])) or (tag == APPENDED and row[2] not in _ERRORS):
        raise Malformed(f"{row!r:.80} is no row of an event")


def check_effect(row: Row) -> None:
    """Check the types of an effect's row. Raises ``Malformed``."""
    tag = row[0] if type(row) is tuple and row else None
    good = type(tag) is int and tuple(map(type, row[1:])) in _EFFECT_FIELDS.get(tag, ())
    if not good or (tag in (START_TIMER, STOP_TIMER) and not _is_key(row[1])):
        raise Malformed(f"{row!r:.80} is no row of an effect")


def _is_key(key: Row) -> bool:
    """Whether the key of a timer consists of strings."""
    return all(type(part) is str for part in key)


def event_row(event: Event, packet_id: int = 0) -> Row:
    """Return the row of an event; ``packet_id`` is used for ``Received`` only."""
    kind = type(event)
    if kind in _EVENT_TAGS:
        return _EVENT_TAGS[kind] + event
    return (RECEIVED, packet_id) if kind is Received else (TOLD, to_row(event[0]))


def event_from_row(row: Row, packets: Packets) -> Event:
    """Return the event of a row, made of new objects.

    Args:
        row: a result of ``event_row``.
        packets: the packets in flight; the received packet is removed.

    Raises:
        Malformed: the row is invalid, or its packet was never sent.
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
    """Return the row of a note; ``part``: the part of the actor that made the note, or "" for the actor itself."""
    return (NOTE, to_row(fact), part) if part else (NOTE, to_row(fact))


def noted_by(actor: ActorName, row: Row) -> ActorName:
    """Return the author of a note: the actor of the step, or a part of the actor."""
    return part_on(actor, row[2]) if len(row) > 2 else actor


def effect_row(effect: Effect, packet_id: int = 0, sealed: bytes | None = None) -> Row:
    """Return the row of an effect.

    Args:
        effect: an effect of a machine's step.
        packet_id: number of the packet (``Send`` only).
        sealed: bytes of the message, if the caller has encoded it.
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
    """Return the effect of a row, made of new objects.

    Raises:
        Malformed: the row is invalid.
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
    """Whether a step's effects equal the recorded ones byte for byte, except for the numbers of packets."""
    if len(made) != len(recorded):
        return False
    rows = [
        effect_row(effect, row[1] if row and row[0] == SEND else 0) for effect, row in zip(made, recorded, strict=True)
    ]
    return bool(msgpack.packb(rows) == msgpack.packb(list(recorded)))
