"""What an admin client is asked to do: groups and their offsets, leaders, settings of topics.

The request goes over the emulated network to whom it concerns, and its answer is a note: ``AdminAnswered`` or
``GroupDescribed``. An entry counts as done when the admin client is told; whether the cluster obeyed is in the answer.
"""

from typing import Annotated

from kemu.emulator.plan.action import NEVER, Bounds, GroupName, OneOf, TopicName, action, nothing_more
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table, nearest
from kemu.protocol.commands import (
    AlterConfigs,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    ElectLeadersOf,
    ListAllGroups,
    RemoveMember,
    ResetOffsets,
)
from kemu.protocol.dynamic_configs import SETTINGS, ConfigResource, bad_setting


@action("list-groups", "every broker is asked for the groups it coordinates", drawn=NEVER, workload=True)
class GroupsListing:
    """Which groups there are and in which state, as ``kafka-consumer-groups --list --state`` asks every broker."""

    def words(self) -> str:
        """See ``Action``."""
        return "list the groups"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(ListAllGroups())


@action("describe-group", "a group's coordinator is asked for its state and members", drawn=NEVER, workload=True)
class GroupDescription:
    """A group's state and members, as ``kafka-consumer-groups --describe`` asks its coordinator."""

    group: GroupName

    def words(self) -> str:
        """See ``Action``."""
        return f"describe group {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(DescribeGroup(group=self.group))


@action("delete-group", "a group and its offsets are deleted, if it has no member", drawn=NEVER, workload=True)
class GroupDeletion:
    """A group is deleted with its committed offsets (KIP-229). With members it is refused: NON_EMPTY_GROUP."""

    group: GroupName

    def words(self) -> str:
        """See ``Action``."""
        return f"delete group {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(DeleteGroup(group=self.group))


@action("expel-members", "an admin client removes a group's members", drawn=NEVER, workload=True)
class MembersExpulsion:
    """Members are removed by an admin client (``removeMembersFromConsumerGroup``: KIP-345, KIP-571).

    ``instance``: the group.instance.id of a static member ("" = all members). They are not stopped: a member that is
    removed while it runs is told UNKNOWN_MEMBER_ID and joins again. To stop members: remove-members.
    """

    group: GroupName
    instance: str = ""

    def words(self) -> str:
        """See ``Action``."""
        return f"an admin removes {self.instance or 'all members'} from {self.group}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(RemoveMember(group=self.group, instance_id=self.instance))


@action("reset-offsets", "a group's offsets of a topic are set, if it has no member", drawn=NEVER, workload=True)
class OffsetsReset:
    """A group's committed offsets of a topic are set, as ``kafka-consumer-groups --reset-offsets`` does (KIP-122).

    ``to``: "earliest", "latest", "offset" (to ``offset``), or "shift" (by ``offset``, back when negative); never beyond
    the ends of the log. The group must have no members: with any it is refused.
    """

    group: GroupName
    topic: TopicName
    to: Annotated[str, OneOf("earliest", "latest", "offset", "shift")]
    offset: Annotated[int, Bounds(-(1 << 62), 1 << 62)] = 0

    def words(self) -> str:
        """See ``Action``."""
        how = {"offset": f"to {self.offset}", "shift": f"by {self.offset:+}"}.get(self.to, f"to the {self.to}")
        beside = f" (offset {self.offset})" if self.to in ("earliest", "latest") and self.offset else ""
        return f"reset the offsets of {self.group} in {self.topic} {how}{beside}"

    def check(self, table: Table, known: Known) -> None:
        """See ``Action``."""
        if self.to in ("earliest", "latest") and table.has("offset"):
            table.problem("offset", f'does not go with to = "{self.to}"')
        elif self.to in ("offset", "shift") and not table.has("offset"):
            table.problem("offset", f'is missing; to = "{self.to}" needs it')
        elif self.to == "offset" and self.offset < 0:
            table.problem("offset", 'must not be negative; to go back write to = "shift"')

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(ResetOffsets(group=self.group, topic=self.topic, to=self.to, offset=self.offset))


@action("delete-offsets", "a group's offsets of a topic are forgotten", drawn=NEVER, workload=True)
class OffsetsDeletion:
    """A group's committed offsets of a topic are deleted (KIP-496).

    Refused while a member of the group subscribes to the topic: GROUP_SUBSCRIBED_TO_TOPIC.
    """

    group: GroupName
    topic: TopicName

    def words(self) -> str:
        """See ``Action``."""
        return f"delete the offsets of {self.group} in {self.topic}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(DeleteOffsets(group=self.group, topic=self.topic))


@action("elect-leaders", "leaders of a topic are elected", drawn=NEVER, workload=True, replicated=True)
class LeadersElection:
    """Leaders of a topic's partitions are elected, as ``kafka-leader-election`` asks the controller (KIP-460).

    ``unclean``: any replica that is alive may lead a partition that has no leader; records may be lost. Otherwise the
    preferred replica leads, if it is alive and in sync.
    """

    topic: TopicName
    unclean: bool = False

    def words(self) -> str:
        """See ``Action``."""
        return f"elect {'any live' if self.unclean else 'the preferred'} leaders of {self.topic}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(ElectLeadersOf(topics=(self.topic,), unclean=self.unclean))


@action(
    "alter-configs", "a setting of a topic, or of all brokers, changes", drawn=NEVER, workload=True, replicated=True
)
class ConfigsAlteration:
    """A setting is set, or removed (""), as ``kafka-configs --alter`` asks any broker for (KIP-226, KIP-339).

    ``topic``: whose it is; "" = the setting of all brokers (``--entity-default``): topics with one of their own do
    not heed. Brokers heed it when they are notified.
    """

    key: str
    topic: TopicName = ""
    value: str = ""

    def words(self) -> str:
        """See ``Action``."""
        whose = self.topic or "all brokers"
        return f"set {self.key} of {whose} to {self.value}" if self.value else f"unset {self.key} of {whose}"

    def check(self, table: Table, known: Known) -> None:
        """See ``Action``."""
        resource = ConfigResource.TOPIC if self.topic else ConfigResource.BROKER
        keys = tuple(SETTINGS[resource])
        if self.key not in keys:
            table.problem(
                "key", f'"{self.key}" is no setting of {resource.name.lower()}s here{nearest(self.key, keys)}'
            )
        elif self.value and (bad := bad_setting(resource, self.key, self.value)):
            table.problem("value", bad.removeprefix(f"{self.key} "))

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return stage.cluster.ask_admin(AlterConfigs(topic=self.topic, key=self.key, value=self.value))
