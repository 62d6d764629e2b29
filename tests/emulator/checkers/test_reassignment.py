"""What reassignments do to a cluster, told by hand: what is left behind, what must be named, what begins anew."""

import pytest

from kemu.actors.controller.phases import ReplicaPhase
from kemu.emulator.checkers.leadership import LeadershipChecker
from kemu.emulator.checkers.no_lost_record import NoLostRecord
from kemu.emulator.checkers.reassignment import ReassignmentChecker
from kemu.emulator.facts import FaultApplied, FaultEnded
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.protocol.errors import ErrorCode
from kemu.protocol.nodes import (
    REASSIGN_PARTITIONS,
    PartitionState,
    ReplicaAssignment,
    broker_path,
    delete_path,
    reassignments_data,
    state_data,
    state_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.groups import AdminAnswered
from kemu.protocol.notes.replication import (
    REASSIGNED,
    BecameController,
    ControllerReady,
    ReassignmentBlocked,
    ReassignmentStarted,
    ReassignmentWaits,
    ReplicaStateBecame,
    ReplicaStopped,
    StateChangeRefused,
    StoreTookOver,
)
from kemu.protocol.reassign.moves import Limits
from tests.emulator.checkers.cluster_story import BROKERS, STORE, TOPIC, ClusterStory, begun

ONLINE, OFFLINE, DELETED, INELIGIBLE = (
    ReplicaPhase.ONLINE.value,
    ReplicaPhase.OFFLINE.value,
    ReplicaPhase.DELETION_STARTED.value,
    ReplicaPhase.DELETION_INELIGIBLE.value,
)
RAISED = ("", "")
"""The leader epoch is raised, as when a step is committed."""


def moved_away_from_b0() -> ClusterStory:
    """b1 leads, and the store has the partition on b1 and b2 only."""
    told = begun()
    told.elect(1, BROKERS, end=10, watermark=10)
    told.write_state(1, (1, 2))
    told.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((1, 2))}), what="set")
    told.lead(1, end=10, watermark=10)
    told.follow(2, end=10)
    return told


@pytest.mark.parametrize("commits_late", [False, True])
@pytest.mark.parametrize(("back_at", "skips"), [("reset", True), ("committed", False)])
def test_a_reset_on_a_log_that_lost_everything_skips_what_came_since(
    back_at: str, skips: bool, commits_late: bool
) -> None:
    """The last commit is about records that are gone; who goes on at the end of the new log skips in the open."""
    story = begun()
    story.position(0)
    story.process(0, 10)
    story.commit_offset(10)
    for broker in BROKERS:
        story.lose_unflushed(broker, 10, 0)
    for broker in BROKERS:
        story.restore(broker, 0)
    story.elect(1, BROKERS)
    if commits_late:
        story.commit_offset(10)
    story.commit(0, 6, 0, 2)
    story.acknowledge(0, 6)
    if back_at == "reset":
        story.position(4)
    story.read_epoch(4, story.epoch)
    story.process(4, 6)
    story.commit_offset(6)

    kinds = [each.kind for each in story.judged(NoLostRecord())[0]]
    assert ("committed-unprocessed" not in kinds) is skips


