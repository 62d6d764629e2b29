"""Streams instances in whole clusters: the page's rows, restarts and crashes, and the same run in every loop."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_dict, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.protocol.notes.streams import (
    InstanceLeaving,
    InstanceReleased,
    StreamsJoined,
    TaskBecame,
    TaskRestored,
    TasksDecided,
    TasksGiven,
    TasksSaid,
)
from kemu.tools.report.story import Story
from tests.case_files import load

CASES = {vector["name"]: vector for vector in load("streams_walkthroughs.json")["vectors"]}
CHANGELOG = "app-store-changelog"


def streams(
    *plan: Mapping[str, Any], members: int = 3, seconds: int = 60, rate: int = 20, **settings: object
) -> Scenario:
    """Five tasks with state; heartbeats in step, so that a run has one order of events.

    Args:
        plan: the lines of the plan.
        members: the number of instances.
        seconds: the duration.
        rate: records per second, each of which costs several steps; higher where a test counts restored records.
        settings: keys of the application, with underscores.
    """
    data: dict[str, Any] = {
        "name": "streams",
        "duration": f"{seconds}s",
        "draws": "calm",
        "profile": "kip-429-v99",
        "brokers": {"config": {"group.initial.rebalance.delay.ms": 0}},
        "topics": {"in": {"partitions": 5, "rate": f"{rate}/s"}, CHANGELOG: {"partitions": 5, "rate": "0/s"}},
        "groups": {
            "app": {
                "members": members,
                "config": {"rebalance.protocol": "cooperative"},
                "streams": {
                    "subtopologies": [f"in -> {CHANGELOG}"],
                    "config": {key.replace("_", "."): value for key, value in settings.items()},
                },
            }
        },
        "plan": list(plan),
    }
    return scenario_from_dict(data)


def facts(scenario: Scenario) -> tuple[Any, ...]:
    """Everything that was noted, in order; the run holds."""
    recorder = MemoryRecorder()
    one = Run(scenario, seed=1, recorder=recorder)
    assert one.run_with(run_plain) == ""
    return tuple((seen.at_us, seen.actor, seen.fact) for seen in recorder.facts())


def of(kind: type, found: Iterable[Any]) -> list[Any]:
    return [fact for _, _, fact in found if type(fact) is kind]


def test_the_page_s_scale_up_comes_out_row_by_row_in_a_cluster() -> None:
    """KIP-429 v99, "Scale Up Running Application": its T1 to T5 are 0_0, 0_3, 0_1, 0_4 and 0_2 of three that start."""
    named = dict(zip(("0_0", "0_3", "0_1", "0_4", "0_2"), ("T1", "T2", "T3", "T4", "T5"), strict=True))
    joins = [{"at": f"{at}s", "do": "add-members", "group": "app"} for at in (20, 27)]
    scenario = streams(*joins, rate=100, emulated_assignor_stage=1, emulated_restore_us_per_record=20_000)
    found = facts(scenario)
    decided = [fact for fact in of(TasksDecided, found) if len(fact.given) > 3]

    rows = [
        {
            f"S{int(row.process, 16)}": {
                "assigned": sorted(named[task] for task in row.assigned),
                "revoked": sorted(named[task] for task in row.revoked),
                "learning": sorted(named[task] for task in row.learning),
            }
            for row in fact.given
        }
        for fact in decided
    ]

    assert rows == [rebalance["assigned"] for rebalance in CASES["scale_up"]["rebalances"]]
    said = [fact for fact in of(StreamsJoined, found) if fact.instance == "c1" and fact.revoked]
    assert {named[task] for fact in said for task in fact.revoked} == {"T1"}


FIVE = {"0_0": "T1", "0_3": "T2", "0_1": "T3", "0_4": "T4", "0_2": "T5"}
"""The page's names of tasks, so that its S1 to S3 begin with what three instances get that start together."""
PRESETS = {
    "streams-scale-up": ("scale_up", FIVE),
    "streams-scale-up-from-ground": ("scale_up_from_ground", {f"0_{n}": f"T{n + 1}" for n in range(5)}),
    "streams-scale-down": ("scale_down", FIVE),
    "streams-online-swap": ("online_swap", {"0_0": "T1", "0_2": "T2", "0_1": "T3", "0_3": "T4"}),
    "streams-leader-crash-during-scaling": ("leader_crash_during_scaling", FIVE),
    "streams-leader-crash-before-scaling": ("leader_crash_before_scaling", {f"0_{n}": f"T{n + 1}" for n in range(5)}),
}


