"""What the protocol forbids is caught, by the checker whose rule it breaks. Each story breaks one rule."""

import pytest

from kemu.actors.machine import Received
from kemu.emulator.checkers.base import MAX_VIOLATIONS
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.facts import (
    DiskTailLost,
    FaultApplied,
    HostPaused,
    HostStarted,
    TopicGrown,
    TopicReplicated,
)
from kemu.emulator.judging import judge
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import FetchedOffset, OffsetFetchReply
from kemu.protocol.nodes import PartitionState, ReplicaAssignment, state_data, state_path, topic_data, topic_path
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.replication import NodeWritten, PartitionStateBecame, StateChangeRefused
from tests.emulator.checkers.story import COORDINATOR, GROUP, SECOND, TOPIC, Story
from tests.emulator.checkers.test_legal_runs import began_and_left, forgotten_id


@pytest.fixture
def story():
    """A group of two in generation 1, ten records in each partition."""
    told = Story("c1", "c2", "c3")
    told.down("c3", "closed")
    told.form(c1="0", c2="1")
    return told


def caught(story: Story, checker: str, text: str) -> None:
    """The checker says this; others may see consequences."""
    said = story.judged()
    assert any(text in each for each in said.get(checker, [])), said


# --- one-owner -----------------------------------------------------------------------------------------------------


def test_two_members_take_one_partition_in_one_generation(story):
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.generation_of(2, c1="0", c2="0 1")

    caught(story, "one-owner", "t-0 in generation 2: c2-1 of c2 takes it, and so does c1-1 of c1")


# --- lifecycle -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("instance", "loaded"), [("i3", "c1-1"), ("i1", "c1-2"), ("i1", "c9-1")])
def test_an_assignment_taken_twice_by_ids_that_do_not_replace_each_other(instance, loaded):
    """Only an id whose instance goes by another one in the log that was loaded is gone, and none that was loaded."""
    story = Story("c1", "c2")
    forgotten_id(story, instance, loaded)
    story.add("c1", instance=instance)
    story.take("c1", 1, "0")

    caught(story, "one-owner", "t-0 in generation 1: c1-3 of c1 takes it, and so does c1-2 of c1")


def test_an_id_that_was_removed_and_is_loaded_again_owns_again():
    """What a deposed coordinator did with a member counts no more."""
    story = Story("c1", "c2")
    story.add("c1")
    story.become("PreparingRebalance")
    story.add("c2")
    story.generation_of(1, c1="0", c2="1")
    story.remove("c1-1")
    story.load("b1/coordinator", 1, "c1", "c2")
    story.take("c2", 1, "0 1")

    caught(story, "one-owner", "t-0 in generation 1: c2-1 of c2 takes it, and so does c1-1 of c1")


def test_work_on_a_partition_that_was_revoked(story):
    story.process("c1", 0, 0, 2)
    story.revoke("c1", "0")
    story.process("c1", 0, 2, 4)

    caught(story, "lifecycle", "c1 processed records 2 to 3 of t-0, which it does not own")


def test_work_on_a_partition_the_next_assignment_did_not_give(story):
    story.become("PreparingRebalance")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c1", 2, "")
    story.assigned("c1", 2, "")
    story.process("c1", 0, 0, 2)

    caught(story, "lifecycle", "which it was not assigned in generation 2")


@pytest.mark.parametrize(("first", "last", "text"), [(3, 5, "its position was 2"), (1, 5, "its position was 2")])
def test_a_gap_or_a_repetition_within_one_ownership(story, first, last, text):
    story.process("c1", 0, 0, 2)
    story.process("c1", 0, first, last)

    caught(story, "lifecycle", text)


def test_work_without_a_position(story):
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c1", 2, "0")
    story.assigned("c1", 2, "0")
    story.process("c1", 0, 0, 2)

    caught(story, "lifecycle", "never set a position")


# --- commits -------------------------------------------------------------------------------------------------------


def expires(story: Story, partition: int = 0) -> None:
    story.by(COORDINATOR, notes.OffsetRemoved(group=GROUP, topic=TOPIC, partition=partition, why="expired"))


def test_an_offset_expires_that_a_member_works_on(story):
    """KAFKA-4682: while a group has members, what they subscribe to is kept (KIP-211)."""
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)
    story.wait(11)
    expires(story)

    caught(story, "commits", "the offset of t-0 in g was removed although a member owns the partition")


