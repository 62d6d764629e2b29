"""The four elections, case by case. Source: Kafka's PartitionLeaderElectionAlgorithmsTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.controller.elections import (
    ELECTIONS,
    Candidates,
    Strategy,
    controlled_shutdown_leader,
    offline_leader,
    preferred_leader,
    reassign_leader,
)
from kemu.protocol.nodes import PartitionState


def test_offline_picks_the_live_member_of_the_isr():
    """testOfflinePartitionLeaderElection."""
    assert offline_leader((2, 4), (2, 4), (4,), False) == (4, False)


def test_offline_finds_nobody_when_the_last_in_sync_replica_is_down_and_unclean_is_off():
    """testOfflinePartitionLeaderElectionLastIsrOfflineUncleanLeaderElectionDisabled."""
    assert offline_leader((2, 4), (2,), (4,), False) == (None, False)


def test_offline_takes_an_out_of_sync_replica_when_unclean_is_on():
    """testOfflinePartitionLeaderElectionLastIsrOfflineUncleanLeaderElectionEnabled."""
    assert offline_leader((2, 4), (2,), (4,), True) == (4, True)


def test_offline_prefers_an_in_sync_replica_even_when_unclean_is_on():
    """Unclean is the second choice, whatever the order of the assignment."""
    assert offline_leader((2, 4), (4,), (2, 4), True) == (4, False)


@pytest.mark.parametrize(
    ("target", "isr", "live", "leader"), [((2, 4), (2, 4), (4,), 4), ((2, 4), (2,), (), None), ((2, 4), (), (2,), None)]
)
def test_reassign_picks_the_first_live_in_sync_replica_of_the_target(target, isr, live, leader):
    """testReassignPartitionLeaderElection, ...WithNoLiveIsr, ...WithEmptyIsr."""
    assert reassign_leader(target, isr, live) == leader


@pytest.mark.parametrize(
    ("isr", "live", "leader"),
    [((2, 4), (2, 4), 2), ((2,), (), None), ((4,), (2, 4), None), ((2, 4), (4,), None), ((), (), None)],
)
def test_preferred_is_the_first_assigned_or_nobody(isr, live, leader):
    """testPreferredReplicaPartitionLeaderElection, ...InIsrNotLive, ...NotInIsrLive, ...NotInIsrNotLive."""
    assert preferred_leader((2, 4), isr, live) == leader


@pytest.mark.parametrize(
    ("isr", "live", "leaving", "leader"),
    [((2, 4), (2, 4), (2,), 4), ((2,), (2, 4), (2,), None), ((2, 4), (2, 4), (2, 4), None)],
)
def test_controlled_shutdown_picks_one_that_stays(isr, live, leaving, leader):
    """testControlledShutdownPartitionLeaderElection, ...LastIsrShuttingDown, ...AllIsrSimultaneouslyShutdown."""
    assert controlled_shutdown_leader((2, 4), isr, live, leaving) == leader


brokers = st.lists(st.integers(0, 5), unique=True, min_size=1, max_size=5).map(tuple)


@given(replicas=brokers, extra=st.data(), unclean=st.booleans(), strategy=st.sampled_from(list(ELECTIONS)))
def test_whoever_is_elected_is_assigned_alive_and_in_sync_unless_the_election_was_unclean(
    replicas: tuple[int, ...], extra: st.DataObject, unclean: bool, strategy: Strategy
):
    """For every strategy: the leader is assigned and in the new ISR."""
    some = st.sets(st.sampled_from(replicas)).map(lambda chosen: tuple(sorted(chosen)))
    isr, reachable, leaving = extra.draw(some) or replicas[:1], extra.draw(some), extra.draw(some)
    live = tuple(broker for broker in reachable if broker not in leaving)
    candidates = Candidates(replicas, replicas, PartitionState(isr[0], 3, isr, 1), live, reachable, leaving)

    outcome = ELECTIONS[strategy](candidates, unclean)

    if outcome.leader is not None:
        assert outcome.leader in replicas and outcome.leader in outcome.isr and outcome.leader in live
        assert (outcome.leader in isr) is not outcome.unclean
        assert not outcome.unclean or (unclean and not any(broker in live for broker in isr))
    elif strategy is Strategy.OFFLINE:
        assert not any(broker in live for broker in isr)
