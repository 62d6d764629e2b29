"""Scenarios at the times of a run: what was felt when becomes the plan."""

from typing import Any

import attrs
import pytest

from kemu.emulator.plan.entries import plan_to_dicts
from kemu.protocol.draws import DrawName, distribution
from lab.conformance import plans, rig
from lab.conformance.emulated import emulate
from lab.conformance.rig import busy_as
from lab.conformance.timing import Effect, done_by, timed

PLANS = plans.plans_in(plans.KEPT)


def plan_of(name: str, seed: int = 1, **changes: Any) -> list[dict[str, Any]]:
    """The plan of a kept course, or of one that is a little other."""
    course = attrs.evolve(plans.read_course(plans.KEPT, name), **changes)
    return plan_to_dicts(timed(plans.read_plan_scenario(plans.KEPT, name), course, seed).plan)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("start c1 a=b", (Effect.JOINS, "c1")),
        ("close c4", (Effect.CLOSES, "c4")),
        ("kill -9 of the process of c2", (Effect.IS_KILLED, "c2")),
        ("c2 stands still (SIGSTOP)", (Effect.PAUSED, "c2")),
        ("c2 goes on (SIGCONT)", (Effect.RESUMED, "c2")),
        ("topic grows from 6 to 12 partitions", (Effect.GROWS, "12")),
        ("SIGTERM to the broker (clean shutdown)", (Effect.BROKER_CLOSES, "0")),
        ("SIGTERM broker 1", (Effect.BROKER_CLOSES, "1")),
        ("SIGTERM to broker 1 (clean shutdown)", (Effect.BROKER_CLOSES, "1")),
        ("kill -9 broker 0 (the controller)", (Effect.BROKER_IS_KILLED, "0")),
        ("the broker has started", (Effect.BROKER_STARTS, "0")),
        ("broker 2 has started", (Effect.BROKER_STARTS, "2")),
        ("broker 2 is started again", None),
        ("the broker has ended", None),
        ("end: everybody closes", None),
    ],
)
def test_a_row_of_a_timeline_is_felt_as_one_thing(row: str, what: tuple[Effect, str] | None) -> None:
    """Orders to start are not felt; what has started is."""
    assert done_by(row) == what


def test_members_start_and_close_when_they_did() -> None:
    """Their first JoinGroup comes when it came there; added ones are added."""
    moments = ((300, "joins c1"), (310, "joins c2"), (500, "joins c3"), (20_100, "joins c4"), (40_044, "closes c4"))

    assert plan_of("c-coop-scale", took_effect=moments) == [
        {"at": "297ms", "do": "start-host", "host": "c1"},
        {"at": "307ms", "do": "start-host", "host": "c2"},
        {"at": "497ms", "do": "start-host", "host": "c3"},
        {"at": "20097ms", "do": "add-members", "group": "g"},
        {"at": "40044ms", "do": "close-host", "host": "c4"},
    ]


def test_a_killed_member_is_down_until_its_next_join_and_a_paused_one_until_it_goes_on() -> None:
    """Both are one action here."""
    (crash,) = (row for row in plan_of("d-sticky-kill") if row["do"] == "crash")
    (pause,) = (row for row in plan_of("q-paused-in-rebalance") if row["do"] == "pause")

    assert crash == {"at": "20023ms", "do": "crash", "host": "c2", "mode": "process", "for": "25490ms"}
    assert pause == {"at": "15001ms", "do": "pause", "host": "c2", "for": "20002ms"}


def test_a_member_that_comes_back_with_other_assignors_is_upgraded() -> None:
    """They stand in the timeline, at its start."""
    upgrades = [row for row in plan_of("j-assignor-upgrade") if row["do"] == "rolling-upgrade"]

    assert [(row["hosts"], row["assignors"]) for row in upgrades] == [
        *(([f"c{number}"], ["cooperative-sticky", "range"]) for number in (1, 2, 3)),
        *(([f"c{number}"], ["cooperative-sticky"]) for number in (1, 2, 3)),
    ]


