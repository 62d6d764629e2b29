"""What Kafka Streams' own task assignors answered to random cases, case by case what the emulator's answer.

tests/data/task-assignors: 2.3.1, 2.6.3 and 3.4.1, called directly; ``python -m lab.conformance.task_assignors
--ask RELEASE`` asks them anew (500 cases for each assignor; none of them differ).
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kemu.protocol.streams.registry import TASK_ASSIGNORS
from kemu.tools.kafka_files.task_lines import read_case
from lab.conformance.task_assignors.__main__ import ORACLE, main
from lab.conformance.task_assignors.cases import random_case
from lab.conformance.task_assignors.java_calls import CALLED_AS, SOURCES, as_line
from lab.conformance.task_assignors.recordings import KEPT, TaskAnswers, emulated

KEPT_ONES = {recording.release: recording for recording in ORACLE.read_all(KEPT)}


@pytest.mark.parametrize("release", KEPT_ONES)
def test_every_answer_is_the_one_that_kafka_streams_gave(release: str) -> None:
    """StickyTaskAssignor, HighAvailabilityTaskAssignor, FallbackPriorTaskAssignor of that release."""
    assert [(each.asked["id"], each.ours) for each in KEPT_ONES[release].differences()] == []


def test_recordings_are_of_the_releases_that_changed_something() -> None:
    """2.3 had the sticky one alone; KIP-441's came with 2.6; 3.4's moves tasks to whoever is furthest."""
    counts = {
        release: [sum(case["assignor"] == name for case in each.cases) for name in ("sticky", "ha", "prior")]
        for release, each in KEPT_ONES.items()
    }

    assert counts == {"2.3.1": [30, 0, 0], "2.6.3": [30, 30, 30], "3.4.1": [30, 30, 30]}


def test_each_release_s_answers_are_its_own() -> None:
    """Some cases of 3.4.1 come out differently under the rules of 2.6, and the other way round."""
    for release, other in (("3.4.1", "2.6.3"), ("2.6.3", "3.4.1"), ("2.3.1", "2.6.3")):
        for name in {case["assignor"] for case in KEPT_ONES[release].cases}:
            cases = [case for case in KEPT_ONES[release].cases if case["assignor"] == name]
            assert any(emulated(case, other) != case["answer"] for case in cases), (release, name)


def test_hash_sets_decide_among_equals() -> None:
    """Visited in order, the sticky assignor gives some tasks to others than Java does, and as many to each."""
    differ = 0
    for case in KEPT_ONES["3.4.1"].cases:
        if case["assignor"] == "sticky" and case["config"]["num_standby"] == 0:
            read = read_case(json.dumps(case))
            clients = read.rebalances[0].clients
            given = TASK_ASSIGNORS["sticky"].assign(clients, read.tasks, read.stateful, read.config)
            theirs = {name: row["active"] for name, row in case["answer"]["assignment"].items()}
            differ += {name: list(map(str, tasks)) for name, tasks in given.active.items()} != theirs
            assert sum(map(len, given.active.values())) == sum(map(len, theirs.values()))
    assert differ


def test_a_wrong_answer_is_shown_with_its_case(tmp_path: Path) -> None:
    first, *rest = KEPT_ONES["2.3.1"].cases
    wrong = {**first, "answer": {**first["answer"], "probing": True}}
    (tmp_path / "x.json").write_text(TaskAnswers("2.3.1", "", (wrong, *rest)).to_json(), encoding="utf-8")

    result = CliRunner().invoke(main, ["--kept", str(tmp_path)])

    assert result.exit_code == 1
    assert "kafka-streams 2.3.1: 30 cases, 1 differ" in result.stdout
    assert f'"id": "{first["id"]}"' in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--keep",), "say --ask RELEASE, too"),
        (("--ask", "new"), '"new" is no release, such as 3.4.1'),
        (("--kept", "EMPTY"), "there is no recording in"),
    ],
)
def test_bad_input_is_one_error(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    given = [str(tmp_path) if each == "EMPTY" else each for each in arguments]

    result = CliRunner().invoke(main, given)

    assert result.exit_code == 2
    assert said in result.output


def test_a_case_is_the_same_for_the_same_seed_and_number() -> None:
    assert random_case("ha", 1, 7) == random_case("ha", 1, 7) != random_case("ha", 2, 7)


def test_a_case_is_a_line_for_the_program_in_java() -> None:
    """``TaskAssignorOracle``: fields between tabs, clients between semicolons."""
    case = {
        "id": "x", "assignor": "ha", "tasks": ["0_0", "0_1"], "stateful": ["0_0"],
        "config": {"num_standby": 1, "max_warmup": 2, "acceptable_lag": "MAX"},
        "clients": {"0" * 31 + "1": {"capacity": 1, "prev_active": ["0_0"], "prev_standby": [], "lags": {"0_0": -2}}},
    }  # fmt: skip

    assert as_line(case) == (
        "x\tha\t0_0,0_1\t0_0\t1\t2\t9223372036854775807\t00000000-0000-0000-0000-000000000001=1=0_0==0_0:-2"
    )
    for _, folders in CALLED_AS:
        programs = sorted(path.name for folder in folders for path in (SOURCES / folder).glob("*.java"))
        assert programs == ["Clients.java", "ReleaseCalls.java"]
