"""What the long sweeps share: cases times seeds, a line per case, a line per seed that is not as it should be."""

import sys
import time
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TypeAlias

import attrs

from kemu.emulator.engine.world import Observer
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.expectations import of_kafkas_own, stood_still
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweepWatch, SweptRun

OneSeed: TypeAlias = Callable[[int], tuple[str, str]]
"""Seed -> (verdict, what is wrong with that or "")."""

STANDING = ", stands still: "
"""How a verdict says that something stands still; what comes behind is the kind."""

_WATCH: ContextVar[SweepWatch | None] = ContextVar("_WATCH", default=None)
"""Of the sweep that is going on; tests that call a sweep's parts have none."""


def made(
    scenario: Scenario,
    *,
    seed: int,
    profile: str | None = None,
    loop: str = "bare",
    observers: Sequence[Observer] = (),
) -> RunResult:
    """A run of a sweep; of these a sample is made again in another process (``kemu.tools.determinism``).

    What stands still as it would in Kafka is expected: the sweep's lines name it (``standing``).
    """
    expect = (*scenario.expect, *(each for each in of_kafkas_own() if each not in scenario.expect))
    scenario = attrs.evolve(scenario, expect=expect)
    result = run(scenario, seed=seed, profile=profile, loop=loop, observers=observers)
    watch = _WATCH.get()
    if watch is not None:
        watch.saw(SweptRun(scenario, seed, result.profile, f"this sweep, {scenario.name}, seed {seed}"), result.digest)
    return result


def standing(result: RunResult) -> str:
    """What of a run stands still for a reason that is Kafka's own, as a verdict ends; "" if nothing does."""
    kinds = dict.fromkeys(each.kind for each in stood_still(result.violations))
    return f"{STANDING}{', '.join(kinds)}" if kinds else ""


def said(result: RunResult) -> str:
    """What a run found that is not as it should be, in a line."""
    own = stood_still(result.violations)
    wrong = [each for each in result.violations if each not in own]
    return result.broke or "; ".join(f"{each.checker}: {each.text}" for each in wrong[:2])


def seeds_of(text: str) -> range:
    """The seeds that FIRST:LAST names, both included: what a sweep's arguments are read with.

    Raises:
        ArgumentTypeError: it names none. (A sweep of no seeds would hold.)
    """
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first):
        raise ArgumentTypeError(f'"{text}" must be A:B with A not above B, such as 1:50')
    return range(int(first), int(last) + 1)


def sweep(cases: Iterable[tuple[str, OneSeed]], seeds: range) -> Iterator[str]:
    """The lines of all cases, each named."""
    for name, one_seed in cases:
        began_s = time.perf_counter()
        verdicts: Counter[str] = Counter()
        for seed in seeds:
            verdict, wrong = one_seed(seed)
            verdicts[verdict] += 1
            if wrong:
                yield f"  FAILED {name} seed {seed}: {wrong}"
            elif STANDING in verdict:
                yield f"  {name} seed {seed}: {verdict}"
        counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        yield f"{name:48} {counted}   ({time.perf_counter() - began_s:.0f} s)"


def report(lines: Iterable[str]) -> None:
    """Print them as they come, how many failed, and exit with 1 if any did (or as ``watched_sweep`` does)."""
    failed = 0
    with watched_sweep() as watch:
        _WATCH.set(watch)
        for line in lines:
            failed += line.lstrip().startswith("FAILED")
            print(line, flush=True)
        print(f"{failed} runs are not as they should be")
    sys.exit(bool(failed))
