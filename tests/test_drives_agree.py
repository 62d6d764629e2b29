"""Same scenario and seed, same trace: whatever the drive, the process, the hash seed."""

import os
import subprocess
import sys

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, presets

PRESETS = sorted([each.name for each in presets()])
SOAK_SEEDS = 50

PROGRAM = """
import sys
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
for name in sys.argv[1:]:
    print(name, run(load_scenario(name), seed=5, drive="bare").digest)
"""


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("seed", [1, 2])
def test_both_drives_give_the_same_digest(name: str, seed: int) -> None:
    scenario = load_scenario(name)

    bare, trio = run(scenario, seed=seed, drive="bare"), run(scenario, seed=seed, drive="trio")

    assert bare.steps == trio.steps > 100
    assert bare.digest == trio.digest, f"kemu run {name} --seed {seed} --drive bare, and --drive trio"


@pytest.mark.soak
@pytest.mark.parametrize("name", PRESETS)
def test_both_drives_give_the_same_digest_for_fifty_seeds(name: str) -> None:
    scenario = load_scenario(name)
    for seed in range(1, SOAK_SEEDS + 1):
        bare, trio = run(scenario, seed=seed, drive="bare"), run(scenario, seed=seed, drive="trio")
        assert bare.digest == trio.digest, f"kemu run {name} --seed {seed} --drive bare, and --drive trio"


def test_other_processes_with_other_hash_seeds_give_the_same_digests() -> None:
    """No set order, hash() or id() may reach a trace."""
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *PRESETS],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (0, 1, 4242)
    }

    assert len(answers) == 1
    assert len(answers.pop().splitlines()) == len(PRESETS)


def test_different_seeds_give_different_traces() -> None:
    scenario = load_scenario("rolling-restart-dynamic")

    assert len({run(scenario, seed=seed, drive="bare").digest for seed in range(1, 6)}) == 5
