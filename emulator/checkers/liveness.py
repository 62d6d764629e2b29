"""After the faults end, every group comes to rest and goes on working within a bound. Safety first, then liveness.

===================  =================================================================================================
kind                 obligation, from ``Healed`` on
===================  =================================================================================================
not-at-rest          at some moment the group is Stable, and running members own each partition of its topics once
nothing-processed    some records of each partition where records waited are processed; a partition that changed hands
                     in the second half of the bound is exempt in a group that works
member-failed        no member fails for good, at any time; an error that the plan injected excuses one failure by it
forgotten-instance   not-at-rest or member-failed in a way of Kafka's own: see ``findings.STANDS_STILL``
to untold-coordinator
===================  =================================================================================================

A host that starts or goes down, a topic that grows and a plan's entry start the bound again. So does, for its group, a
leader that hears late of partitions: their metadata may be ``metadata.max.age.ms`` old (Kafka 3.4
``ControllerBrokerRequestBatch.addUpdateMetadataRequestForBrokers``). "At some moment": members slower than
``max.poll.interval.ms`` rebalance for ever. After ``CoreHealed`` the members of the core alone count.

Before the healing ``group-progress`` demands as much of all whom no fault hits.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    CoreHealed,
    FaultApplied,
    Handler,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    MemberHostAdded,
    RunStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.findings import (
    FORGOTTEN_INSTANCE,
    FORGOTTEN_REBALANCE,
    MEMBER_FAILED,
    UNHEARD_ISR,
    UNTOLD_COORDINATOR,
)
from kemu.emulator.watching.panel import Holding
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, TopicPartition, broker_host, broker_of, host_of
from kemu.protocol.notes.groups import (
    AnswerInjected,
    AssignmentReceived,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    MemberAdded,
    MemberBecame,
    MemberFailed,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import RangeProcessed
from kemu.protocol.notes.replication import BecameLeader, MetadataCached
from kemu.protocol.topic_pattern import TopicPattern

REFUSED_BY: Mapping[ErrorCode, str] = {
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside group.min.session.timeout.ms and "
    "group.max.session.timeout.ms of the brokers",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has group.max.size members already, as the brokers have it",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "its partition.assignment.strategy has nothing in common with the group's, "
    "or its protocol type is another (stream.rebalancing.mode)",
}
"""Errors by which members learn that a setting is refused, and which one that is."""
DEFAULT_BOUND_US = 45_000_000 + 300_000_000 + 60_000_000
"""Kafka 3.9's session.timeout.ms and max.poll.interval.ms, and a minute for everything else."""
_NEVER_US = 1 << 62
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")


class _Group:
    def __init__(self) -> None:
        self.generation = -1
        """The newest generation somebody took an assignment of, and the topics in it."""
        self.topics: set[str] = set()
        self.assigned: set[TopicPartition] = set()
        """What is in the assignments of that generation that were taken."""
        self.heard_us = 0
        """When there was a newer generation than one that lacked partitions, or when its leader must have heard."""
        self.judged = False
        """It was, once for all."""
        self.since_us: dict[TopicPartition, int] = {}
        """When each partition was last added to what a member owns."""
        self.worked = False
        """Something was processed at any time."""
        self.works = False
        """Something was processed since the last disturbance."""
        self.owners: dict[TopicPartition, int] = {}
        """How many running members own each partition."""
        self.shared = 0
        """Partitions with more than one owner."""
        self.wrong = ""
        """What kept it from being at rest when it was looked at last. (The panel knows of the fact that brings the
        judgement already.)"""
        self.runs = False
        """Members of it ran then."""
        self.rested = False
        """Rule 1 held at some moment since the last disturbance."""
        self.reached: dict[TopicPartition, int] = {}
        self.waiting: dict[TopicPartition, int] = {}
        """Where each partition with records to process stood at the last disturbance, until it moves."""


