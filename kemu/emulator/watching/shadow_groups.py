"""Each coordinator's copy of a group, followed from the requests that it read: a reference for ``checkers/membership``.

What a member told in its joins (timeouts, protocols) is remembered by its id, so that a group which is loaded from the
log is known as well as one that was formed here.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, MemberId, host_of
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
"""A clock may be wrong by less than a per cent (``injection.scope.MATERIAL_DRIFT_PPM``)."""
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
Rows = tuple[tuple[str, bytes], ...]


class _Told:
    """What a member said of itself in its last join."""

    def __init__(self, session_us: int, rebalance_us: int, rows: Rows, instance: str | None = None) -> None:
        self.session_us = session_us
        self.rebalance_us = rebalance_us
        self.rows = rows
        self.instance = instance


_NOTHING_TOLD = _Told(0, 0, ())


def _told_by(fact: GroupRequestRead) -> _Told:
    session_ms, rebalance_ms = fact.session_timeout_ms, fact.rebalance_timeout_ms
    rebalance_us = (session_ms if rebalance_ms < 0 else rebalance_ms) * US_PER_MS
    return _Told(session_ms * US_PER_MS, rebalance_us, fact.rows, fact.ids[0][1])


class ShadowMember:
    """A member of one copy."""

    def __init__(self, member_id: MemberId, told: _Told, at_us: int) -> None:
        self.member_id = member_id
        self.instance = told.instance
        self.rebalance_us = told.rebalance_us
        self.protocols = told.rows
        self._session_us = told.session_us
        self.session_us = told.session_us
        """The timeout that was in force at the last sign of life."""
        self.sign_us = at_us
        """The last sign of life that the coordinator read."""
        self.is_new = False
        """It has not been in a generation."""
        self.joining = False
        """Its join waits for its answer."""
        self.syncing = False
        """Its sync does."""
        self.synced = False
        """It sent a sync in this generation."""
        self.former: tuple[MemberId, ...] = ()
        """Ids that its instance had before."""

    def tells(self, told: _Told) -> None:
        """A join says something new of it; the session that runs is not changed by that."""
        self._session_us, self.rebalance_us, self.protocols = told.session_us, told.rebalance_us, told.rows

    def lives(self, at_us: int) -> None:
        """A sign of life."""
        self.sign_us = at_us
        self.session_us = self._session_us


class GroupRequest:
    """A request that was read."""

    def __init__(self, seen: Seen, fact: GroupRequestRead) -> None:
        self.at_us, self.seq = seen.at_us, seen.seq
        self.group, self.api, self.generation = fact.group, fact.api, fact.generation
        self.member_id, self.instance = fact.ids[0] if fact.ids else ("", None)
        self.told = _told_by(fact) if fact.api == "JoinGroup" else _NOTHING_TOLD
        self.permitted: Codes = _NOTHING
        """What could be answered when it was read."""
        self.before: tuple[_Told, bool] | None = None
        """What its member had told before this JoinGroup, and whether another one of it waited."""
        self.leaves: tuple[MemberId, ...] = ()
        """Members that a LeaveGroup removes if it is answered without an error."""


class ShadowGroup:
    """One coordinator's copy of a group."""

    def __init__(self, name: GroupId) -> None:
        self.name = name
        self.state = EMPTY
        self.generation = 0
        self.leader: MemberId = ""
        """ "" where nobody knows: a log was loaded that has another one."""
        self.members: dict[MemberId, ShadowMember] = {}
        self.static: dict[str, MemberId] = {}
        self.former: dict[str, tuple[MemberId, ...]] = {}
        """Instance -> ids that it had."""
        self.former_generation = 0
        """That of a group of this name whose removal this coordinator began: it comes back if that is not written."""
        self.begun = False
        """Its generation began, and its state has yet to say so."""
        self.wired = False
        """Requests are told of, so that there is something to judge by."""
        self.given: list[dict[MemberId, bytes]] = []
        """What the leader of this generation sent, once for each of its syncs."""
        self.stored = False
        """That is in the group's log."""
        self.new_assignment = False
        """The request that was read last brought that."""
        self.protocol = ""
        self.listed: dict[MemberId, Rows] = {}
        """Protocols of the members of this generation when it began."""
        self.unsynced: dict[MemberId, None] = {}
        """Of those, ids that have not sent a sync, whether or not they are members still (KAFKA-12890)."""
        self.pending: dict[MemberId, tuple[int, int]] = {}
        """Ids that were handed out -> when, and how long they last."""
        self.was_empty = False
        """The join phase began in an Empty group."""
        self.preparing_us = 0
        self.joined_us = 0
        """When the join phase began, and when somebody joined in it first."""
        self.added_us = 0
        self.added_seq = -1
        """When, and in which step, a member came last."""
        self.changed_us = 0
        """When something last changed of which the end of the join phase depends."""
        self.rebalance_us = 0
        """The timeout of the phase that runs."""
        self.began_us = 0
        """When this generation began."""
        self.completed_seq = -1
        self.prepared_seq = -1
        """The step in which the last join phase began."""

    def prepared_at(self, seen: Seen, error: ErrorCode) -> bool:
        """Whether a join phase began in this step, which sends back to join whoever waited for an assignment."""
        return error is _E.REBALANCE_IN_PROGRESS and self.prepared_seq == seen.seq

    def timeout_us(self) -> int:
        """The longest rebalance timeout of its members."""
        return max([member.rebalance_us for member in self.members.values()], default=0)

    def awaited(self, at_us: int) -> list[MemberId]:
        """Whom the join phase waits for: members that have not joined, and ids that were handed out."""
        absent = [member_id for member_id, member in self.members.items() if not member.joining]
        return [*absent, *[member_id for member_id in self.pending if not self.may_be_over(member_id, at_us)]]

    def may_be_over(self, member_id: MemberId, at_us: int) -> bool:
        """Whether an id that was handed out may have expired."""
        since_us, session_us = self.pending[member_id]
        return at_us - since_us >= session_us * EARLY

    def leave(self, request: GroupRequest, ids: tuple[tuple[MemberId, str | None], ...]) -> None:
        """What may be answered to a LeaveGroup, the first error of its entries, and who goes with it (KIP-345)."""
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
        """The error of ids that name no member; () if they do. Kafka looks at the instance first (KIP-345)."""
        if instance is not None:
            owner = self.static.get(instance)
            if owner is not None and owner != member_id:
                return _FENCED
            if owner is None:
                return _UNKNOWN
        return _NOTHING if member_id in self.members else _UNKNOWN


