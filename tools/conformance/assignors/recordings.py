"""What a release's assignors gave to some groups, kept so that nobody needs Java; and what the emulator's give."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from kemu.protocol.assign.base import Assignor, Memory, Subscriber, Topics
from kemu.protocol.names import NO_GENERATION, TopicPartition
from kemu.protocol.profiles import PROFILES
from kemu.tools.conformance.assignors.cases import Json
from kemu.tools.conformance.task_assignors.java_calls import version_of

KEPT = Path(__file__).resolve().parents[3] / "tests" / "data" / "assignors"
TOLD_SINCE = (3, 4)
"""Generation and rack are in the subscription (``Subscription``'s constructors)."""


class AssignorAnswersError(ValueError):
    """No recording of what assignors answered."""


@frozen
class AssignorAnswers:
    """Groups (id, assignor, steps), each step with the release's answer."""

    release: str
    made_by: str
    groups: tuple[Json, ...]

    @property
    def steps(self) -> int:
        """How many were answered."""
        return sum("answer" in step for group in self.groups for step in group["steps"])

    @property
    def failed(self) -> int:
        """How many steps the release's own assignor failed at."""
        return sum("raises" in step for group in self.groups for step in group["steps"])

    @property
    def invalid(self) -> int:
        """How many steps' answers give a partition twice, or to a member that did not subscribe to its topic."""
        return sum(_invalid(step) for group in self.groups for step in group["steps"] if "answer" in step)

    def to_json(self) -> str:
        """A group a line, so that a changed one is a changed line."""
        head = json.dumps({"kafka": self.release, "made_by": self.made_by})
        lines = ",\n".join(json.dumps(group, separators=(",", ":")) for group in self.groups)
        return f'{head[:-1]}, "groups": [\n{lines}\n]}}\n'

    def differences(self) -> Iterator[tuple[str, Json, Json]]:
        """(group, step, what the emulator gives) where that is not what the release gave, unless that is invalid."""
        for group in self.groups:
            for step in group["steps"]:
                if "answer" not in step or _invalid(step):
                    continue
                if (ours := emulated(group["assignor"], step, self.release)) != step["answer"]:
                    yield group["id"], step, ours


def _invalid(step: Json) -> bool:
    given = [(member, *one) for member, partitions in step["answer"].items() for one in partitions]
    asked = all(topic in step["members"][member]["topics"] for member, topic, _ in given)
    return not asked or len({(topic, number) for _, topic, number in given}) < len(given)


def read_all(folder: Path) -> list[AssignorAnswers]:
    """All recordings of a folder, by name.

    Raises:
        AssignorAnswersError: there is none, or one cannot be read.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise AssignorAnswersError(f"there is no recording in {folder}")
    return [_read(path) for path in paths]


def _read(path: Path) -> AssignorAnswers:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return AssignorAnswers(data["kafka"], data["made_by"], tuple(data["groups"]))
    except (ValueError, KeyError, TypeError) as error:
        raise AssignorAnswersError(f"{path} is no recording of what assignors answered: {error!r}") from None


def assignors_of(release: str) -> Mapping[str, Assignor]:
    """Those of the last profile that is not newer; of 3.7 after 3.7.0 those of 3.9 (KAFKA-16277, KAFKA-15170)."""
    if version_of(release) == (3, 7) and release.split(".")[2:] not in ([], ["0"]):
        return PROFILES["kafka-3.9"].assignors
    known = {name.removeprefix("kafka-"): profile for name, profile in PROFILES.items() if name.startswith("kafka-")}
    dated = {version_of(name): profile for name, profile in known.items() if "unfixed" not in name}
    return dated[max(since for since in dated if since <= version_of(release))].assignors


def emulated(assignor: str, step: Json, release: str) -> Json:
    """What the emulator's assignor of a release gives at a step, list by list."""
    racks = step.get("racks")
    replica_racks = None if racks is None else {name: tuple(map(tuple, rows)) for name, rows in racks.items()}
    named = assignors_of(release)[assignor]
    members = {name: _subscriber(named, member, release) for name, member in step["members"].items()}
    given = named.assign(Topics(step["topics"], replica_racks), members)
    return {name: [list(one) for one in given[name]] for name in sorted(given)}


def _subscriber(assignor: Assignor, member: Mapping[str, Any], release: str) -> Subscriber:
    owned: tuple[TopicPartition, ...] = tuple((topic, number) for topic, number in member["owned"])
    generation: int = member["generation"]
    told = version_of(release) >= TOLD_SINCE
    return Subscriber(
        tuple(member["topics"]),
        owned,
        generation if told else NO_GENERATION,
        member.get("rack") if told else None,
        member.get("instance"),
        assignor.user_data(Memory(owned, generation) if generation >= 0 else None),
    )
