"""Resets, removals of offsets and failures of members: each is right only for a cause that a checker sees itself."""

import pytest

from kemu.actors.consumer.reasons import CLOSED
from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.commits import CommitsChecker
from kemu.emulator.checkers.lifecycle import Lifecycle
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    MemberReconfigured,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    DeleteTopics,
    EpochEnd,
    EpochQuestion,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)
from kemu.protocol.messages.group import DeleteGroups, OffsetCommit, OffsetDelete, OffsetToCommit, TopicPartitions
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved
from tests.emulator.checkers.story import COORDINATOR, GROUP, TOPIC, Story
from tests.emulator.checkers.test_illegal_runs import caught, story

__all__ = ["story"]

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_commits_rise_again_after_the_first_commit_since_a_seek(story):
    """One seek allows one step back: to the position 2, and nothing below what was committed since then."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.position("c1", 0, 2, "seek")
    story.process("c1", 0, 2, 6)
    story.committed("c1", 0, 5)
    assert not any("was committed and no position was reset" in text for text in story.judged().get("commits", []))

    story.committed("c1", 0, 3)

    caught(story, "commits", "although 5 was committed and no position was reset")


def test_a_commit_of_the_position_before_a_seek_may_arrive_after_it(story):
    """The commits of 8 and then of 2 waited for the coordinator, while the member went on to 9."""
    story.process("c1", 0, 0, 8)
    story.position("c1", 0, 2, "seek")
    story.process("c1", 0, 2, 9)
    story.committed("c1", 0, 8)
    story.committed("c1", 0, 2)
    assert not any("was committed and no position was reset" in text for text in story.judged().get("commits", []))

    story.committed("c1", 0, 9)
    story.committed("c1", 0, 5)

    caught(story, "commits", "although 9 was committed and no position was reset")


def test_a_member_resets_a_position_that_the_log_has(story):
    story.process("c1", 0, 0, 8)
    story.position("c1", 0, 10, "reset")

    caught(story, "commits", "c1 resets t-0 to 10 although its position, 8, is in the log")


@pytest.mark.parametrize("lost", [False, True])
def test_a_truncation_is_of_a_log_that_has_lost_its_end(story, lost):
    story.process("c1", 0, 0, 8)
    if lost:
        story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6))
    story.position("c1", 0, 6, "truncated")

    said = story.judged().get("commits", [])
    assert any("as after a truncation although its position, 8, is in the log" in text for text in said) is not lost


@pytest.mark.parametrize(("start", "excused"), [(8, False), (9, True)])
def test_a_position_that_the_log_has_deleted_is_reset(story, start, excused):
    story.process("c1", 0, 0, 8)
    moved = LogStartMoved(topic=TOPIC, partition=0, start_offset=start, end_offset=10, why="retention")
    story.by("b0", moved)
    story.position("c1", 0, 10, "reset")

    assert any("is in the log" in text for text in story.judged().get("commits", [])) is not excused


def leaves(story, wait_s=1, client="c1", unsubscribes=False):
    """Kinds of what ``lifecycle`` says of a member that polls every 10 s, leaves its group and joins it again."""
    if unsubscribes:
        story.world(FaultApplied(index=0, kind="unsubscribe", text="c1 unsubscribes"))
    story.process("c1", 0, 0, 2)
    story.process("c1", 0, 2, 4)
    story.wait(wait_s)
    story.became("c1", "UNJOINED")
    ids = ((story.ids["c1"], None),)
    about = {"client": client, "connection": 1, "request_id": 1, "ids": ids}
    story.by(COORDINATOR, notes.GroupRequestRead(group=GROUP, api="LeaveGroup", **about))
    story.receive("c1", 2, "0")
    return story.kinds(Lifecycle({GROUP: 10_000_000}))


def test_a_member_that_polls_in_time_does_not_leave_its_group(story):
    """KIP-62: it had processed two batches of the partition, and so polled between them."""
    assert leaves(story) == ["left-in-time"]


@pytest.mark.parametrize("cause", [{"wait_s": 11}, {"client": "admin"}, {"unsubscribes": True}], ids=str)
def test_a_member_leaves_that_polls_too_late_is_expelled_or_unsubscribes(story, cause):
    assert leaves(story, **cause) == []


def resets(policies, *, start=0, to=10, reconfigured=()):
    """Kinds of what ``commits`` says of a member of the group g that starts without a committed offset."""
    story = Story("c1")
    story.append(0, 0, 20)
    if start:
        moved = LogStartMoved(topic=TOPIC, partition=0, start_offset=start, end_offset=20, why="retention")
        story.by("b0", moved)
    if reconfigured:
        story.world(MemberReconfigured(host="c1", profile="", assignors=(), settings=reconfigured))
    story.generation_of(1, c1="")
    story.assigned("c1", 1, "0")
    story.position("c1", 0, to, "reset")
    return story.kinds(CommitsChecker(policies))


@pytest.mark.parametrize(
    "policies", [{GROUP: "earliest"}, {GROUP: "none"}, {GROUP: "latest", "c1": "earliest"}], ids=str
)
def test_a_reset_that_auto_offset_reset_does_not_ask_for(policies):
    assert resets(policies) == ["wrong-reset"]


@pytest.mark.parametrize(
    "right",
    [
        {"policies": {GROUP: "latest"}},
        {"policies": {GROUP: "earliest"}, "to": 0},
        {"policies": {GROUP: "earliest"}, "start": 10},
        {"policies": {"another": "earliest"}},
        {"policies": {GROUP: "earliest"}, "reconfigured": ("auto.offset.reset=latest",)},
    ],
    ids=str,
)
def test_a_reset_that_auto_offset_reset_asks_for(right):
    assert resets(**right) == []


@pytest.mark.parametrize(
    ("to", "kinds"), [(20, []), (19, ["wrong-reset"]), (0, ["wrong-reset"]), (21, ["wrong-reset"])]
)
def test_latest_is_the_end_of_the_log(to, kinds):
    """All twenty records are acknowledged before the member owns the partition; one broker ever led it."""
    story = Story("c1")
    story.append(0, 0, 20)
    story.acknowledge(0, 0, 20)
    story.generation_of(1, c1="")
    story.assigned("c1", 1, "0")
    story.position("c1", 0, to, "reset")

    assert story.kinds(CommitsChecker({GROUP: "latest"})) == kinds


def test_a_deposed_leader_may_tell_an_earlier_end():
    story = Story("c1")
    story.append(0, 0, 20)
    story.acknowledge(0, 0, 20)
    story.by("b1", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=20))
    story.generation_of(1, c1="")
    story.assigned("c1", 1, "0")
    story.position("c1", 0, 15, "reset")

    assert story.kinds(CommitsChecker({GROUP: "latest"})) == []


def test_a_member_starts_behind_everything_that_its_group_has_processed(story):
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.position("c1", 0, 9, "committed")

    caught(story, "commits", "c1 starts t-0 at 9 (committed) although the group only reached 8")


@pytest.mark.parametrize(("start", "kinds"), [(12, []), (13, ["position-not-committed"])])
def test_a_member_starts_at_a_position_that_was_committed_without_work_or_report(story, start, kinds):
    """It seeks, commits the position, and the coordinator ends before its answer (kafka-3.4 operated, seed 9406)."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.position("c1", 0, 12, "seek")
    story.position("c1", 0, start, "committed")

    assert story.kinds(CommitsChecker()) == kinds


