"""Groups with the consumer protocol (KIP-848) in whole clusters under faults, with all checkers."""

import re
from pathlib import Path

import pytest
from attrs import evolve

from kemu.emulator.chance import Seeded
from kemu.emulator.draws import Drawn, DrawSet
from kemu.emulator.facts import FaultApplied, HostClosed
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    AdminAnswered,
    GroupDescribed,
    GroupLoaded,
    MemberAdded,
    MemberFailed,
    MemberRemoved,
    PartitionsLost,
    PartitionsRevoked,
    Removal,
    RequestRefused,
)
from tests.emulator.cluster.test_group_plans import Played

SEED_1346 = Path(__file__).parents[2] / "data" / "swarm" / "acknowledged-before-its-topic-was-known.toml"
REPLICATED = (
    "brokers = { count = 3, replication = { factor = 3, min_isr = 2, session = '6s', lag = '10s' },"
    " config.'offsets.topic.num.partitions' = 5 }"
)
TWO_BROKERS = "brokers = { count = 2 }"
UPGRADE = "{ at = '9s', do = 'rolling-upgrade', group = 'g', every = '5s', down = '1s', profile = 'kafka-3.9' }"
TO_CONSUMER = UPGRADE.replace("profile = 'kafka-3.9'", "settings = ['group.protocol=consumer']")
REMAINS = "groups.g = { topics = ['orders'], config.'emulated.close.membership' = 'remain' }"
PATTERN = "groups.g = { pattern = 'ord.*', members = 3 }"
PARALLEL = "groups.g = { topics = ['orders'], config.'enable.parallel.rebalance' = true }"
BY_BROKERS = "groups.g = { subscription_pattern = 'ord.*', config.'group.protocol' = 'consumer' }"
TO_CLASSIC = TO_CONSUMER.replace("=consumer", "=classic")
QUICK = (
    "brokers.config = { 'group.consumer.heartbeat.interval.ms' = 500,"
    " 'group.consumer.min.heartbeat.interval.ms' = 500 }"
)
RESTARTED = "{ at = '%ds', do = 'rolling-restart', group = 'g', every = '3s', down = '1s' }"
LATE = "{ at = '4s', do = 'slow', add = '150ms', jitter = '300ms' }"
PLAIN = "groups.g = { topics = ['orders'], members = 3, config.'group.protocol' = 'consumer' }"


def scenario(
    *more: str, group: str = PLAIN, plan: str = "", duration: str = "90s", profile: str = "kafka-4.0"
) -> Scenario:
    """Three members of the consumer protocol under a plan."""
    lines = [
        f"duration = '{duration}'",
        f"profile = '{profile}'",
        "topics.orders = { partitions = 6, rate = '12/s' }",
        group,
        *more,
        f"plan = [{plan}]",
    ]
    return scenario_from_toml("\n".join(lines), source="consumers.toml")


def test_a_new_member_takes_partitions_only_after_their_owners_gave_them_up() -> None:
    played = Played(scenario(plan="{ at = '30s', do = 'add-members', group = 'g' }")).held()

    states = [fact.state for fact in played.seen(MemberReconciled)]
    assert "UNREVOKED_PARTITIONS" in states
    assert "UNRELEASED_PARTITIONS" in states
    assert any(fact.revoked for fact in played.seen(PartitionsRevoked))
    assert played.result.figures.rebalances


@pytest.mark.parametrize("profile", ["kafka-4.1", "kafka-4.2", "kafka-4.3"])
def test_later_releases_keep_the_rules_while_the_coordinator_fails_over(profile: str) -> None:
    """Since 4.3 the epochs of partitions are in the log, and a second separates two targets."""
    plan = (
        "{ at = '30s', do = 'add-members', group = 'g' },"
        "{ at = '34s', do = 'kill-coordinator', group = 'g', for = '20s' },"
        "{ at = '70s', do = 'add-members', group = 'g' },"
        "{ at = '70.1s', do = 'remove-members', group = 'g', count = 1 }"
    )
    played = Played(scenario(TWO_BROKERS, plan=plan, duration="2m", profile=profile)).held()

    epochs = [fact.epoch for fact in played.seen(GroupEpochsChanged)]
    assert epochs[0] == (2 if profile == "kafka-4.3" else 1)
    assert played.seen(GroupLoaded)


