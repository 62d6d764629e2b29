"""Offsets that Streams applications commit and begin at: a part of the checker of tasks.

====================  ==============================================================================================
kind                  rule
====================  ==============================================================================================
committed-back        the committed offset of a source partition does not go back
records-skipped       nobody begins beyond the committed offset: the records between would be processed by nobody
given-up-uncommitted  a thread that gives a partition up has committed what it processed there, or tried to
====================  ==============================================================================================

An application resets to the earliest offset, never to the latest. What was known of a committed offset does not count
after an operator, a lost log or its retention moved it, nor after an old commit that came late (``LateCommit``). A
thread that was answered with an error, or that a fault or a broker's failure hit since it processed the records, has
tried. Source: Kafka 3.4 ``TaskManager.handleRevocation``, ``TaskManager.shutdown``.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.task_state import undisturbed_since_us
from kemu.emulator.facts import DiskTailLost, Handler, HostDown, HostStarted, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, OFFSETS_TOPIC, ActorName, GroupId, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    COMMITTED,
    SEEK,
    CommitAnswered,
    OffsetCommitted,
    OffsetRemoved,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.replication import BecameLeader

_UNKNOWN = -1
TRIES_US = 60_000_000
"""How long after a fault a commit may still fail by it: ``default.api.timeout.ms``."""


class TaskOffsets:
    """See the module."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._committed: dict[tuple[GroupId, TopicPartition], int] = {}
        """What is committed for a partition; ``_UNKNOWN`` where that is not certain."""
        self._processed: dict[tuple[ActorName, TopicPartition], tuple[int, int]] = {}
        """(thread, partition) -> up to where the thread processed it since it began there, and when."""
        self._refused_us: dict[ActorName, int] = {}
        """Thread -> when a commit of it was answered with an error last."""
        self._first_us: dict[int, None] = {}
        """When hosts started for the first time."""
        self._disturbed_us: int | None = None
        """When a broker went down or came back last."""
        self.on: dict[type, Handler] = {
            OffsetCommitted: self._offset_committed,
            OffsetRemoved: self._offset_removed,
            PositionSet: self._positioned,
            Processed: self._works,
            CommitAnswered: self._answered,
            PartitionsRevoked: self._revoked,
            DiskTailLost: self._lost_tail,
            BecameLeader: self._leads,
            HostDown: self._begins_anew,
            HostStarted: self._begins_anew,
        }

    def _offset_committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        panel = self._checker.panel
        if fact.group not in panel.applications.all or not panel.is_current(seen):
            return
        key = fact.group, (fact.topic, fact.partition)
        before = self._committed.get(key, _UNKNOWN)
        if fact.generation != NO_GENERATION and fact.offset < before and not panel.commits.late:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{fact.member_id} committed {fact.offset} of {name} of {fact.group}, where {before} was committed"
            self._checker.violation(seen, "committed-back", (fact.group, name), text)
        self._committed[key] = fact.offset

    def _offset_removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        self._forget(fact.group, (fact.topic, fact.partition))

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        panel = self._checker.panel
        if fact.group not in panel.applications.all:
            return
        at = fact.topic, fact.partition
        key = fact.group, at
        self._processed.pop((seen.actor, at), None)
        start, committed = panel.logs.of(at).records.start, self._committed.get(key)
        if fact.why == SEEK or (fact.why != COMMITTED and committed is not None):
            self._forget(*key)
        elif committed != _UNKNOWN and fact.offset > max(committed or 0, start):
            name = f"{fact.topic}-{fact.partition}"
            known = "nothing was committed" if committed is None else f"{committed} was committed"
            text = f"{seen.actor} begins {name} of {fact.group} at {fact.offset} ({fact.why}); {known}"
            self._checker.violation(seen, "records-skipped", (fact.group, name), text)

    def _forget(self, group: GroupId, at: TopicPartition) -> None:
        if (group, at) in self._committed:
            self._committed[group, at] = _UNKNOWN

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            self._committed = dict.fromkeys(self._committed, _UNKNOWN)

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        """A partition of the groups' log may have lost its end, and commits with it."""
        if fact.topic == OFFSETS_TOPIC and self._checker.panel.logs.changed:
            self._committed = dict.fromkeys(self._committed, _UNKNOWN)

    # --- what is given up ----------------------------------------------------------------------------------------

    def _works(self, seen: Seen, fact: Processed) -> None:
        if fact.group in self._checker.panel.applications.all:
            self._processed[seen.actor, (fact.topic, fact.partition)] = fact.last, seen.at_us

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            self._refused_us[seen.actor] = seen.at_us

    def _begins_anew(self, seen: Seen, fact: HostDown | HostStarted) -> None:
        if type(fact) is HostStarted and fact.life == 1:
            self._first_us[seen.at_us] = None
        elif fact.host in self._checker.panel.applications.brokers:
            self._disturbed_us = seen.at_us
        for key in [key for key in self._processed if host_of(key[0]) == fact.host]:
            del self._processed[key]

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        panel = self._checker.panel
        if fact.group not in panel.applications.all:
            return
        for at in fact.revoked:
            end, at_us = self._processed.pop((seen.actor, at), (0, 0))
            committed = self._committed.get((fact.group, at), 0)
            if end <= committed or committed == _UNKNOWN or self._tried(seen, at_us):
                continue
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} gives up {name} of {fact.group}, processed to {end}, committed to {committed}"
            self._checker.violation(seen, "given-up-uncommitted", (fact.group, name), text)

    def _tried(self, seen: Seen, since_us: int) -> bool:
        """Whether a fault or an error may have kept a thread from committing what it processed at this time."""
        if self._refused_us.get(seen.actor, -1) >= since_us:
            return True
        undisturbed_us = undisturbed_since_us(self._checker.panel, host_of(seen.actor))
        if undisturbed_us is None or undisturbed_us > since_us:
            return True
        begun_us = undisturbed_us if self._disturbed_us is None else max(undisturbed_us, self._disturbed_us)
        return begun_us not in self._first_us and begun_us + TRIES_US > seen.at_us
