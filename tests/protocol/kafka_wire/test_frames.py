"""Frames to kemu's messages and back: every spoken API and version, and frames that are no request."""

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.apis import APIS, SPOKEN, Api, api_versions
from kemu.protocol.kafka_wire.declare import EACH
from kemu.protocol.kafka_wire.frames import (
    UnsupportedWireVersion,
    WireError,
    WireRequest,
    read_back,
    read_reply,
    read_request,
    unsupported_reply,
    write_reply,
    write_request,
)
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchReply, Metadata, MetadataReply, RecordBatch
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply, JoinGroupReply
from kemu.protocol.messages.negotiation import ApiVersionRange, ApiVersions, ApiVersionsReply, versions_reply
from kemu.protocol.messages.versions import KAFKA_2_4
from kemu.protocol.wire.schema import SPECS, STRUCTS
from lab.drawn_frames import drawn_reply, drawn_request, every_version

every_api = pytest.mark.parametrize("api", list(APIS.values()), ids=lambda api: api.name)


@every_api
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=10, deadline=None, phases=[Phase.generate])
def test_a_request_is_read_as_it_was_written(api: Api, seed: int) -> None:
    """ours -> wire -> ours, and wire -> ours -> wire, in every spoken version; kemu's codec accepts each request."""
    for version in range(api.lowest, api.highest + 1):
        request = drawn_request(Random(seed), api, version)
        frame = write_request(request)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        found = read_request(frame[4:])
        assert found == request
        assert write_request(found) == frame
        assert read_back(found) == found


@every_api
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=10, deadline=None, phases=[Phase.generate])
def test_a_reply_is_read_as_it_was_written(api: Api, seed: int) -> None:
    """ours -> wire -> ours, and wire -> ours -> wire, in every spoken version."""
    for version in range(api.lowest, api.highest + 1):
        reply = drawn_reply(Random(seed), api, version)
        request = WireRequest(api.key, version, reply.correlation_id, None, None)
        frame = write_reply(request, reply.message, beside=reply.beside, records=reply.records, further=reply.further)
        found = read_reply(frame[4:], api.key, version)
        assert (found.message, found.further, found.beside) == (reply.message, reply.further, reply.beside)
        assert found.correlation_id == reply.correlation_id
        again = write_reply(request, found.message, beside=found.beside, records=found.records, further=found.further)
        assert again == frame


def test_the_declarations_name_every_field_of_kemus_messages() -> None:
    """A field that a spoken version of kemu's message has is in the bytes, or follows from a record batch."""
    derived = {"count", "producer_id", "producer_epoch", "sequence"}
    missing = []

    def compare(fields, parts, version, where) -> None:
        parts = [*parts, *(each for part in parts if part.type == EACH and part.is_in(version) for each in part.parts)]
        named = {part.name for part in parts if part.is_in(version) and part.is_ours}
        named |= {part.by_in(version) for part in parts}
        named |= derived if any(part.type == "batch" for part in parts) else set()
        missing.extend(
            f"{where} v{version}: {field.name}"
            for field in fields
            if field.since <= version <= field.until and field.name not in named
        )
        for part in parts:
            if part.cls is not None and part.parts and part.is_in(version):
                inner = [field for field in STRUCTS[part.cls] if field.name != part.by_in(version)]
                compare(inner, part.parts, version, f"{where}.{part.name}")

    for api, version in every_version():
        compare(SPECS[api.request.cls].fields, api.request.fields, version, api.request.title)
        compare(SPECS[api.reply.cls].fields, api.reply.fields, version, api.reply.title)

    assert missing == [f"DeleteTopics reply.topics v{version}: error_message" for version in range(1, 5)]


def test_every_spoken_version_is_a_version_of_kemus_messages() -> None:
    """Machines understand every request that a real client may send."""
    for api, version in every_version():
        assert version in SPECS[api.request.cls].versions, api.name
        assert version in SPECS[api.reply.cls].versions, api.name


HEARTBEAT = WireRequest(12, 4, 7, "me", Heartbeat(group="g", generation=3, member_id="m-1", instance_id=None), {}, {})


def test_every_cut_of_a_frame_is_refused_with_its_field() -> None:
    """A frame that ends early is no request, wherever it ends."""
    frame = write_request(HEARTBEAT)[4:]

    for size in range(len(frame)):
        with pytest.raises(WireError):
            read_request(frame[:size])
    with pytest.raises(WireError, match=r"Heartbeat request v4\.member_id: the length 3, but 2 bytes are left"):
        read_request(frame[:-3])


def test_bytes_behind_a_request_are_ignored() -> None:
    assert read_request(write_request(HEARTBEAT)[4:] + b"xx") == HEARTBEAT


