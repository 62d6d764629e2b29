"""Apply one break of ``tests/mutations`` and report the checkers that notice it.

A forked child of the test process replaces the code of live functions (``lab.patching``), which costs no imports. A
break outside of functions, and a break that a forked child does not notice, is applied to a copy of the packages, which
a new process imports: ``python -m tests.canary_runs ROOT WANTED RUN...``. The packages must come from ROOT; a RUN is a
preset or a file, a colon and a number of seeds (``own``: the file's seed). The command prints the names of the checkers
that found something, one per line, and stops at WANTED. WANTED may be followed by ``--beside=drift`` or
``--beside=listener``: each plan then gets one more line that no checker asks about.
"""

import importlib
import os
import pkgutil
import resource
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from attrs import frozen

import kemu.actors
import kemu.emulator
import kemu.protocol
from kemu.emulator.checkers import CHECKERS
from kemu.emulator.runner import run
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.emulator.scenario.scenario import Scenario
from lab.operators import Mutant
from lab.patching import LiveFunctions, live_functions, replace
from tests.mutations import OWN, Mutation

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent / "mutations"
SPEAKERS = (
    *CHECKERS,
    *(f"{checker}/{kind}" for checker, cls in CHECKERS.items() for kind in cls.kinds),
    "broken",
)
"""Names that a run can report: a checker, a checker and a kind of its findings, or a failed assertion of a machine."""
BESIDE = "--beside="
MORE_SEEDS = 5
"""Additional seeds beside an irrelevant line, because that line changes the order of simultaneous events."""
CPU_S = 60
"""CPU time after which a forked child is killed, in seconds, or a tenth of that for each of its runs, if more."""
SHOWN_CHARACTERS = 2_000


@frozen
class Outcome:
    """The output of one child process: ``names`` of the checkers that found something, or a test's failure."""

    names: tuple[str, ...]
    error: str = ""

    def notices(self, mutation: Mutation) -> bool:
        """Whether the checker or test that the break names is among them."""
        return mutation.caught_by in self.names


def with_irrelevant_line(scenario: Scenario, what: str) -> Scenario:
    """The scenario with a lasting line in its plan that excuses no violation.

    "drift": for the whole run the clocks of the first member and the last broker are 1 ppm too fast. "listener": the
    first member's listener would raise in ``onPartitionsLost``, which is called only after a lost membership. Members
    of Streams groups have no listener that could raise.
    """
    members = [host for host, group, _ in scenario.member_names() if scenario.groups[group].streams is None]
    seconds = scenario.duration_us // 1_000_000
    if what == "listener":
        lines = [f"fail-listener host={host} at=1ms callback=onPartitionsLost" for host in members[:1]]
    else:
        hosts = [*members[:1], scenario.broker_names()[-1]]
        lines = [f"clock-drift host={host} at=1ms ppm=1 for={seconds}s" for host in hosts]
    return with_actions(scenario, lines)


def speakers_of(source: str, seeds: str, beside: str = "") -> Iterator[str]:
    """Names of the checkers that find something, alone and with the kind of the finding, or "broken"."""
    scenario = load_scenario(source)
    if beside:
        scenario = with_irrelevant_line(scenario, beside)
    own = [scenario.seed] if seeds == OWN else []
    for seed in own or range(1, int(seeds) + 1 + (MORE_SEEDS if beside else 0)):
        result = run(scenario, seed=seed, loop="bare")
        if result.broke:
            yield "broken"
        for violation in split(result.violations, scenario.expect)[0]:
            yield violation.checker
            yield f"{violation.checker}/{violation.kind}"


def report(wanted: str, runs: Sequence[str], beside: str, say: Callable[[str], None]) -> None:
    """Make the runs until the wanted checker finds something; say each name once."""
    said: set[str] = set()
    for each in runs:
        source, _, seeds = each.rpartition(":")
        for name in speakers_of(source, seeds, beside):
            if name not in said:
                said.add(name)
                say(name)
            if name == wanted:
                return


def runs_of(mutation: Mutation) -> list[str]:
    """A mutation's runs, with whole paths of scenario files."""
    return [str(HERE / run) if ".toml:" in run else run for run in mutation.runs]


# --- in a forked child -----------------------------------------------------------------------------------------------


def imported_functions() -> LiveFunctions:
    """All functions of the packages that a break can concern, after importing every module."""
    for package in (kemu.protocol, kemu.actors, kemu.emulator):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return live_functions()


def in_fork(mutation: Mutation | None, wanted: Mutation, functions: LiveFunctions, beside: str = "") -> Outcome:
    """The outcome of a break in a forked child; of the unchanged packages if ``mutation`` is None.

    Args:
        mutation: the break to apply.
        wanted: names the runs and the checker or test that must notice.
        functions: all live functions of the packages.
        beside: the irrelevant line of each plan, "" for none.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        _child(writing, mutation, wanted, functions, beside)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    names = tuple(line for line in lines if line in SPEAKERS or line == wanted.caught_by)
    return Outcome(names, "" if status == 0 else f"status {status}\n" + "\n".join(lines)[-SHOWN_CHARACTERS:])


def _child(writing: int, mutation: Mutation | None, wanted: Mutation, functions: LiveFunctions, beside: str) -> None:
    """Apply the break, make the runs or the test, write names to the pipe, and end the process."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        most_s = max(CPU_S, CPU_S * len(wanted.runs) // 10)
        resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s))
        if mutation is not None:
            replace(_as_mutant(mutation), functions)
        if wanted.caught_by in SPEAKERS:
            report(wanted.caught_by, runs_of(wanted), beside, lambda name: _write(writing, name))
        elif _test_fails(wanted.caught_by):
            _write(writing, wanted.caught_by)
        code = 0
    except BaseException:
        _write(writing, traceback.format_exc())
    finally:
        os._exit(code)


def _write(pipe: int, line: str) -> None:
    os.write(pipe, line.encode() + b"\n")


def _as_mutant(mutation: Mutation) -> Mutant:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    before, _, _ = text.partition(mutation.old)
    start, line = len(before.encode()), before.count("\n") + 1
    return Mutant(mutation.file, line, "canary", start, start + len(mutation.old.encode()), mutation.old, mutation.new)


def _test_fails(nodeid: str) -> bool:
    """Whether a test fails, in a pytest session of its own inside this process."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    code = pytest.main(["-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}", str(ROOT / nodeid)])
    return code == pytest.ExitCode.TESTS_FAILED


# --- in a new process ------------------------------------------------------------------------------------------------


def main() -> None:
    """See the module."""
    root, wanted, *runs = sys.argv[1:]
    beside = runs.pop(0).removeprefix(BESIDE) if runs and runs[0].startswith(BESIDE) else ""
    for package in (kemu.actors, kemu.emulator, kemu.protocol):
        assert package.__file__ is not None and Path(package.__file__).resolve().is_relative_to(root), package.__file__
    report(wanted, runs, beside, lambda name: print(name, flush=True))


if __name__ == "__main__":
    main()
