"""Real clients from PyPI behind one interface: aiokafka, kafka-python and confluent-kafka (librdkafka).

The clients run on the wall clock. Waits are bounds, not sleeps.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import pytest

from kemu.emulator.replay import replay
from kemu.emulator.trace.traces import read_trace
from kemu.tools.testkit.served import ServedCluster
from tests.tools.served_scenarios import served_scenario

RECORDS = 100
WITHIN_S = 60.0
"""Longest wait for an event, on a computer with other work."""
SESSION_MS, HEARTBEAT_MS = 6_000, 500
TOPIC, GROUP = "orders", "payments"

PLAIN = served_scenario(partitions=4)
REPLICATED = served_scenario(partitions=4, group=GROUP, replicated=True)


class Consumer(Protocol):
    """A consumer of a group, behind one interface for three clients."""

    def read(self) -> list[bytes]:
        """Poll for a moment; return the values of the new records."""
        ...

    def assigned(self) -> set[int]:
        """Partitions of the topic that the consumer has."""
        ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class _KafkaPython:
    """kafka-python, with auto-commit at the end only."""

    def __init__(self, servers: str, instance: str = "") -> None:
        from kafka import KafkaConsumer

        static = {"group_instance_id": instance} if instance else {}
        self._consumer: Any = KafkaConsumer(
            TOPIC,
            bootstrap_servers=servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=10_000,
            metadata_max_age_ms=3_000,
            **static,
        )

    def read(self) -> list[bytes]:
        return [each.value for rows in self._consumer.poll(200).values() for each in rows]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)

    @staticmethod
    def produce(servers: str, values: Iterable[bytes]) -> None:
        """Produce records, and wait for their acknowledgement."""
        from kafka import KafkaProducer

        producer: Any = KafkaProducer(bootstrap_servers=servers, acks="all", request_timeout_ms=10_000)
        sent = [producer.send(TOPIC, value, key=value) for value in values]
        producer.flush(WITHIN_S)
        assert all(each.succeeded() for each in sent)
        producer.close()


class _Librdkafka:
    """confluent-kafka."""

    protocol: Mapping[str, Any] = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}

    def __init__(self, servers: str, instance: str = "") -> None:
        from confluent_kafka import Consumer as RealConsumer

        static = {"group.instance.id": instance} if instance else {}
        self._consumer: Any = RealConsumer(
            {
                "bootstrap.servers": servers,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 3_000,
                "socket.timeout.ms": 10_000,
                "log_level": 0,
                **self.protocol,
                **static,
            }
        )
        self._consumer.subscribe([TOPIC])

    def read(self) -> list[bytes]:
        return [each.value() for each in self._consumer.consume(500, 0.2) if each.error() is None]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()

    @staticmethod
    def produce(servers: str, values: Iterable[bytes]) -> None:
        """Produce records as an idempotent producer, and wait for their acknowledgement."""
        from confluent_kafka import Producer

        refused: list[object] = []
        producer: Any = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        for value in values:
            producer.produce(TOPIC, value, key=value, on_delivery=lambda error, _: refused.append(error))
        assert producer.flush(WITHIN_S) == 0
        assert not any(refused)


class _LibrdkafkaConsumerProtocol(_Librdkafka):
    """confluent-kafka with the consumer protocol of KIP-848, whose intervals the broker chooses."""

    protocol = {"group.protocol": "consumer"}


class _Aiokafka:
    """aiokafka, whose event loop runs in calls of this class and in a thread between them."""

    def __init__(self, servers: str, instance: str = "") -> None:
        import asyncio
        import threading

        from aiokafka import AIOKafkaConsumer

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def make() -> Any:
            consumer = AIOKafkaConsumer(
                TOPIC,
                bootstrap_servers=servers,
                group_id=GROUP,
                group_instance_id=instance or None,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                request_timeout_ms=10_000,
                metadata_max_age_ms=3_000,
            )
            await consumer.start()
            return consumer

        self._consumer: Any = self._do(make())

    def _do(self, coroutine: Any) -> Any:
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WITHIN_S)

    def read(self) -> list[bytes]:
        rows = self._do(self._consumer.getmany(timeout_ms=200))
        return [each.value for records in rows.values() for each in records]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._do(self._consumer.commit())

    def close(self) -> None:
        try:
            self._do(self._consumer.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(WITHIN_S)
            self._loop.close()

    @staticmethod
    def produce(servers: str, values: Iterable[bytes]) -> None:
        """Produce records, and wait for their acknowledgement."""
        import asyncio

        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaConnectionError

        async def send() -> None:
            late_s = time.monotonic() + WITHIN_S
            while True:  # start() asks each server once; lossy links may reset each of these connections
                producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")  # records fail at request_timeout_ms
                try:
                    await producer.start()
                    break
                except KafkaConnectionError:
                    await producer.stop()
                    if time.monotonic() > late_s:
                        raise
            for each in [await producer.send(TOPIC, value, key=value) for value in values]:
                await each
            await producer.stop()

        asyncio.run(send())


CLIENTS: dict[str, Any] = {"kafka-python": _KafkaPython, "librdkafka": _Librdkafka, "aiokafka": _Aiokafka}
CONSUMER_PROTOCOL = "librdkafka with the consumer protocol"
_KINDS = {**CLIENTS, CONSUMER_PROTOCOL: _LibrdkafkaConsumerProtocol}
FILTERS = [  # kafka-python and aiokafka use deprecated functions, and leave sockets to the garbage collection
    pytest.mark.filterwarnings(f"ignore::{name}")
    for name in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
] + [pytest.mark.usefixtures("sockets_of_kafka_python")]
by_client = pytest.mark.parametrize("client", CLIENTS)


class RealGroup:
    """Consumers of one test; the block's end closes them. ``read``: the values that each consumer has read."""

    def __init__(self, client: str, servers: str) -> None:
        self._client, self._servers = _KINDS[client], servers
        self.consumers: list[Consumer] = []
        self.read: list[bytes] = []

    def join(self, instance: str = "") -> Consumer:
        """Add a consumer."""
        self.consumers.append(self._client(self._servers, instance))
        return self.consumers[-1]

    def leave(self, consumer: Consumer) -> None:
        """Close a consumer."""
        self.consumers.remove(consumer)
        consumer.close()

    def until(self, what: Callable[[], bool]) -> None:
        """Poll all consumers until a condition holds."""
        end = time.monotonic() + WITHIN_S
        while not what():
            assert time.monotonic() < end, f"read {len(self.read)}, {[each.assigned() for each in self.consumers]}"
            for each in self.consumers:
                self.read += each.read()

    def until_shared(self, partitions: int = 4) -> None:
        """Poll until each partition has one consumer, and each consumer a partition."""

        def is_shared() -> bool:
            owned = [each.assigned() for each in self.consumers]
            return all(owned) and sum(map(len, owned)) == len(set().union(*owned)) == partitions

        self.until(is_shared)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each in self.consumers:
            each.close()


def values(begin: int = 0, count: int = RECORDS) -> list[bytes]:
    return [b"value %d" % number for number in range(begin, begin + count)]


def check_clients(cluster: ServedCluster) -> None:
    """End the cluster: no checker calls the clients wrong, and the trace replays."""
    cluster.close()
    assert cluster.verdict == "holds", cluster.output
    found = replay(read_trace(cluster.trace))
    assert found.difference is None
