"""The panel: one shared view of owners, coordinators, leaders and running hosts.

The panel is computed from facts alone. The panel takes each fact once, before the checkers, metrics, costs and reports
that read the panel. So each reader keeps only the state of its own rule or figure. The panel also records the changes
by the last fact (``gained``, ``ceased``, ``led``, ...).

A member is identified by its actor, not by its host. One host may run several members, and a pause or a power cut of
the host hits all its members.

A member *owns* a partition from its assigned callback until its revoked or lost callback. A member *serves* its
partitions unless its host is paused, or the member has closed or failed for good.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kemu.actors.controller.phases import PartitionPhase
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
    kind_of,
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
from kemu.emulator.watching.topic_names import TopicNames
from kemu.emulator.watching.unknown_isrs import UnknownIsrs
from kemu.emulator.watching.unknown_states import UnknownStates
from kemu.protocol.names import (
    OFFSETS_TOPIC,
    ActorName,
    GroupId,
    MemberId,
    TopicPartition,
    broker_host,
    host_of,
    is_real_client,
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
    MemberAdded,
    MemberBecame,
    MemberFailed,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    NodeWritten,
    PartitionStateBecame,
    ReplicaStopped,
)
from kemu.protocol.notes.streams import ThreadReplaced

Service = tuple[GroupId, TopicPartition]


class Holding:
    """One life of one member: assignments and owned partitions."""

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
        """The last received assignment; None before the first assignment of this life."""
        self.assignment: frozenset[TopicPartition] | None = None
        """The last assignment that the member adopted. A member does not adopt an assignment with topics outside its
        present subscription."""
        self.owned: dict[TopicPartition, None] = {}
        """Owned partitions, in the order of their assignment."""
        self.has_left = False
        """Whether the member closed or failed for good."""
        self.paused = False
        """Whether the member's host is paused."""


class WatchedGroup:
    """A group as its coordinator reports it."""

    __slots__ = ("begun_at", "coordinator", "forgotten", "loaded", "members", "proven", "remembered", "state")

    def __init__(self) -> None:
        self.coordinator: ActorName = ""
        """The group's coordinator; "" for an unknown coordinator."""
        self.state = "Empty"
        """The last state that a coordinator reported."""
        self.loaded = True
        """False from the time the coordinator unloads the group until another coordinator reports the group."""
        self.proven = False
        """Whether the group was Stable or loaded from a log, so that every later coordinator knows the group."""
        self.members: dict[ActorName, None] = {}
        self.begun_at = 0
        """The end of the group's log when the last join phase completed (replicated brokers only)."""
        self.remembered: list[tuple[int, int, int]] = []
        """Generations that became Stable or were loaded, as (generation, first, last + 1) with the log offsets of their
        record (replicated brokers only)."""
        self.forgotten: dict[int, None] = {}
        """Remembered generations whose record the log has lost, or may have lost."""

    def remember(self, generation: int, first: int, end: int) -> None:
        """Note that the group's log has this generation in a record between these offsets."""
        self.remembered.append((generation, first, end))
        self.forgotten.pop(generation, None)

    def forget(self, first: int, end: int) -> None:
        """Forget the records of the group's log between these offsets."""
        self.begun_at = min(self.begun_at, first)
        lost = [generation for generation, begin, behind in self.remembered if behind > first and begin < end]
        if lost:
            self.remembered = [each for each in self.remembered if each[0] not in lost]
            self.forgotten.update(dict.fromkeys(lost))
            self.proven = bool(self.remembered)  # A later coordinator does not load a group without a remaining record.


class WatchedHost:
    """A host that has been started at least once."""

    __slots__ = ("life", "paused", "runs")

    def __init__(self) -> None:
        self.life = 0
        self.runs = False
        self.paused = False


