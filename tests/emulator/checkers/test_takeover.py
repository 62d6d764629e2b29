"""A partition that can be led is led within a bound, whatever fault lasts elsewhere meanwhile."""

import pytest

from kemu.emulator.checkers.duty import ORDER_US, TICK_US
from kemu.emulator.checkers.replication_duties import ReplicationDuties
from kemu.emulator.facts import FaultApplied, FaultEnded, WarmUpEnded
from kemu.emulator.watching.control_plane import START_US
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.nodes import CONTROLLER, broker_path
from kemu.protocol.notes.replication import BrokersChanged, LogOfAnotherTopic, SessionEnded, SessionOpened
from tests.emulator.checkers.cluster_story import SECOND, STORE, ClusterStory, time_passes

SESSION_US = 6 * SECOND
KINDS = ("moved-early", "no-controller", "no-leader", "session-cut", "session-kept")
CONTROLLERS = ControllerConfig(
    zookeeper_session_timeout_ms=SESSION_US // 1_000, leader_imbalance_check_interval_seconds=20
)
BOUND_S = ORDER_US / SECOND + 1


def led_by_b1() -> ClusterStory:
    """b1 leads t-0 with b0, b2 in sync; b0 controls, for long enough to decide."""
    story = ClusterStory()
    story.start(STORE)
    story.write_state(1, (0, 1, 2))
    story.lead(1)
    time_passes(story, START_US / SECOND)
    return story


def lose_b1(story: ClusterStory) -> None:
    story.down("b1")
    time_passes(story, 3)
    story.node(broker_path(1), what="deleted")


def found(story: ClusterStory) -> list[str]:
    checker = ReplicationDuties(CONTROLLERS)
    story.judged(checker)
    return [each.kind for each in checker.violations if each.kind in KINDS]


def test_a_partition_whose_leader_is_gone_and_that_nobody_takes_over_is_a_violation():
    story = led_by_b1()
    lose_b1(story)
    time_passes(story, BOUND_S)
    story.heal()

    assert found(story) == ["no-leader"]


def test_a_partition_that_is_taken_over_in_time_is_none():
    story = led_by_b1()
    lose_b1(story)
    story.write_state(2, (0, 2))
    story.lead(2)
    time_passes(story, 3 * BOUND_S)
    story.heal()

    assert found(story) == []


def test_a_broker_that_the_store_names_and_that_does_not_lead_is_a_violation():
    story = led_by_b1()
    lose_b1(story)
    story.write_state(2, (0, 2))
    time_passes(story, BOUND_S)
    story.heal()

    assert found(story) == ["no-leader"]


@pytest.mark.parametrize(
    ("noticed_s", "by", "elected_s", "is_violation"),
    [
        (4, "b0", 5, False),  # a controller with earlier work queued notices the broker late
        (4, "b0", 8, True),
        (1, "b0", 2, False),
        (1, "b0", 5, True),  # a noticed broker does not wait for other work
        (1, "b2", 5, False),  # a deposed controller elects nobody
        (None, "", 6, False),
        (None, "", 9, True),
    ],
)
def test_a_broker_that_returns_is_elected_soon_after_the_controller_noticed_it(
    noticed_s: int | None, by: str, elected_s: int, is_violation: bool
) -> None:
    story = led_by_b1()
    story.write_state(1, (1,))
    lose_b1(story)
    story.write_state(NO_LEADER, (1,))
    time_passes(story, 5)
    story.start("b1")
    story.node(broker_path(1))
    if noticed_s is not None:
        time_passes(story, noticed_s)
        story.by(f"{by}/controller", BrokersChanged(controller_epoch=1, new=(1,), dead=(), bounced=()))
    time_passes(story, elected_s - (noticed_s or 0))
    story.write_state(1, (1,))
    story.lead(1)
    time_passes(story, BOUND_S)

    assert found(story) == ["no-leader"] * is_violation


def test_a_controller_that_is_cut_off_from_the_store_has_its_time_when_the_fault_is_over():
    story = led_by_b1()
    story.world(FaultApplied(index=0, kind="split", text="", links=(("b0", STORE),), lasts=True))
    lose_b1(story)
    time_passes(story, 3 * BOUND_S)
    story.world(FaultEnded(index=0, kind="split"))
    story.write_state(2, (0, 2))
    story.lead(2)

    assert found(story) == []


def test_a_fault_between_others_stops_no_clock():
    story = led_by_b1()
    story.world(FaultApplied(index=0, kind="slow", text="", links=(("c1", ""), ("b1", "b2")), lasts=True))
    lose_b1(story)
    time_passes(story, BOUND_S)
    story.heal()

    assert found(story) == ["no-leader"]


def test_nobody_is_asked_for_a_leader_whose_whole_isr_is_away():
    story = led_by_b1()
    story.write_state(1, (1,))
    lose_b1(story)
    time_passes(story, 3 * BOUND_S)
    story.heal()

    assert found(story) == []