class _Heard:
    """When clients have heard of partitions that brokers did not tell of at first.

    ``max_age_us``: how old their metadata may get; 0: nobody is waited for.
    """

    def __init__(self, max_age_us: int) -> None:
        self._max_age_us = max_age_us
        self._tells: dict[ActorName, dict[TopicPartition, None]] = {}
        """What each broker that runs tells clients of."""
        self._told_us: dict[TopicPartition, int] = {}
        """When the last broker began to."""

    def cached(self, broker: ActorName, at_us: int, fact: MetadataCached) -> None:
        """A broker's metadata cache has something else."""
        tells = self._tells.setdefault(broker, {})
        for at in fact.gone:
            tells.pop(at, None)
        for topic in fact.topics:
            for row in topic.partitions:
                at = topic.topic, row.partition
                if at not in tells:
                    tells[at] = None
                    self._told_us[at] = at_us

    def down(self, host: str) -> None:
        """A cache is gone with its broker."""
        self._tells.pop(host, None)

    def grown(self, at_us: int, fact: TopicGrown) -> None:
        """There are such partitions, if no broker told of them yet."""
        for number in range(fact.partitions):
            self._told_us.setdefault((fact.topic, number), at_us)

    def by_us(self, partitions: Iterable[TopicPartition]) -> int:
        """When all clients have heard of these; 0: of none of them is anybody told, or nobody is waited for."""
        told = [self._told_us[at] for at in partitions if at in self._told_us] if self._max_age_us else []
        return max(told) + self._max_age_us if told else 0


