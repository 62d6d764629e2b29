"""What the protocol allows, no checker may call wrong: each story is seen by all of them."""

import pytest

from kemu.emulator.checkers.group_progress import GroupDuties
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.facts import DiskTailLost, FaultApplied, HostPaused, HostResumed, TopicGrown
from kemu.emulator.judging import Judging
from kemu.protocol.notes import groups as notes
from tests.emulator.checkers.story import COORDINATOR, GROUP, TOPIC, Story


def test_a_steady_group_that_processes_and_commits():
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    for first in range(0, 10, 5):
        story.process("c1", 0, first, first + 5)
        story.committed("c1", 0, first + 5)
    story.heal()
    story.process("c2", 1, 0, 10)
    story.wait(60)

    assert story.judged() == {}


def test_an_application_that_seeks_starts_where_it_likes():
    """KafkaConsumer.seek: it may seek before the committed offset is known, and back; commits follow it."""
    story = Story("c1", "c2", "c3")
    story.form(c1="0", c2="1")
    story.process("c1", 0, 0, 8)
    story.committed("c1", 0, 8)
    story.position("c1", 0, 3, why=notes.SEEK)
    story.process("c1", 0, 3, 5)
    story.committed("c1", 0, 5)
    story.process("c2", 1, 0, 10)
    story.add("c3")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2", "c3")
    story.become("Stable")
    for member, names in (("c1", ""), ("c2", "1"), ("c3", "0")):
        story.receive(member, 2, names)
        story.assigned(member, 2, names)
    story.position("c3", 0, 2, why=notes.SEEK)
    story.process("c3", 0, 2, 10)

    assert "commits" not in story.judged() and "lifecycle" not in story.judged()


def test_a_group_that_its_log_lost_begins_anew_elsewhere_while_who_coordinated_it_stands_still():
    """Nobody tells that he gave it up, or that he loaded it: there is nothing to load. Its generations come again."""
    story = Story("c1", "c2")
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=1))
    story.form(c1="0", c2="1")
    story.world(HostPaused(host="b0"))
    story.groups_log("b1", 1, (1, 0), end=0)
    story.coordinator, story.state, story.generation = "b1/coordinator", "Empty", 0
    story.ids["c2"] = "c2-anew"
    story.add("c2")
    story.become("PreparingRebalance")
    story.revoke("c2", "1")
    story.complete(1, "c2")
    story.become("Stable")
    story.take("c2", 1, "0 1")

    assert "one-owner" not in story.judged()


@pytest.mark.parametrize(("end", "found"), [(0, []), (2, ["generation 1 began although 1 was Stable before"])])
def test_a_generation_that_was_loaded_before_it_was_committed_is_lost_and_begins_again(end: int, found: list[str]):
    """``GroupMetadataManager.loadGroupsAndOffsets`` (3.4.1) reads to the log's end, not to the high watermark."""
    story = Story("c1")
    story.groups_log("b0", 0, (0, 0), end=0)
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(1, "c1")
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=2))
    story.groups_log("b1", 1, (0, 0), end=2)
    story.load("b1/coordinator", 1, "c1")
    story.down("b1")
    story.start("b1")
    story.groups_log("b1", 2, (0, 0), (2, end), end=end)
    story.coordinator, story.state, story.generation = "b1/coordinator", "Empty", 0
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(1, "c1")
    story.become("Stable")
    story.take("c1", 1, "0")

    said = story.judged().get("membership", [])
    assert [each.partition(": ")[2] for each in said if "Stable before" in each] == found


def eager_rebalance(story: Story) -> None:
    """c3 joins; the others commit, revoke, join; it takes over partition 1."""
    story.process("c2", 1, 0, 4)
    story.add("c3")
    story.become("PreparingRebalance")
    story.committed("c2", 1, 4)
    story.revoke("c2", "1")
    story.revoke("c1", "0")
    story.complete(2, "c1", "c2", "c3")
    story.become("Stable")
    story.take("c1", 2, "0")
    story.take("c2", 2, "")
    story.take("c3", 2, "1", starts=[4])
    story.process("c3", 1, 4, 10)
    story.committed("c3", 1, 10)


def test_an_eager_rebalance_hands_a_partition_over():
    """Eager rebalancing: all partitions are revoked before the join."""
    story = Story("c1", "c2", "c3")
    story.form(c1="0", c2="1")
    eager_rebalance(story)

    assert story.judged() == {}


