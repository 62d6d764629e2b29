"""Orders to an actor from outside the protocol: by the start of its host, a workload, a test or a tool."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.values import value

ENFORCED = "rebalance enforced by user"
"""The default reason of ``enforceRebalance()``. Source: ``KafkaConsumer``, KIP-800."""


@value
class Start:
    """The process starts. Only the ``Loaded`` events with the content of its disk precede this first event."""


@value
class HoursPass:
    """The cluster has run without disturbance for hours, so that periodic work is at a random point of its interval."""


@value
class Close:
    """Close cleanly (``consumer.close()``): commit, callbacks, LeaveGroup for dynamic members; then send
    nothing more.
    """


@value
class OpenConnection:
    """Real client: a TCP connection of this name was accepted.

    ``client_id``: of its first request. ``broker``: at whose port; "" for a scripted client.
    """

    connection: str
    client_id: str
    broker: str = ""


@value
class AskOn:
    """Real client: the client sent a request, of this connection, to this actor. ``request``: as sealed bytes."""

    connection: str
    to: str
    request: bytes


@value
class CloseConnection:
    """Real client: the TCP connection is closed."""

    connection: str


@value
class NameClient:
    """Coordinator: the client id of an actor, a real client's connection. New member ids begin with the client id."""

    client: str
    client_id: str


@value
class Subscribe:
    """Consumer: subscribe to these topics, in any order, or to all topics that match a pattern.

    The member matches ``pattern``, the brokers match ``regex``.
    """

    topics: tuple[str, ...]
    pattern: str = ""
    regex: str = ""


@value
class Unsubscribe:
    """Consumer: ``consumer.unsubscribe()``."""


@value
class PausePartitions:
    """Consumer: call ``pause()`` for the assigned partitions of the list."""

    partitions: tuple[tuple[str, int], ...]


@value
class ResumePartitions:
    """Consumer: call ``resume()`` for the assigned partitions of the list."""

    partitions: tuple[tuple[str, int], ...]


@value
class Seek:
    """Consumer: call ``seek()`` with this offset, if the partition is assigned to the consumer."""

    topic: str
    partition: int
    offset: int


@value
class EnforceRebalance:
    """Consumer: call ``enforceRebalance(reason)``, if subscribed (KIP-800); the default is Kafka's standard reason."""

    reason: str = ENFORCED


@value
class AssignNow:
    """Consumer: run the assignor again if the consumer is still the leader; the assignor's missing data has arrived."""


@value
class ReadPartitions:
    """Consumer without a subscription: ``assign()`` exactly these (topic, partition, offset to read from).

    A partition that is already read up to at least this offset continues from its position. The consumer calls
    ``seek()`` for the other partitions. A running poll() returns no records.
    """

    partitions: tuple[tuple[str, int, int], ...]


@value
class ProduceRecords:
    """Producer: its application sends records to these partitions: (partition, count).

    ``topic``: "" means the producer's only topic.
    """

    counts: tuple[tuple[int, int], ...]
    topic: str = ""


@value
class FlushRecords:
    """Producer: its application calls flush(), so that batches no longer wait for linger.ms."""


@value
class GoOn:
    """Consumer: the awaited result is available to its application."""


@value
class PollReturns:
    """Consumer: its application has other work, so poll() returns without records."""


@value
class LeaveGradually:
    """Streams instance: move all tasks to other instances, then close. ``leaving`` False: cancel this order."""

    leaving: bool


@value
class StopPolling:
    """Consumer: its application is busy and does not call poll() for this time; heartbeats continue."""

    for_us: int


@value
class RaiseInListener:
    """Consumer: the next call of this callback of its rebalance listener raises an error at its end."""

    callback: str
    why: str


@value
class FailChild:
    """Consumer (KIP-333): its second consumer, if any, crashes and restarts after this time."""

    for_us: int


@value
class LeadOffsets:
    """Coordinator: lead this partition of ``__consumer_offsets``, with this log, oldest record first.

    Records are (key, value) in Kafka's binary layout (``protocol.messages.records``); a None value is a
    tombstone. ``leader_epoch`` rises with every change of leader.
    """

    partition: int
    leader_epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]
    load_us: int = 0
    """The duration of the load, during which requests get COORDINATOR_LOAD_IN_PROGRESS."""
    wait_us: int = 0
    """The wait before the load, for the loads of other partitions."""


@value
class ResignOffsets:
    """Coordinator: another broker now leads this partition of ``__consumer_offsets``, under this leader epoch."""

    partition: int
    leader_epoch: int


@value
class HostPartition:
    """Broker: lead this partition of a topic, which was created, has grown, or was loaded at start."""

    topic: str
    partition: int
    leader_epoch: int
    record_bytes: int = 1000


@value
class ConfigureTopic:
    """Broker without replication: a topic's own settings (Kafka's keys), as in a metadata store."""

    topic: str
    settings: tuple[tuple[str, str], ...]


@value
class ConfigureGroup:
    """Broker without replication, and coordinator: a group's own settings (Kafka's keys), as in a metadata store."""

    group: str
    settings: tuple[tuple[str, str], ...]


@value
class ClusterView:
    """Broker: the current state of the cluster, for its answers to Metadata and FindCoordinator.

    ``brokers``: (node id, rack or ""); ``topics``: (topic, leader's node id per partition, leader epoch per partition);
    ``offsets_leaders``: node id per partition of ``__consumer_offsets`` (-1 = no leader at the moment).
    """

    brokers: tuple[tuple[int, str], ...]
    topics: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    offsets_leaders: tuple[int, ...]


@value
class KnowTopics:
    """Broker and coordinator without replication: (name, id, number of partitions) of the cluster's topics.

    Only groups of the consumer protocol (KIP-848) use the ids.
    """

    topics: tuple[tuple[str, str, int], ...]


