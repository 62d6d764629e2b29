"""Real clients with the consumer protocol (KIP-848) at a served cluster: librdkafka with ``group.protocol=consumer``.

The clients run on the wall clock. Waits are bounds, not sleeps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kemu.emulator.runner import run
from kemu.emulator.trace.traces import read_trace
from kemu.tools.scriptify import scriptified
from kemu.tools.testkit.served import serving
from tests.soak_served import story_of
from tests.tools.real_clients import (
    CLIENTS,
    CONSUMER_PROTOCOL,
    FILTERS,
    GROUP,
    PLAIN,
    RECORDS,
    REPLICATED,
    RealGroup,
    check_clients,
    values,
)

pytestmark = FILTERS

OF_4_0 = ("--profile", "kafka-4.0", "--client", "app")
EMULATED = """
duration = "10m"
[brokers]
count = 3
[topics.orders]
partitions = 4
rate = 0
[groups.payments]
topics = ["orders"]
members = 2
config = { "group.protocol" = "consumer" }
"""


def produce(servers: str, records: Sequence[bytes]) -> None:
    CLIENTS["librdkafka"].produce(servers, records)


def test_members_join_and_leave_and_go_on_from_their_commits(tmp_path: Path) -> None:
    """The coordinator assigns; a member gives its partitions up before another member gets them. The run repeats as a
    script, with the same epochs and commits.
    """
    with serving(PLAIN, tmp_path, OF_4_0) as cluster:
        servers = cluster.clients["app"]
        with RealGroup(CONSUMER_PROTOCOL, servers) as group:
            first = group.join()
            produce(servers, values())
            group.until(lambda: len(group.read) >= RECORDS)
            first.commit()
            second = group.join()
            group.until_shared()
            produce(servers, values(RECORDS))
            group.until(lambda: len(group.read) >= 2 * RECORDS)
            for each in (first, second):
                each.commit()
            group.leave(first)
            group.until_shared()
            produce(servers, values(2 * RECORDS))
            group.until(lambda: len(group.read) >= 3 * RECORDS)
            assert sorted(group.read) == sorted(values(0, 3 * RECORDS))
            second.commit()
            group.leave(second)
        assert cluster.state()["groups"][GROUP]["lag"] == 0
        check_clients(cluster)

    again = tmp_path / "again.kemu"
    scripted = scriptified(read_trace(cluster.trace), "again")
    results = [run(scripted.scenario, seed=scripted.scenario.seed, trace=again) for _ in range(2)]
    assert {each.verdict for each in results} == {"holds"}
    assert len({each.digest for each in results}) == 1
    recorded = list(story_of(cluster.trace))
    assert len(recorded) > 10
    assert list(story_of(again)) == recorded


def test_a_static_member_that_returns_gets_its_partitions_again(tmp_path: Path) -> None:
    """The member leaves with the epoch -2, and its partitions wait for the instance."""
    with serving(PLAIN, tmp_path, OF_4_0) as cluster:
        with RealGroup(CONSUMER_PROTOCOL, cluster.clients["app"]) as group:
            first, _ = group.join("one"), group.join("two")
            group.until_shared()
            owned = first.assigned()
            group.leave(first)
            group.join("one")
            group.until_shared()
            assert group.consumers[-1].assigned() == owned
        check_clients(cluster)


def test_members_survive_a_coordinator_failover_and_read_every_record(tmp_path: Path) -> None:
    with serving(REPLICATED, tmp_path, (*OF_4_0, "--warm", "4s")) as cluster:
        servers = cluster.clients["app"]
        with RealGroup(CONSUMER_PROTOCOL, servers) as group:
            group.join()
            group.join()
            produce(servers, values())
            group.until(lambda: len(group.read) >= RECORDS)
            group.until_shared()
            cluster.do("kill-coordinator", group=GROUP, for_="6s")
            produce(servers, values(RECORDS))
            group.until(lambda: set(group.read) == set(values(0, 2 * RECORDS)))
            cluster.wait(f"group {GROUP} Stable members=2 coordinator!=none")
            group.until_shared()
            for each in group.consumers:
                each.commit()
        check_clients(cluster)


def test_a_member_shares_its_group_with_emulated_members(tmp_path: Path) -> None:
    with serving(EMULATED, tmp_path, OF_4_0) as cluster:
        cluster.wait(f"group {GROUP} Stable members=2")
        with RealGroup(CONSUMER_PROTOCOL, cluster.clients["app"]) as group:
            member = group.join()
            group.until(lambda: len(member.assigned()) == 1)
            cluster.wait(f"group {GROUP} Stable members=3")
            for host in ("c1", "c2"):
                cluster.do("close-host", host=host)
            group.until(lambda: len(member.assigned()) == 4)
        check_clients(cluster)


def test_a_tool_lists_groups_by_type(tmp_path: Path) -> None:
    """ListGroups v5; an OffsetFetch about the group, and one about a group that nobody knows."""
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import ConsumerGroupType as Type
    from confluent_kafka.admin import AdminClient

    with serving(PLAIN, tmp_path, OF_4_0) as cluster:
        servers = cluster.clients["app"]
        with RealGroup(CONSUMER_PROTOCOL, servers) as group:
            produce(servers, values())
            consumer = group.join()
            group.until(lambda: len(group.read) >= RECORDS)
            consumer.commit()
            admin: Any = AdminClient({"bootstrap.servers": servers, "log_level": 0})
            for kind, expected in ((Type.CONSUMER, [(GROUP, Type.CONSUMER)]), (Type.CLASSIC, [])):
                listed = admin.list_consumer_groups(types={kind}, request_timeout=20).result().valid
                assert [(each.group_id, each.type) for each in listed] == expected
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)], request_timeout=20)
            committed = asked[GROUP].result().topic_partitions
            assert sum(each.offset for each in committed) == RECORDS
        check_clients(cluster)
