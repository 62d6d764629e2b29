"""The core of a cluster: whether it can recover while the other hosts stay faulty, and which of these it needs.

The idea comes from TigerBeetle's VOPR. Before its liveness phase VOPR chooses a core, heals it, leaves the rest faulty,
and first decides whether the cluster can recover.

``[checks.away]`` of the scenario lists the hosts that stay faulty; all others form the core. ISRs change during a run,
so the decision is made at the time of healing, from the contents of the metadata store. The decision is reported as
``CoreHealed``. A broker with a lost disk or a failed log directory has left the ISRs by then, unless it was the last
in-sync replica. A partition can be used with a core that contains

* a member of its ISR, or any replica if the topic allows unclean elections; otherwise no broker of the core may lead;
* at least ``min.insync.replicas`` of its replicas, or all of them; otherwise writes with acks=all fail, so that there
  are no records, no commits and no new generations. The topic's settings at its creation count.

The decision is made again once session and lag timeouts from before the healing have passed. Until then a broker that
was down or unreachable may leave an ISR, so that only a broker that stays faulty remains in it. Later changes of ISRs
are made by the core itself, and no broker is healed for them.
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
        """Number of replicas that acks=all needs."""
        return min(self.min_isr, len(self.replicas))


@frozen
class CoreDecision:
    """Hosts that stay faulty, brokers that are healed after all, and a reason per partition that cannot recover."""

    away: tuple[str, ...]
    recalled: tuple[str, ...]
    unrecoverable: tuple[str, ...]


def decided(standings: Sequence[PartitionStanding], away: Iterable[str], *, recalled: bool) -> CoreDecision:
    """Decide about the core; with ``recalled`` heal brokers, lowest id first, until every partition can be used."""
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
    """Return (missing condition of a partition, brokers that could meet it); None if the partition can be used."""
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
