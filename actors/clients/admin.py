"""A tool at work on groups: removes static members, deletes groups, describes them.

Each command is a task of its own: find the group's coordinator, ask it, and start over when it is not (or not yet) the
coordinator or the connection breaks, until the API timeout. The outcome is a note: ``GroupDescribed`` or
``AdminAnswered``. A task in doubt (its answer was lost) asks again, as Kafka's admin client does, so that a delete that
worked may be reported as GROUP_ID_NOT_FOUND.
"""

from typing import Any, TypeAlias

from kemu.actors.machine import Event, LinkDown, Machine, Received, TimerFired, Told
from kemu.protocol.commands import Close, DeleteGroup, DescribeGroup, RemoveMember, Start
from kemu.protocol.errors import ErrorCode
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
)
from kemu.protocol.messages.versions import LATEST, ApiVersions
from kemu.protocol.names import ActorName
from kemu.protocol.notes.groups import AdminAnswered, GroupDescribed
from kemu.protocol.wire.schema import SPECS

Command: TypeAlias = RemoveMember | DeleteGroup | DescribeGroup

RETRY_BACKOFF_US = 100_000
RETRY_BACKOFF_MAX_US = 1_000_000
REQUEST_TIMEOUT_US = 30_000_000
API_TIMEOUT_US = 60_000_000
"""Source of all four: Kafka 3.9's AdminClientConfig (``default.api.timeout.ms`` and the like)."""

ASK_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class _Task:
    """A command under way. ``request_id`` 0: between attempts."""

    __slots__ = ("attempts", "command", "number", "peer", "request_id")

    def __init__(self, number: int, command: Command) -> None:
        self.number = number
        self.command = command
        self.attempts = 0
        self.request_id = 0
        self.peer: ActorName = ""


class Admin(Machine):
    """``bootstrap``: the brokers to ask for coordinators, in turn."""

    def __init__(self, name: ActorName, bootstrap: tuple[ActorName, ...], *, versions: ApiVersions = LATEST) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        self._bootstrap = bootstrap
        self._versions = versions
        self._next_broker = 0
        self._tasks: dict[int, _Task] = {}
        self._last_number = 0

    def handle(self, event: Event) -> None:
        """Commands, answers, time."""
        match event:
            case Told(command=RemoveMember() | DeleteGroup() | DescribeGroup() as command):
                self._begin(command)
            case Received(request_id=request_id, message=message):
                task = next((task for task in self._tasks.values() if task.request_id == request_id), None)
                if task is not None:  # else: the answer to a request we gave up on
                    task.request_id = 0
                    self._answered(task, message)
            case TimerFired(key=("retry", number)):
                self._find_coordinator(self._tasks[int(number)])
            case TimerFired(key=("request", number)):
                peer = self._tasks[int(number)].peer
                self.hang_up(peer)
                self._lose(peer)
            case TimerFired(key=("task", number)):
                self._end(self._tasks[int(number)], ErrorCode.REQUEST_TIMED_OUT)
            case LinkDown(peer=peer):
                self._lose(peer)
            case Told(command=Start()):
                pass
            case Told(command=Close()):
                self._close()
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _begin(self, command: Command) -> None:
        self._last_number = number = self._last_number + 1
        task = self._tasks[number] = _Task(number, command)
        self.start_timer(("task", str(number)), API_TIMEOUT_US)
        self._find_coordinator(task)

    def _close(self) -> None:
        """Tasks that are under way end without a result."""
        for task in list(self._tasks.values()):
            self._forget(task)
        self.finished = True

    # --- asking ------------------------------------------------------------------------------------------------

    def _find_coordinator(self, task: _Task) -> None:
        broker = self._bootstrap[self._next_broker % len(self._bootstrap)]
        self._next_broker += 1
        task.attempts += 1
        self._ask(task, broker, FindCoordinator(key=task.command.group))

    def _ask(self, task: _Task, peer: ActorName, message: object) -> None:
        task.peer = peer
        spec = SPECS[type(message)]
        task.request_id = self.request(peer, message, self._versions.requests.get(spec.name, spec.versions[-1]))
        self.start_timer(("request", str(task.number)), REQUEST_TIMEOUT_US)

    def _again(self, task: _Task) -> None:
        """After the backoff, from finding the coordinator on."""
        task.request_id = 0
        self.stop_timer(("request", str(task.number)))
        backoff_us = min(RETRY_BACKOFF_US << min(task.attempts - 1, 20), RETRY_BACKOFF_MAX_US)
        self.start_timer(("retry", str(task.number)), backoff_us)

    def _lose(self, peer: ActorName) -> None:
        for task in self._tasks.values():
            if task.request_id and task.peer == peer:
                self._again(task)

    # --- answers -----------------------------------------------------------------------------------------------

    def _answered(self, task: _Task, message: Any) -> None:
        match message:
            case FindCoordinatorReply(error=ErrorCode.NONE, host=host):
                self._ask(task, host, _request_of(task.command))
                return
            case FindCoordinatorReply(error=error):
                pass
            case LeaveGroupReply(error=error, members=left):
                if error is ErrorCode.NONE and left:
                    error = left[0].error
            case DeleteGroupsReply(outcomes=(outcome,)):
                error = outcome.error
            case DescribeGroupsReply(groups=(group,)):
                error = group.error
                if error is ErrorCode.NONE:
                    members = tuple(member.member_id for member in group.members)
                    self.note(GroupDescribed(group=group.group, state=group.state, members=members, error=error))
                    self._forget(task)
                    return
            case _:
                raise AssertionError(f"{self.name}: {message} answers {task.command}")
        if error in ASK_AGAIN:
            self._again(task)
        else:
            self._end(task, error)

    def _end(self, task: _Task, error: ErrorCode) -> None:
        group = task.command.group
        match task.command:
            case DescribeGroup():
                self.note(GroupDescribed(group=group, state="", members=(), error=error))
            case RemoveMember():
                self.note(AdminAnswered(group=group, api="LeaveGroup", error=error))
            case DeleteGroup():
                self.note(AdminAnswered(group=group, api="DeleteGroups", error=error))
        self._forget(task)

    def _forget(self, task: _Task) -> None:
        del self._tasks[task.number]
        for kind in ("task", "request", "retry"):
            self.stop_timer((kind, str(task.number)))


def _request_of(command: Command) -> LeaveGroup | DeleteGroups | DescribeGroups:
    match command:
        case RemoveMember(group=group, instance_id=instance_id):
            leaving = LeavingMember(instance_id=instance_id, reason="removed by an admin")
            return LeaveGroup(group=group, members=(leaving,))
        case DeleteGroup(group=group):
            return DeleteGroups(groups=(group,))
        case DescribeGroup(group=group):
            return DescribeGroups(groups=(group,))
