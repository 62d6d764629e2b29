"""``kemu assign`` and ``kemu compare-assignors``: what people type, and what they get."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kemu.protocol.assign.registry import ASSIGNORS
from kemu.tools.cli import kemu, main

EXAMPLE_3: dict[str, Any] = {
    "partitions_per_topic": {"t0": 2, "t1": 2},
    "members": {
        "C0": {"topics": ["t0", "t1"], "owned": [["t0", 0], ["t1", 0]], "generation": 1},
        "C1": {"topics": ["t0", "t1"], "owned": [["t0", 1], ["t1", 1]], "generation": 1},
        "C2": {"topics": ["t0", "t1"]},
    },
}

CUSTOM = """
from kemu.protocol.assign.base import RebalanceProtocol

class FirstTakesAll:
    def assign(self, topics, members):
        first = min(members)
        return {first: [(t, p) for t in members[first].topics for p in range(topics.partitions[t])]}

class TakesAllAtOnce(FirstTakesAll):
    name = "takes-all"
    protocols = (RebalanceProtocol.COOPERATIVE,)

class Twice:
    def assign(self, topics, members):
        return {member: [("t0", 0)] for member in members}

class Unsubscribed:
    def assign(self, topics, members):
        return {"C0": [("u", 0)]}

class Stranger:
    def assign(self, topics, members):
        return {"X9": [("t0", 0)]}

class BeyondTheEnd:
    def assign(self, topics, members):
        return {"C0": [("t0", 2)]}

class Raises:
    def assign(self, topics, members):
        raise KeyError("oops")

class NoAssign:
    pass
"""


def _kemu(*arguments: str, lines: str = "") -> Result:
    return CliRunner().invoke(kemu, list(arguments), input=lines)


def _answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's own in the current folder; its name."""
    name = f"custom_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(CUSTOM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_profile_chooses_the_assignors_of_its_release() -> None:
    """KIP-54, example 1: the page's assignment after C1 left is that of 2.4's sticky, not that of today's."""
    topics = ["t0", "t1", "t2", "t3"]
    owned = {"C0": [["t0", 0], ["t1", 1], ["t3", 0]], "C2": [["t1", 0], ["t2", 1]]}
    members = {name: {"topics": topics, "owned": parts, "generation": 1} for name, parts in owned.items()}
    line = json.dumps({"partitions_per_topic": dict.fromkeys(topics, 2), "members": members})
    page = {"C0": owned["C0"] + [["t2", 0]], "C2": owned["C2"] + [["t0", 1], ["t3", 1]]}

    def assigned(*options: str) -> bool:
        (answer,) = _answers(_kemu("assign", *options, lines=line))
        return {name: sorted(parts) for name, parts in answer["assignment"].items()} == {
            name: sorted(parts) for name, parts in page.items()
        }

    assert assigned("--assignor", "sticky", "--profile", "kafka-2.4")
    assert assigned("--assignor", "sticky-first")
    assert assigned("--assignor", "optimal")
    assert not assigned("--assignor", "sticky")


def test_one_line_in_gives_one_assignment_with_its_figures_out() -> None:
    """KIP-54, example 3: one partition moves to the new member."""
    result = _kemu("assign", "--assignor", "sticky", lines=json.dumps(EXAMPLE_3))

    (answer,) = _answers(result)
    assert result.exit_code == 0
    assert answer.pop("micros") > 0
    assert answer == {
        "assignment": {"C0": [["t0", 0], ["t1", 0]], "C1": [["t0", 1]], "C2": [["t1", 1]]},
        "balance_score": 2,
        "balanced": True,
        "moved": 1,
    }


