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

import math
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


def _late_first_id_s(course: Course) -> float:
    """Time from the arrival of the first JoinGroup to the first generation's beginning, in s. The first member sends
    its second JoinGroup in this time (KIP-394): in other runs, within half a second.
    """
    joins = [at_ms for at_ms, row in course.took_effect if row.startswith("joins ")]
    began_ms = course.rebalances[0].began_ms if course.rebalances else None
    return (began_ms - joins[0]) / 1000 if joins and began_ms is not None else 0.0


def _late_starts_s(course: Course) -> float:
    """Time from starts of members to their first JoinGroups, in s: all starts after the first generation, in a process
    that already runs. In other runs, such a start takes at most 0.34 s.
    """
    alone = {row.split()[-1] for _, row in course.timeline if row.startswith("kill -9 of the process")}
    alone |= {row.split()[0] for _, row in course.timeline if row.endswith("(SIGSTOP)")}
    late = 0
    for at_ms, row in course.timeline:
        words = row.split()
        if (
            words[0] == "start"
            and words[1] not in alone
            and course.rebalances
            and at_ms > course.rebalances[0].joined_ms
        ):
            felt = (felt_ms for felt_ms, effect in course.took_effect if effect == f"joins {words[1]}")
            late += next((felt_ms - at_ms for felt_ms in felt if felt_ms >= at_ms), 0)
    return late / 1000


def _several_brokers(course: Course) -> bool:
    """Whether the plan stops or starts one of several brokers."""
    return any("broker 1" in row for _, row in course.timeline)


WAIT = 3.0
"""Most responses that a wait of 0.9 s takes from a row or adds to it. For so long, the recorded starting broker read no
request of some connections."""
FRESH_S = 0.6
"""The first join took 0.3 s longer than its two delays, and the leader's SyncGroup 0.25 s."""

LATE_ID_S, LATE_STARTS_S = 1.0, 0.6
"""Times beyond which a live run's machine stalled during a first join, and during later starts."""
HEARTBEAT_S = 3.0
"""``heartbeat.interval.ms`` of the plans."""

EXCUSES: tuple[Excuse, ...] = (
    Excuse(
        "stalled-first-join",
        "the machine stalled, so the first generation and all later heartbeats were late",
        "AbstractCoordinator.joinGroupIfNeeded, HeartbeatThread (3.4.1)",
        ("c? Heartbeat", "c? OffsetCommit"),
        lambda course: _late_first_id_s(course) > LATE_ID_S,
        Direction.FEWER,
        lambda course: math.ceil(_late_first_id_s(course) / HEARTBEAT_S),
        is_a_fault=False,
    ),
    Excuse(
        "stalled-first-join-between",
        "as stalled-first-join",
        "AbstractCoordinator.joinGroupIfNeeded, HeartbeatThread (3.4.1)",
        ("c? coordinator, between",),
        lambda course: _late_first_id_s(course) > LATE_ID_S,
        Direction.MORE,
        lambda course: 2 * math.ceil(_late_first_id_s(course) / HEARTBEAT_S),
        is_a_fault=False,
    ),
    Excuse(
        "stalled-restart",
        "the machine stalled while members started again, so their rebalance and its downtime were longer",
        "DelayedOperationPurgatory.ExpiredOperationReaper, AbstractCoordinator.onLeaderElected (3.9.1)",
        ("rebalance ?", "downtime, longest"),
        lambda course: _late_starts_s(course) > LATE_STARTS_S,
        Direction.MORE,
        _late_starts_s,
        is_a_fault=False,
    ),
    Excuse(
        "stalled-restart-downtime",
        "as stalled-restart, for each partition",
        "DelayedOperationPurgatory.ExpiredOperationReaper, AbstractCoordinator.onLeaderElected (3.9.1)",
        ("downtime, sum",),
        lambda course: _late_starts_s(course) > LATE_STARTS_S,
        Direction.MORE,
        lambda course: _late_starts_s(course) * len(course.downtime_ms),
        is_a_fault=False,
    ),
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
