"""The codec over everything declared: whole messages or one clear error, never a part of one."""

from collections.abc import Iterator
from typing import Any

import attrs
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply, JoinGroup, JoinProtocol, LeaveGroup, ListGroups
from kemu.protocol.wire.codec import CodecError, Malformed, TooLarge, UnsupportedVersion, seal, unseal
from kemu.protocol.wire.compile import compile_loss
from kemu.protocol.wire.schema import MESSAGES, REQUEST, SPECS, STRUCTS, MessageSpec, message, since, struct
from tests.examples import examples
from tests.protocol.golden import name_of, sample
from tests.strategies import every_version, messages

EVERY_VERSION = [pytest.param(spec, version, id=name_of(spec, version)) for spec, version in every_version()]
BEAT = Heartbeat(group="g", generation=5, member_id="c1-1", instance_id=None)
BEAT_ROW = ("g", 5, "c1-1", None)


def packed(value: Any) -> bytes:
    data: bytes = msgpack.packb(value, use_bin_type=True)
    return data


def unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, use_list=False)


def places(row: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The path to every value of a row, and the value."""
    yield (), row
    if isinstance(row, tuple):
        for index, item in enumerate(row):
            for path, value in places(item):
                yield (index, *path), value


def replaced(row: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    head, *rest = path
    return tuple(replaced(item, tuple(rest), value) if index == head else item for index, item in enumerate(row))


@pytest.mark.parametrize(("spec", "version"), EVERY_VERSION)
def test_every_message_survives_the_round_trip(spec: MessageSpec, version: int):
    """Values drawn from the declaration itself, so nothing declared is left out."""

    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(messages(spec, version))
    def round_trip(one: Any) -> None:
        back, said = unseal(seal(one, version))
        assert (back, said, type(back)) == (one, version, spec.cls)
        assert hash(back) == hash(one)

    round_trip()


@pytest.mark.parametrize("spec", MESSAGES.values(), ids=lambda spec: f"{spec.name}-{spec.kind.name}")
def test_the_loss_of_a_version_says_whether_decoding_makes_another_message(spec: MessageSpec):
    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(messages(spec, spec.versions[-1]), st.sampled_from(spec.versions))
    def loss(one: Any, version: int) -> None:
        try:
            back = unseal(seal(one, version))[0]
        except UnsupportedVersion:
            return
        loses = compile_loss(spec.fields, version)
        assert (loses is not None and loses(one)) is (back != one)

    loss()


@pytest.mark.parametrize(("spec", "version"), EVERY_VERSION)
def test_a_message_cut_anywhere_or_too_long_is_malformed(spec: MessageSpec, version: int):
    """A truncated message is refused whole; so are bytes behind one."""
    data = seal(sample(spec, version), version)
    for size in range(len(data)):
        with pytest.raises(Malformed, match="not a whole msgpack value"):
            unseal(data[:size])
    for tail in (b"\x00", b"\xc0", data):
        with pytest.raises(Malformed, match="not a whole msgpack value"):
            unseal(data + tail)


NULLABLE_BYTES = ("Fetch", "LeadGroups", "AppendGroups")
"""Messages with values of log records: None is a tombstone."""


@pytest.mark.parametrize(("spec", "version"), EVERY_VERSION)
def test_a_wrong_type_anywhere_is_malformed(spec: MessageSpec, version: int):
    """Every place of every row is checked: values no field has, ints over int64, a bool for an int, missing items."""
    envelope = unpacked(seal(sample(spec, version), version))
    for path, value in places(envelope[3]):
        strange: list[Any] = [
            1.5,
            {},
            msgpack.ExtType(5, b"x"),
            1 << 63,
            ((((),),),),
            "x" if type(value) is bytes else b"x",
        ]
        strange += [True] if type(value) is int else []
        strange += ["5"] if type(value) is int else []
        strange += [None] if type(value) in (int, bool) else []
        strange += [None] if type(value) is bytes and spec.name not in NULLABLE_BYTES else []
        for wrong in strange:
            with pytest.raises(Malformed):
                unseal(packed((*envelope[:3], replaced(envelope[3], path, wrong))))
    for row in (envelope[3][:-1] if envelope[3] else (1,), (*envelope[3], None)):
        with pytest.raises(Malformed, match=f"{spec.cls.__name__} v{version} has {len(envelope[3])} fields, got"):
            unseal(packed((*envelope[:3], row)))


@pytest.mark.parametrize("spec", MESSAGES.values(), ids=lambda spec: f"{spec.name}-{spec.kind.name}")
def test_what_a_version_cannot_say_is_refused_unless_it_may_be_dropped(spec: MessageSpec):
    """Kafka's ``ignorable``: dropped silently; everything else set at a version that lacks it is an error."""
    for version in spec.versions:
        one = sample(spec, version)
        for field in spec.fields:
            if field.since <= version <= field.until:
                continue
            holder = next(v for v in spec.versions if field.since <= v <= field.until)
            more = attrs.evolve(one, **{field.name: getattr(sample(spec, holder), field.name)})
            if field.ignorable:
                assert unseal(seal(more, version))[0] == one
            else:
                with pytest.raises(
                    UnsupportedVersion, match=f"{spec.cls.__name__} v{version} cannot carry {field.name}$"
                ):
                    seal(more, version)


def test_a_struct_inside_a_message_is_refused_likewise():
    """The version of a struct is that of the message it travels in."""

    @struct
    class Part:
        old: int
        new: int = since(2, default=0)

    assert [field.since for field in STRUCTS[Part]] == [0, 2]
    try:

        @message(api_key=9_999, kind=REQUEST, versions=range(0, 3))
        class Carrier:
            parts: tuple[Part, ...]

        one = Carrier(parts=(Part(old=1), Part(old=2, new=5)))
        assert unseal(seal(one, 2)) == (one, 2)
        with pytest.raises(UnsupportedVersion, match="Part v1 cannot carry new"):
            seal(one, 1)
    finally:
        del MESSAGES[9_999, REQUEST]
        del SPECS[Carrier]


@pytest.mark.parametrize("spec", MESSAGES.values(), ids=lambda spec: f"{spec.name}-{spec.kind.name}")
def test_versions_outside_the_declared_range_are_refused_both_ways(spec: MessageSpec):
    """The message exists, that version of it does not."""
    first, last = spec.versions[0], spec.versions[-1]
    said = f"{spec.name} v-?\\d+: supported are v{first} to v{last}"
    for version in (first - 1, last + 1, 32_767):
        with pytest.raises(UnsupportedVersion, match=said):
            seal(sample(spec, first), version)
        with pytest.raises(UnsupportedVersion, match=said):
            unseal(packed((spec.api_key, spec.kind.value, version, ())))


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        ((999, 0, 0, ()), r"unknown api key 999 \(request\)"),
        ((-1, 1, 0, ()), r"unknown api key -1 \(reply\)"),
        ((12, 2, 4, BEAT_ROW), "not a message"),
        ((12, True, 4, BEAT_ROW), "not a message"),
        ((True, 0, 4, BEAT_ROW), "not a message"),
        ((12.0, 0, 4, BEAT_ROW), "not a message"),
        ((12, 0, 4.0, BEAT_ROW), "not a message"),
        ((12, 0, True, BEAT_ROW), "not a message"),
        ((12, 0, "4", BEAT_ROW), "not a message"),
        ((12, 0, None, BEAT_ROW), "not a message"),
        ((((),), 0, 4, BEAT_ROW), "not a message"),
        ((12, 0, 4), "not a message"),
        ((12, 0, 4, BEAT_ROW, 1), "not a message"),
        ((), "not a message"),
        ("Heartbeat", "not a message"),
        (None, "not a message"),
        ((12, 0, 4, None), "Heartbeat v4 has 4 fields, got None"),
        ((12, 0, 4, "abcd"), "Heartbeat v4 has 4 fields, got 'abcd'"),
        ((12, 0, 4, ("g", "5", "c1-1", None)), "Heartbeat.generation cannot be '5'"),
        ((12, 0, 4, (None, 5, "c1-1", None)), "Heartbeat.group cannot be None"),
        ((12, 0, 4, ("g", 5, b"c1-1", None)), "Heartbeat.member_id cannot be b'c1-1'"),
        ((12, 0, 4, ("g", 1 << 63, "c1-1", None)), "Heartbeat.generation cannot be 9223372036854775808"),
        ((12, 1, 4, (11_111,)), "HeartbeatReply.error cannot be 11111"),
        ((12, 1, 4, ("x" * 1_000_000,)), "HeartbeatReply.error cannot be 'x{40}'"),
        ((12, 0, 4, {"a": 1}), "not a whole msgpack value"),
        ((12, 0, 4, msgpack.Timestamp(1)), "not a whole msgpack value"),
        ((12, 0, 4, msgpack.ExtType(1, b"x")), "not a whole msgpack value"),
    ],
)
@pytest.mark.parametrize("known_before", [False, True])
def test_what_is_no_message_says_so(envelope: Any, said: str, known_before: bool):
    """Also when the codec has met the very version before and knows its header."""
    if known_before:
        unseal(seal(BEAT, 4))
        unseal(seal(HeartbeatReply(error=ErrorCode.NONE), 4))
    with pytest.raises(Malformed, match=said) as refused:
        unseal(packed(envelope))
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x94\x0c\x00\x04" + b"\x91" * depth + b"\xc0", id=f"nested-{depth}")
        for depth in (5, 400, 900, 1_100, 100_000)
    ]
    + [
        pytest.param(b"\x94\x0c\x00\x04\x94\xa1\xff\x05\xa1m\xc0", id="invalid utf-8"),
        pytest.param(b"\x94\x0c\x00\x04\x81\x80\xc0", id="map with a map as key"),
        pytest.param(b"\x94\x0c\x00\x04\x81\x91\xc0\xc0", id="map with an array as key"),
        pytest.param(b"\x94\x0c\x00\x04\x80", id="empty map"),
        pytest.param(b"\x94\x0c\x00\x04\xdd\xff\xff\xff\xff", id="array of four billion"),
        pytest.param(b"\x94\x0c\x00\x04\xc6\xff\xff\xff\xff", id="bytes of four billion"),
        pytest.param(b"\x94\x0c\x00\x04\xc1", id="unused type byte"),
        pytest.param(b"\x94\x0c\x00\x04\xd6\xff\x00\x00\x00\x00", id="timestamp extension"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_hostile_bytes_are_malformed(data: bytes):
    """Deep nesting, invalid text, maps, extensions, sizes beyond the data: one error, at once."""
    with pytest.raises(Malformed):
        unseal(data)


@given(st.binary(max_size=80))
@settings(deadline=None)
def test_any_bytes_give_a_message_or_a_codec_error(data: bytes):
    """Nothing else escapes."""
    try:
        one, version = unseal(b"\x94\x0c\x00\x04" + data)
    except CodecError:
        return
    assert unseal(seal(one, version)) == (one, version)


@given(st.sampled_from([pytest_param.values for pytest_param in EVERY_VERSION]), st.data())
@settings(deadline=None, max_examples=examples(300))
def test_a_message_with_a_changed_byte_is_another_message_or_a_codec_error(which: Any, data: st.DataObject):
    """Bits that flip never give half a message: what is accepted can be said again."""
    spec, version = which
    sealed = bytearray(seal(sample(spec, version), version))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] = data.draw(st.integers(0, 255))
    try:
        one, said = unseal(bytes(sealed))
    except CodecError:
        return
    assert unseal(seal(one, said)) == (one, said)


def test_a_message_over_its_limit_is_refused_before_it_is_read_or_sent():
    """Broker config ``socket.request.max.bytes``."""
    size = len(seal(BEAT, 4))
    assert unseal(seal(BEAT, 4, max_bytes=size), max_bytes=size) == (BEAT, 4)
    with pytest.raises(TooLarge, match=f"Heartbeat v4 is {size} bytes long, the limit is {size - 1}"):
        seal(BEAT, 4, max_bytes=size - 1)
    with pytest.raises(TooLarge, match=f"message of {size} bytes, the limit is {size - 1}"):
        unseal(seal(BEAT, 4), max_bytes=size - 1)
    with pytest.raises(TooLarge, match="message of 2000 bytes"):
        unseal(b"\xc1" * 2_000, max_bytes=1_999)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (attrs.evolve(BEAT, generation=1 << 63), "Heartbeat.generation cannot be 9223372036854775808"),
        (attrs.evolve(BEAT, generation=1 << 64), "Heartbeat v4 cannot be encoded"),
        (attrs.evolve(BEAT, generation=-(1 << 63) - 1), "Heartbeat v4 cannot be encoded"),
        (attrs.evolve(BEAT, group="\ud800"), "Heartbeat v4 cannot be encoded"),
        (attrs.evolve(BEAT, group=object()), "Heartbeat v4 cannot be encoded"),
        (object(), "object is not declared as a message"),
        (JoinProtocol(name="range", metadata=b""), "JoinProtocol is not declared as a message"),
    ],
)
def test_what_has_no_form_in_bytes_is_not_sent(one: object, said: str):
    """The sender hears it, not the receiver; and the codec works on afterwards."""
    with pytest.raises(Malformed, match=said):
        seal(one, 4)
    assert unseal(seal(BEAT, 4)) == (BEAT, 4)