def test_brokers_go_down_in_the_order_of_the_scenario_and_what_nobody_did_stays() -> None:
    """Broker 1 of the recording is b2 here; the isolation at the start is the scenario's own."""
    plan = plan_of("n-three-brokers")

    assert [(row["do"], row.get("host")) for row in plan if row.get("host", "").startswith("b")] == [
        ("isolate", "b1"),
        ("isolate", "b2"),
        ("crash", "b0"),
        ("close-host", "b2"),
        ("start-host", "b2"),
    ]


def test_windows_and_loads_are_those_of_the_run() -> None:
    """Around its least and its most; the other draws are those of the run's machine."""
    course = attrs.evolve(
        plans.read_course(plans.KEPT, "g-broker-restart"), windows_ms=(1_648, 4_033), loads_ms=((170, 28), (1_673, 667))
    )
    draws = dict(timed(plans.read_plan_scenario(plans.KEPT, course.plan), course, 1).draws.settings)

    assert draws["broker.window"] == "uniform 1648ms 4033ms"
    assert draws["offsets.wait"] == "uniform 113ms 2510ms"
    assert draws["offsets.load"] == "uniform 19ms 1000ms"
    assert draws["heartbeat.wait"] != rig.RECORDED[DrawName.HEARTBEAT_WAIT], "the scenario's own"
    assert draws["close.notice"] == rig.RECORDED[DrawName.CLOSE_NOTICE]


def test_a_live_first_generation_is_faster_after_more_records() -> None:
    """Broker and clients have compiled more of their code; a recorded broker was not new."""
    course = plans.read_course(plans.NEW, "3-poll-exceeded-under-load.2")
    means = {load: distribution(rig.draws_of(course, load)["first.join"]).mean for load in (12, 100, 300)}
    recorded = plans.read_course(plans.KEPT, "a-range-rolling")

    assert means[12] == distribution(rig.LIVE[DrawName.FIRST_JOIN]).mean, "the usual load"
    assert 0.4 < means[100] / means[12] < 0.5 and 0.15 < means[300] / means[12] < 0.25
    assert rig.draws_of(recorded, 300)["first.join"] == rig.RECORDED[DrawName.FIRST_JOIN]


def test_a_live_run_with_priority_over_the_other_work_of_the_machine_waits_less() -> None:
    """A first generation is much faster; and other draws than the measured ones are those of other live runs."""
    course = plans.read_course(plans.NEW, "8-group-max-size.5")
    loaded, quiet = (rig.draws_of(attrs.evolve(course, had_priority=each)) for each in (False, True))

    assert course.had_priority
    shares = {
        name: distribution(quiet[name]).mean / distribution(loaded[name]).mean
        for name in loaded
        if quiet[name] != loaded[name]
    }
    assert shares.keys() == {"first.join", "group.timer", "heartbeat.wait", "offsets.append"}
    assert shares["first.join"] < 0.25 and max(shares.values()) < 0.6
    assert quiet.keys() - loaded.keys() == {"heartbeat.alone"}


def test_a_live_run_with_the_consumer_protocol_has_the_draws_of_its_requests_and_first_heartbeats() -> None:
    """A classic run has none; before 4.2 a first assignment takes less."""
    modern, classic = (
        plans.read_course(plans.CONSUMER, "1-scale-out"),
        plans.read_course(plans.NEW, "1-two-topics-late-joins"),
    )
    before = attrs.evolve(modern, source=modern.source.replace("4.2.1", "4.1.1"))

    found = rig.draws_of(modern)
    assert {name: found[name] for name in rig.CONSUMER_PROTOCOL} == rig.CONSUMER_PROTOCOL
    assert not {"first.beat", "first.ack"} & rig.draws_of(classic).keys()
    assert rig.draws_of(classic)["network.latency"] == rig.LIVE[DrawName.NETWORK_LATENCY]
    assert distribution(rig.draws_of(before)["first.join"]).mean < distribution(found["first.join"]).mean / 2


