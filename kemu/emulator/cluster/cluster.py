"""A cluster out of a scenario: its hosts and actors, and what its operators do.

What is common to the two kinds: ``emulator.cluster.arranged``, whose brokers never disagree, and
``emulator.cluster.replicated``, where leaders are elected.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import define, evolve, frozen

from kemu.actors.broker.partition_log import PartitionLog
from kemu.actors.broker.replica_log import JOURNALS
from kemu.actors.clients.admin import Admin
from kemu.actors.clients.producer import Producer
from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.consumer import Consumer
from kemu.actors.consumer.listener import Listener
from kemu.actors.coordinator.rules import GroupRules, rules_of_kind
from kemu.actors.machine import Machine, Record
from kemu.actors.streams.instance import Instance
from kemu.emulator import facts
from kemu.emulator.cluster.member_draws import member_draws
from kemu.emulator.cluster.task_counts import TaskCounts
from kemu.emulator.cluster.warm_up import WarmUp
from kemu.emulator.cluster.weights import DEFAULT_RECORD_BYTES, Weights
from kemu.emulator.draws import Drawn
from kemu.emulator.engine.hosts import Condition, Host, MachineFactory
from kemu.emulator.engine.world import World
from kemu.emulator.facts import Seen
from kemu.emulator.past_bugs.applying import group_rules, release_with
from kemu.emulator.plan.actions import PartitionsReassignment, RollingUpgrade
from kemu.emulator.plan.known import role_of
from kemu.emulator.plan.stage import ReplicatedOperators
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, upgraded_to
from kemu.emulator.scenario.scenario import EARLIEST, GroupSpec, Scenario
from kemu.emulator.scenario.streams import StreamsSpec
from kemu.emulator.text.custom_assignors import find_task_assignor, is_custom, load_assignor
from kemu.emulator.text.kafka_keys import configured, texts_of
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.protocol.assign.base import Assignor
from kemu.protocol.commands import Close, HoursPass, LeaveGradually, SetRate
from kemu.protocol.config import BrokerConfig, StreamsConfig
from kemu.protocol.draws import MILLION, DrawName
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import (
    ADMIN,
    OFFSETS_TOPIC,
    STORE,
    consumer_host,
    coordinator_on,
    host_of,
    number_of,
    offsets_partition_of,
)
from kemu.protocol.notes.groups import LeaderElected, MemberAdded
from kemu.protocol.profiles import PROFILES, Profile
from kemu.protocol.streams.balance import leaving_count
from kemu.protocol.streams.metadata import PROCESS_ID_BYTES
from kemu.protocol.streams.registry import LEARNER
from kemu.protocol.streams.releases import consumer_of_streams, producer_of_streams

BYTES_PER_MB = 1_000_000
CLOSE_POLL_US = 100_000
EARLIER_LIVES = 64
"""The bit of a process id from which on an instance's earlier lives are counted."""
"""How often an operator looks whether a closing host has ended."""


@define
class _Group:
    spec: GroupSpec
    members: list[str]
    """Hosts, oldest first, whether they run or not."""
    leader: str = ""
    """Host of the group's leader, as last elected."""
    upgraded: MemberSpec = AS_ITS_GROUP
    """What a rolling upgrade of the whole group makes of its members; later ones start like that."""


@frozen
class BrokerRelease:
    """What a broker is: names of ``PROFILES``. ``protocol``: whose protocol it speaks to other brokers."""

    profile: str
    protocol: str

    def then(self, profile: str, protocol: str) -> "BrokerRelease":
        """This with what an upgrade makes of it; "" leaves it."""
        return BrokerRelease(profile or self.profile, protocol or self.protocol)


SAID_BY_BROKER_SETTINGS: Mapping[DrawName, str] = {
    DrawName.OFFSETS_APPEND: "emulated_append_us",
    DrawName.OFFSETS_LOAD: "emulated_load_us",
    DrawName.OFFSETS_WAIT: "emulated_load_us",
}
"""Draws that a broker's key decides where it is set."""


