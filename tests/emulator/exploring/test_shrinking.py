"""Shrinking: what has no part in a failure goes, what has stays, and the result says the same each time."""

import json
from typing import Any

import attrs
import pytest

import kemu
from kemu.emulator.exploring.pasteable import as_test, as_toml
from kemu.emulator.exploring.shrinking import NothingToShrink, Shrinker, ShrinkProgress, Shrunk, size_of
from kemu.emulator.exploring.trial import Roles, Signature, Trials, signature_of_broken
from kemu.emulator.findings import Violation
from kemu.emulator.scenario.files import scenario_from_toml
from tests.emulator.exploring.failing import failing


@pytest.fixture(scope="module")
def shrunk() -> Shrunk:
    """The failing scenario, shrunk to the end."""
    return Shrinker(failing(), 4, Trials()).shrink()


def test_what_has_no_part_in_a_failure_is_gone(shrunk: Shrunk) -> None:
    """One line of the plan is left, and one group with the member that dies and one that waits for it."""
    scenario = shrunk.scenario

    assert shrunk.complete
    assert [type(entry.action).__name__ for entry in scenario.plan] == ["Crash"]
    assert list(scenario.groups) == ["g"]
    assert scenario.groups["g"].members == 2
    assert scenario.plan[0].action in (kemu.Crash(host="c1"), kemu.Crash(host="c2")), "members are numbered anew"
    assert sum(topic.partitions for topic in scenario.topics.values()) <= 2
    assert scenario.brokers.count == 1
    assert scenario.network.links == ()
    assert dict(scenario.groups["g"].config).keys() <= {"session_timeout_ms"}
    assert shrunk.after == size_of(scenario)
    assert (shrunk.before.plan, shrunk.before.members, shrunk.before.partitions) == (4, 4, 6)


def test_it_fails_in_the_same_way(shrunk: Shrunk) -> None:
    """The same checker and kind, about the same group."""
    outcome = kemu.run(shrunk.scenario)

    assert outcome.verdict == "liveness"
    assert outcome.violations[0].checker == shrunk.violation.checker == "liveness"
    assert outcome.violations[0].kind == shrunk.violation.kind == "not-at-rest"
    assert outcome.violations[0].entities == ("g",)


def test_numbers_are_round(shrunk: Shrunk) -> None:
    """11.123 s became a time that people would write."""
    (entry,) = shrunk.scenario.plan
    assert isinstance(entry, kemu.At)
    assert entry.at_us % 1_000_000 == 0
    assert shrunk.scenario.duration_us < 12_000_000


def test_the_same_input_gives_the_same_result() -> None:
    """No clock and no chance of its own."""
    several = [Shrinker(failing(), 4, Trials(), runs=12).shrink() for _ in range(2)]

    assert several[0] == several[1]


def test_it_ends_after_so_many_runs_with_what_it_has() -> None:
    """A limit is no failure: what there is is smaller, and says that it may be smaller still."""
    result = Shrinker(failing(), 4, Trials(), runs=6).shrink()

    assert result.runs in (6, 7), "what was found is tried once more without the plan"
    assert not result.complete
    assert result.after.plan < result.before.plan
    assert kemu.run(result.scenario).verdict == "liveness"


def test_an_interrupt_leaves_the_smallest_so_far() -> None:
    """Ctrl-C falls into a run; what was adopted before stays."""
    told: list[ShrinkProgress] = []

    def tell(now: ShrinkProgress) -> None:
        told.append(now)
        if len(told) == 5:
            raise KeyboardInterrupt

    shrinker = Shrinker(failing(), 4, Trials(), tell=tell)
    with pytest.raises(KeyboardInterrupt):
        shrinker.shrink()

    result = shrinker.shrunk()
    assert not result.complete
    assert result.after == told[-1].size
    assert result.after.plan < 4
    assert kemu.run(result.scenario).verdict == "liveness"


def test_a_run_that_holds_cannot_be_shrunk() -> None:
    """And neither can a violation that it does not show."""
    calm = attrs.evolve(failing(), plan=())
    with pytest.raises(NothingToShrink, match="this run has no violation"):
        Shrinker(calm, 4, Trials())
    with pytest.raises(NothingToShrink, match="this run does not violate one-owner; it found: liveness:not-at-rest"):
        Shrinker(failing(), 4, Trials(), keep="one-owner")


