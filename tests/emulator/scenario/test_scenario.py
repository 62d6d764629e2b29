"""Scenarios: the same in TOML and in Python, checked with line and nearest name, changed from the command line."""

import copy
from pathlib import Path
from typing import Any

import attrs
import pytest

from kemu.emulator.plan.actions import Crash, RollingRestart
from kemu.emulator.plan.entries import At
from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.brokers import BrokerSpec, BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.clients import ClientsSpec
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.keys import declared
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.network import LinkSpec, NetworkSpec
from kemu.emulator.scenario.presets import presets
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.streams import StreamsSpec
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.kafka_keys import fields_of
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.toml_lines import key_lines, line_of
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig

WHOLE = """
name = "everything"
summary = "Each key once"
duration = "3m"
draws = "life"
seed = 7
profile = "kafka-3.0"
bugs = ["KAFKA-1211"]
mended = ["KAFKA-9801"]
expect = ["commits"]

[brokers]
count = 4
racks = ["north", "south"]
bandwidth = "100MB/s"
disk = "50MB/s"
log_dirs = 2
[brokers.overrides.b2]
disk = "1MB/s"
log_dirs = 3
profile = "kafka-2.8"
[brokers.config]
group.initial.rebalance.delay.ms = 0
"group.max.size" = 10
[brokers.replication]
factor = 2
min_isr = 2
unclean = true
session = "9s"
lag = "12s"
isr_path = "store"
reassignment = "kip-455"
new_cluster = true
[brokers.replication.config]
replica.fetch.max.bytes = 2000
[brokers.replication.controller]
auto.leader.rebalance.enable = false

[topics.orders]
partitions = 12
rate = "100/s"
shares = [9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]
record_bytes = 200
initial_records = 50
retention = "1h"
retention_bytes = 1000000
segment = "10m"
segment_bytes = 5000
replication_factor = 3
min_isr = 1
unclean = false
assignment = [
    "0 1 2", "0 1 2", "0 1 2", "0 1 2", "0 1 2", "0 1 2",
    "0 1 2", "0 1 2", "0 1 2", "0 1 2", "0 1 2", "0 1 2",
]

[topics."with.dots"]
partitions = 3
initial_records_each = [40000, 0, 7]

[groups.g]
topics = ["orders", "with.dots"]
members = 3
assignors = ["roundrobin", "range"]
static = true
one_process = true
racks = ["north", "south"]
start = "1s"
start_spread = "2s"
[groups.g.config]
session.timeout.ms = "10s"
heartbeat.interval.ms = 2000
enable.auto.commit = false
[groups.g.overrides.c2]
profile = "kafka-2.4"
assignors = ["range"]
[groups.g.overrides.c2.config]
max.poll.records = 7

[groups.h]
topics = ["orders"]
members = 2
[groups.h.streams]
subtopologies = ["orders -> orders-store"]
[groups.h.streams.config]
num.stream.threads = 2

[groups.i]
pattern = "with[.]d.*"
members = 1
labels = ["billing-1 on /10.0.0.5"]

[topics.orders-store]
partitions = 12

[producers.config]
acks = 1

[clients]
names = ["app1", "payments"]
guests = 2
script = ['{"at": 1.5, "on": "app1/1", "open": "id"}']

[network]
latency = ["1ms", "5ms"]
[[network.links]]
a = "c1"
b = "b0"
latency = "40ms"

[checks]
heal_after = "100s"
stable_within = "1m"
away = { hosts = ["b3", "c2"], how = "cut off", recalled = false }

[[plan]]
at = "30s"
do = "rolling-restart"
group = "g"
every = "20s"
down = "8s"

[[plan]]
at = "90s"
do = "crash"
host = "c5"
"""

