"""Targets that Kafka's coordinator computed, recorded in ``tests/data/target-assignors``, beside the emulator's."""

import attrs
import pytest

from lab.conformance.target_assignors.__main__ import ORACLE
from lab.conformance.target_assignors.cases import STEPS, TargetedGroup
from lab.conformance.target_assignors.recordings import KEPT, TargetAnswers

RECORDED = ORACLE.read_all(KEPT)


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.release for each in RECORDED])
def test_the_targets_are_those_of_kafka(recorded: TargetAnswers) -> None:
    """Content and order of every target, after a first join and five changes."""
    assert list(recorded.differences()) == []
    assert {group["assignor"] for group in recorded.groups} == {"uniform", "range"}
    assert {len(group["steps"]) for group in recorded.groups} == {STEPS}


def test_another_target_is_a_difference() -> None:
    """The comparison can fail."""
    group = RECORDED[0].groups[0]
    last = group["steps"][-1]
    name = next(name for name, text in last["answer"].items() if text)
    other = {**last, "answer": {**last["answer"], name: ""}}
    wrong = attrs.evolve(RECORDED[0], groups=({**group, "steps": [*group["steps"][:-1], other]},))

    assert [each.name for each in wrong.differences()] == [group["id"]]


def test_a_seed_draws_the_same_group_each_time() -> None:
    one, again, other = (TargetedGroup("range", seed, 3).next_step() for seed in (1, 1, 2))

    assert one == again != other