@value
class RemoveMember:
    """Admin: remove a static member by instance id, or every member (""). Source: KIP-345, KIP-571."""

    group: str
    instance_id: str


@value
class DeleteGroup:
    """Admin: delete an empty group."""

    group: str


@value
class DescribeGroup:
    """Admin: request a group's state and members, and report them as a note."""

    group: str


@value
class ListAllGroups:
    """Admin: ask every broker for the groups that the broker coordinates.

    ``states`` and ``types``: only groups with one of these states (KIP-518) and types (KIP-848); () for all.
    """

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@value
class DeleteOffsets:
    """Admin: delete the group's offsets of a topic (KIP-496)."""

    group: str
    topic: str


@value
class ResetOffsets:
    """Admin: set the group's offsets of a topic, as ``kafka-consumer-groups --reset-offsets`` does (KIP-122).

    ``to``: "earliest", "latest", "offset" (to ``offset``), or "shift" (by ``offset``, which may be negative).
    """

    group: str
    topic: str
    to: str
    offset: int = 0


@value
class DeleteRecordsOf:
    """Admin: delete the records of a topic's partitions below an offset (-1: below the high watermark; KIP-107).

    ``partition`` -1: all partitions.
    """

    topic: str
    before: int
    partition: int = -1


@value
class MakeTopic:
    """Admin: create a topic, placed by the controller.

    ``replication_factor`` -1: the controller's ``default.replication.factor`` (KIP-464). ``configs``: the topic's own
    settings, by Kafka's keys.
    """

    topic: str
    partitions: int
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()


@value
class AddPartitions:
    """Admin: increase a topic's number of partitions to ``partitions`` (KIP-195)."""

    topic: str
    partitions: int


@value
class RemoveTopic:
    """Admin: delete a topic."""

    topic: str


@value
class ElectLeadersOf:
    """Admin: elect leaders of topics' partitions: the preferred replicas, or any live replica (KIP-460).

    ``topics``: () = all topics of the cluster.
    """

    topics: tuple[str, ...]
    unclean: bool


@value
class ReassignPartitions:
    """Admin: move a topic's partitions (KIP-455).

    ``targets``: (partition, replicas). ``brokers``: spread all partitions over these brokers; each partition begins
    with the broker after the first broker of the partition before. Without ``targets`` and ``brokers``:
    cancel the topic's ongoing reassignments.
    """

    topic: str
    targets: tuple[tuple[int, tuple[int, ...]], ...] = ()
    brokers: tuple[int, ...] = ()


@value
class ListReassignments:
    """Admin: list the partitions being reassigned (KIP-455)."""


@value
class AlterConfigs:
    """Admin: change a setting of a topic, or (topic "") of all brokers, of one broker (KIP-339), or of a group (4.0).

    ``value`` "": remove the setting. ``broker``: the broker's id; -1: all brokers.
    """

    topic: str
    key: str
    value: str
    broker: int = -1
    group: str = ""


@value
class SetRate:
    """Producer: append this number of records per second from now on (0 = stop)."""

    records_per_s: int


@value
class AnswerNext:
    """Any server: answer the ``nth`` request (1 = next) of this API from this actor with an error.

    ``api`` is Kafka's API name ("SyncGroup"), ``sender`` an actor (with its parts) or "" for all actors. The request is
    not executed.
    """

    api: str
    sender: str
    nth: int
    error: ErrorCode


# --- metadata store ------------------------------------------------------------------------------------------------


@value
class FailLogDir:
    """Broker: this log directory (0 = the first) fails. The broker's controller part: report the failure."""

    log_dir: int


@value
class SeedNodes:
    """Store: create these persistent nodes and their parents before any client connects.

    So a new cluster already has topics.
    """

    nodes: tuple[tuple[str, bytes], ...]


@value
class LoseStoreAnswer:
    """Store: execute the ``nth`` operation request (1 = next) of this client, then lose its connection silently.

    The client receives no further message on this connection: neither the answer nor a watch. The client gives up after
    its read timeout and reconnects without knowing the result. ``client``: an actor, or "" for all actors. Without
    ``executed``, the connection is lost before the operation is executed. ``writes_only``: do not count requests that
    only read. ``number``: the number of this fault in ``StoreFaultHit`` and ``EndStoreFault``; -1: not needed. The
    commands below have the same field.
    """

    client: str
    nth: int = 1
    executed: bool = True
    writes_only: bool = False
    number: int = -1


@value
class FreezeSession:
    """Store: ignore the session of this client (an actor) for some time, in which the session may expire.

    If the session is still alive afterwards, the store executes its requests in order. ``for_us`` 0: until
    ``EndStoreFault``.
    """

    client: str
    for_us: int
    number: int = -1


@value
class DelayWatches:
    """Store: delay the next watch event of this client for this time, with all later messages to the client.

    ``for_us`` 0: until ``EndStoreFault``.
    """

    client: str
    for_us: int
    number: int = -1


@value
class ExpireSession:
    """Store: end the session of this client (an actor) now. The client learns of the end with its next request.

    ``linger_us``: the time for which the session's ephemeral nodes remain, as in a slow ensemble (KAFKA-7165).
    """

    client: str
    linger_us: int = 0
    number: int = -1


@value
class EndStoreFault:
    """Store: end the fault of this number.

    A fault that has not taken effect is cancelled. The store serves a frozen session again, sends delayed messages, and
    removes remaining ephemeral nodes.
    """

    number: int


@value
class RemoveNode:
    """Store: an operator removes a node without children (``zookeeper-shell delete``), such as /controller."""

    path: str
