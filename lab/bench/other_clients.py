"""The sticky assignors of kafka-python and aiokafka, called as their own clients call them."""

import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from kemu.protocol.assign.base import Topics
from lab.bench.groups import MeasuredGroup

Runner = Callable[[], object]
"""A function that computes one assignment."""


class _Cluster:
    """The part of the clients' metadata that their assignors read."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = {topic: set(range(count)) for topic, count in topics.partitions.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


def _with_version(user_data: bytes | None) -> bytes:
    """The user data with the version that kafka-python 3 expects; Kafka's layout has no version."""
    return b"\0\1" + user_data if user_data else b""


def kafka_python(group: MeasuredGroup) -> Runner:
    """``kafka.coordinator.assignors.sticky``; previous assignments are given as the bytes of their user data."""
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignor, cluster = StickyPartitionAssignor(), _Cluster(group.topics)
    members = [
        SimpleNamespace(
            member_id=member, metadata=SimpleNamespace(topics=list(one.topics), user_data=_with_version(one.user_data))
        )
        for member, one in group.members.items()
    ]
    return lambda: assignor.assign(cluster, members)


def aiokafka(group: MeasuredGroup) -> Runner:
    """``aiokafka.coordinator.assignors.sticky``; previous assignments are given as the bytes of their user data."""
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    cluster: Any = _Cluster(group.topics)
    members: Any = {
        member: SimpleNamespace(subscription=list(one.topics), user_data=one.user_data or b"")
        for member, one in group.members.items()
    }
    return lambda: StickyPartitionAssignor.assign(cluster, members)


CLIENTS: Mapping[str, Callable[[MeasuredGroup], Runner]] = {"kafka-python": kafka_python, "aiokafka": aiokafka}


def understood(group: MeasuredGroup, name: str) -> bool:
    """Whether a client's parser finds the previous partitions of each member."""
    logging.getLogger(name.replace("-python", "")).setLevel(logging.CRITICAL)
    one = next(one for one in group.members.values() if one.user_data)
    parser: Any
    if name == "kafka-python":
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as KafkaPython

        parser = KafkaPython.parse_member_metadata
    else:
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioKafka

        parser = AioKafka.parse_member_metadata
    user_data = _with_version(one.user_data) if name == "kafka-python" else one.user_data
    metadata = SimpleNamespace(topics=list(one.topics), subscription=list(one.topics), user_data=user_data)
    read = parser(metadata)
    return sorted((found.topic, found.partition) for found in read.partitions) == sorted(one.owned)
