"""One member joins a cooperative group of 50 with 500 partitions, beside franz-go's kfake and clients, in turns.

The figures are CPU time of the process that has the brokers and all members: until the group is balanced again, and
for an equal window. Members have the same intervals: heartbeats 3 s, fetches 500 ms, commits 5 s. kemu's clock is
virtual, kfake's is real. The bench needs Go, and downloads kfake at its first run.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import World
from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import AddMembers
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import Run
from kemu.protocol.notes.groups import GroupBecame, MemberAdded, MemberRemoved
from lab.bench.engine import SECOND, steady
from lab.bench.served import built

MEMBERS, PARTITIONS = 50, 500
JOINED_US = 30 * SECOND


@frozen
class Join:
    """One join."""

    cpu_ms: float
    """CPU time until the group is balanced."""
    took_ms: float
    """Time until the group is balanced, on the clock of the cluster."""
    window_cpu_ms: float
    """CPU time of the window, which is as long as kemu's join."""


def measure(say: Callable[[str], object], quick: bool = False) -> dict[str, Any]:
    """The medians of several joins of both, and of the ratios of neighbouring joins.

    Raises:
        RuntimeError: Go is not installed, or kfake cannot be built.
    """
    stable_us = _stable_us()
    found: dict[str, list[Join]] = {"kemu": [], "kfake": []}
    with tempfile.TemporaryDirectory(prefix="kemu-bench-") as folder:
        tool = built(Path(folder))
        for number in range(1 if quick else 7):
            for peer in found if number % 2 else reversed(found):
                found[peer].append(_of_kemu(stable_us) if peer == "kemu" else _of_kfake(tool, stable_us))
                say(f"{peer}: {found[peer][-1]}")
    return medians(found["kemu"], found["kfake"])


def medians(kemu: Sequence[Join], kfake: Sequence[Join]) -> dict[str, Any]:
    """The figures of joins that were measured in pairs."""
    figures: dict[str, Any] = {}
    for peer, joins in (("kemu", kemu), ("kfake", kfake)):
        figures[f"{peer}, CPU ms until balanced"] = round(statistics.median(each.cpu_ms for each in joins), 1)
        figures[f"{peer}, ms until balanced"] = round(statistics.median(each.took_ms for each in joins))
    for name, field in (("until balanced", "cpu_ms"), ("equal window", "window_cpu_ms")):
        pairs = zip(kemu, kfake, strict=True)
        ratio = statistics.median(getattr(one, field) / getattr(other, field) for one, other in pairs)
        figures[f"kemu / kfake, {name}"] = round(ratio, 2)
    return figures


def _run(observers: tuple[Any, ...] = ()) -> Run:
    base = steady(MEMBERS, PARTITIONS, 90, rate=0)
    scenario = evolve(
        base,
        name="join",
        groups={"g": evolve(base.groups["g"], assignors=("cooperative-sticky",))},
        plan=(At(at_us=JOINED_US, action=AddMembers(group="g", count=1)),),
    )
    return Run(scenario, seed=1, observers=observers)


def _stable_us() -> int:
    """When the group is Stable for good. The measured runs have the same seed, and need no observer."""
    watch = _StableWith(MEMBERS + 1)
    _run((watch,)).run_with(run_plain)
    assert watch.rebalances == 2, f"a cooperative join takes two rebalances, not {watch.rebalances}"
    return watch.stable_us


def _of_kemu(stable_us: int) -> Join:
    cpu_ms = 0.0

    def turns(world: World, until_us: int) -> None:
        nonlocal cpu_ms
        run_plain(world, JOINED_US - 1)
        began_s = time.process_time()
        run_plain(world, stable_us)
        cpu_ms = (time.process_time() - began_s) * 1_000

    _run().run_with(turns)
    return Join(cpu_ms, (stable_us - JOINED_US) / 1_000, cpu_ms)


def _of_kfake(tool: Path, stable_us: int) -> Join:
    words = [str(tool), "join", str(MEMBERS), str(PARTITIONS), str((stable_us - JOINED_US) / SECOND)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return Join(*(float(word) for word in said))


class _StableWith:
    """Observes a group with this number of members: time of the last change to Stable, and number of such changes."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._present: set[str] = set()
        self.stable_us = 0
        self.rebalances = 0

    def wants(self, kind: type) -> bool:
        return kind in (MemberAdded, MemberRemoved, GroupBecame)

    def see(self, seen: Seen) -> None:
        fact = seen.fact
        if type(fact) is MemberAdded:
            self._present.add(fact.member_id)
        elif type(fact) is MemberRemoved:
            self._present.discard(fact.member_id)
        elif fact.new == "Stable" and len(self._present) == self._members:
            self.stable_us = seen.at_us
            self.rebalances += 1
