"""Why groups rebalanced, word by word: what Kafka 3.4.1's coordinators logged in recorded plans, and what ours note."""

import json
import re
from pathlib import Path

import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.notes.groups import GroupBecame

FOLDER = Path(__file__).parents[2] / "data" / "kafka-3.4.1"
MEMBER_ID = re.compile(r"\b(?:g-)?c\d+(?:-[0-9a-f-]{36})?(?= )")
"""The recordings have member ids without the UUID; the emulated ids have one."""
WHO_IS_FIRST = re.compile(r"Leader M re-joining group|Updating metadata for member M")
"""After a cooperative round the leader or another one comes first: chance, in Kafka as here."""


class Reasons:
    """Keeps why groups rebalanced."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def wants(self, kind: type) -> bool:
        return kind is GroupBecame

    def see(self, seen: Seen) -> None:
        if isinstance(seen.fact, GroupBecame) and seen.fact.new == "PreparingRebalance":
            self.rows.append(seen.fact.why)


def plain(reason: str) -> str:
    """Without who it was."""
    return re.sub(r"Some\([^)]*\)", "Some(I)", WHO_IS_FIRST.sub("Member M", MEMBER_ID.sub("M", reason)))


@pytest.mark.parametrize(
    "plan",
    [
        "a-range-rolling",
        "b-static-rolling",
        "c-coop-scale",
        "d-sticky-kill",
        "f-topic-grows",
        "p-coop-several-topics",
        "q-paused-in-rebalance",
    ],
)
def test_groups_rebalance_for_the_reasons_that_kafka_logs(plan: str) -> None:
    """``GroupCoordinator.prepareRebalance`` (3.4.1), KIP-800: the words of its log."""
    ours = Reasons()

    run(load_scenario(str(FOLDER / f"{plan}.toml")), seed=1, profile="kafka-3.4", loop="bare", observers=(ours,))

    kafkas = json.loads((FOLDER / f"{plan}.json").read_text())["rebalances"]
    assert [plain(row) for row in ours.rows] == [plain(row["reason"]) for row in kafkas]
