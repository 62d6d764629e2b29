"""``python -m lab.conformance.assignors``: compare Kafka's consumer assignors with the emulator's.

Exit codes: 0 all assignments are equal, 1 an assignment differs, 2 bad input.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from lab.conformance.assignors.cases import STEPS, ChangingGroup
from lab.conformance.assignors.java_calls import CLASSES, KafkaAssignors
from lab.conformance.assignors.recordings import KEPT, ROWS, AssignorAnswers
from lab.conformance.oracles import Json, Oracle

KEPT_OF_EACH, MOST_CHARS = 3, 3_300


def _ask(release: str, count: int, seed: int, folder: Path) -> list[Json]:
    groups = [ChangingGroup(name, seed, number) for name in CLASSES for number in range(count)]
    KafkaAssignors(release, folder).answer(groups, STEPS)
    return [{"id": group.id, "assignor": group.assignor, "steps": group.steps} for group in groups]


def _sample(rows: Sequence[Json]) -> list[Json]:
    """A sample of short cases of each kind."""
    short = [row for row in rows if len(json.dumps(row)) <= MOST_CHARS]
    kinds = [(name, racked, mixed) for name in CLASSES for racked in (False, True) for mixed in (False, True)]
    of_each = [[row for row in short if _kind(row) == kind][:KEPT_OF_EACH] for kind in kinds]
    return [row for some in of_each for row in some]


def _kind(group: Json) -> tuple[str, bool, bool]:
    """Kind of a group: (assignor, whether the group has racks, whether members subscribe to different topics)."""
    topics = {tuple(member["topics"]) for step in group["steps"] for member in step["members"].values()}
    return group["assignor"], "racks" in group["steps"][0], len(topics) > 1


ORACLE = Oracle(
    module="assignors",
    library="kafka-clients",
    key=ROWS,
    kept=KEPT,
    made=AssignorAnswers,
    ask=_ask,
    sample=_sample,
    cases=1_000,
)
main = ORACLE.command(
    """Compare assignments of Kafka's assignors (recorded, or new ones of a release) with the emulator's assignments.

    A case is a group with five rebalances. All lists of partitions must be equal, including their order.
    """,
    cases="Groups, by assignor.",
    keeps=f"{KEPT_OF_EACH} groups of each kind and assignor",
)

if __name__ == "__main__":
    main()
