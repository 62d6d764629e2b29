"""``python -m lab.conformance.target_assignors``: compare the targets of Kafka's coordinator with the emulator's.

Exit codes: 0 all targets are equal, 1 a target differs, 2 bad input.
"""

from functools import partial
from pathlib import Path

from lab.conformance.oracles import Json, Oracle, short_rows_of_each_assignor
from lab.conformance.target_assignors.cases import STEPS, TargetedGroup
from lab.conformance.target_assignors.java_calls import CLASSES, KafkaTargets
from lab.conformance.target_assignors.recordings import KEPT, ROWS, TargetAnswers

KEPT_OF_EACH, MOST_CHARS = 6, 9_000


def _ask(release: str, count: int, seed: int, folder: Path) -> list[Json]:
    groups = [TargetedGroup(name, seed, number) for name in CLASSES for number in range(count)]
    KafkaTargets(release, folder).answer(groups, STEPS)
    return [
        {"id": group.id, "assignor": group.assignor, "first": group.first, "steps": group.steps} for group in groups
    ]


ORACLE = Oracle(
    module="target_assignors",
    library="kafka-group-coordinator",
    key=ROWS,
    kept=KEPT,
    made=TargetAnswers,
    ask=_ask,
    sample=partial(short_rows_of_each_assignor, most_chars=MOST_CHARS, kept=KEPT_OF_EACH),
    cases=500,
)
main = ORACLE.command(
    """Compare targets that Kafka's coordinator computes (recorded, or new ones of a release) with the emulator's.

    A case is a group with a first join and five changes. All targets must be equal, including the order of topics and
    partitions.
    """,
    cases="Groups, by assignor.",
    keeps=f"{KEPT_OF_EACH} short groups of each assignor",
)

if __name__ == "__main__":
    main()
