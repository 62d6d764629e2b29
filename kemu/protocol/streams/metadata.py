"""The metadata of Streams members and their leader: the assignor's bytes inside the consumer protocol.

All integers are big-endian. ``task`` is (int32 subtopology, int32 partition), ``partitions`` an array of (string topic,
int32 partition), ``host`` (string, int32 port).

The three layouts are::

    v4 (2.3)      subscription  int32 version  int32 highest  16 bytes process id  [task] previous active
                                [task] standbys  bytes endpoint
                  assignment    int32 version  int32 highest  [task] active, one for each partition in the order of the
                                member's partitions  [(task, partitions)] standbys  [(host, partitions)]  int32 error
    v5 (KIP-429's page, the learner version)
                  subscription  as v4, then [(task, int64 lag, int8 ready)] learners  [task] paused for this join
                                [int64 lag] of the standbys, in their order  int32 weight  int8 leaving
                                int64 ms since the request to leave (-1: none)  int8 nonce
                  assignment    as v4, then [(task, partitions)] learners  [task] active ones that others learn
                                int8 shut down
    v8 (2.6)      subscription  int32 version  int32 highest  16 bytes process id  bytes endpoint
                                [(int32 subtopology, [(int32 partition, int64 offset sum)])]  int8 nonce
                  assignment    as v4, then int64 ms of the leader's clock for the next rebalance (2**63 - 1: never)

The page announces its metadata but does not contain it; v5 has the input of the page's algorithm. Kafka's own versions
5 to 7 differ (a dictionary of topics, offset sums) and are not supported here. Kafka's generated classes encode v7 and
later; the fields and their order are from ``SubscriptionInfoData``.

Source: KIP-429 (page version 99), Kafka 2.3 ``SubscriptionInfo`` and ``AssignmentInfo``, Kafka 2.6
``SubscriptionInfoData.json``.
"""

from collections.abc import Iterable, Mapping

from attrs import field

from kemu.protocol.frozen import frozen
from kemu.protocol.names import TopicPartition
from kemu.protocol.streams.modes import Layout
from kemu.protocol.streams.tasks import TaskId
from kemu.protocol.wire.binary import Reader, Writer
from kemu.protocol.wire.codec import UnsupportedVersion

NO_FOLLOW_UP = 2**63 - 1
"""The value of ``nextScheduledRebalanceMs`` that requests no rebalance."""
NOT_LEAVING = -1
PROCESS_ID_BYTES = 16


@frozen
class Learning:
    """A task with a learner: the learner's lag in records, and whether it has caught up."""

    lag: int
    ready: bool


@frozen
class StreamsSubscription:
    """One thread's subscription; a field that the layout lacks has its default.

    ``active``: tasks that the thread owns and keeps running. ``standby``: task -> lag in records. ``revoked``: tasks
    with learners on other instances, which the thread paused for this rebalance. ``offset_sums``: task -> end of its
    copy's state, ``LATEST_OFFSET`` for a running active task (v8 has no other information about tasks). ``weight``: the
    capacity of the thread's instance; 0 = its number of threads (always in v4 and v8). ``leaving_ms``: the time since
    the request to leave. ``nonce``: a value that makes the bytes differ. The coordinator answers a follower's join with
    equal bytes with the current generation (KAFKA-10455).
    """

    process_id: bytes
    active: tuple[TaskId, ...] = ()
    standby: Mapping[TaskId, int] = field(factory=dict)
    learning: Mapping[TaskId, Learning] = field(factory=dict)
    revoked: tuple[TaskId, ...] = ()
    offset_sums: Mapping[TaskId, int] = field(factory=dict)
    weight: int = 0
    leaving_ms: int = NOT_LEAVING
    endpoint: str = ""
    nonce: int = 0
    layout: Layout = Layout.LEARNER

    @property
    def leaving(self) -> bool:
        """Whether the thread's instance is leaving."""
        return self.leaving_ms != NOT_LEAVING


Host = tuple[str, int]
"""The host and the port for interactive queries of a thread."""


@frozen
class StreamsGiven:
    """One thread's assignment; a field that the layout lacks is empty.

    ``active``: a task for each of the member's partitions, in their order. ``standby``, ``learning``: task -> its
    source partitions. ``hosts``: every member's endpoint and its partitions, sent to all members.
    ``next_rebalance_ms``: the time at which this member must request a rebalance (v8).
    """

    active: tuple[TaskId, ...] = ()
    standby: Mapping[TaskId, tuple[TopicPartition, ...]] = field(factory=dict)
    learning: Mapping[TaskId, tuple[TopicPartition, ...]] = field(factory=dict)
    being_learned: tuple[TaskId, ...] = ()
    shutdown: bool = False
    hosts: Mapping[Host, tuple[TopicPartition, ...]] = field(factory=dict)
    error: int = 0
    next_rebalance_ms: int = NO_FOLLOW_UP
    layout: Layout = Layout.LEARNER


