"""Messages between controller and brokers in the ZooKeeper era, and admin requests to the controller.

Partition states are rows that name their topic, as in the first versions of these requests. Later versions of Kafka
group the rows by topic, which changes bytes, not meaning. Field names are Kafka's.

Senders and receivers: a broker's controller actor (``b2/controller``) sends LeaderAndIsr, StopReplica and
UpdateMetadata to brokers (``b0``). The active controller's actor receives ControlledShutdown, the admin requests, and
AlterIsr from leaders. A follower (up to 2.6) sends OffsetForLeaderEpoch to its leader.

Fences:

* ``controller_epoch``: a broker refuses an epoch below its known epoch (STALE_CONTROLLER_EPOCH), and adopts any other.
* ``broker_epoch``: a broker refuses an epoch below its own (STALE_BROKER_EPOCH), and accepts a newer epoch (KIP-380).
* ``leader_epoch`` per partition: LeaderAndIsr needs a higher epoch than the broker's. The rule for StopReplica is in
  ``StopReplicaPartition``.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since, struct

NO_LEADER = -1
"""The leader of a partition that has no leader at the moment."""
LEADER_DURING_DELETE = -2
"""The leader in UpdateMetadata of a partition whose topic is being deleted."""
NO_TOPIC_ID = ""
"""The topic id in a request that is too old for topic ids, and of a log without a topic id."""
NO_EPOCH = -1
"""The leader epoch in StopReplica without a known leadership, or in a version without leader epochs."""
EPOCH_DURING_DELETE = -2
"""The leader epoch in StopReplica of a topic queued for deletion; brokers always accept it."""
UNKNOWN_BROKER_EPOCH = -1


# --- leaders and in-sync replicas ----------------------------------------------------------------------------------


@struct
class LeaderAndIsrPartition:
    """One partition's leadership. ``controller_epoch``: the epoch of the decision, not the sender's epoch.

    ``zk_version``: the version of the partition's state node, which the leader needs to change the ISR.
    ``is_new``: the replica has no log yet. If False, a broker with a failed directory must not create a log.
    ``topic_id``: the UUID in the topic's node, which distinguishes topics of the same name (KIP-516). Kafka sends the
    id once for all partitions of a topic.
    """

    topic_name: str
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = since(3, default=(), ignorable=True)
    removing_replicas: tuple[int, ...] = since(3, default=(), ignorable=True)
    is_new: bool = since(1, default=False, ignorable=True)
    topic_id: str = since(5, default=NO_TOPIC_ID, ignorable=True)


@struct
class LiveLeader:
    """A broker that leads a partition of the request, and the broker's address (actor name)."""

    broker_id: int
    host_name: str


@message(api_key=4, kind=REQUEST, versions=range(0, 6))
class LeaderAndIsr:
    """Controller -> broker: lead or follow these partitions.

    The first request after a broker's start names all partitions of the broker. Source: LeaderAndIsrRequest.json,
    Kafka 2.8; broker epoch since v2 (KIP-380), adding and removing replicas since v3 (KIP-455), topic ids since v5
    (KIP-516).
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int = since(2, default=UNKNOWN_BROKER_EPOCH, ignorable=True)
    partition_states: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[LiveLeader, ...]


@struct
class PartitionOutcome:
    """The result for one partition of a control request."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode


@message(api_key=4, kind=REPLY, versions=range(0, 6))
class LeaderAndIsrReply:
    """The reply to LeaderAndIsr: one row per partition. With another ``error_code`` than NONE the request had no
    effect.
    """

    error_code: ErrorCode
    partition_errors: tuple[PartitionOutcome, ...]


# --- replicas that stop --------------------------------------------------------------------------------------------


@struct
class StopReplicaPartition:
    """One replica to stop. A broker accepts ``leader_epoch`` if it is newer than its own epoch, or -1, or
    -2 (KIP-570).
    """

    topic_name: str
    partition_index: int
    leader_epoch: int = since(3, default=NO_EPOCH, ignorable=True)
    delete_partition: bool = since(3, default=False, ignorable=True)


