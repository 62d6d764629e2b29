"""The panel: the one place that watches who owns what, who coordinates, who leads, and who runs.

Built from facts alone, each taken once, before those who read it: checkers, metrics, costs, the report, and offline
judging. So they keep what their own rule or figure needs and nothing of this. Besides the state there is what the last
fact made of it (``gained``, ``ceased``, ``led``, ...): facts tell what somebody said, these what that changed.

Members are known by their actor, not by their host: several may live on one host, and a pause or a power cut of the
host is one of each of them.

*Owning* goes by a member's own callbacks. A member *serves* what it owns unless its host stands still or it has closed
or failed for good.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from kemu.emulator.facts import (
    CoreHealed,
    Handler,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    MemberHostAdded,
    RunStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.watching.applications import WatchedApplications
from kemu.emulator.watching.coordinators import Coordinators
from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.disturbances import Disturbances
from kemu.emulator.watching.forgotten_rebalances import ForgottenRebalances
from kemu.emulator.watching.former_lives import FormerLives
from kemu.emulator.watching.group_commits import GroupCommits
from kemu.emulator.watching.interruptions import Interruptions
from kemu.emulator.watching.logs import WatchedLogs
from kemu.emulator.watching.memberships import Memberships
from kemu.emulator.watching.min_insync import MinInsync
from kemu.emulator.watching.progress import WatchedProgress
from kemu.emulator.watching.ranges_of_groups import WatchedRanges
from kemu.emulator.watching.readable import ReadableEnds
from kemu.emulator.watching.unknown_isrs import UnknownIsrs
from kemu.protocol.names import (
    OFFSETS_TOPIC,
    ActorName,
    GroupId,
    MemberId,
    TopicPartition,
    broker_host,
    host_of,
    offsets_partition_of,
    part_on,
)
from kemu.protocol.nodes import (
    BROKER_IDS,
    PartitionState,
    ReplicaAssignment,
    partition_of_state,
    read_state,
    read_topic,
    topic_of,
)
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, NodeWritten, ReplicaStopped, TopicDeleted
from kemu.protocol.notes.streams import ThreadReplaced

Service = tuple[GroupId, TopicPartition]


class Holding:
    """One life of one member: its assignments and what it owns."""

    __slots__ = (
        *("actor", "life", "group", "member_id", "generation", "received", "assignment"),
        *("owned", "has_left", "paused"),
    )

    def __init__(self, actor: ActorName, life: int, group: GroupId) -> None:
        self.actor = actor
        self.life = life
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.received: frozenset[TopicPartition] | None = None
        """The last assignment that came; None before the first of this life."""
        self.assignment: frozenset[TopicPartition] | None = None
        """The last one that was taken over (one with topics that are not subscribed any more is not)."""
        self.owned: dict[TopicPartition, None] = {}
        """In the order in which it got them."""
        self.has_left = False
        """It closed, or failed for good."""
        self.paused = False
        """Its host stands still."""


class WatchedGroup:
    """A group as its coordinator tells it."""

    __slots__ = ("begun_at", "coordinator", "forgotten", "loaded", "members", "proven", "remembered", "state")

    def __init__(self) -> None:
        self.coordinator: ActorName = ""
        """ "" while nobody is known to coordinate it."""
        self.state = "Empty"
        """The last one that a coordinator told."""
        self.loaded = True
        """False from when its coordinator gave it up until another one speaks."""
        self.proven = False
        """It was Stable, or in a log that was loaded: whoever coordinates it next knows it."""
        self.members: dict[ActorName, None] = {}
        self.begun_at = 0
        """Where the group's log ended when the last join phase was completed (where brokers replicate)."""
        self.remembered: list[tuple[int, int, int]] = []
        """Generations that became Stable or were loaded, and between which offsets the record of each is (where brokers
        replicate): (generation, first, last + 1)."""
        self.forgotten: dict[int, None] = {}
        """Those of them that the log has lost, or may have."""

    def remember(self, generation: int, first: int, end: int) -> None:
        """The group's log has this generation, in a record between these offsets."""
        self.remembered.append((generation, first, end))
        self.forgotten.pop(generation, None)

    def forget(self, first: int, end: int) -> None:
        """What the group's log had between these offsets nobody may count on."""
        self.begun_at = min(self.begun_at, first)
        lost = [generation for generation, begin, behind in self.remembered if behind > first and begin < end]
        if lost:
            self.remembered = [each for each in self.remembered if each[0] not in lost]
            self.forgotten.update(dict.fromkeys(lost))
            self.proven = bool(self.remembered)  # of one that is lost whole nobody tells that it was loaded