@pytest.mark.parametrize(
    ("named", "controller", "ready_after_s", "waits_s", "silent"),
    [
        (False, 0, 0, 11, True),
        (True, 0, 0, 11, False),
        (False, 0, 0, 9, False),
        (False, 1, 0, 11, False),
        (False, 0, 11, 9, False),
        (False, 0, 11, 11, True),
        (False, 0, None, 11, False),
    ],
    ids=["forgotten", "named", "not yet", "another controller", "ready late", "ready late, forgotten", "not ready yet"],
)
def test_a_controller_at_work_names_what_a_partition_on_its_way_waits_for(
    named: bool, controller: int, ready_after_s: int | None, waits_s: int, silent: bool
) -> None:
    """KIP-435 waits where it can take no step; whoever wants to know why must be able to.

    A controller that is not ready yet writes as well (``ReplicaStateMachine.startup`` takes the dead out of the ISRs).
    """
    story = begun()
    story.start(STORE)
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.by(
        "b0/controller",
        ReassignmentStarted(topic=TOPIC, partition=0, replicas=BROKERS, target=(0, 1), resumed=False),
    )
    waiting = ReplicaAssignment(BROKERS, target_replicas=(0, 1), original_replicas=BROKERS)
    story.node(topic_path(TOPIC), topic_data({0: waiting}), what="set")
    if named:
        fact = ReassignmentWaits(topic=TOPIC, partition=0, reason="partition-limit", brokers=(), why="not its turn")
        story.by("b0/controller", fact)
    if ready_after_s is not None:
        story.wait(ready_after_s)
        ready = ControllerReady(broker_id=0, controller_epoch=1, brokers=BROKERS, topics=1, partitions=1)
        story.by("b0/controller", ready)
    story.wait(waits_s)
    if controller:
        story.by("b1/controller", BecameController(broker_id=1, controller_epoch=2))
        story.controller = "b1/controller"
    story.write_state(0, BROKERS)

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("unnamed" in kinds) is silent


