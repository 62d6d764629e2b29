"""Setting up: what can be checked without installing anything. ``.ci/run`` does the rest for real."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bootstrap
from lab import check
from tests.conftest import COSTLY, costly, lines_of, promoted

ROOT = Path(bootstrap.ROOT)


def script(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as a user does, with this Python."""
    command = [sys.executable, str(ROOT / "bootstrap.py"), *arguments]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture(name="elsewhere")
def environment_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment's place that is not the real one, in a repository that is not ours."""
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    monkeypatch.setattr(bootstrap, "ROOT", str(tmp_path))
    monkeypatch.setattr(bootstrap, "LOCK", str(tmp_path / "requirements.lock"))
    (tmp_path / "requirements.lock").write_text("attrs==23.2\n", encoding="utf-8")
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(bootstrap, "STAMP", str(tmp_path / ".venv" / "kemu-{}.stamp"))
    (tmp_path / ".venv").mkdir()
    return tmp_path


def test_without_a_command_it_says_which_there_are(tmp_path: Path) -> None:
    """And that nothing was done: exit code 2."""
    for arguments in ([], ["install"], ["setup", "demo"], ["setup", "--all"], ["test", "--most"]):
        outcome = script(*arguments, cwd=tmp_path)
        assert outcome.returncode == 2
        assert "setup | demo | test" in outcome.stderr
    assert script("--help", cwd=tmp_path).returncode == 0


