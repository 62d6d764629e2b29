"""Runs and commands where users wait, each in a process of its own, compared with another commit.

``python -m lab.bench cases --against COMMIT`` measures each case alternately with the code of both commits. A shared
machine is then equally slow for both. The figures are CPU seconds, because wall time depends on other processes.

A child process runs this file with one tree of kemu on its path, so this file imports only names of kemu that old
commits have, too.
"""

import gc
import heapq
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000
ROUNDS = 6
"""Runs with and without judging in one measurement of its share; the first round fills caches."""
START = "start: kemu "
"""First words of the names of cases that start a command."""
PRESET = "preset: "
"""First word of the names of cases that run a preset."""
ALIKE = {"cpu_s": "CPU time", "memory_mb": "memory"}
"""Figures of a case that are compared: the old figure divided by the new."""


class _Nowhere(io.BytesIO):
    """A trace that is written and not kept: the memory of a case is the memory of its run."""

    def write(self, data: Any) -> int:
        return len(data)


def _prepared(
    members: int, partitions: int, seconds: int, *, rate: int = 100, seed: int = 1, draws: str = "calm"
) -> Any:
    """A run of a stable group of one topic, which has not begun; intervals are fixed with the draws ``calm``."""
    from kemu.emulator.runner import Run
    from kemu.emulator.scenario.brokers import BrokersSpec
    from kemu.emulator.scenario.checks import ChecksSpec
    from kemu.emulator.scenario.groups import GroupSpec
    from kemu.emulator.scenario.scenario import Scenario
    from kemu.emulator.scenario.topics import TopicSpec

    scenario = Scenario(
        draws=draws,
        name=f"steady-{members}",
        duration_us=seconds * SECOND,
        brokers=BrokersSpec(count=1),
        topics={"t": TopicSpec(partitions=partitions, records_per_s=rate)},
        groups={"g": GroupSpec(topics=("t",), members=members)},
        checks=ChecksSpec(heal_after_us=seconds * SECOND, stable_within_us=SECOND),
    )
    return Run(scenario, seed=seed, sink=_Nowhere())


def _steady(
    members: int,
    partitions: int,
    seconds: int,
    *,
    rate: int = 100,
    from_s: int = 0,
    loop: str = "bare",
    judged: bool = True,
    until_s: int = 0,
) -> dict[str, float]:
    """A stable group; CPU time from ``from_s`` on, until ``until_s`` or the end."""
    from kemu.emulator.engine.loop import run_plain, run_trio

    take_turns = run_plain if loop == "bare" else run_trio
    one = _prepared(members, partitions, seconds, rate=rate)
    if not judged:
        one.world.watch((one.cluster, one.injector))
    began_s, began_steps = time.process_time(), 0

    def turns(world: Any, until_us: int) -> None:
        nonlocal began_s, began_steps
        if from_s:
            take_turns(world, from_s * SECOND)
            began_s, began_steps = time.process_time(), world.steps
        take_turns(world, until_s * SECOND or until_us)

    broke = one.run_with(turns)
    assert not broke, broke
    return _figures(time.process_time() - began_s, one.world.steps - began_steps, one.world.now_us / SECOND - from_s)


def _judging(members: int, partitions: int, rate: int, from_s: int, until_s: int) -> dict[str, float]:
    """The share of judging in the CPU time of a run: the same turns with and without panel, checkers and metrics.

    A user runs the whole minute: the join, whose accounts are new, and the steady time, whose facts continue accounts.
    A shorter run or the steady time alone shows another share.
    """
    shares: list[float] = []
    found: dict[str, float] = {}
    for number in range(ROUNDS):
        by: dict[bool, float] = {}
        for judged in (True, False) if number % 2 else (False, True):
            one = _steady(members, partitions, until_s + 1, rate=rate, from_s=from_s, judged=judged, until_s=until_s)
            by[judged] = one["cpu_s"]
            found = one if judged else found
        if number:
            shares.append(1 - by[False] / by[True])
    return {**found, "judging_share": statistics.median(shares)}