def test_a_cooperative_assignor_shows_its_first_pass_and_what_it_settles_on() -> None:
    """KIP-429: the first rebalance withholds what moves; one follow-up hands it over."""
    (answer,) = _answers(_kemu("assign", "--assignor", "cooperative-sticky", lines=json.dumps(EXAMPLE_3)))

    assert answer["rounds"] == 1
    assert answer["first_pass"] == {"C0": [["t0", 0], ["t1", 0]], "C1": [["t0", 1]], "C2": []}
    assert answer["assignment"]["C2"] == [["t1", 1]]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_every_assignor_of_the_table_answers(name: str) -> None:
    """Racks and instance ids are read, too."""
    group = {
        "partitions_per_topic": {"t": 4},
        "members": {
            "a": {"topics": ["t"], "rack": "r1", "instance_id": "i2"},
            "b": {"topics": ["t"], "rack": "r2", "instance_id": "i1", "generation": None},
        },
        "replica_racks": {"t": [["r1"], ["r2"], ["r1"], ["r2"]]},
    }

    (answer,) = _answers(_kemu("assign", "--assignor", name, lines=json.dumps(group)))

    assert sorted(len(partitions) for partitions in answer["assignment"].values()) == [2, 2]
    if name in ("range", "sticky", "cooperative-sticky"):
        assert answer["assignment"] == {"a": [["t", 0], ["t", 2]], "b": [["t", 1], ["t", 3]]}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "is no JSON: Expecting value: line 1 column 1"),
        ("[" * 100_000, "is no JSON that can be read: nested too deep"),
        ("[" + "9" * 5_000, "is no JSON: Exceeds the limit"),
        ("[" + "0," * 6_000_000, "has more than 6,000,000 values"),
        ("[]", "the line: must be an object"),
        ('{"members": {}}', "partitions_per_topic: is missing"),
        ('{"partitions_per_topic": {}, "members": {}}', "members: a group has at least one member"),
        ('{"partitions_per_topic": {"t": -1}, "members": {}}', "partitions_per_topic.t: must be a whole number"),
        ('{"partitions_per_topic": {"t": 1e9}, "members": {}}', "partitions_per_topic.t: must be a whole number"),
        ('{"partitions_per_topic": {"t": 9999999999}, "members": {}}', "more than Kafka's 32 bits hold"),
        ('{"partitions_per_topic": {"t": 2000000000}, "members": {}}', "more than 20,000,000 partitions"),
        ('{"partitions_per_topic": {}, "members": {"a": {"topics": "t"}}}', "members.a.topics: must be a list"),
        ('{"partitions_per_topic": {}, "members": {"a": {"topic": []}}}', '"topic" is unknown; did you mean "topics"?'),
        ('{"partitions_per_topic": {}, "members": {"a": {"topics": [], "owned": [["t"]]}}}', '["t"] is not [topic,'),
        ('{"partitions_per_topic": {"\\ud800": 1}, "members": {}}', "half of a surrogate pair"),
        ('{"partitions_per_topic": {"": 1}, "members": {}}', "is no topic name (1 to 249 characters)"),
        ('{"partitions_per_topic": {}, "members": {"a": {"topics": [1]}}}', "members.a.topics: 1 is no topic name"),
        (
            '{"partitions_per_topic": {}, "members": {"a": {"topics": [], "owned": [["t", 3000000000]]}}}',
            "32 bits hold",
        ),
        ('{"partitions_per_topic": {}, "members": {"a": {"topics": [], "owned": {}}}}', "must be a list of [topic,"),
        ('{"partitions_per_topic": {}, "members": {"a": {"topics": [], "rack": 1}}}', "members.a.rack: must be a text"),
        ('{"partitions_per_topic": {}, "members": {"a": {"topics": [], "generation": true}}}', "a whole number"),
        (
            '{"partitions_per_topic": {"t": 2}, "members": {"a": {"topics": []}}, "replica_racks": {"t": [["r"]]}}',
            "replica_racks.t: must be a list with the racks of each of its 2 partitions",
        ),
        (
            '{"partitions_per_topic": {"t": 1}, "members": {"a": {"topics": []}}, "replica_racks": {"t": ["r"]}}',
            'replica_racks.t: "r" is not a list of racks',
        ),
    ],
)
def test_a_bad_line_is_named_and_the_rest_goes_on(line: str, problem: str) -> None:
    """One clear error for bad input, with its line; exit code 2 at the end."""
    good = json.dumps(EXAMPLE_3)

    result = _kemu("assign", "--assignor", "fair", lines=f"{good}\n\n{line}\n{good}\n")

    first, bad, last = _answers(result)
    assert result.exit_code == 2
    assert bad["line"] == 3
    assert problem in bad["error"]
    assert first["assignment"] == last["assignment"]


