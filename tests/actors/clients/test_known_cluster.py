"""The answers to Metadata that a client trusts: ``Metadata.updateLatestMetadata``, KIP-320, KIP-516."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.clients.known_cluster import NOTHING_KNOWN, KnownCluster, LastSeen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import BrokerMetadata, MetadataReply, NewLeader, PartitionMetadata, TopicMetadata
from kemu.protocol.metadata_rules import METADATA_2_3, METADATA_2_4, METADATA_2_8, METADATA_3_7, MetadataRules
from kemu.protocol.profiles import PROFILES

NONE = ErrorCode.NONE
BROKERS = tuple(BrokerMetadata(node_id=node, host=f"b{node}") for node in range(3))


def told(rows: Iterable[tuple[int, int, int]], topic_id: str = "", topic: str = "t") -> TopicMetadata:
    """A topic of (partition, leader, epoch)."""
    partitions = tuple(
        PartitionMetadata(error=NONE, partition=number, leader=leader, leader_epoch=epoch, replicas=(), isr=())
        for number, leader, epoch in rows
    )
    return TopicMetadata(error=NONE, topic=topic, topic_id=topic_id, partitions=partitions)


GONE = TopicMetadata(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="t", partitions=())


def _named(partition: int, leader: int, epoch: int, host: str = "") -> NewLeader:
    broker = BrokerMetadata(node_id=leader, host=host) if host else None
    return NewLeader(topic="t", partition=partition, leader_id=leader, leader_epoch=epoch, broker=broker)


class Client:
    """A client's knowledge after some answers."""

    def __init__(self, rules: MetadataRules = METADATA_2_8, version: int = 12) -> None:
        self.seen = LastSeen(rules)
        self.version = version
        self.cluster: KnownCluster = NOTHING_KNOWN
        self.interest = {"t"}

    def hears(self, *topics: TopicMetadata, live: int = 3) -> None:
        reply = MetadataReply(brokers=BROKERS[:live], topics=topics)
        self.cluster = self.seen.learned(self.cluster, reply, self.version, self.interest.__contains__)

    def leader(self, partition: int = 0) -> tuple[str | None, int]:
        return self.seen.current_leader(self.cluster, "t", partition)

    def count(self) -> int | None:
        return self.cluster.seen_by_assignor(("t",)).partitions.get("t")


def test_metadata_of_an_older_leader_epoch_is_passed_over():
    """Partition by partition; what was known stays. Source: ``updateLatestMetadata``: cache.partitionMetadata."""
    client = Client()
    client.hears(told([(0, 1, 5), (1, 2, 3)]))
    client.hears(told([(0, 0, 4), (1, 0, 4)]))

    assert client.leader(0) == ("b1", 5)
    assert client.leader(1) == ("b0", 4)
    client.hears(told([(0, 2, 5), (1, 0, 4)]))
    assert client.leader(0) == ("b2", 5)


def test_a_leader_of_metadata_that_stays_counts_only_while_it_lives():
    """The node is looked up in the newest answer (``MetadataCache.nodeById``)."""
    client = Client()
    client.hears(told([(0, 2, 5)]))
    client.hears(told([(0, 0, 4)]), live=2)

    assert client.leader() == (None, 5)


def test_a_topic_that_was_gone_is_passed_over_while_its_epochs_are_older():
    """Without topic ids a new topic looks like an outdated answer (KAFKA-12257)."""
    client = Client()
    client.hears(told([(0, 1, 5), (1, 1, 0)]))
    client.hears(GONE)
    assert client.leader() == (None, 5) and client.count() is None
    client.hears(told([(0, 1, 0), (1, 1, 0)]))

    assert client.leader(0) == (None, 5)
    assert client.leader(1) == ("b1", 0)
    assert client.count() == 1
    client.hears(told([(0, 1, 5), (1, 1, 0)]))
    assert client.leader(0) == ("b1", 5) and client.count() == 2


