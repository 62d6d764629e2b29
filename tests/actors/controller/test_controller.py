"""The controller with a store and obedient brokers: elections and broker changes. Source: ControllerIntegrationTest."""

import pytest
from attrs import evolve

from kemu.actors.controller.rules import RULES, ControllerRules, no_fence
from kemu.emulator.past_bugs.applying import controller_rules
from kemu.protocol.commands import ExpireSession, FailLogDir, FreezeSession, LoseStoreAnswer, RemoveNode
from kemu.protocol.config import ControllerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import ControlledShutdown, ElectLeaders, LeaderAndIsr, StopReplica, UpdateMetadata
from kemu.protocol.messages.local import LeaveStore
from kemu.protocol.nodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    ISR_CHANGE_PREFIX,
    ISR_CHANGES,
    LOG_DIR_EVENT_PREFIX,
    PREFERRED_ELECTION,
    PartitionState,
    partitions_data,
    read_controller,
    state_data,
    state_path,
)
from kemu.protocol.notes.replication import (
    BecameController,
    BrokerRegistered,
    BrokersChanged,
    ControllerReady,
    ControllerResigned,
    ControllerWriteRefused,
)
from tests.actors.controller.control_world import CONFIG, ControlWorld

SESSION_MS = CONFIG.zookeeper_session_timeout_ms
T = {"t": ((0, 1, 2), (1, 2, 0), (2, 0, 1))}


def _controls(world: ControlWorld) -> int:
    data = world.node(CONTROLLER)
    return -1 if data is None else read_controller(data)


# --- the office ----------------------------------------------------------------------------------------------------


def test_the_first_broker_is_elected_with_epoch_one():
    """testEmptyCluster: the first election writes 1."""
    world = ControlWorld(3)

    assert _controls(world) == 0
    assert world.node(CONTROLLER_EPOCH) == b"1"
    assert [part.active_id for part in map(world.part, world.ids)] == [0, 0, 0]
    assert [fact.controller_epoch for fact in world.facts(BecameController)] == [1]


def test_the_epoch_survives_the_death_of_all_brokers():
    """testControllerEpochPersistsWhenAllBrokersDown."""
    world = ControlWorld(1)
    world.kill(0)
    world.run(SESSION_MS + 1_000)
    assert _controls(world) == -1
    assert world.node(CONTROLLER_EPOCH) == b"1"

    world.revive(0)
    world.run(1_000)

    assert _controls(world) == 0
    assert world.node(CONTROLLER_EPOCH) == b"2"


def test_another_broker_takes_over_and_the_epoch_rises():
    """testControllerMoveIncrementsControllerEpoch; the takeover comes when the session expires, not before."""
    world = ControlWorld(3, T)
    world.kill(0)
    world.run(SESSION_MS - 2_500)
    assert _controls(world) == 0

    world.run(3_500)

    assert _controls(world) in (1, 2)
    assert world.node(CONTROLLER_EPOCH) == b"2"
    assert world.active.context.epoch == 2
    (ready,) = [fact for fact in world.facts(ControllerReady) if fact.controller_epoch == 2]
    assert (ready.topics, ready.partitions) == (1, 3)


def test_a_controller_whose_node_is_removed_resigns_and_an_election_follows():
    """Operators remove /controller to move the controllership: exactly one controller, a new epoch."""
    world = ControlWorld(3, T)

    world.tell("zk", RemoveNode(path=CONTROLLER))
    world.run(1_000)

    assert world.node(CONTROLLER_EPOCH) == b"2"
    assert _controls(world) == world.active.broker_id
    assert [fact.controller_epoch for fact in world.facts(ControllerResigned)] == [1]


def test_an_office_vacated_before_anybody_watched_it_again_stays_vacant_until_somebody_starts():
    """A gap of Kafka's own, found by ``test_control_any_order``: operators remove /controller twice.

    The first removal's election uses up all watches (the node was created). A broker that checks then sets a new watch
    and finds no controller, but does not stand for election. Only a watch event of a removal makes it do so.
    """
    world = ControlWorld(3, T)
    world.tell("zk", RemoveNode(path=CONTROLLER))
    world.run(10)
    world.tell("zk", RemoveNode(path=CONTROLLER))
    world.run(20_000)

    assert _controls(world) == -1
    assert [world.part(broker).active_id for broker in world.ids] == [-1, -1, -1]
    assert [fact.controller_epoch for fact in world.facts(ControllerResigned)] == [1, 2]

    world.kill(2)
    world.revive(2)
    world.run(2 * SESSION_MS)

    assert _controls(world) == world.active.broker_id == 2
    assert world.active.context.epoch == 3
    assert sorted(world.active.context.live) == [0, 1, 2]


