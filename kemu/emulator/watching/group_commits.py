"""The committed offsets of groups, as in the logs of their coordinators (part of the panel).

With replication, an election may truncate a group's log. Lost commits are replaced by the commits before them. A later
leader may have the lost commits. Commits of a deposed coordinator (``Panel.is_current``) are ignored.

The log cleaner removes superseded commits. So an election that truncates a cleaned part of the log may lose all commits
of a partition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kemu.actors.machine import Received, Send
from kemu.emulator.facts import DiskTailLost, Seen, each_of, received, sent
from kemu.emulator.watching.group_records import GroupRecords
from kemu.emulator.watching.logs import WatchedLogs
from kemu.emulator.watching.topic_names import TopicNames
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import OffsetCommit, OffsetCommitReply
from kemu.protocol.names import NO_GENERATION, OFFSETS_TOPIC, UNKNOWN_MEMBER, ActorName, GroupId, TopicPartition, shared
from kemu.protocol.notes.groups import GroupLoaded, LateCommit, OffsetCommitted, OffsetRemoved
from kemu.protocol.notes.replication import BecameLeader, LogCleaned

NOTHING = -1
"""The committed offset of a partition without a commit."""
Key = tuple[GroupId, TopicPartition]


MAYBE_WRITTEN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT)
"""Errors of a commit that the coordinator may have written to its log, where the commit can be replicated later.

Source: Kafka 3.4 ``GroupMetadataManager.storeOffsets``; 4.0 ``CoordinatorOperationExceptionHelper``.
"""


class OperatorCommit(NamedTuple):
    """A commit without a member that a coordinator received and did not report. It may be in the group's log.

    ``coordinator``: the coordinator and its life; ("", 0) after it loaded the group again. ``is_answered``: whether the
    coordinator answered with an error.
    """

    coordinator: tuple[ActorName, int]
    group: GroupId
    offsets: dict[TopicPartition, int]
    is_answered: bool = False


class CommittedOffset:
    """The account of one group's committed offset on one partition. Observers may use it as a key of their own
    accounts.
    """

    __slots__ = ("at", "group", "kept", "offset")

    def __init__(self, group: GroupId, at: TopicPartition) -> None:
        self.group = group
        self.at = at
        self.offset = NOTHING
        """The committed offset; ``NOTHING`` without one."""
        self.kept: GroupRecords[int] | None = None
        """The commits in the copies of the group's log; None without such a commit."""


_NO_ACCOUNTS: Mapping[TopicPartition, CommittedOffset] = {}