def test_a_violation_that_was_expected_is_kept_when_it_is_named() -> None:
    """A preset that shows a weakness can be shrunk; what comes of it expects nothing any more."""
    expected = attrs.evolve(failing(), expect=("liveness",))
    with pytest.raises(NothingToShrink, match="--keep"):
        Shrinker(expected, 4, Trials())

    result = Shrinker(expected, 4, Trials(), keep="liveness:not-at-rest", runs=3).shrink()

    assert result.scenario.expect == ()


def test_both_files_say_what_was_shrunk(shrunk: Shrunk) -> None:
    """TOML and Python read back to the same scenario; the test fails with the violation."""
    assert scenario_from_toml(as_toml(shrunk)) == shrunk.scenario

    names: dict[str, Any] = {}
    exec(compile(as_test(shrunk), "test_shrunk.py", "exec"), names)
    assert names["SCENARIO"] == shrunk.scenario
    with pytest.raises(kemu.NotHeld, match="did not come to rest"):
        names["test_dies_too_late"]()


def test_violations_are_the_same_by_what_their_entities_are() -> None:
    """Members and partitions may be numbered anew; groups, topics and everything else may not."""
    roles = Roles(failing())

    def signature(*entities: str) -> Signature:
        return roles.signature(Violation("one-owner", 5, 6, entities, "", kind="two-owners"))

    assert signature("g", "orders-1", "c2", "c4") == signature("g", "orders-3", "c3", "c2")
    assert signature("g", "orders-1", "c2") != signature("g", "users-1", "c2")
    assert signature("g", "c1") != signature("g", "c2"), "c1 is of another group"
    assert signature("b0/controller") == signature("b1")
    assert signature("/brokers/ids/0") == signature("/brokers/ids/2") != signature("/controller")


def test_broken_machines_are_the_same_by_what_they_said() -> None:
    """Times, steps and names of hosts differ."""
    first = signature_of_broken("c1 at 123 us, step 4: AssertionError: c1 has 3 of 4")
    again = signature_of_broken("c3 at 99 us, step 77: AssertionError: c3 has 1 of 2")
    other = signature_of_broken("c3 at 99 us, step 77: KeyError: 1")

    assert first == again != other


def test_progress_tells_what_is_tried_and_how_small_it_is() -> None:
    """For a bar on a terminal."""
    told: list[ShrinkProgress] = []
    Shrinker(failing(), 4, Trials(), runs=10, tell=told.append).shrink()

    assert told[0].step == "the plan"
    assert [each.runs for each in told] == sorted({each.runs for each in told})
    assert json.dumps(attrs.asdict(told[-1].size)) != json.dumps(attrs.asdict(told[0].size))


def test_who_stays_away_is_shrunk_too() -> None:
    """c4 holds on to its partitions until its session is over; c1, of another group, has no part in that."""
    away = kemu.AwaySpec(hosts=("c1", "c4"), how="paused")
    checks = kemu.ChecksSpec(stable_within_us="6s", away=away)
    scenario = attrs.evolve(failing(), plan=(), draws="calm", checks=checks)

    shrunk = Shrinker(scenario, 4, Trials()).shrink()

    assert shrunk.scenario.groups.keys() == {"g"}
    assert shrunk.scenario.groups["g"].members == 2
    assert shrunk.scenario.checks.away == attrs.evolve(away, hosts=("c2",)), "members are numbered anew"
    assert "AwaySpec" in as_test(shrunk)
    assert kemu.run(scenario_from_toml(as_toml(shrunk))).verdict == "liveness"


def test_labels_and_numbers_by_partition_follow_members_and_partitions() -> None:
    """The label of the member that dies is kept; records that have no part in the failure are gone."""
    scenario = failing()
    group = attrs.evolve(scenario.groups["g"], labels=("first", "second", "third"))
    orders = attrs.evolve(scenario.topics["orders"], shares=(4, 3, 2, 1), initial_records_each=(40, 30, 20, 10))
    scenario = attrs.evolve(
        scenario, topics={**scenario.topics, "orders": orders}, groups={**scenario.groups, "g": group}
    )

    shrunk = Shrinker(scenario, 4, Trials()).shrink().scenario

    labels = shrunk.groups["g"].labels
    assert len(labels) == shrunk.groups["g"].members == 2
    assert set(labels) < {"first", "second", "third"}
    assert all(not any(topic.initial_records_each) for topic in shrunk.topics.values())
