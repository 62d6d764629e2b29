"""``kemu import``: real posted output, and every layout of Kafka 1.1 to 4.3."""

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kemu.emulator.runner import run as emulated
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.kafka_keys import fields_of
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.units import LONGEST_US
from kemu.emulator.trace.traces import read_trace
from kemu.tools.cli import main
from kemu.tools.commands.import_ import import_files, import_text
from kemu.tools.kafka_files.kafka_output import Found, Line, OutputReader
from kemu.tools.kafka_files.kafka_properties import KINDS
from kemu.tools.report.page import page_of
from kemu.tools.report.recorded import report_of
from tests.tools.kafka_samples import (
    BROKER,
    CONSUMER,
    GROUPS_4,
    LIST_4_TYPES,
    MEMBERS_1,
    MEMBERS_3_STATIC,
    MEMBERS_4,
    MEMBERS_4_MIGRATING,
    MEMBERS_4_STATIC,
    MEMBERS_OTHER,
    OFFSETS_1,
    OFFSETS_1_WITHOUT_CLIENT,
    OFFSETS_3_ALL_GROUPS,
    OFFSETS_4_VERBOSE,
    STATE_1,
    STATE_2_EMPTY,
    STATE_4_RECONCILING,
    STATE_4_UNIFORM,
    STATE_4_VERBOSE,
    TOPICS_1,
    TOPICS_3,
    TOPICS_4,
)
from tests.tools.report.reading import read_page

REAL = Path(__file__).parents[1] / "data" / "real"

HEADER = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
MEMBERS = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\n"