@pytest.mark.parametrize("between", [(), (GONE,)], ids=["at once", "after it was gone"])
def test_a_topic_of_another_id_begins_anew(between: tuple[TopicMetadata, ...]):
    """Also if the former id was forgotten meanwhile (2.8.2, 3.0.1)."""
    client = Client()
    client.hears(told([(0, 1, 5)], topic_id="7"))
    for topic in between:
        client.hears(topic)
    client.hears(told([(0, 2, 0)], topic_id="8"))
    assert client.leader() == ("b2", 0)

    client.hears(told([(0, 1, 1)], topic_id="8"))
    client.hears(told([(0, 2, 0)], topic_id="8"))
    assert client.leader() == ("b1", 1)


def test_before_2_8_2_a_topic_of_another_id_is_passed_over_too():
    """``Metadata.updateLatestMetadata`` 2.8.1 looks at epochs alone (KAFKA-12257)."""
    client = Client(METADATA_2_4)
    client.hears(told([(0, 1, 5)], topic_id="7"))
    client.hears(GONE)
    client.hears(told([(0, 2, 0)], topic_id="8"))

    assert client.leader() == (None, 5) and client.count() is None
    client.hears(told([(0, 2, 4)], topic_id="8"))
    assert client.leader() == (None, 5)


def test_what_is_of_no_interest_any_more_is_forgotten():
    """``lastSeenLeaderEpochs.keySet().removeIf(!retainTopic)``."""
    client = Client()
    client.hears(told([(0, 1, 5)]))
    client.interest = set()
    client.hears()
    client.interest = {"t"}
    client.hears(told([(0, 1, 0)]))

    assert client.leader() == ("b1", 0)


def test_a_newer_epoch_than_metadata_has_leaves_a_partition_without_a_leader():
    """``updateLastSeenEpochIfNewer``: until metadata has it; of a partition that is not known nothing is kept."""
    client = Client()
    assert not client.seen.saw(client.cluster, "t", 0, 5)
    client.hears(told([(0, 1, 3), (1, 1, 3)]))

    assert not client.seen.saw(client.cluster, "t", 0, 3)
    assert client.seen.saw(client.cluster, "t", 0, 4)
    assert not client.seen.saw(client.cluster, "t", 0, 4)
    assert (client.leader(0), client.leader(1)) == ((None, 4), ("b1", 3))
    client.hears(told([(0, 1, 3), (1, 1, 4)]))
    assert (client.leader(0), client.leader(1)) == ((None, 4), ("b1", 4))
    client.hears(told([(0, 2, 4), (1, 1, 4)]))
    assert client.leader(0) == ("b2", 4)


@pytest.mark.parametrize(
    ("rules", "version", "epoch"), [(METADATA_2_4, 8, -1), (METADATA_2_4, 9, 3), (METADATA_2_3, 8, 3)]
)
def test_epochs_of_brokers_before_2_4_do_not_count_since_2_4(rules: MetadataRules, version: int, epoch: int):
    """``MetadataResponse.hasReliableLeaderEpochs``, KAFKA-9212."""
    client = Client(rules, version)
    client.hears(told([(0, 1, 3)]))
    assert client.leader() == ("b1", epoch)

    client.hears(told([(0, 2, 2)]))
    assert client.leader() == (("b2", -1) if epoch < 0 else ("b1", 3))


def test_partitions_are_known_by_their_numbers():
    """An answer that lacks one moves no other; only what is known is counted."""
    client = Client()
    client.hears(told([(0, 1, 3), (2, 2, 4)]))

    assert [client.leader(number) for number in range(4)] == [("b1", 3), (None, -1), ("b2", 4), (None, -1)]
    assert client.count() == 2


