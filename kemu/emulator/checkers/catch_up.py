"""KIP-333's mode keeps what it promises: at least once, by two consumers that never do each other's work.

What the first consumer of a partition skips is a range. Its token is in the second commit log before the range's end is
committed in the first; then the first consumer begins there. The second consumer works ranges off, oldest first.

======================  =============================================================================================
kind                    rule, for groups with a member in the mode
======================  =============================================================================================
range-misplaced         a range begins where both logs end (or later, at work that is done and whose commit was not
                        told), holds something, and ends within the partition
not-jumped              who owns a partition anew begins at the end that the log had then, with that end committed
commit-not-rising       commits of the second log rise; the same again by the same member is a request repeated
committed-unprocessed   what lies below a commit of the second log was processed, or rightly skipped
outside-range           the second consumer is only in ranges of partitions that its member owns
delivered-twice         within one ownership no record is returned by both consumers
second-uncommitted      the second consumer commits within ``auto.commit.interval.ms``, undisturbed
range-left-open         once all is well every range is worked off within the bound
======================  =============================================================================================

``commits`` judges the first log. A position that a seek or a reset set ends delivered-twice for that ownership. Of a
partition that was cut (an unclean election, a lost disk) rules on offsets say nothing. An owner who worked a range off
and said so does no more if the groups' log lost that.
"""

from collections.abc import Iterator, Mapping

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Healed, HostStarted, MemberReconfigured, Seen
from kemu.emulator.watching.panel import Service
from kemu.emulator.watching.progress import pieces_of
from kemu.emulator.watching.ranges import Ranges
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
"""As for liveness."""
COMMIT_US = 3_000_000
"""How long a commit may take beside the interval and the application's work."""


class _Ownership:
    """What the two consumers of a member did since it owns a partition."""

    def __init__(self, due: int) -> None:
        self.due = due
        """The end that the log had when the partition was assigned, as far as later leaders have it."""
        self.first = Ranges()
        self.second = Ranges()
        self.begun = False
        """Its first position is set."""
        self.sought = False
        """Another one was set later: a seek, a reset, or the partition was cut."""
        self.told = -1
        """How far the second consumer's commits came, whatever the groups' log has lost of them since."""
        self.owes_us: int | None = None
        """Since when the second consumer's work waits for a commit, ..."""
        self.owes = 0
        """... and up to where it came by then."""


