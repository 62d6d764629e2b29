"""Commits match processed records, positions match commits, and needed offsets are not removed.

- ahead-of-work: a member commits at most its processed records, or its
  start position.
- went-back: committed offsets increase, except after a reset, a seek, a removal or a late commit.
- not-kept: a coordinator reported each commit that succeeded.
- given-up-uncommitted: an undisturbed eager member with ``enable.auto.commit`` commits its work before it rejoins or
  closes. A failed commit is enough.
- removed-too-early: an offset lasts ``offsets.retention.minutes`` after its
  group became empty or its commit (KIP-211), unless an operator or a
  deleted topic removes it.
- removed-too-late: an Empty group's offset is removed at the next check.
- position-not-committed: a new owner starts at the committed offset.
- reset-in-range, not-truncated: a member leaves only a position that its
  log lost.
- wrong-reset: a reset follows ``auto.offset.reset``.

``membership`` judges who may commit. Members in KIP-333's mode may also commit, and start at, the end of a range in the
log.

Source: Kafka 3.4.1 ``ConsumerCoordinator``, ``GroupMetadata``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Self

from kemu.actors.consumer.reasons import CLOSED
from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.base import NEVER_US, Checker
from kemu.emulator.facts import (
    DiskTailLost,
    FaultApplied,
    HostStarted,
    MemberHostAdded,
    MemberReconfigured,
    RunStarted,
    Seen,
    each_of,
    only_news,
    received,
    sent,
)
from kemu.emulator.watching.group_commits import NOTHING, CommittedOffset
from kemu.emulator.watching.group_times import GroupTimes
from kemu.emulator.watching.progress import GroupProgress, PartitionReader
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import DeleteTopics, OffsetForLeaderEpoch, OffsetForLeaderEpochReply
from kemu.protocol.messages.group import DeleteGroups, OffsetCommit, OffsetDelete
from kemu.protocol.names import NO_GENERATION, OFFSETS_TOPIC, ActorName, GroupId, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    SEEK,
    TRUNCATED,
    CommitAnswered,
    GroupBecame,
    GroupLoaded,
    MemberBecame,
    OffsetCommitted,
    OffsetRemoved,
    PartitionsAssigned,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved, TopicDeleted

EMPTY, STABLE = "Empty", "Stable"
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
RESET = "reset"
RESET_POLICY = "auto.offset.reset"
DEFAULT_RETENTION_US = 60_000_000
"""The least value of ``offsets.retention.minutes``, in us."""
REMOVES_OFFSETS: Mapping[str, Callable[[GroupId, str], set[str]]] = {
    "delete-group": lambda group, topic: {group},
    "delete-offsets": lambda group, topic: {group, topic},
    "delete-topic": lambda group, topic: {topic},
}
"""Plan entries that remove committed offsets -> the names in their text. Source: KIP-229, KIP-496,
``GroupCoordinator.handleDeletedPartitions`` (3.4.1)."""
UNSUBSCRIBE = "unsubscribe"
"""The plan entry that unsubscribes an application. The entry's text begins with the host."""
CLOSE = "close-host"
"""The plan entry that closes an application. The entry's text ends with the host."""
CLOSE_US = GroupTimes().close_us
"""The timeout of Kafka's close(), in us."""
OPERATOR_US = 60_000_000
"""Longest time of an operator's request: ``default.api.timeout.ms`` of Kafka's admin client, in us."""
LATE_US = 15_000_000
"""Longest delay of a removal, in us: the write of its record, and perhaps an election of the log's leader."""
SETTLED_US = 10_000_000
"""Time in a state after which every earlier decision has been written, in us."""


class _StatePeriod:
    """One state of a group with its start."""

    __slots__ = ("generation", "owned", "since_us", "state")

    def __init__(self, state: str, generation: int, since_us: int) -> None:
        self.state = state
        """The state; "" if a coordinator loaded the group."""
        self.generation = generation
        self.since_us = since_us
        self.owned: dict[TopicPartition, None] = {}
        """Partitions that members own in this Stable generation."""