@pytest.mark.parametrize(("away", "silent"), [(False, True), (True, False)])
def test_while_the_store_serves_nobody_a_controller_can_begin_nothing(away: bool, silent: bool) -> None:
    """What it took up it writes when there is a store again; until then it has no more to say."""
    story = begun()
    story.start(STORE)
    ready = ControllerReady(broker_id=0, controller_epoch=1, brokers=BROKERS, topics=1, partitions=1)
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1), ready)
    story.by(
        "b0/controller", ReassignmentStarted(topic=TOPIC, partition=0, replicas=BROKERS, target=(0, 1), resumed=False)
    )
    story.wait(11)
    if away:
        story.by("zk", StoreTookOver(zxid=7, nodes=20, sessions=3))
    story.write_state(0, BROKERS)

    assert ("unnamed" in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is silent


@pytest.mark.parametrize(
    ("links", "lasts_s", "silent"),
    [
        ((("b0", STORE),), 21, False),
        ((("b0", ""),), 21, False),
        ((("b0", STORE),), 5, True),
        ((("b0", "b1"), ("c1", "")), 21, True),
        ((), 21, True),
    ],
    ids=["slow store", "slow controller", "over long ago", "other links", "a fault that hits nobody"],
)
def test_a_slow_link_to_the_store_gives_a_controller_time_and_no_other_fault_does(
    links: tuple[tuple[str, str], ...], lasts_s: int, silent: bool
) -> None:
    story = begun()
    story.start(STORE)
    ready = ControllerReady(broker_id=0, controller_epoch=1, brokers=BROKERS, topics=1, partitions=1)
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1), ready)
    story.by(
        "b0/controller", ReassignmentStarted(topic=TOPIC, partition=0, replicas=BROKERS, target=(0, 1), resumed=False)
    )
    story.world(FaultApplied(index=0, kind="slow", text="", links=links, lasts=True))
    story.wait(lasts_s)
    if lasts_s < 21:
        story.world(FaultEnded(index=0, kind="slow"))
        story.wait(21 - lasts_s)
    story.write_state(0, BROKERS)

    assert ("unnamed" in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is silent


@pytest.mark.parametrize(("actor", "silent"), [("b0/controller", False), ("b1/controller", True)])
def test_a_controller_need_not_report_a_reassignment_that_only_a_deposed_controller_knows(
    actor: str, silent: bool
) -> None:
    """Operated swarm of kafka-4.2, seed 131: without the store, b0 does not learn that b1 is the controller, and takes
    a request. ``KafkaController.onControllerFailover`` 2.8 reads the store once, before that.
    """
    story = begun()
    story.start(STORE)
    story.controller = "b1/controller"
    ready = ControllerReady(broker_id=1, controller_epoch=2, brokers=BROKERS, topics=1, partitions=1)
    story.by("b1/controller", BecameController(broker_id=1, controller_epoch=2), ready)
    story.by(actor, ReassignmentStarted(topic=TOPIC, partition=0, replicas=BROKERS, target=(0, 1), resumed=False))
    story.wait(11)
    story.write_state(0, BROKERS)

    assert ("unnamed" in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is silent


@pytest.mark.parametrize("what", ["t-0", "t-1", REASSIGN_PARTITIONS])
def test_a_controller_that_reports_the_failure_of_a_step_has_reported_the_reason(what: str) -> None:
    """KafkaController.maybeTriggerPartitionReassignment 3.9 logs the error of each partition."""
    story = begun()
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.by(
        "b0/controller",
        ReassignmentStarted(topic=TOPIC, partition=0, replicas=BROKERS, target=BROKERS, resumed=False),
        StateChangeRefused(what=what, old="", new=REASSIGNED, why="the controller does not know its leader"),
    )
    story.heal()
    story.wait(60)

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("unnamed" in kinds) is (what != "t-0")


@pytest.mark.parametrize("named", [False, True])
def test_what_cannot_arrive_in_the_end_must_have_a_reason(named: bool) -> None:
    """Its target is no broker that is up: it need not arrive, but its controller must say why it does not."""
    story = begun()
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.by(
        "b0/controller", ReassignmentStarted(topic=TOPIC, partition=0, replicas=BROKERS, target=(0, 7), resumed=False)
    )
    waiting = ReplicaAssignment(BROKERS, target_replicas=(0, 7), original_replicas=BROKERS)
    story.node(topic_path(TOPIC), topic_data({0: waiting}), what="set")
    if named:
        fact = ReassignmentWaits(topic=TOPIC, partition=0, reason="not-up", brokers=(7,), why="7 not up")
        story.by("b0/controller", fact)
    story.heal()
    story.wait(60)

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("unnamed" in kinds) is not named
    assert "unfinished" not in kinds


@pytest.mark.parametrize("restarts", [True, False])
def test_the_epochs_of_a_topic_created_again_begin_anew_for_who_started_since(restarts: bool) -> None:
    """A log that was left over is the new topic's (before KIP-516); in the same life its leader epoch still counts."""
    story = moved_away_from_b0()
    if restarts:
        story.down("b0")
        story.restore(0, 10, (0, 0))
    for broker in (1, 2):
        story.by(f"b{broker}", ReplicaStopped(topic=TOPIC, partition=0, leader_epoch=-2, deleted=True))
    story.node(state_path(TOPIC, 0), what="deleted")
    story.node(topic_path(TOPIC), what="deleted")
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((2, 0))}))
    story.epoch = -1
    story.write_state(2, (2, 0))
    story.lead(2)
    story.follow(0, end=10)

    kinds = [each.kind for each in story.judged()[0]]
    assert ("old-epoch-obeyed" in kinds) is not restarts


@pytest.mark.parametrize("called_back", [True, False])
def test_only_what_is_called_back_must_have_its_old_order(called_back: bool) -> None:
    """I15; another target with the same brokers may have them in any order."""
    story = begun()
    running = ReplicaAssignment((1, 2, 3, 0), adding=(3,), removing=(0,))
    story.node(topic_path(TOPIC), topic_data({0: running}), what="set")
    again = ReassignmentStarted(
        topic=TOPIC, partition=0, replicas=(1, 2, 0), target=(0, 2, 1), resumed=False, called_back=called_back
    )
    story.by("b0/controller", again)
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((0, 2, 1))}), what="set")

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("order-lost" in kinds) is called_back


