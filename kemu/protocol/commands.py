"""What an actor is told from outside the protocol: by its host's start, a workload, a test or a tool."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.values import value

ENFORCED = "rebalance enforced by user"
"""What ``enforceRebalance()`` says when it is not told why. Source: ``KafkaConsumer``, KIP-800."""


@value
class Start:
    """The process starts. First event of every life; ``Loaded`` events with what its disk holds came before it."""


@value
class HoursPass:
    """All has run undisturbed for hours: what is done at intervals is now at any moment of its interval."""


@value
class Close:
    """Close cleanly (``consumer.close()``): commit, callbacks, LeaveGroup for dynamic members, then be silent."""


@value
class Subscribe:
    """Consumer: the subscription is now these topics (sorted or not), or all that this pattern matches."""

    topics: tuple[str, ...]
    pattern: str = ""


@value
class Unsubscribe:
    """Consumer: ``consumer.unsubscribe()``."""


@value
class PausePartitions:
    """Consumer: ``pause()`` of those of these partitions that it is assigned."""

    partitions: tuple[tuple[str, int], ...]


@value
class ResumePartitions:
    """Consumer: ``resume()`` of those of these partitions that it is assigned."""

    partitions: tuple[tuple[str, int], ...]


@value
class Seek:
    """Consumer: ``seek()`` to this offset, if the partition is assigned to it."""

    topic: str
    partition: int
    offset: int


@value
class EnforceRebalance:
    """Consumer: ``enforceRebalance(reason)``, if it is subscribed (KIP-800); by default what Kafka says without one."""

    reason: str = ENFORCED


@value
class AssignNow:
    """Consumer: its assignor has what it waited for as leader; it is asked again, if it still leads."""


@value
class ReadPartitions:
    """Consumer without a subscription: ``assign()`` exactly these (topic, partition, offset to read from).

    One that is read already and has this offset before it goes on where it is; others ``seek()`` there. Its poll()
    returns, with nothing.
    """

    partitions: tuple[tuple[str, int, int], ...]


@value
class ProduceRecords:
    """Producer: its application sends so many records to these partitions: (partition, count).

    ``topic``: "" is its only one.
    """

    counts: tuple[tuple[int, int], ...]
    topic: str = ""


@value
class FlushRecords:
    """Producer: its application calls flush(): nothing lingers any more."""


@value
class GoOn:
    """Consumer: what its application waits for is there."""


@value
class PollReturns:
    """Consumer: its application has something else to do: poll() returns, with nothing."""


@value
class LeaveGradually:
    """Streams instance: hand all tasks over to others, then close; or (``leaving`` false) stay after all."""

    leaving: bool


@value
class StopPolling:
    """Consumer: its application is busy elsewhere and does not call poll() for so long; heartbeats go on."""

    for_us: int


@value
class RaiseInListener:
    """Consumer: the next call of this callback of its rebalance listener raises, when it would have returned.

    ``callback``: ``onPartitionsRevoked``, ``onPartitionsLost`` or ``onPartitionsAssigned``.
    """

    callback: str
    why: str


@value
class FailChild:
    """Consumer (KIP-333): its second consumer dies, if it has one, and is back after so long."""

    for_us: int


@value
class LeadOffsets:
    """Coordinator: you lead this partition of ``__consumer_offsets``; this is its log, oldest record first.

    Records are (key, value) in Kafka's binary layout (``protocol.messages.records``); a None value is a
    tombstone. ``leader_epoch`` rises with every move.
    """

    partition: int
    leader_epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]
    load_us: int = 0
    """How long the load takes; requests meanwhile are answered COORDINATOR_LOAD_IN_PROGRESS."""
    wait_us: int = 0
    """How long it waits for the loads of other partitions before."""


@value
class ResignOffsets:
    """Coordinator: another broker leads this partition of ``__consumer_offsets`` now (with this leader epoch)."""

    partition: int
    leader_epoch: int


@value
class HostPartition:
    """Broker: you lead this partition of a topic (created or grown, or loaded at start)."""

    topic: str
    partition: int
    leader_epoch: int
    record_bytes: int = 1000


@value
class ConfigureTopic:
    """Broker without replication: a topic's own settings (Kafka's keys), as a store would have them."""

    topic: str
    settings: tuple[tuple[str, str], ...]


@value
class ClusterView:
    """Broker: what the cluster looks like now; what it answers to Metadata and FindCoordinator.

    ``brokers``: (node id, rack or ""); ``topics``: (topic, leader's node id per partition, leader epoch per partition);
    ``offsets_leaders``: node id per partition of ``__consumer_offsets`` (-1 = none at the moment).
    """

    brokers: tuple[tuple[int, str], ...]
    topics: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    offsets_leaders: tuple[int, ...]


@value
class RemoveMember:
    """Admin: remove a static member by instance id, or every member ("" = all). Source: KIP-345, KIP-571."""

    group: str
    instance_id: str


@value
class DeleteGroup:
    """Admin: delete an empty group."""

    group: str


@value
class DescribeGroup:
    """Admin: ask for a group's state and report it as a note."""

    group: str


@value
class ListAllGroups:
    """Admin: ask every broker which groups it coordinates."""


@value
class DeleteOffsets:
    """Admin: forget the group's offsets of a topic (KIP-496)."""

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

    ``partition`` -1: of all of them.
    """

    topic: str
    before: int
    partition: int = -1


@value
class MakeTopic:
    """Admin: create a topic, placed by the controller.

    ``replication_factor`` -1: the controller's ``default.replication.factor`` (KIP-464). ``configs``: settings of its
    own, by Kafka's keys.
    """

    topic: str
    partitions: int
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()


@value
class AddPartitions:
    """Admin: give a topic this many partitions in all (KIP-195)."""

    topic: str
    partitions: int


@value
class RemoveTopic:
    """Admin: delete a topic."""

    topic: str


@value
class ElectLeadersOf:
    """Admin: elect leaders of topics' partitions: the preferred ones, or any replica that is alive (KIP-460).

    ``topics``: () = all of the cluster.
    """

    topics: tuple[str, ...]
    unclean: bool


@value
class ReassignPartitions:
    """Admin: move a topic's partitions (KIP-455).

    ``targets``: (partition, replicas). ``brokers``: or all of its partitions to these, each beginning with the next of
    them. Neither: cancel whatever of the topic is on its way.
    """

    topic: str
    targets: tuple[tuple[int, tuple[int, ...]], ...] = ()
    brokers: tuple[int, ...] = ()


@value
class ListReassignments:
    """Admin: which partitions are being reassigned (KIP-455)."""


@value
class AlterConfigs:
    """Admin: set a setting of a topic, or (topic "") of all brokers or one; or remove it ("") (KIP-339).

    ``broker``: its id; -1: all.
    """

    topic: str
    key: str
    value: str
    broker: int = -1


@value
class SetRate:
    """Producer: append this many records per second from now on (0 = stop)."""

    records_per_s: int


@value
class AnswerNext:
    """Any server: answer the ``nth`` request (1 = next) of this API from this actor with an error.

    ``api`` is Kafka's API name ("SyncGroup"), ``sender`` an actor (its parts are meant, too) or "" for anyone. The
    request is not executed.
    """

    api: str
    sender: str
    nth: int
    error: ErrorCode


# --- metadata store ------------------------------------------------------------------------------------------------


@value
class FailLogDir:
    """Broker: this log directory (0 = the first) cannot be written or read any more. Its controller part: say so."""

    log_dir: int


@value
class SeedNodes:
    """Store: these persistent nodes exist (parents included) before anybody looks: how a cluster begins with topics."""

    nodes: tuple[tuple[str, bytes], ...]


@value
class LoseStoreAnswer:
    """Store: execute the ``nth`` operation request (1 = next) of this client, then let its connection go dead.

    The client hears nothing more on this connection: neither the answer nor a watch. It gives up after its read
    timeout and comes back not knowing what happened. ``client``: an actor, or "" for anyone. ``executed`` False: the
    connection goes dead before, and nothing happened. ``writes_only``: requests that only read do not count.
    ``number``, here and below: what ``StoreFaultHit`` and ``EndStoreFault`` call this fault; -1: nobody asks.
    """

    client: str
    nth: int = 1
    executed: bool = True
    writes_only: bool = False
    number: int = -1


@value
class FreezeSession:
    """Store: neither hear nor answer the session of this client (an actor) for a while; it may expire meanwhile.

    What it sent is executed afterwards, in order, if the session still lives. ``for_us`` 0: until it is ended.
    """

    client: str
    for_us: int
    number: int = -1


@value
class DelayWatches:
    """Store: keep the next fired watch of this client back for so long, and all that is said to it after (order).

    ``for_us`` 0: until it is ended.
    """

    client: str
    for_us: int
    number: int = -1


@value
class ExpireSession:
    """Store: end the session of this client (an actor) now. It learns so when it speaks to the store again.

    ``linger_us``: its ephemeral nodes stay for so long, as when the ensemble is slow to remove them (KAFKA-7165).
    """

    client: str
    linger_us: int = 0
    number: int = -1


@value
class EndStoreFault:
    """Store: the fault of this number is over.

    What has not hit yet will not, a frozen session is heard again, what was kept back is said, lingering nodes go.
    """

    number: int


@value
class RemoveNode:
    """Store: an operator removes a node without children (``zookeeper-shell delete``), such as /controller."""

    path: str
