"""The bytes of the sticky assignors' user data, both ways, and whatever else comes along the wire."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.assign.base import Memory
from kemu.protocol.assign.cooperative import COOPERATIVE_STICKY
from kemu.protocol.assign.sticky import STICKY
from kemu.protocol.assign.user_data import (
    StickyData,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from tests.protocol.assign.vectors import load, pairs

WIRE = load("wire_examples")


@pytest.mark.parametrize("row", [row for row in WIRE if row["schema"] == "StickyAssignorUserData"])
def test_sticky_user_data_has_kafkas_bytes_in_both_versions(row: dict[str, Any]) -> None:
    """StickyAssignor's V0 (KIP-54) and V1 (KIP-341) schemas."""
    partitions = pairs(row["input"]["partitions"])
    generation = row["input"]["generation"] if row["version"] == 1 else None

    assert encode_sticky(partitions, generation).hex() == row["hex"]
    assert decode_sticky(bytes.fromhex(row["hex"])) == StickyData(partitions, generation)


@pytest.mark.parametrize("row", [row for row in WIRE if row["schema"] == "CooperativeStickyUserData"])
def test_cooperative_user_data_is_the_generation(row: dict[str, Any]) -> None:
    """CooperativeStickyAssignor's V0 schema."""
    generation = row["input"]["generation"]

    assert encode_cooperative(generation).hex() == row["hex"]
    assert decode_cooperative(bytes.fromhex(row["hex"])) == generation


def test_members_write_nothing_or_minus_one_before_their_first_assignment() -> None:
    """StickyAssignor.subscriptionUserData returns null; the cooperative one always writes a generation."""
    assert STICKY.user_data(None) is None
    assert COOPERATIVE_STICKY.user_data(None) == b"\xff\xff\xff\xff"
    assert decode_sticky(STICKY.user_data(Memory((("t", 1),), 3))) == StickyData((("t", 1),), 3)


PARTITIONS = st.lists(st.tuples(st.text(min_size=1, max_size=5).filter(str.isprintable), st.integers(0, 2**31 - 1)))


@given(PARTITIONS, st.none() | st.integers(-1, 2**31 - 1))
def test_what_was_written_is_read_topic_by_topic_in_the_order_it_was_listed(
    partitions: Any, generation: int | None
) -> None:
    """StickyAssignor.serializeTopicPartitionAssignment: grouped by topic, numbers as listed."""
    found = decode_sticky(encode_sticky(partitions, generation))

    assert found.generation == generation
    assert sorted(found.partitions) == sorted(partitions)
    for topic, _ in partitions:
        assert [one for one in found.partitions if one[0] == topic] == [one for one in partitions if one[0] == topic]


@given(st.binary(max_size=60) | st.binary(max_size=8).map(lambda tail: struct.pack(">i", 1) + tail))
def test_no_bytes_at_all_make_the_reader_fail(data: bytes) -> None:
    """AbstractStickyAssignor: what cannot be parsed counts as no partitions at generation -1."""
    found = decode_sticky(data)

    assert found.generation is None or isinstance(found.generation, int)
    assert isinstance(decode_cooperative(data), int)
