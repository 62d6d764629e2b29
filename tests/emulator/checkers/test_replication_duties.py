"""What brokers and controllers owe each other is done within a bound, whatever fault lasts elsewhere meanwhile."""

import json

import pytest

from kemu.emulator.checkers.duty import ISR_US, ORDER_US, SETTLE_US
from kemu.emulator.checkers.replication_duties import ReplicationDuties
from kemu.emulator.facts import FaultApplied, FaultEnded, HostPaused
from kemu.emulator.findings import LEFT_OVER_LOG, UNHEARD_ISR
from kemu.emulator.judging import Judging
from kemu.emulator.watching.control_plane import START_US
from kemu.protocol.config import ControllerConfig, ReplicaConfig
from kemu.protocol.nodes import ISR_CHANGES, ReplicaAssignment, broker_path, delete_path, topic_data, topic_path
from kemu.protocol.notes.replication import BecameController, BrokersChanged
from tests.emulator.checkers.cluster_story import BROKERS, PRODUCER, SECOND, STORE, ClusterStory, time_passes

LAG_S, SOCKET_S = 6, 8
REPLICAS = ReplicaConfig(replica_lag_time_max_ms=LAG_S * 1_000, replica_socket_timeout_ms=SOCKET_S * 1_000)
CONTROLLERS = ControllerConfig(leader_imbalance_check_interval_seconds=20)
ORDER_S, ISR_S, SETTLE_S = ORDER_US // SECOND, ISR_US // SECOND, SETTLE_US // SECOND
SESSION_S = CONTROLLERS.zookeeper_session_timeout_ms // 1_000


def in_peace() -> ClusterStory:
    """b0 leads t-0 and controls, b1 and b2 follow in sync, all know it, and the controller is ready."""
    story = ClusterStory()
    story.start(STORE)
    story.elect(0, (0, 1, 2))
    story.cache(0, 1, 2)
    story.commit(0, 10, 1, 2)
    time_passes(story, START_US / SECOND)
    return story


def judged(story: ClusterStory) -> tuple[ReplicationDuties, bool]:
    """The checker at the end, and whether it was satisfied just before."""
    checker = ReplicationDuties(CONTROLLERS, REPLICAS)
    judging = Judging([checker])
    for seen in story.facts:
        judging.see(seen)
    satisfied = checker.satisfied
    judging.finish(story.at_us)
    return checker, satisfied


def found(story: ClusterStory) -> list[str]:
    return sorted({each.kind for each in judged(story)[0].violations})


def without_b2(story: ClusterStory) -> None:
    """b2 dies, and everybody knows it."""
    story.down("b2")
    time_passes(story, 3)
    story.node(broker_path(2), what="deleted")
    story.write_state(0, (0, 1))
    story.lead(0, 10, 10)
    story.follow(1, 10)
    story.cache(0, 1, live=(0, 1))


def with_b2_again(story: ClusterStory) -> None:
    """b2 is back, follows, and is out of the ISR; everybody knows it."""
    story.start("b2")
    story.node(broker_path(2))
    story.follow(2, 10)
    story.cache(0, 1, 2)


def test_a_cluster_in_peace_owes_nothing():
    story = in_peace()
    time_passes(story, 60)

    assert found(story) == []
    assert judged(story)[1]


# --- controllers ---------------------------------------------------------------------------------------------------


def test_a_dead_broker_that_stays_in_an_isr_and_in_caches_is_a_violation():
    story = in_peace()
    story.down("b2")
    time_passes(story, 3)
    story.node(broker_path(2), what="deleted")
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["dead-in-isr", "stale-metadata"]


def test_a_dead_broker_that_leaves_in_time_is_none():
    story = in_peace()
    without_b2(story)
    time_passes(story, 60)

    assert found(story) == []