@pytest.mark.parametrize("brokers", [TWO_BROKERS, REPLICATED], ids=["arranged", "replicated"])
def test_a_group_survives_its_coordinator_in_the_middle_of_a_reconciliation(brokers: str) -> None:
    plan = (
        "{ at = '30s', do = 'add-members', group = 'g' },"
        "{ at = '34s', do = 'kill-coordinator', group = 'g', for = '20s' }"
    )
    played = Played(scenario(brokers, plan=plan, duration="2m")).held()

    loaded = played.seen(GroupLoaded)
    before = max(fact.epoch for fact in played.seen(GroupEpochsChanged))
    assert loaded
    assert (loaded[0].state, len(loaded[0].members)) == ("Reconciling", 4)
    assert 0 < loaded[0].generation <= before


@pytest.mark.parametrize(("profile", "rises"), [("kafka-4.0", False), ("kafka-4.1", True), ("kafka-4.3", True)])
def test_since_4_1_a_replica_on_another_rack_raises_the_epoch_at_the_next_heartbeat(profile: str, rises: bool) -> None:
    """``Utils.computeTopicHash`` 4.1.0. Neither a replica within its rack nor a stopped broker raises the epoch."""
    brokers = "brokers = { count = 4, racks = ['north', 'south'], replication = { factor = 2, session = '3s' } }"
    plan = (
        "{ at = '15s', do = 'reassign-partitions', topic = 'orders', assignment = ['0: 0 3'] },"
        "{ at = '20s', do = 'crash', host = 'b3', for = '8s' },"
        "{ at = '35s', do = 'reassign-partitions', topic = 'orders', assignment = ['1: 1 3'] }"
    )
    orders = "topics.orders = { partitions = 2, rate = '2/s', assignment = ['0 1', '1 0'] }"
    lines = [f"profile = '{profile}'", "duration = '45s'", brokers, orders, PLAIN, f"plan = [{plan}]"]
    played = Played(scenario_from_toml("\n".join(lines), source="racks.toml")).held()

    epochs = list(zip(played.times_s(GroupEpochsChanged), played.seen(GroupEpochsChanged), strict=True))
    formed = max(fact.epoch for at_s, fact in epochs if at_s < 12)
    late = [at_s for at_s, fact in epochs if fact.epoch > formed]
    assert bool(late) is rises
    assert all(35 < at_s < 41 for at_s in late)
    assert not [at_s for at_s in played.times_s(PartitionsRevoked) if 12 < at_s < 44]  # no assignor uses racks


def test_a_crashed_member_is_removed_at_the_end_of_its_session() -> None:
    plan = "{ at = '30s', do = 'crash', host = 'c1', for = '10s' }"
    played = Played(scenario(plan=plan, duration="2m")).held()

    assert [fact.why for fact in played.seen(MemberRemoved)][:1] == [Removal.SESSION_EXPIRED]
    added = [fact.member_id for fact in played.seen(MemberAdded) if fact.client_id == "c1"]
    assert len(added) == len(set(added)) == 2  # a new process has a new id


def test_a_static_member_that_closes_keeps_its_partitions() -> None:
    """It leaves with epoch -2: no epoch rises, and its new id replaces the former id."""
    group = PLAIN.replace("members = 3", "members = 3, static = true")
    plan = "{ at = '30s', do = 'rolling-restart', group = 'g', every = '20s', down = '5s' }"
    played = Played(scenario(group=group, plan=plan, duration="2m")).held()

    epochs_s = played.times_s(GroupEpochsChanged)
    assert max(epochs_s) < 30
    assert all(fact.removal is Removal.REPLACED for fact in played.seen(MemberRemoved))
    assert len(played.seen(MemberRemoved)) == 3


CLOSES = [
    ("consumer", "false", "remain", Removal.LEFT),
    ("consumer", "true", "remain", Removal.SESSION_EXPIRED),
    ("consumer", "true", "leave", Removal.LEFT),
    ("classic", "false", "remain", Removal.SESSION_EXPIRED),
    ("classic", "true", "remain", Removal.SESSION_EXPIRED),
    ("classic", "true", "leave", Removal.LEFT),
]
"""Protocol, whether the member is static, its operation, and why it is removed after its close.

A real broker of 4.3.0 with clients of 4.3.0, and one of 4.2.1 with clients of 4.1.0, had the same members 0.3 s
after each of these closes.
"""


