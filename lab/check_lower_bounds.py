"""``python -m lab.check lower-bounds``: test the declared lowest versions of dependencies.

A new environment gets every dependency at its declared lower bound, and the test tools in any version. The fast tests
of the core and one whole cluster run in the new environment. pip needs a network.
"""

import re
import sys
import tempfile
import tomllib
from pathlib import Path

from lab.check_packaging import ROOT, PackagingFailed, environment, run

TESTS = (
    "tests/api",
    "tests/protocol/test_codec.py",
    "tests/protocol/test_values.py",
    "tests/emulator/scenario/test_scenario.py",
    "tests/emulator/trace",
    "tests/emulator/engine",
)
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


def main() -> int:
    """Run the tests; 0 if the tests pass at the lower bounds."""
    pinned = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    print("at", ", ".join(pinned), flush=True)
    with tempfile.TemporaryDirectory(prefix="kemu-lower-bounds-") as name:
        try:
            programs = environment(Path(name) / "env", *pinned, "pytest", "hypothesis", "jsonschema")
            print(run([programs / "python", "-m", "pip", "freeze"], ROOT))
            run([programs / "python", "-m", "kemu", "run", "steady-group"], ROOT)
            print(run([programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], ROOT))
        except PackagingFailed as failed:
            print(failed)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
