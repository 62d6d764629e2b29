"""Figures of Streams applications, against small runs told by hand, and of whole runs."""

from typing import Any

import pytest

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted
from kemu.emulator.metrics.figures import Figures, StreamsFigures
from kemu.emulator.metrics.metrics import Metrics
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import (
    MemberAdded,
    MemberBecame,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsRevoked,
    PositionSet,
    Processed,
    RecordsAppended,
    Rejoin,
)
from kemu.protocol.notes.streams import InstanceLeaving, LearnerReady, StreamsJoined
from tests.emulator.streams_story import APP, S, StreamsStory, formed


def all_figures_of(told: StreamsStory, until_s: float = 100) -> Figures:
    """What the metrics make of it."""
    panel = Panel()
    metrics = Metrics(panel)
    for seen in told.seen():
        panel.see(seen)
        metrics.see(seen)
    metrics.finish(round(until_s * S))
    return metrics.figures()


def figures_of(told: StreamsStory, until_s: float = 100) -> StreamsFigures:
    """What the metrics make of its tasks."""
    return all_figures_of(told, until_s).streams[APP]


def test_a_task_that_its_owner_pauses_and_gets_back_was_paused_all_the_time() -> None:
    """KIP-429's page: tasks that others learn are given up for the join, from the first one's join to the sync."""
    told = formed()
    told.rejoin(10, "b", "whatever")
    told.copy(10.5, "a", "0", "active", "SUSPENDED")
    told.decide(12, {"a": "0 1", "b": "2 3"})
    told.sync(12.25, "a")
    told.copy(12.5, "a", "0", "active", "RESTORING", "RUNNING")
    found = figures_of(told)

    (row,) = found.task_downtime
    assert (row.task, row.instance, row.taken_by, row.cause) == ("0_0", "a", "a", "paused")
    assert (row.from_us, row.until_us, row.pause_us) == (10.5 * S, 12.5 * S, 2 * S)
    assert (found.detect_us, found.barrier_us, found.restore_us, found.pause_us) == (0, 0, 0, 2 * S)
    assert found.downtime_us == {"0_0": 2 * S, "0_1": 0, "0_2": 0, "0_3": 0}
    assert (found.downtime_max_us, found.downtime_p99_us, found.tasks_down) == (2 * S, 2 * S, 1)


def test_the_task_of_a_crashed_instance_is_down_until_it_is_noticed_given_and_restored() -> None:
    """Detection 10 s (to Preparing), barrier 2.5 s (to the new owner's sync), restore 5.5 s (to RUNNING)."""
    told = formed()
    told.say(20, "", HostDown(host="a", life=1, how="power"))
    gone = MemberRemoved(group=APP, member_id="a-id", client_id="a/t1", why="session expired")
    told.prepare(30, "a-id: session expired", gone)
    told.decide(32, {"b": "0 1 2 3"})
    told.sync(32.5, "b")
    told.copy(33, "b", "0", "active", "CREATED", "RESTORING")
    told.copy(33, "b", "1", "active", "CREATED", "RESTORING")
    told.copy(38, "b", "0", "active", "RUNNING")
    found = figures_of(told, until_s=50)

    first, second = found.task_downtime
    assert (first.task, first.cause, first.instance, first.taken_by) == ("0_0", "down", "a", "b")
    assert (first.detect_us, first.barrier_us, first.restore_us, first.pause_us) == (10 * S, 2.5 * S, 5.5 * S, 0)
    assert (second.task, second.taken_by, second.until_us) == ("0_1", "", 50 * S)
    assert (second.detect_us, second.barrier_us, second.restore_us) == (10 * S, 20 * S, 0)
    assert found.rebalances == {"gone": 1}
    assert (found.moved, found.min_moves) == (0, 0), "whose owner is gone finds a new home"


def test_an_owner_that_stands_still_processes_nothing_until_it_goes_on() -> None:
    """As a paused host's partitions are without service."""
    told = formed()
    told.say(20, "", HostPaused(host="a"))
    told.say(23, "", HostResumed(host="a"))
    found = figures_of(told)

    assert {(row.task, row.cause, row.pause_us) for row in found.task_downtime} == {
        ("0_0", "stands still", 3 * S),
        ("0_1", "stands still", 3 * S),
    }


