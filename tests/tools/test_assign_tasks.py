"""``kemu assign-tasks``: cases in, who gets what out."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kemu.tools.cli import kemu
from lab.conformance.task_assignors.__main__ import ORACLE
from lab.conformance.task_assignors.recordings import KEPT
from tests.case_files import load

CASES = load("task_assignors.json")["cases"]
WALKS = [vector for vector in load("streams_walkthroughs.json")["vectors"] if vector.get("rebalances")]


def run(*arguments: str, lines: list[object]) -> Result:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return CliRunner().invoke(kemu, ["assign-tasks", *arguments], input=text)


def test_kafkas_cases_are_assigned_by_the_assignor_they_name() -> None:
    result = run(lines=CASES)

    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [answer["id"] for answer in answers] == [case["id"] for case in CASES]
    for case, answer in zip(CASES, answers, strict=True):
        assert answer["assignment"] == case["derived_sorted_order_result"]
        assert answer["probing"] == case["probing"]


def test_walk_throughs_are_assigned_round_by_round() -> None:
    result = run(lines=WALKS)

    assert result.exit_code == 0
    for vector, line in zip(WALKS, result.stdout.splitlines(), strict=True):
        for rebalance, answer in zip(vector["rebalances"], json.loads(line)["rebalances"], strict=True):
            for name, expected in rebalance["assigned"].items():
                assert {key: answer["assigned"][name][key] for key in expected} == expected


@pytest.mark.parametrize("name", ["learner", "sticky", "ha", "prior"])
def test_every_assignor_takes_both_forms(name: str) -> None:
    result = run("--assignor", name, lines=[*CASES, *WALKS])

    assert result.exit_code == 0
    assert all(json.loads(line)["assignor"] == name for line in result.stdout.splitlines())


def test_a_profile_has_its_release_s_task_assignors() -> None:
    """As ``kafka-streams`` 2.3.1 answered: hash sets decide among equals, and every task gets standbys."""
    for release, profile in (("2.3.1", "kafka-2.3"), ("2.6.3", "kafka-2.6"), ("3.4.1", "kafka-3.4")):
        (kept,) = (each for each in ORACLE.read_all(KEPT) if each.release == release)

        result = run("--profile", profile, lines=list(kept.cases))

        answers = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.exit_code == 0
        assert [each["assignment"] for each in answers] == [case["answer"]["assignment"] for case in kept.cases]


def test_a_profile_nobody_knows_is_named() -> None:
    result = run("--profile", "kafka-2.7", lines=[CASES[0]])

    assert result.exit_code == 2
    assert '"kafka-2.7" is no profile; did you mean' in result.output


def test_text_is_for_people() -> None:
    result = run("--format", "text", lines=[WALKS[0], CASES[0]])

    assert "    S4  learning T1" in result.stdout.splitlines()
    assert "  probing rebalance: no" in result.stdout.splitlines()


OWN = """
from kemu.protocol.streams.tasks import TaskAssignment

class AllToFirst:
    def assign(self, clients, tasks, stateful, config):
        first = min(clients)
        return TaskAssignment({name: tuple(tasks) if name == first else () for name in clients}, {})

class Twice:
    def assign(self, clients, tasks, stateful, config):
        return TaskAssignment({name: tuple(tasks) for name in clients}, {})

class Raises:
    def assign(self, clients, tasks, stateful, config):
        raise KeyError("oops")
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AllToFirst", None),
        ("Twice", "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES: 0_0 is active on more than one client"),
        ("Raises", "the assignor raised KeyError: 'oops'"),
    ],
)
def test_a_users_own_assignor_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str | None
) -> None:
    (tmp_path / "own_tasks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)

    result = run("--assignor", f"own_tasks:{name}", lines=[CASES[0]])

    answer = json.loads(result.stdout)
    assert result.exit_code == (2 if said else 0)
    assert said in answer["error"] if said else answer["assignment"]["P1"]["active"] == ["0_0", "0_1", "0_2"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no JSON"),
        ([], "a case is a table"),
        ({}, 'has neither "clients" nor "rebalances"'),
        ({"clients": {}, "tasks": []}, "a group has at least one client"),
        ({"clients": {"P": {"capacity": 0}}, "tasks": []}, "clients.P.capacity: must be a whole number from 1"),
        ({"clients": {"P": {}}, "tasks": ["0_0", "0_0"]}, "tasks: a task is listed twice"),
        ({"clients": {"P": {}}, "tasks": ["0_0"], "stateful": ["1_0"]}, 'stateful: "1_0" is not among the tasks'),
        ({"clients": {"P": {}}, "tasks": [], "assignor": "hat"}, '"hat" is no task assignor; did you mean "ha"?'),
        ({"rebalances": [{}], "tasks": []}, "rebalances[0].joined: must be a table"),
        ({"rebalances": [], "tasks": [], "stage": 5}, "stage: must be a whole number from 1 to 4"),
        ({"rebalances": [], "tasks": [], "config": {"pick": "any"}}, "config.pick: is one of lowest, highest"),
        ({"rebalances": [], "tasks": [], "config": {"imbalance": 20}}, "config.imbalance: is a fraction from 0 to 1"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_goes_on(line: object, said: str) -> None:
    result = run(lines=[line, CASES[0]])

    bad, good = (json.loads(text) for text in result.stdout.splitlines())
    assert result.exit_code == 2
    assert bad["line"] == 1
    assert said in bad["error"]
    assert good["id"] == CASES[0]["id"]


def test_an_unknown_assignor_is_one_error_with_a_hint() -> None:
    result = run("--assignor", "stiky", lines=[])

    assert result.exit_code == 2
    assert 'did you mean "sticky"?' in result.stderr