def test_a_member_starts_at_a_commit_whose_coordinator_was_deposed_before_it_reported_the_commit(story):
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)
    story.process("c1", 0, 5, 8)
    story.position("c1", 0, 8, "committed")

    assert "commits" not in story.judged()


def test_a_reset_beyond_where_the_log_starts_by_now():
    assert resets({GROUP: "earliest"}, start=9) == ["wrong-reset"]


def test_that_a_member_is_set_otherwise_in_other_things_is_no_excuse():
    settings = ("max.poll.interval.ms=1000",)

    assert resets({GROUP: "earliest"}, reconfigured=settings) == ["wrong-reset"]


def removed(story, why="the group was deleted"):
    story.by(COORDINATOR, notes.OffsetRemoved(group=GROUP, topic=TOPIC, partition=0, why=why))


@pytest.mark.parametrize("why", ["expired", "deleted", "the group was deleted"])
@pytest.mark.parametrize(
    ("owned", "text"), [(True, "although a member owns the partition"), (False, "5.0 s after its commit")]
)
def test_a_coordinator_removes_an_offset_that_was_just_committed(story, why, owned, text):
    story.process("c1", 0, 0, 8)
    if not owned:
        story.load(COORDINATOR, 1, "c1", "c2")
    story.committed("c1", 0, 8)
    story.wait(5)
    removed(story, why)

    caught(story, "commits", f"was removed {text}, and no operator asked for the removal")


