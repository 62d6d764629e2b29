"""After the faults end, every group comes to rest and goes on working, within a bound.

Theory (safety first, then heal and demand liveness). ``Healed`` says that nothing is broken any more. From then on,
within ``bound_us``, there must be a moment at which

1. the group is Stable and every partition of its topics is owned by exactly one running member (Empty or gone, when no
   member of it runs), and
2. in each partition whose records waited at that time, some were processed since. A partition that changed hands in the
   second half of the bound is excused, if the group processed something at all.

What disturbs a group anew (a host that starts or goes down, a topic that grows, a fault entry) starts the bound again.
"There must be a moment" and not "from then on", and the excuse: a group whose members are slower than max.poll.interval
rebalances for ever and does the same work again and again, and rightly so.

Which topics a group has is read from the assignments of its last generation, unless given.
"""

from collections.abc import Collection, Iterable, Mapping

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    FaultApplied,
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
from kemu.emulator.watching.holdings import Holdings
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
    RecordsAppended,
)

DEFAULT_BOUND_US = 45_000_000 + 300_000_000 + 60_000_000
"""Kafka 3.9's session.timeout.ms and max.poll.interval.ms, and a minute for everything else."""


class _Group:
    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.state = "Empty"
        self.coordinator = ""
        self.generation = -1
        """The newest generation somebody took an assignment of, and the topics in it."""
        self.topics: set[str] = set()
        self.since_us: dict[TopicPartition, int] = {}
        """When each partition was last added to what a member owns."""
        self.works = False
        """Something was processed since the last disturbance."""
        self.owners: dict[TopicPartition, int] = {}
        """How many running members own each partition."""
        self.shared = 0
        """Partitions with more than one owner."""
        self.rested = False
        """Rule 1 held at some moment since the last disturbance."""
        self.reached: dict[TopicPartition, int] = {}
        self.waiting: dict[TopicPartition, int] = {}
        """Where each partition with records to process stood at the last disturbance, until it moves."""