def test_a_restarted_broker_waits_until_its_former_lifes_session_is_over():
    """KafkaZkClient.CheckedEphemeral: another session's registration is not taken over."""
    world = ControlWorld(2)
    world.kill(1)
    world.run(500)
    world.revive(1)
    world.run(1_000)
    assert len(world.facts(BrokerRegistered, "b1/controller")) == 1

    world.run(SESSION_MS + 2_000)

    first, second = world.facts(BrokerRegistered, "b1/controller")
    assert second.broker_epoch > first.broker_epoch
    assert world.broker(1).broker_epoch == second.broker_epoch


def test_a_process_that_ends_cleanly_leaves_at_once():
    """KafkaServer.shutdown: resign, close the session; the next controller need not wait."""
    world = ControlWorld(3, T)

    answer = world.ask(LeaveStore(), 0, sender=0, to=0)
    world.run(500)

    assert answer.code.name == "OK"
    assert _controls(world) in (1, 2)
    assert [fact.why for fact in world.facts(ControllerResigned)] == ["the process ends"]
    assert sorted(world.active.context.live) == [1, 2]


def test_the_winner_of_a_lost_answer_notices_that_it_won():
    """/controller has the own id and the epoch is one higher: the lost answer was the broker's own."""
    world = ControlWorld(0)
    world.add_broker(0)
    # OpenSession's creates, the registration, three reads, then the election.
    world.tell("zk", LoseStoreAnswer(client="b0/controller", nth=_flights_until_election()))
    world.run(SESSION_MS)

    assert "StoreFaultHit" in [type(fact).__name__ for _, fact in world.notes]
    assert [fact.controller_epoch for fact in world.facts(BecameController)] == [1]
    assert world.part(0).is_active and _controls(world) == 0


def _flights_until_election() -> int:
    """The number of operation requests of a first start, up to and with the election."""
    world = ControlWorld(1)
    flights = 0
    for name, send in world.sent:
        if name == "b0/controller" and type(send.message).__name__ == "StoreOps":
            flights += 1
            if any(op.path == CONTROLLER and op.kind == 1 for each in send.message.transactions for op in each.ops):
                return flights
    raise AssertionError("no election")


# --- brokers -------------------------------------------------------------------------------------------------------


def test_every_broker_learns_of_leaders_and_of_who_lives():
    """testMetadataPropagationOnBrokerChange, ...OnControlPlane: caches equal the store."""
    world = ControlWorld(3, T)

    for broker in map(world.broker, world.ids):
        assert broker.live == (0, 1, 2)
        assert {at: (row.leader, row.isr) for at, row in broker.metadata.items()} == {
            ("t", 0): (0, (0, 1, 2)),
            ("t", 1): (1, (1, 2, 0)),
            ("t", 2): (2, (2, 0, 1)),
        }
        assert sorted(broker.hosted) == [("t", 0), ("t", 1), ("t", 2)]


def test_a_broker_that_starts_learns_everything_before_it_is_told_whom_to_follow():
    """KAFKA-4443: UpdateMetadata with all partitions, then one LeaderAndIsr with all hosted ones."""
    world = ControlWorld(3, T)
    world.kill(2)
    world.run(SESSION_MS + 1_000)
    world.revive(2)
    world.run(1_000)

    first, second = world.broker(2).heard[:2]

    assert isinstance(first, UpdateMetadata) and len(first.partition_states) == 3
    assert isinstance(second, LeaderAndIsr) and len(second.partition_states) == 3
    assert not any(row.is_new for row in second.partition_states)


def test_a_dead_brokers_partitions_are_led_by_others_and_it_leaves_the_isrs():
    """KafkaController.onBrokerFailure: elect leaders, then remove the broker from the ISRs."""
    world = ControlWorld(3, T)

    world.kill(2)
    world.run(SESSION_MS + 1_000)

    assert world.state("t", 0) == PartitionState(0, 1, (0, 1), 1)
    assert world.state("t", 2) == PartitionState(0, 1, (0, 1), 1)
    assert [(fact.new, fact.dead, fact.bounced) for fact in world.facts(BrokersChanged)][-1] == ((), (2,), ())
    rows = world.broker(1).metadata.values()
    assert all(row.offline_replicas == (2,) for row in rows)


