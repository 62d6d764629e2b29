"""Subscriptions and assignments, byte for byte. Source: ConsumerProtocol and its schemas, Kafka 3.9."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.messages.member import (
    HIGHEST_VERSION,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
    version_of,
)
from kemu.protocol.wire.codec import Malformed, TooLarge, UnsupportedVersion
from tests.protocol.vectors import ROWS, TESTED, examples, pairs, raw
from tests.strategies import ASSIGNMENTS, SUBSCRIPTIONS

VERSIONS = range(HIGHEST_VERSION + 1)
FULL = Subscription(("foo", "bar"), b"\x05", (("foo", 1), ("bar", 2), ("foo", 0)), 5, "a")
SHARED = Assignment((("foo", 1), ("bar", 2), ("foo", 0)), b"\xca\xfe")


def as_written(subscription: Subscription, version: int) -> Subscription:
    """The content that a reader of that version sees: sorted, without the fields the version lacks."""
    return Subscription(
        tuple(sorted(subscription.topics)),
        subscription.user_data,
        tuple(sorted(subscription.owned, key=lambda one: one)) if version >= 1 else (),
        subscription.generation if version >= 2 else -1,
        (subscription.rack or None) if version >= 3 else None,
    )


def test_every_schema_of_the_examples_has_a_test():
    """A row whose schema nobody reads would be a vector that is never checked."""
    assert {row["schema"] for row in ROWS} <= TESTED


@pytest.mark.parametrize("row", examples("ConsumerProtocolSubscription"))
def test_subscription_examples_are_written_and_read(row: dict[str, Any]):
    """Bytes of Kafka's own ConsumerProtocol class."""
    given_ = row["input"]
    subscription = Subscription(
        tuple(given_["topics"]),
        raw(given_["user_data"]),
        pairs(given_["owned"]),
        given_["generation"],
        given_["rack"],
    )
    data = bytes.fromhex(row["hex"])

    assert encode_subscription(subscription, row["version"]) == data
    assert decode_subscription(data) == as_written(subscription, row["version"])
    assert version_of(data) == row["version"]


@pytest.mark.parametrize("row", examples("ConsumerProtocolAssignment"))
def test_assignment_examples_are_written_and_read(row: dict[str, Any]):
    """Bytes of Kafka's own ConsumerProtocol class; topics stand in order of first appearance."""
    assignment = Assignment(pairs(row["input"]["partitions"]), raw(row["input"]["user_data"]))
    data = bytes.fromhex(row["hex"])

    assert encode_assignment(assignment, row["version"]) == data
    by_topic = list(dict.fromkeys(topic for topic, _ in assignment.partitions))
    read = decode_assignment(data)
    assert read.partitions == tuple(sorted(assignment.partitions, key=lambda one: by_topic.index(one[0])))
    assert read.user_data == assignment.user_data
    assert version_of(data) == row["version"]


@given(SUBSCRIPTIONS, st.sampled_from(VERSIONS))
def test_a_subscription_survives_the_round_trip_as_far_as_its_version_goes(subscription: Subscription, version: int):
    """KIP-429, KIP-792, KIP-881: each version adds a field at the end."""
    assert decode_subscription(encode_subscription(subscription, version)) == as_written(subscription, version)


@given(ASSIGNMENTS, st.sampled_from(VERSIONS))
def test_an_assignment_survives_the_round_trip(assignment: Assignment, version: int):
    """All four versions have the same body."""
    read = decode_assignment(encode_assignment(assignment, version))
    assert sorted(read.partitions) == sorted(assignment.partitions)
    assert [n for t, n in read.partitions if t == ""] == [n for t, n in assignment.partitions if t == ""]
    assert read.user_data == assignment.user_data
    assert decode_assignment(encode_assignment(read, version)) == read


@pytest.mark.parametrize("version", [4, 17, 32767])
def test_a_version_of_the_future_is_read_as_3_and_its_tail_ignored(version: int):
    """ConsumerProtocol: a newer version may only add at the end."""
    future = version.to_bytes(2, "big")
    subscription = future + encode_subscription(FULL)[2:] + b"\x00\x01what 4 brings"
    assignment = future + encode_assignment(SHARED)[2:] + b"more"

    assert decode_subscription(subscription) == as_written(FULL, 3)
    assert decode_assignment(assignment) == decode_assignment(encode_assignment(SHARED))
    assert version_of(subscription) == version_of(assignment) == version


