"""A cluster made from a scenario: hosts, and the starts and ends of the hosts' processes.

The two kinds of cluster are ``emulator.cluster.arranged`` (the emulator assigns leaders) and
``emulator.cluster.replicated`` (a controller elects leaders).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isqrt
from typing import TYPE_CHECKING

from kemu.actors.broker.partition_log import JOURNALS, PartitionLog
from kemu.actors.clients.admin import Admin
from kemu.actors.clients.producer import Producer
from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.actors.machine import Machine, Record
from kemu.emulator import facts
from kemu.emulator.cluster.deployments import Deployments
from kemu.emulator.cluster.members import MemberHosts
from kemu.emulator.cluster.releases import Releases
from kemu.emulator.cluster.task_counts import TaskCounts
from kemu.emulator.cluster.warm_up import WarmUp
from kemu.emulator.cluster.weights import DEFAULT_RECORD_BYTES, Weights
from kemu.emulator.draws import Drawn
from kemu.emulator.engine.hosts import Condition, Host, MachineFactory
from kemu.emulator.engine.world import World
from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import DeleteTopic, PartitionsReassignment
from kemu.emulator.plan.known import role_of
from kemu.emulator.plan.stage import ReplicatedOperators
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import configured
from kemu.protocol.assign.base import Assignor
from kemu.protocol.commands import AlterConfigs, Close, HoursPass, NameClient, SetRate
from kemu.protocol.draws import MILLION, DrawName
from kemu.protocol.names import (
    ADMIN,
    OFFSETS_TOPIC,
    STORE,
    coordinator_on,
    host_of,
    is_real_client,
    offsets_partition_of,
)
from kemu.protocol.notes.groups import ClientConnected, LeaderElected, MemberAdded
from kemu.protocol.profiles import Profile

if TYPE_CHECKING:
    from kemu.actors.clients.scripted_client import ScriptState

BYTES_PER_MB = 1_000_000
KEYS_OF_DRAWS: Mapping[DrawName, str] = {
    DrawName.OFFSETS_APPEND: "emulated_append_us",
    DrawName.OFFSETS_LOAD: "emulated_load_us",
    DrawName.OFFSETS_WAIT: "emulated_load_us",
}
"""Draw -> the broker's key that replaces the draw if the scenario sets the key."""