def test_the_only_replicas_death_leaves_no_leader_and_keeps_the_isr():
    """testLeaderAndIsrWhenEntireIsrOfflineAndUncleanLeaderElectionDisabled: leader -1, ISR kept, leader epoch 1."""
    world = ControlWorld(2, {"t": ((1,),)})

    world.kill(1)
    world.run(SESSION_MS + 1_000)
    assert world.state("t") == PartitionState(-1, 1, (1,), 1)

    world.revive(1)
    world.run(1_000)
    assert world.state("t") == PartitionState(1, 2, (1,), 1)


def test_the_only_replicas_death_with_unclean_on_is_the_same():
    """testLeaderAndIsrWhenEntireIsrOfflineAndUncleanLeaderElectionEnabled: no other broker has the partition."""
    world = ControlWorld(2, {"t": ((1,),)}, settings={"t": {"unclean.leader.election.enable": "true"}})

    world.kill(1)
    world.run(SESSION_MS + 1_000)

    assert world.state("t") == PartitionState(-1, 1, (1,), 1)


def test_a_bounced_broker_is_treated_as_failed_and_started():
    """testControllerDetectsBouncedBrokers (KIP-380): both happen although the set of ids never changed."""
    world = ControlWorld(3, T)
    epoch = world.broker(2).broker_epoch
    # The controller is kept from looking: its own session is frozen while broker 2 goes and comes back.
    world.tell("zk", FreezeSession(client="b0/controller", for_us=3_000_000))
    world.tell("zk", ExpireSession(client="b2/controller"))
    world.run(2_500)
    assert world.broker(2).broker_epoch > epoch, "it registered again"
    world.run(3_000)

    assert world.facts(BrokersChanged)[-1].bounced == (2,)
    assert world.active.context.live[2].epoch == world.broker(2).broker_epoch
    assert world.state("t", 2).leader == 0, "it lost the leadership"
    last = [request for request in world.broker(2).heard if isinstance(request, LeaderAndIsr)][-1]
    assert last.broker_epoch == world.broker(2).broker_epoch


def test_a_bounce_that_is_not_noticed_leaves_the_controller_with_the_old_epoch():
    """KAFKA-7235 without its fix: no BrokersChanged, no request to the restarted broker."""
    world = ControlWorld(3, T, rules=controller_rules(RULES, ["KAFKA-7235"]))
    noticed = len(world.facts(BrokersChanged))
    world.tell("zk", FreezeSession(client="b0/controller", for_us=3_000_000))
    world.tell("zk", ExpireSession(client="b2/controller"))
    world.run(5_500)

    assert len(world.facts(BrokersChanged)) == noticed
    assert world.active.context.live[2].epoch < world.broker(2).broker_epoch


def test_offline_directories_take_replicas_out():
    """LeaderAndIsr answered with KAFKA_STORAGE_ERROR: the replica is offline, another leads."""
    world = ControlWorld(3)
    world.broker(1).disobey = lambda at, request: (
        ErrorCode.KAFKA_STORAGE_ERROR if isinstance(request, LeaderAndIsr) else ErrorCode.NONE
    )

    world.put_topic("t", (1, 2))
    world.run(500)

    assert world.state("t") == PartitionState(2, 1, (2,), 1)


def test_a_broker_that_lost_a_log_directory_is_asked_about_all_of_its_replicas():
    """onBrokerLogDirFailure: refused replicas are offline, others lead them; the other replicas are unchanged."""
    world = ControlWorld(3, {"t": ((1, 2),), "u": ((1, 2),)})
    world.broker(1).disobey = lambda at, request: (
        ErrorCode.KAFKA_STORAGE_ERROR if isinstance(request, LeaderAndIsr) and at[0] == "t" else ErrorCode.NONE
    )

    world.tell("b1/controller", FailLogDir(log_dir=0))
    world.run(500)

    assert world.state("t") == PartitionState(2, 1, (2,), 1)
    assert world.state("u") == PartitionState(1, 0, (1, 2), 1)
    assert world.active.context.offline_dirs[1] == {("t", 0): None}
    left = [path for path in world.zk.tree.nodes if path.startswith(LOG_DIR_EVENT_PREFIX)]
    assert left == []


