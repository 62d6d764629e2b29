"""A sample of every sweep is made again in another process; what differs there is followed to where it begins."""

import json
from collections.abc import Iterator

import attrs
import pytest
from click.testing import CliRunner

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.cli import kemu
from kemu.tools.determinism import sweep
from kemu.tools.determinism.run_entries import Entry, run_reporting
from kemu.tools.determinism.watch import CANARY, Differs, SweepWatch, SweptRun, canary, compared_with, fails
from kemu.tools.exits import BROKEN, NONDETERMINISM

pytestmark = pytest.mark.usefixtures("repeated")

BY_HASH = "tests.tools.determinism.hashing:ByHash"
ELSEWHERE = "tests.tools.determinism.hashing:BreaksElsewhere"


def short(*settings: str) -> Scenario:
    """A group that starts, and little more."""
    return with_values(load_scenario("steady-group"), ["duration=8s", *settings])


def asked(scenario: Scenario, seed: int = 1) -> SweptRun:
    return SweptRun(scenario, seed, "kafka-3.4", f"kemu run steady-group --seed {seed}")


def swept(scenario: Scenario, runs: int, every: int = 20) -> tuple[SweepWatch, list[Differs]]:
    with SweepWatch(every) as watch:
        for seed in range(1, runs + 1):
            watch.saw(asked(scenario, seed), run(scenario, seed=seed, loop="bare").digest)
        return watch, watch.differing()


def test_every_twentieth_run_beginning_with_the_first_is_made_again_and_the_same() -> None:
    scenario = short()
    digest = run(scenario, seed=1, loop="bare").digest

    with SweepWatch() as watch:
        for _ in range(41):
            watch.saw(asked(scenario), digest)

        assert watch.differing() == []
    assert (watch.seen, watch.sampled) == (41, 3)


def test_an_assignment_that_depends_on_hashes_is_found_and_the_field_in_which_it_shows_is_named() -> None:
    watch, (differs,) = swept(short(f"assignors=['{BY_HASH}']"), runs=2, every=2)

    assert watch.sampled == 1
    assert differs.asked.seed == 1
    assert differs.here != differs.there
    here, there, inside = differs.lines[-3:]
    assert here.startswith("  > here ") and there.startswith("  > there ")
    assert ".message.assignments[" in inside, inside


def test_a_digest_that_nothing_repeats_is_said_to_differ_now_and_then() -> None:
    with SweepWatch() as watch:
        watch.saw(asked(short()), "0" * 32)
        (differs,) = watch.differing()

    assert differs.here == "0" * 32
    assert "does not repeat" in differs.lines[0]


def test_a_run_that_breaks_in_the_other_process_is_named_with_its_command() -> None:
    with SweepWatch() as watch:
        watch.saw(asked(short(f"assignors=['{ELSEWHERE}']"), seed=7), "0" * 32)

        with pytest.raises(RuntimeError, match=r"(?s)broke in another process: out of memory, say.*--seed 7"):
            watch.differing()


def test_the_first_draw_that_differs_is_shown_with_what_came_before() -> None:
    ours: list[Entry] = [("draw", "ties", 32, number) for number in range(6)]
    theirs: list[Entry] = [*ours[:4], ("draw", "net/c1>b0", 32, 4), ("draw", "ties", 32, 5)]

    lines = list(compared_with(iter(theirs), lambda tell: [tell(entry) for entry in ours]))

    assert lines[0] == "the first 4 draws and records are equal, then:"
    assert [line.strip() for line in lines[1:4]] == [f"draw of 32 bits for ties: {n}" for n in (1, 2, 3)]
    assert lines[4] == "  > here   draw of 32 bits for ties: 4"
    assert lines[5] == "  > there  draw of 32 bits for net/c1>b0: 4"


def test_a_run_that_goes_on_longer_in_the_other_process_is_shown_to() -> None:
    lines = list(compared_with(iter([("draw", "ties", 32, 1)]), lambda tell: None))

    assert lines[-2:] == ["  > here   no more entries", "  > there  draw of 32 bits for ties: 1"]


def test_a_run_that_tells_its_draws_is_the_same_run() -> None:
    """Else it would look for the difference in another run."""
    scenario = short()
    told: list[Entry] = []
    run_reporting(scenario, 3, "kafka-3.4", told.append)

    steps = [entry for entry in told if entry[0] == "step"]
    assert len(steps) == run(scenario, seed=3, loop="bare").steps
    assert {entry[0] for entry in told} >= {"draw", "step", "packet", "fact"}


# --- the canary, and the commands ------------------------------------------------------------------------------------


def test_the_run_that_must_fail_does_and_one_that_says_what_it_breaks_does_not() -> None:
    assert fails(canary())
    assert not fails(load_scenario(CANARY))


@pytest.fixture
def quick() -> Iterator[list[str]]:
    yield ["steady-group", "--seeds", "1:2", "--set", "duration=8s"]


def test_a_sweep_says_how_many_runs_were_made_again(quick: list[str]) -> None:
    done = CliRunner().invoke(kemu, ["run", *quick, "--format", "json"])

    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["runs"]) == 2
    assert "1 run of 2 repeated in another process: equal" in done.stderr


@pytest.mark.parametrize("command", [["run"], ["compare", "--profiles", "kafka-3.4"]])
def test_a_sweep_with_a_run_that_differs_exits_with_nondeterminism(command: list[str], quick: list[str]) -> None:
    done = CliRunner().invoke(kemu, [*command, *quick, "--set", f"assignors=['{BY_HASH}']"])

    assert done.exit_code == NONDETERMINISM, done.output
    assert "repeat with: PYTHONHASHSEED=" in done.stderr
    assert "steady-group --" in done.stderr.splitlines()[-1]


def test_a_sweep_whose_checkers_are_asleep_does_not_pass(quick: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "canary", lambda: attrs.evolve(short()))

    done = CliRunner().invoke(kemu, ["run", *quick])

    assert done.exit_code == BROKEN
    assert sweep.ASLEEP in done.stderr