Import = Callable[..., tuple[Scenario, str, list[str], tuple[str, ...]]]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Writes texts to files, imports them, and loads the result with the loader of scenarios."""

    def do(*texts: str, apart_s: float | None = None, **named: str):
        files = [tmp_path / f"{index}.txt" for index in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        for name, text in named.items():
            files.append(tmp_path / f"{name}.properties")
            files[-1].write_text(text)
        result, unread = import_files([str(file) for file in files], None, apart_s)
        return scenario_from_toml(result.toml), result.toml, unread, result.remarks

    return do


@contextlib.contextmanager
def limit_s(seconds: int) -> Iterator[None]:
    """Fail a block that needs more CPU time than this."""

    def too_slow(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# --- topics --------------------------------------------------------------------------------------------------------


def test_a_real_topic_describe_becomes_its_topic():
    """Posted in strimzi-kafka-operator issue 6275: spaces for tabs, no blank after the first colons."""
    result, unread = import_files([str(REAL / "topics-describe.txt")], None)
    scenario = scenario_from_toml(result.toml)
    assert unread == []
    assert {name: topic.partitions for name, topic in scenario.topics.items()} == {"hm-topic": 21}
    assert scenario.brokers.count == 3
    assert scenario.groups == {}


def test_a_real_describe_in_mid_reassignment_counts_every_broker_once():
    """Posted in apache/kafka pull request 8332: "Adding Replicas:" is empty, "Removing Replicas:" is not."""
    result, unread = import_files([str(REAL / "topics-describe-reassigning.txt")], None)
    scenario = scenario_from_toml(result.toml)
    assert unread == []
    assert (scenario.topics["my-replicated-topic"].partitions, scenario.brokers.count) == (1, 3)


@pytest.mark.parametrize("text", [TOPICS_1, TOPICS_3, TOPICS_4], ids=["1.x", "3.x", "4.x"])
def test_every_layout_of_a_topic_describe_says_the_same(imported: Import, text: str):
    """Brokers 1, 2 and 4 are seen, wherever the line names them; a partition may have no leader."""
    scenario, toml, unread, _ = imported(text)
    assert unread == []
    assert scenario.topics["orders"].partitions == 3
    assert scenario.brokers.count == 3
    assert "# seen: 1, 2, 4" in toml


def test_a_broker_that_only_waits_for_its_replica_is_a_broker(imported: Import):
    """In mid-reassignment the target may stand under "Adding Replicas" alone (KIP-455)."""
    _, toml, _, _ = imported(TOPICS_3.replace("Adding Replicas: 2", "Adding Replicas: 8,9"))
    assert "# seen: 1, 2, 4, 8, 9" in toml


def test_settings_of_a_topic_become_its_keys(imported: Import):
    """Only a setting without a key in the scenario is named as not emulated."""
    configs = (
        "min.insync.replicas=2,unclean.leader.election.enable=true,retention.ms=86400000,retention.bytes=5000,"
        "segment.ms=60000,segment.bytes=1024,cleanup.policy=compact,delete,compression.type=lz4"
    )
    text = TOPICS_3.replace("min.insync.replicas=2,retention.ms=86400000", configs)
    scenario, toml, _, _ = imported(text)
    topic = scenario.topics["orders"]
    assert (topic.min_isr, topic.unclean, topic.retention_bytes, topic.segment_bytes) == (2, True, 5_000, 1_024)
    assert (topic.retention_us, topic.segment_us) == (86_400_000_000, 60_000_000)
    assert "# not emulated: cleanup.policy=compact,delete, compression.type=lz4\n" in toml


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("retention.ms=0", "retention.ms=0 (the least value is 1 ms)"),
        ("retention.ms=soon", "retention.ms=soon"),
        ("segment.bytes=" + "9" * 5_000, "segment.bytes=999"),
        ("min.insync.replicas=3", "min.insync.replicas=3 (above the replication factor)"),
    ],
)
def test_a_setting_that_no_scenario_can_have_is_named(imported: Import, setting: str, told: str):
    """Nothing is dropped in silence."""
    _, toml, _, _ = imported(TOPICS_3.replace("min.insync.replicas=2,retention.ms=86400000", setting))
    assert f"# not emulated: {told}" in toml


def test_retention_without_limit_lasts_longer_than_any_run(imported: Import):
    """retention.ms=-1, and Long.MAX_VALUE, which many people write for "for ever"; the fuzzer found -01."""
    for value in ("-1", "-01", str(2**63 - 1)):
        scenario, toml, _, _ = imported(TOPICS_3.replace("retention.ms=86400000", f"retention.ms={value}"))
        assert (scenario.topics["orders"].retention_us or 0) > LONGEST_US
        assert "not emulated" not in toml


def test_brokers_replicate_with_the_factor_of_the_input(imported: Import):
    """The replicas of each partition keep their brokers; the scenario says which broker became which host."""
    scenario, toml, _, _ = imported(TOPICS_3)
    assert scenario.brokers.replication is not None
    assert scenario.brokers.replication.factor == 2
    assert scenario.topics["orders"].placed() == ((0, 1), (1, 0), (2, 0))
    assert "# b0 = broker 1, b1 = broker 2, b2 = broker 4" in toml


def test_the_factor_of_the_offsets_topic_is_the_factor_of_the_scenario(imported: Import):
    """A topic with another factor has a key of its own."""
    own = "Topic: __consumer_offsets\tPartitionCount: 10\tReplicationFactor: 3\tConfigs: \n"
    scenario, _, _, _ = imported(own + TOPICS_3)
    assert scenario.brokers.replication is not None
    assert scenario.brokers.replication.factor == 3
    assert scenario.topics["orders"].replication_factor == 2


def test_replicas_that_are_not_all_known_are_placed_by_kemu(imported: Import):
    """A part of the output, or a reassignment in progress, has lists of several lengths."""
    text = TOPICS_3.replace("Replicas: 4,1", "Replicas: 4,1,2")
    scenario, _, _, remarks = imported(text)
    assert scenario.topics["orders"].assignment == ()
    assert any("kemu places the replicas" in remark for remark in remarks)


def test_replica_settings_of_a_broker_become_keys_of_replication(imported: Import):
    """A scenario names these settings in [brokers.replication]."""
    text = "broker.id=1\nmin.insync.replicas=2\nunclean.leader.election.enable=true\nreplica.lag.time.max.ms=5000\n"
    scenario, _, unread, _ = imported(TOPICS_3, server=text)
    replication = scenario.brokers.replication
    assert replication is not None
    assert (replication.min_isr, replication.unclean, replication.lag_us) == (2, True, 5_000_000)
    assert [line.partition("properties:")[2] for line in unread] == ["1: broker.id has no effect here"]


def test_kafkas_own_topics_are_left_out_but_size_the_offsets_topic(imported: Import):
    """The number of partitions of __consumer_offsets decides which broker coordinates a group."""
    own = "Topic: __consumer_offsets\tPartitionCount: 10\tReplicationFactor: 3\tConfigs: \n"
    scenario, _, _, remarks = imported(own + TOPICS_3)
    assert list(scenario.topics) == ["orders"]
    assert dict(scenario.brokers.config) == {"offsets_topic_num_partitions": 10}
    assert any("__consumer_offsets" in remark for remark in remarks)


# --- groups --------------------------------------------------------------------------------------------------------


def test_a_real_group_describe_becomes_a_group():
    """Posted in apache/kafka pull request 4271 (KIP-175); no column names the group."""
    result, unread = import_files([str(REAL / "groups-describe-offsets.txt")], None)
    scenario = scenario_from_toml(result.toml)
    assert unread == []
    assert scenario.topics["test2"].partitions == 2
    assert scenario.groups["group"].members == 2
    assert scenario.groups["group"].topics == ("test2",)
    assert any("without a GROUP column" in remark for remark in result.remarks)


def test_offsets_of_kafka_1_tell_members_topics_and_lag(imported: Import):
    """A consumer without partitions counts; a topic nobody consumes any more is no subscription."""
    scenario, toml, unread, _ = imported(OFFSETS_1)
    assert unread == []
    group = scenario.groups["group"]
    assert (group.members, group.topics) == (3, ("orders",))
    assert "# without stale: committed, but not consumed" in toml
    assert "# lag when described: 20 records over 1 partition\n" in toml
    assert {name: topic.partitions for name, topic in scenario.topics.items()} == {"orders": 2, "stale": 5}
    assert "at least: the highest partition seen" in toml


def test_the_oldest_layout_has_an_owner_and_unknown_ends(imported: Import):
    """GROUP first, OWNER for CONSUMER-ID, no CLIENT-ID (0.9 and 0.10, still posted)."""
    scenario, _, unread, _ = imported(OFFSETS_1_WITHOUT_CLIENT)
    assert unread == []
    assert (scenario.groups["g"].members, scenario.topics["orders"].partitions) == (2, 2)


def test_all_groups_in_one_output_become_as_many_groups(imported: Import):
    """--all-groups prints one table after the other; "-" means that nobody consumes."""
    scenario, toml, unread, remarks = imported(OFFSETS_3_ALL_GROUPS)
    assert unread == []
    assert list(scenario.groups) == ["audit", "billing"]
    assert (scenario.groups["billing"].members, scenario.groups["billing"].topics) == (2, ("orders", "refunds"))
    assert scenario.groups["audit"].members == 1
    assert "# assumed: the group had no active member when described" in toml
    assert "Consumer group 'audit' has no active members." in remarks
    assert scenario.topics["orders"].partitions == 6


def test_of_two_describes_of_a_group_the_later_counts(imported: Import):
    """Members and subscriptions that are gone in the second are gone."""
    later = "\n".join(line for line in OFFSETS_3_ALL_GROUPS.splitlines() if "b-1-bbbb" not in line) + "\n"
    scenario, _, unread, _ = imported(OFFSETS_3_ALL_GROUPS, later)
    assert unread == []
    assert (scenario.groups["billing"].members, scenario.groups["billing"].topics) == (1, ("orders",))


def test_verbose_offsets_of_kafka_4_have_a_leader_epoch(imported: Import):
    """KIP-1099's column stands between the old ones."""
    scenario, toml, unread, _ = imported(OFFSETS_4_VERBOSE)
    assert unread == []
    assert scenario.groups["billing"].members == 2
    assert "# lag when described: 12 records over 2 partitions" in toml