class Liveness(Checker):
    """After the faults end, groups get Stable and go on processing within the bound.

    ``topics``: by group, the topics it is subscribed to, or their pattern, for those who know. ``max_age_us``: how old
    the metadata of a group's leader may get; 0: no leader is waited for.
    """

    name = "liveness"

    def __init__(
        self,
        bound_us: int = DEFAULT_BOUND_US,
        topics: Mapping[str, Iterable[str] | TopicPattern] | None = None,
        *,
        max_age_us: int = 0,
    ) -> None:
        super().__init__()
        self.bound_us = bound_us
        self._heard = _Heard(max_age_us)
        self._given = {
            group: names if isinstance(names, TopicPattern) else frozenset(names)
            for group, names in (topics or {}).items()
        }
        self._groups: dict[str, _Group] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._deadline_us: int | None = None
        """When the bound is over; None before ``Healed`` and after the judgement."""
        self._judges_us = _NEVER_US
        """When it is judged next: then, or when a group that is waited for has had its time."""
        self._awaited = True
        """Judgement has yet to come."""
        self._last: Seen | None = None
        """The last fact of all."""
        self._static_since: dict[tuple[str, str], int] = {}
        """(group, id of a static member) -> where the group's log ended when the member got it."""
        self._forgotten: dict[tuple[str, str], None] = {}
        """Ids of static members that no record of the group's log has, or none any more."""
        self._unwritten: dict[tuple[str, str], int] = {}
        """(group, id of a static member) given in a rebalance that is not over -> the group's changes of coordinator
        by then. No record has the id yet: the coordinator that gave the id knows it, another one does not."""
        self._coordinator_changes: dict[str, int] = {}
        """Group -> how often a broker loaded the group or gave it up."""
        self._replaced: tuple[int, tuple[str, str]] | None = None
        """The last one that came into a Stable group, and in which step: written, unless that makes a rebalance."""
        self._answered: dict[tuple[ActorName, ErrorCode], None] = {}
        """Errors that a plan had servers answer to members, until a member fails by one or its host goes down."""
        self._killed: dict[str, str] = {}
        """Group -> the last failure of a member that the plan caused."""
        self.on = self._handlers()
        self.every = self._time_passes

    def _handlers(self) -> dict[type, Handler]:
        return {
            RunStarted: self._run_started,
            MemberHostAdded: self._member_added,
            HostStarted: self._disturbed,
            HostDown: self._down,
            HostPaused: self._disturbed,
            HostResumed: self._disturbed,
            TopicGrown: self._grown,
            MetadataCached: self._cached,
            FaultApplied: self._disturbed,
            CoreHealed: self._core_healed,
            Healed: self._healed,
            GroupBecame: self._became,
            GroupLoaded: self._became,
            GroupUnloaded: self._became,
            MemberBecame: self._member_became,
            MemberFailed: self._failed,
            MemberAdded: self._member_entered,
            BecameLeader: self._led,
            PartitionHosted: self._hosted,
            AnswerInjected: self._injected,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._callback,
            PartitionsRevoked: self._callback,
            PartitionsLost: self._callback,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._range_processed,
            RecordsAppended: self._appended,
        }

    def _time_passes(self, seen: Seen, fact: Any) -> None:
        """The first fact behind the deadline brings the judgement."""
        self._last = seen
        if seen.at_us > self._judges_us and self._deadline_us is not None:
            self._judge(seen)

    @property
    def satisfied(self) -> bool:
        """Whether all that is demanded has come about since the last disturbance; never before ``Healed``."""
        if self._deadline_us is None:
            return not self._awaited
        return all(
            group.judged or not self.panel.running_members(name) or not self._lacking(group)
            for name, group in self._groups.items()
        )

    @property
    def judges_at_us(self) -> int | None:
        """The bound after the last disturbance, such as the start of a host that was down when all was healed.

        Later, where a group lacks what its leader may not have heard of yet.
        """
        if self._deadline_us is None:
            return None
        waited_for = [
            self._due_us(name, group)
            for name, group in self._groups.items()
            if not group.judged and self._lacking(group) and self.panel.running_members(name)
        ]
        return max([self._deadline_us, *waited_for])

    def finish(self, at_us: int) -> None:
        """A run that lasted beyond the bound is judged; one that ended before is not."""
        if self._deadline_us is not None and at_us >= self._deadline_us:
            self._judge(Seen(self._last.seq if self._last else 0, at_us, "", 0, None))

    # --- what there is -----------------------------------------------------------------------------------------

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        for _, group in fact.members:
            self._group(group)

    def _member_added(self, seen: Seen, fact: MemberHostAdded) -> None:
        self._group(fact.group)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._count_ended()
        self._heard.down(fact.host)
        self._answered = {key: None for key in self._answered if host_of(key[0]) != fact.host}
        self._disturbed(seen, fact)

    # --- what clients hear ---------------------------------------------------------------------------------------

    def _cached(self, seen: Seen, fact: MetadataCached) -> None:
        self._heard.cached(seen.actor, seen.at_us, fact)

    def _grown(self, seen: Seen, fact: TopicGrown) -> None:
        self._heard.grown(seen.at_us, fact)
        self._disturbed(seen, fact)

    def _hears_by_us(self, name: str, group: _Group) -> int:
        """When its leader has heard of what nobody has in the newest generation; 0: all is in it, or there is none."""
        if group.generation < 0:
            return 0
        return self._heard.by_us(at for at in self._partitions_of(name, group) if at not in group.assigned)

    def _partitions_of(self, name: str, group: _Group) -> Iterator[TopicPartition]:
        counts = {topic: self.panel.topics.get(topic, 0) for topic in self._topics_of(name, group)}
        return ((topic, number) for topic, count in counts.items() for number in range(count))

    def _due_us(self, name: str, group: _Group) -> int:
        """When it is judged: when the bound is over, from when its leader had heard of all partitions, too."""
        assert self._deadline_us is not None
        if self.panel.unrecoverable:
            return self._deadline_us
        return max(self._deadline_us, max(group.heard_us, self._hears_by_us(name, group)) + self.bound_us)

    # --- groups ------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: GroupBecame | GroupLoaded | GroupUnloaded) -> None:
        group = self._group(fact.group)
        if not isinstance(fact, GroupBecame):
            self._coordinator_changes[fact.group] = self._coordinator_changes.get(fact.group, 0) + 1
        if self.panel.is_current(seen):
            self._look(fact.group, group)
            if isinstance(fact, GroupBecame):
                self._written_by(seen, fact)

    def _written_by(self, seen: Seen, fact: GroupBecame) -> None:
        """With the leader's assignment all its members are in the log; a rebalance puts that off."""
        if fact.new == "Stable":
            for key in [key for key in self._unwritten if key[0] == fact.group]:
                del self._unwritten[key]
        elif self._replaced is not None and self._replaced[0] == seen.seq and fact.old == "Stable":
            self._unwritten[self._replaced[1]] = self._coordinator_changes.get(fact.group, 0)

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        self._group(fact.group)
        if fact.new in ("CLOSED", "FAILED"):
            self._leave(seen, fact)

    def _leave(self, seen: Seen, fact: MemberBecame | MemberFailed) -> None:
        left = self.panel.left
        if left is not None and not self._is_away(left):
            self._count(self._group(left.group), left.owned, -1)
        self._disturbed(seen, fact)

    def _injected(self, seen: Seen, fact: AnswerInjected) -> None:
        self._answered[fact.sender, fact.error] = None

    def _failed(self, seen: Seen, fact: MemberFailed) -> None:
        said = (fact.error.name, fact.why, REFUSED_BY.get(fact.error, ""))
        why = "; ".join(dict.fromkeys(part for part in said if part))
        text = f"{seen.actor} of group {fact.group} failed for good: {why}"
        if self._plan_caused(seen.actor, fact.error):
            self._killed[fact.group] = f"{text}, as the plan asked"
        else:
            kind = FORGOTTEN_INSTANCE if self._is_forgotten(seen.actor, fact) else MEMBER_FAILED
            self.violation(seen, kind, (fact.group, seen.actor), text, liveness=True)
        self._leave(seen, fact)

    def _plan_caused(self, actor: ActorName, error: ErrorCode) -> bool:
        """Whether a fault of the plan that took effect on this member explains one failure of the member."""
        if (actor, error) not in self._answered:
            return False
        del self._answered[actor, error]
        return True

    def _member_entered(self, seen: Seen, fact: MemberAdded) -> None:
        if fact.instance_id is None:
            return
        key, log = (fact.group, fact.member_id), self.panel.log_of(fact.group)
        if not self.panel.is_current(seen):
            self._forgotten[key] = None
            return
        if self.panel.groups[fact.group].state != "Stable":
            self._unwritten[key] = self._coordinator_changes.get(fact.group, 0)
        else:
            self._replaced = seen.seq, key
        if log is not None:
            self._static_since[key] = self.panel.logs.of(log).records.end

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        self._another_log((fact.topic, fact.partition))

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        if fact.topic == OFFSETS_TOPIC:
            self._groups_led(fact)
        else:
            self._another_log((fact.topic, fact.partition))

    def _groups_led(self, fact: BecameLeader) -> None:
        """Of whom all records were lost, or may be: they came behind what the log has left, or certainly has."""
        at, logs = (fact.topic, fact.partition), self.panel.logs
        if not logs.changed:
            return
        for key, end in self._static_since.items():
            if self.panel.log_of(key[0]) != at:
                continue
            if any(first <= end < last for first, last, _ in logs.lost) or end >= logs.of(at).records.end:
                self._forgotten[key] = None
            elif logs.back:  # it may be there again
                self._forgotten.pop(key, None)

    def _is_forgotten(self, actor: ActorName, fact: MemberFailed) -> bool:
        """Whether a member is fenced for an id that no record of the group's log has, by another coordinator."""
        if fact.error is not ErrorCode.FENCED_INSTANCE_ID:
            return False
        key, holding = (fact.group, fact.member_id), self.panel.holdings.get(actor)
        held = (fact.group, holding.member_id) if holding is not None else key
        changes = self._coordinator_changes.get(fact.group, 0)
        return held in self._forgotten or key in self._forgotten or changes > self._unwritten.get(key, changes)

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._group(fact.group)
        if fact.generation != group.generation:
            group.heard_us = max(group.heard_us, min(seen.at_us, self._hears_by_us(fact.group, group)))
            group.generation = fact.generation
            group.topics, group.assigned = set(), set()
        group.topics.update([topic for topic, _ in fact.partitions])
        group.assigned.update(fact.partitions)
        if self._deadline_us is not None and self._judges_us > self._deadline_us:  # perhaps it had heard of all
            self._judges_us = self._deadline_us

    def _callback(self, seen: Seen, fact: PartitionsAssigned | PartitionsRevoked | PartitionsLost) -> None:
        group = self._group(fact.group)
        self._count_ended()
        holding = self.panel.holding(seen)
        if not holding.gone and not self._is_away(holding):
            self._count(group, self.panel.given_up, -1)
            self._count(group, self.panel.gained, 1)
            for partition in self.panel.gained:
                group.since_us[partition] = seen.at_us
        self._look(fact.group, group)

    def _count_ended(self) -> None:
        for holding in self.panel.ended:
            if not holding.gone and not self._is_away(holding):
                self._count(self._group(holding.group), holding.owned, -1)

    def _is_away(self, holding: Holding) -> bool:
        """Whether what it owns does not count any more."""
        return host_of(holding.actor) in self.panel.away

    @staticmethod
    def _count(group: _Group, partitions: Iterable[TopicPartition], change: int) -> None:
        for partition in partitions:
            owners = group.owners.get(partition, 0)
            group.shared += (owners + change > 1) - (owners > 1)
            if owners + change:
                group.owners[partition] = owners + change
            else:
                del group.owners[partition]

    # --- progress ----------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        if self.panel.logs.counts:
            self._ends[fact.topic, fact.partition] = fact.base_offset + fact.count

    def _another_log(self, at: TopicPartition) -> None:
        """What a log has lost waits for nobody."""
        end = self.panel.logs.of(at).records.end
        if end < self._ends.get(at, 0):
            self._ends[at] = end
            for group in self._groups.values():
                if group.waiting.get(at, -1) >= end:
                    del group.waiting[at]

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        partition = (fact.topic, fact.partition)
        group = self._group(fact.group)
        group.reached[partition] = max(group.reached.get(partition, 0), fact.offset)
        if fact.offset > group.waiting.get(partition, fact.offset):  # a reset that skips what waited
            del group.waiting[partition]

    def _processed(self, seen: Seen, fact: Processed) -> None:
        group = self._group(fact.group)
        partition = (fact.topic, fact.partition)
        group.reached[partition] = max(group.reached.get(partition, 0), fact.last)
        group.waiting.pop(partition, None)
        group.works = group.worked = True

    def _range_processed(self, seen: Seen, fact: RangeProcessed) -> None:
        """Work, but not of what waits at the first consumer's position."""
        group = self._group(fact.group)
        group.works = group.worked = True

    def killed(self) -> Iterator[tuple[str, str]]:
        """Groups without a running member, and the failure by the plan that left the group so."""
        return ((group, text) for group, text in self._killed.items() if not self.panel.running_members(group))

    def idle(self) -> Iterator[tuple[str, int]]:
        """Groups with members that never processed anything, and how many records there were for them."""
        for name, group in self._groups.items():
            topics = self._topics_of(name, group)
            waiting = sum([end for partition, end in self._ends.items() if partition[0] in topics])
            if waiting and not group.worked and self.panel.groups[name].members:
                yield name, waiting

    # --- judging -----------------------------------------------------------------------------------------------

    def _core_healed(self, seen: Seen, fact: CoreHealed) -> None:
        """Nobody waits for what those own that stay away, nor are the others to share it with them."""
        if self._deadline_us is not None:  # told again: brokers were recalled
            self._disturbed(seen, fact)
            return
        for holding in self.panel.holdings.values():
            if self._is_away(holding) and not holding.gone:
                self._count(self._group(holding.group), holding.owned, -1)

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._deadline_us = seen.at_us
        self._disturbed(seen, fact)

    def _disturbed(self, seen: Seen, fact: object) -> None:
        if self._deadline_us is None:  # not healed yet, or judged already
            return
        self._deadline_us = self._judges_us = seen.at_us + self.bound_us
        for name, group in self._groups.items():
            group.rested = False
            self._look(name, group)
            self._count_waiting(name, group)

    def _count_waiting(self, name: str, group: _Group) -> None:
        """From now on it is seen what is processed of what waits."""
        topics = self._topics_of(name, group)
        group.works = False
        group.waiting = {
            partition: group.reached.get(partition, 0)
            for partition, end in self._ends.items()
            if end > group.reached.get(partition, 0) and partition[0] in topics
        }

    def _topics_of(self, name: str, group: _Group) -> Collection[str]:
        given = self._given.get(name, group.topics)
        return given.among(self.panel.topics_there()) if isinstance(given, TopicPattern) else given

    def _wanted(self, name: str, group: _Group) -> int:
        return sum([self.panel.topics.get(topic, 0) for topic in self._topics_of(name, group)])

    def _look(self, name: str, group: _Group) -> None:
        if self._deadline_us is None:
            return
        group.runs = bool(self.panel.running_members(name))
        if not group.rested:
            group.wrong = self._wrong(name, group)
            group.rested = not group.wrong

    def _wrong(self, name: str, group: _Group) -> str:
        """What keeps the group from being at rest; "" if nothing does."""
        owned, wanted = len(group.owners), self._wanted(name, group)
        watched = self.panel.groups.get(name)
        state = "Empty" if watched is None else watched.state if watched.loaded else "unloaded"
        needed = 0 if isinstance(self._given.get(name), TopicPattern) else 1  # a pattern may match nothing
        if state == "Stable" and not group.shared and owned >= max(wanted, needed):
            return ""
        if not self.panel.running_members(name):
            return ""
        if state != "Stable":
            return f"the group is {state}"
        if group.shared:
            return f"{group.shared} partitions have more than one owner"
        return f"{owned} of {wanted} partitions are owned"

    @staticmethod
    def _lacking(group: _Group) -> bool:
        return not group.rested or bool(group.waiting)

    def _judge(self, seen: Seen) -> None:
        """Groups are judged once: those whose leader may not have heard of all yet when it must have."""
        assert self._deadline_us is not None
        later: list[int] = []
        for name, group in self._groups.items():
            if group.judged:
                continue
            lacks = group.runs and self._lacking(group)
            due_us = self._due_us(name, group) if lacks else self._deadline_us
            if due_us > seen.at_us:
                later.append(due_us)
                continue
            group.judged = True
            if lacks:
                self._judge_group(seen, name, group, due_us)
        self._judges_us = min(later, default=_NEVER_US)
        if not later:
            self._deadline_us, self._awaited = None, False

    def _judge_group(self, seen: Seen, name: str, group: _Group, due_us: int) -> None:
        late_us = due_us - self.bound_us // 2
        within = f"within {self.bound_us / 1e6:g} s"
        if due_us != self._deadline_us:
            within += " from when its leader had heard of all partitions"
        if not group.rested:
            text = f"group {name} did not come to rest {within}: {group.wrong}"
            kind, why = self._kafkas_own(name, group)
            self.violation(seen, kind, (name,), f"{text}; {why}" if why else text, liveness=True)
            return
        self._judge_waiting(seen, name, group, late_us, f"{within}, though")

    def _kafkas_own(self, name: str, group: _Group) -> tuple[str, str]:
        """The way in which a group that is not at rest stands still, and why if that is Kafka's own."""
        if why := self._untold_coordinator(name):
            return UNTOLD_COORDINATOR, why
        if why := self._unheard_isr(name):
            return UNHEARD_ISR, why
        if why := self._forgotten_rebalance(name, group):
            return FORGOTTEN_REBALANCE, why
        return "not-at-rest", ""

    def _forgotten_rebalance(self, name: str, group: _Group) -> str:
        """Who came back before it was given out what nobody has, if that is all that is wrong; "" if it is not."""
        watched = self.panel.groups.get(name)
        if watched is None or watched.state != "Stable" or group.shared:
            return ""
        forgotten = self.panel.forgotten_rebalances.of(name, group.generation)
        unowned = [at for at in self._partitions_of(name, group) if not group.owners.get(at)]
        if not unowned or any(at not in forgotten for at in unowned):
            return ""
        who = ", ".join(dict.fromkeys(forgotten[at] for at in unowned))
        return f"{who} gave them up for generation {group.generation}, and came back to it before the next one"

    def _untold_coordinator(self, name: str) -> str:
        """Whose members' coordinator leads a replica that was taken from its broker; "" if nobody's."""
        at = self.panel.log_of(name)
        state, assigned = (None, None) if at is None else (self.panel.states.get(at), self.panel.assigned.get(at))
        if at is None or state is None or assigned is None:
            return ""
        asked = [self.panel.coordinators.asked_by(member) for member in self.panel.running_members(name)]
        for host in dict.fromkeys(host_of(each) for each in asked if each):
            epoch, leads = self.panel.roles.get((host, at), (-1, False))
            if leads and broker_of(host) not in assigned.replicas:
                now = f"the store has {broker_host(state.leader)} in {state.leader_epoch}"
                return f"{host} leads {at[0]}-{at[1]} in epoch {epoch}, {now}"
        return ""

    def _unheard_isr(self, name: str) -> str:
        """Why the rebalance of a group cannot be written until its log is led in another epoch; "" if it can."""
        at, watched = self.panel.log_of(name), self.panel.groups.get(name)
        if at is None or watched is None or watched.state not in _REBALANCING:
            return ""
        unheard, state = self.panel.unheard.of(at), self.panel.states.get(at)
        if unheard is None or not unheard.leader_waits or state is None:
            return ""
        leader, least = broker_host(state.leader), self.panel.min_insync.of(at)
        if host_of(watched.coordinator) != leader or len(unheard.told) >= least:
            return ""
        return (
            f"{leader} leads {at[0]}-{at[1]} with {list(unheard.told)} as the ISR, of which min.insync.replicas asks"
            f" {least}, and waits for another leader epoch; the store has {list(state.isr)}"
        )

    def _judge_waiting(self, seen: Seen, name: str, group: _Group, late_us: int, within: str) -> None:
        """Of each partition something was processed, but of those that changed hands late in a group that works."""
        for partition, reached in sorted(group.waiting.items()):
            if group.works and group.since_us.get(partition, 0) > late_us:
                continue
            where = f"{partition[0]}-{partition[1]}"
            text = f"group {name} processed nothing of {where} {within} records wait at {reached}"
            self.violation(seen, "nothing-processed", (name, where), text, liveness=True)
