"""``kemu swarm``: a line for each seed, all draws of one, the scenario as a file."""

import json
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from kemu.emulator.exploring.history import EXPLANATIONS, Anomaly, History, Occurrence
from kemu.emulator.exploring.swarm import SwarmCase, swarm_case
from kemu.emulator.findings import Violation
from kemu.emulator.past_bugs.applying import bugs_of
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.toml_text import toml_text
from kemu.emulator.watching.panel import Panel
from kemu.protocol.profiles import PROFILES
from kemu.tools.cli import kemu
from kemu.tools.commands.swarm import SwarmRun, _run, lines_of
from tests.emulator.exploring.failing import failing
from tests.emulator.exploring.test_explorer import small
from tests.emulator.exploring.test_swarm import SEEDS_OF_BEFORE


def swarm(*arguments: str) -> Result:
    """What the command says."""
    return CliRunner().invoke(kemu, ["swarm", *arguments])


def test_one_seed_tells_what_it_drew_and_what_came_of_it(tmp_path: Path) -> None:
    """And writes the scenario, which is run again as any other."""
    out = tmp_path / "three.toml"
    result = swarm("--seed", "3", "--out", str(out))

    assert result.exit_code == 0, result.output
    assert "  faults off     pause, isolate" in result.stdout
    assert "What happened" in result.stdout and "holds" in result.stdout
    assert load_scenario(out) == swarm_case(3).scenario


def test_many_seeds_are_a_line_each(tmp_path: Path) -> None:
    """With the draws of what failed, and the command that repeats it."""
    source = tmp_path / "late.toml"
    source.write_text(toml_text(failing().to_dict()))

    result = swarm(str(source), "--seeds", "4:5")

    lines = result.stdout.splitlines()
    assert result.exit_code == 8, result.output
    assert lines[-1] == "0 of 2 hold"
    assert f"  repeat with: kemu swarm {source} --seed 4" in lines
    assert any(line.startswith("  faults on ") for line in lines)
    assert any("liveness: group g did not come to rest" in line for line in lines)


def test_an_operated_swarm_tells_what_people_did() -> None:
    """A seed of it is another one than without."""
    result = swarm("--operated", "--seed", "2")

    assert result.exit_code == 0, result.output
    assert "  operations on  " in result.stdout and "  moments " in result.stdout
    assert "  moments " not in swarm("--seed", "2").stdout


def test_json_has_draws_and_results() -> None:
    """For programs."""
    result = swarm("steady-group", "--seeds", "1:1", "--format", "json")

    (run,) = json.loads(result.stdout)["runs"]
    assert run["verdict"] == "holds"
    assert set(run["drawn"]) == {"seed", "on", "off", "scenario"}


def test_with_history_each_run_is_judged_by_it_too(tmp_path: Path) -> None:
    """A table, or a key of the json."""
    source = tmp_path / "small.toml"
    source.write_text(toml_text(small().to_dict()))
    text = swarm(str(source), "--seed", "2", "--history")
    data = json.loads(swarm(str(source), "--seed", "2", "--history", "--format", "json").stdout)

    assert text.exit_code == 0, text.output
    assert "Its history" in text.stdout
    assert text.stdout.rstrip().endswith("unexplained: 0")
    assert data["history"]["unexplained"] == []
    assert {row["explained"] for row in data["history"]["anomalies"]} <= {*EXPLANATIONS}


