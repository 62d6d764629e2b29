"""Rows of a trace: every event and effect survives the way to msgpack and back."""

import msgpack
import pytest

from kemu.actors.machine import (
    Append,
    Appended,
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
from kemu.emulator.trace.rows import Packets, effect_from_row, effect_row, event_from_row, event_row, same_effects
from kemu.protocol.commands import LeadOffsets, Subscribe
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat
from kemu.protocol.notes.groups import GroupBecame
from kemu.protocol.wire.codec import Malformed

BEAT = Heartbeat(group="g", generation=3, member_id="c1-1")

EVENTS = [
    LinkDown("b0"),
    TimerFired(("session", "g", "c1-1")),
    Appended(7, ErrorCode.NOT_COORDINATOR, -1),
    Loaded("offsets-12", ((b"k", b"v"), (b"k", None))),
    Told(Subscribe(topics=("t", "u"))),
    Told(LeadOffsets(partition=12, leader_epoch=2, records=((b"k", None),))),
]

EFFECTS = [
    Send("b0", 0, 5, 3, BEAT),
    Hangup("b0"),
    StartTimer(("beat",), 3_000_000),
    StopTimer(("beat",)),
    Append("offsets-12", ((b"k", b"v"), (b"k", None)), 9),
    WriteOnly("replica/t-0", ((b"b", b"v"),), 9),
    Flush("replica/t-0"),
    Note(GroupBecame(group="g", old="Empty", new="PreparingRebalance", generation=0, why="c1 joins")),
]


def over_the_wire(row):
    return msgpack.unpackb(msgpack.packb(row), use_list=False)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_row(event):
    assert event_from_row(over_the_wire(event_row(event)), Packets()) == event


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: type(effect).__name__)
def test_an_effect_comes_back_from_its_row(effect):
    assert effect_from_row(over_the_wire(effect_row(effect))) == effect


def test_a_received_message_is_rebuilt_from_its_senders_step_on_the_networks_connection():
    packets = Packets()
    packets.sent("c1", [effect_row(Note(EFFECTS[-1].fact)), effect_row(Send("b0", 0, 5, 3, BEAT), 41)])
    packets.routed(41, 6)

    event = event_from_row(over_the_wire(event_row(Received("c1", 6, 5, 3, BEAT), 41)), packets)

    assert event == Received("c1", 6, 5, 3, BEAT)
    assert len(packets) == 0


def test_a_packet_nobody_sent_or_that_was_lost_cannot_arrive():
    packets = Packets()
    packets.sent("c1", [effect_row(EFFECTS[0], 41)])
    packets.lost(41)

    for packet_id in (41, 42):
        with pytest.raises(Malformed, match=f"packet {packet_id}"):
            event_from_row((0, packet_id), packets)


@pytest.mark.parametrize("row", [(), (6, 1), (0, "x"), (2, "beat"), (3, 1, 2), "row"])
def test_a_row_nobody_wrote_is_refused(row):
    with pytest.raises(Malformed):
        event_from_row(row, Packets())
    with pytest.raises(Malformed):
        effect_from_row(row)


def test_effects_are_compared_byte_for_byte_but_for_the_packets_numbers():
    recorded = over_the_wire([effect_row(effect, 99) for effect in EFFECTS])
    assert same_effects(EFFECTS, recorded)
    assert not same_effects(EFFECTS[:-1], recorded)

    for index, other in enumerate([Send("b0", 0, 6, 3, BEAT), Hangup("b1"), StartTimer(("beat",), 3_000_001)]):
        assert not same_effects([*EFFECTS[:index], other, *EFFECTS[index + 1 :]], recorded)
