"""Allowances that no other test shows: a correct run that needs each, and a fault beside it that is still caught."""

import pytest

from kemu.emulator.checkers.membership import MembershipRules
from kemu.emulator.checkers.no_lost_record import NoLostRecord
from kemu.emulator.checkers.reassignment import ReassignmentChecker
from kemu.emulator.facts import CoreHealed, DiskTailLost, FaultApplied, HostStarted, RunStarted
from kemu.emulator.judging import Judging, judge
from kemu.emulator.watching.epoch_log import EpochLog
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.progress import PartitionReader, pieces_of
from kemu.protocol.dynamic_configs import FOLLOWER_THROTTLED_REPLICAS
from kemu.protocol.nodes import (
    BROKER_DEFAULTS,
    PartitionState,
    ReplicaAssignment,
    config_data,
    state_data,
    state_path,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes import replication as control_notes
from kemu.protocol.reassign.moves import Limits, limits_by_key
from tests.emulator.checkers.cluster_story import BROKERS, STORE, ClusterStory, time_passes
from tests.emulator.checkers.story import TOPIC, Story
from tests.emulator.checkers.test_replication_duties import ISR_S, SETTLE_S, SOCKET_S, in_peace
from tests.emulator.checkers.test_replication_duties import found as found_duties
from tests.emulator.checkers.wire_story import SESSION_S, WireStory
from tests.emulator.streams_story import APP, COORDINATOR, StreamsStory, formed, kinds


@pytest.mark.parametrize(("host", "found"), [("b0", []), ("b1", ["evicted"])])
def test_a_coordinator_whose_clock_is_wrong_by_a_per_cent_may_remove_too_early(host: str, found: list[str]) -> None:
    """Another broker's clock is no excuse."""
    story = WireStory("c1", "c2")
    story.stable()
    story.world(FaultApplied(index=0, kind="clock-drift", text="", links=((host, ""),), lasts=True))
    story.beats(SESSION_S - 1, "c1")
    story.beat("c2")
    story.beats(SESSION_S - 2, "c1")
    story.by(story.coordinator, story.removal("c2"), story.state_of("PreparingRebalance"))

    assert story.found() == found


@pytest.mark.parametrize(
    ("removed", "lost", "found"),
    [
        ("a", None, []),
        ("b", None, ["runs-twice"]),
        ("", None, ["runs-twice"]),
        ("", "b-id", []),
        ("", "a-id", ["runs-twice"]),
    ],
)
def test_a_task_may_run_twice_while_a_member_that_was_removed_does_not_know_it(
    removed: str, lost: str | None, found: list[str]
) -> None:
    """a keeps task 0_0, which b runs now; a is cut off beyond its session, or the group's new coordinator lacks it."""
    told = formed()
    if removed:
        gone = notes.MemberRemoved(group=APP, member_id=f"{removed}-id", client_id="c", why="its session is over")
        told.say(20, COORDINATOR, gone)
    if lost:
        told.say(20, "b1/coordinator", notes.GroupLoaded(group=APP, generation=1, state="Stable", members=(lost,)))
    told.copy(30, "b", "0", "active", "CREATED", "RESTORING", "RUNNING")

    assert kinds(told, 31) == found


@pytest.mark.parametrize(
    ("is_removed", "first", "found"),
    [(True, "a", []), (False, "a", ["runs-twice"]), (True, "b", ["runs-twice"])],
)
def test_a_restore_of_a_member_that_does_not_know_its_removal_may_end_after_the_next_owner_runs_the_task(
    is_removed: bool, first: str, found: list[str]
) -> None:
    """a got task 0_0 before its next owner, b (operated swarm, seed 9811)."""
    told = StreamsStory()
    told.start(0, "a", "b")
    told.prepare(0.5, "a-id joined")
    told.decide(1, {"a": "0 1", "b": "2 3"})
    for at_s, host in enumerate((first, "b" if first == "a" else "a"), 2):
        told.copy(at_s, host, "0", "active", "CREATED", "RESTORING")
    if is_removed:
        gone = notes.MemberRemoved(group=APP, member_id="a-id", client_id="c", why="its session is over")
        told.say(20, COORDINATOR, gone)
    told.copy(30, "b", "0", "active", "RUNNING")
    told.copy(31, "a", "0", "active", "RUNNING")

    assert [kind for kind in kinds(told, 32) if kind == "runs-twice"] == found


@pytest.mark.parametrize(("moves", "found"), [(True, []), (False, ["not-balanced"])])
def test_no_leader_moves_back_while_a_partition_is_reassigned(moves: bool, found: list[str]) -> None:
    """KAFKA-10149: the controllers of Kafka to 3.3.2 wait for the end of every reassignment."""
    story = in_peace()
    if moves:
        assigned = ReplicaAssignment(BROKERS, (2,), ())
        story.node(topic_path(story.topic), topic_data({0: assigned}), what="set")
    story.elect(1, (0, 1), 10, 10)
    story.cache(0, 1, 2)
    story.follow(2, 10)
    if not moves:
        story.write_state(1, BROKERS, epoch=story.epoch, client="b1")
    time_passes(story, 20 + SETTLE_S + 2)

    assert [kind for kind in found_duties(story) if kind == "not-balanced"] == found


@pytest.mark.parametrize(("topic", "found"), [("t", []), ("u", ["fetch-stalled"])])
def test_a_throttled_follower_may_get_nothing_for_long(topic: str, found: list[str]) -> None:
    """A throttle of another topic excuses nothing."""
    story = in_peace()
    story.node(topic_config_path(topic), config_data([(FOLLOWER_THROTTLED_REPLICAS, "*")]))
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    time_passes(story, SOCKET_S + ISR_S + 2)

    assert [kind for kind in found_duties(story) if kind == "fetch-stalled"] == found


@pytest.mark.parametrize(("held", "unprocessed"), [(5, []), (3, [(3, 5)])])
def test_what_lies_before_a_members_position_in_a_topic_that_is_created_again_is_skipped(
    held: int, unprocessed: list[tuple[int, int]]
) -> None:
    """Clients that know no topic ids (before KIP-516) go on with the position that they had in the deleted topic."""
    accounts, at, term = Panel().progress, ("t", 0), (0, 1)
    progress = accounts.of("g", at)
    reader = progress.held["c1"] = PartitionReader(1, progress, 0)
    reader.positioned(held, 0, 0)
    accounts.deleted(at)
    log = EpochLog()
    log.restore(0, 10, [(0, term)])
    progress.done.add(5, 10, term)

    assert [piece[:2] for piece in progress.left(pieces_of(log, 0, 10))] == unprocessed


@pytest.mark.parametrize(("cut", "found"), [(True, []), (False, ["committed-unprocessed"])])
def test_in_a_core_that_cannot_get_well_members_need_not_hear_of_what_a_log_lost(cut: bool, found: list[str]) -> None:
    """Records that nobody processed and that the log has had all the time are missed there, too."""
    story = Story("c1")
    story.form(c1="0")
    story.process("c1", 0, 0, 6)
    if cut:
        story.down("b0")
        story.world(DiskTailLost(host="b0", log="t-0", records=4, end_offset=-1))
        story.start("b0")
        story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6, leader_epoch=2))
        story.append(0, 6, 4)
    story.committed("c1", 0, 10)
    away = CoreHealed(core=("b0",), away=(), how="cut off", recalled=(), unrecoverable=("t-0 can have no leader",))
    story.world(away)

    judgement = judge(story.facts, ended_us=story.at_us, checkers=(NoLostRecord(),))
    assert [each.kind for each in judgement.violations] == found


