"""``python -m lab.check [--all] [STEP ...]``: the checks that a change must pass.

mypy uses one core only, so it runs beside the other steps. ``--all`` runs the full set of tests, as before a release;
otherwise the short set is run (``tests/conftest.py``).
"""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


ALL = "--all"
BESIDE = "mypy --strict"
"""The step that runs beside the others, and is reported last."""
SHORT_SET, ALL_SETS = "short", "not soak"
"""pytest's mark expressions for the short set, and for the short and the full set together."""


def steps(marked: str = SHORT_SET) -> list[tuple[str, list[str]]]:
    """(name, arguments of Python) of each step, in order.

    Args:
        marked: the mark expression that selects the tests.
    """
    parallel = ["-n", "auto", "--dist", "loadgroup", "--no-loadscope-reorder"]
    return [
        (BESIDE, ["-m", "mypy"]),
        ("ruff check", ["-m", "ruff", "check", "."]),
        ("ruff format", ["-m", "ruff", "format", "--check", "."]),
        ("tests", ["-m", "pytest", "-m", marked, *(parallel if importlib.util.find_spec("xdist") else ())]),
    ]


def extra_steps() -> list[tuple[str, list[str]]]:
    """Steps that run only by name. These steps take long, or install packages into new environments over a network."""
    return [
        ("packaging", ["-m", "lab.check_packaging"]),
        ("lower-bounds", ["-m", "lab.check_dependencies", "lower-bounds"]),
        ("newest", ["-m", "lab.check_dependencies", "newest"]),
        ("reach", ["-m", "lab.check_reach"]),
    ]


def environment() -> dict[str, str]:
    """The environment variables with byte code cached, because the tests start many interpreters."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def ran(arguments: Sequence[str], output: int | None) -> tuple[int, str, float]:
    """Run a step to its end.

    Args:
        arguments: those of Python.
        output: ``subprocess.PIPE`` to keep the printed text, None to print at once.

    Returns:
        The exit code, the kept text, and the time in seconds.
    """
    began_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment(), check=False, text=True,
        stdout=output, stderr=output and subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout or "", time.perf_counter() - began_s


def main(arguments: Sequence[str] = ()) -> int:
    """Run every step, or the named steps; print the time of each step.

    Returns:
        0 if all steps passed, else the exit code of the first failed step; 2 for an unknown step.
    """
    marked = ALL_SETS if ALL in arguments else SHORT_SET
    wanted = [argument for argument in arguments if argument != ALL]
    known = [name for name, _ in (*steps(), *extra_steps())]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such check: {', '.join(unknown)}; the checks are: {', '.join(known)}")
        return 2
    chosen = [each for each in (*steps(marked), *(extra_steps() if wanted else ())) if not wanted or each[0] in wanted]
    failed: list[tuple[str, int]] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        beside = {name: pool.submit(ran, arguments, subprocess.PIPE) for name, arguments in chosen if name == BESIDE}
        for name, arguments in sorted(chosen, key=lambda step: step[0] in beside):
            print(f"--- {name}", flush=True)
            code, text, took_s = beside[name].result() if name in beside else ran(arguments, None)
            print(text, end="")
            print(f"--- {name}: {'passed' if code == 0 else 'FAILED'} in {took_s:.1f} s", flush=True)
            if code:
                failed.append((name, code))
    if failed:
        print(f"failed: {', '.join(name for name, _ in failed)}")
    return failed[0][1] if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
