"""A cluster out of a scenario: its hosts and actors, and what its operators and its controller do.

Until controllers are emulated, what they decide is decided here, in one place and by name: who leads which partition,
when a dead broker is noticed, who takes an offsets partition over. Replication is not emulated yet: a partition of a
topic lives and dies with its broker; a partition of ``__consumer_offsets`` can be taken over with all that was durable.
"""

from collections.abc import Iterator, Mapping

from attrs import define, evolve

from actors.admin import Admin
from actors.broker import Broker
from actors.consumer import Consumer
from actors.coordinator import Coordinator
from actors.listener import Listener
from actors.machine import Machine
from actors.producer import Producer
from emulator import facts
from emulator.chance import Stream
from emulator.custom import is_custom, load_assignor
from emulator.facts import Seen
from emulator.faults import RollingUpgrade, role_of
from emulator.hosts import Condition, Host, MachineFactory
from emulator.members import AS_ITS_GROUP, MemberSpec, texts_of, upgraded_to
from emulator.reading import Problem, ScenarioError
from emulator.scenario import EARLIEST, GroupSpec, Scenario
from emulator.settings import configured
from emulator.world import World
from protocol.assign.base import Assignor
from protocol.commands import (
    Close,
    ClusterView,
    HostPartition,
    LeadOffsets,
    ResignOffsets,
    SetRate,
)
from protocol.errors import ErrorCode
from protocol.names import OFFSETS_TOPIC, offsets_partition_of
from protocol.notes import LeaderElected, MemberAdded
from protocol.profiles import PROFILES, Profile

BROKER_SESSION_US = 9_000_000
"""How long a broker that fell silent counts as alive. Source: ``broker.session.timeout.ms``, Kafka 3.9."""
ADMIN = "admin"
NOBODY = -1
NO_STORE = "there is no metadata store: brokers do not replicate"
CLOSE_POLL_US = 100_000
"""How often an operator looks whether a closing host has ended."""


@define
class _Topic:
    leaders: list[int]
    record_bytes: int


@define
class _Group:
    spec: GroupSpec
    members: list[str]
    """Hosts, oldest first, whether they run or not."""
    leader: str = ""
    """Host of the group's leader, as last elected."""
    upgraded: MemberSpec = AS_ITS_GROUP
    """What a rolling upgrade of the whole group makes of its members; later ones start like that."""