IN_PYTHON = Scenario(
    name="everything",
    summary="Each key once",
    duration_us=180_000_000,
    seed=7,
    draws="life",
    profile="kafka-3.0",
    bugs=("KAFKA-1211",),
    mended=("KAFKA-9801",),
    expect=("commits",),
    brokers=BrokersSpec(
        count=4,
        racks=("north", "south"),
        bandwidth_bytes_per_s=100_000_000,
        disk_bytes_per_s=50_000_000,
        log_dirs=2,
        overrides={"b2": BrokerSpec(disk_bytes_per_s="1MB/s", log_dirs=3, profile="kafka-2.8")},
        config={"group.initial.rebalance.delay.ms": 0, "group.max.size": 10},
        replication=ReplicationSpec(
            factor=2,
            min_isr=2,
            unclean=True,
            session_us=9_000_000,
            lag_us=12_000_000,
            isr_path="store",
            reassignment="kip-455",
            new_cluster=True,
            config={"replica.fetch.max.bytes": 2_000},
            controller={"auto.leader.rebalance.enable": False},
        ),
    ),
    topics={
        "orders": TopicSpec(
            partitions=12,
            records_per_s=100,
            shares=(9, *[1] * 10, 0),
            record_bytes=200,
            initial_records=50,
            retention_us=3_600_000_000,
            retention_bytes=1_000_000,
            segment_us=600_000_000,
            segment_bytes=5_000,
            replication_factor=3,
            min_isr=1,
            unclean=False,
            assignment=("0 1 2",) * 12,
        ),
        "with.dots": TopicSpec(partitions=3, initial_records_each=(40_000, 0, 7)),
        "orders-store": TopicSpec(partitions=12),
    },
    groups={
        "g": GroupSpec(
            topics=("orders", "with.dots"),
            members=3,
            assignors=("roundrobin", "range"),
            static=True,
            one_process=True,
            racks=("north", "south"),
            start_us=1_000_000,
            start_spread_us=2_000_000,
            config={"session.timeout.ms": 10_000, "heartbeat.interval.ms": 2_000, "enable.auto.commit": False},
            overrides={
                "c2": MemberSpec(profile="kafka-2.4", assignors=("range",), config={"max.poll.records": 7}),
            },
        ),
        "h": GroupSpec(
            topics=("orders",),
            members=2,
            streams=StreamsSpec(subtopologies=("orders -> orders-store",), config={"num.stream.threads": 2}),
        ),
        "i": GroupSpec(pattern="with[.]d.*", members=1, labels=("billing-1 on /10.0.0.5",)),
    },
    producers={"acks": 1},
    clients=ClientsSpec(names=("app1", "payments"), guests=2, script=('{"at": 1.5, "on": "app1/1", "open": "id"}',)),
    network=NetworkSpec(
        latency_us=(1_000, 5_000),
        links=(LinkSpec(a="c1", b="b0", latency_us="40ms"),),
    ),
    checks=ChecksSpec(
        heal_after_us=100_000_000,
        stable_within_us=60_000_000,
        away=AwaySpec(hosts=("b3", "c2"), how="cut off", recalled=False),
    ),
    plan=(
        At(30_000_000, RollingRestart(group="g", every_us=20_000_000, down_us=8_000_000)),
        At(90_000_000, Crash(host="c5")),
    ),
)
ONE_TOPIC = "[topics.t]\npartitions = 2\n"
SMALL = '[topics.t]\npartitions = 3\n[groups.g]\ntopics = ["t"]\n'


def messages_of(text: str) -> list[str]:
    """What is wrong with a scenario's text, as "line: key: text"."""
    with pytest.raises(ScenarioError) as caught:
        scenario_from_toml(text, source="x.toml")
    return [line.removeprefix("x.toml:") for line in str(caught.value).splitlines()]


def refused(scenario: Scenario, *settings: str) -> list[str]:
    """What is wrong with KEY=VALUE settings."""
    with pytest.raises(ScenarioError) as caught:
        with_values(scenario, settings)
    return str(caught.value).splitlines()


# --- one thing, three forms ----------------------------------------------------------------------------------------


def test_the_same_scenario_in_toml_and_in_python() -> None:
    """Names and meaning agree; Kafka's keys are the same in both."""
    assert scenario_from_toml(WHOLE) == IN_PYTHON


def test_the_plain_form_gives_an_equal_scenario_back() -> None:
    """A trace's header holds it; a run is repeated from it."""
    assert scenario_from_dict(IN_PYTHON.to_dict()) == IN_PYTHON


def test_the_plain_form_of_the_plain_form_is_the_same() -> None:
    """It is canonical: equal scenarios give equal dicts, keys in the same order."""
    plain = IN_PYTHON.to_dict()

    assert repr(scenario_from_dict(plain).to_dict()) == repr(plain)


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_every_preset_loads_and_survives_its_plain_form(preset: object) -> None:
    """The presets of the package are valid scenarios with a summary of one line."""
    scenario = load_scenario(preset.name)  # type: ignore[attr-defined]

    assert scenario_from_dict(scenario.to_dict()) == scenario
    assert scenario.summary
    assert len(scenario.summary) <= 110
    assert scenario.duration_us <= 240_000_000