@pytest.mark.parametrize(("protocol", "static", "operation", "why"), CLOSES)
def test_close_leaves_the_group_or_remains_as_in_kip_1092(
    protocol: str, static: str, operation: str, why: Removal
) -> None:
    own = f"members = 3, static = {static}, config.'emulated.close.membership' = '{operation}'"
    group = PLAIN.replace("members = 3", own).replace("'consumer'", f"'{protocol}'")
    plan = "{ at = '30s', do = 'close-host', host = 'c1' }"
    played = Played(scenario(group=group, plan=plan, duration="2m", profile="kafka-4.1")).held()

    assert [fact.why for fact in played.seen(MemberRemoved)] == [why]
    (removed_s,) = played.times_s(MemberRemoved)
    session_s = 45 if why is Removal.SESSION_EXPIRED else 0  # from the last heartbeat, of at most 5 s before
    assert 30 + max(session_s - 5, 0) < removed_s < 31 + session_s


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("timeout_s", [0, 3])
def test_close_awaits_a_silent_coordinator_until_its_timeout(protocol: str, timeout_s: int) -> None:
    """CloseOptions.timeout: the member is removed when the coordinator reads its leave, which was sent once."""
    own = f"members = 3, config.'emulated.close.timeout.ms' = {timeout_s * 1000}"
    group = PLAIN.replace("members = 3", own).replace("'consumer'", f"'{protocol}'")
    plan = (
        "{ at = '29.9s', do = 'pause', host = 'coordinator of g', for = '6s' },"
        "{ at = '30s', do = 'close-host', host = 'c1' }"
    )
    played = Played(scenario(group=group, plan=plan, duration="60s", profile="kafka-4.1")).held()

    (closed,) = played.seen(HostClosed)
    assert timeout_s <= closed.took_us / 1_000_000 < timeout_s + 1
    assert [fact.why for fact in played.seen(MemberRemoved)] == [Removal.LEFT]
    (removed_s,) = played.times_s(MemberRemoved)
    assert 35 < removed_s < 40


def test_a_static_member_that_comes_back_after_a_crash_fails() -> None:
    """UNRELEASED_INSTANCE_ID is fatal: the coordinator still has the former process.

    Source: Kafka 4.0 ``ConsumerHeartbeatRequestManager.handleSpecificError``.
    """
    group = PLAIN.replace("members = 3", "members = 3, static = true")
    played = Played(scenario(group=group, plan="{ at = '30s', do = 'crash', host = 'c1', for = '10s' }"))

    assert [fact.error for fact in played.seen(MemberFailed)] == [ErrorCode.UNRELEASED_INSTANCE_ID]
    assert [found.kind for found in played.result.violations] == ["unreleased-instance"]


def test_a_member_that_does_not_poll_leaves_and_rejoins_at_its_next_poll() -> None:
    group = PLAIN.replace("'consumer'", "'consumer', config.'max.poll.interval.ms' = 20000")
    plan = "{ at = '30s', do = 'stop-polling', host = 'c1', for = '40s' }"
    played = Played(scenario(group=group, plan=plan, duration="2m")).held()

    assert [fact.why for fact in played.seen(MemberRemoved)] == [Removal.LEFT]
    assert [fact.client_id for fact in played.seen(MemberAdded)].count("c1") == 2


def test_a_topic_that_grows_raises_the_epoch_at_the_next_heartbeat() -> None:
    plan = "{ at = '30s', do = 'grow-topic', topic = 'orders', partitions = 9 }"
    played = Played(scenario(REPLICATED, plan=plan, duration="2m")).held()

    assert any(30 < at_s < 37 for at_s in played.times_s(GroupEpochsChanged))
    last = {fact.member_id: fact.assigned for fact in played.seen(MemberReconciled)}
    assert sum(map(len, last.values())) == 9


def _alter(key: str, value: str, at: str = "30s") -> str:
    return f"{{ at = '{at}', do = 'alter-configs', group = 'g', key = 'consumer.{key}', value = '{value}' }}"


def test_a_plan_may_set_a_groups_settings_at_the_start() -> None:
    settings = _alter("session.timeout.ms", "60000", at="0s"), _alter("heartbeat.interval.ms", "9000", at="0s")
    played = Played(scenario(plan=", ".join((*settings, "{ at = '40s', do = 'crash', host = 'c1' }")), duration="2m"))

    assert 40 + 60 - 9 < played.held().times_s(MemberRemoved)[0] < 40 + 60 + 1