def test_the_last_member_of_an_isr_stays_in_it():
    story = in_peace()
    story.write_state(2, (2,))
    story.lead(2, 10, 10)
    story.follow(0, 10)
    story.follow(1, 10)
    story.cache(0, 1, 2)
    story.down("b2")
    time_passes(story, 3)
    story.node(broker_path(2), what="deleted")
    story.cache(0, 1, live=(0, 1))
    time_passes(story, 60)

    assert found(story) == []


@pytest.mark.parametrize("links", [(("b0", STORE),), (("b0", ""),)])
def test_a_controller_that_a_fault_hits_owes_nothing_until_it_is_over(links):
    story = in_peace()
    story.world(FaultApplied(index=0, kind="split", text="", links=links, lasts=True))
    story.down("b2")
    time_passes(story, 3)
    story.node(broker_path(2), what="deleted")
    time_passes(story, 30)
    story.world(FaultEnded(index=0, kind="split"))
    story.write_state(0, (0, 1))
    story.lead(0, 10, 10)
    story.follow(1, 10)
    story.cache(0, 1, live=(0, 1))
    time_passes(story, 30)

    assert found(story) == []


def test_a_fault_between_others_stops_no_clock():
    story = in_peace()
    story.world(FaultApplied(index=0, kind="slow", text="", links=(("c1", ""), ("b1", "b2")), lasts=True))
    story.down("b2")
    time_passes(story, 3)
    story.node(broker_path(2), what="deleted")
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["dead-in-isr", "stale-metadata"]


def test_a_broker_that_leads_by_the_election_of_its_former_process_is_a_violation():
    story = in_peace()
    story.elect(2, (0, 1, 2), 10, 10)
    story.cache(0, 1, 2)
    story.down("b2")
    story.start("b2")
    story.node(broker_path(2))
    story.lead(2, 10, 10)
    story.cache(2)
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["former-leader"]


def test_a_controller_elected_after_that_broker_registered_need_not_elect_a_leader():
    story = in_peace()
    story.elect(2, (0, 1, 2), 10, 10)
    story.cache(0, 1, 2)
    story.down("b2")
    story.start("b2")
    story.node(broker_path(2))
    story.new_controller(1)
    story.lead(2, 10, 10)
    story.cache(2)
    time_passes(story, 20)

    assert found(story) == []


def test_a_controller_that_reads_the_cluster_after_that_broker_registered_need_not_elect_a_leader():
    story = in_peace()
    story.elect(2, (0, 1, 2), 10, 10)
    story.cache(0, 1, 2)
    story.down("b2")
    story.start("b2")
    story.new_controller(1)
    story.node(broker_path(2))
    story.lead(2, 10, 10)
    story.cache(2)
    time_passes(story, 30)

    assert "former-leader" not in found(story)


def test_a_replica_that_is_not_told_of_an_election_is_a_violation():
    story = in_peace()
    story.write_state(1, (0, 1, 2))
    story.lead(1, 10, 10)
    story.follow(0, 10)
    story.cache(0, 1, 2)
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["order-not-obeyed"]


def test_a_broker_whose_clients_are_sent_to_a_former_leader_is_a_violation():
    story = in_peace()
    story.elect(1, (0, 1, 2), 10, 10)
    story.cache(0, 1)
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["stale-metadata"]


@pytest.mark.parametrize(
    "other",
    [{"leader_epoch": -1}, {"isr": (0, 1)}, {"leader": 1}, {"replicas": (0, 1)}, {"gone": True}, {"live": (0, 2)}],
)
def test_a_cache_that_differs_from_the_store_is_a_violation(other):
    story = in_peace()
    story.cache(2, **other)
    time_passes(story, SETTLE_S + 2)

    assert found(story) == ["stale-metadata"]
    assert not judged(story)[1]


def test_an_isr_of_a_moment_ago_is_not_judged_but_waited_for():
    story = in_peace()
    story.write_state(0, BROKERS[:2], client="b0")
    time_passes(story, SETTLE_S - 2)

    assert "stale-metadata" not in found(story)
    assert not judged(story)[1]


