"""Every preset over some seeds with all checkers on: what must hold, holds; what must happen, happens."""

from collections import Counter
from statistics import fmean

import attrs
import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.facts import Seen
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import DEFAULT_DRAWS, Scenario
from kemu.protocol.draws import SETS
from kemu.protocol.notes.groups import Processed
from tests.preset_runs import LARGE, PRESETS, by_preset, preset_run
from tests.soak_presets import main, never_fired, on, sweep_seeds, with_runs_of_their_own

SEEDS_TO_FIRE_IN = 5
SOAK_SEEDS = range(1, 201)


@pytest.mark.usefixtures("decoded")
@pytest.mark.parametrize("name", by_preset())
def test_a_preset_holds_and_its_faults_fire(name: str) -> None:
    """On life, as it is run by default; more than one seed only if a line of its plan has not taken effect in it."""
    fired: Counter[tuple[str, int]] = Counter()
    for seed in range(1, SEEDS_TO_FIRE_IN + 1):
        one = preset_run(name, seed)
        assert one.wrong == ""
        fired.update({(name, index): times for index, times in one.fired.items()})
        if not never_fired([name], fired):
            break
    assert never_fired([name], fired) == []


@pytest.mark.parametrize("name", LARGE)
def test_a_large_preset_holds_and_its_faults_fire(name: str) -> None:
    """One seed: it takes seconds."""
    one = preset_run(name, 1)

    assert one.wrong == ""
    assert all(one.fired.values())


@pytest.mark.soak
@pytest.mark.parametrize("draws", SETS)
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_for_two_hundred_seeds(name: str, draws: str) -> None:
    """On both sets of draws; ``python -m tests.soak_presets`` goes on from any seed."""
    assert [line for line in sweep_seeds((name,), draws, SOAK_SEEDS) if "FAILED" in line] == []


def test_a_sweep_leaves_out_only_presets_whose_runs_another_set_has() -> None:
    """On the default set all are run; on another one those that say their draws themselves would be the same."""
    assert with_runs_of_their_own(DEFAULT_DRAWS) == PRESETS
    for draws in SETS:
        ran = with_runs_of_their_own(draws)
        assert "broker-crash-and-return" in ran
        for name in set(PRESETS) - set(ran):
            assert on(name, draws)[0] == on(name, DEFAULT_DRAWS)[0]


def test_a_sweep_of_a_preset_that_there_is_not_says_so_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--presets", "streams-scale-up,no-such-one", "--seeds", "1:1"])

    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "argument --presets: no-such-one: no such preset" in err


@pytest.mark.parametrize("seeds", ["3:1", "5", "1:x", ":", "-1:2"])
def test_a_sweep_over_no_seeds_says_so_and_does_not_hold(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"--seeds={seeds}"])

    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert f'argument --seeds: "{seeds}" must be A:B with A not above B' in err


@pytest.mark.parametrize(("draws", "seed"), [("life", 56), ("calm", 72)])
def test_members_that_chase_each_other_out_for_ever_are_kafkas_own_livelock(draws: str, seed: int) -> None:
    """Who takes all partitions polls more than it can do in ``max.poll.interval.ms``, and commits nothing of it."""
    outcome = run(on("slow-consumer", draws)[0], seed=seed)

    assert outcome.verdict == "holds"
    assert [violation.kind for violation in outcome.violations] == ["not-at-rest"]


# --- the load --------------------------------------------------------------------------------------------------------

S = 1_000_000
FROM_US, UNTIL_US = 10 * S, 40 * S
OTHER_LOADS = {
    "consumer-protocol-1000-members": "a thousand members that rarely fetch, so that it runs in half a minute",
    "custom-assignor-with-generation": "calm: an application takes no time",
    "custom-assignor-without-generation": "calm: an application takes no time",
    "cooperative-scale-out-ten-at-once": "two members have what three brokers send at once: fewer polls",
    "reassign-forty-partitions": "few records on forty partitions that move, so that it runs in seconds",
    "streams-scale-up": "its instances' tasks do the work, not the loop around the consumer",
    "slow-consumer": "members that are overloaded are what it is about",
    "thundering-herd-100": "a hundred members that rarely fetch, so that it runs in seconds",
    "topic-created-and-deleted": "without its plan one of its topics does not exist",
}
"""Presets whose members work more or less of their time than most, and why."""


class Work:
    """How long members worked between two moments, over all of them."""

    def __init__(self) -> None:
        self.us = 0
        self._until: dict[str, int] = {}

    def wants(self, kind: type) -> bool:
        """What applications finished, and when they began it."""
        return kind is Processed

    def see(self, seen: Seen) -> None:
        """Count each moment of a member once."""
        began_us = max(seen.fact.started_us, self._until.get(seen.actor, 0), FROM_US)
        self._until[seen.actor] = seen.at_us
        self.us += max(0, min(seen.at_us, UNTIL_US) - began_us)


def load_of(scenario: Scenario) -> float:
    """The share of their time that its members work, before anything happens to them: the mean of three seeds, because
    the work on a record varies.
    """
    quiet = attrs.evolve(scenario, plan=(), duration_us=UNTIL_US)
    shares = []
    for seed in (1, 2, 3):
        work = Work()
        one = Run(quiet, seed=seed, loop="bare", checkers=[], observers=(work,))
        assert not one.run_with(lambda world, _: run_plain(world, UNTIL_US))
        shares.append(work.us / (UNTIL_US - FROM_US) / sum(group.members for group in scenario.groups.values()))
    return fmean(shares)


def different_loads() -> dict[str, str]:
    """One preset's name for each load that presets have.

    Those of KIP-333 are about members that are behind, those of Streams about tasks that are restored.
    """
    found: dict[str, str] = {}
    for name in PRESETS:
        if (
            name not in OTHER_LOADS
            and not name.startswith(("catch-up-", "streams-"))
            and (scenario := load_scenario(name)).groups
        ):
            found.setdefault(repr((scenario.topics, scenario.groups, scenario.producers, scenario.brokers.count)), name)
    return {name: name for name in found.values()}


@pytest.mark.parametrize("name", different_loads())
def test_members_work_a_third_to_a_half_of_their_time(name: str) -> None:
    """A group sized with some reserve keeps up at 30 to 50 percent of what it could do."""
    assert 0.28 <= load_of(load_scenario(name)) <= 0.5