def test_members_of_kafka_1_tell_how_many_and_what_they_own(imported: Import):
    """Assignments have blanks inside their column; an idle member has a dash."""
    scenario, _, unread, _ = imported(MEMBERS_1)
    assert unread == []
    group = scenario.groups["group"]
    assert (group.members, group.topics, group.static) == (3, ("orders", "refunds"), False)
    assert {name: topic.partitions for name, topic in scenario.topics.items()} == {"orders": 3, "refunds": 1}


def test_an_instance_id_makes_the_group_static(imported: Import):
    """Kafka 2.4 to 3.9 leave the column blank for a dynamic member, so the row is read by its places."""
    scenario, toml, unread, _ = imported(MEMBERS_3_STATIC)
    assert unread == []
    assert (scenario.groups["billing"].members, scenario.groups["billing"].static) == (2, True)
    assert "# 1 of 2 members are static; in the scenario all" in toml
    assert scenario.topics["orders"].partitions == 3


def test_members_of_kafka_4_have_epochs_and_another_way_to_write_partitions(imported: Import):
    """KIP-1099: "t:0,1;u:0"; a client id may have a blank in it."""
    scenario, _, unread, _ = imported(MEMBERS_4)
    assert unread == []
    group = scenario.groups["billing"]
    assert (group.members, group.topics, group.static) == (3, ("orders", "refunds"), True)
    assert {name: topic.partitions for name, topic in scenario.topics.items()} == {"orders": 3, "refunds": 1}


def test_a_column_in_the_plural_is_the_same_column(imported: Import):
    """ASSIGNMENT(S), as wrappers of the tool print it."""
    scenario, _, unread, _ = imported(MEMBERS_OTHER)
    assert (unread, scenario.topics["orders"].partitions) == ([], 7)


@pytest.mark.parametrize(
    ("text", "group", "members", "assignors"),
    [
        pytest.param(STATE_1, "group", 4, ("roundrobin",), id="1.x"),
        pytest.param(STATE_2_EMPTY + OFFSETS_3_ALL_GROUPS, "billing", 2, (), id="2.x empty: as its release has it"),
        pytest.param(STATE_4_VERBOSE, "billing", 5, ("cooperative-sticky",), id="4.x verbose"),
        pytest.param(STATE_1.replace("roundrobin  ", "my-assignor "), "group", 4, ("range",), id="unknown"),
    ],
)
def test_the_state_tells_strategy_members_and_a_broker(
    imported: Import, text: str, group: str, members: int, assignors: tuple[str, ...]
):
    """COORDINATOR (ID) is one column with a blank in its name and one or two in its value."""
    scenario, toml, unread, remarks = imported(TOPICS_3, text)
    assert unread == []
    assert scenario.groups[group].members == members
    assert scenario.groups[group].assignors == assignors
    assert "# seen: 1, 2, 4, 7" in toml
    assert any("my-assignor, which is not emulated" in remark for remark in remarks) == ("my-assignor" in text)


def test_files_about_the_same_group_complete_each_other(imported: Import):
    """The member list counts more than the offsets table, the describe of a topic more than a group's rows."""
    members = re.sub(r"\b[56]( {15})", r"-\1", MEMBERS_4)  # the tools print no epochs of a classic group
    scenario, toml, unread, _ = imported(TOPICS_3, OFFSETS_3_ALL_GROUPS, members, STATE_4_VERBOSE, consumer=CONSUMER)
    billing = scenario.groups["billing"]
    assert (billing.members, billing.static, billing.topics) == (3, True, ("orders", "refunds"))
    assert billing.assignors == ("cooperative-sticky", "range")
    assert dict(billing.config)["session_timeout_ms"] == 30_000
    assert dict(scenario.groups["audit"].config) == {}
    assert len(unread) == 4
    assert scenario.name == "audit"
    assert toml.startswith("# Made by: kemu import ")


# --- the consumer protocol -------------------------------------------------------------------------------------------

KIP_848 = "group.id=billing\ngroup.protocol=CONSUMER\n"


@pytest.mark.parametrize(
    ("texts", "named", "sign"),
    [
        pytest.param((MEMBERS_4_STATIC,), {}, "CURRENT-EPOCH 7", id="members"),
        pytest.param((TOPICS_3, STATE_4_RECONCILING), {}, "STATE Reconciling", id="state"),
        pytest.param((TOPICS_3, STATE_4_UNIFORM), {}, "ASSIGNMENT-STRATEGY uniform", id="assignor"),
        pytest.param(
            (OFFSETS_3_ALL_GROUPS, LIST_4_TYPES), {}, "TYPE Consumer", id="kafka-consumer-groups --list --type"
        ),
        pytest.param((GROUPS_4, OFFSETS_3_ALL_GROUPS), {}, "TYPE Consumer", id="kafka-groups --list"),
        pytest.param((OFFSETS_3_ALL_GROUPS,), {"c": KIP_848}, "group.protocol=consumer", id="properties"),
    ],
)
def test_a_group_of_the_consumer_protocol_keeps_its_protocol(
    imported: Import, texts: tuple[str, ...], named: dict[str, str], sign: str
):
    """ConsumerGroupCommand 4.0 to 4.3: epochs, states, the assignor or the type tell the protocol."""
    scenario, _, unread, remarks = imported(*texts, **named)
    assert unread == []
    assert scenario.profile == "kafka-4.0"
    assert scenario.groups["billing"].uses_consumer_protocol
    assert all(not group.uses_consumer_protocol for name, group in scenario.groups.items() if name != "billing")
    assert any(f'group "billing" uses the consumer protocol of KIP-848 ({sign}' in remark for remark in remarks)


