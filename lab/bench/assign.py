"""Cost of the assignors, compared with other Python clients in the same run and with Kafka's Java classes.

Each figure is a median. The other clients' assignors get the same groups, with previous assignments in their own
format. The Java figures are constants that were measured once on another machine (warmed up, two cores), so the ratios
are valid only for a similar machine. If only the size of the Java group is known, the number of topics is an
assumption.
"""

import gc
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

from kemu.protocol.assign.base import Assignor
from kemu.protocol.assign.cooperative import COOPERATIVE_STICKY
from kemu.protocol.assign.search.score import is_balanced
from kemu.protocol.assign.sticky import STICKY
from lab.bench.groups import SHAPES, MeasuredGroup
from lab.bench.optimal_gap import optimal_gap
from lab.bench.other_clients import CLIENTS, Runner, understood

Say = Callable[[str], None]


@frozen
class BenchCase:
    """A group to measure: shape, and numbers of topics, partitions per topic, and members."""

    shape: str
    topics: int
    partitions: int
    members: int

    @property
    def name(self) -> str:
        """``uniform_5000x100``: shape, total partitions, members."""
        return f"{self.shape}_{self.topics * self.partitions}x{self.members}"

    def group(self) -> MeasuredGroup:
        """Build the group."""
        return SHAPES[self.shape](self.topics, self.partitions, self.members)


AGAINST_CLIENTS = (BenchCase("uniform", 50, 100, 100), BenchCase("mixed", 50, 100, 100))

JAVA_MS: Mapping[BenchCase, Mapping[str, float]] = {
    BenchCase("uniform", 50, 2000, 500): {"fresh": 10, "leave": 149},
    BenchCase("uniform", 500, 2000, 2000): {"fresh": 260, "leave": 3_500, "join": 3_900},
    BenchCase("odd-one", 50, 2000, 500): {"fresh": 1_900, "join": 17_000},
    BenchCase("mixed", 100, 200, 200): {"fresh": 7_100, "join": 4_100},
    BenchCase("mixed", 100, 1000, 500): {"fresh": 260_000},
}

GROWTH = {
    shape: tuple(
        BenchCase(shape, *size) for size in ((10, 100, 20), (50, 200, 100), (100, 1000, 500), (500, 2000, 2000))
    )
    for shape in ("uniform", "mixed")
}


def measure(say: Say, *, quick: bool = False) -> dict[str, Any]:
    """All figures by dotted name; times in ms. ``say`` shows progress. ``quick`` omits groups that take longer than a
    second.
    """
    result: dict[str, Any] = {}
    for case in (BenchCase("uniform", 10, 50, 20), BenchCase("mixed", 10, 50, 20)) if quick else AGAINST_CLIENTS:
        say(f"other clients: {case.name}")
        result |= _against_clients(case)
    for case, java in JAVA_MS.items():
        if not quick or case.topics * case.partitions <= 20_000:
            say(f"Kafka's Java classes: {case.name}")
            result |= _against_java(case, java)
    for shape, cases in GROWTH.items():
        for case in cases[:2] if quick else cases:
            say(f"growth: {case.name}")
            result |= _growth(shape, case)
    say("distance from the optimum")
    gap = optimal_gap(cases=100 if quick else 1000)
    result |= {f"optimal_gap.{key}": value for key, value in _flat(gap)}
    result["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def changes(case: BenchCase, assignor: Assignor) -> Iterator[tuple[str, MeasuredGroup]]:
    """The group before its first rebalance, and before the rebalance after one member left or joined."""
    group = case.group()
    yield "fresh", group
    assignment = assignor.assign(group.topics, group.members)
    assert is_balanced(group.members, assignment), f"{case.name}: not balanced"
    owning = group.owning(assignor, assignment)
    yield "leave", owning.with_one_less()
    yield "join", owning.with_one_more()


def _against_clients(case: BenchCase) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for change, group in changes(case, STICKY):
        ours = _milliseconds(_ours(STICKY, group), repeats=7)
        result[f"clients.{case.name}.{change}.kemu_ms"] = round(ours, 2)
        for name, client in CLIENTS.items():
            assert change == "fresh" or understood(group, name), f"{name} does not see what members own"
            theirs = _milliseconds(client(group), repeats=1)
            result[f"clients.{case.name}.{change}.{name}_ms"] = round(theirs, 1)
            result[f"clients.{case.name}.{change}.times_faster_than_{name}"] = round(theirs / ours, 1)
    return result


def _against_java(case: BenchCase, java: Mapping[str, float]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for assignor in (STICKY, COOPERATIVE_STICKY):
        for change, group in changes(case, assignor):
            if change in java:
                ours = _milliseconds(_ours(assignor, group), repeats=3)
                key = f"java.{case.name}.{change}"
                result[f"{key}.{assignor.name}_ms"] = round(ours, 1)
                result[f"{key}.java_ms"] = java[change]
                result[f"{key}.{assignor.name}_times_faster"] = round(java[change] / ours, 2)
    return result


def _growth(shape: str, case: BenchCase) -> dict[str, Any]:
    partitions = case.topics * case.partitions
    return {
        f"growth.{shape}.{partitions}.{change}_us_per_partition": round(
            _milliseconds(_ours(STICKY, group), repeats=3 if partitions < 1_000_000 else 1) * 1000 / partitions, 2
        )
        for change, group in changes(case, STICKY)
    }


def _ours(assignor: Assignor, group: MeasuredGroup) -> Runner:
    return lambda: assignor.assign(group.topics, group.members)


def _milliseconds(run: Runner, repeats: int) -> float:
    """The median time of ``repeats`` runs, in ms."""
    times = []
    for _ in range(repeats):
        gc.collect()
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
