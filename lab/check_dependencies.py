"""``python -m lab.check lower-bounds`` and ``newest``: test the lowest declared versions, and the newest.

Each check makes a new environment. The fast tests of the core and one whole cluster run in the new environment. pip
needs a network. ``python -m lab.check_dependencies lock`` writes ``requirements.lock``: the versions that
``bootstrap.py`` installs.
"""

import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from lab.check_packaging import ROOT, PackagingFailed, environment, run

LOCK = "requirements.lock"
LOCK_HEADER = """\
# The versions that bootstrap.py installs, for every system and for Python 3.11 and newer.
# Refresh: python -m lab.check_dependencies lock
"""
TESTS = (
    "tests/api",
    "tests/protocol/test_codec.py",
    "tests/protocol/test_values.py",
    "tests/emulator/scenario/test_scenario.py",
    "tests/emulator/trace",
    "tests/emulator/engine",
)
TOOLS = ("pytest", "hypothesis", "jsonschema", "mypy")
"""Packages that the tests need, in any version."""
_BOUND = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9][0-9A-Za-z.]*)")


def lower_bounds(pyproject: str) -> list[str]:
    """``["attrs==23.2", ...]``: every dependency of the core at its declared lower bound.

    Raises:
        ValueError: a dependency declares no lower bound.
    """
    pinned = []
    for declared in tomllib.loads(pyproject)["project"]["dependencies"]:
        bound = _BOUND.match(declared)
        if bound is None:
            raise ValueError(f'"{declared}" declares no lower bound')
        pinned.append(f"{bound[1]}=={bound[2]}")
    return pinned


def newest(pyproject: str) -> list[str]:
    """Every dependency as declared: pip installs the newest version that the declaration allows."""
    return list(tomllib.loads(pyproject)["project"]["dependencies"])


WAYS = {"lower-bounds": lower_bounds, "newest": newest}


def lock() -> None:
    """Write ``requirements.lock`` with the newest versions of all dependencies, extras and their dependencies."""
    with tempfile.TemporaryDirectory(prefix="kemu-lock-") as name:
        uv = environment(Path(name) / "env", "uv") / "uv"
        options = [
            "--all-extras",
            "--universal",
            "--python-version",
            "3.11",
            "--no-header",
            "--no-annotate",
            "--upgrade",
        ]
        pins = run([uv, "pip", "compile", "pyproject.toml", "--quiet", *options], ROOT)
    (ROOT / LOCK).write_text(LOCK_HEADER + pins, encoding="utf-8")
    print(f"{LOCK}: {pins.count('==')} pins")


def test_at(packages: Sequence[str]) -> None:
    """Run the tests in a new environment with these packages.

    Raises:
        PackagingFailed: a command failed.
    """
    print("at", ", ".join(packages), flush=True)
    with tempfile.TemporaryDirectory(prefix="kemu-dependencies-") as name:
        programs = environment(Path(name) / "env", *packages, *TOOLS)
        print(run([programs / "python", "-m", "pip", "freeze"], ROOT))
        run([programs / "python", "-m", "kemu", "run", "steady-group"], ROOT)
        print(run([programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], ROOT))


def main(arguments: Sequence[str]) -> int:
    """Carry out the argument: a name of ``WAYS``, or ``lock``. Return 0 if all commands passed."""
    if len(arguments) != 1 or arguments[0] not in (*WAYS, "lock"):
        print(f"usage: python -m lab.check_dependencies {' | '.join((*WAYS, 'lock'))}")
        return 2
    try:
        if arguments[0] == "lock":
            lock()
        else:
            test_at(WAYS[arguments[0]]((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    except PackagingFailed as failed:
        print(failed)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
