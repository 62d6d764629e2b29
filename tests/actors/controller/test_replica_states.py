"""The replica state machine against a bare store. Source: Kafka's ReplicaStateMachineTest."""

import itertools

import pytest

from kemu.actors.controller.phases import ReplicaPhase
from kemu.actors.controller.transactions import ControllerMoved
from kemu.protocol.messages.control import NO_EPOCH
from kemu.protocol.nodes import CONTROLLER_EPOCH, PartitionState, epoch_data
from kemu.protocol.notes.replication import IsrChanged, StateChangeRefused
from tests.actors.controller.controller_bench import EPOCH, ControllerBench

NON_EXISTENT, NEW, ONLINE, OFFLINE, STARTED, SUCCESSFUL, INELIGIBLE = ReplicaPhase
T0 = ("t", 0)
R1 = ("t", 0, 1)


def _bench(*brokers: int, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1) -> ControllerBench:
    bench = ControllerBench(*brokers)
    bench.topic("t", (1, 2, 3))
    bench.led(T0, leader, isr)
    return bench


def test_startup_tells_online_replicas_who_leads():
    """testStartupOnlinePartition: LeaderAndIsr to each, not new."""
    bench = _bench(1, 2, 3)

    bench.do(bench.controller.replicas.startup())

    assert [bench.context.replica_phase((*T0, broker)) for broker in (1, 2, 3)] == [ONLINE] * 3
    rows = bench.leader_and_isr()
    assert sorted(rows) == [1, 2, 3]
    assert not any(row[T0].is_new for row in rows.values())
    assert bench.state(T0).leader_epoch == 5


def test_startup_takes_dead_replicas_out_of_the_isr():
    """testStartupWithReplicaWithoutLeader, KAFKA-3143: the new controller removes them itself."""
    bench = _bench(1, 2)

    bench.do(bench.controller.replicas.startup())

    assert bench.context.replica_phase(("t", 0, 3)) is OFFLINE
    assert bench.state(T0) == PartitionState(1, 6, (1, 2), EPOCH)
    assert {broker: rows[T0].isr for broker, rows in bench.leader_and_isr().items()} == {1: (1, 2), 2: (1, 2)}


def test_startup_of_a_replica_without_leadership_sends_metadata_only():
    """testStartupWithReplicaWithoutLeader."""
    bench = ControllerBench(1)
    bench.topic("t", (2,))

    bench.do(bench.controller.replicas.startup())

    assert bench.context.replica_phase(("t", 0, 2)) is OFFLINE
    assert bench.leader_and_isr() == {}
    assert [broker for broker, _ in bench.sent] == [1]


def test_a_new_replica_of_a_led_partition_is_told_that_it_is_new():
    """testNonexistentReplicaToNewReplicaTransition with leadership."""
    bench = _bench(1, 2, 3, isr=(2, 3), leader=2)
    bench.context.set_replica_phase(R1, NON_EXISTENT)

    bench.do(bench.controller.replicas.move([R1], NEW))

    assert bench.context.replica_phase(R1) is NEW
    rows = bench.leader_and_isr()
    assert sorted(rows) == [1]
    assert rows[1][T0].is_new


def test_the_leader_cannot_become_a_new_replica():
    """ZkReplicaStateMachine.doHandleStateChanges: the leader's replica cannot become new."""
    bench = _bench(1, 2, 3)
    bench.context.set_replica_phase(R1, NON_EXISTENT)

    bench.do(bench.controller.replicas.move([R1], NEW))

    assert bench.context.replica_phase(R1) is NON_EXISTENT
    assert bench.sent == []


def test_a_new_replica_comes_online_and_into_the_assignment():
    """testNewReplicaToOnlineReplicaTransition: added if absent, nothing sent."""
    bench = _bench(1, 2, 3, 4)
    bench.context.set_replica_phase(("t", 0, 4), NEW)

    bench.do(bench.controller.replicas.move([("t", 0, 4)], ONLINE))

    assert bench.context.replicas(T0) == (1, 2, 3, 4)
    assert bench.sent == []


def test_an_online_replica_goes_offline():
    """testOnlineReplicaToOfflineReplicaTransition: removed from the ISR, StopReplica, LeaderAndIsr to the others."""
    bench = _bench(1, 2, 3, isr=(1, 2, 3), leader=2)

    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.context.replica_phase(R1) is OFFLINE
    assert bench.state(T0) == PartitionState(2, 6, (2, 3), EPOCH)
    stops = bench.stops()
    assert sorted(stops) == [1]
    assert not stops[1][T0].delete_partition
    assert stops[1][T0].leader_epoch == 5, "taken from the books before the ISR changes"
    assert sorted(bench.leader_and_isr()) == [2, 3], "to all remaining replicas (KAFKA-1188)"


def test_a_leader_that_goes_offline_leaves_the_partition_without_one():
    """ZkReplicaStateMachine.doRemoveReplicasFromIsr: leader -1 if the replica was the leader."""
    bench = _bench(1, 2, 3)

    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.state(T0) == PartitionState(-1, 6, (2, 3), EPOCH)
    (note,) = bench.notes(IsrChanged)
    assert (note.leader, note.isr) == (-1, (2, 3))


