"""Groups and members do what they owe within a bound, whatever fault lasts elsewhere meanwhile."""

import pytest
from attrs import evolve

from kemu.emulator.checkers.group_progress import MARGIN_US, GroupDuties
from kemu.emulator.facts import FaultApplied, FaultEnded, HostClosed, MemberReconfigured
from kemu.emulator.judging import Judging, judge
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.watching.group_times import GroupTimes, times_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes import groups as notes
from tests.emulator.checkers.story import COORDINATOR, GROUP, SECOND, Story

TIMES = GroupTimes(
    session_us=10 * SECOND,
    rebalance_us=20 * SECOND,
    request_us=5 * SECOND,
    close_us=5 * SECOND,
    delay_us=0,
    commit_us=5 * SECOND,
)
KEPT_S = 10 + 1 + 5 + 1
MARGIN_S = MARGIN_US // SECOND
ELSEWHERE = FaultApplied(index=0, kind="slow", text="", links=(("b1", ""),), lasts=True)


def found(story: Story, times: GroupTimes = TIMES) -> list[str]:
    checker = GroupDuties({GROUP: times})
    violations = judge(story.facts, ended_us=story.at_us, checkers=[checker]).violations
    return [each.kind for each in violations if each.checker == checker.name]


def hit(host: str, kind: str = "slow", index: int = 1) -> FaultApplied:
    return FaultApplied(index=index, kind=kind, text="", links=((host, ""),), lasts=True)


@pytest.fixture
def story() -> Story:
    """c1 and c2 share t-0 and t-1, all is worked off and committed, and a fault on b1 lasts."""
    story = Story("c1", "c2")
    for member in ("c1", "c2"):
        story.by(member, notes.CoordinatorKnown(group=GROUP, host=COORDINATOR, why="found"))
        story.became(member, "PREPARING_REBALANCE")
    story.form(c1="0", c2="1")
    for number, member in enumerate(("c1", "c2")):
        story.became(member, "STABLE")
        story.process(member, number, 0, 10)
        story.committed(member, number, 10)
    story.world(ELSEWHERE)
    return story


def pass_time(story: Story, seconds: float) -> None:
    """Facts in between, so that the checker looks."""
    for _ in range(int(seconds)):
        story.wait(1)
        story.world()
        story.by("p1", notes.RecordsAcknowledged(topic="t", partition=0, base_offset=0, count=0))


# --- members that are gone -------------------------------------------------------------------------------------------


def test_a_member_that_lost_power_and_is_kept_is_a_violation(story):
    story.down("c2")
    pass_time(story, KEPT_S)

    assert found(story) == ["member-kept"]


def test_a_member_that_is_removed_when_its_session_is_over_is_none(story):
    story.down("c2")
    pass_time(story, 10)
    story.become("PreparingRebalance")
    story.remove(story.ids["c2"])
    story.generation_of(2, c1="0 1")
    pass_time(story, KEPT_S)

    assert found(story) == []


def test_the_id_of_a_former_life_is_kept(story):
    old = story.ids["c2"]
    story.down("c2")
    story.start("c2")
    story.add("c2")
    pass_time(story, KEPT_S)

    assert old != story.ids["c2"]
    assert "member-kept" in found(story)


def test_a_member_that_is_cut_off_must_go_and_one_on_a_slow_link_may_stay(story):
    story.world(hit("c2", "isolate"))
    pass_time(story, KEPT_S)
    assert found(story) == ["member-kept"]


def test_a_member_on_a_slow_link_may_stay(story):
    story.world(hit("c2"))
    pass_time(story, 3 * KEPT_S)
    assert found(story) == []


def test_a_member_whose_application_does_not_poll_must_go_after_max_poll_interval(story):
    """KIP-62: it leaves, or sends no heartbeats any more."""
    story.world(hit("c2", "stop-polling"))
    pass_time(story, 20 + 10)
    assert found(story) == []

    pass_time(story, 20)
    assert found(story) == ["member-kept"]


