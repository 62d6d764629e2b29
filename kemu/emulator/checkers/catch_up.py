"""KIP-333's mode: at-least-once by two consumers with separate ranges.

The first consumer of a partition skips a range; the second consumer
processes ranges, oldest first.

- range-misplaced: a range is not empty and ends within the partition. It begins at the end of both logs, or at
  processed records with an unreported commit.
- not-jumped: a new owner begins at the end of the log, with that end
  committed.
- commit-not-rising: commits of the second log increase, except for a repeated request.
- committed-unprocessed: records below a commit of the second log were processed or rightly skipped.
- outside-range: the second consumer stays within ranges of owned
  partitions.
- delivered-twice: no record is delivered by both consumers of one
  ownership.
- second-uncommitted: the second consumer commits within
  ``auto.commit.interval.ms``.
- range-left-open: after the faults every range of a partition with an owner
  is processed within the bound (``liveness`` requires the owner).

``commits`` judges the first log. Truncated partitions are exempt from rules
about offsets.

Source: KIP-333.
"""

from collections.abc import Iterator, Mapping
from typing import Self

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Healed, HostStarted, MemberReconfigured, Seen, only_news
from kemu.emulator.watching.panel import Service
from kemu.emulator.watching.progress import pieces_of
from kemu.emulator.watching.ranges import Ranges
from kemu.emulator.watching.settings import Settings
from kemu.protocol.catch_up import OffsetRange
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, MemberId, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    CommitAnswered,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened, RangeProcessed, RangeTrimmed
from kemu.protocol.notes.replication import BecameLeader

DEFAULT_BOUND_US = 45_000_000 + 300_000_000 + 60_000_000
"""The bound of ``liveness``."""
COMMIT_US = 3_000_000
"""Longest time of a commit, besides the interval and the application's work, in us."""


class _Ownership:
    """The work of a member's two consumers since the member became owner of the partition."""

    def __init__(self, due: int) -> None:
        self.due = due
        """The end of the log at the assignment; lowered to the end of later leaders with fewer records."""
        self.first = Ranges()
        self.second = Ranges()
        self.has_begun = False
        """Whether the first position is set."""
        self.was_reset = False
        """Whether a seek, a reset or a truncation changed the position later."""
        self.committed = -1
        """The highest offset that the second consumer committed, even if the groups' log lost the commit later."""
        self.uncommitted_us: int | None = None
        """Time since which the second consumer's work waits for a commit, in us."""
        self.uncommitted_to = 0
        """The offset that the second consumer had reached at ``uncommitted_us``."""