@pytest.mark.parametrize(("cut", "satisfied"), [(True, False), (False, True)])
def test_a_run_is_not_over_while_a_member_has_to_learn_what_a_log_lost(cut: bool, satisfied: bool) -> None:
    """A fetch that a paused leader received fails after request.timeout.ms; then the member asks the next leader."""
    story = Story("c1")
    story.form(c1="0")
    story.process("c1", 0, 0, 6)
    if cut:
        story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6, leader_epoch=2))
        story.append(0, 6, 4)
    story.committed("c1", 0, 10)

    checker = NoLostRecord()
    judging = Judging([checker])
    for seen in story.facts:
        judging.see(seen)
    assert checker.satisfied is satisfied


@pytest.mark.parametrize(
    ("seconds", "delayed", "found"),
    [(1, "", []), (3, "", ["too-many-replicas"]), (3, "b0", []), (3, "b1", ["too-many-replicas"])],
)
def test_a_controller_goes_by_limits_that_were_changed_for_a_moment(
    seconds: int, delayed: str, found: list[str]
) -> None:
    """Brokers learn of a changed setting by a watch of the store. A fault may delay the watch of the controller b0
    (operated swarm of kafka-4.0, seed 144).
    """
    limits = Limits(replica_movements=2)
    story = ClusterStory()
    story.start(STORE)
    story.by("b0/controller", control_notes.BecameController(broker_id=0, controller_epoch=1))
    if delayed:
        links = ((delayed, STORE),)
        story.world(FaultApplied(index=0, kind="delay-watches", text="a watch is delayed", links=links, lasts=True))
    story.node(topic_path(story.topic), topic_data({0: ReplicaAssignment((0,))}), what="set")
    lowered = limits_by_key(Limits(replica_movements=1))
    story.node(BROKER_DEFAULTS, config_data([(key, str(value)) for key, value in lowered.items()]), what="set")
    story.wait(seconds)
    story.node(topic_path(story.topic), topic_data({0: ReplicaAssignment((0, 1, 2), (1, 2))}), what="set")

    found_here = [each.kind for each in story.judged(ReassignmentChecker(limits=limits))[0]]
    assert [kind for kind in found_here if kind == "too-many-replicas"] == found


