"""Two loops, one order."""

import os
import subprocess
import sys
import time

import pytest

from kemu.emulator.chance import Seeded
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.rules import LossyRule
from kemu.emulator.engine.world import World
from tests.emulator.engine.toys import digest, small_world

SECOND = 1_000_000


def stormy_world(seed: int) -> World:
    """Callers that beat, a lossy network, crashes, pauses and restarts."""
    world = small_world(5, seed=seed, beat_us=30_000)
    world.network.install(LossyRule("", "", 20, Seeded(seed).stream("loss")))
    world.at(200_000, lambda: world.take_down(world.hosts["b0"], Condition.SILENT))
    world.at(350_000, lambda: world.start(world.hosts["b0"]))
    world.at(300_000, lambda: world.take_down(world.hosts["c1"], Condition.CRASHED))
    world.at(300_000, lambda: world.start(world.hosts["c1"]))
    world.at(400_000, lambda: world.pause(world.hosts["c2"]))
    world.at(700_000, lambda: world.resume(world.hosts["c2"]))
    return world


@pytest.mark.parametrize("seed", range(20))
def test_both_loops_write_the_same_trace(seed: int) -> None:
    bare, trio = stormy_world(seed), stormy_world(seed)
    run_plain(bare, SECOND)
    run_trio(trio, SECOND)

    assert bare.steps == trio.steps > 100
    assert digest(bare) == digest(trio)


def test_different_seeds_give_different_traces() -> None:
    digests = set()
    for seed in range(10):
        world = stormy_world(seed)
        run_plain(world, SECOND)
        digests.add(digest(world))

    assert len(digests) == 10


def test_a_run_driven_in_parts_is_the_run_driven_at_once() -> None:
    whole, parts = stormy_world(3), stormy_world(3)
    run_plain(whole, SECOND)
    for until in range(0, SECOND + 1, 50_000):
        run_trio(parts, until)

    assert digest(whole) == digest(parts)


def test_the_trace_is_the_same_in_other_processes_with_other_hash_seeds() -> None:
    program = (
        "from tests.emulator.engine.test_loop import *\n"
        "world = stormy_world(7)\n"
        "run_trio(world, SECOND)\n"
        "print(digest(world))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (0, 1, 2)
    }

    world = stormy_world(7)
    run_plain(world, SECOND)
    assert digests == {digest(world) + "\n"}


def test_live_mode_waits_for_the_wall_clock_and_keeps_the_order() -> None:
    live, virtual = stormy_world(2), stormy_world(2)
    began = time.monotonic()
    run_trio(live, 300_000, live=True)
    took_s = time.monotonic() - began
    run_plain(virtual, 300_000)

    assert took_s >= 0.3
    assert digest(live) == digest(virtual)