def test_an_offset_expires_while_a_group_that_was_empty_for_a_moment_comes_back(story):
    """KAFKA-13636: the subscriptions of the last generation say nothing of the next."""
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)
    story.become("PreparingRebalance")
    story.become("Empty")
    story.wait(2)
    story.become("PreparingRebalance")
    expires(story)

    caught(story, "commits", "the offset of t-0 in g was removed while its group rebalances")


def test_a_commit_ahead_of_the_work(story):
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 6)

    caught(story, "commits", "c1-1 committed 6 of t-0 although it processed records only up to 5")


def test_a_commit_that_goes_back(story):
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.committed("c1", 0, 5)

    caught(story, "commits", "although 8 was committed and no position was reset")


def late_commit(story, offset, *, position=21, told_of="c1", says=20):
    """c1 has committed 8; a commit of 5 is in the log at ``position``, and one of ``told_of`` at ``says`` was late."""
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    about = {"group": GROUP, "member_id": story.ids["c1"]}
    late = {"group": GROUP, "member_id": story.ids[told_of], "first_position": says, "last_position": says + 1}
    row = notes.OffsetCommitted(topic=TOPIC, partition=0, offset=offset, generation=1, position=position, **about)
    story.by(COORDINATOR, notes.LateCommit(**late), row)


def test_a_commit_that_was_read_late_may_be_one_of_before(story):
    """Its member had left the connection that it came on, and had committed more over another one."""
    late_commit(story, 5)

    assert "commits" not in story.judged()


@pytest.mark.parametrize("other", [{"position": 22}, {"position": 19}, {"told_of": "c2"}], ids=str)
def test_that_another_commit_was_read_late_is_no_excuse(story, other):
    """The next one of the same member in the same step, and another member's."""
    late_commit(story, 5, **other)

    caught(story, "commits", "although 8 was committed and no position was reset")


def test_a_commit_that_was_read_late_excuses_none_in_later_steps(story):
    late_commit(story, 6)
    story.committed("c1", 0, 5, position=20)

    caught(story, "commits", "although 6 was committed and no position was reset")


def test_a_commit_that_was_read_late_is_no_further_than_its_members_work(story):
    late_commit(story, 9)

    caught(story, "commits", "although it processed records only up to 8")


def test_a_new_owner_that_starts_before_what_was_committed(story):
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.take("c2", 2, "0 1", starts=[3, 0])

    caught(story, "commits", "c2 starts t-0 at 3 (committed) although 8 was committed")


def test_a_failover_that_forgets_commits(story):
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.down("b0")
    story.load("b1/coordinator", 1, "c1", "c2")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c1", 2, "0")
    story.assigned("c1", 2, "0")
    story.position("c1", 0, 0, why="reset")

    caught(story, "commits", "c1 starts t-0 at 0 (reset) although 8 was committed")


def after_the_groups_log_was_cut(story, end, start):
    """c1 has committed 4 by record 10 and 8 by record 20; the next leader of the log has it to ``end``."""
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=21))
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 4, position=10)
    story.committed("c1", 0, 8, position=20)
    story.groups_log("b1", 1, (0, 0), (1, end), end=end)
    story.load("b1/coordinator", 1, "c1", "c2")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.take("c2", 2, "0 1", starts=[start, 0])


def test_a_log_that_lost_other_commits_is_no_excuse(story):
    """Only records that the log itself lost count as lost."""
    after_the_groups_log_was_cut(story, end=20, start=3)

    caught(story, "commits", "c2 starts t-0 at 3 (committed) although 4 was committed")


def test_a_start_where_the_groups_log_still_knows_of_is_right_after_a_loss(story):
    after_the_groups_log_was_cut(story, end=20, start=4)

    assert "commits" not in story.judged()


@pytest.mark.parametrize(
    ("end", "error", "kind"),
    [
        (15, ErrorCode.FENCED_INSTANCE_ID, "forgotten-instance"),
        (16, ErrorCode.FENCED_INSTANCE_ID, "member-failed"),
        (15, ErrorCode.GROUP_AUTHORIZATION_FAILED, "member-failed"),
    ],
)
def test_a_static_member_that_is_fenced_after_the_groups_log_lost_its_id(story, end, error, kind):
    """Nobody else knows a member's id: it is in no record before record 15, and was in one behind it."""
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=15))
    story.add("c1", instance="c1")
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=15, count=6))
    story.groups_log("b1", 1, (0, 0), (1, end), end=end)
    story.by("c1", notes.MemberFailed(group=GROUP, member_id="", error=error, why="told"))

    assert story.kinds(Liveness()) == [kind]


