"""A tool at work: asks coordinators about groups and offsets, and the controller about topics, leaders and settings.

Each command is a task of its own, a sequence of requests. A request goes to whom it concerns (a group's coordinator,
the controller, a partition's leader, any broker), who is looked up each time; it is asked again after a backoff when
that one is not (or not yet) the right one or the connection breaks, until the task's API timeout. The outcome is a
note: ``GroupDescribed`` or ``AdminAnswered``. A request in doubt (its answer was lost) is sent again, as Kafka's admin
client does, so that a delete that worked may be reported as GROUP_ID_NOT_FOUND.

Source: Kafka's ``KafkaAdminClient``; for ``ResetOffsets`` its tool ``ConsumerGroupCommand``.
"""

from collections.abc import Generator, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from kemu.actors.client import DEADLINE, Backoff, Client
from kemu.actors.machine import US_PER_MS, Chance, Event, LinkDown, Machine, Received, TimerFired, Told
from kemu.protocol.commands import (
    AddPartitions,
    AlterConfigs,
    Close,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    ElectLeadersOf,
    ListAllGroups,
    MakeTopic,
    RemoveMember,
    RemoveTopic,
    ResetOffsets,
    Start,
)
from kemu.protocol.dynamic_configs import ConfigResource
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    PREFERRED_ELECTION,
    UNCLEAN_ELECTION,
    ConfigChange,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    ElectLeaders,
    ElectLeadersReply,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    MorePartitions,
    NewTopic,
    TopicConfigEntry,
)
from kemu.protocol.messages.data import ListOffsets, ListOffsetsReply, Metadata, MetadataReply, OffsetQuestion
from kemu.protocol.messages.group import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribeGroups,
    DescribeGroupsReply,
    FindCoordinator,
    FindCoordinatorReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    ListGroups,
    ListGroupsReply,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetToCommit,
    TopicPartitions,
)
from kemu.protocol.messages.versions import LATEST, ApiVersions
from kemu.protocol.names import ActorName, controller_on, coordinator_on
from kemu.protocol.notes.groups import AdminAnswered, GroupDescribed
from kemu.protocol.wire.schema import SPECS

Command: TypeAlias = (
    RemoveMember
    | DeleteGroup
    | DescribeGroup
    | ListAllGroups
    | DeleteOffsets
    | ResetOffsets
    | MakeTopic
    | AddPartitions
    | RemoveTopic
    | ElectLeadersOf
    | AlterConfigs
)

RETRY_BACKOFF_US = 100_000
RETRY_BACKOFF_MAX_US = 1_000_000
RECONNECT_BACKOFF_US = 50_000
RECONNECT_BACKOFF_MAX_US = 1_000_000
REQUEST_TIMEOUT_US = 30_000_000
API_TIMEOUT_US = 60_000_000
"""Source of all six: Kafka 3.9's AdminClientConfig (``default.api.timeout.ms`` and the like)."""

CONTROLLER_TIMEOUT_MS = REQUEST_TIMEOUT_US // US_PER_MS
"""How long a controller may wait for a request's effect: as long as we wait for its answer (KIP-533)."""

EARLIEST, LATEST_OFFSET = -2, -1
"""Timestamps of ListOffsets that mean the start and the end of a partition."""

ASK_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
"""Answers after which the one to ask is looked up once more."""

API_OF: Mapping[type, str] = {
    RemoveMember: "LeaveGroup",
    DeleteGroup: "DeleteGroups",
    DescribeGroup: "DescribeGroups",
    ListAllGroups: "ListGroups",
    DeleteOffsets: "OffsetDelete",
    ResetOffsets: "OffsetCommit",
    MakeTopic: "CreateTopics",
    AddPartitions: "CreatePartitions",
    RemoveTopic: "DeleteTopics",
    ElectLeadersOf: "ElectLeaders",
    AlterConfigs: "IncrementalAlterConfigs",
}
"""What a command's outcome is reported as."""


class Timer(StrEnum):
    """Timers of the admin; each is followed by the task's number."""

    TASK = "task"
    """The task takes too long: it is given up."""
    RETRY = "retry"
    """The backoff is over: the task's request is sent again."""


class Who(StrEnum):
    """Whom a request concerns."""

    COORDINATOR = "coordinator"
    CONTROLLER = "controller"
    ANY = "any"
    ANY_PART = "any controller part"
    """Of any broker, whether it controls or not: Kafka 2.8 forwards no such request."""
    NAMED = "named"


