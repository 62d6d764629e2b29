"""Install the project on a machine that has only Python: ``python3 bootstrap.py setup | demo | test [--all]``.

This file uses only the standard library and the syntax of Python 3.7, so that an old Python can print the error of
``check_python``. A second run installs no package again. The commands need no activated environment.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # The folder of a script is first in sys.path, and its modules could hide modules of the standard library.
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

  setup  make .venv beside the sources, and install kemu into .venv
  demo   do the setup, run a scenario, and write its report, page and trace under runs/
  test   install kemu and the developers' tools, then run all checks and the short set of tests (minutes)
         --all: run the full set of tests, too, as before a release (tens of minutes)
"""


class BootstrapError(Exception):
    """A mistake of the user, or a failed step of the installation; the message explains the error."""


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; return the exit code."""
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
    """Make ``.venv`` with the packages for runs."""
    check_python(tuple(sys.version_info[:2]))
    make_venv()
    install("run", ".")
    print(f"Ready. Try:  {shown(kemu_path())} scenarios")
    print(on_the_path())
    return 0


def demo() -> int:
    """Run a scenario; print the paths of its trace, report and page, and further commands to try."""
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
        ("run rolling-restart-static", "run the same rolling restart with static members"),
        (f"run {PRESET} --seeds 1:20", "run the scenario with twenty other seeds"),
        (f"explain {shown(trace)}", "print the run, message by message"),
        ("scenarios", "list all scenarios that come with the package"),
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
"""Command -> options that the command accepts."""


def check_python(version: tuple[object, ...]) -> None:
    """Refuse a Python that is too old.

    Raises:
        BootstrapError: the message names the running Python and the needed version.
    """
    if version < OLDEST:
        oldest, this = (".".join(str(part) for part in each) for each in (OLDEST, version))
        raise BootstrapError(f"Python {oldest} or newer is needed, this is {this} ({sys.executable})")


def make_venv() -> None:
    """Make ``.venv``, unless ``.venv`` has a working Python.

    Raises:
        BootstrapError: this Python cannot make an environment.
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
    """Return whether ``.venv`` has a new enough Python with pip."""
    if not os.path.exists(python_path()):
        return False
    question = f"import sys, pip; sys.exit(sys.version_info < {OLDEST!r})"
    return subprocess.run([python_path(), "-c", question], stderr=subprocess.DEVNULL).returncode == 0


def install(kind: str, what: str) -> None:
    """Install the project in editable mode, unless the stamp file has the present ``fingerprint``.

    Raises:
        BootstrapError: pip failed, and has printed its message.
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
    """Run a command in the project's folder; return the exit code."""
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
    """Return the text of a file, or "" if the file cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def clean_environment() -> dict[str, str]:
    """Return the environment variables, without variables that add the packages of another Python."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def in_venv(name: str) -> str:
    """Return the path of a program in ``.venv``."""
    folder, suffix = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
    return os.path.join(VENV, folder, name + suffix)


def python_path() -> str:
    """Return the path of the Python in ``.venv``."""
    return in_venv("python")


def kemu_path() -> str:
    """Return the path of the command ``kemu`` in ``.venv``."""
    return in_venv("kemu")


def on_the_path() -> str:
    """Return the instruction that puts ``kemu`` on the PATH of the user's shell."""
    activate = os.path.join(os.path.dirname(python_path()), "activate")
    return f"Put kemu on the PATH of this shell:  {'' if os.name == 'nt' else '. '}{shown(activate)}"


def shown(path: str) -> str:
    """Return a path relative to the current folder if the relative path is shorter, else the path."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(path) else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