def test_the_presets_of_the_issue_are_there() -> None:
    """Named by what they disturb."""
    assert {preset.name for preset in presets()} >= {
        "steady-group", "rolling-restart-dynamic", "rolling-restart-static", "slow-consumer", "network-split",
        "coordinator-failover-empty", "coordinator-failover-preparing", "coordinator-failover-completing",
        "coordinator-failover-stable", "coordinator-moved", "one-way-split", "gc-pause-zombie", "topic-grows",
        "leader-crash-before-sync", "thundering-herd-100", "lossy-network", "disk-tail-lost", "clock-drift",
        "error-replies",
    }  # fmt: skip


# --- what a scenario means -----------------------------------------------------------------------------------------


def test_members_are_numbered_over_all_groups() -> None:
    """c1 is the first member of the first group."""
    assert IN_PYTHON.member_names() == (
        ("c1", "g", 0),
        ("c2", "g", 1),
        ("c3", "g", 2),
        ("c4", "h", 0),
        ("c5", "h", 1),
        ("c6", "i", 0),
    )
    assert IN_PYTHON.broker_names() == ("b0", "b1", "b2", "b3")
    assert IN_PYTHON.producer_names() == (("p1", "orders"), ("p2", "with.dots"), ("p3", "orders-store"))


def test_labels_belong_to_the_members_in_order() -> None:
    """Members without a label have none."""
    assert IN_PYTHON.labels() == {"c6": "billing-1 on /10.0.0.5"}
    assert attrs.evolve(IN_PYTHON.groups["i"], members=0).labels == ("billing-1 on /10.0.0.5",)


def test_further_partitions_are_empty_and_get_the_smallest_share() -> None:
    """As for partitions that a growing topic gets; so --set partitions=9 needs no further key."""
    topic = TopicSpec(partitions=4, shares=(5, 2), initial_records_each=(7,))
    assert topic.share_of_busiest() == (5, 11)
    assert topic.filled() == (7, 0, 0, 0)


def test_a_list_of_numbers_may_be_a_text_with_commas() -> None:
    """For --set, where brackets need quotes."""
    changed = with_values(IN_PYTHON, ["topics.with.dots.shares=5,0, 1"])
    assert changed.topics["with.dots"].shares == (5, 0, 1)


def test_a_members_configuration_is_the_groups_with_its_own_names() -> None:
    """KIP-345: a static member's instance id is its host's name; racks are taken in turn."""
    config = IN_PYTHON.groups["g"].consumer("g", "c2", 1)

    assert config.group_id == "g"
    assert config.group_instance_id == "c2"
    assert config.client_rack == "south"
    assert config.session_timeout_ms == 10_000
    assert config.partition_assignment_strategy == ("roundrobin", "range")
    assert config.max_poll_interval_ms == ConsumerConfig().max_poll_interval_ms


def test_settings_stand_on_top_of_a_releases_defaults() -> None:
    """What was not set is the profile's to say."""
    old = ConsumerConfig(session_timeout_ms=10_000, max_poll_records=7)

    config = IN_PYTHON.groups["h"].consumer("h", "c4", 0, old)

    assert (config.session_timeout_ms, config.max_poll_records, config.group_instance_id) == (10_000, 7, None)


def test_members_read_from_the_earliest_record_unless_told_otherwise() -> None:
    """Under Kafka's "latest" records appended before the first commit would be passed over, as if lost."""
    group = scenario_from_toml(SMALL).groups["g"]

    assert group.consumer("g", "c1", 0).auto_offset_reset == "earliest"
    latest = scenario_from_toml(SMALL + '[groups.g.config]\nauto.offset.reset = "latest"\n').groups["g"]
    assert latest.consumer("g", "c1", 0).auto_offset_reset == "latest"


def test_starts_are_spread_evenly() -> None:
    """The first at the start, the last when the spread is over."""
    assert [IN_PYTHON.groups["g"].start_of(number) for number in range(3)] == [1_000_000, 2_000_000, 3_000_000]
    assert GroupSpec(topics=("t",), members=1, start_spread_us=5).start_of(0) == 0


