"""What controller and brokers say to each other in the ZooKeeper era, and what admins ask the controller.

Partition states are rows that name their topic (as the first versions of these requests did); later versions of Kafka
group them by topic, which changes bytes, not meaning. Field names are Kafka's.

Who may speak to whom: LeaderAndIsr, StopReplica and UpdateMetadata go from a broker's controller actor
(``b2/controller``) to brokers (``b0``); ControlledShutdown and the admin requests go to the controller actor of the
active controller; AlterIsr goes to it from leaders; OffsetForLeaderEpoch goes from followers (to 2.6) to leaders.

Fences, who carries them and who checks them:

* ``controller_epoch``: a broker refuses one lower than it knows (STALE_CONTROLLER_EPOCH), else adopts it.
* ``broker_epoch``: a broker refuses one lower than its own (STALE_BROKER_EPOCH), accepts a newer one (KIP-380).
* ``leader_epoch`` per partition: LeaderAndIsr needs a higher one than the broker has; StopReplica see there.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since, struct

NO_LEADER = -1
"""Leader of a partition that has none at the moment."""
LEADER_DURING_DELETE = -2
"""Leader in UpdateMetadata of a partition whose topic is being deleted."""
NO_TOPIC_ID = 0
"""Topic id of a request that is too old to carry one, and of a log that never heard of one."""
NO_EPOCH = -1
"""Leader epoch in StopReplica: no leadership is known (or the request is too old to carry one)."""
EPOCH_DURING_DELETE = -2
"""Leader epoch in StopReplica of a topic queued for deletion: always accepted."""
UNKNOWN_BROKER_EPOCH = -1


# --- leaders and in-sync replicas ----------------------------------------------------------------------------------


@struct
class LeaderAndIsrPartition:
    """One partition's leadership as decided under ``controller_epoch`` (the epoch of the decision, not the sender's).

    ``zk_version``: version of the partition's state node, which the leader needs to change the ISR.
    ``is_new``: the replica has no log yet; without it, a broker with a failed directory must not create one.
    ``topic_id``: of this topic and no other of its name (KIP-516); here the store's zxid that created its node, where
    Kafka writes a random UUID into that node, and names it once for all partitions of a topic.
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
    topic_id: int = since(5, default=NO_TOPIC_ID, ignorable=True)


@struct
class LiveLeader:
    """A broker that leads one of the partitions of the request, and its address (actor name)."""

    broker_id: int
    host_name: str


@message(api_key=4, kind=REQUEST, versions=range(0, 6))
class LeaderAndIsr:
    """Controller -> broker: lead or follow these partitions.

    The first one after a broker's start holds everything it hosts. Source: LeaderAndIsrRequest.json, Kafka 2.8;
    the broker epoch since v2 (KIP-380), adding and removing replicas since v3 (KIP-455), topic ids since v5 (KIP-516).
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int = since(2, default=UNKNOWN_BROKER_EPOCH, ignorable=True)
    partition_states: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[LiveLeader, ...]


@struct
class PartitionOutcome:
    """What became of one partition of a control request."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode


@message(api_key=4, kind=REPLY, versions=range(0, 6))
class LeaderAndIsrReply:
    """``error_code`` other than NONE: nothing was done. A row per partition of the request otherwise."""

    error_code: ErrorCode
    partition_errors: tuple[PartitionOutcome, ...]


# --- replicas that stop --------------------------------------------------------------------------------------------


@struct
class StopReplicaPartition:
    """One replica to stop. ``leader_epoch``: accepted when newer than the broker's, or -1 or -2 (KIP-570)."""

    topic_name: str
    partition_index: int
    leader_epoch: int = since(3, default=NO_EPOCH, ignorable=True)
    delete_partition: bool = since(3, default=False, ignorable=True)


@message(api_key=5, kind=REQUEST, versions=range(0, 4))
class StopReplica:
    """Controller -> broker: stop fetching and serving these; with ``delete_partition`` remove their logs, too.

    Before v3 ``delete_partitions`` holds for the whole request and there are no leader epochs.
    Source: StopReplicaRequest.json, Kafka 2.8.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int = since(1, default=UNKNOWN_BROKER_EPOCH, ignorable=True)
    delete_partitions: bool = since(0, until=2, default=False, ignorable=True)
    partition_states: tuple[StopReplicaPartition, ...]


@message(api_key=5, kind=REPLY, versions=range(0, 4))
class StopReplicaReply:
    """``error_code`` other than NONE: nothing was done. A replica that is not there counts as stopped."""

    error_code: ErrorCode
    partition_errors: tuple[PartitionOutcome, ...]


# --- what every broker knows ---------------------------------------------------------------------------------------


@struct
class UpdateMetadataPartition:
    """One partition as brokers tell clients of it. ``leader`` -2: its topic is being deleted.

    ``topic_id``: as in ``LeaderAndIsrPartition``.
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
    topic_id: int = since(7, default=NO_TOPIC_ID, ignorable=True)


