"""The coordinator's assignors (KIP-848) give the targets of Kafka's classes."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.protocol.consumer_group.assignors import ASSIGNORS
from kemu.protocol.consumer_group.shares import Share, TargetMember, member_order
from tests.case_files import load

CASES = [each for each in load("consumer848.json")["vectors"] if each["kind"] == "assignor"]
TOPIC_IDS = {"t": "00000000-0000-0000-0000-000000000001", "u": "00000000-0000-0000-0000-000000000002"}


def share(partitions: Mapping[str, list[int]]) -> Share:
    return {TOPIC_IDS[topic]: tuple(numbers) for topic, numbers in partitions.items()}


@pytest.mark.parametrize("case", CASES, ids=[each["id"] for each in CASES])
def test_the_target_is_that_of_kafka(case: Mapping[str, Any]) -> None:
    members = {
        each["id"]: TargetMember(
            topics=tuple(TOPIC_IDS[topic] for topic in each["topics"]),
            names=len(each["topics"]),
            target=share(each["previous"]),
            instance_id=each["instance"],
        )
        for each in case["members"]
    }
    assert member_order(members) == case["member_order"]
    partitions = {TOPIC_IDS[topic]: count for topic, count in case["topics"].items()}
    ordered = {member: members[member] for member in case["member_order"]}
    found = ASSIGNORS[case["assignor"]](ordered, partitions, case["subscription"] == "Homogeneous")
    assert found == {member: share(expected) for member, expected in case["expected"].items()}


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_with_equal_subscriptions_the_first_member_decides_about_the_topics(name: str) -> None:
    """A member without topics joins while the former subscriptions count: nobody gets a partition.

    Seen on a real 4.3.0. Source: ``RangeAssignor.assignHomogeneousGroup``, ``UniformHomogeneousAssignmentBuilder``.
    """
    topic = TOPIC_IDS["t"]
    members = {"a": TargetMember((), 0), "b": TargetMember((topic,), 1)}

    assert all(not given for given in ASSIGNORS[name](members, {topic: 2}, True).values())
    assert ASSIGNORS[name](members, {topic: 2}, False)["b"] == {topic: (0, 1)}
