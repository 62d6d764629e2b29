"""Names: which host an actor lives on, and which partition of the offsets topic holds a group."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.names import OFFSETS_PARTITIONS, host_of, java_string_hash, offsets_partition_of
from tests.protocol.vectors import examples


@pytest.mark.parametrize("row", examples("group->offsets partition (50 partitions)"))
def test_a_group_lives_in_kafkas_partition(row: dict[str, Any]):
    """Source: partitionFor: Utils.abs(groupId.hashCode) % partitions."""
    assert offsets_partition_of(row["input"]["group"]) == row["partition"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("group", 98_629_247), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1_772_899)],
)
def test_strings_hash_as_in_java(text: str, code: int):
    """``String.hashCode`` counts UTF-16 units; a character beyond the first plane is two of them."""
    assert java_string_hash(text) == code


def test_the_smallest_hash_counts_as_zero():
    """Utils.abs: the absolute value of the smallest int is no int."""
    assert offsets_partition_of("polygenelubricants") == 0
    assert offsets_partition_of("") == 0


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 500))
def test_every_group_has_a_partition(group: str, partitions: int):
    """Whatever it is called."""
    assert 0 <= offsets_partition_of(group, partitions) < partitions
    assert 0 <= offsets_partition_of(group) < OFFSETS_PARTITIONS


def test_a_part_of_a_host_lives_on_it():
    """``b0/coordinator`` crashes with ``b0``."""
    assert [host_of(name) for name in ("c1", "b0", "b0/coordinator")] == ["c1", "b0", "b0"]
