"""A deliberate break of one line is noticed: by the checker or the test that is there for it.

Each mutation is applied in a forked child, or to a copy of the packages that a new process imports (see
``tests/canary_runs.py``), which then makes a few runs under all checkers, or the one test that is named. See
``tests/mutations``.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kemu.emulator.checkers import CHECKERS
from kemu.emulator.past_bugs.registry import PAST_BUGS
from lab.patching import LiveFunctions
from tests.canary_runs import (
    BESIDE,
    HERE,
    ROOT,
    SHOWN_CHARACTERS,
    SPEAKERS,
    Outcome,
    imported_functions,
    in_fork,
    runs_of,
)
from tests.mutations import OWN, Mutation, kept_seeds

PACKAGES = ("kemu", "lab", "tests")
TIMEOUT_S = 100
LONG = 10
"""Number of short runs that are as long as one run of a kept seed."""


def all_mutations() -> list[Mutation]:
    """The mutations of all modules in ``tests/mutations``, in the order of the modules' names."""
    modules = [
        import_module(f"tests.mutations.{path.stem}") for path in sorted(HERE.glob("*.py")) if path.stem[0] != "_"
    ]
    return [Mutation(*mutation) for module in modules for mutation in module.MUTATIONS]


def seeds_of(mutation: Mutation) -> int:
    """How many runs a mutation takes at most. A kept seed of the swarm is as long as several short runs."""
    return sum(LONG if each == OWN else int(each) for each in (run.rpartition(":")[2] for run in mutation.runs))


def one_of_each_checker(mutations: list[Mutation]) -> frozenset[Mutation]:
    """For each checker the cheapest mutation: few runs, small scenarios; and one that a test notices."""

    def cost(mutation: Mutation) -> tuple[bool, int, bool]:
        slow = (mutation.file, mutation.caught_by) in SLOW
        return slow, seeds_of(mutation), not all(".toml:" in run for run in mutation.runs)

    chosen: dict[str, Mutation] = {}
    for mutation in sorted(mutations, key=cost):
        noticed_by = mutation.caught_by.partition("/")[0] if mutation.caught_by in SPEAKERS else "a test"
        chosen.setdefault(noticed_by, mutation)
    return frozenset(chosen.values())


SLOW = {
    ("kemu/actors/broker/replica.py", "isr"),
    ("kemu/actors/broker/replicated.py", "requests/unanswered"),
    ("kemu/actors/consumer/positions.py", "no-lost-record"),
    ("kemu/actors/coordinator/group.py", "liveness"),
    ("kemu/actors/coordinator/syncing.py", "one-owner"),
}
"""(file, checker) of mutations after which a run takes many more steps."""
MUTATIONS = all_mutations()
SHORT = one_of_each_checker(MUTATIONS)
BESIDE_FULL_ONE_OF = 45
"""One of so many pairs is made in the full set. The number is odd, so that both irrelevant lines occur."""
FULL = pytest.mark.full("a second of CPU time for each break")


def keeps_a_seed(mutation: Mutation) -> bool:
    """Whether a kept seed of the swarm must notice the break. A line more in the plan would be another run."""
    return any(run.endswith(OWN) for run in mutation.runs)


def name_of(mutation: Mutation) -> str:
    seed = "".join(f", {Path(run).stem}" for run in mutation.runs if run.endswith(OWN))
    return f"{mutation.file}, {mutation.caught_by.rpartition('::')[2]}{seed}"


def test_there_are_enough_mutations_and_every_checker_catches_one_or_a_past_bug():
    shown_by_past_bugs = {bug.caught_by for bug in PAST_BUGS.values()}

    assert len(MUTATIONS) >= 10
    shown = {mutation.caught_by.partition("/")[0] for mutation in MUTATIONS}
    assert shown | shown_by_past_bugs >= set(CHECKERS)


def test_every_break_is_of_a_line_that_is_there_once():
    """A change of a line must change its break, too. The changed text must be valid Python."""
    for mutation in MUTATIONS:
        text = (ROOT / mutation.file).read_text()
        assert text.count(mutation.old) == 1, f"{mutation.file}: {mutation.old!r}"
        ast.parse(text.replace(mutation.old, mutation.new))


def test_every_kept_seed_has_a_break():
    """A new seed needs a break: otherwise nothing shows that the fix is still needed."""
    files = {path.stem for path in (ROOT / "tests" / "data" / "swarm").glob("*.toml")}
    broken = {Path(run).stem for mutation in kept_seeds.MUTATIONS for run in mutation.runs}

    assert broken == files