def test_librdkafka_asks_for_all_topics() -> None:
    """librdkafka 2.16.0, Metadata v9: four zero bytes stand for no topics, so the message ends a byte early."""
    frame = bytes.fromhex("00030009 00000003 0007 72646b61666b61 00 00000000 01000000")

    assert read_request(frame).message == Metadata(topics=None, allow_auto_topic_creation=False)


def test_bytes_behind_a_reply_are_refused() -> None:
    """Trailing bytes are a sign of another version."""
    frame = write_reply(HEARTBEAT, HeartbeatReply(error=ErrorCode.NONE))[4:]
    with pytest.raises(WireError, match="Heartbeat reply v4: 2 bytes follow the message"):
        read_reply(frame + b"xx", 12, 4)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xff\xff", "group: may not be null"),
        (b"\xff\xfe", "group: the length -2 is negative"),
        (b"\x00\x02\xff\xff", "group: not UTF-8"),
        (b"\x7f\xff", "group: the length 32767, but 0 bytes are left"),
        (b"\0\1g\0\0\0\1\0\1m" + b"\x7f\xff\xff\xff", "assignments: the length 2147483647, but 0 bytes are left"),
        (b"\0\1g\0\0\0\1\0\1m" + b"\xff\xff\xff\xff", "assignments: may not be null"),
        (b"\0\1g\0\0\0\1\0\1m" + b"\x80\0\0\0", "assignments: the length -2147483648 is negative"),
    ],
)
def test_impossible_lengths_are_refused_by_field(body: bytes, said: str) -> None:
    """SyncGroup v0: null where a value must be, negative lengths, lengths beyond the frame, other text than UTF-8."""
    head = b"\0\x0e\0\0\0\0\0\7\xff\xff"

    with pytest.raises(WireError, match=rf"SyncGroup request v0\.{said}"):
        read_request(head + body)


def test_a_varint_of_more_than_32_bits_is_refused() -> None:
    """A compact length has at most five bytes."""
    head = b"\0\x0c\0\4\0\0\0\7\xff\xff\0"

    with pytest.raises(WireError, match="group: a varint of more than 32 bits"):
        read_request(head + b"\xff" * 9)


def test_an_unknown_tag_is_skipped_and_a_tag_beyond_the_frame_is_refused() -> None:
    """KIP-482: a receiver ignores tagged fields that it does not know."""
    frame = write_request(HEARTBEAT)[4:]

    assert read_request(frame[:-1] + b"\1\5\2ab") == HEARTBEAT
    with pytest.raises(WireError, match="tags: the length 3, but 2 bytes are left"):
        read_request(frame[:-1] + b"\1\5\3ab")


def test_an_unspoken_version_of_api_versions_is_answered_in_version_0() -> None:
    """KIP-511: error 35 and the versions, in a form that every client reads."""
    frame = b"\0\x12\0\x04\0\0\0\x09\0\2me\0\5name\5vers\0"

    with pytest.raises(UnsupportedWireVersion, match="ApiVersions v4 is not spoken, only v0 to v3") as raised:
        read_request(frame)
    answer = unsupported_reply(raised.value, versions_reply(KAFKA_2_4))

    assert answer is not None
    found = read_reply(answer[4:], 18, 0)
    assert found.correlation_id == 9
    assert found.message.error is ErrorCode.UNSUPPORTED_VERSION
    assert found.message.api_keys == (ApiVersionRange(api_key=18, min_version=0, max_version=3),)


@pytest.mark.parametrize(
    ("api_key", "version", "said"),
    [(0, 2, "Produce v2 is not spoken, only v3 to v9"), (70, 0, "API 70 is not spoken"), (-1, -1, "API -1")],
)
def test_another_api_or_version_has_no_answer(api_key: int, version: int, said: str) -> None:
    """A broker closes the connection after such a request."""
    head = b"".join(number.to_bytes(2, "big", signed=True) for number in (api_key, version))

    with pytest.raises(UnsupportedWireVersion, match=said) as raised:
        read_request(head + b"\0\0\0\1\xff\xff")

    assert unsupported_reply(raised.value, versions_reply(KAFKA_2_4)) is None


