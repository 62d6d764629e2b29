"""A fault that never took effect is an error where a test asks, and said wherever there is a verdict."""

import json

import pytest
from click.testing import CliRunner

import kemu
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.tools.cli import kemu as command
from kemu.tools.testkit.cluster import EmulatedCluster, NoEffect

CRASHES = ("crash host=c1 at=5s for=20s", "crash host=c1 at=10s")
"""The second finds the host down."""


@pytest.fixture
def missing() -> Scenario:
    return with_actions(load_scenario("steady-group"), CRASHES)


def test_a_check_without_seeds_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one seed"):
        kemu.check(load_scenario("steady-group"), seeds=[])


def test_a_check_fails_if_a_fault_never_fired_unless_that_is_allowed(missing: Scenario) -> None:
    with pytest.raises(kemu.NeverFired, match=r"fault 1 never fired: .*\n.*allow_unfired=True"):
        kemu.check(missing, seeds=[1])
    assert kemu.check(missing, seeds=[1], allow_unfired=True)[0].verdict == "holds"


def test_a_cluster_of_the_test_kit_fails_if_a_fault_never_fired(missing: Scenario) -> None:
    with pytest.raises(NoEffect, match="never fired"):
        EmulatedCluster(scenario=missing).run()
    assert EmulatedCluster(scenario=missing, allow_unfired=True).run().verdict == "holds"


def test_a_fault_after_the_end_is_refused_with_its_key() -> None:
    with pytest.raises(ScenarioError, match=r"plan\[0\].at: 3m20s is after the end of the run \(2m\): choose"):
        with_actions(load_scenario("steady-group"), ["crash host=c1 at=200s"])


def test_a_rolling_restart_makes_the_run_longer_and_is_not_refused() -> None:
    scenario = with_actions(load_scenario("steady-group"), ["rolling-restart at=119s every=20s down=8s"])
    assert run(scenario, seed=1, loop="bare").faults[0].fired


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_comparison_says_which_fault_never_fired(form: str) -> None:
    words = ["compare", "steady-group", "--seeds", "1:2", "--assignors", "range", "--format", form]
    told = CliRunner().invoke(command, [*words, "--do", CRASHES[0], "--do", CRASHES[1]])
    assert told.exit_code == 0, told.output
    if form == "json":
        assert json.loads(told.stdout)["variants"][0]["never_fired"]
    else:
        assert "a fault never fired in any run: " in told.output