def scaled_out() -> StreamsStory:
    """c joins at 20, learns 0_0 from 21 on, is ready at 25 and owns it from 27 on; 500 records, then 20 more."""
    told = formed()
    told.start(20, "c")
    told.prepare(20.5, "c-id joined", MemberAdded(group=APP, member_id="c-id", client_id="c/t1", instance_id=None))
    told.decide(21, {"a": "0 1", "b": "2 3", "c": "| learn 0"})
    told.copy(21, "c", "0", "learner", "CREATED", "RESTORING", "RUNNING")
    told.read(24, "c", "0", "learner", 0, 500)
    told.say(25, "c", LearnerReady(application=APP, instance="c", task="0_0", lag=0))
    told.rejoin(25, "c", Rejoin.READY)
    told.copy(26, "a", "0", "active", "SUSPENDED", position=520)
    told.decide(27, {"a": "1", "b": "2 3", "c": "0"})
    told.copy(27, "a", "0", "active", "CLOSED", position=520)
    told.sync(27, "c")
    told.copy(27, "c", "0", "active", "RESTORING", position=500)
    told.read(27.5, "c", "0", "active", 500, 520)
    told.copy(28, "c", "0", "active", "RUNNING", position=520)
    return told


def test_a_learner_s_task_moves_with_the_least_moves_and_what_it_read_is_used() -> None:
    """Four tasks on two, then three instances: one has to move, and does; the barrier is 1 s, the tail another."""
    found = figures_of(scaled_out())

    assert (found.moved, found.min_moves, found.back_and_forth) == (1, 1, 0)
    assert found.rebalances == {"joined": 1, "ready": 1} and found.empty_rebalances == 0
    (row,) = found.task_downtime
    assert (row.detect_us, row.barrier_us, row.restore_us, row.pause_us) == (0, 1 * S, 1 * S, 0)
    learned, tail = found.restores
    assert (learned.role, learned.records, learned.read_bytes, learned.ready_us) == ("learner", 500, 50_000, 25 * S)
    assert (tail.role, tail.read_bytes, tail.outcome) == ("active", 2_000, "used")
    assert found.read_bytes == {"active": 2_000, "learner": 50_000}
    assert (found.wasted_bytes, found.avoidable_bytes) == (0, 0)


def test_balance_comes_with_the_last_move_and_rest_when_the_task_runs() -> None:
    """From c's coming at 20 to 27; everything runs at 28."""
    (episode,) = figures_of(scaled_out()).episodes

    assert (episode.began_us, episode.balanced_us, episode.rested_us) == (20 * S, 27 * S, 28 * S)
    assert episode.why == "c starts"


def test_what_a_learner_read_that_is_dropped_was_for_nothing() -> None:
    """Its copy is closed before it ever was active."""
    told = formed()
    told.start(20, "c")
    told.decide(21, {"a": "0 1", "b": "2 3", "c": "| learn 0"})
    told.copy(21, "c", "0", "learner", "CREATED", "RESTORING", "RUNNING")
    told.read(24, "c", "0", "learner", 0, 300)
    told.copy(25, "c", "0", "learner", "SUSPENDED", "CLOSED")
    found = figures_of(told)

    (row,) = found.restores
    assert (row.outcome, row.wasted_bytes) == ("discarded", 30_000)
    assert (found.wasted_bytes, found.avoidable_bytes, found.unfinished) == (30_000, 0, 1)
    assert found.to_balance_us == 80 * S, "c never gets a task: until the end of the run"


def test_what_is_being_learned_at_the_end_of_the_run_has_not_been_of_use() -> None:
    told = formed()
    told.start(20, "c")
    told.decide(21, {"a": "0 1", "b": "2 3", "c": "| learn 0"})
    told.copy(21, "c", "0", "learner", "CREATED", "RESTORING", "RUNNING")
    told.read(24, "c", "0", "learner", 0, 300)
    (row,) = figures_of(told).restores

    assert (row.outcome, row.wasted_bytes) == ("unfinished", 30_000)