class Panel:
    """Owners, coordinators, leaders and running hosts at the present step. Call ``see`` with each fact in order, before
    the panel's readers.
    """

    def __init__(self) -> None:
        self.now: Seen | None = None
        """The last fact that the panel took."""
        self.hosts: dict[str, WatchedHost] = {}
        self._deleted: dict[str, None] = {}
        self.topics: dict[str, int] = {}
        """Topic that clients use -> number of partitions."""
        self.groups: dict[GroupId, WatchedGroup] = {}
        self.holdings: dict[ActorName, Holding] = {}
        """Actor -> the present life of the member, from its first assignment on."""
        self.took: dict[tuple[GroupId, MemberId], Holding] = {}
        """(group, member id) -> life that received an assignment under the id, including ended lives."""
        self.states: dict[TopicPartition, PartitionState] = {}
        """Leader, epochs and ISR of each partition in the metadata store."""
        self.assigned: dict[TopicPartition, ReplicaAssignment] = {}
        """Replicas of each partition in the metadata store."""
        self._offsets_partitions = 0
        """Number of partitions of ``__consumer_offsets`` in the metadata store."""
        self.registered: dict[int, None] = {}
        """Broker ids with a registration in the store."""
        self.roles: dict[tuple[ActorName, TopicPartition], tuple[int, bool]] = {}
        """(broker, partition) -> (leader epoch in which the broker hosts the partition, whether it leads)."""
        self.leaders: dict[TopicPartition, ActorName] = {}
        """Partition -> leader: the broker was elected by the store, became leader, and was neither deposed nor down
        since."""
        self._add_parts()
        self.away: frozenset[str] = frozenset()
        """Hosts that stay down or isolated until the end of the run. No rule waits for these hosts."""
        self.unrecoverable: tuple[str, ...] = ()
        """Reasons why the core cannot recover, one per partition."""
        self.core_healed_us: int | None = None
        """Time at which only a core of the hosts was healed, in us."""
        # The changes by the last fact. The next fact clears these attributes.
        self.gained: list[TopicPartition] = []
        """Partitions that the member of the last fact newly owns."""
        self.given_up: list[TopicPartition] = []
        """Partitions that the member of the last fact no longer owns."""
        self.ended: list[Holding] = []
        """Lives of members that ended with the last fact."""
        self.left: Holding | None = None
        """The member that closed or failed permanently with the last fact; None without such a member."""
        self.served: list[Service] = []
        """Partitions that a member serves from the last fact on, one entry per member and partition."""
        self.ceased: list[Service] = []
        """Partitions that a member no longer serves from the last fact on, one entry per member and partition."""
        self.was_running = False
        """Whether the last fact restarted a running host."""
        self.written: TopicPartition | None = None
        """The partition whose state the last fact changed in the store."""
        self.state_before: PartitionState | None = None
        """The former state of ``written``; None without a former state."""
        self.was_elected = False
        """Whether the state of ``written`` has a new leader epoch: the controller elected a leader.
        """
        self.written_topic = ""
        """The topic whose assignment the last fact changed in the store."""
        self.replicas_changed: dict[TopicPartition, tuple[int, ...]] = {}
        """Partition whose replicas the last fact changed -> former replicas."""
        self.led: list[TopicPartition] = []
        """Partitions whose leader was elected, stopped, paused or resumed with the last fact."""
        self._paused: set[str] = set()
        self._spoke: dict[ActorName, None] = {}
        """Members that have reported at least one fact."""
        self._departed: dict[ActorName, None] = {}
        self.continues: dict[type, Callable[[int, ActorName, Sequence[Any]], Sequence[Any]]] = {
            Processed: self.progress.continues,
            RecordsAcknowledged: self.progress.continues_acknowledging,
            RecordsAppended: self.logs.continues,
        }
        """Type of a fact -> a function of a time, an actor and its facts. The function takes the first facts that only
        continue an account, and returns the other facts."""
        self._on = self._handlers()

    def _add_parts(self) -> None:
        """Create the parts of the panel."""
        self.former = FormerLives(self.states)
        """Brokers that host a partition of a deleted topic."""
        self.coordinators = Coordinators(self.states)
        """The coordinator of each group, and the coordinator that each member asks."""
        self.copies = Copies()
        """Each broker's copy of each partition."""
        self.logs = WatchedLogs(self.copies, self.former)
        """The records in the logs, and the records that members read."""
        self.topic_names = TopicNames()
        """The names of topics by id."""
        self.commits = GroupCommits(self.logs, self.is_current, self.log_of, self.topic_names)
        """The committed offsets of groups."""
        self.ranges = WatchedRanges(self.logs, self.commits, self.is_current, self.log_of)
        """The two commit logs of groups in KIP-333's mode."""
        self.progress = WatchedProgress(self.logs, self.commits, self.ranges, self.topic_names)
        """The progress of groups: records processed, skipped and committed."""
        self.memberships = Memberships(self.is_current)
        """The members of each group, as the coordinator knows them."""
        self.forgotten_rebalances = ForgottenRebalances(self.holdings)
        """Withheld partitions that no rebalance will assign."""
        self.unknown_isrs = UnknownIsrs(self.states)
        """ISRs in the store that the controller wrote and does not know."""
        self.unknown_states = UnknownStates()
        """Partitions whose first state the controller wrote and does not know."""
        self.min_insync = MinInsync(lambda: self.assigned)
        """``min.insync.replicas`` of each partition."""
        self.disturbances = Disturbances()
        """Hosts and links that faults hit."""
        self.readable = ReadableEnds(self.logs)
        """The end of each partition that readers can learn."""
        self.applications = WatchedApplications(self.logs, self.readable, self.progress)
        """Streams applications: instances, and copies of tasks."""
        self.interruptions = Interruptions(self)
        """The causes for which partitions are without service."""

    def _handlers(self) -> dict[type, Callable[[Seen, Any], None]]:
        return {
            RunStarted: self._run_started,
            MemberHostAdded: self._member_added,
            TopicGrown: self._grown,
            PartitionStateBecame: self._partition_became,
            CoreHealed: self._core_healed,
            HostStarted: self._started,
            HostDown: self._down,
            HostPaused: self._host_paused,
            HostResumed: self._host_resumed,
            GroupBecame: self._became,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            GroupUnloaded: self._unloaded,
            MemberBecame: self._member_became,
            MemberFailed: self._member_failed,
            MemberAdded: self._entered,
            MemberRemoved: self._removed,
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
        """The handlers of facts of a type (``facts.handlers_of``)."""
        handlers = tuple([part[kind] for part in self._parts() if kind in part])
        own = (*handlers, self._take) if kind in self._on else handlers
        after = self.interruptions.on.get(kind)
        return own if after is None else (*own, after)

    def _parts(self) -> tuple[dict[type, Callable[[Seen, Any], None]], ...]:
        """The handlers of the panel's parts, in their order."""
        of_groups = (self.coordinators, self.logs, self.ranges, self.commits, self.progress, self.forgotten_rebalances)
        others = (
            self.unknown_isrs,
            self.unknown_states,
            self.min_insync,
            self.disturbances,
            self.readable,
            self.applications,
            self.memberships,
        )
        return tuple(part.on for part in (self.former, self.copies, self.topic_names, *of_groups, *others))

    def see(self, seen: Seen) -> None:
        """Update the panel with one fact."""
        for handler in self.handlers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    def _take(self, seen: Seen, fact: Any) -> None:
        self.now = seen
        self.gained, self.given_up, self.ended, self.left = [], [], [], None
        self.served, self.ceased, self.was_running = [], [], False
        self.written, self.state_before, self.written_topic, self.replicas_changed = None, None, "", {}
        self.was_elected = False
        self.led = []
        self._on[type(fact)](seen, fact)

    # --- queries -------------------------------------------------------------------------------------------------

    def holding(self, seen: Seen) -> Holding:
        """The life of the member that reported this fact; an empty holding for an unknown life."""
        holding = self.holdings.get(seen.actor)
        if holding is None or holding.life != seen.life:
            return Holding(seen.actor, seen.life, seen.fact.group)
        return holding

    def is_current(self, seen: Seen) -> bool:
        """Whether the group's current coordinator reported a fact about a group.

        A broker that was paused while its partition moved may process old messages before it learns of the move. A
        broker that is isolated from its successor continues to work. Rules about the group ignore the facts of such a
        zombie. After a group was deleted, the next group of this name may be at another coordinator.
        """
        group = self.groups.get(seen.fact.group)
        if group is None or group.coordinator == seen.actor:
            return True
        has_none = not group.coordinator or group.state == "Dead"
        return has_none and not self.coordinators.is_deposed(seen.actor, self.log_of(seen.fact.group))

    def asks_deposed(self, seen: Seen) -> bool:
        """Whether the member of this fact asks a deposed coordinator."""
        asked = self.coordinators.asked_by(seen.actor)
        return bool(asked) and self.coordinators.is_deposed(asked, self.log_of(seen.fact.group))

    def log_of(self, group: GroupId) -> TopicPartition | None:
        """The partition with a group's log; None if brokers do not replicate."""
        count = self._offsets_partitions
        return (OFFSETS_TOPIC, offsets_partition_of(group, count)) if count else None

    def runs(self, host: str) -> bool:
        """Whether a host has been started and is not down. A paused host runs, too."""
        known = self.hosts.get(host)
        return known is not None and known.runs

    def is_down(self, host: str) -> bool:
        """Whether a host that was started is down now."""
        known = self.hosts.get(host)
        return known is not None and not known.runs

    def is_out(self, host: str) -> bool:
        """Whether a host that was started is down, paused, or in ``away``."""
        known = self.hosts.get(host)
        return known is not None and (known.paused or not known.runs or host in self.away)

    def is_paused(self, host: str) -> bool:
        """Whether a host is paused."""
        return host in self._paused

    def running_members(self, group: GroupId) -> list[ActorName]:
        """Members of a group that neither closed nor failed in this life, on running hosts outside ``away``."""
        known = self.groups.get(group)
        if known is None:
            return []
        running = sorted(actor for actor in known.members if actor not in self._departed and self.runs(host_of(actor)))
        return [actor for actor in running if host_of(actor) not in self.away] if self.away else running

    def has_running_members(self, group: GroupId) -> bool:
        """Whether a group has a running member (``running_members``)."""
        known = self.groups.get(group)
        return known is not None and any(
            actor not in self._departed and self.runs(host) and host not in self.away
            for actor in known.members
            for host in (host_of(actor),)
        )

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

    def _partition_became(self, seen: Seen, fact: PartitionStateBecame) -> None:
        if fact.new == PartitionPhase.NON_EXISTENT.value:
            self._deleted[fact.topic] = None

    def topics_there(self) -> list[str]:
        """Topics in metadata: without a topic whose deletion began, even if it waits for absent brokers.

        Source: ``TopicDeletionManager.onTopicDeletion`` (3.9).
        """
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
        self.was_running = host.runs
        host.life, host.runs, host.paused = fact.life, True, False
        self._paused.discard(fact.host)
        self._end_lives(fact.host)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        host = self._host(fact.host)
        host.runs = host.paused = False
        self._end_lives(fact.host)
        self._paused.discard(fact.host)
        for group in self.groups.values():
            if group.coordinator and host_of(group.coordinator) == fact.host:
                group.coordinator = ""
        for key in [key for key in self.roles if host_of(key[0]) == fact.host]:
            del self.roles[key]
        self.led = self._led_by(fact.host)
        for at in self.led:
            del self.leaders[at]

    def _end_lives(self, host: str) -> None:
        """End the lives of the members on this host."""
        for actor in [actor for actor in self.holdings if host_of(actor) == host]:
            self._end(actor)
        for actor in [actor for actor in self._departed if host_of(actor) == host]:
            del self._departed[actor]

    def _host_paused(self, seen: Seen, fact: HostPaused) -> None:
        self._host(fact.host).paused = True
        self._paused.add(fact.host)
        for holding in self._on_host(fact.host):
            if not holding.paused:
                self._cease(holding, holding.owned)
                holding.paused = True
        self.led = self._led_by(fact.host)

    def _host_resumed(self, seen: Seen, fact: HostResumed) -> None:
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
        # A broker that only unloads the group may learn of its successor last.
        if fact.new != "Dead" and not self.coordinators.is_deposed(seen.actor, self.log_of(fact.group)):
            fresh = fact.old == "Empty" and (group.state == "Dead" or not group.proven)
            if not group.coordinator or fresh:
                group.coordinator = seen.actor
        if group.coordinator == seen.actor:
            group.state, group.loaded = fact.new, True
            is_new_group = fact.old == "Empty" and not fact.generation  # the records of the former group are deleted
            group.proven = fact.new != "Dead" and ((group.proven and not is_new_group) or fact.new == "Stable")
            log = self.log_of(fact.group) if fact.new == "Stable" else None
            if log is not None:
                end = self.logs.of(log).records.end
                # A group of the consumer protocol may become Stable before its records are in the log.
                group.remember(fact.generation, group.begun_at, end if end > group.begun_at else sys.maxsize)

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
            # The coordinator never learned that this record was written, and the log may lose the record later.
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
                members.pop(host, None)  # The threads of the host replace the host as members.
            members[seen.actor] = None
        if fact.new in ("CLOSED", "FAILED"):
            self._leave(seen)

    def _thread_replaced(self, seen: Seen, fact: ThreadReplaced) -> None:
        """End the life of a replaced thread; the new thread with the same name owns nothing yet."""
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
        """The life of the member that reported this callback; a new life owns nothing."""
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
            self.served += [(holding.group, partition) for partition in partitions]

    def _cease(self, holding: Holding, partitions: Iterable[TopicPartition]) -> None:
        if not (holding.paused or holding.has_left):
            self.ceased += [(holding.group, partition) for partition in partitions]

    def _entered(self, seen: Seen, fact: MemberAdded) -> None:
        """Watch a group that only real clients join, which no scenario names."""
        self._group(fact.group)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        """End a real client's member. Its process may have ended, and reports nothing."""
        holding = self.took.get((fact.group, fact.member_id)) if is_real_client(fact.client_id) else None
        if holding is not None and self.holdings.get(holding.actor) is holding:
            self._end(holding.actor)

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
            if topic == OFFSETS_TOPIC:
                self._offsets_partitions = sum(1 for name, _ in self.assigned if name == topic)
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
        """Update the replicas of all partitions of a topic.

        A controller may write the node without partitions that it has not read yet
        (``KafkaController.updateReplicaAssignmentForPartition`` 3.4). In this case the topic loses these partitions.
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
        # A broker that learns of its election after a later election leads no partition.
        if state is not None and broker_host(state.leader) == seen.actor and fact.leader_epoch <= state.leader_epoch:
            self.leaders[at] = seen.actor
            self.led = [at]

    def _depose(self, log: TopicPartition) -> None:
        """Remove deposed coordinators of this log's groups, even if the coordinator does not know its successor yet."""
        for name, group in self.groups.items():
            if group.coordinator and self.coordinators.is_deposed(group.coordinator, log) and self.log_of(name) == log:
                group.coordinator, group.loaded = "", False

    def _forget_generations(self, log: TopicPartition, first: int, end: int) -> None:
        """Forget generations with a record between these offsets, which the groups' log has lost or may have lost."""
        for name, group in self.groups.items():
            if self.log_of(name) == log:
                group.forget(first, end)

    def _follows(self, seen: Seen, fact: BecameFollower) -> None:
        at = (fact.topic, fact.partition)
        self.roles[seen.actor, at] = (fact.leader_epoch, False)
        self._stop_leading(seen, at)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        at = (fact.topic, fact.partition)
        self.roles.pop((seen.actor, at), None)
        self._stop_leading(seen, at)

    def _stop_leading(self, seen: Seen, at: TopicPartition) -> None:
        if self.leaders.get(at) == seen.actor:
            del self.leaders[at]
            self.led = [at]

    def _led_by(self, host: str) -> list[TopicPartition]:
        return [at for at, actor in self.leaders.items() if host_of(actor) == host]
