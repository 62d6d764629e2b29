"""Each past bug is caught when its rule is on; today's rule holds under the same scenario and seed."""

import pytest
from attrs import evolve

from kemu.actors.broker.rules import TODAY
from kemu.actors.controller.rules import RULES
from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.emulator.checkers import CHECKERS
from kemu.emulator.findings import kinds_by_checker
from kemu.emulator.past_bugs import applying
from kemu.emulator.past_bugs.bug import PastBug
from kemu.emulator.past_bugs.registry import PAST_BUGS, bug_named, scenario_data
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import OffsetCommitted, OffsetRemoved, RequestRefused
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.protocol.replication import Truncation
from kemu.tools.commands.bugs import without
from tests.emulator.cluster.test_group_plans import S, Watcher

BUGS = pytest.mark.parametrize("bug", PAST_BUGS.values(), ids=list(PAST_BUGS))


def found(bug: PastBug, seed: int, *, on: bool) -> set[tuple[str, str]]:
    """What checkers find in a bug's scenario, as (checker, kind)."""
    scenario = load_scenario(bug.issue)
    result = run(scenario if on else without(scenario, bug.issue), seed=seed, loop="bare")
    assert not result.broke, result.broke
    return {(violation.checker, violation.kind) for violation in result.violations}


@BUGS
def test_a_past_bug_is_caught_when_it_is_on_and_nothing_is_when_it_is_off(bug):
    """Each scenario shows its bug with its own seed."""
    seed = load_scenario(bug.issue).seed

    assert (bug.caught_by, bug.kind) in found(bug, seed, on=True)
    assert not found(bug, seed, on=False)


@pytest.mark.soak
@BUGS
def test_nothing_is_found_without_past_bugs(bug):
    """The same faults, today's rules, many seeds."""
    for seed in range(1, 201):
        assert not found(bug, seed, on=False), f"{bug.issue} seed {seed}"


@BUGS
def test_an_exhibit_is_complete(bug):
    """A checker and a kind that there are, a scenario that has this bug, a past rule that is not today's."""
    assert bug.caught_by in CHECKERS and bug.kind in kinds_by_checker()[bug.caught_by]
    assert bug.issue in scenario_data(bug.issue)["bugs"]
    assert all((bug.summary, bug.story, bug.was, bug.today, bug.fixed_in))
    assert bug_named(bug.issue.lower()) is bug_named(bug.rule) is bug
    profile = PROFILES[load_scenario(bug.issue).profile or DEFAULT_PROFILE]
    bugs = (bug.issue,)
    assert (
        applying.replica_rules(TODAY, bugs) != TODAY
        or applying.controller_rules(RULES, bugs) != RULES
        or any(applying.group_rules(rules, bugs) != rules for rules in GROUP_RULES.values())
        or applying.release_with(profile, bugs) != profile
    )


@pytest.mark.parametrize(("release", "holds"), [("kafka-2.6", False), ("kafka-2.8", True)])
def test_a_topic_that_is_created_again_is_lost_to_members_before_2_8(release: str, holds: bool):
    """KAFKA-12257 with no bug switched on: clients before 2.8.2 look at no topic ids, nor do their brokers tell any."""
    scenario = without(load_scenario("KAFKA-12257"), "KAFKA-12257")
    result = run(scenario, seed=1, profile=release, loop="bare")

    assert [violation.kind for violation in result.violations] == ([] if holds else ["not-at-rest"])


def test_issues_and_rules_are_named_once():
    """``bug_named`` knows both."""
    named = [name for bug in PAST_BUGS.values() for name in (bug.issue, bug.rule)]
    assert len(set(named)) == len(named)


def test_without_bugs_rules_are_what_they_were():
    """A run without bugs pays nothing for the past bugs: the very same values reach its machines."""
    profile = PROFILES[DEFAULT_PROFILE]

    assert applying.replica_rules(TODAY, ()) is TODAY
    assert applying.controller_rules(RULES, ()) is RULES
    assert applying.release_with(profile, ()) is profile
    assert all(applying.group_rules(rules, ()) is rules for rules in GROUP_RULES.values())


def test_a_bug_of_a_broker_s_release_is_mended_and_its_protocol_stays() -> None:
    """Releases differ in what brokers and controllers decide; a mended bug leaves the protocol as it is."""
    release = PROFILES["kafka-2.6"]
    rules = applying.replica_rules_of(release, release)
    assert (rules.truncation, rules.checks_fetch_epoch, rules.refuses_unassigned) == (
        Truncation.MULTI_ROUND,
        False,
        False,
    )
    assert applying.replica_rules_of(PROFILES["kafka-3.9"], PROFILES["kafka-3.9"]) == TODAY
    assert applying.controller_rules_of(PROFILES["kafka-3.9"], release).update_metadata_version == 6

    for issue in ("KAFKA-13141", "KAFKA-7164", "KAFKA-1382"):
        with_bug = applying.replica_rules(rules, (issue,))
        assert with_bug != rules
        assert applying.replica_rules(with_bug, (), (issue,)) == evolve(rules, isr_path=with_bug.isr_path)
    past = applying.controller_rules(RULES, ("KAFKA-7235",))
    assert applying.controller_rules(past, (), ("KAFKA-7235",)) == RULES


