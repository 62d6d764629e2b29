"""Where new replicas go. Source: Kafka's AdminTest and AdminRackAwareTest; KIP-36."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.placement import CannotPlace, place, racks_in_turn


def test_kafkas_own_example():
    """AdminTest.testReplicaAssignment: 5 brokers, 10 partitions, 3 replicas, from 0 with shift 0."""
    assert place(range(5), 10, 3) == (
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    )  # fmt: skip


def test_racks_are_taken_in_turn():
    """AdminRackAwareTest.testGetRackAlternatedBrokerListAndAssignReplicasToBrokers."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}

    assert racks_in_turn(range(6), racks) == [0, 3, 1, 5, 4, 2]


@pytest.mark.parametrize("factor", [0, 4])
def test_a_replication_factor_that_is_not_possible_is_refused(factor: int):
    """InvalidReplicationFactorException."""
    with pytest.raises(CannotPlace, match="replication factor"):
        place((0, 1, 2), 1, factor)


def test_racks_of_some_brokers_only_are_refused():
    """AdminOperationException: not all brokers have rack information."""
    with pytest.raises(CannotPlace, match=r"without a rack: \[1\]"):
        place((0, 1), 1, 1, racks={0: "a"})


@given(
    count=st.integers(1, 9),
    partitions=st.integers(1, 40),
    data=st.data(),
    start=st.integers(0, 20),
    shift=st.integers(0, 20),
)
def test_replicas_are_distinct_and_leaders_even(
    count: int, partitions: int, data: st.DataObject, start: int, shift: int
):
    """For any draw: distinct replicas, leaders differ by one at most; with racks, as many racks as possible."""
    factor = data.draw(st.integers(1, count))
    racks = data.draw(st.none() | st.fixed_dictionaries({broker: st.sampled_from("abc") for broker in range(count)}))

    rows = place(range(count), partitions, factor, racks=racks, start=start, shift=shift)

    assert len(rows) == partitions
    assert all(len(set(row)) == factor for row in rows)
    leaders = Counter(row[0] for row in rows)
    assert max(leaders.values()) - min(leaders[broker] for broker in range(count)) <= 1
    if racks:
        most = min(factor, len(set(racks.values())))
        assert all(len({racks[broker] for broker in row}) == most for row in rows)
