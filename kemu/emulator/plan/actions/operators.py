"""Operations of operators: members, rolling restarts and upgrades, topics, leaders."""

# mypy: no-implicit-reexport

from typing import Annotated

import attrs

from kemu.emulator.plan.action import (
    ANYONE,
    NEVER,
    AnyHost,
    Bounds,
    BrokerHost,
    BrokerHosts,
    Given,
    GroupName,
    MemberHosts,
    OneOf,
    ProfileName,
    TopicName,
    action,
    for_words,
    nothing_more,
)
from kemu.emulator.plan.known import MOST_BROKERS, Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.kafka_keys import check_assignors, is_of_streams, member_settings_of
from kemu.emulator.text.tables import ScenarioError, Table
from kemu.emulator.text.units import duration_text
from kemu.protocol.names import OFFSETS_TOPIC, STORE, broker_host, consumer_host, is_legal_name, producer_host

_MOST_PARTITIONS = 100_000
"""Partitions of a topic at most."""
_MOST_MEMBERS = 100_000

# --- hosts ---------------------------------------------------------------------------------------------------------


@action("start-host", "a host starts", drawn=NEVER, workload=True)
class StartHost:
    """Start a host that has not started yet, or that was closed."""

    host: AnyHost

    def words(self) -> str:
        return f"start {self.host}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        return None if stage.cluster.start(host.name) else f"{host.name} runs already"


@action("close-host", "a host closes cleanly", drawn=NEVER, workload=True)
class CloseHost:
    """Close a host cleanly. A consumer commits, and leaves its group if dynamic; a broker transfers its leaderships."""

    host: AnyHost

    def words(self) -> str:
        return f"close {self.host}"

    def check(self, table: Table, known: Known) -> None:
        if self.host == STORE:
            table.problem("host", f'"{STORE}" is not closed while brokers use it; "crash" takes it down')

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        return None if stage.cluster.close(host.name) else f"{host.name} is down already"


# --- members -------------------------------------------------------------------------------------------------------


@action("rolling-restart", "the members of a group restart one after the other", drawn=NEVER, workload=True)
class RollingRestart:
    """Restart the members of a group in sequence, ``every_us`` apart, each with a downtime of ``down_us``.

    ``how``: "close" (a clean close, as a deployment does) or "crash" (killed).
    """

    group: GroupName
    every_us: int
    down_us: int
    how: Annotated[str, OneOf("close", "crash")] = "close"

    def words(self) -> str:
        pace = f"one every {duration_text(self.every_us)}, each down{for_words(self.down_us)}"
        return f"rolling restart of {self.group} ({self.how}), {pace}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        stage.parts(
            stage.cluster.deployments.rolling_restart(
                self.group, self.every_us, self.down_us, self.how, stage.part_done
            )
        )
        return None


@action(
    "rolling-upgrade",
    "members restart with another release or other settings",
    drawn=NEVER,
    workload=True,
)
class RollingUpgrade:
    """Restart members as in a rolling restart, with a new release or new settings.

    ``hosts``: only these hosts, in this order; () for the whole group, including members added later. ``profile``: the
    new release ("" for no change). ``assignors``: the new list (() for no change). ``settings``: changed settings as
    "KEY=VALUE", with keys of consumers, or of Streams if members are instances.
    """

    group: GroupName
    every_us: int
    down_us: int
    how: Annotated[str, OneOf("close", "crash")] = "close"
    hosts: MemberHosts = ()
    profile: ProfileName = ""
    assignors: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def words(self) -> str:
        whom = f"{', '.join(self.hosts)} of {self.group}" if self.hosts else self.group
        becomes = [self.profile] if self.profile else []
        if self.assignors:
            becomes.append(f"assignors {', '.join(self.assignors)}")
        becomes += self.settings
        pace = f"one every {duration_text(self.every_us)}, each down{for_words(self.down_us)}"
        return f"rolling upgrade of {whom} ({self.how}) to {'; '.join(becomes)}; {pace}"

    def check(self, table: Table, known: Known) -> None:
        if not (self.profile or self.assignors or self.settings):
            table.problem("settings", 'is missing; it, "profile" or "assignors" must say what changes')
        if self.assignors:
            check_assignors(table, "assignors", self.assignors)
        streams = [text for text in self.settings if is_of_streams(text)]
        if streams and self.group not in known.streams:
            table.problem("settings", f"{streams[0]}: {self.group} is no group of Streams instances")
        try:
            member_settings_of(self.settings)
        except ScenarioError as error:
            for problem in error.problems:
                key = ".".join(str(part) for part in problem.path)
                table.problem("settings", f"{key} {problem.text}".strip())

    def apply(self, stage: Stage) -> Outcome:
        hosts = tuple(stage.cluster.resolve(name) for name in self.hosts)
        if not all(hosts):
            return "a host of it does not exist now"
        count = stage.cluster.deployments.rolling_upgrade(
            self.group,
            self.every_us,
            self.down_us,
            self.how,
            hosts,
            profile=self.profile,
            assignors=self.assignors,
            settings=self.settings,
            done=stage.part_done,
        )
        stage.parts(count)
        return None


