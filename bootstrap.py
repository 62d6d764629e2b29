"""Set the project up on a machine that has only Python: ``python3 bootstrap.py setup | demo | test [--all]``.

This file uses the standard library only, and no syntax that is newer than Python 3.7: an old Python must be able to
print the error of ``check_python``. A second run installs nothing again. No activated environment is needed.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # A script's own folder is first in sys.path, and could hide modules of the standard library.
    sys.path[:] = [
        entry for entry in sys.path if os.path.realpath(entry) != os.path.dirname(os.path.realpath(__file__))
    ]

import hashlib
import subprocess
from collections.abc import Callable, Mapping, Sequence

ROOT = os.path.dirname(os.path.realpath(__file__))
VENV = os.path.join(ROOT, ".venv")
LOCK = os.path.join(ROOT, "requirements.lock")
STAMP = os.path.join(VENV, "kemu-{}.stamp")
OLDEST = (3, 11)
PRESET = "rolling-restart-dynamic"

USAGE = """usage: python3 bootstrap.py setup | demo | test [--all]

  setup  make .venv beside the sources and install kemu into it
  demo   the same, then run a scenario and write its report, pictures and trace under runs/
  test   the same with the developers' tools, then all checks and the short set of tests (minutes)
         --all: the full set of tests too, as before a release (tens of minutes)
"""


class BootstrapError(Exception):
    """A mistake, or a failed step, in words for the user."""


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; the exit code."""
    command, options = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if command not in COMMANDS or options not in ([], OPTIONS.get(command, [])):
        asked_for_help = arguments in (["-h"], ["--help"])
        (sys.stdout if asked_for_help else sys.stderr).write(USAGE)
        return 0 if asked_for_help else 2
    try:
        return COMMANDS[command](*options)
    except BootstrapError as error:
        sys.stderr.write(f"bootstrap: {error}\n")
        return 2


def setup() -> int:
    """Make the environment for runs."""
    check_python(tuple(sys.version_info[:2]))
    make_venv()
    install("run", ".")
    print(f"Ready. Try:  {shown(kemu_path())} scenarios")
    print(on_the_path())
    return 0


def demo() -> int:
    """Run a scenario; print the paths of its trace and reports, and the next commands to try."""
    check_python(tuple(sys.version_info[:2]))
    make_venv()
    install("run", ".")
    runs = os.path.join(ROOT, "runs")
    os.makedirs(runs, exist_ok=True)
    trace, report, page = (os.path.join(runs, PRESET + ending) for ending in (".kemu", ".txt", ".html"))
    outcome = subprocess.run(
        [
            *(python_path(), "-m", "kemu", "run", PRESET, "--trace", os.path.relpath(trace, ROOT)),
            *("--report", os.path.relpath(page, ROOT)),
        ],
        cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with open(report, "w", encoding="utf-8") as file:
        file.write(outcome.stdout)
    sys.stdout.write(outcome.stdout)
    kemu = shown(kemu_path())
    print(f"\nreport: {shown(report)}\npage:   {shown(page)}  (open it in a browser)\ntrace:  {shown(trace)}")
    print(f"{on_the_path()}\n\nTry next:")
    for arguments, what in (
        ("run rolling-restart-static", "the same deployment with group.instance.id set"),
        (f"run {PRESET} --seeds 1:20", "twenty other seeds, each another order of events"),
        (f"explain {shown(trace)}", "the run, message by message"),
        ("scenarios", "all scenarios that come with the package"),
    ):
        print(f"  {kemu} {arguments:44} {what}")
    return outcome.returncode


def test(*options: str) -> int:
    """Run all checks and the short set of tests; with ``--all`` the full set, too."""
    check_python(tuple(sys.version_info[:2]))
    make_venv()
    install("dev", ".[dev,spark]")
    return subprocess.run([python_path(), "-m", "lab.check", *options], cwd=ROOT, env=clean_environment()).returncode


COMMANDS: Mapping[str, Callable[..., int]] = {"setup": setup, "demo": demo, "test": test}
OPTIONS: Mapping[str, list[str]] = {"test": ["--all"]}
"""The option that a command accepts."""


def check_python(version: tuple[object, ...]) -> None:
    """Refuse a Python that is too old.

    Raises:
        BootstrapError: says which Python runs this and which is needed.
    """
    if version < OLDEST:
        oldest, this = (".".join(str(part) for part in each) for each in (OLDEST, version))
        raise BootstrapError(f"Python {oldest} or newer is needed, this is {this} ({sys.executable})")


def make_venv() -> None:
    """Make ``.venv`` unless its Python already runs.

    Raises:
        BootstrapError: this Python cannot make one.
    """
    if python_runs():
        return
    print(f"making {shown(VENV)}", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", VENV],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if made.returncode or not python_runs():
        hint = "on Debian and Ubuntu install python3-venv"
        raise BootstrapError(f"{sys.executable} -m venv failed; {hint}. It said:\n{made.stdout.strip()}")


def python_runs() -> bool:
    """Whether the environment has a new enough Python with pip."""
    if not os.path.exists(python_path()):
        return False
    question = f"import sys, pip; sys.exit(sys.version_info < {OLDEST!r})"
    return subprocess.run([python_path(), "-c", question], stderr=subprocess.DEVNULL).returncode == 0


def install(kind: str, what: str) -> None:
    """Install the project, editable, unless the stamp shows that this pyproject.toml is installed already.

    Raises:
        BootstrapError: pip failed; its own message was printed.
    """
    wanted = fingerprint()
    if kind == "run" and read(STAMP.format("dev")) == wanted:
        return  # the developers' environment includes everything for runs
    stamp = STAMP.format(kind)
    if read(stamp) == wanted:
        return
    print("installing kemu and what it needs", flush=True)
    command = [python_path(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", what]
    if run_in_root([*command, "--constraint", LOCK]):
        print("the versions of requirements.lock cannot be installed here; trying others that the project allows")
        if run_in_root(command):
            raise BootstrapError("pip could not install the packages kemu needs (see above); is there a network?")
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)


def run_in_root(command: Sequence[str]) -> int:
    """Run a command in the project's folder; its exit code."""
    return subprocess.run(command, cwd=ROOT, env=clean_environment()).returncode


def fingerprint() -> str:
    """A hash of the declared and locked packages, the folder and the Python version.

    A changed hash needs a new installation.
    """
    content = b""
    for path in (os.path.join(ROOT, "pyproject.toml"), LOCK):
        with open(path, "rb") as file:
            content += file.read()
    place = f"{ROOT}\n{sys.version_info[:2]}\n".encode()
    return hashlib.sha256(place + content).hexdigest()


def read(path: str) -> str:
    """The text of a file, "" if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def clean_environment() -> dict[str, str]:
    """The environment variables, without those that add another Python's packages."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def in_venv(name: str) -> str:
    """A program of the environment."""
    folder, suffix = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
    return os.path.join(VENV, folder, name + suffix)


def python_path() -> str:
    """The environment's Python."""
    return in_venv("python")


def kemu_path() -> str:
    """The installed command."""
    return in_venv("kemu")


def on_the_path() -> str:
    """How to put ``kemu`` on the PATH of this shell."""
    activate = os.path.join(os.path.dirname(python_path()), "activate")
    return f"Put kemu on the PATH of this shell:  {'' if os.name == 'nt' else '. '}{shown(activate)}"


def shown(path: str) -> str:
    """A path relative to the current folder, if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(path) else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
