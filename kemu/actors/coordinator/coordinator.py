"""The group coordinator of one broker: its reaction to each request and each timer.

The coordinator builds the state of a group by a replay of the group's partition, when the leadership of the partition
begins. State outside the log does not survive a change of leader: parked requests, pending member ids, a generation
without an assignment.

Source: Kafka's GroupCoordinatorService and CoordinatorRuntime; GroupCoordinator.scala has the checks before a group
gets a request. ``config.coordinator_kind`` selects one of the two coordinators (``actors.coordinator.rules``).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from kemu.actors.connections import Connections
from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.groups import AnyGroup, Groups
from kemu.actors.coordinator.log import GroupLog, OffsetsPartition, OwnDisk, Writes
from kemu.actors.coordinator.members import NoCommonProtocol
from kemu.actors.coordinator.offset_requests import OffsetRequests
from kemu.actors.coordinator.replies import leave_reply, leaving
from kemu.actors.coordinator.request_notes import request_answered, request_read
from kemu.actors.coordinator.rules import GroupRules, rules_of_kind
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.injection import Injections
from kemu.actors.machine import (
    US_PER_MS,
    Appended,
    Caller,
    Draws,
    Event,
    LinkDown,
    Loaded,
    Machine,
    Received,
    TimerFired,
    TimerKey,
    Told,
    caller_of,
)
from kemu.protocol.commands import (
    AnswerNext,
    Close,
    ConfigureGroup,
    KnowTopics,
    LeadOffsets,
    NameClient,
    ResignOffsets,
    Start,
)
from kemu.protocol.config import BrokerConfig
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.draws import CALM
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupDescribe, ConsumerGroupHeartbeat
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
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.offsets_log import KnownTopic
from kemu.protocol.messages.ranges import RangeCommit, RangeFetch
from kemu.protocol.messages.refusals import described_dead, described_error, join_error, refusal
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import CLASSIC, CONSUMER, UNKNOWN_MEMBER, ActorName, GroupId, MemberId, broker_host
from kemu.protocol.notes.groups import RequestRefused

if TYPE_CHECKING:
    from kemu.actors.coordinator.classic_member_requests import ClassicMemberRequests
    from kemu.actors.coordinator.consumer_requests import ConsumerGroupRequests

_NONE = ErrorCode.NONE
_SYNC_NAMES_PROTOCOL_SINCE = 5
_EXPIRE: TimerKey = (GroupTimer.EXPIRE,)
_ALIVE = HeartbeatReply(error=_NONE)


class Coordinator(Machine):
    """The group coordinator of one broker.

    The coordinator's commands are ``Start``, ``LeadOffsets``, ``ResignOffsets``, ``KnowTopics``, ``ConfigureGroup``,
    ``AnswerNext`` and ``Close``. Each
    ``LeadOffsets`` of a partition must have a higher leader epoch than the last ``LeadOffsets``. If a restart can keep
    the epoch, each process needs another ``life`` number: the epoch and the ``life`` number make member ids unique.

    Args:
        log_of: makes the port to the logs of groups.
        rules: the coordinator's rules; None: the rules of its kind.
        versions: the versions that the broker supports.
        draws: give the random part of member ids, and delays of timers.
    """

    def __init__(
        self,
        name: ActorName,
        node_id: int,
        config: BrokerConfig,
        log_of: Callable[[Machine], GroupLog] = OwnDisk,
        rules: GroupRules | None = None,
        versions: SpokenVersions = LATEST,
        life: int = 1,
        draws: Draws = CALM,
    ) -> None:
        super().__init__(name)
        self._versions = versions
        self.draws = draws
        self._life = "" if life == 1 else f".{life}"
        self.node_id = node_id
        self.config = config
        self.rules = rules or rules_of_kind(config.coordinator_kind)
        self._log = log_of(self)
        linger_us = max(0, config.group_coordinator_append_linger_ms) * US_PER_MS
        self.writes = Writes(self, self._log, self.rules, most_bytes=config.message_max_bytes, linger_us=linger_us)
        self._table = Groups(self)
        self.groups: Mapping[GroupId, AnyGroup] = self._table.by_name
        """The groups of all active partitions."""
        self._offsets = OffsetRequests(self, self._table)
        self._injections = Injections(self)
        self._connections = Connections(self, self._receive)
        self._member_count = 0
        self.topic_names: dict[str, str] = {}
        self.existing_names: Mapping[str, str] = {}
        self.topics: Mapping[str, Topic] | None = None
        self.topics_version = 0
        self.member_timers: dict[TimerKey, int] = {}
        self._client_ids: dict[ActorName, str] = {}
        """Connection of a real client -> client id. The client id of another client is its actor's name."""
        self._requests: Mapping[type, Callable[[Received, Any], None]] = {
            Heartbeat: self._heartbeat,
            JoinGroup: self._join,
            SyncGroup: self._sync,
            LeaveGroup: self._leave,
            OffsetCommit: self._commit,
            OffsetFetch: self._fetch,
            OffsetDelete: self._delete_offsets,
            RangeCommit: self._commit_ranges,
            RangeFetch: self._fetch_ranges,
            DeleteGroups: self._offsets.delete_groups,
            DescribeGroups: self._describe,
            ListGroups: self._list,
            ConsumerGroupHeartbeat: lambda event, request: self._consumers.heartbeat(event, request),
            ConsumerGroupDescribe: lambda event, request: self._consumers.describe(event, request),
            ApiVersions: lambda event, _: self.reply(event, versions_reply(self._versions)),
        }
        self._timers: Mapping[str, Callable[..., None]] = {
            GroupTimer.SESSION: self._session_timer_fired,
            GroupTimer.JOIN: self._join_timer_fired,
            GroupTimer.SYNC: lambda group: self._classic(group).sync_timer_fired(),
            GroupTimer.REVOCATION: partial(self._member_timer_fired, GroupTimer.REVOCATION),
            GroupTimer.MEMBER_JOIN: partial(self._member_timer_fired, GroupTimer.MEMBER_JOIN),
            GroupTimer.MEMBER_SYNC: partial(self._member_timer_fired, GroupTimer.MEMBER_SYNC),
            GroupTimer.REGEX: lambda group: self._consumers.resolve_regexes(group),
            GroupTimer.LOAD: lambda number: self._table.load_timer_fired(int(number)),
            GroupTimer.WRITE: lambda number: self.writes.time_is_over(int(number)),
            GroupTimer.LINGER: lambda number: self.writes.flush(self._table.partitions[int(number)]),
            GroupTimer.EXPIRE: self._expire,
        }

    def handle(self, event: Event) -> None:
        """React to an event, then read the requests that this event's answers made readable."""
        if isinstance(event, Received):
            self._receive(event)
        else:
            with suppress(NoCommonProtocol):  # no request is answered; the changes so far remain
                self._happened(event)
        if self._connections.readable:
            self._connections.read_on()

    @cached_property
    def _consumers(self) -> "ConsumerGroupRequests":
        from kemu.actors.coordinator.consumer_requests import ConsumerGroupRequests  # late: many runs do not need it

        return ConsumerGroupRequests(self, self._table, lambda client: self._client_ids.get(client, client))

    @cached_property
    def _classic_members(self) -> "ClassicMemberRequests":
        from kemu.actors.coordinator.classic_member_requests import ClassicMemberRequests  # late: as above

        return ClassicMemberRequests(self, self._consumers)

    def _classic(self, name: GroupId) -> Group:
        group = self._table.classic(name)
        assert group is not None, f"{name} is no classic group"
        return group

    # The timers of a replaced static member run on, as in Kafka; the group may have ended or changed its protocol.

    def _session_timer_fired(self, name: GroupId, member_id: MemberId) -> None:
        group = self.groups.get(name)
        if group is not None:
            group.session_timer_fired(member_id)

    def _join_timer_fired(self, name: GroupId) -> None:
        group = self._table.classic(name)
        if group is not None:
            group.phase.timer_fired()

    def _member_timer_fired(self, timer: GroupTimer, name: GroupId, member_id: MemberId) -> None:
        epoch = self.member_timers.pop((timer, name, member_id))
        group = self._table.of_consumers(name)
        if group is not None:
            group.member_timer_fired(timer, member_id, epoch)

    def _happened(self, event: Event) -> None:
        match event:
            case TimerFired(key=(timer, *about)):
                self._timers[timer](*about)
            case Appended(token=token, error=error, base_offset=base_offset):
                self.writes.written(token, error, base_offset)
            case Told(command=LeadOffsets() as command):
                self._table.lead(command)
            case Told(command=ResignOffsets() as command):
                self._table.resign(command.partition, command.leader_epoch)
            case Told(command=AnswerNext() as command):
                self._injections.arm(command)
            case Told(command=KnowTopics(topics=topics)):
                rows = [KnownTopic(name=name, topic_id=topic_id, partitions=count) for name, topic_id, count in topics]
                self.know_topics(tuple(rows))
            case Told(command=ConfigureGroup(group=group, settings=settings)):
                self.know_group_settings(group, dict(settings))
            case Told(command=Start()):
                self._table.started = True
                self._start_expiry()
            case Told(command=Close()):
                self._table.close()
                self.stop_timer(_EXPIRE)
            case LinkDown(peer=peer):
                self._log.link_down(peer, self)  # a parked join survives its connection
                self._connections.link_down(peer)
                self._client_ids.pop(peer, None)
            case Told(command=NameClient(client=client, client_id=client_id)):
                self._client_ids[client] = client_id
            case Loaded():
                pass  # LeadOffsets contains the records
            case _:
                raise AssertionError(f"{self.name}: unexpected event {event!r}")

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request; afterwards the next request on the same connection is readable."""
        note = request_answered(caller, message)
        if note is not None:
            self.note(note)
        super().reply(caller, message)
        self._connections.answered(caller)

    # --- ``GroupMachine`` ----------------------------------------------------------------------------------------

    def has_left(self, caller: Caller | Received) -> bool:
        return self._connections.has_left(caller)

    @property
    def now_ms(self) -> int:
        return self.now_us // US_PER_MS

    def consumer_session_ms(self, group: GroupId) -> int:
        return self._consumers.config_of(group).session_timeout_ms

    def new_member_id(self, base: str, partition: OffsetsPartition, *, bare: bool = False) -> MemberId:
        self._member_count += 1
        readable = f"{broker_host(self.node_id)}.{partition.epoch}{self._life}-{self._member_count}"
        name = self._client_ids.get(base, base)
        return self.draws.identity(f"{name}-{readable}") if bare else f"{name}-{self.draws.identity(readable)}"

    def refuse(
        self, caller: Caller | Received, message: object, *, group: GroupId, api: str, member_id: str, error: ErrorCode
    ) -> None:
        self.note(RequestRefused(group=group, api=api, member_id=member_id, error=error))
        self.reply(caller, message)

    # --- ``LogListener`` ---------------------------------------------------------------------------------------------

    def written(self, token: int, error: ErrorCode, base_offset: int) -> None:
        self.writes.written(token, error, base_offset)

    def lead(self, command: LeadOffsets) -> None:
        self._table.lead(command)

    def leadership_ended(self, number: int, leader_epoch: int) -> None:
        self._table.leadership_ended(number, leader_epoch)

    def know_topics(self, topics: tuple[KnownTopic, ...]) -> None:
        self.existing_names = {each.topic_id: each.name for each in topics}
        self.topic_names.update(self.existing_names)
        before = self.topics or {}
        hashes = self.rules.consumer_groups.hashes_topics
        self.topics = {
            each.name: Topic(each.name, each.topic_id, each.partitions, each.racks if hashes else ()) for each in topics
        }
        self.topics_version += 1
        self._table.topics_changed(before, self.topics)
        self._offsets.topics_changed(before)

    def know_group_settings(self, group: GroupId, settings: Mapping[str, str]) -> None:
        self._consumers.know_settings(group, settings)

    def _expire(self) -> None:
        self._offsets.expire()
        self._start_expiry()

    def _start_expiry(self) -> None:
        self.start_timer(_EXPIRE, self.config.offsets_retention_check_interval_ms * US_PER_MS)

    # --- requests ----------------------------------------------------------------------------------------------

    def _receive(self, event: Received) -> None:
        request = event.message
        serve = self._requests.get(type(request))
        if serve is None:
            self._log.receive(event, self)
            return
        if self._connections.keeps(event):
            return
        self._connections.mute(event)
        injected = self._injections.take(type(request).__name__, event.peer)
        if injected is not None:
            self._refuse(event, request, injected)
            return
        note = request_read(event)
        if note is not None:
            self.note(note)
        try:
            serve(event, request)
        except NoCommonProtocol:
            self._failed(event, request)

    def _failed(self, event: Received, request: Any) -> None:
        """Answer a request after an exception in Kafka's code; the changes so far remain. The answer contains the
        error, but no member id.
        Source: ``JoinGroupRequest.getErrorResponse`` (3.9), ``GroupCoordinatorService.joinGroup`` (4.0).
        """
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(request, JoinGroup):
            self._refuse(event, request, error)
            return
        self._classic(request.group).joining.failed(caller_of(event))
        answer, name = join_error(event.version, error, UNKNOWN_MEMBER), request.group
        self.refuse(event, answer, group=name, api="JoinGroup", member_id=request.member_id, error=error)

    def _heartbeat(self, event: Received, request: Heartbeat) -> None:
        group = self.groups.get(request.group) if request.group else None
        if isinstance(group, Group):
            group.heartbeat(event, request)
            return
        if group is not None:
            self._classic_members.heartbeat(event, request, group)
            return
        error = self._table.why_not(request.group, needs_name=True)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.reply(event, _ALIVE)  # the load restarts all sessions
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
        if group is not None and not isinstance(group, Group) and not group.is_empty:
            self._classic_members.join(event, request, group)
            return
        if not isinstance(group, Group):
            if request.member_id != UNKNOWN_MEMBER:
                if group is not None:
                    self._table.lose(group)
                self._refuse(event, request, ErrorCode.UNKNOWN_MEMBER_ID)
                return
            former, tombstones = group, () if group is None else group.ended_for_classic()
            group = self._table.open(request.group, former)
            undo = None if former is None else partial(self._table.give_back, group, former)
            if self.rules.new_group_record:
                group.joining.write_new_group(event, tombstones, undo)
        group.joining.serve(event, request)

    def _sync(self, event: Received, request: SyncGroup) -> None:
        unnamed = request.protocol_type is None or request.protocol_name is None
        if event.version >= _SYNC_NAMES_PROTOCOL_SINCE and unnamed:
            self._refuse(event, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        group = self.groups.get(request.group) if request.group else None
        if isinstance(group, Group):
            group.sync(event, request)
            return
        if group is not None:
            self._classic_members.sync(event, request, group)
            return
        error = self._table.why_not(request.group, needs_name=True)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = self.rules.sync_while_loading
        self._refuse(event, request, ErrorCode.UNKNOWN_MEMBER_ID if error is _NONE else error)

    def _leave(self, event: Received, request: LeaveGroup) -> None:
        if not self._reaches(event, request, request.group, needs_name=True):
            return
        group = self.groups.get(request.group)
        if isinstance(group, Group):
            group.leave(event, request)
            return
        if group is not None:
            self._classic_members.leave(event, request, group)
            return
        error = ErrorCode.UNKNOWN_MEMBER_ID
        rows = []
        for entry in leaving(event.version, request):
            rows.append(LeftMember(member_id=entry.member_id, instance_id=entry.instance_id, error=error))
            self.note(RequestRefused(group=request.group, api="LeaveGroup", member_id=entry.member_id, error=error))
        self.reply(event, leave_reply(event.version, tuple(rows)))

    def _commit(self, event: Received, request: OffsetCommit) -> None:
        request, refused = self._offsets.known(event, request)
        error = _NONE
        if len(refused) < len(request.offsets) and request.group not in self.groups:
            error = self._table.why_not(request.group)
        if error is not _NONE or len(refused) == len(request.offsets):
            self._offsets.answer_commit(event, request, refused, error)
        else:
            self._offsets.commit(event, request, refused)

    def _fetch(self, event: Received, request: OffsetFetch) -> None:
        if self._reaches(event, request, request.group):
            self._offsets.fetch(event, request)

    def _commit_ranges(self, event: Received, request: RangeCommit) -> None:
        if self._reaches(event, request, request.group):
            self._offsets.ranges.commit(event, request)

    def _fetch_ranges(self, event: Received, request: RangeFetch) -> None:
        if self._reaches(event, request, request.group):
            self._offsets.ranges.fetch(event, request)

    def _delete_offsets(self, event: Received, request: OffsetDelete) -> None:
        if self._reaches(event, request, request.group, needs_name=True):
            self._offsets.delete_offsets(event, request)

    def _describe(self, event: Received, request: DescribeGroups) -> None:
        rows = []
        for name in request.groups:
            error = self._table.why_not(name)
            group = self._table.seen(name)
            if error is not _NONE:
                self.note(RequestRefused(group=name, api="DescribeGroups", member_id="", error=error))
                rows.append(described_error(name, error))
            elif group is None:
                rows.append(described_dead(name, event.version, "not found"))
            else:
                rows.append(group.described(event.version))
        self.reply(event, DescribeGroupsReply(groups=tuple(rows)))

    def _list(self, event: Received, request: ListGroups) -> None:
        error = self._table.why_no_list()
        loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if error is not _NONE and not (loading and self.rules.lists_while_loading):
            self._refuse(event, request, error)
            return
        states, types = ([each.casefold() for each in names] for names in (request.states_filter, request.types_filter))
        rows = [
            ListedGroup(
                group=group.name,
                protocol_type=group.protocol_type,
                state=group.seen_state,
                group_type=CLASSIC if isinstance(group, Group) else CONSUMER,
            )
            for group in self._table.all_seen()
        ]
        wanted = [
            row
            for row in rows
            if (not states or row.state.casefold() in states) and (not types or row.group_type in types)
        ]
        reply = ListGroupsReply(error=error, groups=tuple(wanted))
        if loading:
            self.refuse(event, reply, group="", api="ListGroups", member_id="", error=error)
        else:
            self.reply(event, reply)

    def _reaches(self, event: Received, request: Any, group: GroupId, *, needs_name: bool = False) -> bool:
        """Whether this broker coordinates the group now. If not, the method refuses the request."""
        if group in self.groups and (group or not needs_name):
            return True
        error = self._table.why_not(group, needs_name=needs_name)
        if error is not _NONE:
            self._refuse(event, request, error)
        return error is _NONE

    def _refuse(self, event: Received, request: Any, error: ErrorCode) -> None:
        self.refuse(
            event,
            refusal(request, error, event.version),
            group=getattr(request, "group", ""),
            api=type(request).__name__,
            member_id=getattr(request, "member_id", None) or "",
            error=error,
        )