@action("upgrade-brokers", "brokers restart with another release", drawn=NEVER, workload=True)
class BrokersUpgrade:
    """Restart brokers with a new release in sequence, ``every_us`` apart, each with a downtime of ``down_us``.

    ``profile``: the new release ("" for no change). ``protocol``: the new ``inter.broker.protocol.version``, as the
    name of a release ("" for no change). An older protocol disables features that older brokers do not understand. An
    upgrade in production takes two rolling restarts: first the new release, then the new protocol. ``hosts``: only
    these hosts, in this order; () for all brokers, including brokers added later.

    The action refuses a protocol newer than the release of any broker, and a release older than its protocol. With
    these, Kafka's broker would not start, or other brokers would not understand its requests.
    """

    every_us: int
    down_us: int
    how: Annotated[str, OneOf("close", "crash")] = "close"
    hosts: BrokerHosts = ()
    profile: ProfileName = ""
    protocol: ProfileName = ""

    def words(self) -> str:
        becomes = [self.profile] if self.profile else []
        becomes += [f"the protocol of {self.protocol}"] if self.protocol else []
        pace = f"one every {duration_text(self.every_us)}, each down{for_words(self.down_us)}"
        return f"upgrade of {', '.join(self.hosts) or 'all brokers'} ({self.how}) to {' and '.join(becomes)}; {pace}"

    def check(self, table: Table, known: Known) -> None:
        if not (self.profile or self.protocol):
            table.problem("profile", 'is missing; it or "protocol" must say what changes')
        if self.protocol and not known.replicated:
            table.problem("protocol", "is what brokers speak that replicate: add [brokers.replication]")

    def apply(self, stage: Stage) -> Outcome:
        hosts = tuple(stage.cluster.resolve(name) for name in self.hosts)
        if not all(hosts):
            return "a host of it does not exist now"
        outcome = stage.cluster.deployments.upgrade_brokers(
            self.every_us,
            self.down_us,
            self.how,
            hosts,
            profile=self.profile,
            protocol=self.protocol,
            done=stage.part_done,
        )
        if isinstance(outcome, str):
            return outcome
        stage.parts(outcome)
        return None


def _added(known: Known, given: Given) -> Known:
    count = given.get("count", 1)
    if type(count) is not int or not 0 < count <= _MOST_MEMBERS:
        return known
    there, group = len(known.members), str(given.get("group", ""))
    added = tuple(consumer_host(there + number) for number in range(1, count + 1))
    return attrs.evolve(
        known,
        members=(*known.members, *added),
        in_groups=(*known.in_groups, *((host, group) for host in added)),
    )


@action("add-members", "a group gets more members", drawn=NEVER, workload=True, brings=_added)
class AddMembers:
    """Add members with the configuration of the group."""

    group: GroupName
    count: int = 1

    def words(self) -> str:
        return f"add {self.count} to {self.group}"

    def check(self, table: Table, known: Known) -> None:
        if self.count > _MOST_MEMBERS:
            table.problem("count", f"must be at most {_MOST_MEMBERS}")

    def apply(self, stage: Stage) -> Outcome:
        stage.cluster.deployments.add_members(self.group, self.count)
        return None