@pytest.mark.parametrize(
    ("moves", "is_drop"),
    [
        (((ONLINE, OFFLINE), (OFFLINE, DELETED)), True),
        (((INELIGIBLE, OFFLINE),), False),
        (((INELIGIBLE, OFFLINE), (OFFLINE, ONLINE), (ONLINE, OFFLINE), (OFFLINE, DELETED)), False),
        (((INELIGIBLE, OFFLINE), RAISED, (OFFLINE, DELETED)), False),
    ],
    ids=["the step is over", "it was dead at a failover", "it is back", "dead when the step is over"],
)
def test_who_leaves_the_isr_is_dropped_by_a_step_only_if_it_is_deleted_at_once(
    moves: tuple[tuple[str, str], ...], is_drop: bool
) -> None:
    """I14. A new controller takes those out that were dead when it read the cluster, registered since or not."""
    story = begun()
    running = ReplicaAssignment((0, 1, 2), adding=(0,), removing=(1, 2))
    story.node(topic_path(TOPIC), topic_data({0: running}), what="set")
    story.write_state(1, (1, 2))
    story.write_state(2, (2,))
    for old, new in moves:
        if (old, new) == RAISED:
            story.write_state(2, (2,))
            continue
        story.by("b0/controller", ReplicaStateBecame(topic=TOPIC, partition=0, replica=1, old=old, new=new))

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("dropped-in-sync" in kinds) is is_drop


@pytest.mark.parametrize("leader", [-1, 2], ids=["nobody leads", "it leads"])
def test_the_last_member_of_an_isr_stays_in_it_when_its_replica_is_taken_away(leader: int) -> None:
    """A newer target or a cancellation may take the only broker in sync from a partition (KAFKA-14424)."""
    story = begun()
    story.write_state(2, (2,))
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((0, 1))}), what="set")
    story.write_state(leader, (2,))

    kinds = [each.kind for each in story.judged(LeadershipChecker())[0]]
    assert ("state-written" in kinds) is (leader == 2)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("told_since", [False, True])
def test_a_broker_may_obey_late_that_it_lost_a_replica_that_it_has_again(order: int, told_since: bool) -> None:
    """StopReplica waits for b0 (RequestSendThread sends one request at a time), as what comes after it does.

    Before 2.6 it has no epoch (-1). Who knows that it has the replica again deletes what it is to keep.
    """
    story = moved_away_from_b0()
    back = ReplicaAssignment((1, 2, 0), adding=(0,))
    story.node(topic_path(TOPIC), topic_data({0: back}), what="set")
    story.write_state(1, (1, 2))
    if told_since:
        story.follow(0)
    story.by("b0", ReplicaStopped(topic=TOPIC, partition=0, leader_epoch=order, deleted=True))

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("deleted-assigned" in kinds) is told_since


def test_a_partition_that_its_topics_node_has_no_more_is_another_one_when_it_comes_again() -> None:
    """A controller writes the node without partitions that it has not read yet, and an admin asks for them again
    (``KafkaController.updateReplicaAssignmentForPartition`` 3.4 writes what is in memory, whatever the version).
    """
    story = begun()
    for replicas in ((0, 1, 2), None, (2, 1, 3)):
        rows = {0: ReplicaAssignment(BROKERS)}
        if replicas is not None:
            rows[1] = ReplicaAssignment(replicas)
        story.node(topic_path(TOPIC), topic_data(rows), what="set")

    assert [each.text for each in story.judged(ReassignmentChecker())[0]] == []


def test_a_partition_that_is_there_gets_no_other_replicas_without_a_step() -> None:
    story = begun()
    for replicas in ((0, 1, 2), (2, 1, 3)):
        rows = {0: ReplicaAssignment(BROKERS), 1: ReplicaAssignment(replicas)}
        story.node(topic_path(TOPIC), topic_data(rows), what="set")

    assert [each.kind for each in story.judged(ReassignmentChecker())[0]] == ["not-of-the-step"]


