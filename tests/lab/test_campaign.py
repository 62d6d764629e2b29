"""A small campaign: one mutant that is caught, one that no run reaches, one that changes nothing."""

import json
import os
import signal
import time
import tomllib

import attrs
import pytest
from click.testing import CliRunner

from kemu.emulator.findings import Violation
from kemu.emulator.runner import run
from lab import campaign, mutants
from lab.budget import SCENARIOS, Item, RunOutcome, budget, judged, outcome_of
from lab.campaign import Baseline, MutantResult, as_row, baselines, chosen, from_row, results, scenario_hash
from lab.mutants import main
from lab.operators import ROOT, Mutant, mutants_of, room_of
from lab.score import before, by_checkers, not_permitted, report, review_of, score

STEADY = Item("preset", "steady-group")
FILES = ["kemu/actors/coordinator/join_phase.py", "kemu/actors/consumer/catch_up.py"]


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


def test_scores_leave_out_errors_of_machines_and_permitted_variants(verdicts):
    one = verdicts["no answer"]
    survivor = MutantResult(one.mutant, "survivor", changed=(STEADY.name,))
    row = {"file": one.mutant.file, "after": before(one.mutant), "operator": one.mutant.operator}
    row |= {"old": one.mutant.old, "new": one.mutant.new.rstrip(), "reason": "as Kafka pleases"}

    assert score(by_checkers([one, result_of(one.mutant, "crash", STEADY.name), survivor])) == 0.5
    assert score(not_permitted([one, survivor], [{**row, "class": "permitted"}])) == 1
    assert score(not_permitted([one, survivor], [{**row, "class": "blind-spot"}])) == 0.5
    assert "permitted by Kafka: 100%" in report([one, survivor], [{**row, "class": "permitted"}])


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


def result_of(one: Mutant, verdict: str, item: str) -> MutantResult:
    return MutantResult(one, verdict, item=item)


def test_runs_that_caught_mutants_nearby_come_first(verdicts):
    """A catch in the same lines says more than one elsewhere, and a cheap run goes before a dear one."""
    one = verdicts["no answer"].mutant
    names = ("cheap", "dear", "other")
    cost = {"cheap": 0.5, "dear": 5.0, "other": 1.0}
    known = [
        Baseline(Item("preset", name), RunOutcome("", ()), cost[name], {one.file: frozenset([one.statement])})
        for name in names
    ]
    nearby = mutant(FILES[0], "self._answer_all()")
    far = attrs.evolve(nearby, file="kemu/actors/coordinator/group.py")

    def order(*before: MutantResult) -> list[str]:
        return [each.item.source for each in chosen(one, known, 28, before)]

    assert order() == ["cheap", "other", "dear"]
    assert order(result_of(nearby, "survivor", "preset other 1")) == ["cheap", "other", "dear"]
    assert order(result_of(nearby, "caught", "preset other 1")) == ["other", "cheap", "dear"]
    assert order(result_of(nearby, "caught", "preset other 1"), result_of(far, "crash", "preset dear 1"))[0] == "other"


def test_a_baseline_is_of_its_scenario(tmp_path):
    """A swarm that draws otherwise makes the run again; another seed is another run."""
    assert scenario_hash(STEADY) == scenario_hash(STEADY) != scenario_hash(attrs.evolve(STEADY, seed=2))

    cache = tmp_path / "baselines.json"
    baselines([STEADY], FILES, cache, 1)
    content = json.loads(cache.read_text())
    content["runs"][STEADY.name] |= {"scenario": "another", "digest": "another"}
    cache.write_text(json.dumps(content))

    assert baselines([STEADY], FILES, cache, 1)[0].outcome.digest != "another"


def test_a_step_without_end_is_caught_as_a_livelock(verdicts, tmp_path):
    """A loop that its mutant never lets end costs seconds, not the mutant's whole time."""
    text = (ROOT / FILES[0]).read_text(encoding="utf-8")
    old = "self._answer_all()"
    start = text.encode().index(old.encode())
    line = text.encode()[:start].count(b"\n") + 1
    endless = attrs.evolve(
        verdicts["no answer"].mutant, start=start, end=start + len(old), line=line, new="while True: pass"
    )
    known = baselines([STEADY], FILES, tmp_path / "baselines.json", 1)

    (result,) = results([endless], known, jobs=1, cpu_s=20)

    assert (result.verdict, result.by) == ("caught", ("livelock",))
    assert result.cpu_s < 12