def _joined(known: Known, given: Given) -> Known:
    count = given.get("count", 1)
    if type(count) is not int or not 0 < count <= MOST_BROKERS:
        return known
    there = len(known.brokers)
    return attrs.evolve(known, brokers=(*known.brokers, *(broker_host(there + number) for number in range(count))))


@action(
    "add-broker",
    "a new broker joins the cluster",
    drawn=(),
    drawn_replicated=(lambda draw: AddBroker(),),
    workload=True,
    replicated=True,
    brings=_joined,
)
class AddBroker:
    """Start new brokers with empty disks: b3, b4, ... after three brokers.

    A new broker registers in the store, the controller informs other brokers, and clients find the new broker at their
    next metadata refresh. As in Kafka, a new broker gets no existing partition. A new broker gets partitions of later
    topics, and partitions that reassign-partitions moves. A reassignment to an unregistered broker is refused.
    ``[brokers.overrides.b3]`` holds the settings of the new broker b3.
    """

    count: int = 1

    def words(self) -> str:
        return "add a broker" if self.count == 1 else f"add {self.count} brokers"

    def check(self, table: Table, known: Known) -> None:
        if self.count > MOST_BROKERS or len(known.brokers) > MOST_BROKERS:
            table.problem("count", f"makes more than {MOST_BROKERS} brokers")

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.replicated.add_brokers(self.count)


@action("remove-members", "members of a group close permanently", drawn=NEVER, workload=True)
class RemoveMembers:
    """Close the members of the group that were added last, permanently."""

    group: GroupName
    count: int = 1

    def words(self) -> str:
        return f"remove {self.count} of {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return (
            None
            if stage.cluster.deployments.remove_members(self.group, self.count)
            else "the group has no running member"
        )


@action(
    "move-coordinator",
    "another broker becomes the group's coordinator",
    drawn=(lambda draw: MoveCoordinator(group=draw.group()),),
    workload=True,
    replicated=False,
    instead='"elect-preferred-leaders", "kill-coordinator", or "close-host" with host = "coordinator of GROUP"',
)
class MoveCoordinator:
    """Make another broker the leader of the group's offsets partition without a crash ("" for the next live broker).

    With replication, only the controller moves leaders: see elect-preferred-leaders and close-host.
    """

    group: GroupName
    to: BrokerHost = ANYONE

    def words(self) -> str:
        return f"move the coordinator of {self.group} to {self.to or 'the next broker'}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.move_coordinator(self.group, stage.cluster.resolve(self.to) if self.to else "")


# --- topics --------------------------------------------------------------------------------------------------------


@action("grow-topic", "a topic gets more partitions", drawn=NEVER, workload=True)
class GrowTopic:
    """Increase the topic's number of partitions."""

    topic: TopicName
    partitions: Annotated[int, Bounds(1, _MOST_PARTITIONS)]

    def words(self) -> str:
        return f"grow {self.topic} to {self.partitions} partitions"

    def check(self, table: Table, known: Known) -> None:
        there = dict(known.topics).get(self.topic, 0)
        if self.partitions <= there:
            table.problem("partitions", f"must be more than {self.topic} has ({there})")

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.grow_topic(self.topic, self.partitions)


@action("set-rate", "the rate of a topic's producer changes", drawn=NEVER, workload=True)
class SetRateOf:
    """Set the rate of the topic's producer, in records per second over all partitions (0 for no records)."""

    topic: TopicName
    records_per_s: int

    def words(self) -> str:
        return f"append {self.records_per_s} records/s to {self.topic}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.set_rate(self.topic, self.records_per_s)