@pytest.mark.parametrize(("empty_s", "kinds"), [(3_600, []), (3_700, ["removed-too-late"])])
@pytest.mark.parametrize("ends", [True, False])
def test_the_offsets_of_an_empty_group_go_after_their_retention(story, ends, empty_s, kinds):
    """An hour of retention, and a look at each 2 s: at its end, or when a member comes, it is seen that one is left."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.become("Empty")
    story.wait(empty_s)
    if not ends:
        story.become("PreparingRebalance")
    checker = CommitsChecker(retention_us=3_600_000_000, check_us=2_000_000)
    found = story.kinds(checker)
    checker.finish(story.at_us)

    assert found[:1] == (kinds if not ends else [])
    assert [each.kind for each in checker.violations][:1] == kinds


@pytest.mark.parametrize(("empty_s", "kinds"), [(1_700, ["removed-too-early"]), (3_700, [])])
def test_an_offset_of_an_empty_group_lasts_for_its_retention_since_the_group_became_empty(story, empty_s, kinds):
    """An hour of retention; half of it is asked, because two coordinators may have different clocks (KIP-211)."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.wait(10_000)
    story.become("Empty")
    story.wait(empty_s)
    removed(story, "expired")

    assert story.kinds(CommitsChecker(retention_us=3_600_000_000)) == kinds


@pytest.mark.parametrize(("committed_s", "kinds"), [(1_600, ["removed-too-early"]), (3_700, [])])
def test_an_offset_of_an_empty_group_of_the_consumer_protocol_lasts_since_its_commit(story, committed_s, kinds):
    """Its age does not begin anew when the group becomes empty (kafka-4.0 operated, seed 9460)."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.wait(committed_s)
    story.become("Empty")
    story.wait(60)
    removed(story, "expired")
    checker = CommitsChecker(retention_us=3_600_000_000)
    checker.consumer_protocol_groups = {GROUP}

    assert story.kinds(checker) == kinds


def test_an_operator_may_remove_an_offset_that_was_just_committed(story):
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.world(FaultApplied(index=0, kind="delete-group", text=f"delete group {GROUP}"))
    removed(story)

    assert "commits" not in story.judged()


@pytest.mark.parametrize(("topic", "kinds"), [(TOPIC, []), ("another", ["removed-too-early"])])
def test_a_real_client_that_deletes_a_topic_removes_its_offsets_only(story, topic, kinds):
    """The coordinator removes the offsets before the controller has ended the deletion."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.by("b0/controller", Received("x-app/1", 1, 7, 5, DeleteTopics(topic_names=(topic,), timeout_ms=1_000)))
    removed(story)

    assert story.kinds(CommitsChecker(retention_us=3_600_000_000)) == kinds