SHRUNK = BROKERS[:2]


def unheard(story: ClusterStory, *, is_refused: bool = True) -> None:
    """The answer to the ISR write is lost, the second write refused; the leader waits."""
    story.propose(0, SHRUNK, BROKERS)
    story.write_state(0, SHRUNK, client=story.controller)
    if is_refused:
        story.refuse_write(SHRUNK, known=BROKERS)
        story.leave_pending(0, SHRUNK)


@pytest.mark.parametrize("isr", [BROKERS, SHRUNK], ids=["believed", "read when a replica went offline"])
def test_a_controller_that_does_not_know_what_it_wrote_tells_what_it_knows(isr):
    """Kafka 2.7 to 3.9: processAlterIsr reads only what it wrote; a leader that waits shrinks and expands no more.

    ``doRemoveReplicasFromIsr`` reads the state of each partition of an offline replica (swarm of kafka-4.0, seed 144).
    """
    story = in_peace()
    unheard(story)
    story.cache(0, 1, 2, isr=isr)
    story.heal()
    time_passes(story, 60)
    checker, satisfied = judged(story)

    assert (checker.violations, satisfied) == ([], True)
    assert [(each.what, each.why) for each in checker.unmended] == [("t-0", UNHEARD_ISR)]


@pytest.mark.parametrize(
    "other", [{"isr": (0, 2)}, {"leader": 1}, {"leader_epoch": 7}, {"replicas": (0, 1)}, {"gone": True}]
)
def test_a_lost_answer_excuses_nothing_but_the_isr_from_before(other):
    story = in_peace()
    unheard(story)
    story.cache(0, 1, 2, **{"isr": BROKERS, **other})
    time_passes(story, SETTLE_S + 2)

    assert found(story) == ["stale-metadata"]


def without_a_refusal(story: ClusterStory) -> None:
    unheard(story, is_refused=False)


def refused_for_somebody_elses(story: ClusterStory) -> None:
    story.write_state(0, SHRUNK, client="b0")
    story.refuse_write((0, 2), known=BROKERS)
    story.leave_pending(0, (0, 2))


def of_a_zombie(story: ClusterStory) -> None:
    story.by("b1/controller", BecameController(broker_id=1, controller_epoch=2))
    unheard(story)


def written_again(story: ClusterStory) -> None:
    unheard(story)
    story.write_state(0, SHRUNK)
    story.lead(0, end=10, watermark=10)
    story.follow(1, end=10)
    story.follow(2, end=10)


@pytest.mark.parametrize("how", [without_a_refusal, refused_for_somebody_elses, of_a_zombie, written_again])
def test_only_a_lost_answer_excuses_a_controller_that_tells_an_older_isr(how):
    story = in_peace()
    how(story)
    story.cache(0, 1, 2, isr=BROKERS)
    time_passes(story, SETTLE_S + 2)

    assert found(story) == ["out-of-isr", "stale-metadata"]


def test_the_next_controller_reads_what_is_there_and_tells_it():
    """The leader waits on: LeaderAndIsr of the same leader epoch tells it nothing."""
    story = in_peace()
    unheard(story)
    story.cache(0, 1, 2, isr=BROKERS)
    story.new_controller(1)
    story.by("b1/controller", BecameController(broker_id=1, controller_epoch=2))
    time_passes(story, START_US / SECOND + SETTLE_S + 2)

    assert found(story) == ["stale-metadata"]


@pytest.mark.parametrize("how", ["told by another controller", "leads again", "answered otherwise"])
def test_a_leader_that_waits_no_more_lets_replicas_back_into_the_isr(how):
    story = in_peace()
    unheard(story)
    story.cache(0, 1, 2, isr=BROKERS)
    if how == "told by another controller":
        story.take_isr(0, SHRUNK)
    elif how == "leads again":
        story.lead(0, end=10, watermark=10)
    else:
        story.leave_pending(0, SHRUNK, why="FENCED_LEADER_EPOCH")
    time_passes(story, ISR_S + 2)

    assert found(story) == ["out-of-isr"]


