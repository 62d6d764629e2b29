"""Coordinators that have a successor and did not hear of it: what they do with members that still ask them.

As seed 55974 of the swarm had it: a broker alone in its ISR goes on while a replica without the group leads its log.
"""

import pytest

from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.nodes import ReplicaAssignment, topic_data, topic_path
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.replication import NodeWritten
from tests.emulator.checkers.story import GROUP, Story

OF_REPLICATION = ("leadership", "replicas")
"""Of the controller, who is not told of here."""


@pytest.fixture
def story():
    """b0 coordinates two members, who committed 10 of each partition; b1 leads an empty log by now, in epoch 1."""
    told = Story("c1", "c2")
    told.groups_log("b0", 0, (0, 0), end=0)
    for member in ("c1", "c2"):
        told.by(member, notes.CoordinatorKnown(group=GROUP, host="b0/coordinator", why="found"))
    told.by("b0", notes.RecordsAppended(topic=OFFSETS_TOPIC, partition=0, base_offset=0, count=1))
    told.form(c1="0", c2="1")
    told.by("b0", notes.RecordsAppended(topic=OFFSETS_TOPIC, partition=0, base_offset=1, count=2))
    for number, member in enumerate(("c1", "c2")):
        told.process(member, number, 0, 5)
        told.committed(member, number, 5, position=1 + number)
    told.groups_log("b1", 1, (1, 0), end=0)
    return told


def rebalance(story, **assignments):
    """Generation 2 of the deposed coordinator: its members are told what they committed there."""
    story.become("PreparingRebalance")
    story.revoke("c1", "0")
    story.revoke("c2", "1")
    story.complete(2, *assignments)
    story.become("Stable")
    for member, names in assignments.items():
        story.receive(member, 2, names)
        story.assigned(member, 2, names)
        for number in [int(name) for name in names.split()]:
            story.position(member, number, 5)


def test_it_goes_on_with_its_members_and_commits(story):
    """All of that is for nothing: the group begins anew where its log is led."""
    rebalance(story, c1="1", c2="0")
    story.process("c1", 1, 5, 10)
    story.committed("c1", 1, 10, position=3)
    for member in ("c1", "c2"):
        story.by(member, notes.CoordinatorKnown(group=GROUP, host="b1/coordinator", why="found"))
        story.lose(member)
    story.coordinator, story.state, story.generation = "b1/coordinator", "Empty", 0
    story.ids = {"c1": "c1-2", "c2": "c2-2"}
    story.add("c1")
    story.become("PreparingRebalance")
    story.add("c2")
    story.complete(1, "c1", "c2")
    story.become("Stable")
    for member, number in (("c1", 0), ("c2", 1)):
        story.receive(member, 1, str(number))
        story.assigned(member, 1, str(number))
        story.position(member, number, 0, why="reset")

    said = story.judged()
    assert all(checker in OF_REPLICATION for checker in said), said


def test_two_members_do_not_own_one_partition_in_its_generations_either(story):
    rebalance(story, c1="0", c2="0 1")

    said = "t-0 in generation 2: c2-1 of c2 takes it, and so does c1-1 of c1"
    assert said in story.judged()["one-owner"]


def test_what_was_committed_to_its_successor_counts(story):
    """c1 commits to b1 as the only member, c2 comes and starts behind that."""
    story.coordinator, story.state, story.generation = "b1/coordinator", "Empty", 0
    story.by("c1", notes.CoordinatorKnown(group=GROUP, host="b1/coordinator", why="found"))
    story.lose("c1")
    story.ids["c1"] = "c1-2"
    story.add("c1")
    story.become("PreparingRebalance")
    story.generation_of(1, c1="0 1")
    story.process("c1", 1, 0, 8)
    story.committed("c1", 1, 8, position=3)
    story.become("PreparingRebalance")
    story.by("c2", notes.CoordinatorKnown(group=GROUP, host="b1/coordinator", why="found"))
    story.lose("c2")
    story.ids["c2"] = "c2-2"
    story.add("c2")
    story.revoke("c1", "0 1")
    story.generation_of(2, c1="0", c2="1")

    assert story.judged()["commits"] == ["c2 starts t-1 at 0 (committed) although 8 was committed"]


def why_not_at_rest(story, *replicas: int) -> list[str]:
    """What is said of the group when the store assigns its log to these brokers, and b0 goes on leading it."""
    data = topic_data({0: ReplicaAssignment(replicas)})
    at = topic_path(OFFSETS_TOPIC)
    story.by("zk", NodeWritten(what="set", path=at, data=data, version=9, zxid=9, client=""), life=1)
    story.become("PreparingRebalance")
    story.heal()
    story.wait(60)
    story.append(0, 10, 1)
    return story.judged()["liveness"]


UNLOADED = f"group {GROUP} did not come to rest within 30 s: the group is unloaded"


def test_a_coordinator_that_was_never_told_that_its_replica_was_taken_is_named(story):
    said = "; b0 leads __consumer_offsets-0 in epoch 0, but the store has b1 in epoch 1"

    assert why_not_at_rest(story, 1) == [UNLOADED + said]


def test_a_coordinator_that_may_still_hear_of_its_successor_is_no_excuse(story):
    assert why_not_at_rest(story, 0, 1) == [UNLOADED]
