"""Real clients at a served cluster: aiokafka, kafka-python and confluent-kafka (librdkafka), from PyPI.

The clients run on the wall clock. Waits are bounds, not sleeps.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kemu.tools.testkit.served import serving
from tests.tools.real_clients import (
    FILTERS,
    GROUP,
    KINDS,
    PLAIN,
    RECORDS,
    REPLICATED,
    RealGroup,
    by_client,
    check_clients,
    release_for,
    values,
)

pytestmark = FILTERS


@by_client
def test_a_consumer_reads_exactly_what_was_produced(client: str, tmp_path: Path) -> None:
    with serving(PLAIN, tmp_path, release_for(client)) as cluster:
        KINDS[client].produce(cluster.bootstrap_servers, values())
        with RealGroup(client, cluster.bootstrap_servers) as group:
            consumer = group.join()
            group.until(lambda: len(group.read) >= RECORDS)
            consumer.commit()
        assert sorted(group.read) == sorted(values())
        check_clients(cluster)


@by_client
def test_consumers_join_and_leave_and_go_on_from_their_commits(client: str, tmp_path: Path) -> None:
    with serving(PLAIN, tmp_path, release_for(client)) as cluster:
        with RealGroup(client, cluster.bootstrap_servers) as group:
            first = group.join()
            KINDS[client].produce(cluster.bootstrap_servers, values())
            group.until(lambda: len(group.read) >= RECORDS)
            first.commit()
            second = group.join()
            group.until_shared()
            KINDS[client].produce(cluster.bootstrap_servers, values(RECORDS))
            group.until(lambda: len(group.read) >= 2 * RECORDS)
            for each in (first, second):
                each.commit()
            group.leave(first)
            group.until_shared()
            KINDS[client].produce(cluster.bootstrap_servers, values(2 * RECORDS))
            group.until(lambda: len(group.read) >= 3 * RECORDS)
            assert sorted(group.read) == sorted(values(0, 3 * RECORDS))
            second.commit()
            group.leave(second)
        check_clients(cluster)


@by_client
def test_a_static_member_that_returns_gets_its_partitions_without_a_rebalance(client: str, tmp_path: Path) -> None:
    """KIP-345."""
    with serving(PLAIN, tmp_path, release_for(client)) as cluster:
        with RealGroup(client, cluster.bootstrap_servers) as group:
            first, _ = group.join("one"), group.join("two")
            group.until_shared()
            owned = first.assigned()
            group.leave(first)
            group.join("one")
            group.until_shared()
            assert group.consumers[-1].assigned() == owned
        check_clients(cluster)


FAULTS: dict[str, Sequence[str]] = {
    "coordinator failover": ("--do", f"kill-coordinator group={GROUP} at=AT for=6s"),
    "process crash of a broker": ("--do", "crash host=b1 mode=process at=AT for=5s"),
    "power cut of a broker": ("--do", "crash host=b2 mode=power at=AT for=5s"),
    "slow links": ("--do", "slow sender=x-app add=150ms jitter=50ms at=AT for=10s"),
    "lossy links": ("--do", "lossy sender=x-app per_mille=100 at=AT for=6s"),
}


@by_client
@pytest.mark.parametrize("fault", FAULTS)
def test_clients_survive_a_fault_and_read_every_record(client: str, fault: str, tmp_path: Path) -> None:
    """Each record is read at least once: a client may read again what it had not committed."""
    options = [each.replace("AT", "8s") for each in FAULTS[fault]]
    options += ["--warm", "4s", "--client", "app", *release_for(client)]
    with serving(REPLICATED, tmp_path, options) as cluster:
        with RealGroup(client, cluster.clients["app"]) as group:
            began_s = time.monotonic()
            consumer = group.join()
            number = 0
            while time.monotonic() - began_s < 16 or number < 5 * RECORDS:
                KINDS[client].produce(cluster.clients["app"], values(number, RECORDS))
                number += RECORDS
                group.until(lambda: len(set(group.read)) >= number - RECORDS)  # noqa: B023
            group.until(lambda: len(set(group.read)) >= number)
            assert set(group.read) == set(values(0, number))
            consumer.commit()
        check_clients(cluster)