def test_members_of_the_consumer_protocol_have_instances_and_the_brokers_assignor(imported: Import):
    """The epochs of the group and of its members are states of a moment, which a scenario does not need."""
    scenario, _, unread, _ = imported(TOPICS_3, MEMBERS_4_STATIC, STATE_4_RECONCILING)
    billing = scenario.groups["billing"]
    assert unread == []
    assert (billing.members, billing.static, billing.topics) == (2, True, ("orders",))
    assert dict(billing.config) == {"group_protocol": "consumer", "group_remote_assignor": "uniform"}


def test_a_half_upgraded_group_has_members_of_both_protocols(imported: Import):
    """UPGRADED is false for a classic member. Hosts are numbered over all groups."""
    scenario, toml, unread, _ = imported(TOPICS_3, OFFSETS_3_ALL_GROUPS, MEMBERS_4_MIGRATING)
    billing = scenario.groups["billing"]
    classic = "c4" if list(scenario.groups) == ["audit", "billing"] else "c3"
    assert unread == []
    assert billing.uses_consumer_protocol
    assert list(billing.overrides) == [classic]
    assert not billing.member_uses_consumer_protocol(billing.overrides[classic])
    assert f'host = "{classic}"' in toml


def test_a_half_upgraded_group_runs(imported: Import):
    """The classic member joins a group that already has the consumer protocol, and owns a partition."""
    scenario, _, _, _ = imported(TOPICS_3, MEMBERS_4_MIGRATING)
    result = emulated(with_values(scenario, ["duration=40s", "brokers.count=3"]), seed=1)
    assert (result.verdict, result.reason) == ("holds", "")
    assert result.figures.groups["billing"].lag < 100
    assert {row.members for row in result.figures.rebalances} >= {3}


def test_settings_that_the_consumer_protocol_lacks_are_left_out_and_named(imported: Import):
    """``ConsumerConfig.checkUnsupportedConfigsPostProcess`` 4.0 refuses these settings."""
    scenario, _, _, remarks = imported(TOPICS_3, MEMBERS_4_STATIC, consumer=CONSUMER)
    config = dict(scenario.groups["billing"].config)
    assert {"session_timeout_ms", "heartbeat_interval_ms"}.isdisjoint(config)
    assert config["enable_auto_commit"] is False
    (left_out,) = [each for each in remarks if "left out, as members" in each]
    assert left_out.endswith("partition.assignment.strategy, session.timeout.ms, heartbeat.interval.ms")


def test_an_assignor_that_the_brokers_lack_is_named(imported: Import):
    """``group.consumer.assignors`` may have classes of the user."""
    scenario, _, _, remarks = imported(TOPICS_3, STATE_4_RECONCILING.replace("uniform ", "my-own "))
    assert "group_remote_assignor" not in dict(scenario.groups["billing"].config)
    assert any("the assignor my-own, which is not emulated" in remark for remark in remarks)


@pytest.mark.parametrize("text", [MEMBERS_1, MEMBERS_3_STATIC, STATE_4_VERBOSE + TOPICS_3])
def test_a_classic_group_stays_classic(imported: Import, text: str):
    """The tools print "-" for the epochs of a classic group."""
    scenario, toml, _, _ = imported(text, c="group.protocol=classic\ngroup.id=billing\n")
    assert not any(group.uses_consumer_protocol for group in scenario.groups.values())
    assert "profile" not in toml


# --- rates ---------------------------------------------------------------------------------------------------------


def test_one_describe_gives_no_rate_and_the_scenario_says_so(imported: Import):
    """Lag is a backlog, not a rate."""
    scenario, toml, _, _ = imported(OFFSETS_3_ALL_GROUPS)
    assert scenario.topics["orders"].records_per_s == 10
    assert toml.count("# assumed: one describe contains no rate") == 2


def test_two_describes_a_known_time_apart_give_the_rate(imported: Import):
    """The ends of the logs grew by 600 + 1200 records in a minute; two groups count a topic once."""
    later = OFFSETS_3_ALL_GROUPS.replace(" 15  ", " 615 ").replace(" 17  ", " 1217")
    scenario, toml, unread, _ = imported(OFFSETS_3_ALL_GROUPS + later, apart_s=60.0)
    assert unread == []
    assert scenario.topics["orders"].records_per_s == (600 + 1200 + 1200) // 60
    assert scenario.topics["refunds"].records_per_s == 0
    assert "# measured: 3000 records in 60 s" in toml


def offsets(*rows: str) -> str:
    """The output of a describe; a row has group, partition, log end offset, lag and client."""
    lines = [HEADER.rstrip()]
    for row in rows:
        group, partition, end, lag, client = row.split()
        consumer = "- - -" if client == "-" else f"{client}-uuid /10.0.0.{client[-1]} {client}"
        lines.append(f"{group} orders {partition} 0 {end} {lag} {consumer}")
    return "\n".join(lines) + "\n"


def test_the_growth_of_each_partition_becomes_its_share(imported: Import):
    """One hot partition: 60,000 records in a minute, 600 in each other."""
    first = offsets("g 0 100 0 a-1", "g 1 100 0 a-2", "g 2 100 0 a-2")
    later = offsets("g 0 60100 0 a-1", "g 1 700 0 a-2", "g 2 700 0 a-2")
    scenario, toml, _, _ = imported(first, later, apart_s=60.0)
    topic = scenario.topics["orders"]
    assert (topic.records_per_s, topic.shares) == (1_020, (100, 1, 1))
    assert "# measured: records by partition" in toml