def _beside_clusters(members: int, each: int) -> dict[str, float]:
    """The cost of a step of a group at rest, beside a group of ``each`` members and beside ``members`` / ``each``
    clusters of ``each`` members.

    The clusters take turns by virtual time, as the members of one group do. A step of a small cluster is the same work
    whether it runs alone or among others. So what it costs more among others is the memory of the computer.
    """
    sizes = {"members": [members], "alone": [each], "clusters": [each] * (members // each)}
    worlds: dict[str, list[Any]] = {}
    for what, groups in sizes.items():
        runs = [_prepared(size, 2 * size, 600, rate=0, seed=seed) for seed, size in enumerate(groups, 1)]
        for one in runs:
            one.begin()
        worlds[what] = [one.world for one in runs]
    gc.disable()
    for those in worlds.values():
        _in_turns(those, 30 * SECOND)
    costs: dict[str, list[float]] = {what: [] for what in worlds}
    began_s = time.process_time()
    for number in range(1, ROUNDS):
        for what, those in worlds.items():
            until_us = (30 + number * (50 if what == "alone" else 2)) * SECOND
            steps, since_s = sum(world.steps for world in those), time.process_time()
            _in_turns(those, until_us)
            costs[what].append((time.process_time() - since_s) / (sum(world.steps for world in those) - steps))
    ratios = {
        f"{one} / {other}": statistics.median(a / b for a, b in zip(costs[one], costs[other], strict=True))
        for one, other in (("members", "alone"), ("clusters", "alone"), ("members", "clusters"))
    }
    step_us, memory_mb = statistics.median(costs["members"]) * 1e6, _memory_mb()
    return {"cpu_s": time.process_time() - began_s, "step_us": step_us, **ratios, "memory_mb": memory_mb}


def _in_turns(worlds: Sequence[Any], until_us: int) -> None:
    """Run worlds until a time, always the world whose next entry is due first."""
    from kemu.emulator.engine.loop import run_plain

    due = [(world.next_due_us(), number) for number, world in enumerate(worlds)]
    heapq.heapify(due)
    while (at_us := due[0][0]) <= until_us:
        number = due[0][1]
        run_plain(worlds[number], at_us)
        heapq.heapreplace(due, (worlds[number].next_due_us(), number))


def _one_more_member(members: int, draws: str) -> dict[str, float]:
    """Memory of one more member of a group at rest, with two partitions.

    This is the member with its connections and timers, its partitions and sessions at the broker, its state at the
    coordinator, and its accounts in panel, checkers and metrics.
    """
    from kemu.emulator.engine.loop import run_plain

    def held(count: int) -> int:
        gc.collect()
        tracemalloc.start()
        one = _prepared(count, 2 * count, 60, rate=0, draws=draws)
        one.run_with(lambda world, until_us: run_plain(world, 30 * SECOND))
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held_bytes

    few, began_s = 10, time.process_time()
    held(members)  # fills caches, and Python's table of strings, which doubles at some number of them
    one_more = (held(members) - held(few)) / (members - few)
    return {"cpu_s": time.process_time() - began_s, "bytes_per_member": one_more, "memory_mb": _memory_mb()}


def _preset(name: str) -> dict[str, float]:
    """One run of a preset."""
    from kemu.emulator.runner import run
    from kemu.emulator.scenario.files import load_scenario

    scenario = load_scenario(name)
    began_s = time.process_time()
    result = run(scenario, seed=1, loop="bare")
    return _figures(time.process_time() - began_s, result.steps, result.virtual_us / SECOND)


def _figures(cpu_s: float, steps: int, virtual_s: float) -> dict[str, float]:
    return {
        "cpu_s": cpu_s,
        "steps": steps,
        "step_us": cpu_s / steps * 1e6,
        "virtual_s_per_cpu_s": virtual_s / cpu_s,
        "memory_mb": _memory_mb(),
    }


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _start(command: str) -> dict[str, float]:
    """A command, from the start of its process to its end. A first call writes the bytecode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "kemu", *command.split()], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu_s, "memory_mb": after.ru_maxrss / 1024}


CASES: Mapping[str, Callable[[], dict[str, float]]] = {
    **{f"{START}{command}": partial(_start, command) for command in ("--help", "run --help", "scenarios")},
    f"{START}run steady-group": partial(_start, "run steady-group"),
    **{f"load: 50 x 500, {rate:,} records/s": partial(_steady, 50, 500, 10, rate=rate) for rate in (100, 1_000, 5_000)},
    **{f"partitions: 10 members x {each:,}": partial(_steady, 10, 10 * each, 20) for each in (10, 100, 1_000)},
    "judging: 50 x 500, 1,000 records/s": partial(_judging, 50, 500, 1_000, 0, 10),
    "judging: 50 x 500, 1,000 records/s, 60 s from the start": partial(_judging, 50, 500, 1_000, 0, 60),
    "judging: steady 50 x 500, 1,000 records/s": partial(_judging, 50, 500, 1_000, 10, 30),
    "loop: bare": partial(_steady, 10, 20, 100, rate=10),
    "loop: trio": partial(_steady, 10, 20, 100, rate=10, loop="trio"),
    **{
        f"growth: {members:,} members at rest": partial(
            _steady, members, 2 * members, 60 if members > 100 else 600, rate=0, from_s=30
        )
        for members in (10, 1_000, 5_000)
    },
    "growth: 1,000 members beside 100 clusters of 10": partial(_beside_clusters, 1_000, 10),
    **{f"memory: one more member of 500, {draws}": partial(_one_more_member, 500, draws) for draws in ("calm", "life")},
    "join: 300 x 3,000": partial(_steady, 300, 3_000, 20),
    "join: 1,000 x 10,000": partial(_steady, 1_000, 10_000, 40),
    "join: 5,000 x 50,000": partial(_steady, 5_000, 50_000, 60),
}
"""Name of a case -> its figures. The names of presets are further cases."""
LARGE = (
    "growth: 1,000 members at rest",
    "growth: 1,000 members beside 100 clusters of 10",
    "growth: 5,000 members at rest",
    "join: 1,000 x 10,000",
    "join: 5,000 x 50,000",
)
"""Cases of minutes, which run only if they are named."""
QUICK = ("start: kemu --help", "load: 50 x 500, 100 records/s")


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    against: str = "",
    pairs: int = 3,
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """The figures of each case, as medians.

    Args:
        say: shows progress.
        quick: measure two cases once.
        against: a commit to compare with; "" for none.
        pairs: number of measurements of a case.
        only: parts of names; a case runs if its name contains one of these parts.

    A case whose process fails has the error among its figures, and the other cases are measured.
    """
    names = QUICK if quick else chosen(only)
    pairs = 1 if quick else pairs
    with tempfile.TemporaryDirectory(prefix="kemu-bench-") as folder:
        trees = {"new": ROOT}
        if against:
            trees["old"] = _exported(against, Path(folder))
        found: dict[str, Any] = {}
        for name in names:
            say(name)
            rounds: dict[str, list[dict[str, float]]] = {tree: [] for tree in trees}
            if name.startswith(START):
                for place in trees.values():
                    _measured(name, place, Path(folder))
            failed: dict[str, str] = {}
            for number in range(pairs):
                for tree in reversed(trees) if number % 2 else trees:
                    if tree not in failed:
                        try:
                            rounds[tree].append(_measured(name, trees[tree], Path(folder)))
                        except subprocess.CalledProcessError as error:  # such as a signal for want of memory
                            failed[tree] = str(error)
            found[name] = together(rounds) | {f"{tree} failed": why for tree, why in failed.items()}
            say(f"{name}: {found[name]}")
    return found


def chosen(only: Sequence[str]) -> list[str]:
    """The names of the cases that contain one of these parts; without parts, all cases but ``LARGE`` and presets."""
    if not only:
        return [name for name in CASES if name not in LARGE]
    from kemu.emulator.scenario.presets import preset_names

    every = [*CASES, *(f"{PRESET}{name}" for name in preset_names())]
    return [name for name in every if any(part in name for part in only)]


def together(rounds: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """The median of each figure, and the median of the ratios of neighbouring measurements."""
    new, old = rounds["new"], rounds.get("old", ())
    if not new:
        return {}
    figures: dict[str, Any] = {key: _round(statistics.median(each[key] for each in new)) for key in new[0]}
    for key in ALIKE:
        pairs = [before[key] / max(after[key], 1e-3) for before, after in zip(old, new, strict=False)]
        if pairs:
            figures[f"{key}, old"] = _round(statistics.median(each[key] for each in old))
            figures[f"{key}, old / new"] = round(statistics.median(pairs), 2)
    return figures


def _round(value: float) -> float:
    return round(value) if value >= 1_000 else float(f"{value:.4g}")


def _exported(commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder of their own."""
    done = subprocess.run(["git", "archive", commit, "kemu"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    place = folder / "old"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later
        archive.extractall(place)
    return place


def _measured(name: str, tree: Path, folder: Path) -> dict[str, float]:
    """The figures of one case in a new process, with the kemu of this tree. All processes share their bytecode."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    done = subprocess.run(
        [sys.executable, __file__, name], cwd=tree, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout))


def main(name: str) -> None:
    """Print the figures of one case as JSON.

    Raises:
        ImportError: kemu is not that of the current folder, but an installed one.
    """
    from kemu.emulator import runner

    if not Path(runner.__file__).is_relative_to(Path.cwd()):
        raise ImportError(f"{runner.__file__} is not in {Path.cwd()}: the figures would be those of another tree")
    case = partial(_preset, name.removeprefix(PRESET)) if name.startswith(PRESET) else CASES[name]
    print(json.dumps(case()))


if __name__ == "__main__":
    main(sys.argv[1])
