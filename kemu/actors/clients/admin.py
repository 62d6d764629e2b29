"""An admin client: requests to coordinators about groups and offsets, and to the controller about topics, leaders and
settings.

Each command is a task: a sequence of requests. Before each request its target is looked up: a group's coordinator, the
controller, a partition's leader, or any broker. After a wrong target or a broken connection the request is retried with
a backoff, until the task's API timeout. The outcome is a note: ``GroupDescribed`` or ``AdminAnswered``.

As in Kafka's admin client, a request whose answer was lost is sent again. So the second answer to a successful delete
may be GROUP_ID_NOT_FOUND.

Source: Kafka's ``KafkaAdminClient``; the source of ``ResetOffsets`` is Kafka's tool ``ConsumerGroupCommand``.
"""

from collections.abc import Generator, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from kemu.actors.client import DEADLINE, DISCONNECTED, NO_VERSION, Backoff, Client
from kemu.actors.clients.admin_asks import Ask, Steps, Target, TaskRefused, counted, errors_of, expect, partitions_of
from kemu.actors.clients.admin_reassignments import list_reassignments, reassign
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.discovery import CoordinatorLookups
from kemu.actors.clients.metadata import METADATA, MetadataRefresh
from kemu.actors.machine import US_PER_MS, Chance, Event, LinkDown, Machine, Received, TimerFired, Told
from kemu.protocol.commands import (
    AddPartitions,
    AlterConfigs,
    Close,
    DeleteGroup,
    DeleteOffsets,
    DeleteRecordsOf,
    DescribeGroup,
    ElectLeadersOf,
    ListAllGroups,
    ListReassignments,
    MakeTopic,
    ReassignPartitions,
    RemoveMember,
    RemoveTopic,
    ResetOffsets,
    Start,
)
from kemu.protocol.dynamic_configs import ConfigResource
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    DescribedConsumerGroup,
    NamedTopicNumbers,
)
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
from kemu.protocol.messages.data import (
    DeleteRecords,
    DeleteRecordsReply,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    OffsetQuestion,
    RecordsToDelete,
)
from kemu.protocol.messages.group import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
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
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import ActorName, broker_host, controller_on, coordinator_on
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
    | ReassignPartitions
    | ListReassignments
    | DeleteRecordsOf
)

RETRY_BACKOFF_US = 100_000
RETRY_BACKOFF_MAX_US = 1_000_000
RECONNECT_BACKOFF_US = 50_000
RECONNECT_BACKOFF_MAX_US = 1_000_000
REQUEST_TIMEOUT_US = 30_000_000
API_TIMEOUT_US = 60_000_000
METADATA_MAX_AGE_US = 300_000_000
"""The source of all these constants: Kafka 3.9's AdminClientConfig (``default.api.timeout.ms`` and similar keys)."""

CONTROLLER_TIMEOUT_MS = REQUEST_TIMEOUT_US // US_PER_MS
"""The time that a controller may wait for a request's effect: the timeout of the client's request (KIP-533)."""

EARLIEST, LATEST_OFFSET = -2, -1
"""The timestamps of ListOffsets that mean the start and the end of a partition."""

STALE_TARGET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
"""Errors after which the client looks up the request's target again."""

_VERSIONS: Mapping[str, int] = {"DescribeGroups": 5}
"""Versions that are older than the newest: a missing group is Dead, without an error, in all releases."""
ASK_LEADERS = (ResetOffsets, DeleteRecordsOf)
"""Commands with requests to partition leaders, which metadata names."""

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
    ReassignPartitions: "AlterPartitionReassignments",
    ListReassignments: "ListPartitionReassignments",
    DeleteRecordsOf: "DeleteRecords",
}
"""Command -> name of the API in the command's report."""


class AdminTimer(StrEnum):
    """The timers of the admin client; the task's number is the next element of the key."""

    TASK = "task"
    """The task's API timeout has passed."""
    RETRY = "retry"
    """The backoff of the task's request has passed."""