class Liveness(Checker):
    """After the faults end, groups get Stable and go on processing within the bound.

    ``topics``: by group, the topics it is subscribed to, for those who know.
    """

    name = "liveness"

    def __init__(self, bound_us: int = DEFAULT_BOUND_US, topics: Mapping[str, Iterable[str]] | None = None) -> None:
        super().__init__()
        self.bound_us = bound_us
        self._given = {group: frozenset(names) for group, names in (topics or {}).items()}
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        self._topics: dict[str, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._holdings = Holdings()
        self._running: set[str] = set()
        self._paused: set[str] = set()
        self._gone: set[str] = set()
        """Members that closed or failed, until their host starts again."""
        self._deadline_us: int | None = None
        """When judgement comes; None before ``Healed`` and after the judgement."""
        self._awaited = True
        """Judgement has yet to come."""
        self._seq = 0
        """Step of the last fact that mattered."""
        self.on = {
            RunStarted: self._run_started,
            MemberHostAdded: self._member_added,
            HostStarted: self._started,
            HostDown: self._down,
            HostPaused: self._paused_now,
            HostResumed: self._resumed,
            TopicGrown: self._grown,
            FaultApplied: self._disturbed,
            Healed: self._healed,
            GroupBecame: self._became,
            GroupLoaded: self._loaded,
            GroupUnloaded: self._unloaded,
            MemberBecame: self._member_became,
            MemberFailed: self._member_failed,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._callback,
            PartitionsRevoked: self._callback,
            PartitionsLost: self._callback,
            PositionSet: self._positioned,
            Processed: self._processed,
            RecordsAppended: self._appended,
        }

    def see(self, seen: Seen) -> None:
        """Take one fact; the first one behind the deadline brings the judgement."""
        if self._deadline_us is not None and seen.at_us > self._deadline_us:
            self._judge(seen)
        handler = self.on.get(type(seen.fact))
        if handler is not None:
            self._seq = seen.seq
            handler(seen, seen.fact)

    @property
    def satisfied(self) -> bool:
        """Whether all that is demanded has come about since the last disturbance; never before ``Healed``."""
        if self._deadline_us is None:
            return not self._awaited
        return all(not self._members(group) or not self._lacking(group) for group in self._groups.values())

    def finish(self, at_us: int) -> None:
        """A run that lasted beyond the bound is judged; one that ended before is not."""
        if self._deadline_us is not None and at_us >= self._deadline_us:
            self._judge(Seen(self._seq, at_us, "", 0, None))

    # --- what there is -----------------------------------------------------------------------------------------

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        for host, group in fact.members:
            self._join(host, group)
        self._topics.update(fact.topics)

    def _member_added(self, seen: Seen, fact: MemberHostAdded) -> None:
        self._join(fact.host, fact.group)

    def _join(self, host: str, group: str) -> None:
        self._group_of[host] = group
        self._group(group).hosts.add(host)

    def _grown(self, seen: Seen, fact: TopicGrown) -> None:
        self._topics[fact.topic] = fact.partitions
        self._disturbed(seen, fact)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._running.add(fact.host)
        self._gone.discard(fact.host)
        self._paused.discard(fact.host)
        self._disturbed(seen, fact)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._disown(fact.host)
        self._running.discard(fact.host)
        self._paused.discard(fact.host)
        self._holdings.see(seen)
        self._disturbed(seen, fact)

    def _paused_now(self, seen: Seen, fact: HostPaused) -> None:
        self._paused.add(fact.host)
        self._disturbed(seen, fact)

    def _resumed(self, seen: Seen, fact: HostResumed) -> None:
        self._paused.discard(fact.host)
        self._disturbed(seen, fact)

    # --- groups ------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        group = self._group(fact.group)
        if fact.old == "Empty" and fact.new != "Dead":
            # One that speaks of it for the first time coordinates it, loaded or not; but one that only lets go of it
            # may be the last to hear that another has it.
            group.coordinator = seen.actor
        if group.coordinator == seen.actor:
            group.state = fact.new
            self._look(fact.group, group)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.coordinator, group.state = seen.actor, fact.state
        self._look(fact.group, group)

    def _unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        group = self._group(fact.group)
        if group.coordinator == seen.actor:
            group.state = "unloaded"

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        if seen.actor not in self._group_of:
            self._join(seen.actor, fact.group)
        if fact.new in ("CLOSED", "FAILED"):
            self._leave(seen)

    def _member_failed(self, seen: Seen, fact: MemberFailed) -> None:
        self._leave(seen)

    def _leave(self, seen: Seen) -> None:
        self._disown(seen.actor)
        self._gone.add(seen.actor)
        self._holdings.by_actor.pop(seen.actor, None)
        self._disturbed(seen, seen.fact)

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._group(fact.group)
        if fact.generation != group.generation:
            group.generation = fact.generation
            group.topics = set()
        group.topics.update([topic for topic, _ in fact.partitions])
        self._holdings.see(seen)

    def _callback(self, seen: Seen, fact: PartitionsAssigned | PartitionsRevoked | PartitionsLost) -> None:
        group = self._group(fact.group)
        holding = self._holdings.of(seen)
        before = frozenset(holding.owned)
        self._holdings.see(seen)
        self._count(group, before - holding.owned, -1)
        self._count(group, holding.owned - before, 1)
        for partition in holding.owned - before:
            group.since_us[partition] = seen.at_us
        self._look(fact.group, group)

    def _disown(self, actor: str) -> None:
        holding = self._holdings.by_actor.get(actor)
        if holding is not None:
            group = self._group(holding.group)
            self._count(group, holding.owned, -1)
            holding.owned = set()

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
        self._ends[fact.topic, fact.partition] = fact.base_offset + fact.count

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
        group.works = True

    # --- judging -----------------------------------------------------------------------------------------------

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._deadline_us = seen.at_us
        self._disturbed(seen, fact)

    def _disturbed(self, seen: Seen, fact: object) -> None:
        if self._deadline_us is None:  # not healed yet, or judged already
            return
        self._deadline_us = seen.at_us + self.bound_us
        for name, group in self._groups.items():
            group.rested = group.works = False
            self._look(name, group)
            topics = self._topics_of(name, group)
            group.waiting = {
                partition: group.reached.get(partition, 0)
                for partition, end in self._ends.items()
                if end > group.reached.get(partition, 0) and partition[0] in topics
            }

    def _members(self, group: _Group) -> list[str]:
        return sorted(group.hosts & self._running - self._gone)

    def _topics_of(self, name: str, group: _Group) -> Collection[str]:
        return self._given.get(name, group.topics)

    def _wanted(self, name: str, group: _Group) -> int:
        return sum([self._topics.get(topic, 0) for topic in self._topics_of(name, group)])

    def _look(self, name: str, group: _Group) -> None:
        if self._deadline_us is not None and not group.rested and not self._wrong(name, group):
            group.rested = True

    def _wrong(self, name: str, group: _Group) -> str:
        """What keeps the group from being at rest; "" if nothing does."""
        owned, wanted = len(group.owners), self._wanted(name, group)
        if group.state == "Stable" and not group.shared and owned >= wanted > 0:
            return ""
        if not self._members(group):
            return ""
        if group.state != "Stable":
            return f"the group is {group.state}"
        if group.shared:
            return f"{group.shared} partitions have more than one owner"
        return f"{owned} of {wanted} partitions are owned"

    @staticmethod
    def _lacking(group: _Group) -> bool:
        return not group.rested or bool(group.waiting)

    def _judge(self, seen: Seen) -> None:
        assert self._deadline_us is not None
        late_us = self._deadline_us - self.bound_us // 2
        self._deadline_us, self._awaited = None, False
        within = f"within {self.bound_us / 1e6:g} s"
        for name, group in self._groups.items():
            if not self._members(group) or not self._lacking(group):
                continue
            if not group.rested:
                wrong = self._wrong(name, group) or "it is at rest only now"
                self.violation(seen, (name,), f"group {name} did not come to rest {within}: {wrong}", liveness=True)
                continue
            for partition, reached in sorted(group.waiting.items()):
                if group.works and group.since_us.get(partition, 0) > late_us:
                    continue
                where = f"{partition[0]}-{partition[1]}"
                text = f"group {name} processed nothing of {where} {within}, though records wait at {reached}"
                self.violation(seen, (name, where), text, liveness=True)