@pytest.mark.parametrize(
    ("request_", "kinds"),
    [
        (DeleteGroups(groups=("another", GROUP)), []),
        (DeleteGroups(groups=("another",)), ["removed-too-early"]),
        (OffsetDelete(group=GROUP, topics=(TopicPartitions(topic=TOPIC, partitions=(0,)),)), []),
        (OffsetDelete(group=GROUP, topics=(TopicPartitions(topic="another", partitions=(0,)),)), ["removed-too-early"]),
        (OffsetDelete(group="another", topics=(TopicPartitions(topic=TOPIC, partitions=(0,)),)), ["removed-too-early"]),
    ],
)
def test_a_real_client_that_deletes_a_group_or_offsets_removes_those_only(story, request_, kinds):
    """kafka-consumer-groups --delete and --delete-offsets at a served cluster: no line of the plan names them."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.by(COORDINATOR, Received("x-app/1", 1, 7, 5, request_))
    removed(story)

    assert story.kinds(CommitsChecker(retention_us=3_600_000_000)) == kinds


@pytest.mark.parametrize(("start", "kinds"), [(3, []), (4, ["position-not-committed"])])
def test_a_member_may_start_at_an_operators_commit_that_no_coordinator_reported(story, start, kinds):
    """It was written and replicated, and the coordinator ended before its answer (kafka-3.4 operated, seed 9237)."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    asked = OffsetCommit(group=GROUP, offsets=(OffsetToCommit(topic=TOPIC, partition=0, offset=3),))
    story.by(COORDINATOR, Received("admin", 1, 7, 5, asked))
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.take("c2", 2, "0 1", starts=[start, 0])

    assert story.kinds(CommitsChecker()) == kinds


def test_an_operator_who_deletes_another_group_is_no_excuse(story):
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.world(FaultApplied(index=0, kind="delete-group", text="delete group another"))
    removed(story)

    caught(story, "commits", "and no operator asked for the removal")


@pytest.mark.parametrize("raised", [False, True])
def test_a_listener_that_raises_by_the_plan_excuses_no_failure(story, raised):
    """Kafka's poll() passes the exception on; the consumer works on (``ConsumerRebalanceListenerInvoker``)."""
    story.world(FaultApplied(index=0, kind="fail-listener", text="", links=(("c1", ""),)))
    if raised:
        why = "a fault of the plan"
        story.by("c1", notes.ListenerFailed(group=GROUP, member_id="c1", callback="onPartitionsLost", why=why))
    story.by("c1", a_failure("c1"))

    assert story.kinds(Liveness()) == ["member-failed"]


def test_an_injected_answer_excuses_one_failure_by_that_error(story):
    injected = notes.AnswerInjected(api="SyncGroup", sender="c1", error=ErrorCode.UNKNOWN_SERVER_ERROR)
    story.by("b0", injected)
    story.by("c1", a_failure("c1"))
    assert story.kinds(Liveness()) == []

    story.by("c1", a_failure("c1"))
    assert story.kinds(Liveness()) == ["member-failed"]


def test_an_injected_answer_excuses_no_failure_by_another_error_or_of_another_member(story):
    injected = notes.AnswerInjected(api="SyncGroup", sender="c1", error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    story.by("b0", injected)
    story.by("c1", a_failure("c1"))
    story.by("c2", a_failure("c2"))

    assert story.kinds(Liveness()) == ["member-failed", "member-failed"]


def a_failure(member: str) -> notes.MemberFailed:
    return notes.MemberFailed(group=GROUP, member_id=member, error=ErrorCode.UNKNOWN_SERVER_ERROR, why="told")


def gives_up(story, *, owned=(), groups=(GROUP,), after_s=11):
    """Kinds of what ``commits`` says when c1 has processed records 0 to 7, committed 5 of them, and is to rebalance."""
    story.wait(after_s)
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)
    story.process("c1", 0, 5, 8)
    about = {"group": GROUP, "member_id": story.ids["c1"], "generation": 1}
    story.by("c1", notes.PartitionsRevoked(**about, revoked=((TOPIC, 0),), owned=owned))
    return story.kinds(CommitsChecker(auto_commit=groups))


