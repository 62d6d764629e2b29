"""A cluster whose brokers replicate: a metadata store, a controller part in each broker, leaders by election.

Nothing is decided here that an emulated controller decides. What is left are the hosts, the operators (who create
topics before anybody looks; create, grow and delete them and ask for elections in the store, as the tools of the
ZooKeeper era did; and stop brokers cleanly), and the roles that plans name: "coordinator of g", "controller",
"partition leader of t-0".
"""

from kemu.actors.broker.replica_manager import TopicSettings
from kemu.actors.broker.replicated import ReplicatedBroker
from kemu.actors.controller.controller import Controller
from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.coordinator.on_broker_log import BrokerLog
from kemu.actors.store.store import Store
from kemu.emulator import facts
from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.engine.hosts import Host, MachineFactory
from kemu.emulator.facts import Seen
from kemu.emulator.plan.known import role_of
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.protocol.commands import Close, SeedNodes
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import OFFSETS_TOPIC, STORE, TopicPartition, controller_on, coordinator_on, host_of
from kemu.protocol.nodes import (
    BROKER_IDS,
    DELETE_TOPICS,
    PREFERRED_ELECTION,
    TOPICS,
    Assignment,
    broker_path,
    config_data,
    delete_path,
    partitions_data,
    read_topic,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.replication import BecameController, BecameLeader, NodeWritten
from kemu.protocol.placement import place


class ReplicatedCluster(Cluster):
    """See the module."""

    @property
    def replication(self) -> ReplicationSpec:
        """What the scenario says about replicas."""
        spec = self.scenario.brokers.replication
        assert spec is not None
        return spec

    # --- building ----------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Add every host of the scenario, the store among them; none runs yet."""
        self._settings = {
            name: TopicSettings(record_bytes=topic.record_bytes, min_in_sync=topic.min_isr)
            for name, topic in self.scenario.topics.items()
        }
        self._settings |= {
            name: TopicSettings(record_bytes=topic.record_bytes, min_in_sync=None)
            for name, topic in self.scenario.created_topics().items()
        }
        self._nodes: dict[str, None] = {}
        """What operators look for in the store: brokers, topics, and what was asked for."""
        self._leaders: dict[TopicPartition, tuple[int, str]] = {}
        """Partition -> (leader epoch, host) of the last broker that said it leads."""
        self._controller = ""
        self.assignments = self._assign()
        self.world.add_host(STORE, {STORE: lambda life: Store(STORE)})
        super().build()

    def begin(self) -> None:
        """The store first, with the topics in it; then as ever."""
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
        """Who replicates what: Kafka's placement, each topic's first leader one broker further on."""
        scenario, factor = self.scenario, self.replication.factor
        brokers = tuple(range(scenario.brokers.count))
        racks = self._racks(brokers)
        offsets = self.broker_config.offsets_topic_num_partitions
        placed = {OFFSETS_TOPIC: place(brokers, offsets, factor, racks=racks)}
        for start, (name, topic) in enumerate(scenario.topics.items()):
            copies = topic.replication_factor or factor
            placed[name] = place(brokers, topic.partitions, copies, racks=racks, start=start % len(brokers))
        return placed

    def _racks(self, brokers: tuple[int, ...]) -> dict[int, str] | None:
        spec = self.scenario.brokers
        return {node: spec.rack_of(node) for node in brokers} if spec.racks else None

    def _seed(self) -> None:
        nodes = []
        for topic, replicas in self.assignments.items():
            nodes.append((topic_path(topic), _topic_node(replicas)))
            nodes += self._config_nodes(topic)
        self.world.tell(STORE, SeedNodes(nodes=tuple(nodes)))

    def _config_nodes(self, topic: str) -> list[tuple[str, bytes]]:
        """The node of a topic's own settings, if it has some."""
        spec = self.scenario.topics.get(topic)
        settings = []
        if spec is not None and spec.min_isr is not None:
            settings.append(("min.insync.replicas", str(spec.min_isr)))
        if spec is not None and spec.unclean is not None:
            settings.append(("unclean.leader.election.enable", str(spec.unclean).lower()))
        return [(topic_config_path(topic), config_data(settings))] if settings else []

    def _broker_factories(self, node: int, name: str) -> dict[str, MachineFactory]:
        config, spec = self.broker_config, self.replication
        replication, control = spec.replica_config(), spec.controller_config()
        replica_rules, controller_rules = spec.replica_rules(), spec.controller_rules()
        rack = self.scenario.brokers.rack_of(node) or None
        settings = self._settings

        def broker(life: int) -> ReplicatedBroker:
            chance = self.world.choices.stream(f"{name}/life {life}")
            return ReplicatedBroker(
                name,
                node,
                config,
                replication,
                topics=settings,
                chance=chance,
                rules=replica_rules,
                store=STORE,
                session_timeout_ms=control.zookeeper_session_timeout_ms,
                max_in_flight=control.zookeeper_max_in_flight_requests,
            )

        return {
            name: broker,
            coordinator_on(name): lambda life: Coordinator(
                coordinator_on(name),
                node,
                config,
                lambda machine: BrokerLog(machine, name, config.emulated_load_us),
            ),
            controller_on(name): lambda life: Controller(
                controller_on(name), node, control, rack=rack, store=STORE, rules=controller_rules
            ),
        }

    # --- what is where -----------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Facts that tell who leads what."""
        return kind in (BecameLeader, BecameController, NodeWritten) or super().wants(kind)

    def see(self, seen: Seen) -> None:
        """Keep track of who leads which group, which partition, and the cluster."""
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
        """What operators would find in the store: registrations, topics, what was asked for and is not done yet."""
        folder, _, name = fact.path.rpartition("/")
        if folder not in (BROKER_IDS, TOPICS, DELETE_TOPICS) and fact.path != PREFERRED_ELECTION:
            return
        if fact.what != "deleted":
            self._nodes[fact.path] = None
            if folder == TOPICS:
                rows = read_topic(fact.data)
                self.assignments[name] = tuple(rows[number].replicas for number in rows)
            return
        self._nodes.pop(fact.path, None)
        if folder == TOPICS:
            self.assignments.pop(name, None)
            for at in [at for at in self._leaders if at[0] == name]:
                del self._leaders[at]  # the epochs of a topic created again begin at 0

    def coordinator_of(self, group: str) -> str:
        """The host that coordinates a group; "" when nobody ever did."""
        return self._leaders.get((OFFSETS_TOPIC, self._partition_of(group)), (NO_LEADER, ""))[1]

    def resolve(self, name: str) -> str:
        """The host a name or a role means now; "" if there is none."""
        if name == "controller":
            return self._controller
        role = role_of(name)
        if role is not None and role[0] == "partition leader":
            topic, _, number = role[1].rpartition("-")
            return self._leaders.get((topic, int(number)), (NO_LEADER, ""))[1]
        return super().resolve(name)

    # --- hosts and operators -----------------------------------------------------------------------------------

    def close(self, name: str) -> bool:
        """End a host cleanly: also a broker ends by itself, after a controlled shutdown."""
        return self.world.tell(name, Close()) if self.world.hosts[name].running else False

    def revive(self) -> None:
        """Start the store, and every broker that is down."""
        self.start(STORE)
        super().revive()

    def grow_topic(self, topic: str, partitions: int) -> str | None:
        """Give a topic this many partitions, as ``kafka-topics --alter`` did: in the store. None, or why not."""
        if topic not in self.assignments:
            return f"there is no topic {topic} now"
        replicas = self.assignments[topic]
        if partitions <= len(replicas):
            return f"{topic} has {len(replicas)} partitions already"
        brokers = tuple(range(self.scenario.brokers.count))
        racks = self._racks(brokers)
        more = place(
            brokers,
            partitions - len(replicas),
            len(replicas[0]),
            racks=racks,
            start=replicas[0][0],
            first_partition=len(replicas),
        )
        self.assignments[topic] = (*replicas, *more)
        nodes = ((topic_path(topic), _topic_node(self.assignments[topic])),)
        self.world.tell(STORE, SeedNodes(nodes=nodes))
        self.world.report(facts.TopicGrown(topic=topic, partitions=partitions))
        return None

    def tell_store(self, command: object) -> str | None:
        """Tell the metadata store something; None, or why not."""
        return None if self.world.tell(STORE, command) else "the store does not run"

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> str | None:
        """Write a topic's node, as ``kafka-topics --create`` did: placed on the brokers registered now."""
        if topic in self.assignments:
            return f"there is a topic {topic}"
        brokers = tuple(node for node in range(self.scenario.brokers.count) if broker_path(node) in self._nodes)
        factor = replication_factor or self.replication.factor
        if factor > len(brokers):
            return f"only {len(brokers)} brokers are registered, for {factor} replicas"
        start = len(self.assignments) % len(brokers)
        replicas = place(brokers, partitions, factor, racks=self._racks(brokers), start=start)
        nodes = (*self._config_nodes(topic), (topic_path(topic), _topic_node(replicas)))
        outcome = self.tell_store(SeedNodes(nodes=nodes))
        if outcome is None:
            self.assignments[topic] = replicas
            self._report_replicas(topic, replicas)
            self.world.report(facts.TopicGrown(topic=topic, partitions=partitions))
        return outcome

    def delete_topic(self, topic: str) -> str | None:
        """Mark a topic for deletion, as ``kafka-topics --delete`` did; its producer stops. None, or why not."""
        if topic not in self.assignments:
            return f"there is no topic {topic} now"
        if delete_path(topic) in self._nodes:
            return f"{topic} is being deleted already"
        self.set_rate(topic, 0)
        return self.tell_store(SeedNodes(nodes=((delete_path(topic), b""),)))

    def elect_preferred_leaders(self, topics: tuple[str, ...]) -> str | None:
        """Write the list of partitions that ``kafka-preferred-replica-election`` wrote; None, or why not."""
        if PREFERRED_ELECTION in self._nodes:
            return "the last such election is not done yet"
        named = topics or tuple(self.assignments)
        listed = [(topic, number) for topic in named for number in range(len(self.assignments.get(topic, ())))]
        if not listed:
            return f"there is no topic {', '.join(named)} now"
        return self.tell_store(SeedNodes(nodes=((PREFERRED_ELECTION, partitions_data(listed)),)))

    def expect_takeover(self, group: str) -> None:
        """Nothing to arrange: the controller notices."""

    def move_coordinator(self, group: str, to: str) -> str | None:
        """Leaders move by elections only."""
        return "with replication a coordinator moves when its partition's leader does: close or crash that broker"

    def _started(self, host: Host) -> None:
        """Nobody tells a broker its part but the controller."""

    def _went_down(self, host: Host) -> None:
        """Nobody notices but the store."""


def _topic_node(replicas: tuple[tuple[int, ...], ...]) -> bytes:
    return topic_data({number: Assignment(each) for number, each in enumerate(replicas)})
