"""Excuses: differences between a run of Kafka and the emulator that do not count, each with its limits.

| field | meaning |
|---|---|
| ``rows`` | patterns of names of rows |
| ``condition`` | what must have happened in Kafka's run; a plan's name is no condition |
| ``direction``, ``bound`` | the side of the emulated numbers on which Kafka's may lie, and the greatest difference |
| ``source`` | Kafka's class and release |
| ``is_a_fault`` | True if the emulator is wrong (a *known* difference), False if Kafka has both outcomes (a *race*) |

The comparison counts the rows of each excuse (``comparing.uses``) and reports unused excuses.
"""

from collections.abc import Callable
from enum import StrEnum
from fnmatch import fnmatchcase

from attrs import frozen

from lab.conformance.course import Course


class Direction(StrEnum):
    """The side on which Kafka's number lies."""

    FEWER = "fewer"
    MORE = "more"
    OTHER = "other"
    """An outcome without an order, such as a leader."""


@frozen
class Excuse:
    """A difference that does not count. ``bound``: greatest difference of numbers for Kafka's run; 0 for outcomes."""

    name: str
    text: str
    source: str
    rows: tuple[str, ...]
    condition: Callable[[Course], bool]
    direction: Direction
    bound: Callable[[Course], float]
    is_a_fault: bool

    def allows(self, course: Course, row: str, kafka: float | None, emulated: tuple[float, float] | None) -> bool:
        """Whether the excuse allows a row's difference. ``emulated``: least and most of the emulator's runs."""
        if not any(fnmatchcase(row, pattern) for pattern in self.rows):
            return False
        if kafka is None or emulated is None:
            return self.direction is Direction.OTHER
        least, most = emulated
        off = {Direction.FEWER: least - kafka, Direction.MORE: kafka - most}.get(self.direction, -1)
        return 0 < off <= self.bound(course)


def _restarts(course: Course) -> bool:
    """Whether the only broker restarted."""
    return bool(course.windows_ms)


def _several_brokers(course: Course) -> bool:
    """Whether the plan stops or starts one of several brokers."""
    return any("broker 1" in row for _, row in course.timeline)


WAIT = 3.0
"""Most responses that a wait of 0.9 s takes from a row or adds to it. For so long, the recorded starting broker read no
request of some connections."""
FRESH_S = 0.6
"""The first join took 0.3 s longer than its two delays, and the leader's SyncGroup 0.25 s."""

EXCUSES: tuple[Excuse, ...] = (
    Excuse(
        "busy-broker-fewer",
        "a restarted broker reads some connections late while it loads its partitions, so clients retry less often",
        "SocketServer.Processor.run, KafkaApis.handleLeaderAndIsrRequest (3.4.1)",
        ("c? Heartbeat", "c? OffsetCommit", "c? Metadata"),
        _restarts,
        Direction.FEWER,
        lambda _: WAIT,
        is_a_fault=True,
    ),
    Excuse(
        "busy-broker-more",
        "the other connections retry while this broker loads groups, at most once per retry.backoff.ms",
        "SocketServer.Processor.run, GroupMetadataManager.loadGroupsAndOffsets (3.4.1)",
        ("c? JoinGroup", "c? coordinator, between", "JoinGroup COORDINATOR_LOAD_IN_PROGRESS"),
        _restarts,
        Direction.MORE,
        lambda _: WAIT,
        is_a_fault=True,
    ),
    Excuse(
        "fresh-brokers",
        "three brokers that have just started complete the first join late",
        "DelayedOperationPurgatory.ExpiredOperationReaper (3.4.1)",
        ("rebalance 1",),
        _several_brokers,
        Direction.MORE,
        lambda _: FRESH_S,
        is_a_fault=True,
    ),
)
