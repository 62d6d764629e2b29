"""Call the target computation of a release's coordinator: jars from Maven, and a small program in Java.

Needs ``java``, ``javac`` and ``mvn``. The program is in ``java/``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from lab.conformance.maven import RealKafkaError, compiled, run
from lab.conformance.oracles import Json
from lab.conformance.target_assignors.cases import TargetedGroup
from lab.conformance.task_assignors.java_calls import version_of

SOURCE = Path(__file__).with_name("java") / "TargetOracle.java"
CLASSES: Mapping[str, str] = MappingProxyType({"uniform": "UniformAssignor", "range": "RangeAssignor"})
FIRST = (4, 0)


class KafkaTargets:
    """The coordinator's target computation of one release.

    Args:
        folder: folder for jars and classes.

    Raises:
        RealKafkaError: a program is missing, the release is older than 4.0, or its download failed.
    """

    def __init__(self, release: str, folder: Path) -> None:
        if version_of(release) < FIRST:
            raise RealKafkaError(f"kafka-group-coordinator {release} is none that this knows how to call: 4.0 or later")
        self._class_path = compiled(release, folder, "kafka-group-coordinator", [SOURCE])

    def answer(self, groups: Sequence[TargetedGroup], steps: int) -> None:
        """Draw and answer ``steps`` steps of each group.

        Raises:
            RealKafkaError: the program ended early.
        """
        for number in range(steps):
            asked = {group.id: group.next_step() for group in groups}
            said = "".join(f"{as_line(group, asked[group.id])}\n" for group in groups)
            written = run(["java", "-cp", self._class_path, "TargetOracle"], said).splitlines()
            if len(written) != len(asked):
                raise RealKafkaError(f"{len(written)} of {len(asked)} answers came at step {number}")
            for group, line in zip(groups, written, strict=True):
                rows = [row.partition("=") for row in line.partition("\t")[2].split(";")]
                group.steps.append({**asked[group.id], "answer": {name: text for name, _, text in rows}})


def as_line(group: TargetedGroup, step: Json) -> str:
    """A step in the format of the Java program."""
    topics = [f"{name}={topic_id}={count}" for name, (topic_id, count) in step["topics"].items()]
    members = [f"{name}|{each['instance']}|{','.join(each['topics'])}" for name, each in step["members"].items()]
    targets = [f"{name}={text}" for name, text in group.targets().items() if name in step["members"]]
    fields = (group.id, CLASSES[group.assignor], ",".join(topics), ",".join(group.history(step["left"])))
    return "\t".join((*fields, step["updated"], ";".join(members), ";".join(targets)))