@pytest.mark.parametrize(
    ("came_in", "then", "next_coordinator", "kind"),
    [
        ("PreparingRebalance", "", "b1", "forgotten-instance"),
        ("PreparingRebalance", "Stable", "b1", "member-failed"),
        ("Stable", "", "b1", "member-failed"),
        ("CompletingRebalance", "", "b1", "forgotten-instance"),
        ("Reconciling", "", "b1", "member-failed"),
        ("PreparingRebalance", "", "", "member-failed"),
        ("CompletingRebalance", "", "", "member-failed"),
    ],
)
def test_a_static_member_that_is_fenced_for_an_id_from_a_rebalance_that_was_never_written(
    story, came_in, then, next_coordinator, kind
):
    """GroupCoordinator 3.4.1 stores a group with its leader's assignment, and a replacement in Stable by itself.

    Only another coordinator can lack the id: the one that gave the id has it in memory.
    """
    story.become(came_in)
    story.add("c1", instance="c1")
    if then:
        story.become(then)
    if next_coordinator:
        story.load(next_coordinator, 1)
    failed = notes.MemberFailed(
        group=GROUP, member_id=story.ids["c1"], error=ErrorCode.FENCED_INSTANCE_ID, why="another coordinator"
    )
    story.by("c1", failed)

    assert story.kinds(Liveness()) == [kind]


@pytest.mark.parametrize(
    ("since", "kind"), [("b0/coordinator", "forgotten-instance"), ("b1/coordinator", "member-failed")]
)
def test_a_static_member_that_is_fenced_for_an_id_that_a_deposed_coordinator_gave_it(story, since, kind):
    """b0 answers joins out of its memory until it hears that b1 leads the group's log; b1 fences other ids."""
    story.load("b1/coordinator", 1, "c1", "c2")
    entered = notes.MemberAdded(group=GROUP, member_id="c1-new", client_id="c1", instance_id="c1")
    story.by(since, entered)
    story.become("PreparingRebalance")
    story.become("CompletingRebalance", 2)
    story.become("Stable")
    story.by(
        "c1",
        notes.MemberFailed(group=GROUP, member_id="c1-new", error=ErrorCode.FENCED_INSTANCE_ID, why="another id"),
    )

    assert story.kinds(Liveness()) == [kind]


def test_a_commit_that_is_answered_and_not_kept(story):
    """One was reported and heard of; of the second success no coordinator knows anything."""
    answered = notes.CommitAnswered(group="g", member_id=story.ids["c1"], generation=1, error=ErrorCode.NONE)
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.by("c1", answered)
    assert "commits" not in story.judged()
    story.by("c1", answered)

    caught(story, "commits", "c1 learned that a commit succeeded, but no coordinator reported the commit")


def test_a_commit_that_counts_before_all_have_its_record(story):
    """GroupMetadataManager.storeOffsets: acks=all."""
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=21))
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8, position=20)

    caught(story, "replicas", "got records to 20 of __consumer_offsets-0 acknowledged; committed are those to -1")


# --- no-lost-record ------------------------------------------------------------------------------------------------


def test_a_commit_over_records_nobody_processed(story):
    story.process("c1", 0, 0, 3)
    story.position("c1", 0, 6)
    story.process("c1", 0, 6, 8)
    story.committed("c1", 0, 8)

    caught(story, "no-lost-record", "group g committed 8 of t-0 without processing records 3 to 5")


def test_reading_on_behind_a_cut_is_excused_for_the_records_that_came_again_and_for_no_other(story):
    """Records 6 to 9 were lost by the disk and written anew; 10 and 11 were not."""
    story.process("c1", 0, 0, 10)
    story.down("b0")
    story.world(DiskTailLost(host="b0", log="t-0", records=4, end_offset=-1))
    story.start("b0")
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6))
    story.append(0, 6, 8)
    story.position("c1", 0, 12)
    story.by("c1", notes.EpochRead(topic=TOPIC, partition=0, offset=12, leader_epoch=0, life=2))
    story.process("c1", 0, 12, 14)
    story.committed("c1", 0, 14)

    caught(story, "no-lost-record", "group g committed 14 of t-0 without processing records 10 to 11")
    assert [(loss.why, loss.first, loss.last) for loss in judge(story.facts, ended_us=story.at_us).losses] == [
        ("lost-tail", 6, 9),
        ("read-past", 6, 9),
    ]