class Cluster(ABC):
    """Builds the machines of any host and life (``factory``), starts them, and acts as their operators.

    What operators ask for and cannot have is answered with why not, and with None if it is done.
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
        self.world = world
        self.scenario = scenario
        self._releases: dict[str, Profile] = {}
        """Profile of a member or broker -> it, with the past bugs that everybody has."""
        self.profile = release_with(profile, scenario.bugs, scenario.mended)
        profile = self.profile
        self._brokers_are: dict[str, BrokerRelease] = {}
        """Broker -> what it is from its next life on; others are as ``_any_broker_is``."""
        self._any_broker_is = BrokerRelease(profile.name, profile.name)
        self.draws = scenario.draws
        self._starting: dict[str, int] = {}
        """Hosts whose processes are starting -> the number of the order to; who ends that takes it out."""
        self._orders_to_start = 0
        self._away: frozenset[str] = frozenset()
        """Hosts that are not started any more."""
        self._last_start_us = 0
        """When the last member is started that is there from the beginning."""
        self._closing: dict[str, int] = {}
        """Hosts that were asked to close -> since when."""
        self._until_down: dict[str, Callable[[], None]] = {}
        self._settling = WarmUp(world, scenario, self.hours_pass)
        self.broker_config = configured(profile.broker, scenario.brokers.config)
        self.brokers = scenario.broker_names()
        """Those that were added, too."""
        self._take_releases()
        self._joined: dict[str, None] = {}
        """Brokers that were not there at the start."""
        self._append_draws: dict[str, Drawn] = {}
        """Broker -> what its writes of a group's log take from; {} where nothing is drawn."""
        self._listeners = dict(listeners or {})
        self._applications = dict(applications or {})
        self._assignors = dict(profile.assignors if assignors is None else assignors)
        custom = dict.fromkeys(name for name in _assignors_named(scenario) if is_custom(name))
        self._custom = {name: load_assignor(name) for name in custom}
        self._members: dict[str, MemberSpec] = {
            host: member for spec in scenario.groups.values() for host, member in spec.overrides.items()
        }
        """Host -> what that member has other than its group, from its next life on."""
        self._busy_of: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        self._client_of: dict[str, str] = {}
        self._tasks = TaskCounts()
        world.started = self._started
        world.went_down = self._host_down

    def _take_releases(self) -> None:
        """What each broker is at the start; the protocol between them is that of the oldest."""
        spec, own = self.scenario.brokers, self.profile.name
        named = [spec.profile_of(name) or own for name in (*self.brokers, *spec.overrides)]
        protocol = min(named, key=lambda name: self.release_named(name).release)
        self._any_broker_is = BrokerRelease(own, protocol)
        for host in spec.overrides:
            self._brokers_are[host] = BrokerRelease(spec.profile_of(host) or own, protocol)

    # --- building ----------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Add every host of the scenario; none runs yet."""
        for node, name in enumerate(self.brokers):
            self.world.add_host(name, self._broker_factories(node, name))
        for name, group in self.scenario.groups.items():
            self._groups[name] = _Group(group, [])
        for host, group_name, number in self.scenario.member_names():
            self._add_member(host, group_name, number)
        self._check_members()
        for host, topic in self.scenario.producer_names():
            self.world.add_host(host, {host: self._producer_factory(host, topic)})
        self.world.add_host(ADMIN, {ADMIN: self._admin})
        self._weigh()
        self.world.logs_found = self._logs_found
        for host, log, records in self._initial_logs():
            self.world.hosts[host].disk.logs.setdefault(log, []).extend(records)

    def _logs_found(self, host: Host) -> facts.DiskFound | None:
        """What lies on a broker's disk when it starts."""
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
        """Where machines are limited, the world must know what goes through them."""
        world = self.world
        topics = {**self.scenario.created_topics(), **self.scenario.topics}
        weights = Weights({name: topic.record_bytes for name, topic in topics.items()})
        world.network.weigh, world.weigh_write = weights.of_message, weights.of_write
        for name in self.brokers:
            self._limit(name)

    def _limit(self, broker: str) -> None:
        """What a broker's disk and network card bear."""
        spec, world = self.scenario.brokers, self.world
        if spec.disk_of(broker):
            world.limit_disk(world.hosts[broker], spec.disk_of(broker))
        if spec.bandwidth_of(broker):
            world.network.limit_bandwidth(broker, spec.bandwidth_of(broker))

    def begin(self) -> None:
        """Say what there is, and put the first starts on the agenda: brokers, then producers, members at their time."""
        self.world.report(
            facts.RunStarted(
                groups=tuple(self._groups),
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
        for name in self.brokers:
            self.world.at(0, self._starter(name))
        self._settling.begin()
        self.world.at(0, self._starter(ADMIN))
        for host, topic in self.scenario.producer_names():
            if topic in self.scenario.topics and self.scenario.topics[topic].records_per_s:
                self.world.at(0, self._starter(host))
        for host, group, number in self.scenario.member_names():
            if not self._members.get(host, AS_ITS_GROUP).start_later:
                start_us = self._groups[group].spec.start_of(number)
                self._last_start_us = max(self._last_start_us, start_us)
                self.world.at(start_us, self._starter(host))

    def _admin(self, life: int) -> Admin:
        versions = LATEST.asking() if self.scenario.mixes_releases else LATEST
        chance = self.world.choices.stream(f"{ADMIN}/life {life}")
        return Admin(ADMIN, self.brokers, chance=chance, versions=versions)

    def factory(self, actor: str) -> MachineFactory:
        """What builds this actor's machine (for replay)."""
        return self.world.hosts[host_of(actor)].factories[actor]

    def _host_down(self, host: Host) -> None:
        """A host's life is over: those who waited for it go on."""
        ordered_us = self._closing.pop(host.name, None)
        if ordered_us is not None and host.condition is Condition.CLOSED and not self.draws.calm:
            took_us = self.world.now_us - ordered_us
            self.world.report(facts.HostClosed(host=host.name, life=host.life, took_us=took_us))
        self._went_down(host)
        waiting = self._until_down.pop(host.name, None)
        if waiting is not None:
            waiting()

    def when_down(self, name: str, then: Callable[[], None]) -> None:
        """Call this when the host's life is over; at once if it is."""
        if self.world.hosts[name].running:
            self._until_down[name] = then
        else:
            then()

    def _starter(self, name: str) -> "_Start":
        return _Start(self, name)

    def _producer_factory(self, host: str, topic: str) -> MachineFactory:
        config = self.scenario.producer_config(topic, self.profile.producer)

        def make(life: int) -> Machine:
            chance = self.world.choices.stream(f"{host}/life {life}")
            draws = Drawn(self.world.choices, self.draws, f"{host}/life {life}")
            versions = LATEST.asking() if self.scenario.mixes_releases else LATEST
            return Producer(
                host,
                (topic,),
                config,
                bootstrap=self.brokers,
                chance=chance,
                draws=draws,
                versions=versions,
                metadata_rules=self.profile.metadata,
            )

        return make

    def _add_member(self, host: str, group_name: str, number: int) -> None:
        def make(life: int) -> Machine:
            member = self._members.get(host, AS_ITS_GROUP)
            streams = self._groups[group_name].spec.streams
            if streams is not None:
                return self._instance(host, group_name, number, streams, member, life)
            return self._consumer(host, group_name, number, member, life)

        self.world.add_host(host, {host: make})
        self._groups[group_name].members.append(host)

    def _consumer(self, host: str, group: str, number: int, member: MemberSpec, life: int) -> Consumer:
        spec = self._groups[group].spec
        profile = self._release_of(member)
        assignors = profile.assignors if member.profile else self._assignors
        defaults = evolve(profile.consumer, auto_offset_reset=EARLIEST.auto_offset_reset)
        config = spec.consumer(group, host, number, defaults, member)
        application = self._applications.get(host) if life else None
        said = frozenset(name for name, _ in (*spec.config, *member.config))
        warm = spec.one_process and (life > 1 or number >= spec.members)
        busy = self._busy(group if spec.one_process else host)
        owner = f"{host}/life {life}"
        return Consumer(
            host,
            config,
            spec.topics,
            bootstrap=self.brokers,
            assignors={**assignors, **self._custom},
            chance=self.world.choices.stream(f"{host}/life {life}"),
            draws=member_draws(self.world.choices, self.scenario, group, owner, said, warm=warm, busy=busy),
            listener=self._listeners.get(host),
            application=None if application is None else application(config),
            versions=self._spoken_by(profile),
            rules_of=profile.rules_of,
            metadata_rules=profile.metadata,
            pattern=spec.pattern,
        )

    def _instance(
        self, host: str, group: str, number: int, streams: StreamsSpec, member: MemberSpec, life: int
    ) -> Instance:
        """A Streams instance. Its process id is its host's, as one that lies on the disk, or that of its life."""
        spec = self._groups[group].spec
        profile = self._release_of(member)
        release = profile.streams
        settings = streams.settings_on(release.config, member)
        settings = evolve(settings, application_server=settings.application_server.replace("{host}", host))
        kind = settings.emulated_task_assignor
        earlier = 0 if release.process_id_on_disk else life - 1
        said = frozenset(name for name, _ in (*spec.config, *member.config))
        return Instance(
            host,
            group,
            streams.topology,
            settings,
            consumer=spec.consumer(group, host, number, consumer_of_streams(profile.consumer), member),
            producer=configured(producer_of_streams(profile.producer), self.scenario.producers),
            process_id=(earlier << EARLIER_LIVES | number_of(host)).to_bytes(PROCESS_ID_BYTES, "big"),
            bootstrap=self.brokers,
            chances=lambda part: self.world.choices.stream(f"{host}/{part}/life {life}"),
            draws=member_draws(
                self.world.choices, self.scenario, group, f"{host}/life {life}", said, busy=self._busy(host)
            ),
            custom=None if kind == LEARNER else release.task_assignors.get(kind) or find_task_assignor(kind),
            layout=release.layout_of(kind),
            protocols=release.protocols,
            versions=self._spoken_by(profile),
            rules_of=profile.rules_of,
            metadata_rules=profile.metadata,
            placement=release.placement_for(kind),
            uses_nonce=release.uses_nonce,
            task_rules=release.task_rules,
        )

    def _release_of(self, member: MemberSpec) -> Profile:
        """The release that a member runs."""
        if not member.profile:
            return self.profile
        return self.release_named(member.profile)

    def release_named(self, name: str) -> Profile:
        """A release, with the past bugs that everybody has; the scenario's own is that which the run is about."""
        if name == self.profile.name:
            return self.profile
        if name not in self._releases:
            scenario = self.scenario
            self._releases[name] = release_with(PROFILES[name], scenario.bugs, scenario.mended)
        return self._releases[name]

    def _spoken_by(self, profile: Profile) -> SpokenVersions:
        """What a client of a release speaks to these brokers."""
        if self.scenario.mixes_releases:
            return profile.versions.asking()
        return profile.versions if profile is self.profile else profile.versions.among(self.profile.versions)

    # --- releases of brokers -----------------------------------------------------------------------------------

    def release_of_broker(self, host: str) -> Profile:
        """The release of a broker that starts now."""
        return self.release_named(self._brokers_are.get(host, self._any_broker_is).profile)

    def protocol_of_broker(self, host: str) -> Profile:
        """The release whose protocol it speaks to other brokers: its ``inter.broker.protocol.version``."""
        return self.release_named(self._brokers_are.get(host, self._any_broker_is).protocol)

    def config_of_broker(self, host: str) -> BrokerConfig:
        """Its configuration, with its release's defaults."""
        return configured(self.release_of_broker(host).broker, self.scenario.brokers.config)

    def rules_of_coordinator(self, host: str) -> GroupRules:
        """The decisions of the coordinator of a broker that starts now."""
        of_release = rules_of_kind(self.config_of_broker(host).coordinator_kind)
        return group_rules(of_release, self.scenario.bugs, self.scenario.mended)

    def upgrade_brokers(
        self,
        every_us: int,
        down_us: int,
        how: str,
        hosts: tuple[str, ...],
        *,
        profile: str,
        protocol: str,
        done: Callable[[], None],
    ) -> int | str:
        """Take brokers down and up again as something else, one after the other: how many, or why not."""
        names = hosts or self.brokers
        becomes = {name: self._brokers_are.get(name, self._any_broker_is).then(profile, protocol) for name in names}
        if refused := self._misfits(becomes):
            return refused
        if not hosts:
            self._any_broker_is = self._any_broker_is.then(profile, protocol)
        for number, name in enumerate(names):
            change = partial(self._become, name, becomes[name])
            self.world.at(self.world.now_us + number * every_us, _Bounce(self, name, down_us, how, change, done))
        return len(names)

    def _misfits(self, becomes: Mapping[str, BrokerRelease]) -> str | None:
        """Why brokers that become this, one by one, could not work with each other; None: they could."""
        for host, then in becomes.items():
            release, protocol = self.release_named(then.profile), self.release_named(then.protocol)
            others = [name for name in self.brokers if name != host]
            spoken = [protocol, *(self.protocol_of_broker(name) for name in others)]
            newest = max(spoken, key=lambda each: each.release)
            if release.release < newest.release:
                return f"{host} would be {release.name}, which does not know the protocol of {newest.name}"
            older = [name for name in others if self.release_of_broker(name).release < protocol.release]
            if older and protocol is not self.protocol_of_broker(host):
                whose = self.release_of_broker(older[0]).name
                return (
                    f"{older[0]} is {whose} and would not know the protocol of {protocol.name}: "
                    "first all brokers get the release, then the protocol"
                )
        return None

    def _become(self, host: str, release: BrokerRelease) -> None:
        self.reconfigure_broker(host, release.profile, release.protocol)
        self.world.report(facts.BrokerReconfigured(host=host, profile=release.profile, protocol=release.protocol))

    def reconfigure_broker(self, host: str, profile: str, protocol: str) -> None:
        """What a broker is from its next life on."""
        self._brokers_are[host] = BrokerRelease(profile, protocol)

    def _busy(self, machine: str) -> int:
        """How busy a machine is, in millionths of what is usual; the same for all of a run."""
        if machine not in self._busy_of:
            drawn = Drawn(self.world.choices, self.draws, machine)
            self._busy_of[machine] = drawn.us(DrawName.MACHINE_BUSY, MILLION, MILLION)
        return self._busy_of[machine]

    def _check_members(self) -> None:
        """Whatever a member is at the start, or is to become, must be something a consumer can be.

        Raises:
            ScenarioError: a consumer of that release refuses its configuration.
        """
        checked: set[tuple[str, MemberSpec]] = set()
        for host, group, number in self.scenario.member_names():
            member = self._members.get(host, AS_ITS_GROUP)
            upgrades = [entry.action for entry in self.scenario.plan if isinstance(entry.action, RollingUpgrade)]
            stages = [member]
            for upgrade in upgrades:
                if upgrade.group == group and host in (upgrade.hosts or (host,)):
                    stages.append(stages[-1].then(upgraded_to(upgrade.profile, upgrade.assignors, upgrade.settings)))
            for stage in stages:
                if (group, stage) not in checked:
                    checked.add((group, stage))
                    try:
                        self._consumer(host, group, number, stage, 0)
                    except ValueError as error:
                        problem = Problem(("groups", group), f"{host} as {self.profile.name}: {error}")
                        raise ScenarioError([problem]) from error

    def reconfigure(self, host: str, member: MemberSpec) -> None:
        """What a member has other than its group, from its next life on."""
        self._members[host] = member

    # --- what is where -----------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Facts that tell who leads a group, and when a start has settled."""
        return kind in (MemberAdded, LeaderElected, *TaskCounts.SEEN) or self._settling.wants(kind)

    def see(self, seen: Seen) -> None:
        """Keep track of who leads which group."""
        fact = seen.fact
        self._settling.see(fact)
        if type(fact) is MemberAdded:
            self._client_of[fact.member_id] = fact.client_id
        elif type(fact) is LeaderElected and fact.group in self._groups:
            self._groups[fact.group].leader = host_of(self._client_of.get(fact.member_id, ""))
        else:
            self._tasks.see(fact)

    def resolve(self, name: str) -> str:
        """The host a name or a role ("leader of g") means now; "" if there is none."""
        role = role_of(name)
        if role is None:
            return name if name in self.world.hosts else ""
        kind, group = role
        return self.coordinator_of(group) if kind == "coordinator" else self._groups[group].leader

    def _partition_of(self, group: str) -> int:
        return offsets_partition_of(group, self.broker_config.offsets_topic_num_partitions)

    # --- hosts -------------------------------------------------------------------------------------------------

    def start(self, name: str, *, keep_disk: bool = True) -> bool:
        """Start a host that does not run; False if it does, or is starting. Its process takes its time."""
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
        """Whether some process is starting, or a member's first start is still to come."""
        return bool(self._starting) or self.world.now_us < self._last_start_us

    def _start_us(self, host: Host) -> int:
        """How long a host's process takes from the order to start it until it does anything."""
        if host.name == ADMIN or host.name == STORE:
            return 0
        draws = Drawn(self.world.choices, self.draws, f"{host.name}/life {host.life + 1}")
        if host.name not in self.brokers:
            return draws.us(DrawName.MEMBER_START, 0)
        if not host.life and host.name not in self._joined:
            return 0  # the cluster runs when a scenario begins
        us = draws.us(DrawName.BROKER_START, 0)
        if host.condition is not Condition.CLOSED:
            per_mb_us = draws.us(DrawName.BROKER_RECOVERY, 0)
            us += self._log_bytes(host) * per_mb_us // BYTES_PER_MB if per_mb_us else 0
        return us

    def group_draws(self, owner: str, busy: int = MILLION) -> Drawn:
        """The draws of a coordinator's log; what ``emulated.append.us`` and ``emulated.load.us`` say is not drawn.

        ``busy``: how much of what is drawn its machine takes to append, in millionths.
        """
        settings, draws = dict(self.scenario.brokers.config), self.draws
        said = (name for name, setting in SAID_BY_BROKER_SETTINGS.items() if setting in settings)
        without = frozenset(name for name in said if not draws.is_set(name))
        return Drawn(self.world.choices, draws, owner, without=without, scaled={DrawName.OFFSETS_APPEND: busy})

    def append_of(self) -> Callable[[str, str], int] | None:
        """(host, log) -> how long an append takes; None: all ``emulated.append.us``."""
        if self.draws.of(DrawName.OFFSETS_APPEND) is None:
            return None
        append_us = self.broker_config.emulated_append_us
        drawn = self._append_draws
        drawn.update((name, self.group_draws(name, self._busy(name))) for name in self.brokers)

        def took_us(host: str, log: str) -> int:
            return drawn[host].us(DrawName.OFFSETS_APPEND, append_us) if log.startswith(OFFSETS_TOPIC) else append_us

        return took_us

    def _log_bytes(self, host: Host) -> int:
        """What the last segments of a host's logs hold: what was before was flushed when they began.

        Source: ``LogManager.loadLogs``: what lies below the recovery point is not read again.
        """
        topics, default = self.scenario.topics, self.broker_config.log_segment_bytes
        logs = [(log.removeprefix(JOURNALS).rpartition("-")[0], records) for log, records in host.disk.logs.items()]
        return sum(
            self._record_count(records) * topics[topic].record_bytes % (topics[topic].segment_bytes or default)
            for topic, records in logs
            if topic in topics
        )

    def down_us(self, name: str, said_us: int) -> int:
        """How long a host is down, after its present life, that is to be down for so long; 0 stays 0."""
        draws = Drawn(self.world.choices, self.draws, f"{name}/life {self.world.hosts[name].life}")
        return draws.us(DrawName.DOWN_TIME, said_us, said_us)

    def hours_pass(self) -> None:
        """Tell everybody that all has run undisturbed for hours."""
        for group in self._groups.values():
            for name in group.members:
                self.world.tell(name, HoursPass())

    def revive(self) -> None:
        """Start every broker that is down, or ends now: after the plan, the cluster is whole again."""
        for name in self.brokers:
            if not self.world.hosts[name].running:
                self.start(name)
            elif name in self._closing and name not in self._until_down:
                self.when_down(name, self._starter(name))

    def keep_away(self, names: Sequence[str]) -> None:
        """From now on these hosts are not started any more; who is only starting does not come."""
        self._away = frozenset(names)
        for name in names:
            self._starting.pop(name, None)

    def rolling_restart(self, group: str, every_us: int, down_us: int, how: str, done: Callable[[], None]) -> int:
        """Take the members down and up again, one after the other: how many; ``done`` is told of each that is up."""
        members = tuple(self._groups[group].members)
        for number, name in enumerate(members):
            self.world.at(self.world.now_us + number * every_us, _Bounce(self, name, down_us, how, None, done))
        return len(members)

    def rolling_upgrade(
        self,
        group: str,
        every_us: int,
        down_us: int,
        how: str,
        hosts: tuple[str, ...],
        *,
        profile: str,
        assignors: tuple[str, ...],
        settings: tuple[str, ...],
        done: Callable[[], None],
    ) -> int:
        """As ``rolling_restart``, but members come back as something else; without ``hosts`` the whole group does."""
        becomes = upgraded_to(profile, assignors, settings)
        if not hosts:
            self._groups[group].upgraded = self._groups[group].upgraded.then(becomes)
        names = hosts or tuple(self._groups[group].members)
        for number, name in enumerate(names):
            change = partial(self.change_member, name, becomes)
            self.world.at(self.world.now_us + number * every_us, _Bounce(self, name, down_us, how, change, done))
        return len(names)

    def change_member(self, host: str, becomes: MemberSpec) -> None:
        """As ``reconfigure``, on top of what it has already, and on the record."""
        member = self._members.get(host, AS_ITS_GROUP).then(becomes)
        self.reconfigure(host, member)
        settings = (*texts_of(member.config), *texts_of(member.streams, StreamsConfig))
        self.world.report(
            facts.MemberReconfigured(host=host, profile=member.profile, assignors=member.assignors, settings=settings)
        )

    def add_members(self, group: str, count: int) -> None:
        """Start more members, configured as the others."""
        members = self._groups[group].members
        for _ in range(count):
            name = consumer_host(sum(len(each.members) for each in self._groups.values()) + 1)
            self._add_member(name, group, len(members))
            self.world.report(facts.MemberHostAdded(host=name, group=group))
            if self._groups[group].upgraded != AS_ITS_GROUP:
                self.change_member(name, self._groups[group].upgraded)
            self.start(name)

    def adopt_broker(self, host: str) -> None:
        """A broker that joins: its host exists from now on. Also for replay, one that a recorded run added."""
        self.world.add_host(host, self._broker_factories(len(self.brokers), host))
        self.brokers = (*self.brokers, host)
        self._joined[host] = None
        self._limit(host)
        if self._append_draws:
            self._append_draws[host] = self.group_draws(host, self._busy(host))

    def adopt(self, host: str, group: str) -> None:
        """A member that a recorded run added (for replay): its host exists from now on."""
        self._add_member(host, group, len(self._groups[group].members))

    def remove_members(self, group: str, count: int) -> int:
        """Close the youngest running members; how many."""
        running = [name for name in self._groups[group].members if self.world.hosts[name].running]
        leaving = running[-count:] if count else []
        for name in leaving:
            self.close(name)
        return len(leaving)

    def scale_down(self, group: str, percent: int, hosts: tuple[str, ...]) -> str | None:
        """Tell Streams instances to leave; None, or why not one of them was told."""
        running = [name for name in self._groups[group].members if self.world.hosts[name].running]
        missing = [host for host in hosts if host not in running]
        if missing:
            return f"{missing[0]} is no running instance of {group}: nobody was told"
        leader = self._groups[group].leader
        leaving = hosts or tuple(self._tasks.fewest_first(running, leader)[: leaving_count(len(running), percent)])
        if not leaving:
            return f"{percent} % of {len(running)} instances are all of them"
        told = [host for host in leaving if not self._tasks.leaves(host)]
        for host in told:
            self.world.tell(host, LeaveGradually(leaving=True))
        return None if told else f"{', '.join(leaving)} of {len(running)} leave already: nobody else was told"

    def keep_instance(self, host: str) -> str | None:
        """Tell a Streams instance that was to leave to stay; None, or why not."""
        return None if self.world.tell(host, LeaveGradually(leaving=False)) else f"{host} does not run"

    def ask_admin(self, command: object) -> str | None:
        """Tell the admin client; what comes of it is a note. None, or why not."""
        return None if self.world.tell(ADMIN, command) else f"{ADMIN} does not run"

    def tell_servers(self, command: object) -> None:
        """Tell every broker and coordinator."""
        for name in self.brokers:
            self.world.tell(name, command)
            self.world.tell(coordinator_on(name), command)

    def set_rate(self, topic: str, records_per_s: int) -> str | None:
        """Change a producer's rate; None, or why not."""
        host = next(host for host, named in self.scenario.producer_names() if named == topic)
        self.start(host)
        return None if self.world.tell(host, SetRate(records_per_s=records_per_s)) else f"{host} does not run"

    # --- what the kinds do in their own way --------------------------------------------------------------------

    @abstractmethod
    def _broker_factories(self, node: int, name: str) -> dict[str, MachineFactory]:
        """The actors of a broker's host."""

    @abstractmethod
    def _initial_logs(self) -> Iterator[tuple[str, str, tuple[Record, ...]]]:
        """What is on the brokers' disks before anybody starts: host, log, records."""

    @abstractmethod
    def _log_on_disk(self, name: str, records: Sequence[Record]) -> PartitionLog | None:
        """The partition's log that these records of a broker's disk are; None if they are none."""

    @abstractmethod
    def _record_count(self, records: Sequence[Record]) -> int:
        """How many records of producers the log of a topic's partition holds, as it lies on the disk."""

    @abstractmethod
    def _started(self, host: Host) -> None:
        """A host began a life."""

    @abstractmethod
    def _went_down(self, host: Host) -> None:
        """A host's life is over."""

    @abstractmethod
    def coordinator_of(self, group: str) -> str:
        """The host that coordinates a group; "" when nobody does at the moment."""

    @abstractmethod
    def close(self, name: str) -> bool:
        """End a host cleanly; False if it does not run."""

    def _told_to_close(self, name: str) -> bool:
        self._closing[name] = self.world.now_us
        return self.world.tell(name, Close())

    def not_started_after_all(self, name: str) -> bool:
        """A process that is starting and has done nothing yet ends; False if there is none."""
        return self._starting.pop(name, 0) > 0

    @abstractmethod
    def grow_topic(self, topic: str, partitions: int) -> str | None:
        """Give a topic this many partitions."""

    @abstractmethod
    def expect_takeover(self, group: str) -> None:
        """This group's coordinator was killed on purpose: when that is noticed, another broker is to follow it."""

    @abstractmethod
    def move_coordinator(self, group: str, to: str) -> str | None:
        """Make another broker ("" = the next live one) the leader of a group's offsets partition."""

    @property
    @abstractmethod
    def replicated(self) -> ReplicatedOperators:
        """What operators can do beside, where brokers replicate."""


class _Start:
    """Starts a host if it does not run."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def __call__(self) -> None:
        self._cluster.start(self._name)


class _Bounce:
    """Takes a host down, to come back as something else or not; it is started again around ``down_us`` after its end.

    That time is drawn. Without that draw: ``down_us`` after it was told, and not before it has ended.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        down_us: int,
        how: str,
        change: Callable[[], None] | None,
        done: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._host = cluster.world.hosts[name]
        self._down_us = down_us
        self._how = how
        self._change = change
        self._done = done
        self._life = 0

    def __call__(self) -> None:
        cluster, world = self._cluster, self._cluster.world
        self._life = self._host.life
        if self._change is not None:
            self._change()
        if self._host.running:
            if self._how == "crash":
                world.take_down(self._host, Condition.CRASHED)
            else:
                self._cluster.close(self._host.name)
        if cluster.draws.of(DrawName.DOWN_TIME) is None:
            world.at(world.now_us + self._down_us, self._up)
        else:
            cluster.when_down(self._host.name, self._down)

    def _down(self) -> None:
        world = self._cluster.world
        world.at(world.now_us + self._cluster.down_us(self._host.name, self._down_us), self._up)

    def _up(self) -> None:
        world = self._cluster.world
        if self._host.life != self._life:
            self._done()  # somebody else started it meanwhile
        elif self._host.running:
            world.at(world.now_us + CLOSE_POLL_US, self._up)
        else:
            self._cluster.start(self._host.name)
            self._done()


def _assignors_named(scenario: Scenario) -> Iterator[str]:
    """Every assignor that the groups of a scenario use, or will after an upgrade."""
    for spec in scenario.groups.values():
        yield from spec.assignors
        for member in spec.overrides.values():
            yield from member.assignors
    for entry in scenario.plan:
        if isinstance(entry.action, RollingUpgrade):
            yield from entry.action.assignors
