"""``rebalance-waits-for-a-member``, ``assignment-skew``, ``replica-out-of-sync``: what remains if no cause explains."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident
from kemu.tools.incident.words import plural
from kemu.tools.logs.events import Event

SLOW_US = 10 * SECOND
"""Members hear of a rebalance within a heartbeat interval, 3 s by default."""
SKEW = 3


class RebalanceWaits(KnownCause):
    """A rebalance lasts far longer than a heartbeat interval."""

    id: ClassVar[str] = "rebalance-waits-for-a-member"
    means: ClassVar[str] = "A rebalance waits for a member that does not rejoin, and the whole group is stopped."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "find the member that rejoins last: its application polls rarely", "KIP-62"),
        Remedy("setting", "max.poll.interval.ms lower: the coordinator waits for this time at most", "KIP-62"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("*",)

    def find(self, incident: Incident) -> Finding | None:
        """Rebalances from begin to completion of at least ``SLOW_US``; with the share of the log's time."""
        slow = [
            (event, us)
            for group in incident.groups
            for event, us in incident.spans(group)
            if us >= SLOW_US and event.old_generation and event.state != "Empty"
        ]
        if not slow:
            return None
        whole_us = sum(us for _, us in slow)
        share = f", {100 * whole_us / incident.span_us:.0f} % of the log's time" if incident.span_us else ""
        return Finding(
            says=f"{plural(len(slow), 'rebalance')} of {SLOW_US // SECOND} s or more, "
            f"{whole_us / SECOND:.0f} s in all{share}",
            confidence=0.5,
            evidence=tuple(event for event, _ in slow),
        )


class AssignmentSkew(KnownCause):
    """Members of equal subscription own very different numbers of partitions."""

    id: ClassVar[str] = "assignment-skew"
    means: ClassVar[str] = "Some members own far more partitions than others with the same topics."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "partition.assignment.strategy: sticky or roundrobin instead of range over many topics",
               "KIP-54"),
    )  # fmt: skip
    gives_way_to: ClassVar[tuple[str, ...]] = ("*",)

    def find(self, incident: Incident) -> Finding | None:
        """The last assignment of a leader in which two members of the same topics differ by three or more."""
        for group in incident.groups:
            computed = [event for event in incident.of("assignment-computed", group=group) if event.assignment]
            if computed and self._is_uneven(computed[-1]):
                return Finding(
                    says=f"the last assignment of group {group} is uneven",
                    confidence=0.4,
                    evidence=(computed[-1],),
                    against=("an uneven assignment can be wanted",),
                )
        return None

    def _is_uneven(self, event: Event) -> bool:
        by_topics: dict[frozenset[str], list[int]] = {}
        for owned in (event.assignment or {}).values():
            if not isinstance(owned, tuple):
                return False
            topics = frozenset(each.rpartition("-")[0] for each in owned)
            by_topics.setdefault(topics, []).append(len(owned))
        return any(
            max(counts) - min(counts) >= SKEW and 2 * max(counts) >= 3 * min(counts) for counts in by_topics.values()
        )


class ReplicaOutOfSync(KnownCause):
    """A follower fell behind, and no broker stopped."""

    id: ClassVar[str] = "replica-out-of-sync"
    means: ClassVar[str] = "A follower did not catch up within replica.lag.time.max.ms, so its leader removed it."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "look at the disk, the network and the pauses of the follower", "ReplicaManager (3.9)"),
        Remedy("setting", "num.replica.fetchers, replica.lag.time.max.ms", "KIP-537"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("*",)

    def find(self, incident: Incident) -> Finding | None:
        """ISRs that shrank."""
        shrunk = incident.of("isr-shrunk")
        if not shrunk:
            return None
        return Finding(
            says=f"{plural(len(shrunk), 'ISR')} shrank",
            confidence=0.6,
            evidence=tuple(shrunk),
            against=("no line says why the follower was late",),
        )