def test_the_last_member_stays_in_the_isr():
    """A one-member ISR is kept; leader -1, leader epoch + 1."""
    bench = _bench(1, 2, 3, isr=(1,))

    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.state(T0) == PartitionState(-1, 6, (1,), EPOCH)


def test_a_replica_outside_the_isr_goes_offline_without_a_write_yet_its_peers_are_told():
    """Nothing is written and the leader epoch does not change, yet LeaderAndIsr is sent."""
    bench = _bench(1, 2, 3, isr=(2, 3), leader=2)

    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.state(T0) == PartitionState(2, 5, (2, 3), EPOCH)
    assert {broker: rows[T0].leader_epoch for broker, rows in bench.leader_and_isr().items()} == {2: 5, 3: 5}


def test_a_replica_of_a_topic_being_deleted_goes_offline_quietly():
    """No LeaderAndIsr to the others; the StopReplica has the epoch of deletions."""
    bench = _bench(1, 2, 3)
    bench.context.queue_for_deletion("t")

    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.leader_and_isr() == {}
    assert bench.stops()[1][T0].leader_epoch == -2


def test_an_isr_change_of_the_leader_in_between_is_not_overwritten():
    """The removal retries on BADVERSION with the newly read state."""
    bench = _bench(1, 2, 3, isr=(1, 2, 3), leader=2)
    flights = iter(range(10))

    def leader_shrinks() -> None:
        if next(flights) == 1:
            bench.write_state(T0, PartitionState(2, 5, (1, 2), EPOCH))

    bench.before_write = leader_shrinks
    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.state(T0) == PartitionState(2, 6, (2,), EPOCH)


def test_a_replica_is_deleted_in_three_moves():
    """testOfflineReplicaToReplicaDeletionStarted..., ...StartedToSuccessful, ...SuccessfulToNonexistent."""
    bench = _bench(1, 2, 3, isr=(2, 3), leader=2)
    bench.context.set_replica_phase(R1, OFFLINE)

    bench.do(bench.controller.replicas.move([R1], STARTED))
    stop = bench.stops()[1][T0]
    bench.do(bench.controller.replicas.move([R1], SUCCESSFUL))
    bench.do(bench.controller.replicas.move([R1], NON_EXISTENT))

    assert stop.delete_partition
    assert bench.context.replica_phase(R1) is NON_EXISTENT
    assert bench.context.replicas(T0) == (2, 3)


def test_a_failed_deletion_may_be_brought_online_again():
    """testReplicaDeletionStartedToReplicaDeletionIneligibleTransition, ...IneligibleToOnline."""
    bench = _bench(1, 2, 3, isr=(2, 3), leader=2)
    bench.context.set_replica_phase(R1, STARTED)

    bench.do(bench.controller.replicas.move([R1], INELIGIBLE))
    bench.do(bench.controller.replicas.move([R1], ONLINE))

    assert bench.context.replica_phase(R1) is ONLINE
    assert sorted(bench.leader_and_isr()) == [1]


def test_a_replica_without_leadership_is_stopped_with_no_epoch():
    """The leader epoch of the known leadership, -1 without one."""
    bench = ControllerBench(1, 2)
    bench.topic("t", (1, 2))
    bench.context.set_replica_phase(R1, ONLINE)

    bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.stops()[1][T0].leader_epoch == NO_EPOCH


def test_a_refused_fence_ends_the_move():
    """KAFKA-6082."""
    bench = _bench(1, 2, 3)
    bench.tree.make(CONTROLLER_EPOCH, epoch_data(EPOCH + 1))

    with pytest.raises(ControllerMoved):
        bench.do(bench.controller.replicas.move([R1], OFFLINE))

    assert bench.state(T0) == PartitionState(1, 5, (1, 2, 3), EPOCH)
    assert bench.sent == []


VALID = {
    (NON_EXISTENT, NEW),
    *[(old, ONLINE) for old in (NEW, ONLINE, OFFLINE, INELIGIBLE)],
    *[(old, OFFLINE) for old in (NEW, ONLINE, OFFLINE, INELIGIBLE)],
    (OFFLINE, STARTED),
    (STARTED, SUCCESSFUL),
    (OFFLINE, INELIGIBLE),
    (STARTED, INELIGIBLE),
    (SUCCESSFUL, NON_EXISTENT),
}
"""The allowed transitions; the other 35 are refused."""


@pytest.mark.parametrize(("old", "new"), list(itertools.product(ReplicaPhase, ReplicaPhase)))
def test_the_table_of_moves_is_kept(old: ReplicaPhase, new: ReplicaPhase):
    """testInvalid...Transition, all of them, including testInvalidReplicaDeletionStartedToOffline..."""
    bench = _bench(1, 2, 3, isr=(2, 3), leader=2)
    bench.context.set_replica_phase(R1, old)

    bench.do(bench.controller.replicas.move([R1], new))

    allowed = (old, new) in VALID
    assert bench.context.replica_phase(R1) is (new if allowed else old)
    assert bool(bench.notes(StateChangeRefused)) is not allowed
    if not allowed:
        assert bench.sent == [] and bench.state(T0).leader_epoch == 5