def test_a_member_gives_up_work_that_it_has_not_committed(story):
    assert gives_up(story) == ["given-up-uncommitted"]


@pytest.mark.parametrize(("links", "excused"), [((), False), ((("c2", ""),), False), ((("c1", ""),), True)])
def test_a_fault_excuses_work_that_is_not_committed_of_the_member_that_it_hits(story, links, excused):
    story.world(FaultApplied(index=0, kind="isolate", text="somebody is cut off", links=links, lasts=True))

    assert gives_up(story) == ([] if excused else ["given-up-uncommitted"])


@pytest.mark.parametrize(
    ("host", "closes", "excused"), [("c1", "in the fault", True), ("c2", "in the fault", False), ("c1", "after", False)]
)
def test_a_commit_that_a_fault_took_from_a_member_that_closes_is_not_made_again(story, host, closes, excused):
    """ConsumerCoordinator.close: one commit, for whose answer it waits at most 30 s."""
    close = FaultApplied(index=1, kind="close-host", text=f"close {host}")
    story.world(FaultApplied(index=0, kind="isolate", text="c1 is cut off", links=(("c1", ""),), lasts=True))
    if closes == "in the fault":
        story.world(close)
    story.world(FaultEnded(index=0, kind="isolate"))
    if closes == "after":
        story.world(close)

    assert gives_up(story, after_s=15) == ([] if excused else ["given-up-uncommitted"])


def gives_up_in_flight(story, *, offset=8, why=CLOSED, later=False, short=(GROUP,)):
    """Kinds of the same checker when c1 sent a commit before, without an answer, and has another state afterwards."""
    story.wait(11)
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)
    story.process("c1", 0, 5, 8)
    about = {"group": GROUP, "member_id": story.ids["c1"], "generation": 1}
    row = OffsetToCommit(topic=TOPIC, partition=0, offset=offset)
    request = OffsetCommit(group=GROUP, generation=1, member_id=story.ids["c1"], offsets=(row,))
    story.by("c1", Send(COORDINATOR, 0, 7, 9, request))
    revoked = notes.PartitionsRevoked(**about, revoked=((TOPIC, 0),), owned=())
    left = notes.MemberBecame(**about, old="STABLE", new="UNJOINED", why=why)
    for facts in ((revoked,), (left,)) if later else ((revoked, left),):
        story.by("c1", *facts)
    return story.kinds(CommitsChecker(auto_commit=(GROUP,), short_closes=short))


def test_a_close_without_time_awaits_no_answer_to_the_commit_that_it_sent(story):
    """ConsumerCoordinator.commitOffsetsSync 4.1.1: one attempt, also when the timer has expired."""
    assert gives_up_in_flight(story) == []


@pytest.mark.parametrize("how", [{"offset": 7}, {"why": "it rejoins"}, {"later": True}, {"short": ()}], ids=repr)
def test_a_close_without_time_excuses_neither_an_unsent_commit_nor_another_revocation(story, how):
    assert gives_up_in_flight(story, **how) == ["given-up-uncommitted"]


@pytest.mark.parametrize(("number", "since_s", "excused"), [(0, 5, True), (1, 5, False), (0, 11, False)])
def test_a_new_leader_excuses_work_on_its_partition_alone(story, number, since_s, excused):
    """A position of another leader epoch is not committed until it is validated (``SubscriptionState``, KIP-320)."""
    story.wait(11)
    story.by(
        "b0", BecameLeader(topic=TOPIC, partition=number, leader_epoch=1, isr=(0,), end_offset=8, high_watermark=8)
    )

    assert gives_up(story, after_s=since_s) == ([] if excused else ["given-up-uncommitted"])