class _Task:
    """A command in progress: its remaining steps, and the request without an answer."""

    __slots__ = ("ask", "asked", "attempts", "command", "number", "steps")

    def __init__(self, number: int, command: Command, steps: Steps) -> None:
        self.number = number
        self.command = command
        self.steps = steps
        self.ask = next(steps)
        self.attempts = 0
        self.asked: ActorName = ""
        """The broker that got a request to any broker; "" without such a request."""


class Admin(Machine):
    """An admin client.

    ``bootstrap``: the brokers to ask, in turn. ``describes_consumers``: whether every broker has ConsumerGroupDescribe.
    """

    def __init__(
        self,
        name: ActorName,
        bootstrap: tuple[ActorName, ...],
        *,
        chance: Chance,
        versions: SpokenVersions = LATEST,
        describes_consumers: bool = False,
    ) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        self._bootstrap = bootstrap
        self._versions = versions
        self._describes_consumers = describes_consumers
        self._chance = chance
        self._retry = Backoff(RETRY_BACKOFF_US, RETRY_BACKOFF_MAX_US)
        self._client = Client(
            self,
            request_timeout_us=REQUEST_TIMEOUT_US,
            reconnect=Backoff(RECONNECT_BACKOFF_US, RECONNECT_BACKOFF_MAX_US),
            chance=chance,
            negotiates=versions.negotiates,
        )
        self._brokers = BrokersToAsk(self, self._client, bootstrap, 0)
        self._lookups = CoordinatorLookups(self._client, self._brokers, versions["FindCoordinator"])
        self._metadata = MetadataRefresh(
            self,
            self._client,
            self._brokers,
            self,
            retry=self._retry,
            max_age_us=METADATA_MAX_AGE_US,
            version=versions["Metadata"],
            chance=chance,
            without_topics=True,
        )
        self._waiting: dict[int, _Task] = {}
        """Tasks whose request to the controller waits until the controller is known."""
        self._tasks: dict[int, _Task] = {}
        self._last_number = 0

    def handle(self, event: Event) -> None:
        """React to a command, answer, timer or broken connection."""
        match event:
            case Received():
                self._client.reply_arrived(event)
            case TimerFired(key=key) if key == DEADLINE:
                self._client.deadline_passed()
            case TimerFired(key=key) if key == METADATA:
                self._metadata.timer_fired()
            case TimerFired(key=(AdminTimer.RETRY, number)):
                self._send(self._tasks[int(number)])
            case TimerFired(key=(AdminTimer.TASK, number)):
                self._end(ErrorCode.REQUEST_TIMED_OUT, self._tasks[int(number)])
            case LinkDown(peer=peer):
                self._client.connection_broke(peer, DISCONNECTED)
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
        self.start_timer((AdminTimer.TASK, str(number)), API_TIMEOUT_US)
        self._send(task)

    def _close(self) -> None:
        """End the tasks in progress without a result."""
        for task in list(self._tasks.values()):
            self._forget(task)
        self._client.close()
        self.stop_timer(DEADLINE)
        self.stop_timer(METADATA)
        self.finished = True

    # --- requests ----------------------------------------------------------------------------------------------

    def _send(self, task: _Task) -> None:
        """Send a task's request, or first look up the request's target."""
        task.attempts += 1
        task.asked = ""
        match task.ask.target:
            case Target.COORDINATOR:
                self._lookups.look_up(task.ask.name, self._call, self._retry_later, self._end, task)
            case Target.CONTROLLER:
                self._call_controller(task)
            case Target.ANY:
                task.asked = self._brokers.pick()
                self._call(task.asked, task)
            case Target.ANY_PART:
                task.asked = self._brokers.pick()
                self._call(controller_on(task.asked), task)
            case Target.NAMED:
                self._call(task.ask.name, task)

    def _call(self, to: ActorName, task: _Task) -> None:
        if task.number not in self._tasks:
            return  # the task has ended
        spec = SPECS[type(task.ask.request)]
        version = self._versions.requests.get(spec.name, _VERSIONS.get(spec.name, spec.versions[-1]))
        self._client.call(to, task.ask.request, version, self._answered, self._failed, task)

    def _call_controller(self, task: _Task) -> None:
        controller = self._metadata.controller
        if controller is None or self._metadata.stale:
            self._waiting[task.number] = task
            self._metadata.refresh()
        else:
            self._call(controller_on(controller), task)

    def metadata_refreshed(self, changed: bool) -> None:
        """Send the waiting requests if the controller is known now; otherwise refresh the metadata again.

        Source: ``ControllerNodeProvider``.
        """
        if not self._waiting:
            return
        if self._metadata.controller is None:
            self._metadata.refresh_later()
            return
        waiting, self._waiting = self._waiting, {}
        for task in waiting.values():
            self._call_controller(task)

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """Raise an error: an admin client requests metadata without topics."""
        raise AssertionError(f"{self.name}: {why}: {error.name}")

    def _failed(self, why: str, task: _Task) -> None:
        if why == NO_VERSION and task.number in self._tasks:
            self._end(ErrorCode.UNSUPPORTED_VERSION, task, f"{why}: {type(task.ask.request).__name__}")
            return
        if type(task.command) in ASK_LEADERS and task.ask.target is Target.NAMED:
            self._restart(task)
        if task.ask.target is Target.CONTROLLER:
            self._metadata.refresh()
        self._brokers.pass_over(task.asked)
        self._retry_later(task)

    def _restart(self, task: _Task) -> None:
        """Restart the task with a lookup of the leaders. Completed steps may be repeated."""
        if task.number in self._tasks:
            task.steps = self._steps(task.command)
            task.ask = next(task.steps)

    def _retry_later(self, task: _Task) -> None:
        """Retry the request after the backoff, with a new lookup of its target."""
        if task.number in self._tasks:
            wait_us = self._retry.after(task.attempts, self._chance)
            self.start_timer((AdminTimer.RETRY, str(task.number)), wait_us)

    # --- answers -----------------------------------------------------------------------------------------------

    def _answered(self, reply: Any, task: _Task) -> None:
        if task.number not in self._tasks:
            return  # the task has ended
        if any(error in STALE_TARGET for error in errors_of(reply)):
            if task.ask.target is Target.CONTROLLER:
                self._metadata.refresh()
            if type(task.command) in ASK_LEADERS and task.ask.target is Target.NAMED:
                self._restart(task)
            self._brokers.pass_over(task.asked)
            self._retry_later(task)
            return
        try:
            task.ask = task.steps.send(reply)
        except StopIteration as done:
            self._end(ErrorCode.NONE, task, str(done.value))
        except TaskRefused as refused:
            self._end(refused.error, task, refused.text)
        else:
            task.attempts = 0
            self._send(task)

    def _end(self, error: ErrorCode, task: _Task, text: str = "") -> None:
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
        self._waiting.pop(task.number, None)
        for timer in AdminTimer:
            self.stop_timer((timer, str(task.number)))

    # --- steps of each command ---------------------------------------------------------------------------------

    def _steps(self, command: Command) -> Steps:
        match command:
            case DescribeGroup(group=group):
                return self._describe(group)
            case DeleteGroup(group=group):
                return self._delete_group(group)
            case RemoveMember(group=group, instance_id=instance_id):
                return self._remove(group, instance_id)
            case ListAllGroups():
                return self._list(command)
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
            case ReassignPartitions():
                return reassign(command)
            case ListReassignments():
                return list_reassignments()
            case DeleteRecordsOf():
                return self._delete_records(command)

    def _describe(self, group: str) -> Steps:
        found = yield from self._described(group)
        ids = tuple(each.member_id for each in found.members)
        text = _epochs(found) if isinstance(found, DescribedConsumerGroup) else ""
        api = (ConsumerGroupDescribe if text else DescribeGroups).__name__
        self.note(GroupDescribed(group=group, state=found.state, members=ids, error=ErrorCode.NONE, api=api, text=text))
        return ""

    def _described(self, group: str) -> Generator[Ask, Any, DescribedConsumerGroup | DescribedGroup]:
        """Ask for a group's description.

        Source: ``DescribeConsumerGroupsHandler`` 4.0, which asks for a classic group in a second request.
        """
        if self._describes_consumers:
            request = ConsumerGroupDescribe(groups=(group,))
            reply: ConsumerGroupDescribeReply = yield Ask(Target.COORDINATOR, request, group)
            (consumers,) = reply.groups
            if consumers.error is not ErrorCode.GROUP_ID_NOT_FOUND:
                expect(consumers.error)
                return consumers
        classic: DescribeGroupsReply = yield Ask(Target.COORDINATOR, DescribeGroups(groups=(group,)), group)
        (described,) = classic.groups
        expect(described.error)
        return described

    def _delete_group(self, group: str) -> Steps:
        reply: DeleteGroupsReply = yield Ask(Target.COORDINATOR, DeleteGroups(groups=(group,)), group)
        expect(reply.outcomes[0].error)
        return ""

    def _remove(self, group: str, instance_id: str) -> Steps:
        """Remove the named static member, or all members without a name, as Kafka's admin client does."""
        leaving: tuple[LeavingMember, ...] = (LeavingMember(instance_id=instance_id, reason="removed by an admin"),)
        if not instance_id:
            found = yield from self._described(group)
            leaving = tuple(
                LeavingMember(member_id=each.member_id, reason="removed by an admin")
                if each.instance_id is None
                else LeavingMember(instance_id=each.instance_id, reason="removed by an admin")
                for each in found.members
            )
            if not leaving:
                return "no member"
        reply: LeaveGroupReply = yield Ask(Target.COORDINATOR, LeaveGroup(group=group, members=leaving), group)
        expect(reply.error)
        for row in reply.members:
            expect(row.error)
        return "1 member" if len(leaving) == 1 else f"{len(leaving)} members"

    def _list(self, command: ListAllGroups) -> Steps:
        """List the groups of every broker: name, state, and the type if all brokers have types.

        Source: ``KafkaAdminClient.listGroups`` 4.0: a filter by types needs brokers with types.
        """
        typed = self._describes_consumers
        found: list[tuple[str, str]] = []
        request = ListGroups(states_filter=command.states, types_filter=command.types)
        for broker in self._bootstrap:
            reply: ListGroupsReply = yield Ask(Target.NAMED, request, coordinator_on(broker))
            if command.types and not typed:  # a client learns a broker's versions from the broker
                raise TaskRefused(ErrorCode.UNSUPPORTED_VERSION, "the brokers' release has no types of groups")
            expect(reply.error)
            found += [(row.group, f"{row.state}, {row.group_type}" if typed else row.state) for row in reply.groups]
        return ", ".join(f"{group} ({what})" for group, what in sorted(found)) or "none"

    def _delete_offsets(self, command: DeleteOffsets) -> Steps:
        metadata: MetadataReply = yield Ask(Target.ANY, Metadata(topics=(command.topic,)))
        numbers = tuple(sorted(_leaders(metadata, command.topic)))
        request = OffsetDelete(group=command.group, topics=(TopicPartitions(topic=command.topic, partitions=numbers),))
        reply: OffsetDeleteReply = yield Ask(Target.COORDINATOR, request, command.group)
        expect(reply.error)
        for row in reply.outcomes:
            expect(row.error)
        return f"{command.topic}: {len(numbers)} partitions"

    def _reset_offsets(self, command: ResetOffsets) -> Steps:
        """Reset offsets of a group without members, within the log's start and end."""
        group, topic = command.group, command.topic
        state = (yield from self._described(group)).state
        if state not in ("Empty", "Dead"):
            raise TaskRefused(ErrorCode.NON_EMPTY_GROUP, f"the group is {state}; its members must stop first")
        metadata: MetadataReply = yield Ask(Target.ANY, Metadata(topics=(topic,)))
        leaders = _leaders(metadata, topic)
        starts = yield from self._ends(topic, leaders, EARLIEST)
        ends = yield from self._ends(topic, leaders, LATEST_OFFSET)
        now: dict[int, int] = {}
        if command.to == "shift":
            wanted = (TopicPartitions(topic=topic, partitions=tuple(sorted(leaders))),)
            fetched: OffsetFetchReply = yield Ask(Target.COORDINATOR, OffsetFetch(group=group, topics=wanted), group)
            expect(fetched.error)
            now = {row.partition: row.offset for row in fetched.offsets if row.offset >= 0}
        chosen = {
            number: min(max(_target(command, now.get(number, 0), starts[number], ends[number]), starts[number]), end)
            for number, end in sorted(ends.items())
            if command.to != "shift" or number in now
        }
        if not chosen:
            raise TaskRefused(ErrorCode.INVALID_REQUEST, f"the group has no offsets of {topic} to shift")
        offsets = tuple(
            OffsetToCommit(topic=topic, partition=number, offset=offset, metadata="")
            for number, offset in chosen.items()
        )
        reply: OffsetCommitReply = yield Ask(Target.COORDINATOR, OffsetCommit(group=group, offsets=offsets), group)
        for row in reply.outcomes:
            expect(row.error)
        return ", ".join(f"{topic}-{number} to {offset}" for number, offset in chosen.items())

    def _delete_records(self, command: DeleteRecordsOf) -> Steps:
        """Send DeleteRecords to each leader. Source: ``kafka-delete-records``, KIP-107."""
        topic, before = command.topic, command.before
        metadata: MetadataReply = yield Ask(Target.ANY, Metadata(topics=(topic,)))
        leaders = _leaders(metadata, topic)
        if command.partition >= 0:
            if command.partition not in leaders:
                raise TaskRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{command.partition}")
            leaders = {command.partition: leaders[command.partition]}
        starts: Offsets = {}
        for leader in dict.fromkeys(leaders.values()):
            numbers = [number for number, host in sorted(leaders.items()) if host == leader]
            rows = tuple(RecordsToDelete(topic=topic, partition=number, offset=before) for number in numbers)
            request = DeleteRecords(partitions=rows, timeout_ms=CONTROLLER_TIMEOUT_MS)
            reply: DeleteRecordsReply = yield Ask(Target.NAMED, request, leader)
            for row in reply.partitions:
                expect(row.error, f"{topic}-{row.partition}")
                starts[row.partition] = row.low_watermark
        return ", ".join(f"{topic}-{number} starts at {start}" for number, start in sorted(starts.items()))

    def _ends(self, topic: str, leaders: Mapping[int, ActorName], timestamp_ms: int) -> "Generator[Ask, Any, Offsets]":
        found: Offsets = {}
        for leader in dict.fromkeys(leaders.values()):
            questions = tuple(
                OffsetQuestion(topic=topic, partition=number, timestamp_ms=timestamp_ms)
                for number, host in sorted(leaders.items())
                if host == leader
            )
            reply: ListOffsetsReply = yield Ask(Target.NAMED, ListOffsets(questions=questions), leader)
            for row in reply.answers:
                expect(row.error)
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
        reply: CreateTopicsReply = yield Ask(Target.CONTROLLER, request)
        expect(reply.topics[0].error_code, reply.topics[0].error_message or "")
        return f"{command.topic}: {counted(command.partitions)}"

    def _grow(self, command: AddPartitions) -> Steps:
        topics = (MorePartitions(name=command.topic, count=command.partitions),)
        request = CreatePartitions(topics=topics, timeout_ms=CONTROLLER_TIMEOUT_MS)
        reply: CreatePartitionsReply = yield Ask(Target.CONTROLLER, request)
        expect(reply.topics[0].error_code, reply.topics[0].error_message or "")
        return f"{command.topic}: {counted(command.partitions)}"

    def _delete_topic(self, topic: str) -> Steps:
        request = DeleteTopics(topic_names=(topic,), timeout_ms=CONTROLLER_TIMEOUT_MS)
        reply: DeleteTopicsReply = yield Ask(Target.CONTROLLER, request)
        expect(reply.topics[0].error_code, reply.topics[0].error_message or "")
        return topic

    def _elect(self, command: ElectLeadersOf) -> Steps:
        """Elect leaders for every partition of the named topics, or let the controller check all partitions."""
        asked: tuple[tuple[str, int], ...] | None = None
        if command.topics:
            metadata: MetadataReply = yield Ask(Target.ANY, Metadata(topics=command.topics))
            asked = tuple((topic, n) for topic in command.topics for n in sorted(partitions_of(metadata, topic)))
        request = ElectLeaders(
            election_type=UNCLEAN_ELECTION if command.unclean else PREFERRED_ELECTION,
            topic_partitions=asked,
            timeout_ms=CONTROLLER_TIMEOUT_MS,
        )
        reply: ElectLeadersReply = yield Ask(Target.CONTROLLER, request)
        expect(reply.error_code)
        rows = reply.replica_election_results
        for row in rows:
            if row.error_code is not ErrorCode.ELECTION_NOT_NEEDED:
                expect(row.error_code, f"{row.topic_name}-{row.partition_index}")
        elected = sum(row.error_code is ErrorCode.NONE for row in rows)
        return f"{', '.join(command.topics) or 'all topics'}: {elected} of {len(rows)} elected"

    def _alter(self, command: AlterConfigs) -> Steps:
        kind = ConfigResource.TOPIC if command.topic else ConfigResource.BROKER
        name = command.topic or ("" if command.broker < 0 else str(command.broker))
        if command.group:
            kind, name = ConfigResource.GROUP, command.group
        change = ConfigChange(resource_type=kind, resource_name=name, name=command.key, value=command.value or None)
        reply: IncrementalAlterConfigsReply = yield Ask(Target.ANY_PART, IncrementalAlterConfigs(changes=(change,)))
        for row in reply.responses:
            expect(row.error_code, row.error_message or "")
        setting = f"{command.key}={command.value}" if command.value else f"without {command.key}"
        whose = command.group or command.topic or ("all brokers" if command.broker < 0 else broker_host(command.broker))
        return f"{whose}: {setting}"


