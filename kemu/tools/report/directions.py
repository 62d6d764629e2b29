"""Whether a lower or a higher value of a figure is better."""

from collections.abc import Mapping
from enum import StrEnum


class Direction(StrEnum):
    """The better direction of a figure."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"
    """A higher value is neither better nor worse, such as for the fewest possible moves."""


_OTHERS: Mapping[str, Direction] = {
    "tasks_least": Direction.NEITHER,
    "task_learning": Direction.NEITHER,
    "most_replicas": Direction.NEITHER,
    "isr_changes": Direction.NEITHER,
    "moved_bytes": Direction.NEITHER,
    "rebalances_joined": Direction.NEITHER,
    "rebalances_gone": Direction.NEITHER,
    "rebalances_ready": Direction.NEITHER,
    "rebalances_leaving": Direction.NEITHER,
    "rebalances_follow_up": Direction.NEITHER,
    "rebalances_probing": Direction.NEITHER,
    "rebalances_other": Direction.NEITHER,
}
"""Figures of a ``Bill`` whose direction is not "lower is better"."""


def better(figure: str) -> Direction:
    """The better direction of a figure of ``FIGURES``: lower, unless the table says otherwise."""
    return _OTHERS.get(figure, Direction.LOWER)


def word(figure: str, difference: float) -> str:
    """The word for a difference other than 0: "better" or "worse"; "more" or "less" where no direction is better."""
    direction = better(figure)
    if direction is Direction.NEITHER:
        return "more" if difference > 0 else "less"
    return "better" if (difference < 0) == (direction is Direction.LOWER) else "worse"