@pytest.mark.parametrize(("error", "excused"), [(None, True), (NOT_LEADER, True), (ErrorCode.NONE, False)])
def test_a_position_is_not_committed_until_the_leader_has_validated_it(story, error, excused):
    """``SubscriptionState.allConsumed`` (3.4.1): a position in AWAIT_VALIDATION is not valid."""
    question = EpochQuestion(topic=TOPIC, partition=0, leader_epoch=0)
    story.by("c1", Send("b0", 0, 7, 4, OffsetForLeaderEpoch(questions=(question,))))
    if error is not None:
        answers = (EpochEnd(topic=TOPIC, partition=0, error_code=error, end_offset=8),)
        story.by("c1", Received("b0", 1, 7, 4, OffsetForLeaderEpochReply(answers=answers)))

    assert gives_up(story) == ([] if excused else ["given-up-uncommitted"])


@pytest.mark.parametrize(("host", "excused"), [("c1", True), ("c2", False)])
def test_an_application_that_unsubscribes_leaves_work_uncommitted(story, host, excused):
    story.world(FaultApplied(index=0, kind="unsubscribe", text=f"{host} unsubscribes"))

    assert gives_up(story) == ([] if excused else ["given-up-uncommitted"])


def test_a_member_that_was_assigned_partitions_since_it_unsubscribed_commits_its_work(story):
    story.world(FaultApplied(index=0, kind="unsubscribe", text="c1 unsubscribes"))
    about = {"group": GROUP, "member_id": story.ids["c1"], "generation": 1}
    story.by("c1", notes.PartitionsAssigned(**about, added=((TOPIC, 0),), owned=((TOPIC, 0),)))

    assert gives_up(story) == ["given-up-uncommitted"]


def test_work_may_stay_uncommitted_without_auto_commit_or_while_other_partitions_stay():
    for other in ({"groups": ()}, {"owned": ((TOPIC, 1),)}):
        told = Story("c1", "c2")
        told.form(c1="0", c2="1")
        assert gives_up(told, **other) == []


def test_work_that_another_member_has_committed(story):
    """c1 is given the partition anew, does nothing there, and gives it up: the commit of 9 is not its own."""
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)
    story.position("c1", 0, 9)
    story.wait(11)
    story.revoke("c1", "0")

    assert "given-up-uncommitted" not in story.kinds(CommitsChecker(auto_commit=(GROUP,)))


def test_work_whose_commit_was_answered_with_an_error(story):
    story.process("c1", 0, 0, 8)
    error = ErrorCode.REBALANCE_IN_PROGRESS
    story.by("c1", notes.CommitAnswered(group=GROUP, member_id=story.ids["c1"], generation=1, error=error))
    story.wait(11)
    story.revoke("c1", "0")

    assert story.kinds(CommitsChecker(auto_commit=(GROUP,))) == []


@pytest.mark.parametrize(("asked", "excused"), [("delete group g", True), ("delete group another", False), ("", False)])
def test_a_coordinator_ends_after_it_wrote_that_a_group_is_deleted_and_before_it_told_so(story, asked, excused):
    """The next coordinator loads the tombstones: its members find no committed offset."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    if asked:
        story.world(FaultApplied(index=0, kind="delete-group", text=asked))
    story.become("Dead")
    story.receive("c1", 1, "0")
    story.assigned("c1", 1, "0")
    story.position("c1", 0, 0, "reset")

    said = story.judged().get("commits", [])
    assert any("although 8 was committed" in text for text in said) is not excused


@pytest.mark.parametrize(("assignor", "found"), [("cooperative-sticky", True), ("range", False)])
def test_a_cooperative_member_is_not_called_back_for_nothing(story, assignor, found):
    """``ConsumerCoordinator.onJoinPrepare``: an eager listener hears of each rebalance, also without partitions."""
    joins = notes.GroupRequestRead(
        group=GROUP,
        api="JoinGroup",
        client="c1",
        connection=1,
        request_id=1,
        ids=(("c1-id", None),),
        generation=-1,
        rows=((assignor, b""),),
    )
    story.by(COORDINATOR, joins)
    story.by("c1", notes.PartitionsRevoked(group=GROUP, member_id="c1-id", generation=1, revoked=(), owned=()))

    said = story.judged().get("lifecycle", [])
    assert any("without a partition" in text for text in said) is found