def test_a_standby_is_never_wasted_and_one_more_than_there_are_to_be_is_a_warm_up() -> None:
    """num.standby.replicas = 1: b's copy of 0_0 is the standby; c's, that came later, is warmed up for a move."""
    told = formed(assignor="ha", standbys=1)
    told.decide(10, {"a": "0 1", "b": "2 3 | standby 0"})
    told.copy(10, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.start(20, "c")
    told.decide(21, {"a": "0 1", "b": "2 3 | standby 0", "c": "| standby 0"})
    told.copy(21, "c", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    for host in "bc":
        told.read(24, host, "0", "standby", 0, 100)
        told.copy(30, host, "0", "standby", "SUSPENDED", "CLOSED")
    found = figures_of(told)

    assert [(row.instance, row.role, row.wasted_bytes) for row in found.restores] == [
        ("b", "standby", 0),
        ("c", "warm-up", 10_000),
    ]


@pytest.mark.parametrize(("lag", "avoidable"), [(0, 0), (5, 10_000)])
def test_an_owner_that_restores_what_a_copy_elsewhere_had_within_the_ready_lag_could_have_avoided_that(
    lag: int, avoidable: int
) -> None:
    """KAFKA-13600: the copy that is 4 records behind is passed over."""
    told = formed(assignor="ha", standbys=1, ready_lag=lag)
    told.start(5, "c")
    told.decide(10, {"a": "0 1", "b": "2 3 | standby 0", "c": ""})
    told.copy(10, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.read(11, "b", "0", "standby", 0, 96)
    told.say(20, "", HostDown(host="a", life=1, how="power"))
    told.decide(32, {"b": "1 2 3", "c": "0"})
    told.copy(32, "c", "0", "active", "CREATED", "RESTORING")
    told.read(33, "c", "0", "active", 0, 100)
    told.copy(33, "c", "0", "active", "RUNNING", position=100)
    found = figures_of(told)

    assert (found.avoidable_bytes, found.wasted_bytes) == (avoidable, avoidable)
    assert found.read_bytes == {"active": 10_000, "standby": 9_600}


def test_a_task_goes_back_and_forth_and_every_move_beyond_the_least_is_one_too_many() -> None:
    """Nothing had to move: 0_0 goes from a to b and back."""
    told = formed()
    told.plan(20, "a cosmic ray")
    told.rejoin(20, "a", Rejoin.REVOKED)
    told.decide(21, {"a": "1", "b": "2 3"})
    told.rejoin(22, "a", Rejoin.REVOKED)
    told.decide(23, {"a": "1", "b": "0 2 3"})
    told.rejoin(24, "b", Rejoin.PROBING)
    told.decide(25, {"a": "0 1", "b": "2 3"})
    told.rejoin(26, "b", "the subscription changed")
    told.decide(27, {"a": "0 1", "b": "2 3"})
    found = figures_of(told)

    assert (found.moved, found.min_moves, found.back_and_forth) == (2, 0, 1)
    assert found.rebalances == {"follow-up": 2, "probing": 1, "other": 1}
    assert found.empty_rebalances == 1
    assert found.episodes[0].why == "a cosmic ray"


def test_who_leaves_has_to_hand_over_all_it_has_and_who_is_heavier_takes_more() -> None:
    """Weights 1 and 3: fair are 1 and 3 tasks, so one of two must move from a; of c, that leaves, all."""
    told = StreamsStory()
    told.start(0, "a", "c")
    told.start(0, "b", weight=3)
    told.decide(1, {"a": "0 1", "b": "2", "c": "3"})
    told.runs(2, a="0 1", b="2", c="3")
    told.plan(20, "c of app leave")
    told.say(20, "c", InstanceLeaving(application=APP, instance="c", leaving=True))
    told.rejoin(20, "c", Rejoin.LEAVING)
    told.decide(21, {"a": "0 1", "b": "2", "c": "3"}, leaving="c")
    (episode,) = figures_of(told).episodes

    assert (episode.min_moves, episode.moved, episode.balanced_us) == (2, 0, None)
    assert episode.rebalances == {"leaving": 1}


@pytest.mark.parametrize(("imbalance", "balanced"), [("", False), ("0.5", True)])
def test_a_load_within_the_tolerated_band_is_balance(imbalance: str, balanced: bool) -> None:
    """3 and 1 of 4 tasks: a fair share is 2, half of it is tolerated (KIP-429's page, stage 4)."""
    told = StreamsStory(imbalance=imbalance)
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2", "b": "3"})
    told.runs(2, a="0 1 2", b="3")
    told.plan(20, "nothing much")
    told.rejoin(20, "a", "the subscription changed")
    told.decide(21, {"a": "0 1 2", "b": "3"})
    (episode,) = figures_of(told).episodes

    assert (episode.balanced_us is not None) is balanced


def test_learners_cost_time_and_more_of_it_while_they_are_ready_and_wait() -> None:
    """c learns 0_0 from 21 on, is ready at 25, and gets it at 28: "double task processing" of KIP-429's page."""
    told = StreamsStory()
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1", "b": "2 3"})
    told.runs(2, a="0 1", b="2 3")
    told.start(20, "c")
    told.decide(21, {"a": "0 1", "b": "2 3", "c": "| learn 0"})
    told.copy(21, "c", "0", "learner", "CREATED", "RESTORING", "RUNNING")
    told.say(25, "c", LearnerReady(application=APP, instance="c", task="0_0", lag=0))
    told.copy(28, "a", "0", "active", "SUSPENDED", "CLOSED")
    told.copy(28, "c", "0", "active", "RESTORING", "RUNNING")
    found = figures_of(told)

    assert (found.learner_us, found.idle_ready_us) == (7 * S, 3 * S)


def test_imbalance_is_how_far_the_worst_instance_is_off_its_share_over_time() -> None:
    """Even from 2 to 20; then a share is 4/3 and c has none until it gets one at 28 (and a still has 2, 2/3 off)."""
    told = StreamsStory()
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1", "b": "2 3"})
    told.runs(2, a="0 1", b="2 3")
    told.start(20, "c")
    told.copy(28, "a", "0", "active", "SUSPENDED", "CLOSED")
    told.copy(28, "c", "0", "active", "CREATED", "RESTORING", "RUNNING")
    told.say(34, "", HostStarted(host="p9", life=1, kept_disk=True))

    assert figures_of(told, until_s=34).imbalance_us == round(8 * S * 4 / 3 + 6 * S * 2 / 3)


def test_threads_wait_from_what_they_say_to_the_answer() -> None:
    """JoinGroup: sent at 20 (and again at 22, after a connection broke), answered at 24; b falls out of the group."""
    told = StreamsStory()
    told.start(0, "a", "b")
    for at_s, host in ((20, "a"), (20, "b"), (22, "a")):
        said = StreamsJoined(
            application=APP,
            instance=host,
            assigned=(),
            revoked=(),
            learning=(),
            ready=(),
            leaving=False,
            size=0,
            thread="t1",
        )
        told.say(at_s, host, said)
    for at_s, host, new in ((23, "b", "UNJOINED"), (24, "a", "COMPLETING_REBALANCE")):
        became = MemberBecame(group=APP, member_id=f"{host}-id", old="", new=new, generation=1, why="")
        told.say(at_s, f"{host}/t1", became)

    assert figures_of(told).join_waits_us == {"a/t1": 4 * S}


def test_events_before_the_application_runs_and_events_without_effect_are_no_episodes() -> None:
    told = StreamsStory()
    told.start(0, "a")
    told.plan(0.5, "too early")
    told.start(0.7, "b")
    told.decide(1, {"a": "0 1", "b": "2 3"})
    told.runs(2, a="0 1", b="2 3")
    told.plan(20, "a fault that hits nobody")

    assert figures_of(told).episodes == ()


def test_the_page_s_scale_down_costs_what_its_facts_say() -> None:
    """A whole run: two tasks move, the least there is, each with one barrier and a tail; the second one waits once."""
    found = run(load_scenario("streams-scale-down"), seed=1, loop="bare").figures.streams["app"]

    assert (found.moved, found.min_moves, found.tasks_down, found.wasted_bytes) == (2, 2, 2, 0)
    assert found.rebalances == {"leaving": 1, "ready": 2, "gone": 1} and found.empty_rebalances == 1
    assert [row.cause for row in found.task_downtime] == ["paused", "given up", "given up"]
    for row in found.task_downtime:
        parts = row.detect_us + row.barrier_us + row.restore_us + row.pause_us
        assert parts == row.until_us - row.from_us > 0
    assert sum(found.downtime_us.values()) == found.detect_us + found.barrier_us + found.restore_us + found.pause_us
    assert found.read_bytes["learner"] > 100 * found.read_bytes["active"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_partition_of_a_task_is_down_until_the_task_runs_whether_a_record_waits_or_not(waits: bool) -> None:
    """A position alone serves nobody while the thread restores the task."""
    told = formed()
    position: dict[str, Any] = {"group": APP, "topic": "in", "partition": 0, "offset": 5, "why": "committed"}
    owned: dict[str, Any] = {"group": APP, "generation": 1}
    at = ("in", 0)
    told.say(3, "a/t1", PartitionsAssigned(**owned, member_id="a-id", added=(at,), owned=(at,)))
    told.say(4, "a/t1", PositionSet(**position, member_id="a-id"))
    told.copy(20, "a", "0", "active", "SUSPENDED", "CLOSED")
    told.say(20, "a/t1", PartitionsRevoked(**owned, member_id="a-id", revoked=(at,), owned=()))
    told.copy(22, "b", "0", "active", "CREATED", "RESTORING")
    told.say(22, "b/t1", PartitionsAssigned(**owned, member_id="b-id", added=(at,), owned=(at,)))
    if waits:
        told.say(22, "b0", RecordsAppended(topic="in", partition=0, base_offset=5, count=1))
    told.say(23, "b/t1", PositionSet(**position, member_id="b-id"))
    told.copy(30, "b", "0", "active", "RUNNING")
    if waits:
        done: dict[str, Any] = {"group": APP, "member_id": "b-id", "generation": 1, "topic": "in", "partition": 0}
        told.say(30, "b/t1", Processed(**done, first=5, last=6, started_us=30 * S))

    (row,) = all_figures_of(told).downtime

    assert (row.cause, row.from_us, row.until_us) == ("revoked", 20 * S, 30 * S)