def test_reading_on_where_a_disk_was_empty_is_excused_for_what_was_worked_off_there_and_for_no_other(story):
    """Records 8 and 9 were lost before anybody had worked them off: those that came there were to be read."""
    story.process("c1", 0, 0, 8)
    story.down("b0")
    story.start("b0", kept_disk=False)
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=0))
    story.append(0, 0, 12)
    story.position("c1", 0, 10)
    story.by("c1", notes.EpochRead(topic=TOPIC, partition=0, offset=10, leader_epoch=0, life=2))
    story.process("c1", 0, 10, 12)
    story.committed("c1", 0, 12)

    caught(story, "no-lost-record", "group g committed 12 of t-0 without processing records 8 to 9")
    assert [(loss.why, loss.first, loss.last) for loss in judge(story.facts, ended_us=story.at_us).losses] == [
        ("lost-disk", 0, 9),
        ("read-past", 0, 7),
    ]


def test_a_disk_that_lost_something_once_excuses_no_second_loss(story):
    """The disk took records 6 to 9; nothing took 4 and 5, when the process alone died later."""
    story.process("c1", 0, 0, 10)
    story.down("b0")
    story.world(DiskTailLost(host="b0", log="t-0", records=4, end_offset=-1))
    story.start("b0")
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6))
    story.down("b0", "process")
    story.start("b0")
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=4))
    story.append(0, 4, 8)
    story.process("c1", 0, 10, 12)
    story.committed("c1", 0, 12)

    said = story.judged()["no-lost-record"]
    assert "records 4 to 5 of t-0 were acknowledged and are no longer in the log" in said
    assert "group g committed 12 of t-0 without processing records 4 to 5" in said


def cut_to_6_in_another_epoch(story: Story) -> None:
    """t-0 loses records 6 to 9 with the end of its disk, and gets eight others in leader epoch 2."""
    story.down("b0")
    story.world(DiskTailLost(host="b0", log="t-0", records=4, end_offset=-1))
    story.start("b0")
    story.by(
        "b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6, leader_epoch=2, epochs=((0, 0), (2, 6)))
    )
    story.append(0, 6, 8)


def test_reading_on_behind_a_cut_of_which_another_leader_epoch_told(story):
    """KIP-320: whoever is told of the epoch asks where its own ended, and goes back."""
    story.process("c1", 0, 0, 10)
    cut_to_6_in_another_epoch(story)
    story.by("c1", notes.EpochRead(topic=TOPIC, partition=0, offset=10, leader_epoch=2, life=2))
    story.process("c1", 0, 10, 14)
    story.committed("c1", 0, 14)

    caught(story, "no-lost-record", "group g committed 14 of t-0 without processing records 6 to 9")


@pytest.mark.parametrize(("epoch", "is_told"), [(0, True), (-1, False)])
def test_nobody_tells_who_goes_on_at_an_offset_that_was_committed_without_a_leader_epoch(story, epoch, is_told):
    """Streams commits none up to 3.9 (``StreamTask.committableOffsetsAndMetadata``): such a loss is expected."""
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)
    cut_to_6_in_another_epoch(story)
    reply = OffsetFetchReply(
        offsets=(FetchedOffset(topic=TOPIC, partition=0, offset=10, leader_epoch=epoch, error=ErrorCode.NONE),)
    )
    story.by("c1", Received("b0/coordinator", 1, 1, 8, reply))
    story.position("c1", 0, 10)
    story.by("c1", notes.EpochRead(topic=TOPIC, partition=0, offset=10, leader_epoch=2, life=2))
    story.process("c1", 0, 10, 14)
    story.committed("c1", 0, 14)

    assert bool(story.judged().get("no-lost-record")) is is_told


def test_a_group_whose_log_was_cut_has_passed_nothing_of_what_came_since(story):
    """Its offset stands above new records; the next member that starts there is told (KIP-320)."""
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)
    cut_to_6_in_another_epoch(story)

    assert story.judged().get("no-lost-record", []) == []


