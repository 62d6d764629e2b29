"""CommitsChecker: only by members of the current generation, never ahead of their work, never backwards.

Theory. The coordinator accepts a commit of generation g while g is current (in PreparingRebalance too), appends it and
reports it when it is durable. Appends to a group's log keep their order, so when the group became Stable in g + 1,
whose record is in the same log, every commit accepted under g had been reported. From this:

1. *Fencing.* A reported commit carries the current generation, or an earlier one if the group has not been Stable in
   any later generation; its member was in the generation it carries. A commit without generation (-1) is never reported
   while the group is Stable: it is accepted from outside only when the group is Empty.
2. *Not ahead.* A member commits at most what it processed, or the position it started from.
3. *Not back.* Under one generation-protected owner after the other the committed offset only rises, unless the
   committing member has reset its position since its last commit, the committed offset was removed, or the commit was
   read from a connection that its client had left for another one (``LateCommit``): then it is one of before. A commit
   with generation -1 is an operator's and may do anything.
4. *Remembered.* What was committed when a member got its assignment is where it starts, or behind it: it is not told
   less, nor that there is nothing. An application that seeks starts where it likes. A log that lost its tail
   (``DiskTailLost``) may forget, and so may a coordinator that has a successor already. Where brokers replicate, a
   group's log may lose its end to an election; then what it held there is committed no more, and what it held before is
   what counts.
5. *Kept.* A member that is told that its commit succeeded has one that a coordinator reported.
6. *Not while it is needed.* Offsets do not expire while the group rebalances, nor those of partitions that its members
   were given in a Stable generation; of a group that became empty they do, after a minute at the soonest (the least
   that ``offsets.retention.minutes`` may be). What was decided just before the state changed is reported after
   it. No offset is removed within 30 s of its commit, for whatever stated reason, unless the plan's operator asks.
7. *Reset.* A member keeps a position while the log starts at or before the position and has never lost its end. Only
   a log that has lost its end moves a position to where an epoch ends (KIP-320). A reset under "earliest" goes to the
   start of a log, not beyond; under "none" there is no reset. The policy is the scenario's ``auto.offset.reset``
   (``policies``), not the member's word.

A member in KIP-333's mode jumps: it commits the end of a range before it has done anything there, and goes there. It
may do so if that range's token is in the log, and to that offset alone (rules 2 and 4). Tokens and the second
consumer's commits are fenced as commits are (rule 1); what they say is the business of ``catch-up``.
"""

from collections.abc import Callable, Mapping

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, FaultApplied, MemberHostAdded, MemberReconfigured, RunStarted, Seen
from kemu.emulator.watching.group_commits import NOTHING
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, OFFSETS_TOPIC, ActorName, GroupId, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    SEEK,
    TRUNCATED,
    AssignmentReceived,
    CommitAnswered,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberAdded,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PartitionsAssigned,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved, TopicDeleted

EMPTY, STABLE = "Empty", "Stable"
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
EXPIRED = "expired"
RESET = "reset"
RESET_POLICY = "auto.offset.reset"
LEAST_RETENTION_US = 60_000_000
REMOVES_OFFSETS: dict[str, Callable[[str, str], set[str]]] = {
    "delete-group": lambda group, topic: {group},
    "delete-offsets": lambda group, topic: {group, topic},
    "delete-topic": lambda group, topic: {topic},
}
"""Entries of a plan that remove committed offsets, and the names that such an entry then tells. Source: KIP-229,
KIP-496, ``GroupCoordinator.handleDeletedPartitions`` (3.4.1)."""
OPERATOR_US = 60_000_000
"""An operator's request is carried out within ``default.api.timeout.ms`` of Kafka's admin client."""
SETTLED_US = 10_000_000
"""After so long in a state nothing that was decided before it is still being written."""


class _Group:
    def __init__(self, generation: int, members: set[str]) -> None:
        self.generation = generation
        self.members = members
        self.settled = False
        """The group was Stable in this generation, or was loaded with it."""
        self.stable = False
        self.before: dict[int, set[str]] = {}
        """Generations whose commits may still be on their way to the log, and who was in them."""


