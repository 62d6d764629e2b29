"""The partition state machine against a bare store. Source: Kafka's PartitionStateMachineTest."""

import itertools

import pytest

from kemu.actors.controller.batch import BatchNotEmpty
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.phases import PartitionPhase
from kemu.actors.controller.transactions import ControllerMoved, delete
from kemu.protocol.messages.store import StoreCode, StoreOpKind
from kemu.protocol.nodes import CONTROLLER_EPOCH, PartitionState, config_data, epoch_data, topic_config_path
from kemu.protocol.notes.replication import LeaderElectedForPartition, StateChangeRefused
from tests.actors.controller.controller_bench import EPOCH, ControllerBench

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionPhase
T0 = ("t", 0)


def _new(*brokers: int, replicas: tuple[int, ...] = (1, 2)) -> ControllerBench:
    bench = ControllerBench(*brokers)
    bench.topic("t", replicas)
    bench.do(bench.controller.partitions.move([T0], NEW))
    return bench


def _offline(*brokers: int, isr: tuple[int, ...] = (1, 2), replicas: tuple[int, ...] = (1, 2)) -> ControllerBench:
    bench = ControllerBench(*brokers)
    bench.topic("t", replicas)
    bench.led(T0, 1, isr)
    bench.do(bench.controller.partitions.move([T0], OFFLINE))
    return bench


def test_a_nonexistent_partition_becomes_new_without_a_word_to_anybody():
    """testNonexistentPartitionToNewPartitionTransition."""
    bench = _new(1, 2)

    assert bench.context.phase(T0) is NEW
    assert bench.sent == []


def test_a_nonexistent_partition_cannot_become_online():
    """testInvalidNonexistentPartitionToOnlinePartitionTransition."""
    bench = ControllerBench(1, 2)
    bench.topic("t", (1, 2))

    failed = bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is NON_EXISTENT
    assert failed == {T0: "no such move"}


def test_a_new_partition_gets_its_first_state_and_its_isr_is_told_that_it_is_new():
    """testNewPartitionToOnlinePartitionTransition; leader epoch 0, zkVersion 0."""
    bench = _new(1, 2)

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is ONLINE
    assert bench.state(T0) == PartitionState(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=EPOCH)
    rows = {broker: row[T0] for broker, row in bench.leader_and_isr().items()}
    assert sorted(rows) == [1, 2]
    assert all(row.is_new and row.zk_version == 0 and row.leader_epoch == 0 for row in rows.values())
    assert sorted(bench.metadata()) == [1, 2]


def test_a_new_partitions_isr_is_its_live_replicas_and_dead_ones_are_told_nothing():
    """topicCreationWithOfflineReplica: leader = the live one, leader epoch 0."""
    bench = _new(2, 3)

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.state(T0) == PartitionState(2, 0, (2,), EPOCH)
    assert sorted(bench.leader_and_isr()) == [2]


def test_a_new_partition_without_a_live_replica_stays_new():
    """ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions."""
    bench = _new(3)

    failed = bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is NEW
    assert failed == {T0: "no replica lives"}
    assert bench.sent == []


def test_a_new_partition_stays_new_when_its_state_cannot_be_created():
    """testNewPartitionToOnlinePartitionTransitionErrorCodeFromCreateStates: NodeExists."""
    bench = _new(1, 2)
    bench.write_state(T0, PartitionState(2, 7, (2,), 1))

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is NEW
    assert bench.state(T0).leader_epoch == 7
    assert bench.sent == []


def test_a_refused_fence_ends_the_move_and_nothing_is_sent():
    """testNewPartitionToOnlinePartitionTransitionZooKeeperClientExceptionFromCreateStates; KAFKA-6082."""
    bench = _new(1, 2)
    bench.tree.make(CONTROLLER_EPOCH, epoch_data(EPOCH + 1))

    with pytest.raises(ControllerMoved):
        bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is NEW
    assert "/brokers/topics/t/partitions" not in bench.tree.nodes
    assert bench.sent == []


def test_an_online_partition_is_led_by_another_when_its_leader_shuts_down():
    """testOnlinePartitionToOnlineTransitionForControlledShutdown."""
    bench = ControllerBench(1, 2)
    bench.topic("t", (1, 2))
    bench.led(T0, 1, (1, 2))
    bench.context.shutting_down[1] = None

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.CONTROLLED_SHUTDOWN))

    assert bench.state(T0) == PartitionState(2, 6, (2,), EPOCH)
    rows = bench.leader_and_isr()
    assert sorted(rows) == [1, 2], "the one that leaves hears it, too"
    assert not rows[2][T0].is_new


def test_an_online_partition_returns_to_its_preferred_leader():
    """testOnlinePartitionToOnlineTransition: all assigned replicas are informed, the ISR stays."""
    bench = ControllerBench(1, 2)
    bench.topic("t", (1, 2), (1, 2))
    bench.led(T0, 2, (2, 1))
    bench.led(("t", 1), 2, (2,))

    failed = bench.do(bench.controller.partitions.move([T0, ("t", 1)], ONLINE, Strategy.PREFERRED))

    assert bench.state(T0) == PartitionState(1, 6, (2, 1), EPOCH)
    assert {broker: list(rows) for broker, rows in bench.leader_and_isr().items()} == {1: [T0], 2: [T0]}
    assert failed == {("t", 1): "preferred election found nobody"}
    assert bench.context.phase(("t", 1)) is ONLINE and bench.state(("t", 1)).leader_epoch == 5


def test_an_offline_partition_is_led_by_a_live_member_of_the_isr():
    """testOfflinePartitionToOnlinePartitionTransition; leader epoch + 1, failed members leave the ISR."""
    bench = _offline(2)

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is ONLINE
    assert bench.state(T0) == PartitionState(2, 6, (2,), EPOCH)


