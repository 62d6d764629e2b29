"""Range and round-robin against Kafka's own tests and the examples of KIP-54."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.assign.base import Assignment, Assignor, Subscriber, Topics
from kemu.protocol.assign.range import RangeAssignor
from kemu.protocol.assign.round_robin import RoundRobinAssignor
from kemu.protocol.assign.search.order import static_first
from kemu.protocol.assign.search.racks import use_racks
from tests.protocol.assign.vectors import as_sets, cases, load, pairs, steps_of


def _assignor(vector: dict[str, Any]) -> Assignor:
    if vector["assignor"] == "range":
        return RangeAssignor(force_racks=bool(vector.get("force_rack_aware")))
    return RoundRobinAssignor()


def _mismatches(topics: Topics, members: dict[str, Subscriber], assignment: Assignment) -> int:
    racks = topics.replica_racks or {}
    return sum(
        1
        for member, partitions in assignment.items()
        for topic, number in partitions
        if members[member].rack and topic in racks and members[member].rack not in racks[topic][number]
    )


@pytest.mark.parametrize(("vector", "variant"), cases("assignor_range_roundrobin"))
def test_assigns_as_kafka_does(vector: dict[str, Any], variant: str) -> None:
    """RangeAssignorTest, RoundRobinAssignorTest, and the round-robin columns of KIP-54's examples."""
    assignor = _assignor(vector)
    settled: list[Assignment] = []
    for step, topics, members in steps_of(vector, variant, settled):
        assignment = assignor.assign(topics, members)
        settled.append(assignment)
        expect = step["expect"]
        assert expect, "a step that expects nothing"
        for key, value in expect.items():
            if key == "exact":
                assert assignment == {member: list(pairs(partitions)) for member, partitions in value.items()}
            elif key == "exact_set":
                assert as_sets(assignment) == as_sets(value)
            elif key == "exact_by_instance":
                by_instance = {members[member].instance_id: found for member, found in assignment.items()}
                assert as_sets(by_instance) == as_sets(value)
            elif key == "rack_mismatches":
                assert _mismatches(topics, members, assignment) == value
            else:
                raise AssertionError(f"unknown expectation {key}")


@pytest.mark.parametrize("vector", [v for v in load("assignor_userdata") if v.get("kind") == "member_sort"])
def test_static_members_come_first_by_instance_id(vector: dict[str, Any]) -> None:
    """AbstractPartitionAssignorTest.testMemberInfoSorting*."""
    members = {member: Subscriber((), instance_id=instance) for member, instance in vector["input"]}

    assert static_first(members) == vector["expect"]


@pytest.mark.parametrize("vector", [v for v in load("assignor_userdata") if v.get("kind") == "use_rack_aware"])
def test_racks_are_looked_at_only_when_they_can_matter(vector: dict[str, Any]) -> None:
    """AbstractPartitionAssignorTest.testUseRackAwareAssignment."""
    given_ = vector["input"]
    racks = given_["partition_racks"]
    partitions = {
        "all racks": [frozenset(racks)] * 3,
        "one of the racks": [frozenset({rack}) for rack in racks],
        "no partitions": [],
    }[given_["each_partition_on"]]

    assert use_racks(given_["consumer_racks"], partitions, given_["forced"]) == vector["expect"]


GROUPS = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        st.dictionaries(st.sampled_from("tuvw"), st.integers(0, 9), min_size=1),
        st.lists(
            st.tuples(
                st.lists(st.sampled_from("tuvwx"), max_size=5),
                st.sampled_from([None, "a", "b"]),
                st.booleans(),
            ),
            min_size=size,
            max_size=size,
        ),
        st.permutations(range(size)),
        st.randoms(use_true_random=False),
    )
)


@given(GROUPS)
@pytest.mark.parametrize("assignor", [RangeAssignor(), RangeAssignor(force_racks=True), RoundRobinAssignor()])
def test_every_partition_goes_to_one_subscriber_whatever_the_order_of_the_input(assignor: Assignor, group: Any) -> None:
    """Validity and determinism: the contract of ``Assignor.assign``."""
    counts, raw, order, random = group
    members = {
        f"m{number}": Subscriber(tuple(topics), rack=rack, instance_id=f"i{-number}" if static else None)
        for number, (topics, rack, static) in enumerate(raw)
    }
    racks = {topic: tuple((random.choice("abc"),) for _ in range(count)) for topic, count in counts.items()}
    assignment = assignor.assign(Topics(counts, racks), members)

    shuffled = {f"m{number}": members[f"m{number}"] for number in order}
    assert assignor.assign(Topics(dict(reversed(counts.items())), racks), shuffled) == assignment
    got = sorted(partition for partitions in assignment.values() for partition in partitions)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert got == sorted((topic, number) for topic in counts if topic in wanted for number in range(counts[topic]))
    assert set(assignment) == set(members)
    for member, partitions in assignment.items():
        assert {topic for topic, _ in partitions} <= set(members[member].topics)


def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    """KIP-54, example 3: the range assignor leaves C2 with nothing."""
    members = {f"C{number}": Subscriber(("t0", "t1")) for number in range(3)}

    assert RangeAssignor().assign(Topics({"t0": 2, "t1": 2}), members) == {
        "C0": [("t0", 0), ("t1", 0)],
        "C1": [("t0", 1), ("t1", 1)],
        "C2": [],
    }
