"""A small campaign: one mutant that is caught, one that no run reaches, one that changes nothing."""

import tomllib

import pytest

from kemu.lab.budget import SCENARIOS, Item, budget, outcome_of
from kemu.lab.campaign import MutantResult, as_row, baselines, from_row, results
from kemu.lab.operators import ROOT, Mutant, mutants_of, room_of
from kemu.lab.score import before, report, review_of, score

STEADY = Item("preset", "steady-group")
FILES = ["actors/coordinator/join_phase.py", "actors/consumer/catch_up.py"]


def mutant(file: str, old: str) -> Mutant:
    """The first mutant that replaces this text."""
    return next(each for each in mutants_of((ROOT / file).read_text(encoding="utf-8"), file) if each.old == old)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    known = baselines([STEADY], FILES, tmp_path_factory.mktemp("lab") / "baselines.json", 1)
    text = (ROOT / FILES[1]).read_text(encoding="utf-8")
    chosen = {
        "no answer": mutant(FILES[0], "self._answer_all()"),
        "unreached": mutants_of(text, FILES[1])[-1],
    }
    found = {each.mutant: each for each in results(chosen.values(), known, jobs=1, cpu_s=20)}
    return {name: found[each] for name, each in chosen.items()}


def test_a_join_phase_that_answers_nobody_is_caught_in_a_run(verdicts):
    result = verdicts["no answer"]

    assert result.verdict == "caught"
    assert result.by and result.item == STEADY.name


def test_a_line_that_no_run_executes_is_told_as_unreached(verdicts):
    assert verdicts["unreached"].verdict == "unreached"


def test_a_result_survives_its_file(verdicts):
    for result in verdicts.values():
        assert from_row(as_row(result)) == result


def test_a_score_counts_only_mutants_that_changed_a_run(verdicts):
    caught, unreached = verdicts["no answer"], verdicts["unreached"]
    survivor = MutantResult(caught.mutant, "survivor", changed=(STEADY.name,))

    assert score([caught, survivor, unreached]) == 0.5
    assert "- " in report([caught, survivor], [])


def test_reviewed_survivors_name_a_class_a_reason_and_a_line_that_is_there():
    rows = tomllib.loads((ROOT / "lab" / "survivors.toml").read_text(encoding="utf-8"))["survivor"]
    for row in rows:
        assert set(row) == {"file", "after", "operator", "old", "new", "class", "reason"}
        assert row["class"] in ("permitted", "blind-spot") and row["reason"] and room_of(row["file"])
        text = (ROOT / row["file"]).read_text(encoding="utf-8")
        found = [
            each for each in mutants_of(text, row["file"]) if each.old == row["old"] and before(each) == row["after"]
        ]
        assert row["new"] in [each.new.rstrip() for each in found if each.operator == row["operator"]], row


def test_a_review_is_found_by_its_text_and_not_by_its_line(verdicts):
    one = verdicts["no answer"].mutant
    row = {"file": one.file, "after": before(one), "operator": one.operator, "old": one.old, "new": one.new}

    assert review_of(verdicts["no answer"], [row]) == row


def test_marking_lines_changes_no_run(verdicts, tmp_path):
    known = baselines([STEADY], FILES, tmp_path / "baselines.json", 1)

    assert known[0].outcome == outcome_of(STEADY)
    assert known[0].lines[FILES[0]] and not known[0].lines[FILES[1]]


def test_the_budget_names_each_run_once_and_has_every_kind():
    items = budget()

    assert len({each.name for each in items}) == len(items) >= 170
    assert {each.kind for each in items} == {"preset", "lab", "bug", "swarm"}


@pytest.mark.parametrize("source", sorted(path.stem for path in SCENARIOS.glob("*.toml")))
def test_a_scenario_of_the_lab_holds(source):
    outcome = outcome_of(Item("lab", source))

    assert (outcome.spoke, outcome.broke) == ((), "")