def test_a_member_of_the_consumer_protocol_starts_earlier_before_its_first_heartbeat() -> None:
    """By the median of ``first.beat``; a classic member of the same course does not."""
    course = plans.read_course(plans.CONSUMER, "7-migration-down")
    plan = plan_to_dicts(timed(plans.read_plan_scenario(plans.CONSUMER, course.plan), course, 1).plan)

    assert course.took_effect[0] == (1_116, "joins c1") and plan[0]["at"] == "1106ms"
    assert course.took_effect[3:5] == ((20_075, "closes c1"), (24_018, "joins c1"))
    assert (plan[3]["at"], plan[3]["down"]) == ("20075ms", "3940ms"), "a classic member from now on"


def test_the_machine_is_as_busy_as_the_hand_overs_of_the_run_tell() -> None:
    """A run that tells none was on any machine."""
    kept = plans.read_course(plans.KEPT, "p-coop-several-topics")
    scenario = plans.read_plan_scenario(plans.KEPT, kept.plan)

    def busy(*hand_overs_ms: int) -> str:
        course = attrs.evolve(kept, hand_overs_ms=hand_overs_ms)
        return dict(timed(scenario, course, 1).draws.settings)["machine.busy"]

    assert busy() == "lognormal median=100% p99=400%"
    assert median_of(busy(*[1] * 20)) < median_of(busy(*[5] * 20)) < median_of(busy(*[50] * 20))


def test_few_hand_overs_tell_less_of_a_machine_than_many() -> None:
    """Between any machine's and theirs, and as unsure."""
    any_machine = "lognormal median=100% p99=400%"
    one, few, many = (busy_as([2] * number, 8_000) for number in (1, 5, 100))

    assert median_of(any_machine) > median_of(one) > median_of(few) > median_of(many) > 250_000
    assert spread_of(any_machine) > spread_of(one) > spread_of(few) > spread_of(many)


def median_of(text: str) -> int:
    """In millionths."""
    return distribution(text).of(1 << 31)


def spread_of(text: str) -> float:
    """The p99 beside the median."""
    return distribution(text).of((1 << 32) * 99 // 100) / median_of(text)


def test_a_course_that_does_not_tell_its_moments_leaves_the_scenario_as_it_is() -> None:
    """Such as one that somebody kept before they were."""
    course = attrs.evolve(plans.read_course(plans.KEPT, "c-coop-scale"), took_effect=())
    scenario = plans.read_plan_scenario(plans.KEPT, course.plan)

    assert timed(scenario, course, 1) is scenario


@pytest.mark.parametrize("plan", PLANS)
def test_every_kept_course_tells_when_each_thing_was_felt(plan: str) -> None:
    """One moment for each row that does something, not before it and within seconds (brokers: a minute)."""
    course = plans.read_course(plans.KEPT, plan)
    done = [(at_ms, what) for at_ms, row in course.timeline if (what := done_by(row)) is not None]

    assert len(course.took_effect) == len(done)
    assert sorted(text.split()[0] for _, text in course.took_effect) == sorted(str(what) for _, (what, _) in done)
    for (at_ms, did), (felt_ms, _) in zip(done, course.took_effect, strict=True):
        assert -3_500 < felt_ms - at_ms < 3_500, did


@pytest.mark.parametrize("plan", ["b-static-rolling", "c-coop-scale", "i-static-duplicate"])
def test_members_join_here_when_they_joined_there(plan: str) -> None:
    """The first rebalance begins when it began, but for the time of a cold process (``first.id``)."""
    course = plans.read_course(plans.KEPT, plan)
    scenario = timed(plans.read_plan_scenario(plans.KEPT, plan), course, 1)

    emulated = emulate(scenario, seed=1, profile="kafka-3.4", until_ms=course.until_ms)

    kafka, ours = (one.rebalances[0].began_ms for one in (course, emulated))
    assert kafka is not None and ours is not None
    assert abs(ours - kafka) < 200
