"""Groups and members do their duties in time, even during faults.

A duty's clock runs while its hosts are up, and no fault hits these hosts or their links. The bounds follow from the
settings:

- member-kept: the id of a dead, isolated or silent member leaves its group
  (session timeout).
- join-unfinished: a JoinGroup is answered (rebalance timeout).
- closed-early: a closing member waits for its coordinator's answers.
- sync-unfinished: a generation gets its leader's assignment, or ends.
- not-rejoined: a member without a place in the group rejoins.
- not-taken: a Stable member adopts its assignment
  (``max.poll.interval.ms``).
- no-position: a Stable member gets its positions.
- not-reconciled: the coordinator computes a target within one heartbeat
  interval of the consumer protocol; since 4.3 within
  ``consumer.assignment.interval.ms`` more. Then the group becomes
  Stable within two intervals, and the time for revocations.
- not-revoked: a member commits, and gives up its partitions. After a topic
  was deleted, the commit may fail until ``max.poll.interval.ms``.
- records-unread: a Stable member continues to read. While its commits fail
  because of a deleted topic, it reads after ``max.poll.interval.ms``.
- offsets-uncommitted: with ``enable.auto.commit`` a member commits.

Exempt from not-rejoined: Streams. Exempt from offsets-uncommitted: Streams, and members in KIP-333's mode. Exempt from
records-unread: paused partitions. With classic members in a group of the consumer protocol, not-reconciled has also the
time of ``max.poll.interval.ms`` and of a session. Exempt from not-reconciled: a group with the reason ``unheard-epoch``
of the checker ``liveness``.

Source: Kafka 3.4 ``GroupCoordinator``, ``AbstractCoordinator``,
``ConsumerCoordinator.onJoinPrepare``; Kafka 4.0 to 4.3
``GroupMetadataManager``, ``CurrentAssignmentBuilder``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from attrs import evolve

from kemu.actors.consumer.modern_state import TAKES_ASSIGNMENTS, ModernState
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.liveness import DISTURBING, disturbs
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostClosed,
    HostDown,
    MemberReconfigured,
    Seen,
    each_of,
    only_news,
)
from kemu.emulator.watching.group_times import GroupTimes
from kemu.emulator.watching.interruptions import WELL, Cause
from kemu.emulator.watching.memberships import JOINING, MEMBER, SYNCING, UNJOINED, CoordinatorsGroup, MemberEntry
from kemu.emulator.watching.panel import Holding
from kemu.emulator.watching.reconciliations import Reconciliations, no_coordinator
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import (
    CommitAnswered,
    GroupRequestRead,
    OffsetCommitted,
    OffsetRemoved,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.replication import BecameLeader, NodeWritten

_NOT_ADOPTED = (Cause.TAKE_OVER, Cause.POSITION)
LOOK_EVERY_US = 4_000_000
MARGIN_US = 30_000_000
"""Time for reconnects, retries, elections of the group's log and the draws of a calm host, in us."""
POLLS_OF_A_FETCH = 20
"""Largest number of polls for one partition's part of a fetch."""
EARLY = 0.99
GRACE_US = 5_000_000
"""Longest delay of a coordinator's timers and clock, in us."""
ISOLATING = ("isolate", "split")
"""Kinds of faults under which a link delivers nothing."""
SILENT = "stop-polling"
"""The kind of fault under which an application does not poll."""
_RECONCILES = ("Assigning", "Reconciling")
_SENDS_HEARTBEATS = (
    *(each.value for each in TAKES_ASSIGNMENTS if each is not ModernState.JOINING),
    *(JOINING, SYNCING),
)
"""States of a member, in both protocols, in which the coordinator has answered its join, or will."""
_UNSUBSCRIBED = "the consumer unsubscribed from all topics"
_US = 1_000


_KEYS = {
    "session.timeout.ms": "session_us",
    "max.poll.interval.ms": "rebalance_us",
    "request.timeout.ms": "request_us",
    "auto.commit.interval.ms": "commit_us",
}
_CLOSE_KEYS = ("emulated.close.timeout.ms", "request.timeout.ms")


