"""The core of a cluster: whether the core can recover while the other hosts stay faulty, and the faulty brokers that
the core needs.

The method is that of TigerBeetle's simulator VOPR. Before its liveness phase, VOPR chooses a core, decides whether the
core can recover, heals the core, and leaves other hosts faulty.

``[checks.away]`` of the scenario lists the hosts that stay faulty; all other hosts form the core. ISRs change during a
run, so the decision is made at the time of healing, from the contents of the metadata store. The decision is reported
as ``CoreHealed``. A broker with a lost disk or a failed log directory has left the ISRs before the decision, unless the
broker was the last in-sync replica. A partition is usable with a core that contains

* a member of its ISR, or any replica if the topic allows unclean elections; otherwise no broker of the core may lead;
* at least ``min.insync.replicas`` of the partition's replicas, or all its replicas; otherwise writes with acks=all
  fail, and the topic gets no records, commits or generations. The decision uses the topic's settings at its creation.

The decision is repeated after the session and lag timeouts from before the healing. Before these timeouts, a broker
that was down or unreachable may leave an ISR, so that only a faulty broker remains in the ISR. The core itself makes
later changes of ISRs, and no broker is healed because of a later change.
"""

from collections.abc import Iterable, Sequence

from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.watching.panel import Panel
from kemu.protocol.frozen import frozen
from kemu.protocol.names import TopicPartition, broker_host


@frozen
class PartitionStanding:
    """State of a partition: its replicas, its ISR, and the settings of its topic."""

    at: TopicPartition
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int = 1
    unclean: bool = False

    @property
    def able(self) -> tuple[int, ...]:
        """Brokers that may lead the partition."""
        return self.replicas if self.unclean else self.isr

    @property
    def needed(self) -> int:
        """Number of in-sync replicas that a write with acks=all needs."""
        return min(self.min_isr, len(self.replicas))


@frozen
class CoreDecision:
    """The decision: hosts that stay faulty, brokers that are healed, too, and a reason for each partition that cannot
    recover.
    """

    away: tuple[str, ...]
    recalled: tuple[str, ...]
    unrecoverable: tuple[str, ...]


def decided(standings: Sequence[PartitionStanding], away: Iterable[str], *, recalled: bool) -> CoreDecision:
    """Decide whether the core can recover. With ``recalled``, brokers are healed, lowest id first, until every
    partition is usable.
    """
    out = dict.fromkeys(away)
    back: list[str] = []
    reasons: list[str] = []
    for each in standings:
        while why := _lacking(each, out):
            holders = [host for host in map(broker_host, why[1]) if host in out]
            if not recalled or not holders:
                reasons.append(why[0])
                break
            del out[holders[0]]
            back.append(holders[0])
    return CoreDecision(tuple(out), tuple(back), tuple(reasons))


def _lacking(standing: PartitionStanding, away: dict[str, None]) -> tuple[str, tuple[int, ...]] | None:
    """Return (unmet condition, brokers that could meet the condition); None if the partition is usable."""
    name = f"{standing.at[0]}-{standing.at[1]}"
    if not any(broker_host(broker) not in away for broker in standing.able):
        what = "its replicas" if standing.unclean else "its ISR"
        able = tuple(sorted(standing.able))
        return f"{name} can have no leader: {what} {list(able)} stay away", able
    there = [broker for broker in standing.replicas if broker_host(broker) not in away]
    if len(there) < standing.needed:
        missing = tuple(sorted(broker for broker in standing.replicas if broker not in there))
        text = f"{name} has replicas {there} in the core, min.insync.replicas asks for {standing.needed}"
        return text, missing
    return None


def standings(scenario: Scenario, panel: Panel) -> tuple[PartitionStanding, ...]:
    """Return all partitions as in the metadata store; () without replication."""
    replication = scenario.brokers.replication
    if replication is None:
        return ()
    found = []
    for at, assignment in sorted(panel.assigned.items()):
        state, spec = panel.states.get(at), scenario.topics.get(at[0])
        min_isr = replication.min_isr if spec is None or spec.min_isr is None else spec.min_isr
        unclean = replication.unclean if spec is None or spec.unclean is None else spec.unclean
        replicas = tuple(assignment.replicas)
        isr = replicas if state is None else tuple(state.isr)
        found.append(PartitionStanding(at, replicas, isr, min_isr, unclean))
    return tuple(found)
