"""The sticky assignors' user data, byte for byte. Source: StickyAssignor and CooperativeStickyAssignor, Kafka 3.9."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.assign.user_data import (
    StickyData,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from tests.protocol.vectors import examples, pairs
from tests.strategies import INT32, TOPIC_PARTITIONS


@pytest.mark.parametrize("row", examples("StickyAssignorUserData"))
def test_sticky_examples_are_written_and_read(row: dict[str, Any]):
    """V0 (before 2.3) has no generation; the bytes do not say which version they are."""
    partitions = pairs(row["input"]["partitions"])
    generation = row["input"]["generation"] if row["version"] == 1 else None
    data = bytes.fromhex(row["hex"])

    assert encode_sticky(partitions, generation) == data
    assert decode_sticky(data) == StickyData(partitions, generation)


@pytest.mark.parametrize("row", examples("CooperativeStickyUserData"))
def test_cooperative_examples_are_written_and_read(row: dict[str, Any]):
    """The generation alone."""
    data = bytes.fromhex(row["hex"])
    assert encode_cooperative(row["input"]["generation"]) == data
    assert decode_cooperative(data) == row["input"]["generation"]


@given(TOPIC_PARTITIONS, st.none() | INT32)
def test_sticky_user_data_survives_the_round_trip(partitions: tuple[tuple[str, int], ...], generation: int | None):
    """Whatever the order it is given in."""
    assert decode_sticky(encode_sticky(partitions, generation)) == StickyData(tuple(sorted(partitions)), generation)


@given(st.binary(max_size=40))
def test_any_bytes_are_some_user_data(data: bytes):
    """What cannot be read counts as no partitions at generation -1: a member is never refused for it."""
    read = decode_sticky(data)
    assert isinstance(read, StickyData)
    assert decode_cooperative(data) is not None
