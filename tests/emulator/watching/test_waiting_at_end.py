"""What still waits at the end of a run is said, with what it waits for."""

from kemu.emulator.judging import judge
from kemu.emulator.watching.waiting_at_end import StillWaiting
from kemu.protocol.nodes import ReplicaAssignment, topic_data, topic_path
from kemu.protocol.notes import groups as notes
from tests.emulator.checkers.cluster_story import ClusterStory
from tests.emulator.checkers.story import COORDINATOR, GROUP, Story


def waiting(story: Story | ClusterStory) -> tuple[StillWaiting, ...]:
    return judge(story.facts, ended_us=story.at_us, checkers=[]).waiting


def texts(story: Story | ClusterStory) -> list[str]:
    return [f"{each.what}: {each.why}" for each in waiting(story)]


def rebalancing() -> Story:
    """c1 has joined again, c2 has not."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="1")
    for member in ("c1", "c2"):
        story.by(member, notes.CoordinatorKnown(group=GROUP, host=COORDINATOR, why="found"))
        story.became(member, "STABLE")
    story.become("PreparingRebalance")
    story.became("c1", "PREPARING_REBALANCE")
    return story


def test_nothing_waits_in_a_group_at_rest():
    story = rebalancing()
    story.became("c2", "PREPARING_REBALANCE")
    story.generation_of(2, c1="0", c2="1")
    for member in ("c1", "c2"):
        story.became(member, "STABLE")

    assert waiting(story) == ()


def test_a_join_phase_names_the_members_that_have_not_joined():
    story = rebalancing()

    assert texts(story) == [
        "group g: waits for a member to join (c2)",
        "member c1 of g: joins: asked b0",
    ]


def test_a_member_that_asked_a_coordinator_just_before_that_lost_power_is_named():
    """Hole 15 of the review: the client waits for max.poll.interval.ms and 5 s."""
    story = rebalancing()
    joined_us = story.at_us
    story.down("b0")
    story.load("b1/coordinator", 1, "c2")

    row = next(each for each in waiting(story) if each.what == "member c1 of g")
    assert row.since_us == joined_us
    assert (
        row.why == f"joins: asked b0, whose process ended at {(joined_us + 1_000) / 1e6:g} s, and waits for the answer"
    )


def test_a_generation_without_an_assignment_names_its_leader():
    story = rebalancing()
    story.complete(2, "c1", "c2")

    assert "group g: waits for the assignment of the group's leader (c1)" in texts(story)


def test_a_partition_whose_leader_is_down_and_one_that_nobody_leads_are_named():
    story = ClusterStory()
    story.write_state(1, (0, 1))
    story.lead(1)
    assert waiting(story) == ()

    story.down("b1")
    assert texts(story) == ["t-0: waits for the session of the leader's broker to end (b1); its ISR is b0, b1"]


def test_a_reassignment_that_waits_for_a_replica_is_named():
    story = ClusterStory()
    story.write_state(1, (0, 1))
    story.lead(1)
    moving = ReplicaAssignment(replicas=(0, 1, 2), adding=(2,), removing=(0,))
    story.node(topic_path("t"), topic_data({0: moving}))

    assert texts(story) == ["reassignment of t-0: waits for b2 to be in sync"]