def test_a_new_controller_hears_of_failed_log_directories_from_the_brokers():
    """onControllerFailover deletes announcements; the failed replicas are not stored, and are requested again."""
    world = ControlWorld(3, {"t": ((1, 2),)})
    world.broker(1).disobey = lambda at, request: (
        ErrorCode.KAFKA_STORAGE_ERROR if isinstance(request, LeaderAndIsr) else ErrorCode.NONE
    )
    world.crash(world.active.name)
    world.tell("b1/controller", FailLogDir(log_dir=0))
    world.run(15_000)

    assert world.state("t").leader == 2
    assert world.state("t").isr == (2,)
    assert [path for path in world.zk.tree.nodes if path.startswith(LOG_DIR_EVENT_PREFIX)] == []


# --- controlled shutdown -------------------------------------------------------------------------------------------


def _shut_down(world: ControlWorld, broker: int, epoch: int | None = None) -> tuple[ErrorCode, int]:
    told = world.broker(broker).broker_epoch if epoch is None else epoch
    reply = world.ask(ControlledShutdown(broker_id=broker, broker_epoch=told), 3, sender=broker)
    return reply.error_code, len(reply.remaining_partitions)


def test_controlled_shutdown():
    """testControlledShutdown: (0,1,2), stop 2, 1, 0 -> leader 0 stays; the last call returns 1 remaining."""
    world = ControlWorld(3, {"t": ((0, 1, 2),)})

    assert _shut_down(world, 2) == (ErrorCode.NONE, 0)
    assert world.state("t") == PartitionState(0, 1, (0, 1), 1)
    assert _shut_down(world, 1) == (ErrorCode.NONE, 0)
    assert world.state("t") == PartitionState(0, 2, (0,), 1)
    assert _shut_down(world, 0) == (ErrorCode.NONE, 1)
    assert world.state("t").leader == 0


def test_a_leader_that_shuts_down_is_followed_by_one_that_stays():
    """The broker stops fetching before it leaves the ISR; the new leader's ISR is without it."""
    world = ControlWorld(3, T)

    assert _shut_down(world, 1) == (ErrorCode.NONE, 0)

    assert [world.state("t", number).leader for number in range(3)] == [0, 2, 2]
    assert all(1 not in world.state("t", number).isr for number in range(3))
    assert [type(request) for request in world.broker(1).heard][-1] is StopReplica


def test_a_controlled_shutdown_of_a_former_life_is_refused():
    """testRejectControlledShutdownRequestWithStaleBrokerEpoch (KIP-380)."""
    world = ControlWorld(3, T)

    assert _shut_down(world, 2, epoch=world.broker(2).broker_epoch - 1) == (ErrorCode.STALE_BROKER_EPOCH, 0)
    assert world.active.context.shutting_down == {}
    assert world.state("t", 2).leader == 2


def test_only_the_controller_answers_a_controlled_shutdown_and_only_of_live_brokers():
    """NOT_CONTROLLER from the others; BROKER_NOT_AVAILABLE for an unknown broker."""
    world = ControlWorld(2)

    assert world.ask(ControlledShutdown(broker_id=1), 3, sender=1, to=1).error_code is ErrorCode.NOT_CONTROLLER
    assert world.ask(ControlledShutdown(broker_id=7), 3).error_code is ErrorCode.BROKER_NOT_AVAILABLE


# --- preferred leaders ---------------------------------------------------------------------------------------------


def _led_by_others(rules: ControllerRules = RULES) -> ControlWorld:
    """0 leads t-0 (1, 0), because 1 was down; 1 is up and in the ISR again."""
    world = ControlWorld(2, {"t": ((1, 0),)}, rules=rules)
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.revive(1)
    world.run(1_000)
    state = world.state("t")
    assert state.leader == 0
    _leader_writes_isr(world, PartitionState(0, state.leader_epoch, (0, 1), state.controller_epoch))
    return world


def _leader_writes_isr(world: ControlWorld, state: PartitionState) -> None:
    world.put(state_path("t", 0), state_data(state))
    world.put(f"{ISR_CHANGE_PREFIX}0000000000", partitions_data([("t", 0)]))
    world.run(200)