def test_no_other_leader_is_owed_while_the_one_in_the_store_has_a_log_of_another_topic():
    story = led_by_b1()
    story.write_state(2, (0, 1, 2))
    story.by("b2", LogOfAnotherTopic(topic=story.topic, partition=0, topic_id="2", topic_id_of_log="1"))
    time_passes(story, 3 * BOUND_S)
    story.heal()

    assert found(story) == []


def test_a_session_that_outlives_its_timeout_is_a_violation():
    story = led_by_b1()
    story.down("b2")
    time_passes(story, (SESSION_US + TICK_US) / SECOND + 1)
    story.heal()

    assert found(story) == ["session-kept"]


@pytest.mark.parametrize(("over_s", "kinds"), [(1, ["session-kept"]), (5, [])])
def test_a_session_that_was_frozen_has_its_timeout_from_then_on(over_s, kinds):
    """A ping that was kept back renews it when it comes."""
    story = led_by_b1()
    story.world(FaultApplied(index=0, kind="freeze-session", text="", links=(("b2", STORE),), lasts=True))
    story.down("b2")
    time_passes(story, over_s)
    story.world(FaultEnded(index=0, kind="freeze-session"))
    time_passes(story, (SESSION_US + TICK_US) / SECOND + 3 - over_s)
    story.heal()

    assert found(story) == kinds


@pytest.mark.parametrize(("vacant_s", "kinds"), [(BOUND_S + 1, ["no-controller"]), (BOUND_S - 2, [])])
def test_a_cluster_in_which_nobody_becomes_controller_in_time_is_a_violation(vacant_s: float, kinds: list[str]):
    story = led_by_b1()
    story.node(CONTROLLER, what="deleted")
    time_passes(story, vacant_s)
    story.new_controller(2)
    story.heal()

    assert found(story) == kinds


@pytest.mark.parametrize(("node_goes", "kinds"), [(False, []), (True, ["no-controller"])])
def test_nobody_is_owed_as_controller_while_the_node_of_the_former_one_lingers(node_goes: bool, kinds: list[str]):
    """KAFKA-7165."""
    story = led_by_b1()
    story.by(STORE, SessionOpened(session_id=7, client="b0/controller"))
    story.new_controller(0)
    time_passes(story, (SESSION_US + TICK_US) / SECOND)
    story.by(STORE, SessionEnded(session_id=7, client="b0/controller", why="expired"))
    if node_goes:
        story.node(CONTROLLER, what="deleted")
    time_passes(story, BOUND_S)

    assert [kind for kind in found(story) if kind != "session-cut"] == kinds


@pytest.mark.parametrize(("after_s", "kinds"), [(3.5, ["session-cut"]), (4, [])])
def test_a_session_that_ends_before_its_timeout_is_a_violation(after_s: float, kinds: list[str]):
    """ZooKeeper's SessionTrackerImpl: not before the timeout after the last ping; a third of it may be over then."""
    story = led_by_b1()
    story.down("b2")
    time_passes(story, after_s)
    story.by(STORE, SessionEnded(session_id=7, client="b2/controller", why="expired"))

    assert found(story) == kinds


def test_the_session_of_a_process_before_ends_without_its_next_one_being_heard():
    story = led_by_b1()
    story.by(STORE, SessionOpened(session_id=7, client="b2/controller"))
    story.down("b2")
    time_passes(story, 1)
    story.start("b2")
    time_passes(story, 2)
    story.down("b2")
    time_passes(story, 1)
    story.by(STORE, SessionEnded(session_id=7, client="b2/controller", why="expired"))

    assert "session-cut" not in found(story)


@pytest.mark.parametrize(("after_s", "kinds"), [(1, []), (10, ["moved-early"]), (20, [])])
def test_leaders_go_home_at_one_check_in_an_interval(after_s: float, kinds: list[str]):
    """KafkaController.scheduleAutoLeaderRebalanceTask."""
    story = led_by_b1()
    story.write_state(0, (0, 1, 2))
    story.write_state(1, (0, 1, 2))
    story.lead(1)
    time_passes(story, after_s)
    story.write_state(0, (0, 1, 2))

    assert found(story) == kinds


def home_twice(story: ClusterStory) -> None:
    """b0 leads again, then b1 for 10 s, then b0 again."""
    story.write_state(0, (0, 1, 2))
    story.write_state(1, (0, 1, 2))
    story.lead(1)
    time_passes(story, 10)


def test_the_end_of_the_warm_up_moves_the_next_check():
    """The warm-up stands for hours of checks, and the next check is at a random point of its interval."""
    story = led_by_b1()
    home_twice(story)
    story.world(WarmUpEnded())
    story.write_state(0, (0, 1, 2))

    assert found(story) == []


def test_leaders_that_go_home_twice_after_the_warm_up_are_a_violation():
    story = led_by_b1()
    home_twice(story)
    story.world(WarmUpEnded())
    home_twice(story)
    story.write_state(0, (0, 1, 2))

    assert found(story) == ["moved-early"]