@pytest.mark.parametrize(("target", "is_left"), [((0, 1), True), ((0, 3), False)])
def test_a_reassignment_by_kip_455s_predecessor_waits_for_its_new_replicas(target, is_left):
    """ZkUtils' node stays until all of them are in sync (KafkaController.areReplicasInIsr 2.3)."""
    story = in_peace()
    rows = [{"topic": "t", "partition": 0, "replicas": target}]
    story.node("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": rows}).encode(), client="")
    time_passes(story, SETTLE_S + 2)

    assert found(story) == ["left-over"] * is_left


def test_a_broker_that_runs_and_does_not_register_is_a_violation():
    """KAFKA-7165."""
    story = in_peace()
    story.node(broker_path(1), what="deleted", client="")
    story.write_state(0, (0, 2))
    story.lead(0, 10, 10)
    story.follow(2, 10)
    story.cache(0, 1, 2, live=(0, 2))
    time_passes(story, SESSION_S + SETTLE_S + 5)

    assert found(story) == ["not-registered"]


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize(
    "path", [delete_path("gone"), f"{ISR_CHANGES}/isr_change_0000000001", "/admin/preferred_replica_election"]
)
def test_a_request_that_is_left_over_in_the_store_is_a_violation(path, is_left):
    story = in_peace()
    story.node(path, client="")
    time_passes(story, 2)
    if not is_left:
        story.node(path, what="deleted")
    time_passes(story, SETTLE_S + 2)

    assert found(story) == ["left-over"] * is_left


def test_a_deletion_waits_for_a_broker_that_is_down():
    story = in_peace()
    without_b2(story)
    story.node(delete_path("gone"), client="")
    time_passes(story, 60)

    assert found(story) == []


def test_a_partition_that_nobody_gives_a_state_is_a_violation():
    story = in_peace()
    assigned = {0: ReplicaAssignment(BROKERS), 1: ReplicaAssignment(BROKERS)}
    story.node(topic_path(story.topic), topic_data(assigned), what="set")
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["no-leader"]


def test_a_broker_that_closes_is_owed_nothing():
    story = in_peace()
    story.closes(2)
    story.write_state(0, (0, 1))
    story.lead(0, 10, 10)
    story.follow(1, 10)
    story.cache(0, 1)
    story.stop(2, 2)
    time_passes(story, 60)

    assert found(story) == []


def reassigned(story: ClusterStory) -> None:
    """The store has t-0 on b0 and b1 only; b2 is not told."""
    story.elect(0, (0, 1), 10, 10)
    story.follow(2, 10)
    story.node(topic_path(story.topic), topic_data({0: ReplicaAssignment((0, 1))}), what="set")
    story.cache(0, 1, 2, replicas=(0, 1))


def test_a_replica_that_is_not_stopped_after_a_reassignment_is_a_violation():
    story = in_peace()
    reassigned(story)
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["replica-kept"]


def test_the_order_to_stop_it_is_lost_with_its_controller():
    story = in_peace()
    reassigned(story)
    story.new_controller(1)
    time_passes(story, 60)

    assert found(story) == []


def test_a_replica_dropped_under_a_former_controller_is_not_owed_by_one_that_changes_the_list_later():
    story = in_peace()
    reassigned(story)
    story.new_controller(1)
    time_passes(story, 2)
    story.node(topic_path(story.topic), topic_data({0: ReplicaAssignment((1, 0))}), what="set")
    time_passes(story, 60)

    assert "replica-kept" not in found(story)