def test_a_commit_that_was_on_its_way_to_the_log_when_the_next_generation_began():
    """PreparingRebalance accepts commits; the append takes its time."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.process("c1", 0, 0, 3)
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.committed("c1", 0, 3, generation=1)
    story.become("Stable")
    story.take("c1", 2, "0", starts=[3])

    assert story.judged() == {}


def test_a_cooperative_handover_takes_two_generations():
    """KIP-429: the leader withholds the partition, its owner revokes it and joins again."""
    story = Story("c1", "c2")
    story.form(c1="0 1")
    story.add("c2")
    story.become("PreparingRebalance")
    story.process("c1", 1, 0, 2)
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c2", 2, "")
    story.assigned("c2", 2, "")
    story.receive("c1", 2, "0")
    story.revoke("c1", "1")
    story.assigned("c1", 2, "")
    story.committed("c1", 1, 2)
    story.become("PreparingRebalance")
    story.complete(3, "c1", "c2")
    story.become("Stable")
    story.receive("c1", 3, "0")
    story.assigned("c1", 3, "")
    story.take("c2", 3, "1", starts=[2])
    story.process("c1", 0, 0, 5)
    story.process("c2", 1, 2, 5)

    assert story.judged() == {}


def zombie(story: Story) -> None:
    """c1 stands still; its partition goes to c2; c1 wakes up, finishes what it had begun, and learns."""
    story.world(HostPaused(host="c1"))
    story.remove("c1-1")
    story.become("PreparingRebalance")
    story.revoke("c2", "1")
    story.generation_of(2, c2="0 1")
    story.process("c2", 0, 0, 5)
    story.committed("c2", 0, 5)
    story.world(HostResumed(host="c1"))
    story.process("c1", 0, 0, 3)
    story.lose("c1")


def test_a_zombie_works_on_until_it_learns_while_another_owns_its_partition():
    """After a reset the member still serves its partitions until its next poll."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    zombie(story)

    assert story.judged() == {}


def test_a_static_member_restarts_in_the_same_generation_under_a_new_id():
    """No rebalance: the coordinator returns the stored assignment."""
    story = Story("c1", "c2")
    story.add("c1", instance="i1")
    story.become("PreparingRebalance")
    story.add("c2", instance="i2")
    story.generation_of(1, c1="0", c2="1")
    story.down("c1")
    story.start("c1")
    story.remove("c1-1")
    story.add("c1", instance="i1")
    story.take("c1", 1, "0")
    story.append(0, 0, 10)
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)

    assert story.judged() == {}


def test_a_static_member_comes_back_once_more_after_its_new_id_was_forgotten():
    """KAFKA-10284, or a log that lost the replacement: who loads the group has the first id, and replaces it."""
    story = Story("c1", "c2")
    forgotten_id(story, "i1", "c1-1")
    story.remove("c1-1")
    story.add("c1", instance="i1")
    story.take("c1", 1, "0")

    assert story.judged() == {}


def forgotten_id(story: Story, instance: str, *loaded: str) -> None:
    """c1 takes it by a second id, of this instance; the next coordinator loads these ids; c1 restarts."""
    story.add("c1", instance="i1")
    story.become("PreparingRebalance")
    story.add("c2", instance="i2")
    story.generation_of(1, c1="0", c2="1")
    story.down("c1")
    story.start("c1")
    story.remove("c1-1")
    story.add("c1", instance=instance)
    story.take("c1", 1, "0")
    story.down("c1")
    story.load("b1/coordinator", 1, *loaded, "c2")
    story.start("c1")


def test_two_processes_of_one_static_instance_the_older_is_fenced():
    """KIP-345: the id of the older process is replaced; its process learns of it later."""
    story = Story("c1", "c2")
    story.add("c1", instance="i1")
    story.become("PreparingRebalance")
    story.generation_of(1, c1="0 1")
    story.remove("c1-1")
    story.add("c2", instance="i1")
    story.take("c2", 1, "0 1")
    story.append(0, 0, 10)
    story.process("c1", 0, 0, 2)
    story.process("c2", 0, 0, 4)
    story.committed("c2", 0, 4)
    story.lose("c1")

    assert story.judged() == {}


def test_a_static_zombie_claims_what_was_given_away_a_generation_ago():
    """KIP-792: a claim of an older generation protects nothing; overlap lasts until the zombie learns."""
    story = Story("c1", "c2")
    story.add("c1", instance="i1")
    story.become("PreparingRebalance")
    story.add("c2", instance="i2")
    story.generation_of(1, c1="0", c2="1")
    story.world(HostPaused(host="c1"))
    story.become("PreparingRebalance")
    story.complete(2, "c2", "c1")
    story.become("Stable")
    story.receive("c2", 2, "0 1")
    story.assigned("c2", 2, "0")
    story.position("c2", 0, 0)
    story.world(HostResumed(host="c1"))
    story.become("PreparingRebalance")
    story.complete(3, "c2", "c1")
    story.become("Stable")
    story.receive("c2", 3, "0 1")
    story.assigned("c2", 3, "")
    story.receive("c1", 3, "")
    story.revoke("c1", "0")
    story.assigned("c1", 3, "")

    assert story.judged() == {}