def _created(known: Known, given: Given) -> Known:
    topic, partitions = str(given.get("topic", "")), given.get("partitions", 1)
    topics, producers = dict(known.topics), known.producers
    if topic not in (*known.declared, *known.created):
        new = sum(name not in known.declared for name in dict.fromkeys(known.created))
        producers = (*producers, producer_host(len(known.declared) + new + 1))
    if type(partitions) is int:
        topics[topic] = max(topics.get(topic, 0), partitions)
    return attrs.evolve(known, topics=tuple(topics.items()), producers=producers, created=(*known.created, topic))


@action("create-topic", "a topic is created", drawn=NEVER, workload=True, replicated=True, brings=_created)
class CreateTopic:
    """Ask the controller to create a topic (CreateTopics) on the live brokers.

    ``replication_factor`` 0: the brokers' default. ``records_per_s``: the rate of the topic's producer over all
    partitions (0 for no records). A topic of [topics] can be created again after its deletion. The controller's answer
    is a note ``AdminAnswered``.
    """

    topic: str
    partitions: int = 1
    replication_factor: int = 0
    records_per_s: int = 0

    def words(self) -> str:
        copies = f", {self.replication_factor} replicas each" if self.replication_factor else ""
        load = f", {self.records_per_s} records/s" if self.records_per_s else ""
        return f"create topic {self.topic} with {self.partitions} partitions{copies}{load}"

    def check(self, table: Table, known: Known) -> None:
        topic = self.topic
        if not is_legal_name(topic):
            table.problem("topic", "must be 1 to 249 letters, digits, dots, underscores or hyphens")
        elif topic == OFFSETS_TOPIC:
            table.problem("topic", "is there from the start")
        elif (topic in known.declared or known.created.count(topic) > 1) and topic not in known.deleted:
            table.problem("topic", f'"{topic}" is there already; "delete-topic" must come first')
        if self.replication_factor > len(known.brokers):
            table.problem("replication_factor", f"must not be more than there are brokers ({len(known.brokers)})")

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.replicated.create_topic(
            self.topic, self.partitions, self.replication_factor, self.records_per_s
        )


def _deleted(known: Known, given: Given) -> Known:
    return attrs.evolve(known, deleted=(*known.deleted, str(given.get("topic", ""))))


@action("delete-topic", "a topic is deleted", drawn=NEVER, workload=True, replicated=True, brings=_deleted)
class DeleteTopic:
    """Ask the controller to delete a topic (DeleteTopics).

    The controller deletes the topic's replicas on every broker, then the topic's nodes; a dead broker delays the
    deletion until its return. The topic's producer stops with the request, because a producer would ask for the missing
    topic for ever. No group may subscribe to the topic.
    """

    topic: TopicName

    def words(self) -> str:
        return f"delete topic {self.topic}"

    def check(self, table: Table, known: Known) -> None:
        if self.topic in known.subscribed:
            table.problem("topic", f'"{self.topic}" has groups that subscribe to it; delete one that no group reads')

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.replicated.delete_topic(self.topic)


@action(
    "elect-preferred-leaders",
    "the preferred replicas become leaders",
    drawn=(),
    drawn_replicated=(lambda draw: ElectPreferredLeaders(),),
    workload=True,
    replicated=True,
)
class ElectPreferredLeaders:
    """Make the first replica of each partition the leader, if the replica is alive and in sync.

    ``topics``: only these topics; () for all topics, including ``__consumer_offsets``. ``through``: "controller" for a
    request of an admin client (ElectLeaders, KIP-460), or "store" for a list in the store, as
    ``kafka-preferred-replica-election`` wrote before Kafka 3.0.
    """

    topics: tuple[str, ...] = ()
    through: Annotated[str, OneOf("controller", "store")] = "controller"

    def words(self) -> str:
        said = " (by a list in the store)" if self.through == "store" else ""
        return f"elect the preferred leaders of {', '.join(self.topics) or 'all partitions'}{said}"

    def check(self, table: Table, known: Known) -> None:
        for topic in self.topics:
            table.known("topics", topic, (*(name for name, _ in known.topics), OFFSETS_TOPIC), "topic")

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.replicated.elect_preferred_leaders(self.topics, in_store=self.through == "store")