class CatchUpChecker(Checker):
    """Judges groups with ``enable.parallel.rebalance`` (KIP-333).

    Args:
        bound_us: longest time for which ranges may stay open without progress after the faults.
        commit_us: group with auto-commit -> ``auto.commit.interval.ms`` and the work of two polls, in us.
    """

    name = "catch-up"
    kinds = (
        "commit-not-rising",
        "committed-unprocessed",
        "delivered-twice",
        "not-jumped",
        "outside-range",
        "range-left-open",
        "range-misplaced",
        "second-uncommitted",
    )

    def __init__(self, bound_us: int = DEFAULT_BOUND_US, commit_us: Mapping[GroupId, int] | None = None) -> None:
        super().__init__()
        self._bound_us = bound_us
        self._commit_us = dict(commit_us or {})
        self._truncated: dict[TopicPartition, None] = {}
        """Partitions that lost records."""
        self._writers: dict[tuple[type, Service], tuple[MemberId, int]] = {}
        """(record type, service) -> (member id, generation) of the last record; empty after the groups' log lost
        records."""
        self._ownerships: dict[tuple[ActorName, int, TopicPartition], _Ownership] = {}
        """(actor, life, partition) -> the work of the present ownership."""
        self._healed: Seen | None = None
        """The fact of the end of the faults, or of the last later start of a host."""
        self.on = {
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._lost_partitions,
            PartitionsLost: self._lost_partitions,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._range_processed,
            RangeTrimmed: self._trimmed,
            RangeOpened: self._opened,
            RangeCommitted: self._range_committed,
            BecameLeader: self._leader_changed,
            PartitionHosted: self._leader_changed,
            DiskTailLost: self._lost_tail,
            MemberReconfigured: self._reconfigured,
            CommitAnswered: self._commit_answered,
            Healed: self._disturbed,
            HostStarted: self._disturbed,
        }

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        every = settings.times.items()
        commit_us = {name: each.commit_us + 2 * each.poll_us for name, each in every if all(each.commits.values())}
        return cls(settings.scenario.stable_within_us, commit_us)

    # --- members -----------------------------------------------------------------------------------------------

    def _ownership(self, seen: Seen, at: TopicPartition) -> _Ownership | None:
        return self._ownerships.get((seen.actor, seen.life, at))

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        if seen.actor in self.panel.ranges.members:
            for at in fact.added:
                self._ownerships[seen.actor, seen.life, at] = _Ownership(self.panel.readable.end(at))

    def _lost_partitions(self, seen: Seen, fact: PartitionsRevoked | PartitionsLost) -> None:
        for at in fact.revoked if isinstance(fact, PartitionsRevoked) else fact.lost:
            self._ownerships.pop((seen.actor, seen.life, at), None)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        at = (fact.topic, fact.partition)
        owned = self._ownership(seen, at)
        if owned is None:
            return
        by_itself = fact.why in (COMMITTED, JUMPED)
        owned.was_reset = owned.was_reset or (owned.has_begun and not by_itself)
        owned.has_begun = True
        if by_itself and at not in self._truncated:
            logs = self.panel.ranges.of(fact.group, at)
            due = max(owned.due, logs.last_end or 0)
            if fact.offset < due or (fact.why == JUMPED and (logs.primary or 0) < fact.offset):
                text = f"{seen.actor} begins at {fact.offset} ({fact.why}); the log or a range ended at {due}, and"
                self._say(seen, "not-jumped", fact.group, at, f"{text} {logs.primary} was committed")

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        if fact.group not in self.panel.ranges.groups:  # no member has a second consumer
            return
        at = (fact.topic, fact.partition)
        owned = self._ownership(seen, at)
        if owned is not None:
            self._judge_twice(seen, fact, owned, owned.first, owned.second)
            self._judge_uncommitted(seen, fact.group, at, owned)

    def _range_processed(self, seen: Seen, fact: RangeProcessed) -> None:
        at = (fact.topic, fact.partition)
        owned = self._ownership(seen, at)
        ranges = (*self.panel.ranges.of(fact.group, at).tokens, *self.panel.ranges.kept(fact.group, at).opened)
        inside = any(each.start <= fact.first and fact.last <= each.end for each in ranges) or at in self._truncated
        if owned is None or not inside:
            why = "does not own" if owned is None else "has no range of"
            text = f"the second consumer of {seen.actor} processed {fact.first} to {fact.last - 1}, which it {why}"
            self._say(seen, "outside-range", fact.group, at, text)
        if owned is not None:
            self._judge_twice(seen, fact, owned, owned.second, owned.first)
            if owned.uncommitted_us is None:
                owned.uncommitted_us, owned.uncommitted_to = seen.at_us, fact.last
            self._judge_uncommitted(seen, fact.group, at, owned)

    def _judge_twice(
        self, seen: Seen, fact: Processed | RangeProcessed, owned: _Ownership, own: Ranges, others: Ranges
    ) -> None:
        own.add(fact.first, fact.last)
        if others.within(fact.first, fact.last) and not owned.was_reset:
            text = f"both consumers of {seen.actor} processed some of {fact.first} to {fact.last - 1}"
            self._say(seen, "delivered-twice", fact.group, (fact.topic, fact.partition), text)

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        self.panel.ranges.kept(fact.group, (fact.topic, fact.partition)).changed_us = seen.at_us

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        self._commit_us.pop(self.panel.memberships.group_of.get(fact.host, ""), None)

    def _commit_answered(self, seen: Seen, fact: CommitAnswered) -> None:
        """A failed commit is retried an interval later. The retry may fail while the broker cannot write to the log."""
        for (actor, life, _), owned in self._ownerships.items():
            if fact.error is not ErrorCode.NONE and (actor, life) == (seen.actor, seen.life):
                owned.uncommitted_us = None if owned.uncommitted_us is None else seen.at_us

    def _judge_uncommitted(self, seen: Seen, name: GroupId, at: TopicPartition, owned: _Ownership) -> None:
        """Judge a member whose second consumer has not committed work that is older than an interval."""
        group = self.panel.memberships.groups.get(name)
        if owned.uncommitted_us is None or name not in self._commit_us or group is None or group.state != "Stable":
            return
        brokers = [host for host in self.panel.hosts if host not in self.panel.memberships.group_of]
        since_us = self.panel.disturbances.undisturbed_since_us([*brokers, host_of(seen.actor)])
        bound_us = self._commit_us[name] + COMMIT_US
        if since_us is not None and seen.at_us > max(since_us, group.since_us, owned.uncommitted_us) + bound_us:
            reached = f"reached {owned.uncommitted_to} at {owned.uncommitted_us / 1e6:g} s"
            text = f"the second consumer of {seen.actor} {reached}"
            self._say(seen, "second-uncommitted", name, at, f"{text}, and did not commit within {bound_us / 1e6:g} s")
            owned.uncommitted_us = None

    # --- the second commit log ---------------------------------------------------------------------------------

    def _is_repeated(self, fact: RangeCommitted | RangeOpened) -> bool:
        """Whether the same member, in the same generation, wrote the last record of this kind. Store the new record as
        the last record.
        """
        key = type(fact), (fact.group, (fact.topic, fact.partition))
        writer = (fact.member_id, fact.generation)
        before, self._writers[key] = self._writers.get(key, writer), writer
        return before == writer

    def _opened(self, seen: Seen, fact: RangeOpened) -> None:
        at = (fact.topic, fact.partition)
        if not self.panel.is_current(seen):
            return
        before, first = self.panel.ranges.kept(fact.group, at).before, self.panel.commits.of(fact.group, at)
        repeated = self._is_repeated(fact) and before.tokens[-1:] == (OffsetRange(fact.start, fact.end),)
        begin, end = max(first, before.last_end or 0), self.panel.logs.of(at).records.end
        # A commit in the groups' log is valid even if the coordinator was deposed before its report of the commit.
        is_right = (
            begin <= fact.start <= max(begin, self.panel.progress.of(fact.group, at).done.end) and fact.end <= end
        )
        if fact.start >= fact.end or not (is_right or repeated or at in self._truncated):
            text = f"{fact.member_id} opened the range {fact.start} to {fact.end}; both commit logs end at {begin}"
            self._say(seen, "range-misplaced", fact.group, at, f"{text}, the partition at {end}")

    def _range_committed(self, seen: Seen, fact: RangeCommitted) -> None:
        at = (fact.topic, fact.partition)
        taken = self.panel.took.get((fact.group, fact.member_id))
        owned = None if taken is None else self._ownerships.get((taken.actor, taken.life, at))
        if owned is not None:
            owned.committed = max(owned.committed, fact.offset)
            if owned.uncommitted_us is not None and fact.offset >= owned.uncommitted_to:
                done = max([owned.uncommitted_to, *[last for _, last in owned.second]])
                owned.uncommitted_us, owned.uncommitted_to = (None if fact.offset >= done else seen.at_us), done
        if not self.panel.is_current(seen):
            return
        known = self.panel.ranges.kept(fact.group, at).before.secondary
        repeated = self._is_repeated(fact) and known == fact.offset
        if at in self._truncated:
            return
        if known is not None and fact.offset <= known and not repeated:
            text = f"{fact.member_id} committed {fact.offset} to the second log, which has {known} already"
            self._say(seen, "commit-not-rising", fact.group, at, text)
        account = self.panel.progress.of(fact.group, at)
        for begin, end, _ in self.panel.progress.unprocessed(account, at) if account.began else ():
            text = f"{fact.member_id} committed {fact.offset} to the second log without processing"
            self._say(seen, "committed-unprocessed", fact.group, at, f"{text} records {begin} to {end - 1}")

    # --- logs that lose records ----------------------------------------------------------------------------------

    def _leader_changed(self, seen: Seen, fact: BecameLeader | PartitionHosted) -> None:
        at = (fact.topic, fact.partition)
        for owner, owned in self._ownerships.items():
            if owner[2] == at:
                owned.due = min(owned.due, self.panel.readable.end(at))
        if self.panel.logs.truncated_at is not None:
            if fact.topic == OFFSETS_TOPIC:
                self._writers.clear()
            else:
                self._truncated[at] = None

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._writers.clear()
        topic, _, number = fact.log.rpartition("-")
        if number.isdecimal():
            self._truncated[topic, int(number)] = None

    # --- after the faults ----------------------------------------------------------------------------------------

    def _disturbed(self, seen: Seen, fact: Healed | HostStarted) -> None:
        if isinstance(fact, Healed) or self._healed is not None:
            self._healed = seen

    def _left_open(self) -> Iterator[tuple[Service, str]]:
        """Yield the open ranges of partitions that running members own."""
        for group, partitions in self.panel.ranges.groups.items():
            holdings = [self.panel.holdings.get(actor) for actor in self.panel.running_members(group)]
            owned = {at for holding in holdings if holding is not None for at in holding.owned}
            for at, kept in partitions.items():
                if at not in owned:
                    continue
                open_ranges = [each for each in kept.logs.open_ranges if not self._is_processed(group, at, each)]
                if open_ranges:
                    yield (group, at), ", ".join(f"{each.start} to {each.end - 1}" for each in open_ranges)

    def _is_processed(self, group: GroupId, at: TopicPartition, each: OffsetRange) -> bool:
        """Whether a range was processed: by the owner's report, or by the first consumer after a truncation.

        If the groups' log lost the report, the next owner processes the range again.
        """
        pieces = pieces_of(self.panel.logs.of(at).records, each.start, each.end)
        if at in self._truncated and not self.panel.progress.of(group, at).left(pieces):
            return True
        holdings = (self.panel.holdings.get(actor) for actor in self.panel.running_members(group))
        owners = (self._ownerships.get((one.actor, one.life, at)) for one in holdings if one is not None)
        return any(
            owned.committed >= each.end and not owned.second.gaps(each.start, each.end)
            for owned in owners
            if owned is not None
        )

    @property
    def satisfied(self) -> bool:
        """Whether every range is processed."""
        return not any(True for _ in self._left_open())

    def finish(self, at_us: int) -> None:
        """Judge ranges that stayed open for longer than the bound."""
        if self._healed is None:
            return
        for (group, at), spans in self._left_open():
            since_us = max(self._healed.at_us, self.panel.ranges.kept(group, at).changed_us)
            if at_us - since_us >= self._bound_us:
                name = f"{at[0]}-{at[1]}"
                text = f"records {spans} of {name} stay unprocessed for {(at_us - since_us) / 1e6:g} s"
                self.violation(self._healed, "range-left-open", (group, name), text, liveness=True)

    def _say(self, seen: Seen, kind: str, group: GroupId, at: TopicPartition, text: str) -> None:
        name = f"{at[0]}-{at[1]}"
        self.violation(seen, kind, (group, name, seen.actor), f"{text} ({name} of group {group})")