def test_a_failover_in_mid_rebalance_uses_a_generation_number_again():
    """The log has generation 1 only: generation 2 begins twice, and only the second one counts."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.down("b0")
    story.load("b1/coordinator", 1, "c1", "c2")
    story.remove("c1-1")
    story.become("PreparingRebalance")
    story.complete(2, "c2")
    story.become("Stable")
    story.take("c2", 2, "0 1")

    assert story.judged() == {}


def test_a_generation_may_be_in_the_log_though_nobody_was_told():
    """A power cut after the append and before its answer."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, "c1", "c2")
    story.down("b0")
    story.load("b1/coordinator", 2, "c1", "c2")
    story.take("c1", 2, "0")
    story.take("c2", 2, "1")

    assert story.judged() == {}


def test_who_leaves_behind_its_join_empties_the_group_in_the_step_that_answers_the_join():
    """SocketServer mutes the channel until the JoinGroup is answered; then the LeaveGroup behind it is read."""
    story = Story("c1")
    story.add("c1")
    story.become("PreparingRebalance")
    story.by(COORDINATOR, *began_and_left(1, 2))

    assert story.judged() == {}


def began_and_left(begins: int, empty: int) -> list[object]:
    """A generation begins, and its only member leaves: the next one is empty."""

    def became(old: str, new: str, generation: int) -> notes.GroupBecame:
        return notes.GroupBecame(group=GROUP, old=old, new=new, generation=generation, why="told")

    def completed(generation: int, *members: str) -> notes.JoinPhaseCompleted:
        leader = members[0] if members else ""
        protocol = "range" if members else None
        return notes.JoinPhaseCompleted(
            group=GROUP, generation=generation, protocol=protocol, leader=leader, members=members
        )

    return [
        became("PreparingRebalance", "CompletingRebalance", begins),
        completed(begins, "c1-1"),
        notes.MemberRemoved(group=GROUP, member_id="c1-1", client_id="c1", why="left"),
        became("CompletingRebalance", "PreparingRebalance", begins),
        became("PreparingRebalance", "Empty", empty),
        completed(empty),
    ]


def test_a_paused_coordinator_acts_on_old_mail_after_its_group_moved_on():
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.world(HostPaused(host="b0"))
    story.load("b1/coordinator", 1, "c1", "c2")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.generation_of(2, c1="0", c2="1")
    story.world(HostResumed(host="b0"))
    story.by(
        COORDINATOR,
        notes.GroupBecame(group=GROUP, old="Stable", new="PreparingRebalance", generation=1, why="old mail"),
    )
    story.by(COORDINATOR, notes.GroupUnloaded(group=GROUP))
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)

    assert story.judged() == {}


