"""``joining-member-every-generation``, ``broker-bug-KAFKA-8653``: each generation begins for one more new member."""

from itertools import pairwise
from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, apart_us
from kemu.tools.logs.events import Event

FEWEST = 3
NEAR_US = 60 * SECOND
AT_ONCE_US = SECOND // 10
"""Members hear of a rebalance with their next heartbeat, so a rebalance that waits for members takes longer."""
ONLY_2_3_OR_2_4 = "with group instanceid"
"""Words of ``GroupCoordinator`` of 2.3 and 2.4; later releases write "instance id"."""


def joins_only(incident: Incident) -> list[tuple[Event, int | None]]:
    """The rebalances of a group in which nobody but new members appears: (begin, duration).

    Empty if a member left or expired, if a member joined twice, if the counts of members rise as members join, or if
    members were waited for.
    """
    for group in incident.groups:
        begins = [event for event in incident.begins if event.group == group]
        if len(begins) < FEWEST or any(event.cause != "join" for event in begins):
            continue
        if any(each.group == group for each in incident.departures) or incident.of("group-empty", group=group):
            continue
        members = [event.member for event in begins]
        near = all(gap is None or gap <= NEAR_US for a, b in pairwise(begins) if (gap := apart_us(a, b)) or True)
        counts = [
            event.members for event in incident.of("rebalance-completes", group=group) if event.members is not None
        ]
        grows = any(a < b for a, b in pairwise(counts))
        if len(set(members)) < len(members) or None in members or grows or not near:
            continue
        took = dict(incident.spans(group))
        if any(took.get(event, 0) > AT_ONCE_US for event in begins) and not counts:
            continue
        return [(event, took.get(event)) for event in begins]
    return []


class JoiningMemberEveryGeneration(KnownCause):
    """New members join without end, and the former ones disappear without a word."""

    id: ClassVar[str] = "joining-member-every-generation"
    means: ClassVar[str] = (
        "Every few seconds a member with a new id joins, and no departure is logged: a rebalance loop."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action",
            "find out why clients forget their member id: a crash loop, or a removal at each rebalance",
            "KIP-394",
        ),
        Remedy("release", "a client that sends JoinGroup v4 or later", "KIP-394"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """At least three rebalances in a row, each for another new member."""
        begins = joins_only(incident)
        if not begins:
            return None
        return Finding(
            says=f"{len(begins)} rebalances, each for another new member, and nobody leaves or expires",
            confidence=0.85,
            evidence=tuple(event for event, _ in begins),
        )


class Kafka8653(KnownCause):
    """The coordinator of 2.3.0 does not wait for members whose JoinGroup has version 0."""

    id: ClassVar[str] = "broker-bug-KAFKA-8653"
    means: ClassVar[str] = (
        "A coordinator of 2.3.0 takes the rebalance timeout of a JoinGroup v0 as 0, and does not wait for its members."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("release", "Kafka 2.3.1", "KAFKA-8653"),
        Remedy("release", "a client that sends JoinGroup v1 or later", "KAFKA-8653"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """A loop of joins, each completed at once, in words of 2.3."""
        begins = joins_only(incident)
        words = [event for event, _ in begins if ONLY_2_3_OR_2_4 in (event.reason or "").lower()]
        at_once = [event for event, us in begins if us is not None and us <= AT_ONCE_US]
        if not words or len(at_once) < FEWEST:
            return None
        return Finding(
            says=f"{len(at_once)} rebalances completed within {AT_ONCE_US // 1000} ms, too early for the other members",
            confidence=0.9,
            evidence=tuple(at_once),
            against=("the words of the log fit 2.3 and 2.4; only 2.3.0 has the bug",),
        )
