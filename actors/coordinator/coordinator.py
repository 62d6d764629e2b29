"""The group coordinator of one broker: which groups it answers for, and who answers each request.

A group belongs to a partition of ``__consumer_offsets`` (by the hash of its name), and the broker that leads that
partition coordinates it. All it knows of a group is what it replays from the partition's log when it begins to lead;
what is not in the log (parked requests, ids handed out, a generation whose assignment never came) is lost with it.

Source: Kafka's GroupCoordinatorService and CoordinatorRuntime; the checks before a group sees a request are those of
GroupCoordinator.scala. ``config.coordinator_kind`` chooses between the two (``actors.coordinator.rules``).
"""

from typing import Any

from kemu.actors.coordinator.desk import (
    US_PER_MS,
    CommitWrite,
    CoordinatorBase,
    DeleteGroupsWrite,
    EmptyWrite,
    NewGroupWrite,
    OffsetsPartition,
    PartitionState,
    RemoveOffsetsWrite,
    ReplaceWrite,
    SyncWrite,
    Write,
)
from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.offset_requests import OffsetRequests
from kemu.actors.coordinator.replay import replay
from kemu.actors.coordinator.replies import described_error, leave_reply, leaving, refusal
from kemu.actors.coordinator.state import DEAD
from kemu.actors.injection import Injections
from kemu.actors.machine import Appended, Event, LinkDown, Loaded, Received, TimerFired, TimerKey, Told, caller_of
from kemu.protocol.commands import AnswerNext, Close, LeadOffsets, ResignOffsets, Start
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    DeleteGroups,
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    LeaveGroup,
    LeftMember,
    ListedGroup,
    ListGroups,
    ListGroupsReply,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from kemu.protocol.messages.records import GroupMetadata, group_record
from kemu.protocol.names import UNKNOWN_MEMBER, ActorName, GroupId, offsets_partition_of
from kemu.protocol.notes.groups import OffsetsLoadFailed, RequestRefused
from kemu.protocol.wire.codec import CodecError

_NONE = ErrorCode.NONE
_SYNC_NAMES_PROTOCOL_SINCE = 5
_EXPIRE: TimerKey = ("expire",)
_ALIVE = HeartbeatReply(error=_NONE)


