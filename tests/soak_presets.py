"""Every preset on a named set of draws, many seeds, all checkers on: no run may find what its preset does not expect.

``python -m tests.soak_presets --draws life --seeds 1:300`` prints a line per seed, the command that repeats each run
that did not hold, and at the end each line of a plan that never took effect. Seeds go one after the other through all
presets, so a sweep that was stopped goes on with the rest of them (``--seeds 118:300``; its last line says so).

A preset that says its draws itself keeps them: it is written for that set. On another set than the default its runs
would be the same ones again, so it is left out there unless it is named (``--presets``).
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.scenario import DEFAULT_DRAWS, Scenario
from kemu.protocol.draws import SETS
from tests.preset_runs import PRESETS
from tests.soaking import made, report, said, seeds_of, standing


@cache
def on(name: str, draws: str) -> tuple[Scenario, str]:
    """A preset on a set of draws, and what one adds to ``kemu run`` for it; its own set if it says one."""
    scenario = load_scenario(name)
    if draws == DEFAULT_DRAWS or scenario.draws.name != DEFAULT_DRAWS:
        return scenario, ""
    return with_values(scenario, [f"draws={draws}"]), f" --set draws={draws}"


def with_runs_of_their_own(draws: str) -> tuple[str, ...]:
    """The presets whose runs on this set are none of the default one's."""
    return tuple(name for name in PRESETS if draws == DEFAULT_DRAWS or on(name, draws)[1])


def one_run(name: str, draws: str, seed: int, fired: Counter[tuple[str, int]]) -> tuple[str, str]:
    """What is wrong with a run and the command that repeats it, or "", and what stands still as it would in Kafka.

    ``fired`` counts what took effect.
    """
    scenario, added = on(name, draws)
    result = made(scenario, seed=seed)
    for fault in result.faults:
        fired[name, fault.index] += fault.fired
    if result.verdict == "holds":
        return "", standing(result)
    wrong = f"{result.verdict}: {said(result) or result.reason}; kemu run {name} --seed {seed} --loop bare{added}"
    return wrong, ""


def never_fired(names: Iterable[str], fired: Counter[tuple[str, int]]) -> list[str]:
    """Lines of plans that never took effect in any run."""
    return [
        f"{name}: line {index} of its plan"
        for name in names
        for index in range(len(load_scenario(name).plan))
        if not fired[name, index]
    ]


def sweep_seeds(names: tuple[str, ...], draws: str, seeds: range) -> Iterator[str]:
    """A line for each run that is not as it should be, one for each seed, and what never fired."""
    fired: Counter[tuple[str, int]] = Counter()
    for seed in seeds:
        began_s, holding = time.perf_counter(), 0
        for name in names:
            wrong, stands = one_run(name, draws, seed, fired)
            if stands:
                yield f"  {name} on {draws}, seed {seed}: holds{stands}"
            holding += not wrong
            if wrong:
                yield f"  FAILED {name} on {draws}, seed {seed}: {wrong}"
        left = f"; if stopped here, go on with --seeds {seed + 1}:{seeds[-1]}" if seed != seeds[-1] else ""
        yield f"seed {seed} on {draws}: {holding} of {len(names)} hold ({time.perf_counter() - began_s:.0f} s{left})"
    for line in never_fired(names, fired):
        yield f"  FAILED never took effect on {draws} in seeds {seeds[0]}:{seeds[-1]}: {line}"


def main(args: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", choices=SETS, default=DEFAULT_DRAWS)
    parser.add_argument("--seeds", type=seeds_of, default="1:300")
    parser.add_argument("--presets", default="")
    chosen = parser.parse_args(args)
    names = tuple(chosen.presets.split(",")) if chosen.presets else with_runs_of_their_own(chosen.draws)
    unknown = [name for name in names if name not in PRESETS]
    if unknown:
        parser.error(f"argument --presets: {', '.join(unknown)}: no such preset; kemu scenarios lists them")
    report(sweep_seeds(names, chosen.draws, chosen.seeds))


if __name__ == "__main__":
    main()