@pytest.mark.parametrize("profile", ["kafka-2.4", "kafka-3.4"])
def test_a_topic_that_grows_as_its_partitions_begin_to_move_is_judged_by_what_its_node_has(profile: str) -> None:
    """The controller takes up the reassignment between the write of the new partitions and its look at them."""
    scenario = with_actions(load_scenario("move-to-new-brokers"), ["grow-topic topic=orders partitions=9 at=20.002s"])
    result = run(scenario, seed=1, profile=profile, loop="bare")

    assert [each.text for each in result.violations if each.checker == "reassignment"] == []


@pytest.mark.parametrize(
    ("waits_s", "deleted", "error", "is_caught"),
    [
        (11, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (1, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (11, True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (11, False, ErrorCode.INVALID_REPLICA_ASSIGNMENT, False),
    ],
    ids=["it is there", "it is new", "it is to be deleted", "refused for something else"],
)
def test_no_reassignment_is_refused_for_a_partition_that_is_there(
    waits_s: int, deleted: bool, error: ErrorCode, is_caught: bool
) -> None:
    """``KafkaController.alterPartitionReassignments`` 2.8."""
    story = begun()
    story.start(STORE)
    story.start("b0")
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment(BROKERS)}), what="set")
    if deleted:
        story.node(delete_path(TOPIC))
    story.wait(waits_s)
    refused = AdminAnswered(group="", api="AlterPartitionReassignments", error=error, text="t-0: no such partition")
    story.by("admin", refused)

    assert ("refused" in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is is_caught


@pytest.mark.parametrize("begins", [False, True])
def test_a_reassignment_begins_while_the_limits_allow_more(begins: bool) -> None:
    """KIP-435: limits hold back only what is beyond them."""
    story = begun()
    story.start(STORE)
    story.start("b0")
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.by("b0/controller", ControllerReady(broker_id=0, controller_epoch=1, brokers=(), topics=1, partitions=1))
    waits = ReplicaAssignment((1, 0), target_replicas=(1, 2))
    runs = ReplicaAssignment((1, 0, 2), adding=(2,), removing=(0,), target_replicas=(1, 2))
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((1, 0))}), what="set")
    story.node(topic_path(TOPIC), topic_data({0: waits}), what="set")
    if begins:
        story.node(topic_path(TOPIC), topic_data({0: runs}), what="set")
    for _ in range(3):
        story.by("b0/controller", ReassignmentWaits(topic=TOPIC, partition=0, reason="", brokers=(), why="its turn"))
        story.wait(6)
        story.allow_unclean("false")  # its controller goes on writing

    assert ("unused" in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is not begins


@pytest.mark.parametrize(
    ("reason", "isr", "is_excused"),
    [("min-isr", (1,), True), ("min-isr", (0, 1), False), ("partition-limit", (1,), False)],
)
def test_a_reassignment_waits_only_while_too_few_replicas_are_in_sync(
    reason: str, isr: tuple[int, ...], is_excused: bool
) -> None:
    """reassign-controller-dies with random crashes, seed 118: the controller reports the block and then the wait."""
    story = begun(min_isr=2)
    story.start(STORE)
    story.start("b0")
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.by("b0/controller", ControllerReady(broker_id=0, controller_epoch=1, brokers=(), topics=1, partitions=1))
    waits = ReplicaAssignment((1, 0), target_replicas=(1, 2))
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((1, 0))}), what="set")
    story.write_state(1, isr)
    story.node(topic_path(TOPIC), topic_data({0: waits}), what="set")
    blocked = ReassignmentBlocked(topic=TOPIC, partition=0, replicas=(1, 0), target=(1, 2), why="1 in sync")
    story.by("b0/controller", blocked)
    for _ in range(3):
        told = ReassignmentWaits(topic=TOPIC, partition=0, reason=reason, brokers=(), why="1 in sync, and 2 must be")
        story.by("b0/controller", told)
        story.wait(6)
        story.allow_unclean("false")  # its controller goes on writing

    assert ("unused" not in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is is_excused


@pytest.mark.parametrize(
    ("limit", "final", "adding", "removing", "is_right"),
    [
        (2, (2, 1), (2,), (0,), True),
        (2, (2, 1), (2,), (), False),
        (1, (3, 2), (3,), (), True),
        (1, (3, 2), (2,), (), False),
        (1, (3, 2), (3,), (0,), False),
        (1, (0, 2, 3), (2,), (1,), False),
        (1, (0, 2, 3), (2,), (), True),
        (2, (0, 2, 3), (2, 3), (1,), True),
        (2, (0, 2, 3), (2,), (), False),
    ],
)
def test_a_step_is_the_one_that_the_limits_allow(
    limit: int, final: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...], is_right: bool
) -> None:
    """KIP-435: at once what fits, else the new leader first, else as many as may."""
    story = begun()
    for host in (STORE, "b3"):
        story.start(host)
    story.node(broker_path(3), client="b3/controller")
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((0, 1))}), what="set")
    story.elect(0, (0, 1))
    story.wait(11)
    node = ReplicaAssignment((0, 1, *adding), adding=adding, removing=removing, target_replicas=final)
    story.node(topic_path(TOPIC), topic_data({0: node}), what="set")

    checker = ReassignmentChecker(limits=Limits(replica_movements=limit))
    assert ("not-the-step" not in [each.kind for each in story.judged(checker)[0]]) is is_right


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("by", ["b0/controller", "b1/controller"])
def test_a_new_controller_counts_the_steps_that_move_a_leader_by_their_present_leaders(moved: bool, by: str) -> None:
    """KIP-435: a step whose leader a failover moved already needs no place among those that move a leader."""
    story = begun()
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    at_rest = ReplicaAssignment((0, 1))
    runs = ReplicaAssignment((1, 2, 0), adding=(2,), removing=(0,), target_replicas=(1, 2))
    story.node(topic_path(TOPIC), topic_data({0: at_rest, 1: at_rest}), what="set")
    for number in (0, 1):
        state = state_data(PartitionState(0, 1, (0, 1), 1))
        story.node(state_path(TOPIC, number), state, what="set")
    story.node(topic_path(TOPIC), topic_data({0: runs, 1: at_rest}), what="set")
    if moved:
        story.node(state_path(TOPIC, 0), state_data(PartitionState(1, 2, (1,), 2)), what="set")
    if by != story.controller:
        story.by(by, BecameController(broker_id=1, controller_epoch=2))
        told = ReassignmentStarted(topic=TOPIC, partition=0, replicas=(0, 1), target=(1, 2), resumed=True)
        story.by(by, told)
    story.node(topic_path(TOPIC), topic_data({0: runs, 1: runs}), what="set", client=by)

    checker = ReassignmentChecker(limits=Limits(leader_movements=1))
    is_allowed = moved and by == "b1/controller"
    assert ("too-many-leaders" not in [each.kind for each in story.judged(checker)[0]]) is is_allowed


@pytest.mark.parametrize("taken_up", [False, True])
def test_nothing_is_struck_out_of_the_list_in_the_store_that_could_be_taken_up(taken_up: bool) -> None:
    """``KafkaController.processZkPartitionReassignment`` 2.8."""
    story = begun()
    story.start(STORE)
    story.by("b0/controller", BecameController(broker_id=0, controller_epoch=1))
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((0, 1))}), what="set")
    story.wait(11)
    story.node(REASSIGN_PARTITIONS, reassignments_data({(TOPIC, 0): (1, 2)}), client="admin")
    if taken_up:
        told = ReassignmentStarted(topic=TOPIC, partition=0, replicas=(0, 1), target=(1, 2), resumed=False)
        story.by("b0/controller", told)
    story.node(REASSIGN_PARTITIONS, what="deleted")

    assert ("refused" in [each.kind for each in story.judged(ReassignmentChecker())[0]]) is not taken_up
