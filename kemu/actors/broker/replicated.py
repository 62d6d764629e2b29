"""A broker with replication: it leads and follows partitions by the controller's requests, with leader epochs and ISRs.

Each part is a module. The replicas and their journals: ``replica_manager``. Producers' requests: ``produce_calls``.
Fetches: ``consumer_fetches``, ``follower_fetches``. High watermarks: ``high_watermarks``. ISR changes: ``isr_changes``,
decided by the metadata store (``isr_store``) or the controller (``alter_isr``). Appends on the leader:
``led_partitions``. Deletions by admins: ``record_deletions``. The log of this process's group coordinator:
``group_log``. Replication on the follower: ``replica_fetchers``. The controller's requests: ``control_requests``.
Answers about the cluster: ``answers``. Controlled shutdown: ``broker_shutdown``.

A part knows the machine, through which it sends messages, and the parts listed before it. The broker without
replication also uses consumers' fetches, produce requests and answers.

A record is committed when all in-sync replicas have it: then consumers can read it and acks=all is answered. A replica
has a record when the record is written into the page cache. A power cut of all these replicas may therefore lose
acknowledged records. With ``log.flush.interval.messages`` 1 a replica has a record when the record is on the disk.

Source: Kafka 2.8 with the ZooKeeper controller.
"""

from collections.abc import Callable, Mapping

from kemu.actors.broker.alter_isr import AlterIsrs
from kemu.actors.broker.answers import ClusterAnswers
from kemu.actors.broker.broker_shutdown import BrokerShutdown
from kemu.actors.broker.config_answers import ConfigAnswers
from kemu.actors.broker.consumer_fetches import ConsumerFetches
from kemu.actors.broker.control_requests import ControlRequests
from kemu.actors.broker.fetch_sessions import FetchSessions
from kemu.actors.broker.follower_fetches import FollowerFetches
from kemu.actors.broker.group_log import OffsetsHost
from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.isr_changes import IsrChanges, IsrWriter
from kemu.actors.broker.isr_store import IsrStore
from kemu.actors.broker.leader_epochs import epoch_end, no_epoch_end
from kemu.actors.broker.led_partitions import LedPartitions
from kemu.actors.broker.new_leaders import NewLeaders
from kemu.actors.broker.offsets_topic import OffsetsTopic
from kemu.actors.broker.produce_calls import ProduceCalls
from kemu.actors.broker.record_deletions import RecordDeletions
from kemu.actors.broker.replica import Role
from kemu.actors.broker.replica_fetchers import ReplicaFetchers
from kemu.actors.broker.replica_manager import US_PER_MS, ReplicaManager, TopicSettings
from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.client import DEADLINE, DISCONNECTED, Client, backoff_ms
from kemu.actors.connections import Connections
from kemu.actors.injection import Injections
from kemu.actors.machine import (
    Appended,
    Chance,
    Draws,
    Event,
    LinkDown,
    Loaded,
    Machine,
    Received,
    TimerFired,
    TimerKey,
    Told,
)
from kemu.protocol.commands import AnswerNext, Close, FailLogDir, HoursPass, Start
from kemu.protocol.config import BrokerConfig, ControllerConfig, ReplicaConfig
from kemu.protocol.draws import CALM
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    DescribeCluster,
    DescribeConfigs,
    EpochEnd,
    EpochQuestion,
    LeaderAndIsr,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
    StopReplica,
    UpdateMetadata,
)
from kemu.protocol.messages.data import DeleteRecords, Fetch, FetchReply, InitProducerId, ListOffsets, Metadata, Produce
from kemu.protocol.messages.group import FindCoordinator
from kemu.protocol.messages.local import (
    BrokerConfigs,
    BrokerConfigsReply,
    BrokerSession,
    BrokerSessionReply,
    GroupConfigs,
    GroupConfigsReply,
    OwnConfigs,
    OwnConfigsReply,
)
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.messages.offsets_log import AppendGroups
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import STORE, ActorName
from kemu.protocol.replication import IsrPath

_NONE, _LEADER = ErrorCode.NONE, Role.LEADER
CONTROL = ControllerConfig()


def _no_rack(node: int) -> str:
    return ""


