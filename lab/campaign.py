"""Runs mutants against the budget, each in a forked child whose CPU time is limited.

The parent imports the package once and never runs a scenario. A child patches the code, makes the runs that reach the
changed line and sends one JSON line for each run through a pipe. The parent keeps these lines even if it must kill the
child.
"""

import hashlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from attrs import asdict, field, frozen, mutable

from kemu.actors.machine import Machine
from kemu.emulator.engine import step_watch
from kemu.emulator.engine.raised import LIVELOCK
from kemu.emulator.engine.world import World
from kemu.emulator.scenario.forms import plain_form
from lab.budget import Item, OutOfTime, RunOutcome, interleaved, outcome_of
from lab.operators import ROOT, Mutant
from lab.patching import CannotPatch, LiveFunctions, live_functions, replace, watch_of

CPU_S = 28.0
"""CPU time of one mutant, in seconds."""
LEAST_RUN_S = 8.0
"""Least CPU time for each run, in seconds; the emulator can detect a livelock in this time."""
MOST_HANGS = 2
KILLED_S = 5
"""A child that ignores the signal is killed so many seconds after the end of its CPU time."""
ASLEEP_S = 120.0
"""A child that sleeps for so many seconds is killed. A stopped child, or a child that waits for a processor, does not
sleep."""
MEMORY_BYTES = 6 << 30
STEP_CPU_S = 4.0
"""CPU time of one step of a machine before the emulator reports a livelock, in seconds; far less than in other runs."""
CAUGHT = ("caught", "broken", "crash")
BEST_FIRST = 5
"""Number of runs that are moved to the front because they caught mutants nearby."""
LOOKS_AGAIN_S = 0.01
LEAST_WORTH_S = 0.3
NEARBY, IN_FILE, NEARBY_LINES = 12, 4, 30
"""Weight of a catch within ``NEARBY_LINES``, and weight of a catch elsewhere in the file. A catch elsewhere in the room
has weight 1."""


@frozen
class Baseline:
    """The run of an item without a mutant: outcome, CPU time, and the reached lines of each file."""

    item: Item
    outcome: RunOutcome
    cpu_s: float
    lines: dict[str, frozenset[int]]


@frozen
class MutantResult:
    """The result of a mutant.

    Values of ``verdict``: "caught" (a checker found a violation), "broken" (a machine's assertion failed), "crash" (a
    Python error in a machine). "hang" (a run did not end in its time), "survivor" (a digest changed, and no checker
    found a violation), "unchanged" (no digest changed). "unreached" (no run executes the line), "invalid" (the code
    cannot be replaced).
    """

    mutant: Mutant
    verdict: str
    by: tuple[str, ...] = ()
    item: str = ""
    cpu_s: float = 0.0
    runs: int = 0
    changed: tuple[str, ...] = ()
    louder: int = 0
    """Number of changed runs in which the number of steps or messages changed."""