def led(told: StreamsStory) -> None:
    """b0 leads the changelog of task 0_0."""
    state = state_data(PartitionState(0, 0, (0,), 1))
    written = control_notes.NodeWritten(
        what="created", path=state_path("log", 0), data=state, version=0, zxid=1, client="b0/controller"
    )
    leads = control_notes.BecameLeader(
        topic="log", partition=0, leader_epoch=0, isr=(0,), end_offset=100, high_watermark=100
    )
    told.say(9, "zk", written)
    told.say(10, "b0", leads, notes.RecordsAppended(topic="log", partition=0, base_offset=100, count=100))


@pytest.mark.parametrize(("leads", "found"), [(False, []), (True, ["not-restored"])])
def test_a_copy_is_restored_only_while_somebody_leads_its_changelog(leads: bool, found: list[str]) -> None:
    told = formed()
    run = RunStarted(groups=(APP,), members=(("a", APP), ("b", APP)), brokers=("b0",), topics=())
    told.say(0, "", run, HostStarted(host="b0", life=1, kept_disk=True))
    led(told)
    if not leads:
        told.say(11, "b0", control_notes.ReplicaStopped(topic="log", partition=0, leader_epoch=1, deleted=False))
    told.copy(30, "a", "0", "active", "SUSPENDED", "CLOSED", position=200)
    told.copy(30, "b", "0", "active", "CREATED", "RESTORING")

    assert kinds(told, 110) == found


@pytest.mark.parametrize(("again", "found"), [(False, []), (True, ["loaded"])])
def test_a_log_that_lost_its_end_excuses_the_generations_of_then_and_no_later_one(
    again: bool, found: list[str]
) -> None:
    story = Story("c1")
    story.form(c1="0")
    story.down("b0")
    story.world(DiskTailLost(host="b0", log="__consumer_offsets-3", records=1, end_offset=-1))
    story.start("b0")
    story.load("b0/coordinator", 0)
    if again:
        story.add("c1")
        story.become("PreparingRebalance")
        story.complete(1, "c1")
        story.become("Stable")
        story.down("b0")
        story.start("b0")
        story.load("b0/coordinator", 0)

    assert story.kinds(MembershipRules()) == found
