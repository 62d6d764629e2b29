"""Every preset of cooperative rebalancing under every profile and random faults, many seeds each, with all checkers on.

``python -m tests.soak_rebalancing --seeds 1:500`` prints one line per preset and profile, and a command for every run
that did not hold. ``tests/kips/test_kip_429_soak.py`` runs the same over a few seeds.

The load is lighter than the presets' own: less is fetched, so that there is time for more seeds.
"""

import argparse
from functools import partial

import attrs

from kemu.emulator.chance import Seeded
from kemu.emulator.runner import RunResult
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.random_faults import with_random_faults
from kemu.emulator.scenario.scenario import Scenario
from tests.soaking import made, report, said, seeds_of, sweep

PRESETS = (
    "cooperative-scale-out-by-one",
    "cooperative-scale-out-ten-at-once",
    "cooperative-scale-in",
    "cooperative-rolling-restart",
    "cooperative-zombie",
    "upgrade-by-two-bounces",
    "upgrade-without-first-bounce",
    "upgrade-by-assignor-list",
    "downgrade-by-one-bounce",
    "one-eager-member-left-behind",
)
PROFILES = ("kip-429-v99", "kafka-2.4", "kafka-3.4")
LIGHTER = ("fetch.max.wait.ms=10000", "rate=3/s", "emulated.batch.interval.ms=2000")
MOST_FAULTS = 4
EXPECTED = {
    ("one-eager-member-left-behind", "kip-429-v99"): "liveness",
    ("upgrade-without-first-bounce", "kip-429-v99"): "liveness",
}
"""Presets that show how a group never gets well, or how its members fail: they must, whatever else happens."""


def drawn(preset: str, seed: int) -> Scenario:
    """A preset with the load made lighter and random faults added: 1 to 4, by seed.

    However soon a preset wants its group to be well again, a coordinator that loses power may keep members waiting for
    the answer to their JoinGroup for ``max.poll.interval.ms``; so they have as long as Kafka's timeouts may take.
    """
    scenario = attrs.evolve(with_values(load_scenario(preset), LIGHTER), checks=ChecksSpec())
    return with_random_faults(scenario, seed, 1 + Seeded(seed).stream("how many").below(MOST_FAULTS))


def run_one(preset: str, profile: str, seed: int) -> RunResult:
    """One run; nothing is expected to be violated."""
    return made(attrs.evolve(drawn(preset, seed), expect=()), seed=seed, profile=profile)


def is_as_it_should(preset: str, profile: str, result: RunResult) -> bool:
    """Whether the run holds; for the presets that cannot, whether nothing but that is wrong."""
    if (preset, profile) in EXPECTED:
        return not result.broke and all(each.liveness for each in result.violations)
    return result.verdict == "holds"


def one_seed(preset: str, profile: str, seed: int) -> tuple[str, str]:
    """The verdict, and what is wrong with it."""
    result = run_one(preset, profile, seed)
    return result.verdict, "" if is_as_it_should(preset, profile, result) else said(result)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="1:500")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--profiles", default=",".join(PROFILES))
    chosen = parser.parse_args()
    cases = [
        (f"{preset} {profile}", partial(one_seed, preset, profile))
        for preset in chosen.presets.split(",")
        for profile in chosen.profiles.split(",")
    ]
    report(sweep(cases, chosen.seeds))


if __name__ == "__main__":
    main()
