"""A served cluster in virtual time that gets frames: clients that come and go, and refused frames."""

import gc
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kemu.protocol.kafka_wire.frames import WireRequest, write_request
from kemu.protocol.messages.data import Fetch, FetchPartition, Metadata
from kemu.protocol.messages.group import FindCoordinator, Heartbeat
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.wire.schema import SPECS
from lab.fuzzed_cluster import FuzzedCluster

FETCH = Fetch(max_wait_ms=1, min_bytes=1, partitions=(FetchPartition(topic="orders", partition=0, fetch_offset=0),))
ASKED: tuple[tuple[Any, int], ...] = (
    (ApiVersions(), 0),
    (Metadata(topics=("orders",)), 5),
    (FindCoordinator(key="payments"), 2),
    (Heartbeat(group="payments", generation=1, member_id="nobody"), 3),
    (FETCH, 4),
)
VISITS = 40


@pytest.fixture
def cluster() -> Iterator[FuzzedCluster]:
    found = FuzzedCluster(is_checked=True, rate=0)
    yield found
    found.close()


def _frame(message: Any, version: int) -> bytes:
    return write_request(WireRequest(SPECS[type(message)].api_key, version, 1, "app", message))[4:]


def _visits(cluster: FuzzedCluster) -> None:
    for _ in range(VISITS):
        for message, version in ASKED:
            assert cluster.ask("b0", _frame(message, version))
        cluster.disconnect("b0")


def _objects() -> Counter[str]:
    with warnings.catch_warnings():
        # The garbage of earlier tests, such as a socket, is not what this test judges.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    # Some classes of libraries have no text as their module's name.
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("kemu."))


def test_a_connection_that_ends_leaves_no_object(cluster: FuzzedCluster) -> None:
    """Neither at brokers, nor in the network, the panel and the checkers: a cluster may serve for days."""
    _visits(cluster)
    before = _objects()
    _visits(cluster)
    after = _objects()
    assert {name: after[name] - before[name] for name in after if after[name] - before[name] >= VISITS} == {}


def test_a_damaged_frame_ends_its_connection_only(cluster: FuzzedCluster) -> None:
    assert cluster.ask("b1", _frame(ApiVersions(), 0))
    assert not cluster.ask("b0", _frame(FETCH, 4)[:-3])
    assert cluster.ask("b1", _frame(ApiVersions(), 0))
    assert len(cluster.said) == 1
