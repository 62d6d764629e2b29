"""A cluster whose leaders the emulator assigns, so that brokers never disagree. Use such a cluster to study only
groups.

The cluster has no controller and no metadata store. A topic's partition is available while its broker runs. After the
detection of a failed leader, another broker takes over partitions of ``__consumer_offsets``, with all durable records.

Leader epochs equal those that Kafka's controller assigns to partitions with one replica. The controller removes a
failed broker as leader, and elects the broker when it returns; each write adds one epoch. Before Kafka 4.0, a broker
that runs alone is the controller itself: without an election, the broker keeps its leaderships and epochs. Source:
``KafkaController.onBrokerFailure``, ``onControllerFailover``, ``PartitionStateMachine.initializePartitionState``,
``ReplicaStateMachine.doRemoveReplicasFromIsr``, Kafka 3.4; ``ReplicationControlManager.handleBrokerShutdown``,
``handleBrokerInControlledShutdown``, ``handleBrokerUnfenced``, Kafka 4.0 to 4.3.
"""

from collections.abc import Callable, Iterator, Sequence

from kemu.actors.broker.arranged import Broker
from kemu.actors.broker.log_cleaner import Segments, cleaned, newest
from kemu.actors.broker.partition_log import LoggedBatch, PartitionLog, log_name, to_record
from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.machine import US_PER_MS, Record
from kemu.emulator import facts
from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.draws import Drawn
from kemu.emulator.engine.hosts import Condition, Host, MachineFactory
from kemu.emulator.plan.stage import ReplicatedOperators
from kemu.protocol.commands import (
    AlterConfigs,
    ClusterView,
    ConfigureGroup,
    ConfigureTopic,
    HostPartition,
    HoursPass,
    KnowTopics,
    LeadOffsets,
    ResignOffsets,
)
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import define
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.messages.records import batch_bytes, removed_count
from kemu.protocol.names import OFFSETS_TOPIC, coordinator_on

BROKER_SESSION_US = 9_000_000
"""Time without a heartbeat after which a broker has failed, in us. Source: ``broker.session.timeout.ms``, Kafka 3.9."""
_KRAFT_SINCE = (4, 0)
"""The first release without ZooKeeper. Its brokers replay the metadata log, and wait until the controller unfences
them, before they accept connections. Source: ``BrokerServer.startup``, Kafka 4.0 to 4.3.
"""


@define
class _Topic:
    leaders: list[int]
    epochs: list[int]
    """Leader epoch of each partition, by partition number."""
    record_bytes: int