def test_equal_growth_needs_no_shares(imported: Import):
    """And less than a record in two seconds is not rounded to none."""
    scenario, _, _, _ = imported(
        offsets("g 0 1 0 a-1", "g 1 1 0 a-1"), offsets("g 0 4 0 a-1", "g 1 4 0 a-1"), apart_s=60.0
    )
    assert (scenario.topics["orders"].shares, scenario.topics["orders"].records_per_s) == ((), 1)


def test_the_lag_is_a_backlog_that_the_group_reads(imported: Import):
    """The group has no commit in the scenario, so it must read from the earliest record."""
    settings = "group.id=g\nauto.offset.reset=latest\n"
    scenario, toml, _, _ = imported(offsets("g 0 5000 4000 a-1", "g 1 70 70 a-1", "g 2 70 0 a-1"), c=settings)
    assert scenario.topics["orders"].filled() == (4_000, 70, 0)
    assert dict(scenario.groups["g"].config) == {"auto_offset_reset": "earliest"}
    assert "# assumed: in the scenario a group reads its lag from the start" in toml

    calm = attrs.evolve(scenario, draws="calm", duration_us=30_000_000, topics=silent(scenario))
    result = emulated(calm, seed=1, loop="bare")
    assert (result.verdict, result.figures.records.processed) == ("holds", 4_070)


def silent(scenario: Scenario) -> dict[str, TopicSpec]:
    """The topics of a scenario without producers."""
    return {name: attrs.evolve(topic, records_per_s=0) for name, topic in scenario.topics.items()}


def test_without_a_lag_the_reset_stays_as_it_is(imported: Import):
    """A group without a backlog may begin at the latest record."""
    scenario, _, _, _ = imported(offsets("g 0 5000 0 a-1"), c="group.id=g\nauto.offset.reset=latest\n")
    assert scenario.topics["orders"].filled() == ()
    assert dict(scenario.groups["g"].config) == {"auto_offset_reset": "latest"}


def test_of_several_groups_the_largest_lag_is_the_backlog(imported: Import):
    """A log has one beginning for all groups; a remark says how much more the others read."""
    scenario, _, _, remarks = imported(offsets("g 0 500 400 a-1", "g 1 7 7 a-1", "h 0 500 10 b-1", "h 1 7 7 b-1"))
    assert scenario.topics["orders"].filled() == (400, 7)
    assert [remark for remark in remarks if "backlog" in remark] == [
        'orders: the backlog of each partition is the largest lag of a group; so group "h" reads 390 records more than '
        "its lag of 17"
    ]


def test_members_keep_their_client_ids_and_hosts(imported: Import):
    """The order is the order of the rows, which is the order of the hosts c1, c2, ..."""
    scenario, _, _, _ = imported(MEMBERS_4, OFFSETS_3_ALL_GROUPS)
    assert scenario.groups["billing"].labels == ("b on /10.0.0.1", "my client on /10.0.0.1", "b on /10.0.0.1")
    assert scenario.labels() == {
        "c2": "b on /10.0.0.1", "c3": "my client on /10.0.0.1", "c4": "b on /10.0.0.1",
    }  # fmt: skip
    scenario, _, _, _ = imported(OFFSETS_1)
    assert scenario.groups["group"].labels == ("c on /10.0.0.1", "d on /10.0.0.2", "e on /10.0.0.3")


def test_members_keep_the_rack_of_their_properties(imported: Import):
    """Kafka's tools print no rack. A long label keeps the rack."""
    scenario, _, _, _ = imported(MEMBERS_4, OFFSETS_3_ALL_GROUPS, "group.id=billing\nclient.rack=eu-1a\n")
    labels = ("b on /10.0.0.1, rack eu-1a", "my client on /10.0.0.1, rack eu-1a", "b on /10.0.0.1, rack eu-1a")
    assert scenario.groups["billing"].labels == labels
    long = MEMBERS_4.replace("my client", "my client" * 9)
    scenario, _, _, _ = imported(long, OFFSETS_3_ALL_GROUPS, "group.id=billing\nclient.rack=eu-1a\n")
    assert all(label.endswith(", rack eu-1a") for label in scenario.groups["billing"].labels)


