"""The cases of CurrentAssignmentBuilderTest: one step of a member towards its target."""

import pytest

from kemu.actors.coordinator.rules import rules_of_kind
from kemu.protocol.consumer_group.reconciling import CurrentAssignment, Held, TargetAssignment, UnknownState, reconciled
from kemu.protocol.consumer_group.states import ReconcilingState
from kemu.protocol.errors import ErrorCode
from tests.kafka_tests.cases import KINDS, Case, cases, held, topic_id


@pytest.mark.parametrize(("case", "release"), cases("CurrentAssignmentBuilderTest"))
def test_the_step_is_that_of_kafkas_test(case: Case, release: str) -> None:
    given, target, owned = case["member"], case["target"], case.get("owned")
    rules = rules_of_kind(KINDS[release]).consumer_groups.reconciling
    epoch = given["epoch"]
    member = CurrentAssignment(
        ReconcilingState[given["state"]],
        epoch,
        given["previous"],
        since(given.get("assigned", ""), epoch),
        since(given.get("revoking", ""), epoch),
    )
    taken = case.get("held_by_a_member", "")
    topics = [topic_id(topic) for topic in case.get("topics", ["t", "u"])]
    aim = TargetAssignment(
        target["epoch"], list(held(target["partitions"])), topics, len(topics), case.get("changed", False)
    )

    def step() -> CurrentAssignment:
        return reconciled(
            member,
            aim,
            None if owned is None else list(held(owned)),
            lambda partition: taken != "all" and partition not in held(taken),
            rules,
        )

    expected = case["expected"]
    if expected == ErrorCode.FENCED_MEMBER_EPOCH.name:
        with pytest.raises(UnknownState):
            step()
    elif expected == "unchanged":
        assert step() == member
    else:
        after = step()
        assert (after.state.name, after.epoch, after.previous_epoch) == (
            expected["state"],
            expected["epoch"],
            expected["previous"],
        )
        for key, partitions in (("assigned", after.assigned), ("revoking", after.revoking)):
            wanted = held(expected.get(key, ""))
            assert partitions == {at: partitions.get(at) if epoch is None else epoch for at, epoch in wanted.items()}


def since(text: str, epoch: int) -> Held:
    return {partition: epoch if at is None else at for partition, at in held(text).items()}