def _row(row: TasksSaid | TasksGiven, named: Mapping[str, str]) -> dict[str, list[str]]:
    lists = {"assigned": row.assigned, "revoked": row.revoked, "learning": row.learning}
    return {key: sorted(named[task] for task in tasks) for key, tasks in lists.items()}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_s_rebalances_are_the_page_s_row_by_row(preset: str) -> None:
    """KIP-429 v99: what every S-list says and gets, who is ready and who leaves, one rebalance after the other."""
    vector, named = PRESETS[preset]
    rebalances = CASES[vector]["rebalances"]
    decided = of(TasksDecided, facts(load_scenario(preset)))
    taking_part = [{f"S{int(row.process, 16)}" for row in fact.given} for fact in decided]
    on_the_page = [set(rebalance["assigned"]) for rebalance in rebalances]
    starts = range(len(decided) - len(rebalances) + 1)
    first = max(start for start in starts if taking_part[start : start + len(rebalances)] == on_the_page)
    for fact, rebalance in zip(decided[first:], rebalances, strict=False):
        if "leader_has_history" in rebalance:
            assert fact.fresh is not rebalance["leader_has_history"]
        said = {f"S{int(row.process, 16)}": row for row in fact.said}
        given = {f"S{int(row.process, 16)}": _row(row, named) for row in fact.given}
        assert given == {name: _lists(row) for name, row in rebalance["assigned"].items()}
        for name, row in rebalance["joined"].items():
            assert _row(said[name], named) == _lists(row)
            assert {named[task] for task in said[name].ready} == set(row.get("ready", ()))
            assert said[name].leaving is row.get("leaving", False)


def _lists(row: Mapping[str, Any]) -> dict[str, list[str]]:
    return {key: sorted(row[key]) for key in ("assigned", "revoked", "learning")}


@pytest.mark.parametrize("way", ["eager", "conservative"])
def test_ready_calls_come_for_each_task_or_for_all_together(way: str) -> None:
    """KIP-429 v99, "Eager Rebalance": T1 is restored in 1 s, T2 in 5 s; the one that learns both asks once or twice."""
    vector, us_per_record = CASES["eager_vs_conservative"], 10_000
    records = {"T1": 100, "T2": 400}  # one after the other: 1 s, and 4 s more
    topics = {name: {"partitions": 1, "rate": "0/s"} for name in ("a", "b")}
    for name, task in (("a", "T2"), ("b", "T1")):
        topics[f"{name}-changelog"] = {"partitions": 1, "rate": "0/s", "initial_records": records[task]}
    config = {
        "learner.partial.rebalance": vector[way]["learner_partial_rebalance"],
        "emulated.restore.us.per.record": us_per_record,
        "emulated.assignor.stage": vector["stage"],
    }
    data = streams({"at": "20s", "do": "scale-down", "group": "app", "hosts": ["c1"]}, members=2).to_dict()
    data["topics"] = topics
    group = data["groups"]["app"]
    group["topics"], group["overrides"] = ["a", "b"], {"c2": {"start_later": True}}
    group["streams"] = {"subtopologies": ["a -> a-changelog", "b -> b-changelog"], "config": config}
    data["plan"].insert(0, {"at": "19s", "do": "start-host", "host": "c2"})
    found = facts(scenario_from_dict(data))

    named = {"0_0": "T2", "1_0": "T1"}
    decided = [(at_us, fact) for at_us, _, fact in found if type(fact) is TasksDecided]
    began_us = next(at_us for at_us, fact in decided if any(len(row.learning) == 2 for row in fact.given))
    rows = [
        (at_us, sorted(named[task] for row in fact.said if row.process.endswith("2") for task in row.ready))
        for at_us, fact in decided
        if at_us > began_us
    ]
    transfers = [(at_us, ready) for at_us, ready in rows if ready]
    called_ms = [(at_us - began_us) / 1_000 for at_us, _, fact in found if _calls(at_us, fact, began_us)]

    assert [ready for _, ready in transfers] == vector[way]["transferred"]
    assert called_ms == pytest.approx(vector[way]["rebalances_at_ms"], abs=250)


def _calls(at_us: int, fact: object, began_us: int) -> bool:
    return type(fact) is StreamsJoined and fact.instance == "c2" and bool(fact.ready) and at_us > began_us