def test_reading_on_behind_a_cut_that_no_disk_explains(story):
    story.process("c1", 0, 0, 10)
    story.down("b0", "process")
    story.start("b0")
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6))
    story.append(0, 6, 6)
    story.process("c1", 0, 10, 12)
    story.committed("c1", 0, 12)

    assert "group g committed 12 of t-0 without processing records 6 to 9" in "".join(story.judged()["no-lost-record"])


def test_an_acknowledged_record_that_is_gone_after_a_restart(story):
    story.down("b0", "process")
    story.start("b0")
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=7))

    caught(story, "no-lost-record", "records 7 to 9 of t-0 were acknowledged and are no longer in the log")


def test_an_acknowledgement_of_what_was_never_appended(story):
    story.acknowledge(0, 10, 5)

    caught(story, "no-lost-record", "its log never went past 10")


def test_work_on_records_that_do_not_exist(story):
    story.process("c1", 0, 0, 12)

    caught(story, "no-lost-record", "whose log ended at 10")


def test_an_append_that_does_not_follow_the_log(story):
    story.append(0, 12, 1)

    caught(story, "no-lost-record", "its log ended at 10")


# --- membership -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", ["CompletingRebalance", "Empty", "Stable"])
def test_an_illegal_transition(story, new):
    story.become(new)

    caught(story, "membership", f"it became {new} from Stable, which is no legal transition")


def test_a_transition_from_a_state_it_was_not_in(story):
    story.state = "Empty"
    story.become("PreparingRebalance")

    caught(story, "membership", "it became PreparingRebalance from Empty, but it was Stable")


@pytest.mark.parametrize("generation", [1, 3])
def test_a_generation_that_does_not_rise_by_one(story, generation):
    story.become("PreparingRebalance")
    story.complete(generation, "c1", "c2")

    caught(story, "membership", f"generation {generation} began after 1")


@pytest.mark.parametrize("empty", [1, 3])
def test_a_second_generation_in_one_step_that_does_not_rise_by_one(empty):
    """Who left behind its join: each of the two join phases makes one generation."""
    story = Story("c1")
    story.add("c1")
    story.become("PreparingRebalance")
    story.by(COORDINATOR, *began_and_left(1, empty))

    caught(story, "membership", f"it became Empty in generation {empty} after 1")
    caught(story, "membership", f"generation {empty} began after 1")


def test_a_generation_that_rises_between_join_phases(story):
    story.become("PreparingRebalance", 2)

    caught(story, "membership", "it became PreparingRebalance in generation 2 after 1")


def test_a_member_that_was_removed_is_in_the_next_generation(story):
    story.remove("c1-1")
    story.become("PreparingRebalance")
    story.complete(2, "c2", "c1")

    caught(story, "membership", "generation 2 began with c1-1, not in the group")


def test_a_leader_that_is_no_member(story):
    story.become("PreparingRebalance")
    story.complete(2, "c1", "c2", leader="c9-1")

    caught(story, "membership", "generation 2 began with c9-1, not in the group")


def test_a_member_added_twice_or_removed_twice(story):
    story.add("c1")
    story.remove("c2-1")
    story.remove("c2-1")

    caught(story, "membership", "c1-1 was added twice")
    caught(story, "membership", "c2-1 was removed, but is no member")


def test_an_empty_group_with_members(story):
    story.become("PreparingRebalance")
    story.become("Empty", 2)

    caught(story, "membership", "it became Empty with members")


def test_a_failover_that_forgets_a_stable_generation(story):
    story.down("b0")
    story.load("b1/coordinator", 0)

    caught(story, "membership", "it was loaded with generation 0; 1 was Stable before")


def test_a_failover_that_invents_a_generation(story):
    story.down("b0")
    story.load("b1/coordinator", 5, "c1")

    caught(story, "membership", "the last completed was 1")


def test_a_failover_that_forgets_the_whole_group(story):
    story.down("b0")
    story.coordinator, story.state, story.generation = "b1/coordinator", "Empty", 0
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(1, "c1")

    caught(story, "membership", "generation 1 began although 1 was Stable before")