@pytest.mark.parametrize("brokers", [REPLICATED, TWO_BROKERS])
def test_a_group_has_its_own_session_timeout_also_after_a_failover(brokers: str) -> None:
    """IncrementalAlterConfigs of a group. Source: ``GroupConfig``, ``GroupConfigManager`` 4.0."""
    plan = (
        _alter("session.timeout.ms", "60000")
        + ", { at = '50s', do = 'kill-coordinator', group = 'g', for = '10s' }"
        + ", { at = '100s', do = 'crash', host = 'c1' }"
    )
    played = Played(scenario(brokers, plan=plan, duration="3m")).held()

    assert played.seen(GroupLoaded)
    assert 100 + 60 - 5 < played.times_s(MemberRemoved)[0] < 100 + 60 + 1


@pytest.mark.parametrize(
    ("key", "value", "profile", "said"),
    [
        ("session.timeout.ms", "44999", "kafka-4.0", "must be greater than or equal to group.consumer.min.session"),
        ("session.timeout.ms", "60001", "kafka-4.0", "must be less than or equal to group.consumer.max.session"),
        ("assignment.interval.ms", "500", "kafka-4.2", "Unknown group config name"),
        ("assignment.interval.ms", "15001", "kafka-4.3", "must be less than or equal to"),
    ],
)
def test_a_group_refuses_settings_outside_the_brokers_bounds(key: str, value: str, profile: str, said: str) -> None:
    """``GroupConfig.validateValues`` 4.1, 4.3: InvalidConfigurationException."""
    played = Played(scenario(REPLICATED, plan=_alter(key, value, "20s"), duration="40s", profile=profile))

    (answer,) = played.seen(AdminAnswered)
    assert (answer.error, said in answer.text) == (ErrorCode.INVALID_CONFIG, True)


def test_without_replication_a_bad_setting_of_a_group_changes_nothing() -> None:
    plan = ", ".join((_alter("session.timeout.ms", "60001"), "{ at = '40s', do = 'crash', host = 'c1' }"))
    played = Played(scenario(plan=plan, duration="2m"))

    refused, _ = played.seen(FaultApplied)
    assert "no effect, INVALID_CONFIG: consumer.session.timeout.ms must be less than" in refused.text
    assert 40 + 45 - 5 < played.times_s(MemberRemoved)[0] < 40 + 45 + 1


def test_without_replication_only_groups_have_settings_that_change() -> None:
    with pytest.raises(ScenarioError, match="group: is missing; settings of topics"):
        scenario(plan="{ at = '30s', do = 'alter-configs', key = 'unclean.leader.election.enable', value = 'true' }")


def test_an_admin_describes_the_group() -> None:
    played = Played(scenario(plan="{ at = '30s', do = 'describe-group', group = 'g' }")).held()

    (described,) = played.seen(GroupDescribed)
    assert (described.state, len(described.members), described.error) == ("Stable", 3, ErrorCode.NONE)
    assert described.api == "ConsumerGroupDescribe"
    assert re.match(r"epoch (\d+), assignment epoch \1, assignor uniform; \S+ epoch \1 owns \S+-\d", described.text)
    assert described.text.count(" owns ") == 3


def test_an_old_epoch_commits_nothing() -> None:
    """A paused member was removed: its commits are refused until it has joined again."""
    plan = "{ at = '30s', do = 'pause', host = 'c1', for = '60s' }"
    played = Played(scenario(plan=plan, duration="2m")).held()

    refused = [fact for fact in played.seen(RequestRefused) if fact.api == "OffsetCommit"]
    assert refused
    assert {fact.error for fact in refused} <= {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH}


@pytest.mark.parametrize("profile", ["kafka-4.0", "kafka-4.3"])
def test_offsets_are_fenced_by_the_member_epoch_until_4_3_and_afterwards_only_fetches(profile: str) -> None:
    """A heartbeat's answer with a new epoch is on its way while the member commits, or asks for committed offsets.

    4.3 compares the epoch of a commit with the epochs of its partitions (``ConsumerGroup.validateOffsetCommit``). Its
    OffsetFetch needs the member's epoch, as before (``ConsumerGroup.validateOffsetFetch``), and the member asks again.
    """
    plan = ", ".join([RESTARTED % 5, RESTARTED % 20, LATE])
    group = PLAIN.replace("members = 3", "members = 4")
    text = scenario(QUICK, group=group, plan=plan, duration="33s", profile=profile)
    played = Played(evolve(text, topics={"orders": TopicSpec(partitions=12, records_per_s=12)})).held()

    stale = [fact.api for fact in played.seen(RequestRefused) if fact.error is ErrorCode.STALE_MEMBER_EPOCH]
    assert ("OffsetCommit" in stale) is (profile != "kafka-4.3")
    assert "OffsetFetch" in stale