def test_a_deposed_coordinator_lets_go_of_a_group_it_had_emptied():
    """replicated-steady, kafka-2.4, seed 41 with 8 random faults: it was cut off, and heard of the next one last."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.load("b1/coordinator", 1, "c1", "c2")
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.heal()
    story.by(COORDINATOR, notes.GroupBecame(group=GROUP, old="Empty", new="Dead", generation=2, why="unloaded"))
    story.by(COORDINATOR, notes.GroupUnloaded(group=GROUP))
    story.generation_of(2, c1="0", c2="1")
    story.process("c1", 0, 0, 10)
    story.process("c2", 1, 0, 10)
    story.wait(60)

    assert "liveness" not in story.judged()


def test_a_log_that_lost_its_tail_explains_what_was_forgotten():
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)
    story.down("b0")
    story.world(DiskTailLost(host="b0", log="__consumer_offsets-3", records=1, end_offset=-1))
    story.world(DiskTailLost(host="b0", log="t-0", records=4, end_offset=-1))
    story.start("b0")
    story.by("b0", notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=6))
    story.load(COORDINATOR, 0)
    story.lose("c1")
    story.lose("c2")
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(1, "c1")
    story.become("Stable")
    story.receive("c1", 1, "0 1")
    story.assigned("c1", 1, "0 1")
    story.position("c1", 0, 0, why="reset")
    story.process("c1", 0, 0, 6)
    story.committed("c1", 0, 6)

    assert story.judged() == {}


def test_a_reset_skips_records_in_the_open_and_a_seek_may_go_back():
    story = Story("c1")
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(1, "c1")
    story.become("Stable")
    story.receive("c1", 1, "0 1")
    story.assigned("c1", 1, "0 1")
    story.append(0, 0, 100)
    story.position("c1", 0, 60, why="reset")
    story.process("c1", 0, 60, 70)
    story.committed("c1", 0, 70)
    story.position("c1", 0, 20, why="seek")
    story.process("c1", 0, 20, 30)
    story.committed("c1", 0, 30)

    assert story.judged() == {}


def test_an_operator_moves_the_offsets_of_an_empty_group():
    story = Story("c1")
    story.form(c1="0 1")
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)
    story.revoke("c1", "0 1")
    story.became("c1", "CLOSED")
    story.down("c1", "closed")
    story.remove("c1-1")
    story.become("PreparingRebalance")
    story.complete(2)
    story.committed("", 0, 4, generation=-1)
    story.start("c1")
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(3, "c1")
    story.become("Stable")
    story.take("c1", 3, "0 1", starts=[4, 0])
    story.process("c1", 0, 4, 10)
    story.committed("c1", 0, 10)

    assert story.judged() == {}


def test_offsets_of_a_group_that_was_empty_for_long_may_expire_while_it_comes_back():
    """The coordinator decided while it was empty, and the tombstones took their time."""
    story = Story("c1")
    story.form(c1="0 1")
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)
    story.become("PreparingRebalance")
    story.become("Empty")
    story.wait(61)
    story.become("PreparingRebalance")
    story.by(COORDINATOR, notes.OffsetRemoved(group=GROUP, topic=TOPIC, partition=0, why="expired"))

    assert "commits" not in story.judged()


def test_offsets_that_expired_are_not_remembered():
    story = Story("c1")
    story.form(c1="0 1")
    story.process("c1", 0, 0, 10)
    story.committed("c1", 0, 10)
    story.revoke("c1", "0 1")
    story.became("c1", "CLOSED")
    story.down("c1", "closed")
    story.remove("c1-1")
    story.become("PreparingRebalance")
    story.complete(2)
    story.wait(61)
    story.by(COORDINATOR, notes.OffsetRemoved(group=GROUP, topic=TOPIC, partition=0, why="expired"))
    story.start("c1")
    story.add("c1")
    story.become("PreparingRebalance")
    story.complete(3, "c1")
    story.become("Stable")
    story.receive("c1", 3, "0 1")
    story.assigned("c1", 3, "0 1")
    story.position("c1", 0, 0, why="reset")
    story.process("c1", 0, 0, 5)
    story.committed("c1", 0, 5)

    assert story.judged() == {}


def test_a_failed_member_is_closed_by_its_application():
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.became("c1", "FAILED")
    story.lose("c1")
    story.became("c1", "CLOSED")
    story.down("c1", "closed")

    assert story.judged() == {}


def test_a_group_that_comes_to_rest_within_the_bound_after_each_disturbance():
    story = Story("c1", "c2", count=2)
    story.form(c1="0", c2="1")
    story.become("PreparingRebalance")
    story.heal()
    story.wait(20)
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.generation_of(2, c1="0", c2="1")
    story.process("c1", 0, 0, 10)
    story.process("c2", 1, 0, 10)
    story.world(TopicGrown(topic=TOPIC, partitions=3))
    story.wait(25)
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.generation_of(3, c1="0 2", c2="1")
    story.wait(60)

    assert story.judged() == {}


def test_members_too_slow_for_max_poll_interval_do_the_same_work_again_and_again():
    """The member is evicted before it commits; partitions behind the first are never reached."""
    story = Story("c1")
    story.form(c1="0 1")
    story.heal()
    for empty in (2, 4, 6):
        story.wait(9)
        story.process("c1", 0, 0, 10)
        story.remove(story.ids["c1"])
        story.become("PreparingRebalance")
        story.complete(empty)
        story.lose("c1")
        story.ids["c1"] = f"c1-again-{empty}"
        story.add("c1")
        story.become("PreparingRebalance")
        story.generation_of(empty + 1, c1="0 1")
    story.wait(5)

    assert story.judged() == {}


def test_a_group_is_well_when_it_is_at_rest_and_has_gone_on_where_records_waited():
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    story.become("PreparingRebalance")
    judging = Judging([Liveness(), GroupDuties()])
    satisfied = []

    def look() -> None:
        for seen in story.facts:
            judging.see(seen)
        story.facts.clear()
        satisfied.append(judging.recovered)

    look()
    story.heal()
    look()
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.generation_of(2, c1="0", c2="1")
    look()
    story.process("c1", 0, 0, 10)
    look()
    story.process("c2", 1, 0, 10)
    look()
    story.down("c2")
    look()

    assert satisfied == [False, False, False, False, True, False]


def test_a_group_without_running_members_owes_nothing():
    story = Story("c1")
    story.form(c1="0 1")
    story.down("c1")
    story.world(FaultApplied(index=0, kind="crash", text="c1 stays down"))
    story.become("PreparingRebalance")
    story.remove(story.ids["c1"])
    story.complete(2)
    story.heal()
    story.wait(100)

    assert story.judged() == {}