Offsets: TypeAlias = dict[int, int]
"""Partition -> offset."""


def _target(command: ResetOffsets, now: int, start: int, end: int) -> int:
    return {"earliest": start, "latest": end, "offset": command.offset, "shift": now + command.offset}[command.to]


def _epochs(group: DescribedConsumerGroup) -> str:
    """The epochs of a group of the consumer protocol, and what each member owns and is to own."""
    said = [f"epoch {group.epoch}, assignment epoch {group.target_epoch}, assignor {group.assignor or 'none'}"]
    for each in group.members:
        owns, target = _numbers(each.assigned), _numbers(each.target)
        said.append(f"{each.member_id} epoch {each.member_epoch} owns {owns}{f', target {target}' * (owns != target)}")
    return "; ".join(said)


def _numbers(assigned: tuple[NamedTopicNumbers, ...]) -> str:
    names = [f"{each.topic}-{number}" for each in assigned for number in each.partitions]
    return ", ".join(names) or "nothing"


def _leaders(reply: MetadataReply, topic: str) -> dict[int, ActorName]:
    """Partition -> address of its leader."""
    hosts = {broker.node_id: broker.host for broker in reply.brokers}
    for row in reply.topics:
        if row.topic == topic:
            expect(row.error)
            without = [each.partition for each in row.partitions if each.leader not in hosts]
            if without:
                raise TaskRefused(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{without[0]}")
            return {each.partition: hosts[each.leader] for each in row.partitions}
    raise TaskRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
