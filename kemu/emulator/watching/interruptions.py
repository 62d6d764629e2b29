"""The causes for which partitions are without service, over time (part of the panel).

Four kinds of histories are kept: of each partition's leader, each partition in each group, each group's rebalance, and
each host. Together the histories give one ``Cause`` for each moment, so any interval is a sequence of ``Piece``. The
first part that does not work decides, in this order: leader, owner, group, host of the last owner. A callback is
reported when it returns, and takes precedence.

A checker's rule bounds each wait:

- a leader's session, an election: ``duties`` (no-leader, session-kept)
- a member's session: ``group-progress`` (member-kept)
- a member to join, the join phase: ``group-progress`` (join-unfinished)
- the assignment of the group's leader: ``group-progress`` (sync-unfinished)
- members to find the coordinator: ``group-progress`` (not-rejoined)
- an owner to take its assignment: ``group-progress`` (not-taken)
- a position: ``group-progress`` (no-position)
- the first records: ``group-progress`` (records-unread)
- a task to restore: ``tasks`` (not-restored)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any, Protocol

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.emulator.watching.applications import ACTIVE, CLOSED, RUNNING
from kemu.emulator.watching.memberships import ENDED, JOINING, CoordinatorsGroup, Memberships
from kemu.protocol.frozen import frozen
from kemu.protocol.names import ActorName, GroupId, MemberId, TopicPartition, broker_host, host_of, shared
from kemu.protocol.nodes import BROKER_IDS, PartitionState
from kemu.protocol.notes.consumer_groups import GroupEpochsChanged
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CallbackReturned,
    CoordinatorKnown,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberFailed,
    MemberRemoved,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
)
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, NodeWritten, ReplicaStopped
from kemu.protocol.notes.streams import TaskBecame

Service = tuple[GroupId, TopicPartition]


class CoordinatedGroup(Protocol):
    """The fields of the panel's groups that this module reads."""

    coordinator: ActorName
    members: dict[ActorName, None]
    state: str
    loaded: bool
    proven: bool


class Owner(Protocol):
    """The fields of the panel's holdings that are read here."""

    actor: ActorName
    group: GroupId
    owned: dict[TopicPartition, None]


class Watched(Protocol):
    """The part of the panel that this module reads."""

    leaders: dict[TopicPartition, ActorName]
    states: dict[TopicPartition, PartitionState]
    registered: dict[int, None]
    led: list[TopicPartition]
    gained: list[TopicPartition]
    given_up: list[TopicPartition]
    written: TopicPartition | None
    memberships: Memberships

    @property
    def groups(self) -> Mapping[GroupId, CoordinatedGroup]: ...
    @property
    def ended(self) -> Sequence[Owner]: ...
    @property
    def left(self) -> Owner | None: ...
    def runs(self, host: str) -> bool: ...
    def is_paused(self, host: str) -> bool: ...
    def is_out(self, host: str) -> bool: ...
    def has_running_members(self, group: GroupId) -> bool: ...


class Cause(StrEnum):
    """The event for which a partition without service waits."""

    BROKER_DOWN = "the session of the leader's broker to end"
    ISR_DOWN = "a broker of the ISR to start"
    ELECTION = "a leader election"
    NO_MEMBER = "a member to start"
    FAILED = "a member that failed for good to be replaced"
    SESSION = "a member that is down to return, or for its session to end"
    PAUSED = "a member that is paused"
    COORDINATOR = "the group's coordinator to be elected and to load"
    FIND_COORDINATOR = "members to find the coordinator and join"
    JOIN = "a member to join"
    JOIN_COMPLETION = "the join phase to complete"
    SYNC = "the assignment of the group's leader"
    ASSIGNMENT = "the next assignment"
    TAKE_OVER = "the owner to take its assignment"
    CALLBACK = "a callback of the application"
    RESTORE = "a task to restore its state"
    POSITION = "the committed offset or a reset"
    FETCH = "the first records"


@frozen
class Piece:
    """A part of an interval without service: cause, and the actor of the cause ("" without an actor)."""

    cause: Cause
    actor: str
    from_us: int
    until_us: int


WELL, STABLE, _UNOWNED, _UP = "well", "stable", "unowned", "up"
Stage = tuple[str, str]
"""(a ``Cause`` or one of the four words above, actor of the cause)."""


