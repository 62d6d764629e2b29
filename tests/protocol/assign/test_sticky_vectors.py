"""Sticky and cooperative-sticky against the tests of Kafka's own classes, every step under every rack variant."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from attrs import frozen

from kemu.protocol.assign import cooperative, sticky
from kemu.protocol.assign.as_kafka import RELEASE_3_9, StickyRelease
from kemu.protocol.assign.base import Assignment, Subscriber, Topics
from kemu.protocol.assign.cooperative import CooperativeStickyAssignor, Settled, settle
from kemu.protocol.assign.optimal import OPTIMAL, OPTIMAL_COOPERATIVE
from kemu.protocol.assign.search.score import balance_score, is_balanced, moved, spread
from kemu.protocol.assign.sharing import Sharing
from kemu.protocol.assign.sticky import StickyAssignor, StickyRules
from kemu.protocol.assign.user_data import encode_cooperative, encode_sticky
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition
from tests.protocol.assign.vectors import as_sets, cases, load, pairs, steps_of


def assignor_of(
    vector: dict[str, Any], release: StickyRelease | None = None
) -> StickyAssignor | CooperativeStickyAssignor:
    rules = StickyRules(force_racks=bool(vector.get("force_rack_aware")), release=release)
    if vector["assignor"] == "sticky":
        return StickyAssignor(rules=rules)
    return CooperativeStickyAssignor(rules=rules)


def owned_before(vector: dict[str, Any], members: dict[str, Subscriber]) -> dict[MemberId, Sequence[TopicPartition]]:
    """Member -> what it says it owned, where this assignor looks for it."""
    belongings = sticky.belongings if vector["assignor"] == "sticky" else cooperative.belongings
    return {member: belongings(one)[0] for member, one in members.items()}


@frozen
class Outcome:
    """One step done: what went in and what came out."""

    vector: dict[str, Any]
    topics: Topics
    members: dict[str, Subscriber]
    sharing: Sharing
    result: Settled
    earlier: list[Assignment]
    before: dict[MemberId, Sequence[TopicPartition]]

    @property
    def first(self) -> Assignment:
        return self.result.first_pass

    @property
    def settled(self) -> Assignment:
        return self.result.assignment


def _lists(raw: Mapping[str, Any]) -> dict[str, list[TopicPartition]]:
    return {member: list(pairs(partitions)) for member, partitions in raw.items()}


def _those(wanted: Mapping[str, Any], assignment: Assignment) -> dict[str, frozenset[TopicPartition]]:
    """The assignments of the members in a vector (some vectors name one member only)."""
    return as_sets({member: assignment[member] for member in wanted})


def _sizes(assignment: Assignment) -> dict[str, int]:
    return {member: len(partitions) for member, partitions in assignment.items()}


def _per_topic(assignment: Assignment) -> list[Counter[str]]:
    return [Counter(topic for topic, _ in partitions) for partitions in assignment.values()]


def _valid(members: dict[str, Subscriber], assignment: Assignment) -> bool:
    everything = [partition for partitions in assignment.values() for partition in partitions]
    return len(everything) == len(set(everything)) and all(
        topic in members[member].topics for member, partitions in assignment.items() for topic, _ in partitions
    )


def _moves_in_circles(before: Mapping[str, Sequence[TopicPartition]], assignment: Assignment) -> bool:
    """Whether partitions of one topic went from A to B and others from B to A (PartitionMovements.isSticky)."""
    owner = {partition: member for member, partitions in before.items() for partition in partitions}
    moves = {
        (partition[0], owner[partition], member)
        for member, partitions in assignment.items()
        for partition in partitions
        if partition in owner and partition not in before[member]
    }
    return any((topic, new, old) in moves for topic, old, new in moves)


def _mismatches(topics: Topics, members: dict[str, Subscriber], assignment: Assignment) -> int:
    racks = topics.replica_racks or {}
    return sum(
        1
        for member, partitions in assignment.items()
        for topic, number in partitions
        if members[member].rack and members[member].rack not in racks[topic][number]
    )


def _exists(topics: Topics, assignment: Assignment) -> bool:
    given = sorted(partition for partitions in assignment.values() for partition in partitions)
    return given == sorted((topic, number) for topic, count in topics.partitions.items() for number in range(count))


def _named(transferring: Mapping[TopicPartition, str]) -> dict[str, str]:
    return {f"{topic}-{number}": member for (topic, number), member in transferring.items()}


EXPECTATIONS: dict[str, Callable[[Outcome, Any], bool]] = {
    "exact": lambda one, value: one.first == _lists(value),
    "exact_set": lambda one, value: _those(as_sets(value), one.first) == as_sets(value),
    "exact_settled": lambda one, value: _those(as_sets(value), one.settled) == as_sets(value),
    "member_set": lambda one, value: sorted(one.first) == sorted(value),
    "valid_and_balanced": lambda one, _: _valid(one.members, one.settled) and is_balanced(one.members, one.settled),
    "fully_balanced": lambda one, _: spread(one.settled) <= 1,
    "sizes": lambda one, value: _sizes(one.first) == value,
    "sizes_multiset": lambda one, value: sorted(_sizes(one.first).values()) == sorted(value),
    "sizes_multiset_settled": lambda one, value: sorted(_sizes(one.settled).values()) == sorted(value),
    "size_range": lambda one, value: all(value[0] <= size <= value[1] for size in _sizes(one.first).values()),
    "per_topic_count_each_member": lambda one, value: all(found == value for found in _per_topic(one.first)),
    "per_topic_count_each_member_settled": lambda one, value: all(found == value for found in _per_topic(one.settled)),
    "superset_of_step": lambda one, value: all(
        set(one.first[member]) >= set(one.earlier[step][member]) for member, step in value.items()
    ),
    "subset_of_step": lambda one, value: all(
        set(one.first[member]) <= set(one.earlier[step][member]) for member, step in value.items()
    ),
    "subset_of": lambda one, value: all(
        set(one.first[member]) <= set(pairs(partitions)) for member, partitions in value.items()
    ),
    "no_duplicate_assignment": lambda one, _: _valid(one.members, one.first),
    "total_assigned": lambda one, value: sum(_sizes(one.first).values()) == value,
    "transferring": lambda one, value: value is None or _named(one.sharing.transferring) == value,
    "transferring_count": lambda one, value: len(one.sharing.transferring) == value,
    "is_sticky": lambda one, _: not _moves_in_circles(one.before, one.settled),
    "rack_mismatches": lambda one, value: _mismatches(one.topics, one.members, one.first) == value,
    "moved": lambda one, value: moved(one.before, one.settled) == value,
    "only_existing_partitions": lambda one, _: _exists(one.topics, one.settled),
}


def _compare_with_kafka(
    vector: dict[str, Any],
    reference: dict[str, Any],
    topics: Topics,
    members: dict[str, Subscriber],
    before: dict[MemberId, Sequence[TopicPartition]],
    assignment: Assignment,
) -> None:
    """Never less balanced than Kafka, and no more moves; balanced better, then as few moves as that balance needs."""
    if "assignment" not in reference and "sizes" not in reference:
        return
    settled = reference.get("assignment_settled", reference.get("assignment", {}))
    sizes = reference.get("sizes") or {member: len(partitions) for member, partitions in settled.items()}
    theirs = balance_score(sizes.values() if isinstance(sizes, dict) else sizes)
    ours = balance_score(map(len, assignment.values()))
    assert ours <= theirs
    if "moved" in reference and moved(before, assignment) > reference["moved"]:
        assert ours < theirs
        fewest = settle(OPTIMAL if vector["assignor"] == "sticky" else OPTIMAL_COOPERATIVE, topics, members).assignment
        assert balance_score(map(len, fewest.values())) == ours
        assert moved(before, assignment) <= moved(before, fewest)


@pytest.mark.parametrize(("vector", "variant"), cases("assignor_sticky") + cases("assignor_cooperative"))
def test_does_what_kafkas_tests_expect_and_moves_no_more(vector: dict[str, Any], variant: str) -> None:
    """AbstractStickyAssignorTest, StickyAssignorTest, CooperativeStickyAssignorTest; KIP-54, examples 1 to 3."""
    assignor = assignor_of(vector)
    settled: list[Assignment] = []
    for step, topics, members in steps_of(vector, variant, settled):
        before = owned_before(vector, members)
        result = settle(assignor, topics, members)
        outcome = Outcome(vector, topics, members, assignor.share(topics, members), result, list(settled), before)
        settled.append(result.assignment)
        for key, value in step["expect"].items():
            assert EXPECTATIONS[key](outcome, value), (key, value, result)
        _compare_with_kafka(vector, step["reference"], topics, members, before, result.assignment)


@pytest.mark.parametrize(("vector", "variant"), cases("assignor_sticky") + cases("assignor_cooperative"))
def test_kafkas_own_do_what_kafkas_tests_expect(vector: dict[str, Any], variant: str) -> None:
    """The same tests, which Kafka's classes pass."""
    assignor = assignor_of(vector, RELEASE_3_9)
    settled: list[Assignment] = []
    for step, topics, members in steps_of(vector, variant, settled):
        before = owned_before(vector, members)
        result = settle(assignor, topics, members)
        outcome = Outcome(vector, topics, members, assignor.share(topics, members), result, list(settled), before)
        settled.append(result.assignment)
        for key, value in step["expect"].items():
            assert EXPECTATIONS[key](outcome, value), (key, value, result)


def _user_data(raw: dict[str, Any]) -> bytes | None:
    if "user_data_hex" in raw:
        return None if raw["user_data_hex"] is None else bytes.fromhex(raw["user_data_hex"])
    data = raw["user_data"]
    if data["schema"] == "coop_v0":
        return encode_cooperative(data["generation"])
    assert data["schema"] == "sticky_v1"
    return encode_sticky(pairs(data["owned"]), data["generation"])


@pytest.mark.parametrize("vector", [v for v in load("assignor_userdata") if "assignor" in v], ids=lambda v: v["name"])
def test_what_members_claim_is_read_as_kafka_reads_it(vector: dict[str, Any]) -> None:
    """AbstractStickyAssignorTest.testMemberData and the decoding tests of both classes."""
    raw = vector["input"]
    one = Subscriber((), pairs(raw["subscription_owned"]), raw["subscription_generation"], user_data=_user_data(raw))
    belongings = sticky.belongings if vector["assignor"] == "sticky" else cooperative.belongings
    partitions, generation = belongings(one)

    assert sorted(partitions) == sorted(pairs(vector["expect"]["partitions"]))
    expected = vector["expect"]["generation"]
    assert generation == (NO_GENERATION if expected is None else expected)