class _Work:
    """The work of one life of a member on one partition."""

    __slots__ = ("may_go_back_to", "must_start_at", "reached_before", "reader", "starts", "stored")

    def __init__(self, reader: PartitionReader) -> None:
        self.reader = reader
        self.may_go_back_to: int | None = None
        """The position that was set without a committed offset, or a later commit; None without either.
        """
        self.reached_before = NOTHING
        """The highest offset that the member reached before this position was set. A commit of it may arrive late."""
        self.stored = -1
        """The highest offset that the member committed, or tried to commit."""
        self.must_start_at = NOTHING
        """The committed offset when the member became owner of the partition."""
        self.starts = False
        """Whether the member is a new owner without a position."""


class CommitsChecker(Checker):
    """Judges commits, positions and removals of offsets."""

    name = "commits"
    kinds = (
        "ahead-of-work",
        "given-up-uncommitted",
        "not-kept",
        "not-truncated",
        "position-not-committed",
        "removed-too-early",
        "removed-too-late",
        "reset-in-range",
        "went-back",
        "wrong-reset",
    )

    def __init__(
        self,
        policies: Mapping[GroupId | ActorName, str] | None = None,
        retention_us: int = DEFAULT_RETENTION_US,
        auto_commit: Collection[GroupId] = (),
        short_closes: Collection[GroupId] = (),
        check_us: int = NEVER_US,
    ) -> None:
        """Create a checker of one run.

        Args:
            policies: ``auto.offset.reset`` by group, and by host for members with another value; groups without a value
            are not judged.
            retention_us: ``offsets.retention.minutes`` of the brokers.
            auto_commit: groups of eager members with auto-commit.
            short_closes: groups with another timeout of close() than Kafka's.
            check_us: ``offsets.retention.check.interval.ms`` of the brokers.
        """
        super().__init__()
        self._auto_commit = dict.fromkeys(auto_commit)
        self._short_closes = dict.fromkeys(short_closes)
        self._sent: dict[tuple[ActorName, int, TopicPartition], int] = {}
        """(actor, life, partition) -> the highest offset in the actor's requests, in groups with short closes."""
        self._given_up: dict[ActorName, list[tuple[Seen, TopicPartition, str]]] = {}
        """Member of such a group -> work given up with a commit in flight, until the member shows whether it closes."""
        self._kept_us = retention_us // 2
        """Least lifetime of an offset in us; two coordinators may have different clocks."""
        self._removed_by_us = retention_us + retention_us // 100 + check_us + LATE_US
        """Longest lifetime of an offset in an Empty group, in us."""
        self._policies = {name: {policy} for name, policy in (policies or {}).items()}
        """Group or host -> allowed policies. A host that is reconfigured in the run may follow the policy of either
        life."""
        self._group_of: dict[ActorName, GroupId] = {}
        """Host -> group."""
        self._starts: dict[TopicPartition, int] = {}
        """The highest start offset of any replica of the log."""
        self._work: dict[PartitionReader, _Work] = {}
        """The life of a member on a partition -> its work."""
        self._committed_us: dict[CommittedOffset, int] = {}
        """A group's committed offset on a partition -> time of the last reported commit, in us; no entry after a
        possible loss of commits."""
        self._led_us: dict[TopicPartition, int] = {}
        """Partition -> time at which a broker last became leader, in us."""
        self._validated: dict[tuple[ActorName, int, TopicPartition], None] = {}
        """(actor, life, partition) of each position whose validation a leader has not answered."""
        self._removals_asked: list[tuple[int, str, set[str]]] = []
        """(time, kind, words) of each plan entry that removes offsets."""
        self._unsubscribes: dict[ActorName, None] = {}
        """Hosts whose application unsubscribed and has no partitions since."""
        self._closes_us: dict[str, int] = {}
        """Host -> time at which the plan closed its application, until the host starts again."""
        self._periods: dict[GroupId, list[_StatePeriod]] = {}
        """The states of each group since a coordinator loaded it, oldest first."""
        self._reported: dict[tuple[GroupId, str], dict[int, None]] = {}
        """(group, member id) -> steps with reported commits whose answer the member has not received."""
        self.on = {
            CommitAnswered: self._answered,
            OffsetCommitted: each_of(self._commit),
            OffsetRemoved: self._removed,
            GroupBecame: self._became,
            GroupLoaded: self._loaded,
            PartitionsAssigned: self._owns,
            PartitionsRevoked: self._revoked,
            PositionSet: self._positioned,
            Processed: self._processed,
            DiskTailLost: self._lost_tail,
            FaultApplied: self._operated,
            HostStarted: self._started,
            LogStartMoved: self._start_moved,
            RunStarted: self._run_started,
            MemberHostAdded: self._host_added,
            MemberReconfigured: self._reconfigured,
            TopicDeleted: self._topic_deleted,
            **dict.fromkeys(map(received, (DeleteTopics, DeleteGroups, OffsetDelete)), self._deletion_asked),
            BecameLeader: self._led,
            sent(OffsetForLeaderEpoch): self._validates,
            received(OffsetForLeaderEpochReply): self._is_validated,
        }
        if short_closes:
            self.on |= {sent(OffsetCommit): self._sends, MemberBecame: self._member_became}

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(
            {
                **dict.fromkeys(settings.streams, "earliest"),
                **settings.by_member(lambda of: of.auto_offset_reset),
            },
            settings.broker.offsets_retention_minutes * 60_000_000,
            _eager_groups_with_auto_commit(settings),
            [name for name, times in settings.times.items() if times.close_us < CLOSE_US],
            settings.broker.offsets_retention_check_interval_ms * 1_000,
        )

    def _say(self, seen: Seen, kind: str, at: TopicPartition, text: str) -> None:
        self.violation(seen, kind, (seen.fact.group, f"{at[0]}-{at[1]}", seen.actor), text)

    # --- settings of the scenario ----------------------------------------------------------------------------------

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self._group_of = dict(fact.members)

    def _host_added(self, seen: Seen, fact: MemberHostAdded) -> None:
        self._group_of[fact.host] = fact.group

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        group = self._group_of.get(fact.host, "")
        self._auto_commit.pop(group, None)
        known = self._policies.get(fact.host) or self._policies.get(group)
        for setting in fact.settings:
            key, _, policy = setting.partition("=")
            if key.strip() == RESET_POLICY and known is not None:
                self._policies[fact.host] = known | {policy.strip()}

    def _operated(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind in REMOVES_OFFSETS:
            self._removals_asked.append((seen.at_us, fact.kind, set(fact.text.replace(",", " ").split())))
        elif fact.kind == UNSUBSCRIBE:
            self._unsubscribes[fact.text.partition(" ")[0]] = None
        elif fact.kind == CLOSE:
            self._closes_us.setdefault(fact.text.rpartition(" ")[2], seen.at_us)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._closes_us.pop(fact.host, None)

    def _topic_deleted(self, seen: Seen, fact: TopicDeleted) -> None:
        self._removals_asked.append((seen.at_us, "delete-topic", {fact.topic}))

    def _deletion_asked(self, seen: Seen, fact: Received) -> None:
        """Note the request of a real client; coordinators may learn of a topic's deletion before the controller ends
        it.
        """
        match fact.message:
            case DeleteTopics(topic_names=topics):
                asked = [("delete-topic", {topic}) for topic in topics]
            case DeleteGroups(groups=groups):
                asked = [("delete-group", {group}) for group in groups]
            case OffsetDelete(group=group, topics=rows):
                asked = [("delete-offsets", {group, row.topic}) for row in rows]
        self._removals_asked += [(seen.at_us, kind, names) for kind, names in asked]

    def _is_asked_for(self, group: GroupId, topic: str, since_us: int) -> bool:
        """Whether an operator, or the deletion of a topic, requested the removal of an offset."""
        return any(
            asked_us >= since_us and REMOVES_OFFSETS[kind](group, topic) <= words
            for asked_us, kind, words in self._removals_asked
        )

    # --- the members' work -------------------------------------------------------------------------------------

    def _work_of(self, seen: Seen, at: TopicPartition) -> _Work:
        reader = self.panel.progress.reader(seen, at)
        work = self._work.get(reader)
        if work is None:
            work = self._work[reader] = _Work(reader)
        return work

    def _work_in(self, progress: GroupProgress, member: ActorName, life: int) -> _Work | None:
        """The work of a life of a member on a partition; None without work."""
        reader = progress.held.get(member)
        return None if reader is None or reader.life != life else self._work.get(reader)

    def _owns(self, seen: Seen, fact: PartitionsAssigned) -> None:
        self._unsubscribes.pop(host_of(seen.actor), None)
        for period in self._periods.get(fact.group, [])[-1:]:
            if (period.state, period.generation) == (STABLE, fact.generation):
                period.owned.update(dict.fromkeys(fact.owned))
        asks_deposed, asked = self.panel.asks_deposed(seen), self._removals_asked
        for at in fact.added:
            account = self.panel.commits.account(fact.group, at)
            work, committed_us = self._work_of(seen, at), self._committed_us.get(account, 0)
            # A coordinator that ended may have written a removal without a report.
            unknown = asks_deposed or (asked and self._is_asked_for(fact.group, at[0], committed_us))
            work.starts, work.must_start_at = True, NOTHING if unknown else account.offset

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        self._work_of(seen, (fact.topic, fact.partition))

    def _validates(self, seen: Seen, fact: Send) -> None:
        for each in fact.message.questions:
            self._validated[seen.actor, seen.life, (each.topic, each.partition)] = None

    def _is_validated(self, seen: Seen, fact: Received) -> None:
        for each in fact.message.answers:
            if each.error_code is ErrorCode.NONE:
                self._validated.pop((seen.actor, seen.life, (each.topic, each.partition)), None)

    def _awaits_validation(self, seen: Seen, at: TopicPartition) -> bool:
        """Whether a position may await validation: after a leader change, or until the leader's answer. Such a position
        is not committed (``SubscriptionState.allConsumed``).
        """
        led_us = self._led_us.get(at)
        is_new = led_us is not None and seen.at_us - led_us < SETTLED_US
        return is_new or (seen.actor, seen.life, at) in self._validated

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        """Judge whether work was committed before the revocation of all partitions, unless the application
        unsubscribes.

        Source: ``ConsumerCoordinator.onJoinPrepare``, ``close``, ``onLeavePrepare`` (3.4.1).
        """
        if fact.group not in self._auto_commit or fact.owned or host_of(seen.actor) in self._unsubscribes:
            return
        if not self._can_commit(seen, fact.group):
            return
        for at in fact.revoked:
            work = self._work_of(seen, at)
            reached = work.reader.reached_since
            if work.reader.worked and work.stored < reached and not self._awaits_validation(seen, at):
                what = "nothing" if work.stored < 0 else f"only offset {work.stored}"
                text = f"after processing records up to {reached}, with {what} committed"
                text = f"{seen.actor} revokes {at[0]}-{at[1]} {text}"
                if self._sent.get((seen.actor, seen.life, at), NOTHING) >= reached:
                    self._given_up.setdefault(seen.actor, []).append((seen, at, text))
                else:
                    self._say(seen, "given-up-uncommitted", at, text)

    def _sends(self, seen: Seen, fact: Send) -> None:
        if fact.message.group in self._short_closes:
            for each in fact.message.offsets:
                key = (seen.actor, seen.life, self.panel.topic_names.partition_of(each))
                self._sent[key] = max(self._sent.get(key, NOTHING), each.offset)

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        """Excuse a closing member that sent its commit, but had no time to await the answer.

        Source: ``ConsumerCoordinator.commitOffsetsSync`` (4.1.1): one attempt, also when the timer has expired.
        """
        for given_up, at, text in self._given_up.pop(seen.actor, ()):
            if fact.why != CLOSED or given_up.seq != seen.seq:
                self._say(given_up, "given-up-uncommitted", at, text)

    def _can_commit(self, seen: Seen, group: GroupId) -> bool:
        """Whether the member asks the group's coordinator, and no fault has hit the member or a broker for 10 s."""
        known, panel = self.panel.groups.get(group), self.panel
        if known is None or not known.coordinator:
            return False
        if panel.coordinators.asked_by(seen.actor) not in ("", known.coordinator):
            return False
        hosts = [host for host in panel.hosts if host not in self._group_of]
        since_us = panel.disturbances.undisturbed_since_us([*hosts, host_of(seen.actor)])
        if since_us is None or seen.at_us - since_us < SETTLED_US:
            return False
        # close() waits for the answer to one commit, and the answer may be lost.
        return self._closes_us.get(host_of(seen.actor), since_us) >= since_us

    # --- positions ---------------------------------------------------------------------------------------------

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        at = (fact.topic, fact.partition)
        work = self._work_of(seen, at)
        if fact.why != JUMPED or not self._may_jump(fact.group, at, fact.offset):
            self._judge_position(seen, fact, work, at)
            work.may_go_back_to = None if fact.why == COMMITTED else fact.offset
            work.reached_before = work.reader.reached
        work.starts = False

    def _judge_position(self, seen: Seen, fact: PositionSet, work: _Work, at: TopicPartition) -> None:
        kept = self.panel.progress.kept_in_log
        asked = fact.why == COMMITTED or (work.starts and fact.why not in (SEEK, TRUNCATED))
        is_wrong = asked and work.must_start_at >= 0 and (fact.why != COMMITTED or fact.offset < work.must_start_at)
        # The checker fields judges which coordinator may tell such an offset.
        if is_wrong and fact.offset not in self.panel.commits.unreported(fact.group, at, None):
            self._starts_wrongly(seen, fact, at, f"{work.must_start_at} was committed")
        if fact.why == COMMITTED:
            # A commit in the groups' log counts even if its coordinator was deposed before it reported the commit.
            progress = self.panel.progress.of(fact.group, at)
            furthest = -1
            if progress.highest is not None:  # members also commit positions without work, such as those of seek()
                others = [each.reached for each in progress.held.values() if each is not work.reader]
                furthest = max(progress.highest, progress.done.end, work.reader.reached_before, *others)
            if 0 <= furthest < fact.offset:
                self._starts_wrongly(seen, fact, at, f"the group only reached {furthest}")
        elif fact.why == TRUNCATED and kept:
            text = f"{seen.actor} moves to {fact.offset} of {at[0]}-{at[1]} as after a truncation although {kept}"
            self._say(seen, "not-truncated", at, text)
        elif fact.why == RESET:
            policy = self._breaks_policy(seen, fact)
            if kept:  # Source: ``OffsetFetcher`` (3.4.1): a reset needs OFFSET_OUT_OF_RANGE.
                self._resets_wrongly(seen, "reset-in-range", fact, at, kept)
            if policy:
                self._resets_wrongly(seen, "wrong-reset", fact, at, f"auto.offset.reset is {policy}")

    def _starts_wrongly(self, seen: Seen, fact: PositionSet, at: TopicPartition, why: str) -> None:
        text = f"{seen.actor} starts {at[0]}-{at[1]} at {fact.offset} ({fact.why}) although {why}"
        self._say(seen, "position-not-committed", at, text)

    def _resets_wrongly(self, seen: Seen, kind: str, fact: PositionSet, at: TopicPartition, why: str) -> None:
        self._say(seen, kind, at, f"{seen.actor} resets {at[0]}-{at[1]} to {fact.offset} although {why}")

    def _breaks_policy(self, seen: Seen, fact: PositionSet) -> str:
        """The ``auto.offset.reset`` that a reset breaks; "" for a reset that follows the policy."""
        policies = self._policies.get(host_of(seen.actor)) or self._policies.get(fact.group)
        start = self._starts.get((fact.topic, fact.partition), 0)
        if policies == {"none"}:
            return "none"
        if policies == {"earliest"} and fact.offset > start:
            return f"earliest, and the log starts at {start}"
        if policies == {"latest"} and self.panel.progress.not_the_end:
            return f"latest, and {self.panel.progress.not_the_end}"
        return ""

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        at = (fact.topic, fact.partition)
        self._starts[at] = max(self._starts.get(at, 0), fact.start_offset)

    def _may_jump(self, group: GroupId, at: TopicPartition, offset: int) -> bool:
        """Whether the last token of the second commit log ends at this offset: the second consumer processes earlier
        records.
        """
        return self.panel.ranges.of(group, at).last_end == offset

    # --- commits -----------------------------------------------------------------------------------------------

    def _commit(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        committer = (seen.fact.group, seen.fact.member_id)
        self._reported.setdefault(committer, {})[seen.seq] = None
        if not self.panel.commits.is_current:
            return
        taken = self.panel.took.get(committer)
        offsets = zip(self.panel.commits.last, self.panel.progress.committed_on, strict=True)
        for (fact, account, before, is_late), progress in offsets:
            self._committed_us[account] = seen.at_us
            if fact.generation != NO_GENERATION:
                work = None if taken is None else self._work_in(progress, taken.actor, taken.life)
                self._judge_commit(seen, fact, account.at, work, NOTHING if is_late else before)

    def _judge_commit(
        self, seen: Seen, fact: OffsetCommitted, at: TopicPartition, work: _Work | None, not_below: int
    ) -> None:
        """Judge a committed offset, which is at least ``not_below`` unless a position was reset."""
        group, offset = fact.group, fact.offset
        reached = NOTHING if work is None else work.reader.reached
        if (work is None or offset > reached) and not self._may_jump(group, at, offset):
            upto = "no record" if reached < 0 else f"records only up to {reached}"
            self._say(seen, "ahead-of-work", at, f"{_commit_text(fact)} although it processed {upto}")
        back_to = None if work is None else work.may_go_back_to
        if offset < not_below and (back_to is None or offset < back_to):
            text = f"{_commit_text(fact)} although {not_below} was committed and no position was reset"
            self._say(seen, "went-back", at, text)
        if work is not None:
            may_be_late = offset == work.reached_before  # sent before the reset
            if back_to is not None and back_to < offset <= work.reader.reached_since and not may_be_late:
                work.may_go_back_to = offset
            if offset > work.stored:
                work.stored = offset

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        reported = self._reported.get((fact.group, fact.member_id))
        if fact.error is not ErrorCode.NONE:
            for group, _, progress in self.panel.progress:
                work = self._work_in(progress, seen.actor, seen.life) if group == fact.group else None
                if work is not None:
                    work.stored = max(work.stored, work.reader.reached_since)
        elif reported:
            del reported[next(iter(reported))]
            if not reported:
                del self._reported[fact.group, fact.member_id]
        else:
            text = f"{seen.actor} learned that a commit succeeded, but no coordinator reported the commit"
            self.violation(seen, "not-kept", (fact.group, seen.actor), text)

    # --- removals ----------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if self.panel.is_current(seen):
            self._is_empty_until(seen.at_us, fact.group)
            self._periods.setdefault(fact.group, []).append(_StatePeriod(fact.new, fact.generation, seen.at_us))

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        self._periods[fact.group] = [_StatePeriod("", fact.generation, seen.at_us)]

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        if not self.panel.is_current(seen):
            return
        at = (fact.topic, fact.partition)
        committed_us = self._committed_us.pop(self.panel.commits.account(fact.group, at), None)
        asked = self._is_asked_for(fact.group, fact.topic, seen.at_us - OPERATOR_US)
        periods, by_commit = self._periods_before(seen, fact.group), fact.group in self.consumer_protocol_groups
        whys = [self._why_kept(seen, period, at, committed_us, by_commit=by_commit) for period in periods]
        if not asked and all(whys):
            text = f"the offset of {fact.topic}-{fact.partition} in {fact.group} was removed {whys[0]}"
            self._say(seen, "removed-too-early", at, f"{text}, and no operator asked for the removal")
        self._may_start_before(at, fact.group)

    def _periods_before(self, seen: Seen, group: GroupId) -> list[_StatePeriod]:
        """The states in which the coordinator may have decided the removal, the present state first. The write of the
        removal's record takes time.
        """
        found: list[_StatePeriod] = []
        for period in reversed(self._periods.get(group, [_StatePeriod("", 0, 0)])):
            found.append(period)
            if seen.at_us - period.since_us > SETTLED_US:
                break
        return found

    def _why_kept(
        self, seen: Seen, period: _StatePeriod, at: TopicPartition, committed_us: int | None, *, by_commit: bool
    ) -> str:
        """The reason why an offset must not expire in this state of the group; "" if it may expire.

        ``by_commit``: whether the offsets of an empty group expire by the time of their commit, as those of a group of
        the consumer protocol do. Source: KIP-211, ``GroupMetadata.removeExpiredOffsets`` (3.4.1),
        ``ConsumerGroup.offsetExpirationCondition`` (4.0 to 4.3).
        """
        if period.state in REBALANCING:
            return "while its group rebalances"
        if at in period.owned:
            return "although a member owns the partition"
        is_empty = period.state == EMPTY and not by_commit
        since_us, since = (period.since_us, "its group became empty") if is_empty else (committed_us, "its commit")
        if since_us is None or seen.at_us - since_us >= self._kept_us:
            return ""
        return f"{(seen.at_us - since_us) / 1e6:.1f} s after {since}"

    def finish(self, at_us: int) -> None:
        """Judge the offsets that are committed at the end of the run."""
        for given_up, at, text in [each for one in self._given_up.values() for each in one]:
            self._say(given_up, "given-up-uncommitted", at, text)
        for group in self._periods:
            self._is_empty_until(at_us, group)

    def _is_empty_until(self, at_us: int, group: GroupId) -> None:
        periods, log, watched = self._periods.get(group), self.panel.log_of(group), self.panel.groups.get(group)
        if not periods or periods[-1].state != EMPTY or watched is None or self.panel.now is None:
            return
        hosts = [watched.coordinator, *([self.panel.leaders.get(log, "")] if log in self.panel.states else [])]
        free_us = self.panel.disturbances.undisturbed_since_us([host_of(each) for each in hosts])
        for account, committed_us in self._committed_us.items() if all(hosts) and free_us is not None else ():
            kept_us = at_us - max(free_us or 0, committed_us, periods[-1].since_us)
            if account.group == group and kept_us > self._removed_by_us:
                where = f"{account.at[0]}-{account.at[1]}"
                text = f"the offset of {where} in {group} remains {kept_us / 1e6:.0f} s after its group became empty"
                now = self.panel.now._replace(at_us=at_us)
                self.violation(now, "removed-too-late", (group, where), text, liveness=True)

    # --- logs that lost records -------------------------------------------------------------------------------------

    def _may_start_before(self, at: TopicPartition, group: GroupId, committed: int = NOTHING) -> None:
        """Note that members may find this committed offset, or an earlier offset."""
        progress = self.panel.progress.known(group, at)
        for reader in progress.held.values() if progress is not None else ():
            work = self._work.get(reader)
            if work is not None:
                work.must_start_at = min(work.must_start_at, committed)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            self._periods.clear()
            self._committed_us.clear()
            for work in self._work.values():
                work.must_start_at = NOTHING

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        """Note that a log of groups may have lost commits."""
        self._led_us[fact.topic, fact.partition] = seen.at_us
        for (group, at), left in self.panel.commits.changed:
            self._committed_us.pop(self.panel.commits.account(group, at), None)
            self._may_start_before(at, group, left)


def _commit_text(fact: OffsetCommitted) -> str:
    return f"{fact.member_id} committed {fact.offset} of {fact.topic}-{fact.partition}"


def _eager_groups_with_auto_commit(settings: Settings) -> tuple[str, ...]:
    """Groups of eager members with the same settings and with auto-commit."""
    found = []
    for name, group in settings.scenario.groups.items():
        config = group.consumer(name, "", 0, settings.release.consumer)
        by_range = set(config.partition_assignment_strategy) & {"range", "roundrobin", "sticky"}
        eager = bool(by_range) and config.rebalance_protocol == "eager" and not config.enable_parallel_rebalance
        if group.streams is None and not group.overrides and eager and config.enable_auto_commit:
            found.append(name)
    return tuple(found)