@pytest.mark.parametrize(
    "how", ["registered anew", "new to its controller", "its registration ends", "follows late, then dies"]
)
def test_the_order_to_stop_it_is_lost_with_the_registration_that_its_controller_knew(how):
    """Requests queued for a broker go with its registration (``ControllerChannelManager.removeBroker``)."""
    story = in_peace()
    reassigned(story)
    if how == "registered anew":
        story.by(story.controller, BrokersChanged(controller_epoch=1, new=(), dead=(), bounced=(2,)))
    elif how == "new to its controller":
        story.by(story.controller, BrokersChanged(controller_epoch=1, new=(2,), dead=(), bounced=()))
    elif how == "its registration ends":  # it has started again within its old session
        story.node(broker_path(2), what="deleted")
        story.node(broker_path(2), client="b2/controller")
    else:
        story.follow(2, 10, epoch=story.epoch - 1)
        story.down("b2")
        story.restore(2, 10, (0, 0))
    story.heal()
    time_passes(story, 60)
    checker, _ = judged(story)

    assert "replica-kept" not in [each.kind for each in checker.violations]
    assert [(each.what, each.why) for each in checker.unmended] == [("t-0", LEFT_OVER_LOG)]


@pytest.mark.parametrize(("epoch", "kinds"), [(1, []), (2, ["replica-kept"])])
def test_a_broker_that_follows_later_than_it_lost_its_replica_is_to_stop_again(epoch, kinds):
    """An order from before may still come; one of a newer leader epoch is of this controller."""
    story = in_peace()
    reassigned(story)
    story.new_controller(1)
    time_passes(story, START_US / SECOND)
    story.follow(2, 10, epoch=epoch)
    time_passes(story, ORDER_S + 2)

    assert found(story) == kinds


def test_a_log_of_a_topic_that_is_deleted_is_a_violation():
    story = in_peace()
    story.delete_topic(0, 1)
    time_passes(story, ORDER_S + 2)

    assert found(story) == ["replica-kept"]


def adds_b2(story: ClusterStory, isr: tuple[int, ...]) -> None:
    """A step adds b2, which follows; the ISR is this."""
    story.node(topic_path(story.topic), topic_data({0: ReplicaAssignment(BROKERS, (2,), ())}), what="set")
    story.elect(0, isr, 10, 10)
    story.follow(2, 10)
    story.cache(0, 1, 2)


def test_a_step_whose_target_is_in_sync_and_that_is_not_committed_is_a_violation():
    story = in_peace()
    adds_b2(story, BROKERS)
    time_passes(story, SETTLE_S + 2)

    assert found(story) == ["step-kept"]


def test_a_step_that_waits_for_a_follower_that_gets_records_is_none():
    story = in_peace()
    adds_b2(story, (0, 1))
    story.append(0, 10, 1_000)
    story.copy(1, 10, 1_000)
    story.advance(0, 1_010)
    for copied in range(60):
        story.copy(2, 10 + copied, 1)
        time_passes(story, 1)

    assert found(story) == []


def test_a_preferred_replica_that_does_not_get_its_leadership_back_is_a_violation():
    story = in_peace()
    story.elect(1, BROKERS, 10, 10)
    story.cache(0, 1, 2)
    time_passes(story, 20 + SETTLE_S + 2)

    assert found(story) == ["not-balanced"]


def test_a_preferred_replica_out_of_the_isr_gets_no_leadership():
    story = in_peace()
    story.elect(1, (1, 2), 10, 10)
    story.follow(0, 5)
    story.cache(0, 1, 2)
    for copied in range(40):
        story.append(1, 10 + copied, 1)
        story.copy(2, 10 + copied, 1)
        story.copy(0, 5 + copied, 1)
        story.advance(1, 11 + copied)
        time_passes(story, 1)

    assert found(story) == []


# --- leaders and followers -----------------------------------------------------------------------------------------


def test_a_follower_that_has_all_and_does_not_get_into_the_isr_is_a_violation():
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    time_passes(story, ISR_S + 2)

    assert found(story) == ["out-of-isr"]


