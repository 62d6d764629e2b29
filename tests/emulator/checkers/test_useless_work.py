"""Members that repeat requests although nothing asks for it."""

import pytest

from kemu.emulator.checkers.useless_work import REJOINS
from kemu.emulator.facts import TopicGrown
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.replication import MetadataCached
from tests.emulator.checkers.story import TOPIC
from tests.emulator.checkers.wire_story import WireStory, subscribed


@pytest.fixture
def story():
    told = WireStory("c1", "c2")
    told.stable()
    return told


def test_a_member_that_joins_again_and_again_is_told(story):
    for _ in range(REJOINS + 2):
        story.wait(3)
        story.ask("JoinGroup", "c2", rows=subscribed())

    assert story.useless() == ["rejoin-without-cause"]


def test_joins_with_a_cause_are_not(story):
    """An error, another subscription, another connection, a topic that grew."""
    for number in range(4):
        story.wait(3)
        story.beat("c2", ErrorCode.REBALANCE_IN_PROGRESS)
        story.ask("JoinGroup", "c2", rows=subscribed())
        story.wait(3)
        story.ask("JoinGroup", "c2", rows=subscribed(f"{number}"))
        story.wait(3)
        story.connection += 1
        story.ask("JoinGroup", "c2", rows=subscribed(f"{number}"))
        story.world(TopicGrown(topic=TOPIC, partitions=3 + number))
        story.ask("JoinGroup", "c2", rows=subscribed(f"{number}"))

    assert story.useless() == []


def test_some_joins_that_an_application_asks_for_are_not(story):
    for _ in range(REJOINS):
        story.ask("JoinGroup", "c2", rows=subscribed())
        story.wait(1)

    assert story.useless() == []


@pytest.mark.parametrize(("racks", "kinds"), [(True, []), (False, ["rejoin-without-cause"])])
def test_a_broker_that_comes_or_goes_is_a_cause_for_members_with_racks_alone(story, racks, kinds):
    for number in range(REJOINS + 2):
        story.wait(3)
        live = tuple(range(2 + number % 2))
        story.by("b0", MetadataCached(live_brokers=live, topics=(), gone=()))
        story.ask("JoinGroup", "c2", rows=subscribed())

    assert story.useless(racks=racks) == kinds


@pytest.mark.parametrize(
    ("seen_by_b1", "racks", "kinds"),
    [
        ((1,), True, []),
        ((0, 1), True, ["rejoin-without-cause"]),
        ((1,), False, ["rejoin-without-cause"]),
    ],
)
def test_brokers_that_do_not_agree_about_live_brokers_are_a_cause_for_members_with_racks(
    story, seen_by_b1, racks, kinds
):
    """A client asks one broker after the other (operated swarm, seed 9710)."""
    story.by("b0", MetadataCached(live_brokers=(0, 1), topics=(), gone=()))
    story.by("b1", MetadataCached(live_brokers=seen_by_b1, topics=(), gone=()))
    for _ in range(REJOINS + 2):
        story.wait(3)
        story.ask("JoinGroup", "c2", rows=subscribed())

    assert story.useless(racks=racks) == kinds
