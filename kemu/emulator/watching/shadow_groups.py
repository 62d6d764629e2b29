"""A model of each coordinator's copy of a group, built from the requests that the coordinator read (for
``checkers/membership``).

The timeouts and protocols of a member's joins are kept by member id. So a group that was loaded from the log is known
like a group that formed at the coordinator.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, MemberId, host_of
from kemu.protocol.notes.consumer_groups import GroupConverted
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    GroupRecordWritten,
    GroupRequestAnswered,
    GroupRequestRead,
    GroupUnloaded,
    JoinPhaseCompleted,
    LeaderElected,
    MemberAdded,
    MemberRemoved,
)

EMPTY, PREPARING, COMPLETING = "Empty", "PreparingRebalance", "CompletingRebalance"
STABLE, DEAD = "Stable", "Dead"
US_PER_MS = 1_000
EARLY = 0.99
"""Factor for bounds: a host's clock may be wrong by less than one per cent (``injection.scope.MATERIAL_DRIFT_PPM``)."""
_E = ErrorCode
Codes = frozenset[ErrorCode]
_NOTHING: Codes = frozenset()
_FINE: Codes = frozenset({_E.NONE})
_REBALANCES: Codes = frozenset({_E.REBALANCE_IN_PROGRESS})
_UNKNOWN: Codes = frozenset({_E.UNKNOWN_MEMBER_ID})
_FENCED: Codes = frozenset({_E.FENCED_INSTANCE_ID})
_ILLEGAL: Codes = frozenset({_E.ILLEGAL_GENERATION})
_OF_HEARTBEATS = {PREPARING: _REBALANCES, COMPLETING: _REBALANCES | _FINE}
COMMITS = ("OffsetCommit", "RangeCommit")
OF_MEMBERS = ("Heartbeat", *COMMITS)
"""Requests that members of a running generation repeat."""
Rows = tuple[tuple[str, bytes], ...]


class _JoinData:
    """The timeouts, protocols and instance id in a member's last join."""

    def __init__(self, session_us: int, rebalance_us: int, rows: Rows, instance: str | None = None) -> None:
        self.session_us = session_us
        self.rebalance_us = rebalance_us
        self.rows = rows
        self.instance = instance


_NO_JOIN_DATA = _JoinData(0, 0, ())


def _join_data_of(fact: GroupRequestRead) -> _JoinData:
    session_ms, rebalance_ms = fact.session_timeout_ms, fact.rebalance_timeout_ms
    rebalance_us = (session_ms if rebalance_ms < 0 else rebalance_ms) * US_PER_MS
    return _JoinData(session_ms * US_PER_MS, rebalance_us, fact.rows, fact.ids[0][1])


class ShadowMember:
    """A member in one coordinator's copy."""

    def __init__(self, member_id: MemberId, join_data: _JoinData, at_us: int) -> None:
        self.member_id = member_id
        self.instance = join_data.instance
        self.rebalance_us = join_data.rebalance_us
        self.protocols = join_data.rows
        self._session_us = join_data.session_us
        self.session_us = join_data.session_us
        """The session timeout at the last sign of life (a heartbeat or another request)."""
        self.sign_us = at_us
        """Time at which the coordinator last read a sign of life, in us."""
        self.is_new = False
        """Whether the member has not been in a generation yet."""
        self.joining = False
        """Whether the member's JoinGroup waits for an answer."""
        self.turned_away = False
        """Whether the last JoinGroup got REBALANCE_IN_PROGRESS. So a coordinator answers before it tries to convert a
        group to the consumer protocol; if this fails, the join phase continues without the member (KIP-848)."""
        self.syncing = False
        """Whether the member's SyncGroup waits for an answer."""
        self.synced = False
        """Whether the member sent a SyncGroup in this generation."""
        self.former: tuple[MemberId, ...] = ()
        """Earlier member ids of the member's instance."""

    def update(self, join_data: _JoinData) -> None:
        """Store the data of a new JoinGroup. The running session keeps its timeout."""
        self._session_us, self.rebalance_us, self.protocols = (
            join_data.session_us,
            join_data.rebalance_us,
            join_data.rows,
        )

    def sign_of_life(self, at_us: int) -> None:
        """Note a sign of life."""
        self.sign_us = at_us
        self.session_us = self._session_us


