"""Admins of real clients at a served cluster: topics, settings, and the description of the cluster."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from kemu.tools.testkit.served import ServedCluster, serving

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("sockets_of_kafka_python"),
]
WITHIN_S = 60
REPLICATED = """
[brokers]
count = 3
[brokers.replication]
factor = 3
[topics.orders]
partitions = 2
rate = 0
min_isr = 2
"""
PLAIN = """
[brokers]
count = 2
[topics.orders]
partitions = 2
rate = 0
retention = "1h"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    with serving(REPLICATED, tmp_path_factory.mktemp("served")) as found:
        yield found
        assert found.close() == "holds", found.output


@pytest.fixture
def python_admin(cluster: ServedCluster) -> Iterator[Any]:
    from kafka.admin import KafkaAdminClient

    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=30_000)) as admin:
        yield admin


@pytest.fixture
def librdkafka_admin(cluster: ServedCluster) -> Any:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def _settings(admin: Any, kind: ResourceType, name: str) -> dict[str, Any]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, Any] = future.result(WITHIN_S)
    return found


def test_a_topic_that_a_real_admin_creates_takes_records_until_it_is_deleted(
    cluster: ServedCluster, python_admin: Any
) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import NewTopic as PythonTopic
    from kafka.errors import UnknownTopicOrPartitionError

    python_admin.create_topics([PythonTopic("made", num_partitions=3, replication_factor=2)])
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
        sent = [producer.send("made", b"%d" % number, partition=number % 3) for number in range(9)]
        producer.flush(WITHIN_S)
        assert all(each.succeeded() for each in sent)
    with closing(
        KafkaConsumer(
            "made", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", group_id="readers"
        )
    ) as consumer:
        read: list[bytes] = []
        while len(read) < 9:
            read += [each.value for rows in consumer.poll(WITHIN_S * 1_000).values() for each in rows]
        consumer.close(autocommit=False)
    assert sorted(read) == [b"%d" % number for number in range(9)]

    python_admin.delete_topics(["made"])
    with pytest.raises(UnknownTopicOrPartitionError):
        python_admin.delete_topics(["made"])
    python_admin.create_topics([PythonTopic("made", num_partitions=1, replication_factor=3)])


def test_refused_topics_have_kafkas_errors(python_admin: Any) -> None:
    from kafka.admin import NewTopic as PythonTopic
    from kafka.errors import InvalidConfigurationError, InvalidReplicationFactorError, TopicAlreadyExistsError

    def create(name: str, factor: int, settings: dict[str, str]) -> None:
        python_admin.create_topics(
            [PythonTopic(name, num_partitions=1, replication_factor=factor, topic_configs=settings)]
        )

    with pytest.raises(TopicAlreadyExistsError):
        create("orders", 1, {})
    with pytest.raises(InvalidReplicationFactorError):
        create("wide", 4, {})
    with pytest.raises(InvalidConfigurationError):
        create("odd", 1, {"retention.ms": "soon"})
    with pytest.raises(InvalidConfigurationError):
        create("odd", 1, {"no.such.setting": "1"})


def test_a_validated_topic_is_not_created(librdkafka_admin: Any) -> None:
    def validate(name: str) -> None:
        (future,) = librdkafka_admin.create_topics([NewTopic(name, 2, 3)], validate_only=True).values()
        future.result(WITHIN_S)

    validate("checked")
    assert "checked" not in librdkafka_admin.list_topics(timeout=WITHIN_S).topics
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        validate("orders")


def test_an_admin_reads_the_settings_of_a_topic_and_where_their_values_come_from(
    librdkafka_admin: Any,
) -> None:
    given = {"retention.ms": "60000", "cleanup.policy": "compact"}
    (future,) = librdkafka_admin.create_topics([NewTopic("kept", 1, 3, config=given)]).values()
    future.result(WITHIN_S)
    found = _settings(librdkafka_admin, ResourceType.TOPIC, "kept")
    assert {key: (found[key].value, found[key].source) for key in given} == {
        "retention.ms": ("60000", 1),
        "cleanup.policy": ("compact", 1),
    }
    assert (found["min.insync.replicas"].value, found["min.insync.replicas"].source) == ("1", 5)
    assert _settings(librdkafka_admin, ResourceType.TOPIC, "orders")["min.insync.replicas"].value == "2"
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        _settings(librdkafka_admin, ResourceType.TOPIC, "missing")


def test_an_admin_reads_the_settings_of_a_broker(librdkafka_admin: Any) -> None:
    found = _settings(librdkafka_admin, ResourceType.BROKER, "1")
    assert (found["replica.lag.time.max.ms"].value, found["replica.lag.time.max.ms"].is_read_only) == ("30000", True)
    assert (found["log.retention.ms"].value, found["log.retention.ms"].is_read_only) == ("604800000", False)
    assert not any(key.startswith("emulated.") for key in found)


def test_an_admin_learns_brokers_and_controller(cluster: ServedCluster, librdkafka_admin: Any) -> None:
    """kafka-python 3.0.12 cannot read the answer of brokers before 3.7: it needs ``endpoint_type`` (KIP-919)."""
    found = librdkafka_admin.describe_cluster().result(WITHIN_S)
    servers = [f"{each.host}:{each.port}" for each in found.nodes]
    assert sorted(servers) == sorted(cluster.bootstrap_servers.split(","))
    assert found.controller.id in (0, 1, 2)
    assert found.cluster_id == "kemu"


def test_a_setting_that_kemu_does_not_emulate_is_named(tmp_path: Path) -> None:
    with serving(REPLICATED, tmp_path) as cluster:
        admin: Any = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        (future,) = admin.create_topics([NewTopic("kept", 1, 1, config={"cleanup.policy": "compact"})]).values()
        future.result(WITHIN_S)
        cluster.close()
        line = "cleanup.policy of topic kept has no effect: kemu does not emulate this setting"
        assert any(line in each for each in cluster.output)


def test_brokers_without_replication_describe_topics_and_offer_no_creation(tmp_path: Path) -> None:
    with serving(PLAIN, tmp_path) as cluster:
        admin: Any = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        found = _settings(admin, ResourceType.TOPIC, "orders")
        assert (found["retention.ms"].value, found["retention.ms"].source) == ("3600000", 1)
        (future,) = admin.create_topics([NewTopic("made", 1, 1)], request_timeout=5).values()
        with pytest.raises(KafkaException):
            future.result(WITHIN_S)