class CatchUpChecker(Checker):
    """With ``enable.parallel.rebalance``: at least once, disjoint ranges, rising commits, nothing committed too early.

    Args:
        bound_us: how long ranges may stay open without any progress once all is well.
        commit_us: by group whose members commit by themselves, ``auto.commit.interval.ms`` and the work of two polls.
    """

    name = "catch-up"

    def __init__(self, bound_us: int = DEFAULT_BOUND_US, commit_us: Mapping[GroupId, int] | None = None) -> None:
        super().__init__()
        self._bound_us = bound_us
        self._commit_us = dict(commit_us or {})
        self._cut: dict[TopicPartition, None] = {}
        """Partitions that lost records."""
        self._writers: dict[tuple[type, Service], tuple[MemberId, int]] = {}
        """Kind of record -> who made the last one, under which generation; nobody knows once some were lost."""
        self._ownerships: dict[tuple[ActorName, int, TopicPartition], _Ownership] = {}
        """(actor, life, partition) -> what is done under the present ownership."""
        self._healed: Seen | None = None
        """When all was well, or a host started last since."""
        self.on = {
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._given_up,
            PartitionsLost: self._given_up,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._range_processed,
            RangeTrimmed: self._trimmed,
            RangeOpened: self._opened,
            RangeCommitted: self._range_committed,
            BecameLeader: self._another_log,
            PartitionHosted: self._another_log,
            DiskTailLost: self._lost_tail,
            MemberReconfigured: self._reconfigured,
            CommitAnswered: self._commit_answered,
            Healed: self._disturbed,
            HostStarted: self._disturbed,
        }

    # --- members -----------------------------------------------------------------------------------------------

    def _ownership(self, seen: Seen, at: TopicPartition) -> _Ownership | None:
        return self._ownerships.get((seen.actor, seen.life, at))

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        if seen.actor in self.panel.ranges.members:
            for at in fact.added:
                self._ownerships[seen.actor, seen.life, at] = _Ownership(self.panel.readable.end(at))

    def _given_up(self, seen: Seen, fact: PartitionsRevoked | PartitionsLost) -> None:
        for at in fact.revoked if isinstance(fact, PartitionsRevoked) else fact.lost:
            self._ownerships.pop((seen.actor, seen.life, at), None)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        at = (fact.topic, fact.partition)
        owned = self._ownership(seen, at)
        if owned is None:
            return
        by_itself = fact.why in (COMMITTED, JUMPED)
        owned.sought = owned.sought or (owned.begun and not by_itself)
        owned.begun = True
        if by_itself and at not in self._cut:
            logs = self.panel.ranges.of(fact.group, at)
            due = max(owned.due, logs.last_end or 0)
            if fact.offset < due or (fact.why == JUMPED and (logs.primary or 0) < fact.offset):
                text = f"{seen.actor} begins at {fact.offset} ({fact.why}), where the log or a range ended at {due} and"
                self._say(seen, "not-jumped", fact.group, at, f"{text} {logs.primary} was committed")

    def _processed(self, seen: Seen, fact: Processed) -> None:
        at = (fact.topic, fact.partition)
        owned = self._ownership(seen, at)
        if owned is not None:
            self._once(seen, fact, owned, owned.first, owned.second)
            self._owes(seen, fact.group, at, owned)

    def _range_processed(self, seen: Seen, fact: RangeProcessed) -> None:
        at = (fact.topic, fact.partition)
        owned = self._ownership(seen, at)
        ranges = (*self.panel.ranges.of(fact.group, at).tokens, *self.panel.ranges.kept(fact.group, at).opened)
        inside = any(each.start <= fact.first and fact.last <= each.end for each in ranges) or at in self._cut
        if owned is None or not inside:
            why = "does not own" if owned is None else "has no range of"
            text = f"the second consumer of {seen.actor} processed {fact.first} to {fact.last - 1}, which it {why}"
            self._say(seen, "outside-range", fact.group, at, text)
        if owned is not None:
            self._once(seen, fact, owned, owned.second, owned.first)
            if owned.owes_us is None:
                owned.owes_us, owned.owes = seen.at_us, fact.last
            self._owes(seen, fact.group, at, owned)

    def _once(
        self, seen: Seen, fact: Processed | RangeProcessed, owned: _Ownership, mine: Ranges, others: Ranges
    ) -> None:
        mine.add(fact.first, fact.last)
        if others.within(fact.first, fact.last) and not owned.sought:
            text = f"both consumers of {seen.actor} processed some of {fact.first} to {fact.last - 1}"
            self._say(seen, "delivered-twice", fact.group, (fact.topic, fact.partition), text)

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        self.panel.ranges.kept(fact.group, (fact.topic, fact.partition)).changed_us = seen.at_us

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        self._commit_us.pop(self.panel.memberships.group_of.get(fact.host, ""), None)

    def _commit_answered(self, seen: Seen, fact: CommitAnswered) -> None:
        """A commit that failed is made again an interval later; it may fail as long as the log cannot be written."""
        for (actor, life, _), owned in self._ownerships.items():
            if fact.error is not ErrorCode.NONE and (actor, life) == (seen.actor, seen.life):
                owned.owes_us = None if owned.owes_us is None else seen.at_us

    def _owes(self, seen: Seen, name: GroupId, at: TopicPartition, owned: _Ownership) -> None:
        """A member at work whose second consumer did not commit what it worked off an interval ago."""
        group = self.panel.memberships.groups.get(name)
        if owned.owes_us is None or name not in self._commit_us or group is None or group.state != "Stable":
            return
        brokers = [host for host in self.panel.hosts if host not in self.panel.memberships.group_of]
        since_us = self.panel.disturbances.undisturbed_since_us([*brokers, host_of(seen.actor)])
        bound_us = self._commit_us[name] + COMMIT_US
        if since_us is not None and seen.at_us > max(since_us, group.since_us, owned.owes_us) + bound_us:
            text = f"the second consumer of {seen.actor} came to {owned.owes} by {owned.owes_us / 1e6:g} s"
            self._say(seen, "second-uncommitted", name, at, f"{text}, and did not commit within {bound_us / 1e6:g} s")
            owned.owes_us = None

    # --- the second commit log ---------------------------------------------------------------------------------

    def _says_again(self, fact: RangeCommitted | RangeOpened) -> bool:
        """Whether the same member, in the same generation, made the last record of this kind; it has made this one."""
        key = type(fact), (fact.group, (fact.topic, fact.partition))
        writer = (fact.member_id, fact.generation)
        before, self._writers[key] = self._writers.get(key, writer), writer
        return before == writer

    def _opened(self, seen: Seen, fact: RangeOpened) -> None:
        at = (fact.topic, fact.partition)
        if not self.panel.is_current(seen):
            return
        before, first = self.panel.ranges.kept(fact.group, at).before, self.panel.commits.of(fact.group, at)
        repeated = self._says_again(fact) and before.tokens[-1:] == (OffsetRange(fact.start, fact.end),)
        begin, end = max(first, before.last_end or 0), self.panel.logs.of(at).records.end
        # a commit that is in the groups' log counts, also if its coordinator's office ended before it told of it
        is_right = (
            begin <= fact.start <= max(begin, self.panel.progress.of(fact.group, at).done.end) and fact.end <= end
        )
        if fact.start >= fact.end or not (is_right or repeated or at in self._cut):
            text = f"{fact.member_id} opened the range {fact.start} to {fact.end}; both commit logs end at {begin}"
            self._say(seen, "range-misplaced", fact.group, at, f"{text}, the partition at {end}")

    def _range_committed(self, seen: Seen, fact: RangeCommitted) -> None:
        at = (fact.topic, fact.partition)
        taken = self.panel.took.get((fact.group, fact.member_id))
        owned = None if taken is None else self._ownerships.get((taken.actor, taken.life, at))
        if owned is not None:
            owned.told = max(owned.told, fact.offset)
            if owned.owes_us is not None and fact.offset >= owned.owes:
                done = max([owned.owes, *[last for _, last in owned.second]])
                owned.owes_us, owned.owes = (None if fact.offset >= done else seen.at_us), done
        if not self.panel.is_current(seen):
            return
        known = self.panel.ranges.kept(fact.group, at).before.secondary
        repeated = self._says_again(fact) and known == fact.offset
        if at in self._cut:
            return
        if known is not None and fact.offset <= known and not repeated:
            text = f"{fact.member_id} committed {fact.offset} to the second log, which says {known} already"
            self._say(seen, "commit-not-rising", fact.group, at, text)
        account = self.panel.progress.of(fact.group, at)
        for begin, end, _ in self.panel.progress.unprocessed(account, at) if account.began else ():
            text = f"{fact.member_id} committed {fact.offset} to the second log, and nobody processed"
            self._say(seen, "committed-unprocessed", fact.group, at, f"{text} records {begin} to {end - 1}")

    # --- logs that lose something ------------------------------------------------------------------------------

    def _another_log(self, seen: Seen, fact: BecameLeader | PartitionHosted) -> None:
        at = (fact.topic, fact.partition)
        for owner, owned in self._ownerships.items():
            if owner[2] == at:
                owned.due = min(owned.due, self.panel.readable.end(at))
        if self.panel.logs.truncated_at is not None:
            if fact.topic == OFFSETS_TOPIC:
                self._writers.clear()
            else:
                self._cut[at] = None

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._writers.clear()
        topic, _, number = fact.log.rpartition("-")
        if number.isdecimal():
            self._cut[topic, int(number)] = None

    # --- all is well -------------------------------------------------------------------------------------------

    def _disturbed(self, seen: Seen, fact: Healed | HostStarted) -> None:
        if isinstance(fact, Healed) or self._healed is not None:
            self._healed = seen

    def _left_open(self) -> Iterator[tuple[Service, str]]:
        """Ranges of groups with running members that wait for somebody to work them off."""
        for group, partitions in self.panel.ranges.groups.items():
            for at, kept in partitions.items() if self.panel.running_members(group) else ():
                open_ranges = [each for each in kept.logs.open_ranges if not self._worked_off(group, at, each)]
                if open_ranges:
                    yield (group, at), ", ".join(f"{each.start} to {each.end - 1}" for each in open_ranges)

    def _worked_off(self, group: GroupId, at: TopicPartition, each: OffsetRange) -> bool:
        """By its owner, who said so: should the groups' log have lost that, the next owner reads it once more.

        Or by the first consumer, which went back to where the partition was cut: then the range is void to its owner.
        """
        pieces = pieces_of(self.panel.logs.of(at).records, each.start, each.end)
        if at in self._cut and not self.panel.progress.of(group, at).left(pieces):
            return True
        holdings = (self.panel.holdings.get(actor) for actor in self.panel.running_members(group))
        owners = (self._ownerships.get((one.actor, one.life, at)) for one in holdings if one is not None)
        return any(
            owned.told >= each.end and not owned.second.gaps(each.start, each.end)
            for owned in owners
            if owned is not None
        )

    @property
    def satisfied(self) -> bool:
        """Whether every range is worked off."""
        return not any(True for _ in self._left_open())

    def finish(self, at_us: int) -> None:
        """A run that ended before the bound is not judged by it."""
        if self._healed is None:
            return
        for (group, at), spans in self._left_open():
            since_us = max(self._healed.at_us, self.panel.ranges.kept(group, at).changed_us)
            if at_us - since_us >= self._bound_us:
                name = f"{at[0]}-{at[1]}"
                text = f"nobody works off {spans} of {name} for {(at_us - since_us) / 1e6:g} s"
                self.violation(self._healed, "range-left-open", (group, name), text, liveness=True)

    def _say(self, seen: Seen, kind: str, group: GroupId, at: TopicPartition, text: str) -> None:
        name = f"{at[0]}-{at[1]}"
        self.violation(seen, kind, (group, name, seen.actor), f"{text} ({name} of group {group})")