# --- subscriptions -----------------------------------------------------------------------------------------------


def encode_streams_subscription(said: StreamsSubscription) -> bytes:
    """The bytes of a thread's subscription in its layout; tasks are in order.

    Raises:
        CodecError: a number or text that cannot be encoded.
    """
    out = Writer(f"SubscriptionInfo v{said.layout}")
    out.int32(said.layout)
    out.int32(said.layout)
    assert len(said.process_id) == PROCESS_ID_BYTES, said.process_id
    out.raw(said.process_id)
    if said.layout is Layout.HIGH_AVAILABILITY:
        out.blob(said.endpoint.encode())
        _write_offset_sums(out, said.offset_sums)
        out.int8(said.nonce)
        return out.data()
    _write_tasks(out, sorted(said.active))
    standby = sorted(said.standby)
    _write_tasks(out, standby)
    out.blob(said.endpoint.encode())
    if said.layout is Layout.LEARNER:
        out.count(len(said.learning))
        for task in sorted(said.learning):
            _write_task(out, task)
            out.int64(said.learning[task].lag)
            out.int8(said.learning[task].ready)
        _write_tasks(out, sorted(said.revoked))
        out.count(len(standby))
        for task in standby:
            out.int64(said.standby[task])
        out.int32(said.weight)
        out.int8(said.leaving)
        out.int64(said.leaving_ms)
        out.int8(said.nonce)
    return out.data()


def decode_streams_subscription(data: bytes) -> StreamsSubscription:
    """Read a subscription in any supported layout. In v4 the lag of a standby is unknown; the result has 0.

    Raises:
        UnsupportedVersion: the version is no supported layout.
        Malformed: bytes that end inside a field, or invalid text.
    """
    source = Reader(data, "SubscriptionInfo")
    layout = _read_layout(source)
    process_id = source.raw(PROCESS_ID_BYTES, "process_id")
    if layout is Layout.HIGH_AVAILABILITY:
        endpoint = _text(source, "endpoint")
        sums = _read_offset_sums(source)
        return StreamsSubscription(
            process_id, offset_sums=sums, endpoint=endpoint, nonce=source.int8("nonce"), layout=layout
        )
    active = _read_tasks(source, "active")
    standby = _read_tasks(source, "standby")
    endpoint = _text(source, "endpoint")
    if layout is Layout.STICKY:
        return StreamsSubscription(process_id, active, dict.fromkeys(standby, 0), endpoint=endpoint, layout=layout)
    learning: dict[TaskId, Learning] = {}
    for _ in range(source.count("learning")):
        task = _read_task(source, "learning")
        learning[task] = Learning(source.int64("learning.lag"), bool(source.int8("learning.ready")))
    revoked = _read_tasks(source, "revoked")
    lags = [source.int64("standby.lag") for _ in range(source.count("standby.lag"))]
    weight = source.int32("weight")
    leaving, leaving_ms = source.int8("leaving"), source.int64("leaving_ms")
    return StreamsSubscription(
        process_id,
        active,
        dict(zip(standby, lags, strict=False)),
        learning,
        revoked,
        weight=weight,
        leaving_ms=leaving_ms if leaving else NOT_LEAVING,
        endpoint=endpoint,
        nonce=source.int8("nonce"),
        layout=layout,
    )


# --- assignments -------------------------------------------------------------------------------------------------


def encode_streams_assignment(given: StreamsGiven) -> bytes:
    """The bytes of a thread's assignment in its layout.

    Raises:
        CodecError: a number or text that cannot be encoded.
    """
    out = Writer(f"AssignmentInfo v{given.layout}")
    out.int32(given.layout)
    out.int32(given.layout)
    _write_tasks(out, given.active)
    _write_copies(out, given.standby)
    out.count(len(given.hosts))
    for (host, port), partitions in given.hosts.items():
        out.string(host)
        out.int32(port)
        _write_partitions(out, partitions)
    out.int32(given.error)
    if given.layout is Layout.LEARNER:
        _write_copies(out, given.learning)
        _write_tasks(out, sorted(given.being_learned))
        out.int8(given.shutdown)
    elif given.layout is Layout.HIGH_AVAILABILITY:
        out.int64(given.next_rebalance_ms)
    return out.data()