class Ask(NamedTuple):
    """A request, and who is to answer it; ``name``: the coordinator's group, or the actor itself."""

    who: Who
    request: object
    name: str = ""


class Refused(Exception):
    """A task ends with an error."""

    def __init__(self, error: ErrorCode, text: str = "") -> None:
        super().__init__(error.name)
        self.error = error
        self.text = text


Steps: TypeAlias = Generator[Ask, Any, str]
"""Asks one thing after the other; its result is what is reported in words."""


class _Task:
    """A command under way: the steps that are left, and the request that is not answered yet."""

    __slots__ = ("ask", "attempts", "command", "number", "steps")

    def __init__(self, number: int, command: Command, steps: Steps) -> None:
        self.number = number
        self.command = command
        self.steps = steps
        self.ask = next(steps)
        self.attempts = 0


class Admin(Machine):
    """``bootstrap``: the brokers to ask who is responsible, in turn."""

    def __init__(
        self, name: ActorName, bootstrap: tuple[ActorName, ...], *, chance: Chance, versions: ApiVersions = LATEST
    ) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        self._bootstrap = bootstrap
        self._versions = versions
        self._chance = chance
        self._retry = Backoff(RETRY_BACKOFF_US, RETRY_BACKOFF_MAX_US)
        self._client = Client(
            self,
            request_timeout_us=REQUEST_TIMEOUT_US,
            reconnect=Backoff(RECONNECT_BACKOFF_US, RECONNECT_BACKOFF_MAX_US),
            chance=chance,
        )
        self._next_broker = 0
        self._tasks: dict[int, _Task] = {}
        self._last_number = 0

    def handle(self, event: Event) -> None:
        """Commands, answers, time."""
        match event:
            case Received():
                self._client.reply_arrived(event)
            case TimerFired(key=key) if key == DEADLINE:
                self._client.deadline_passed()
            case TimerFired(key=(Timer.RETRY, number)):
                self._send(self._tasks[int(number)])
            case TimerFired(key=(Timer.TASK, number)):
                self._end(self._tasks[int(number)], ErrorCode.REQUEST_TIMED_OUT)
            case LinkDown(peer=peer):
                self._client.connection_broke(peer, "disconnected")
            case Told(command=Start()):
                pass
            case Told(command=Close()):
                self._close()
            case Told(command=command) if type(command) in API_OF:
                self._begin(command)
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _begin(self, command: Command) -> None:
        self._last_number = number = self._last_number + 1
        task = self._tasks[number] = _Task(number, command, self._steps(command))
        self.start_timer((Timer.TASK, str(number)), API_TIMEOUT_US)
        self._send(task)

    def _close(self) -> None:
        """Tasks that are under way end without a result."""
        for task in list(self._tasks.values()):
            self._forget(task)
        self._client.close()
        self.stop_timer(DEADLINE)
        self.finished = True

    # --- asking ------------------------------------------------------------------------------------------------

    def _send(self, task: _Task) -> None:
        """Send a task's request, or first ask who is to answer it."""
        task.attempts += 1
        match task.ask.who:
            case Who.COORDINATOR:
                self._call(task, self._any(), FindCoordinator(key=task.ask.name), self._coordinator_found)
            case Who.CONTROLLER:
                self._call(task, self._any(), Metadata(topics=()), self._controller_found)
            case Who.ANY:
                self._call(task, self._any(), task.ask.request, self._answered)
            case Who.ANY_PART:
                self._call(task, controller_on(self._any()), task.ask.request, self._answered)
            case Who.NAMED:
                self._call(task, task.ask.name, task.ask.request, self._answered)

    def _any(self) -> ActorName:
        """The broker that answered last; after an error the next in turn, without those that broke a moment ago."""
        first = self._next_broker % len(self._bootstrap)
        brokers = (*self._bootstrap[first:], *self._bootstrap[:first])
        chosen = next((each for each in brokers if self._client.available_at(each) <= self.now_us), brokers[0])
        self._next_broker = self._bootstrap.index(chosen)
        return chosen

    def _call(self, task: _Task, to: ActorName, message: object, answered: Any) -> None:
        spec = SPECS[type(message)]
        version = self._versions.requests.get(spec.name, spec.versions[-1])
        self._client.call(to, message, version, answered, self._failed, task)

    def _failed(self, why: str, task: _Task) -> None:
        self._again(task)

    def _again(self, task: _Task) -> None:
        """After the backoff, from finding whom to ask on."""
        if task.number in self._tasks:
            self._next_broker += 1
            wait_us = self._retry.after(task.attempts, self._chance)
            self.start_timer((Timer.RETRY, str(task.number)), wait_us)

    def _coordinator_found(self, reply: FindCoordinatorReply, task: _Task) -> None:
        if task.number not in self._tasks:
            return
        if reply.error is ErrorCode.NONE:
            self._call(task, reply.host, task.ask.request, self._answered)
        elif reply.error in ASK_AGAIN:
            self._again(task)
        else:
            self._end(task, reply.error)

    def _controller_found(self, reply: MetadataReply, task: _Task) -> None:
        if task.number not in self._tasks:
            return
        hosts = [broker.host for broker in reply.brokers if broker.node_id == reply.controller_id]
        if hosts:
            self._call(task, controller_on(hosts[0]), task.ask.request, self._answered)
        else:
            self._again(task)

    # --- answers -----------------------------------------------------------------------------------------------

    def _answered(self, reply: Any, task: _Task) -> None:
        if task.number not in self._tasks:
            return  # given up
        if any(error in ASK_AGAIN for error in errors_of(reply)):
            self._again(task)
            return
        try:
            task.ask = task.steps.send(reply)
        except StopIteration as done:
            self._end(task, ErrorCode.NONE, str(done.value))
        except Refused as refused:
            self._end(task, refused.error, refused.text)
        else:
            task.attempts = 0
            self._send(task)

    def _end(self, task: _Task, error: ErrorCode, text: str = "") -> None:
        command = task.command
        if isinstance(command, DescribeGroup):
            if error is not ErrorCode.NONE:
                self.note(GroupDescribed(group=command.group, state="", members=(), error=error))
        else:
            api = API_OF[type(command)]
            self.note(AdminAnswered(group=getattr(command, "group", ""), api=api, error=error, text=text))
        self._forget(task)

    def _forget(self, task: _Task) -> None:
        del self._tasks[task.number]
        for timer in Timer:
            self.stop_timer((timer, str(task.number)))

    # --- what each command takes -------------------------------------------------------------------------------

    def _steps(self, command: Command) -> Steps:
        match command:
            case DescribeGroup(group=group):
                return self._describe(group)
            case DeleteGroup(group=group):
                return self._delete_group(group)
            case RemoveMember(group=group, instance_id=instance_id):
                return self._remove(group, instance_id)
            case ListAllGroups():
                return self._list()
            case DeleteOffsets():
                return self._delete_offsets(command)
            case ResetOffsets():
                return self._reset_offsets(command)
            case MakeTopic():
                return self._create(command)
            case AddPartitions():
                return self._grow(command)
            case RemoveTopic(topic=topic):
                return self._delete_topic(topic)
            case ElectLeadersOf():
                return self._elect(command)
            case AlterConfigs():
                return self._alter(command)

    def _describe(self, group: str) -> Steps:
        reply: DescribeGroupsReply = yield Ask(Who.COORDINATOR, DescribeGroups(groups=(group,)), group)
        (row,) = reply.groups
        _expect(row.error)
        members = tuple(member.member_id for member in row.members)
        self.note(GroupDescribed(group=group, state=row.state, members=members, error=row.error))
        return ""

    def _delete_group(self, group: str) -> Steps:
        reply: DeleteGroupsReply = yield Ask(Who.COORDINATOR, DeleteGroups(groups=(group,)), group)
        _expect(reply.outcomes[0].error)
        return ""

    def _remove(self, group: str, instance_id: str) -> Steps:
        """One static member, or every member there is (as an admin client does when it names none)."""
        leaving: tuple[LeavingMember, ...] = (LeavingMember(instance_id=instance_id, reason="removed by an admin"),)
        if not instance_id:
            described: DescribeGroupsReply = yield Ask(Who.COORDINATOR, DescribeGroups(groups=(group,)), group)
            _expect(described.groups[0].error)
            leaving = tuple(
                LeavingMember(member_id=each.member_id, reason="removed by an admin")
                for each in described.groups[0].members
            )
            if not leaving:
                return "no member"
        reply: LeaveGroupReply = yield Ask(Who.COORDINATOR, LeaveGroup(group=group, members=leaving), group)
        _expect(reply.error)
        for row in reply.members:
            _expect(row.error)
        return "1 member" if len(leaving) == 1 else f"{len(leaving)} members"

    def _list(self) -> Steps:
        """Every broker is asked which groups it coordinates."""
        found: list[tuple[str, str]] = []
        for broker in self._bootstrap:
            reply: ListGroupsReply = yield Ask(Who.NAMED, ListGroups(), coordinator_on(broker))
            _expect(reply.error)
            found += [(row.group, row.state) for row in reply.groups]
        return ", ".join(f"{group} ({state})" for group, state in sorted(found)) or "none"

    def _delete_offsets(self, command: DeleteOffsets) -> Steps:
        metadata: MetadataReply = yield Ask(Who.ANY, Metadata(topics=(command.topic,)))
        numbers = tuple(sorted(_leaders(metadata, command.topic)))
        request = OffsetDelete(group=command.group, topics=(TopicPartitions(topic=command.topic, partitions=numbers),))
        reply: OffsetDeleteReply = yield Ask(Who.COORDINATOR, request, command.group)
        _expect(reply.error)
        for row in reply.outcomes:
            _expect(row.error)
        return f"{command.topic}: {len(numbers)} partitions"

    def _reset_offsets(self, command: ResetOffsets) -> Steps:
        """Only of a group without members; what is asked for is brought within the log's ends."""
        group, topic = command.group, command.topic
        described: DescribeGroupsReply = yield Ask(Who.COORDINATOR, DescribeGroups(groups=(group,)), group)
        _expect(described.groups[0].error)
        state = described.groups[0].state
        if state not in ("Empty", "Dead"):
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"the group is {state}; its members must stop first")
        metadata: MetadataReply = yield Ask(Who.ANY, Metadata(topics=(topic,)))
        leaders = _leaders(metadata, topic)
        starts = yield from self._ends(topic, leaders, EARLIEST)
        ends = yield from self._ends(topic, leaders, LATEST_OFFSET)
        now: dict[int, int] = {}
        if command.to == "shift":
            wanted = (TopicPartitions(topic=topic, partitions=tuple(sorted(leaders))),)
            fetched: OffsetFetchReply = yield Ask(Who.COORDINATOR, OffsetFetch(group=group, topics=wanted), group)
            _expect(fetched.error)
            now = {row.partition: row.offset for row in fetched.offsets if row.offset >= 0}
        chosen = {
            number: min(max(_target(command, now.get(number, 0), starts[number], ends[number]), starts[number]), end)
            for number, end in sorted(ends.items())
            if command.to != "shift" or number in now
        }
        if not chosen:
            raise Refused(ErrorCode.INVALID_REQUEST, f"the group has no offsets of {topic} to shift")
        offsets = tuple(
            OffsetToCommit(topic=topic, partition=number, offset=offset, metadata="")
            for number, offset in chosen.items()
        )
        reply: OffsetCommitReply = yield Ask(Who.COORDINATOR, OffsetCommit(group=group, offsets=offsets), group)
        for row in reply.outcomes:
            _expect(row.error)
        return ", ".join(f"{topic}-{number} to {offset}" for number, offset in chosen.items())

    def _ends(self, topic: str, leaders: Mapping[int, ActorName], timestamp_ms: int) -> "Generator[Ask, Any, Offsets]":
        found: Offsets = {}
        for leader in dict.fromkeys(leaders.values()):
            questions = tuple(
                OffsetQuestion(topic=topic, partition=number, timestamp_ms=timestamp_ms)
                for number, host in sorted(leaders.items())
                if host == leader
            )
            reply: ListOffsetsReply = yield Ask(Who.NAMED, ListOffsets(questions=questions), leader)
            for row in reply.answers:
                _expect(row.error)
                found[row.partition] = row.offset
        return found

    def _create(self, command: MakeTopic) -> Steps:
        topic = NewTopic(
            name=command.topic,
            num_partitions=command.partitions,
            replication_factor=command.replication_factor,
            configs=tuple(TopicConfigEntry(name=name, value=value) for name, value in command.configs),
        )
        request = CreateTopics(topics=(topic,), timeout_ms=CONTROLLER_TIMEOUT_MS)
        reply: CreateTopicsReply = yield Ask(Who.CONTROLLER, request)
        _expect(reply.topics[0].error_code, reply.topics[0].error_message or "")
        return f"{command.topic}: {_counted(command.partitions)}"

    def _grow(self, command: AddPartitions) -> Steps:
        topics = (MorePartitions(name=command.topic, count=command.partitions),)
        request = CreatePartitions(topics=topics, timeout_ms=CONTROLLER_TIMEOUT_MS)
        reply: CreatePartitionsReply = yield Ask(Who.CONTROLLER, request)
        _expect(reply.topics[0].error_code, reply.topics[0].error_message or "")
        return f"{command.topic}: {_counted(command.partitions)}"

    def _delete_topic(self, topic: str) -> Steps:
        request = DeleteTopics(topic_names=(topic,), timeout_ms=CONTROLLER_TIMEOUT_MS)
        reply: DeleteTopicsReply = yield Ask(Who.CONTROLLER, request)
        _expect(reply.topics[0].error_code, reply.topics[0].error_message or "")
        return topic

    def _elect(self, command: ElectLeadersOf) -> Steps:
        """Of topics that are named, every partition is asked for; where none is, the controller looks at all."""
        asked: tuple[tuple[str, int], ...] | None = None
        if command.topics:
            metadata: MetadataReply = yield Ask(Who.ANY, Metadata(topics=command.topics))
            asked = tuple((topic, n) for topic in command.topics for n in sorted(_partitions(metadata, topic)))
        request = ElectLeaders(
            election_type=UNCLEAN_ELECTION if command.unclean else PREFERRED_ELECTION,
            topic_partitions=asked,
            timeout_ms=CONTROLLER_TIMEOUT_MS,
        )
        reply: ElectLeadersReply = yield Ask(Who.CONTROLLER, request)
        _expect(reply.error_code)
        rows = reply.replica_election_results
        for row in rows:
            if row.error_code is not ErrorCode.ELECTION_NOT_NEEDED:
                _expect(row.error_code, f"{row.topic_name}-{row.partition_index}")
        elected = sum(row.error_code is ErrorCode.NONE for row in rows)
        return f"{', '.join(command.topics) or 'all topics'}: {elected} of {len(rows)} elected"

    def _alter(self, command: AlterConfigs) -> Steps:
        kind = ConfigResource.TOPIC if command.topic else ConfigResource.BROKER
        change = ConfigChange(
            resource_type=kind, resource_name=command.topic, name=command.key, value=command.value or None
        )
        reply: IncrementalAlterConfigsReply = yield Ask(Who.ANY_PART, IncrementalAlterConfigs(changes=(change,)))
        for row in reply.responses:
            _expect(row.error_code, row.error_message or "")
        said = f"{command.key}={command.value}" if command.value else f"without {command.key}"
        return f"{command.topic or 'all brokers'}: {said}"


