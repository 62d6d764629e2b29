"""The steps of members towards their targets (KIP-848) are those of Kafka's coordinator."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from kemu.protocol.consumer_group.reconciling import CurrentAssignment, Held, TargetAssignment, UnknownState, reconciled
from kemu.protocol.consumer_group.rules import (
    RULES_4_0,
    RULES_4_0_1,
    RULES_4_1,
    RULES_4_2,
    RULES_4_3,
    ConsumerGroupRules,
)
from kemu.protocol.consumer_group.states import Partition, ReconcilingState
from tests.case_files import load

CASES = [each for each in load("consumer848.json")["vectors"] if each["kind"] == "current-assignment"]
RELEASES = {"4.0.1": RULES_4_0_1, "4.0": RULES_4_0, "4.1": RULES_4_1, "4.2": RULES_4_2, "4.3": RULES_4_3}
UNREVOKED = ReconcilingState.UNREVOKED_PARTITIONS


def pairs(partitions: Mapping[str, list[int]]) -> list[Partition]:
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def held(partitions: Mapping[str, list[int]]) -> Held:
    return dict.fromkeys(pairs(partitions), 0)


def parts(member: CurrentAssignment) -> Mapping[str, Any]:
    return {
        "state": member.state.name,
        "epoch": member.epoch,
        "previous_epoch": member.previous_epoch,
        "assigned": sorted(member.assigned),
        "revoking": sorted(member.revoking),
    }


@pytest.mark.parametrize("rules", RELEASES.values(), ids=RELEASES)
@pytest.mark.parametrize("case", CASES, ids=[each["id"] for each in CASES])
def test_the_step_is_that_of_kafka(case: Mapping[str, Any], rules: ConsumerGroupRules) -> None:
    given = case["member"]
    member = CurrentAssignment(
        ReconcilingState[given["state"]],
        given["epoch"],
        given["previous_epoch"],
        held(given["assigned"]),
        held(given["revoking"]),
    )
    taken = pairs(case["held_by_any_member"])
    target = TargetAssignment(case["target_epoch"], pairs(case["target"]), ("t",), 1)
    owned = None if case["owned"] is None else pairs(case["owned"])
    expected = case["expected"]

    def step() -> CurrentAssignment:
        return reconciled(member, target, owned, lambda partition: partition not in taken, rules.reconciling)

    if "error" in expected:
        with pytest.raises(UnknownState):
            step()
        return
    wanted = {**expected, **{name: sorted(pairs(expected[name])) for name in ("assigned", "revoking")}}
    assert parts(step()) == wanted


def step(
    member: CurrentAssignment,
    target: TargetAssignment,
    owned: list[Partition] | None,
    rules: ConsumerGroupRules,
    taken: tuple[Partition, ...] = (),
) -> CurrentAssignment:
    return reconciled(member, target, owned, lambda at: at not in (*taken, *member.revoking), rules.reconciling)


REVOKED_ONE = CurrentAssignment(UNREVOKED, 1, 1, {("t", 0): 1, ("t", 1): 1}, {("t", 2): 1})


@pytest.mark.parametrize(("release", "epoch"), [("4.0", 2), ("4.1", 2), ("4.2", 1), ("4.3", 1)])
def test_a_member_that_must_revoke_again_gets_the_next_epoch_up_to_4_1(release: str, epoch: int) -> None:
    """CurrentAssignmentBuilder.build 4.1.1: memberEpoch() + 1; 4.2.1: memberEpoch()."""
    target = TargetAssignment(5, [("t", 0)], ("t",), 1)

    after = step(REVOKED_ONE, target, [("t", 0), ("t", 1)], RELEASES[release])

    assert (after.state, after.epoch, after.previous_epoch) == (UNREVOKED, epoch, 1)
    assert list(after.revoking) == [("t", 1)]


@pytest.mark.parametrize(
    ("release", "state"), [("4.0.1", "UNRELEASED_PARTITIONS"), ("4.0", "STABLE"), ("4.2", "STABLE"), ("4.3", "STABLE")]
)
def test_since_4_0_2_a_member_gets_its_own_revoked_partition_back(release: str, state: str) -> None:
    """CurrentAssignmentBuilder.computeNextAssignment 4.0.1, 4.0.2. Seen on a real 4.0.2."""
    target = TargetAssignment(5, [("t", 0), ("t", 1), ("t", 2)], ("t",), 1)

    after = step(REVOKED_ONE, target, [("t", 0), ("t", 1)], RELEASES[release])

    assert after.state.name == state
    assert after.assigned.get(("t", 2)) == (None if release == "4.0.1" else 5)


@pytest.mark.parametrize(("release", "previous"), [("4.1", None), ("4.2", 3), ("4.3", 4)])
def test_since_4_2_a_stable_member_revokes_the_topic_that_it_no_longer_subscribes_to(
    release: str, previous: int | None
) -> None:
    """CurrentAssignmentBuilder.updateCurrentAssignment 4.2.1, and 4.3.0 with updateMemberEpoch."""
    member = CurrentAssignment(ReconcilingState.STABLE, 4, 3, {("t", 0): 4, ("u", 0): 2})
    target = TargetAssignment(4, [("t", 0), ("u", 0)], ("t",), 1, changed=True)

    after = step(member, target, None, RELEASES[release])

    if previous is None:
        assert after is member
    else:
        assert after == CurrentAssignment(UNREVOKED, 4, previous, {("t", 0): 4}, {("u", 0): 2})
    assert step(member, attrs.evolve(target, changed=False), None, RELEASES[release]) is member


@pytest.mark.parametrize(("release", "previous"), [("4.2", 3), ("4.3", 4)])
def test_an_end_of_the_subscription_repeats_the_epoch_since_4_3_also_without_partitions(
    release: str, previous: int
) -> None:
    """CurrentAssignmentBuilder.updateCurrentAssignment compares its maps by identity: an empty map is another map."""
    member = CurrentAssignment(ReconcilingState.STABLE, 4, 3)

    after = step(member, TargetAssignment(4, [], changed=True), [], RELEASES[release])

    assert after == attrs.evolve(member, previous_epoch=previous)


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_since_4_2_the_target_has_only_subscribed_topics(release: str) -> None:
    """CurrentAssignmentBuilder.computeNextAssignment 4.2.1."""
    member = CurrentAssignment(ReconcilingState.STABLE, 4, 3)

    after = step(member, TargetAssignment(5, [("t", 0), ("u", 0)], ("t",), 1), [], RELEASES[release])

    assert sorted(after.assigned) == ([("t", 0)] if release == "4.2" else [("t", 0), ("u", 0)])