class GroupDuties(Checker):
    """Judges the duties of groups and members.

    Args:
        times: group -> times of the group; other groups have Kafka's defaults.
    """

    name = "group-progress"
    kinds = (
        "closed-early",
        "join-unfinished",
        "member-kept",
        "no-position",
        "not-reconciled",
        "not-rejoined",
        "not-revoked",
        "not-taken",
        "offsets-uncommitted",
        "records-unread",
        "sync-unfinished",
    )

    def __init__(
        self,
        times: Mapping[GroupId, GroupTimes] | None = None,
        *,
        follows_target: Callable[[ActorName], bool] = no_coordinator,
    ) -> None:
        super().__init__()
        self._times = dict(times or {})
        self._faults: dict[int, tuple[int, FaultApplied]] = {}
        """Lasting plan entries -> (start in us, the fault)."""
        self._changed_us: dict[TopicPartition, int] = {}
        """Partition -> time of the last change in the store, or of the last new leader, in us."""
        self._waits_us: dict[tuple[GroupId, TopicPartition], int] = {}
        """(group, partition) -> latest possible start of the wait of records after the last reader's position, in
        us."""
        self._not_in: dict[ActorName, tuple[tuple[ActorName, int], int, int]] = {}
        """Member that its coordinator does not know -> (coordinator, the member's life, start in us)."""
        self._lost_join_us: dict[ActorName, int] = {}
        """Member -> last time at which the member waited for the answer to a join that may be lost, in us."""
        self._closed_us: dict[str, tuple[int, int]] = {}
        """Host whose last process was asked to close -> (time of the end, duration of the close), in us."""
        self._idle: dict[tuple[GroupId, TopicPartition], int] = {}
        """Partitions with waiting records at the last disturbance after ``Healed``, and without progress since, with
        the position of the last reader."""
        self._has_deleted = False
        """Whether the plan deleted a topic: a commit before a revocation may then fail until the rebalance timeout."""
        self._refused_us: dict[ActorName, int] = {}
        """Member -> time of the first of its last commits that all failed because of a deleted topic, in us."""
        self._disturbed_us: int | None = None
        self._judges_us: dict[GroupId, int] = {}
        """Latest time at which the work on ``_idle`` is overdue, in us."""
        self._reported: dict[tuple[str, str, str], None] = {}
        """Overdue duties that were reported."""
        self._overdue: dict[tuple[str, str, str], None] = {}
        """Overdue duties at this look."""
        self.looks_us = 0
        self.on = {
            FaultApplied: self._applied,
            FaultEnded: self._ended,
            HostClosed: self._closed,
            HostDown: self._down,
            GroupRequestRead: self._read,
            MemberReconfigured: self._reconfigured,
            NodeWritten: self._written,
            BecameLeader: self._led,
            PositionSet: self._positioned,
            Processed: self._processed,
            OffsetCommitted: each_of(self._committed),
            OffsetRemoved: self._removed,
            CommitAnswered: self._commit_answered,
        }
        self._reconciliations = Reconciliations(follows_target=follows_target)
        self.shown_to(self._reconciliations.on)
        self.shown_to(dict.fromkeys(DISTURBING, self._disturbed))

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        made = cls(settings.times, follows_target=settings.classic_members_follow_target)
        made.shown_to(settings.on)
        return made

    # --- facts -------------------------------------------------------------------------------------------------

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        self._has_deleted = self._has_deleted or fact.kind == "delete-topic"
        if fact.lasts or fact.kind == "pause-partitions":
            self._faults[fact.index] = seen.at_us, fact

    def _ended(self, seen: Seen, fact: FaultEnded) -> None:
        self._faults.pop(fact.index, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._closed_us.pop(fact.host, None)  # of a former process; ``HostClosed`` follows if this one was closed
        self._refused_us = {actor: at for actor, at in self._refused_us.items() if host_of(actor) != fact.host}
        stops = [index for index, (_, fault) in self._faults.items() if _stops_polls(fault, fact.host)]
        for index in stops:  # the next process of this host polls at once
            del self._faults[index]

    def _closed(self, seen: Seen, fact: HostClosed) -> None:
        self._closed_us[fact.host] = seen.at_us, fact.took_us

    def _read(self, seen: Seen, fact: GroupRequestRead) -> None:
        """Judge whether a closing member awaited its coordinator's answers until the timeout."""
        host = host_of(fact.client)
        if not self.panel.is_down(host):
            return
        coordinator, close_us = host_of(seen.actor), self._of(fact.group).close_us
        closed_us, took_us = self._closed_us.get(host, (0, close_us))
        if took_us >= close_us * EARLY:
            return
        links_us, able_us = (
            self.panel.disturbances.links_free_since_us((host, coordinator)),
            self._undisturbed_us(coordinator),
        )
        if links_us is not None and able_us is not None and max(links_us, able_us) < closed_us - took_us:
            text = f"{fact.client} of group {fact.group} closed before {coordinator} had read its {fact.api}"
            self.violation(seen, "closed-early", (fact.group, fact.client), text)

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        """Use the slower of the old and the new setting."""
        group = self.panel.memberships.group_of.get(fact.host, "")
        times = self._of(group)
        for setting in fact.settings:
            key, _, value = setting.partition("=")
            if key in _KEYS and value.isdecimal():
                longest = max(getattr(times, _KEYS[key]), int(value) * _US)
                times = evolve(times, **{_KEYS[key]: longest})
            if key in _CLOSE_KEYS and value.isdecimal():
                times = evolve(times, close_us=min(times.close_us, int(value) * _US))
            if key == "enable.auto.commit":
                times = evolve(times, commits={**times.commits, fact.host: value == "true"})
            elif key == "emulated.process.us.per.record":
                more_us = int(value) * 500
                times = evolve(times, poll_us=times.poll_us + more_us, records_us=times.records_us + more_us)
        self._times[group] = times

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if self.panel.written is not None:
            self._changed_us[self.panel.written] = seen.at_us

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        self._changed_us[fact.topic, fact.partition] = seen.at_us

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        key = (fact.group, (fact.topic, fact.partition))
        idle = self._idle.get(key)
        if idle is not None:
            self._idle[key] = fact.offset
            if fact.offset > idle:  # a reset may skip the waiting records
                del self._idle[key]

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        if self._idle:
            self._idle.pop((fact.group, (fact.topic, fact.partition)), None)

    def _committed(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        holdings, member_id = self.panel.holdings, seen.fact.member_id
        for fact, progress in zip(facts, self.panel.progress.committed_on, strict=True):
            for actor, reader in progress.held.items():
                holding = holdings.get(actor)
                if holding is not None and holding.member_id == member_id:
                    reader.committed(fact.offset, seen.at_us)

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        for progress in self.panel.progress.all.get((fact.topic, fact.partition), {}).values():
            for reader in progress.held.values():
                reader.uncommitted()

    def _commit_answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._refused_us.setdefault(seen.actor, seen.at_us)
        else:
            self._refused_us.pop(seen.actor, None)

    # --- after the faults ----------------------------------------------------------------------------------------

    def _disturbed(self, seen: Seen, fact: object) -> None:
        """Note a disturbance: from now on each group must make progress on partitions with waiting records."""
        if (self._disturbed_us is None and type(fact) is not Healed) or not disturbs(fact):
            return
        self._disturbed_us, self._judges_us = seen.at_us, {}
        read = [(name, at) for name, at, progress in self.panel.progress if progress.position >= 0]
        topics = dict.fromkeys((name, at[0]) for name, at in read)
        everywhere = [(name, (topic, n)) for name, topic in topics for n in range(self.panel.topics.get(topic, 0))]
        self._idle = {key: self._position(key) for key in everywhere if self._lags(key)}

    def _position(self, key: tuple[GroupId, TopicPartition]) -> int:
        return max(0, self.panel.progress.position(*key))

    def _lags(self, key: tuple[GroupId, TopicPartition]) -> bool:
        return self._position(key) < self.panel.logs.of(key[1]).records.end

    def _waited_for(self) -> list[tuple[GroupId, TopicPartition]]:
        """Partitions on which a group has not made progress since the last disturbance."""
        running = [each for each in self.panel.holdings.values() if host_of(each.actor) not in self.panel.away]
        owned = [(each.group, at) for each in running for at in each.owned]
        new = [key for key in owned if self.panel.progress.position(*key) < 0]
        return [key for key in (*self._idle, *new) if self._lags(key) and self.panel.has_running_members(key[0])]

    @property
    def satisfied(self) -> bool:
        """Whether each group made progress on partitions with waiting records since the last disturbance; False before
        ``Healed``.
        """
        return self._disturbed_us is not None and not self._waited_for()

    @property
    def judges_at_us(self) -> int | None:
        """Latest time at which these duties are overdue. Members slower than ``max.poll.interval.ms`` rebalance for
        ever.
        """
        return max([self._judges_us.get(name, 0) for name, _ in self._waited_for()], default=None)

    # --- judging -----------------------------------------------------------------------------------------------------

    def finish(self, at_us: int) -> None:
        """Judge the duties that are open at the end of the run."""
        if self.panel.now is not None:
            self.look(self.panel.now._replace(at_us=at_us))

    def _of(self, group: GroupId) -> GroupTimes:
        return self._times.get(group) or GroupTimes()

    def look(self, seen: Seen) -> None:
        """Judge the groups whose coordinator is undisturbed."""
        self.looks_us = seen.at_us + LOOK_EVERY_US
        self._overdue = {}
        for name, watched in self.panel.groups.items():
            group = self.panel.memberships.groups.get(name)
            coordinator = watched.coordinator
            if group is None or not coordinator or group.speaker[0] != coordinator or not watched.loaded:
                continue
            if self._undisturbed_us(host_of(coordinator)) is None:
                continue
            times = self._of(name)
            self._look_at_members(seen, name, group, times)
            self._look_at_joins(seen, name, group, times)
            self._look_at_sync(seen, name, group, times)
            if group.state in _RECONCILES:
                self._look_at_reconciliation(seen, name, group, times)
            if group.state == "Stable":
                self._look_at_waits(seen, name, host_of(coordinator), times)
            for actor in self.panel.running_members(name):
                self._look_at_member(seen, name, group, actor, times)
        self._reported = {key: None for key in self._reported if key in self._overdue}

    def _is_over(
        self, seen: Seen, kind: str, who: tuple[str, str], since_us: Iterable[int], bound_us: int, text: str
    ) -> None:
        """Report a duty whose hosts have all been undisturbed for longer than its bound."""
        begun_us = max(since_us)
        if seen.at_us <= begun_us + bound_us:
            return
        key = (kind, *who)
        self._overdue[key] = None
        if key not in self._reported:
            self._reported[key] = None
            names = tuple(name for name in who if name)
            more = f"{text} for more than {bound_us / 1e6:g} s, though nothing hindered it since {begun_us / 1e6:g} s"
            self.violation(seen, kind, names, more, liveness=True)

    def _undisturbed_us(self, *hosts: str) -> int | None:
        return self.panel.disturbances.undisturbed_since_us(hosts)

    def _log_us(self, group: GroupId, *hosts: str) -> int | None:
        """Time since which these hosts work undisturbed and the group's log commits records, in us."""
        log = self.panel.log_of(group)
        return self._undisturbed_us(*hosts) if log is None else self._writable_us(log, *hosts)

    def _writable_us(self, at: TopicPartition, *hosts: str) -> int | None:
        """Time since which a replicated partition has a leader and enough replicas in sync, all undisturbed, in us."""
        state = self.panel.states.get(at)
        leader = self.panel.leaders.get(at)
        if state is None or leader is None or len(state.isr) < self.panel.min_insync.of(at) or self._is_unknown_isr(at):
            return None
        since_us = self._undisturbed_us(*hosts, host_of(leader), *[broker_host(broker) for broker in state.isr])
        return None if since_us is None else max(since_us, self._changed_us.get(at, 0))

    def _is_unknown_isr(self, at: TopicPartition) -> bool:
        """Whether the leader waits for an ISR that is in the store already (``unknown_isrs``)."""
        unknown = self.panel.unknown_isrs.of(at)
        return unknown is not None and unknown.leader_waits

    # --- rules -------------------------------------------------------------------------------------------------

    def _look_at_members(self, seen: Seen, name: GroupId, group: CoordinatorsGroup, times: GroupTimes) -> None:
        """Judge whether the coordinator keeps ids of dead processes."""
        coordinator = host_of(group.speaker[0])
        able_us = self._undisturbed_us(coordinator)
        if able_us is None or group.state not in ("Stable", "CompletingRebalance"):
            return
        for member_id, entry in group.entries.items():
            silent_us = self._silent_us(entry, coordinator, times)
            if silent_us is not None:
                since_us = (silent_us, entry.since_us, group.since_us, able_us)
                text = f"{coordinator} kept {member_id} in group {name}, whose process is dead or silent,"
                bound_us = times.session_us + times.session_us // 10 + GRACE_US
                self._is_over(seen, "member-kept", (name, member_id), since_us, bound_us, text)

    def _silent_us(self, entry: MemberEntry, coordinator: str, times: GroupTimes) -> int | None:
        """Time since which no heartbeat of the process reaches the coordinator, in us; None if a heartbeat may arrive,
        or if the time is unknown.
        """
        if not entry.actor:
            return None
        host = host_of(entry.actor)
        ended_us = self.panel.memberships.ended_us(entry)
        if ended_us is not None:
            slowed_us = self.panel.disturbances.links_free_since_us((host, coordinator))
            return None if slowed_us is None else max(ended_us, slowed_us)
        ways = [at_us for at_us, fault in self._faults.values() if _isolates(fault, host, coordinator)]
        silent = [at_us for at_us, fault in self._faults.values() if _stops_polls(fault, host)]
        return min([*ways, *[at_us + times.rebalance_us for at_us in silent]], default=None)

    def _look_at_joins(self, seen: Seen, name: GroupId, group: CoordinatorsGroup, times: GroupTimes) -> None:
        """Judge whether a join waits longer than a join phase, or the write of a record, may last."""
        coordinator = host_of(group.speaker[0])
        joins = {
            join.member_id: max(join.since_us, group.since_us)
            for join in self.panel.memberships.joins.values()
            if (join.group, join.speaker) == (name, group.speaker)
        }
        able_us = self._undisturbed_us(coordinator)
        if able_us is None or not joins:
            return
        since_us: tuple[int, ...] = (min(joins.values()), able_us)
        text = f"the join phase of group {name} did not end"
        delay_us = 2 * times.delay_us if group.began_empty else 0
        if group.state != "PreparingRebalance":
            written_us = self._log_us(name, coordinator)
            if written_us is None:
                return
            text, bound_us = f"{coordinator} did not answer a JoinGroup to group {name}", times.request_us
            since_us = (*since_us, written_us)
        elif group.began_empty and group.turned_away and min(joins.values()) > group.since_us + times.delay_us:
            # nobody waited when the initial delay ended, and a join ends no phase that began Empty
            # (Kafka 4.0 to 4.3 GroupMetadataManager.completeClassicGroupJoin, maybeCompleteJoinPhase)
            bound_us = times.rebalance_us
            since_us = (group.since_us + times.delay_us, able_us)
        elif not group.overlooked and all(member_id in joins for member_id in group.entries):
            text, bound_us = f"{text}, which all members joined,", delay_us
            ids_us = [at_us + times.session_us for at_us in group.pending.values()]
            since_us = (*joins.values(), able_us, group.removed_us, *ids_us)
        else:
            bound_us = max(delay_us, times.rebalance_us)
        self._is_over(seen, "join-unfinished", (name, ""), since_us, bound_us + GRACE_US, text)

    def _look_at_sync(self, seen: Seen, name: GroupId, group: CoordinatorsGroup, times: GroupTimes) -> None:
        """Judge the sync phase: in COMPLETING_REBALANCE, the leader waits for no member, and the group waits for the
        leader.
        """
        entry = group.entries.get(group.leader)
        progress = None if entry is None else self.panel.memberships.members.get(entry.actor)
        coordinator = host_of(group.speaker[0])
        if entry is None or progress is None or progress.life != entry.life or progress.state == UNJOINED:
            return
        if host_of(self.panel.coordinators.asked_by(entry.actor)) != coordinator:
            return
        able_us = self._log_us(name, coordinator, host_of(entry.actor))
        if able_us is not None and (progress.state == SYNCING or group.state == "CompletingRebalance"):
            begun_us = progress.since_us if progress.state == SYNCING else group.since_us
            bound_us = 2 * times.request_us + times.poll_us + times.calls_us + MARGIN_US
            text = f"leader {group.leader} of group {name} and its coordinator did not come to an assignment"
            self._is_over(seen, "sync-unfinished", (name, ""), (able_us, begun_us), bound_us, text)

    def _look_at_reconciliation(self, seen: Seen, name: GroupId, group: CoordinatorsGroup, times: GroupTimes) -> None:
        """Judge whether heartbeats bring a group of the consumer protocol to its target."""
        able_us = self._reconciles_us(name, group)
        if able_us is None:
            return
        revoking = self._reconciliations.revoking(name)
        for member_id, since_us in revoking.items():
            text = f"{member_id} of group {name} did not give up its partitions"
            longest_us = 2 * times.request_us + 2 * times.poll_us + times.calls_us + MARGIN_US
            bound_us = times.rebalance_us if self._has_deleted else min(times.rebalance_us, longest_us)
            self._is_over(seen, "not-revoked", (name, member_id), (since_us, able_us), bound_us + GRACE_US, text)
        if revoking or self._reconciliations.hears_of_no_epoch(group):
            return
        begun_us = max(group.since_us, group.removed_us, able_us)
        bound_us = GRACE_US + self._reconciliations.revoked_us(name, begun_us, seen.at_us)
        bound_us += times.heartbeat_us + times.target_us if group.state == _RECONCILES[0] else 2 * times.heartbeat_us
        if not all(map(self._reconciliations.has_consumer_protocol, group.entries)):
            bound_us += times.rebalance_us + times.session_us
        text = f"group {name} remained {group.state}"
        self._is_over(seen, "not-reconciled", (name, group.state), (begun_us,), bound_us, text)

    def _reconciles_us(self, name: GroupId, group: CoordinatorsGroup) -> int | None:
        """Time since which coordinator and members exchange heartbeats, in us; None if one of them does not."""
        coordinator, memberships = host_of(group.speaker[0]), self.panel.memberships
        log_us, loaded_us = self._log_us(name, coordinator), self._reconciliations.loaded_us.get(name)
        if log_us is None or not group.entries:
            return None
        first_us = min(entry.since_us for entry in group.entries.values())
        able_us = log_us if log_us <= first_us else log_us + MARGIN_US
        if loaded_us is not None:
            able_us = max(able_us, loaded_us + MARGIN_US)
        for member_id, entry in group.entries.items():
            progress = memberships.members.get(entry.actor)
            hit_us = self._undisturbed_us(host_of(entry.actor), coordinator)
            if hit_us is None or memberships.is_over(member_id, entry):
                return None
            if progress is None or progress.state not in _SENDS_HEARTBEATS:
                return None
            able_us = max(able_us, hit_us if hit_us <= entry.since_us else hit_us + MARGIN_US)
        return able_us

    def _look_at_waits(self, seen: Seen, name: GroupId, coordinator: str, times: GroupTimes) -> None:
        """Judge whether owners adopt their partitions and get a position."""
        interruptions = self.panel.interruptions
        for key, history in interruptions.services.items():
            if not history.stages or history.stages[-1][1] not in _NOT_ADOPTED or key[0] != name:
                continue
            (cause, actor), at = interruptions.now(key), key[1]
            where = f"{at[0]}-{at[1]}"
            if cause == Cause.TAKE_OVER:
                kind, bound_us, able_us = "not-taken", times.rebalance_us, self._undisturbed_us(host_of(actor))
            elif cause == Cause.POSITION:
                kind, bound_us = "no-position", 2 * times.request_us
                able_us = self._readable_us(at, host_of(actor), coordinator)
            else:
                continue
            if able_us is not None:
                since_us = (interruptions.since_us(key), able_us)
                text = f"{where} of group {name} waits for {cause} ({actor})"
                self._is_over(seen, kind, (name, where), since_us, bound_us + MARGIN_US, text)

    def _look_at_member(
        self, seen: Seen, name: GroupId, group: CoordinatorsGroup, actor: ActorName, times: GroupTimes
    ) -> None:
        progress = self.panel.memberships.members.get(actor)
        if progress is None or progress.why == _UNSUBSCRIBED:
            return
        if not self.panel.memberships.has(name, actor):
            if not times.streams:
                self._look_at_removed(seen, name, group, actor, times)
            return
        self._not_in.pop(actor, None)
        holding = self.panel.holdings.get(actor)
        if group.state == "Stable" and progress.state == MEMBER and holding is not None and not holding.has_left:
            self._look_at_work(seen, name, group, holding, times, max(group.since_us, progress.since_us))

    def _look_at_removed(
        self, seen: Seen, name: GroupId, group: CoordinatorsGroup, actor: ActorName, times: GroupTimes
    ) -> None:
        coordinator, progress = host_of(group.speaker[0]), self.panel.memberships.members[actor]
        before = self._not_in.get(actor)
        if before is None or before[:2] != (group.speaker, progress.life):
            before = self._not_in[actor] = group.speaker, progress.life, seen.at_us
        able_us = self._log_us(name, coordinator, host_of(actor))
        asked = host_of(self.panel.coordinators.asked_by(actor))
        log = self.panel.log_of(name)
        if able_us is None or (log is not None and asked != coordinator and self._leads(asked, log)):
            return
        bound_us = 2 * times.request_us + times.poll_us + times.calls_us + MARGIN_US
        since_us = max(before[2], able_us)
        if progress.state not in (UNJOINED, MEMBER) and (asked != coordinator or progress.since_us <= since_us):
            bound_us += times.rebalance_us + GRACE_US
            self._lost_join_us[actor] = seen.at_us
        else:
            since_us = max(since_us, self._lost_join_us.get(actor, 0))
        text = f"{actor} did not rejoin group {name} at {coordinator}"
        self._is_over(seen, "not-rejoined", (name, actor), (since_us,), bound_us, text)

    def _leads(self, host: str, log: TopicPartition) -> bool:
        return self.panel.roles.get((host, log), (-1, False))[1]

    def _look_at_work(
        self, seen: Seen, name: GroupId, group: CoordinatorsGroup, holding: Holding, times: GroupTimes, since_us: int
    ) -> None:
        coordinator, host = host_of(group.speaker[0]), host_of(holding.actor)
        commits = times.reads and times.commits.get(host, times.commits.get("", True))
        able_us = self._log_us(name, coordinator, host) if commits else None
        busy_us = min(2 * times.poll_us + times.calls_us, times.rebalance_us)  # a slower member leaves the group
        batches_us = busy_us + len(holding.owned) * POLLS_OF_A_FETCH * times.records_us
        # restoring tasks, buffered records, ranges of other members
        elsewhere_us = 0 if times.reads else times.rebalance_us
        readers = self.panel.progress.readers(holding.actor, holding.life)
        worked_us = max([reader.finished_us for reader in readers.values()], default=0)
        commit_bound_us = times.commit_us + times.request_us + 2 * times.poll_us + MARGIN_US
        read_bound_us = times.request_us + batches_us + elsewhere_us + MARGIN_US
        idle_bound_us = times.request_us + busy_us + elsewhere_us + MARGIN_US
        if holding.actor in self._refused_us:
            since_us = max(since_us, self._refused_us[holding.actor])
            read_bound_us, idle_bound_us = read_bound_us + times.rebalance_us, idle_bound_us + times.rebalance_us
        latest_us = (self._disturbed_us or 0) + times.session_us + times.rebalance_us + 2 * idle_bound_us
        is_paused, log_of = self._is_paused(host), self.panel.logs.of
        uncommitted_before_us = seen.at_us - commit_bound_us
        for at in holding.owned:
            reader = readers.get(at)
            progress = self.panel.progress.of(name, at) if reader is None else reader.progress
            undone_us, undone = (-1, -1) if reader is None else reader.uncommitted_work
            if 0 <= undone_us < uncommitted_before_us and able_us is not None:
                where = f"{at[0]}-{at[1]}"
                text = f"{holding.actor} did not commit offset {undone} of {where}"
                begun_us = (undone_us, able_us, since_us)
                self._is_over(seen, "offsets-uncommitted", (name, where), begun_us, commit_bound_us, text)
            reached, end, key = progress.position, log_of(at).records.end, (name, at)
            if not 0 <= reached < end or (times.streams and not self.panel.interruptions.is_well(key)):
                if self._waits_us:
                    self._waits_us.pop(key, None)
                continue
            where = f"{at[0]}-{at[1]}"
            behind_us = max(self._waits_us.setdefault(key, seen.at_us), progress.worked_us)
            read_us = self._readable_us(at, host, coordinator)
            if read_us is not None and not is_paused:
                text = f"{holding.actor} read nothing of {where} at {reached}"
                begun_us = (behind_us, read_us, since_us)
                self._is_over(seen, "records-unread", (name, where), begun_us, read_bound_us, text)
                idle_us = (*begun_us, worked_us)
                self._is_over(seen, "records-unread", (name, where), idle_us, idle_bound_us, text)
                self._judges_us[name] = min(latest_us, max(idle_us) + idle_bound_us + 1)

    def _is_paused(self, host: str) -> bool:
        """Whether the plan pauses partitions of this member, or of a member named by its role."""
        pauses = [fault.text for _, fault in self._faults.values() if fault.kind == "pause-partitions"]
        paused = [words.partition(" pauses ")[0] for words in pauses]
        return any(who == host or " " in who for who in paused)

    def _readable_us(self, at: TopicPartition, *hosts: str) -> int | None:
        """Time since which records of a partition are committed and readable by one of these hosts, in us."""
        if at in self.panel.states:
            return self._writable_us(at, *hosts)
        history = self.panel.interruptions.leaders.get(at)
        if history is None or history.last is None or history.last[0] != WELL:
            return None
        since_us = self._undisturbed_us(*hosts, history.last[1])
        return None if since_us is None else max(since_us, history.since_us)


def _stops_polls(fault: FaultApplied, host: str) -> bool:
    """Whether a fault stops the calls of poll() on this host."""
    return (fault.kind, fault.links) == (SILENT, ((host, ""),))


def _isolates(fault: FaultApplied, one: str, other: str) -> bool:
    """Whether a fault stops all packets between these two hosts."""
    if fault.kind not in ISOLATING or "hears nothing of" in fault.text:  # packets pass in one direction
        return False
    ends = {one, other}
    return any({first, second} == ends or (first in ends and not second) for first, second in fault.links)