SWITCH = (
    "{ at = '%s', do = 'rolling-upgrade', group = 'g', every = '20s', down = '5s', settings = ['group.protocol=%s'] }"
)
BOTH_WAYS = f"{SWITCH % ('30s', 'consumer')}, {SWITCH % ('2m', 'classic')}"
CLASSIC = PLAIN.replace(", config.'group.protocol' = 'consumer'", ", %s")


@pytest.mark.parametrize(
    "members",
    [
        "assignors = ['cooperative-sticky']",
        "assignors = ['range']",
        "static = true, config.'session.timeout.ms' = 20000",
    ],
    ids=["cooperative", "eager", "static"],
)
def test_a_rolling_upgrade_moves_a_group_to_the_consumer_protocol_and_back(members: str) -> None:
    """The settings of the other protocol are left out by members that switch."""
    played = Played(scenario(group=CLASSIC % members, plan=BOTH_WAYS, duration="4m")).held()

    assert [fact.protocol for fact in played.seen(GroupConverted)] == ["consumer", "classic"]
    assert not [fact for fact in played.seen(RequestRefused) if fact.error is ErrorCode.GROUP_ID_NOT_FOUND]
    removals = {fact.removal for fact in played.seen(MemberRemoved)}
    assert removals == ({Removal.REPLACED} if "static" in members else {Removal.LEFT})


def test_a_migration_survives_a_crashed_member_and_a_new_coordinator() -> None:
    crashes = (
        "{ at = '54s', do = 'kill-coordinator', group = 'g', for = '20s' },"
        "{ at = '62s', do = 'crash', host = 'c3', for = '5s' },"
        "{ at = '144s', do = 'kill-coordinator', group = 'g', for = '20s' }"
    )
    plan = f"{BOTH_WAYS}, {crashes}"
    played = Played(scenario(REPLICATED, group=CLASSIC % "assignors = ['range']", plan=plan, duration="5m")).held()

    assert [fact.protocol for fact in played.seen(GroupConverted)] == ["consumer", "classic"]
    assert any(fact.state in ("Assigning", "Reconciling", "Stable") for fact in played.seen(GroupLoaded))
    assert Removal.SESSION_EXPIRED in [fact.removal for fact in played.seen(MemberRemoved)]


def test_a_policy_that_refuses_upgrades_ends_the_switched_member() -> None:
    policy = "brokers.config.'group.consumer.migration.policy' = 'disabled'"
    played = Played(scenario(policy, group=CLASSIC % "static = false", plan=SWITCH % ("30s", "consumer")))

    assert ErrorCode.GROUP_ID_NOT_FOUND in [fact.error for fact in played.seen(MemberFailed)]
    assert not played.seen(GroupConverted)


def test_a_member_that_joins_before_the_first_generation_of_a_classic_group_fails() -> None:
    """``ConsumerGroup.fromClassicGroup`` 4.0 fails without a chosen assignor: UNKNOWN_SERVER_ERROR, which is fatal."""
    own = "overrides.c3.config.'group.protocol' = 'consumer', start_spread = '2s'"
    played = Played(scenario(group=CLASSIC % own))

    assert [fact.error for fact in played.seen(MemberFailed)] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_members_of_both_protocols_share_a_group_from_the_start() -> None:
    own = "start_spread = '9s', overrides.c1.config.'group.protocol' = 'consumer'"
    played = Played(scenario(group=CLASSIC % own)).held()

    last = {fact.member_id: fact.assigned for fact in played.seen(MemberReconciled)}
    assert sorted(map(len, last.values())) == [2, 2, 2]


WRONG = {
    "config.'session.timeout.ms' = 9000": r"session\.timeout\.ms: cannot be set with group\.protocol = consumer",
    "assignors = ['range']": r"assignors: cannot be set with group\.protocol = consumer",
    "overrides.c2.config.'session.timeout.ms' = 9000": r"overrides\.c2.*session\.timeout\.ms: cannot be set with",
    "overrides.c2.profile = 'kafka-4.0'": r"profile: is not emulated with group\.protocol = consumer",
    "config.'group.remote.assignor' = 'sticky'": r"group\.remote\.assignor: \"sticky\" is not allowed",
}


