"""Both commit logs of groups in KIP-333's mode, as their coordinators tell (a part of the panel).

What is told is taken as it is, also what breaks a rule: who judges compares what was before with what is now. Groups
of which no member ever ran in the mode have one commit log, and are not kept here.
"""

from collections.abc import Callable
from typing import Any

from attrs import evolve

from kemu.emulator.facts import DiskTailLost, Seen
from kemu.emulator.watching.group_records import GroupRecords
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.catch_up import CommitLogs, OffsetRange
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, TopicPartition
from kemu.protocol.notes.groups import OffsetCommitted, OffsetRemoved
from kemu.protocol.notes.ranges import ParallelRebalance, RangeCommitted, RangeOpened, RangesLoaded, RangesRemoved
from kemu.protocol.notes.replication import BecameLeader

_NOTHING = CommitLogs()
Written = OffsetCommitted | RangeOpened | RangeCommitted
"""What a coordinator says is in one of the logs."""


class _Kept:
    """One partition of a group: what its logs say, and said after each record of the group's log."""

    __slots__ = ("before", "logs", "records")

    def __init__(self) -> None:
        self.logs = _NOTHING
        self.before = _NOTHING
        """What they said before the last fact about them."""
        self.records: GroupRecords[CommitLogs] = GroupRecords()
        """What the logs say since each of them."""


class WatchedRanges:
    """See the module."""

    def __init__(
        self,
        logs: WatchedLogs,
        is_current: Callable[[Seen], bool],
        log_of: Callable[[GroupId], TopicPartition | None],
    ) -> None:
        self.members: dict[ActorName, GroupId] = {}
        """Who ever ran in the mode, and for which group."""
        self._logs = logs
        self._is_current = is_current
        self._log_of = log_of
        self._groups: dict[GroupId, dict[TopicPartition, _Kept]] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            ParallelRebalance: self._runs,
            OffsetCommitted: self._committed,
            RangeOpened: self._opened,
            RangeCommitted: self._worked,
            OffsetRemoved: self._removed,
            RangesLoaded: self._loaded,
            RangesRemoved: self._closed,
            BecameLeader: self._led,
            DiskTailLost: self._lost_tail,
        }

    def uses(self, group: GroupId) -> bool:
        """Whether a member of the group ever ran in the mode."""
        return group in self._groups

    def of(self, group: GroupId, at: TopicPartition) -> CommitLogs:
        """What both logs say of a partition."""
        kept = self._groups.get(group, {}).get(at)
        return _NOTHING if kept is None else kept.logs

    def before(self, group: GroupId, at: TopicPartition) -> CommitLogs:
        """What they said before the last fact about them."""
        kept = self._groups.get(group, {}).get(at)
        return _NOTHING if kept is None else kept.before

    def all(self) -> list[tuple[GroupId, TopicPartition, CommitLogs]]:
        """Everything that is known."""
        return [(group, at, kept.logs) for group, logs in self._groups.items() for at, kept in logs.items()]

    def _runs(self, seen: Seen, fact: ParallelRebalance) -> None:
        self.members[seen.actor] = fact.group
        self._groups.setdefault(fact.group, {})

    def _write(self, seen: Seen, fact: Written, change: Callable[[CommitLogs], CommitLogs]) -> None:
        group = self._groups.get(fact.group)
        if group is None or not self._is_current(seen):
            return
        kept = group.setdefault((fact.topic, fact.partition), _Kept())
        kept.before, kept.logs = kept.logs, change(kept.logs)
        kept.records.write(fact.position, kept.logs, self._logs.of(self._log_of(fact.group)).records)

    def _committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        if self._groups:
            self._write(seen, fact, lambda logs: evolve(logs, primary=fact.offset))

    def _opened(self, seen: Seen, fact: RangeOpened) -> None:
        token = OffsetRange(fact.start, fact.end)
        self._write(seen, fact, lambda logs: evolve(logs, tokens=_with(logs.tokens, token)))

    def _worked(self, seen: Seen, fact: RangeCommitted) -> None:
        self._write(seen, fact, lambda logs: evolve(logs, secondary=fact.offset))

    def _loaded(self, seen: Seen, fact: RangesLoaded) -> None:
        """Records that nobody told of, because their coordinator's office ended, stand all the same."""
        group = self._groups.get(fact.group)
        if group is None or not self._is_current(seen):
            return
        kept = group.setdefault((fact.topic, fact.partition), _Kept())
        tokens = sorted({*kept.logs.tokens, *[OffsetRange(*each) for each in fact.tokens]})
        known = kept.logs.secondary
        secondary = known if fact.second_offset <= (-1 if known is None else known) else fact.second_offset
        logs = evolve(kept.logs, tokens=tuple(tokens), secondary=secondary)
        if logs != kept.logs:
            kept.before = kept.logs = logs
            kept.records.write(fact.position, logs, self._logs.of(self._log_of(fact.group)).records)

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        kept = self._groups.get(fact.group, {}).get((fact.topic, fact.partition))
        if kept is not None:
            kept.before, kept.logs = kept.logs, evolve(kept.logs, primary=None)

    def _closed(self, seen: Seen, fact: RangesRemoved) -> None:
        kept = self._groups.get(fact.group, {}).get((fact.topic, fact.partition))
        if kept is not None:
            kept.before, kept.logs = kept.logs, evolve(kept.logs, tokens=(), secondary=None)

    # --- what the groups' log lost -----------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        if fact.topic != OFFSETS_TOPIC or not self._logs.changed:
            return
        log = self._logs.of((fact.topic, fact.partition)).records
        for group, partitions in self._groups.items():
            if self._log_of(group) != (fact.topic, fact.partition):
                continue
            for kept in partitions.values():
                if kept.records.follow(log):
                    kept.logs = kept.before = kept.records.last(_NOTHING)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            for partitions in self._groups.values():
                partitions.clear()


def _with(tokens: tuple[OffsetRange, ...], token: OffsetRange) -> tuple[OffsetRange, ...]:
    """One more token; the last one again (a request that was repeated) takes its own place."""
    return tokens if tokens[-1:] == (token,) else (*tokens, token)
