"""The plan: topics with records are reassigned. One reassignment is cancelled; another reassignment loses its target
broker midway.

Steps are some seconds apart, so that the effects of a step are complete before the next step begins.
"""

from typing import NamedTuple

BROKERS = 3
TARGET_THAT_DIES = 2

MOVED, CANCELLED, KILLED = "moved", "cancelled", "killed"
TOPICS: dict[str, tuple[tuple[int, ...], ...]] = {
    MOVED: ((0, 1), (1, 0), (0, 1)),
    "shrunk": ((0, 1, 2),),
    "grown": ((0,),),
    CANCELLED: ((1, 0),),
    KILLED: ((1, 0),),
}
"""Topic -> the replicas of its partitions."""


class PlanStep(NamedTuple):
    """An action of an operator, or a failure of a broker. ``targets``: (topic, partition, replicas)."""

    name: str
    targets: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    is_slow: bool = False
    """Whether the step is throttled, so that the next step occurs midway."""


MOVE = PlanStep(
    "reassign",
    (
        (MOVED, 0, (2, 1)),  # the leader changes
        (MOVED, 1, (1, 2)),  # the leader stays
        (MOVED, 2, (1, 0)),  # another order
        ("shrunk", 0, (0,)),
        ("grown", 0, (0, 1, 2)),
    ),
)
MOVE_SLOWLY = PlanStep("reassign, throttled", ((CANCELLED, 0, (2, 0)),), is_slow=True)
CANCEL = PlanStep("cancel midway")
MOVE_TO_BROKER_THAT_DIES = PlanStep("reassign, throttled, again", ((KILLED, 0, (1, 2)),), is_slow=True)
KILL = PlanStep("the target broker is killed midway")
RETURN = PlanStep("the target broker is started again")
RACES = {(MOVE.name, "grown-0"): (1, 2)}
"""(step, partition) -> two replicas that are added together; either replica can be the first in the ISR."""
STEPS = (MOVE, MOVE_SLOWLY, CANCEL, MOVE_TO_BROKER_THAT_DIES, KILL, RETURN)
