"""A cluster with replication: a metadata store, a controller part in each broker, and elected leaders.

The emulated controller makes all decisions of Kafka's controller. ``ReplicatedCluster`` builds the hosts and acts as
the operators: operators create the initial topics, ask the controller through the admin client, and stop brokers. The
class also resolves the roles in plans: "coordinator of g", "controller" and "partition leader of t-0".
``ReplicatedCluster`` learns of topics from the store.
"""

from collections.abc import Iterator, Sequence

from kemu.actors.broker.partition_log import JOURNALS, PartitionLog, log_name
from kemu.actors.broker.replica_log import DELETED_ENTRY, batch_entry, end_offset_of, is_cleaning, restored
from kemu.actors.broker.replica_manager import WATERMARKS, TopicSettings
from kemu.actors.broker.replicated import ReplicatedBroker
from kemu.actors.controller.controller import Controller
from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.coordinator.on_broker_log import BrokerLog
from kemu.actors.machine import US_PER_MS, Record
from kemu.actors.store.disk import TRANSACTIONS
from kemu.actors.store.store import Store
from kemu.emulator import facts
from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.draws import Drawn
from kemu.emulator.engine.hosts import Condition, Host, MachineFactory
from kemu.emulator.facts import Seen
from kemu.emulator.plan.known import role_of
from kemu.emulator.plan.stage import ReplicatedOperators
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.protocol.commands import (
    AddPartitions,
    AlterConfigs,
    ElectLeadersOf,
    FailLogDir,
    HoursPass,
    MakeTopic,
    RemoveTopic,
    SeedNodes,
)
from kemu.protocol.draws import DrawName
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.names import (
    OFFSETS_TOPIC,
    STORE,
    TopicPartition,
    broker_host,
    controller_on,
    coordinator_on,
    host_of,
)
from kemu.protocol.nodes import (
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    ReplicaAssignment,
    config_data,
    partitions_data,
    read_topic,
    reassignments_data,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.replication import BecameController, BecameLeader, NodeWritten
from kemu.protocol.placement import place
from kemu.protocol.replication import ReassignmentAlgorithm

_MOST_WATERMARKS = 10_000
"""Number of rows in a file of high watermarks, from which on only the newest rows remain."""
STORE_ELECTION_US = 2_000_000
"""Duration of an election in the metadata store, unless the duration is drawn, in us."""


class ReplicatedCluster(Cluster):
    """A cluster with replication; its controller elects leaders."""

    @property
    def replication(self) -> ReplicationSpec:
        """Return the replication settings of the scenario."""
        spec = self.scenario.brokers.replication
        assert spec is not None
        return spec

    # --- building ----------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Add every host of the scenario, including the store. The hosts do not run yet."""
        self._settings = {
            name: TopicSettings(record_bytes=topic.record_bytes, min_in_sync=topic.min_isr)
            for name, topic in self.scenario.topics.items()
        }
        self._settings |= {
            name: TopicSettings(record_bytes=topic.record_bytes, min_in_sync=None)
            for name, topic in self.scenario.created_topics().items()
        }
        self._rates: dict[str, int] = {}
        """Topic that is being created -> records per second of the topic's producer."""
        self._election_asked = False
        """Whether the store holds a request for an election that no controller has carried out."""
        self._reassignment_asked = False
        """Whether the store holds an unfinished reassignment."""
        self._leaders: dict[TopicPartition, tuple[int, str]] = {}
        """Partition -> (leader epoch, host) of the last broker that became its leader."""
        self._controller = ""
        self._failed_dirs: dict[str, dict[int, None]] = {}
        """Broker -> failed log directories."""
        self._halted: dict[str, None] = {}
        """Brokers that ended because all of their log directories have failed."""
        self.assignments = self._assign()
        self.world.end_offset_of = end_offset_of
        self.world.written = _written
        self.world.add_host(STORE, {STORE: self._store})
        super().build()

    def begin(self) -> None:
        """Start the store with the initial topics, and schedule the other starts."""
        self.world.at(0, self._starter(STORE))
        self.world.at(0, self._seed)
        super().begin()
        for topic, replicas in self.assignments.items():
            self._report_replicas(topic, replicas)

    def _report_replicas(self, topic: str, replicas: tuple[tuple[int, ...], ...]) -> None:
        spec, factor = self.scenario.topics.get(topic), self.replication.factor
        unclean = self.replication.unclean if spec is None or spec.unclean is None else spec.unclean
        min_isr = self.replication.min_isr if spec is None or spec.min_isr is None else spec.min_isr
        self.world.report(
            facts.TopicReplicated(topic=topic, replicas=replicas, min_isr=min(min_isr, factor), unclean=unclean)
        )

    def _assign(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return the replicas of each topic by Kafka's placement. Each topic begins at the broker after the previous
        topic's.
        """
        scenario, factor = self.scenario, self.replication.factor
        brokers = tuple(range(scenario.brokers.count))
        racks = self._racks(brokers)
        offsets = self.broker_config.offsets_topic_num_partitions
        placed: dict[str, tuple[tuple[int, ...], ...]] = {}
        if not self.replication.new_cluster:
            copies = self.replication.replica_config().offsets_topic_replication_factor
            placed[OFFSETS_TOPIC] = place(brokers, offsets, copies, racks=racks)
        for start, (name, topic) in enumerate(scenario.topics.items()):
            given = topic.placed()
            copies = len(given[0]) if given else topic.replication_factor or factor
            replicas = place(brokers, topic.partitions, copies, racks=racks, start=start % len(brokers))
            placed[name] = (*given, *replicas[len(given) :])
        return placed

    def _racks(self, brokers: tuple[int, ...]) -> dict[int, str] | None:
        spec = self.scenario.brokers
        return {node: spec.rack_of(node) for node in brokers} if spec.racks else None

    def _seed(self) -> None:
        nodes, ids = [], Drawn(self.world.choices, self.draws, "topics")
        for topic, replicas in self.assignments.items():
            rows = {number: ReplicaAssignment(each) for number, each in enumerate(replicas)}
            nodes.append((topic_path(topic), topic_data(rows, ids.identity(f"{topic}-0"))))
            nodes += self._config_nodes(topic)
        self.world.tell(STORE, SeedNodes(nodes=tuple(nodes)))

    def _config_nodes(self, topic: str) -> list[tuple[str, bytes]]:
        """Return the store's node with a topic's own settings as [(path, data)]; [] without own settings."""
        settings = self._own_settings(topic)
        return [(topic_config_path(topic), config_data(settings))] if settings else []

    def _own_settings(self, topic: str) -> list[tuple[str, str]]:
        spec = self.scenario.topics.get(topic)
        settings = []
        if spec is not None and spec.min_isr is not None:
            settings.append(("min.insync.replicas", str(spec.min_isr)))
        if spec is not None and spec.unclean is not None:
            settings.append(("unclean.leader.election.enable", str(spec.unclean).lower()))
        settings += spec.settings() if spec is not None else ()
        return settings

    def _broker_factories(self, node: int, name: str) -> dict[str, MachineFactory]:
        spec, bugs = self.replication, self.scenario.bugs
        replication, control = spec.replica_config(), spec.controller_config()
        rack = self.scenario.brokers.rack_of(node) or None
        settings = self._settings

        def broker(life: int) -> ReplicatedBroker:
            chance = self.world.choices.stream(f"{name}/life {life}")
            return ReplicatedBroker(
                name,
                node,
                self.releases.config_of(name),
                replication,
                topics=settings,
                chance=chance,
                draws=Drawn(self.world.choices, self.draws, f"{name}/life {life}"),
                rules=spec.replica_rules(
                    self.releases.of_broker(name), self.releases.protocol_of(name), bugs, self.scenario.mended
                ),
                store=STORE,
                control=control,
                log_dirs=self.scenario.brokers.log_dirs_of(name),
                versions=self.releases.offered_by(name),
                makes_offsets_topic=spec.new_cluster,
                tells_topics=self.tells_topics(name),
                group_keys=self.releases.group_keys_of(name),
                rack_of=self.scenario.brokers.rack_of,
                life=life,
            )

        def coordinator(life: int) -> Coordinator:
            config = self.releases.config_of(name)
            draws = self.group_draws(f"{coordinator_on(name)}/life {life}")
            return Coordinator(
                coordinator_on(name),
                node,
                config,
                lambda machine: BrokerLog(
                    machine,
                    name,
                    config.emulated_load_us,
                    draws,
                    commit_timeout_us=replication.offsets_commit_timeout_ms * US_PER_MS,
                ),
                self.releases.coordinator_rules_of(name),
                self.releases.offered_by(name),
                life,
                draws,
            )

        def controller(life: int) -> Controller:
            release = self.releases.of_broker(name)
            return Controller(
                controller_on(name),
                node,
                control,
                rack=rack,
                min_insync_replicas=replication.min_insync_replicas,
                bad_group_settings=self.releases.check_of_group_settings(name),
                store=STORE,
                rules=spec.controller_rules(release, self.releases.protocol_of(name), bugs, self.scenario.mended),
                draws=Drawn(self.world.choices, self.draws, f"{controller_on(name)}/life {life}"),
                versions=self.releases.offered_by(name),
            )

        return {
            name: broker,
            coordinator_on(name): coordinator,
            controller_on(name): controller,
        }

    def _initial_logs(self) -> Iterator[tuple[str, str, tuple[Record, ...]]]:
        for name, topic in self.scenario.topics.items():
            for number, count in enumerate(topic.filled()):
                entry = batch_entry(ReplicaBatch(base_offset=0, count=count, append_time_ms=0, leader_epoch=0))
                log = log_name(name, number)
                for node in self.assignments[name][number] if count else ():
                    yield self.brokers[node], JOURNALS + log, entry
                    yield self.brokers[node], WATERMARKS, ((log.encode(), str(count).encode()),)

    def _log_on_disk(self, name: str, records: Sequence[Record]) -> PartitionLog | None:
        return restored(records) if name.startswith(JOURNALS) else None

    def _record_count(self, records: Sequence[Record]) -> int:
        log = restored(records)
        return log.end_offset - log.start_offset if log is not None else 0

    def announce_long_uptime(self) -> None:
        """Inform members, brokers and controller parts that the cluster has run undisturbed for hours."""
        super().announce_long_uptime()
        for name in self.brokers:
            self.world.tell(name, HoursPass())
            self.world.tell(controller_on(name), HoursPass())

    def _store(self, life: int) -> Store:
        draws = Drawn(self.world.choices, self.draws, f"{STORE}/life {life}")
        tick_us = draws.us(DrawName.STORE_TICK, 0)
        phase_us = draws.us(DrawName.STORE_GRID_PHASE, 0, tick_us)
        self._store_now = Store(STORE, tick_us=tick_us, tick_phase_us=phase_us)
        return self._store_now

    # --- what is where -----------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Whether the cluster uses facts of this type, such as facts about leaders and topics."""
        return kind in (BecameLeader, BecameController, NodeWritten) or super().wants(kind)

    def see(self, seen: Seen) -> None:
        """Note a changed leader of a group or partition, or a changed controller."""
        fact = seen.fact
        if type(fact) is BecameLeader:
            at = (fact.topic, fact.partition)
            if fact.leader_epoch >= self._leaders.get(at, (-1, ""))[0]:
                self._leaders[at] = (fact.leader_epoch, seen.actor)
        elif type(fact) is BecameController:
            self._controller = host_of(seen.actor)
        elif type(fact) is NodeWritten:
            self._written(fact)
        else:
            super().see(seen)

    def _written(self, fact: NodeWritten) -> None:
        """Note a write to the store: a created, grown or deleted topic, or a request for the controller."""
        if fact.path == PREFERRED_ELECTION:
            self._election_asked = fact.what != "deleted"
            return
        if fact.path == REASSIGN_PARTITIONS:
            self._reassignment_asked = fact.what != "deleted"
            return
        folder, _, topic = fact.path.rpartition("/")
        if folder != TOPICS:
            return
        if fact.what == "deleted":
            self.assignments.pop(topic, None)
            for at in [at for at in self._leaders if at[0] == topic]:
                del self._leaders[at]  # a new topic of the same name begins at epoch 0
            return
        rows = read_topic(fact.data)
        before = self.assignments.get(topic)
        self.assignments[topic] = tuple(rows[number].replicas for number in rows)
        if before is None or len(before) < len(rows):
            self.world.at(self.world.now_us, _Appearance(self, topic, self.assignments[topic], is_new=before is None))

    def appeared(self, topic: str, replicas: tuple[tuple[int, ...], ...], *, is_new: bool) -> None:
        """Report a new topic or new partitions in the store, and start the producer of a new topic."""
        if is_new:
            self._report_replicas(topic, replicas)
        if topic != OFFSETS_TOPIC:
            self.world.report(facts.TopicGrown(topic=topic, partitions=len(replicas)))
        rate = self._rates.pop(topic, 0) if is_new else 0
        if rate:
            self.set_rate(topic, rate)

    @property
    def is_up(self) -> bool:
        rows = self.assignments.items()
        return super().is_up and all((topic, n) in self._leaders for topic, of in rows for n in range(len(of)))

    def coordinator_of(self, group: str) -> str:
        return self._leaders.get((OFFSETS_TOPIC, self._partition_of(group)), (NO_LEADER, ""))[1]

    def resolve(self, name: str) -> str:
        if name == "controller":
            return self._controller
        role = role_of(name)
        if role is not None and role[0] == "partition leader":
            topic, _, number = role[1].rpartition("-")
            return self._leaders.get((topic, int(number)), (NO_LEADER, ""))[1]
        return super().resolve(name)

    # --- hosts and operators -----------------------------------------------------------------------------------

    def close(self, name: str) -> bool:
        """Ask a host to close; a broker ends after a controlled shutdown."""
        return self._ask_to_close(name) if self.world.hosts[name].running else self.not_started_after_all(name)

    def revive(self) -> None:
        """Start the store, and every broker that is down."""
        self.start(STORE)
        super().revive()

    def tell_servers(self, command: object) -> None:
        """Send a command to every broker, coordinator and controller."""
        super().tell_servers(command)
        for name in self.brokers:
            self.world.tell(controller_on(name), command)

    def add_brokers(self, count: int) -> str | None:
        for _ in range(count):
            name = broker_host(len(self.brokers))
            self.adopt_broker(name)
            self.world.report(facts.BrokerHostAdded(host=name))
            self.start(name)
        return None

    def grow_topic(self, topic: str, partitions: int) -> str | None:
        """Ask the controller to grow a topic."""
        return self.ask_admin(AddPartitions(topic=topic, partitions=partitions))

    def alter_configs(self, change: AlterConfigs) -> str | None:
        """Ask a broker to change a setting."""
        return self.ask_admin(change)

    def tell_store(self, command: object) -> str | None:
        return None if self.world.tell(STORE, command) else "the store does not run"

    # --- log directories ---------------------------------------------------------------------------------------

    def start(self, name: str, *, keep_disk: bool = True) -> bool:
        """Start a host that does not run. A broker with an empty disk has no failed log directory."""
        if not keep_disk:
            self._failed_dirs.pop(name, None)
        return super().start(name, keep_disk=keep_disk)

    def fail_log_dir(self, name: str, log_dir: int) -> str | None:
        """Make a log directory fail. The broker detects the failure at once, or at its next start.

        Kafka's broker detects the failure at the next write, at the latest at the next checkpoint of high watermarks
        (every 5 s).
        """
        failed, host = self._failed_dirs.setdefault(name, {}), self.world.hosts[name]
        if log_dir >= self.scenario.brokers.log_dirs_of(name):
            return f"{name} has no log directory {log_dir}"
        if log_dir in failed:
            return f"log directory {log_dir} of {name} has failed already"
        failed[log_dir] = None
        if not host.running:
            return None
        if self._has_no_dir(name):
            self._halt(host)
        else:
            self.world.tell(name, FailLogDir(log_dir=log_dir))
            self.world.tell(controller_on(name), FailLogDir(log_dir=log_dir))
        return None

    def repair_log_dir(self, name: str, log_dir: int) -> None:
        if self._failed_dirs.get(name, {}).pop(log_dir, -1) is not None:
            return  # the broker has an empty disk now
        host = self.world.hosts[name]
        if host.running:
            self.world.take_down(host, Condition.CRASHED)
        elif self._halted.pop(name, -1) is not None:
            return  # the broker is down for another reason
        self.start(name)

    def _has_no_dir(self, name: str) -> bool:
        return len(self._failed_dirs.get(name, {})) == self.scenario.brokers.log_dirs_of(name)

    def _halt(self, host: Host) -> None:
        """End a broker that has no log directory left. Source: ``LogManager.handleLogDirFailure``, Kafka 3.4."""
        self._halted[host.name] = None
        self.world.take_down(host, Condition.CRASHED)

    def store_election_us(self, said_us: int) -> int:
        drawn = Drawn(self.world.choices, self.draws, f"{STORE}/life {self.world.hosts[STORE].life}")
        return said_us or drawn.us(DrawName.STORE_ELECTION, STORE_ELECTION_US)

    def create_topic(self, topic: str, partitions: int, replication_factor: int, records_per_s: int) -> str | None:
        self._rates[topic] = records_per_s
        return self.ask_admin(
            MakeTopic(
                topic=topic,
                partitions=partitions,
                replication_factor=replication_factor or -1,
                configs=tuple(self._own_settings(topic)),
            )
        )

    def delete_topic(self, topic: str) -> str | None:
        """Stop a topic's producer, and ask the controller to delete the topic."""
        for host, named in self.scenario.producer_names():
            if named == topic and self.world.hosts[host].running:
                self.set_rate(topic, 0)
        return self.ask_admin(RemoveTopic(topic=topic))

    @property
    def reassigns_by_store(self) -> bool:
        return self.replication.reassigns(self.releases.own) is ReassignmentAlgorithm.ALL_AT_ONCE

    def reassign_in_store(
        self, topic: str, targets: tuple[tuple[int, tuple[int, ...]], ...], brokers: tuple[int, ...]
    ) -> str | None:
        """Write a reassignment into the store, as the tool did before Kafka 2.4."""
        if self._reassignment_asked:
            return "the last such reassignment is not done yet"
        count = len(self.assignments.get(topic, ()))
        if not count:
            return f"there is no topic {topic} now"
        rows = targets
        if brokers:
            turns = [(number, number % len(brokers)) for number in range(count)]
            rows = tuple((number, brokers[turn:] + brokers[:turn]) for number, turn in turns)
        data = reassignments_data({(topic, number): replicas for number, replicas in rows})
        return self.tell_store(SeedNodes(nodes=((REASSIGN_PARTITIONS, data),)))

    def elect_preferred_leaders(self, topics: tuple[str, ...], *, in_store: bool) -> str | None:
        """Ask the controller for elections, or write the list into the store as the tool did before Kafka 2.4."""
        if not in_store:
            return self.ask_admin(ElectLeadersOf(topics=topics, unclean=False))
        if self._election_asked:
            return "the last such election is not done yet"
        named = topics or tuple(self.assignments)
        listed = [(topic, number) for topic in named for number in range(len(self.assignments.get(topic, ())))]
        if not listed:
            return f"there is no topic {', '.join(named)} now"
        return self.tell_store(SeedNodes(nodes=((PREFERRED_ELECTION, partitions_data(listed)),)))

    def expect_takeover(self, group: str) -> None:
        """Do nothing: the controller detects the failure."""

    def move_coordinator(self, group: str, to: str) -> str | None:
        """Not available: with replication, only elections move leaders."""
        raise AssertionError("a plan that moves a coordinator where brokers replicate is refused when it is read")

    @property
    def replicated(self) -> ReplicatedOperators:
        return self

    def _started(self, host: Host) -> None:
        """Inform a starting broker of its failed log directories."""
        if host.name in self._failed_dirs:
            self._halted.pop(host.name, None)
            for log_dir in self._failed_dirs[host.name]:
                self.world.tell(host.name, FailLogDir(log_dir=log_dir))
            if self._has_no_dir(host.name):
                life = host.life
                self.world.at(self.world.now_us, lambda: self._halt(host) if host.life == life else None)

    def _went_down(self, host: Host) -> None:
        """After the end of the store, keep its answered transactions on its disk. For other hosts, do nothing."""
        if host.name == STORE:
            host.disk.logs[TRANSACTIONS] = list(self._store_now.on_disk())


def _written(host: Host, log: str, records: tuple[Record, ...]) -> None:
    """Shorten the journal of a cleaned log, and the file of high watermarks."""
    if not records:
        return
    if is_cleaning(records[0]):
        host.disk.compact(log, _shortened, len(host.disk.logs[log]) - len(records))
    elif log == WATERMARKS and len(host.disk.logs[log]) >= _MOST_WATERMARKS:
        host.disk.compact(log, lambda rows: list(dict(rows).items()), _MOST_WATERMARKS)


def _shortened(journal: list[Record]) -> list[Record]:
    log = restored(journal)
    return [DELETED_ENTRY] if log is None else log.journal()


class _Appearance:
    """Reports a topic after the step in which the store wrote the topic."""

    def __init__(
        self, cluster: ReplicatedCluster, topic: str, replicas: tuple[tuple[int, ...], ...], *, is_new: bool
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._replicas = replicas
        self._is_new = is_new

    def __call__(self) -> None:
        self._cluster.appeared(self._topic, self._replicas, is_new=self._is_new)
