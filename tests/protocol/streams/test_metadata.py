"""The bytes of Streams members: sizes by the cases, layouts there and back, nothing but codec errors on rubbish."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.names import TopicPartition
from kemu.protocol.streams.metadata import (
    NO_FOLLOW_UP,
    NOT_LEAVING,
    Host,
    Learning,
    StreamsGiven,
    StreamsSubscription,
    decode_streams_assignment,
    decode_streams_subscription,
    encode_streams_assignment,
    encode_streams_subscription,
)
from kemu.protocol.streams.modes import Layout
from kemu.protocol.streams.tasks import TaskId, task_id
from kemu.protocol.wire.codec import CodecError, UnsupportedVersion
from tests.case_files import load

PROCESS = bytes(range(16))
SIZES = [v for v in load("streams_walkthroughs.json")["vectors"] if v.get("kind") == "size"]
CHECKS = [check for vector in SIZES for check in vector["checks"]]


def _tasks(count: int) -> tuple[TaskId, ...]:
    return tuple(task_id(f"0_{number}") for number in range(count))


def _partitions(rows: list[list[Any]]) -> tuple[TopicPartition, ...]:
    return tuple((topic, number) for topic, number in rows)


def _sixty_hosts() -> dict[Host, tuple[TopicPartition, ...]]:
    """2,000 partitions of a topic with a name of 20 characters, dealt to 60 hosts."""
    topic = "t" * 20
    return {(f"host{n:03}", 9092): tuple((topic, p) for p in range(n, 2000, 60)) for n in range(60)}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check["what"])
def test_version_4_has_the_sizes_of_the_page(check: dict[str, Any]) -> None:
    """KIP-429 v99: the grammars of SubscriptionInfo and AssignmentInfo, encoded in version 4."""
    if check["what"] == "subscription":
        prev, standby = _tasks(check["prev"]), _tasks(check["standby"])
        lags = dict.fromkeys(standby, 0)
        said = StreamsSubscription(PROCESS, prev, lags, endpoint=check["endpoint"], layout=Layout.STICKY)
        assert len(encode_streams_subscription(said)) == check["bytes"]
        return
    if isinstance(check["hosts"], str):
        hosts = _sixty_hosts()
    else:
        hosts = {(host, 9092): _partitions(rows) for host, rows in check["hosts"].items()}
    standby_of = {task_id(name): _partitions(rows) for name, rows in check["standby"].items()}
    told = StreamsGiven(_tasks(check["active_entries"]), standby_of, hosts=hosts, layout=Layout.STICKY)
    assert len(encode_streams_assignment(told)) == check["bytes"]
    if "times_60_members" in check:
        assert 60 * check["bytes"] == check["times_60_members"]


tasks = st.builds(lambda s, p: task_id(f"{s}_{p}"), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
task_sets = st.frozensets(tasks, max_size=4).map(lambda found: tuple(sorted(found)))
int64 = st.integers(-(2**63), 2**63 - 1)
topic_partitions = st.lists(st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)), max_size=4).map(tuple)
copies = st.dictionaries(tasks, topic_partitions, max_size=3)
hosts = st.dictionaries(st.tuples(st.text(max_size=5), st.integers(0, 65535)), topic_partitions, max_size=3)


@st.composite
def subscriptions(draw: st.DrawFn) -> StreamsSubscription:
    """One that its layout can carry whole."""
    layout = draw(st.sampled_from(Layout))
    common = {"endpoint": draw(st.text(max_size=8)), "layout": layout}
    process = draw(st.binary(min_size=16, max_size=16))
    if layout is Layout.HIGH_AVAILABILITY:
        sums = draw(st.dictionaries(tasks, int64, max_size=4))
        return StreamsSubscription(process, offset_sums=sums, nonce=draw(st.integers(-128, 127)), **common)
    active, standby = draw(task_sets), draw(task_sets)
    if layout is Layout.STICKY:
        return StreamsSubscription(process, active, dict.fromkeys(standby, 0), **common)
    return StreamsSubscription(
        process,
        active,
        {task: draw(int64) for task in standby},
        draw(st.dictionaries(tasks, st.builds(Learning, int64, st.booleans()), max_size=3)),
        draw(task_sets),
        weight=draw(st.integers(1, 1000)),
        leaving_ms=draw(st.one_of(st.just(NOT_LEAVING), st.integers(0, 2**63 - 1))),
        nonce=draw(st.integers(-128, 127)),
        **common,
    )


@st.composite
def assignments(draw: st.DrawFn) -> StreamsGiven:
    """One that its layout can carry whole."""
    layout = draw(st.sampled_from(Layout))
    active = tuple(draw(st.lists(tasks, max_size=5)))
    standby, endpoints, error = draw(copies), draw(hosts), draw(st.integers(-(2**31), 2**31 - 1))
    if layout is Layout.LEARNER:
        learned, shutdown = draw(task_sets), draw(st.booleans())
        return StreamsGiven(active, standby, draw(copies), learned, shutdown, endpoints, error, layout=layout)
    later = draw(st.integers(0, NO_FOLLOW_UP)) if layout is Layout.HIGH_AVAILABILITY else NO_FOLLOW_UP
    return StreamsGiven(active, standby, hosts=endpoints, error=error, next_rebalance_ms=later, layout=layout)


@given(subscriptions())
def test_a_subscription_comes_back_as_it_was(said: StreamsSubscription) -> None:
    """In each layout."""
    data = encode_streams_subscription(said)

    assert decode_streams_subscription(data) == said
    assert encode_streams_subscription(decode_streams_subscription(data)) == data


@given(assignments())
def test_an_assignment_comes_back_as_it_was(told: StreamsGiven) -> None:
    """In each layout."""
    assert decode_streams_assignment(encode_streams_assignment(told)) == told


@given(st.binary(max_size=80))
def test_rubbish_is_a_codec_error_and_nothing_else(data: bytes) -> None:
    """A leader that cannot read a member must be able to say so."""
    for read in (decode_streams_subscription, decode_streams_assignment):
        try:
            read(data)
        except CodecError:
            continue


@given(subscriptions(), st.data())
def test_bytes_that_end_early_name_the_field_they_end_in(said: StreamsSubscription, data: st.DataObject) -> None:
    whole = encode_streams_subscription(said)
    cut = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(CodecError, match=r"SubscriptionInfo\.\w+"):
        decode_streams_subscription(whole[:cut])


def test_a_version_that_is_not_spoken_is_named() -> None:
    """Kafka's own v5 to v7 are other layouts."""
    with pytest.raises(UnsupportedVersion, match=r"SubscriptionInfo v6: supported are v4, v5, v8"):
        decode_streams_subscription((6).to_bytes(4, "big") * 2 + PROCESS)
