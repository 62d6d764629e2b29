"""Commits come from the current generation, behind their work; positions and removals have a cause that facts show.

A group's log keeps the order of its records: when a group became Stable in generation g + 1, every commit that was
accepted under g had been reported (``GroupCoordinator.doCommitOffsets`` 3.4.1).

======================  =============================================================================================
kind                    rule
======================  =============================================================================================
old-generation,         a commit carries the current generation, or an earlier one if the group was not Stable since;
no-member,              its member was in that generation; without generation (-1) only while the group is Empty
without-generation
ahead-of-work           a member commits at most what it processed, or the position that it started from
went-back               committed offsets rise, but for a reset, a seek, a removal or a commit of an old connection
position-not-committed  a member starts at the committed offset, if there is one
not-kept                a commit that succeeded was reported by a coordinator
given-up-uncommitted    an eager member with ``enable.auto.commit`` commits its work before it joins or closes, if
                        no fault has hit it or a broker within 10 s; a commit that failed counts
removed-too-early,      an offset lasts for ``offsets.retention.minutes`` since its group is empty (KIP-211), or since
expired-in-use          its commit, and while members use it, unless an operator or a deleted topic removes it
reset-in-range,         a member leaves a position only if its log does not have it; a reset follows
not-truncated,          ``auto.offset.reset``
wrong-reset
======================  =============================================================================================

A member in KIP-333's mode may commit and take the end of a range whose token is in the log.
"""

from collections.abc import Callable, Collection, Mapping

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
    PartitionsAssigned,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved, TopicDeleted

EMPTY, STABLE, DEAD = "Empty", "Stable", "Dead"
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
RESET = "reset"
RESET_POLICY = "auto.offset.reset"
DEFAULT_RETENTION_US = 60_000_000
"""The least that ``offsets.retention.minutes`` can be."""
REMOVES_OFFSETS: dict[str, Callable[[str, str], set[str]]] = {
    "delete-group": lambda group, topic: {group},
    "delete-offsets": lambda group, topic: {group, topic},
    "delete-topic": lambda group, topic: {topic},
}
"""Entries of a plan that remove committed offsets, and the names that such an entry then tells. Source: KIP-229,
KIP-496, ``GroupCoordinator.handleDeletedPartitions`` (3.4.1)."""
UNSUBSCRIBE = "unsubscribe"
"""The entry of a plan by which an application unsubscribes; its text begins with the host."""
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
    """What a group is since when; ``rested_us``: how long it was empty before (0: not known to have been)."""

    __slots__ = ("given", "rested_us", "since_us", "state")

    def __init__(self, state: str, since_us: int, rested_us: int) -> None:
        self.state = state
        self.since_us = since_us
        self.rested_us = rested_us
        self.given: dict[TopicPartition, None] = {}
        """Partitions that members were given in this Stable generation."""


class _Progress:
    """One life of one member on one partition."""

    __slots__ = ("floor", "group", "reached", "reached_since_reset", "reset_to", "starts", "stored", "worked")

    def __init__(self) -> None:
        self.reached = -1
        self.reset_to: int | None = None
        """Where its position was last set without a committed offset, or what it has committed since then."""
        self.reached_since_reset = -1
        self.floor = -1
        """What was committed when it got its assignment in ``group``."""
        self.group = ""
        self.worked = False
        """It has processed records since its position was set."""
        self.stored = -1
        """The highest offset that it has committed, or that a commit failed of."""
        self.starts = False
        """It owns the partition newly and has no position yet."""