def tree_hash() -> str:
    """Hash of all sources that a run executes, without its scenario (see ``scenario_hash``)."""
    digest = hashlib.sha256()
    for package in ("kemu/protocol", "kemu/actors", "kemu/emulator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.is_relative_to(ROOT / "kemu" / "emulator" / "exploring"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def scenario_hash(item: Item) -> str:
    """Hash of an item's scenario and seed; the hash changes when the swarm draws another case."""
    form = json.dumps(plain_form(item.scenario()), default=str)
    return hashlib.sha256(f"{item.seed}\0{form}".encode()).hexdigest()[:16]


# --- children ----------------------------------------------------------------------------------------------------


@mutable
class _Child:
    pid: int
    pipe: int
    rows: list[dict[str, Any]] = field(factory=list)
    rest: bytes = b""
    ticks: str = ""
    """CPU time at the last observed progress; ``moved_s`` is the time of the observation."""
    moved_s: float = 0.0

    def is_asleep(self) -> bool:
        """Whether the process has slept for ``ASLEEP_S``."""
        state, *fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks = " ".join(fields[10:12])
        if state != "S" or ticks != self.ticks:
            self.ticks, self.moved_s = ticks, time.monotonic()
        return time.monotonic() - self.moved_s > ASLEEP_S


def _fork(work: Callable[[Callable[[dict[str, Any]], None]], None]) -> _Child:
    """Fork a child that calls ``work`` with a function that sends a row to the parent."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(pid, reading)
    code = 1
    try:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its children

        def send(row: dict[str, Any]) -> None:
            os.write(writing, json.dumps(row).encode() + b"\n")

        work(send)
        code = 0
    except BaseException as error:
        os.write(2, f"lab: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _finished(children: list[_Child]) -> Iterator[tuple[_Child, int, float]]:
    """Wait for at most a second; yield the children that ended, with exit status and CPU time in seconds."""
    ready, _, _ = select.select([child.pipe for child in children], [], [], 1.0)
    for child in list(children):
        if child.is_asleep():
            os.kill(child.pid, signal.SIGKILL)
        if child.pipe not in ready:
            continue
        content = os.read(child.pipe, 1 << 20)
        if content:
            *rows, child.rest = (child.rest + content).split(b"\n")
            child.rows += [json.loads(row) for row in rows]
            continue
        os.close(child.pipe)
        _, status, usage = os.wait4(child.pid, 0)
        children.remove(child)
        yield child, status, usage.ru_utime + usage.ru_stime


def _end(children: Iterable[_Child]) -> None:
    """Kill children whose results are no longer needed."""
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
        os.close(child.pipe)
        os.waitpid(child.pid, 0)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# --- baselines -----------------------------------------------------------------------------------------------------


def baselines(items: Sequence[Item], files: Sequence[str], cache: Path, jobs: int) -> list[Baseline]:
    """The baselines of all items. A baseline is read from the cache if the sources are unchanged.

    It imports the modules of the files. A run imports some of them late, and a forked child would run other functions.
    """
    for file in files:
        import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    key = tree_hash()
    stored = json.loads(cache.read_text(encoding="utf-8")) if cache.exists() else {}
    known: dict[str, Any] = stored["runs"] if stored.get("tree") == key else {}
    about = {item.name: scenario_hash(item) for item in items}
    missing = [item for item in items if known.get(item.name, {}).get("scenario") != about[item.name]]
    if missing:
        watch = watch_of(files, live_functions())

        def work_for(item: Item) -> Callable[[Callable[[dict[str, Any]], None]], None]:
            def work(send: Callable[[dict[str, Any]], None]) -> None:
                watch.install()
                before_s = _cpu_s()
                outcome = outcome_of(item)
                send({**asdict(outcome), "cpu_s": _cpu_s() - before_s, "lines": watch.reached()})

            return work

        cache.parent.mkdir(parents=True, exist_ok=True)
        children: list[_Child] = []
        items_of: dict[int, Item] = {}
        queue = list(missing)
        try:
            while queue or children:
                while queue and len(children) < jobs:
                    child = _fork(work_for(queue[0]))
                    items_of[child.pid] = queue.pop(0)
                    children.append(child)
                for child, _, _ in _finished(children):
                    name = items_of[child.pid].name
                    if not child.rows:
                        raise RuntimeError(f"the run of {name} without a mutant failed")
                    known[name] = row = {**child.rows[0], "scenario": about[name]}
                    if row["spoke"] or row["broke"]:
                        sys.stderr.write(f"without a mutant, {name}: {row['spoke']} {row['broke']}\n")
                    if len(known) % 10 == 0 or not (queue or children):
                        sys.stderr.write(f"baselines: {len(known)} of {len(items)}\n")
        finally:
            _end(children)
            cache.write_text(json.dumps({"tree": key, "runs": known}), encoding="utf-8")
    return [
        Baseline(
            item,
            RunOutcome(row["digest"], tuple(row["spoke"]), row["broke"], row["steps"], row["messages"]),
            row["cpu_s"],
            {file: frozenset(lines) for file, lines in row["lines"].items()},
        )
        for item in items
        for row in [known[item.name]]
    ]


# --- mutants -------------------------------------------------------------------------------------------------------


def chosen(
    mutant: Mutant,
    known: Sequence[Baseline],
    most_s: float,
    before: Sequence[MutantResult] = (),
    changed: Container[str] | None = None,
) -> list[Baseline]:
    """The runs that reach a mutant's statement.

    The first runs are those that caught the most mutants nearby per CPU second. The cheapest runs follow, alternating
    between kinds.

    Args:
        mutant: the mutant whose statement the runs must reach.
        known: all runs without a mutant.
        most_s: the mutant's CPU time; a run may take half of it.
        before: results of other mutants.
        changed: names of the runs that the mutant is known to change; None if unknown.
    """
    reaching = [
        each for each in known if mutant.statement in each.lines.get(mutant.file, ()) and each.cpu_s < most_s / 2
    ]
    if changed is not None:
        reaching = [each for each in reaching if each.item.name in changed]
    catches: Counter[str] = Counter()
    for result in before:
        if result.verdict in CAUGHT:
            catches[result.item] += _nearness(mutant, result.mutant)
    worth = {each.item.name: catches[each.item.name] / (each.cpu_s + LEAST_WORTH_S) for each in reaching}
    by_item = {each.item: each for each in sorted(reaching, key=lambda each: each.cpu_s)}
    in_turn = [by_item[item] for item in interleaved(list(by_item))]
    best = sorted((each for each in in_turn if worth[each.item.name]), key=lambda each: -worth[each.item.name])
    first = best[:BEST_FIRST]
    return [*first, *(each for each in in_turn if each not in first)]


def _nearness(one: Mutant, other: Mutant) -> int:
    """The weight of another mutant's catch for this mutant."""
    if one.file != other.file:
        return int(one.room == other.room)
    return NEARBY if abs(one.statement - other.statement) <= NEARBY_LINES else IN_FILE


def _work_for(
    mutant: Mutant, functions: LiveFunctions, runs: Sequence[Baseline], left_s: float
) -> Callable[[Callable[[Any], None]], None]:
    """The work of a child: the mutant's runs within this CPU time."""

    def work(send: Callable[[dict[str, Any]], None]) -> None:
        step_watch.STEP_CPU_S = STEP_CPU_S
        hangs, most = 0, 0

        def out_of_time(number: int, frame: FrameType | None) -> None:
            if _cpu_s() < most:
                return
            if _is_in_a_step(frame):
                raise OutOfTime
            signal.setitimer(signal.ITIMER_PROF, LOOKS_AGAIN_S)

        for number in (signal.SIGXCPU, signal.SIGPROF):
            signal.signal(number, out_of_time)
        try:
            replace(mutant, functions)
        except CannotPatch:
            send({"verdict": "invalid"})
            return
        for each in runs:
            rest_s = left_s - _cpu_s()
            if each.cpu_s * 1.2 > rest_s:
                continue
            send({"begun": each.item.name})
            most = int(_cpu_s() + min(rest_s, max(LEAST_RUN_S, 5 * each.cpu_s))) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (most, int(left_s) + KILLED_S))
            row = _compared(each)
            send(row)
            hangs += "hung" in row
            if "verdict" in row or hangs == MOST_HANGS:
                return

    return work


