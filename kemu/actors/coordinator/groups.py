"""The groups of one broker, and the partitions of ``__consumer_offsets`` that the broker leads and has replayed.

The hash of a group's name selects the group's partition. The leader of that partition coordinates the group.

Source: Kafka's CoordinatorRuntime (load and unload), GroupCoordinator.scala (the checks before a group's own checks).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.log import OffsetsPartition, OffsetsPartitionState
from kemu.actors.coordinator.replay import Replay, replay
from kemu.actors.coordinator.shared_state import GroupMachine
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import TimerKey
from kemu.protocol.commands import LeadOffsets
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import GroupId, offsets_partition_of
from kemu.protocol.notes.groups import OffsetRemoved, OffsetsLoadFailed
from kemu.protocol.notes.ranges import RangesRemoved
from kemu.protocol.wire.codec import CodecError

if TYPE_CHECKING:
    from kemu.actors.coordinator.modern_group import ModernGroup

_NONE = ErrorCode.NONE
_NOT_HERE = (OffsetsPartitionState.RESIGNED, OffsetsPartitionState.FAILED, OffsetsPartitionState.QUEUED)
"""States in which requests get NOT_COORDINATOR."""
_UNREAD = (OffsetsPartitionState.QUEUED, OffsetsPartitionState.LOADING)

AnyGroup: TypeAlias = "Group | ModernGroup"
"""A group of the classic protocol, or of the consumer protocol (KIP-848)."""


class Groups:
    """All groups of a broker, by name and by partition."""

    def __init__(self, machine: GroupMachine) -> None:
        self._machine = machine
        self.started = False
        self.partitions: dict[int, OffsetsPartition] = {}
        self.by_name: dict[GroupId, AnyGroup] = {}
        """The groups of all active partitions."""
        self._by_partition: dict[int, dict[GroupId, AnyGroup]] = {}
        self._former: dict[GroupId, AnyGroup] = {}
        """The group that the log has, while another group comes in its place, or its tombstones are being written."""
        self._lost: dict[GroupId, ModernGroup] = {}
        """The groups of ``lose``, until another group has their name."""
        self._numbers: dict[GroupId, int] = {}

    # --- coordinated groups ------------------------------------------------------------------------------------

    def why_not(self, group: GroupId, *, needs_name: bool = False) -> ErrorCode:
        """NONE if this broker coordinates the group now (the group may not exist yet); otherwise the error."""
        if needs_name and not group:
            return ErrorCode.INVALID_GROUP_ID
        if group in self.by_name:
            return _NONE
        if not self.started:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partitions.get(self._number_of(group))
        if partition is None or partition.state in _NOT_HERE:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition.state is OffsetsPartitionState.LOADING else _NONE

    def why_no_list(self) -> ErrorCode:
        """NONE if all groups of the partitions led by this broker are known; otherwise the error."""
        if not self.started:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        loading = any(partition.state is OffsetsPartitionState.LOADING for partition in self.partitions.values())
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else _NONE

    def _number_of(self, group: GroupId) -> int:
        number = self._numbers.get(group)
        if number is None:
            number = offsets_partition_of(group, self._machine.config.offsets_topic_num_partitions)
            self._numbers[group] = number
        return number

    def partition_of(self, group: GroupId) -> OffsetsPartition:
        """The partition of a group, which may not exist yet; the partition must be active here."""
        return self.partitions[self._number_of(group)]

    # --- groups ------------------------------------------------------------------------------------------------

    def of(self, partition: OffsetsPartition) -> tuple[AnyGroup, ...]:
        """The groups of a partition."""
        return tuple(self._by_partition.get(partition.number, {}).values())

    def open(self, name: GroupId, former: "ModernGroup | None" = None) -> Group:
        """Create an empty group in a partition that is active here.

        ``former``: the empty group of the consumer protocol that the new group replaces.
        """
        partition = self.partition_of(name)
        group = Group(self._machine, partition, name)
        if self._machine.rules.new_group_record:
            group.opened_after = partition.last_write
        if former is not None:
            group.offsets, group.second = former.offsets, former.second
        self.keep(group)
        return group

    def classic(self, name: GroupId) -> Group | None:
        """The group with this name, if its protocol is the classic protocol."""
        group = self.by_name.get(name)
        return group if isinstance(group, Group) else None

    def of_consumers(self, name: GroupId) -> "ModernGroup | None":
        """The group with this name, if its protocol is the consumer protocol."""
        group = self.by_name.get(name)
        return None if isinstance(group, Group) else group

    def seen(self, name: GroupId) -> "AnyGroup | None":
        """The group that admins see: that of the log, without the writes in progress.

        Source: ``GroupMetadataManager.describeGroups``, ``listGroups`` 4.0 to 4.3, which read the committed groups.
        """
        group = self.by_name.get(name)
        return group if group is not None and group.is_written else self._former.get(name)

    def all_seen(self) -> list[AnyGroup]:
        """All groups that admins see."""
        seen = map(self.seen, dict.fromkeys([*self.by_name, *self._former]))
        return [group for group in seen if group is not None]

    def topics_changed(self, before: Mapping[str, Topic], now: Mapping[str, Topic]) -> None:
        """React to changed topics of the cluster.

        Groups that subscribe to a changed topic look at the topics at their next heartbeat. After a topic was created,
        groups resolve their regular expressions.
        """
        changed = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
        has_new = any(name not in before or before[name].topic_id != topic.topic_id for name, topic in now.items())
        for group in self.by_name.values():
            if not isinstance(group, Group):
                group.is_stale = group.is_stale or any(map(group.consumes, changed))
                group.has_new_topics = group.has_new_topics or has_new

    def end(self, group: AnyGroup, why: str) -> None:
        """End a group whose tombstones will be written. Since 4.0 requests do not find the group from now on.

        Source: ``GroupMetadataManager.removeGroup`` 4.0 to 4.3, at the replay of the tombstones before their write.
        """
        group.die(why)
        if self._machine.rules.new_group_record:
            self._drop(group)
            self._former[group.name] = group

    def restore(self, group: AnyGroup) -> None:
        """Restore a group whose deletion could not be written. A group that came in its place gets its offsets."""
        there = self.by_name.get(group.name)
        if there is None or there is group:
            self.keep(group.revived())
            return
        self._former.pop(group.name, None)
        for partition, kept in group.offsets.committed.items():
            there.offsets.commit(partition, kept)
        if not there.second.by_partition:
            there.second = group.second

    def give_back(self, group: Group, former: "ModernGroup") -> None:
        """Restore an empty group of the consumer protocol: the classic group in its place could not be written."""
        if self.by_name.get(group.name) is group:
            group.refuse_all_parked()
            group.die("the conversion could not be written")
            self._drop(group)
            self.restore(former)

    def forget(self, group: AnyGroup) -> None:
        """Remove a group whose tombstone is written."""
        for topic, partition in group.offsets.committed:
            self._machine.note(
                OffsetRemoved(group=group.name, topic=topic, partition=partition, why="the group was deleted")
            )
        for topic, partition in group.second.by_partition:
            self._machine.note(
                RangesRemoved(group=group.name, topic=topic, partition=partition, why="the group was deleted")
            )
        self._drop(group)
        if self._former.get(group.name) is group:
            del self._former[group.name]

    def lose(self, group: "ModernGroup") -> None:
        """Forget an empty group without a record. The next group of this name gets its offsets, and a load restores it.

        Source: ``GroupMetadataManager.classicGroupJoinToClassicGroup`` 4.0 to 4.3, which deletes an empty group of the
        consumer protocol also for a member that it then refuses.
        """
        group.die("a classic member with a member id came")
        self._drop(group)
        self._lost[group.name] = group

    def _drop(self, group: AnyGroup) -> None:
        if self.by_name.get(group.name) is group:
            del self.by_name[group.name]
            del self._by_partition[group.partition.number][group.name]
            self._former.pop(group.name, None)

    def keep(self, group: AnyGroup) -> None:
        """Add a group, or replace the group of this name."""
        lost = self._lost.pop(group.name, None)
        if lost is not None:
            group.offsets, group.second = lost.offsets, lost.second
        former = None if group.is_written else self.seen(group.name)
        if former is None:
            self._former.pop(group.name, None)
        else:
            self._former[group.name] = former
        self.by_name[group.name] = group
        self._by_partition.setdefault(group.partition.number, {})[group.name] = group

    # --- partitions --------------------------------------------------------------------------------------------

    def lead(self, command: LeadOffsets) -> None:
        """Lead a partition from now on, under a higher epoch than before: read its log."""
        partition = self._partition(command.partition)
        if command.leader_epoch <= partition.epoch:
            return  # an outdated command
        partition.epoch = command.leader_epoch
        if partition.state is OffsetsPartitionState.ACTIVE:
            return  # the broker already leads the partition: its state is complete
        partition.records = command.records
        if partition.state in _UNREAD:
            return
        at_once = command.wait_us <= 0 or not self._machine.rules.unknown_until_loading
        partition.load_us = command.load_us
        if at_once:
            partition.load_us += command.wait_us
            self._read(partition)
        else:
            partition.state = OffsetsPartitionState.QUEUED
            self._machine.start_timer(_load_key(partition), command.wait_us)

    def load_timer_fired(self, number: int) -> None:
        """Begin to read a partition's log, or replay the log after it was read."""
        partition = self.partitions[number]
        if partition.state is OffsetsPartitionState.QUEUED:
            self._read(partition)
        else:
            self.load(number)

    def _read(self, partition: OffsetsPartition) -> None:
        partition.state = OffsetsPartitionState.LOADING
        if partition.load_us > 0:
            self._machine.start_timer(_load_key(partition), partition.load_us)
        else:
            self.load(partition.number)

    def load(self, number: int) -> None:
        """Replay a partition's log, which has been read."""
        partition = self.partitions[number]
        assert partition.state is OffsetsPartitionState.LOADING
        records, partition.records = partition.records, ()
        try:
            found = replay(records, holds_returned=self._machine.rules.holds_returned_partitions)
        except CodecError as error:
            partition.state = OffsetsPartitionState.FAILED
            self._machine.note(OffsetsLoadFailed(partition=number, why=str(error)))
            return
        partition.state = OffsetsPartitionState.ACTIVE
        for name in found.groups():
            self.keep(self._loaded(found, partition, name))
        for group in self.of(partition):
            group.loaded()

    def _loaded(self, found: Replay, partition: OffsetsPartition, name: GroupId) -> AnyGroup:
        offsets, second = found.offsets_of(name), found.second_of(name)
        states = found.consumer_group(name)
        if states is not None:
            from kemu.actors.coordinator.modern_group import ModernGroup  # late: few logs have such groups

            modern = ModernGroup(self._machine, partition, name, self.keep)
            modern.take(states, offsets, second)
            return modern
        group = Group(self._machine, partition, name)
        group.take(found.metadata.get(name), offsets, second)
        return group

    def resign(self, number: int, leader_epoch: int) -> None:
        """Unload a partition that another broker leads under a higher epoch."""
        partition = self._partition(number)
        if leader_epoch > partition.epoch:
            partition.epoch = leader_epoch
            self._unload(partition)

    def leadership_ended(self, number: int, leader_epoch: int) -> None:
        """Unload a partition after this broker's leadership ended, under this epoch or an older epoch."""
        partition = self._partition(number)
        if leader_epoch >= partition.epoch:
            partition.epoch = leader_epoch
            self._unload(partition)

    def close(self) -> None:
        """Unload all partitions because the broker stops."""
        for partition in self.partitions.values():
            self._unload(partition)
        self.started = False

    def _partition(self, number: int) -> OffsetsPartition:
        return self.partitions.setdefault(number, OffsetsPartition(number))

    def _unload(self, partition: OffsetsPartition) -> None:
        if partition.state in _UNREAD:
            self._machine.stop_timer(_load_key(partition))
        partition.state = OffsetsPartitionState.RESIGNED
        partition.records = ()
        self._machine.writes.abandon(partition)
        lost = [group for group in self._lost.values() if group.partition is partition]
        for group in self._by_partition.pop(partition.number, {}).values():
            group.unload()
            del self.by_name[group.name]
            if not isinstance(group, Group):
                lost.append(group)
        for ended in [each for each in self._former.values() if each.partition is partition]:
            del self._former[ended.name]
        for key in [each for each in self._machine.member_timers if self._number_of(each[1]) == partition.number]:
            del self._machine.member_timers[key]
            self._machine.stop_timer(key)
        for former in lost:  # of a group from before a conversion
            self._machine.stop_timer((GroupTimer.JOIN, former.name))
        self._lost = {name: group for name, group in self._lost.items() if group.partition is not partition}


def _load_key(partition: OffsetsPartition) -> TimerKey:
    return (GroupTimer.LOAD, str(partition.number))