def test_an_unknown_assignor_is_one_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input is never a traceback."""
    with pytest.raises(SystemExit) as stopped:
        main(["assign", "--assignor", "stiky"])

    assert stopped.value.code == 2
    assert 'did you mean "sticky"?' in capsys.readouterr().err


def test_a_class_of_the_users_own_is_run_by_its_place(custom: str) -> None:
    """What it leaves out is filled in: other members get nothing, its name is its place."""
    (answer,) = _answers(_kemu("assign", "--assignor", f"{custom}:FirstTakesAll", lines=json.dumps(EXAMPLE_3)))

    assert answer["assignment"] == {"C0": [["t0", 0], ["t0", 1], ["t1", 0], ["t1", 1]], "C1": [], "C2": []}
    assert answer["balance_score"] == 8
    assert not answer["balanced"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Twice", "gave t0-0 to C1: C0 gets it too"),
        ("Unsubscribed", "gave u-0 to C0: it does not subscribe to that topic"),
        ("Stranger", "gave X9: no such member in the group"),
        ("BeyondTheEnd", "gave t0-2 to C0: there is no such partition"),
        ("TakesAllAtOnce", "gave t0-1 to C0: C1 still owns it and has to give it up in a rebalance before"),
        ("Raises", "raised KeyError: 'oops'"),
    ],
)
def test_a_broken_custom_assignor_is_told_member_and_partition(custom: str, name: str, problem: str) -> None:
    """Double assignment, topics not subscribed to, unknown members, and (cooperative) direct handover."""
    result = _kemu("assign", "--assignor", f"{custom}:{name}", lines=json.dumps(EXAMPLE_3))

    (answer,) = _answers(result)
    assert result.exit_code == 2
    assert answer["line"] == 1
    assert problem in answer["error"]


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("{}:Missing", 'has no "Missing"'),
        ("{}:NoAssign", "no method assign"),
        ("no_such_module_{}:X", "cannot import"),
    ],
)
def test_what_cannot_be_an_assignor_is_one_error(
    custom: str, place: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``module:Class`` is checked before anything is read."""
    with pytest.raises(SystemExit) as stopped:
        main(["assign", "--assignor", place.format(custom)])

    assert stopped.value.code == 2
    assert problem in capsys.readouterr().err


def test_the_comparison_has_a_row_for_every_assignor_and_its_distance_from_the_fewest_moves(tmp_path: Path) -> None:
    """Score, largest less smallest, moved, the fewest moves there can be, time."""
    file = tmp_path / "groups.jsonl"
    file.write_text(json.dumps(EXAMPLE_3))

    (shown,) = json.loads(_kemu("compare-assignors", str(file), "--format", "json").stdout)

    rows = {row["assignor"]: row for row in shown["assignors"]}
    assert list(rows) == list(ASSIGNORS)
    assert all(row.pop("micros") >= 0 for row in rows.values())
    assert rows["sticky"] == {"assignor": "sticky", "score": 2, "max_min": 1, "moved": 1, "least_moves": 1}
    assert rows["sticky-first"] == {"assignor": "sticky-first", "score": 4, "max_min": 2, "moved": 0, "least_moves": 1}
    assert rows["fair"]["moved"] == 2


def test_a_scenarios_groups_are_compared_at_their_start_after_a_leave_and_after_a_join() -> None:
    """Each assignor starts from its own former assignment."""
    result = _kemu("compare-assignors", "steady-group", "--assignor", "sticky", "--assignor", "range")

    assert result.exit_code == 0
    titles = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert [title.partition(": ")[2] for title in titles[:3]] == ["start", "one member leaves", "one member joins"]
    assert "least" in result.stdout


def test_a_comparison_goes_on_past_a_bad_line_and_a_broken_assignor(custom: str) -> None:
    """Both are shown where they are, and the exit code is 2."""
    lines = f"{json.dumps(EXAMPLE_3)}\nnonsense\n"

    result = _kemu("compare-assignors", "-", "--assignor", "sticky", "--assignor", f"{custom}:Twice", lines=lines)

    assert result.exit_code == 2
    assert "C0 gets it too" in result.stdout
    assert "is no JSON" in result.stdout
    assert "sticky" in result.stdout


SCENARIO = """
summary = "A group with an assignor of the user's own"
duration = "20s"
[topics.t0]
partitions = 4
[groups.g]
topics = ["t0"]
members = 2
assignors = ["{place}"]
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("FirstTakesAll", "holds"),
        ("Twice", "gave t0-0 to"),
    ],
)
def test_a_scenario_runs_a_class_of_the_users_own_and_says_what_it_breaks(custom: str, name: str, said: str) -> None:
    """``module:Class`` in a scenario; an invalid assignment ends the run with member and partition."""
    Path("own.toml").write_text(SCENARIO.format(place=f"{custom}:{name}"))

    result = _kemu("run", "./own.toml", "--seed", "1", "--allow-code")

    assert said in result.output


def test_a_scenario_whose_assignor_cannot_be_loaded_is_bad_input(
    custom: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before the run, with file and line."""
    Path("own.toml").write_text(SCENARIO.format(place=f"{custom}:Missing"))

    with pytest.raises(SystemExit) as stopped:
        main(["run", "./own.toml"])

    assert stopped.value.code == 2
    assert "own.toml:9: groups.g.assignors" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("assign", "--assignor", "range"), ("compare-assignors",), ("assign-tasks",)])
def test_a_line_without_an_end_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    """A sparse file of 1 GB has a line of 1 GB."""
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)

    refused = CliRunner().invoke(kemu, [*words, str(path)])

    assert refused.exit_code == 2
    assert f"{path}: line 1 has more than 32 Mi characters" in refused.stderr