class ArrangedCluster(Cluster):
    """A cluster without replication; the emulator assigns its leaders."""

    def build(self) -> None:
        """Assign the leaders, and add every host; no host runs yet."""
        count = len(self.brokers)
        self._topics = {
            name: _Topic(
                [(first + number) % count for number in range(spec.partitions)],
                [0] * spec.partitions,
                spec.record_bytes,
            )
            for first, (name, spec) in enumerate(self.scenario.topics.items())
        }
        ids = Drawn(self.world.choices, self.draws, "topics")
        self._topic_ids = {name: ids.identity(f"{name}-0") for name in self._topics}
        self._live = [True] * count
        """By node id: whether the controller regards the broker as alive."""
        self._leads_nothing = [False] * count
        """By node id: whether the controller removed the broker as leader after a failure."""
        self._knows_nothing = [False] * count
        """By node id: whether the broker runs and has received no metadata yet."""
        partitions = self.broker_config.offsets_topic_num_partitions
        self._offsets_leaders = [number % count for number in range(partitions)]
        self._offsets_epochs = [0] * partitions
        self._group_settings: dict[str, dict[str, str]] = {}
        """Group -> the group's own settings, by Kafka's keys."""
        self._takeovers: dict[int, int] = {}
        """Partition of the offsets topic -> failed leader. The partition moves when the failure is detected."""
        self._segments: dict[tuple[str, str], Segments] = {}
        """(broker, log of the offsets topic) -> segments of the log."""
        self.world.written = self._written
        super().build()

    def _broker_factories(self, node: int, name: str) -> dict[str, MachineFactory]:
        def broker(life: int) -> Broker:
            draws = Drawn(self.world.choices, self.draws, f"{name}/life {life}")
            config, offered = self.releases.config_of(name), self.releases.offered_by(name)
            return Broker(name, node, config, draws, offered, life, self.releases.group_keys_of(name))

        def coordinator(life: int) -> Coordinator:
            return Coordinator(
                coordinator_on(name),
                node,
                self.releases.config_of(name),
                rules=self.releases.coordinator_rules_of(name),
                versions=self.releases.offered_by(name),
                draws=Drawn(self.world.choices, self.draws, f"{coordinator_on(name)}/life {life}"),
            )

        return {name: broker, coordinator_on(name): coordinator}

    def coordinator_of(self, group: str) -> str:
        node = self._offsets_leaders[self._partition_of(group)]
        return "" if node == NO_LEADER else self.brokers[node]

    def _initial_logs(self) -> Iterator[tuple[str, str, tuple[Record, ...]]]:
        for name, topic in self.scenario.topics.items():
            for number, count in enumerate(topic.filled()):
                if count:
                    node, batch = self._topics[name].leaders[number], LoggedBatch(0, count, 0, 0)
                    yield self.brokers[node], log_name(name, number), (to_record(batch),)

    def _log_on_disk(self, name: str, records: Sequence[Record]) -> PartitionLog | None:
        return PartitionLog.rebuilt(records) if name.rpartition("-")[0] in self._topics else None

    def _record_count(self, records: Sequence[Record]) -> int:
        log = PartitionLog.rebuilt(records)
        return log.end_offset - log.start_offset

    # --- hosts -------------------------------------------------------------------------------------------------

    def close(self, name: str) -> bool:
        """Close a host. A client is asked to close; a broker ends after its offsets partitions have moved."""
        host = self.world.hosts[name]
        if not host.running:
            return self.not_started_after_all(name)
        if name not in self.brokers:
            return self._ask_to_close(name)
        node = self.brokers.index(name)
        for partition, leader in enumerate(self._offsets_leaders):
            if leader == node:
                self._move(partition, self._next_live(node))
        self._live[node] = False
        self.world.take_down(host, Condition.CLOSED)
        self._write_deaths()
        self._tell_view()
        return True

    def _started(self, host: Host) -> None:
        if host.name not in self.brokers:
            return
        node = self.brokers.index(host.name)
        if (
            host.life > 1 and self._live[node]
        ):  # restarted before the failure was detected: the controller sees a new broker epoch
            self._live[node] = False
            self._write_deaths()
        self._live[node] = True
        window_us = self._window_us(host, node)
        if not window_us:
            self._lead_again(node)
            self._learn(node)
            return
        self._knows_nothing[node] = True
        self._tell_view()
        life = host.life

        def soon(then: Callable[[int], None], at_us: int) -> None:
            self.world.at(at_us, lambda: then(node) if host.running and host.life == life else None)

        draws = Drawn(self.world.choices, self.draws, f"{host.name}/life {host.life}")
        learned_us = self.world.now_us + window_us
        soon(self._lead_again, learned_us - min(draws.us(DrawName.BROKER_LEADS, 0), window_us))
        soon(self._learn, learned_us)

    def _window_us(self, host: Host, node: int) -> int:
        """Return the time in us for which a restarted broker has no metadata. Before Kafka 4.0, a lone broker must
        first become controller.
        """
        others = [name for at, name in enumerate(self.brokers) if at != node and self._live[at]]
        if host.life == 1 or self._has_kraft(node) or any(self.world.hosts[name].running for name in others):
            return 0
        draws = Drawn(self.world.choices, self.draws, f"{host.name}/life {host.life}")
        return draws.us(DrawName.BROKER_WINDOW, 0)

    def _has_kraft(self, node: int) -> bool:
        return self.releases.of_broker(self.brokers[node]).release >= _KRAFT_SINCE

    def _lead_again(self, node: int) -> None:
        """Let a broker lead its partitions (LeaderAndIsr). Its metadata may follow later."""
        if self._leads_nothing[node]:
            self._leads_nothing[node] = False
            self._next_epoch(node)
        self._write_deaths()
        for group in self._group_settings:
            self._configure_group(group, node)
        for topic, state in self._topics.items():
            if settings := self.scenario.topics[topic].settings():
                self.world.tell(self.brokers[node], ConfigureTopic(topic=topic, settings=settings))
            for partition, leader in enumerate(state.leaders):
                if leader == node:
                    self._host_partition(topic, partition, leader)
        for partition, leader in enumerate(self._offsets_leaders):
            if leader == node:
                self._offsets_epochs[partition] += 1
                self._lead(partition, node)

    def _learn(self, node: int) -> None:
        """Send the metadata to a broker (UpdateMetadata)."""
        self._knows_nothing[node] = False
        self._tell_view()

    def _went_down(self, host: Host) -> None:
        if host.name in self.brokers and host.condition is not Condition.CLOSED:
            life = host.life
            node = self.brokers.index(host.name)

            def notice() -> None:
                if not (host.running and host.life > life):
                    self._notice_death(node)
                else:
                    self._taken_from(node)

            draws = Drawn(self.world.choices, self.draws, f"{host.name}/life {life}")
            silent_us = draws.us(DrawName.BROKER_BEAT, 0)
            self.world.at(self.world.now_us + max(BROKER_SESSION_US - silent_us, 0), notice)

    def _notice_death(self, node: int) -> None:
        self._live[node] = False
        self._write_deaths()
        self._take_over(node)
        self._tell_view()

    def announce_long_uptime(self) -> None:
        """Inform members (and brokers, if records may expire) that the cluster has run undisturbed for hours."""
        super().announce_long_uptime()
        if any(topic.settings() for topic in self.scenario.topics.values()):
            for name in self.brokers:
                self.world.tell(name, HoursPass())

    # --- who leads what ----------------------------------------------------------------------------------------

    def _tell_view(self) -> None:
        """Send the cluster's metadata to every running broker."""
        alive = self._live
        brokers = tuple((node, self.scenario.brokers.rack_of(node)) for node in range(len(alive)) if alive[node])
        topics = tuple(
            (name, tuple(node if alive[node] else NO_LEADER for node in topic.leaders), tuple(topic.epochs))
            for name, topic in self._topics.items()
        )
        offsets_leaders = tuple(
            node if node != NO_LEADER and alive[node] else NO_LEADER for node in self._offsets_leaders
        )
        view = ClusterView(brokers=brokers, topics=topics, offsets_leaders=offsets_leaders)
        nothing = ClusterView(brokers=brokers, topics=(), offsets_leaders=())
        if any(map(self.tells_topics, self.brokers)):
            self._tell_topics()
        for node, name in enumerate(self.brokers):
            self.world.tell(name, nothing if self._knows_nothing[node] else view)

    def _tell_topics(self) -> None:
        """Send the topics with their ids to every running broker and coordinator that knows the cluster."""
        rows = tuple((name, self._topic_ids[name], len(topic.leaders)) for name, topic in self._topics.items())
        for node, name in enumerate(self.brokers):
            if not self._knows_nothing[node]:
                self.world.tell(name, KnowTopics(topics=rows))
                self.world.tell(coordinator_on(name), KnowTopics(topics=rows))

    def _host_partition(self, topic: str, partition: int, node: int) -> None:
        state = self._topics[topic]
        command = HostPartition(
            topic=topic,
            partition=partition,
            leader_epoch=state.epochs[partition],
            record_bytes=state.record_bytes,
        )
        self.world.tell(self.brokers[node], command)

    def _write_deaths(self) -> None:
        """Remove failed brokers as leaders. Before Kafka 4.0, a live broker must be able to act as controller."""
        nodes = range(len(self.brokers))
        controlled = any(
            self._live[node] and not self._knows_nothing[node] and self.world.hosts[self.brokers[node]].running
            for node in nodes
        )
        for node in nodes:
            if not self._live[node] and not self._leads_nothing[node] and (controlled or self._has_kraft(node)):
                self._leads_nothing[node] = True
                self._next_epoch(node)

    def _next_epoch(self, node: int) -> None:
        for topic in self._topics.values():
            for partition, leader in enumerate(topic.leaders):
                topic.epochs[partition] += leader == node

    def alter_configs(self, change: AlterConfigs) -> str | None:
        """Change a group's setting. Only groups have settings that change without replication."""
        settings = self._group_settings.get(change.group, {}) | {change.key: change.value}
        if not change.value:
            del settings[change.key]
        check = self.releases.check_of_group_settings(self.brokers[0])
        if check is None:
            return "groups have no settings of their own before Kafka 4.0"
        if why := check(settings):
            return f"INVALID_CONFIG: {why}"
        self._group_settings[change.group] = settings
        for node in range(len(self.brokers)):
            self._configure_group(change.group, node)
        return None

    def _configure_group(self, group: str, node: int) -> None:
        settings = tuple(self._group_settings[group].items())
        self.world.tell(self.brokers[node], ConfigureGroup(group=group, settings=settings))
        self.world.tell(coordinator_on(self.brokers[node]), ConfigureGroup(group=group, settings=settings))

    def grow_topic(self, topic: str, partitions: int) -> str | None:
        state = self._topics[topic]
        if partitions <= len(state.leaders):
            return f"{topic} has {len(state.leaders)} partitions already"
        first = state.leaders[0]
        for number in range(len(state.leaders), partitions):
            node = (first + number) % len(self.brokers)
            state.leaders.append(node)
            state.epochs.append(0)
            self._host_partition(topic, number, node)
        self.world.report(facts.TopicGrown(topic=topic, partitions=partitions))
        self._tell_view()
        return None

    def expect_takeover(self, group: str) -> None:
        partition = self._partition_of(group)
        self._takeovers[partition] = self._offsets_leaders[partition]

    def _take_over(self, dead: int) -> None:
        for partition in self._taken_from(dead):
            if self._offsets_leaders[partition] == dead:  # otherwise the plan has moved the partition in the meantime
                self._move(partition, self._next_live(dead))

    def _taken_from(self, leader: int) -> list[int]:
        """Remove and return the partitions that were to move after the detection of this leader's failure."""
        found = [partition for partition, old in self._takeovers.items() if old == leader]
        for partition in found:
            del self._takeovers[partition]
        return found

    def move_coordinator(self, group: str, to: str) -> str | None:
        partition = self._partition_of(group)
        old = self._offsets_leaders[partition]
        new = self.brokers.index(to) if to else self._next_live(old)
        if new in (NO_LEADER, old) or not self.world.hosts[self.brokers[new]].running:
            return "no other broker can take it"
        self._move(partition, new)
        self._tell_view()
        return None

    @property
    def replicated(self) -> ReplicatedOperators:
        """Not available: this cluster has no store, no controller and no log directories."""
        raise AssertionError("a plan that needs brokers that replicate is refused when it is read")

    def _written(self, host: Host, log: str, records: tuple[Record, ...]) -> None:
        """Clean a log of the offsets topic if this write closes a segment of the log.

        A tombstone needs no retention, because the next coordinator gets the whole log.
        """
        if not log.startswith(OFFSETS_TOPIC):
            return
        segments = self._segments.setdefault((host.name, log), Segments())
        config = self.broker_config
        limits = {"segment_bytes": config.offsets_topic_segment_bytes, "segment_ms": config.log_roll_ms}
        if not segments.append(batch_bytes(records), self.world.now_us // US_PER_MS, **limits):
            return

        def newest_of(closed: list[Record]) -> list[Record]:
            last: dict[bytes, int] = {}
            newest(closed, 0, last)
            left = cleaned(closed, lambda record, at: last[record[0]] == at and record[1] is not None)
            segments.cleaned(batch_bytes([record for record in left if not removed_count(record)]))
            return left

        host.disk.compact(log, newest_of, len(host.disk.logs[log]) - len(records))

    def _next_live(self, node: int) -> int:
        count = len(self.brokers)
        for step in range(1, count):
            candidate = (node + step) % count
            if self._live[candidate] and self.world.hosts[self.brokers[candidate]].running:
                return candidate
        return NO_LEADER

    def _move(self, partition: int, new: int) -> None:
        """Move an offsets partition. A running old leader resigns, and the new leader loads all durable records."""
        if new == NO_LEADER:
            return
        old = self._offsets_leaders[partition]
        log = f"{OFFSETS_TOPIC}-{partition}"
        old_host = self.world.hosts[self.brokers[old]]
        self._offsets_epochs[partition] += 1
        epoch = self._offsets_epochs[partition]
        if old_host.running:
            self.world.fail_writes(old_host, log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.world.tell(coordinator_on(old_host.name), ResignOffsets(partition=partition, leader_epoch=epoch))
        self.world.hosts[self.brokers[new]].disk.take_over(log, old_host.disk)
        self._segments[self.brokers[new], log] = Segments()
        self._offsets_leaders[partition] = new
        self._lead(partition, new)

    def _lead(self, partition: int, node: int) -> None:
        name = self.brokers[node]
        life = self.world.hosts[name].life
        draws = self.group_draws(f"{name}/life {life}/offsets {partition}/{self._offsets_epochs[partition]}")
        records = tuple(self.world.hosts[name].disk.logs.get(f"{OFFSETS_TOPIC}-{partition}", ()))
        self.world.tell(
            coordinator_on(name),
            LeadOffsets(
                partition=partition,
                leader_epoch=self._offsets_epochs[partition],
                records=records,
                load_us=draws.us(DrawName.OFFSETS_LOAD, self.broker_config.emulated_load_us) if records else 0,
                wait_us=draws.us(DrawName.OFFSETS_WAIT, 0) if records else 0,
            ),
        )