@struct
class UpdateMetadataBroker:
    """A live broker: id, address (actor name), rack."""

    id: int
    host: str
    rack: str | None = since(2, default=None, ignorable=True)


@message(api_key=6, kind=REQUEST, versions=range(0, 8))
class UpdateMetadata:
    """Controller -> broker: the live brokers, all of them, and what changed about partitions.

    Source: UpdateMetadataRequest.json, Kafka 2.8.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int = since(5, default=UNKNOWN_BROKER_EPOCH, ignorable=True)
    partition_states: tuple[UpdateMetadataPartition, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@message(api_key=6, kind=REPLY, versions=range(0, 8))
class UpdateMetadataReply:
    """NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH."""

    error_code: ErrorCode


# --- in-sync replicas ----------------------------------------------------------------------------------------------

RECOVERED = 0
"""The leader has everything that was committed. (After an unclean election Kafka's says 1 until it has recovered.)"""


@struct
class NewIsr:
    """A partition's new ISR as its leader wants it, decided under ``leader_epoch``.

    ``current_isr_version``: the version of the state node that the leader knows (``partition_epoch`` since 3.2).
    """

    topic_name: str
    partition_index: int
    leader_epoch: int
    new_isr: tuple[int, ...]
    leader_recovery_state: int = since(1, default=RECOVERED, ignorable=True)
    current_isr_version: int


@message(api_key=56, kind=REQUEST, versions=range(0, 3))
class AlterIsr:
    """Leader -> controller: change the ISRs of partitions that I lead. Called AlterPartition since Kafka 3.2.

    Source: KIP-497; AlterIsrRequest.json of Kafka 2.7 (v0), AlterPartitionRequest.json of 3.2 (v1, KIP-704) and 3.3
    (v2: topic ids in place of names, which are names here as everywhere; INELIGIBLE_REPLICA in answers).
    """

    broker_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    partitions: tuple[NewIsr, ...]


@struct
class AlteredIsr:
    """What became of one: with NONE the partition's state as the controller has it now, the change in it."""

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
    """``error_code`` other than NONE (NOT_CONTROLLER, STALE_BROKER_EPOCH): nothing was done. Else a row each."""

    error_code: ErrorCode
    partitions: tuple[AlteredIsr, ...] = ()


# --- leaving -------------------------------------------------------------------------------------------------------


@message(api_key=7, kind=REQUEST, versions=range(0, 4))
class ControlledShutdown:
    """Broker -> controller: move what I lead elsewhere, I want to stop. Source: ControlledShutdownRequest.json."""

    broker_id: int
    broker_epoch: int = since(2, default=UNKNOWN_BROKER_EPOCH, ignorable=True)


@struct
class RemainingPartition:
    """A partition the broker still leads."""

    topic_name: str
    partition_index: int


@message(api_key=7, kind=REPLY, versions=range(0, 4))
class ControlledShutdownReply:
    """Done when the error is NONE and nothing remains."""

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...]


# --- truncation by leader epoch ------------------------------------------------------------------------------------


@struct
class EpochQuestion:
    """Where does ``leader_epoch`` end in this partition? ``current_leader_epoch``: the asker's, for fencing."""

    topic: str
    partition: int
    current_leader_epoch: int = since(2, default=-1, ignorable=True)
    leader_epoch: int


@message(api_key=23, kind=REQUEST, versions=range(0, 5))
class OffsetForLeaderEpoch:
    """Follower (to 2.6; or, ``replica_id`` -1, consumer) -> leader. Source: KIP-101, KIP-279 (v1), KIP-320 (v2)."""

    replica_id: int = since(3, default=-2, ignorable=True)
    questions: tuple[EpochQuestion, ...]


@struct
class EpochEnd:
    """The largest epoch of the leader not above the one asked for, and the offset where it ends; -1: undefined."""

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = since(1, default=-1, ignorable=True)
    end_offset: int = -1


@message(api_key=23, kind=REPLY, versions=range(0, 5))
class OffsetForLeaderEpochReply:
    """One row per question."""

    answers: tuple[EpochEnd, ...]


# --- admins --------------------------------------------------------------------------------------------------------


@struct
class TopicConfigEntry:
    """A topic's own setting, by Kafka's key (``min.insync.replicas``)."""

    name: str
    value: str


