"""Requests of an admin client: groups and their offsets, leaders, settings of topics.

A request travels over the emulated network, and its answer is a note: ``AdminAnswered`` or ``GroupDescribed``. An entry
takes effect when the admin client has the command. The note shows whether the cluster executed the command.
"""

# mypy: no-implicit-reexport

from typing import Annotated

from kemu.emulator.plan.action import NEVER, AnyTopicName, Bounds, GroupName, OneOf, TopicName, action, nothing_more
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table, nearest
from kemu.protocol.commands import (
    AlterConfigs,
    DeleteGroup,
    DeleteOffsets,
    DeleteRecordsOf,
    DescribeGroup,
    ElectLeadersOf,
    ListAllGroups,
    ListReassignments,
    ReassignPartitions,
    RemoveMember,
    ResetOffsets,
)
from kemu.protocol.dynamic_configs import ALIASES, UNCLEAN_ELECTION_ENABLE, ConfigResource, bad_setting, settings_of
from kemu.protocol.names import CLASSIC, CONSUMER, broker_host, broker_of
from kemu.protocol.reassign.requests import list_error

_GROUP_STATES = ("Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_GROUP_TYPES = (CLASSIC, CONSUMER)


@action("list-groups", "an admin client lists groups with their states and types", drawn=NEVER, workload=True)
class GroupsListing:
    """List groups, as ``kafka-consumer-groups --list --state --type`` asks every broker.

    ``states``: only groups in these states (KIP-518, Kafka 2.6). ``types``: only groups of these types: "classic",
    "consumer" (KIP-848, Kafka 3.8). () lists all groups.
    """

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def words(self) -> str:
        states = f" in state {', '.join(self.states)}" if self.states else ""
        types = f" of type {', '.join(self.types)}" if self.types else ""
        return f"list the groups{types}{states}"

    def check(self, table: Table, known: Known) -> None:
        for key, given, accepted in (("states", self.states, _GROUP_STATES), ("types", self.types, _GROUP_TYPES)):
            for name in given:
                if name.casefold() not in (each.casefold() for each in accepted):
                    table.problem(key, f'"{name}" is none of {", ".join(accepted)}')

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(ListAllGroups(states=self.states, types=self.types))


@action("describe-group", "an admin client describes a group's state and members", drawn=NEVER, workload=True)
class GroupDescription:
    """Describe a group's state and members, as ``kafka-consumer-groups --describe`` asks the coordinator."""

    group: GroupName

    def words(self) -> str:
        return f"describe group {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(DescribeGroup(group=self.group))


@action("delete-group", "a group without members is deleted with its offsets", drawn=NEVER, workload=True)
class GroupDeletion:
    """Delete a group with its committed offsets (KIP-229). A group with members is refused: NON_EMPTY_GROUP."""

    group: GroupName

    def words(self) -> str:
        return f"delete group {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(DeleteGroup(group=self.group))


@action("expel-members", "an admin client removes a group's members", drawn=NEVER, workload=True)
class MembersExpulsion:
    """Remove members by an admin client (``removeMembersFromConsumerGroup``: KIP-345, KIP-571).

    ``instance``: the group.instance.id of a static member ("" = all members). The members keep running: a removed
    member receives UNKNOWN_MEMBER_ID and joins again. Use remove-members to stop members.
    """

    group: GroupName
    instance: str = ""

    def words(self) -> str:
        return f"an admin removes {self.instance or 'all members'} from {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(RemoveMember(group=self.group, instance_id=self.instance))


@action("reset-offsets", "the offsets of a group without members are set for a topic", drawn=NEVER, workload=True)
class OffsetsReset:
    """Set a group's committed offsets of a topic, as ``kafka-consumer-groups --reset-offsets`` does (KIP-122).

    ``to``: "earliest", "latest", "offset" (to ``offset``), or "shift" (by ``offset``, backwards if negative), within
    the ends of the log. A group with members is refused.
    """

    group: GroupName
    topic: TopicName
    to: Annotated[str, OneOf("earliest", "latest", "offset", "shift")]
    offset: Annotated[int, Bounds(-(1 << 62), 1 << 62)] = 0

    def words(self) -> str:
        how = {"offset": f"to {self.offset}", "shift": f"by {self.offset:+}"}.get(self.to, f"to the {self.to}")
        beside = f" (offset {self.offset})" if self.to in ("earliest", "latest") and self.offset else ""
        return f"reset the offsets of {self.group} in {self.topic} {how}{beside}"

    def check(self, table: Table, known: Known) -> None:
        if self.to in ("earliest", "latest") and table.has("offset"):
            table.problem("offset", f'does not go with to = "{self.to}"')
        elif self.to in ("offset", "shift") and not table.has("offset"):
            table.problem("offset", f'is missing; to = "{self.to}" needs it')
        elif self.to == "offset" and self.offset < 0:
            table.problem("offset", 'must not be negative; to go back write to = "shift"')

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(ResetOffsets(group=self.group, topic=self.topic, to=self.to, offset=self.offset))


@action(
    "delete-records", "an admin deletes records from the start of logs", drawn=NEVER, workload=True, replicated=True
)
class RecordsDeletion:
    """Delete records below an offset, as ``kafka-delete-records`` asks the partitions' leaders (KIP-107).

    ``before``: the new start of the logs; -1 for the high watermark. ``partition``: the partition; -1 for all
    partitions. Followers learn the new start by fetching. A consumer with a lower position is out of range and resets
    by ``auto.offset.reset``. Records beyond the high watermark cannot be deleted: OFFSET_OUT_OF_RANGE.
    """

    topic: TopicName
    before: Annotated[int, Bounds(-1, 1 << 62)]
    partition: Annotated[int, Bounds(-1)] = -1

    def words(self) -> str:
        what = f"records below {self.before}" if self.before >= 0 else "all records"
        return f"delete {what} of {self.topic}" + (f"-{self.partition}" if self.partition >= 0 else "")

    def check(self, table: Table, known: Known) -> None:
        there = dict(known.topics).get(self.topic, 0)
        if self.partition >= there:
            table.problem("partition", f"{self.topic} has no partition {self.partition}, it has {there}")

    def apply(self, stage: Stage) -> Outcome:
        command = DeleteRecordsOf(topic=self.topic, before=self.before, partition=self.partition)
        return stage.cluster.ask_admin(command)


@action("delete-offsets", "a group's offsets of a topic are deleted", drawn=NEVER, workload=True)
class OffsetsDeletion:
    """Delete a group's committed offsets of a topic (KIP-496).

    The coordinator refuses the deletion while a member subscribes to the topic: GROUP_SUBSCRIBED_TO_TOPIC.
    """

    group: GroupName
    topic: TopicName

    def words(self) -> str:
        return f"delete the offsets of {self.group} in {self.topic}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(DeleteOffsets(group=self.group, topic=self.topic))


@action("elect-leaders", "leaders of a topic are elected", drawn=NEVER, workload=True, replicated=True)
class LeadersElection:
    """Elect leaders of a topic's partitions, as ``kafka-leader-election`` asks the controller (KIP-460).

    ``unclean``: any live replica may become leader of a partition without a leader; records may be lost. Otherwise the
    preferred replica becomes leader, if this replica is alive and in sync.
    ``topic``: a topic or ``__consumer_offsets``, whose leaders coordinate the groups.
    """

    topic: AnyTopicName
    unclean: bool = False

    def words(self) -> str:
        return f"elect {'any live' if self.unclean else 'the preferred'} leaders of {self.topic}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(ElectLeadersOf(topics=(self.topic,), unclean=self.unclean))


@action(
    "alter-configs",
    "a setting of a topic, of all brokers, or of a group changes",
    drawn=NEVER,
    drawn_replicated=(lambda draw: ConfigsAlteration(key=UNCLEAN_ELECTION_ENABLE, value="true"),),
    workload=True,
)
class ConfigsAlteration:
    """Change a setting, or remove a setting (value ""), as ``kafka-configs --alter`` asks any broker (KIP-226,
    KIP-339).

    Settings of topics and brokers need ``[brokers.replication]``.

    ``topic``: the topic; "" for the default of all brokers (``--entity-default``), which a topic's own value overrides.
    ``broker``: one broker such as "b2" (``leader.`` and ``follower.replication.throttled.rate``, KIP-73). ``group``: a
    group of the consumer protocol (``consumer.session.timeout.ms``, ``consumer.heartbeat.interval.ms``; since 4.3
    ``consumer.assignment.interval.ms``), within the bounds ``group.consumer.min.*`` and ``max.*`` of the brokers. A
    broker applies the setting after a notification. The names of limits in KIP-435's text are accepted, too.
    """

    key: str
    topic: TopicName = ""
    value: str = ""
    broker: str = ""
    group: GroupName = ""

    def words(self) -> str:
        whose = " and ".join(name for name in (self.topic, self.broker, self.group) if name) or "all brokers"
        return f"set {self.key} of {whose} to {self.value}" if self.value else f"unset {self.key} of {whose}"

    def check(self, table: Table, known: Known) -> None:
        resource, one = ConfigResource.TOPIC if self.topic else ConfigResource.BROKER, bool(self.broker)
        if self.group:
            resource = ConfigResource.GROUP
            if one or self.topic:
                table.problem("group", f"and {'broker' if one else 'topic'} exclude each other")
                return
        elif not known.replicated:
            table.problem("group", "is missing; settings of topics and brokers need [brokers.replication]")
            return
        keys = tuple(settings_of(resource, one=one))
        whose = "one broker" if one else f"{resource.name.lower()}s"
        if one and (self.topic or self.broker not in known.brokers):
            text = (
                "and topic exclude each other"
                if self.topic
                else f'"{self.broker}" is no broker{nearest(self.broker, known.brokers)}'
            )
            table.problem("broker", text)
        elif self._kafka_key not in keys:
            table.problem("key", f'"{self.key}" is no setting of {whose} here{nearest(self.key, keys)}')
        elif self.value and (bad := bad_setting(resource, self._kafka_key, self.value, one=one)):
            table.problem("value", bad.removeprefix(f"{self._kafka_key} "))

    def apply(self, stage: Stage) -> Outcome:
        broker = broker_of(self.broker) if self.broker else -1
        key = self._kafka_key
        return stage.cluster.alter_configs(
            AlterConfigs(topic=self.topic, key=key, value=self.value, broker=broker, group=self.group)
        )

    @property
    def _kafka_key(self) -> str:
        return ALIASES.get(self.key, self.key)


# --- reassignments -------------------------------------------------------------------------------------------------


def _lists(given: tuple[str, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """(partition, brokers) of each line such as "0: 3 4 5"; raises ValueError with the problem."""
    found: dict[int, tuple[int, ...]] = {}
    for each in given:
        number, colon, brokers = each.partition(":")
        words = brokers.replace(",", " ").split()
        if not colon or not number.strip().isdecimal() or not all(word.isdecimal() for word in words):
            raise ValueError(f'"{each}" must be a partition and its brokers, as in "0: 3 4 5"')
        if int(number) in found:
            raise ValueError(f"says twice where partition {int(number)} goes")
        found[int(number)] = tuple(int(word) for word in words)
    return tuple(found.items())


def _ids(given: tuple[str, ...]) -> tuple[int, ...]:
    """Broker ids; raises ValueError with the problem."""
    if wrong := [word for word in given if not word.isdecimal()]:
        raise ValueError(f'"{wrong[0]}" is no broker id')
    return tuple(int(word) for word in given)


@action("reassign-partitions", "partitions move to other brokers", drawn=NEVER, workload=True, replicated=True)
class PartitionsReassignment:
    """Move a topic's partitions to other brokers, as ``kafka-reassign-partitions --execute`` does (KIP-455).

    ``topic``: a topic or ``__consumer_offsets``, which must move before a broker is removed.

    ``to``: ids of the brokers to which all partitions of the topic move; each partition starts with the next broker.
    ``assignment``: instead of ``to``, one line per partition, "0: 3 4 5", with the preferred leader first. The steps
    follow the brokers' ``reassignment.max.concurrent.*.movements`` (``alter-configs``; KIP-435); the default is one
    step.

    ``through``: "controller" for a request of an admin client (since 2.4), or "store" for a list in the store, as the
    former tool wrote. A list must be complete before the next list. "": the way that the brokers' release supports.
    """

    topic: AnyTopicName
    to: tuple[str, ...] = ()
    assignment: tuple[str, ...] = ()
    through: Annotated[str, OneOf("", "controller", "store")] = ""

    def words(self) -> str:
        where = [f"to brokers {', '.join(self.to)}"] if self.to else []
        where += [f"so: {'; '.join(self.assignment)}"] if self.assignment else []
        return " ".join((f"reassign {self.topic}", *where))

    def check(self, table: Table, known: Known) -> None:
        if not known.replicated:
            return  # reported already
        if not self.to and not self.assignment:
            table.problem("to", 'is missing; it or "assignment" must say where the partitions go')
            return
        if self.to and self.assignment:
            table.problem("to", 'and "assignment" say both where the partitions go; one is enough')
            return
        key = "to" if self.to else "assignment"
        try:
            rows = _lists(self.assignment) or ((0, _ids(self.to)),)
        except ValueError as error:
            table.problem(key, str(error))
            return
        partitions = known.partitions_of(self.topic)
        for number, brokers in rows:
            unknown = [broker for broker in brokers if broker_host(broker) not in known.brokers]
            if number >= partitions:
                table.problem(key, f"{self.topic} has no partition {number}, it has {partitions}")
            elif unknown:
                table.problem(key, f"{unknown[0]} is no broker; there are 0 to {len(known.brokers) - 1}")
            elif wrong := list_error(brokers):
                table.problem(key, f"of partition {number}: {wrong}" if self.assignment else wrong)

    def apply(self, stage: Stage) -> Outcome:
        targets, brokers = _lists(self.assignment), _ids(self.to)
        if stage.cluster.replicated.reassigns_by_store if not self.through else self.through == "store":
            return stage.cluster.replicated.reassign_in_store(self.topic, targets, brokers)
        return stage.cluster.ask_admin(ReassignPartitions(topic=self.topic, targets=targets, brokers=brokers))


@action("cancel-reassignment", "reassignments of a topic are cancelled", drawn=NEVER, workload=True, replicated=True)
class ReassignmentCancellation:
    """Cancel a topic's reassignments, as ``kafka-reassign-partitions --cancel`` asks (KIP-455)."""

    topic: AnyTopicName

    def words(self) -> str:
        return f"cancel the reassignment of {self.topic}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(ReassignPartitions(topic=self.topic))


@action("list-reassignments", "current reassignments are listed", drawn=NEVER, workload=True, replicated=True)
class ReassignmentsListing:
    """List the current reassignments, as ``kafka-reassign-partitions --list`` does (KIP-455)."""

    def words(self) -> str:
        return "list the reassignments"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.ask_admin(ListReassignments())