class _Spell:
    """What a group is since when; ``rested_us``: how long it was empty the last time (0: not known to have been)."""

    __slots__ = ("given", "rested_us", "since_us", "state")

    def __init__(self, state: str, since_us: int, rested_us: int) -> None:
        self.state = state
        self.since_us = since_us
        self.rested_us = rested_us
        self.given: dict[TopicPartition, None] = {}
        """Partitions that members were given in this Stable generation."""


class _Progress:
    """One life of one member on one partition."""

    __slots__ = ("floor", "group", "reached", "reached_since_reset", "reset_to", "starts")

    def __init__(self) -> None:
        self.reached = -1
        self.reset_to: int | None = None
        """Where its position was last set without a committed offset, or what it has committed since then."""
        self.reached_since_reset = -1
        self.floor = -1
        """What was committed when it got its assignment in ``group``."""
        self.group = ""
        self.starts = False
        """It owns the partition newly and has no position yet."""


class CommitsChecker(Checker):
    """Commits come from members of the current generation, behind their work, and never go back."""

    name = "commits"

    def __init__(self, policies: Mapping[GroupId | ActorName, str] | None = None) -> None:
        """A checker of one run.

        Args:
            policies: ``auto.offset.reset`` by group, and by host where a member's is another. No policy is checked
                for a group that is not named.
        """
        super().__init__()
        self._policies = {name: {policy} for name, policy in (policies or {}).items()}
        """A host that is set otherwise during the run may follow the policy of either life."""
        self._group_of: dict[ActorName, GroupId] = {}
        """Host -> group."""
        self._starts: dict[TopicPartition, int] = {}
        """The highest offset that a replica of the log starts at."""
        self._groups: dict[str, _Group] = {}
        self._progress: dict[TopicPartition, dict[tuple[str, int], _Progress]] = {}
        """Partition -> (actor, life) -> how far it is there."""
        self._committed_us: dict[tuple[str, TopicPartition], int] = {}
        """When the committed offset was reported last; empty where the group's log may have lost commits since."""
        self._removals_asked: list[tuple[int, str, set[str]]] = []
        """When the plan's operator asked for a removal of offsets, the kind of the entry, and the entry's words."""
        self._cut: dict[TopicPartition, None] = {}
        """Partitions whose log has lost its end."""
        self._spells: dict[str, _Spell] = {}
        self._kept: dict[tuple[str, str], dict[int, None]] = {}
        """(group, member id) -> the steps in which commits of it were reported, while it has not heard of them."""
        self.on = {
            CommitAnswered: self._answered,
            OffsetCommitted: self._commit,
            OffsetRemoved: self._removed,
            JoinPhaseCompleted: self._completed,
            GroupBecame: self._became,
            GroupLoaded: self._loaded,
            GroupUnloaded: self._unloaded,
            MemberAdded: self._added,
            AssignmentReceived: self._assigned,
            PartitionsAssigned: self._owns,
            PositionSet: self._positioned,
            Processed: self._processed,
            DiskTailLost: self._lost_tail,
            FaultApplied: self._operated,
            LogStartMoved: self._start_moved,
            RunStarted: self._run_started,
            MemberHostAdded: self._host_added,
            MemberReconfigured: self._reconfigured,
            TopicDeleted: self._topic_deleted,
            BecameLeader: self._led,
            PartitionHosted: self._hosted,
            RangeOpened: self._range_written,
            RangeCommitted: self._range_written,
        }

    # --- the group's truth -------------------------------------------------------------------------------------

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        if not self.panel.is_current(seen):
            return
        old = self._groups.get(fact.group)
        group = self._groups[fact.group] = _Group(fact.generation, set(fact.members))
        if old is not None:
            group.before = {old.generation: old.members} if old.settled else {**old.before, old.generation: old.members}

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if self.panel.is_current(seen):
            self._spelled(seen, fact)
        group = self._groups.get(fact.group)
        if group is not None and self.panel.is_current(seen):
            group.stable = fact.new == "Stable"
            group.settled = group.settled or group.stable

    def _spelled(self, seen: Seen, fact: GroupBecame) -> None:
        before = self._spells.get(fact.group)
        rested_us = 0 if before is None else before.rested_us
        if before is not None and before.state == EMPTY:
            rested_us = seen.at_us - before.since_us
        self._spells[fact.group] = _Spell(fact.new, seen.at_us, rested_us)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        self._spells.pop(fact.group, None)
        group = self._groups[fact.group] = _Group(fact.generation, set(fact.members))
        group.settled = True
        group.stable = fact.state == "Stable"

    def _unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        if self.panel.is_current(seen):
            self._groups.pop(fact.group, None)

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        group = self._groups.get(fact.group)
        if group is not None and fact.instance_id is not None and self.panel.is_current(seen):
            group.members.add(fact.member_id)

    # --- the members' work -------------------------------------------------------------------------------------

    def _progress_of(self, seen: Seen, topic: str, partition: int) -> _Progress:
        lives = self._progress.setdefault((topic, partition), {})
        life = (seen.actor, seen.life)
        progress = lives.get(life)
        if progress is None:
            progress = lives[life] = _Progress()
        return progress

    def _assigned(self, seen: Seen, fact: AssignmentReceived) -> None:
        spell, group = self._spells.get(fact.group), self._groups.get(fact.group)
        if spell is not None and spell.state == STABLE and group is not None and group.generation == fact.generation:
            spell.given.update(dict.fromkeys(fact.partitions))
        deposed = self.panel.asks_deposed(seen)
        for topic, partition in fact.partitions:
            committed = NOTHING if deposed else self.panel.commits.of(fact.group, (topic, partition))
            progress = self._progress_of(seen, topic, partition)
            progress.floor, progress.group = committed, fact.group

    def _owns(self, seen: Seen, fact: PartitionsAssigned) -> None:
        for topic, partition in fact.added:
            self._progress_of(seen, topic, partition).starts = True

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        progress = self._progress_of(seen, fact.topic, fact.partition)
        chosen = fact.why not in (SEEK, TRUNCATED)
        if fact.why == TRUNCATED and (fact.topic, fact.partition) not in self._cut:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} goes to {fact.offset} of {name} as after a truncation, and the log has lost nothing"
            self.violation(seen, "not-truncated", (fact.group, name, seen.actor), text)
        elif fact.why == RESET:
            self._reset(seen, fact, -1 if progress.starts else progress.reached_since_reset)
        asked, progress.starts = chosen and (progress.starts or fact.why == COMMITTED), False
        if fact.why == JUMPED and self._may_jump(fact.group, (fact.topic, fact.partition), fact.offset):
            progress.reached = max(progress.reached, fact.offset)
            return
        progress.reset_to = None if fact.why == COMMITTED else fact.offset
        progress.reached_since_reset = fact.offset
        if asked and progress.floor >= 0 and (fact.why != COMMITTED or fact.offset < progress.floor):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} starts {name} at {fact.offset} ({fact.why}) though {progress.floor} had been committed"
            )
            self.violation(seen, "position-not-committed", (fact.group, name, seen.actor), text)
        progress.reached = max(progress.reached, fact.offset)

    def _reset(self, seen: Seen, fact: PositionSet, held: int) -> None:
        """A position that the log has is kept. Source: ``OffsetFetcher`` (3.4.1): a reset needs OFFSET_OUT_OF_RANGE.

        A log that ever lost its end may have lost the record at the position, and a log that starts later has.
        """
        at = (fact.topic, fact.partition)
        self._by_policy(seen, fact)
        if held < 0 or at in self._cut or self.panel.logs.of(at).records.start > held:
            return
        name = f"{fact.topic}-{fact.partition}"
        text = f"{seen.actor} resets {name} to {fact.offset} although its position, {held} or later, is in the log"
        self.violation(seen, "reset-in-range", (fact.group, name, seen.actor), text)

    def _by_policy(self, seen: Seen, fact: PositionSet) -> None:
        """Whether the reset is the one that the scenario's ``auto.offset.reset`` asks for."""
        host = host_of(seen.actor)
        policies = self._policies.get(host) or self._policies.get(fact.group)
        start = self._starts.get((fact.topic, fact.partition), 0)
        if policies == {"none"}:
            allowed = "none"
        elif policies == {"earliest"} and fact.offset > start:
            allowed = f"earliest, and the log starts at {start}"
        else:
            return
        name = f"{fact.topic}-{fact.partition}"
        text = f"{seen.actor} resets {name} to {fact.offset} although auto.offset.reset is {allowed}"
        self.violation(seen, "wrong-reset", (fact.group, name, seen.actor), text)

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        at = (fact.topic, fact.partition)
        self._starts[at] = max(self._starts.get(at, 0), fact.start_offset)

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self._group_of = dict(fact.members)

    def _host_added(self, seen: Seen, fact: MemberHostAdded) -> None:
        self._group_of[fact.host] = fact.group

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        for setting in fact.settings:
            key, _, policy = setting.partition("=")
            if key.strip() == RESET_POLICY:
                known = self._policies.get(fact.host) or self._policies.get(self._group_of.get(fact.host, ""))
                if known is not None:
                    self._policies[fact.host] = known | {policy.strip()}

    def _may_jump(self, group: str, at: TopicPartition, offset: int) -> bool:
        """The last token in the second commit log ends here: what lies before is the second consumer's."""
        return self.panel.ranges.of(group, at).last_end == offset

    def _processed(self, seen: Seen, fact: Processed) -> None:
        progress = self._progress_of(seen, fact.topic, fact.partition)
        progress.reached = max(progress.reached, fact.last)
        progress.reached_since_reset = max(progress.reached_since_reset, fact.last)

    # --- commits -----------------------------------------------------------------------------------------------

    def _commit(self, seen: Seen, fact: OffsetCommitted) -> None:
        self._kept.setdefault((fact.group, fact.member_id), {})[seen.seq] = None
        if not self.panel.is_current(seen):
            return
        self._committed_us[fact.group, (fact.topic, fact.partition)] = seen.at_us
        self._fenced(seen, fact)
        if fact.generation != NO_GENERATION:
            progress = self._not_ahead(seen, fact)
            if fact.offset < self.panel.commits.before and not self.panel.commits.late:
                self._back(seen, fact, progress, self.panel.commits.before)
            if progress is not None:
                self._rises(fact, progress)

    def _range_written(self, seen: Seen, fact: RangeOpened | RangeCommitted) -> None:
        if self.panel.is_current(seen):
            self._fenced(seen, fact)

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            return
        kept = self._kept.get((fact.group, fact.member_id))
        if kept:
            del kept[next(iter(kept))]
        else:
            text = f"{seen.actor} was told that a commit succeeded, and no coordinator reported one of it"
            self.violation(seen, "not-kept", (fact.group, seen.actor), text)

    def _fenced(self, seen: Seen, fact: OffsetCommitted | RangeOpened | RangeCommitted) -> None:
        group = self._groups.get(fact.group)
        if group is None:
            return
        if fact.generation == NO_GENERATION:
            if group.stable:
                self._report(
                    seen,
                    "without-generation",
                    fact,
                    f"without generation while the group is Stable in {group.generation}",
                )
            return
        if fact.generation == group.generation:
            members = group.members
        elif not group.settled and fact.generation in group.before:
            members = group.before[fact.generation]
        else:
            self._report(
                seen, "old-generation", fact, f"with generation {fact.generation}; the group's is {group.generation}"
            )
            return
        if fact.member_id not in members:
            self._report(seen, "no-member", fact, f"though it is no member of generation {fact.generation}")

    def _not_ahead(self, seen: Seen, fact: OffsetCommitted) -> _Progress | None:
        taken = self.panel.took.get((fact.group, fact.member_id))
        if taken is None:
            self._report(seen, "no-member", fact, "though it never took an assignment")
            return None
        progress = self._progress.get((fact.topic, fact.partition), {}).get((taken.actor, taken.life))
        if self._may_jump(fact.group, (fact.topic, fact.partition), fact.offset):
            return progress
        if progress is None or fact.offset > progress.reached:
            reached = "nothing" if progress is None or progress.reached < 0 else f"up to {progress.reached} only"
            self._report(seen, "ahead-of-work", fact, f"though it has processed {reached}")
        return progress

    def _back(self, seen: Seen, fact: OffsetCommitted, progress: _Progress | None, committed: int) -> None:
        if progress is None or progress.reset_to is None or progress.reset_to > fact.offset:
            self._report(seen, "went-back", fact, f"though {committed} was committed and nothing was reset")

    def _rises(self, fact: OffsetCommitted, progress: _Progress) -> None:
        """After a reset the first commit may be lower than the committed offset; later commits rise from that one.

        A commit that lies beyond the work since the reset was sent before the reset.
        """
        if progress.reset_to is not None and progress.reset_to < fact.offset <= progress.reached_since_reset:
            progress.reset_to = fact.offset

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        if fact.why == EXPIRED and self.panel.is_current(seen):
            self._expired(seen, fact)
        if self.panel.commits.before != NOTHING:
            self._kept_long_enough(seen, fact)
            for progress in self._progress.get((fact.topic, fact.partition), {}).values():
                if progress.group == fact.group:
                    progress.floor = -1

    def _operated(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind in REMOVES_OFFSETS:
            self._removals_asked.append((seen.at_us, fact.kind, set(fact.text.replace(",", " ").split())))

    def _topic_deleted(self, seen: Seen, fact: TopicDeleted) -> None:
        self._removals_asked.append((seen.at_us, "delete-topic", {fact.topic}))

    def _kept_long_enough(self, seen: Seen, fact: OffsetRemoved) -> None:
        """An offset lasts for ``offsets.retention.minutes``, at least 1, unless an operator removes the offset.

        Half of that is asked, because two coordinators may have different clocks.
        """
        committed_us = self._committed_us.pop((fact.group, (fact.topic, fact.partition)), None)
        if committed_us is None or seen.at_us - committed_us >= LEAST_RETENTION_US // 2:
            return
        for asked_us, kind, words in self._removals_asked:
            if seen.at_us - asked_us <= OPERATOR_US and REMOVES_OFFSETS[kind](fact.group, fact.topic) <= words:
                return
        name = f"{fact.topic}-{fact.partition}"
        text = f"the offset of {name} in {fact.group} was removed {(seen.at_us - committed_us) / 1e6:.1f} s after"
        self.violation(
            seen, "removed-too-early", (fact.group, name), f"{text} its commit, and no operator asked for it"
        )

    def _expired(self, seen: Seen, fact: OffsetRemoved) -> None:
        spell = self._spells.get(fact.group)
        if spell is None:
            return
        name = f"{fact.topic}-{fact.partition}"
        if spell.state in REBALANCING and 0 < spell.rested_us < LEAST_RETENTION_US // 2:
            text = f"the offset of {name} expires while {fact.group} rebalances, {spell.rested_us / 1e6:.1f} s after"
            self.violation(seen, "expired-in-use", (fact.group, name), f"{text} it had members")
        elif (
            spell.state == STABLE
            and (fact.topic, fact.partition) in spell.given
            and seen.at_us - spell.since_us > SETTLED_US
        ):
            text = f"the offset of {name} expires although {fact.group} has a member that works on it"
            self.violation(seen, "expired-in-use", (fact.group, name), text)

    def _forget_floors(self, partition: TopicPartition) -> None:
        for progress in self._progress.get(partition, {}).values():
            progress.floor = -1

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            self._groups.clear()
            self._committed_us.clear()
            for partition in self._progress:
                self._forget_floors(partition)

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        if self.panel.logs.cut is not None:
            self._cut[fact.topic, fact.partition] = None

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        """A log may have lost its end; if it is the groups' log, the commits there are gone."""
        if self.panel.logs.cut is not None:
            self._cut[fact.topic, fact.partition] = None
        for (group, at), left in self.panel.commits.changed:
            self._committed_us.pop((group, at), None)
            for progress in self._progress.get(at, {}).values():
                progress.floor = min(progress.floor, left)

    def _report(self, seen: Seen, kind: str, fact: OffsetCommitted | RangeOpened | RangeCommitted, why: str) -> None:
        name = f"{fact.topic}-{fact.partition}"
        who = fact.member_id or "somebody outside the group"
        what = f"opened a range to {fact.end}" if isinstance(fact, RangeOpened) else f"committed {fact.offset}"
        text = f"{who} {what} of {name} {why}"
        self.violation(seen, kind, (fact.group, name, fact.member_id), text)
