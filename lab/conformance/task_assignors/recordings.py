"""Recorded answers of a release, so that comparisons need no Java, and the emulator's answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
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
from kemu.tools.kafka_files.task_lines import read_case
from lab.conformance.oracles import Json, OtherAnswer, recording_text
from lab.conformance.task_assignors.java_calls import version_of

ROWS = "cases"
KEPT = Path(__file__).resolve().parents[3] / "tests" / "data" / "task-assignors"
OF_RELEASES: tuple[tuple[tuple[int, int], Mapping[str, TaskAssignor]], ...] = (
    ((3, 3), TASK_ASSIGNORS_3_4),
    ((3, 2), TASK_ASSIGNORS_3_2),
    ((3, 0), TASK_ASSIGNORS_3_0),
    ((2, 6), TASK_ASSIGNORS_2_6),
    ((2, 3), TASK_ASSIGNORS_2_3),
)
"""(first release, task assignors from this release on), newest first."""


@frozen
class TaskAnswers:
    """Cases, each with the answer of a release under the key "answer"."""

    release: str
    made_by: str
    cases: tuple[Json, ...]

    def to_json(self) -> str:
        """The text of a recording of these answers."""
        return recording_text(self.release, self.made_by, ROWS, self.cases)

    def differences(self) -> Iterator[OtherAnswer]:
        """Cases in which the emulator's answer differs from the release's."""
        for case in self.cases:
            ours = emulated(case, self.release)
            if ours != case["answer"]:
                yield OtherAnswer("case", case, ours)

    def said(self, wrong: Sequence[OtherAnswer]) -> Iterator[str]:
        """Lines for a report: the numbers of compared and different answers, and further figures."""
        yield f"{len(self.cases)} cases, {len(wrong)} differ"


def assignors_of(release: str) -> Mapping[str, TaskAssignor]:
    """The emulator's task assignors of a release."""
    return next(named for since, named in OF_RELEASES if version_of(release) >= since)


def emulated(case: Json, release: str) -> Json:
    """The answer of the emulator's task assignor for a release."""
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