class GroupRequest:
    """A request that a coordinator read."""

    __slots__ = (
        *("api", "at_us", "before", "generation", "group", "instance", "join_data", "leaves", "member_id"),
        *("of_consumers", "permitted", "seq"),
    )

    def __init__(self, seen: Seen, fact: GroupRequestRead) -> None:
        self.at_us, self.seq = seen.at_us, seen.seq
        self.group, self.api, self.generation = fact.group, fact.api, fact.generation
        self.member_id, self.instance = fact.ids[0] if fact.ids else ("", None)
        self.join_data = _join_data_of(fact) if fact.api == "JoinGroup" else _NO_JOIN_DATA
        self.permitted: Codes = _NOTHING
        """The permitted errors of an answer when the coordinator read the request."""
        self.before: tuple[_JoinData, bool] | None = None
        """Before this JoinGroup: (the member's data, whether another JoinGroup of the member waited)."""
        self.of_consumers = False
        """Whether the group had the consumer protocol when the coordinator read the request (KIP-848)."""
        self.leaves: tuple[MemberId, ...] = ()
        """Members that a LeaveGroup removes if the answer has no error."""


class ShadowGroup:
    """One coordinator's copy of a group."""

    def __init__(self, name: GroupId) -> None:
        self.name = name
        self.state = EMPTY
        self.generation = 0
        self.leader: MemberId = ""
        """The leader; "" if the loaded log names a leader that is no longer known."""
        self.members: dict[MemberId, ShadowMember] = {}
        self.static: dict[str, MemberId] = {}
        self.former: dict[str, tuple[MemberId, ...]] = {}
        """Instance id -> former member ids of the instance."""
        self.former_generation = 0
        """Generation of a former group with this name that this coordinator began to remove. The former group returns
        if the removal is not written."""
        self.has_begun = False
        """Whether the generation has begun, but the group's change of state has not been reported yet."""
        self.has_requests = False
        """Whether the coordinator's requests are reported, so that the answers can be judged."""
        self.assignments: list[dict[MemberId, bytes]] = []
        """The assignments that the leader of this generation sent, one for each SyncGroup."""
        self.stored = False
        """Whether the assignment is in the group's log."""
        self.new_assignment = False
        """Whether the last request contained the assignment."""
        self.protocol = ""
        self.listed: dict[MemberId, Rows] = {}
        """Member -> protocols at the beginning of this generation."""
        self.unsynced: dict[MemberId, None] = {}
        """Members of this generation that sent no SyncGroup, including members that were removed later
        (KAFKA-12890)."""
        self.pending: dict[MemberId, tuple[int, int]] = {}
        """Member id without a join (KIP-394) -> (time of the assignment of the id, validity), in us."""
        self.was_empty = False
        """Whether the join phase began in an Empty group."""
        self.preparing_us = 0
        self.joined_us = 0
        """Times of the start of the join phase and of its first join, in us."""
        self.added_us = 0
        self.added_seq = -1
        """Time and step in which a member was last added."""
        self.changed_us = 0
        """Time of the last change that affects the end of the join phase, in us."""
        self.rebalance_us = 0
        """Rebalance timeout of the running phase, in us."""
        self.began_us = 0
        """Time at which this generation began, in us."""
        self.completed_seq = -1
        self.prepared_seq = -1
        """Step in which the last join phase began."""

    def prepared_at(self, seen: Seen, error: ErrorCode) -> bool:
        """Whether a join phase began in this step. In such a step the coordinator tells members that waited for an
        assignment to rejoin.
        """
        return error is _E.REBALANCE_IN_PROGRESS and self.prepared_seq == seen.seq

    def supports(self, protocols: Rows) -> bool:
        """Whether all members support one of these protocols; False if the protocols of a member are unknown."""
        names = [[name for name, _ in member.protocols] for member in self.members.values()]
        return any(all(name in each for each in names) for name, _ in protocols)

    def timeout_us(self) -> int:
        """The longest rebalance timeout of the members, in us."""
        return max([member.rebalance_us for member in self.members.values()], default=0)

    def awaited(self, at_us: int) -> list[MemberId]:
        """The ids for which the join phase waits: members that have not joined, and ids without a join."""
        absent = [member_id for member_id, member in self.members.items() if not member.joining]
        return [*absent, *[member_id for member_id in self.pending if not self.may_be_over(member_id, at_us)]]

    def may_be_over(self, member_id: MemberId, at_us: int) -> bool:
        """Whether an id without a join may have expired."""
        since_us, session_us = self.pending[member_id]
        return at_us - since_us >= session_us * EARLY

    def leave(self, request: GroupRequest, ids: tuple[tuple[MemberId, str | None], ...]) -> None:
        """Set the permitted answers to a LeaveGroup (the first error of its entries), and the members that the
        LeaveGroup removes (KIP-345).
        """
        request.permitted = _FINE
        for member_id, instance in ids:
            named = member_id or self.static.get(instance or "", "")
            if member_id in self.pending:
                outcome = _FINE | _UNKNOWN if self.may_be_over(member_id, request.at_us) else _FINE
                del self.pending[member_id]
            elif named in request.leaves or self.static.get(instance or "") in request.leaves:
                outcome = _UNKNOWN
            else:
                outcome = self.wrong_ids(named, instance if member_id else None) or _FINE
                request.leaves += (named,) if outcome == _FINE else ()
            if _E.NONE in request.permitted:
                request.permitted = request.permitted - _FINE | outcome

    def wrong_ids(self, member_id: MemberId, instance: str | None) -> Codes:
        """The error for ids without a member, else empty. Kafka checks the instance id first (KIP-345)."""
        if instance is not None:
            owner = self.static.get(instance)
            if owner is not None and owner != member_id:
                return _FENCED
            if owner is None:
                return _UNKNOWN
        return _NOTHING if member_id in self.members else _UNKNOWN