@pytest.mark.parametrize(("extra", "said"), WRONG.items())
def test_settings_that_do_not_fit_the_protocol_are_refused(extra: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        scenario(group=PLAIN.replace("members = 3", f"members = 3, {extra}"))


WRONG_PATTERNS = {
    "subscription_pattern = 'o.*', pattern = 'o.*'": r'subscription_pattern: and "pattern" exclude each other',
    "subscription_pattern = 'o.*', topics = ['orders']": r'subscription_pattern: and "topics" exclude each other',
    "subscription_pattern = 'o('": r"subscription_pattern: 'o\(' is not a regular expression: missing closing \)",
    "subscription_pattern = '(?=o).*'": r"subscription_pattern: .* invalid or unsupported Perl syntax",
    "subscription_pattern = 'o.*', overrides.c2.config.'group.protocol' = 'classic'": "consumer for all members",
}


@pytest.mark.parametrize(("extra", "said"), WRONG_PATTERNS.items())
def test_patterns_that_do_not_fit_are_refused(extra: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        scenario(group=PLAIN.replace("topics = ['orders']", extra))


def test_only_members_of_the_consumer_protocol_have_a_pattern_for_brokers() -> None:
    with pytest.raises(ScenarioError, match=r"subscription_pattern: needs group\.protocol = consumer for"):
        scenario(group=PATTERN.replace("pattern", "subscription_pattern"))
    with pytest.raises(ScenarioError, match=r"subscription_pattern: needs .*, which c1 lacks"):
        scenario(group=PATTERN, plan="{ at = '9s', do = 'subscribe', host = 'c1', subscription_pattern = 'o.*' }")


@pytest.mark.parametrize("key", ["pattern", "subscription_pattern"])
@pytest.mark.parametrize("profile", ["kafka-4.0", "kafka-4.2"])
def test_a_group_follows_its_pattern_when_topics_are_created_and_deleted(key: str, profile: str) -> None:
    """Members match ``pattern`` at their refreshes, brokers match ``subscription_pattern`` after a heartbeat."""
    group = PLAIN.replace("topics = ['orders']", f"{key} = 'ord.*', config.'metadata.max.age.ms' = 15000")
    plan = (
        "{ at = '20s', do = 'create-topic', topic = 'orders-us', partitions = 2 },"
        "{ at = '50s', do = 'delete-topic', topic = 'orders-us' }"
    )
    played = Played(scenario(REPLICATED, group=group, plan=plan, profile=profile)).held()

    owned = [
        (at_s, {topic for topic, _ in fact.assigned})
        for at_s, fact in zip(played.times_s(MemberReconciled), played.seen(MemberReconciled), strict=True)
    ]
    of_new = [at_s for at_s, topics in owned if "orders-us" in topics]
    assert 20 < min(of_new) < 42
    assert max(of_new) < 72
    assert {topic for _, topics in owned for topic in topics} == {"orders", "orders-us"}


def test_a_member_changes_to_a_pattern_for_brokers_and_back() -> None:
    plan = (
        "{ at = '15s', do = 'subscribe', host = 'c1', subscription_pattern = 'pay.*' },"
        "{ at = '45s', do = 'subscribe', host = 'c1', topics = ['orders'] }"
    )
    played = Played(scenario("topics.payments = { partitions = 2, rate = '2/s' }", plan=plan)).held()

    (member_id,) = [fact.member_id for fact in played.seen(MemberAdded) if fact.client_id == "c1"]
    topics = [
        (at_s, {topic for topic, _ in fact.assigned})
        for at_s, fact in zip(played.times_s(MemberReconciled), played.seen(MemberReconciled), strict=True)
        if fact.member_id == member_id
    ]
    assert any(each == {"payments"} for at_s, each in topics if 15 < at_s < 45)
    assert topics[-1][1] == {"orders"}


def test_a_remote_assignor_needs_the_protocol() -> None:
    with pytest.raises(ScenarioError, match=r"group\.remote\.assignor: needs group\.protocol = consumer"):
        scenario(group="groups.g = { topics = ['orders'], config.'group.remote.assignor' = 'range' }")


@pytest.mark.parametrize("static", ["false", "true"])
def test_members_that_an_admin_removes_lose_their_partitions_and_join_again(static: str) -> None:
    """The coordinator removes members of both protocols for LeaveGroup. Each member learns it at its next heartbeat.

    Source: ``GroupMetadataManager.classicGroupLeaveToConsumerGroup`` 4.0 to 4.3.
    """
    group = PLAIN.replace("members = 3", f"members = 3, static = {static}")
    played = Played(scenario(group=group, plan="{ at = '30s', do = 'expel-members', group = 'g' }")).held()

    assert [fact.text for fact in played.seen(AdminAnswered)] == ["3 members"]
    assert [fact.removal for fact in played.seen(MemberRemoved)] == [Removal.LEFT] * 3
    assert {each.actor for each in played.watcher.facts if type(each.fact) is PartitionsLost} == {"c1", "c2", "c3"}
    assert len(played.seen(MemberAdded)) == 6


@pytest.mark.parametrize("key", ["session.timeout.ms", "heartbeat.interval.ms"])
def test_a_broker_refuses_times_outside_its_bounds(key: str) -> None:
    with pytest.raises(ScenarioError, match=rf"group\.consumer\.{key} \(1000\) must be from"):
        scenario(f"brokers.config.'group.consumer.{key}' = 1000")


@pytest.mark.parametrize(
    "key",
    [
        *("group.max.size", "group.consumer.max.size", "group.consumer.session.timeout.ms"),
        *("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"),
    ],
)
def test_a_limit_of_zero_is_refused(key: str) -> None:
    """GroupCoordinatorConfig 4.0: atLeast(1)."""
    with pytest.raises(ScenarioError, match=f"{key}: must be at least 1, not 0"):
        scenario(f"brokers.config.'{key}' = 0")


def test_10_seconds_is_the_least_age_of_stale_patterns() -> None:
    """GroupCoordinatorConfig 4.1: atLeast(10 * 1000)."""
    with pytest.raises(ScenarioError, match=r"regex\.refresh\.interval\.ms: must be at least 10000, not 9999"):
        scenario("brokers.config.'group.consumer.regex.refresh.interval.ms' = 9999")


@pytest.mark.parametrize(
    ("made", "profile", "said"),
    [
        (scenario(), "kafka-3.9", 'needs one profile.*: set profile = "kafka-4.0"'),
        (scenario("brokers.config.'coordinator.kind' = 'scala'"), "kafka-4.0", "needs one profile"),
        (scenario(group=REMAINS), "kafka-4.0", r"close\.membership: needs kafka-4\.1 or later"),
        (scenario(plan=UPGRADE), "kafka-4.0", "to another release is not emulated"),
        (scenario(group=PARALLEL, plan=TO_CONSUMER), "kafka-4.0", r"rebalance: is not emulated"),
        (scenario(group=BY_BROKERS, plan=TO_CLASSIC), "kafka-4.0", "subscription_pattern needs group.protocol"),
    ],
)
def test_what_is_not_emulated_is_refused_before_the_run(made: Scenario, profile: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        run(made, seed=1, profile=profile, loop="bare")


def test_only_the_first_consumers_of_a_process_request_metadata_before_they_subscribe() -> None:
    """The time begins with the process: later members have its classes."""
    draws = DrawSet("calm", (("subscribe.wait", "300us"),))

    def waits_us(process: str, at_us: int) -> int:
        drawn = Drawn(Seeded(1), draws, "c1/life 1", process=process, began_us=1_000)
        return drawn.us(DrawName.SUBSCRIBE_WAIT, 0, at_us=at_us)

    assert [waits_us("g", at_us) for at_us in (1_000, 1_100, 1_300, 5_000)] == [300, 200, 0, 0]
    assert waits_us("", 5_000) == 300, "a process of its own"


@pytest.mark.parametrize("seed", [5, 79, 131])
def test_the_cluster_of_seed_1346_holds_with_its_other_orders(seed: int) -> None:
    """5: a member acknowledges what it adopted before it knew the topic. 79, 131: the answer to an OffsetFetch whose
    partitions the member lost is NOT_COORDINATOR, so that the member looks up its coordinator.
    """
    result = run(load_scenario(SEED_1346), seed=seed, loop="bare")

    assert result.verdict == "holds", result.reason