def test_an_instance_that_is_told_to_leave_hands_its_tasks_over_and_closes() -> None:
    """KIP-429 v99, "Scale Down Running Application": others learn its tasks; empty, it is released and shuts down."""
    plan = ({"at": "20s", "do": "scale-down", "group": "app", "hosts": ["c2"]},)
    scenario = streams(*plan, seconds=45, rate=100, emulated_assignor_stage=2, emulated_restore_us_per_record=2_000)
    found = facts(scenario)
    decided = [fact for fact in of(TasksDecided, found) if any(row.learning for row in fact.given)]
    (released,) = [(at_us, fact.instance) for at_us, _, fact in found if type(fact) is InstanceReleased]
    given = {row.process[-1]: row.assigned for row in of(TasksDecided, found)[-1].given if row.assigned}

    assert {row.process[-1]: row.learning for row in decided[0].given} == {
        "1": ("0_1",),
        "2": (),
        "3": ("0_4",),
    }
    assert released[1] == "c2" and released[0] > 20_000_000
    assert given == {"1": ("0_0", "0_1", "0_3"), "3": ("0_2", "0_4")}
    assert not [fact for fact in of(TaskRestored, found) if fact.role == "active" and fact.last - fact.first > 50]


def test_the_story_says_who_leaves_what_is_learned_and_who_may_close() -> None:
    """The turning points of a scale-down."""
    story = Story()
    run = Run(load_scenario("streams-online-swap"), seed=1, observers=(story,))
    assert run.run_with(run_plain) == ""
    lines = [line.text() for line in story.lines]

    assert "c1, c2 asked to transfer all tasks and leave" in lines
    assert "c3 is to restore as a learner task 0_2 of app" in lines
    assert "the learner of task 0_2 of app on c3 is ready" in lines
    assert "tasks 0_0, 0_2 of app: from c1 to c3" in lines
    assert "c1, c2 transferred all tasks, closing" in lines


def test_a_percentage_is_what_stays_and_the_least_loaded_go_first() -> None:
    """Of three with 2, 2 and 1 tasks c3 has the fewest, but it leads, so c2 goes."""
    plan = ({"at": "20s", "do": "scale-down", "group": "app", "to": "60%"},)
    leaving = [fact.instance for fact in of(InstanceLeaving, facts(streams(*plan, seconds=30)))]

    assert leaving == ["c2"]


def test_at_the_deadline_tasks_are_taken_from_who_is_leaving() -> None:
    """scale.down.timeout.ms: the leader asks for the rebalance; learners restore the rest as owners."""
    plan = ({"at": "20s", "do": "scale-down", "group": "app", "hosts": ["c2"]},)
    scenario = streams(*plan, seconds=45, rate=100, emulated_restore_us_per_record=40_000, scale_down_timeout_ms=10_000)
    (released,) = [at_us for at_us, _, fact in facts(scenario) if type(fact) is InstanceReleased]

    assert 30_000_000 <= released <= 40_000_000


def test_who_is_told_to_leave_while_a_join_is_under_way_leaves() -> None:
    """It has joined without saying so: the mark is said in another rebalance, after this one."""
    plan = (
        {"at": "20s", "do": "crash", "host": "c1"},
        {"at": "21s", "do": "add-members", "group": "app"},  # the join lasts until c1's session is over
        {"at": "26s", "do": "scale-down", "group": "app", "hosts": ["c2"]},
    )
    found = facts(streams(*plan, emulated_assignor_stage=2))
    (joined_us,) = {at_us for at_us, _, fact in found if type(fact) is StreamsJoined and 26_000_000 > at_us > 20_000_000
                    and fact.instance == "c2"}  # fmt: skip
    decided = [at_us for at_us, _, fact in found if type(fact) is TasksDecided and at_us > joined_us]

    assert joined_us < 26_000_000 < decided[0]
    assert [fact.instance for fact in of(InstanceReleased, found)] == ["c2"]


def test_who_is_told_to_stay_after_all_stays() -> None:
    """The mark is taken back with the next rebalance, and what others learn of its tasks is dropped."""
    plan = (
        {"at": "20s", "do": "scale-down", "group": "app", "hosts": ["c2"]},
        {"at": "26s", "do": "keep-instance", "host": "c2"},
    )
    found = facts(streams(*plan, emulated_restore_us_per_record=40_000))
    last = of(TasksDecided, found)[-1]

    assert not of(InstanceReleased, found)
    assert len(last.given) == 3 and not any(row.learning for row in last.given)


def test_a_learner_becomes_active_without_restoring_again() -> None:
    """The learner's state is kept (recycled): after it became active only the tail of the changelog is read."""
    scenario = streams(
        {"at": "20s", "do": "add-members", "group": "app"}, rate=100, seconds=45, emulated_assignor_stage=1
    )
    found = facts(scenario)
    restored = [fact for fact in of(TaskRestored, found) if fact.instance == "c4"]
    as_learner = sum(fact.last - fact.first for fact in restored if fact.role == "learner")
    as_active = sum(fact.last - fact.first for fact in restored if fact.role == "active")
    states = [(fact.role, fact.state) for fact in of(TaskBecame, found) if fact.instance == "c4"]

    assert as_learner > 300
    assert as_active < 100
    assert states[-1] == ("active", "RUNNING")
    assert ("active", "CREATED") not in states


