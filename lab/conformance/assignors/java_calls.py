"""Call a release's consumer assignors: jars from Maven, and a small program in Java.

Needs ``java``, ``javac`` and ``mvn``. The program is in ``java/``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab.conformance.assignors.cases import ChangingGroup
from lab.conformance.maven import RealKafkaError, compiled, run
from lab.conformance.oracles import Json
from lab.conformance.task_assignors.java_calls import version_of

SOURCE = Path(__file__).with_name("java") / "AssignorOracle.java"
CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "range": "RangeAssignor",
        "roundrobin": "RoundRobinAssignor",
        "sticky": "StickyAssignor",
        "cooperative-sticky": "CooperativeStickyAssignor",
    }
)
FIRST = (2, 4)
"""``ConsumerPartitionAssignor`` is public since 2.4."""


class KafkaAssignors:
    """The consumer assignors of one release.

    Args:
        folder: folder for jars and classes.

    Raises:
        RealKafkaError: a program is missing, the release has no public assignors, or its download failed.
    """

    def __init__(self, release: str, folder: Path) -> None:
        if version_of(release) < FIRST:
            raise RealKafkaError(f"kafka-clients {release} is none that this knows how to call: 2.4 or later")
        self._class_path = compiled(release, folder, "kafka-clients", [SOURCE])

    def answer(self, groups: Sequence[ChangingGroup], steps: int) -> None:
        """Draw and answer ``steps`` steps of each group. A group whose assignor fails ends at the failed step, which
        has "raises".

        Raises:
            RealKafkaError: the program ended early.
        """
        for number in range(steps):
            going = {group.id: group for group in groups if all("answer" in step for step in group.steps[-1:])}
            asked = {name: group.next_step() for name, group in going.items()}
            said = "".join(f"{as_line(name, going[name].assignor, step)}\n" for name, step in asked.items())
            written = run(["java", "-cp", self._class_path, "AssignorOracle"], said).splitlines()
            for line in written:
                name, _, text = line.partition("\t")
                key, value = ("raises", text[1:]) if text.startswith("!") else ("answer", _read(text))
                going[name].steps.append({**asked[name], key: value})
            if len(written) != len(asked):
                raise RealKafkaError(f"{len(written)} of {len(asked)} answers came at step {number}")


def as_line(name: str, assignor: str, step: Json) -> str:
    """A step in the format of the Java program."""
    racks: Mapping[str, Any] = step.get("racks", {})
    topics = [
        f"{topic}={'/'.join('.'.join(each) for each in racks[topic])}" if racks else f"{topic}={count}"
        for topic, count in step["topics"].items()
    ]
    members = [
        "|".join(
            (
                member_id,
                ",".join(member["topics"]),
                ",".join(f"{topic}:{number}" for topic, number in member["owned"]),
                str(member["generation"]),
                member.get("rack", ""),
                member.get("instance", ""),
            )
        )
        for member_id, member in step["members"].items()
    ]
    return "\t".join((name, CLASSES[assignor], ",".join(topics), ";".join(members)))


def _read(text: str) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    for row in text.split(";"):
        member, _, partitions = row.partition("=")
        pairs = [each.rpartition(":") for each in partitions.split(",") if each]
        found[member] = [[topic, int(number)] for topic, _, number in pairs]
    return found