@given(SUBSCRIPTIONS, st.sampled_from(VERSIONS))
def test_a_subscription_of_any_version_can_be_read_as_an_older_one(subscription: Subscription, version: int):
    """The broker reads topics as version 0 whatever the version says."""
    data = encode_subscription(subscription)
    assert decode_subscription(data, at_most=version) == as_written(subscription, version)
    assert subscribed_topics(data) == tuple(sorted(subscription.topics))


def test_the_broker_finds_topics_even_where_later_fields_are_broken():
    """Read as version 0, bytes after the user data do not matter."""
    data = encode_subscription(FULL)[: len(encode_subscription(FULL, 0)) + 1]
    assert subscribed_topics(data) == ("bar", "foo")
    with pytest.raises(Malformed, match="owned"):
        decode_subscription(data)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscription_cut_anywhere_is_malformed(version: int):
    """Never a part of one: every missing byte is an error that names a field."""
    data = encode_subscription(FULL, version)
    for size in range(len(data)):
        with pytest.raises(
            Malformed, match=r"^ConsumerProtocolSubscription\.(version|topics|user_data|owned|gen|rack)"
        ):
            decode_subscription(data[:size])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_cut_anywhere_is_malformed(version: int):
    """Empty bytes (a follower the leader forgot) are no assignment either."""
    data = encode_assignment(SHARED, version)
    for size in range(len(data)):
        with pytest.raises(Malformed, match=r"^ConsumerProtocolAssignment\.(version|partitions|user_data)"):
            decode_assignment(data[:size])


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_a_negative_version_is_malformed(decode: Any):
    """ConsumerProtocol: "Unsupported subscription version"."""
    with pytest.raises(Malformed, match="version: negative, -1"):
        decode(b"\xff\xff" + bytes(40))


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_nobody_declared_is_not_written(version: int):
    """Only v0 to v3 exist."""
    with pytest.raises(UnsupportedVersion, match="v0 to v3"):
        encode_subscription(FULL, version)
    with pytest.raises(UnsupportedVersion, match="v0 to v3"):
        encode_assignment(SHARED, version)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("0000 ffffffff ffffffff", "topics: may not be null"),
        ("0000 7fffffff ffffffff", "topics: at least 2147483647 bytes needed, 4 left"),
        ("0000 00000001 ffff ffffffff", "topics: may not be null"),
        ("0000 00000001 0002 c328 ffffffff", "topics: not UTF-8"),
        ("0001 00000000 ffffffff ffffffff", "owned: may not be null"),
        ("0001 00000000 ffffffff 00000001 0001 74 00000003 00000000", "owned.partitions: at least 12 bytes needed"),
        ("0001 00000000 ffffffff 00000001 0001 74 ffffffff", "owned.partitions: may not be null"),
    ],
)
def test_what_no_writer_writes_is_malformed_and_says_where(data: str, said: str):
    """None of topics, owned and their parts is nullable; a count cannot be larger than what is left."""
    with pytest.raises(Malformed, match=said):
        decode_subscription(bytes.fromhex(data))


def test_negative_generations_and_empty_racks_read_as_none():
    """ConsumerProtocol: a generation below 0 and an empty rack are absent."""
    data = encode_subscription(Subscription(("t",), generation=-1, rack=""))
    assert decode_subscription(data.replace(b"\xff\xff\xff\xff\x00\x00", b"\xff\xff\xff\xf0\x00\x00")) == Subscription(
        ("t",)
    )


def test_strings_and_numbers_without_a_form_in_bytes_are_refused():
    """A string has an int16 length and is UTF-8, a partition is an int32."""
    with pytest.raises(TooLarge, match="32768 bytes"):
        encode_subscription(Subscription(("t" * 32_768,)))
    with pytest.raises(Malformed, match="UTF-8"):
        encode_subscription(Subscription(("\ud800",)))
    with pytest.raises(Malformed, match="int32"):
        encode_assignment(Assignment((("t", 2**31),)))
    with pytest.raises(Malformed, match="int32"):
        encode_subscription(Subscription(("t",), generation=2**31))