def test_a_run_may_last_until_all_had_their_time_to_get_well() -> None:
    """Healing is at the end of the load unless a scenario says otherwise."""
    assert (IN_PYTHON.heal_at_us, IN_PYTHON.ends_us) == (100_000_000, 180_000_000)
    small = scenario_from_toml('duration = "10s"\ndraws = "calm"\n' + SMALL)
    assert (small.heal_at_us, small.stable_within_us, small.ends_us) == (10_000_000, 405_000_000, 415_000_000)
    slow = with_values(small, ["draws.callback.assigned=90s", "emulated.on.revoked.ms=30000"])
    assert slow.stable_within_us == 465_000_000, "what callbacks may take at most, where that is more than a minute"


def test_the_time_to_get_well_is_what_kafkas_timeouts_may_take() -> None:
    """A dead member holds its session, then a rebalance waits max.poll.interval.ms for whoever does not come back."""
    text = "config.session.timeout.ms = 10000\nconfig.max.poll.interval.ms = 20000\n"
    assert scenario_from_toml('draws = "calm"\n' + SMALL + text).stable_within_us == 90_000_000


def test_the_last_member_hears_of_new_partitions_when_the_oldest_metadata_are_renewed() -> None:
    """metadata.max.age.ms is 5 minutes (ConsumerConfig); of several members the one that has the most counts."""
    small = scenario_from_toml('draws = "calm"\n' + SMALL)
    assert small.metadata_max_age_us == 300_000_000
    assert with_values(small, ["metadata.max.age.ms=20000"]).metadata_max_age_us == 20_000_000
    own = '[groups.g.overrides.c1.config]\n"metadata.max.age.ms" = 400000\n'
    assert scenario_from_toml('draws = "calm"\n' + SMALL + own).metadata_max_age_us == 400_000_000


def test_kafkas_own_class_names_mean_the_assignors() -> None:
    """As a consumer's .properties file gives them."""
    text = SMALL + '[groups.g.config]\n"partition.assignment.strategy" = "{}"\n'
    names = "org.apache.kafka.clients.consumer.RoundRobinAssignor, range"

    assert scenario_from_toml(text.format(names)).groups["g"].assignors == ("roundrobin", "range")


@pytest.mark.parametrize("cls", [ConsumerConfig, BrokerConfig, ProducerConfig])
def test_no_config_key_is_the_beginning_of_another(cls: type) -> None:
    """TOML nests bare dotted keys, so "a.b" and "a.b.c" could not both be written bare."""
    keys = list(fields_of(cls))

    assert [(one, two) for one in keys for two in keys if two.startswith(one + ".")] == []


# --- mistakes ------------------------------------------------------------------------------------------------------


