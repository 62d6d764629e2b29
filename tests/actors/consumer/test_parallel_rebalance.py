"""KIP-333's mode in the machines: every script of parallel_consumer.json, and any script against the promises."""

from typing import Any

import pytest

from tests.actors.consumer.catch_up_stage import Stage
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