def test_a_group_loaded_in_a_state_no_log_holds(story):
    story.down("b0")
    story.load("b1/coordinator", 1, "c1", state="PreparingRebalance")

    caught(story, "membership", "it was loaded as PreparingRebalance")


# --- lifecycle -----------------------------------------------------------------------------------------------------


def test_the_dead_speak(story):
    story.down("c1")
    story.process("c1", 0, 0, 2)

    caught(story, "lifecycle", "c1 reported Processed in life 1; it is down")


def test_an_old_life_speaks_in_a_new_one(story):
    story.down("c1")
    story.start("c1")
    story.by("c1", notes.CoordinatorKnown(group=GROUP, host="b0", why="told"), life=1)

    caught(story, "lifecycle", "c1 reported CoordinatorKnown in life 1; life 2 runs")


def test_a_coordinator_speaks_though_its_host_is_down(story):
    story.down("b0")
    story.become("PreparingRebalance")

    caught(story, "lifecycle", "b0/coordinator reported GroupBecame in life 1; it is down")


def test_a_host_that_runs_is_started(story):
    story.world(HostStarted(host="c1", life=2, kept_disk=True))

    caught(story, "lifecycle", "c1 started while it ran")


def test_a_paused_host_speaks(story):
    story.world(HostPaused(host="c1"))
    story.process("c1", 0, 0, 2)

    caught(story, "lifecycle", "c1 reported Processed while it was paused")


def test_a_closed_member_speaks(story):
    story.became("c1", "CLOSED")
    story.by("c1", notes.CoordinatorKnown(group=GROUP, host="b0", why="told"))

    caught(story, "lifecycle", "c1 reported CoordinatorKnown after it had closed")


def test_a_failed_member_works_on(story):
    story.became("c1", "FAILED")
    story.process("c1", 0, 0, 2)

    caught(story, "lifecycle", "c1 reported Processed after it had failed for good")


def test_a_lost_partition_was_revoked_before_the_end_of_the_membership(story):
    """A partition that was revoked before the member was fenced is not lost again."""
    story.revoke("c1", "0")
    story.became("c1", "FENCED")
    story.owned["c1"] = {("t", 0)}
    story.lose("c1")

    caught(story, "lifecycle", "c1 onPartitionsLost and its owned partitions differ in t-0")


def test_a_partition_revoked_after_the_end_of_the_membership_is_lost(story):
    """The counter-test: the onPartitionsLost that forgets the partition is caught, the one that names it is not."""
    story.became("c1", "FENCED")
    story.revoke("c1", "0")
    story.owned["c1"] = {("t", 0)}
    story.lose("c1")
    assert "lifecycle" not in story.judged()

    story.assigned("c1", 0, "0")
    story.became("c1", "STALE")
    story.revoke("c1", "0")
    story.lose("c1")
    caught(story, "lifecycle", "c1 onPartitionsLost and its owned partitions differ in t-0")


def test_a_callback_names_what_it_must_not(story):
    story.revoke("c1", "1")
    story.revoke("c2", "1")
    story.assigned("c2", 1, "1")
    story.assigned("c2", 1, "1")
    story.owned["c2"] = set()
    story.lose("c2")

    caught(story, "lifecycle", "c1 onPartitionsRevoked named t-1, which it did not own")
    caught(story, "lifecycle", "c2 onPartitionsAssigned named t-1, which it owned already")
    caught(story, "lifecycle", "c2 onPartitionsLost and its owned partitions differ in t-1")


def test_what_a_callback_says_is_owned_is_not_the_sum_of_the_callbacks(story):
    story.owned["c1"] = {(TOPIC, 1)}
    story.revoke("c1", "0")

    caught(story, "lifecycle", "PartitionsRevoked and its callbacks differ in the owned partitions: t-1")


def test_what_is_owned_after_the_rebalance_is_not_the_assignment(story):
    story.become("PreparingRebalance")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c1", 2, "1")
    story.assigned("c1", 2, "1")

    caught(story, "lifecycle", "its owned partitions after the rebalance differ from its assignment in t-0")


# --- liveness ------------------------------------------------------------------------------------------------------


def test_a_group_that_never_becomes_stable(story):
    story.become("PreparingRebalance")
    story.heal()
    story.wait(31)

    caught(story, "liveness", "group g did not come to rest within 30 s: the group is PreparingRebalance")