def test_a_bug_of_replicas_needs_brokers_that_replicate():
    """One clear error with the key and the fix."""
    with pytest.raises(ScenarioError, match=r"bugs.0.*KAFKA-1211 is of brokers that replicate: add \[brokers.repl"):
        Scenario(name="s", topics={"t": TopicSpec(partitions=1)}, bugs=("KAFKA-1211",))


def test_an_unknown_bug_is_told_with_the_nearest():
    """Scenario files name bugs by issue."""
    with pytest.raises(ScenarioError, match=r'KAFKA-1212.*"KAFKA-1211"'):
        Scenario(name="s", topics={"t": TopicSpec(partitions=1)}, bugs=("KAFKA-1212",))


def test_a_bug_that_a_release_has_by_itself_can_be_mended() -> None:
    """Kafka 2.4's coordinators have two, its clients one; a release without bugs of its own stays the very same."""
    release = PROFILES["kafka-2.4-unfixed"]
    rules = GROUP_RULES[release.broker.coordinator_kind]

    assert applying.bugs_of(PROFILES[DEFAULT_PROFILE]) == ()
    assert applying.bugs_of(PROFILES["kafka-2.4"]) == ("KAFKA-9801", "KAFKA-10284", "KAFKA-12257")
    assert applying.bugs_of(release) == ("KAFKA-9801", "KAFKA-10284", "KAFKA-12983", "KAFKA-12257")
    assert applying.bugs_of(PROFILES["kafka-2.8"]) == ("KAFKA-14639",)
    assert applying.group_rules(rules, (), ("KAFKA-10284",)).writes_replacements
    assert not applying.group_rules(rules, (), ("KAFKA-10284",)).replacement_rebalances_completing
    assert "KAFKA-12983" not in applying.bugs_of(applying.release_with(release, (), ("KAFKA-12983",)))
    assert applying.release_with(PROFILES["kafka-2.6"], (), ("KAFKA-12257",)).metadata.new_topic_ids_reset_epochs
    assert applying.bugs_of(PROFILES["kafka-3.7"]) == ("KAFKA-15170",)
    known = {"KAFKA-9801", "KAFKA-10284", "KAFKA-12983", "KAFKA-12257", "KAFKA-14639", "KAFKA-15170"}
    assert set(applying.bugs_of_releases()) == known


def test_assignors_of_2_8_and_3_0_pass_over_claims_of_older_generations() -> None:
    """KAFKA-14639, mended in 3.4.1; what they give otherwise stays, and so does the eager assignor of that release."""
    having = [name for name, profile in PROFILES.items() if "KAFKA-14639" in applying.bugs_of(profile)]
    release = PROFILES["kafka-2.8"]
    mended = applying.release_with(release, (), ("KAFKA-14639",)).assignors

    assert having == ["kafka-2.8", "kafka-3.0"]
    assert [name for name in mended if mended[name] is not release.assignors[name]] == ["cooperative-sticky"]
    assert "KAFKA-14639" not in applying.bugs_of(applying.release_with(PROFILES["kafka-3.0"], (), ("KAFKA-14639",)))


def test_the_offsets_of_a_deleted_topic_are_removed_and_its_late_commits_are_refused() -> None:
    """KAFKA-12257 without its bug, seed 16: members learn of the deletion late, and commit what they have read.

    A committed epoch above the epochs of the new topic would hide its leaders from a consumer until as many elections
    (Kafka 3.4 ``Metadata.updateLastSeenEpochIfNewer``). A broker whose metadata lack the partition refuses the commit
    (``KafkaApis.handleOffsetCommitRequest``), and the coordinator forgets the offsets with the topic
    (``GroupCoordinator.handleDeletedPartitions``).
    """
    watcher = Watcher()
    scenario = without(load_scenario("KAFKA-12257"), "KAFKA-12257")
    result = run(scenario, seed=16, loop="bare", observers=(watcher,))

    assert result.verdict == "holds", result.violations
    late = [seen.fact for seen in watcher.facts if 30 * S < seen.at_us < 40 * S]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in [fact.error for fact in late if type(fact) is RequestRefused]
    assert not [fact for fact in late if type(fact) is OffsetCommitted and fact.topic == "orders-us"]
    removed = [seen.fact for seen in watcher.facts if type(seen.fact) is OffsetRemoved]
    assert {(fact.topic, fact.partition) for fact in removed} == {("orders-us", 0), ("orders-us", 1)}
