"""The committed offsets of groups, as in the logs of their coordinators (part of the panel).

With replication, an election may truncate a group's log. Lost commits are replaced by the commits before them. A later
leader may have the lost commits. Commits of a deposed coordinator (``Panel.is_current``) are ignored.

The log cleaner removes superseded commits. So an election that truncates a cleaned part of the log may lose all commits
of a partition.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import DiskTailLost, Seen
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
        self.before = NOTHING
        """The committed offset before the last commit or removal."""
        self.late = False
        """Whether the coordinator read the last commit from a closed connection; such a commit may be older than the
        previous commit."""
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
            OffsetCommitted: self._commits,
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

    def _commits(self, seen: Seen, fact: OffsetCommitted) -> None:
        self.late = self._late is not None and self._is_of(self._late, seen, fact)
        key = (fact.group, shared((fact.topic, fact.partition)))
        self.before = self.committed.get(key, NOTHING)
        self.is_current = self._coordinates(seen)
        if not self.is_current:
            return
        self.committed[shared(key)] = fact.offset
        if fact.position >= 0 and (log := self._log_of(fact.group)) is not None:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = GroupRecords()
            kept.write(fact.position, fact.offset, self._logs.of(log).records)

    def _removes(self, seen: Seen, fact: OffsetRemoved) -> None:
        key = (fact.group, (fact.topic, fact.partition))
        self._kept.pop(key, None)
        self.before = self.committed.pop(key, NOTHING) if self._coordinates(seen) else NOTHING

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