def test_reports_name_the_clients(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Below the diagram of owners, and in JSON."""
    source, out = tmp_path / "groups.txt", tmp_path / "mine.toml"
    source.write_text(MEMBERS_1)
    assert run(str(source), "--out", str(out)) == 0
    capsys.readouterr()
    for form, told in (("text", "\nc3 = c-3 on /127.0.0.1\n"), ("json", '    "c3": "c-3 on /127.0.0.1"\n')):
        with pytest.raises(SystemExit):
            main(["run", str(out), "--set", "duration=20s", "--set", "draws.set=calm", "--format", form])
        assert told in capsys.readouterr().out


def test_the_page_of_a_run_names_the_clients(tmp_path: Path):
    """From a run, and from its trace."""
    source, out, trace = tmp_path / "groups.txt", tmp_path / "mine.toml", tmp_path / "mine.kemu"
    source.write_text(MEMBERS_1)
    assert run(str(source), "--out", str(out)) == 0
    scenario = with_values(load_scenario(str(out)), ["duration=5s", "draws.set=calm"])
    emulated(scenario, seed=1, trace=trace)
    report = report_of(read_trace(trace), "kemu report mine.kemu")
    assert report.result.labels["c3"] == "c-3 on /127.0.0.1"
    assert ["c3", "c-3 on /127.0.0.1"] in read_page(page_of(report)).texts["labels"]


# --- properties ----------------------------------------------------------------------------------------------------


def test_consumer_properties_become_the_groups_settings(imported: Import):
    """Comments, continued lines and all three separators of java.util.Properties."""
    scenario, toml, unread, _ = imported(OFFSETS_3_ALL_GROUPS, consumer=CONSUMER)
    billing = scenario.groups["billing"]
    assert '"emulated.commit.after.poll" = true  # assumed: without auto-commit' in toml
    assert dict(billing.config) == {
        "emulated_commit_after_poll": True,
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 10_000,
        "session_timeout_ms": 30_000,
    }
    assert billing.assignors == ("cooperative-sticky", "range")
    said = [line.partition("consumer.properties:")[2] for line in unread]
    assert said == [
        "2: bootstrap.servers has no effect here",
        "5: client.id has no effect here; members are named c1, c2, ...",
        "11: key.deserializer has no effect here",
        '12: max.pol.records has no effect here; did you mean "max.poll.records"?',
    ]


def test_broker_properties_become_the_brokers_settings(imported: Import):
    """A consumer's key in it is listed with whose it is."""
    scenario, _, unread, _ = imported(TOPICS_1, server=BROKER)
    assert dict(scenario.brokers.config) == {
        "group_initial_rebalance_delay_ms": 0,
        "offsets_topic_num_partitions": 25,
    }
    assert [line.partition("properties:")[2] for line in unread] == [
        "1: broker.id has no effect here",
        "2: listeners has no effect here",
        "3: log.dirs has no effect here",
        "6: session.timeout.ms has no effect here; it is a key of a consumer",
    ]


def test_keys_of_kafka_that_are_not_emulated_are_no_misspelt_ones(imported: Import):
    """Only a key that Kafka has not is taken for another one: these stand in the file that every broker comes with."""
    file = "broker.id=0\nlog.dirs=/data\nlog.dir=/data\nnum.io.threads=8\nlog.cleaner.enable=true\n"
    _, _, unread, _ = imported(TOPICS_1, server=f"{file}log.segment.byte=1\nlog.segment.bytes=1048576\n")

    assert [line.partition("properties:")[2] for line in unread] == [
        "1: broker.id has no effect here",
        "2: log.dirs has no effect here",
        "3: log.dir has no effect here",
        "4: num.io.threads has no effect here",
        "5: log.cleaner.enable has no effect here",
        '6: log.segment.byte has no effect here; did you mean "log.segment.bytes"?',
    ]


def test_producer_properties_become_the_producers_settings(imported: Import):
    """Keys that consumers have too do not make it a consumer's file."""
    scenario, _, _, _ = imported(TOPICS_1, p="acks=1\nlinger.ms=5\nrequest.timeout.ms=9000\nmetadata.max.age.ms=1000\n")
    assert dict(scenario.producers) == {
        "acks": 1,
        "linger_ms": 5,
        "metadata_max_age_ms": 1_000,
        "request_timeout_ms": 9_000,
    }


def test_settings_alone_make_a_scenario_whose_assumptions_are_said(imported: Import):
    """A topic, its partitions and the members are assumed, aloud."""
    scenario, toml, _, remarks = imported(app="main.consumer.session.timeout.ms=20000\ngroup.instance.id=a\n")
    assert scenario.groups["group"].static
    assert dict(scenario.groups["group"].config) == {"session_timeout_ms": 20_000}
    assert toml.count("# assumed") >= 4
    assert any("assumed a topic" in remark for remark in remarks)
    assert any("assumed a group" in remark for remark in remarks)


def test_the_unnamed_group_takes_the_name_of_the_consumers_file(imported: Import):
    """Kafka 1 prints no group; the file next to it says which it is."""
    scenario, _, _, _ = imported(OFFSETS_1, consumer="group.id=payments\nmax.poll.records=10\n")
    assert list(scenario.groups) == ["payments"]
    assert dict(scenario.groups["payments"].config) == {"max_poll_records": 10}


def test_a_value_nobody_can_use_is_listed(imported: Import):
    """With file and line, like a line nobody can read."""
    scenario, _, unread, _ = imported(OFFSETS_1, c="group.id=g\nsession.timeout.ms=soon\nauto.offset.reset=middle\n")
    assert dict(scenario.groups["g"].config) == {}
    assert "c.properties:2: session.timeout.ms " in unread[0]
    assert 'c.properties:3: auto.offset.reset "middle" is not allowed' in unread[1]


# --- what cannot be read -------------------------------------------------------------------------------------------


def test_lines_nobody_can_read_are_listed_with_file_and_line(imported: Import):
    """Unknown lines are never swallowed, and do not hide the lines around them."""
    broken = OFFSETS_3_ALL_GROUPS.replace("10              15 ", "ten             15 ", 1)
    scenario, _, unread, _ = imported("$ kafka-topics.sh --describe\n" + TOPICS_4 + "[main] WARN no config\n", broken)
    assert [line.rpartition("/")[2][:60] for line in unread] == [
        "0.txt:1: not understood: $ kafka-topics.sh --describe",
        "0.txt:6: not understood: [main] WARN no config",
        "1.txt:3: not understood: billing         orders          0  ",
    ]
    assert scenario.topics["orders"].partitions == 6
    assert scenario.groups["billing"].members == 1


def test_windows_line_ends_and_a_byte_order_mark_are_no_obstacle(tmp_path: Path):
    """Output often travels through mail and chat."""
    file = tmp_path / "topics.txt"
    file.write_bytes(b"\xef\xbb\xbf" + TOPICS_4.replace("\n", "\r\n").encode())
    result, unread = import_files([str(file)], None)
    assert unread == []
    assert scenario_from_toml(result.toml).topics["orders"].partitions == 3


def test_names_with_dots_and_quotes_survive(imported: Import):
    """A topic may be called com.acme.orders, a group nearly anything."""
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    text = header + '\na"b\\c. com.acme.orders 0 1 1 0 c-1 /h c\n'
    scenario, _, _, _ = imported(text)
    assert list(scenario.topics) == ["com.acme.orders"]
    assert scenario.groups['a"b\\c.'].topics == ("com.acme.orders",)


def test_every_cut_of_every_sample_is_read_without_a_crash():
    """Whatever part of an output somebody copied, each line is understood or listed."""
    samples = [TOPICS_1, TOPICS_3, TOPICS_4, OFFSETS_1, OFFSETS_3_ALL_GROUPS, OFFSETS_4_VERBOSE]
    samples += [MEMBERS_1, MEMBERS_3_STATIC, MEMBERS_4, MEMBERS_4_MIGRATING, LIST_4_TYPES, GROUPS_4]
    for text in [*samples, STATE_1, STATE_2_EMPTY, STATE_4_VERBOSE]:
        for size in range(0, len(text), 3):
            for part in (text[:size], text[size:]):
                reader = OutputReader(Found())
                lines = [Line(number, line) for number, line in enumerate(part.split("\n"), start=1)]
                reader.read(lines)
                assert reader.understood + len(reader.rest) == sum(bool(line.text.strip()) for line in lines)


@pytest.mark.parametrize(
    "text",
    ["Error: Consumer group 'billing' does not exist.\n", "GroupIdNotFoundException: Group billing not found.\n"],
)
def test_a_missing_group_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str):
    """There is no scenario of a made-up topic; the message tells how to list the groups."""
    file = tmp_path / "group.txt"
    file.write_text(text)
    assert run(str(file)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f'error: {file}:1: group "billing" does not exist; kafka-consumer-groups.sh')
    assert "--list" in told.err


