"""The page on what a new Streams instance costs: its commands run, and what it says holds in them."""

import json
import shlex
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kemu.protocol.streams.high_availability import assign_high_availability
from kemu.protocol.streams.tasks import LATEST_OFFSET, ClientState, TaskConfig, task_id
from kemu.tools.cli import kemu

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "streams-new-instance.md"
RELEASES, WARM_UPS = [
    shlex.split(line)[1:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("kemu compare")
]


def compared(command: list[str], seeds: str) -> list[dict[str, float]]:
    """The medians of the page's command with fewer seeds, by variant."""
    arguments = [*command, "--seeds", seeds, "--format", "json"]
    result = CliRunner().invoke(kemu, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)["variants"]
    return [{name: told["median"] for name, told in row["figures"].items()} for row in rows]


def per_move(row: dict[str, float]) -> float:
    """Seconds of downtime for each task that moved."""
    assert row["tasks_moved"] >= row["tasks_least"] == 4
    return row["task_downtime"] / row["tasks_moved"] / 1e6


def test_what_the_page_says_of_releases_and_learners_holds_in_its_command() -> None:
    """KIP-429's page and what shipped: who stops, who restores, who waits for two rebalances, who asks more often."""
    eager, sticky, warm_ups, together, one_by_one = compared(RELEASES, "1:1")

    assert eager["service_lost_max"] == 100 and eager["stopped"] > 0
    assert all(
        row["service_lost_max"] < 100 and row["stopped"] == 0 for row in (sticky, warm_ups, together, one_by_one)
    )
    assert per_move(together) < 1 > per_move(one_by_one)
    assert min(per_move(eager), per_move(sticky)) > per_move(warm_ups) > 2 * per_move(one_by_one)
    assert min(eager["task_restore"], sticky["task_restore"]) > 5 * warm_ups["task_restore"]
    assert warm_ups["rebalances_follow_up"] >= 2 and warm_ups["task_barrier"] > warm_ups["task_restore"]
    assert one_by_one["rebalances_ready"] > together["rebalances_ready"] > 0
    assert warm_ups["rebalances_probing"] == 2 and 120 < warm_ups["to_balance"] / 1e6 < 150


def test_what_the_page_says_of_warm_ups_at_a_time_holds_in_its_command() -> None:
    """KIP-441: usually ``ceil(moves / max.warmup.replicas)`` probing intervals (60 s), whatever a move costs.

    With the process ids of seed 4, the assignor makes four moves. Other ids cause more moves.
    """
    one, two, four = compared(WARM_UPS, "4:4")

    assert [row["rebalances_probing"] for row in (one, two, four)] == [4, 2, 1]
    for looks, row in ((4, one), (2, two), (1, four)):
        assert looks * 60 - 15 < row["to_balance"] / 1e6 - 15 < looks * 60 + 30
        assert row["tasks_moved"] == 4
    assert max(map(per_move, (one, two, four))) < 1.2 * min(map(per_move, (one, two, four)))
    assert one["read_bytes"] > two["read_bytes"] > four["read_bytes"]


def test_what_the_page_says_of_the_order_of_process_ids_holds() -> None:
    """With two old and two new processes, three of six orders make four moves, two make six, and one makes eight."""
    tasks = [task_id("0_0"), *(task_id(f"1_{partition}") for partition in range(7))]

    def ideal(names: tuple[str, ...]) -> dict[str, str]:
        caught_up = {name: ClientState(1, lags=dict.fromkeys(tasks, LATEST_OFFSET)) for name in names}
        given = assign_high_availability(caught_up, tasks, tasks, TaskConfig()).active
        return {str(task): name for name, found in given.items() for task in found}

    moves: Counter[int] = Counter()
    for old in combinations("abcd", 2):
        before, after = ideal(old), ideal(tuple("abcd"))
        moves[sum(before[task] != after[task] for task in before)] += 1
    assert moves == {4: 3, 6: 2, 8: 1}
