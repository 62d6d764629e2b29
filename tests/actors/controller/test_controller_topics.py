"""Topics are created, grow and are deleted; admins' requests.

Source: Kafka's ControllerIntegrationTest, TopicDeletionManagerTest, DeleteTopicTest, UncleanLeaderElectionTest and
LeaderElectionCommandTest.
"""

from typing import Any

import pytest
from attrs import evolve

from kemu.actors.controller.rules import RULES
from kemu.actors.controller.topics import MOST_PARTITIONS
from kemu.protocol.commands import ExpireSession, FreezeSession
from kemu.protocol.config import ControllerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    UNCLEAN_ELECTION,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    IncrementalAlterConfigs,
    LeaderAndIsr,
    MorePartitions,
    NewTopic,
    StopReplica,
    TopicConfigEntry,
)
from kemu.protocol.messages.local import LeaveStore
from kemu.protocol.nodes import (
    PartitionState,
    ReplicaAssignment,
    broker_path,
    config_data,
    read_topic,
    read_topic_id,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.replication import BrokerRegistered, PartitionsAdded, TopicCreated, TopicDeleted
from tests.actors.controller.control_world import CONFIG, ControlWorld

SESSION_MS = CONFIG.zookeeper_session_timeout_ms
T = {"t": ((0, 1, 2), (1, 2, 0))}
CONFIGS = (TopicConfigEntry(name="min.insync.replicas", value="1"),)


def _errors(reply: Any) -> list[ErrorCode]:
    return [row.error_code for row in reply.topics]


def _rows(reply: Any) -> dict[tuple[str, int], ErrorCode]:
    return {(row.topic_name, row.partition_index): row.error_code for row in reply.replica_election_results}


def _nodes_of(world: ControlWorld, topic: str) -> list[str]:
    return [path for path in world.zk.tree.nodes if path.split("/")[3:4] == [topic]]


# --- creation and growth -------------------------------------------------------------------------------------------


def test_a_topic_is_created():
    """testTopicCreation: leader epoch 0, all replicas new and hosted; the note has the incarnation."""
    world = ControlWorld(3)
    world.put_topic("t", (0, 1), (1, 2))
    world.run(200)

    assert world.state("t", 1) == PartitionState(1, 0, (1, 2), 1)
    assert {broker: sorted(world.broker(broker).hosted) for broker in world.ids} == {
        0: [("t", 0)],
        1: [("t", 0), ("t", 1)],
        2: [("t", 1)],
    }
    (created,) = world.facts(TopicCreated)
    assert created.incarnation == world.zk.tree.nodes[topic_path("t")].czxid


def test_a_topic_with_an_offline_replica_is_led_by_a_live_one():
    """testTopicCreationWithOfflineReplica: leader = the live one, epoch 0; the other joins when it starts."""
    world = ControlWorld(2)
    world.kill(1)
    world.run(SESSION_MS + 1_000)

    world.put_topic("t", (1, 0))
    world.run(200)
    assert world.state("t") == PartitionState(0, 0, (0,), 1)

    world.revive(1)
    world.run(500)
    assert ("t", 0) in world.broker(1).hosted
    assert world.state("t").leader == 0


def test_a_topic_grows():
    """testTopicPartitionExpansion: only the new partition is created."""
    world = ControlWorld(2, {"t": ((0, 1),)})
    before = world.state("t")

    world.put_topic("t", (0, 1), (1, 0))
    world.run(200)

    assert world.state("t", 1) == PartitionState(1, 0, (1, 0), 1)
    assert world.state("t") == before
    assert [fact.partitions for fact in world.facts(PartitionsAdded)] == [2]


def test_a_topic_grows_onto_an_offline_replica():
    """testTopicPartitionExpansionWithOfflineReplica."""
    world = ControlWorld(2, {"t": ((0, 1),)})
    world.kill(1)
    world.run(SESSION_MS + 1_000)

    world.put_topic("t", (0, 1), (1, 0))
    world.run(200)

    assert world.state("t", 1) == PartitionState(0, 0, (0,), 1)


def test_admins_create_topics():
    """CreateTopics: placed by the cluster or by hand, with settings; each invalid one has its reason, valid ones
    succeed.
    """
    world = ControlWorld(3)
    request = CreateTopics(
        topics=(
            NewTopic(name="t", num_partitions=4, replication_factor=2),
            NewTopic(
                name="by-hand",
                assignments=((2, 0), (1, 2)),
                configs=CONFIGS,
            ),
            NewTopic(name="no/name", num_partitions=1, replication_factor=1),
            NewTopic(name="much", num_partitions=1, replication_factor=4),
            NewTopic(name="none", num_partitions=0, replication_factor=1),
            NewTopic(name="twice", assignments=((1, 1),)),
            NewTopic(name="odd", assignments=((1, 2), (1,))),
            NewTopic(name="both", num_partitions=1, assignments=((1,),)),
            NewTopic(name="double"),
            NewTopic(name="double"),
        )
    )

    assert _errors(world.ask(request, 7)) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert sorted(world.active.context.topics) == ["by-hand", "t"]
    assert sorted(world.state("t", number).leader for number in range(4)) in ([0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2])
    assert world.state("by-hand").leader == 2
    assert world.node("/config/topics/by-hand") == b'{"version":1,"config":{"min.insync.replicas":"1"}}'
    again = CreateTopics(topics=(NewTopic(name="t", num_partitions=1, replication_factor=1),))
    assert _errors(world.ask(again, 7)) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    alike = CreateTopics(topics=(NewTopic(name="by.hand"), NewTopic(name="by_hand")))
    assert _errors(world.ask(alike, 7)) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_admins_grow_topics():
    """CreatePartitions: by count, or with replicas named."""
    world = ControlWorld(3, T)

    grown = CreatePartitions(topics=(MorePartitions(name="t", count=5), MorePartitions(name="nope", count=2)))
    assert _errors(world.ask(grown, 3)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.run(300)
    assert [len(world.state("t", number).isr) for number in range(5)] == [3] * 5

    for topic, error in [
        (MorePartitions(name="t", count=5), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions(name="t", count=6, assignments=((0, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions(name="t", count=6, assignments=((0, 1, 2), (0, 1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions(name="t", count=6, assignments=((2, 1, 0),)), ErrorCode.NONE),
    ]:
        assert _errors(world.ask(CreatePartitions(topics=(topic,)), 3)) == [error]
    world.run(300)
    assert world.state("t", 5).leader == 2


def test_a_created_topic_is_answered_when_its_partitions_are_led():
    """DelayedCreatePartitions: after the answer the own broker's metadata has the topic's leaders."""
    world = ControlWorld(3)
    reply = world.ask(CreateTopics(topics=(NewTopic(name="t", num_partitions=3, replication_factor=3),)), 7)

    assert _errors(reply) == [ErrorCode.NONE]
    assert sorted(world.broker(0).metadata) == [("t", 0), ("t", 1), ("t", 2)]


def test_a_validated_topic_is_not_created():
    """ZkAdminManager.createTopics answers a validation at once, and writes nothing."""
    world = ControlWorld(3)
    topics = (NewTopic(name="t", num_partitions=1, replication_factor=3), NewTopic(name="u", replication_factor=4))
    (reply,) = _asked(world, CreateTopics(topics=topics, validate_only=True), 7, 50)

    assert _errors(reply) == [ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR]
    assert world.node(topic_path("t")) is None


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("retention.ms", "60000", ErrorCode.NONE),
        ("cleanup.policy", "compact", ErrorCode.NONE),
        ("retention.ms", None, ErrorCode.INVALID_CONFIG),
        ("retention.ms", "soon", ErrorCode.INVALID_CONFIG),
        ("no.such.key", "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_the_settings_of_a_new_topic_are_checked(name: str, value: str | None, error: ErrorCode):
    """LogConfig.validate; ZkAdminManager.createTopics refuses null values."""
    world = ControlWorld(1)
    topic = NewTopic(name="t", configs=(TopicConfigEntry(name=name, value=value),))

    assert _errors(world.ask(CreateTopics(topics=(topic,)), 7)) == [error]
    assert (world.node(topic_path("t")) is not None) is (error is ErrorCode.NONE)


@pytest.mark.parametrize("by", [{"num_partitions": 1_000_000_000}, {"assignments": ((0,),) * (MOST_PARTITIONS + 1)}])
def test_a_topic_of_too_many_partitions_is_refused(by: dict[str, Any]):
    """ReplicationControlManager (3.9): POLICY_VIOLATION."""
    world = ControlWorld(1)

    assert _errors(world.ask(CreateTopics(topics=(NewTopic(name="t", **by),)), 7)) == [ErrorCode.POLICY_VIOLATION]


def _asked(world: ControlWorld, request: Any, version: int, ms: int) -> list[Any]:
    """Send a request to the controller; returns the answer if it came within this time."""
    before = len(world.broker(0).answers)
    world.tell("b0", (world.active.name, request, version))
    world.run(ms)
    return world.broker(0).answers[before:]


def test_a_topic_whose_replicas_do_not_live_is_there_when_its_creation_times_out():
    """ZkAdminManager.createTopics does not check that an assignment's brokers are live; the answer is
    REQUEST_TIMED_OUT.
    """
    world = ControlWorld(2)
    topics = (NewTopic(name="absent", assignments=((7,),)), NewTopic(name="here", assignments=((1,),)))

    assert _asked(world, CreateTopics(topics=topics, timeout_ms=2_000), 7, 1_900) == []
    world.run(200)
    reply = world.broker(0).answers[-1]

    assert _errors(reply) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert world.node(topic_path("absent")) is not None


def test_an_admin_without_time_is_answered_at_once():
    """timeout.ms=0: the nodes are written, the answer is REQUEST_TIMED_OUT (ZkAdminManager.createTopics)."""
    world = ControlWorld(2)
    (reply,) = _asked(world, CreateTopics(topics=(NewTopic(name="t"),), timeout_ms=0), 7, 50)

    assert _errors(reply) == [ErrorCode.REQUEST_TIMED_OUT]
    world.run(200)
    assert world.state("t").leader >= 0


def test_a_topic_keeps_its_id_while_it_grows_and_gets_another_when_it_is_created_again():
    """KIP-516, ``AdminZkClient.writeTopicPartitionAssignment`` (3.4)."""
    world = ControlWorld(2)
    create = CreateTopics(topics=(NewTopic(name="t", num_partitions=1, replication_factor=1),))

    def topic_id() -> str:
        return read_topic_id(world.node(topic_path("t")) or b"{}")

    world.ask(create, 7)
    first = topic_id()
    world.ask(CreatePartitions(topics=(MorePartitions(name="t", count=3),)), 3)
    assert len(read_topic(world.node(topic_path("t")) or b"")) == 3
    assert topic_id() == first != ""
    assert {row.topic_id for row in world.broker(0).metadata.values()} == {first}

    world.ask(DeleteTopics(topic_names=("t",)), 6)
    world.run(200)
    world.ask(create, 7)
    assert topic_id() not in ("", first)


def test_a_topic_grows_from_what_stands_in_the_store():
    """createPartitions reads the assignment: while replicas are added or removed it is refused, and they stay."""
    world = ControlWorld(3, T)
    moving = {0: ReplicaAssignment((0, 1, 2), adding=(2,), removing=(0,)), 1: ReplicaAssignment((1, 2, 0))}
    world.put(topic_path("t"), topic_data(moving))

    reply = world.ask(CreatePartitions(topics=(MorePartitions(name="t", count=3),)), 3)

    assert _errors(reply) == [ErrorCode.REASSIGNMENT_IN_PROGRESS]
    assert read_topic(world.node(topic_path("t")) or b"") == moving


def test_partitions_for_a_topic_that_is_queued_for_deletion_are_refused():
    """KafkaApis.handleCreatePartitionsRequest: INVALID_TOPIC_EXCEPTION; the deletion waits for a failed broker."""
    world = ControlWorld(3, T)
    world.kill(2)
    world.run(SESSION_MS + 1_000)
    world.ask(DeleteTopics(topic_names=("t",)), 6)

    reply = world.ask(CreatePartitions(topics=(MorePartitions(name="t", count=3),)), 3)

    assert _errors(reply) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_deletion_is_answered_when_our_broker_does_not_know_the_topic_any_more():
    """DelayedDeleteTopics; a broker that is down delays the deletion, not the answer."""
    world = ControlWorld(3, T)
    world.kill(2)
    world.run(SESSION_MS + 1_000)

    assert _errors(world.ask(DeleteTopics(topic_names=("t",)), 6)) == [ErrorCode.NONE]
    assert world.broker(0).metadata == {}
    assert world.node(topic_path("t")) is not None


def test_an_election_is_answered_when_our_broker_knows_the_leader():
    """DelayedElectLeader."""
    world = _unclean_case()
    request = ElectLeaders(election_type=UNCLEAN_ELECTION, topic_partitions=(("t", 0),))

    assert _rows(world.ask(request, 2)) == {("t", 0): ErrorCode.NONE}
    assert world.broker(0).metadata["t", 0].leader == 2


@pytest.mark.parametrize(
    "request_",
    [
        CreateTopics(topics=(NewTopic(name="t"),)),
        DeleteTopics(topic_names=("t",)),
        ElectLeaders(topic_partitions=(("t", 0),)),
    ],
)
def test_only_the_controller_answers_admins(request_: Any):
    """NOT_CONTROLLER from every other broker."""
    world = ControlWorld(2)

    reply = world.ask(request_, 2, to=1)

    error = reply.error_code if isinstance(request_, ElectLeaders) else reply.topics[0].error_code
    assert error is ErrorCode.NOT_CONTROLLER


# --- deletion ------------------------------------------------------------------------------------------------------


def test_a_topic_is_deleted():
    """testBasicDeletion, testDeleteTopicWithAllAliveReplicas: all replicas deleted, all nodes gone, no metadata."""
    world = ControlWorld(3, {**T, "u": ((0,),)})

    assert _errors(world.ask(DeleteTopics(topic_names=("t", "nope")), 6)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    world.run(500)

    assert _nodes_of(world, "t") == []
    assert [fact.topic for fact in world.facts(TopicDeleted)] == ["t"]
    assert [world.broker(broker).stopped for broker in world.ids] == [{("t", 0): True, ("t", 1): True}] * 3
    assert all(list(world.broker(broker).metadata) == [("u", 0)] for broker in world.ids)
    assert list(world.active.context.topics) == ["u"]
    assert world.active.context.to_be_deleted == {}


def test_a_deletion_waits_for_a_dead_broker_and_ends_when_it_is_back():
    """testDeletionWithBrokerOffline, testResumeDeleteTopicWithRecoveredFollower."""
    world = ControlWorld(3, T)
    world.kill(2)
    world.run(SESSION_MS + 1_000)

    world.ask(DeleteTopics(topic_names=("t",)), 6)
    world.run(1_000)
    assert world.node(topic_path("t")) is not None
    assert list(world.active.context.ineligible) == ["t"]

    world.revive(2)
    world.run(1_000)
    assert _nodes_of(world, "t") == []
    assert world.broker(2).stopped == {("t", 0): True, ("t", 1): True}


def test_a_broker_that_dies_during_a_deletion_holds_it_up():
    """testBrokerFailureAfterDeletionStarted. Clients no longer know the topic (KafkaApis.handleDeleteTopicsRequest)."""
    world = ControlWorld(3, T)
    world.broker(2).disobey = lambda at, request: (
        ErrorCode.KAFKA_STORAGE_ERROR if isinstance(request, StopReplica) else ErrorCode.NONE
    )
    assert _errors(world.ask(DeleteTopics(topic_names=("t",)), 6)) == [ErrorCode.NONE]
    world.run(300)
    assert list(world.active.context.ineligible) == ["t"]
    assert _errors(world.ask(DeleteTopics(topic_names=("t",)), 6)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.kill(2)
    world.run(SESSION_MS + 1_000)
    assert world.node(topic_path("t")) is not None

    world.revive(2)
    world.run(1_000)
    assert _nodes_of(world, "t") == []


def test_a_new_controller_goes_on_with_a_deletion():
    """testResumeDeleteTopicOnControllerFailover."""
    world = ControlWorld(3, T)
    world.put("/admin/delete_topics/t")
    world.run(6)
    world.kill(0)
    world.run(SESSION_MS + 1_000)
    assert world.node(topic_path("t")) is not None, "a replica is on the dead broker"

    world.revive(0)
    world.run(2_000)

    assert _nodes_of(world, "t") == []
    assert world.active.broker_id != 0


def test_a_topic_is_created_again_after_its_deletion():
    """testRecreateTopicAfterDeletion: leader epochs start at 0 again, under another incarnation."""
    world = ControlWorld(3, T)
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.revive(1)
    world.run(500)
    assert world.state("t", 1).leader_epoch > 0
    world.ask(DeleteTopics(topic_names=("t",)), 6)
    world.run(500)

    world.put_topic("t", (0, 1, 2), (1, 2, 0))
    world.run(300)

    assert world.state("t", 1) == PartitionState(1, 0, (1, 2, 0), 1)
    first, second = world.facts(TopicCreated)
    assert second.incarnation > first.incarnation


def test_a_broker_that_was_out_of_the_cluster_keeps_metadata_of_a_topic_that_was_deleted_meanwhile():
    """UpdateMetadata leaves unnamed topics in the cache (the cause of KAFKA-15799); found by
    ``test_control_any_order``.

    A starting broker gets all existing topics, not the deleted ones; only a new process has an empty cache.
    """
    world = ControlWorld(3, {"t": ((1,),)})
    world.tell("zk", ExpireSession(client="b0/controller"))
    world.put("/admin/delete_topics/t")
    world.run(9_000)

    assert _nodes_of(world, "t") == []
    assert [list(world.broker(broker).metadata) for broker in world.ids] == [[("t", 0)], [], []]

    world.put_topic("t", (2,))
    world.run(200)
    assert [world.broker(broker).metadata["t", 0].leader for broker in world.ids] == [2, 2, 2]


def test_deletion_switched_off_removes_the_request_only():
    """delete.topic.enable=false; KafkaApis 2.8: below version 3 the request itself is called invalid."""
    world = ControlWorld(1, {"t": ((0,),)}, config=ControllerConfig(delete_topic_enable=False))
    world.put("/admin/delete_topics/t")
    world.run(300)

    assert world.node("/admin/delete_topics/t") is None
    assert world.state("t").leader == 0
    assert _errors(world.ask(DeleteTopics(topic_names=("t",)), 3)) == [ErrorCode.TOPIC_DELETION_DISABLED]
    assert _errors(world.ask(DeleteTopics(topic_names=("t",)), 2)) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("fixed", [True, False])
def test_partitions_added_to_a_topic_being_deleted(fixed: bool):
    """KAFKA-6612, testAddPartitionDuringDeleteTopic: the node is restored; without the fix they are created."""
    rules = RULES if fixed else evolve(RULES, deleted_topics_take_no_partitions=False)
    world = ControlWorld(2, {"t": ((0, 1),)}, rules=rules)
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.ask(DeleteTopics(topic_names=("t",)), 6)

    world.put_topic("t", (0, 1), (0, 1))
    world.run(300)

    assert (len(read_topic(world.node(topic_path("t")) or b"")) == 1) is fixed
    assert (("t", 1) in world.broker(0).hosted) is not fixed


# --- elections on request ------------------------------------------------------------------------------------------


def _unclean_case(settings: dict[str, str] | None = None) -> ControlWorld:
    """t-0: b1 is the ISR's only member and has failed, b2 is live."""
    world = ControlWorld(3, {"t": ((1, 2),)}, settings={"t": settings} if settings else None)
    for broker in (2, 1):
        world.kill(broker)
        world.run(SESSION_MS + 1_000)
    world.revive(2)
    world.run(1_000)
    return world


def test_unclean_elections_are_off_by_default():
    """testUncleanLeaderElectionDisabled."""
    world = _unclean_case()

    assert world.state("t").leader == -1
    assert world.state("t").isr == (1,)
    assert world.active.context.offline_partitions == 1


def test_a_topics_own_setting_allows_an_unclean_election():
    """testUncleanLeaderElectionEnabledByTopicOverride."""
    world = _unclean_case({"unclean.leader.election.enable": "true"})

    assert (world.state("t").leader, world.state("t").isr) == (2, (2,))
    assert world.active.context.unclean_elections == 1


def test_a_setting_that_is_changed_later_elects_at_once():
    """testTopicUncleanLeaderElectionEnable (dynamic)."""
    world = _unclean_case()
    key = "unclean.leader.election.enable"
    change = ConfigChange(resource_type=2, resource_name="t", name=key, value="true")
    other = ConfigChange(resource_type=2, resource_name="x", name=key, value=None)

    reply = world.ask(IncrementalAlterConfigs(changes=(change, other)), 1)
    world.run(200)

    assert [row.error_code for row in reply.responses] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (world.state("t").leader, world.state("t").isr) == (2, (2,))


def test_a_setting_that_was_changed_under_a_controller_that_is_gone_counts_for_the_next_one():
    """The setting is in the store, the old controller has not held an election: the failover does."""
    world = _unclean_case()
    assert world.active.broker_id == 0
    world.put(topic_config_path("t"), config_data([("unclean.leader.election.enable", "true")]))
    world.kill(0)
    world.run(SESSION_MS + 2_000)

    assert world.active.broker_id == 2
    assert (world.state("t").leader, world.state("t").isr) == (2, (2,))
    assert world.active.context.unclean_elections == 1


def test_an_admin_may_elect_uncleanly_for_given_partitions():
    """KIP-460, LeaderElectionCommandTest."""
    world = _unclean_case()

    reply = world.ask(ElectLeaders(election_type=UNCLEAN_ELECTION, topic_partitions=(("t", 0), ("u", 0))), 2)

    assert _rows(reply) == {("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ("t", 0): ErrorCode.NONE}
    assert world.state("t").leader == 2
    again = world.ask(ElectLeaders(election_type=UNCLEAN_ELECTION, topic_partitions=(("t", 0),)), 2)
    assert _rows(again) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_an_admins_preferred_election_says_what_became_of_each_partition():
    """KIP-460: not available when the preferred replica is down; "all" omits partitions without need."""
    world = ControlWorld(3, {"t": ((1, 0), (0, 1))})
    world.kill(1)
    world.run(SESSION_MS + 1_000)

    assert _rows(world.ask(ElectLeaders(topic_partitions=None), 2)) == {
        ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


def test_a_preferred_replica_that_leads_needs_no_election():
    """KIP-460: ELECTION_NOT_NEEDED for a partition that is named; the epoch stays."""
    world = ControlWorld(3, {"t": ((1, 0), (0, 1))})

    reply = world.ask(ElectLeaders(topic_partitions=(("t", 1), ("t", 0))), 2)

    assert _rows(reply) == dict.fromkeys([("t", 1), ("t", 0)], ErrorCode.ELECTION_NOT_NEEDED)
    assert [world.state("t", number).leader_epoch for number in (0, 1)] == [0, 0]


def test_a_preferred_replica_that_is_alive_but_not_in_sync_is_not_elected():
    """preferredReplicaPartitionLeaderElection: it must be in the ISR."""
    world = ControlWorld(3, {"t": ((1, 0),)})
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.revive(1)
    world.run(500)
    assert world.state("t") == PartitionState(0, 1, (0,), 1)

    reply = world.ask(ElectLeaders(topic_partitions=(("t", 0),)), 2)

    assert _rows(reply) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_what_an_admin_names_wrongly_is_told_in_kafkas_order():
    """ZkAdminManager.createTopics: counts and placement are checked before the name; failed brokers may be named."""
    world = ControlWorld(2)
    request = CreateTopics(
        topics=(
            NewTopic(name="bad name", num_partitions=0, replication_factor=1),
            NewTopic(name="bad name!", assignments=((1, 1),)),
            NewTopic(name="dead", assignments=((7, 0),)),
        )
    )

    assert _errors(world.ask(request, 7)) == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert world.state("dead").leader == 0


# --- past bugs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fixed", [True, False])
def test_a_former_sessions_registration_that_lingers(fixed: bool):
    """KAFKA-7165: the broker removes its own old registration and registers; without the fix it stays unregistered."""
    rules = RULES if fixed else evolve(RULES, registers_over_own_former_session=False)
    world = ControlWorld(2, {"t": ((0, 1),)}, rules=rules)
    world.tell("zk", ExpireSession(client="b1/controller", linger_us=5_000_000))
    world.run(9_000)

    assert len(world.facts(BrokerRegistered, "b1/controller")) == (2 if fixed else 1)
    assert (world.node(broker_path(1)) is not None) is fixed
    assert (1 in world.active.context.live) is fixed


@pytest.mark.parametrize("fixed", [True, False])
def test_admin_requests_that_wait_when_the_controller_goes(fixed: bool):
    """KAFKA-10193, testPreemptionOnControllerShutdown: NOT_CONTROLLER; without the fix no answer."""
    rules = RULES if fixed else evolve(RULES, answers_preempted=False)
    world = ControlWorld(2, {"t": ((0, 1),)}, rules=rules)
    world.tell("zk", FreezeSession(client="b0/controller", for_us=500_000))
    for _ in range(2):
        world.tell("b1", ("b0/controller", DeleteTopics(topic_names=("t",)), 6))
    world.run(50)

    world.tell("b0", ("b0/controller", LeaveStore(), 0))
    world.run(1_000)

    assert len(world.broker(1).answers) == (2 if fixed else 0)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_broker_that_dies_with_the_controller(fixed: bool):
    """KAFKA-3143: the new controller removes it from the ISRs; without the fix it stays in them."""
    rules = RULES if fixed else evolve(RULES, failover_takes_offline_replicas_out=False)
    world = ControlWorld(3, {"t": ((1, 2),)}, rules=rules)
    world.kill(0)
    world.kill(2)
    world.run(SESSION_MS + 2_000)

    assert world.active.broker_id == 1
    assert (2 in world.state("t").isr) is not fixed


@pytest.mark.parametrize("fixed", [True, False])
def test_who_lives_is_said_before_whom_to_follow(fixed: bool):
    """KAFKA-4443: otherwise a starting broker does not follow a leader that it does not know."""
    rules = RULES if fixed else evolve(RULES, metadata_before_leadership=False)
    world = ControlWorld(3, {"t": ((1, 2),)}, rules=rules)
    world.kill(2)
    world.run(SESSION_MS + 1_000)
    world.revive(2)
    world.run(1_000)

    assert (("t", 0) in world.broker(2).hosted) is fixed
    assert any(isinstance(request, LeaderAndIsr) for request in world.broker(2).heard)