def results(
    mutants: Iterable[Mutant],
    known: Sequence[Baseline],
    *,
    jobs: int,
    cpu_s: float = CPU_S,
    before: Sequence[MutantResult] = (),
    changed: Mapping[str, Container[str]] = MappingProxyType({}),
) -> Iterator[MutantResult]:
    """Yield each mutant's result as soon as the result is known. Closing the generator kills running children.

    Args:
        before: earlier results; these determine the order of runs.
        changed: mutant's name -> runs that the mutant is known to change, as in ``chosen``.
    """
    functions = live_functions()
    learned = list(before)

    children: list[_Child] = []
    about: dict[int, tuple[Mutant, list[Baseline], float, list[dict[str, Any]], int]] = {}
    queue = iter(mutants)
    waiting: list[tuple[Mutant, list[Baseline], float, list[dict[str, Any]], int]] = []
    more = True
    try:
        while more or waiting or children:
            while len(children) < jobs and (more or waiting):
                if waiting:
                    one = waiting.pop()
                else:
                    mutant = next(queue, None)
                    if mutant is None:
                        more = False
                        break
                    runs = chosen(mutant, known, cpu_s, learned, changed.get(mutant.name))
                    if not runs:
                        yield MutantResult(mutant, "unreached")
                        continue
                    one = (mutant, runs, 0.0, [], 0)
                child = _fork(_work_for(one[0], functions, one[1], cpu_s - one[2]))
                about[child.pid] = one
                children.append(child)
            for child, status, used_s in _finished(children) if children else ():
                mutant, runs, spent_s, rows, hangs = about.pop(child.pid)
                rows, spent_s = [*rows, *child.rows], spent_s + used_s
                hung = bool(os.WIFSIGNALED(status) and child.rows and "begun" in child.rows[-1])
                hangs += hung
                if hung and hangs < MOST_HANGS and spent_s < cpu_s / 2:
                    at = next(i for i, each in enumerate(runs) if each.item.name == child.rows[-1]["begun"])
                    waiting.append((mutant, runs[at + 1 :], spent_s, rows, hangs))
                    continue
                learned.append(_result(mutant, rows, spent_s, hangs))
                yield learned[-1]
    finally:
        _end(children)


