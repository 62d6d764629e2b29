"""Call a release's task assignors: jars from Maven, and a small program in Java.

Needs ``java``, ``javac`` and ``mvn``. The program is in ``java/``. Folders in ``java/`` have the parts that differ
between releases.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kemu.protocol.streams.tasks import MAX_LAG
from lab.conformance.maven import RealKafkaError, compiled, run
from lab.conformance.oracles import Json

SOURCES = Path(__file__).with_name("java")
MAIN = "org.apache.kafka.streams.processor.internals.assignment.TaskAssignorOracle"
CALLED_AS = (
    ((3, 2), ("since-2.6", "3.2")),
    ((2, 6), ("since-2.6", "2.6")),
    ((2, 4), ("since-2.3", "2.4")),
    ((2, 3), ("since-2.3", "2.3")),
)
"""(first release, folders), newest first; the calls changed in 3.8."""
CALLED_OTHERWISE_SINCE = (3, 6)


class KafkaTaskAssignors:
    """The task assignors of one release.

    Args:
        folder: folder for jars and classes.

    Raises:
        RealKafkaError: a program is missing, the release's assignors cannot be called, or its download failed.
    """

    def __init__(self, release: str, folder: Path) -> None:
        number = version_of(release)
        folders = [names for since, names in CALLED_AS if number >= since]
        if not folders or number >= CALLED_OTHERWISE_SINCE:
            raise RealKafkaError(f"Kafka Streams {release} is none that this knows how to call: 2.3 to 3.5")
        sources = [*SOURCES.glob("*.java"), *(path for name in folders[0] for path in (SOURCES / name).glob("*.java"))]
        self._class_path = compiled(release, folder, "kafka-streams", sources)

    def answers(self, cases: Sequence[Json]) -> dict[str, Json]:
        """Id of a case -> answer with ``probing`` and ``assignment``.

        Raises:
            RealKafkaError: an assignor raised an exception.
        """
        written = run(["java", "-cp", self._class_path, MAIN], "".join(f"{as_line(case)}\n" for case in cases))
        return dict(map(_read, written.splitlines()))


def version_of(release: str) -> tuple[int, ...]:
    """Major and minor number of a release.

    Raises:
        RealKafkaError: the text is not a release.
    """
    try:
        major, minor = release.split(".")[:2]
        return int(major), int(minor)
    except ValueError:
        raise RealKafkaError(f'"{release}" is no release, such as 3.4.1') from None


def as_line(case: Json) -> str:
    """A case in the format of the Java program."""
    config = case["config"]
    fields = (
        case["id"],
        case["assignor"],
        ",".join(case["tasks"]),
        ",".join(case["stateful"]),
        config["num_standby"],
        config["max_warmup"],
        _lag(config["acceptable_lag"]),
        ";".join(_client(name, client) for name, client in case["clients"].items()),
    )
    return "\t".join(map(str, fields))


def _client(name: str, client: Mapping[str, Any]) -> str:
    lags = ",".join(f"{task}:{_lag(lag)}" for task, lag in client.get("lags", {}).items())
    process = "-".join((name[:8], name[8:12], name[12:16], name[16:20], name[20:]))
    return "=".join(
        (process, str(client["capacity"]), ",".join(client["prev_active"]), ",".join(client["prev_standby"]), lags)
    )


def _lag(lag: int | str) -> int:
    return MAX_LAG if lag == "MAX" else int(lag)


def _read(line: str) -> tuple[str, Json]:
    name, probing, clients = line.split("\t")
    assignment: Json = {}
    for text in clients.split(";"):
        process, active, standby = text.split("=")
        assignment[process.replace("-", "")] = {"active": _tasks(active), "standby": _tasks(standby)}
    return name, {"probing": probing == "true", "assignment": assignment}


def _tasks(text: str) -> list[str]:
    return text.split(",") if text else []
