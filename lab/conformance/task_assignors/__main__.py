"""``python -m lab.conformance.task_assignors``: compare Kafka Streams' task assignors with the emulator's.

Exit codes: 0 all assignments are equal, 1 an assignment differs, 2 bad input.
"""

from functools import partial
from pathlib import Path

from lab.conformance.oracles import Json, Oracle, short_rows_of_each_assignor
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


ORACLE = Oracle(
    module="task_assignors",
    library="kafka-streams",
    key=ROWS,
    kept=KEPT,
    made=TaskAnswers,
    ask=_ask,
    sample=partial(short_rows_of_each_assignor, most_chars=MOST_CHARS, kept=KEPT_OF_EACH),
    cases=500,
)
main = ORACLE.command(
    "Compare answers of Kafka Streams' task assignors with the emulator's: kept ones, or new ones of a release.",
    cases="How many, by assignor.",
    keeps=f"{KEPT_OF_EACH} cases of each assignor",
)

if __name__ == "__main__":
    main()