@pytest.mark.parametrize(
    ("default", "own", "elected"),
    [("false", None, False), ("true", None, True), ("false", "true", True), ("true", "false", False)],
)
def test_an_out_of_sync_replica_leads_only_where_unclean_elections_are_allowed(default, own, elected):
    """UncleanLeaderElectionTest: enabled and disabled, by default and by the topic's own setting."""
    bench = _offline(2, isr=(1,))
    object.__setattr__(bench.controller.config, "unclean_leader_election_enable", default == "true")
    if own is not None:
        bench.tree.make(topic_config_path("t"), config_data([("unclean.leader.election.enable", own)]))

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is (ONLINE if elected else OFFLINE)
    assert bench.state(T0) == (PartitionState(2, 6, (2,), EPOCH) if elected else PartitionState(1, 5, (1,), EPOCH))
    assert bench.context.unclean_elections == int(elected)
    assert [note.unclean for note in bench.notes(LeaderElectedForPartition)] == [True] * elected


def test_an_admins_unclean_election_needs_no_setting():
    """testOfflinePartitionToUncleanOnlinePartitionTransition (admin triggered, KIP-460)."""
    bench = _offline(2, isr=(1,))

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE, allow_unclean=True))

    assert bench.state(T0) == PartitionState(2, 6, (2,), EPOCH)


def test_an_offline_partition_without_a_state_stays_offline():
    """testOfflinePartitionToOnlinePartitionTransitionErrorCodeFromStateLookup."""
    bench = _offline(2)
    bench.fail = lambda transaction: (
        StoreCode.NO_NODE if transaction.ops[0].kind is StoreOpKind.GET_DATA else StoreCode.OK
    )

    failed = bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.context.phase(T0) is OFFLINE
    assert failed == {T0: "it has no state node"}


def test_an_election_is_held_again_when_the_leader_changed_the_isr_meanwhile():
    """ZkPartitionStateMachine.doElectLeaderForPartitions: elections retry on BADVERSION, reading again each time."""
    bench = _offline(1, 2, isr=(1, 2))
    flights = iter(range(10))

    def leader_shrinks() -> None:
        if next(flights) == 1:  # between the election's read and its write
            bench.write_state(T0, PartitionState(1, 5, (1,), EPOCH))

    bench.before_write = leader_shrinks
    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.state(T0) == PartitionState(1, 6, (1,), EPOCH)


def test_a_state_written_under_a_later_controller_epoch_is_left_alone():
    """A stored controller epoch above the own one: the change is dropped, without a retry."""
    bench = _offline(2)
    bench.write_state(T0, PartitionState(1, 9, (1, 2), EPOCH + 1))

    bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert bench.state(T0).leader_epoch == 9
    assert bench.context.phase(T0) is OFFLINE
    assert bench.sent == []


VALID = {
    (NON_EXISTENT, NEW),
    (NEW, ONLINE),
    (ONLINE, ONLINE),
    (OFFLINE, ONLINE),
    (NEW, OFFLINE),
    (ONLINE, OFFLINE),
    (OFFLINE, OFFLINE),
    (OFFLINE, NON_EXISTENT),
}
"""The allowed transitions; the other eight are refused."""


@pytest.mark.parametrize(("old", "new"), list(itertools.product(PartitionPhase, PartitionPhase)))
def test_the_table_of_moves_is_kept(old: PartitionPhase, new: PartitionPhase):
    """testInvalid...Transition, all of them: a transition that the table lacks is noted and refused."""
    bench = ControllerBench(1, 2)
    bench.topic("t", (1, 2))
    if old is not NON_EXISTENT:
        bench.led(T0, 1, (1, 2))
    if old is NEW:
        del bench.context.leadership[T0]
        bench.tree.write(0, (delete("/brokers/topics/t/partitions/0/state"),))
    bench.context.set_phase(T0, old)

    bench.do(bench.controller.partitions.move([T0], new, Strategy.OFFLINE if new is ONLINE else None))

    allowed = (old, new) in VALID
    assert bench.context.phase(T0) is (new if allowed else old)
    assert bool(bench.notes(StateChangeRefused)) is not allowed


def test_partitions_offline_are_counted_and_those_of_deleted_topics_are_not():
    """testUpdatingOfflinePartitionsCount, ...DuringTopicDeletion, ...KeepsAccountOfDeletion."""
    bench = ControllerBench(1, 2)
    bench.topic("t", *[(1, 2)] * 4)
    bench.topic("u", (1, 2))
    partitions = [("t", number) for number in range(4)]
    for at in [*partitions, ("u", 0)]:
        bench.led(at, 1, (1, 2))

    bench.do(bench.controller.partitions.move([*partitions, ("u", 0)], OFFLINE))
    assert bench.context.offline_partitions == 5
    bench.context.queue_for_deletion("t")
    assert bench.context.offline_partitions == 1
    bench.do(bench.controller.partitions.move(partitions, NON_EXISTENT))
    assert bench.context.offline_partitions == 1
    bench.do(bench.controller.partitions.move([("u", 0)], ONLINE, Strategy.OFFLINE))
    assert bench.context.offline_partitions == 0


def test_a_move_over_a_batch_that_was_not_sent_does_nothing():
    """The state machine only logs this (a half-sent batch then breaks the next call)."""
    bench = _offline(2)
    bench.controller.batch.begin()
    bench.controller.batch.add_stop_replica((2,), T0, delete=False)

    failed = bench.do(bench.controller.partitions.move([T0], ONLINE, Strategy.OFFLINE))

    assert failed == {T0: "a batch is open"}
    assert bench.context.phase(T0) is OFFLINE
    with pytest.raises(BatchNotEmpty):
        bench.controller.batch.begin()