def test_a_table_without_a_readable_row_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The header alone says nothing; the message quotes the first row."""
    file = tmp_path / "german.txt"
    file.write_text(OFFSETS_4_VERBOSE.replace(" 10 ", " 1.0 ", 2))
    assert run(str(file)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{file}: has the header of a table, and no row that was understood; line 2 is not understood: b" in told.err


def test_a_file_of_which_little_is_understood_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The count follows the list of lines; long lists are cut."""
    file = tmp_path / "mixed.txt"
    file.write_text(OFFSETS_4_VERBOSE + "what is this\n" * 60)
    assert run(str(file)) == 0
    told = capsys.readouterr().err
    assert f"note: {file}: 3 of 63 lines were understood\n" in told
    assert told.count("what is this") == 50
    assert "... and 10 more lines that were not used\n" in told


def test_an_input_without_a_topic_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A state names no topic. A made-up topic would not be the user's."""
    file = tmp_path / "state.txt"
    file.write_text(STATE_1)
    assert run(str(file)) == 2
    assert "the input has no topic; add the output of kafka-topics.sh --describe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(HEADER + "g orders ² 1 2 1 c /h c\n", id="superscript"),
        pytest.param(HEADER + f"g orders {'9' * 5_000} 1 2 1 c /h c\n", id="5,000 digits"),
        pytest.param(HEADER + "g orders 0 --5 2 --5 c /h c\n", id="two signs"),
        pytest.param(HEADER + "g orders/../\x1b[31m 0 1 2 1 c /h c\n", id="escape"),
        pytest.param(HEADER + "Consumer group '" * 100_000 + "\n", id="long sentence"),
        pytest.param(MEMBERS + "g c /h c 3 " + "orders(" * 20_000 + "\n", id="brackets"),
        pytest.param("Topic: t PartitionCount: 99999999 ReplicationFactor: 3\n", id="partitions"),
        pytest.param("Topic: t PartitionCount: ² ReplicationFactor: 3\n", id="count"),
        pytest.param("\n" * 600_000, id="lines"),
        pytest.param("Topic: t Partition: 0 Replicas: " + ",".join(map(str, range(100_000))) + "\n", id="brokers"),
    ],
)
def test_hostile_output_is_refused_in_seconds(row: str):
    """Neither a traceback nor a hang: each of these took minutes, or ended in one."""
    with limit_s(10), pytest.raises(ScenarioError) as refused:
        import_text(row.encode())
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("group.id=g\nsession.timeout.ms=²\nheartbeat.interval.ms=--5\n", id="no numbers"),
        pytest.param(f"group.id=g\nsession.timeout.ms={'9' * 200_000}\n", id="200,000 digits"),
        pytest.param("group.id=g\nsession.timeout.ms=\\\n" + "1\\\n" * 4_000, id="continued"),
    ],
)
def test_hostile_values_of_properties_are_listed_in_seconds(imported: Import, text: str):
    """A value that nobody can use is no reason to refuse the file."""
    with limit_s(10):
        scenario, _, unread, _ = imported(OFFSETS_1, c=text)
    assert dict(scenario.groups["g"].config) == {}
    assert "session.timeout.ms" in unread[0]