def test_a_member_whose_process_ended_before_its_stop_of_polls_may_stay_in_its_next_life(story):
    story.world(hit("c2", "stop-polling"))
    story.down("c2")
    story.start("c2")
    story.become("PreparingRebalance")
    story.remove(story.ids["c2"])
    story.add("c2")
    story.generation_of(2, c1="0", c2="1")
    pass_time(story, 20 + 20)
    assert "member-kept" not in found(story)


def test_a_coordinator_that_a_fault_hits_has_its_time_when_that_is_over(story):
    story.world(hit("b0"))
    story.down("c2")
    pass_time(story, 3 * KEPT_S)
    story.world(FaultEnded(index=1, kind="slow"))
    pass_time(story, 10)

    assert found(story) == []


# --- rebalances ------------------------------------------------------------------------------------------------------


def join(story: Story, *members: str) -> list[notes.GroupRequestRead]:
    """The coordinator reads a JoinGroup of each, and has yet to answer."""
    requests = [
        notes.GroupRequestRead(
            group=GROUP, api="JoinGroup", client=each, connection=1, request_id=1, ids=((story.ids[each], None),)
        )
        for each in members
    ]
    for request in requests:
        story.by(COORDINATOR, request)
    return requests


def answer(story: Story, request: notes.GroupRequestRead, error: ErrorCode = ErrorCode.NONE) -> None:
    fact = notes.GroupRequestAnswered(client=request.client, connection=1, request_id=1, error=error)
    story.by(COORDINATOR, fact)


def test_a_join_phase_that_all_joined_ends_at_once(story):
    story.become("PreparingRebalance")
    join(story, "c1", "c2")
    pass_time(story, 4)
    assert found(story) == []

    pass_time(story, 12)
    assert found(story) == ["join-unfinished"]


@pytest.mark.parametrize(
    ("turned_away", "rejoins_s", "wait_s", "kinds"),
    [
        (True, 4, 15, []),
        (True, 4, 40, ["join-unfinished"]),
        (True, 1, 15, ["join-unfinished"]),
        (False, 4, 15, ["join-unfinished"]),
    ],
)
def test_a_group_whose_first_join_was_turned_away_waits_for_the_rebalance_timeout(
    turned_away, rejoins_s, wait_s, kinds
):
    """GroupMetadataManager.completeClassicGroupJoin, maybeCompleteJoinPhase 4.2: nobody waits when the initial delay
    of 3 s ends (kafka-4.2 seed 369).
    """
    story = Story("c1")
    story.state = "Empty"
    story.become("PreparingRebalance")
    story.add("c1")
    if turned_away:
        refused = ErrorCode.REBALANCE_IN_PROGRESS
        story.by(COORDINATOR, notes.RequestRefused(group=GROUP, api="JoinGroup", member_id="c1-1", error=refused))
    story.wait(rejoins_s)
    join(story, "c1")
    pass_time(story, wait_s)

    assert found(story, evolve(TIMES, delay_us=3 * SECOND)) == kinds


def test_a_join_phase_waits_for_an_id_that_was_handed_out_as_long_as_its_session(story):
    """KIP-394: who asked for it may be gone."""
    story.become("PreparingRebalance")
    join(story, "c1", "c2")
    handed_out = notes.RequestRefused(
        group=GROUP, api="JoinGroup", member_id="c3-1", error=ErrorCode.MEMBER_ID_REQUIRED
    )
    story.by(COORDINATOR, handed_out)
    pass_time(story, 14)
    assert found(story) == []

    pass_time(story, 12)
    assert found(story) == ["join-unfinished"]


def test_a_join_phase_waits_for_a_member_that_has_not_joined_for_the_rebalance_timeout(story):
    story.become("PreparingRebalance")
    join(story, "c1")
    pass_time(story, 24)
    assert found(story) == []

    pass_time(story, 12)
    assert found(story) == ["join-unfinished"]


def test_a_join_phase_that_nobody_joined_may_last(story):
    """Static members that are silent are waited for as often as it takes (``GroupCoordinator.onCompleteJoin``)."""
    story.become("PreparingRebalance")
    pass_time(story, 200)

    assert found(story) == []


