"""What a release answered to some cases, kept so that nobody needs Java; and what the emulator answers to them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from kemu.protocol.streams.registry import (
    TASK_ASSIGNORS_2_3,
    TASK_ASSIGNORS_2_6,
    TASK_ASSIGNORS_3_0,
    TASK_ASSIGNORS_3_2,
    TASK_ASSIGNORS_3_4,
    TaskAssignor,
)
from kemu.tools.conformance.task_assignors.cases import Json
from kemu.tools.conformance.task_assignors.java_calls import version_of
from kemu.tools.kafka_files.task_lines import read_case

KEPT = Path(__file__).resolve().parents[3] / "tests" / "data" / "task-assignors"
OF_RELEASES: tuple[tuple[tuple[int, int], Mapping[str, TaskAssignor]], ...] = (
    ((3, 3), TASK_ASSIGNORS_3_4),
    ((3, 2), TASK_ASSIGNORS_3_2),
    ((3, 0), TASK_ASSIGNORS_3_0),
    ((2, 6), TASK_ASSIGNORS_2_6),
    ((2, 3), TASK_ASSIGNORS_2_3),
)
"""The task assignors of releases, each from this one on, newest first."""


class AnswersError(ValueError):
    """No recording of what task assignors answered."""


@frozen
class Answers:
    """Cases, each with the answer of a release under the key "answer"."""

    release: str
    made_by: str
    cases: tuple[Json, ...]

    def to_json(self) -> str:
        """A case a line, so that a changed one is a changed line."""
        head = json.dumps({"kafka": self.release, "made_by": self.made_by})
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in self.cases)
        return f'{head[:-1]}, "cases": [\n{lines}\n]}}\n'

    def differences(self) -> Iterator[tuple[Json, Json]]:
        """(case, what the emulator answers) where that is not what the release answered."""
        for case in self.cases:
            ours = emulated(case, self.release)
            if ours != case["answer"]:
                yield case, ours


def read_all(folder: Path) -> list[Answers]:
    """All recordings of a folder, by name.

    Raises:
        AnswersError: there is none, or one cannot be read.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise AnswersError(f"there is no recording in {folder}")
    return [_read(path) for path in paths]


def _read(path: Path) -> Answers:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Answers(data["kafka"], data["made_by"], tuple(data["cases"]))
    except (ValueError, KeyError, TypeError) as error:
        raise AnswersError(f"{path} is no recording of what task assignors answered: {error!r}") from None


def assignors_of(release: str) -> Mapping[str, TaskAssignor]:
    """The emulator's task assignors of a release."""
    return next(named for since, named in OF_RELEASES if version_of(release) >= since)


def emulated(case: Json, release: str) -> Json:
    """What the emulator's task assignor of a release answers."""
    read = read_case(json.dumps(case))
    (only,) = read.rebalances
    given = assignors_of(release)[case["assignor"]].assign(only.clients, read.tasks, read.stateful, read.config)
    return {
        "probing": given.probing,
        "assignment": {
            name: {"active": list(map(str, given.active[name])), "standby": list(map(str, given.standby[name]))}
            for name in given.active
        },
    }


def sample(cases: Iterable[Json], answers: Mapping[str, Json], count: int, most_chars: int) -> tuple[Json, ...]:
    """The first ``count`` cases that are not longer than this as text, with their answers."""
    found = ({**case, "answer": answers[case["id"]]} for case in cases)
    short = (case for case in found if len(json.dumps(case)) <= most_chars)
    return tuple(case for case, _ in zip(short, range(count), strict=False))