class ReplicatedBroker(Machine):
    """A broker with replication.

    Args:
        node_id: Kafka's broker id.
        topics: the properties of topics besides their replicas.
        draws: the random variation of durations.
        rules: the decisions that past bugs change.
        store: the metadata store's actor.
        control: the configuration of this process's controller part, which opens the session in the store.
        log_dirs: the number of log directories.
        versions: the message versions that the broker offers to clients.
        makes_offsets_topic: whether the cluster is new, so that the first FindCoordinator creates the offsets topic.
        tells_topics: whether to tell the coordinator about the topics.
        rack_of: node id -> rack or "", for the coordinator.
        group_keys: the settings of groups in the broker's release; none before 4.0.
        life: the number of the start of the broker's process; added to each append, without effect on decisions.
    """

    _isr_writer: IsrWriter
    _group_settings: dict[str, dict[str, str]]
    """Group -> its own settings."""

    def __init__(
        self,
        name: ActorName,
        node_id: int,
        config: BrokerConfig,
        replication: ReplicaConfig,
        *,
        topics: Mapping[str, TopicSettings],
        chance: Chance,
        draws: Draws = CALM,
        rules: ReplicaRules = TODAY,
        store: ActorName = STORE,
        control: ControllerConfig = CONTROL,
        log_dirs: int = 1,
        versions: SpokenVersions = LATEST,
        makes_offsets_topic: bool = False,
        tells_topics: bool = False,
        rack_of: Callable[[int], str] = _no_rack,
        group_keys: tuple[str, ...] = (),
        life: int = 0,
    ) -> None:
        super().__init__(name)
        self.client = client = Client(
            self,
            request_timeout_us=replication.replica_socket_timeout_ms * US_PER_MS,
            reconnect=backoff_ms(replication.reconnect_backoff_ms, replication.reconnect_backoff_max_ms),
            chance=chance,
        )
        self.node_id = node_id
        self.manager = manager = ReplicaManager(
            self, node_id, config, replication, topics=topics, rules=rules, draws=draws, log_dirs=log_dirs, life=life
        )
        self.injections = Injections(self)
        self.answers = ClusterAnswers(self, self.injections, versions, node_id, life)
        self._configs = self._config_answers(config, replication, control, group_keys)
        self._connections = connections = Connections(self, self._receive)
        leaders = NewLeaders(self._believed, self.answers.leader_of, self.answers.broker)
        calls = ProduceCalls(self, connections, leaders)
        sessions = FetchSessions(self, config.max_incremental_fetch_session_cache_slots, life)
        self._fetches = ConsumerFetches(self, manager.served, self._unserved, connections, sessions, leaders)
        watermarks = HighWatermarks(self, manager, calls, self._fetches)
        self._isr_changes = IsrChanges(self, manager, watermarks, draws)
        self._deletions = RecordDeletions(self, manager, self._unserved, connections)
        self._follower_fetches = FollowerFetches(
            self, manager, watermarks, self._isr_changes, self._deletions, self.absent, sessions
        )
        self._led = LedPartitions(
            self,
            manager,
            calls,
            watermarks,
            self._fetches,
            self._follower_fetches,
            self._deletions,
            self.injections,
            self._unserved,
        )
        self._offsets = OffsetsHost(self, manager, self._led, tells_topics=tells_topics, rack_of=rack_of)
        self.fetchers = ReplicaFetchers(self, client, manager, draws)
        self._control = ControlRequests(
            self, manager, self.fetchers, self._led, watermarks, self._offsets, self.answers, draws
        )
        self._isr_writer = self._isr_writer_of(store, control, draws)
        self._isr_changes.writer = self._isr_writer
        self._shutdown = BrokerShutdown(self, client, manager, self._control, draws)
        self._timers: dict[str, Callable[[], None]] = {
            BrokerTimer.ISR: self._isr_changes.check,
            BrokerTimer.CHECKPOINT: manager.checkpoint_due,
            BrokerTimer.RETENTION: manager.delete_expired,
            BrokerTimer.FLUSH: manager.flush_due,
            BrokerTimer.MAKING_LOGS: self._control.logs_made,
            BrokerTimer.LEAVING: self._shutdown.try_shutdown,
            BrokerTimer.CLOSING_LOGS: self._shutdown.logs_closed,
            DEADLINE[0]: client.deadline_passed,
            **self._isr_writer.timers,
        }
        if makes_offsets_topic:
            self.answers.no_offsets_topic = OffsetsTopic(self, client, self._control, config, replication).create
        self._numbered_timers, self._received = self._timers_with_numbers(), self._requests()

    def _config_answers(
        self, config: BrokerConfig, replication: ReplicaConfig, control: ControllerConfig, group_keys: tuple[str, ...]
    ) -> ConfigAnswers:
        self._group_settings = {}
        return ConfigAnswers(
            self,
            self.injections,
            self.node_id,
            start=(config, replication, control),
            settings=self.manager.settings,
            own=self.manager.own_settings,
            groups=self._group_settings,
            group_keys=group_keys,
            knows=lambda topic: topic in self.answers.topics,
        )

    def _isr_writer_of(self, store: ActorName, control: ControllerConfig, draws: Draws) -> IsrWriter:
        """The sender of ISR changes, chosen by the rules."""
        manager, changes = self.manager, self._isr_changes
        if manager.rules.isr_path is not IsrPath.STORE:
            return AlterIsrs(self, self.client, changes, manager, self._control)
        return IsrStore(
            self,
            manager,
            changes,
            store=store,
            session_timeout_ms=control.zookeeper_session_timeout_ms,
            max_in_flight=control.zookeeper_max_in_flight_requests,
            draws=draws,
        )

    def _timers_with_numbers(self) -> dict[str, Callable[[int], None]]:
        """The timers whose keys also have a number."""
        return {
            BrokerTimer.FETCH: self._fetches.time_is_over,
            BrokerTimer.FOLLOWER_FETCH: self._follower_fetches.time_is_over,
            BrokerTimer.FETCHER: self.fetchers.due,
            BrokerTimer.PRODUCE: self._led.time_is_over,
            BrokerTimer.DELETE_RECORDS: self._deletions.time_is_over,
        }

    def _requests(self) -> dict[type, Callable[[Received], object]]:
        """The functions for messages by class; messages of other classes are replies."""
        return {
            Fetch: self._fetch,
            FetchReply: self.client.reply_arrived,  # half of all messages are of these types
            Produce: self._led.asked,
            LeaderAndIsr: self._control.asked,
            StopReplica: self._control.asked,
            UpdateMetadata: self._control.asked,
            OffsetForLeaderEpoch: self._epoch_ends,
            AppendGroups: self._offsets.append,
            BrokerSession: self._session_began,
            BrokerConfigs: self._configure,
            OwnConfigs: self._configure_own,
            GroupConfigs: self._configure_group,
            Metadata: self.answers.metadata,
            FindCoordinator: self.answers.find_coordinator,
            ListOffsets: self._list_offsets,
            DeleteRecords: self._deletions.asked,
            ApiVersions: self.answers.api_versions,
            InitProducerId: self.answers.init_producer_id,
            DescribeCluster: self.answers.describe_cluster,
            DescribeConfigs: self._configs.asked,
        }

    def handle(self, event: Event) -> None:
        """React to requests, the disk's answers, and the controller's requests."""
        match event:
            case Received(message=message):
                if not self._connections.keeps(event):
                    self._received.get(type(message), self._answered)(event)
            case Appended(token=token, error=error):
                self._written(token, error)
            case TimerFired(key=key):
                self._timer_fired(key)
            case LinkDown(peer=peer):
                if not self._isr_writer.handle(event):
                    self._link_down(peer)
            case Told(command=AnswerNext() as command):
                self.injections.arm(command)
            case Told(command=HoursPass()):
                self._isr_changes.hours_pass()
                self.manager.retention.hours_pass()
                self.fetchers.hours_pass()
            case Told(command=FailLogDir(log_dir=log_dir)):
                self._control.fail_dir(log_dir)
            case Told(command=Close()):
                self.manager.checkpoint()
                self._shutdown.begin()
            case Loaded(log=log, records=records):
                self.manager.found(log, records)
            case Told(command=Start()):
                self.manager.restore()
                self._isr_changes.check_later()
            case _:
                raise AssertionError(f"{self.name}: {event}")
        if self._connections.readable:
            self._connections.read_on()

    def _receive(self, event: Received) -> None:
        if not self._connections.keeps(event):
            self._received.get(type(event.message), self._answered)(event)

    def _timer_fired(self, key: TimerKey) -> None:
        if len(key) == 1:
            self._timers[key[0]]()
        elif key[0] in self._numbered_timers:
            self._numbered_timers[key[0]](int(key[1]))
        else:
            is_session_s = self._isr_writer.handle(TimerFired(key))
            assert is_session_s, f"{self.name}: no timer {key}"

    def _answered(self, event: Received) -> None:
        """Pass on a reply to this broker: a message that is not a request."""
        if not self._isr_writer.handle(event):
            self.client.reply_arrived(event)

    def _session_began(self, event: Received) -> None:
        message: BrokerSession = event.message
        self.reply(event, BrokerSessionReply())
        self._isr_writer.registered(message)
        if message.session_id:
            self._control.registered(message.broker_epoch)

    def _configure(self, event: Received) -> None:
        message: BrokerConfigs = event.message
        self.reply(event, BrokerConfigsReply())
        self.manager.configure(message.topic, dict(message.settings))

    def _configure_own(self, event: Received) -> None:
        message: OwnConfigs = event.message
        self.reply(event, OwnConfigsReply())
        self.manager.configure_own(dict(message.settings))

    def _configure_group(self, event: Received) -> None:
        message: GroupConfigs = event.message
        self.reply(event, GroupConfigsReply())
        self._group_settings[message.group] = dict(message.settings)
        self._offsets.configured(message)

    def _list_offsets(self, event: Received) -> None:
        self.answers.list_offsets(event, self.manager.led)

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """The error for a partition that this broker does not lead."""
        replica = self.manager.replicas.get((topic, partition))
        if replica is None:
            return self.answers.absent(topic, partition)
        return ErrorCode.KAFKA_STORAGE_ERROR if replica.role is Role.OFFLINE else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _believed(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The leader and its epoch, as a replica on a working disk knows them (``getPartitionOrError``)."""
        replica = self.manager.replicas.get((topic, partition))
        return None if replica is None or replica.role is Role.OFFLINE else (replica.leader, replica.leader_epoch)

    def _unserved(self, topic: str, partition: int) -> ErrorCode:
        """The error for a partition that this broker does not serve; the metadata cache is checked first."""
        if not self.answers.knows(topic, partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.absent(topic, partition)

    # --- connections and the disk ------------------------------------------------------------------------------

    def _link_down(self, peer: ActorName) -> None:
        self._connections.link_down(peer)
        self._fetches.link_down(peer)
        if self.client.awaits(peer):
            self.client.connection_broke(peer, DISCONNECTED)

    def _written(self, token: int, error: ErrorCode) -> None:
        replica = self.manager.written(token, error)
        if replica is None:
            return
        if error is not _NONE:
            self._control.fail(replica)
        elif replica.role is _LEADER:
            self._led.durable(replica)
        elif not replica.writes:
            self.fetchers.durable(replica)

    # --- fetches and epochs ------------------------------------------------------------------------------------

    def _fetch(self, event: Received) -> None:
        error = self.injections.take("Fetch", event.peer)
        if error is not None:
            self._fetches.refuse(event, error)
        elif event.message.replica_id >= 0:
            self._follower_fetches.asked(event)
        else:
            self._fetches.asked(event)

    def _epoch_ends(self, event: Received) -> None:
        request: OffsetForLeaderEpoch = event.message
        answers = tuple(self._epoch_end(question) for question in request.questions)
        self.reply(event, OffsetForLeaderEpochReply(answers=answers))

    def _epoch_end(self, question: EpochQuestion) -> EpochEnd:
        replica = self.manager.led.get((question.topic, question.partition))
        error = self.absent(question.topic, question.partition) if replica is None else _NONE
        if replica is None:
            return no_epoch_end(question, error)
        if self.manager.rules.fences_fetches:
            error = replica.epoch_error(question.current_leader_epoch)
        return epoch_end(question, error, replica.log.epochs, replica.log.end_offset)