def test_the_widest_ints_travel():
    """int64, both ends."""
    for number in (-(1 << 63), (1 << 63) - 1):
        one = attrs.evolve(BEAT, generation=number)
        assert unseal(seal(one, 4)) == (one, 4)


def test_bytes_that_look_like_a_wide_int_travel():
    """0xcf and a high byte may stand in a string's or an assignment's data."""
    one = JoinGroup(
        group="ϩ",
        session_timeout_ms=1,
        protocol_type="consumer",
        protocols=(JoinProtocol(name="range", metadata=b"\xcf\xff\xff\xff"),),
    )
    assert b"\xcf\xa9" in seal(one, 0)
    assert unseal(seal(one, 0)) == (one, 0)


def test_a_header_written_in_another_way_means_the_same():
    """msgpack allows wider forms of small numbers; they take the slow path and give the same message."""
    sealed = seal(BEAT, 4)
    unseal(sealed)
    assert unseal(b"\x94\xcc\x0c\xd0\x00\xcd\x00\x04" + sealed[4:]) == (BEAT, 4)
    assert unseal(b"\xdc\x00\x04\x0c\x00\x04" + sealed[4:]) == (BEAT, 4)


def test_decoded_messages_are_as_frozen_as_made_ones():
    """Values: no field can be set, two equal ones are one key, and the class is the declared one."""
    back, _ = unseal(seal(BEAT, 4))
    assert type(back) is Heartbeat
    assert {back: 1}[BEAT] == 1
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        back.generation = 6
    assert attrs.evolve(back, generation=6) == attrs.evolve(BEAT, generation=6)


def test_fields_unknown_to_a_version_read_as_their_defaults():
    """LeaveGroup names one member until v2, a batch from v3 (KIP-345)."""
    assert unseal(seal(LeaveGroup(group="g", member_id="m"), 2))[0] == LeaveGroup(group="g", member_id="m", members=())
    assert unseal(seal(ListGroups(), 0)) == (ListGroups(states_filter=()), 0)
