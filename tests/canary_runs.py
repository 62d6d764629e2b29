"""Runs scenarios until a checker speaks: what the mutation canary starts in a process of its own.

``python -m tests.canary_runs ROOT WANTED RUN...``: the packages must come from ROOT; a RUN is a preset or a file, a
colon and how many seeds. Prints who spoke, one name per line; stops when WANTED has.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import kemu.actors
import kemu.emulator
import kemu.protocol
from kemu.emulator.runner import run
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.files import load_scenario


def who_speaks(source: str, seeds: int) -> Iterator[str]:
    """Names of the checkers that find something, alone and with the kind of what they find, or "broken"."""
    scenario = load_scenario(source)
    for seed in range(1, seeds + 1):
        result = run(scenario, seed=seed, drive="bare")
        if result.broke:
            yield "broken"
        for violation in split(result.violations, scenario.expect)[0]:
            yield violation.checker
            yield f"{violation.checker}/{violation.kind}"


def main() -> None:
    """See the module."""
    root, wanted, *runs = sys.argv[1:]
    for package in (kemu.actors, kemu.emulator, kemu.protocol):
        assert package.__file__ is not None and Path(package.__file__).resolve().is_relative_to(root), package.__file__
    said: dict[str, None] = {}
    for each in runs:
        source, _, seeds = each.rpartition(":")
        for name in who_speaks(source, int(seeds)):
            if name not in said:
                said[name] = None
                print(name, flush=True)
            if name == wanted:
                return


if __name__ == "__main__":
    main()