@message(api_key=5, kind=REQUEST, versions=range(0, 4))
class StopReplica:
    """Controller -> broker: stop fetching and serving these replicas; with ``delete_partition`` also delete their logs.

    Before v3 ``delete_partitions`` applies to the whole request, and the request has no leader epochs.
    Source: StopReplicaRequest.json, Kafka 2.8.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int = since(1, default=UNKNOWN_BROKER_EPOCH, ignorable=True)
    delete_partitions: bool = since(0, until=2, default=False, ignorable=True)
    partition_states: tuple[StopReplicaPartition, ...]


@message(api_key=5, kind=REPLY, versions=range(0, 4))
class StopReplicaReply:
    """The reply to StopReplica. With another ``error_code`` than NONE the request had no effect. A missing replica is
    reported as stopped.
    """

    error_code: ErrorCode
    partition_errors: tuple[PartitionOutcome, ...]


# --- what every broker knows ---------------------------------------------------------------------------------------


@struct
class UpdateMetadataPartition:
    """One partition's metadata for clients. ``leader`` -2: the partition's topic is being deleted.

    ``topic_id``: the id in ``LeaderAndIsrPartition``.
    """

    topic_name: str
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = since(4, default=(), ignorable=True)
    topic_id: str = since(7, default=NO_TOPIC_ID, ignorable=True)


@struct
class UpdateMetadataBroker:
    """A live broker: its id, address (actor name) and rack."""

    id: int
    host: str
    rack: str | None = since(2, default=None, ignorable=True)


@message(api_key=6, kind=REQUEST, versions=range(0, 8))
class UpdateMetadata:
    """Controller -> broker: all live brokers, and the changes of partitions.

    Source: UpdateMetadataRequest.json, Kafka 2.8.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int = since(5, default=UNKNOWN_BROKER_EPOCH, ignorable=True)
    partition_states: tuple[UpdateMetadataPartition, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@message(api_key=6, kind=REPLY, versions=range(0, 8))
class UpdateMetadataReply:
    """The reply to UpdateMetadata: NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH."""

    error_code: ErrorCode


# --- in-sync replicas ----------------------------------------------------------------------------------------------

RECOVERED = 0
"""The leader has all committed records. Kafka's leaders send 1 after an unclean election, until they have recovered."""


@struct
class NewIsr:
    """The new ISR that a partition's leader proposes under ``leader_epoch``.

    ``current_isr_version``: the leader's version of the state node (``partition_epoch`` since 3.2).
    """

    topic_name: str
    partition_index: int
    leader_epoch: int
    new_isr: tuple[int, ...]
    leader_recovery_state: int = since(1, default=RECOVERED, ignorable=True)
    current_isr_version: int


@message(api_key=56, kind=REQUEST, versions=range(0, 3))
class AlterIsr:
    """Leader -> controller: change the ISRs of partitions that this broker leads. Kafka 3.2 renamed the request
    AlterPartition.

    Source: KIP-497; AlterIsrRequest.json of Kafka 2.7 (v0), AlterPartitionRequest.json of 3.2 (v1, KIP-704) and 3.3
    (v2: topic ids in place of names; INELIGIBLE_REPLICA in answers). In kemu all versions have topic names.
    """

    broker_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    partitions: tuple[NewIsr, ...]


@struct
class AlteredIsr:
    """The result for one partition: with NONE the partition's new state, which includes the change."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = since(1, default=RECOVERED, ignorable=True)
    current_isr_version: int = -1


@message(api_key=56, kind=REPLY, versions=range(0, 3))
class AlterIsrReply:
    """The reply to AlterIsr: one row per partition. With NOT_CONTROLLER or STALE_BROKER_EPOCH as ``error_code`` the
    request had no effect.
    """

    error_code: ErrorCode
    partitions: tuple[AlteredIsr, ...] = ()


# --- leaving -------------------------------------------------------------------------------------------------------


@message(api_key=7, kind=REQUEST, versions=range(0, 4))
class ControlledShutdown:
    """Broker -> controller: move leaderships to other brokers before this broker stops.

    Source: ControlledShutdownRequest.json.
    """

    broker_id: int
    broker_epoch: int = since(2, default=UNKNOWN_BROKER_EPOCH, ignorable=True)


@struct
class RemainingPartition:
    """A partition that the broker still leads."""

    topic_name: str
    partition_index: int


@message(api_key=7, kind=REPLY, versions=range(0, 4))
class ControlledShutdownReply:
    """The reply to ControlledShutdown. The shutdown is complete if the error is NONE and no partition remains."""

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...]


# --- truncation by leader epoch ------------------------------------------------------------------------------------


@struct
class EpochQuestion:
    """A request for the end of ``leader_epoch`` in a partition. ``current_leader_epoch``: the sender's epoch, for
    fencing.
    """

    topic: str
    partition: int
    current_leader_epoch: int = since(2, default=-1, ignorable=True)
    leader_epoch: int


@message(api_key=23, kind=REQUEST, versions=range(0, 5))
class OffsetForLeaderEpoch:
    """Follower (up to 2.6) or consumer (``replica_id`` -1) -> leader: request the end offsets of epochs. Source:
    KIP-101, KIP-279 (v1), KIP-320 (v2).
    """

    replica_id: int = since(3, default=-2, ignorable=True)
    questions: tuple[EpochQuestion, ...]


@struct
class EpochEnd:
    """The leader's largest epoch that is not above the requested epoch, and its end offset; -1: undefined."""

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = since(1, default=-1, ignorable=True)
    end_offset: int = -1


@message(api_key=23, kind=REPLY, versions=range(0, 5))
class OffsetForLeaderEpochReply:
    """The reply to OffsetForLeaderEpoch: one row per requested epoch."""

    answers: tuple[EpochEnd, ...]


# --- admins --------------------------------------------------------------------------------------------------------


@struct
class TopicConfigEntry:
    """A topic's own setting, by Kafka's key (``min.insync.replicas``). A controller refuses a setting without value."""

    name: str
    value: str | None


@struct
class NewTopic:
    """A topic to create. ``assignments``: the replicas of each partition; (): the controller places the replicas."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, ...], ...] = ()
    configs: tuple[TopicConfigEntry, ...] = ()


@message(api_key=19, kind=REQUEST, versions=range(0, 8))
class CreateTopics:
    """Admin -> controller: create topics, or (``validate_only``) only check whether they could be created.

    Source: CreateTopicsRequest.json, Kafka 2.8.
    """

    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = since(1, default=False)


@struct
class TopicOutcome:
    """The result for one topic of an admin request."""

    name: str
    error_code: ErrorCode
    error_message: str | None = None


@message(api_key=19, kind=REPLY, versions=range(0, 8))
class CreateTopicsReply:
    """The reply to CreateTopics: one row per topic. The topic's nodes are in the store; leaders are elected later."""

    topics: tuple[TopicOutcome, ...]


@message(api_key=20, kind=REQUEST, versions=range(0, 7))
class DeleteTopics:
    """Admin -> controller: delete topics. Source: DeleteTopicsRequest.json, Kafka 2.8."""

    topic_names: tuple[str, ...]
    timeout_ms: int = 60_000


@message(api_key=20, kind=REPLY, versions=range(0, 7))
class DeleteTopicsReply:
    """The reply to DeleteTopics: one row per topic, NONE when the deletion is queued."""

    topics: tuple[TopicOutcome, ...]


@struct
class MorePartitions:
    """A topic's new number of partitions. ``assignments``: the replicas of each new partition; (): the controller
    places the replicas.
    """

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] = ()


