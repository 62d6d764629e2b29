"""Runs of presets that several tests look at, made once in each process; tests that share one run in the same one."""

from functools import cache
from typing import NamedTuple

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.presets import presets
from tests.soaking import said

PRESETS = tuple(sorted([each.name for each in presets()]))
LARGE = ("consumer-protocol-1000-members", "streams-100-instances")
"""Presets that take seconds: run once in the ordinary suite, and in the sweeps."""
_QUICK = tuple(name for name in PRESETS if name not in LARGE)
PARTS = tuple(_QUICK[first::8] for first in range(8))
"""The other presets in parts that take about as long as each other."""


class PresetRun(NamedTuple):
    """What tests ask of a run."""

    digest: str
    steps: int
    wrong: str
    """What is not as it should be, and the command that repeats the run; or ""."""
    fired: dict[int, int]
    """How often each line of the plan took effect."""


@cache
def preset_run(name: str, seed: int, loop: str = "bare") -> PresetRun:
    """A preset as it is run by default."""
    result = run(load_scenario(name), seed=seed, loop=loop)
    what = f"{result.verdict}: {said(result) or result.reason}; kemu run {name} --seed {seed} --loop {loop}"
    wrong = "" if result.verdict == "holds" else what
    return PresetRun(result.digest, result.steps, wrong, {fault.index: fault.fired for fault in result.faults})


def by_preset(every: int = 1) -> list[object]:
    """Every preset as a parameter, or one of so many of each part."""
    return [
        pytest.param(name, marks=_group(index), id=name) for index, part in enumerate(PARTS) for name in part[::every]
    ]


def by_part() -> list[object]:
    """Every part as a parameter: what would cost too much for each preset alone."""
    return [pytest.param(part, marks=_group(index), id=f"part {index + 1}") for index, part in enumerate(PARTS)]


def _group(part: int) -> pytest.MarkDecorator:
    return pytest.mark.xdist_group(f"presets {part + 1}")
