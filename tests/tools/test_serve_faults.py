"""Faults at chosen moments while a real client works: pauses, error replies, a lost host, deleted records."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kemu.tools.testkit.served import ServedCluster, serving
from tests.tools.real_clients import (
    CONSUMER_PROTOCOL,
    FILTERS,
    GROUP,
    KINDS,
    RECORDS,
    REPLICATED,
    RealGroup,
    by_client,
    check_clients,
    release_for,
    values,
)
from tests.tools.served_scenarios import served_scenario

pytestmark = FILTERS

RETENTION = served_scenario(
    partitions=1,
    group=GROUP,
    topic='retention = "4s"\nsegment = "1s"',
    brokers='config = { "log.retention.check.interval.ms" = 500 }',
)


@contextmanager
def working(client: str, scenario: str, place: Path) -> Iterator[tuple[ServedCluster, RealGroup]]:
    """A cluster and a consumer of the client "app" that has read and committed ``RECORDS`` records."""
    with serving(scenario, place, ["--warm", "4s", "--client", "app", *release_for(client)]) as cluster:
        with RealGroup(client, cluster.clients["app"]) as group:
            consumer = group.join()
            KINDS[client].produce(cluster.clients["app"], values())
            group.until(lambda: len(group.read) >= RECORDS)
            consumer.commit()
            yield cluster, group
        check_clients(cluster)


def goes_on(client: str, cluster: ServedCluster, group: RealGroup) -> None:
    """The consumer reads further records and commits them."""
    KINDS[client].produce(cluster.clients["app"], values(RECORDS))
    group.until(lambda: set(group.read) == set(values(0, 2 * RECORDS)))
    group.consumers[0].commit()
    assert "lag 0" in cluster.wait(f"lag {GROUP} 0", within="20s")


@by_client
def test_a_consumer_goes_on_after_a_pause_of_its_coordinator(client: str, tmp_path: Path) -> None:
    """The broker answers nothing for four seconds, less than the session timeout."""
    with working(client, REPLICATED, tmp_path) as (cluster, group):
        cluster.do("pause", host=f"coordinator of {GROUP}", for_="4s")
        goes_on(client, cluster, group)


ERRORS = {
    "Heartbeat": "REBALANCE_IN_PROGRESS",
    "Fetch": "NOT_LEADER_OR_FOLLOWER",
    "OffsetCommit": "NOT_COORDINATOR",
}


@by_client
@pytest.mark.parametrize("api", ERRORS)
def test_a_consumer_goes_on_after_an_answer_with_an_error(client: str, api: str, tmp_path: Path) -> None:
    """The member rejoins, refreshes its metadata, or finds its coordinator again."""
    error, is_heartbeat = ERRORS[api], api == "Heartbeat"
    if is_heartbeat and client == CONSUMER_PROTOCOL:
        api, error = "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"
    with working(client, REPLICATED, tmp_path) as (cluster, group):
        injected = cluster.events("AnswerInjected")
        cluster.do("error-reply", api=api, sender="x-app", error=error)
        if is_heartbeat and client != CONSUMER_PROTOCOL:
            group.until(lambda: cluster.state()["groups"][GROUP]["generation"] >= 2)  # a poll rejoins
        elif is_heartbeat:
            cluster.wait(f"noted PartitionsLost group={GROUP}")
        goes_on(client, cluster, group)
        assert next(injected)["fact"]["error"] == error


@by_client
def test_a_consumer_goes_on_after_a_crash_of_its_host(client: str, tmp_path: Path) -> None:
    """All sockets are reset, and new sockets are refused for three seconds; the process itself lives on."""
    with working(client, REPLICATED, tmp_path) as (cluster, group):
        cluster.do("crash", host="x-app", mode="process", for_="3s")
        assert cluster.state()["clients"]["app"] == {"host": "x-app", "state": "down", "life": 1, "connections": []}
        cluster.wait("client app up connections>=1 life=2", within="30s")
        goes_on(client, cluster, group)


@by_client
def test_a_consumer_whose_records_were_deleted_begins_at_the_start_of_the_log(client: str, tmp_path: Path) -> None:
    """The committed offset is out of range, and auto.offset.reset is earliest."""
    with working(client, RETENTION, tmp_path) as (cluster, group):
        group.leave(group.consumers[0])
        KINDS[client].produce(cluster.clients["app"], values(RECORDS))
        cluster.wait(f"partition orders-0 start={2 * RECORDS}", within="60s")
        group.read = []
        consumer = group.join()
        group.until_shared(partitions=1)
        KINDS[client].produce(cluster.clients["app"], values(2 * RECORDS))
        group.until(lambda: len(group.read) >= RECORDS)
        assert group.read == values(2 * RECORDS)
        consumer.commit()