def test_a_run_that_takes_too_long_is_cut_short_and_what_its_checkers_said_until_then_counts(monkeypatch):
    scenario = STEADY.scenario()
    result = run(scenario, seed=1, loop="bare")
    late = Violation("liveness", 0, 0, (), "", liveness=True, kind="not-at-rest")
    said = Violation("pace", 0, 0, (), "", kind="too-soon")
    cut_short = attrs.evolve(result, violations=(late, said), broke="b0 at 7 us, step 3: OutOfTime: ")
    assert judged(cut_short, scenario).spoke == ("pace/too-soon",)

    monkeypatch.setattr(campaign, "LEAST_RUN_S", 0.1)
    large = Item("preset", "streams-100-instances")
    one = mutant(FILES[0], "self._answer_all()")
    one = attrs.evolve(one, new="self._answer_all() or None")
    known = [Baseline(large, RunOutcome("", ()), 0.01, {one.file: frozenset([one.statement])})]
    (hung,) = results([one], known, jobs=1, cpu_s=5)
    assert (hung.verdict, hung.changed) == ("hang", (large.name,))


def test_a_child_that_sleeps_is_a_hang_and_one_that_is_stopped_is_not(monkeypatch):
    monkeypatch.setattr(campaign, "ASLEEP_S", 0.2)
    sleeping = campaign._fork(lambda send: time.sleep(60))
    stopped = campaign._fork(lambda send: os.kill(os.getpid(), signal.SIGSTOP))
    children = [sleeping, stopped]

    ended = []
    while sleeping in children:
        ended += [child for child, _, _ in campaign._finished(children)]
    assert ended == [sleeping]
    os.kill(stopped.pid, signal.SIGCONT)
    while children:
        ended += [child for child, status, _ in campaign._finished(children) if status == 0]
    assert ended == [sleeping, stopped]


def test_an_interrupted_campaign_ends_its_children(verdicts, monkeypatch):
    """The generator ends them as it is closed."""

    class Interrupted(Exception):
        pass

    def mutants_then_interrupt():
        yield verdicts["no answer"].mutant
        raise Interrupted

    known = [Baseline(STEADY, RunOutcome("", ()), 0.5, {FILES[0]: frozenset([verdicts["no answer"].mutant.statement])})]

    started = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: started.append(fork()) or started[-1])

    with pytest.raises(Interrupted):
        list(results(mutants_then_interrupt(), known, jobs=2, cpu_s=20))
    assert started
    for child in started:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_a_room_that_is_none_is_refused_at_once():
    outcome = CliRunner().invoke(main, ["--room", "nope"])

    assert outcome.exit_code == 2
    assert "'nope' is not one of 'catch_up', 'coordinator'" in outcome.output


def test_an_interrupt_keeps_what_is_done_and_the_same_command_goes_on(verdicts, tmp_path, monkeypatch):
    """The line that was being written as the process died is left out."""
    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(mutants, "baselines", lambda *_: [])
    monkeypatch.setattr(mutants, "drawn", lambda *_: [each.mutant for each in verdicts.values()])
    command = ["--room", "coordinator", "--results", str(path)]

    def first_then_interrupt(left, *_, **__):
        yield verdicts["no answer"]
        raise KeyboardInterrupt

    monkeypatch.setattr(mutants, "results", first_then_interrupt)
    outcome = CliRunner().invoke(main, command)
    assert outcome.exit_code == 130 and "interrupted: 1 of 2 results" in outcome.output

    with path.open("a") as stream:
        stream.write('{"mutant"')
    asked = []
    monkeypatch.setattr(mutants, "results", lambda left, *_, **__: asked.extend(left) or [])
    outcome = CliRunner().invoke(main, command)
    assert outcome.exit_code == 0 and asked == [verdicts["unreached"].mutant]


@pytest.mark.parametrize("source", sorted(path.stem for path in SCENARIOS.glob("*.toml")))
def test_a_scenario_of_the_lab_holds(source):
    outcome = outcome_of(Item("lab", source))

    assert (outcome.spoke, outcome.broke) == ((), "")


def test_survivors_are_put_to_todays_checkers_in_the_runs_that_they_changed(verdicts, tmp_path, monkeypatch):
    """Also where lines above them were added since."""
    caught = verdicts["no answer"].mutant
    moved = attrs.evolve(caught, line=caught.line - 1, start=caught.start - 1, end=caught.end - 1)
    path = tmp_path / "before.jsonl"
    rows = [MutantResult(moved, "survivor", changed=(STEADY.name,)), verdicts["unreached"]]
    path.write_text("".join(json.dumps(as_row(each)) + "\n" for each in rows), encoding="utf-8")
    asked = {}
    monkeypatch.setattr(mutants, "baselines", lambda *_: [])
    monkeypatch.setattr(mutants, "results", lambda left, *_, changed, **__: asked.update(changed) or [])

    outcome = CliRunner().invoke(main, ["--again", str(path), "--results", str(tmp_path / "results.jsonl")])

    assert outcome.exit_code == 0
    assert asked == {caught.name: (STEADY.name,)}
    known = [Baseline(item, RunOutcome("", ()), 1.0, {caught.file: frozenset([caught.statement])}) for item in budget()]
    assert [each.item for each in chosen(caught, known, 28, (), asked[caught.name])] == [STEADY]