def test_a_group_that_becomes_stable_too_late(story):
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.heal()
    story.wait(31)
    story.generation_of(2, c1="0", c2="1")

    caught(story, "liveness", "the group is PreparingRebalance")


def test_a_partition_nobody_owns(story):
    story.revoke("c2", "1")
    story.heal()
    story.wait(31)

    caught(story, "liveness", "1 of 2 partitions are owned")


def test_a_new_partition_nobody_owns(story):
    story.heal()
    story.world(TopicGrown(topic=TOPIC, partitions=3))
    story.wait(31)

    caught(story, "liveness", "2 of 3 partitions are owned")


def test_a_partition_that_stays_with_two_owners(story):
    story.revoke("c2", "1")
    story.assigned("c2", 1, "0 1")
    story.heal()
    story.wait(31)

    caught(story, "liveness", "1 partitions have more than one owner")


def test_a_partition_of_a_crashed_member_that_nobody_takes_over(story):
    story.down("c1")
    story.heal()
    story.wait(31)

    caught(story, "liveness", "1 of 2 partitions are owned")


def restless(story: Story, deleted: str = "", became: str = "NonExistentPartition") -> list[str]:
    """The texts of ``liveness`` about a group that is subscribed to two topics. ``deleted``: a topic whose
    partition's state (``became``) changes after the repair.
    """
    story.heal()
    if deleted:
        story.by("b0/controller", PartitionStateBecame(topic=deleted, partition=0, old="OfflinePartition", new=became))
    story.wait(31)
    checker = Liveness(30 * SECOND, {GROUP: (TOPIC, "u")})
    violations = judge(story.facts, ended_us=story.at_us, checkers=[checker]).violations
    return [each.text.partition(" s: ")[2] for each in violations]


@pytest.fixture
def of_two_topics():
    """Its members own all of one topic, and nothing of another one with three partitions."""
    story = Story("c1", "c2", count=2)
    story.form(c1="0", c2="1")
    story.world(TopicGrown(topic="u", partitions=3))
    return story


@pytest.mark.parametrize(
    ("lost", "why", "found"),
    [
        (3, "NODE_EXISTS", []),
        (2, "NODE_EXISTS", ["2 of 3 partitions are owned"]),
        (3, "NO_NODE", ["2 of 5 partitions are owned"]),
    ],
)
def test_a_group_needs_no_partition_whose_state_the_controller_lost(of_two_topics, lost, why, found):
    """No broker hears of such a partition (kafka-4.1 operated, seed 9794)."""
    assigned = topic_data({number: ReplicaAssignment((0,)) for number in range(3)})
    topic = NodeWritten(what="created", path=topic_path("u"), data=assigned, version=0, zxid=8, client="b0/controller")
    of_two_topics.world(TopicReplicated(topic="u", replicas=((0,),) * 3, min_isr=1, unclean=False))
    of_two_topics.by("b0/controller", topic)
    for number in range(lost):
        state = state_data(PartitionState(0, 0, (0,), 1))
        path = state_path("u", number)
        made = NodeWritten(what="created", path=path, data=state, version=0, zxid=9, client="b0/controller")
        refused = StateChangeRefused(what=f"u-{number}", old="NewPartition", new="OnlinePartition", why=why)
        of_two_topics.by("b0/controller", made, refused)

    assert restless(of_two_topics) == found


UNSUBSCRIBED, TO_ALL = ("unsubscribe", "unsubscribes"), ("subscribe", "subscribes to t, u")
TO_ONE, TO_PATTERN = ("subscribe", f"subscribes to {TOPIC}"), ("subscribe", "subscribes to all that matches t|v")


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({}, ["2 of 5 partitions are owned"]),
        ({"c1": TO_ONE}, ["2 of 5 partitions are owned"]),
        ({"c1": TO_ONE, "c2": TO_PATTERN}, []),
        ({"c1": TO_ONE, "c2": UNSUBSCRIBED}, []),
        ({"c1": TO_ONE, "c2": TO_ALL}, ["2 of 5 partitions are owned"]),
    ],
)
def test_a_group_owns_what_its_running_members_are_subscribed_to_now(of_two_topics, chosen, found):
    for host, (kind, does) in chosen.items():
        of_two_topics.world(FaultApplied(index=0, kind=kind, text=f"{host} {does}"))

    assert restless(of_two_topics) == found