@message(api_key=37, kind=REQUEST, versions=range(0, 4))
class CreatePartitions:
    """Admin -> controller: add partitions to topics. Source: CreatePartitionsRequest.json, Kafka 2.8."""

    topics: tuple[MorePartitions, ...]
    timeout_ms: int = 60_000


@message(api_key=37, kind=REPLY, versions=range(0, 4))
class CreatePartitionsReply:
    """The reply to CreatePartitions: one row per topic."""

    topics: tuple[TopicOutcome, ...]


PREFERRED_ELECTION = 0
UNCLEAN_ELECTION = 1


@message(api_key=43, kind=REQUEST, versions=range(0, 3))
class ElectLeaders:
    """Admin -> controller: elect the preferred leader, or (v1+) any live replica. ``None`` = all partitions.

    Source: KIP-460.
    """

    election_type: int = since(1, default=PREFERRED_ELECTION)
    topic_partitions: tuple[tuple[str, int], ...] | None
    timeout_ms: int = 60_000


@message(api_key=43, kind=REPLY, versions=range(0, 3))
class ElectLeadersReply:
    """The reply to ElectLeaders: one row per partition. After a request for all partitions, the reply omits partitions
    that needed no election.
    """

    error_code: ErrorCode = since(1, default=ErrorCode.NONE, ignorable=True)
    replica_election_results: tuple[PartitionOutcome, ...]


@struct
class NewReplicas:
    """A partition's new replicas; None: cancel its reassignment."""

    topic_name: str
    partition_index: int
    replicas: tuple[int, ...] | None


@message(api_key=45, kind=REQUEST, versions=range(0, 1))
class AlterPartitionReassignments:
    """Admin -> controller: move partitions to other brokers, or cancel their reassignments. Source: KIP-455."""

    timeout_ms: int = 60_000
    partitions: tuple[NewReplicas, ...]


