"""What Kafka's own consumer assignors gave to random groups, list by list what the emulator's give.

tests/data/assignors: kafka-clients 2.4.1 to 3.9.1, called directly; ``python -m lab.conformance.assignors --ask
RELEASE`` asks them, or another release, anew.
"""

from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kemu.protocol.assign.search.score import balance_score, moved
from lab.conformance.assignors.__main__ import ORACLE, main
from lab.conformance.assignors.cases import ChangingGroup
from lab.conformance.assignors.java_calls import CLASSES, as_line
from lab.conformance.assignors.recordings import KEPT, AssignorAnswers, emulated

KEPT_ONES = {recording.release: recording for recording in ORACLE.read_all(KEPT)}


def alike_and_rackless(step: dict[str, Any]) -> bool:
    """Whether all members subscribe to the same topics, and nobody looks at racks."""
    return "racks" not in step and len({tuple(member["topics"]) for member in step["members"].values()}) == 1


@pytest.mark.parametrize("release", KEPT_ONES)
def test_every_assignor_gives_the_lists_that_kafka_gives(release: str) -> None:
    """RangeAssignor, RoundRobinAssignor, AbstractStickyAssignor and its two of that release, mixed groups and racks
    included; racks count since 3.5 (KIP-881).
    """
    recording = KEPT_ONES[release]

    kinds = Counter((row["assignor"], "racks" in row["steps"][0]) for row in recording.groups)
    assert set(kinds) == set(product(CLASSES, (False, True)))
    assert not list(recording.differences())


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_the_releases_differ_from_each_other(name: str) -> None:
    """2.4 deals one by one, 2.6 and 2.8 take back, 3.0 has quotas, 3.5 racks, 3.7.1 sorts what is kept."""
    asked = ("2.4.1", "2.8.2", "3.4.1", "3.7.0", "3.9.1")
    steps = [
        step for one in KEPT_ONES.values() for row in one.groups if row["assignor"] == name for step in row["steps"]
    ]
    for older, newer in pairwise(asked):
        assert any(emulated(name, step, older) != emulated(name, step, newer) for step in steps), (older, newer)


def test_the_balanced_one_is_never_less_balanced_and_moves_no_more_for_the_same_balance() -> None:
    """KIP-54's overall balance score, and what moved, over the kept steps of sticky with mixed subscriptions."""
    scores, moves = Counter[str](), Counter[str]()
    for recording in KEPT_ONES.values():
        for row in recording.groups:
            for step in row["steps"] if row["assignor"] == "sticky" else ():
                if "racks" in step or alike_and_rackless(step):
                    continue
                owned = {name: list(map(tuple, one["owned"])) for name, one in step["members"].items()}
                given = {name: emulated(name, step, recording.release) for name in ("sticky", "sticky-balanced")}
                score = {name: balance_score(map(len, rows.values())) for name, rows in given.items()}
                assert score["sticky-balanced"] <= score["sticky"]
                scores.update(score)
                if score["sticky-balanced"] == score["sticky"]:
                    for name, rows in given.items():
                        moves[name] += moved(owned, {member: list(map(tuple, got)) for member, got in rows.items()})

    assert scores["sticky-balanced"] < scores["sticky"]
    assert 0 < moves["sticky-balanced"] < moves["sticky"]


def test_before_3_5_racks_change_nothing_and_since_then_they_do() -> None:
    """KIP-881: AbstractPartitionAssignor knows no racks up to 3.4.1."""
    racked = [step for row in KEPT_ONES["3.9.1"].groups if row["assignor"] == "range" for step in row["steps"]]
    racked = [step for step in racked if "racks" in step]

    assert any(emulated("range", step, "3.4.1") != step["answer"] for step in racked)
    assert all(emulated("range", step, "3.9.1") == step["answer"] for step in racked)


def test_a_wrong_answer_is_shown_with_its_step(tmp_path: Path) -> None:
    first = next(row for row in KEPT_ONES["3.4.1"].groups if row["assignor"] == "roundrobin")
    step = {**first["steps"][0], "answer": {}}
    (tmp_path / "x.json").write_text(AssignorAnswers("3.4.1", "", ({**first, "steps": [step]},)).to_json())

    result = CliRunner().invoke(main, ["--kept", str(tmp_path)])

    assert result.exit_code == 1
    assert "kafka-clients 3.4.1: 1 groups, 1 steps, 1 differ" in result.stdout
    assert "roundrobin: 1 steps of 1 groups differ" in result.stdout


def test_what_kafka_must_not_give_is_counted_and_not_a_difference(tmp_path: Path) -> None:
    """A member gets what it did not subscribe to (AbstractStickyAssignor, 3.0 to 4.0, after a missed generation)."""
    first = next(row for row in KEPT_ONES["3.4.1"].groups if row["assignor"] == "sticky")
    member = next(iter(first["steps"][0]["members"]))
    step = {**first["steps"][0], "answer": {member: [["not-asked-for", 0]]}}
    (tmp_path / "x.json").write_text(AssignorAnswers("3.4.1", "", ({**first, "steps": [step]},)).to_json())

    result = CliRunner().invoke(main, ["--kept", str(tmp_path)])

    assert result.exit_code == 0
    assert "1 groups, 1 steps, 0 differ, 1 at which it gives what it must not" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--keep",), "say --ask RELEASE, too"),
        (("--ask", "new"), '"new" is no release, such as 3.4.1'),
        (("--ask", "2.3.1"), "2.4 or later"),
        (("--kept", "EMPTY"), "there is no recording in"),
    ],
)
def test_bad_input_is_one_error(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path) if each == "EMPTY" else each for each in arguments])

    assert result.exit_code == 2
    assert said in result.output


def test_a_step_is_a_line_for_the_program_in_java() -> None:
    """``AssignorOracle``: fields between tabs, members between semicolons; same seed and number, same group."""
    step = {
        "topics": {"t": 2, "u": 1},
        "racks": {"t": [["a", "b"], ["c"]], "u": [["a"]]},
        "members": {"c1": {"topics": ["t", "u"], "owned": [["t", 1]], "generation": 3, "rack": "a", "instance": "i"}},
    }

    assert as_line("x", "range", step) == "x\tRangeAssignor\tt=a.b/c,u=a\tc1|t,u|t:1|3|a|i"
    assert ChangingGroup("range", 1, 7).next_step() == ChangingGroup("range", 1, 7).next_step()
