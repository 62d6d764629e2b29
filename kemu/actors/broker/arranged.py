"""A broker without replication: commands contain the partitions to lead and the state of the cluster.

The broker answers Metadata, FindCoordinator, Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and the descriptions of
cluster and settings. A record is
acknowledged, visible to fetches and noted (``RecordsAppended``) only when its append is durable. With one replica, acks
1 and acks -1 are therefore equal. Another actor of the same host, ``b<n>/coordinator``, stores the offsets of groups.

The cost of a step depends only on its partitions. Each partition refers to its delayed fetches, and a topic's metadata
is built once per view of the cluster.
"""

from collections.abc import Callable, Iterable

from kemu.actors.broker.answers import ClusterAnswers
from kemu.actors.broker.config_answers import ConfigAnswers
from kemu.actors.broker.consumer_fetches import ConsumerFetches
from kemu.actors.broker.delayed_fetches import invalidate
from kemu.actors.broker.fetch_sessions import FetchSessions
from kemu.actors.broker.hosted_partition import HostedPartition, QueuedBatch
from kemu.actors.broker.leader_epochs import epoch_end, no_epoch_end
from kemu.actors.broker.new_leaders import NewLeaders
from kemu.actors.broker.partition_log import PartitionLog, log_name, start_entry
from kemu.actors.broker.produce_calls import ProduceCall, ProduceCalls, fault_of, produced
from kemu.actors.broker.produce_requests import ProduceRequests
from kemu.actors.broker.retention import Retention
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.connections import Connections
from kemu.actors.injection import Injections
from kemu.actors.machine import (
    Appended,
    Draws,
    Event,
    LinkDown,
    Loaded,
    Machine,
    Received,
    Record,
    TimerFired,
    Told,
)
from kemu.protocol.commands import (
    AnswerNext,
    ClusterView,
    ConfigureGroup,
    ConfigureTopic,
    HostPartition,
    HoursPass,
    KnowTopics,
    Start,
)
from kemu.protocol.config import BrokerConfig
from kemu.protocol.draws import CALM
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    NO_TOPIC_ID,
    DescribeCluster,
    DescribeConfigs,
    EpochEnd,
    EpochQuestion,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Fetch,
    InitProducerId,
    ListOffsets,
    Metadata,
    PartitionMetadata,
    Produce,
    ProduceBatch,
    TopicMetadata,
)
from kemu.protocol.messages.group import FindCoordinator
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import ActorName, broker_host, shared
from kemu.protocol.notes.groups import PartitionHosted, RecordsAppended
from kemu.protocol.notes.replication import LogStartMoved
from kemu.protocol.wire.compile import maker

_NONE = ErrorCode.NONE
_new = tuple.__new__
_records_appended = maker(RecordsAppended)