class Coordinator(CoordinatorBase):
    """The groups of one broker.

    Told ``Start``, ``LeadOffsets``, ``ResignOffsets``, ``AnswerNext`` and ``Close``. ``LeadOffsets`` must carry a
    higher leader epoch each time, also after a restart of the same broker: member ids are unique by it.
    """

    def __init__(self, name: ActorName, node_id: int, config: BrokerConfig) -> None:
        super().__init__(name, node_id, config)
        self._started = False
        self._injections = Injections(self)
        self._offsets = OffsetRequests(self)
        self._partition_numbers: dict[GroupId, int] = {}

    def handle(self, event: Event) -> None:
        """What happens on each event."""
        match event:
            case Received():
                self._serve(event)
            case TimerFired(key=("session", group, member_id)):
                self.groups[group].session_timer_fired(member_id)
            case TimerFired(key=("join", group)):
                self.groups[group].join_timer_fired()
            case TimerFired(key=("sync", group)):
                self.groups[group].sync_timer_fired()
            case TimerFired(key=("load", number)):
                self._load(self.partitions[int(number)])
            case TimerFired(key=("expire",)):
                self._offsets.expire()
                self._start_expiry()
            case Appended(token=token, error=error, base_offset=base_offset):
                self._appended(token, error, base_offset)
            case Told(command=LeadOffsets() as command):
                self._lead(command)
            case Told(command=ResignOffsets() as command):
                self._resign(command)
            case Told(command=AnswerNext() as command):
                self._injections.told(command)
            case Told(command=Start()):
                self._started = True
                self._start_expiry()
            case Told(command=Close()):
                self._close()
            case LinkDown() | Loaded():
                pass  # a parked join outlives its connection; logs come with LeadOffsets
            case _:
                raise AssertionError(f"{self.name}: unexpected event {event!r}")

    # --- requests ----------------------------------------------------------------------------------------------

    def _serve(self, event: Received) -> None:
        request = event.message
        injected = self._injections.take(type(request).__name__, event.peer)
        if injected is not None:
            self._refuse(event, request, injected)
            return
        match request:
            case Heartbeat():
                self._heartbeat(event, request)
            case JoinGroup():
                self._join(event, request)
            case SyncGroup():
                self._sync(event, request)
            case LeaveGroup():
                self._leave(event, request)
            case OffsetCommit(group=group):
                if self._reaches(event, request, group):
                    self._offsets.commit(event, request, self._partition_of(group))
            case OffsetFetch(group=group):
                if self._reaches(event, request, group):
                    self._offsets.fetch(event, request)
            case OffsetDelete(group=group):
                if self._reaches(event, request, group, needs_name=True):
                    self._offsets.delete_offsets(event, request)
            case DeleteGroups(groups=groups):
                reach = {name: self._why_not(name) for name in groups}
                self._offsets.delete_groups(event, request, reach)
            case DescribeGroups():
                self._describe(event, request)
            case ListGroups():
                self._list(event, request)
            case _:
                raise AssertionError(f"{self.name}: not a request of a coordinator: {request!r}")

    def _heartbeat(self, event: Received, request: Heartbeat) -> None:
        group = self.groups.get(request.group) if request.group else None
        if group is not None:
            group.heartbeat(event, request)
            return
        error = self._why_not(request.group, needs_name=True)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.reply(event, _ALIVE)  # the load starts all sessions afresh
        else:
            self._refuse(event, request, ErrorCode.UNKNOWN_MEMBER_ID if error is _NONE else error)

    def _join(self, event: Received, request: JoinGroup) -> None:
        if not self._reaches(event, request, request.group, needs_name=True):
            return
        config = self.config
        timeout_ms = request.session_timeout_ms
        if not config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms:
            self._refuse(event, request, ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        group = self.groups.get(request.group)
        if group is None and request.member_id != UNKNOWN_MEMBER:
            self._refuse(event, request, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        if group is None:
            group = self.open_group(request.group, self._partition_of(request.group))
            if self.rules.new_group_record:
                self._write_new(group, event)
        group.join(event, request)

    def _write_new(self, group: Group, event: Received) -> None:
        record = group_record(
            GroupMetadata(
                group=group.name,
                protocol_type="",
                generation=group.generation,
                protocol=None,
                leader=None,
                state_timestamp_ms=self.now_ms,
                members=(),
            )
        )
        self.write(group.partition, (record,), NewGroupWrite(group, caller_of(event)))

    def _sync(self, event: Received, request: SyncGroup) -> None:
        unnamed = request.protocol_type is None or request.protocol_name is None
        if event.version >= _SYNC_NAMES_PROTOCOL_SINCE and unnamed:
            self._refuse(event, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        group = self.groups.get(request.group) if request.group else None
        if group is not None:
            group.sync(event, request)
            return
        error = self._why_not(request.group, needs_name=True)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = self.rules.sync_while_loading
        self._refuse(event, request, ErrorCode.UNKNOWN_MEMBER_ID if error is _NONE else error)

    def _leave(self, event: Received, request: LeaveGroup) -> None:
        if not self._reaches(event, request, request.group, needs_name=True):
            return
        group = self.groups.get(request.group)
        if group is not None:
            group.leave(event, request)
            return
        error = ErrorCode.UNKNOWN_MEMBER_ID
        rows = []
        for entry in leaving(event.version, request):
            rows.append(LeftMember(member_id=entry.member_id, instance_id=entry.instance_id, error=error))
            self.note(RequestRefused(group=request.group, api="LeaveGroup", member_id=entry.member_id, error=error))
        self.reply(event, leave_reply(event.version, tuple(rows)))

    def _describe(self, event: Received, request: DescribeGroups) -> None:
        rows = []
        for name in request.groups:
            error = self._why_not(name)
            group = self.groups.get(name)
            if error is not _NONE:
                self.note(RequestRefused(group=name, api="DescribeGroups", member_id="", error=error))
                rows.append(described_error(name, error))
            elif group is None:
                rows.append(described_error(name, _NONE, DEAD.value))
            else:
                rows.append(group.described())
        self.reply(event, DescribeGroupsReply(groups=tuple(rows)))

    def _list(self, event: Received, request: ListGroups) -> None:
        if not self._started:
            self._refuse(event, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if any(partition.state is PartitionState.LOADING for partition in self.partitions.values()):
            self._refuse(event, request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        wanted = [state.casefold() for state in request.states_filter]
        rows = [
            ListedGroup(group=group.name, protocol_type=group.protocol_type or "", state=group.state.value)
            for group in self.groups.values()
            if not wanted or group.state.value.casefold() in wanted
        ]
        self.reply(event, ListGroupsReply(error=_NONE, groups=tuple(rows)))

    # --- who answers for a group -------------------------------------------------------------------------------

    def _why_not(self, group: GroupId, *, needs_name: bool = False) -> ErrorCode:
        """NONE when this broker answers for the group now, whether it exists or not."""
        if needs_name and not group:
            return ErrorCode.INVALID_GROUP_ID
        if group in self.groups:
            return _NONE
        if not self._started:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partitions.get(self._number_of(group))
        if partition is None or partition.state in (PartitionState.RESIGNED, PartitionState.FAILED):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition.state is PartitionState.LOADING else _NONE

    def _reaches(self, event: Received, request: Any, group: GroupId, *, needs_name: bool = False) -> bool:
        """Whether this broker answers for the group now; if not, the request is refused."""
        error = self._why_not(group, needs_name=needs_name)
        if error is not _NONE:
            self._refuse(event, request, error)
        return error is _NONE

    def _number_of(self, group: GroupId) -> int:
        number = self._partition_numbers.get(group)
        if number is None:
            number = offsets_partition_of(group, self.config.offsets_topic_num_partitions)
            self._partition_numbers[group] = number
        return number

    def _partition_of(self, group: GroupId) -> OffsetsPartition:
        return self.partitions[self._number_of(group)]

    def _refuse(self, event: Received, request: Any, error: ErrorCode) -> None:
        self.refuse(
            event,
            refusal(request, error, event.version),
            group=getattr(request, "group", ""),
            api=type(request).__name__,
            member_id=getattr(request, "member_id", ""),
            error=error,
        )

    def open_group(self, name: GroupId, partition: OffsetsPartition) -> Group:
        """A new, empty group."""
        return self._keep(Group(self, partition, name))

    def bring_back(self, group: Group) -> None:
        """A group whose deletion could not be written is as it was."""
        self._keep(group.revived())

    def _keep(self, group: Group) -> Group:
        self.groups[group.name] = group
        group.partition.groups[group.name] = group
        return group

    # --- partitions --------------------------------------------------------------------------------------------

    def _lead(self, command: LeadOffsets) -> None:
        partition = self.partitions.setdefault(command.partition, OffsetsPartition(command.partition))
        if command.leader_epoch <= partition.epoch:
            return  # old news
        partition.epoch = command.leader_epoch
        if partition.state is PartitionState.ACTIVE:
            return  # we lead on, and know all of it
        partition.records = command.records
        if partition.state is PartitionState.LOADING:
            return
        partition.state = PartitionState.LOADING
        if command.load_us > 0:
            self.start_timer(_load_key(partition), command.load_us)
        else:
            self._load(partition)

    def _load(self, partition: OffsetsPartition) -> None:
        assert partition.state is PartitionState.LOADING
        records, partition.records = partition.records, ()
        try:
            found = replay(records)
        except CodecError as error:
            partition.state = PartitionState.FAILED
            self.note(OffsetsLoadFailed(partition=partition.number, why=str(error)))
            return
        partition.state = PartitionState.ACTIVE
        for name in found.groups():
            self._keep(Group.from_log(self, partition, name, found.metadata.get(name), found.offsets_of(name)))
        for group in tuple(partition.groups.values()):
            group.loaded()

    def _resign(self, command: ResignOffsets) -> None:
        partition = self.partitions.setdefault(command.partition, OffsetsPartition(command.partition))
        if command.leader_epoch > partition.epoch:
            partition.epoch = command.leader_epoch
            self._unload(partition)

    def _unload(self, partition: OffsetsPartition) -> None:
        if partition.state is PartitionState.LOADING:
            self.stop_timer(_load_key(partition))
        partition.state = PartitionState.RESIGNED
        partition.records = ()
        waiting = [(token, write) for token, (where, write) in self._writes.items() if where is partition]
        for token, write in waiting:
            del self._writes[token]
            self._abandon(partition, write)
        for group in partition.groups.values():
            group.unload()
            del self.groups[group.name]
        partition.groups.clear()

    def _close(self) -> None:
        for partition in self.partitions.values():
            self._unload(partition)
        self._started = False
        self.stop_timer(_EXPIRE)

    def _start_expiry(self) -> None:
        self.start_timer(_EXPIRE, self.config.offsets_retention_check_interval_ms * US_PER_MS)

    # --- appends -----------------------------------------------------------------------------------------------

    def _appended(self, token: int, error: ErrorCode, base_offset: int) -> None:
        assert 0 < token <= self._last_token, f"{self.name}: append {token} was never asked for"
        entry = self._writes.pop(token, None)
        if entry is None:
            return  # the partition was resigned meanwhile; whoever waited was told
        _, write = entry
        match write:
            case SyncWrite():
                write.group.sync_written(write, error)
            case ReplaceWrite():
                write.group.replace_written(write, error)
            case NewGroupWrite():
                write.group.new_group_written(write.caller, error)
            case EmptyWrite():
                write.group.empty_written(write.leave, error)
            case CommitWrite():
                self._offsets.commit_written(write, error, base_offset)
            case RemoveOffsetsWrite():
                self._offsets.offsets_removed(write, error, base_offset)
            case DeleteGroupsWrite():
                self._offsets.groups_deleted(write, error)

    def _abandon(self, partition: OffsetsPartition, write: Write) -> None:
        """The partition moved while an append was under way; the group itself answers its parked requests."""
        error = ErrorCode.NOT_COORDINATOR
        match write:
            case EmptyWrite():
                write.group.empty_written(write.leave, error)
            case CommitWrite():
                self._offsets.commit_written(write, error, -1)
            case RemoveOffsetsWrite():
                self._offsets.removal_failed(write, error)
            case DeleteGroupsWrite():
                self._offsets.deletion_settled(write, error)


def _load_key(partition: OffsetsPartition) -> TimerKey:
    return ("load", str(partition.number))
