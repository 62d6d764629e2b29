"""Every preset of replication and control under random faults, many seeds each, both drives, with all checkers on.

``python -m tests.soak_replication --seeds 1:300`` prints one line per preset, and one for every run that did not hold.
``tests/emulator/test_replication_soak.py`` runs the same over a few seeds.
"""

import argparse
from collections.abc import Sequence
from functools import cache, partial

import attrs

from emulator.chance import Stream
from emulator.runner import RunResult, run
from emulator.scenario import ChecksSpec, Scenario
from emulator.scenario_files import load_scenario, presets
from emulator.swarm import with_random_faults
from tests.soaking import report, said, seeds_of, sweep

PRESETS = tuple(each.name for each in presets() if load_scenario(each.name).brokers.replication is not None)
DRIVES = ("bare", "trio")
MOST_FAULTS = 4


@cache
def _preset(name: str) -> Scenario:
    return attrs.evolve(load_scenario(name), checks=ChecksSpec())


def drawn(preset: str, seed: int) -> Scenario:
    """A preset with random faults added, 1 to 4 by seed, and as long to get well as Kafka's own timeouts may take."""
    return with_random_faults(_preset(preset), seed, 1 + Stream(seed, "how many").below(MOST_FAULTS))


def run_one(preset: str, seed: int, drive: str) -> RunResult:
    """One run; nothing is expected to be violated."""
    return run(attrs.evolve(drawn(preset, seed), expect=()), seed=seed, drive=drive)


def one_seed(preset: str, drives: Sequence[str], seed: int) -> tuple[str, str]:
    """The verdict, and what is wrong with it; all drives must agree to the byte."""
    results = [run_one(preset, seed, drive) for drive in drives]
    first = results[0]
    if any(each.digest != first.digest for each in results):
        return "differs", "the drives differ"
    return first.verdict, "" if first.verdict == "holds" else said(first)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1:300")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--drives", default=",".join(DRIVES))
    chosen = parser.parse_args()
    drives = chosen.drives.split(",")
    cases = [(preset, partial(one_seed, preset, drives)) for preset in chosen.presets.split(",")]
    report(sweep(cases, seeds_of(chosen.seeds)))


if __name__ == "__main__":
    main()