@pytest.mark.parametrize("answered", [True, False])
def test_a_join_to_a_stable_group_is_answered_when_its_record_is_written(story, answered):
    """GroupCoordinator.updateStaticMemberAndRebalance: the new id of a static member is stored first."""
    (request,) = join(story, "c2")
    if answered:
        answer(story, request)
    pass_time(story, 5 + 5 + 11)

    assert found(story) == ([] if answered else ["join-unfinished"])


def test_a_coordinator_that_died_owes_no_answer(story):
    join(story, "c2")
    story.down("b0")
    story.start("b0")
    story.load(COORDINATOR, 1, "c1", "c2")
    pass_time(story, 100)

    assert "join-unfinished" not in found(story)


@pytest.mark.parametrize(
    ("took_s", "fault", "kinds"), [(1, "", ["closed-early"]), (5, "", []), (1, "c2", []), (1, "b0", [])]
)
def test_who_closes_awaits_what_its_coordinator_owes_until_its_time_is_over(story, took_s, fault, kinds):
    """AbstractCoordinator.close: awaitPendingRequests."""
    if fault:
        story.world(hit(fault))
    story.wait(took_s)
    story.down("c2", "closed")
    story.world(HostClosed(host="c2", life=1, took_us=took_s * SECOND))
    join(story, "c2")

    assert found(story) == kinds


def test_a_process_that_crashed_need_not_await_what_an_earlier_one_that_closed_awaited(story):
    story.wait(1)
    story.down("c2", "closed")
    story.world(HostClosed(host="c2", life=1, took_us=SECOND))
    story.start("c2")
    story.down("c2")
    join(story, "c2")

    assert "closed-early" not in found(story)


def test_a_leader_that_assigns_nothing_is_a_violation_unless_a_fault_hits_it(story):
    story.become("PreparingRebalance")
    story.complete(2, "c1", "c2")
    story.became("c1", "COMPLETING_REBALANCE")
    told, told_us = len(story.facts), story.at_us
    pass_time(story, 2 * 5 + MARGIN_S + 5)
    assert found(story) == ["sync-unfinished"]

    del story.facts[told:]
    story.at_us = told_us
    story.world(hit("c1"))
    pass_time(story, 2 * 5 + MARGIN_S + 5)
    assert found(story) == []


# --- members without a group ---------------------------------------------------------------------------------------


def oust_c2(story: Story) -> None:
    story.become("PreparingRebalance")
    story.remove(story.ids["c2"])
    story.generation_of(2, c1="0 1")
    for number in (0, 1):
        story.position("c1", number, 10)


def test_an_ousted_member_that_does_not_join_again_is_a_violation(story):
    oust_c2(story)
    story.became("c2", "UNJOINED")
    pass_time(story, 20 + MARGIN_S + 15)

    assert found(story) == ["not-rejoined"]


def test_an_ousted_member_that_joins_again_is_none(story):
    oust_c2(story)
    story.became("c2", "UNJOINED")
    pass_time(story, 20)
    story.became("c2", "PREPARING_REBALANCE")
    story.add("c2")
    story.become("PreparingRebalance")
    story.generation_of(3, c1="0", c2="1")
    story.became("c2", "STABLE")
    for number, member in enumerate(("c1", "c2")):
        story.position(member, number, 10)
    pass_time(story, 100)

    assert found(story) == []


def test_a_join_that_may_be_lost_is_waited_for_as_long_as_the_client_does(story):
    """``JoinGroupRequest`` has a timeout of its own: the rebalance timeout and 5 s."""
    story.became("c2", "PREPARING_REBALANCE")
    oust_c2(story)
    pass_time(story, 20 + MARGIN_S + 15)
    assert found(story) == []

    pass_time(story, 25)
    assert found(story) == ["not-rejoined"]