class GroupCommits:
    """The committed offsets of all groups."""

    def __init__(
        self,
        logs: WatchedLogs,
        is_current: Callable[[Seen], bool],
        log_of: Callable[[GroupId], TopicPartition | None],
        topic_names: TopicNames,
    ) -> None:
        self.last: list[tuple[OffsetCommitted, CommittedOffset, int, bool]] = []
        """Each offset of the last commit: the fact, the account, the committed offset before, and whether the
        coordinator read the commit from a closed connection. Such a commit may be older than the previous commit."""
        self.is_current = True
        """Whether the group's current coordinator reported the last commit (``Panel.is_current``)."""
        self.changed: list[tuple[Key, int]] = []
        """Committed offsets that the last election of a groups' log changed, because the new leader lacks or regained
        commits."""
        self._logs = logs
        self._coordinates = is_current
        self._log_of = log_of
        self._accounts: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        """Log of groups -> end of the part that a broker has cleaned."""
        self._late: tuple[Seen, LateCommit] | None = None
        """The last late commit."""
        self._topic_names = topic_names
        self._unreported: dict[tuple[ActorName, int, int], OperatorCommit] = {}
        """(coordinator, connection, request id) -> the commit."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            GroupLoaded: self._loads,
            received(OffsetCommit): self._asked,
            sent(OffsetCommitReply): self._answered,
            LateCommit: self._is_late,
            OffsetCommitted: each_of(self._commits),
            OffsetRemoved: self._removes,
            BecameLeader: self._led,
            LogCleaned: self._cleans,
            DiskTailLost: self._lost_tail,
        }

    def of(self, group: GroupId, at: TopicPartition) -> int:
        """The committed offset of a partition; ``NOTHING`` without one."""
        account = self._accounts.get(group, _NO_ACCOUNTS).get(at)
        return NOTHING if account is None else account.offset

    def account(self, group: GroupId, at: TopicPartition) -> CommittedOffset:
        """The account of a group's committed offset on a partition."""
        accounts = self._accounts.setdefault(group, {})
        account = accounts.get(at)
        if account is None:
            at = shared(at)
            account = accounts[at] = CommittedOffset(group, at)
        return account

    def partitions(self, group: GroupId) -> Iterator[TopicPartition]:
        """The partitions with a committed offset of a group."""
        return (at for at, account in self._accounts.get(group, _NO_ACCOUNTS).items() if account.offset != NOTHING)

    def unreported(self, group: GroupId, at: TopicPartition, coordinator: tuple[ActorName, int] | None) -> list[int]:
        """The offsets of commits without a member that may be in the log after the last reported commit.

        ``coordinator``: only commits that this life of a coordinator can have read in the log; None for all. The
        coordinator that received a commit reads it only if it loads the group again.
        """
        commits = [each for each in self._unreported.values() if each.coordinator != coordinator]
        return [commit.offsets[at] for commit in commits if commit.group == group and at in commit.offsets]

    def _loads(self, seen: Seen, fact: GroupLoaded) -> None:
        """A coordinator that loads the group again reads what it wrote before."""
        for key, commit in self._unreported.items():
            if commit.group == fact.group and commit.coordinator == (seen.actor, seen.life):
                self._unreported[key] = commit._replace(coordinator=("", 0))

    def _asked(self, seen: Seen, fact: Received) -> None:
        request: OffsetCommit = fact.message
        if request.generation == NO_GENERATION and request.member_id == UNKNOWN_MEMBER:
            offsets = {self._topic_names.partition_of(row): row.offset for row in request.offsets}
            commit = OperatorCommit((seen.actor, seen.life), request.group, offsets)
            self._unreported[seen.actor, fact.connection, fact.request_id] = commit

    def _answered(self, seen: Seen, fact: Send) -> None:
        key = seen.actor, fact.connection, fact.request_id
        commit = self._unreported.pop(key, None)
        if commit is not None and any(row.error in MAYBE_WRITTEN for row in fact.message.outcomes):
            self._unreported[key] = commit._replace(is_answered=True)

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
        group, late = seen.fact.group, self._late
        accounts = self._accounts.get(group, _NO_ACCOUNTS)
        log = self._log_of(group)
        records = None if log is None else self._logs.of(log).records
        self.is_current = is_current = self._coordinates(seen)
        if self._unreported and is_current:
            self._supersede(seen, group, facts)
        self.last = last = []
        for fact in facts:
            account = accounts.get((fact.topic, fact.partition))
            if account is None:
                account = self.account(group, (fact.topic, fact.partition))
            last.append((fact, account, account.offset, late is not None and self._is_of(late, seen, fact)))
            if not is_current:
                continue
            account.offset = fact.offset
            if records is not None and fact.position >= 0:
                if account.kept is None:
                    account.kept = GroupRecords()
                account.kept.write(fact.position, fact.offset, records)

    def _supersede(self, seen: Seen, group: GroupId, facts: Sequence[OffsetCommitted]) -> None:
        """Forget unreported commits that can only be before these commits in the log: those of other coordinators, and
        those with an answer.
        """
        for commit in self._unreported.values():
            if commit.group == group and (commit.is_answered or commit.coordinator != (seen.actor, seen.life)):
                for fact in facts:
                    commit.offsets.pop((fact.topic, fact.partition), None)

    def _removes(self, seen: Seen, fact: OffsetRemoved) -> None:
        account = self.account(fact.group, (fact.topic, fact.partition))
        account.kept = None
        if self._coordinates(seen):
            account.offset = NOTHING

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        self.changed = []
        if fact.topic != OFFSETS_TOPIC or not self._logs.changed:
            return
        at = (fact.topic, fact.partition)
        log, lost_at = self._logs.of(at).records, self._logs.truncated_at
        is_cleaned = lost_at is not None and lost_at < self._cleaned.get(at, 0)
        for account, kept in self._kept_in(at):
            if is_cleaned:
                account.kept, account.offset = None, NOTHING
            elif kept.follow(log):
                account.offset = kept.last(NOTHING)
            else:
                continue
            self.changed.append(((account.group, account.at), account.offset))

    def _kept_in(self, log: TopicPartition) -> list[tuple[CommittedOffset, GroupRecords[int]]]:
        """The accounts with commits in a log of groups."""
        groups = [accounts for group, accounts in self._accounts.items() if self._log_of(group) == log]
        return [(each, each.kept) for accounts in groups for each in accounts.values() if each.kept is not None]

    def _cleans(self, seen: Seen, fact: LogCleaned) -> None:
        """Forget the commits that no copy of the log needs any more."""
        at = (fact.topic, fact.partition)
        self._cleaned[at] = max(self._cleaned.get(at, 0), fact.end_offset)
        copies = self._logs.copies_of(at)
        for _, kept in self._kept_in(at):
            kept.forget(fact.end_offset, copies)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        """Forget all commits: without replication, no fact tells which commits were lost."""
        if fact.log.startswith(OFFSETS_TOPIC):
            for accounts in self._accounts.values():
                for account in accounts.values():
                    account.offset = NOTHING
