"""Cost of a step, compared with limits that are measured alternately in the same run on the same machine.

The first limit is a round trip between two Trio tasks over memory channels: the least cost of a Trio loop with
channels. The second limit is a bare loop that pushes to and pops from a heap: the least cost of an agenda. Machines are
noisy, so every figure is the median of the ratios of neighbouring measurements.
"""

import gc
import heapq
import io
import statistics
import time
from collections.abc import Callable
from typing import Any

import trio

from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.world import World
from kemu.emulator.runner import Run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec

SECOND = 1_000_000
Loop = Callable[[World, int], None]


def steady(
    members: int, partitions: int, seconds: int, *, rate: int = 100, spread_s: int = 0, brokers: int = 1
) -> Scenario:
    """A group that joins and afterwards only heartbeats, fetches and commits. Intervals are fixed, so that each
    measurement covers the same work.
    """
    return Scenario(
        draws="calm",
        name=f"steady-{members}",
        duration_us=seconds * SECOND,
        brokers=BrokersSpec(count=brokers),
        topics={"t": TopicSpec(partitions=partitions, records_per_s=rate)},
        groups={"g": GroupSpec(topics=("t",), members=members, start_spread_us=spread_s * SECOND)},
        checks=ChecksSpec(heal_after_us=seconds * SECOND, stable_within_us=SECOND),
    )


def measure(say: Callable[[str], None], *, quick: bool = False) -> dict[str, Any]:
    """All figures of the engine by name; ``say`` shows progress."""
    gc.collect()
    result = _steps(say, rounds=1 if quick else 7, seconds=15 if quick else 100)
    result |= _growth(say, quick=quick)
    say("1,000 members, 10,000 partitions, 10 minutes of virtual time" if not quick else "a smaller herd")
    result["herd"] = _herd(20 if quick else 1000, 40 if quick else 10_000, 30 if quick else 600)
    return result


def raw_roundtrips_per_s(count: int = 20_000) -> float:
    """Round trips per second between two Trio tasks over memory channels."""

    async def main() -> float:
        there_in, there_out = trio.open_memory_channel[int](0)
        back_in, back_out = trio.open_memory_channel[int](0)

        async def other() -> None:
            async for value in there_out:
                await back_in.send(value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            began = time.perf_counter()
            for number in range(count):
                await there_in.send(number)
                await back_out.receive()
            took = time.perf_counter() - began
            nursery.cancel_scope.cancel()
        return count / took

    return trio.run(main)


def heap_events_per_s(count: int = 200_000, pending: int = 1000) -> float:
    """Pops and pushes per second of a bare heap with entries of the agenda's shape."""
    heap = [(due, due, due, None, None) for due in range(pending)]
    began = time.perf_counter()
    for seq in range(pending, pending + count):
        due = heapq.heappop(heap)[0]
        heapq.heappush(heap, (due + 997, seq & 1023, seq, None, None))
    return count / (time.perf_counter() - began)


def steps_per_s(scenario: Scenario, loop: Loop, from_s: int = 0, *, checked: bool = False) -> float:
    """Machine steps per second of one run after a start time, traced to memory; ``checked``: with checkers."""
    one = Run(scenario, seed=1, sink=io.BytesIO())
    if not checked:
        one.world.watch((one.cluster,))
    run_first = one.scenario.heal_at_us
    began = steps = 0.0

    def turns(world: World, until_us: int) -> None:
        nonlocal began, steps
        if from_s:
            loop(world, from_s * SECOND)
        began, steps = time.perf_counter(), world.steps
        loop(world, run_first)

    broke = one.run_with(turns)
    assert not broke, broke
    return (one.world.steps - steps) / (time.perf_counter() - began)


def _steps(say: Callable[[str], None], rounds: int, seconds: int) -> dict[str, Any]:
    """Steps per round trip of a stable group that only polls, heartbeats and commits; "loaded": with records."""
    at_rest, loaded = steady(10, 20, 2 * seconds, rate=0), steady(10, 20, seconds, rate=10)
    mixes: dict[str, Callable[[], float]] = {
        "trio_steps_per_roundtrip": lambda: steps_per_s(at_rest, run_trio),
        "bare_steps_per_roundtrip": lambda: steps_per_s(at_rest, run_plain),
        "trio_loaded_steps_per_roundtrip": lambda: steps_per_s(loaded, run_trio),
        "bare_loaded_steps_per_roundtrip": lambda: steps_per_s(loaded, run_plain),
        "bare_loaded_checked_steps_per_roundtrip": lambda: steps_per_s(loaded, run_plain, checked=True),
    }
    ratios: dict[str, list[float]] = {name: [] for name in mixes}
    limits: dict[str, list[float]] = {"roundtrips_per_s": [], "heap_events_per_s": []}
    rates: list[float] = []
    for number in range(rounds):
        say(f"steps of both loops against their limits, {number + 1} of {rounds}")
        limits["heap_events_per_s"].append(heap_events_per_s())
        before = raw_roundtrips_per_s()
        for name, measured in mixes.items():
            rate, after = measured(), raw_roundtrips_per_s()
            ratios[name].append(rate / ((before + after) / 2))
            limits["roundtrips_per_s"].append(after)
            before = after
            if name == "bare_steps_per_roundtrip":
                rates.append(rate)
    heap = statistics.median(limits["heap_events_per_s"])
    return {
        **{name: round(statistics.median(values), 3) for name, values in ratios.items()},
        **{name: round(statistics.median(values)) for name, values in limits.items()},
        "bare_steps_per_heap_event": round(statistics.median(rates) / heap, 4),
        "bare_steps_per_s": round(statistics.median(rates)),
    }


def _growth(say: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    """Microseconds per step of a stable group by its size, in the bare loop, without start and join."""
    sizes = (10, 30) if quick else (10, 100, 1000)
    costs: dict[int, list[float]] = {size: [] for size in sizes}
    for number in range(1 if quick else 5):
        say(f"cost per step by size of the group, {number + 1}")
        for size in sizes:
            scenario = steady(size, size * 2, 30 + (10 if quick else max(30, 6000 // size)), rate=0)
            costs[size].append(1e6 / steps_per_s(scenario, run_plain, from_s=30))
    smallest, largest = sizes[0], sizes[-1]
    ratios = [big / small for big, small in zip(costs[largest], costs[smallest], strict=True)]
    return {
        f"cost_{largest}_vs_{smallest}": round(statistics.median(ratios), 3),
        "step_us": {str(size): round(statistics.median(values), 2) for size, values in costs.items()},
    }


def _herd(members: int, partitions: int, seconds: int) -> dict[str, Any]:
    scenario = steady(members, partitions, seconds, rate=100)
    began = time.perf_counter()
    one = Run(scenario, seed=1)
    broke = one.run_with(run_plain)
    wall_s = time.perf_counter() - began
    assert not broke, broke
    figures = one.judging.metrics.figures()
    return {
        "members": members,
        "partitions": partitions,
        "virtual_s": one.world.now_us // SECOND,
        "wall_s": round(wall_s, 1),
        "steps": one.world.steps,
        "messages": one.world.network.packets,
        "step_us": round(wall_s / one.world.steps * 1e6, 2),
        "rebalances": len(figures.rebalances),
        "digest": one.writer.digest(),
    }