class Cluster(ABC):
    """Builds the hosts of a scenario, starts and stops their processes, and acts as the cluster's operators.

    The class implements ``emulator.plan.stage.Operators``, which documents the operators' methods.
    """

    def __init__(
        self,
        world: World,
        scenario: Scenario,
        profile: Profile,
        *,
        listeners: Mapping[str, Listener] | None = None,
        applications: Mapping[str, ApplicationFactory] | None = None,
        assignors: Mapping[str, Assignor] | None = None,
    ) -> None:
        """``listeners``, ``applications`` and ``assignors`` are the user's code, as in ``kemu.run``."""
        self.world = world
        self.scenario = scenario
        self.draws = scenario.draws
        self.brokers = scenario.broker_names()
        """Hosts of all brokers, including brokers that joined later."""
        self.releases = Releases(scenario, profile, self.brokers)
        self.broker_config = configured(self.releases.own.broker, scenario.brokers.config)
        self.members = MemberHosts(
            world,
            scenario,
            self.releases,
            lambda: self.brokers,
            listeners=listeners,
            applications=applications,
            assignors=assignors,
        )
        self._tasks = TaskCounts()
        self.deployments = Deployments(self, self.members, self.releases, self._tasks)
        self._starting: dict[str, int] = {}
        """Host whose process is starting -> number of the order to start the process. A withdrawn order is removed."""
        self._orders_to_start = 0
        self._away: frozenset[str] = frozenset()
        """Hosts that never start again."""
        self._last_start_us = 0
        """Time at which the last of the initial members is started."""
        self._closing: dict[str, int] = {}
        """Host that was asked to close -> time of the request in us."""
        self._until_down: dict[str, Callable[[], None]] = {}
        """Host -> function to call when the host's process has ended."""
        self._warm_up = WarmUp(world, scenario, self.announce_long_uptime)
        self._joined: dict[str, None] = {}
        """Brokers that joined after the start."""
        self._append_draws: dict[str, Drawn] = {}
        """Broker -> draws for the broker's appends to group logs; empty if the time of appends is not drawn."""
        self._client_of: dict[str, str] = {}
        """Member id -> client id."""
        self._talks: Mapping[str, ScriptState] = {}
        """Host of a scripted client -> the state of its script."""
        self._scripted: dict[str, str] = {}
        """Connection of a scripted client -> client id."""
        world.started = self._host_started
        world.went_down = self._host_down

    # --- building ----------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Add every host of the scenario. The hosts do not run yet.

        Raises:
            ScenarioError: a consumer of a member's release refuses its configuration.
        """
        for node, name in enumerate(self.brokers):
            self.world.add_host(name, self._broker_factories(node, name))
        self.members.build()
        for host, topic in self.scenario.producer_names():
            self.world.add_host(host, {host: self._producer_factory(host, topic)})
        self.world.add_host(ADMIN, {ADMIN: self._admin})
        if self.scenario.clients.hosts():
            self._add_clients()
        self._weigh()
        self.world.logs_found = self._logs_found
        for host, log, records in self._initial_logs():
            self.world.hosts[host].disk.logs.setdefault(log, []).extend(records)

    def _add_clients(self) -> None:
        """Add the hosts of real and scripted clients. Only runs with such clients import the clients' machines."""
        from kemu.actors.clients.real_client import ClientMemory, RealClient
        from kemu.actors.clients.scripted_client import ScriptedClient, ScriptState

        def client(host: str, memory: ClientMemory, talk: ScriptState | None, life: int) -> RealClient:
            return RealClient(host, memory) if talk is None else ScriptedClient(host, memory, talk)

        scripts = self.scenario.clients.scripts()
        self._talks = {host: ScriptState(script, self.brokers) for host, script in scripts.items()}
        for host in self.scenario.clients.hosts():
            self.world.add_host(host, {host: partial(client, host, ClientMemory(), self._talks.get(host))})

    def _logs_found(self, host: Host) -> facts.DiskFound | None:
        """Return the logs on a broker's disk when the broker starts; None for other hosts."""
        if host.name not in self.brokers:
            return None
        rows = []
        for name, records in sorted(host.disk.logs.items()):
            log = self._log_on_disk(name, records)
            if log is not None:
                runs: list[tuple[int, int, int]] = []
                for batch in log.ranges():
                    if not runs or runs[-1][1:] != (batch.leader_epoch, batch.life):
                        runs.append((batch.base_offset, batch.leader_epoch, batch.life))
                rows.append((name, log.start_offset, log.end_offset, tuple(runs)))
        return facts.DiskFound(host=host.name, logs=tuple(rows))

    def _weigh(self) -> None:
        """Set the sizes of messages and writes, and the limits of disks and network cards in the scenario."""
        world = self.world
        topics = {**self.scenario.created_topics(), **self.scenario.topics}
        weights = Weights({name: topic.record_bytes for name, topic in topics.items()})
        world.network.weigh, world.weigh_write = weights.of_message, weights.of_write
        for name in self.brokers:
            self._limit(name)

    def _limit(self, broker: str) -> None:
        """Apply the limits of a broker's disk and network card."""
        spec, world = self.scenario.brokers, self.world
        if spec.disk_of(broker):
            world.limit_disk(world.hosts[broker], spec.disk_of(broker))
        if spec.bandwidth_of(broker):
            world.network.limit_bandwidth(broker, spec.bandwidth_of(broker))

    def begin(self) -> None:
        """Report the scenario, start brokers and producers, and schedule the starts of members."""
        self.world.report(
            facts.RunStarted(
                groups=tuple(self.members.groups),
                members=tuple((host, group) for host, group, _ in self.scenario.member_names()),
                brokers=self.brokers,
                topics=tuple((name, topic.partitions) for name, topic in self.scenario.topics.items()),
            )
        )
        moves = [each.action for each in self.scenario.plan if isinstance(each.action, PartitionsReassignment)]
        if moves:
            sizes = [(name, topic.record_bytes) for name, topic in self.scenario.topics.items()]
            if any(each.topic == OFFSETS_TOPIC for each in moves):
                sizes.append((OFFSETS_TOPIC, DEFAULT_RECORD_BYTES))
            self.world.report(facts.RecordSizes(topics=tuple(sizes)))
        for name, spec in self.scenario.topics.items():
            if spec.initial_records:
                self.world.report(
                    facts.TopicFilled(topic=name, partitions=spec.partitions, records=spec.initial_records)
                )
            elif filled := spec.filled():
                self.world.report(facts.PartitionsFilled(topic=name, records=filled))
        for name in self.brokers:
            self.world.at(0, self._starter(name))
        self._warm_up.begin()
        self.world.at(0, self._starter(ADMIN))
        for host, topic in self.scenario.producer_names():
            if topic in self.scenario.topics and self.scenario.topics[topic].records_per_s:
                self.world.at(0, self._starter(host))
        for host, script in self.scenario.clients.scripts().items():
            self.world.at(script[0].at_us, self._starter(host))
        for host, group, number in self.scenario.member_names():
            if not self.members.spec_of(host).start_later:
                start_us = self.members.groups[group].spec.start_of(number)
                self._last_start_us = max(self._last_start_us, start_us)
                self.world.at(start_us, self._starter(host))

    def _admin(self, life: int) -> Admin:
        chance = self.world.choices.stream(f"{ADMIN}/life {life}")
        consumers = all(self.releases.coordinator_rules_of(each).consumer_protocol for each in self.brokers)
        versions = self.releases.spoken_by(self.releases.own)
        return Admin(ADMIN, self.brokers, chance=chance, versions=versions, describes_consumers=consumers)

    def factory(self, actor: str) -> MachineFactory:
        """Return the factory of an actor's machine, for replay."""
        return self.world.hosts[host_of(actor)].factories[actor]

    def _host_started(self, host: Host) -> None:
        """Prepare a started host, and tell a broker the client ids of scripted clients."""
        self._started(host)
        if host.name in self.brokers:
            for actor in self._scripted:
                self._name_client(host.name, actor)

    def _name_client(self, broker: str, actor: str) -> None:
        self.world.tell(coordinator_on(broker), NameClient(client=actor, client_id=self._scripted[actor]))

    def _host_down(self, host: Host) -> None:
        """Note the end of a host's life, and call the function that waited for the end."""
        ordered_us = self._closing.pop(host.name, None)
        if ordered_us is not None and host.condition is Condition.CLOSED and not self.draws.calm:
            took_us = self.world.now_us - ordered_us
            self.world.report(facts.HostClosed(host=host.name, life=host.life, took_us=took_us))
        self._went_down(host)
        waiting = self._until_down.pop(host.name, None)
        if waiting is not None:
            waiting()

    def when_down(self, name: str, then: Callable[[], None]) -> None:
        """Call ``then`` after the end of the host's process; at once if the host does not run."""
        if self.world.hosts[name].running:
            self._until_down[name] = then
        else:
            then()

    def _starter(self, name: str) -> Callable[[], None]:
        return partial(self._start_if_down, name)

    def _start_if_down(self, name: str) -> None:
        self.start(name)

    def _producer_factory(self, host: str, topic: str) -> MachineFactory:
        config = self.scenario.producer_config(topic, self.releases.own.producer)
        spec = self.scenario.topics.get(topic)

        def make(life: int) -> Machine:
            chance = self.world.choices.stream(f"{host}/life {life}")
            draws = Drawn(self.world.choices, self.draws, f"{host}/life {life}")
            return Producer(
                host,
                (topic,),
                config,
                bootstrap=self.brokers,
                chance=chance,
                draws=draws,
                shares=() if spec is None else spec.shares,
                versions=self.releases.spoken_by(self.releases.own),
                metadata_rules=self.releases.own.metadata,
            )

        return make

    # --- what is where -----------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Whether the cluster uses facts of this type: leaders of groups, tasks, and the progress of the warm-up."""
        if kind is ClientConnected:
            return bool(self.scenario.clients.script)
        return kind in (MemberAdded, LeaderElected, *TaskCounts.SEEN) or self._warm_up.wants(kind)

    def see(self, seen: Seen) -> None:
        """Note a changed leader of a group, a task, a scripted client's connection, or progress of the warm-up."""
        fact = seen.fact
        if type(fact) is ClientConnected:
            self._scripted[seen.actor] = fact.client_id
            for name in self.brokers:
                self._name_client(name, seen.actor)
            return
        self._warm_up.see(fact)
        if type(fact) is MemberAdded:
            self._client_of[fact.member_id] = fact.client_id
        elif type(fact) is LeaderElected and fact.group in self.members.groups:
            self.members.groups[fact.group].leader = host_of(self._client_of.get(fact.member_id, ""))
        else:
            self._tasks.see(fact)

    def resolve(self, name: str) -> str:
        role = role_of(name)
        if role is None:
            return name if name in self.world.hosts else ""
        kind, group = role
        return self.coordinator_of(group) if kind == "coordinator" else self.members.groups[group].leader

    def _partition_of(self, group: str) -> int:
        return offsets_partition_of(group, self.broker_config.offsets_topic_num_partitions)

    # --- hosts -------------------------------------------------------------------------------------------------

    def start(self, name: str, *, keep_disk: bool = True) -> bool:
        host = self.world.hosts[name]
        if host.running or name in self._starting or name in self._away:
            return False
        us = self._start_us(host)
        if not us:
            self.world.start(host, keep_disk=keep_disk)
            return True
        self._orders_to_start += 1
        order = self._starting[name] = self._orders_to_start

        def up() -> None:
            if self._starting.get(name) == order:
                del self._starting[name]
                self.world.start(host, keep_disk=keep_disk)

        self.world.at(self.world.now_us + us, up)
        return True

    @property
    def starting(self) -> bool:
        """Whether a process is starting, or an initial member has not started yet."""
        return bool(self._starting) or self.world.now_us < self._last_start_us

    @property
    def talking(self) -> bool:
        """Whether a scripted client has steps left."""
        return any(talk.left for talk in self._talks.values())

    def _start_us(self, host: Host) -> int:
        """Return the time from the order to start a host until the first action of its process, in us."""
        if host.name == ADMIN or host.name == STORE or is_real_client(host.name):
            return 0
        draws = Drawn(self.world.choices, self.draws, f"{host.name}/life {host.life + 1}")
        if host.name not in self.brokers:
            return draws.us(DrawName.MEMBER_START, 0)
        if not host.life and host.name not in self._joined:
            return 0  # the brokers run when a scenario begins
        us = draws.us(DrawName.BROKER_START, 0)
        if host.condition is not Condition.CLOSED:
            per_mb_us = draws.us(DrawName.BROKER_RECOVERY, 0)
            us += self._log_bytes(host) * per_mb_us // BYTES_PER_MB if per_mb_us else 0
        return us

    def group_draws(self, owner: str, busy: int = MILLION) -> Drawn:
        """Return the draws of a coordinator's log, without draws that a key of the scenario replaces.

        Args:
            owner: name of the random stream.
            busy: load of the machine in millionths; its square root is a factor of the time of an append.
        """
        settings, draws = dict(self.scenario.brokers.config), self.draws
        replaced = (name for name, key in KEYS_OF_DRAWS.items() if key in settings)
        without = frozenset(name for name in replaced if not draws.is_set(name))
        scaled = {DrawName.OFFSETS_APPEND: isqrt(busy * MILLION)}
        return Drawn(self.world.choices, draws, owner, without=without, scaled=scaled)

    def append_of(self) -> Callable[[str, str], int] | None:
        """Return (host, log) -> time of an append in us; None if all appends take ``emulated.append.us``."""
        if self.draws.of(DrawName.OFFSETS_APPEND) is None:
            return None
        append_us = self.broker_config.emulated_append_us
        drawn = self._append_draws
        drawn.update((name, self.group_draws(name, self.members.busy(name))) for name in self.brokers)

        def took_us(host: str, log: str) -> int:
            return drawn[host].us(DrawName.OFFSETS_APPEND, append_us) if log.startswith(OFFSETS_TOPIC) else append_us

        return took_us

    def _log_bytes(self, host: Host) -> int:
        """Return the bytes of the last segments of a host's logs; a closed segment has been flushed.

        Source: ``LogManager.loadLogs``, Kafka 3.4: recovery does not read records below the recovery point.
        """
        topics, default = self.scenario.topics, self.broker_config.log_segment_bytes
        logs = [(log.removeprefix(JOURNALS).rpartition("-")[0], records) for log, records in host.disk.logs.items()]
        return sum(
            self._record_count(records) * topics[topic].record_bytes % (topics[topic].segment_bytes or default)
            for topic, records in logs
            if topic in topics
        )

    def down_us(self, name: str, said_us: int) -> int:
        draws = Drawn(self.world.choices, self.draws, f"{name}/life {self.world.hosts[name].life}")
        return draws.us(DrawName.DOWN_TIME, said_us, said_us)

    @property
    def draws_down_time(self) -> bool:
        """Whether the time between the end of a process and its next start is drawn."""
        return self.draws.of(DrawName.DOWN_TIME) is not None

    def announce_long_uptime(self) -> None:
        """Inform every member that the cluster has run undisturbed for hours."""
        for group in self.members.groups.values():
            for name in group.hosts:
                self.world.tell(name, HoursPass())

    def revive(self) -> None:
        for name in self.brokers:
            if not self.world.hosts[name].running:
                self.start(name)
            elif name in self._closing and name not in self._until_down:
                self.when_down(name, self._starter(name))

    def keep_away(self, names: Sequence[str]) -> None:
        self._away = frozenset(names)
        for name in names:
            self._starting.pop(name, None)

    def adopt_broker(self, host: str) -> None:
        """Add the host of a broker that joins. A replay adopts the brokers that joined in the recorded run, too."""
        self.world.add_host(host, self._broker_factories(len(self.brokers), host))
        self.brokers = (*self.brokers, host)
        self._joined[host] = None
        self._limit(host)
        if self._append_draws:
            self._append_draws[host] = self.group_draws(host, self.members.busy(host))

    def ask_admin(self, command: object) -> str | None:
        return None if self.world.tell(ADMIN, command) else f"{ADMIN} does not run"

    def tell_servers(self, command: object) -> None:
        for name in self.brokers:
            self.world.tell(name, command)
            self.world.tell(coordinator_on(name), command)

    def set_rate(self, topic: str, records_per_s: int) -> str | None:
        host = next(host for host, named in self.scenario.producer_names() if named == topic)
        self.start(host)
        return None if self.world.tell(host, SetRate(records_per_s=records_per_s)) else f"{host} does not run"

    def tells_topics(self, broker: str) -> bool:
        """Whether a broker tells its coordinator the topics. Groups of the consumer protocol need the topics, and all
        groups if a topic is deleted: its offsets are removed, and its late commits are refused (Kafka 2.4 to 4.3
        ``KafkaApis.handleUpdateMetadataRequest``, ``handleOffsetCommitRequest``).
        """
        may_join = bool(self.scenario.clients.hosts()) and self.releases.coordinator_rules_of(broker).consumer_protocol
        deletes = any(isinstance(entry.action, DeleteTopic) for entry in self.scenario.plan)
        return bool(self.scenario.consumer_protocol_groups) or may_join or deletes

    # --- differences between the kinds --------------------------------------------------------------------

    @abstractmethod
    def _broker_factories(self, node: int, name: str) -> dict[str, MachineFactory]:
        """Return the factories of the actors of a broker's host."""

    @abstractmethod
    def _initial_logs(self) -> Iterator[tuple[str, str, tuple[Record, ...]]]:
        """Yield (host, log, records) of the brokers' disks before the start."""

    @abstractmethod
    def _log_on_disk(self, name: str, records: Sequence[Record]) -> PartitionLog | None:
        """Return the partition log that these records of a broker's disk form; None for other files."""

    @abstractmethod
    def _record_count(self, records: Sequence[Record]) -> int:
        """Return the number of producers' records in a partition log on a disk."""

    @abstractmethod
    def _started(self, host: Host) -> None:
        """Prepare a host whose process starts."""

    @abstractmethod
    def _went_down(self, host: Host) -> None:
        """Clean up after the end of a host's process."""

    @property
    def is_up(self) -> bool:
        """Whether all brokers run, and partitions have leaders."""
        return all(self.world.hosts[name].running for name in self.brokers)

    @abstractmethod
    def coordinator_of(self, group: str) -> str:
        """The host of the group's coordinator; "" without a coordinator."""

    @abstractmethod
    def close(self, name: str) -> bool:
        """Close a host cleanly; return False if the host does not run."""

    def _ask_to_close(self, name: str) -> bool:
        self._closing.setdefault(name, self.world.now_us)
        return self.world.tell(name, Close())

    def is_closing(self, name: str) -> bool:
        """Whether the host was asked to close, and its process has not ended."""
        return name in self._closing

    def not_started_after_all(self, name: str) -> bool:
        """End a process that is starting and has done nothing yet; return False without such a process."""
        return self._starting.pop(name, 0) > 0

    @abstractmethod
    def grow_topic(self, topic: str, partitions: int) -> str | None:
        """Increase a topic's number of partitions to ``partitions``."""

    @abstractmethod
    def alter_configs(self, change: AlterConfigs) -> str | None:
        """Change a setting of a topic, of brokers, or of a group."""

    @abstractmethod
    def expect_takeover(self, group: str) -> None:
        """Expect a new coordinator of this group, because the plan killed the old coordinator."""

    @abstractmethod
    def move_coordinator(self, group: str, to: str) -> str | None:
        """Make the broker ``to`` ("" for the next live broker) the leader of a group's offsets partition."""

    @property
    @abstractmethod
    def replicated(self) -> ReplicatedOperators:
        """Further operations of a replicated cluster; see ``ReplicatedOperators``."""
