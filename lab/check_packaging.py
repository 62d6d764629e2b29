"""``python -m lab.check packaging``: build, install and use the distributions.

The check builds a source distribution, and a wheel from the source distribution. The wheel is installed into a fresh
environment and used inside a folder with other packages ``tools``, ``protocol``, ``actors`` and ``emulator``. The
source distribution is unpacked, installed editable (without links) and runs its tests. pip needs a network.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("protocol", "actors", "emulator", "tools")
WANTED = (
    *("kemu/py.typed", "kemu/api.py", "kemu/emulator/presets/steady-group.toml", "kemu/tools/cli.py"),
    *(each.relative_to(ROOT).as_posix() for each in sorted((ROOT / "kemu/tools/report/assets").iterdir())),
)
"""Files that the wheel must contain: types, presets, programs, and the parts of a page."""

USERS_TEST = """
import tools
import kemu

def test_a_group_survives_a_crash():
    assert tools.OWNER == "the user"
    kemu.check(kemu.load("steady-group"), seeds=[1])
"""

USERS_SCRIPT = """
import kemu

scenario = kemu.Scenario(
    name="typed",
    duration_us="10s",
    topics={"t": kemu.TopicSpec(partitions=2)},
    groups={"g": kemu.GroupSpec(topics=("t",))},
    plan=(kemu.At("5s", kemu.Crash(host="c1")),),
)
outcome: kemu.Outcome = kemu.run(scenario, seed=1)
lost: int = outcome.figures.lost
took_us: list[int] = [rebalance.took_us for rebalance in outcome.figures.rebalances]
print(outcome.verdict, lost, took_us)
"""

WRONG_SCRIPT = """
import kemu

kemu.TopicSpec(partitions="two")
kemu.GroupSpec(topics=("t",), member=3)
verdict: int = kemu.run(kemu.load("steady-group")).verdict
"""

SDIST_TESTS = (
    "tests/api",
    "tests/emulator/scenario/test_scenario.py",
    "tests/emulator/text",
    "tests/protocol/test_values.py",
)


def main() -> int:
    """Run all checks; return 0 if they pass, else print the output of the first failed command and return 1."""
    with tempfile.TemporaryDirectory(prefix="kemu-packaging-") as name:
        place = Path(name)
        try:
            sdist, wheel = _built(place)
            _look_into(wheel)
            _use(wheel, place)
            _run_tests_of(sdist, place)
        except PackagingFailed as failed:
            print(failed)
            return 1
    print("the wheel and the source distribution work")
    return 0


class PackagingFailed(Exception):
    """A failed command, with its output."""


def run(arguments: Sequence[str | Path], cwd: Path, *, fails: bool = False) -> str:
    """The output of a command. The command must succeed, or must fail with ``fails``."""
    print("$", *arguments, flush=True)
    done = subprocess.run(arguments, cwd=cwd, check=False, text=True, capture_output=True)
    if (done.returncode != 0) is not fails:
        raise PackagingFailed(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def environment(place: Path, *packages: str | Path) -> Path:
    """Create a new environment with these packages; return the folder of its programs."""
    venv.create(place, with_pip=True)
    programs = place / ("Scripts" if sys.platform == "win32" else "bin")
    run([programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], place)
    return programs


def _built(place: Path) -> tuple[Path, Path]:
    python = environment(place / "builder", "build") / "python"
    run([python, "-m", "build", "--outdir", place / "dist", ROOT], place)
    (sdist,), (wheel,) = (place / "dist").glob("*.tar.gz"), (place / "dist").glob("*.whl")
    return sdist, wheel


def _look_into(wheel: Path) -> None:
    """Check that the wheel has each module once, only below ``kemu``, with types and presets."""
    wrong = wrong_with(zipfile.ZipFile(wheel).namelist())
    if wrong:
        raise PackagingFailed(wrong)


def wrong_with(names: Sequence[str]) -> str:
    """The first fault in the list of a wheel's files; "" if there is none."""
    outside = [name for name in names if not name.startswith(("kemu/", "kemu-"))]
    if outside or len(names) != len(set(names)):
        return f"the wheel has files outside of kemu, or twice: {outside}"
    for folder, what in (("/tests/", "tests"), ("lab/", "measurements of the emulator itself")):
        if any(folder in name for name in names):
            return f"the wheel has {what}"
    lacking = [name for name in WANTED if name not in names]
    return f"the wheel lacks {', '.join(lacking)}" if lacking else ""


def _use(wheel: Path, place: Path) -> None:
    """Check the wheel inside a folder whose packages have the names of kemu's packages."""
    programs = environment(place / "user", wheel, "pytest", "mypy")
    shop = place / "shop"
    for folder in FOLDERS:
        (shop / folder).mkdir(parents=True)
        (shop / folder / "__init__.py").write_text('OWNER = "the user"\n', encoding="utf-8")
    texts = {"test_shop.py": USERS_TEST, "script.py": USERS_SCRIPT, "wrong.py": WRONG_SCRIPT}
    for name, text in texts.items():
        (shop / name).write_text(text, encoding="utf-8")
    run([programs / "kemu", "run", "steady-group", "--report", "steady-group.html", "--trace", "run.kemu"], shop)
    run([programs / "kemu", "report", "run.kemu", "--format", "svg"], shop)
    run([programs / "kemu", "compare", "steady-group", "--seeds", "1:2", "--report", "compared.html"], shop)
    run([programs / "python", "-m", "kemu", "run", "steady-group"], shop)
    run([programs / "kemu", "schema", "--out", "scenario.schema.json"], shop)
    run([programs / "python", "-m", "pytest", "-q", "test_shop.py"], shop)
    run([programs / "python", "script.py"], shop)
    run([programs / "python", "-m", "mypy", "--strict", "script.py"], shop)
    said = run([programs / "python", "-m", "mypy", "--strict", "wrong.py"], shop, fails=True)
    if "Found 3 errors" not in said:
        raise PackagingFailed(f"mypy sees other mistakes than the three that are there:\n{said}")


def _run_tests_of(sdist: Path, place: Path) -> None:
    """Check the source distribution, installed in editable mode."""
    with tarfile.open(sdist) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later
        packed.extractall(place / "source")
    (source,) = (place / "source").iterdir()
    programs = environment(place / "tester", "-e", source, "pytest", "hypothesis", "jsonschema", "mypy")
    run([programs / "kemu", "scenarios"], place)
    run([programs / "python", "-m", "pytest", "-q", *SDIST_TESTS], source)


if __name__ == "__main__":
    sys.exit(main())
