"""The steps of members towards their targets (KIP-848) are those of Kafka's coordinator."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.protocol.consumer_group.reconciling import (
    CurrentAssignment,
    Held,
    Partition,
    ReconcilingRules,
    ReconcilingState,
    TargetAssignment,
    UnknownState,
    reconciled,
)
from tests.case_files import load

CASES = [each for each in load("consumer848.json")["vectors"] if each["kind"] == "current-assignment"]
RULES = ReconcilingRules()


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


@pytest.mark.parametrize("case", CASES, ids=[each["id"] for each in CASES])
def test_the_step_is_that_of_kafka(case: Mapping[str, Any]) -> None:
    given = case["member"]
    member = CurrentAssignment(
        ReconcilingState[given["state"]],
        given["epoch"],
        given["previous_epoch"],
        held(given["assigned"]),
        held(given["revoking"]),
    )
    taken = pairs(case["held_by_any_member"])
    target = TargetAssignment(case["target_epoch"], pairs(case["target"]))
    owned = None if case["owned"] is None else pairs(case["owned"])
    expected = case["expected"]

    def step() -> CurrentAssignment:
        return reconciled(member, target, owned, lambda partition: partition not in taken, RULES)

    if "error" in expected:
        with pytest.raises(UnknownState):
            step()
        return
    wanted = {**expected, **{name: sorted(pairs(expected[name])) for name in ("assigned", "revoking")}}
    assert parts(step()) == wanted