class WatchedHost:
    """A host that was started at some time."""

    __slots__ = ("life", "paused", "runs")

    def __init__(self) -> None:
        self.life = 0
        self.runs = False
        self.paused = False


class Panel:
    """See the module. Feed it every fact it wants, in order, before those who read it."""

    def __init__(self) -> None:
        self.now: Seen | None = None
        """The last fact taken."""
        self.hosts: dict[str, WatchedHost] = {}
        self._deleted: dict[str, None] = {}
        self.topics: dict[str, int] = {}
        """Topic -> partitions, of those that clients use."""
        self.groups: dict[GroupId, WatchedGroup] = {}
        self.holdings: dict[ActorName, Holding] = {}
        """Members' present lives, from their first assignment on."""
        self.took: dict[tuple[GroupId, MemberId], Holding] = {}
        """(group, member id) -> the life that took an assignment under it; lives that have ended among them."""
        self.states: dict[TopicPartition, PartitionState] = {}
        """Leaders, epochs and ISRs as the metadata store has them."""
        self.assigned: dict[TopicPartition, ReplicaAssignment] = {}
        """Replicas as the metadata store has them."""
        self.registered: dict[int, None] = {}
        """Broker ids with a registration in the store."""
        self.roles: dict[tuple[ActorName, TopicPartition], tuple[int, bool]] = {}
        """(broker, partition) -> (leader epoch it takes part in, whether it leads)."""
        self.leaders: dict[TopicPartition, ActorName] = {}
        """Who leads: it took the office that the store gave it, and was neither deposed nor down since."""
        self._add_parts()
        self.away: frozenset[str] = frozenset()
        """Hosts that stay away for good: nobody waits for them."""
        self.unrecoverable: tuple[str, ...] = ()
        """Why those that do not stay away cannot get well either."""
        self.core_healed_us: int | None = None
        """When a core alone was healed."""
        # What the last fact changed; empty again with the next.
        self.gained: list[TopicPartition] = []
        """What the member that spoke owns since."""
        self.given_up: list[TopicPartition] = []
        """What it owned before."""
        self.ended: list[Holding] = []
        """Lives of members that ended."""
        self.left: Holding | None = None
        """The member that closed or failed for good."""
        self.began: list[Service] = []
        """What a member serves since: once for each."""
        self.ceased: list[Service] = []
        """What a member does not serve any more: once for each."""
        self.ran_already = False
        """A host started that ran."""
        self.written: TopicPartition | None = None
        """The partition whose state the store changed."""
        self.state_before: PartitionState | None = None
        """What that was; None: nothing."""
        self.was_elected = False
        """Whether it has a new leader epoch: a controller decided, not only about the ISR that a leader asked for."""
        self.written_topic = ""
        """The topic whose assignment the store changed."""
        self.replicas_changed: dict[TopicPartition, tuple[int, ...]] = {}
        """Partitions that have other replicas now -> the replicas before."""
        self.led: list[TopicPartition] = []
        """Partitions whose leader came, went, stands still, or goes on."""
        self._paused: set[str] = set()
        self._spoke: dict[ActorName, None] = {}
        """Members that ever said anything."""
        self._departed: dict[ActorName, None] = {}
        self._on = self._handlers()

    def _add_parts(self) -> None:
        """Add the watchers that the panel shows its facts to."""
        self.former = FormerLives(self.states)
        """Brokers that take part in a partition of a topic that is deleted."""
        self.coordinators = Coordinators(self.states)
        """Who may speak for a group, and whom its members ask."""
        self.copies = Copies()
        """Each broker's copy of each partition."""
        self.logs = WatchedLogs(self.copies, self.former)
        """What is in the logs, and what members read of it."""
        self.commits = GroupCommits(self.logs, self.is_current, self.log_of)
        """What groups have committed."""
        self.ranges = WatchedRanges(self.logs, self.commits, self.is_current, self.log_of)
        """Both commit logs of groups in KIP-333's mode."""
        self.progress = WatchedProgress(self.logs, self.commits, self.ranges)
        """How far groups are: done, skipped, committed."""
        self.memberships = Memberships(self.is_current)
        """Who is in a group by its coordinator."""
        self.forgotten_rebalances = ForgottenRebalances(self.holdings)
        """What generations withheld, and nobody gives out any more."""
        self.unknown_isrs = UnknownIsrs(self.states)
        """ISRs in the store of which the controller that wrote them does not know."""
        self.min_insync = MinInsync(lambda: self.assigned)
        """How many replicas partitions ask for."""
        self.disturbances = Disturbances()
        """Which hosts and links faults hit."""
        self.readable = ReadableEnds(self.logs)
        """Up to where readers can be told that partitions go."""
        self.applications = WatchedApplications(self.logs, self.readable)
        """Streams applications: instances, and copies of tasks."""
        self.interruptions = Interruptions(self)
        """What partitions without service wait for."""

    def _handlers(self) -> dict[type, Callable[[Seen, Any], None]]:
        return {
            RunStarted: self._run_started,
            MemberHostAdded: self._member_added,
            TopicGrown: self._grown,
            TopicDeleted: self._topic_deleted,
            CoreHealed: self._core_healed,
            HostStarted: self._started,
            HostDown: self._down,
            HostPaused: self._stands_still,
            HostResumed: self._goes_on,
            GroupBecame: self._became,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            GroupUnloaded: self._unloaded,
            MemberBecame: self._member_became,
            MemberFailed: self._member_failed,
            ThreadReplaced: self._thread_replaced,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._lost,
            NodeWritten: self._node_written,
            BecameLeader: self._leads,
            BecameFollower: self._follows,
            ReplicaStopped: self._stopped,
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """What takes facts of a type (``facts.handlers_of``)."""
        handlers = tuple([part[kind] for part in self._parts() if kind in part])
        own = (*handlers, self._take) if kind in self._on else handlers
        after = self.interruptions.on.get(kind)
        return own if after is None else (*own, after)

    def _parts(self) -> tuple[dict[type, Callable[[Seen, Any], None]], ...]:
        """What the parts take, in their order."""
        of_groups = (self.coordinators, self.logs, self.ranges, self.commits, self.progress, self.forgotten_rebalances)
        others = (
            self.unknown_isrs,
            self.min_insync,
            self.disturbances,
            self.readable,
            self.applications,
            self.memberships,
        )
        return tuple(part.on for part in (self.former, self.copies, *of_groups, *others))

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)

    def _take(self, seen: Seen, fact: Any) -> None:
        self.now = seen
        self.gained, self.given_up, self.ended, self.left = [], [], [], None
        self.began, self.ceased, self.ran_already = [], [], False
        self.written, self.state_before, self.written_topic, self.replicas_changed = None, None, "", {}
        self.was_elected = False
        self.led = []
        self._on[type(fact)](seen, fact)

    # --- what readers ask --------------------------------------------------------------------------------------

    def holding(self, seen: Seen) -> Holding:
        """The life of the member whose fact this is; one that nothing was heard of owns nothing."""
        holding = self.holdings.get(seen.actor)
        if holding is None or holding.life != seen.life:
            return Holding(seen.actor, seen.life, seen.fact.group)
        return holding

    def is_current(self, seen: Seen) -> bool:
        """Whether a fact about a group comes from its coordinator.

        A broker that stood still while its partition moved on may act on old mail before it learns so, one that hears
        nothing of its successor works on. Such a zombie's facts are about a group that counts for nobody else; rules
        on the group's truth do not apply to them.
        """
        group = self.groups.get(seen.fact.group)
        if group is None or group.coordinator == seen.actor:
            return True
        return not group.coordinator and not self.coordinators.is_deposed(seen.actor, self.log_of(seen.fact.group))

    def asks_deposed(self, seen: Seen) -> bool:
        """Whether the member whose fact this is asks a coordinator that has a successor already."""
        asked = self.coordinators.asked_by(seen.actor)
        return bool(asked) and self.coordinators.is_deposed(asked, self.log_of(seen.fact.group))

    def log_of(self, group: GroupId) -> TopicPartition | None:
        """The partition that a group's log is in, where brokers replicate."""
        count = sum(1 for topic, _ in self.assigned if topic == OFFSETS_TOPIC)
        return (OFFSETS_TOPIC, offsets_partition_of(group, count)) if count else None

    def runs(self, host: str) -> bool:
        """Whether a host has been started and is not down; it may stand still."""
        known = self.hosts.get(host)
        return known is not None and known.runs

    def is_down(self, host: str) -> bool:
        """Whether a host that was started does not run any more."""
        known = self.hosts.get(host)
        return known is not None and not known.runs

    def is_out(self, host: str) -> bool:
        """Whether a host that was started is down, stands still, or stays away."""
        known = self.hosts.get(host)
        return known is not None and (known.paused or not known.runs or host in self.away)

    def is_paused(self, host: str) -> bool:
        """Whether a host stands still."""
        return host in self._paused

    def running_members(self, group: GroupId) -> list[ActorName]:
        """Members of a group that neither closed nor failed in this life, whose host runs and does not stay away."""
        known = self.groups.get(group)
        if known is None:
            return []
        running = sorted(actor for actor in known.members if actor not in self._departed and self.runs(host_of(actor)))
        return [actor for actor in running if host_of(actor) not in self.away] if self.away else running

    # --- hosts -------------------------------------------------------------------------------------------------

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self.topics.update(fact.topics)
        for host, group in fact.members:
            self._group(group).members[host] = None

    def _member_added(self, seen: Seen, fact: MemberHostAdded) -> None:
        self._group(fact.group).members[fact.host] = None

    def _grown(self, seen: Seen, fact: TopicGrown) -> None:
        self.topics[fact.topic] = fact.partitions
        self._deleted.pop(fact.topic, None)

    def _topic_deleted(self, seen: Seen, fact: TopicDeleted) -> None:
        self._deleted[fact.topic] = None

    def topics_there(self) -> list[str]:
        """Topics that were not deleted."""
        return [topic for topic in self.topics if topic not in self._deleted]

    def _core_healed(self, seen: Seen, fact: CoreHealed) -> None:
        self.away, self.unrecoverable = frozenset(fact.away), fact.unrecoverable
        self.core_healed_us = seen.at_us if self.core_healed_us is None else self.core_healed_us

    def _host(self, name: str) -> WatchedHost:
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = WatchedHost()
        return host

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        host = self._host(fact.host)
        self.ran_already = host.runs
        host.life, host.runs, host.paused = fact.life, True, False
        self._paused.discard(fact.host)
        self._forget(fact.host)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        host = self._host(fact.host)
        host.runs = host.paused = False
        self._forget(fact.host)
        self._paused.discard(fact.host)
        for group in self.groups.values():
            if group.coordinator and host_of(group.coordinator) == fact.host:
                group.coordinator = ""
        for key in [key for key in self.roles if host_of(key[0]) == fact.host]:
            del self.roles[key]
        self.led = self._led_by(fact.host)
        for at in self.led:
            del self.leaders[at]

    def _forget(self, host: str) -> None:
        """Whoever lived on it lives no more."""
        for actor in [actor for actor in self.holdings if host_of(actor) == host]:
            self._end(actor)
        for actor in [actor for actor in self._departed if host_of(actor) == host]:
            del self._departed[actor]

    def _stands_still(self, seen: Seen, fact: HostPaused) -> None:
        self._host(fact.host).paused = True
        self._paused.add(fact.host)
        for holding in self._on_host(fact.host):
            if not holding.paused:
                self._cease(holding, holding.owned)
                holding.paused = True
        self.led = self._led_by(fact.host)

    def _goes_on(self, seen: Seen, fact: HostResumed) -> None:
        self._host(fact.host).paused = False
        self._paused.discard(fact.host)
        for holding in self._on_host(fact.host):
            if holding.paused:
                holding.paused = False
                self._begin(holding, holding.owned)
        self.led = self._led_by(fact.host)

    def _on_host(self, host: str) -> list[Holding]:
        return [holding for actor, holding in self.holdings.items() if host_of(actor) == host]

    # --- groups ------------------------------------------------------------------------------------------------

    def _group(self, name: GroupId) -> WatchedGroup:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = WatchedGroup()
        return group

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        group = self._group(fact.group)
        # one that only lets go of it may be the last to hear that another has it
        if fact.new != "Dead" and not self.coordinators.is_deposed(seen.actor, self.log_of(fact.group)):
            fresh = fact.old == "Empty" and (group.state == "Dead" or not group.proven)
            if not group.coordinator or fresh:
                group.coordinator = seen.actor
        if group.coordinator == seen.actor:
            group.state, group.loaded = fact.new, True
            anew = fact.old == "Empty" and not fact.generation  # whatever was in a log is not there any more
            group.proven = fact.new != "Dead" and ((group.proven and not anew) or fact.new == "Stable")
            log = self.log_of(fact.group) if fact.new == "Stable" else None
            if log is not None:
                group.remember(fact.generation, group.begun_at, self.logs.of(log).records.end)

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        group = self._group(fact.group)
        if not group.coordinator and not self.coordinators.is_deposed(seen.actor, self.log_of(fact.group)):
            group.coordinator = seen.actor
        log = self.log_of(fact.group)
        if log is not None and group.coordinator == seen.actor:
            group.begun_at = self.logs.of(log).records.end

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.coordinator, group.state, group.loaded, group.proven = seen.actor, fact.state, True, True
        log = self.log_of(fact.group)
        if log is not None and fact.generation and all(fact.generation != each[0] for each in group.remembered):
            # it was written for a coordinator that never learned of that, and it may be lost again
            group.remember(fact.generation, 0, self.logs.of(log).records.end)

    def _unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        group = self._group(fact.group)
        if group.coordinator == seen.actor:
            group.coordinator, group.loaded = "", False

    # --- members -----------------------------------------------------------------------------------------------

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        if seen.actor not in self._spoke:
            self._spoke[seen.actor] = None
            host, members = host_of(seen.actor), self._group(fact.group).members
            if host != seen.actor and host not in self._spoke:
                members.pop(host, None)  # it stood for those who live there
            members[seen.actor] = None
        if fact.new in ("CLOSED", "FAILED"):
            self._leave(seen)

    def _thread_replaced(self, seen: Seen, fact: ThreadReplaced) -> None:
        """A new one of the same name has nothing yet."""
        actor = part_on(fact.instance, fact.thread)
        self._departed.pop(actor, None)
        if actor in self.holdings:
            self._end(actor)

    def _member_failed(self, seen: Seen, fact: MemberFailed) -> None:
        self._leave(seen)

    def _leave(self, seen: Seen) -> None:
        self._departed[seen.actor] = None
        holding = self.holdings.get(seen.actor)
        if holding is not None and not holding.has_left and holding.life == seen.life:
            self._cease(holding, holding.owned)
            holding.has_left = True
            self.left = holding

    def _alive(self, seen: Seen) -> Holding:
        """The life of the member whose callback this is; a new one begins with nothing."""
        holding = self.holdings.get(seen.actor)
        if holding is None or holding.life != seen.life:
            if holding is not None:
                self._end(seen.actor)
            holding = self.holdings[seen.actor] = Holding(seen.actor, seen.life, seen.fact.group)
            holding.paused = host_of(seen.actor) in self._paused
        return holding

    def _end(self, actor: ActorName) -> None:
        holding = self.holdings.pop(actor)
        self._cease(holding, holding.owned)
        self.ended.append(holding)

    def _begin(self, holding: Holding, partitions: Iterable[TopicPartition]) -> None:
        if not (holding.paused or holding.has_left):
            self.began += [(holding.group, partition) for partition in partitions]

    def _cease(self, holding: Holding, partitions: Iterable[TopicPartition]) -> None:
        if not (holding.paused or holding.has_left):
            self.ceased += [(holding.group, partition) for partition in partitions]

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        holding = self._alive(seen)
        holding.member_id = fact.member_id
        holding.generation = fact.generation
        holding.received = frozenset(fact.partitions)
        self.took[fact.group, fact.member_id] = holding

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        holding = self._alive(seen)
        holding.assignment = holding.received
        owned = holding.owned
        self.gained = [partition for partition in fact.added if partition not in owned]
        owned.update(dict.fromkeys(self.gained))
        self._begin(holding, self.gained)

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        self._give_up(seen, fact.revoked)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        self._give_up(seen, tuple(self._alive(seen).owned))

    def _give_up(self, seen: Seen, partitions: tuple[TopicPartition, ...]) -> None:
        holding = self._alive(seen)
        owned = holding.owned
        self.given_up = [partition for partition in partitions if partition in owned]
        for partition in self.given_up:
            del owned[partition]
        self._cease(holding, self.given_up)

    # --- the store ---------------------------------------------------------------------------------------------

    def _node_written(self, seen: Seen, fact: NodeWritten) -> None:
        deleted = fact.what == "deleted"
        at = partition_of_state(fact.path)
        if at is not None:
            self.written = at
            self._state_written(at, None if deleted else read_state(fact.data))
        elif topic := topic_of(fact.path):
            self.written_topic = topic
            if deleted:
                self.assigned = {at: replicas for at, replicas in self.assigned.items() if at[0] != topic}
            else:
                self._replicas_written(topic, read_topic(fact.data))
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            broker = int(fact.path.rpartition("/")[2])
            if deleted:
                self.registered.pop(broker, None)
            else:
                self.registered[broker] = None

    def _state_written(self, at: TopicPartition, state: PartitionState | None) -> None:
        self.state_before = before = self.states.get(at)
        if state is None:
            self.states.pop(at, None)
            self.leaders.pop(at, None)
            self.logs.deleted(at)
            self.progress.deleted(at)
            self.coordinators.deleted(at)
            self.former.deleted(at, [actor for actor, where in self.roles if where == at])
            return
        self.states[at] = state
        self.was_elected = before is not None and state.leader_epoch > before.leader_epoch
        if before is not None and before.leader != state.leader:
            self.leaders.pop(at, None)
            self.led = [at]

    def _replicas_written(self, topic: str, assignments: dict[int, ReplicaAssignment]) -> None:
        """The node has all partitions of the topic. A controller may write it without those that it has not read yet
        (``KafkaController.updateReplicaAssignmentForPartition`` 3.4): the topic does not have these then.
        """
        for at in [at for at in self.assigned if at[0] == topic and at[1] not in assignments]:
            del self.assigned[at]
        if topic in self.topics:
            self.topics[topic] = len(assignments)
        for number, assignment in assignments.items():
            at = (topic, number)
            before = self.assigned.get(at)
            if before is None or before.replicas != assignment.replicas:
                self.replicas_changed[at] = () if before is None else before.replicas
            self.assigned[at] = assignment

    # --- brokers -----------------------------------------------------------------------------------------------

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        self.roles[seen.actor, at] = (fact.leader_epoch, True)
        if fact.topic == OFFSETS_TOPIC:
            self._depose(at)
            for first, last, _ in self.logs.lost:
                self._forget_generations(at, first, last)
            if self.logs.truncated_at is not None:
                self._forget_generations(at, self.logs.of(at).records.end, sys.maxsize)
        state = self.states.get(at)
        # A broker that learns late of an office it has lost leads nobody.
        if state is not None and broker_host(state.leader) == seen.actor and fact.leader_epoch <= state.leader_epoch:
            self.leaders[at] = seen.actor
            self.led = [at]

    def _depose(self, log: TopicPartition) -> None:
        """Whoever coordinated groups of this log and was not told so yet does it no more."""
        for name, group in self.groups.items():
            if group.coordinator and self.coordinators.is_deposed(group.coordinator, log) and self.log_of(name) == log:
                group.coordinator, group.loaded = "", False

    def _forget_generations(self, log: TopicPartition, first: int, end: int) -> None:
        """The groups' log has not, or may not have, what it told of generations there."""
        for name, group in self.groups.items():
            if self.log_of(name) == log:
                group.forget(first, end)

    def _follows(self, seen: Seen, fact: BecameFollower) -> None:
        at = (fact.topic, fact.partition)
        self.roles[seen.actor, at] = (fact.leader_epoch, False)
        self._leads_no_more(seen, at)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        at = (fact.topic, fact.partition)
        self.roles.pop((seen.actor, at), None)
        self._leads_no_more(seen, at)

    def _leads_no_more(self, seen: Seen, at: TopicPartition) -> None:
        if self.leaders.get(at) == seen.actor:
            del self.leaders[at]
            self.led = [at]

    def _led_by(self, host: str) -> list[TopicPartition]:
        return [at for at, actor in self.leaders.items() if host_of(actor) == host]