def test_a_member_has_its_time_to_join_again_from_when_it_gave_a_lost_join_up(story):
    story.became("c2", "PREPARING_REBALANCE")
    oust_c2(story)
    pass_time(story, 20 + MARGIN_S + 14)
    story.became("c2", "UNJOINED")
    pass_time(story, 20)
    assert found(story) == []

    pass_time(story, 40)
    assert found(story) == ["not-rejoined"]


def test_a_member_that_unsubscribed_owes_nothing(story):
    oust_c2(story)
    why = "the consumer unsubscribed from all topics"
    fact = notes.MemberBecame(group=GROUP, member_id="", old="STABLE", new="UNJOINED", generation=-1, why=why)
    story.by("c2", fact)
    pass_time(story, 200)

    assert found(story) == []


# --- work ------------------------------------------------------------------------------------------------------------


def moves(story: Story, *, takes: bool) -> None:
    """In generation 2 c2 is given t-0, too; c1 has let go of it."""
    story.revoke("c1", "0")
    story.become("PreparingRebalance")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c2", 2, "0 1")
    if takes:
        story.assigned("c2", 2, "0")


@pytest.mark.parametrize(
    ("takes", "bound_s", "kind"), [(False, 20 + MARGIN_S, "not-taken"), (True, 2 * 5 + MARGIN_S, "no-position")]
)
def test_a_partition_that_was_given_is_taken_and_gets_a_position_in_time(story, takes, bound_s, kind):
    moves(story, takes=takes)
    pass_time(story, bound_s - 1)
    assert found(story) == []

    pass_time(story, 12)
    assert found(story) == [kind]


def test_an_owner_that_gets_its_position_or_whom_a_fault_hits_owes_none(story):
    moves(story, takes=True)
    told, told_us = len(story.facts), story.at_us
    story.position("c2", 0, 10)
    pass_time(story, 100)
    assert found(story) == []

    del story.facts[told:]
    story.at_us = told_us
    story.world(hit("c2"))
    pass_time(story, 100)
    assert found(story) == []


def test_records_that_an_undisturbed_member_does_not_read_are_a_violation(story):
    story.append(1, 10, 5)
    pass_time(story, 5 + MARGIN_S + 20)

    assert found(story) == ["records-unread"]


@pytest.mark.parametrize(
    ("errors", "waits_s", "said"),
    [
        (("UNKNOWN_TOPIC_OR_PARTITION",), 20 + 5 + MARGIN_S - 2, []),
        (("UNKNOWN_TOPIC_OR_PARTITION",), 20 + 5 + MARGIN_S + 10, ["records-unread"]),
        (("UNKNOWN_TOPIC_OR_PARTITION", "NONE"), 5 + MARGIN_S + 10, ["records-unread"]),
        (("REBALANCE_IN_PROGRESS",), 5 + MARGIN_S + 10, ["records-unread"]),
    ],
    ids=["in time", "too long", "a later commit", "another error"],
)
def test_a_member_whose_commit_names_a_deleted_topic_reads_nothing_before_its_rejoin(story, errors, waits_s, said):
    """``ConsumerCoordinator.onJoinPrepare`` 4.1 (operated swarm of kafka-4.1, seed 6429)."""
    for name in errors:
        story.by("c2", notes.CommitAnswered(group=GROUP, member_id="c2-1", generation=1, error=ErrorCode[name]))
    story.append(1, 10, 5)
    pass_time(story, waits_s)

    assert found(story) == said


@pytest.mark.parametrize(("left", "said"), [(10, []), (12, ["records-unread"])])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_log_lost_waits_for_nobody(story, when, left, said):
    """Nobody appends any more: the next log ends at the group's position, or has two records behind it."""
    story.append(0, 10, 4)
    if when == "after":
        story.heal()
    story.by("b0", notes.PartitionHosted(topic="t", partition=0, end_offset=left, leader_epoch=1))
    if when == "before":
        story.heal()
    pass_time(story, 5 + MARGIN_S + 20)

    assert found(story) == said