@struct
class NewTopic:
    """A topic to create. ``assignments``: the replicas of each partition, or () to have them placed."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, ...], ...] = ()
    configs: tuple[TopicConfigEntry, ...] = ()


@message(api_key=19, kind=REQUEST, versions=range(0, 8))
class CreateTopics:
    """Admin -> controller. Source: CreateTopicsRequest.json, Kafka 2.8."""

    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000


@struct
class TopicOutcome:
    """What became of one topic of an admin request."""

    name: str
    error_code: ErrorCode
    error_message: str | None = None


@message(api_key=19, kind=REPLY, versions=range(0, 8))
class CreateTopicsReply:
    """One row per topic. The nodes are in the store when this is said; leaders follow."""

    topics: tuple[TopicOutcome, ...]


@message(api_key=20, kind=REQUEST, versions=range(0, 7))
class DeleteTopics:
    """Admin -> controller. Source: DeleteTopicsRequest.json, Kafka 2.8."""

    topic_names: tuple[str, ...]
    timeout_ms: int = 60_000


@message(api_key=20, kind=REPLY, versions=range(0, 7))
class DeleteTopicsReply:
    """One row per topic: NONE when the deletion is queued."""

    topics: tuple[TopicOutcome, ...]


@struct
class MorePartitions:
    """A topic's new number of partitions. ``assignments``: replicas of each new one, or () to have them placed."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] = ()


@message(api_key=37, kind=REQUEST, versions=range(0, 4))
class CreatePartitions:
    """Admin -> controller. Source: CreatePartitionsRequest.json, Kafka 2.8."""

    topics: tuple[MorePartitions, ...]
    timeout_ms: int = 60_000


@message(api_key=37, kind=REPLY, versions=range(0, 4))
class CreatePartitionsReply:
    """One row per topic."""

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
    """A row per partition; when all were asked for, those for which no election was needed are left out."""

    error_code: ErrorCode = since(1, default=ErrorCode.NONE, ignorable=True)
    replica_election_results: tuple[PartitionOutcome, ...]


@struct
class NewReplicas:
    """Where a partition is to be; ``replicas`` None: its reassignment is cancelled."""

    topic_name: str
    partition_index: int
    replicas: tuple[int, ...] | None


@message(api_key=45, kind=REQUEST, versions=range(0, 1))
class AlterPartitionReassignments:
    """Admin -> controller: move partitions to other brokers, or stop moving them. Source: KIP-455."""

    timeout_ms: int = 60_000
    partitions: tuple[NewReplicas, ...]


@struct
class ReassignmentOutcome:
    """One partition's: NONE when it is on its way."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None


@message(api_key=45, kind=REPLY, versions=range(0, 1))
class AlterPartitionReassignmentsReply:
    """A row per partition; one that is refused does not stop the others."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: tuple[ReassignmentOutcome, ...]


@message(api_key=46, kind=REQUEST, versions=range(0, 2))
class ListPartitionReassignments:
    """Admin -> controller: what is being moved, of these partitions or (None) of all. Source: KIP-455."""

    timeout_ms: int = 60_000
    topic_partitions: tuple[tuple[str, int], ...] | None


@struct
class OngoingReassignment:
    """A partition on its way: its replicas now, those that are still to come and those that are still to go."""

    topic_name: str
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@struct
class CurrentBatch:
    """The step of a partition that runs: from these brokers to those (KIP-435)."""

    topic_name: str
    partition_index: int
    current_brokers: tuple[int, ...]
    target_brokers: tuple[int, ...]


@struct
class WaitingReassignment:
    """Why a partition on its way is not there yet: a ``WaitReason``, and in words."""

    topic_name: str
    partition_index: int
    reason: str
    why: str


@message(api_key=46, kind=REPLY, versions=range(0, 2))
class ListPartitionReassignmentsReply:
    """Version 0 is KIP-455's as shipped.

    KIP-435 meant to come with it, and so to add ``current_batch`` without a version of its own (its page calls two
    fields ``Topics``); here version 1 has it, and, which no page has, what each partition waits for.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[OngoingReassignment, ...]
    current_batch: tuple[CurrentBatch, ...] = since(1, default=(), ignorable=True)
    waiting: tuple[WaitingReassignment, ...] = since(1, default=(), ignorable=True)


@struct
class ConfigChange:
    """A setting that changes: a value, or None to remove it. ``resource_type``: see ``ConfigResource``.

    ``resource_name``: a topic, or "" for the settings of all brokers.
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@message(api_key=44, kind=REQUEST, versions=range(0, 2))
class IncrementalAlterConfigs:
    """Admin -> any broker: set or remove settings. Source: KIP-339; Kafka 2.8 ``KafkaApis`` (nothing is forwarded)."""

    changes: tuple[ConfigChange, ...]


@struct
class ConfigOutcome:
    """What became of the changes of one resource: all or none."""

    resource_type: int
    resource_name: str
    error_code: ErrorCode
    error_message: str | None = None


@message(api_key=44, kind=REPLY, versions=range(0, 2))
class IncrementalAlterConfigsReply:
    """One row per resource, in the order they were first named. The store has the settings when this is said."""

    responses: tuple[ConfigOutcome, ...]