def test_an_isr_change_is_read_told_to_all_and_its_notice_removed():
    """KafkaController.processIsrChangeNotification."""
    world = _led_by_others()

    assert world.active.context.leadership["t", 0].state.isr == (0, 1)
    assert world.broker(1).metadata["t", 0].isr == (0, 1)
    assert [path for path in world.zk.tree.nodes if path.startswith(f"{ISR_CHANGES}/")] == []


def test_a_tool_asks_for_preferred_elections_again_and_again():
    """testBackToBackPreferredReplicaLeaderElections: each works, the node is deleted each time; leader epoch + 1."""
    world = _led_by_others()
    epoch = world.state("t").leader_epoch

    world.put(PREFERRED_ELECTION, partitions_data([("t", 0)]))
    world.run(300)
    assert world.state("t") == PartitionState(1, epoch + 1, (0, 1), 1)
    assert world.node(PREFERRED_ELECTION) is None

    world.put(PREFERRED_ELECTION, partitions_data([("t", 0)]))
    world.run(300)
    assert world.node(PREFERRED_ELECTION) is None
    assert world.state("t").leader == 1


def test_a_preferred_election_with_the_preferred_replica_offline_changes_nothing():
    """testPreferredReplicaLeaderElectionWithOfflinePreferredReplica."""
    world = ControlWorld(2, {"t": ((1, 0),)})
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    before = world.state("t")

    world.put(PREFERRED_ELECTION, partitions_data([("t", 0)]))
    world.run(300)

    assert world.state("t") == before
    assert world.node(PREFERRED_ELECTION) is None


def _led_by_its_second_replica(config: ControllerConfig = CONFIG, rules: ControllerRules = RULES) -> ControlWorld:
    """b1 was down: b0 leads t, whose preferred replica is b1; both are in sync."""
    world = ControlWorld(2, {"t": ((1, 0),)}, config=config, rules=rules)
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.revive(1)
    world.run(300)
    state = world.state("t")
    _leader_writes_isr(world, PartitionState(0, state.leader_epoch, (0, 1), state.controller_epoch))
    return world


def test_a_preferred_election_elects_where_another_leads_and_nowhere_else():
    """The tool's node: a partition led by its preferred replica keeps its epoch. Source: Kafka 2.8."""
    world = _led_by_its_second_replica()
    epoch = world.state("t").leader_epoch
    for _ in range(2):
        world.put(PREFERRED_ELECTION, partitions_data([("t", 0)]))
        world.run(300)

        assert (world.state("t").leader, world.state("t").leader_epoch) == (1, epoch + 1)
        assert world.node(PREFERRED_ELECTION) is None


def test_leadership_returns_to_preferred_replicas_by_itself():
    """testAutoPreferredReplicaLeaderElection: at the next check, when more than 10 percent are led by others."""
    world = _led_by_its_second_replica(
        ControllerConfig(zookeeper_session_timeout_ms=6_000, leader_imbalance_check_interval_seconds=10)
    )
    assert world.active.topics.imbalance() == 1

    world.run(10_000)

    assert world.state("t").leader == 1
    assert world.active.topics.imbalance() == 0


@pytest.mark.parametrize(("balances", "leader"), [(True, 1), (False, 0)])
def test_leadership_returns_while_partitions_are_reassigned_since_3_4(balances: bool, leader: int):
    """KAFKA-10149: ``checkAndTriggerAutoLeaderRebalance`` asked ``partitionsBeingReassigned.isEmpty`` to 3.3.2."""
    world = _led_by_its_second_replica(
        ControllerConfig(zookeeper_session_timeout_ms=6_000, leader_imbalance_check_interval_seconds=10),
        evolve(RULES, balances_while_reassigning=balances),
    )
    world.active.context.reassigning["elsewhere", 0] = None

    world.run(10_000)
    assert world.state("t").leader == leader

    del world.active.context.reassigning["elsewhere", 0]
    world.run(10_000)
    assert world.state("t").leader == 1


# --- a store that says no ------------------------------------------------------------------------------------------


def _ask_for(world: ControlWorld, what: str) -> None:
    """Put a node into the store that makes the controller write."""
    match what:
        case "topic creation":
            world.put_topic("u", (0, 1))
        case "topic deletion":
            world.put("/admin/delete_topics/t")
        case _:
            world.put(PREFERRED_ELECTION, partitions_data([("t", 0)]))


