"""The members of a cluster's groups: their present specs, and the machines that the members run."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.consumer import Consumer
from kemu.actors.consumer.listener import Listener
from kemu.actors.machine import Machine
from kemu.emulator.cluster.member_draws import member_draws
from kemu.emulator.cluster.releases import Releases
from kemu.emulator.draws import Drawn
from kemu.emulator.engine.world import World
from kemu.emulator.plan.actions import RollingUpgrade
from kemu.emulator.scenario.groups import EARLIEST, GroupSpec
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, upgraded_to
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.streams import StreamsSpec
from kemu.emulator.text.custom_assignors import find_task_assignor, is_custom, load_assignor
from kemu.emulator.text.kafka_keys import configured
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.protocol.assign.base import Assignor
from kemu.protocol.config import CLOSE_DEFAULT
from kemu.protocol.draws import MILLION, DrawName
from kemu.protocol.frozen import define, evolve
from kemu.protocol.names import number_of
from kemu.protocol.streams.modes import LEARNER
from kemu.protocol.streams.releases import consumer_of_streams, producer_of_streams

_CONSUMER_PROTOCOL_SINCE = (4, 0)
_CLOSE_OPTIONS_SINCE = (4, 1)
LIVES_BIT = 64
"""The number of a host's earlier lives begins at this bit of a Streams process id."""


if TYPE_CHECKING:
    from kemu.actors.streams.instance import Instance


@define
class GroupMembers:
    """The present members of a group."""

    spec: GroupSpec
    hosts: list[str]
    """Hosts of the members, oldest first, running or not."""
    leader: str = ""
    """Host of the member that the coordinator last elected as the group's leader."""
    upgraded: MemberSpec = AS_ITS_GROUP
    """The spec after a rolling upgrade of the whole group; members that are added later get this spec."""