class Cluster:
    """Builds the machines of any host and life (``factory``), starts them, and acts as controller and operator."""

    def __init__(
        self,
        world: World,
        scenario: Scenario,
        profile: Profile,
        *,
        listeners: Mapping[str, Listener] | None = None,
        assignors: Mapping[str, Assignor] | None = None,
    ) -> None:
        self.world = world
        self.scenario = scenario
        self.profile = profile
        self.broker_config = configured(profile.broker, scenario.brokers.config)
        self.brokers = scenario.broker_names()
        self._listeners = dict(listeners or {})
        self._assignors = dict(profile.assignors if assignors is None else assignors)
        custom = dict.fromkeys(name for name in _assignors_named(scenario) if is_custom(name))
        self._custom = {name: load_assignor(name) for name in custom}
        self._members: dict[str, MemberSpec] = {
            host: member for spec in scenario.groups.values() for host, member in spec.overrides.items()
        }
        """Host -> what that member has other than its group, from its next life on."""
        self._topics: dict[str, _Topic] = {}
        self._groups: dict[str, _Group] = {}
        self._client_of: dict[str, str] = {}
        self._live = [True] * len(self.brokers)
        """By node id: whether the controller counts the broker as alive."""
        partitions = self.broker_config.offsets_topic_num_partitions
        self._offsets_leaders = [number % len(self.brokers) for number in range(partitions)]
        self._offsets_epochs = [0] * partitions
        self._takeovers: list[int] = []
        """Partitions of the offsets topic that move when their leader's death is noticed."""
        world.started = self._started
        world.went_down = self._went_down

    # --- building ----------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Add every host of the scenario; none runs yet."""
        for node, name in enumerate(self.brokers):
            self.world.add_host(name, self._broker_factories(node, name))
        for offset, (name, spec) in enumerate(self.scenario.topics.items()):
            leaders = [(offset + number) % len(self.brokers) for number in range(spec.partitions)]
            self._topics[name] = _Topic(leaders, spec.record_bytes)
        for name, group in self.scenario.groups.items():
            self._groups[name] = _Group(group, [])
        for host, group_name, number in self.scenario.member_names():
            self._add_member(host, group_name, number)
        self._check_members()
        for host, topic in self.scenario.producer_names():
            self.world.add_host(host, {host: self._producer_factory(host, topic)})
        self.world.add_host(ADMIN, {ADMIN: lambda life: Admin(ADMIN, self.brokers)})

    def begin(self) -> None:
        """Say what there is, and put the first starts on the agenda: brokers, then producers, members at their time."""
        self.world.report(
            facts.RunStarted(
                groups=tuple(self._groups),
                members=tuple((host, group) for host, group, _ in self.scenario.member_names()),
                brokers=self.brokers,
                topics=tuple((name, len(topic.leaders)) for name, topic in self._topics.items()),
            )
        )
        for name in self.brokers:
            self.world.at(0, self._starter(name))
        self.world.at(0, self._starter(ADMIN))
        for host, topic in self.scenario.producer_names():
            if topic in self.scenario.topics and self.scenario.topics[topic].records_per_s:
                self.world.at(0, self._starter(host))
        for host, group, number in self.scenario.member_names():
            self.world.at(self._groups[group].spec.start_of(number), self._starter(host))

    def factory(self, actor: str) -> MachineFactory:
        """What builds this actor's machine (for replay)."""
        return self.world.hosts[actor.partition("/")[0]].factories[actor]

    def _starter(self, name: str) -> "_Start":
        return _Start(self, name)

    def _broker_factories(self, node: int, name: str) -> dict[str, MachineFactory]:
        config = self.broker_config
        return {
            name: lambda life: Broker(name, node, config),
            f"{name}/coordinator": lambda life: Coordinator(f"{name}/coordinator", node, config),
        }

    def _producer_factory(self, host: str, topic: str) -> MachineFactory:
        config = self.scenario.producer_config(topic, self.profile.producer)
        seed = self.world.seed

        def make(life: int) -> Machine:
            chance = Stream(seed, f"{host}/life {life}")
            return Producer(host, topic, config, bootstrap=self.brokers, chance=chance)

        return make

    def _add_member(self, host: str, group_name: str, number: int) -> None:
        def make(life: int) -> Machine:
            return self._consumer(host, group_name, number, self._members.get(host, AS_ITS_GROUP), life)

        self.world.add_host(host, {host: make})
        self._groups[group_name].members.append(host)

    def _consumer(self, host: str, group: str, number: int, member: MemberSpec, life: int) -> Consumer:
        spec = self._groups[group].spec
        profile = PROFILES[member.profile] if member.profile else self.profile
        assignors = profile.assignors if member.profile else self._assignors
        defaults = evolve(profile.consumer, auto_offset_reset=EARLIEST.auto_offset_reset)
        return Consumer(
            host,
            spec.consumer(group, host, number, defaults, member),
            spec.topics,
            bootstrap=self.brokers,
            assignors={**assignors, **self._custom},
            chance=Stream(self.world.seed, f"{host}/life {life}"),
            listener=self._listeners.get(host),
            versions=profile.versions,
            rules_of=profile.rules_of,
        )

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
                    stages.append(stages[-1].then(upgraded_to(upgrade)))
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
        """Facts that tell who leads a group."""
        return kind in (MemberAdded, LeaderElected)

    def see(self, seen: Seen) -> None:
        """Keep track of who leads which group."""
        fact = seen.fact
        if type(fact) is MemberAdded:
            self._client_of[fact.member_id] = fact.client_id
        elif type(fact) is LeaderElected and fact.group in self._groups:
            self._groups[fact.group].leader = self._client_of.get(fact.member_id, "")

    def coordinator_of(self, group: str) -> str:
        """The host that coordinates a group; "" when nobody does at the moment."""
        node = self._offsets_leaders[self._partition_of(group)]
        return "" if node == NOBODY else self.brokers[node]

    def resolve(self, name: str) -> str:
        """The host a name or a role ("leader of g") means now; "" if there is none."""
        role = role_of(name)
        if role is None:
            return name if name in self.world.hosts else ""
        kind, group = role
        return self.coordinator_of(group) if kind == "coordinator" else self._groups[group].leader

    def _partition_of(self, group: str) -> int:
        return offsets_partition_of(group, len(self._offsets_leaders))

    # --- hosts -------------------------------------------------------------------------------------------------

    def start(self, name: str) -> bool:
        """Start a host that does not run; False if it does."""
        host = self.world.hosts[name]
        if host.running:
            return False
        self.world.start(host)
        return True

    def close(self, name: str) -> bool:
        """End a host cleanly: a client is told to close, a broker hands its offsets partitions on and ends."""
        host = self.world.hosts[name]
        if not host.running:
            return False
        if name not in self.brokers:
            return self.world.tell(name, Close())
        node = self.brokers.index(name)
        for partition, leader in enumerate(self._offsets_leaders):
            if leader == node:
                self._move(partition, self._next_live(node))
        self._live[node] = False
        self.world.take_down(host, Condition.CLOSED)
        self._tell_view()
        return True

    def revive(self) -> None:
        """Start every broker that is down: after the plan, the cluster is whole again."""
        for name in self.brokers:
            self.start(name)

    def rolling_restart(self, group: str, every_us: int, down_us: int, how: str) -> None:
        """Take the members down and up again, one after the other."""
        for number, name in enumerate(self._groups[group].members):
            self.world.at(self.world.now_us + number * every_us, self._bouncer(name, down_us, how))

    def rolling_upgrade(
        self, group: str, every_us: int, down_us: int, how: str, becomes: MemberSpec, hosts: tuple[str, ...]
    ) -> None:
        """As ``rolling_restart``, but members come back as something else; without ``hosts`` the whole group does."""
        if not hosts:
            self._groups[group].upgraded = self._groups[group].upgraded.then(becomes)
        for number, name in enumerate(hosts or self._groups[group].members):
            self.world.at(self.world.now_us + number * every_us, self._bouncer(name, down_us, how, becomes))

    def _bouncer(self, name: str, down_us: int, how: str, becomes: MemberSpec | None = None) -> "_Bounce":
        return _Bounce(self, name, down_us, how, becomes)

    def change_member(self, host: str, becomes: MemberSpec) -> None:
        """As ``reconfigure``, on top of what it has already, and on the record."""
        member = self._members.get(host, AS_ITS_GROUP).then(becomes)
        self.reconfigure(host, member)
        settings = texts_of(member.config)
        self.world.report(
            facts.MemberReconfigured(host=host, profile=member.profile, assignors=member.assignors, settings=settings)
        )

    def add_members(self, group: str, count: int) -> None:
        """Start more members, configured as the others."""
        members = self._groups[group].members
        for _ in range(count):
            name = f"c{sum(len(each.members) for each in self._groups.values()) + 1}"
            self._add_member(name, group, len(members))
            self.world.report(facts.MemberHostAdded(host=name, group=group))
            if self._groups[group].upgraded != AS_ITS_GROUP:
                self.change_member(name, self._groups[group].upgraded)
            self.start(name)

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

    def _started(self, host: Host) -> None:
        if host.name not in self.brokers:
            return
        node = self.brokers.index(host.name)
        self._live[node] = True
        self._tell_view()
        for topic, state in self._topics.items():
            for partition, leader in enumerate(state.leaders):
                if leader == node:
                    self._host_partition(topic, partition, leader)
        for partition, leader in enumerate(self._offsets_leaders):
            if leader == node:
                self._offsets_epochs[partition] += 1
                self._lead(partition, node)

    def _went_down(self, host: Host) -> None:
        if host.name in self.brokers and host.condition is not Condition.CLOSED:
            life = host.life
            node = self.brokers.index(host.name)

            def notice() -> None:
                if not (host.running and host.life > life):
                    self._notice_death(node)
                else:
                    self._takeovers = [each for each in self._takeovers if self._offsets_leaders[each] != node]

            self.world.at(self.world.now_us + BROKER_SESSION_US, notice)

    def _notice_death(self, node: int) -> None:
        self._live[node] = False
        self._take_over(node)
        self._tell_view()

    # --- the controller's part ---------------------------------------------------------------------------------

    def _tell_view(self) -> None:
        """Tell every running broker what the cluster looks like."""
        alive = self._live
        view = ClusterView(
            brokers=tuple((node, self.scenario.brokers.rack_of(node)) for node in range(len(alive)) if alive[node]),
            topics=tuple(
                (name, tuple(node if alive[node] else NOBODY for node in topic.leaders))
                for name, topic in self._topics.items()
            ),
            offsets_leaders=tuple(node if node != NOBODY and alive[node] else NOBODY for node in self._offsets_leaders),
        )
        for name in self.brokers:
            self.world.tell(name, view)

    def tell_servers(self, command: object) -> None:
        """Tell every broker and coordinator."""
        for name in self.brokers:
            self.world.tell(name, command)
            self.world.tell(f"{name}/coordinator", command)

    def _host_partition(self, topic: str, partition: int, node: int) -> None:
        state = self._topics[topic]
        command = HostPartition(topic=topic, partition=partition, leader_epoch=0, record_bytes=state.record_bytes)
        self.world.tell(self.brokers[node], command)

    def grow_topic(self, topic: str, partitions: int) -> str | None:
        """Give a topic this many partitions; None, or why not."""
        state = self._topics[topic]
        if partitions <= len(state.leaders):
            return f"{topic} has {len(state.leaders)} partitions already"
        first = state.leaders[0]
        for number in range(len(state.leaders), partitions):
            node = (first + number) % len(self.brokers)
            state.leaders.append(node)
            self._host_partition(topic, number, node)
        self.world.report(facts.TopicGrown(topic=topic, partitions=partitions))
        self._tell_view()
        return None

    def set_rate(self, topic: str, records_per_s: int) -> str | None:
        """Change a producer's rate; None, or why not."""
        host = next(host for host, named in self.scenario.producer_names() if named == topic)
        self.start(host)
        return None if self.world.tell(host, SetRate(records_per_s=records_per_s)) else f"{host} does not run"

    def expect_takeover(self, group: str) -> None:
        """When this group's dead coordinator is noticed, another broker takes its partition over."""
        self._takeovers.append(self._partition_of(group))

    def _take_over(self, dead: int) -> None:
        for partition in [each for each in self._takeovers if self._offsets_leaders[each] == dead]:
            self._takeovers.remove(partition)
            self._move(partition, self._next_live(dead))

    def move_coordinator(self, group: str, to: str) -> str | None:
        """Make another broker ("" = the next live one) the leader of a group's offsets partition; None, or why not."""
        partition = self._partition_of(group)
        old = self._offsets_leaders[partition]
        new = self.brokers.index(to) if to else self._next_live(old)
        if new in (NOBODY, old) or not self.world.hosts[self.brokers[new]].running:
            return "no other broker can take it"
        self._move(partition, new)
        self._tell_view()
        return None

    def tell_store(self, command: object) -> str | None:
        """Tell the metadata store something; None, or why not."""
        return NO_STORE

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> str | None:
        """Create a topic (factor 0: as the brokers have it); None, or why not."""
        return NO_STORE

    def delete_topic(self, topic: str) -> str | None:
        """Ask for a topic to be deleted; None, or why not."""
        return NO_STORE

    def elect_preferred_leaders(self, topics: tuple[str, ...]) -> str | None:
        """Ask for preferred leaders of these topics (none = of all); None, or why not."""
        return NO_STORE

    def _next_live(self, node: int) -> int:
        count = len(self.brokers)
        for step in range(1, count):
            candidate = (node + step) % count
            if self._live[candidate] and self.world.hosts[self.brokers[candidate]].running:
                return candidate
        return NOBODY

    def _move(self, partition: int, new: int) -> None:
        """The old leader resigns (if it lives), the new one gets all that was durable and loads it."""
        if new == NOBODY:
            return
        old = self._offsets_leaders[partition]
        log = f"{OFFSETS_TOPIC}-{partition}"
        old_host = self.world.hosts[self.brokers[old]]
        self._offsets_epochs[partition] += 1
        epoch = self._offsets_epochs[partition]
        if old_host.running:
            self.world.fail_writes(old_host, log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.world.tell(f"{old_host.name}/coordinator", ResignOffsets(partition=partition, leader_epoch=epoch))
        records = old_host.disk.logs.get(log, [])
        self.world.hosts[self.brokers[new]].disk.logs[log] = list(records)
        self._offsets_leaders[partition] = new
        self._lead(partition, new)

    def _lead(self, partition: int, node: int) -> None:
        name = self.brokers[node]
        records = tuple(self.world.hosts[name].disk.logs.get(f"{OFFSETS_TOPIC}-{partition}", ()))
        self.world.tell(
            f"{name}/coordinator",
            LeadOffsets(
                partition=partition,
                leader_epoch=self._offsets_epochs[partition],
                records=records,
                load_us=self.broker_config.emulated_load_us if records else 0,
            ),
        )


class _Start:
    """Starts a host if it does not run."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def __call__(self) -> None:
        self._cluster.start(self._name)


class _Bounce:
    """Takes a member down; ``down_us`` after it was told (and not before it has ended) it starts again."""

    def __init__(self, cluster: Cluster, name: str, down_us: int, how: str, becomes: MemberSpec | None) -> None:
        self._cluster = cluster
        self._host = cluster.world.hosts[name]
        self._down_us = down_us
        self._how = how
        self._becomes = becomes
        self._life = 0

    def __call__(self) -> None:
        world = self._cluster.world
        self._life = self._host.life
        if self._becomes is not None:
            self._cluster.change_member(self._host.name, self._becomes)
        if self._host.running:
            if self._how == "crash":
                world.take_down(self._host, Condition.CRASHED)
            else:
                self._cluster.close(self._host.name)
        world.at(world.now_us + self._down_us, self._up)

    def _up(self) -> None:
        world = self._cluster.world
        if self._host.life != self._life:
            return  # somebody else started it meanwhile
        if self._host.running:
            world.at(world.now_us + CLOSE_POLL_US, self._up)
        else:
            world.start(self._host)


def _assignors_named(scenario: Scenario) -> Iterator[str]:
    """Every assignor that the groups of a scenario use, or will after an upgrade."""
    for spec in scenario.groups.values():
        yield from spec.assignors
        for member in spec.overrides.values():
            yield from member.assignors
    for entry in scenario.plan:
        if isinstance(entry.action, RollingUpgrade):
            yield from entry.action.assignors
