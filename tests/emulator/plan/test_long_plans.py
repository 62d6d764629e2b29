"""Plans that take longer than the run: it lasts as long as they do, and the report says what was done of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec


def rolling(members: int = 8, *more: Mapping[str, Any]) -> Scenario:
    """A restart of all members, one every 20 s, from 30 s on."""
    return Scenario(
        name="rolling",
        duration_us=120_000_000,
        topics={"orders": TopicSpec(partitions=8, records_per_s=8)},
        groups={"g": GroupSpec(topics=("orders",), members=members)},
        plan=({"at": "30s", "do": "rolling-restart", "group": "g", "every": "20s", "down": "8s"}, *more),
    )


@pytest.mark.parametrize(
    ("members", "plan", "runs_s"),
    [
        (8, (), 30 + 7 * 20 + 8 + 10),
        (2, (), 120),
        (6, ({"at": "1s", "do": "add-members", "group": "g", "count": 2},), 30 + 7 * 20 + 8 + 10),
    ],
)
def test_a_rolling_restart_makes_the_run_as_long_as_it_takes(members: int, plan: Any, runs_s: int) -> None:
    """The duration is a lower bound; 10 s are for the last member to join."""
    scenario = rolling(members, *plan)

    assert scenario.runs_us == scenario.heal_at_us == runs_s * 1_000_000
    assert scenario.duration_us == 120_000_000


def test_every_part_of_a_rolling_restart_is_done_and_counted() -> None:
    """It used to stop after five of eight, without a word."""
    result = run(rolling(), seed=1, loop="bare")

    (restart,) = result.faults
    assert (restart.fired, restart.done, restart.parts) == (1, 8, 8)
    assert result.verdict == "holds"
    assert result.virtual_us >= 188_000_000
