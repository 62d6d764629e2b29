"""``python -m lab.conformance.task_assignors``: compare Kafka Streams' task assignors with the emulator's.

Exit codes: 0 all assignments are equal, 1 an assignment differs, 2 bad input.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from lab.conformance.oracles import Json, Oracle
from lab.conformance.task_assignors.cases import random_case
from lab.conformance.task_assignors.java_calls import KafkaTaskAssignors, version_of
from lab.conformance.task_assignors.recordings import KEPT, ROWS, TaskAnswers

KEPT_OF_EACH, MOST_CHARS = 30, 2_400


def _ask(release: str, count: int, seed: int, folder: Path) -> list[Json]:
    names = ("sticky",) if version_of(release) < (2, 6) else ("ha", "sticky", "prior")
    kafka = KafkaTaskAssignors(release, folder)
    cases = [random_case(name, seed, number) for name in names for number in range(count)]
    answers = kafka.answers(cases)
    return [{**case, "answer": answers[case["id"]]} for case in cases]


def _sample(cases: Sequence[Json]) -> list[Json]:
    """A sample of short cases of each assignor."""
    short = [case for case in cases if len(json.dumps(case)) <= MOST_CHARS]
    names = dict.fromkeys(case["assignor"] for case in cases)
    return [case for name in names for case in [each for each in short if each["assignor"] == name][:KEPT_OF_EACH]]


ORACLE = Oracle(
    module="task_assignors",
    library="kafka-streams",
    key=ROWS,
    kept=KEPT,
    made=TaskAnswers,
    ask=_ask,
    sample=_sample,
    cases=500,
)
main = ORACLE.command(
    "Compare answers of Kafka Streams' task assignors with the emulator's: kept ones, or new ones of a release.",
    cases="How many, by assignor.",
    keeps=f"{KEPT_OF_EACH} cases of each assignor",
)

if __name__ == "__main__":
    main()
