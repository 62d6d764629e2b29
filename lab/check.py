"""``python -m lab.check``: everything a change must pass, in one command, the quickest first."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def steps() -> list[tuple[str, list[str]]]:
    """(name, arguments of Python) of each step, in order."""
    parallel = ["-n", "auto", "--dist", "loadgroup"] if importlib.util.find_spec("xdist") else []
    return [
        ("layers", ["-m", "pytest", "tests/test_layers.py"]),
        ("ruff check", ["-m", "ruff", "check", "."]),
        ("ruff format", ["-m", "ruff", "format", "--check", "."]),
        ("mypy --strict", ["-m", "mypy"]),
        ("tests", ["-m", "pytest", "-m", "not soak", *parallel]),
    ]


def extra_steps() -> list[tuple[str, list[str]]]:
    """Steps that are run only when they are named: they take long, or make environments of their own over a network."""
    return [
        ("packaging", ["-m", "lab.check_packaging"]),
        ("lower-bounds", ["-m", "lab.check_lower_bounds"]),
        ("reach", ["-m", "lab.check_reach"]),
    ]


def environment() -> dict[str, str]:
    """Ours, with byte code kept: the tests start many an interpreter, and each would compile everything again."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def main(wanted: Sequence[str] = ()) -> int:
    """Run every step (or those named), say how long each took; 0 if all passed, else the first failure's code."""
    known = [name for name, _ in (*steps(), *extra_steps())]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such check: {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    failed: list[tuple[str, int]] = []
    for name, arguments in steps() if not wanted else (*steps(), *extra_steps()):
        if wanted and name not in wanted:
            continue
        print(f"--- {name}", flush=True)
        began_s = time.perf_counter()
        code = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment(), check=False).returncode
        print(f"--- {name}: {'passed' if code == 0 else 'FAILED'} in {time.perf_counter() - began_s:.1f} s", flush=True)
        if code:
            failed.append((name, code))
    if failed:
        print(f"failed: {', '.join(name for name, _ in failed)}")
    return failed[0][1] if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
