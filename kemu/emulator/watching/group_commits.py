"""The committed offsets of groups, as in the logs of their coordinators (part of the panel).

With replication, an election may truncate a group's log. Lost commits are replaced by the commits before them. A later
leader may have the lost commits. Commits of a deposed coordinator (``Panel.is_current``) are ignored.

The log cleaner removes superseded commits. So an election that truncates a cleaned part of the log may lose all commits
of a partition.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kemu.emulator.facts import DiskTailLost, Seen, each_of
from kemu.emulator.watching.group_records import GroupRecords
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.names import OFFSETS_TOPIC, GroupId, TopicPartition, shared
from kemu.protocol.notes.groups import LateCommit, OffsetCommitted, OffsetRemoved
from kemu.protocol.notes.replication import BecameLeader, LogCleaned

NOTHING = -1
"""The committed offset of a partition without a commit."""
Key = tuple[GroupId, TopicPartition]


class GroupCommits:
    """The committed offsets of all groups."""

    def __init__(
        self,
        logs: WatchedLogs,
        is_current: Callable[[Seen], bool],
        log_of: Callable[[GroupId], TopicPartition | None],
    ) -> None:
        self.committed: dict[Key, int] = {}
        """(group, partition) -> committed offset; ``NOTHING`` or no entry without a committed offset."""
        self.last: list[tuple[OffsetCommitted, TopicPartition, int, bool]] = []
        """Each offset of the last commit: the fact, the partition, the committed offset before, and whether the
        coordinator read the commit from a closed connection. Such a commit may be older than the previous commit."""
        self.is_current = True
        """Whether the group's current coordinator reported the last commit (``Panel.is_current``)."""
        self.changed: list[tuple[Key, int]] = []
        """Committed offsets that the last election of a groups' log changed, because the new leader lacks or regained
        commits."""
        self._logs = logs
        self._coordinates = is_current
        self._log_of = log_of
        self._kept: dict[Key, GroupRecords[int]] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        """Log of groups -> end of the part that a broker has cleaned."""
        self._late: tuple[Seen, LateCommit] | None = None
        """The last late commit."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            LateCommit: self._is_late,
            OffsetCommitted: each_of(self._commits),
            OffsetRemoved: self._removes,
            BecameLeader: self._led,
            LogCleaned: self._cleans,
            DiskTailLost: self._lost_tail,
        }

    def of(self, group: GroupId, at: TopicPartition) -> int:
        """The committed offset of a partition."""
        return self.committed.get((group, at), NOTHING)

    def _is_late(self, seen: Seen, fact: LateCommit) -> None:
        self._late = seen, fact

    def _is_of(self, late: tuple[Seen, LateCommit], seen: Seen, fact: OffsetCommitted) -> bool:
        """Whether a committed offset belongs to this late commit."""
        when, commit = late
        return (
            (when.seq, when.actor) == (seen.seq, seen.actor)
            and (commit.group, commit.member_id) == (fact.group, fact.member_id)
            and commit.first_position <= fact.position <= commit.last_position
        )

    def _commits(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        group, committed, late, self.last = seen.fact.group, self.committed, self._late, []
        log = self._log_of(group)
        records = None if log is None else self._logs.of(log).records
        self.is_current = is_current = self._coordinates(seen)
        for fact in facts:
            key = (group, at) = (group, shared((fact.topic, fact.partition)))
            is_late = late is not None and self._is_of(late, seen, fact)
            self.last.append((fact, at, committed.get(key, NOTHING), is_late))
            if not is_current:
                continue
            committed[shared(key)] = fact.offset
            if records is not None and fact.position >= 0:
                kept = self._kept.get(key)
                if kept is None:
                    kept = self._kept[key] = GroupRecords()
                kept.write(fact.position, fact.offset, records)

    def _removes(self, seen: Seen, fact: OffsetRemoved) -> None:
        key = (fact.group, (fact.topic, fact.partition))
        self._kept.pop(key, None)
        if self._coordinates(seen):
            self.committed.pop(key, None)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        self.changed = []
        if fact.topic != OFFSETS_TOPIC or not self._logs.changed:
            return
        at = (fact.topic, fact.partition)
        log, lost_at = self._logs.of(at).records, self._logs.truncated_at
        if lost_at is not None and lost_at < self._cleaned.get(at, 0):
            for key in [key for key in self._kept if self._log_of(key[0]) == at]:
                del self._kept[key]
                self.committed[key] = NOTHING
                self.changed.append((key, NOTHING))
        for key, kept in self._kept.items():
            if self._log_of(key[0]) == at and kept.follow(log):
                self.committed[key] = kept.last(NOTHING)
                self.changed.append((key, self.committed[key]))

    def _cleans(self, seen: Seen, fact: LogCleaned) -> None:
        """Forget the commits that no copy of the log needs any more."""
        at = (fact.topic, fact.partition)
        self._cleaned[at] = max(self._cleaned.get(at, 0), fact.end_offset)
        copies = self._logs.copies_of(at)
        for key, kept in self._kept.items():
            if self._log_of(key[0]) == at:
                kept.forget(fact.end_offset, copies)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        """Forget all commits: without replication, no fact tells which commits were lost."""
        if fact.log.startswith(OFFSETS_TOPIC):
            self.committed.clear()
