"""KIP-333's mode in the machines: every script of parallel_consumer.json, and random scripts against its promises."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.actors.consumer.application import Calls
from kemu.protocol.names import TopicPartition
from tests.actors.consumer.catch_up_stage import AT, HOP_US, SECOND, Stage
from tests.case_files import load

VECTORS = load("parallel_consumer.json")["vectors"]


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["name"]) for vector in VECTORS])
def test_a_script_comes_out_of_the_machines_state_by_state(vector: dict[str, Any]) -> None:
    """KIP-333's timelines (70/100/120, then 140/170/190) and the cases around them, with a real coordinator."""
    stage = Stage(**vector["init"])
    for number, event in enumerate(vector["script"]):
        result = getattr(stage, event["event"])(**event["args"])
        expected = dict(event["expect"])
        wanted = expected.pop("result", result)
        assert result == wanted, f"{number}: {event}"
        state = stage.state()
        assert {key: state[key] for key in expected} == expected, f"{number}: {event}"
    state = stage.state()
    assert {key: state[key] for key in vector["final"]} == vector["final"]


def _committed(stage: Stage) -> int | None:
    """The answer of ``committed()`` to the application."""
    told: list[int | None] = []
    member = stage.member
    assert member is not None

    def ask(calls: Calls) -> bool:
        def then(answers: Mapping[TopicPartition, int | None]) -> None:
            told.append(answers[AT])
            calls.poll(HOP_US)

        calls.committed((AT,), then)
        return True

    member.script.acts.append(ask)
    stage.run(SECOND)
    (answer,) = told
    return answer


def test_committed_is_how_far_the_first_open_range_is_worked_off_and_without_one_the_first_logs_commit() -> None:
    """The page's ``committed``: everything below the answer is committed in one of the two logs."""
    stage = Stage(100, 20)
    stage.start()
    answers = [_committed(stage)]
    for taken in (30, 10_000):
        stage.poll("secondary", taken)
        stage.commit("both")
        answers.append(_committed(stage))
    stage.append(120)
    stage.poll("primary", 10_000)
    answers.append(_committed(stage))
    stage.commit("both")
    answers.append(_committed(stage))

    assert answers == [20, 50, 100, 100, 120]
    assert stage.state()["committed"] == 120