@struct
class ReassignmentOutcome:
    """The result for one partition: NONE when its reassignment has started."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None


@message(api_key=45, kind=REPLY, versions=range(0, 1))
class AlterPartitionReassignmentsReply:
    """The reply to AlterPartitionReassignments: one row per partition. A refused row does not affect other rows."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: tuple[ReassignmentOutcome, ...]


@message(api_key=46, kind=REQUEST, versions=range(0, 2))
class ListPartitionReassignments:
    """Admin -> controller: list the reassignments of these partitions, or (None) all reassignments. Source: KIP-455."""

    timeout_ms: int = 60_000
    topic_partitions: tuple[tuple[str, int], ...] | None


@struct
class OngoingReassignment:
    """A partition being reassigned: its present replicas, and the replicas still to be added and removed."""

    topic_name: str
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@struct
class CurrentBatch:
    """The running step of a partition's reassignment: the replicas before and after the step (KIP-435)."""

    topic_name: str
    partition_index: int
    current_brokers: tuple[int, ...]
    target_brokers: tuple[int, ...]


@struct
class WaitingReassignment:
    """The reason why a partition's reassignment waits: a ``WaitReason`` and a text."""

    topic_name: str
    partition_index: int
    reason: str
    why: str


@message(api_key=46, kind=REPLY, versions=range(0, 2))
class ListPartitionReassignmentsReply:
    """The reply to ListPartitionReassignments. Version 0 is KIP-455's; version 1 adds ``current_batch`` and
    ``waiting``.

    KIP-435's page adds ``current_batch`` without a new version, and calls two fields ``Topics``. The field
    ``waiting`` is kemu's own.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[OngoingReassignment, ...]
    current_batch: tuple[CurrentBatch, ...] = since(1, default=(), ignorable=True)
    waiting: tuple[WaitingReassignment, ...] = since(1, default=(), ignorable=True)


@struct
class ConfigChange:
    """A changed setting: a value, or None to remove the setting. ``resource_type``: a ``ConfigResource``.

    ``resource_name``: a topic, or "" for the settings of all brokers.
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@message(api_key=44, kind=REQUEST, versions=range(0, 2))
class IncrementalAlterConfigs:
    """Admin -> any broker: set or remove settings. Source: KIP-339; Kafka 2.8 ``KafkaApis``, which forwards nothing."""

    changes: tuple[ConfigChange, ...]


@struct
class ConfigOutcome:
    """The result of all changes of one resource: all changes succeed, or none."""

    resource_type: int
    resource_name: str
    error_code: ErrorCode
    error_message: str | None = None


@message(api_key=44, kind=REPLY, versions=range(0, 2))
class IncrementalAlterConfigsReply:
    """The reply to IncrementalAlterConfigs: one row per resource, in the order of the request. The settings are in the
    store.
    """

    responses: tuple[ConfigOutcome, ...]


@struct
class ConfigsToDescribe:
    """A resource, and the names of the requested settings; None: all settings. ``resource_type``: a
    ``ConfigResource``.
    """

    resource_type: int
    resource_name: str
    names: tuple[str, ...] | None


@message(api_key=32, kind=REQUEST, versions=range(1, 5))
class DescribeConfigs:
    """Admin -> broker: describe the settings of topics and brokers. Source: KIP-133;
    DescribeConfigsRequest.json, Kafka 4.0.
    """

    resources: tuple[ConfigsToDescribe, ...]
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False, ignorable=True)


@struct
class DescribedConfig:
    """A setting. ``source``: the number of a ``DescribeConfigsResponse.ConfigSource`` (5: Kafka's default)."""

    name: str
    value: str | None
    read_only: bool = False
    source: int = -1
    is_sensitive: bool = False


@struct
class DescribedConfigs:
    """The settings of one resource; none with an error."""

    error_code: ErrorCode
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribedConfig, ...] = ()


@message(api_key=32, kind=REPLY, versions=range(1, 5))
class DescribeConfigsReply:
    """The reply to DescribeConfigs: one row per resource, without synonyms and documentation."""

    results: tuple[DescribedConfigs, ...]


@message(api_key=60, kind=REQUEST, versions=range(0, 1))
class DescribeCluster:
    """Admin -> any broker: describe the live brokers and the controller. Source: KIP-700."""


@struct
class DescribedBroker:
    """A live broker: its id, address (actor name) and rack."""

    broker_id: int
    host: str
    rack: str | None = None


@message(api_key=60, kind=REPLY, versions=range(0, 1))
class DescribeClusterReply:
    """The answering broker's view of the cluster. ``controller_id`` -1: unknown."""

    error_code: ErrorCode
    error_message: str | None = None
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribedBroker, ...] = ()
