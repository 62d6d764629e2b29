"""Whether a core of the cluster can get well while the others stay away, and whom it cannot do without.

Source of the idea: TigerBeetle's VOPR, which before its liveness phase chooses a core, heals it, leaves the rest
broken, and first decides whether the cluster can recover at all.

The core is the scenario's (``[checks.away]`` says who is not of it), so that it is there to be read before a run. What
a core needs is known at the healing only, because ISRs change: so this is decided then, from what the metadata store
has (the panel knows it), and told as a fact (``CoreHealed``). What was destroyed before counts by what is left: a lost
disk or a failed log directory has taken its broker out of the ISRs, unless it was the last in sync. A partition can go
on with a core in which

* a member of its ISR is, or any replica, if it allows unclean elections (else nobody in the core may lead it);
* as many of its replicas are as ``min.insync.replicas`` asks for, or all it has (else nothing with acks=all is taken:
  no record, no commit, no generation of a group). What counts is what topics promised when they were made.

It is decided once more when sessions and lags from before the healing are over: a broker that is down or unheard of at
the healing may be in an ISR still and leave it afterwards, so that only one that stays away is left there. After that
the ISRs are the core's own doing, and nobody is recalled for them.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import TopicPartition, broker_host


@frozen
class PartitionStanding:
    """How a partition stands: its replicas and in-sync replicas, and what its topic promises."""

    at: TopicPartition
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int = 1
    unclean: bool = False

    @property
    def able(self) -> tuple[int, ...]:
        """Who may lead it."""
        return self.replicas if self.unclean else self.isr

    @property
    def needed(self) -> int:
        """How many replicas must be there for acks=all."""
        return min(self.min_isr, len(self.replicas))


@frozen
class CoreDecision:
    """Who stays away after all, who was recalled, and why the core cannot get well, a text for each partition."""

    away: tuple[str, ...]
    recalled: tuple[str, ...]
    unrecoverable: tuple[str, ...]


def decided(standings: Sequence[PartitionStanding], away: Iterable[str], *, recalled: bool) -> CoreDecision:
    """Decide; with ``recalled`` brokers come back, the lowest id first, until every partition can go on."""
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
    """(what a partition lacks, who could bring it), None if it can go on."""
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
    """All partitions as the metadata store has them now; () where brokers do not replicate."""
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
