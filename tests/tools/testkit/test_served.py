"""The fixture ``kemu_serve``: a user's service against a cluster with faults."""

from typing import Any

import pytest

from kemu.tools.testkit.served import NotServed, Serve
from tests.tools.served_scenarios import served_scenario

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{name}")
    for name in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]

CLUSTER = served_scenario(partitions=1, group="billing")


class _Service:
    """Bills orders. ``commits_first``: the bug, a commit before the work is done."""

    def __init__(self, servers: str, *, commits_first: bool) -> None:
        from confluent_kafka import Consumer

        config = {"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"}
        self._consumer: Any = Consumer(
            {**config, "enable.auto.commit": False, "session.timeout.ms": 6_000, "log_level": 0}
        )
        self._consumer.subscribe(["orders"])
        self._commits_first = commits_first
        self.billed: list[bytes] = []

    def run(self, until: int, dies_at: int = -1) -> None:
        """Bill orders until the service has billed ``until`` orders, or dies in the work on the order ``dies_at``."""
        for _ in range(600):
            if len(self.billed) >= until:
                break
            order = self._consumer.poll(0.1)
            if order is None or order.error():
                continue
            if self._commits_first:
                self._consumer.commit(order, asynchronous=False)
            if order.offset() == dies_at:
                break
            self.billed.append(order.value())
            if not self._commits_first:
                self._consumer.commit(order, asynchronous=False)
        self._consumer.close()


@pytest.mark.parametrize("commits_first", [True, False], ids=["with the bug", "mended"])
def test_a_service_that_commits_before_its_work_loses_an_order(commits_first: bool, kemu_serve: Serve) -> None:
    """The cluster is right in both cases; the service's own work shows the bug."""
    from confluent_kafka import Producer

    cluster = kemu_serve(CLUSTER)
    orders = [b"order %d" % number for number in range(10)]
    producer: Any = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for order in orders:
        producer.produce("orders", order, partition=0)
    assert producer.flush(60) == 0
    first = _Service(cluster.bootstrap_servers, commits_first=commits_first)
    first.run(until=10, dies_at=4)
    assert cluster.do("move-coordinator", group="billing")
    second = _Service(cluster.bootstrap_servers, commits_first=commits_first)
    second.run(until=5 if commits_first else 6)
    lost = set(orders) - {*first.billed, *second.billed}
    assert lost == ({orders[4]} if commits_first else set())


def test_an_order_that_is_wrong_or_has_no_effect_is_refused(kemu_serve: Serve) -> None:
    cluster = kemu_serve(CLUSTER, "--client", "app")
    with pytest.raises(NotServed, match='"nobody" is no group'):
        cluster.do("kill-coordinator", group="nobody")
    assert cluster.do("crash", host="b2", mode="process", for_="1s") == "crash b2 (process) for 1s"
    with pytest.raises(NotServed, match="crash x-app: x-app is down already"):
        cluster.do("crash", host="x-app")
    with pytest.raises(NotServed, match="not within 200ms: broker b1 down; broker b1: state up, life 1"):
        cluster.wait("broker b1 down", within="200ms")
    with pytest.raises(NotServed, match="is no duration"):
        cluster.wait("broker b1 down", within="soon")
    with pytest.raises(NotServed, match='"orders-9" is no partition'):
        cluster.leader("orders-9")


def test_the_state_of_a_cluster_is_read_at_any_time(kemu_serve: Serve) -> None:
    cluster = kemu_serve(CLUSTER)
    assert cluster.wait("leader orders-0 b0") == "partition orders-0: leader b0, isr 1, epoch 0, start 0, end 0"
    assert cluster.leader("orders-0") == "b0"
    events = cluster.events("HostDown")
    assert cluster.do("crash", host="b0", mode="process", for_="1s")
    assert next(events)["fact"] == {"type": "HostDown", "host": "b0", "life": 1, "how": "process"}
    assert cluster.state()["brokers"]["b0"] == {"state": "down", "life": 1}
    assert cluster.leader("orders-0") == ""
    assert cluster.wait("broker b0 up").startswith("broker b0: state up, life 2")


def test_a_cluster_that_does_not_start_says_why(kemu_serve: Serve) -> None:
    with pytest.raises(NotServed, match="nothing"):
        kemu_serve("nothing-of-this-name")


def test_a_cluster_that_is_not_ready_in_time_says_how_much_cpu_time_it_had(
    kemu_serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kemu.tools.testkit.served.READY_WITHIN_S", 0.05)
    with pytest.raises(NotServed, match=r"not ready within 0.05 s, and had \d+\.\d s of CPU time"):
        kemu_serve(CLUSTER)