def decode_streams_assignment(data: bytes) -> StreamsGiven:
    """Read an assignment in any supported layout.

    Raises:
        UnsupportedVersion: the version is no supported layout.
        Malformed: bytes that end inside a field, or invalid text.
    """
    source = Reader(data, "AssignmentInfo")
    layout = _read_layout(source)
    active = _read_tasks(source, "active")
    standby = _read_copies(source, "standby")
    hosts: dict[Host, tuple[TopicPartition, ...]] = {}
    for _ in range(source.count("hosts")):
        at = source.string("hosts.host"), source.int32("hosts.port")
        hosts[at] = _read_partitions(source, "hosts.partitions")
    error = source.int32("error")
    if layout is Layout.LEARNER:
        learning = _read_copies(source, "learning")
        being_learned = _read_tasks(source, "being_learned")
        shutdown = bool(source.int8("shutdown"))
        return StreamsGiven(active, standby, learning, being_learned, shutdown, hosts, error, layout=layout)
    next_ms = source.int64("next_rebalance_ms") if layout is Layout.HIGH_AVAILABILITY else NO_FOLLOW_UP
    return StreamsGiven(active, standby, hosts=hosts, error=error, next_rebalance_ms=next_ms, layout=layout)


# --- parts -------------------------------------------------------------------------------------------------------


def _read_layout(source: Reader) -> Layout:
    version = source.int32("version")
    source.int32("highest_version")
    try:
        return Layout(version)
    except ValueError:
        spoken = ", ".join(f"v{one.value}" for one in Layout)
        raise UnsupportedVersion(f"{source.what} v{version}: supported are {spoken}") from None


def _text(source: Reader, name: str) -> str:
    return source.blob(name).decode(errors="replace")


def _write_task(out: Writer, task: TaskId) -> None:
    out.int32(task.subtopology)
    out.int32(task.partition)


def _read_task(source: Reader, name: str) -> TaskId:
    subtopology, partition = source.int32(f"{name}.subtopology"), source.int32(f"{name}.partition")
    return TaskId(subtopology, partition, f"{subtopology}_{partition}")


def _write_tasks(out: Writer, tasks: Iterable[TaskId]) -> None:
    listed = tuple(tasks)
    out.count(len(listed))
    for task in listed:
        _write_task(out, task)


def _read_tasks(source: Reader, name: str) -> tuple[TaskId, ...]:
    return tuple([_read_task(source, name) for _ in range(source.count(name))])


def _write_partitions(out: Writer, partitions: Iterable[TopicPartition]) -> None:
    listed = tuple(partitions)
    out.count(len(listed))
    for topic, number in listed:
        out.string(topic)
        out.int32(number)


def _read_partitions(source: Reader, name: str) -> tuple[TopicPartition, ...]:
    return tuple([(source.string(f"{name}.topic"), source.int32(f"{name}.number")) for _ in range(source.count(name))])


def _write_copies(out: Writer, copies: Mapping[TaskId, tuple[TopicPartition, ...]]) -> None:
    out.count(len(copies))
    for task in sorted(copies):
        _write_task(out, task)
        _write_partitions(out, copies[task])


def _read_copies(source: Reader, name: str) -> dict[TaskId, tuple[TopicPartition, ...]]:
    found: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for _ in range(source.count(name)):
        task = _read_task(source, name)
        found[task] = _read_partitions(source, name)
    return found


def _write_offset_sums(out: Writer, sums: Mapping[TaskId, int]) -> None:
    by_subtopology: dict[int, list[TaskId]] = {}
    for task in sorted(sums):
        by_subtopology.setdefault(task.subtopology, []).append(task)
    out.count(len(by_subtopology))
    for subtopology, tasks in by_subtopology.items():
        out.int32(subtopology)
        out.count(len(tasks))
        for task in tasks:
            out.int32(task.partition)
            out.int64(sums[task])


def _read_offset_sums(source: Reader) -> dict[TaskId, int]:
    found: dict[TaskId, int] = {}
    for _ in range(source.count("offset_sums")):
        subtopology = source.int32("offset_sums.subtopology")
        for _ in range(source.count("offset_sums.partitions")):
            partition = source.int32("offset_sums.partition")
            task = TaskId(subtopology, partition, f"{subtopology}_{partition}")
            found[task] = source.int64("offset_sums.sum")
    return found
