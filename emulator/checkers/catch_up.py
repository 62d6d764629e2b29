"""KIP-333's mode keeps what it promises: at least once, by two consumers that never do each other's work.

Theory. What the first consumer of a partition skips is a range, whose token is in the second commit log before the end
of the range is in the first; the second consumer works off ranges, oldest first. Of groups with a member in the mode:

==  =====================================================================================  ======================
J1  tokens are not empty, follow each other and do not overlap; repeated as J2             ranges-overlap
J2  the commits of each log rise, but for the first one since a seek or a reset; the same  commit-not-rising
    one twice is a request that was repeated
J3  ``committed()`` goes back with such a commit only; all below it was processed or left  committed-went-back,
    in the open (reset, ``seek``, an operator's commit, retention)                         committed-unprocessed
J4  once all is well every range is worked off, within the bound (a commit of it may be    range-left-open
    lost with the end of the groups' log)
J5  within one ownership no record is returned by both consumers                           delivered-twice
J6  the first consumer begins behind the last range, the second only ever is in one        behind-the-range,
    that its member owns                                                                   outside-range
J8  a member has one second consumer at a time                                             two-children
==  =====================================================================================  ======================

J7 (a new record never waits for a range) is a figure, and J9 (stale generations change nothing) is in ``commits``.

A position that is set anew (an application seeks, or what it had come to is out of range) ends J5 and J6 for that
ownership: it changes no range. A log that was cut (an unclean election, a lost disk) may hold other records at the same
offsets: of that partition J2 and J3 say nothing from then on.
A commit that was read from a connection which its client had left (``LateCommit``) may be an older one.
"""

from collections.abc import Iterator

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Healed, HostStarted, Seen
from kemu.emulator.watching.panel import Service
from kemu.emulator.watching.progress import pieces_of
from kemu.emulator.watching.ranges import Ranges
from kemu.protocol.catch_up import OffsetRange
from kemu.protocol.names import NO_GENERATION, OFFSETS_TOPIC, ActorName, GroupId, MemberId, TopicPartition
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    SEEK,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.ranges import (
    ChildConsumerDied,
    ChildConsumerStarted,
    RangeCommitted,
    RangeOpened,
    RangeProcessed,
    RangesLoaded,
    RangesRemoved,
    RangeTrimmed,
)
from kemu.protocol.notes.replication import BecameLeader

DEFAULT_BOUND_US = 45_000_000 + 300_000_000 + 60_000_000
"""As for liveness."""


class _Progress:
    """One group on one partition."""

    __slots__ = ("changed_us", "committed", "cut", "opened", "said", "writers")

    def __init__(self) -> None:
        self.said = Ranges()
        """Unprocessed records that a violation names already."""
        self.committed = -1
        """The highest that ``committed()`` ever was."""
        self.cut = False
        """Its log lost records."""
        self.changed_us = 0
        """When a range was opened, or worked off further."""
        self.opened: dict[OffsetRange, None] = {}
        """Every range that a coordinator told a member of, one that has a successor already among them; a second
        consumer works on what it was told, whatever the groups' log loses."""
        self.writers: dict[type, tuple[MemberId, int]] = {}
        """Kind of record -> who made the last one, under which generation."""

    def says_again(self, fact: OffsetCommitted | RangeCommitted | RangeOpened) -> bool:
        """Whether the same member, in the same generation, made the last record of this kind; it has made this one.

        Whose is left once some were lost is not known: then whoever says it again may have made it.
        """
        writer = (fact.member_id, fact.generation)
        before = self.writers.get(type(fact), writer)
        self.writers[type(fact)] = writer
        return before == writer


class _Ownership:
    """What the two consumers of a member did since it owns a partition."""

    __slots__ = ("begun", "first", "second", "set_to", "sought", "told")

    def __init__(self) -> None:
        self.first = Ranges()
        self.second = Ranges()
        self.begun = False
        """Its first position is set."""
        self.sought = False
        """Another one was set later: a seek, a reset, or the partition was cut."""
        self.set_to: int | None = None
        """Where a seek or a reset set its position; None once a commit told of it, and as long as there was none."""
        self.told = -1
        """How far the second consumer's commits came, whatever the groups' log has lost of them since."""