def test_a_follower_that_gets_into_the_isr_is_none():
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    time_passes(story, ISR_S - 2)
    story.write_state(0, BROKERS, client="b0/controller")
    story.cache(0, 1, 2)
    time_passes(story, 60)

    assert found(story) == []


def test_a_leader_that_asked_a_controller_that_died_waits_until_its_socket_times_out():
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    story.propose(0, BROKERS, BROKERS)
    story.new_controller(1)
    time_passes(story, START_US / SECOND + ISR_S - 2)
    story.write_state(0, BROKERS, client="b1/controller")
    story.take_isr(0, BROKERS)
    story.cache(0, 1, 2)
    time_passes(story, 60)

    assert found(story) == []


def test_a_leader_that_still_waits_after_its_socket_timed_out_is_a_violation():
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    story.propose(0, BROKERS, BROKERS)
    story.new_controller(1)
    time_passes(story, max(SOCKET_S, START_US / SECOND) + ISR_S + 2)

    assert found(story) == ["out-of-isr"]


def test_a_follower_that_lacks_records_and_gets_none_is_a_violation():
    story = in_peace()
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    time_passes(story, SOCKET_S + ISR_S + 2)

    assert found(story) == ["fetch-stalled", "never-shrunk"]


def test_a_follower_that_gets_records_slowly_is_none():
    story = in_peace()
    story.append(0, 10, 50)
    story.copy(1, 10, 50)
    for copied in range(40):
        story.copy(2, 10 + copied, 1)
        story.advance(0, 11 + copied)
        time_passes(story, 1)

    assert "fetch-stalled" not in found(story)


def test_a_follower_that_is_cut_off_from_its_leader_need_not_fetch():
    story = in_peace()
    story.world(FaultApplied(index=0, kind="split", text="", links=(("b0", "b2"),), lasts=True))
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    time_passes(story, 60)

    assert found(story) == ["never-shrunk"]  # its leader may take it out of the ISR meanwhile


