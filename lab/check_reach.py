"""``python -m lab.check reach``: list the functions of the emulator that no preset and no test enters.

All presets run first, and the tests of the core second, until every function of ``kemu/protocol/``, ``kemu/actors/``
and ``kemu/emulator/`` has been entered. A mark at the beginning of each function records its entry at little cost
(``lab.reach_marks``). The check uses all processors.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.reach_marks import FOLDER, INDEX, MARKS, Function, functions_of, index_text

ROOT = Path(__file__).resolve().parent.parent
WATCHED = ("kemu/protocol", "kemu/actors", "kemu/emulator")
TESTS = ("tests/protocol", "tests/actors", "tests/emulator", "tests/api", "tests/kips", "tests/tools")
WITHOUT = "tests/tools/pipeline"
"""Folder of excluded tests, which start Spark, take long, and enter the same functions as runs from the command
line."""
SEED = 1
START = """
import importlib.util
spec = importlib.util.spec_from_file_location("reach_marks", {path!r})
marks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(marks)
marks.install()
"""
"""The ``sitecustomize`` of every interpreter, including interpreters that tests start."""


def functions() -> list[Function]:
    """Every watched function, by file and line."""
    paths = sorted(path for room in WATCHED for path in (ROOT / room).rglob("*.py"))
    return [function for path in paths for function in functions_of(path)]


class ReachWatch:
    """The functions that interpreters with ``environment`` have entered so far."""

    def __init__(self, folder: Path, watched: list[Function]) -> None:
        self._folder = folder
        self._watched = watched
        self._began_s = time.perf_counter()
        (folder / INDEX).write_text(index_text(watched), encoding="utf-8")
        (folder / MARKS).write_bytes(bytes(max(1, len(watched))))
        start = START.format(path=str(Path(__file__).with_name("reach_marks.py")))
        (folder / "sitecustomize.py").write_text(start, encoding="utf-8")

    def environment(self) -> Mapping[str, str]:
        """The environment variables of an interpreter that marks entered functions."""
        return {**os.environ, FOLDER: str(self._folder), "PYTHONPATH": os.pathsep.join((str(self._folder), str(ROOT)))}

    def unreached(self) -> list[Function]:
        """The functions that no interpreter has entered."""
        marks = (self._folder / MARKS).read_bytes()
        return [function for function, mark in zip(self._watched, marks, strict=False) if not mark]

    def run(self, arguments: list[str]) -> bool:
        """Run Python with these arguments; return whether the exit code was 0."""
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=self.environment(), check=False)
        return done.returncode == 0

    def say(self, what: str) -> None:
        """Print one line of progress."""
        reached, spent_s = len(self._watched) - len(self.unreached()), time.perf_counter() - self._began_s
        print(f"{what}: {reached:,} of {len(self._watched):,} functions reached, {spent_s:.0f} s", flush=True)


def _presets(watch: ReachWatch) -> bool:
    names, shares = sorted(path.stem for path in (ROOT / "kemu/emulator/presets").glob("*.toml")), os.cpu_count() or 1
    commands = [["-m", "lab.check_reach", *names[share::shares]] for share in range(shares)]
    with ThreadPoolExecutor(shares) as pool:
        return all(pool.map(watch.run, commands))


def run_presets(names: list[str]) -> int:
    """Run these presets with one seed."""
    from kemu.emulator.runner import run  # the import must follow ``install``, which marks later imports only
    from kemu.emulator.scenario.files import load_scenario

    for name in names:
        run(load_scenario(name), seed=SEED, loop="bare")
    return 0


def _tests(watch: ReachWatch, folder: str) -> bool:
    parallel = ["-n", "auto", "--dist", "loadgroup"] if importlib.util.find_spec("xdist") else []
    return watch.run(
        ["-m", "pytest", "-q", "-m", "not soak", "-p", "no:cacheprovider", "--ignore", WITHOUT, *parallel, folder]
    )


def main() -> int:
    """Print the functions that were not entered; return 0 if all functions were entered."""
    with tempfile.TemporaryDirectory(prefix="kemu-reach-") as folder:
        watch = ReachWatch(Path(folder), functions())
        failed = [] if _presets(watch) else ["presets"]
        watch.say(f"presets, seed {SEED}")
        for tests in TESTS:
            if not watch.unreached():
                break
            if not _tests(watch, tests):
                failed.append(tests)
            watch.say(tests)
        found = watch.unreached()
    for function in found:
        print(f"{Path(function.path).relative_to(ROOT)}:{function.line}: {function.name}")
    print(f"{len(found)} functions are reached by no preset and no test")
    if failed:
        print(f"did not end well, so that what they reach may be more: {', '.join(failed)}")
    return 1 if found or failed else 0


if __name__ == "__main__":
    sys.exit(run_presets(sys.argv[1:]) if sys.argv[1:] else main())
