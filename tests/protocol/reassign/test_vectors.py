"""Every vector of reassignment.json against the planner's pieces (KIP-435 and KIP-455)."""

from typing import Any

import pytest

from kemu.protocol.errors import ErrorCode
from kemu.protocol.nodes import ReplicaAssignment
from kemu.protocol.reassign.moves import UNLIMITED, Move, Standing, next_step
from kemu.protocol.reassign.plans import plan_reassignment
from kemu.protocol.reassign.requests import refusal
from tests.case_files import load
from tests.protocol.reassign.paper import Paper

FILE = load("reassignment.json")
KNOWN = {
    "name", "min_isr", "limits", "online", "start", "target", "leader", "isr", "events",
    "steps", "detail", "rounds", "waits", "ends", "notes",
}  # fmt: skip


def by_name(cases: list[Any]) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in cases]


@pytest.mark.parametrize("vector", by_name(FILE["vectors"]))
def test_the_steps_of_a_reassignment_are_those_of_the_vector(vector: dict[str, Any]) -> None:
    """KIP-435, "Calculating a Reassignment Step", "Collecting a reassignment batch" and its example, list by list."""
    assert set(vector) <= KNOWN, "an unknown key expects what is not checked"
    paper = Paper(vector)

    paper.play()

    lists = paper.rounds if paper.many else [row["p"] for row in paper.rounds]
    assert lists == vector["steps"]
    assert paper.ends == vector["ends"]
    assert not paper.events, "an event of the vector never came"
    if vector.get("detail"):
        assert paper.detail == vector["detail"]
    if "waits" in vector:
        assert [wait for wait in paper.waits if wait in vector["waits"]] == vector["waits"]
    if "rounds" in vector:
        said = [
            {"round": number, "leader_moves": moves, "started": started}
            for number, (moves, started) in enumerate(zip(paper.leader_moves, paper.started, strict=True), 1)
        ]
        assert said == vector["rounds"]


PLAIN = [case for case in FILE["vectors"] if not case.get("events") and "isr" not in case]


@pytest.mark.parametrize("vector", by_name(PLAIN))
def test_a_plan_on_paper_has_the_same_batches(vector: dict[str, Any]) -> None:
    """``kemu plan-reassignment`` computes the same as its single steps."""
    many = isinstance(vector["start"], dict)
    names = list(vector["start"]) if many else ["p"]
    paper = Paper(vector)

    def lists(key: str) -> dict[tuple[str, int], Any]:
        return {(name, 0): vector[key][name] if many else vector[key] for name in names}

    plan = plan_reassignment(
        {at: tuple(replicas) for at, replicas in lists("start").items()},
        {at: tuple(replicas) for at, replicas in lists("target").items()},
        limits=paper.limits, min_isr=paper.min_isr, online=paper.online, leaders=lists("leader"),
    )  # fmt: skip

    steps = [{each.at[0]: list(each.step.replicas) for each in batch} for batch in plan.batches]
    assert (steps if many else [step["p"] for step in steps]) == vector["steps"]
    assert ("waiting" if plan.waiting else "complete") == vector["ends"]


@pytest.mark.parametrize("case", by_name(FILE["kip455_assignment"]))
def test_an_assignment_is_reassigned_as_kip_455_says(case: dict[str, Any]) -> None:
    """ReplicaAssignment.reassignTo: what one step without limits writes, from where the last one began."""
    before = ReplicaAssignment(**{key: tuple(brokers) for key, brokers in case["assignment"].items()})
    move = Move.begin(before.origin, tuple(case["reassign_to"]))

    step = next_step(move, Standing(before.replicas[0], before.origin, frozenset(range(10))), 1, UNLIMITED)

    assert step is not None or move.done
    after = ReplicaAssignment(step.during, step.add, step.drop) if step else ReplicaAssignment(move.replicas)
    assert after == ReplicaAssignment(**{key: tuple(brokers) for key, brokers in case["result"].items()})


@pytest.mark.parametrize("case", by_name(FILE["kip455_validation"]))
def test_a_bad_reassignment_is_refused_with_kafkas_code(case: dict[str, Any]) -> None:
    """KafkaController.alterPartitionReassignments; that another broker is the controller is said before that."""
    request = case["request"]
    if not request.get("controller", True):
        assert case["error"] == ErrorCode.NOT_CONTROLLER.name
        return

    error, _ = refusal(
        None if request["target"] is None else tuple(request["target"]),
        current=None if request["current"] is None else tuple(request["current"]),
        live=request["live"], deleted=request.get("topic_queued_for_deletion", False),
    )  # fmt: skip

    assert error.name == case["error"]
