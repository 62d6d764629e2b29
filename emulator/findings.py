"""What checkers find in a run: rules that were broken, and losses that no rule forbids (the fault atlas).

Source of the atlas: Kafka's documentation of acks, ``unclean.leader.election.enable`` and flushing; KIP-966 ("last
replica standing").
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class Violation:
    """A rule that was broken: when, by whom, and the entities it is about (for grouping and shrinking)."""

    checker: str
    at_us: int
    seq: int
    entities: tuple[str, ...]
    text: str
    liveness: bool = False
    """False: something bad happened. True: something good did not happen in time."""
    kind: str = ""
    """How the rule was broken, in a word of the checker's own: what ``expect`` names."""


UNCLEAN = "unclean-election"
UNFLUSHED = "unflushed"
EMPTY_DISK = "lost-disk"
LOST_TAIL = "lost-tail"
LEADER_ONLY = "acks"

ATLAS: Mapping[str, str] = MappingProxyType(
    {
        UNCLEAN: "no in-sync replica was left, and the topic allows unclean elections: a replica without them leads",
        UNFLUSHED: "the last in-sync replica had not flushed them when its power was cut (log.flush.interval.ms)",
        EMPTY_DISK: "the last in-sync replica came back with an empty disk",
        LOST_TAIL: "the last in-sync replica's disk lost the end of what it was asked to keep",
        LEADER_ONLY: "only their leader had them: the producer asked for no more (acks=0 or 1), and another leads now",
    }
)
"""Reason -> why that is allowed."""


@frozen
class Loss:
    """Records ``first .. last`` of a partition are gone, for a reason of the atlas."""

    at_us: int
    partition: str
    first: int
    last: int
    why: str

    @property
    def records(self) -> int:
        """How many."""
        return self.last - self.first + 1