def test_a_run_lasts_until_work_after_the_faults_is_overdue(story):
    story.append(1, 10, 5)
    story.heal()
    judging = Judging([checker := GroupDuties({GROUP: TIMES})])
    pass_time(story, 11)
    for seen in story.facts:
        judging.see(seen)

    assert not checker.satisfied
    assert checker.judges_at_us is not None
    assert story.at_us < checker.judges_at_us <= story.at_us + (5 + MARGIN_S) * SECOND


def test_a_member_of_streams_or_with_kip_333_has_the_poll_interval_more(story):
    times = evolve(TIMES, reads=False)
    story.append(1, 10, 5)
    pass_time(story, 5 + MARGIN_S + 10)
    assert found(story, times) == []

    pass_time(story, 20 + 10)
    assert found(story, times) == ["records-unread"]


def test_a_member_that_processes_nothing_at_all_has_the_time_of_two_polls(story):
    """Its backlog may take 20 polls of a minute for each partition, but then it processes some of it."""
    times = evolve(TIMES, poll_us=1 * SECOND, records_us=60 * SECOND)
    story.append(1, 10, 5)
    pass_time(story, 5 + 2 + MARGIN_S + 11)
    assert found(story, times) == ["records-unread"]


def test_records_of_a_partition_whose_broker_a_fault_hits_may_wait(story):
    story.world(hit("b0"))
    story.append(1, 10, 5)
    pass_time(story, 200)

    assert found(story) == []


def test_a_paused_partition_may_wait_and_another_members_may_not(story):
    story.world(FaultApplied(index=1, kind="pause-partitions", text="c2 pauses t-1", lasts=True))
    story.append(1, 10, 5)
    pass_time(story, 100)
    assert found(story) == []

    story.append(0, 10, 5)
    pass_time(story, 100)
    assert found(story) == ["records-unread"]


def test_work_that_is_not_committed_by_interval_is_a_violation(story):
    story.append(1, 10, 5)
    story.process("c2", 1, 10, 15)
    pass_time(story, 5 + 5 + MARGIN_S + 10)

    assert found(story) == ["offsets-uncommitted"]


def test_a_member_that_commits_by_itself_owes_no_commit_by_interval(story):
    story.append(1, 10, 5)
    story.process("c2", 1, 10, 15)
    pass_time(story, 200)

    assert found(story, evolve(TIMES, commits={"c2": False})) == []


def test_a_member_that_is_set_to_longer_times_gives_its_group_longer_bounds(story):
    story.world(
        MemberReconfigured(host="c2", profile="", assignors=(), settings=("session.timeout.ms=60000",)),
    )
    story.down("c2")
    pass_time(story, 60)

    assert found(story) == []


# --- settings --------------------------------------------------------------------------------------------------------


def test_the_session_of_a_group_that_migrates_is_the_longer_of_both_protocols():
    """Classic members have session.timeout.ms, others group.consumer.session.timeout.ms (swarm of 4.3, seed 73)."""
    text = """
        profile = "kafka-4.3"
        duration = "60s"
        [topics.t]
        partitions = 2
        [groups.g]
        topics = ["t"]
        config = { "session.timeout.ms" = 10000 }
        [[plan]]
        at = "20s"
        do = "rolling-upgrade"
        group = "g"
        every = "5s"
        down = "1s"
        settings = ["group.protocol=PROTOCOL"]
        """
    sessions = [
        times_of(scenario_from_toml(text.replace("group.protocol=PROTOCOL", setting)))["g"].session_us
        for setting in ("group.protocol=consumer", "max.poll.records=9")
    ]

    assert sessions == [45 * SECOND, 10 * SECOND]


def test_bounds_come_from_the_settings_of_the_slowest_member():
    scenario = scenario_from_toml(
        """
        draws = "calm"
        [topics.t]
        partitions = 2
        [groups.g]
        topics = ["t"]
        members = 2
        config = { "session.timeout.ms" = 6000, "enable.auto.commit" = false }
        [groups.g.overrides.c2]
        config = { "session.timeout.ms" = 9000, "enable.auto.commit" = true }
        """
    )
    times = times_of(scenario)["g"]

    assert times.session_us == 9 * SECOND
    assert dict(times.commits) == {"": False, "c1": False, "c2": True}