@pytest.mark.parametrize(
    ("deleted", "became", "found"),
    [
        ("u", "NonExistentPartition", []),
        ("u", "OfflinePartition", ["2 of 5 partitions are owned"]),
        ("v", "NonExistentPartition", ["2 of 5 partitions are owned"]),
    ],
)
def test_a_group_is_at_rest_without_the_partitions_of_a_topic_that_is_deleted_later(
    of_two_topics, deleted, became, found
):
    """No fact about the group follows the deletion, which may wait for an absent broker for ever (operated swarm, seeds
    9464 of kafka-4.0 and 9621 of kafka-4.2).
    """
    for host in ("c1", "c2"):
        does = f"{host} subscribes to all that matches {TOPIC}|u"
        of_two_topics.world(FaultApplied(index=0, kind="subscribe", text=does))

    assert restless(of_two_topics, deleted, became) == found


@pytest.mark.parametrize(
    ("who", "again", "found"),
    [
        ("c1 c2", "", []),
        ("c1", "", ["the group is Empty"]),
        ("c1 c2", "c2", ["the group is Empty"]),
    ],
)
def test_a_group_may_be_empty_if_all_that_run_unsubscribed_and_did_not_start_again(of_two_topics, who, again, found):
    for host in who.split():
        of_two_topics.world(FaultApplied(index=0, kind="unsubscribe", text=f"{host} unsubscribes"))
    if again:
        of_two_topics.down(again)
        of_two_topics.start(again)
    of_two_topics.become("Empty")

    assert restless(of_two_topics) == found


def test_a_run_that_ends_before_the_bound_is_not_judged(story):
    story.become("PreparingRebalance")
    story.heal()
    story.wait(29)

    assert story.judged() == {}


# Metadata may get 60 s old; groups have 30 s.


def unheard(story: Story) -> list[str]:
    checker = Liveness(30 * SECOND, max_age_us=60 * SECOND)
    return [each.text for each in judge(story.facts, ended_us=story.at_us, checkers=[checker]).violations]


@pytest.fixture
def untold():
    """A group whose leader heard of two of three partitions."""
    story = Story("c1", "c2", count=2)
    story.form(c1="0", c2="1")
    story.world(TopicGrown(topic=TOPIC, partitions=3))
    return story


def test_a_group_that_loses_a_member_gets_no_more_time():
    """Nothing is new to its leader: what its last generation lacks is late for another reason."""
    story = Story("c1", "c2", count=3)
    story.form(c1="0", c2="1")
    story.heal()
    story.wait(31)

    assert unheard(story) == ["group g did not come to rest within 30 s: 2 of 3 partitions are owned"]


def test_a_leader_hears_of_a_partition_when_its_metadata_are_too_old(untold):
    """ConsumerCoordinator.MetadataSnapshot: the new count makes it rejoin."""
    untold.heal()
    untold.wait(80)
    untold.become("PreparingRebalance")
    untold.revoke("c1", "0")
    untold.revoke("c2", "1")
    untold.wait(9)
    untold.generation_of(2, c1="0 2", c2="1")
    untold.wait(100)

    assert unheard(untold) == []


@pytest.mark.parametrize(("ends_s", "said"), [(89, []), (91, ["2 of 3 partitions are owned"])])
def test_a_partition_that_no_leader_ever_assigns_is_missed_when_it_must_have_heard(untold, ends_s, said):
    untold.heal()
    untold.wait(ends_s)

    assert unheard(untold) == [f"group g did not come to rest within 30 s: {each}" for each in said]


def test_a_partition_that_its_leader_assigned_is_missed_when_the_bound_is_over(untold):
    """It has heard of it: nobody waits for metadata."""
    untold.become("PreparingRebalance")
    untold.complete(2, "c1", "c2")
    untold.become("Stable")
    untold.receive("c1", 2, "0 2")
    untold.receive("c2", 2, "1")
    untold.heal()
    untold.wait(31)

    assert unheard(untold) == ["group g did not come to rest within 30 s: 2 of 3 partitions are owned"]


# --- all -----------------------------------------------------------------------------------------------------------


def test_a_machine_broken_at_its_root_does_not_flood_the_report(story):
    for offset in range(11, 12 + MAX_VIOLATIONS):
        story.committed("c1", 0, offset)

    assert len(story.judged()["commits"]) == MAX_VIOLATIONS