Offsets: TypeAlias = dict[int, int]
"""Partition -> offset."""


def _expect(error: ErrorCode, text: str = "") -> None:
    if error is not ErrorCode.NONE:
        raise Refused(error, text)


def _counted(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def _target(command: ResetOffsets, now: int, start: int, end: int) -> int:
    return {"earliest": start, "latest": end, "offset": command.offset, "shift": now + command.offset}[command.to]


def _partitions(reply: MetadataReply, topic: str) -> list[int]:
    for row in reply.topics:
        if row.topic == topic:
            _expect(row.error)
            return [partition.partition for partition in row.partitions]
    raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _leaders(reply: MetadataReply, topic: str) -> dict[int, ActorName]:
    """Partition -> the broker that leads it."""
    hosts = {broker.node_id: broker.host for broker in reply.brokers}
    for row in reply.topics:
        if row.topic == topic:
            _expect(row.error)
            without = [each.partition for each in row.partitions if each.leader not in hosts]
            if without:
                raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{without[0]}")
            return {each.partition: hosts[each.leader] for each in row.partitions}
    raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def errors_of(reply: object) -> Iterable[ErrorCode]:
    """All errors that an answer carries."""
    match reply:
        case LeaveGroupReply(error=error) | ListGroupsReply(error=error) | OffsetFetchReply(error=error):
            return (error,)
        case OffsetDeleteReply(error=error, outcomes=rows):
            return (error, *(row.error for row in rows))
        case DeleteGroupsReply(outcomes=groups):
            return [row.error for row in groups]
        case DescribeGroupsReply(groups=described):
            return [row.error for row in described]
        case OffsetCommitReply(outcomes=commits):
            return [row.error for row in commits]
        case ListOffsetsReply(answers=answers):
            return [row.error for row in answers]
        case MetadataReply(topics=topics):
            return [topic.error for topic in topics]
        case ElectLeadersReply(error_code=error, replica_election_results=elections):
            return (error, *(row.error_code for row in elections))
        case IncrementalAlterConfigsReply(responses=altered):
            return [row.error_code for row in altered]
        case CreateTopicsReply(topics=rows) | CreatePartitionsReply(topics=rows) | DeleteTopicsReply(topics=rows):
            return [row.error_code for row in rows]
        case _:
            raise AssertionError(f"nothing answers with {reply}")
