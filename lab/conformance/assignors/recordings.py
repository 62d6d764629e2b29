"""Recorded assignments of a release, so that comparisons need no Java, and the emulator's assignments."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from kemu.protocol.assign.base import Assignor, Memory, Subscriber, Topics
from kemu.protocol.names import NO_GENERATION, TopicPartition
from kemu.protocol.profiles import PROFILES
from lab.conformance.assignors.java_calls import CLASSES
from lab.conformance.oracles import Json, OtherAnswer, recording_text
from lab.conformance.task_assignors.java_calls import version_of

ROWS = "groups"
KEPT = Path(__file__).resolve().parents[3] / "tests" / "data" / "assignors"
IN_SUBSCRIPTION_SINCE = (3, 4)
"""First releases with the generation, and with the rack, in the subscription (``Subscription``'s constructors)."""


@frozen
class AssignorAnswers:
    """Groups (id, assignor, steps); each step has the release's answer."""

    release: str
    made_by: str
    groups: tuple[Json, ...]

    @property
    def steps(self) -> int:
        """Number of answered steps."""
        return sum("answer" in step for group in self.groups for step in group["steps"])

    @property
    def failed(self) -> int:
        """Number of steps at which the release's own assignor failed."""
        return sum("raises" in step for group in self.groups for step in group["steps"])

    @property
    def invalid(self) -> int:
        """Number of steps whose answer assigns a partition twice, or to a member without a matching subscription."""
        return sum(_invalid(step) for group in self.groups for step in group["steps"] if "answer" in step)

    def to_json(self) -> str:
        """The text of a recording of these answers."""
        return recording_text(self.release, self.made_by, ROWS, self.groups)

    def differences(self) -> Iterator[OtherAnswer]:
        """Steps at which the emulator's assignment differs from a valid assignment of the release, with groups."""
        for group in self.groups:
            for step in group["steps"]:
                if "answer" not in step or _invalid(step):
                    continue
                if (ours := emulated(group["assignor"], step, self.release)) != step["answer"]:
                    yield OtherAnswer(group["id"], step, ours)

    def said(self, wrong: Sequence[OtherAnswer]) -> Iterator[str]:
        """Lines for a report: the numbers of compared and different answers, and further figures."""
        failed = f", {self.failed} at which Kafka's fails" if self.failed else ""
        failed += f", {self.invalid} at which it gives what it must not" if self.invalid else ""
        yield f"{len(self.groups)} groups, {self.steps} steps, {len(wrong)} differ{failed}"
        for name in CLASSES:
            of_name = [each.name for each in wrong if each.name.rpartition("-")[0] == name]
            if of_name:
                yield f"{name}: {len(of_name)} steps of {len(set(of_name))} groups differ"


def _invalid(step: Json) -> bool:
    given = [(member, *one) for member, partitions in step["answer"].items() for one in partitions]
    asked = all(topic in step["members"][member]["topics"] for member, topic, _ in given)
    return not asked or len({(topic, number) for _, topic, number in given}) < len(given)


def assignors_of(release: str) -> Mapping[str, Assignor]:
    """The assignors of the newest profile that is not newer than the release. From 3.7.1 on, 3.7 has the assignors of
    3.9 (KAFKA-16277, KAFKA-15170).
    """
    if version_of(release) == (3, 7) and release.split(".")[2:] not in ([], ["0"]):
        return PROFILES["kafka-3.9"].assignors
    known = {name.removeprefix("kafka-"): profile for name, profile in PROFILES.items() if name.startswith("kafka-")}
    dated = {version_of(name): profile for name, profile in known.items() if "unfixed" not in name}
    return dated[max(since for since in dated if since <= version_of(release))].assignors


def emulated(assignor: str, step: Json, release: str) -> Json:
    """The emulator's assignment for a release at a step, as lists of partitions."""
    racks = step.get("racks")
    replica_racks = None if racks is None else {name: tuple(map(tuple, rows)) for name, rows in racks.items()}
    named = assignors_of(release)[assignor]
    members = {name: _subscriber(named, member, release) for name, member in step["members"].items()}
    given = named.assign(Topics(step["topics"], replica_racks), members)
    return {name: [list(one) for one in given[name]] for name in sorted(given)}


def _subscriber(assignor: Assignor, member: Mapping[str, Any], release: str) -> Subscriber:
    owned: tuple[TopicPartition, ...] = tuple((topic, number) for topic, number in member["owned"])
    generation: int = member["generation"]
    in_subscription = version_of(release) >= IN_SUBSCRIPTION_SINCE
    return Subscriber(
        tuple(member["topics"]),
        owned,
        generation if in_subscription else NO_GENERATION,
        member.get("rack") if in_subscription else None,
        member.get("instance"),
        assignor.user_data(Memory(owned, generation) if generation >= 0 else None),
    )