def test_all_mistakes_of_a_file_are_told_at_once_with_line_and_nearest_name() -> None:
    """One run, all that is wrong, in the order of the file."""
    text = """duration = "2x"
[topics.orders]
partitons = 3
[groups.g]
topics = ["order"]
assignors = ["rang"]
static = 1
[groups.g.config]
session.timout.ms = 10000
max.poll.records = "many"
[[plan]]
at = "30s"
do = "crsh"
"""

    assert messages_of(text) == [
        "1: duration: '2x' is no duration; write it like 250ms, 20s, 1m30s",
        "2: topics.orders.partitions: is missing; a whole number is required",
        '3: topics.orders.partitons: is no key here; did you mean "partitions"?',
        '5: groups.g.topics: "order" is no topic; did you mean "orders"?',
        '6: groups.g.assignors: "rang" is no assignor; did you mean "range"?',
        "7: groups.g.static: must be true or false, not a number (1)",
        '9: groups.g.config.session.timout.ms: is no key of ConsumerConfig; did you mean "session.timeout.ms"?',
        "10: groups.g.config.max.poll.records: must be a whole number, not 'many'",
        '13: plan[0].do: "crsh" is no action; did you mean "crash"?',
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("members = -1", "groups.g.members: must be at least 0, not -1"),
        ("members = true", "groups.g.members: must be a whole number, not true or false (True)"),
        (
            "topics = []",
            'groups.g.topics: needs at least one topic, or a "pattern" for the names of topics',
        ),
        ("config = 3", "groups.g.config: must be a table, not a number (3)"),
        ("config.group.id = 'x'", "groups.g.config.group.id: cannot be set: the group's name is its id"),
        (
            "config.group.instance.id = 'x'",
            "groups.g.config.group.instance.id: cannot be set: use static = true on the group, or instance on a member",
        ),
        (
            "config.session.timeout.ms = 3000",
            "groups.g.config.session.timeout.ms: heartbeat.interval.ms (3000) must be less than "
            "session.timeout.ms (3000)",
        ),
        (
            "config.auto.offset.reset = 'earlist'",
            'groups.g.config.auto.offset.reset: "earlist" is not allowed; did you mean "earliest"?',
        ),
        ("config.fetch.max.wait.ms = -5", "groups.g.config.fetch.max.wait.ms: must not be negative, not -5"),
        (
            "config.fetch.max.wait.ms = '1500us'",
            "groups.g.config.fetch.max.wait.ms: 1500us is finer than the key's unit",
        ),
        (
            "config.partition.assignment.strategy = ['range']\nassignors = ['sticky']",
            "groups.g.assignors: and partition.assignment.strategy are the same thing: give one of them",
        ),
    ],
)
def test_a_mistake_in_a_group_is_one_clear_message(more: str, message: str) -> None:
    """Bad input is the user's; the message says which key and what is wrong."""
    base = SMALL if not more.startswith("topics") else "[topics.t]\npartitions = 3\n[groups.g]\n"
    (said,) = messages_of(base + more + "\n")

    assert said.partition(": ")[2] == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "topics: needs at least one topic"),
        ("[topics]\n", "topics: needs at least one topic"),
        (SMALL + "[brokers]\ncount = 0\n", "brokers.count: must be at least 1, not 0"),
        (ONE_TOPIC + "shares = [1, 2, 3]\n", "topics.t.shares: has 3 numbers for 2 partitions"),
        (ONE_TOPIC + "shares = [0, 0]\n", "topics.t.shares: needs at least one number above 0"),
        (ONE_TOPIC + "shares = [1, -1]\n", "topics.t.shares[1]: must be at least 0, not -1"),
        (ONE_TOPIC + "shares = '1, x'\n", "topics.t.shares[1]: must be a whole number, not a string"),
        (
            ONE_TOPIC + "shares = [1, 2]\n[producers.config]\nemulated.numbered.keys = true\n",
            "topics.t.shares: and emulated.numbered.keys of [producers] exclude each other: keys choose the partitions",
        ),
        (ONE_TOPIC + "shares = 3\n", "topics.t.shares: must be a list of whole numbers, not a number (3)"),
        (
            ONE_TOPIC + "initial_records = 1\ninitial_records_each = [1, 2]\n",
            'topics.t.initial_records_each: and "initial_records" exclude each other',
        ),
        (SMALL + "labels = ['\\u001b[31m']\n".replace("'", '"'), "groups.g.labels[0]: has control characters"),
        (SMALL + "[brokers.config]\nsession.timeout.ms = 1\n", "is no key of BrokerConfig"),
        (SMALL + "[producers.config]\nemulated.records.per.s = 1\n", "is set per topic, as its rate"),
        (SMALL + "[network]\nlatency = ['5ms', '1ms']\n", "network.latency: must give the least first, then the most"),
        (SMALL + "[[network.links]]\na = 'c1'\nb = 'b0'\n", "network.links[0].latency: is missing"),
        (SMALL + "[[network.links]]\na = 'c9'\nb = 'b0'\nlatency = '1ms'\n", 'network.links[0].a: "c9" is no host'),
        (SMALL + "[clients]\nnames = ['guest-1']\n", 'clients.names: "guest-1" is the name of a client without a name'),
        (SMALL + "[clients]\nnames = ['a', 'a']\n", 'clients.names: "a" is named twice'),
        (SMALL + "[clients]\nnames = ['a b']\n", 'clients.names: "a b" is no name'),
        (SMALL + "[clients]\nguests = -1\n", "clients.guests: must be at least 0"),
        (
            SMALL + "[clients]\nnames = ['b']\n[[network.links]]\na = 'b'\nb = 'b0'\nlatency = '1ms'\n",
            'network.links[0].a: "b" is no host',
        ),
        (SMALL + "plan = 3\n", "groups.g.plan: is no key here"),
        ("plan = 3\n" + SMALL, "plan: must be a list of tables, not a number (3)"),
    ],
)
def test_a_mistake_elsewhere_is_one_clear_message(text: str, message: str) -> None:
    """The same for every section."""
    (said,) = messages_of(text)

    assert message in said