def test_an_anomaly_that_nothing_explains_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although no checker says a word."""
    source = tmp_path / "small.toml"
    source.write_text(toml_text(small().to_dict()))
    odd = Occurrence(Anomaly.LOST_WRITE, 5_000_000, "t-0", 3, 3, "b0", "", "record 3 of t-0 is gone")
    monkeypatch.setattr(History, "finish", lambda self, at_us, losses=(): (odd,))
    result = swarm(str(source), "--seeds", "2:2", "--history")

    assert result.exit_code == 9
    assert "       2  violated " in result.stdout
    assert "  unexplained: lost write at 5.000 s: record 3 of t-0 is gone" in result.stdout
    assert f"  repeat with: kemu swarm {source} --history --seed 2" in result.stdout
    assert result.stdout.rstrip().endswith("0 of 1 hold")


def test_what_a_release_does_by_itself_is_told_with_the_bug_that_it_is() -> None:
    """Kafka 2.4 writes no replacement of a static member (KAFKA-10284); with that mended the seed holds."""
    scenario = attrs.evolve(load_scenario("KAFKA-10284"), bugs=(), profile="kafka-2.4")
    one = _run(SwarmCase(seed=1, scenario=scenario, on=(), off=()), None, False, Panel())
    told = list(lines_of(one, False, "again"))

    assert (one.result.verdict, one.verdict, one.own_bugs) == ("liveness", "holds", ("KAFKA-10284",))
    assert told[2] == (
        '  the run holds without a past bug of kafka-2.4, KAFKA-10284 (fixed in 2.6.1): mended = ["KAFKA-10284"]'
    )
    switched_on = attrs.evolve(scenario, bugs=("KAFKA-10284",))
    again = _run(SwarmCase(seed=1, scenario=switched_on, on=(), off=()), None, False, Panel())
    assert (again.verdict, again.own_bugs) == ("liveness", ())


@pytest.mark.parametrize(("release", "seed"), [("kafka-2.8", 2), ("kafka-3.0", 1)])
def test_a_claim_that_a_leader_passes_over_is_told_with_the_bug_of_its_release(release: str, seed: int) -> None:
    """Who gets no assignment of a generation still owns what the leader then takes for free (KAFKA-14639)."""
    scenario = attrs.evolve(load_scenario("KAFKA-14639"), bugs=(), profile=release, expect=())
    one = _run(SwarmCase(seed=seed, scenario=scenario, on=(), off=()), None, False, Panel())

    assert {(each.checker, each.kind) for each in one.result.violations} == {
        ("cooperative", "handed-over-too-soon"),
    }
    assert (one.verdict, one.own_bugs) == ("holds", ("KAFKA-14639",))


def test_what_3_7_0_moves_to_its_rack_is_told_with_the_bug_that_it_is() -> None:
    """A member that missed a generation still owns what goes to a rack that has it (KAFKA-15170: mended in 3.7.1)."""
    scenario = attrs.evolve(load_scenario("KAFKA-15170"), bugs=(), profile="kafka-3.7", expect=())
    one = _run(SwarmCase(seed=scenario.seed, scenario=scenario, on=(), off=()), None, False, Panel())

    assert (one.result.verdict, one.verdict, one.own_bugs) == ("violated", "holds", ("KAFKA-15170",))


def test_what_comes_after_a_member_that_failed_is_none_of_its_own() -> None:
    """KAFKA-9801 fails the only member; where it does not, an id of it is forgotten, and it works on under another."""
    scenario = load_scenario(str(SEEDS_OF_BEFORE / "static-member-without-assignment.toml"))
    one = _run(SwarmCase(seed=54472, scenario=scenario, on=(), off=()), None, False, Panel())

    assert (one.result.verdict, one.verdict, one.own_bugs) == ("liveness", "holds", ("KAFKA-9801",))


def test_members_that_fail_for_another_error_without_a_bug_fail_anew() -> None:
    """Without KAFKA-9801 c2 and c4 get an assignment, come back under new ids, and are fenced (KAFKA-10284)."""
    scenario = load_scenario(str(SEEDS_OF_BEFORE / "left-out-and-then-fenced.toml"))
    one = _run(SwarmCase(seed=58654, scenario=scenario, on=(), off=()), None, False, Panel())

    assert (one.result.verdict, one.verdict) == ("liveness", "holds")
    assert one.own_bugs == ("KAFKA-9801", "KAFKA-10284")


@pytest.mark.parametrize(
    ("left_without", "known"),
    [
        ({}, ("KAFKA-9801",)),  # each alone is enough: the first is told
        ({"KAFKA-9801": "b"}, ("KAFKA-10284",)),
        ({"KAFKA-9801": "b", "KAFKA-10284": "a"}, ("KAFKA-9801", "KAFKA-10284")),
        ({"KAFKA-9801": "b", "KAFKA-10284": "ab"}, ()),  # nobody explains b, though all at once are another course
        ({"KAFKA-9801": "bc", "KAFKA-10284": "ac"}, ("KAFKA-9801", "KAFKA-10284")),
        # what comes to light without one of them, or two, is looked at without one more
        ({"KAFKA-9801": "c", "KAFKA-10284": "ab"}, ("KAFKA-9801", "KAFKA-10284")),
        ({"KAFKA-9801": "c", "KAFKA-10284": "ab", "KAFKA-9801 KAFKA-10284": "c", "KAFKA-9801 KAFKA-12257": "c"}, ()),
        (
            {"KAFKA-9801": "b", "KAFKA-10284": "a", "KAFKA-9801 KAFKA-10284": "c"},
            ("KAFKA-9801", "KAFKA-10284", "KAFKA-12257"),
        ),
        ({"all": "c"}, ()),
    ],
)
def test_a_failure_is_known_if_it_is_gone_with_one_of_the_releases_own_bugs(
    left_without: dict[str, str], known: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken away one at a time; what stays with each of them is a failure, whatever happens without all of them."""
    case = SwarmCase(seed=1, scenario=small(), on=(), off=())
    plain = run(case.scenario, seed=1, profile="kafka-2.4", loop="bare")
    own = bugs_of(PROFILES["kafka-2.4"])
    assert own[:2] == ("KAFKA-9801", "KAFKA-10284")

    def once(case: SwarmCase, *_: object) -> SwarmRun:
        mended = case.scenario.mended
        some = "ab" if not mended else left_without.get("all" if mended == own else " ".join(mended), "")
        if len(mended) == 1 and mended[0] not in own[:2]:
            some = "ab"
        violations = tuple(Violation("liveness", 1, 1, (who,), "", True, "member-failed") for who in some)
        verdict = "liveness" if some else "holds"
        return SwarmRun(case, attrs.evolve(plain, violations=violations, verdict=verdict, reason=some), None)

    monkeypatch.setattr("kemu.tools.commands.swarm._run_once", once)
    one = _run(case, "kafka-2.4", False, Panel())

    assert (one.own_bugs, one.verdict) == (known, "holds" if known else "liveness")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "5:1"), "must be A:B"),
        (("--profile", "kafka-9.9"), "is no profile"),
        (("steady-group", "--replicated"), "SCENARIO exclude each other"),
        (("steady-group", "--operated"), "SCENARIO exclude each other"),
        (("--out", "x.toml"), "--out needs --seed"),
    ],
)
def test_bad_options_are_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2."""
    result = swarm(*arguments)

    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_scenario_is_told() -> None:
    """As everywhere."""
    with pytest.raises(ScenarioError, match="is no preset"):
        CliRunner().invoke(kemu, ["swarm", "steady-grop"], catch_exceptions=False)
