"""Runs scenarios until a checker speaks: what the mutation canary starts in a process of its own.

``python -m tests.canary_runs ROOT WANTED RUN...``: the packages must come from ROOT; a RUN is a preset or a file, a
colon and how many seeds. Prints who spoke, one name per line; stops when WANTED has. WANTED may be followed by
``--beside=drift`` or ``--beside=listener``: then each plan gets a line that changes nothing that a checker asks about.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import kemu.actors
import kemu.emulator
import kemu.protocol
from kemu.emulator.runner import run
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.emulator.scenario.scenario import Scenario

BESIDE = "--beside="
MORE_SEEDS = 5
"""A line more is an entry of the agenda more: ties are drawn anew, and a break may show under another seed."""


def with_irrelevant_line(scenario: Scenario, what: str) -> Scenario:
    """The scenario with a lasting line in its plan that excuses nobody.

    "drift": a clock that is 1 ppm too fast for the whole run, of the first member and the last broker. "listener": the
    first member's listener would raise in ``onPartitionsLost``, which comes only to a member that lost its membership;
    members of Streams groups have no listener that could raise.
    """
    members = [host for host, group, _ in scenario.member_names() if scenario.groups[group].streams is None]
    seconds = scenario.duration_us // 1_000_000
    if what == "listener":
        lines = [f"fail-listener host={host} at=1ms callback=onPartitionsLost" for host in members[:1]]
    else:
        hosts = [*members[:1], scenario.broker_names()[-1]]
        lines = [f"clock-drift host={host} at=1ms ppm=1 for={seconds}s" for host in hosts]
    return with_actions(scenario, lines)


def who_speaks(source: str, seeds: int, beside: str = "") -> Iterator[str]:
    """Names of the checkers that find something, alone and with the kind of what they find, or "broken"."""
    scenario = load_scenario(source)
    if beside:
        scenario = with_irrelevant_line(scenario, beside)
    for seed in range(1, seeds + 1 + (MORE_SEEDS if beside else 0)):
        result = run(scenario, seed=seed, loop="bare")
        if result.broke:
            yield "broken"
        for violation in split(result.violations, scenario.expect)[0]:
            yield violation.checker
            yield f"{violation.checker}/{violation.kind}"


def main() -> None:
    """See the module."""
    root, wanted, *runs = sys.argv[1:]
    beside = runs.pop(0).removeprefix(BESIDE) if runs and runs[0].startswith(BESIDE) else ""
    for package in (kemu.actors, kemu.emulator, kemu.protocol):
        assert package.__file__ is not None and Path(package.__file__).resolve().is_relative_to(root), package.__file__
    said: dict[str, None] = {}
    for each in runs:
        source, _, seeds = each.rpartition(":")
        for name in who_speaks(source, int(seeds), beside):
            if name not in said:
                said[name] = None
                print(name, flush=True)
            if name == wanted:
                return


if __name__ == "__main__":
    main()
