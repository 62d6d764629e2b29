"""Leader elections: four pure functions of the assignment, the ISR and the live replicas.

The leader is the first suitable replica in the order of the assignment. The assignment's first replica is the preferred
leader. A leader of None means that no replica can lead.

====================  ===========================================  =================================  =============
strategy              leader                                       new ISR                            recipients
====================  ===========================================  =================================  =============
offline               first assigned that is live and in the ISR   ISR members that are live          live assigned
offline, unclean      if there is none: first assigned and live    the leader alone                   live assigned
reassign              first of the target, live and in the ISR     unchanged                          the target
preferred             the first assigned, if live and in the ISR   unchanged                          all assigned
controlled shutdown   first assigned that is live or shutting      the ISR without all that shut      live or
                      down, in the ISR, and not shutting down      down                               shutting down
====================  ===========================================  =================================  =============

Source: Kafka 2.8 ``Election`` and ``PartitionLeaderElectionAlgorithms``.
"""

from collections.abc import Callable, Collection
from enum import Enum

from kemu.protocol.frozen import frozen
from kemu.protocol.nodes import PartitionState


class Strategy(Enum):
    """The kinds of elections. A new partition needs no election: its first live replica becomes the leader."""

    NEW = "new"
    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"


@frozen
class Outcome:
    """An election's result. ``leader`` None: no replica can lead. ``recipients``: the brokers that get LeaderAndIsr."""

    leader: int | None
    isr: tuple[int, ...]
    recipients: tuple[int, ...]
    unclean: bool = False


@frozen
class Candidates:
    """The input of an election. ``live``: replicas that can lead (broker up, not shutting down, log available).

    ``shutting_down``: brokers in controlled shutdown; they still receive requests.
    """

    replicas: tuple[int, ...]
    target: tuple[int, ...]
    state: PartitionState
    live: tuple[int, ...]
    live_or_shutting_down: tuple[int, ...]
    shutting_down: Collection[int]


def offline_leader(
    replicas: tuple[int, ...], isr: Collection[int], live: Collection[int], unclean_enabled: bool
) -> tuple[int | None, bool]:
    """(leader, unclean): the first live replica in the ISR; otherwise, if allowed, the first live replica."""
    for broker in replicas:
        if broker in live and broker in isr:
            return broker, False
    if unclean_enabled:
        for broker in replicas:
            if broker in live:
                return broker, True
    return None, False


def reassign_leader(target: tuple[int, ...], isr: Collection[int], live: Collection[int]) -> int | None:
    """The first replica of the target that is live and in sync."""
    return next((broker for broker in target if broker in live and broker in isr), None)


def preferred_leader(replicas: tuple[int, ...], isr: Collection[int], live: Collection[int]) -> int | None:
    """The preferred replica, if it is live and in sync."""
    return replicas[0] if replicas and replicas[0] in live and replicas[0] in isr else None


def controlled_shutdown_leader(
    replicas: tuple[int, ...], isr: Collection[int], live: Collection[int], shutting_down: Collection[int]
) -> int | None:
    """The first in-sync replica that is up and not shutting down."""
    return next((b for b in replicas if b in live and b in isr and b not in shutting_down), None)


def elect_offline(candidates: Candidates, unclean_enabled: bool = False) -> Outcome:
    """The new leader after a leader failed: a live in-sync replica or, if unclean elections are allowed, any live
    replica.
    """
    state, live = candidates.state, candidates.live
    leader, unclean = offline_leader(candidates.replicas, state.isr, live, unclean_enabled)
    isr = (leader,) if unclean and leader is not None else tuple(broker for broker in state.isr if broker in live)
    return Outcome(leader, isr, live, unclean)


def elect_reassigned(candidates: Candidates, unclean_enabled: bool = False) -> Outcome:
    """The new leader when a reassignment removes the old leader or the old leader has failed: an in-sync target."""
    leader = reassign_leader(candidates.target, candidates.state.isr, candidates.live)
    return Outcome(leader, candidates.state.isr, candidates.target)


def elect_preferred(candidates: Candidates, unclean_enabled: bool = False) -> Outcome:
    """The preferred replica as leader: the first replica of the assignment, if it is live and in sync."""
    leader = preferred_leader(candidates.replicas, candidates.state.isr, candidates.live)
    return Outcome(leader, candidates.state.isr, candidates.replicas)


def elect_for_shutdown(candidates: Candidates, unclean_enabled: bool = False) -> Outcome:
    """The new leader while the old leader's broker shuts down."""
    state, leaving = candidates.state, candidates.shutting_down
    able = candidates.live_or_shutting_down
    leader = controlled_shutdown_leader(candidates.replicas, state.isr, able, leaving)
    return Outcome(leader, tuple(broker for broker in state.isr if broker not in leaving), able)


Election = Callable[[Candidates, bool], Outcome]

ELECTIONS: dict[Strategy, Election] = {
    Strategy.OFFLINE: elect_offline,
    Strategy.REASSIGN: elect_reassigned,
    Strategy.PREFERRED: elect_preferred,
    Strategy.CONTROLLED_SHUTDOWN: elect_for_shutdown,
}