def _is_in_a_step(frame: FrameType | None) -> bool:
    """Whether a machine's step is being executed. The emulator catches an exception that is raised inside a step."""
    inner: FrameType | None = None
    while frame is not None:
        if frame.f_code is World.take_turn.__code__ and inner is not None:
            return isinstance(inner.f_locals.get("self"), Machine)
        inner, frame = frame, frame.f_back
    return False


def _compared(baseline: Baseline) -> dict[str, Any]:
    """Make a run of the budget while the mutant is in force."""
    name = baseline.item.name
    try:
        outcome = outcome_of(baseline.item)
    except AssertionError as error:
        return {"verdict": "broken", "by": [str(error)[:200]], "item": name}
    except MemoryError:
        return {"verdict": "hang", "item": name}
    except OutOfTime:
        return {"ran": name, "changed": True, "louder": True, "hung": True}
    except Exception as error:
        return {"verdict": "crash", "by": [f"{type(error).__name__}: {error}"[:200]], "item": name}
    spoke = [each for each in outcome.spoke if each not in baseline.outcome.spoke]
    if OutOfTime.__name__ in outcome.broke and not spoke:
        return {"ran": name, "changed": True, "louder": True, "hung": True}
    if outcome.broke and OutOfTime.__name__ not in outcome.broke and not baseline.outcome.broke:
        return {"verdict": _verdict_of(outcome.broke), "by": [_speaker(outcome.broke)], "item": name}
    if spoke:
        return {"verdict": "caught", "by": spoke, "item": name}
    was = baseline.outcome
    louder = (outcome.steps, outcome.messages) != (was.steps, was.messages)
    return {"ran": name, "changed": outcome.digest != was.digest, "louder": louder}


def _verdict_of(broke: str) -> str:
    """Return "caught" for a livelock, "broken" for a failed assertion of a machine, "crash" for another error."""
    if broke.startswith(LIVELOCK):
        return "caught"
    return "broken" if "AssertionError" in broke.splitlines()[0] else "crash"


def _speaker(broke: str) -> str:
    return LIVELOCK.rstrip(": ") if broke.startswith(LIVELOCK) else broke.splitlines()[0][:200]


def _result(mutant: Mutant, rows: Sequence[dict[str, Any]], cpu_s: float, hangs: int) -> MutantResult:
    changed = tuple(row["ran"] for row in rows if row.get("changed"))
    runs = sum("begun" in row for row in rows)
    last = next((row for row in rows if "verdict" in row), None)
    if last is not None:
        by = tuple(last.get("by", ()))
        return MutantResult(mutant, last["verdict"], by, last.get("item", ""), cpu_s, runs, changed)
    if not runs:
        return MutantResult(mutant, "unreached", cpu_s=cpu_s)
    louder = sum(bool(row.get("louder")) for row in rows)
    hangs += sum(bool(row.get("hung")) for row in rows)
    verdict = "hang" if hangs else "survivor" if changed else "unchanged"
    return MutantResult(mutant, verdict, (), "", cpu_s, runs, changed, louder)


def as_row(result: MutantResult) -> dict[str, Any]:
    """The result as a JSON object."""
    return asdict(result)


def from_row(row: dict[str, Any]) -> MutantResult:
    """The result from a JSON object that ``as_row`` made."""
    return MutantResult(
        Mutant(**row["mutant"]),
        row["verdict"],
        tuple(row["by"]),
        row["item"],
        row["cpu_s"],
        row["runs"],
        tuple(row["changed"]),
        row["louder"],
    )
