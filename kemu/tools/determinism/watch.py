"""A sample of a sweep's runs, made once more in another process with another hash seed, while the sweep goes on.

What a run does must depend on its scenario, seed and profile alone. A set's order, a ``hash()``, an ``id()`` that finds
its way into a trace shows in another process, and only there. A digest that differs is followed to the first draw or
record that does.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import msgpack
from attrs import frozen

from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.determinism.telling import Entry, Tell, first_unequal, plain, run_telling, words

EVERY = 20
"""So many runs of a sweep for one that is made again: 5 percent, the first one always."""
HASH_SEEDS = ("4242", "1")
"""Of the other process: the first one that is not this process's own."""
BEFORE = 3
"""How many equal entries are shown before the first that differs."""
CANARY = "custom-assignor-without-generation"
"""A preset that breaks an invariant of which it says so (``expect``); here it does not say so."""


@frozen
class SweptRun:
    """A run: what decides all of it, and the command that repeats it."""

    scenario: Scenario
    seed: int
    profile: str
    command: str


@frozen
class Differs:
    """A run that was another one in the other process: both digests, and the way from the last equal entry on."""

    asked: SweptRun
    here: str
    there: str
    lines: tuple[str, ...]


class SweepWatch:
    """Takes every run of a sweep as it is done (``saw``), and says at its end which of the sample differ.

    A context: the other process ends with it.
    """

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self.seen = 0
        """How many runs the sweep has made."""
        self._sample: list[tuple[SweptRun, str]] = []
        self._other: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._other is not None:
            self._other.kill()
            self._other.communicate()

    @property
    def sampled(self) -> int:
        """How many runs were made again so far, or will be."""
        return len(self._sample)

    def saw(self, asked: SweptRun, digest: str) -> None:
        """A run of the sweep is done; the first of ``every`` is handed to the other process."""
        if self.seen % self._every == 0:
            self._sample.append((asked, digest))
            if self._other is None:
                self._other = _other_process()
            _write(self._other, asked)
        self.seen += 1

    def differing(self) -> list[Differs]:
        """Wait for the other process; the runs whose digests differ, each with where it begins to.

        Raises:
            RuntimeError: the other process broke; it names the run.
        """
        if self._other is None:
            return []
        said, trouble = self._other.communicate()
        told = said.split()
        if len(told) < len(self._sample):
            why = trouble.strip().splitlines()[-1:] or [f"exit code {self._other.returncode}"]
            asked = self._sample[len(told)][0]
            raise RuntimeError(f"made again in another process, a run broke: {why[0]}\nrepeat with: {asked.command}")
        pairs = zip(self._sample, told, strict=True)
        return [Differs(asked, here, there, first_difference(asked)) for (asked, here), there in pairs if here != there]


def hash_seed_of_others() -> str:
    """A PYTHONHASHSEED that this process has not."""
    return next(seed for seed in HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))


def _other_process() -> "subprocess.Popen[str]":
    """It imports from where this one does (an assignor of the user's own may be named), and from nowhere else."""
    paths = os.pathsep.join(path for path in (os.getcwd() if entry == "" else entry for entry in sys.path) if path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "kemu.tools.determinism.other_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed_of_others(), "PYTHONPATH": paths},
    )


def _write(other: "subprocess.Popen[str]", asked: SweptRun, **more: str) -> None:
    line = {"scenario": asked.scenario.to_dict(), "seed": asked.seed, "profile": asked.profile, **more}
    assert other.stdin is not None, "it was made with pipes"
    try:
        other.stdin.write(json.dumps(line) + "\n")
        other.stdin.flush()
    except BrokenPipeError:  # it broke: ``differing`` reads why
        return


def first_difference(asked: SweptRun) -> tuple[str, ...]:
    """Make the run in both processes once more; the first draw or record that differs, with what came before."""
    with tempfile.TemporaryDirectory(prefix="kemu-determinism-") as folder:
        entries = Path(folder) / "entries"
        other = _other_process()
        _write(other, asked, entries=str(entries))
        _, trouble = other.communicate()
        if other.returncode:
            return (f"made again in another process, it breaks: {trouble.strip().splitlines()[-1]}",)
        return tuple(
            compared_with(
                _entries_of(entries), lambda tell: run_telling(asked.scenario, asked.seed, asked.profile, tell)
            )
        )


def compared_with(there: Iterator[Entry], run_here: Callable[[Tell], object]) -> Iterator[str]:
    """The first difference between what was told there and what ``run_here`` tells, for people."""
    comparison = _Comparison(there)
    run_here(comparison.take)
    yield from comparison.told()


def _entries_of(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        yield from msgpack.Unpacker(file, use_list=False, strict_map_key=False)


class _Comparison:
    """Compares entries as they are made here with those made there, up to the first that differs."""

    def __init__(self, there: Iterator[Entry]) -> None:
        self._there = there
        self._equal: deque[Entry] = deque(maxlen=BEFORE)
        self._count = 0
        self._pair: tuple[Entry, Entry | None] | None = None

    def take(self, entry: Entry) -> None:
        """The next one here."""
        if self._pair is not None:
            return
        here = msgpack.unpackb(msgpack.packb(entry), use_list=False, strict_map_key=False)
        there = next(self._there, None)
        if here == there:
            self._equal.append(here)
            self._count += 1
        else:
            self._pair = here, there

    def told(self) -> Iterator[str]:
        """The finding, for people."""
        here, there = self._pair or (None, next(self._there, None))
        if here is None and there is None:
            yield "made once more in two processes here, it is the same: it differs now and then, or between machines"
            return
        yield f"the first {self._count:,} draws and records are equal, then:"
        yield from (f"    {words(entry)}" for entry in self._equal)
        yield f"  > here   {'nothing more' if here is None else words(here)}"
        yield f"  > there  {'nothing more' if there is None else words(there)}"
        inside = None if here is None or there is None else first_unequal(plain(here), plain(there))
        if inside is not None and inside[0]:
            where, mine, theirs = inside
            yield f"    first in {where.lstrip('.')}: {mine!r:.200} here, {theirs!r:.200} there"


def canary() -> Scenario:
    """A scenario of which every run must fail."""
    return attrs.evolve(load_scenario(CANARY), expect=())


def fails(scenario: Scenario) -> bool:
    """Whether a run of the canary is found to break what it breaks; if not, a sweep looks at nothing."""
    from kemu.emulator.runner import run
    from kemu.tools.exits import CORRECTNESS, worst

    return worst([run(scenario, seed=1, loop="bare").verdict]) == CORRECTNESS
