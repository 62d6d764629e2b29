"""A sample of a sweep's runs, repeated in another process with another hash seed while the sweep continues.

Only scenario, seed and profile may influence a run. If the order of a set, a ``hash()`` or an ``id()`` influences a
trace, only another process shows a difference. For different digests, the watch finds the first different draw or
record.
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

from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.frozen import frozen
from kemu.tools.determinism.run_entries import Entry, Report, entry_text, first_unequal, plain, run_reporting

EVERY = 20
"""The watch repeats one run out of this number of runs, beginning with the first run."""
HASH_SEEDS = ("4242", "1")
"""Values of PYTHONHASHSEED for the other process, which gets the first value that this process does not use."""
BEFORE = 3
"""Number of equal entries to print before the first different entry."""
CANARY = "custom-assignor-without-generation"
"""A preset that breaks a rule on purpose; ``canary`` removes the preset's key ``expect``."""


@frozen
class SweptRun:
    """A run of a sweep: scenario, seed, profile, and the command that repeats the run."""

    scenario: Scenario
    seed: int
    profile: str
    command: str


@frozen
class Differs:
    """A run with different digests in two processes: both digests, and the entries around the first difference."""

    asked: SweptRun
    here: str
    there: str
    lines: tuple[str, ...]


class SweepWatch:
    """A context manager that repeats a sample of a sweep's runs in another process, and compares the digests.

    ``saw`` receives each finished run, and ``differing`` returns the differences. The exit of the context ends the
    other process.
    """

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self.seen = 0
        """Number of runs of the sweep so far."""
        self._sample: list[tuple[SweptRun, str]] = []
        self._other: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_other()

    @property
    def sampled(self) -> int:
        """Number of runs in the sample so far."""
        return len(self._sample)

    def saw(self, asked: SweptRun, digest: str) -> None:
        """Receive a finished run; send the first of every ``every`` runs to the other process."""
        if self.seen % self._every == 0:
            self._sample.append((asked, digest))
            if self._other is None:
                self._other = _other_process()
            _write(self._other, asked)
        self.seen += 1

    def abandon(self) -> None:
        """Cancel the repeated runs, after an interrupt of the sweep."""
        self._end_other()
        self._sample.clear()
        self._other = None

    def _end_other(self) -> None:
        if self._other is not None:
            self._other.kill()
            self._other.communicate()

    def differing(self) -> list[Differs]:
        """Wait for the other process; return the runs with different digests, each with the first difference.

        Raises:
            RuntimeError: The other process broke; the message names the run.
        """
        if self._other is None:
            return []
        output, errors = self._other.communicate()
        digests = output.split()
        if len(digests) < len(self._sample):
            why = errors.strip().splitlines()[-1:] or [f"exit code {self._other.returncode}"]
            asked = self._sample[len(digests)][0]
            raise RuntimeError(f"a run broke in another process: {why[0]}\nrepeat with: {asked.command}")
        pairs = zip(self._sample, digests, strict=True)
        return [Differs(asked, here, there, first_difference(asked)) for (asked, here), there in pairs if here != there]


def hash_seed_of_others() -> str:
    """Return a PYTHONHASHSEED that this process does not use."""
    return next(seed for seed in HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))


def _other_process() -> "subprocess.Popen[str]":
    """Start a process with the import path of this process, so that it finds assignors of the user."""
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
    except BrokenPipeError:  # the process broke: ``differing`` reads its error
        return


def first_difference(asked: SweptRun) -> tuple[str, ...]:
    """Repeat the run in both processes; return lines about the first different draw or record."""
    with tempfile.TemporaryDirectory(prefix="kemu-determinism-") as folder:
        entries = Path(folder) / "entries"
        other = _other_process()
        _write(other, asked, entries=str(entries))
        _, errors = other.communicate()
        if other.returncode:
            return (f"the run breaks in another process: {errors.strip().splitlines()[-1]}",)
        return tuple(
            compared_with(
                _entries_of(entries), lambda report: run_reporting(asked.scenario, asked.seed, asked.profile, report)
            )
        )


def compared_with(there: Iterator[Entry], run_here: Callable[[Report], object]) -> Iterator[str]:
    """Yield the lines about the first difference between the entries ``there`` and the entries of ``run_here``."""
    comparison = _Comparison(there)
    run_here(comparison.take)
    yield from comparison.lines()


def _entries_of(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        yield from msgpack.Unpacker(file, use_list=False, strict_map_key=False)


class _Comparison:
    """Compares the entries of this process with the entries of the other process, up to the first difference."""

    def __init__(self, there: Iterator[Entry]) -> None:
        self._there = there
        self._equal: deque[Entry] = deque(maxlen=BEFORE)
        self._count = 0
        self._pair: tuple[Entry, Entry | None] | None = None

    def take(self, entry: Entry) -> None:
        """Receive the next entry of this process."""
        if self._pair is not None:
            return
        here = msgpack.unpackb(msgpack.packb(entry), use_list=False, strict_map_key=False)
        there = next(self._there, None)
        if here == there:
            self._equal.append(here)
            self._count += 1
        else:
            self._pair = here, there

    def lines(self) -> Iterator[str]:
        """Yield the lines that describe the first difference."""
        here, there = self._pair or (None, next(self._there, None))
        if here is None and there is None:
            yield "two more runs in two processes are equal: the difference does not repeat, or depends on the computer"
            return
        yield f"the first {self._count:,} draws and records are equal, then:"
        yield from (f"    {entry_text(entry)}" for entry in self._equal)
        yield f"  > here   {'no more entries' if here is None else entry_text(here)}"
        yield f"  > there  {'no more entries' if there is None else entry_text(there)}"
        inside = None if here is None or there is None else first_unequal(plain(here), plain(there))
        if inside is not None and inside[0]:
            where, mine, theirs = inside
            yield f"    first in {where.lstrip('.')}: {mine!r:.200} here, {theirs!r:.200} there"


def canary() -> Scenario:
    """Return a scenario whose runs must violate a rule."""
    return attrs.evolve(load_scenario(CANARY), expect=())


def fails(scenario: Scenario) -> bool:
    """Return whether a run of the canary scenario has a violation; otherwise, the checkers are broken."""
    from kemu.emulator.runner import run
    from kemu.tools.exits import CORRECTNESS, worst

    return worst([run(scenario, seed=1, loop="bare").verdict]) == CORRECTNESS
