"""A deliberate break of one line is noticed: by the checker or the test that is there for it.

Each mutation is applied to a copy of the packages, in which a fresh interpreter then runs a few seeds under all
checkers, or the one test that is named. See ``tests/mutations``. The interpreters run side by side, as many as there
are processors; under pytest-xdist each worker starts its own, one at a time.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from kemu.emulator.checkers import CHECKERS
from kemu.emulator.findings import KINDS
from kemu.emulator.past_bugs.registry import PAST_BUGS
from tests.canary_runs import BESIDE
from tests.mutations import Mutation, areas

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent / "mutations"
PACKAGES = ("kemu", "lab", "tests")
SPEAKERS = (*CHECKERS, *(f"{checker}/{kind}" for checker, kinds in KINDS.items() for kind in kinds), "broken")
TIMEOUT_S = 100
Outcome = subprocess.CompletedProcess[str]


def all_mutations() -> list[Mutation]:
    modules = [
        import_module(f"tests.mutations.{path.stem}") for path in sorted(HERE.glob("*.py")) if path.stem[0] != "_"
    ]
    return [Mutation(*mutation) for module in modules for mutation in module.MUTATIONS]


MUTATIONS = all_mutations()
ORDINARILY_ONE_OF = 5
"""Each costs an interpreter and a run of a cluster."""
BESIDE_ORDINARILY_ONE_OF = 45
"""Odd, so that both irrelevant lines are among them."""
SWEPT = frozenset(
    mutation
    for number, mutation in enumerate(MUTATIONS)
    if number % (areas.ORDINARILY_ONE_OF if mutation in areas.MUTATIONS else ORDINARILY_ONE_OF)
)
"""Those that only the sweep makes (``pytest -m soak tests/test_mutation_canary.py``)."""


def name_of(mutation: Mutation) -> str:
    return f"{mutation.file}, {mutation.caught_by.rpartition('::')[2]}"


def test_there_are_enough_mutations_and_every_checker_catches_one_or_a_past_bug():
    shown_by_past_bugs = {bug.caught_by for bug in PAST_BUGS.values()}

    assert len(MUTATIONS) >= 10
    shown = {mutation.caught_by.partition("/")[0] for mutation in MUTATIONS}
    assert shown | shown_by_past_bugs >= set(CHECKERS)


def test_every_break_is_of_a_line_that_is_there_once():
    """The sweep's, too: a line that changed takes its break along. And what is broken is a rule, not the file."""
    for mutation in MUTATIONS:
        text = (ROOT / mutation.file).read_text()
        assert text.count(mutation.old) == 1, f"{mutation.file}: {mutation.old!r}"
        ast.parse(text.replace(mutation.old, mutation.new))


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """An untouched copy of the packages, with their byte code; the copies with a break are made of it by links."""
    root = tmp_path_factory.mktemp("clean")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, symlinks=True, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy2(ROOT / "pyproject.toml", root)
    return root


def broken_copy(clean: Path, mutation: Mutation, root: Path) -> Path:
    shutil.copytree(clean, root, symlinks=True, copy_function=os.link)
    file = root / mutation.file
    content = file.read_text()
    found = content.count(mutation.old)
    assert found == 1, f"{mutation.file}: the text to break stands {found} times in it: {mutation.old!r}"
    file.unlink()
    file.write_text(content.replace(mutation.old, mutation.new))
    return root


def outcome_of(mutation: Mutation, root: Path, beside: str = "") -> Outcome:
    if mutation.caught_by in SPEAKERS:
        runs = [str(HERE / run) if ".toml:" in run else run for run in mutation.runs]
        command = [
            "-m",
            "tests.canary_runs",
            str(root),
            mutation.caught_by,
            *([BESIDE + beside] if beside else []),
            *runs,
        ]
    else:
        command = ["-m", "pytest", "-x", "-p", "no:cacheprovider", mutation.caught_by]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # loading plugins takes longer than the one test
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S + 10 * len(mutation.runs),
    )


@pytest.fixture(scope="module")
def noticed(request, clean, tmp_path_factory) -> Iterator[Callable[[Mutation], Outcome]]:
    """What came of a mutation; all that this session asks for are begun at once."""

    def begin(mutation: Mutation) -> Outcome:
        return outcome_of(mutation, broken_copy(clean, mutation, tmp_path_factory.mktemp("broken") / "root"))

    asked = [item.callspec.params["mutation"] for item in request.session.items if item.name.startswith(BROKEN_LINE)]
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield begin
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running: dict[Mutation, Future[Outcome]] = {mutation: pool.submit(begin, mutation) for mutation in asked}
        yield lambda mutation: running[mutation].result()
        pool.shutdown(cancel_futures=True)


BROKEN_LINE = "test_a_broken_line_is_noticed["


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(each, id=name_of(each), marks=[pytest.mark.soak] if each in SWEPT else []) for each in MUTATIONS],
)
def test_a_broken_line_is_noticed(mutation, noticed):
    """Every break is caught by a checker or a test."""
    outcome = noticed(mutation)

    if mutation.caught_by in SPEAKERS:
        assert outcome.returncode == 0, outcome.stderr[-2_000:]
        assert mutation.caught_by in outcome.stdout.split(), f"spoke instead: {outcome.stdout.split() or 'nobody'}"
    else:
        assert outcome.returncode == 1, outcome.stdout[-2_000:] + outcome.stderr[-2_000:]
        assert " failed" in outcome.stdout


def beside_irrelevant_lines():
    """Each break that runs catch beside each irrelevant line; a few of them ordinarily, the others in the sweep."""
    pairs = [
        (mutation, beside)
        for mutation in MUTATIONS
        if mutation.runs and mutation.caught_by in SPEAKERS
        for beside in ("drift", "listener")
    ]
    for number, (mutation, beside) in enumerate(pairs):
        swept = number % BESIDE_ORDINARILY_ONE_OF
        yield pytest.param(
            mutation, beside, id=f"{name_of(mutation)}, {beside}", marks=[pytest.mark.soak] if swept else []
        )


@pytest.mark.parametrize(("mutation", "beside"), list(beside_irrelevant_lines()))
def test_a_broken_line_is_noticed_beside_an_irrelevant_line(mutation, beside, clean, tmp_path):
    """A line of the plan that disturbs nobody excuses nobody."""
    outcome = outcome_of(mutation, broken_copy(clean, mutation, tmp_path / "root"), beside)

    assert outcome.returncode == 0, outcome.stderr[-2_000:]
    assert mutation.caught_by in outcome.stdout.split(), f"spoke instead: {outcome.stdout.split() or 'nobody'}"


@pytest.mark.parametrize("swept", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_without_a_break_nobody_speaks(clean, swept):
    """Otherwise the checkers would catch everything, and mean nothing by it. That ordinary runs of presets hold is a
    test of its own (``test_presets``).
    """
    runs = dict.fromkeys(
        run.partition(":")[0] + ":1"
        for mutation in MUTATIONS
        if mutation.caught_by in SPEAKERS and (mutation in SWEPT) is swept
        for run in mutation.runs
        if swept or ".toml:" in run
    )
    untouched = Mutation("", "", "", "liveness", tuple(runs))

    outcome = outcome_of(untouched, clean)

    assert (outcome.returncode, outcome.stdout) == (0, ""), outcome.stderr[-2_000:]