class MemberHosts:
    """Keeps the spec of every member, and builds the member's machine for each life of its host."""

    def __init__(
        self,
        world: World,
        scenario: Scenario,
        releases: Releases,
        brokers: Callable[[], tuple[str, ...]],
        *,
        listeners: Mapping[str, Listener] | None,
        applications: Mapping[str, ApplicationFactory] | None,
        assignors: Mapping[str, Assignor] | None,
    ) -> None:
        """``listeners``, ``applications`` and ``assignors`` are the user's code, as in ``kemu.run``.

        Args:
            brokers: returns the brokers that a new client gets as ``bootstrap.servers``.
            assignors: assignors that replace the release's assignors of the same names.
        """
        self._world = world
        self._scenario = scenario
        self._releases = releases
        self._brokers = brokers
        self._listeners = dict(listeners or {})
        self._applications = dict(applications or {})
        self._assignors = dict(releases.own.assignors if assignors is None else assignors)
        custom = dict.fromkeys(name for name in _assignors_named(scenario) if is_custom(name))
        self._custom = {name: load_assignor(name) for name in custom}
        self._specs: dict[str, MemberSpec] = {
            host: member for spec in scenario.groups.values() for host, member in spec.overrides.items()
        }
        self._busy: dict[str, int] = {}
        self._began_us: dict[str, int] = {}
        """Process of several members -> time at which its first member started."""
        self.groups: dict[str, GroupMembers] = {}

    def build(self) -> None:
        """Add the host of every member of the scenario.

        Raises:
            ScenarioError: a consumer of a member's release refuses its configuration.
        """
        for name, group in self._scenario.groups.items():
            self.groups[name] = GroupMembers(group, [])
        for host, group_name, number in self._scenario.member_names():
            self.add(host, group_name, number)
        self._check()

    def spec_of(self, host: str) -> MemberSpec:
        """Return the settings of a member that differ from the group's settings."""
        return self._specs.get(host, AS_ITS_GROUP)

    def set_spec(self, host: str, member: MemberSpec) -> None:
        """Set the settings of a member that differ from the group's settings, from the member's next life on."""
        self._specs[host] = member

    def add(self, host: str, group: str, number: int | None = None) -> None:
        """Add the host of a member with this number in the group; by default with the next number."""
        hosts = self.groups[group].hosts
        ordinal = len(hosts) if number is None else number

        self._world.add_host(host, {host: partial(self._made, host, group, ordinal)})
        hosts.append(host)

    def _made(self, host: str, group: str, number: int, life: int) -> Machine:
        member = self.spec_of(host)
        streams = self.groups[group].spec.streams
        if streams is not None:
            return self._instance(host, group, number, streams, member, life)
        return self._consumer(host, group, number, member, life)

    def busy(self, machine: str) -> int:
        """Return how busy a machine is, in millionths of the usual load; constant during a run."""
        if machine not in self._busy:
            drawn = Drawn(self._world.choices, self._scenario.draws, machine)
            self._busy[machine] = drawn.us(DrawName.MACHINE_BUSY, MILLION, MILLION)
        return self._busy[machine]

    def _consumer(self, host: str, group: str, number: int, member: MemberSpec, life: int) -> Consumer:
        spec = self.groups[group].spec
        profile = self._releases.of_member(member)
        assignors = profile.assignors if member.profile else self._assignors
        defaults = configured(profile.consumer, (("auto_offset_reset", EARLIEST.auto_offset_reset),))
        config = spec.consumer(group, host, number, defaults, member)
        if config.emulated_close_membership != CLOSE_DEFAULT and profile.release < _CLOSE_OPTIONS_SINCE:
            raise ValueError("emulated.close.membership: needs kafka-4.1 or later (KIP-1092)")
        if spec.streams is not None:
            for key in ("emulated_close_membership", "emulated_close_timeout_ms"):
                if getattr(config, key) != getattr(defaults, key):
                    name = key.replace("_", ".")
                    raise ValueError(f"{name}: threads of Streams close their consumers by default")
        application = self._applications.get(host) if life else None
        configured_keys = frozenset(name for name, _ in (*spec.config, *member.config))
        warm = spec.one_process and (life > 1 or number >= spec.members)
        process = group if spec.one_process else ""
        draws = member_draws(
            self._world.choices,
            self._scenario,
            group,
            f"{host}/life {life}",
            configured_keys,
            warm=warm,
            busy=self.busy(process or host),
            process=process,
            began_us=self._began_us.setdefault(process, self._world.now_us) if process and life else 0,
        )
        return Consumer(
            host,
            config,
            spec.topics,
            bootstrap=self._brokers(),
            assignors={**assignors, **self._custom},
            chance=self._world.choices.stream(f"{host}/life {life}"),
            draws=draws,
            listener=self._listeners.get(host),
            application=None if application is None else application(evolve(config, client_id=host)),
            versions=self._releases.spoken_by(profile),
            rules_of=profile.rules_of,
            metadata_rules=profile.metadata,
            pattern=spec.pattern,
            regex=spec.subscription_pattern,
            life=life,
        )

    def _instance(
        self, host: str, group: str, number: int, streams: StreamsSpec, member: MemberSpec, life: int
    ) -> "Instance":
        """Build a Streams instance.

        The instance's process id survives restarts if the release stores the id on disk. Without a stored id, each life
        gets a new process id.
        """
        from kemu.actors.streams.instance import Instance  # few scenarios have Streams applications

        spec = self.groups[group].spec
        profile = self._releases.of_member(member)
        release = profile.streams
        settings = streams.settings_on(release.config, member)
        settings = evolve(settings, application_server=settings.application_server.replace("{host}", host))
        kind = settings.emulated_task_assignor
        earlier_lives = 0 if release.process_id_on_disk else life - 1
        readable = f"{earlier_lives << LIVES_BIT | number_of(host):032x}"
        identities = Drawn(self._world.choices, self._scenario.draws, f"{host}/process {earlier_lives}")
        configured_keys = frozenset(name for name, _ in (*spec.config, *member.config))
        owner, choices = f"{host}/life {life}", self._world.choices
        return Instance(
            host,
            group,
            streams.topology,
            settings,
            consumer=spec.consumer(group, host, number, consumer_of_streams(profile.consumer), member),
            producer=configured(producer_of_streams(profile.producer), self._scenario.producers),
            process_id=UUID(identities.identity(readable)).bytes,
            bootstrap=self._brokers(),
            chances=lambda part: choices.stream(f"{host}/{part}/life {life}"),
            draws=member_draws(choices, self._scenario, group, owner, configured_keys, busy=self.busy(host)),
            custom=None if kind == LEARNER else release.task_assignors.get(kind) or find_task_assignor(kind),
            layout=release.layout_of(kind),
            protocols=release.protocols,
            versions=self._releases.spoken_by(profile),
            rules_of=profile.rules_of,
            metadata_rules=profile.metadata,
            placement=release.placement_for(kind),
            uses_nonce=release.uses_nonce,
            task_rules=release.task_rules,
        )

    def _check(self) -> None:
        """Check the configuration of each member at its start and after each upgrade of the plan, by building the
        member once.
        """
        self._check_consumer_protocol()
        checked: set[tuple[str, MemberSpec]] = set()
        upgrades = [entry.action for entry in self._scenario.plan if isinstance(entry.action, RollingUpgrade)]
        for host, group, number in self._scenario.member_names():
            stages = [self.spec_of(host)]
            for upgrade in upgrades:
                if upgrade.group == group and host in (upgrade.hosts or (host,)):
                    stages.append(stages[-1].then(upgraded_to(upgrade.profile, upgrade.assignors, upgrade.settings)))
            for stage in stages:
                if (group, stage) not in checked:
                    checked.add((group, stage))
                    try:
                        self._consumer(host, group, number, stage, 0)
                    except ValueError as error:
                        problem = Problem(("groups", group), f"{host} as {self._releases.own.name}: {error}")
                        raise ScenarioError([problem]) from error

    def _check_consumer_protocol(self) -> None:
        """Check that brokers and members of groups with the consumer protocol have a release with this protocol."""
        names = self._scenario.consumer_protocol_groups
        if not names:
            return
        problems = [
            Problem(("groups", name, *problem.path), problem.text)
            for name in names
            for problem in self._scenario.groups[name].obstacles()
        ]
        lacking = [each for each in self._brokers() if not self._releases.coordinator_rules_of(each).consumer_protocol]
        if self._releases.own.release < _CONSUMER_PROTOCOL_SINCE or lacking or self._scenario.mixes_releases:
            text = '"consumer" needs one profile for all brokers and members, kafka-4.0 or later'
            text += ': set profile = "kafka-4.0"'
            problems += [Problem(("groups", name, "config", "group.protocol"), text) for name in names]
        for entry in self._scenario.plan:
            action = entry.action
            if isinstance(action, RollingUpgrade) and action.group in names and action.profile:
                text = "to another release is not emulated for groups with group.protocol = consumer"
                problems.append(Problem(("plan", "rolling-upgrade"), text))
        if problems:
            raise ScenarioError(problems)


def _assignors_named(scenario: Scenario) -> Iterator[str]:
    """Yield every assignor that the groups of a scenario use at the start or after an upgrade."""
    for spec in scenario.groups.values():
        yield from spec.assignors
        for member in spec.overrides.values():
            yield from member.assignors
    for entry in scenario.plan:
        if isinstance(entry.action, RollingUpgrade):
            yield from entry.action.assignors