class ShadowGroups:
    """All copies. Its owner calls its methods with each fact; those in ``on`` need no more than that."""

    def __init__(self) -> None:
        self._groups: dict[tuple[ActorName, GroupId], ShadowGroup] = {}
        self._ended: dict[tuple[ActorName, GroupId], int] = {}
        """Copies whose removal began -> their generation."""
        self._told: dict[MemberId, _Told] = {}
        self._requests: dict[tuple[ActorName, str, int, int], GroupRequest] = {}
        self._leaders: dict[tuple[GroupId, int], MemberId] = {}
        """(group, generation) -> who led it last."""
        self._last: dict[ActorName, GroupRequest] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            LeaderElected: self._elected,
            GroupUnloaded: self._unloaded,
        }

    def group(self, coordinator: ActorName, name: GroupId) -> ShadowGroup | None:
        """The copy of a coordinator, if it has one."""
        return self._groups.get((coordinator, name))

    # --- requests ----------------------------------------------------------------------------------------------

    def read(self, seen: Seen, fact: GroupRequestRead) -> None:
        """A request is served from now on."""
        request = self._last[seen.actor] = GroupRequest(seen, fact)
        self._requests[seen.actor, fact.client, fact.connection, fact.request_id] = request
        group = self.group(seen.actor, fact.group)
        if group is None:
            return
        group.wired, group.new_assignment = True, False
        request.permitted = self.permitted(group, request, seen.at_us)
        member = group.members.get(request.member_id)
        if fact.api in ("JoinGroup", "LeaveGroup"):
            group.changed_us = seen.at_us
        if fact.api == "LeaveGroup":
            group.leave(request, fact.ids)
        elif member is None or request.permitted in (_FENCED, _ILLEGAL, _UNKNOWN):
            return
        elif fact.api == "JoinGroup":
            request.before = (self._told.get(member.member_id, _NOTHING_TOLD), member.joining)
            member.tells(request.told)
            self._told[member.member_id] = request.told
            member.joining = True
            group.joined_us = group.joined_us or seen.at_us
        elif fact.api == "SyncGroup" and group.state != PREPARING:
            member.syncing = member.synced = True
            group.unsynced.pop(member.member_id, None)
            if member.member_id == group.leader and group.state == COMPLETING:
                group.given.append(dict(fact.rows))
                group.new_assignment = True
        elif fact.api in ("Heartbeat", *COMMITS) and group.state in (STABLE, PREPARING):
            member.lives(seen.at_us)

    def answered(self, seen: Seen, fact: GroupRequestAnswered) -> GroupRequest | None:
        """An answer is sent: to this request, with what could be said when it was read, or is true now."""
        request = self._requests.pop((seen.actor, fact.client, fact.connection, fact.request_id), None)
        if request is None:
            return None
        if fact.error is _E.MEMBER_ID_REQUIRED:
            empty = self.of(seen, request.group)
            empty.pending[fact.member_id] = (seen.at_us, request.told.session_us)
            empty.changed_us = seen.at_us
            return request
        group = self._groups.get((seen.actor, request.group))
        if group is not None and fact.error is _E.GROUP_MAX_SIZE_REACHED:
            group.pending.pop(request.member_id, None)
        if group is not None:
            request.permitted |= self.permitted(group, request, seen.at_us)
            member = group.members.get(request.member_id)
            if member is not None and request.api == "JoinGroup":
                if request.seq != seen.seq or fact.error is _E.NONE:
                    member.joining = False
                elif request.before is not None:
                    self._told[member.member_id], member.joining = request.before
                    member.tells(self._told[member.member_id])
            elif member is not None and request.api == "SyncGroup":
                member.syncing = False
                if request.seq != seen.seq:
                    member.lives(seen.at_us)
                elif fact.error is _E.INCONSISTENT_GROUP_PROTOCOL and group.state == COMPLETING:
                    member.synced = False
                    group.unsynced[request.member_id] = None
            elif member is not None and request.api == "Heartbeat" and fact.error is _E.NONE:
                member.lives(max(member.sign_us, request.at_us))
        return request

    def permitted(self, group: ShadowGroup, request: GroupRequest, at_us: int) -> Codes:
        """Which of the errors about a group, or none, may answer a request in its present state."""
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
        """The copy of the coordinator that speaks; a new one is Empty."""
        group = self._groups.get((seen.actor, name))
        if group is None:
            group = self._groups[seen.actor, name] = ShadowGroup(name)
            group.former_generation = self._ended.get((seen.actor, name), 0)
            request = self._last.get(seen.actor)
            group.wired = request is not None and request.seq == seen.seq
        return group

    def added(self, seen: Seen, fact: MemberAdded) -> None:
        """A member came, with the request of this step or back under a former id."""
        group = self.of(seen, fact.group)
        request = self._last.get(seen.actor)
        told = self._told.get(fact.member_id)
        joins = request is not None and request.seq == seen.seq and request.api == "JoinGroup"
        if request is not None and joins and request.group == fact.group and told is None:
            told = self._told[fact.member_id] = request.told
            request.member_id = fact.member_id
        told = told or _Told(0, 0, ())
        told.instance = fact.instance_id
        member = group.members[fact.member_id] = ShadowMember(fact.member_id, told, seen.at_us)
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
            if former and former[-1] in self._told:  # the session that runs is its former id's
                member.session_us = self._told[former[-1]].session_us
        member.is_new = not former
        for given in group.given:
            if former and former[-1] in given:
                given[fact.member_id] = given[former[-1]]

    def removed(self, seen: Seen, fact: MemberRemoved) -> None:
        """A member is gone, or goes on under another id."""
        group = self.of(seen, fact.group)
        group.changed_us = seen.at_us
        member = group.members.pop(fact.member_id, None)
        if member is not None and member.instance is not None and group.static.get(member.instance) == fact.member_id:
            del group.static[member.instance]

    def _elected(self, seen: Seen, fact: LeaderElected) -> None:
        group = self.of(seen, fact.group)
        group.leader = self._leaders[group.name, group.generation] = fact.member_id

    def completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        """A generation began."""
        group = self.of(seen, fact.group)
        group.generation, group.begun = fact.generation, group.state == PREPARING
        group.leader = self._leaders[group.name, group.generation] = fact.leader
        group.given, group.stored, group.protocol = [], False, fact.protocol or ""
        group.listed = {member_id: member.protocols for member_id, member in group.members.items()}
        group.unsynced = dict.fromkeys(group.members)
        group.began_us, group.completed_seq = seen.at_us, seen.seq
        group.rebalance_us = group.timeout_us()
        for member in group.members.values():
            member.is_new = member.synced = False
            member.lives(seen.at_us)

    def written(self, seen: Seen, fact: GroupRecordWritten) -> None:
        """The record of a generation is in the log, or is not."""
        group = self.of(seen, fact.group)
        group.stored = group.stored or (fact.generation == group.generation and fact.error is _E.NONE)

    def became(self, seen: Seen, fact: GroupBecame) -> None:
        """It is in another state."""
        group = self.of(seen, fact.group)
        group.state, group.begun = fact.new, False
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
        """A copy was read from the log: all sessions begin."""
        group = self._groups[seen.actor, fact.group] = ShadowGroup(fact.group)
        group.state, group.generation, group.stored = fact.state, fact.generation, True
        group.began_us = seen.at_us
        led = self._leaders.get((fact.group, fact.generation), "")
        group.leader = led if led in fact.members else ""
        for member_id in fact.members:
            told = self._told.get(member_id) or _Told(0, 0, ())
            member = group.members[member_id] = ShadowMember(member_id, told, seen.at_us)
            member.synced = True
            member.protocols = ()  # the log has what the member told for the chosen protocol, maybe in an older join
            if told.instance is not None:
                group.static[told.instance] = member_id
                group.former[told.instance] = (member_id,)

    def _unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        self._forget(seen.actor, fact.group)

    def down(self, _: Seen, fact: HostDown) -> None:
        """All copies of a host are lost."""
        for coordinator, name in list(self._groups):
            if host_of(coordinator) == fact.host:
                self._forget(coordinator, name)
        for key in [key for key in self._requests if host_of(key[0]) == fact.host]:
            del self._requests[key]

    def _forget(self, coordinator: ActorName, name: GroupId) -> None:
        self._groups.pop((coordinator, name), None)
        self._ended.pop((coordinator, name), None)