def test_a_file_that_is_no_toml_says_where() -> None:
    """The parser's own message has line and column."""
    assert "is not TOML" in messages_of("[topics\n")[0]
    assert "line 1" in messages_of("[topics\n")[0]


def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path) -> None:
    """No traceback for a wrong path, a folder, or bytes."""
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("nowhere.toml", ".", "bytes.toml"):
        with pytest.raises(ScenarioError, match=r"cannot be read|not UTF-8"):
            load_scenario(tmp_path / name)


def test_an_unknown_preset_names_the_nearest() -> None:
    """And says that files end in .toml."""
    with pytest.raises(ScenarioError, match='did you mean "steady-group"'):
        load_scenario("steady-groop")


def test_a_file_without_a_name_is_named_by_its_file(tmp_path: Path) -> None:
    """So is its row in a table of runs."""
    path = tmp_path / "mine.toml"
    path.write_text(SMALL, encoding="utf-8")

    assert load_scenario(str(path)).name == "mine"


def test_wrong_settings_in_python_are_refused_as_in_a_file() -> None:
    """The builder is the value itself."""
    with pytest.raises(ScenarioError, match=r'did you mean "session\.timeout\.ms"'):
        GroupSpec(topics=("t",), config={"session.timout.ms": 1})


def test_a_key_of_kafkas_that_is_not_emulated_is_no_misspelt_one() -> None:
    with pytest.raises(ScenarioError, match=r"isolation\.level: cannot be set: transactions are not emulated"):
        GroupSpec(topics=("t",), config={"isolation.level": "read_committed"})
    (said, *_) = refused(IN_PYTHON, "isolation.level=read_committed")
    assert "transactions are not emulated" in said
    assert "did you mean" not in said


# --- lines ---------------------------------------------------------------------------------------------------------


def test_lines_are_found_through_long_strings_lists_and_comments() -> None:
    """What looks like a key inside a value is none."""
    text = '''# a = 1
a = """
b = 2
[c]
"""
list = [ # [
  "x = ]",
  ['y'],
]
"quoted key".sub = 1 # = 2
[t."d.e"]
k = 'it''s'
[[p]]
x = 1
[[p]]
x = {in = "line", deep = [1,
 2]}
[p.below]
y = "\\""
z = 1
'''

    assert key_lines(text) == {
        ("a",): 2,
        ("list",): 6,
        ("quoted key",): 10,
        ("quoted key", "sub"): 10,
        ("t", "d.e"): 11,
        ("t", "d.e", "k"): 12,
        ("p",): 13,
        ("p", 0): 13,
        ("p", 0, "x"): 14,
        ("p", 1): 15,
        ("p", 1, "x"): 16,
        ("p", 1, "below"): 18,
        ("p", 1, "below", "y"): 19,
        ("p", 1, "below", "z"): 20,
    }
    assert line_of(key_lines(text), ("p", 1, "x", "in")) == 16
    assert line_of(key_lines(text), ("nowhere",)) is None


# --- KEY=VALUE -----------------------------------------------------------------------------------------------------


def test_a_full_key_changes_one_place() -> None:
    """Names with dots and Kafka's keys with dots are told apart."""
    changed = with_values(
        IN_PYTHON,
        [
            "groups.h.config.session.timeout.ms=20000",
            "groups.h.members=4",
            "topics.with.dots.partitions=5",
            "brokers.config.group.max.size=3",
            "brokers.count=5",
            "plan.0.down=1s",
            "network.latency=3ms",
            "checks.stable_within=30s",
        ],
    )

    assert changed.groups["h"].config == (("session_timeout_ms", 20_000),)
    assert changed.groups["h"].members == 4
    assert changed.topics["with.dots"].partitions == 5
    assert dict(changed.brokers.config)["group_max_size"] == 3
    assert changed.brokers.count == 5
    assert changed.plan[0] == At(30_000_000, RollingRestart(group="g", every_us=20_000_000, down_us=1_000_000))
    assert changed.network.latency_us == (3_000, 3_000)
    assert changed.checks.stable_within_us == 30_000_000
    assert changed.groups["g"] == IN_PYTHON.groups["g"]