def _depose_in_the_middle(world: ControlWorld, after_ms: int) -> None:
    """b0 has read its input and is about to write when its session is frozen; b1 becomes controller."""
    world.run(after_ms)
    world.tell("zk", FreezeSession(client="b0/controller", for_us=2_000_000))
    world.tell("zk", RemoveNode(path=CONTROLLER))
    world.run(1_000)
    assert _controls(world) == 1
    assert world.part(0).is_active and world.part(1).is_active


@pytest.mark.parametrize(
    ("what", "after_ms"), [("topic creation", 5), ("topic deletion", 5), ("preferred election", 7)]
)
def test_a_controller_whose_write_is_refused_resigns(what: str, after_ms: int):
    """testControllerMoveOnTopicCreation, ...OnTopicDeletion, ...OnPreferredReplicaElection: the fence (KAFKA-6082)."""
    world = _led_by_its_second_replica() if what == "preferred election" else ControlWorld(2, {"t": ((0, 1),)})
    _ask_for(world, what)
    _depose_in_the_middle(world, after_ms)

    world.run(2_000)

    refused = world.facts(ControllerWriteRefused)
    assert [(fact.broker_id, fact.controller_epoch) for fact in refused] == [(0, 1)]
    assert [(fact.broker_id, fact.why) for fact in world.facts(ControllerResigned)] == [(0, "broker 1 controls")]
    assert world.active.broker_id == 1
    if what == "topic creation":
        assert world.state("u").controller_epoch == 2, "the new controller did it"


@pytest.mark.parametrize("fenced", [True, False])
def test_a_zombie_writes_states_only_without_the_fence(fenced: bool):
    """KAFKA-6082 with and without its fix: an election that the deposed controller had begun."""
    rules = RULES if fenced else evolve(RULES, fence=no_fence)
    world = _led_by_others(rules)
    before = world.state("t")
    request = ElectLeaders(topic_partitions=(("t", 0),), timeout_ms=1_000)
    world.tell("b0", ("b0/controller", request, 2))
    _depose_in_the_middle(world, 3)
    assert world.state("t") == before, "nothing has happened yet, and the new controller had no reason to write"

    world.run(2_000)

    (answer,) = world.broker(0).answers
    if fenced:
        assert world.state("t") == before
        assert answer.error_code is ErrorCode.NOT_CONTROLLER
    else:
        assert [row.error_code for row in answer.replica_election_results] == [ErrorCode.REQUEST_TIMED_OUT]
        assert world.state("t") == PartitionState(1, before.leader_epoch + 1, (0, 1), 1)
        assert world.node(CONTROLLER_EPOCH) == b"2", "the state was written by a controller of a past epoch (I2)"


def test_a_controller_with_a_half_full_batch_gives_up_its_office_and_its_node_stays():
    """KafkaController.handleIllegalState, triggerControllerMove: "Forcing the controller to resign", then
    deleteController.

    deleteController checks the epoch node's version, and does nothing if that has changed. A tool has written
    /controller_epoch, so that no write of the controller passes the fence, though it is still the controller. Its
    collected requests for a failed broker stay in the batch, and the broker's return finds them there.
    """
    world = ControlWorld(3, {"t": ((0, 1, 2),)})
    world.put(CONTROLLER_EPOCH, b"7")
    world.kill(2)
    world.run(SESSION_MS + 3_000)
    assert len(world.facts(ControllerWriteRefused)) == 1
    assert world.part(0).is_active and world.state("t").isr == (0, 1, 2)

    world.revive(2)
    world.run(1_000)

    (resigned,) = world.facts(ControllerResigned)
    assert (resigned.broker_id, resigned.why) == (0, "metadata in the middle of another batch")
    assert not any(world.part(broker).is_active for broker in world.ids)
    assert _controls(world) == 0, "nobody else may take it"

    world.kill(0)
    world.run(SESSION_MS + 3_000)
    assert world.active.broker_id == _controls(world) == 1
    assert world.active.context.epoch == 8
    assert 0 not in world.state("t").isr


def test_a_deposed_controller_that_adopts_the_newest_epoch_is_believed():
    """KAFKA-1096 without its fix: until it reads /controller again, two controllers act in one epoch."""
    world = _led_by_its_second_replica(rules=evolve(RULES, adopts_newest_epoch=True))
    _ask_for(world, "preferred election")
    _depose_in_the_middle(world, 7)

    world.run(2_000)

    assert len(world.facts(ControllerWriteRefused)) == 1
    assert [fact.controller_epoch for fact in world.facts(ControllerResigned, "b0/controller")] == [2]