@pytest.mark.parametrize(("guarantee", "least"), [("at_least_once", 400), ("exactly_once", 0)])
def test_who_comes_back_from_a_crash_restores_from_its_checkpoint(guarantee: str, least: int) -> None:
    """Written every commit.interval.ms; state that must be exact has none while it is open."""
    crash = {"at": "45s", "do": "crash", "host": "c1", "for": "5s"}
    found = facts(streams(crash, members=1, rate=100, processing_guarantee=guarantee))
    first = [fact.first for at_us, _, fact in found if type(fact) is TaskRestored and at_us > 45_000_000]

    assert min(first) == 0 if least == 0 else least < min(first) < 700


def test_who_closes_cleanly_and_comes_back_restores_nothing() -> None:
    """A clean close writes checkpoints; the process id lies on the disk, too (KAFKA-10716)."""
    plan = ({"at": "30s", "do": "rolling-restart", "group": "app", "every": "40s", "down": "5s"},)
    found = facts(streams(*plan, members=1))
    running = [at_us for at_us, _, fact in found if type(fact) is TaskBecame and fact.state == "RUNNING"]

    assert not [fact for at_us, _, fact in found if type(fact) is TaskRestored and at_us > 30_000_000]
    assert len([at_us for at_us in running if at_us > 30_000_000]) == 5


def test_exact_state_that_was_closed_and_opened_again_has_no_checkpoint_either_when_it_crashes() -> None:
    """The checkpoint of a clean close is used once: after the crash everything is read from the start."""
    plan = (
        {"at": "15s", "do": "rolling-restart", "group": "app", "every": "40s", "down": "2s"},
        {"at": "80s", "do": "crash", "host": "c1", "for": "5s"},
    )
    found = facts(streams(*plan, members=1, seconds=150, processing_guarantee="exactly_once"))

    assert not [fact for at_us, _, fact in found if type(fact) is TaskRestored and 15_000_000 < at_us < 80_000_000]
    assert min(fact.first for at_us, _, fact in found if type(fact) is TaskRestored and at_us > 80_000_000) == 0


def test_the_tasks_of_a_crashed_instance_are_restored_elsewhere_and_lose_nothing() -> None:
    """Without copies elsewhere all of the changelog is read before the task goes on."""
    found = facts(streams({"at": "20s", "do": "crash", "host": "c3"}, seconds=60))
    restored = [fact for fact in of(TaskRestored, found) if fact.role == "active"]

    assert {fact.task for fact in restored} == {"0_2"}
    assert min(fact.first for fact in restored) == 0


def test_a_standby_takes_over_where_it_is() -> None:
    """num.standby.replicas = 1: what the standby has is not read again."""
    found = facts(streams({"at": "20s", "do": "crash", "host": "c3"}, rate=100, seconds=45, num_standby_replicas=1))
    restored = [fact for fact in of(TaskRestored, found) if fact.role == "active"]

    assert sum(fact.last - fact.first for fact in restored) < 50


def test_warm_ups_get_their_tasks_once_they_are_within_the_acceptable_lag() -> None:
    """KIP-441: a new instance restores standbys, and has a task only after a probing rebalance found it caught up."""
    found = facts(
        streams(
            {"at": "30s", "do": "add-members", "group": "app"},
            seconds=70,
            rate=100,
            emulated_task_assignor="ha",
            acceptable_recovery_lag=100,
            probing_rebalance_interval_ms=12_000,
            emulated_restore_us_per_record=2_000,
        )
    )
    decided = [(at_us, {row.process[-1]: row for row in fact.given}) for at_us, _, fact in found if _with_four(fact)]
    first_us, first = decided[0]
    states = [(fact.role, fact.state) for fact in of(TaskBecame, found) if fact.instance == "c4"]

    assert [(rows["4"].assigned, rows["4"].standby) for _, rows in decided] == [
        ((), ("0_3",)),
        ((), ("0_3",)),  # c1 is to give it up first
        (("0_3",), ()),
    ]
    assert first["1"].assigned == ("0_0", "0_3") and first["1"].standby == ("0_4",)
    assert decided[1][0] - first_us >= 12_000_000
    assert states[-1] == ("active", "RUNNING") and ("standby", "CLOSED") not in states


