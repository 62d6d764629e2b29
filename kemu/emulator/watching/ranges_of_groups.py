"""The second commit log of groups in KIP-333's mode, as coordinators report it (part of the panel).

Reports are stored even if a report breaks a rule; checkers compare the values before and after. Groups without a member
in KIP-333's mode have one commit log and are omitted.
"""

from collections.abc import Callable
from typing import Any

from attrs import evolve

from kemu.emulator.facts import DiskTailLost, Seen
from kemu.emulator.watching.group_commits import NOTHING, GroupCommits
from kemu.emulator.watching.group_records import GroupRecords
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.catch_up import CommitLogs, OffsetRange
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, TopicPartition
from kemu.protocol.notes.ranges import ParallelRebalance, RangeCommitted, RangeOpened, RangesLoaded, RangesRemoved
from kemu.protocol.notes.replication import BecameLeader

_NOTHING = CommitLogs()


class KeptRanges:
    """The second commit log of one partition of a group, and its content after each record of the group's log."""

    def __init__(self) -> None:
        self.logs = _NOTHING
        self.before = _NOTHING
        """The content before the last fact about the second commit log."""
        self.records: GroupRecords[CommitLogs] = GroupRecords()
        """The content after each record of the group's log."""
        self.opened: dict[OffsetRange, None] = {}
        """Every range that a coordinator reported. A second consumer works on a range even if the group's log loses the
        range."""
        self.changed_us = 0
        """Time at which a range was last opened or advanced, in us."""


class WatchedRanges:
    """The second commit logs of all groups."""

    def __init__(
        self,
        logs: WatchedLogs,
        commits: GroupCommits,
        is_current: Callable[[Seen], bool],
        log_of: Callable[[GroupId], TopicPartition | None],
    ) -> None:
        self.members: dict[ActorName, GroupId] = {}
        """Member that ever ran in KIP-333's mode -> group."""
        self.groups: dict[GroupId, dict[TopicPartition, KeptRanges]] = {}
        self._logs = logs
        self._commits = commits
        self._is_current = is_current
        self._log_of = log_of
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            ParallelRebalance: self._runs,
            RangeOpened: self._opened,
            RangeCommitted: self._worked,
            RangesLoaded: self._loaded,
            RangesRemoved: self._closed,
            BecameLeader: self._led,
            DiskTailLost: self._lost_tail,
        }

    def uses(self, group: GroupId) -> bool:
        """Whether a member of the group ever ran in KIP-333's mode."""
        return group in self.groups

    def of(self, group: GroupId, at: TopicPartition) -> CommitLogs:
        """The content of both commit logs for a partition."""
        partitions = self.groups.get(group)
        if partitions is None:
            return _NOTHING
        first, kept = self._commits.of(group, at), partitions.get(at)
        return evolve(_NOTHING if kept is None else kept.logs, primary=None if first == NOTHING else first)

    def before_commit(self, group: GroupId, at: TopicPartition, first: int) -> int:
        """The answer of ``committed()`` for this partition if the first log had this offset."""
        logs = evolve(self.kept(group, at).logs, primary=None if first == NOTHING else first)
        return logs.committed or 0

    def kept(self, group: GroupId, at: TopicPartition) -> KeptRanges:
        """The second commit log of a partition."""
        return self.groups.setdefault(group, {}).setdefault(at, KeptRanges())

    def _runs(self, seen: Seen, fact: ParallelRebalance) -> None:
        self.members[seen.actor] = fact.group
        self.groups.setdefault(fact.group, {})

    def _write(self, seen: Seen, fact: RangeOpened | RangeCommitted | RangesLoaded, **what: Any) -> None:
        if fact.group in self.groups and self._is_current(seen):
            kept = self.kept(fact.group, (fact.topic, fact.partition))
            kept.before, kept.logs, kept.changed_us = kept.logs, evolve(kept.logs, **what), seen.at_us
            kept.records.write(fact.position, kept.logs, self._logs.of(self._log_of(fact.group)).records)

    def _opened(self, seen: Seen, fact: RangeOpened) -> None:
        kept, token = self.kept(fact.group, (fact.topic, fact.partition)), OffsetRange(fact.start, fact.end)
        kept.opened[token] = None
        tokens = kept.logs.tokens
        self._write(seen, fact, tokens=tokens if tokens[-1:] == (token,) else (*tokens, token))

    def _worked(self, seen: Seen, fact: RangeCommitted) -> None:
        self._write(seen, fact, secondary=fact.offset)

    def _loaded(self, seen: Seen, fact: RangesLoaded) -> None:
        """Add records of the log that no coordinator reported, because the leadership ended before the report."""
        kept = self.kept(fact.group, (fact.topic, fact.partition))
        loaded = [OffsetRange(*each) for each in fact.tokens]
        tokens = tuple(sorted({*kept.logs.tokens, *loaded}))
        second = max(NOTHING if kept.logs.secondary is None else kept.logs.secondary, fact.second_offset)
        secondary = None if second == NOTHING else second
        kept.opened.update(dict.fromkeys(loaded))
        if (tokens, secondary) != (kept.logs.tokens, kept.logs.secondary):
            self._write(seen, fact, tokens=tokens, secondary=secondary)

    def _closed(self, seen: Seen, fact: RangesRemoved) -> None:
        kept = self.kept(fact.group, (fact.topic, fact.partition))
        kept.before, kept.logs = kept.logs, _NOTHING

    # --- truncation of the groups' log -----------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        if fact.topic != OFFSETS_TOPIC or not self._logs.changed:
            return
        log = self._logs.of((fact.topic, fact.partition)).records
        for group, partitions in self.groups.items():
            for kept in partitions.values() if self._log_of(group) == (fact.topic, fact.partition) else ():
                if kept.records.follow(log):
                    kept.logs = kept.before = kept.records.last(_NOTHING)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            for partitions in self.groups.values():
                for kept in partitions.values():
                    kept.logs = kept.before = _NOTHING
                    kept.records = GroupRecords()