class StageLog:
    """The history of a stage."""

    __slots__ = ("stages",)

    def __init__(self) -> None:
        self.stages: list[tuple[int, str, str]] = []
        """(start of a stage in us, and the stage), oldest first."""

    def put(self, at_us: int, value: Stage) -> None:
        """Set the stage from now on."""
        stages = self.stages
        if stages and stages[-1][1:] == value:
            return
        if stages and stages[-1][0] == at_us:
            stages.pop()
        stages.append((at_us, *value))

    def at(self, at_us: int) -> Stage | None:
        """The stage at this time; None before the first known stage."""
        index = bisect_right(self.stages, at_us, key=itemgetter(0)) - 1
        return self.stages[index][1:] if index >= 0 else None

    @property
    def last(self) -> Stage | None:
        """The present stage."""
        return self.stages[-1][1:] if self.stages else None

    @property
    def since_us(self) -> int:
        """Start of the present stage, in us."""
        return self.stages[-1][0] if self.stages else 0

    @property
    def actors(self) -> dict[str, None]:
        """The actors of all causes, in order."""
        return dict.fromkeys([actor for _, _, actor in self.stages if actor])

    def changes(self, from_us: int, until_us: int) -> list[int]:
        """Times of changes within an interval, without the ends."""
        first = bisect_right(self.stages, from_us, key=itemgetter(0))
        until = bisect_left(self.stages, until_us, key=itemgetter(0))
        return [stage[0] for stage in self.stages[first:until]]


class _Joined:
    """The first members of a group that have joined, so that a join phase does not look at them again at each join."""

    __slots__ = ("count", "group", "names")

    def __init__(self, group: CoordinatorsGroup) -> None:
        self.group = group
        self.count = 0
        self.names: dict[str, None] = {}
        """Actors and member ids of these members."""

    def keeps(self, seen: Seen, fact: Any) -> bool:
        """Whether all these members still count as joined: the fact only adds another member, or lets it join."""
        if type(fact) is MemberAdded:
            return fact.client_id not in self.names and fact.member_id not in self.names
        return type(fact) is MemberBecame and fact.new == JOINING and seen.actor not in self.names


_NOTHING = StageLog()
_NOW = 1 << 62