def _with_four(fact: object) -> bool:
    return type(fact) is TasksDecided and len(fact.given) == 4


def test_with_every_copy_within_the_acceptable_lag_tasks_move_at_once() -> None:
    """The lag is what is compared: 10,000 records (KIP-441's default) are more than there are after half a minute."""
    plan = ({"at": "30s", "do": "add-members", "group": "app"},)
    found = facts(streams(*plan, rate=100, seconds=50, emulated_task_assignor="ha"))
    last = [fact for fact in of(TasksDecided, found) if len(fact.given) == 4][-1]

    assert [len(row.assigned) for row in last.given] == [2, 1, 1, 1]


def test_who_comes_back_has_its_tasks_by_what_lies_on_its_disk() -> None:
    """Kafka: checkpoints count among the offset sums, so a restart within the probing interval warms nothing up."""
    plan = ({"at": "45s", "do": "crash", "host": "c1", "for": "25s"},)
    settings = {"emulated_task_assignor": "ha", "acceptable_recovery_lag": 1_000, "commit_interval_ms": 5_000}
    found = facts(streams(*plan, members=2, rate=100, seconds=110, **settings))
    back = [fact for at_us, _, fact in found if type(fact) is TaskRestored and at_us > 70_000_000]

    assert {fact.instance for fact in back} == {"c1"}
    assert min(fact.first for fact in back) > 700


@pytest.mark.parametrize("assignor", ["learner", "sticky", "ha"])
def test_both_loops_run_instances_alike(assignor: str) -> None:
    """Same scenario and seed, same trace; threads of one instance are members of their own."""
    plan = ({"at": "10s", "do": "add-members", "group": "app"}, {"at": "14s", "do": "crash", "host": "c1", "for": "8s"})
    scenario = streams(*plan, seconds=30, num_stream_threads=2, emulated_task_assignor=assignor)

    bare, trio = run(scenario, seed=3, loop="bare"), run(scenario, seed=3, loop="trio")

    assert bare.verdict == "holds", bare.violations
    assert bare.digest == trio.digest


def test_an_owner_s_state_is_restored_before_what_its_thread_learns_beside() -> None:
    """``StoreChangelogReader``: standbys' changelogs are paused meanwhile; what was polled of them waits.

    An instance that gets the first of its two tasks has 12 s of records of the other one at hand.
    """
    figures = run(load_scenario("streams-scale-out"), seed=10, loop="bare").figures.streams["app"]

    assert figures.moved == 4
    assert figures.downtime_max_us < 3_000_000


def test_the_preset_holds_on_life() -> None:
    assert run(load_scenario("streams-scale-up"), seed=5, loop="bare").verdict == "holds"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"subtopologies": ["in -> gone"]}, 'the changelog "gone" is not a topic'),
        ({"subtopologies": ["-> x"]}, "names no topic"),
        ({"subtopologies": ["in ->"]}, "names no changelog"),
        ({"subtopologies": ["in"], "config": {"num.stream.thread": 2}}, "num.stream.threads"),
        ({"subtopologies": ["in"], "config": {"emulated.task.assignor": "stiky"}}, 'did you mean "sticky"'),
        ({"subtopologies": ["in"], "config": {"stream.imbalance.percentage": "20%"}}, "must be a fraction"),
        ({"subtopologies": ["in"], "config": {"application.server": "abc"}}, "must be host:port"),
        ({"subtopologies": ["in"], "config": {"num.stream.threads": 0}}, "must be 1 to 1000, not 0"),
        ({"subtopologies": ["in"], "config": {"commit.interval.ms": 0}}, "must be 1 to"),
        ({"subtopologies": ["in"], "config": {"emulated.assignor.stage": 9}}, "must be 1 to 4, not 9"),
    ],
)
def test_what_is_wrong_with_an_application_is_named(change: Mapping[str, Any], said: str) -> None:
    data = streams().to_dict()
    data["groups"]["app"]["streams"] = change

    with pytest.raises(ScenarioError, match=said):
        scenario_from_dict(data)


def test_an_instance_that_is_cut_off_beyond_its_session_may_run_its_tasks_until_it_hears_of_its_removal() -> None:
    """Seed 1: the coordinator removes c1's members after 10 s; others run the tasks while c1 hears nothing."""
    scenario = with_values(load_scenario("streams-scale-out"), ["session.timeout.ms=10000"])

    result = run(with_actions(scenario, ["isolate host=c1 at=50s for=25s"]), seed=1, loop="bare")

    assert result.verdict == "holds", result.reason