def test_it_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    """-S -I: no site-packages, no environment; it still gets as far as its usage."""
    command = [sys.executable, "-S", "-I", str(ROOT / "bootstrap.py"), "--help"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert outcome.returncode == 0, outcome.stderr


def test_files_beside_it_do_not_hide_the_standard_library(tmp_path: Path) -> None:
    """A script's own folder leads sys.path; a module named like Python's would be imported instead."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "bootstrap.py").write_text((ROOT / "bootstrap.py").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("hashlib", "subprocess"):
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")

    outcome = subprocess.run(
        [sys.executable, str(folder / "bootstrap.py"), "-h"], capture_output=True, text=True, check=False
    )

    assert outcome.returncode == 0, outcome.stderr


def test_an_old_python_is_refused_with_both_versions() -> None:
    """The message says what runs it and what is needed."""
    with pytest.raises(bootstrap.BootstrapError, match=r"Python 3\.11 or newer is needed, this is 3\.9"):
        bootstrap.check_python((3, 9))
    bootstrap.check_python((3, 11))
    bootstrap.check_python((3, 14))


def test_a_python_that_cannot_make_an_environment_is_told_what_to_install(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's Python comes without venv."""
    fake = elsewhere / "python"
    fake.write_text("#!/bin/sh\necho ensurepip is not available\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))

    with pytest.raises(bootstrap.BootstrapError, match=r"(?s)install python3-venv.*ensurepip is not available"):
        bootstrap.make_venv()


def test_a_user_sees_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with the machine."""
    monkeypatch.setattr(bootstrap, "OLDEST", (99, 0))

    assert bootstrap.main(["setup"]) == 2
    assert capsys.readouterr().err.startswith("bootstrap: Python 99.0 or newer is needed")


def test_what_is_installed_is_not_installed_again(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stamp is of pyproject.toml's content: a changed dependency is installed, a second run is quick."""
    calls: list[str] = []

    def pretend(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command[command.index("--editable") + 1])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(bootstrap.subprocess, "run", pretend)

    bootstrap.install("run", ".")
    bootstrap.install("run", ".")
    assert calls == ["."]
    bootstrap.install("dev", ".[dev]")
    (elsewhere / "pyproject.toml").write_text("[project]\nname = 'other'\n", encoding="utf-8")
    bootstrap.install("dev", ".[dev]")
    bootstrap.install("run", ".")
    assert calls == [".", ".[dev]", ".[dev]"], "the developers' environment has all that running needs"


def test_a_changed_lock_is_installed(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def pretend(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(bootstrap.subprocess, "run", pretend)
    bootstrap.install("run", ".")
    (elsewhere / "requirements.lock").write_text("attrs==24.1\n", encoding="utf-8")
    bootstrap.install("run", ".")

    assert [command[-2:] for command in calls] == [["--constraint", bootstrap.LOCK]] * 2


def test_versions_that_cannot_be_installed_here_give_way_to_others(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index may lack a locked version, or have no wheel of it for a new Python."""
    monkeypatch.setattr(
        bootstrap.subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, int("--constraint" in command)),
    )

    bootstrap.install("run", ".")
    assert "the versions of requirements.lock cannot be installed here" in capsys.readouterr().out
    assert (elsewhere / ".venv" / "kemu-run.stamp").exists()


def test_a_failed_installation_leaves_no_stamp(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run tries again."""
    monkeypatch.setattr(bootstrap.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))

    with pytest.raises(bootstrap.BootstrapError, match="pip could not install"):
        bootstrap.install("run", ".")
    assert list((elsewhere / ".venv").iterdir()) == []


def test_other_pythons_packages_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPATH of a user's shell must not reach our environment."""
    monkeypatch.setenv("PYTHONPATH", "/somewhere")

    assert "PYTHONPATH" not in bootstrap.clean_environment()
    assert "PATH" in bootstrap.clean_environment()


def test_the_continuous_check_calls_the_bootstrap_and_nothing_else() -> None:
    """One way to test, for people and machines."""
    lines = [line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]

    assert [line for line in lines if "python" in line] == ["exec python3 bootstrap.py test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_check_names_its_steps_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    """ruff, mypy --strict, the tests."""
    names = [name for name, _ in check.steps()]

    assert names == ["mypy --strict", "ruff check", "ruff format", "tests"]
    assert check.main(["flake8"]) == 2
    assert "mypy --strict" in capsys.readouterr().out


def test_the_short_set_is_run_unless_all_tests_are_asked_for(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``bootstrap.py test --all`` and ``lab.check --all`` select the full set, too."""
    ran: list[list[str]] = []

    def pretend(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(check.subprocess, "run", pretend)
    monkeypatch.setattr(bootstrap, "python_runs", lambda: True)
    monkeypatch.setattr(bootstrap, "install", lambda kind, what: None)

    assert bootstrap.main(["test"]) == bootstrap.main(["test", "--all"]) == 0
    assert check.main(["tests"]) == check.main(["tests", "--all"]) == 0

    assert ran[:2] == [["-m", "lab.check"], ["-m", "lab.check", "--all"]]
    assert [command[:4] for command in ran[2:]] == [
        ["-m", "pytest", "-m", "short"],
        ["-m", "pytest", "-m", "not soak"],
    ]
    assert "tests: passed" in capsys.readouterr().out


def test_the_lists_of_tests_name_tests_that_exist() -> None:
    """A renamed test must be renamed in ``tests/short.txt`` and ``tests/full.txt``, too."""
    for nodeid in (*promoted(), *costly()):
        file, _, name = nodeid.partition("::")
        function = name.rpartition("::")[2].partition("[")[0]
        assert f"def {function}(" in (ROOT / file).read_text("utf-8"), nodeid
    rows = [line.split()[-1] for line in lines_of(COSTLY)]
    assert len(rows) == len(set(rows)), "a function stands twice"


def test_the_check_reports_the_first_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All steps run, so that one sees everything at once; mypy, which runs beside the others, is reported last."""
    codes = {"check": 5, "mypy": 1}

    def pretend(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, max(codes.get(word, 0) for word in command), "said\n")

    monkeypatch.setattr(check.subprocess, "run", pretend)

    assert check.main() == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "failed: ruff check, mypy --strict"
    assert "said" in lines
    assert lines[-2].startswith("--- mypy --strict: FAILED in ")
