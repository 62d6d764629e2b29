"""A broker without replication: it leads the partitions it is told to host, and knows the cluster it is told of.

Answers Metadata, FindCoordinator, Produce, Fetch and ListOffsets. A record exists once its append is durable: only
then is it acknowledged, visible to fetches and reported (``RecordsAppended``), so with one replica acks 1 and acks -1
are the same. Offsets of groups are the business of ``b<n>/coordinator``, another actor of the same host.

Every step is O(partitions touched): a parked fetch is found through the partitions it waits for, a topic's metadata is
built once per view of the cluster.
"""

from kemu.actors.broker.answers import ClusterAnswers
from kemu.actors.broker.fetches import Fetches
from kemu.actors.broker.log import PartitionLog
from kemu.actors.broker.partition import HostedPartition, ProduceCall, QueuedBatch, fault_of, log_name, produced
from kemu.actors.injection import Injections
from kemu.actors.machine import (
    Appended,
    Event,
    LinkDown,
    Loaded,
    Machine,
    Received,
    Record,
    TimerFired,
    Told,
    caller_of,
)
from kemu.protocol.commands import AnswerNext, ClusterView, HostPartition, Start
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Fetch,
    ListOffsets,
    Metadata,
    PartitionMetadata,
    Produce,
    ProducedBatch,
    TopicMetadata,
)
from kemu.protocol.messages.group import FindCoordinator
from kemu.protocol.names import ActorName, broker_host
from kemu.protocol.notes.groups import PartitionHosted, RecordsAppended


class Broker(Machine):
    """``node_id`` is Kafka's broker id; an actor ``b<node_id>`` is at that address."""

    def __init__(self, name: ActorName, node_id: int, config: BrokerConfig) -> None:
        super().__init__(name)
        self.node_id = node_id
        self.config = config
        self.partitions: dict[tuple[str, int], HostedPartition] = {}
        self.injections = Injections(self)
        self._fetches = Fetches(self)
        self._appends: dict[int, HostedPartition] = {}
        """Token of an append on its way -> its partition."""
        self._last_token = 0
        self._on_disk: dict[str, tuple[Record, ...]] = {}
        """Logs found at the start, until their partition is hosted again."""
        self._answers = ClusterAnswers(self, self.injections)

    def handle(self, event: Event) -> None:
        """Requests, the disk's answers, and what the cluster tells."""
        match event:
            case Received(message=Fetch()):
                self._fetch(event)
            case Received(message=Produce()):
                self._produce(event)
            case Appended(token=token, error=error):
                self._appended(self._appends.pop(token), error)
            case TimerFired(key=("fetch", number)):
                self._fetches.time_is_over(int(number))
            case Received(message=Metadata()):
                self._answers.metadata(event)
            case Received(message=FindCoordinator()):
                self._answers.find_coordinator(event)
            case Received(message=ListOffsets()):
                self._answers.list_offsets(event, self.partitions)
            case Told(command=ClusterView() as view):
                self._see(view)
            case Told(command=HostPartition() as command):
                self._host(command)
            case Told(command=AnswerNext() as command):
                self.injections.told(command)
            case Loaded(log=log, records=records):
                self._on_disk[log] = records
            case Told(command=Start()) | LinkDown():
                pass  # A client that is gone: its parked fetches run out by themselves, as in Kafka's purgatory.
            case _:
                raise AssertionError(f"{self.name}: {event}")

    # --- the cluster -------------------------------------------------------------------------------------------

    def _see(self, view: ClusterView) -> None:
        self._answers.brokers = tuple(
            BrokerMetadata(node_id=node, host=broker_host(node), rack=rack or None) for node, rack in view.brokers
        )
        self._answers.topics = {topic: _topic_metadata(topic, leaders) for topic, leaders in view.topics}
        self._answers.offsets_leaders = view.offsets_leaders

    def _host(self, command: HostPartition) -> None:
        at = (command.topic, command.partition)
        hosted = self.partitions.get(at)
        if hosted is not None:
            assert command.leader_epoch >= hosted.leader_epoch, f"{at}: leader epoch went back: {command}"
            hosted.leader_epoch = command.leader_epoch
            return
        log = PartitionLog.rebuilt(self._on_disk.pop(log_name(*at), ()))
        self.partitions[at] = HostedPartition(*at, command.leader_epoch, command.record_bytes, log)
        self.note(PartitionHosted(topic=command.topic, partition=command.partition, end_offset=log.end_offset))

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition is not here."""
        return self._answers.absent(topic, partition)

    # --- produce -----------------------------------------------------------------------------------------------

    def _produce(self, event: Received) -> None:
        request: Produce = event.message
        refused = self.injections.take("Produce", event.peer)
        if refused is None and request.acks not in (-1, 0, 1):
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        call = ProduceCall(caller_of(event) if request.acks != 0 else None, len(request.batches))
        if not request.batches:
            self._answer(call)
        touched: dict[tuple[str, int], HostedPartition] = {}
        for index, batch in enumerate(request.batches):
            at = (batch.topic, batch.partition)
            hosted = self.partitions.get(at)
            if refused is not None or hosted is None:
                error = refused or self.absent(*at)
            else:
                error = fault_of(batch)
            if error is not ErrorCode.NONE:
                self._decide(call, index, produced(batch, error))
                continue
            assert hosted is not None
            hosted.queue.append(QueuedBatch(batch, call, index))
            touched[at] = hosted
        for hosted in touched.values():
            self._append_next(hosted)

    def _append_next(self, hosted: HostedPartition) -> None:
        if hosted.appending or not hosted.queue:
            return
        for queued, row in hosted.next_append(self.now_us // 1000):
            self._decide(queued.call, queued.row, row)
        if hosted.appending:
            self._last_token += 1
            self._appends[self._last_token] = hosted
            self.append(hosted.log_name, hosted.records(), self._last_token)

    def _appended(self, hosted: HostedPartition, error: ErrorCode) -> None:
        batches, hosted.appending = hosted.appending, []
        topic, number = hosted.topic, hosted.number
        for logged, (batch, call, index) in batches:
            if error is ErrorCode.NONE:
                base_offset, count, time_ms = logged[:3]
                hosted.log.append(logged)
                self.note(RecordsAppended(topic=topic, partition=number, base_offset=base_offset, count=count))
                row = produced(batch, error, base_offset, time_ms)
            else:
                row = produced(batch, error)
            self._decide(call, index, row)
        if error is ErrorCode.NONE and hosted.waiters:
            self._fetches.grown(hosted)
        self._append_next(hosted)

    def _decide(self, call: ProduceCall, index: int, row: ProducedBatch) -> None:
        if call.answer(index, row):
            self._answer(call)

    def _answer(self, call: ProduceCall) -> None:
        if call.caller is not None:
            self.reply(call.caller, call.reply())

    # --- fetch -------------------------------------------------------------------------------------------------

    def _fetch(self, event: Received) -> None:
        error = self.injections.take("Fetch", event.peer)
        if error is None:
            self._fetches.asked(event)
        else:
            self._fetches.refuse(event, error)


def _topic_metadata(topic: str, leaders: tuple[int, ...]) -> TopicMetadata:
    # No leader epochs: a view has none, and a client that is told -1 does not check them (KIP-320).
    rows = tuple(
        PartitionMetadata(
            error=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition=number,
            leader=leader,
            replicas=(leader,) if leader >= 0 else (),
            isr=(leader,) if leader >= 0 else (),
        )
        for number, leader in enumerate(leaders)
    )
    return TopicMetadata(error=ErrorCode.NONE, topic=topic, partitions=rows)