def test_a_short_key_changes_every_group_or_topic() -> None:
    """The form one types at a terminal."""
    changed = with_values(
        IN_PYTHON,
        ["members=5", "session.timeout.ms=9s", "rate=1/s", "duration=4m", "group.max.size=4", "acks=-1", "seed=3",
         "partition.assignment.strategy=range"],
    )  # fmt: skip

    assert [group.members for group in changed.groups.values()] == [5, 5, 5]
    assert [dict(group.config)["session_timeout_ms"] for group in changed.groups.values()] == [9_000, 9_000, 9_000]
    assert [group.assignors for group in changed.groups.values()] == [("range",)] * 3
    assert [topic.records_per_s for topic in changed.topics.values()] == [1, 1, 1]
    assert (changed.duration_us, changed.seed) == (240_000_000, 3)
    assert dict(changed.brokers.config)["group_max_size"] == 4
    assert changed.producers == (("acks", -1),)


def test_no_setting_changes_nothing() -> None:
    """Not even the object."""
    assert with_values(IN_PYTHON, []) is IN_PYTHON


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("members", '--set "members" must be KEY=VALUE'),
        ("sesion.timeout.ms=1", '"sesion.timeout.ms" is no key; did you mean "session.timeout.ms"?'),
        ("groups.x.members=1", '"x" is no group here; known: g, h'),
        ("members=many", "groups.g.members: must be a whole number"),
        ("groups.g.membres=1", 'groups.g.membres: is no key here; did you mean "members"?'),
        ("plan.9.for=1s", "the plan has 2 entries, counted from 0"),
        ("plan.x.for=1s", "the plan has 2 entries, counted from 0"),
        ("plan.0=1s", "say which key of the entry"),
        ("seed=-1", "seed: must be at least 0, not -1"),
    ],
)
def test_a_wrong_setting_is_refused_as_in_a_file(setting: str, message: str) -> None:
    """The same checks, the same messages."""
    assert message in refused(IN_PYTHON, setting)[0]


WITH_ALL_REQUIRED: dict[str, Any] = {
    "name": "all",
    "topics": {"t": {"partitions": 1}},
    "groups": {"g": {"topics": ["t"], "members": 2}, "app": {"streams": {"subtopologies": ["t"]}}},
    "network": {"links": [{"a": "b0", "b": "b1", "latency": "1ms"}]},
    "checks": {"away": {"hosts": ["c2"]}},
    "expect": [{"checker": "liveness"}],
}
"""Each key that must be given where its table is."""
REQUIRED_KEYS = {
    ("name",): "a string",
    ("topics", "t", "partitions"): "a whole number",
    ("groups", "app", "streams", "subtopologies"): "a list of strings",
    ("network", "links", 0, "a"): "a string",
    ("network", "links", 0, "b"): "a string",
    ("network", "links", 0, "latency"): "a duration",
    ("checks", "away", "hosts"): "a list of strings",
    ("expect", 0, "checker"): "a string",
}


def test_the_keys_that_must_be_given_are_these() -> None:
    """Each is tried below; what stands for one that is missing is said by its kind."""
    classes: list[type] = [Scenario]
    for cls in classes:  # grows as it is walked
        below = dict.fromkeys(each.kind.below() for each in declared(cls))
        classes += [each for each in below if each is not None and each not in classes]
    required = [each.name for cls in classes for each in declared(cls) if each.required]

    assert sorted(required) == sorted(str(path[-1]) for path in REQUIRED_KEYS)


@pytest.mark.parametrize("path", REQUIRED_KEYS)
def test_a_missing_key_is_told_and_what_else_is_wrong_too(path: tuple[str | int, ...]) -> None:
    """What stands for it while the rest is read makes no problem of its own."""
    assert scenario_from_dict(WITH_ALL_REQUIRED).name == "all"
    data: Any = copy.deepcopy(WITH_ALL_REQUIRED) | {"durashun": "1m"}
    place = data
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    wanted = f"is missing; {REQUIRED_KEYS[path]} is required"
    if path == ("name",):  # a file has one, which names it
        place["name"], wanted = 5, 'must be a string, not a number (5): write "5"'
    with pytest.raises(ScenarioError) as caught:
        scenario_from_dict(data)

    assert {problem.path: problem.text for problem in caught.value.problems} == {
        path: wanted,
        ("durashun",): 'is no key here; did you mean "duration"?',
    }