def test_a_real_client_is_told_the_versions_that_the_broker_and_the_wire_support() -> None:
    """A broker of 2.4 supports JoinGroup up to 6. Versions of omitted APIs follow from its release."""
    rows = {row.api_key: row for row in api_versions(versions_reply(KAFKA_2_4)).api_keys}

    assert (rows[11].min_version, rows[11].max_version) == (0, 6)
    assert (rows[1].min_version, rows[1].max_version) == (4, 11)
    assert (rows[22].min_version, rows[22].max_version) == (0, 2)
    assert 60 not in rows
    assert SPOKEN[60] == (0, 0)
    only = api_versions(versions_reply(KAFKA_2_4), offered={18, 3})
    assert [row.api_key for row in only.api_keys] == [3, 18]
    refused = ApiVersionsReply(error=ErrorCode.UNKNOWN_SERVER_ERROR, api_keys=())
    assert api_versions(refused) == refused


def test_a_value_that_may_not_be_null_in_a_version_is_refused_when_written() -> None:
    """The protocol name may be null since JoinGroup v7."""
    reply = JoinGroupReply(error=ErrorCode.NONE)

    write_reply(WireRequest(11, 7, 1, None, None), reply)
    with pytest.raises(WireError, match=r"JoinGroup reply v6\.protocol_name: may not be null in this version"):
        write_reply(WireRequest(11, 6, 1, None, None), reply)


def test_a_number_that_does_not_fit_is_refused_when_written() -> None:
    """The error names the field, or the first of the numbers that follow each other."""
    asked = Fetch(max_wait_ms=1 << 40, min_bytes=1, partitions=())

    with pytest.raises(WireError, match=r"Fetch request v4\.replica_id: .*format requires"):
        write_request(WireRequest(1, 4, 1, None, asked))


def test_metadata_v0_has_an_empty_array_for_all_topics() -> None:
    """Null means all topics since v1."""
    frame = write_request(WireRequest(3, 0, 1, None, Metadata(topics=None)))

    assert frame[-4:] == b"\0\0\0\0"
    assert read_request(frame[4:]).message == Metadata(topics=None)


@pytest.mark.parametrize("name", ["00", "01"])
def test_a_topic_with_an_id_is_asked_by_its_id_whatever_its_name(name: str) -> None:
    """Java's consumer 4.2.1 sends an empty name (01) beside the id, other clients send null (00)."""
    frame = bytes.fromhex(f"0003000c 00000001 0001 61 00 02 0000000000000000000000000000002a {name} 00 00 00 00")

    asked = read_request(frame).message
    assert asked.topics == ()
    assert asked.topic_ids == ("00000000-0000-0000-0000-00000000002a",)


def test_an_address_needs_a_port() -> None:
    """The gateway replaces an actor's name by the address of its port."""
    from kemu.protocol.messages.data import BrokerMetadata

    reply = MetadataReply(brokers=(BrokerMetadata(node_id=0, host="b0"),), topics=())

    with pytest.raises(WireError, match=r"Metadata reply v0\.brokers\.host: 'b0' is not HOST:PORT"):
        write_reply(WireRequest(3, 0, 1, None, None), reply)


def test_a_fetch_reply_has_the_given_batches_and_makes_the_others() -> None:
    """A partition whose records the caller gives, and one with records without a payload."""
    batch = RecordBatch(base_offset=7, count=2, append_time_ms=5, leader_epoch=3)
    row = FetchedPartition(topic="t", partition=0, error=ErrorCode.NONE, high_watermark=9, batches=(batch,))
    reply = FetchReply(partitions=(row,))
    made = write_reply(WireRequest(1, 4, 1, None, None), reply)
    given_ = write_reply(WireRequest(1, 4, 1, None, None), reply, records={("t", 0): b""})

    assert b"t-0@8" in made
    assert read_reply(made[4:], 1, 4).message == reply
    assert b"t-0@8" not in given_


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_bytes_behind_a_valid_header_are_read_or_refused(data: st.DataObject) -> None:
    """Only WireError comes out; a request that is read has the API, version and correlation id of the header."""
    api = data.draw(st.sampled_from(list(APIS.values())))
    version = data.draw(st.integers(api.lowest, api.highest))
    head = b"".join(number.to_bytes(2, "big") for number in (api.key, version)) + b"\0\0\0\1\xff\xff"

    try:
        request = read_back(read_request(head + data.draw(st.binary(max_size=200))))
    except WireError as error:
        assert str(error)
        return
    assert (request.api_key, request.version, request.correlation_id) == (api.key, version, 1)
    assert type(request.message) is api.request.cls


def test_heartbeat_bytes_are_those_of_the_protocol_guide() -> None:
    """A frame written out by hand: length, correlation id, tags, throttle time, error, tags."""
    frame = write_reply(HEARTBEAT, HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS))

    assert frame == b"\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\x1b\0"
    assert read_request(b"\0\x12\0\0\0\0\0\x01\xff\xff") == WireRequest(18, 0, 1, None, ApiVersions())