class CatchUpChecker(Checker):
    """With ``enable.parallel.rebalance``: at least once, disjoint ranges, rising commits, nothing committed too early.

    ``bound_us``: how long ranges may stay open without any progress once all is well.
    """

    name = "catch-up"

    def __init__(self, bound_us: int = DEFAULT_BOUND_US) -> None:
        super().__init__()
        self._bound_us = bound_us
        self._progress: dict[Service, _Progress] = {}
        self._ownerships: dict[tuple[ActorName, int, TopicPartition], _Ownership] = {}
        """(actor, life, partition) -> what is done under the present ownership."""
        self._children: dict[ActorName, int] = {}
        """Members whose second consumer lives -> in which life of theirs."""
        self._healed_us = -1
        self._last: Seen | None = None
        self.on = {
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._given_up,
            PartitionsLost: self._given_up,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._range_processed,
            RangeTrimmed: self._trimmed,
            OffsetCommitted: self._committed,
            RangeOpened: self._opened,
            RangeCommitted: self._range_committed,
            OffsetRemoved: self._removed,
            RangesLoaded: self._loaded,
            RangesRemoved: self._removed,
            ChildConsumerStarted: self._child_started,
            ChildConsumerDied: self._child_died,
            BecameLeader: self._another_log,
            PartitionHosted: self._another_log,
            DiskTailLost: self._lost_tail,
            Healed: self._healed,
            HostStarted: self._disturbed,
        }

    def _of(self, group: GroupId, at: TopicPartition) -> _Progress:
        progress = self._progress.get((group, at))
        if progress is None:
            progress = self._progress[group, at] = _Progress()
        return progress

    # --- members -----------------------------------------------------------------------------------------------

    def _ownership(self, seen: Seen, at: TopicPartition) -> _Ownership | None:
        return self._ownerships.get((seen.actor, seen.life, at))

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        if seen.actor in self.panel.ranges.members:
            for at in fact.added:
                self._ownerships[seen.actor, seen.life, at] = _Ownership()

    def _given_up(self, seen: Seen, fact: PartitionsRevoked | PartitionsLost) -> None:
        for at in fact.revoked if isinstance(fact, PartitionsRevoked) else fact.lost:
            self._ownerships.pop((seen.actor, seen.life, at), None)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        if not self.panel.ranges.uses(fact.group):
            return
        at = (fact.topic, fact.partition)
        progress = self._of(fact.group, at)
        logs = self.panel.ranges.of(fact.group, at)
        ownership = self._ownership(seen, at)
        if ownership is not None:
            anew = ownership.begun and fact.why not in (COMMITTED, JUMPED)
            if anew or fact.why == SEEK:
                ownership.sought, ownership.set_to = True, fact.offset
            ownership.begun = True
        if fact.why in (JUMPED, COMMITTED) and ownership is not None and not progress.cut:
            end = logs.last_end
            if end is not None and fact.offset < end:
                text = f"{seen.actor} starts at {fact.offset}, before {end}, where the last range ends"
                self._say(seen, "behind-the-range", fact.group, at, text)

    def _processed(self, seen: Seen, fact: Processed) -> None:
        if not self.panel.ranges.uses(fact.group):
            return
        at = (fact.topic, fact.partition)
        ownership = self._ownership(seen, at)
        if ownership is not None:
            self._once(seen, fact, at, ownership.first, ownership.second, ownership.sought)

    def _range_processed(self, seen: Seen, fact: RangeProcessed) -> None:
        at = (fact.topic, fact.partition)
        progress = self._of(fact.group, at)
        ownership = self._ownership(seen, at)
        if ownership is None:
            text = (
                f"the second consumer of {seen.actor} processed {fact.first} to {fact.last - 1}, which it does not own"
            )
            self._say(seen, "outside-range", fact.group, at, text)
            return
        ranges = (*self.panel.ranges.of(fact.group, at).tokens, *progress.opened)
        if not any(each.start <= fact.first and fact.last <= each.end for each in ranges) and not progress.cut:
            text = (
                f"the second consumer of {seen.actor} processed {fact.first} to {fact.last - 1}, which is in no range"
            )
            self._say(seen, "outside-range", fact.group, at, text)
        self._once(seen, fact, at, ownership.second, ownership.first, ownership.sought)

    def _once(
        self,
        seen: Seen,
        fact: Processed | RangeProcessed,
        at: TopicPartition,
        mine: Ranges,
        others: Ranges,
        sought: bool,
    ) -> None:
        mine.add(fact.first, fact.last)
        fresh = sum(last - first for first, last in others.gaps(fact.first, fact.last))
        if fresh < fact.last - fact.first and not sought:
            text = f"both consumers of {seen.actor} processed some of {fact.first} to {fact.last - 1}"
            self._say(seen, "delivered-twice", fact.group, at, text)

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        self._of(fact.group, (fact.topic, fact.partition)).changed_us = seen.at_us

    def _child_started(self, seen: Seen, fact: ChildConsumerStarted) -> None:
        if self._children.get(seen.actor) == seen.life:
            text = f"{seen.actor} starts a second consumer while it has one"
            self.violation(seen, "two-children", (fact.group, seen.actor), text)
        self._children[seen.actor] = seen.life

    def _child_died(self, seen: Seen, fact: ChildConsumerDied) -> None:
        self._children.pop(seen.actor, None)

    # --- both commit logs --------------------------------------------------------------------------------------

    def _opened(self, seen: Seen, fact: RangeOpened) -> None:
        at = (fact.topic, fact.partition)
        progress = self._of(fact.group, at)
        token = OffsetRange(fact.start, fact.end)
        progress.opened[token] = None
        if not self.panel.is_current(seen):
            return
        progress.changed_us = seen.at_us
        before = self.panel.ranges.before(fact.group, at)
        repeated = progress.says_again(fact) and before.tokens[-1:] == (token,)
        if fact.start >= fact.end:
            text = f"{fact.member_id} opened the range {fact.start} to {fact.end}, which holds nothing"
            self._say(seen, "ranges-overlap", fact.group, at, text)
        elif before.last_end is not None and fact.start < before.last_end and not repeated and not progress.cut:
            opened = f"{fact.member_id} opened the range {fact.start} to {fact.end - 1}"
            text = f"{opened}; another one ends at {before.last_end}"
            self._say(seen, "ranges-overlap", fact.group, at, text)
        self._look(seen, fact.group, at)

    def _loaded(self, seen: Seen, fact: RangesLoaded) -> None:
        """What stands there may be more than anybody was told of."""
        progress = self._of(fact.group, (fact.topic, fact.partition))
        tokens = dict.fromkeys(OffsetRange(*each) for each in fact.tokens)
        if self.panel.is_current(seen) and not tokens.keys() <= progress.opened.keys():
            progress.changed_us = seen.at_us
        progress.opened.update(tokens)

    def _committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        if not self.panel.ranges.uses(fact.group) or not self.panel.is_current(seen):
            return
        at = (fact.topic, fact.partition)
        progress = self._of(fact.group, at)
        before = self.panel.ranges.before(fact.group, at)
        if fact.generation == NO_GENERATION:
            progress.committed = -1
        elif self.panel.commits.late:
            progress.committed = -1
            progress.writers[OffsetCommitted] = (fact.member_id, fact.generation)  # who may say the same again
        else:
            taken = self.panel.took.get((fact.group, fact.member_id))
            if taken is not None and taken.actor in self.panel.ranges.members:
                owned = self._ownerships.get((taken.actor, taken.life, at))
                if owned is not None and self._tells_of_new_position(owned, fact, before.primary):
                    progress.committed = -1
                    progress.says_again(fact)
                else:
                    self._rises(seen, fact, at, before.primary)
        self._look(seen, fact.group, at)

    @staticmethod
    def _tells_of_new_position(owned: _Ownership, fact: OffsetCommitted, known: int | None) -> bool:
        """Whether this is the first commit since a seek or a reset, and lower than those before for that reason."""
        if owned.set_to is None or known is None or not owned.set_to <= fact.offset < known:
            return False
        owned.set_to = None
        return True

    def _range_committed(self, seen: Seen, fact: RangeCommitted) -> None:
        taken = self.panel.took.get((fact.group, fact.member_id))
        if taken is not None:
            owned = self._ownerships.get((taken.actor, taken.life, (fact.topic, fact.partition)))
            if owned is not None:
                owned.told = max(owned.told, fact.offset)
        if not self.panel.is_current(seen):
            return
        at = (fact.topic, fact.partition)
        self._of(fact.group, at).changed_us = seen.at_us
        self._rises(seen, fact, at, self.panel.ranges.before(fact.group, at).secondary)
        self._look(seen, fact.group, at)

    def _rises(self, seen: Seen, fact: OffsetCommitted | RangeCommitted, at: TopicPartition, known: int | None) -> None:
        progress = self._of(fact.group, at)
        repeated = progress.says_again(fact) and known == fact.offset
        if known is None or fact.offset > known or repeated or progress.cut:
            return
        log = "second" if isinstance(fact, RangeCommitted) else "first"
        text = f"{fact.member_id} committed {fact.offset} to the {log} log, which says {known} already"
        self._say(seen, "commit-not-rising", fact.group, at, text)

    def _look(self, seen: Seen, group: GroupId, at: TopicPartition) -> None:
        """J3: what does ``committed()`` answer now?"""
        progress = self._of(group, at)
        committed = self.panel.ranges.of(group, at).committed
        if committed is None or progress.cut:
            return
        if committed < progress.committed:
            text = f"committed() answers {committed} after it had answered {progress.committed}"
            self._say(seen, "committed-went-back", group, at, text)
        progress.committed = max(progress.committed, committed)
        account = self.panel.progress.of(group, at)
        if account.began:
            for begin, end, _ in self.panel.progress.unprocessed(account, at):
                for first, last in progress.said.gaps(begin, end):
                    text = f"committed() answers {committed}, but nobody processed records {first} to {last - 1}"
                    self._say(seen, "committed-unprocessed", group, at, text)
                progress.said.add(begin, end)

    def _removed(self, seen: Seen, fact: OffsetRemoved | RangesRemoved) -> None:
        progress = self._progress.get((fact.group, (fact.topic, fact.partition)))
        if progress is not None:
            progress.committed = -1

    # --- logs that lose something ------------------------------------------------------------------------------

    def _another_log(self, seen: Seen, fact: BecameLeader | PartitionHosted) -> None:
        if self.panel.logs.cut is None:
            return
        if fact.topic == OFFSETS_TOPIC:  # commits were lost: where the groups are is what is left
            for progress in self._progress.values():
                progress.committed = -1
                progress.writers.clear()
            return
        for (_, at), progress in self._progress.items():
            if at == (fact.topic, fact.partition):
                progress.cut = True

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        for (_, (topic, number)), progress in self._progress.items():
            progress.committed = -1
            progress.writers.clear()
            progress.cut = progress.cut or fact.log == f"{topic}-{number}"

    # --- all is well -------------------------------------------------------------------------------------------

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us
        self._last = seen

    def _disturbed(self, seen: Seen, fact: HostStarted) -> None:
        if self._healed_us >= 0:
            self._healed_us = seen.at_us
            self._last = seen

    def _left_open(self) -> Iterator[tuple[Service, str]]:
        """Ranges of groups with running members that wait for somebody to work them off."""
        for group, at, logs in self.panel.ranges.all():
            open_ranges = [each for each in logs.open_ranges if not self._worked_off(group, at, each)]
            if open_ranges and self.panel.running_members(group):
                spans = ", ".join(f"{each.start} to {each.end - 1}" for each in open_ranges)
                yield (group, at), spans

    def _worked_off(self, group: GroupId, at: TopicPartition, each: OffsetRange) -> bool:
        """By its owner, who said so: should the groups' log have lost that, the next owner reads it once more.

        Or by the first consumer, which went back to where the partition was cut: then the range is void to its owner.
        """
        pieces = pieces_of(self.panel.logs.of(at).records, each.start, each.end)
        if self._of(group, at).cut and not self.panel.progress.of(group, at).left(pieces):
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
        """J4; a run that ended before the bound is not judged by it."""
        if self._last is None:
            return
        for (group, at), spans in self._left_open():
            since_us = max(self._healed_us, self._of(group, at).changed_us)
            if at_us - since_us >= self._bound_us:
                text = f"nobody works off {spans} of {at[0]}-{at[1]} for {(at_us - since_us) / 1e6:g} s"
                entities = (group, f"{at[0]}-{at[1]}")
                self.violation(self._last, "range-left-open", entities, text, liveness=True)

    def _say(self, seen: Seen, kind: str, group: GroupId, at: TopicPartition, text: str) -> None:
        name = f"{at[0]}-{at[1]}"
        self.violation(seen, kind, (group, name, seen.actor), f"{text} ({name} of group {group})")