class AsKafka:
    """``lastSeenLeaderEpochs`` and the cache as plain maps by partition, which is how Kafka has them."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.cached: dict[int, tuple[int, int]] = {}
        self.topic_id = ""

    def hears(self, topic: TopicMetadata) -> None:
        after: dict[int, tuple[int, int]] = {}
        for row in topic.partitions:
            new = topic.topic_id not in ("", self.topic_id)
            if new or row.leader_epoch >= self.seen.get(row.partition, -1):
                self.seen[row.partition] = row.leader_epoch
                after[row.partition] = row.leader, row.leader_epoch
            elif row.partition in self.cached:
                after[row.partition] = self.cached[row.partition]
        self.cached, self.topic_id = after, topic.topic_id

    def leader(self, partition: int) -> tuple[str | None, int]:
        seen = self.seen.get(partition, -1)
        leader, epoch = self.cached.get(partition, (-1, -1))
        return (f"b{leader}", epoch) if partition in self.cached and epoch == seen else (None, seen)


ROWS = st.dictionaries(st.integers(0, 3), st.tuples(st.integers(0, 2), st.integers(0, 200)), max_size=4)
TOLD = st.builds(
    lambda rows, topic_id: told([(number, *rows[number]) for number in sorted(rows)], topic_id),
    ROWS,
    st.sampled_from(["", "1", "2"]),
)
ANSWERS = st.lists(st.just(GONE) | TOLD, max_size=8)


@given(answers=ANSWERS, newer=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 250)), max_size=8))
def test_any_row_of_answers_leaves_what_kafkas_maps_have(answers: list[TopicMetadata], newer: list[tuple[int, int]]):
    """Beside a transcript of the two maps, epochs told by others in between."""
    client, kafka = Client(), AsKafka()
    for number, topic in enumerate(answers):
        client.hears(topic)
        kafka.hears(topic)
        if number < len(newer):
            partition, epoch = newer[number]
            client.seen.saw(client.cluster, "t", partition, epoch)
            if partition in kafka.seen:
                kafka.seen[partition] = max(kafka.seen[partition], epoch)
        assert [client.leader(each) for each in range(5)] == [kafka.leader(each) for each in range(5)]
        assert (client.count() or 0) == len(kafka.cached)


@pytest.mark.parametrize(
    ("named", "moved", "leader"),
    [
        (_named(0, 2, 6), [0], ("b2", 6)),
        (_named(0, 2, 5), [], ("b1", 5)),
        (_named(0, 7, 6), [], ("b1", 5)),
        (_named(0, 7, 6, host="b7"), [0], ("b7", 6)),
        (_named(4, 2, 6), [], ("b1", 5)),
    ],
    ids=["newer", "not newer", "of an unknown broker", "of a new broker", "of an unknown partition"],
)
def test_a_client_follows_a_newer_leader_that_an_error_names(named, moved, leader):
    """Metadata.updatePartitionLeadership (3.7)."""
    client = Client()
    client.hears(told([(0, 1, 5), (1, 2, 3)]))
    client.cluster, partitions = client.seen.moved(client.cluster, (named,))

    assert partitions == tuple(("t", number) for number in moved)
    assert client.leader(0) == leader
    assert client.leader(1) == ("b2", 3)


def test_metadata_of_an_older_epoch_than_that_of_a_named_leader_is_passed_over():
    client = Client()
    client.hears(told([(0, 1, 5)]))
    client.cluster, _ = client.seen.moved(client.cluster, (_named(0, 2, 7),))
    client.hears(told([(0, 1, 6)]))

    assert client.leader(0) == ("b2", 7)


def test_releases_have_the_rules_of_their_clients():
    """2.3 trusts all epochs, 2.8 (2.8.2) and later look at ids, 3.7 and later retry at once at a newer leader."""
    rules = {name: profile.metadata for name, profile in PROFILES.items()}

    assert rules["kafka-2.3"] == METADATA_2_3
    assert rules["kafka-2.4"] == rules["kafka-2.6"] == METADATA_2_4
    assert {name for name, each in rules.items() if each == METADATA_2_8} >= {"kafka-2.8", "kafka-3.0", "kafka-3.4"}
    assert {name for name, each in rules.items() if each == METADATA_3_7} >= {"kafka-3.7", "kafka-3.9", "kafka-4.3"}