@pytest.fixture(scope="module")
def functions() -> LiveFunctions:
    return imported_functions()


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The place of an untouched copy of the packages; ``broken_copy`` fills it when it is first needed."""
    return tmp_path_factory.mktemp("clean")


def broken_copy(clean: Path, mutation: Mutation, root: Path) -> Path:
    """A copy of the packages with one break; its other files are links to those of the untouched copy."""
    if not any(clean.iterdir()):
        for package in PACKAGES:
            shutil.copytree(ROOT / package, clean / package, symlinks=True, ignore=shutil.ignore_patterns("*.pyc.*"))
        shutil.copy2(ROOT / "pyproject.toml", clean)
    shutil.copytree(clean, root, symlinks=True, copy_function=os.link)
    file = root / mutation.file
    content = file.read_text()
    file.unlink()
    file.write_text(content.replace(mutation.old, mutation.new))
    return root


def in_new_process(mutation: Mutation, root: Path, beside: str = "") -> Outcome:
    """The outcome of a break that the packages below ``root`` have."""
    if mutation.caught_by in SPEAKERS:
        option = [BESIDE + beside] if beside else []
        command = ["-m", "tests.canary_runs", str(root), mutation.caught_by, *option, *runs_of(mutation)]
    else:
        command = ["-m", "pytest", "-x", "-p", "no:cacheprovider", mutation.caught_by]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # loading plugins takes longer than the one test
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S + 10 * seeds_of(mutation),
    )
    error = (done.stdout + done.stderr)[-SHOWN_CHARACTERS:]
    if mutation.caught_by in SPEAKERS:
        return Outcome(tuple(done.stdout.split()), error if done.returncode else "")
    failed = done.returncode == 1 and " failed" in done.stdout
    return Outcome((mutation.caught_by,) if failed else (), "" if failed else error)


def outcome_of(mutation: Mutation, functions: LiveFunctions, clean: Path, root: Path, beside: str = "") -> Outcome:
    """The outcome in a forked child; in a new process if the break was not noticed there.

    A forked child keeps values that were computed with the unchanged code, such as tables of a module.
    """
    outcome = in_fork(mutation, mutation, functions, beside)
    if outcome.notices(mutation) and not outcome.error:
        return outcome
    return in_new_process(mutation, broken_copy(clean, mutation, root), beside)


@pytest.mark.parametrize(
    "mutation", [pytest.param(each, id=name_of(each), marks=[] if each in SHORT else [FULL]) for each in MUTATIONS]
)
def test_a_broken_line_is_noticed(mutation, functions, clean, tmp_path):
    """Every break is caught by a checker or a test."""
    outcome = outcome_of(mutation, functions, clean, tmp_path / "root")

    assert outcome.error == ""
    assert outcome.notices(mutation), f"noticed by: {', '.join(outcome.names) or 'no checker'}"


def beside_irrelevant_lines():
    """Each break that runs catch beside each irrelevant line; a few in the full set, the others in the sweep."""
    pairs = [
        (mutation, beside)
        for mutation in MUTATIONS
        if mutation.runs and mutation.caught_by in SPEAKERS and not keeps_a_seed(mutation)
        for beside in ("drift", "listener")
    ]
    for number, (mutation, beside) in enumerate(pairs):
        mark = pytest.mark.soak if number % BESIDE_FULL_ONE_OF else FULL
        yield pytest.param(mutation, beside, id=f"{name_of(mutation)}, {beside}", marks=[mark])


@pytest.mark.parametrize(("mutation", "beside"), list(beside_irrelevant_lines()))
def test_a_broken_line_is_noticed_beside_an_irrelevant_line(mutation, beside, functions, clean, tmp_path):
    """A line of the plan that disturbs nothing excuses no violation."""
    outcome = outcome_of(mutation, functions, clean, tmp_path / "root", beside)

    assert outcome.error == ""
    assert outcome.notices(mutation), f"noticed by: {', '.join(outcome.names) or 'no checker'}"


@FULL
@pytest.mark.parametrize("short", [True, False])
def test_without_a_break_no_checker_finds_anything(functions, short):
    """Otherwise a checker that always finds something would pass. ``test_presets`` has the runs of presets."""
    runs = dict.fromkeys(
        run if run.endswith(OWN) else run.partition(":")[0] + ":1"
        for mutation in MUTATIONS
        if mutation.caught_by in SPEAKERS and (mutation in SHORT) is short
        for run in mutation.runs
        if ".toml:" in run or not short
    )
    untouched = Mutation("", "", "", "liveness", tuple(runs))

    assert in_fork(None, untouched, functions) == Outcome(())


@pytest.mark.parametrize("short", [True, pytest.param(False, marks=FULL)])
def test_without_a_break_the_named_tests_pass(functions, short):
    """Otherwise a test that always fails in a forked child would count as noticing a break."""
    for mutation in MUTATIONS:
        if mutation.caught_by not in SPEAKERS and (mutation in SHORT) is short:
            assert in_fork(None, mutation, functions) == Outcome(()), mutation.caught_by