class ShadowGroups:
    """The copies of all coordinators. The owner calls the methods for each fact, and shows the facts in ``on`` to the
    handlers.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[ActorName, GroupId], ShadowGroup] = {}
        self._ended: dict[tuple[ActorName, GroupId], int] = {}
        """(coordinator, group) of a copy whose removal began -> generation."""
        self._joined_with: dict[MemberId, _JoinData] = {}
        self._requests: dict[tuple[ActorName, str, int, int], GroupRequest] = {}
        self._leaders: dict[tuple[GroupId, int], MemberId] = {}
        """(group, generation) -> last leader of the generation."""
        self._last: dict[ActorName, GroupRequest] = {}
        self.of_consumers: dict[tuple[ActorName, GroupId], None] = {}
        """(coordinator, group) of the copies that are groups of the consumer protocol now (KIP-848), whose facts are no
        facts of these models."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            LeaderElected: self._elected,
            GroupUnloaded: self._unloaded,
        }

    def group(self, coordinator: ActorName, name: GroupId) -> ShadowGroup | None:
        """The coordinator's copy of a group; None without a copy."""
        return self._groups.get((coordinator, name))

    # --- the consumer protocol ---------------------------------------------------------------------------------

    def is_of_consumers(self, seen: Seen, name: GroupId) -> bool:
        """Whether the copy of the coordinator of this fact is a group of the consumer protocol (KIP-848)."""
        return (seen.actor, name) in self.of_consumers

    def became_of_consumers(self, seen: Seen, name: GroupId) -> None:
        """Note that the copy is a group of the consumer protocol from now on."""
        group = self.group(seen.actor, name)
        if group is not None:
            group.prepared_seq = seen.seq  # members that waited are told to rejoin, as at the begin of a join phase
        self._forget(seen.actor, name)
        self.of_consumers[seen.actor, name] = None

    def became_classic(self, seen: Seen, fact: GroupConverted) -> None:
        """Note that the copy is a Stable classic group with these members from now on."""
        self.loaded(seen, GroupLoaded(group=fact.group, state=STABLE, generation=fact.generation, members=fact.members))

    # --- requests ----------------------------------------------------------------------------------------------

    def read(self, seen: Seen, fact: GroupRequestRead) -> None:
        """Note a request that the coordinator read."""
        request = self._last[seen.actor] = GroupRequest(seen, fact)
        self._requests[seen.actor, fact.client, fact.connection, fact.request_id] = request
        copy = (seen.actor, fact.group)
        request.of_consumers = copy in self.of_consumers
        group = self._groups.get(copy)
        if group is None:
            return
        group.has_requests, group.new_assignment = True, False
        request.permitted = self.permitted(group, request, seen.at_us)
        member = group.members.get(request.member_id)
        if fact.api in ("JoinGroup", "LeaveGroup"):
            group.changed_us = seen.at_us
        if fact.api == "LeaveGroup":
            group.leave(request, fact.ids)
        elif member is None or request.permitted in (_FENCED, _ILLEGAL, _UNKNOWN):
            return
        elif fact.api == "JoinGroup":
            request.before = (self._joined_with.get(member.member_id, _NO_JOIN_DATA), member.joining)
            member.update(request.join_data)
            self._joined_with[member.member_id] = request.join_data
            member.joining, member.turned_away = True, False
            group.joined_us = group.joined_us or seen.at_us
        elif fact.api == "SyncGroup" and group.state != PREPARING:
            member.syncing = member.synced = True
            group.unsynced.pop(member.member_id, None)
            if member.member_id == group.leader and group.state == COMPLETING:
                group.assignments.append(dict(fact.rows))
                group.new_assignment = True
        elif fact.api in OF_MEMBERS and group.state in (STABLE, PREPARING):
            member.sign_of_life(seen.at_us)

    def answered(self, seen: Seen, fact: GroupRequestAnswered) -> GroupRequest | None:
        """Note an answer. Return the answered request, with the permitted answers at the read and now."""
        request = self._requests.pop((seen.actor, fact.client, fact.connection, fact.request_id), None)
        if request is None:
            return None
        if request.of_consumers or self.is_of_consumers(seen, request.group):
            if request.api == "JoinGroup" and fact.error is _E.NONE:
                self._joined_with[fact.member_id] = request.join_data
                converted = self.group(seen.actor, request.group)
                if converted is not None and fact.member_id in converted.members:
                    converted.members[fact.member_id].joining = False
            return None
        if fact.error is _E.MEMBER_ID_REQUIRED:
            empty = self.of(seen, request.group)
            empty.pending[fact.member_id] = (seen.at_us, request.join_data.session_us)
            empty.changed_us = seen.at_us
            return request
        group = self._groups.get((seen.actor, request.group))
        if group is not None and fact.error is _E.GROUP_MAX_SIZE_REACHED:
            group.pending.pop(request.member_id, None)
        if group is not None:
            if fact.error not in request.permitted:
                request.permitted |= self.permitted(group, request, seen.at_us)
            member = group.members.get(request.member_id)
            if member is not None and request.api == "JoinGroup":
                if request.seq != seen.seq or fact.error is _E.NONE:
                    member.joining, member.turned_away = False, fact.error is _E.REBALANCE_IN_PROGRESS
                elif request.before is not None:
                    self._joined_with[member.member_id], member.joining = request.before
                    member.update(self._joined_with[member.member_id])
            elif member is not None and request.api == "SyncGroup":
                member.syncing = False
                if request.seq != seen.seq:
                    member.sign_of_life(seen.at_us)
                elif fact.error is _E.INCONSISTENT_GROUP_PROTOCOL and group.state == COMPLETING:
                    member.synced = False
                    group.unsynced[request.member_id] = None
            elif member is not None and request.api == "Heartbeat" and fact.error is _E.NONE:
                member.sign_of_life(max(member.sign_us, request.at_us))
        return request

    def permitted(self, group: ShadowGroup, request: GroupRequest, at_us: int) -> Codes:
        """The errors (or NONE) that may answer a request in the group's present state."""
        if request.api == "LeaveGroup":
            return request.permitted
        if request.api == "JoinGroup":
            return self._permits_join(group, request, at_us)
        of_no_member = request.generation < 0 and not request.member_id and request.instance is None
        if request.api in COMMITS and request.generation < 0 and group.state == EMPTY:
            return _FINE
        if request.api in COMMITS and of_no_member:
            return _UNKNOWN
        wrong = group.wrong_ids(request.member_id, request.instance)
        if wrong:
            return wrong
        if request.generation != group.generation:
            return _ILLEGAL
        if request.api in COMMITS:
            return _REBALANCES if group.state == COMPLETING else _FINE
        if request.api == "Heartbeat":
            return _OF_HEARTBEATS.get(group.state, _FINE)
        if group.state == PREPARING:
            return _REBALANCES
        return _FINE if group.stored else _NOTHING

    def _permits_join(self, group: ShadowGroup, request: GroupRequest, at_us: int) -> Codes:
        if not request.member_id:
            return _FINE | _REBALANCES
        if request.member_id not in group.pending:
            return group.wrong_ids(request.member_id, request.instance) or (_FINE | _REBALANCES)
        return _FINE | _UNKNOWN if group.may_be_over(request.member_id, at_us) else _FINE

    # --- the group ---------------------------------------------------------------------------------------------

    def of(self, seen: Seen, name: GroupId) -> ShadowGroup:
        """The copy of the coordinator of this fact; a new copy is Empty."""
        group = self._groups.get((seen.actor, name))
        if group is None:
            group = self._groups[seen.actor, name] = ShadowGroup(name)
            group.former_generation = self._ended.get((seen.actor, name), 0)
            request = self._last.get(seen.actor)
            group.has_requests = request is not None and request.seq == seen.seq
        return group

    def joined_with(self, seen: Seen, fact: MemberAdded) -> tuple[_JoinData, bool]:
        """The data of the join of a new member, kept for a conversion, and whether this step has the join."""
        request = self._last.get(seen.actor)
        join_data = self._joined_with.get(fact.member_id)
        joins = request is not None and request.seq == seen.seq and request.api == "JoinGroup"
        if request is not None and joins and request.group == fact.group and join_data is None:
            join_data = self._joined_with[fact.member_id] = request.join_data
            request.member_id = fact.member_id
        join_data = join_data or _JoinData(0, 0, ())
        join_data.instance = fact.instance_id
        return join_data, joins

    def added(self, seen: Seen, fact: MemberAdded) -> None:
        """Note a member that the request of this step added, or that rejoined under a former instance id."""
        group = self.of(seen, fact.group)
        join_data, joins = self.joined_with(seen, fact)
        member = group.members[fact.member_id] = ShadowMember(fact.member_id, join_data, seen.at_us)
        member.joining = joins
        group.joined_us = group.joined_us or seen.at_us
        group.changed_us = group.added_us = seen.at_us
        group.added_seq = seen.seq
        group.pending.pop(fact.member_id, None)
        former: tuple[MemberId, ...] = ()
        if fact.instance_id is not None:
            former = group.former.get(fact.instance_id, ())
            group.static[fact.instance_id] = fact.member_id
            group.former[fact.instance_id] = (*former, fact.member_id)
            member.former = former
            if former and former[-1] in self._joined_with:  # the running session belongs to its former id
                member.session_us = self._joined_with[former[-1]].session_us
        member.is_new = not former
        for assignments in group.assignments:
            if former and former[-1] in assignments:
                assignments[fact.member_id] = assignments[former[-1]]

    def removed(self, seen: Seen, fact: MemberRemoved) -> None:
        """Note that a member was removed, or got another member id."""
        group = self.of(seen, fact.group)
        group.changed_us = seen.at_us
        member = group.members.pop(fact.member_id, None)
        if member is not None and member.instance is not None and group.static.get(member.instance) == fact.member_id:
            del group.static[member.instance]

    def _elected(self, seen: Seen, fact: LeaderElected) -> None:
        group = self.of(seen, fact.group)
        group.leader = self._leaders[group.name, group.generation] = fact.member_id

    def completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        """Note that a generation began."""
        group = self.of(seen, fact.group)
        group.generation, group.has_begun = fact.generation, group.state == PREPARING
        group.leader = self._leaders[group.name, group.generation] = fact.leader
        group.assignments, group.stored, group.protocol = [], False, fact.protocol or ""
        group.listed = {member_id: member.protocols for member_id, member in group.members.items()}
        group.unsynced = dict.fromkeys(group.members)
        group.began_us, group.completed_seq = seen.at_us, seen.seq
        group.rebalance_us = group.timeout_us()
        for member in group.members.values():
            member.is_new = member.synced = False
            member.sign_of_life(seen.at_us)

    def written(self, seen: Seen, fact: GroupRecordWritten) -> None:
        """Note that the record of a generation was written, or that the write failed."""
        group = self.of(seen, fact.group)
        group.stored = group.stored or (fact.generation == group.generation and fact.error is _E.NONE)

    def became(self, seen: Seen, fact: GroupBecame) -> None:
        """Note that the group changed its state."""
        group = self.of(seen, fact.group)
        group.state, group.has_begun = fact.new, False
        if fact.new == PREPARING:
            joined = any(member.joining for member in group.members.values())
            group.was_empty, group.prepared_seq = fact.old == EMPTY, seen.seq
            group.preparing_us = group.changed_us = seen.at_us
            group.joined_us = seen.at_us if joined else 0
            group.rebalance_us = group.timeout_us()
        elif fact.new == DEAD:
            self._forget(seen.actor, fact.group)
            self._ended[seen.actor, fact.group] = fact.generation

    def loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        """Note that a copy was loaded from the log; all sessions restart."""
        self._forget(seen.actor, fact.group)
        group = self._groups[seen.actor, fact.group] = ShadowGroup(fact.group)
        group.state, group.generation, group.stored = fact.state, fact.generation, True
        group.began_us = seen.at_us
        led = self._leaders.get((fact.group, fact.generation), "")
        group.leader = led if led in fact.members else ""
        for member_id in fact.members:
            join_data = self._joined_with.get(member_id) or _JoinData(0, 0, ())
            member = group.members[member_id] = ShadowMember(member_id, join_data, seen.at_us)
            member.synced = True
            # The log has only the member's metadata for the chosen protocol, perhaps of an older join.
            member.protocols = ()
            if join_data.instance is not None:
                group.static[join_data.instance] = member_id
                group.former[join_data.instance] = (member_id,)

    def _unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        self._forget(seen.actor, fact.group)

    def down(self, _: Seen, fact: HostDown) -> None:
        """Forget all copies of a host that is down."""
        for coordinator, name in [*self._groups, *self.of_consumers]:
            if host_of(coordinator) == fact.host:
                self._forget(coordinator, name)
        for key in [key for key in self._requests if host_of(key[0]) == fact.host]:
            del self._requests[key]

    def _forget(self, coordinator: ActorName, name: GroupId) -> None:
        self._groups.pop((coordinator, name), None)
        self._ended.pop((coordinator, name), None)
        self.of_consumers.pop((coordinator, name), None)