def lags_behind(story: ClusterStory, for_s: float) -> None:
    """b2 gets a record every ten seconds; the leader appends once a second."""
    for number in range(int(for_s)):
        story.append(0, 10 + number, 1)
        story.copy(1, 10 + number, 1)
        if number % 10 == 9:
            story.copy(2, 10 + number // 10, 1)
            story.advance(0, 11 + number // 10)
        time_passes(story, 1)


def test_a_leader_that_keeps_a_member_that_lags_is_a_violation():
    """Partition.maybeShrinkIsr: not caught up for longer than replica.lag.time.max.ms."""
    story = in_peace()
    lags_behind(story, 10 + 1.5 * LAG_S + ORDER_S + 4)

    assert found(story) == ["never-shrunk"]


def test_a_leader_that_removes_a_member_that_lags_is_none():
    story = in_peace()
    lags_behind(story, 20)
    story.write_state(0, (0, 1), client="b0/controller")
    story.take_isr(0, (0, 1))
    story.cache(0, 1, 2)
    story.advance(0, 30)
    for number in range(15):
        story.copy(2, 12 + number, 1)
        time_passes(story, 2)

    assert found(story) == []


def test_a_member_that_is_a_record_behind_all_the_time_is_in_sync():
    """KIP-16: it reaches where the leader was a moment ago, again and again."""
    story = in_peace()
    for end in range(10, 70):
        story.append(0, end, 1)
        story.copy(1, end, 1)
        if end > 10:
            story.copy(2, end - 1, 1)
            story.advance(0, end)
        time_passes(story, 1)

    assert found(story) == []


def test_a_high_watermark_that_does_not_pass_what_all_in_sync_have_is_a_violation():
    story = in_peace()
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    story.copy(2, 10, 5)
    time_passes(story, LAG_S + ISR_S + 2)

    assert found(story) == ["watermark-waits"]


def ceased_before_it_joined_the_isr(how: str) -> ClusterStory:
    """b2 is out of the ISR, has every committed record, and fetches no more; the leader and b1 then get five
    records.
    """
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    match how:
        case "down":
            story.down("b2")
        case "paused":
            story.world(HostPaused(host="b2"))
        case "cut off":
            story.world(FaultApplied(index=0, kind="split", text="", links=(("b0", "b2"),), lasts=True))
    time_passes(story, 1)
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    story.node(broker_path(2), what="deleted")
    story.cache(0, 1, live=(0, 1))
    return story


@pytest.mark.parametrize("how", ["down", "paused", "cut off"])
def test_a_high_watermark_may_wait_for_a_replica_that_ceased_before_it_joined_the_isr(how: str):
    """``Partition.maybeIncrementLeaderHW`` (3.4.1) is called when a log end or the ISR changes, and not later."""
    story = ceased_before_it_joined_the_isr(how)
    time_passes(story, 2 * LAG_S + ISR_S + 2)

    assert "watermark-waits" not in found(story)


def test_a_high_watermark_waits_for_no_replica_that_ceased_and_has_too_few_records():
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    story.commit(10, 5, 1)
    story.world(HostPaused(host="b2"))
    story.append(0, 15, 5)
    story.copy(1, 15, 5)
    time_passes(story, LAG_S + ISR_S + 2)

    assert "watermark-waits" in found(story)


@pytest.mark.parametrize("how", ["down", "paused", "cut off"])
def test_a_high_watermark_does_not_wait_for_a_replica_that_ceased_after_an_append_behind_its_lag(how: str):
    """The replica no longer counts as caught up."""
    story = ceased_before_it_joined_the_isr(how)
    time_passes(story, LAG_S + 1)
    story.append(0, 15, 5)
    story.copy(1, 15, 5)
    time_passes(story, LAG_S + ISR_S + 2)

    assert "watermark-waits" in found(story)


def test_a_new_leader_whose_high_watermark_does_not_reach_what_it_found_is_a_violation():
    story = in_peace()
    story.elect(1, BROKERS, end=10, watermark=5)
    story.cache(0, 1, 2)
    time_passes(story, LAG_S + ISR_S + 2)

    assert found(story) == ["watermark-waits"]


def test_a_high_watermark_waits_for_a_follower_that_an_isr_change_would_add():
    story = in_peace()
    without_b2(story)
    with_b2_again(story)
    story.propose(0, BROKERS, BROKERS)
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    time_passes(story, ISR_S - 2)

    assert found(story) == []


def test_a_producer_that_hears_nothing_of_what_is_committed_is_a_violation():
    story = in_peace()
    story.produce(acks=-1)
    story.commit(10, 5, 1, 2)
    time_passes(story, 30 + ISR_S + 2)

    assert found(story) == ["unanswered"]


def test_a_producer_that_a_fault_hits_need_not_hear_of_it():
    story = in_peace()
    story.produce(acks=-1)
    story.world(FaultApplied(index=0, kind="isolate", text="", links=(("p1", ""),), lasts=True))
    story.commit(10, 5, 1, 2)
    time_passes(story, 60)

    assert found(story) == []


@pytest.mark.parametrize("what", ["down", "asks nothing"])
def test_a_producer_that_is_down_or_asks_for_nothing_is_owed_no_answer(what):
    story = in_peace()
    story.produce(acks=0 if what == "asks nothing" else -1)
    story.commit(10, 5, 1, 2)
    if what == "down":
        story.down(PRODUCER)
    time_passes(story, 60)

    assert found(story) == []


def test_a_producer_that_hears_in_time_is_none():
    story = in_peace()
    story.produce(acks=-1)
    story.commit(10, 5, 1, 2)
    time_passes(story, 30)
    story.acknowledge(10, 5)
    time_passes(story, 60)

    assert found(story) == []