def test_too_large_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A gigabyte is never read; a properties file has at most 5,000 lines."""
    large, long = tmp_path / "large.txt", tmp_path / "long.properties"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    long.write_text("".join(f"a.key.{number}=5\n" for number in range(300_000)))
    assert run(str(large)) == 2
    assert f"{large}: is larger than 64 MiB" in capsys.readouterr().err
    assert run(str(long)) == 2
    assert f"{long}: is a properties file of more than 5,000 lines" in capsys.readouterr().err


OUTPUTS = (
    *(TOPICS_3, TOPICS_4, OFFSETS_3_ALL_GROUPS, OFFSETS_1, MEMBERS_3_STATIC, MEMBERS_4, STATE_4_VERBOSE),
    *(MEMBERS_4_MIGRATING, STATE_4_RECONCILING, LIST_4_TYPES, GROUPS_4),
)
WORDS = [
    *" ".join(OUTPUTS).split(" "), *CONSUMER.split("\n"), *BROKER.split("\n"),
    "\n", "\t", "-", "=", "\\", ",", "(", ":", "²", "--5", "-1", "9" * 30, "0", "7", "\ufeff", "\x1b", "retention.ms=",
]  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=60).map(" ".join))
def test_any_text_gives_a_scenario_or_one_error(text: str):
    """Words of real output in any order: never an exception of another kind."""
    try:
        imported = import_text(text.encode())
    except ScenarioError as error:
        assert str(error)
    else:
        scenario_from_toml(imported.toml)


KEYS = [
    *(key for kind in KINDS.values() for key in fields_of(kind)),
    *("group.id", "group.instance.id", "group.protocol", "client.id", "min.insync.replicas", "broker.id", "a.b"),
]
VALUES = [
    *("", "0", "-1", "1", "3000", "²", "--5", "-", "1e9", "true", "TRUE", "range", "latest", "consumer", "1s", "\\"),
    *(
        "9" * 19,
        "9" * 20,
        "9" * 5_000,
        "1" * 5_000 + "s",
        "\\u00e9",
        "\\uzzzz",
        "org.apache.kafka.Range",
        ",",
        "os:system",
    ),
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES) | st.text(max_size=8)), max_size=8))
def test_any_properties_give_a_scenario_or_one_error(pairs: list[tuple[str, str]]):
    """Any key of Kafka with any value."""
    try:
        imported = import_text("".join(f"{key}={value}\n" for key, value in pairs).encode("utf-8", "replace"))
    except ScenarioError as error:
        assert len(str(error)) < 20_000
    else:
        scenario_from_toml(imported.toml)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_scenario_or_one_error(data: bytes):
    """Most are not UTF-8."""
    try:
        imported = import_text(data)
    except ScenarioError as error:
        assert 0 < len(str(error)) < 20_000
    else:
        scenario_from_toml(imported.toml)


# --- the command ---------------------------------------------------------------------------------------------------


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["import", *arguments])
    return int(left.value.code or 0)


def test_the_command_writes_the_scenario_and_lists_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """--out names file and scenario; standard output stays clean for pipes."""
    source, out = tmp_path / "groups.txt", tmp_path / "mine.toml"
    source.write_text(OFFSETS_3_ALL_GROUPS + "what is this\n")

    assert run(str(source), "--out", str(out)) == 0

    said = capsys.readouterr()
    assert said.out == ""
    assert f"{source}:12: not understood: what is this\n" in said.err
    assert said.err.endswith(f"3 brokers, 2 topics, 2 groups, 3 members; 1 line not used; written to {out}\n")
    assert scenario_from_toml(out.read_text()).name == "mine"


def test_a_file_of_the_input_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Also under another name, a link."""
    file, link = tmp_path / "groups.txt", tmp_path / "link.toml"
    file.write_text(OFFSETS_3_ALL_GROUPS)
    link.symlink_to(file)
    for out, said in ((file, "it is an input of this command"), (link, "a symbolic link is not replaced")):
        assert run(str(file), "--out", str(out)) == 2
        assert f"{out}: {said}" in capsys.readouterr().err
    assert file.read_text() == OFFSETS_3_ALL_GROUPS


def test_without_out_the_scenario_is_printed(capsys: pytest.CaptureFixture[str]):
    """kemu import FILE > mine.toml"""
    assert run(str(REAL / "topics-describe.txt"), "--name", "mine") == 0
    said = capsys.readouterr()
    assert scenario_from_toml(said.out).name == "mine"
    assert "3 brokers, 1 topic, 0 groups, 0 members" in said.err


@pytest.mark.parametrize("name", ["broker-rebalance-loop.log", "java-consumer-join.log"])
def test_a_file_with_nothing_in_it_for_us_is_an_error(name: str, capsys: pytest.CaptureFixture[str]):
    """Also next to a good one: the error names the file and what is accepted."""
    assert run(str(REAL / "topics-describe.txt"), str(REAL / name)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        f"{REAL / name}: nothing in it was recognised; accepted are the output of kafka-topics --describe" in said.err
    )


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty.txt", b"", "nothing in it was recognised"),
        ("binary.txt", b"\xff\xfe\x00", "is not UTF-8 text"),
        ("foreign.properties", b"a.b=c\n", "has no key that is emulated; accepted are"),
        ("bad.properties", b"session.timeout.ms=1000\nheartbeat.interval.ms=2000\n", "must be less than"),
        (None, b"", "cannot be read: No such file"),
    ],
)
def test_bad_input_is_one_clear_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str | None, data: bytes, said: str
):
    """Exit code 2, the file's name, no traceback, no scenario."""
    file = tmp_path / (name or "missing.txt")
    if name:
        file.write_bytes(data)
    assert run(str(file), "--out", str(tmp_path / "out.toml")) == 2
    told = capsys.readouterr().err
    assert f"{file}: " in told
    assert said in told
    assert not (tmp_path / "out.toml").exists()


def test_a_rate_needs_two_describes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """--apart with one describe would measure nothing and call it 0."""
    file = tmp_path / "groups.txt"
    file.write_text(OFFSETS_3_ALL_GROUPS)
    assert run(str(file), "--apart", "60s") == 2
    assert "--apart: needs the offsets of a group described twice" in capsys.readouterr().err
    assert run(str(file), "--apart", "soon") == 2
    assert "is no duration" in capsys.readouterr().err