class CommitsChecker(Checker):
    """Commits come from members of the current generation, behind their work, and never go back."""

    name = "commits"

    def __init__(
        self,
        policies: Mapping[GroupId | ActorName, str] | None = None,
        retention_us: int = DEFAULT_RETENTION_US,
        auto_commit: Collection[GroupId] = (),
    ) -> None:
        """A checker of one run.

        Args:
            policies: ``auto.offset.reset`` by group, and by host where a member's is another. No policy is checked
                for a group that is not named.
            retention_us: ``offsets.retention.minutes`` of the brokers.
            auto_commit: groups whose members commit by themselves, and give up all their partitions before a join.
        """
        super().__init__()
        self._auto_commit = dict.fromkeys(auto_commit)
        self._kept_us = retention_us // 2
        """How long an offset lasts at least: two coordinators may have different clocks."""
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
        self._deletes: dict[tuple[GroupId, TopicPartition], None] = {}
        """Offsets whose coordinator began to delete their group as an operator asked, and told no end of it: the
        tombstones may be in its log."""
        self._unsubscribes: dict[ActorName, None] = {}
        """Hosts whose application unsubscribes, until they are assigned partitions again."""
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
            PartitionsRevoked: self._gives_up,
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
            if fact.new == DEAD and self._asked_to_delete(seen, fact.group):
                self._deletes.update((key, None) for key in self.panel.commits.committed if key[0] == fact.group)
        group = self._groups.get(fact.group)
        if group is not None and self.panel.is_current(seen):
            group.stable = fact.new == "Stable"
            group.settled = group.settled or group.stable

    def _spelled(self, seen: Seen, fact: GroupBecame) -> None:
        before = self._spells.get(fact.group)
        rested_us = 0 if before is None or fact.old == STABLE else before.rested_us
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
            unknown = deposed or (fact.group, (topic, partition)) in self._deletes
            committed = NOTHING if unknown else self.panel.commits.of(fact.group, (topic, partition))
            progress = self._progress_of(seen, topic, partition)
            progress.floor, progress.group = committed, fact.group

    def _owns(self, seen: Seen, fact: PartitionsAssigned) -> None:
        for topic, partition in fact.added:
            self._progress_of(seen, topic, partition).starts = True
        self._unsubscribes.pop(host_of(seen.actor), None)

    def _gives_up(self, seen: Seen, fact: PartitionsRevoked) -> None:
        """Work is committed before all is given up, but for an application that unsubscribes.

        Source: ``ConsumerCoordinator.onJoinPrepare``, ``close``, ``onLeavePrepare`` (3.4.1).
        """
        if fact.group not in self._auto_commit or fact.owned or host_of(seen.actor) in self._unsubscribes:
            return
        if not self._can_commit(seen, fact.group):
            return
        for topic, partition in fact.revoked:
            progress = self._progress_of(seen, topic, partition)
            if progress.worked and progress.stored < progress.reached_since_reset:
                name, reached = f"{topic}-{partition}", progress.reached_since_reset
                what = "nothing" if progress.stored < 0 else f"{progress.stored} only"
                text = f"{seen.actor} gives up {name} with records up to {reached} processed, and has committed {what}"
                self.violation(seen, "given-up-uncommitted", (fact.group, name, seen.actor), text)

    def _can_commit(self, seen: Seen, group: GroupId) -> bool:
        """Whether the member asks the group's coordinator, and nothing has hit it or another host of the cluster."""
        known, panel = self.panel.groups.get(group), self.panel
        if known is None or not known.coordinator:
            return False
        if panel.coordinators.asked_by(seen.actor) not in ("", known.coordinator):
            return False
        hosts = [host for host in panel.hosts if host not in self._group_of]
        since_us = panel.disturbances.undisturbed_since_us([*hosts, host_of(seen.actor)])
        return since_us is not None and seen.at_us - since_us >= SETTLED_US

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        progress = self._progress_of(seen, fact.topic, fact.partition)
        name = f"{fact.topic}-{fact.partition}"
        self._left_for_a_reason(seen, fact)
        asked = fact.why == COMMITTED or (progress.starts and fact.why not in (SEEK, TRUNCATED))
        progress.starts = False
        if fact.why == JUMPED and self._may_jump(fact.group, (fact.topic, fact.partition), fact.offset):
            progress.reached = max(progress.reached, fact.offset)
            return
        progress.reset_to = None if fact.why == COMMITTED else fact.offset
        progress.reached_since_reset = fact.offset
        progress.worked = False
        if asked and progress.floor >= 0 and (fact.why != COMMITTED or fact.offset < progress.floor):
            text = (
                f"{seen.actor} starts {name} at {fact.offset} ({fact.why}) though {progress.floor} had been committed"
            )
            self.violation(seen, "position-not-committed", (fact.group, name, seen.actor), text)
        progress.reached = max(progress.reached, fact.offset)

    def _left_for_a_reason(self, seen: Seen, fact: PositionSet) -> None:
        """A position that the log has is kept. Source: ``OffsetFetcher`` (3.4.1): a reset needs OFFSET_OUT_OF_RANGE."""
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        kept, progress = self.panel.progress.kept_in_log, self.panel.progress.of(fact.group, at)
        # a commit that is in the groups' log counts, also if its coordinator was deposed before it reported the commit
        furthest = -1 if progress.highest is None else max(progress.highest, progress.done.end)
        if fact.why == TRUNCATED and kept:
            text = f"{seen.actor} goes to {fact.offset} of {name} as after a truncation although {kept}"
            self.violation(seen, "not-truncated", (fact.group, name, seen.actor), text)
        elif fact.why == RESET:
            self._by_policy(seen, fact)
            if kept:
                text = f"{seen.actor} resets {name} to {fact.offset} although {kept}"
                self.violation(seen, "reset-in-range", (fact.group, name, seen.actor), text)
        elif fact.why == COMMITTED and 0 <= furthest < fact.offset:
            text = (
                f"{seen.actor} starts {name} at {fact.offset} ({fact.why}) though the group came to {furthest} at most"
            )
            self.violation(seen, "position-not-committed", (fact.group, name, seen.actor), text)

    def _by_policy(self, seen: Seen, fact: PositionSet) -> None:
        """Whether the reset is the one that the scenario's ``auto.offset.reset`` asks for."""
        policies = self._policies.get(host_of(seen.actor)) or self._policies.get(fact.group)
        start = self._starts.get((fact.topic, fact.partition), 0)
        if policies == {"none"}:
            allowed = "none"
        elif policies == {"earliest"} and fact.offset > start:
            allowed = f"earliest, and the log starts at {start}"
        elif policies == {"latest"} and self.panel.progress.not_the_end:
            allowed = f"latest, and {self.panel.progress.not_the_end}"
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
        self._auto_commit.pop(self._group_of.get(fact.host, ""), None)
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
        progress.worked = True
        progress.reached = max(progress.reached, fact.last)
        progress.reached_since_reset = max(progress.reached_since_reset, fact.last)

    # --- commits -----------------------------------------------------------------------------------------------

    def _commit(self, seen: Seen, fact: OffsetCommitted) -> None:
        self._kept.setdefault((fact.group, fact.member_id), {})[seen.seq] = None
        if not self.panel.is_current(seen):
            return
        self._committed_us[fact.group, (fact.topic, fact.partition)] = seen.at_us
        self._deletes.pop((fact.group, (fact.topic, fact.partition)), None)
        self._fenced(seen, fact)
        if fact.generation != NO_GENERATION:
            progress = self._not_ahead(seen, fact)
            if fact.offset < self.panel.commits.before and not self.panel.commits.late:
                self._back(seen, fact, progress, self.panel.commits.before)
            if progress is not None:
                self._rises(fact, progress)
                progress.stored = max(progress.stored, fact.offset)

    def _range_written(self, seen: Seen, fact: RangeOpened | RangeCommitted) -> None:
        if self.panel.is_current(seen):
            self._fenced(seen, fact)

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            for lives in self._progress.values():
                progress = lives.get((seen.actor, seen.life))
                if progress is not None:
                    progress.stored = max(progress.stored, progress.reached_since_reset)
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
        if not self.panel.is_current(seen):
            return
        at = (fact.topic, fact.partition)
        committed_us = self._committed_us.pop((fact.group, at), None)
        self._deletes.pop((fact.group, at), None)
        if not self._was_asked_for(seen, fact):
            self._expired(seen, fact, committed_us)
        for progress in self._progress.get(at, {}).values():
            if progress.group == fact.group:
                progress.floor = -1

    def _operated(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind in REMOVES_OFFSETS:
            self._removals_asked.append((seen.at_us, fact.kind, set(fact.text.replace(",", " ").split())))
        elif fact.kind == UNSUBSCRIBE:
            self._unsubscribes[fact.text.partition(" ")[0]] = None

    def _topic_deleted(self, seen: Seen, fact: TopicDeleted) -> None:
        self._removals_asked.append((seen.at_us, "delete-topic", {fact.topic}))

    def _asked_to_delete(self, seen: Seen, group: GroupId) -> bool:
        return any(
            kind == "delete-group" and group in words and seen.at_us - asked_us <= OPERATOR_US
            for asked_us, kind, words in self._removals_asked
        )

    def _was_asked_for(self, seen: Seen, fact: OffsetRemoved) -> bool:
        return any(
            seen.at_us - asked_us <= OPERATOR_US and REMOVES_OFFSETS[kind](fact.group, fact.topic) <= words
            for asked_us, kind, words in self._removals_asked
        )

    def _expired(self, seen: Seen, fact: OffsetRemoved, committed_us: int | None) -> None:
        """Nobody asked for it: is the retention over, and nobody uses the offset?

        What was decided just before the group's state changed is reported after it. Source: KIP-211,
        ``GroupMetadata.removeExpiredOffsets`` (3.4.1).
        """
        spell, since_us, since = self._spells.get(fact.group), committed_us, "its commit"
        name = f"{fact.topic}-{fact.partition}"
        if spell is not None:
            lasted_us, used = seen.at_us - spell.since_us, ""
            if spell.state == EMPTY:
                since_us, since = spell.since_us, "the group became empty"
            elif spell.state in REBALANCING and 0 < spell.rested_us < self._kept_us:
                used = f"while {fact.group} rebalances, {spell.rested_us / 1e6:.1f} s after it had members"
            elif spell.state in REBALANCING and lasted_us > SETTLED_US:
                used = f"while {fact.group} rebalances"
            elif spell.state == STABLE and (fact.topic, fact.partition) in spell.given and lasted_us > SETTLED_US:
                used = f"although {fact.group} has a member that works on it"
            elif spell.state in REBALANCING and spell.rested_us:
                return
            if used:
                text = f"the offset of {name} expires {used}"
                self.violation(seen, "expired-in-use", (fact.group, name), text)
                return
        if since_us is not None and seen.at_us - since_us < self._kept_us:
            text = f"the offset of {name} in {fact.group} was removed {(seen.at_us - since_us) / 1e6:.1f} s after"
            self.violation(
                seen, "removed-too-early", (fact.group, name), f"{text} {since}, and no operator asked for it"
            )

    def _forget_floors(self, partition: TopicPartition) -> None:
        for progress in self._progress.get(partition, {}).values():
            progress.floor = -1

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            self._groups.clear()
            self._spells.clear()
            self._committed_us.clear()
            for partition in self._progress:
                self._forget_floors(partition)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        """A groups' log may have lost commits."""
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