class Broker(Machine):
    """``node_id`` is Kafka's broker id; an actor ``b<node_id>`` is at that address.

    ``versions``: the message versions that the broker offers; ``life``: the number of the start of its process;
    ``group_keys``: the settings of groups in its release.
    """

    def __init__(
        self,
        name: ActorName,
        node_id: int,
        config: BrokerConfig,
        draws: Draws = CALM,
        versions: SpokenVersions = LATEST,
        life: int = 0,
        group_keys: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name)
        self._life = life
        self.node_id = node_id
        self.config = config
        self.partitions: dict[tuple[str, int], HostedPartition] = {}
        self.injections = Injections(self)
        self._answers = ClusterAnswers(self, self.injections, versions, node_id, life)
        self._connections = Connections(self, self._receive)
        sessions = FetchSessions(self, config.max_incremental_fetch_session_cache_slots, life)
        leaders = NewLeaders(self._believed, self._answers.leader_of, self._answers.broker)
        self._fetches = ConsumerFetches(self, self.partitions, self.absent, self._connections, sessions, leaders)
        self._calls = ProduceCalls(self, self._connections, leaders)
        self._requests = ProduceRequests(
            self._calls, self.injections, self.partitions, fault=self._fault, append=self._queue
        )
        self._appends: dict[int, list[HostedPartition]] = {}
        """Token of the appends of one step that are in progress -> their partitions."""
        self._last_token = 0
        self._settings: dict[str, dict[str, str]] = {}
        """Topic -> its own settings."""
        self._group_settings: dict[str, dict[str, str]] = {}
        """Group -> its own settings."""
        self._topic_ids: dict[str, str] = {}
        self._retention = Retention(self, config, self._settings, draws)
        configs = ConfigAnswers(
            self,
            self.injections,
            node_id,
            start=(config,),
            settings=self._settings,
            own={},
            groups=self._group_settings,
            group_keys=group_keys,
            knows=lambda topic: topic in self._answers.topics,
        )
        self._on_disk: dict[str, tuple[Record, ...]] = {}
        """Logs loaded at the start, until their partition is hosted again."""
        self._asked: dict[type, Callable[[Received], None]] = {
            Fetch: self._fetch,
            Produce: self._produce,
            Metadata: self._answers.metadata,
            FindCoordinator: self._answers.find_coordinator,
            ListOffsets: self._list_offsets,
            OffsetForLeaderEpoch: self._epoch_ends,
            ApiVersions: self._answers.api_versions,
            InitProducerId: self._answers.init_producer_id,
            DescribeCluster: self._answers.describe_cluster,
            DescribeConfigs: configs.asked,
        }

    def handle(self, event: Event) -> None:
        """React to requests, the disk's answers, and commands."""
        match event:
            case Received():
                self._receive(event)
            case Appended(token=token, error=error):
                if (appended := self._appends.pop(token, None)) is not None:  # else the write of a log's start
                    self._appended(appended, error)
            case TimerFired(key=(BrokerTimer.FETCH, number)):
                self._fetches.time_is_over(int(number))
            case Told(command=ClusterView() as view):
                self._see(view)
            case Told(command=KnowTopics(topics=topics)):
                self._topic_ids = {name: topic_id for name, topic_id, _ in topics}
            case Told(command=HostPartition() as command):
                self._host(command)
            case Told(command=AnswerNext() as command):
                self.injections.arm(command)
            case TimerFired(key=(BrokerTimer.RETENTION,)):
                self._delete_expired()
            case Told(command=ConfigureGroup(group=group, settings=settings)):
                self._group_settings[group] = dict(settings)
            case Told(command=ConfigureTopic(topic=topic, settings=settings)):
                self._settings[topic] = dict(settings)
                self._retention.configured()
            case Told(command=HoursPass()):
                self._retention.hours_pass()
            case Loaded(log=log, records=records):
                self._on_disk[log] = records
            case Told(command=Start()):
                self._retention.started()
            case LinkDown(peer=peer):  # the client's delayed fetches time out, as in Kafka's purgatory
                self._connections.link_down(peer)
                self._fetches.link_down(peer)
            case _:
                raise AssertionError(f"{self.name}: {event}")
        if self._connections.readable:
            self._connections.read_on()

    def _receive(self, event: Received) -> None:
        if not self._connections.keeps(event):
            self._asked[type(event.message)](event)

    # --- the cluster -------------------------------------------------------------------------------------------

    def _see(self, view: ClusterView) -> None:
        self._answers.brokers = tuple(
            BrokerMetadata(node_id=node, host=broker_host(node), rack=rack or None) for node, rack in view.brokers
        )
        ids = self._topic_ids
        self._answers.topics = {row[0]: _topic_metadata(*row, ids.get(row[0], NO_TOPIC_ID)) for row in view.topics}
        self._answers.offsets_leaders = view.offsets_leaders

    def _host(self, command: HostPartition) -> None:
        at = (command.topic, command.partition)
        hosted = self.partitions.get(at)
        if hosted is not None:
            assert command.leader_epoch >= hosted.leader_epoch, f"{at}: leader epoch decreased: {command}"
            hosted.lead(command.leader_epoch)
            invalidate(hosted.waiters)
            return
        log = PartitionLog.rebuilt(self._on_disk.pop(log_name(*at), ()))
        hosted = self.partitions[shared(at)] = HostedPartition(
            *at, command.leader_epoch, command.record_bytes, log, self._life
        )
        self.note(
            PartitionHosted(
                topic=command.topic,
                partition=command.partition,
                end_offset=log.end_offset,
                leader_epoch=command.leader_epoch,
                epochs=hosted.epochs.entries,
            )
        )

    def _believed(self, topic: str, partition: int) -> tuple[int, int] | None:
        hosted = self.partitions.get((topic, partition))
        return None if hosted is None else (self.node_id, hosted.leader_epoch)

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """The error for a partition that this broker lacks."""
        return self._answers.absent(topic, partition)

    # --- produce -----------------------------------------------------------------------------------------------

    def _produce(self, event: Received) -> None:
        _, touched = self._requests.asked(event)
        self._append_next(touched)

    def _fault(self, batch: ProduceBatch, hosted: HostedPartition | None, acks: int) -> ErrorCode:
        return self.absent(batch.topic, batch.partition) if hosted is None else fault_of(batch)

    def _queue(self, hosted: HostedPartition, batch: ProduceBatch, call: ProduceCall, row: int, acks: int) -> bool:
        hosted.queue.append(_new(QueuedBatch, (batch, call, row)))
        return True

    def _append_next(self, partitions: Iterable[HostedPartition]) -> None:
        """Append the queued batches of these partitions. One token, because one thread of a broker appends a request
        to all its partitions before it answers (``ReplicaManager.appendToLocalLog`` 3.4).
        """
        began: list[HostedPartition] = []
        token, now_ms = self._last_token + 1, self.now_us // 1000
        for hosted in partitions:
            if hosted.appending or not hosted.queue:
                continue
            for queued, row in hosted.next_append(now_ms):
                self._calls.decide(queued.call, queued.row, row)
            if hosted.appending:
                began.append(hosted)
                self.append(hosted.log_name, hosted.records(), token)
        if began:
            self._last_token = token
            self._appends[token] = began

    def _appended(self, partitions: list[HostedPartition], error: ErrorCode) -> None:
        """Decide the batches of a finished append, then answer delayed fetches: a fetch reads all its partitions.

        Source: ``KafkaApis.handle``, which calls ``ReplicaManager.tryCompleteActions`` after the request (3.4).
        """
        for hosted in partitions:
            self._decide(hosted, error)
        if error is _NONE:
            for hosted in partitions:
                if hosted.waiters:
                    self._fetches.grown(hosted)
        self._append_next(partitions)

    def _decide(self, hosted: HostedPartition, error: ErrorCode) -> None:
        batches, hosted.appending = hosted.appending, []
        for logged, (batch, call, index) in batches:
            if error is _NONE:
                base_offset, count, time_ms, _, producer_id, producer_epoch, sequence, _ = logged
                hosted.log.append(logged)
                self.note(
                    _records_appended(
                        topic=hosted.topic,
                        partition=hosted.number,
                        base_offset=base_offset,
                        count=count,
                        producer_id=producer_id,
                        producer_epoch=producer_epoch,
                        sequence=sequence,
                    )
                )
                row = produced(batch, error, base_offset, time_ms)
            else:
                row = produced(batch, error)
            self._calls.decide(call, index, row)

    # --- retention ---------------------------------------------------------------------------------------------

    def _delete_expired(self) -> None:
        for (topic, number), hosted in self.partitions.items():
            log = hosted.log
            if not self._retention.deletes(topic):
                continue
            start_offset = self._retention.policy(topic).start_of(log, hosted.record_bytes, self.now_us // 1000)
            if log.advance_start(start_offset):
                hosted.epochs.truncate_start(start_offset)
                invalidate(hosted.waiters)
                self._last_token += 1
                self.append(hosted.log_name, (start_entry(start_offset),), self._last_token)
                self.note(
                    LogStartMoved(
                        topic=topic,
                        partition=number,
                        start_offset=start_offset,
                        end_offset=log.end_offset,
                        why="retention",
                    )
                )
        self._retention.due()

    # --- fetch -------------------------------------------------------------------------------------------------

    def _list_offsets(self, event: Received) -> None:
        self._answers.list_offsets(event, self.partitions)

    def _epoch_ends(self, event: Received) -> None:
        request: OffsetForLeaderEpoch = event.message
        self.reply(event, OffsetForLeaderEpochReply(answers=tuple(map(self._epoch_end, request.questions))))

    def _epoch_end(self, question: EpochQuestion) -> EpochEnd:
        hosted = self.partitions.get((question.topic, question.partition))
        if hosted is None:
            return no_epoch_end(question, self.absent(question.topic, question.partition))
        error = hosted.epoch_error(question.current_leader_epoch)
        return epoch_end(question, error, hosted.epochs, hosted.log.end_offset)

    def _fetch(self, event: Received) -> None:
        error = self.injections.take("Fetch", event.peer)
        if error is None:
            self._fetches.asked(event)
        else:
            self._fetches.refuse(event, error)


def _topic_metadata(topic: str, leaders: tuple[int, ...], epochs: tuple[int, ...], topic_id: str) -> TopicMetadata:
    rows = tuple(
        PartitionMetadata(
            error=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition=number,
            leader=leader,
            leader_epoch=epoch,
            replicas=(leader,) if leader >= 0 else (),
            isr=(leader,) if leader >= 0 else (),
        )
        for number, (leader, epoch) in enumerate(zip(leaders, epochs, strict=True))
    )
    return TopicMetadata(error=ErrorCode.NONE, topic=topic, topic_id=topic_id, partitions=rows)