class Interruptions:
    """The histories of all partitions, groups and hosts. The handlers of this class run after the panel has taken the
    fact.
    """

    def __init__(self, panel: Watched) -> None:
        self._panel = panel
        self.groups: dict[GroupId, StageLog] = {}
        self.services: dict[Service, StageLog] = {}
        """(group, partition) -> the stage of its owner."""
        self.leaders: dict[TopicPartition, StageLog] = {}
        self.hosts: dict[str, StageLog] = {}
        self._tasks: dict[tuple[GroupId, int], StageLog] = {}
        """(application, partition) -> whether its active task runs."""
        self._restoring: dict[tuple[GroupId, int], dict[tuple[str, ActorName, str], None]] = {}
        """(application, partition) -> active copies of the tasks that do not run yet."""
        self._owners: dict[Service, tuple[ActorName, ...]] = {}
        self._hosted: dict[TopicPartition, str] = {}
        """Partition -> the broker that serves it, if brokers do not replicate."""
        self._leaderless: dict[TopicPartition, None] = {}
        self._callbacks: dict[ActorName, list[tuple[int, int]]] = {}
        self._of_consumer_protocol: dict[GroupId, None] = {}
        self._actors: dict[MemberId, ActorName] = {}
        """Members of these groups that received an assignment."""
        self._joined: dict[GroupId, _Joined] = {}
        """Group in a join phase -> its first members that have joined."""
        self.led_changed: list[TopicPartition] = []
        """Partitions that gained or lost a running leader with the last fact."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            **dict.fromkeys((HostDown, HostStarted, HostPaused, HostResumed), self._host_changed),
            **dict.fromkeys((GroupLoaded, GroupUnloaded, CoordinatorKnown, GroupBecame), self._group_changed),
            **dict.fromkeys((JoinPhaseCompleted, MemberAdded), self._group_changed),
            MemberRemoved: self._removed,
            GroupEpochsChanged: self._epochs_changed,
            **dict.fromkeys((BecameLeader, BecameFollower, ReplicaStopped), self._roles_changed),
            NodeWritten: self._written,
            PartitionHosted: self._served_by,
            MemberBecame: self._member_became,
            MemberFailed: self._stopped_serving,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._given_up,
            PartitionsLost: self._given_up,
            PositionSet: self._positioned,
            CallbackReturned: self._called_back,
            TaskBecame: self._task_became,
        }

    # --- queries -------------------------------------------------------------------------------------------------

    def is_led(self, at: TopicPartition) -> bool:
        """Whether the leader of a partition runs; True for a partition that never had a leader."""
        return at not in self._leaderless

    def is_well(self, key: Service) -> bool:
        """Whether a partition has a leader, an owner and a position."""
        return self._stage(key, _NOW)[0] == WELL

    def now(self, key: Service) -> Stage:
        """(cause, actor) for which a partition waits; "well" as the cause of a served partition."""
        return self._stage(key, _NOW)

    def since_us(self, key: Service) -> int:
        """Time of the last change of the partition's leader, owner, task or group, in us."""
        return max(history.since_us for history in self._histories(key))

    def pieces(self, key: Service, from_us: int, until_us: int, owners: Iterable[ActorName] = ()) -> tuple[Piece, ...]:
        """The causes of an interval without service. The lengths of the pieces add up to the interval.

        Args:
            key: the group and the partition.
            from_us: start of the interval.
            until_us: end of the interval.
            owners: members whose callbacks are causes.
        """
        called = [
            (max(from_us, start_us), min(until_us, end_us), owner)
            for owner in dict.fromkeys(owners)
            for start_us, end_us in self._callbacks.get(owner, ())
            if end_us > from_us and start_us < until_us
        ]
        ends = {from_us, until_us, *(us for span in called for us in span[:2])}
        hosts = dict.fromkeys(map(host_of, self.services.get(key, _NOTHING).actors))
        for history in (*self._histories(key), *(self.hosts.get(host, _NOTHING) for host in hosts)):
            ends.update(history.changes(from_us, until_us))
        found: list[Piece] = []
        for start_us, end_us in pairwise(sorted(ends)):
            busy = next((owner for begin, end, owner in called if begin <= start_us and end_us <= end), None)
            if busy is not None:
                cause, actor = Cause.CALLBACK, busy
            else:
                stage, actor = self._stage(key, start_us)
                cause = Cause.FETCH if stage == WELL else Cause(stage)
            if found and (found[-1].cause, found[-1].actor) == (cause, actor):
                start_us = found.pop().from_us
            found.append(Piece(cause, actor, start_us, end_us))
        return tuple(found)

    def _histories(self, key: Service) -> tuple[StageLog, ...]:
        """The histories of the partition's leader, owner, task and group."""
        group, at = key
        return (
            self.leaders.get(at, _NOTHING),
            self.services.get(key, _NOTHING),
            self._tasks.get((group, at[1]), _NOTHING),
            self.groups.get(group, _NOTHING),
        )

    def _stage(self, key: Service, at_us: int) -> Stage:
        """The first stage that is not well at this time."""
        leader, service, task, group = (history.at(at_us) for history in self._histories(key))
        if leader is not None and leader[0] != WELL:
            return leader
        stage, actor = service or (_UNOWNED, "")
        host = self.hosts.get(host_of(actor), _NOTHING).at(at_us) if actor else None
        if stage != _UNOWNED:
            if host is not None and host[0] != _UP:
                return host
            return task if task is not None and task[0] != WELL and stage != Cause.TAKE_OVER else (stage, actor)
        if group is None:
            return (Cause.FIND_COORDINATOR, "")
        if group[0] != STABLE:
            return group
        return (Cause.ASSIGNMENT, actor) if host is None or host[0] == _UP else host

    # --- hosts -------------------------------------------------------------------------------------------------

    def _host_changed(self, seen: Seen, fact: Any) -> None:
        panel, host = self._panel, fact.host
        stage = _UP if panel.runs(host) else Cause.SESSION
        if panel.is_paused(host):
            stage = Cause.PAUSED
        self._history(self.hosts, host).put(seen.at_us, (stage, "" if stage == _UP else host))
        if type(fact) in (HostDown, HostStarted):
            for key, restoring in self._restoring.items():
                for copy in [copy for copy in restoring if host_of(copy[1]) == host]:
                    del restoring[copy]
                    self._task_is(seen.at_us, key)
        self._stopped_serving(seen, fact)
        self.led_changed = []
        self._look_at(seen.at_us, dict.fromkeys((*panel.led, *self._leaderless)))
        for at, broker in self._hosted.items():
            if broker == host:
                self._put_leader(seen.at_us, at, (Cause.BROKER_DOWN, host) if panel.is_out(host) else (WELL, host))
        for name in [name for name, group in panel.groups.items() if host in group.members] or panel.groups:
            self._look_at_group(seen.at_us, name)

    @staticmethod
    def _history(among: "dict[Any, StageLog]", key: Any) -> StageLog:
        found = among.get(key)
        if found is None:
            found = among[key] = StageLog()
        return found

    # --- leaders -----------------------------------------------------------------------------------------------

    def _served_by(self, seen: Seen, fact: PartitionHosted) -> None:
        at = shared((fact.topic, fact.partition))
        self.led_changed = []
        self._hosted[at] = host_of(seen.actor)
        self._put_leader(seen.at_us, at, (WELL, host_of(seen.actor)))

    def _roles_changed(self, seen: Seen, fact: Any) -> None:
        self.led_changed = []
        self._look_at(seen.at_us, self._panel.led)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        self.led_changed = []
        if self._panel.written is not None:
            at = self._panel.written
            if at not in self._panel.states:  # deleted
                self._put_leader(seen.at_us, at, (WELL, ""))
            else:
                self._look_at(seen.at_us, (*self._panel.led, at) if at in self._leaderless else self._panel.led)
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            self._look_at(seen.at_us, tuple(self._leaderless))

    def _look_at(self, at_us: int, partitions: Collection[TopicPartition]) -> None:
        panel = self._panel
        for at in partitions:
            state = panel.states.get(at)
            leader = panel.leaders.get(at)
            if state is None:
                continue
            if leader is not None and not panel.is_paused(host_of(leader)):
                self._put_leader(at_us, at, (WELL, leader))
            elif at in self.leaders:
                named = broker_host(state.leader)
                if state.leader in panel.registered and panel.is_out(named):
                    stage: Stage = (Cause.BROKER_DOWN, named)
                elif not any(panel.runs(broker_host(broker)) for broker in state.isr):
                    stage = (Cause.ISR_DOWN, broker_host(state.isr[0]) if state.isr else "")
                else:
                    stage = (Cause.ELECTION, "")
                self._put_leader(at_us, at, stage)

    def _put_leader(self, at_us: int, at: TopicPartition, stage: Stage) -> None:
        self._history(self.leaders, at).put(at_us, stage)
        is_led = stage[0] == WELL
        if is_led == (at in self._leaderless):
            self.led_changed.append(at)
            if is_led:
                del self._leaderless[at]
            else:
                self._leaderless[at] = None

    # --- groups ------------------------------------------------------------------------------------------------

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new in ENDED:
            self._stopped_serving(seen, fact)
        self._group_changed(seen, fact)

    def _group_changed(self, seen: Seen, fact: Any) -> None:
        joined = self._joined.get(fact.group)
        if joined is None or not joined.keeps(seen, fact):
            self._joined.pop(fact.group, None)
        self._put_group(seen.at_us, fact.group)

    def _epochs_changed(self, seen: Seen, fact: GroupEpochsChanged) -> None:
        self._of_consumer_protocol[fact.group] = None

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        """A removed member of the consumer protocol: its partitions wait for a heartbeat, and no more for its session.

        A removal in a classic group begins a rebalance, whose steps are the causes.
        """
        actor = self._actors.get(fact.member_id, "")
        for (group, _), history in self.services.items() if actor else ():
            if group == fact.group and history.last == (_UNOWNED, actor):
                history.put(seen.at_us, (_UNOWNED, ""))
        self._group_changed(seen, fact)

    def _look_at_group(self, at_us: int, name: GroupId) -> None:
        self._joined.pop(name, None)
        self._put_group(at_us, name)

    def _put_group(self, at_us: int, name: GroupId) -> None:
        watched = self._panel.groups.get(name)
        if watched is not None:
            self._history(self.groups, name).put(at_us, self._group_stage(name, watched))

    def _group_stage(self, name: GroupId, watched: CoordinatedGroup) -> Stage:
        panel, coordinator = self._panel, host_of(watched.coordinator) if watched.coordinator else ""
        if watched.state in ("Empty", "Dead") or not coordinator:
            if not panel.has_running_members(name):
                failed = next((actor for actor in watched.members if panel.runs(host_of(actor))), "")
                return (Cause.FAILED, failed) if failed else (Cause.NO_MEMBER, "")
            return (Cause.COORDINATOR, "") if watched.proven and not coordinator else (Cause.FIND_COORDINATOR, "")
        if not watched.loaded or panel.is_out(coordinator):
            return (Cause.COORDINATOR, coordinator)
        group = panel.memberships.groups.get(name)
        if watched.state == "PreparingRebalance":
            return (Cause.JOIN_COMPLETION, "") if group is None else self._join_stage(name, group)
        if watched.state == "CompletingRebalance" and group is not None:
            entry = group.entries.get(group.leader)
            leader = group.leader if entry is None else entry.actor or group.leader
            dead = entry is None or panel.memberships.is_over(group.leader, entry)
            return (Cause.SESSION if dead else Cause.SYNC, leader)
        return (STABLE, "")

    def _join_stage(self, name: GroupId, group: CoordinatorsGroup) -> Stage:
        """The stage of a join phase, decided by the first member that has not joined."""
        memberships, joined = self._panel.memberships, self._joined.get(name)
        if joined is None or joined.group is not group:
            joined = self._joined[name] = _Joined(group)
        for member_id, entry in islice(group.entries.items(), joined.count, None):
            actor = entry.actor or member_id
            if memberships.is_over(member_id, entry):
                return (Cause.SESSION, actor)
            progress = memberships.members.get(actor)
            if progress is None or progress.state != JOINING:
                return (Cause.PAUSED if self._panel.is_paused(host_of(actor)) else Cause.JOIN, actor)
            joined.count += 1
            joined.names[actor] = joined.names[member_id] = None
        return (Cause.JOIN_COMPLETION, "")

    # --- owners ------------------------------------------------------------------------------------------------

    def _stopped_serving(self, seen: Seen, fact: Any) -> None:
        """Note ended lives of members, and a member that closed or failed."""
        ended = (*self._panel.ended, *((self._panel.left,) if self._panel.left is not None else ()))
        for holding in ended:
            for partition in holding.owned:
                self._lose_owner(seen.at_us, (holding.group, partition), holding.actor)

    def _lose_owner(self, at_us: int, key: Service, actor: ActorName) -> None:
        """Note that a member no longer owns a partition."""
        self._owners[key] = owners = tuple([owner for owner in self._owners.get(key, ()) if owner != actor])
        if not owners:
            self._history(self.services, key).put(at_us, (_UNOWNED, actor))

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        self._stopped_serving(seen, fact)
        if fact.group in self._of_consumer_protocol:
            self._actors[fact.member_id] = seen.actor
        stage = (Cause.TAKE_OVER, seen.actor)
        for partition in fact.partitions:
            key = shared((fact.group, partition))
            if not self._owners.get(key):
                self._history(self.services, key).put(seen.at_us, stage)

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        stage = (Cause.POSITION, seen.actor)
        for partition in self._panel.gained:
            key = shared((fact.group, partition))
            owners = self._owners.get(key, ())
            if seen.actor not in owners:
                self._owners[key] = (*owners, seen.actor)
            self._history(self.services, key).put(seen.at_us, stage)

    def _given_up(self, seen: Seen, fact: PartitionsRevoked | PartitionsLost) -> None:
        self._stopped_serving(seen, fact)
        for partition in self._panel.given_up:
            self._lose_owner(seen.at_us, (fact.group, partition), seen.actor)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        key = (fact.group, (fact.topic, fact.partition))
        if seen.actor in self._owners.get(key, ()):
            self._history(self.services, key).put(seen.at_us, (WELL, seen.actor))

    def _called_back(self, seen: Seen, fact: CallbackReturned) -> None:
        self._callbacks.setdefault(seen.actor, []).append((seen.at_us - fact.took_us, seen.at_us))

    def _task_became(self, seen: Seen, fact: TaskBecame) -> None:
        key = (fact.application, int(fact.task.rpartition("_")[2]))
        restoring, copy = self._restoring.setdefault(key, {}), (fact.task, seen.actor, fact.thread)
        if fact.role == ACTIVE and fact.state not in (RUNNING, CLOSED):
            restoring[copy] = None
        else:
            restoring.pop(copy, None)
        self._task_is(seen.at_us, key)

    def _task_is(self, at_us: int, key: tuple[GroupId, int]) -> None:
        first = next(iter(self._restoring[key]), None)
        self._history(self._tasks, key).put(at_us, (WELL, "") if first is None else (Cause.RESTORE, first[1]))


def waited_us(pieces: Iterable[Piece], cause: Cause) -> int:
    """Total time of the pieces with one cause, in us."""
    return sum([piece.until_us - piece.from_us for piece in pieces if piece.cause is cause])
