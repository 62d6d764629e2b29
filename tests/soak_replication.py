"""Every preset of replication and control under random faults, many seeds each, both loops, with all checkers on.

``python -m tests.soak_replication --seeds 1:300`` prints one line per preset, and one for every run that did not hold.
``tests/emulator/test_replication_soak.py`` runs the same over a few seeds.
"""

import argparse
from collections.abc import Sequence
from functools import cache, partial

import attrs

from kemu.emulator.chance import Seeded
from kemu.emulator.runner import RunResult
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.presets import presets
from kemu.emulator.scenario.random_faults import with_random_faults
from kemu.emulator.scenario.scenario import Scenario
from tests.soaking import made, report, said, seeds_of, standing, sweep

PRESETS = tuple(each.name for each in presets() if load_scenario(each.name).brokers.replication is not None)
LOOPS = ("bare", "trio")
LIGHTER = ("fetch.max.wait.ms=5000", "rate=4/s")
"""A third of the presets' own load: as many faults, elections and moves in a third of the time."""
MOST_FAULTS = 4


@cache
def _preset(name: str, settings: tuple[str, ...]) -> Scenario:
    return attrs.evolve(with_values(load_scenario(name), settings), checks=ChecksSpec())


def drawn(preset: str, seed: int, settings: tuple[str, ...] = LIGHTER) -> Scenario:
    """A preset with random faults added, 1 to 4 by seed, and as long to get well as Kafka's own timeouts may take."""
    return with_random_faults(_preset(preset, settings), seed, 1 + Seeded(seed).stream("how many").below(MOST_FAULTS))


def run_one(preset: str, seed: int, loop: str, settings: tuple[str, ...] = LIGHTER) -> RunResult:
    """One run; nothing is expected to be violated."""
    return made(attrs.evolve(drawn(preset, seed, settings), expect=()), seed=seed, loop=loop)


def one_seed(preset: str, loops: Sequence[str], seed: int, settings: tuple[str, ...] = LIGHTER) -> tuple[str, str]:
    """The verdict, and what is wrong with it; all loops must agree to the byte."""
    results = [run_one(preset, seed, loop, settings) for loop in loops]
    first = results[0]
    if any(each.digest != first.digest for each in results):
        return "differs", "the loops differ"
    return first.verdict + standing(first), "" if first.verdict == "holds" else said(first)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="1:300")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--loops", default=",".join(LOOPS))
    parser.add_argument("--load", choices=("light", "full"), default="light", help="full: the presets' own")
    chosen = parser.parse_args()
    loops = chosen.loops.split(",")
    settings = LIGHTER if chosen.load == "light" else ()
    cases = [(preset, partial(one_seed, preset, loops, settings=settings)) for preset in chosen.presets.split(",")]
    report(sweep(cases, chosen.seeds))


if __name__ == "__main__":
    main()
