"""``python -m lab.preset_table``: list the presets that reveal a controller which ignores broker failures.

For each replicated preset in which a broker goes down, the command finds the first seed at which a break changes the
run. The table shows the violations of the changed run, and the time from the last failure to the first violation.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from types import FunctionType, MappingProxyType

import click
from attrs import frozen

from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.runner import run
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.presets import presets
from kemu.protocol.names import host_of
from kemu.protocol.nodes import CONTROLLER_EPOCH
from kemu.protocol.notes.replication import LogDirFailed, NodeWritten, SessionEnded
from lab.budget import TOO_LARGE
from lab.operators import ROOT, Mutant
from lab.patching import live_functions, replace

_BROKERS = "kemu/actors/controller/brokers.py"
BREAKS: Mapping[str, tuple[tuple[str, str, str], ...]] = MappingProxyType(
    {
        "elects-nobody": (
            (
                _BROKERS,
                "PartitionPhase.OFFLINE)\n        yield from self._machine.partitions.trigger_online()\n",
                "PartitionPhase.OFFLINE)\n",
            ),
        ),
        "ignores-the-dead": (
            (
                _BROKERS,
                "        dead = [broker for broker in known if broker not in now]\n",
                "        dead = list[int]()\n",
            ),
            (_BROKERS, "            yield from self.died(list(bounced))\n", ""),
        ),
    }
)
"""Name of a break -> (file, text, replacement)."""
SOON_US = 60_000_000


@frozen
class PresetRow:
    """A preset under a break: the first seed at which the break changes the run (0 if no seed does), and the
    violations.

    ``after_us``: time from the last failure of a broker to the next violation; -1 without a violation.
    """

    preset: str
    seed: int
    said: tuple[str, ...]
    after_us: int

    @property
    def is_caught(self) -> bool:
        """Whether a checker reported a violation within ``SOON_US``."""
        return 0 <= self.after_us <= SOON_US


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Apply the break to this process for the duration of the block."""
    functions = live_functions()
    before: list[tuple[FunctionType, object]] = [(each, each.__code__) for some in functions.values() for each in some]
    try:
        for file, text in _changed(name).items():
            content = (ROOT / file).read_text(encoding="utf-8").encode()
            replace(Mutant(file, 1, "break", 0, len(content), content.decode(), text), functions)
        yield
    finally:
        for function, code in before:
            function.__code__ = code  # type: ignore[assignment]


def _changed(name: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for file, old, new in BREAKS[name]:
        text = texts.get(file) or (ROOT / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file}: {old!r}"
        texts[file] = text.replace(old, new)
    return texts


class _Downs:
    """Times of failures of brokers, sessions and log directories, and whether a broker other than the controller
    failed.
    """

    def __init__(self) -> None:
        self.at_us: list[int] = []
        self.others = False
        self._controller = ""

    def see(self, seen: Seen) -> None:
        """Note a failure."""
        fact = seen.fact
        if isinstance(fact, NodeWritten) and fact.path == CONTROLLER_EPOCH and fact.client:
            self._controller = host_of(fact.client)
        elif isinstance(fact, HostDown) and fact.host.startswith("b"):
            self.at_us.append(seen.at_us)
            self.others = self.others or fact.host != self._controller
        elif isinstance(fact, LogDirFailed | SessionEnded):
            self.at_us.append(seen.at_us)


def row_of(preset: str, name: str, seeds: Sequence[int]) -> PresetRow | None:
    """The row of a preset under a break; None if only the controller fails in the preset."""
    scenario, goes_down = load_scenario(preset), False
    for seed in seeds:
        downs, broken_downs = _Downs(), _Downs()
        clean = run(scenario, seed=seed, loop="bare", observers=(downs,))
        if not downs.others:
            continue
        goes_down = True
        with broken(name):
            other = run(scenario, seed=seed, loop="bare", observers=(broken_downs,))
        if other.digest == clean.digest:
            continue
        found = split(other.violations, scenario.expect)[0]
        first_us = min((each.at_us for each in found), default=-1)
        after_us = min((first_us - at_us for at_us in broken_downs.at_us if at_us <= first_us), default=-1)
        return PresetRow(preset, seed, tuple(sorted({f"{each.checker}/{each.kind}" for each in found})), after_us)
    return PresetRow(preset, 0, (), -1) if goes_down else None


def _row_of(asked: tuple[str, str, Sequence[int]]) -> PresetRow | None:
    os.nice(10)
    return row_of(*asked)


def table(name: str, seeds: Sequence[int], names: Sequence[str] = (), jobs: int = 1) -> list[PresetRow]:
    """The rows of all replicated presets, or of the named presets, in which a broker goes down."""
    chosen = names or [each.name for each in presets() if each.name not in TOO_LARGE]
    replicated = [each for each in chosen if load_scenario(each).brokers.replication is not None]
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork"), max_tasks_per_child=None) as pool:
        rows = pool.map(_row_of, [(each, name, seeds) for each in replicated])
        return [row for row in rows if row is not None]


@click.command()
@click.option("--seeds", default=10, show_default=True, help="number of seeds to try")
@click.option("--jobs", default=1, show_default=True, help="number of processes")
@click.option("--break", "breaks", multiple=True, type=click.Choice(list(BREAKS)), help="only this break")
@click.argument("names", nargs=-1, metavar="[PRESET]...")
def main(seeds: int, jobs: int, breaks: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Print the table of each break."""
    for name in breaks or tuple(BREAKS):
        rows = table(name, range(1, seeds + 1), names, jobs)
        changed = [row for row in rows if row.seed]
        click.echo(f"{name}: {len(rows)} presets in which a broker goes down")
        for row in rows:
            what = ", ".join(row.said) or ("nobody speaks" if row.seed else "no seed shows the break")
            click.echo(f"  {row.preset:36} {row.seed or '-':>4} {row.after_us / 1e6:8.1f} s  {what}")
        caught = sum(row.is_caught for row in changed)
        click.echo(f"  caught within {SOON_US / 1e6:g} s: {caught} of {len(changed)} changed")


if __name__ == "__main__":
    main()
