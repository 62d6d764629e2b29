"""Jars of a real Kafka, downloaded by Maven; used only for new recordings."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kemu</groupId><artifactId>real-kafka</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class RealKafkaError(Exception):
    """A requirement of a real Kafka is missing, or a command to the real Kafka failed."""


def bring_jars(release: str, folder: Path, *artifacts: tuple[str, str, str]) -> Path:
    """Download artifacts (group, artifact, version) and their dependencies with Maven; return the folder of the jars.

    Raises:
        RealKafkaError: ``mvn`` or ``java`` is missing, or Maven failed.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise RealKafkaError(f"a real Kafka needs {program}, which is not on the path")
    libs = folder / "libs"
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = "\n".join(DEPENDENCY.format(*artifact) for artifact in artifacts)
    (folder / "pom.xml").write_text(POM.format(dependencies=dependencies), encoding="utf-8")
    done = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libs}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RealKafkaError(f"mvn could not bring Kafka {release}: {(done.stdout + done.stderr).strip()[-600:]}")
    return libs


def compiled(release: str, folder: Path, artifact: str, sources: Iterable[Path]) -> str:
    """Compile Java programs against an artifact of Kafka in this release; return the class path to run them.

    Raises:
        RealKafkaError: ``javac``, ``mvn`` or ``java`` is missing, or one of them failed.
    """
    if shutil.which("javac") is None:
        raise RealKafkaError(f"calling {artifact} needs javac, which is not on the path")
    libs, classes = bring_jars(release, folder, ("org.apache.kafka", artifact, release)), folder / "classes"
    run(["javac", "-nowarn", "-d", str(classes), "-cp", f"{libs}/*", *map(str, sources)])
    return f"{classes}:{libs}/*"


def run(command: Iterable[str], said: str = "") -> str:
    """Run a program with this input, and return its output.

    Raises:
        RealKafkaError: the program failed.
    """
    done = subprocess.run([*command], input=said, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RealKafkaError(f"{done.args[0]} failed: {done.stderr.strip()[-600:]}")
    return done.stdout
