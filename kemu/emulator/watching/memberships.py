"""The members of each group as the coordinator knows them, and each member's own state (part of the panel).

A member id belongs to one life of one process: the life that ran when the coordinator added the id.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, HostStarted, RunStarted, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, MemberId, host_of
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    GroupRequestAnswered,
    GroupRequestRead,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberRemoved,
    RequestRefused,
)

UNJOINED, JOINING, SYNCING, MEMBER = "UNJOINED", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"
ENDED = ("CLOSED", "FAILED")


class MemberEntry:
    """A member id in a coordinator's group. For an unknown member, ``actor`` is "" and ``life`` is 0."""

    __slots__ = ("actor", "life", "since_us")

    def __init__(self, actor: ActorName, life: int, since_us: int) -> None:
        self.actor = actor
        self.life = life
        self.since_us = since_us


class CoordinatorsGroup:
    """A group as known by the coordinator that last reported a fact about the group."""

    __slots__ = (
        *("began_empty", "entries", "leader", "pending"),
        *("overlooked", "removed_us", "since_us", "speaker", "state", "turned_away"),
    )

    def __init__(self, speaker: tuple[ActorName, int], at_us: int) -> None:
        self.speaker = speaker
        """(coordinator, life of its process)."""
        self.entries: dict[MemberId, MemberEntry] = {}
        self.state = "Empty"
        self.since_us = at_us
        """Time at which the group entered ``state`` at this coordinator, in us."""
        self.began_empty = False
        """Whether the last join phase began in an Empty group (KIP-134)."""
        self.pending: dict[MemberId, int] = {}
        """Member id without a join (KIP-394) -> time at which the coordinator assigned the id, in us."""
        self.removed_us = -1
        """Time at which a member was last removed, in us."""
        self.overlooked = False
        """Whether a member was removed in this state because the group was full. After such a removal, Kafka 4.0 does
        not check whether all other members have joined (``GroupMetadataManager.classicGroupJoinToClassicGroup``)."""
        self.turned_away = False
        """Whether the coordinator told joining members in this state to join again, because the group could not be
        converted to the consumer protocol (``GroupMetadataManager.convertToConsumerGroup``)."""
        self.leader: MemberId = ""
        """The leader of the last generation."""


class WaitingJoin:
    """A JoinGroup that a coordinator has read and not answered."""

    __slots__ = ("group", "member_id", "name", "since_us", "speaker")

    def __init__(self, seen: Seen, fact: GroupRequestRead) -> None:
        self.speaker = seen.actor, seen.life
        """(coordinator, life of its process)."""
        self.group = fact.group
        self.name = fact.connection, fact.request_id
        self.member_id = fact.ids[0][0]
        """The member id in the request, or the id that the coordinator assigned later; "" before an id exists."""
        self.since_us = seen.at_us


class MemberProgress:
    """The state that a member last reported."""

    __slots__ = ("life", "member_id", "since_us", "state", "why")

    def __init__(self, life: int, member_id: MemberId, state: str, since_us: int, why: str) -> None:
        self.life = life
        self.member_id = member_id
        self.state = state
        self.since_us = since_us
        self.why = why


class Memberships:
    """The memberships of all groups, and the states of all members.

    Args:
        is_current: whether a fact about a group is from its current coordinator (``Panel.is_current``).
    """

    def __init__(self, is_current: Callable[[Seen], bool]) -> None:
        self._is_current = is_current
        self.groups: dict[GroupId, CoordinatorsGroup] = {}
        self.members: dict[ActorName, MemberProgress] = {}
        """Member -> progress of its present life, from the first report on."""
        self.group_of: dict[ActorName, GroupId] = {}
        self.down_us: dict[str, int] = {}
        """Host -> time at which its process last ended, in us."""
        self._lives: dict[str, int] = {}
        self.joins: dict[ActorName, WaitingJoin] = {}
        """Member -> last JoinGroup that a coordinator read, while the answer is outstanding."""
        self._known: dict[MemberId, tuple[ActorName, int]] = {}
        """Member id that was ever added -> (actor, life)."""
        self._ids: dict[tuple[ActorName, int], dict[MemberId, None]] = {}
        """(actor, life) -> member ids that were ever added for it."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._run_started,
            HostStarted: self._started,
            HostDown: self._down,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            RequestRefused: self._refused,
            GroupBecame: self._became,
            GroupLoaded: self._loaded,
            GroupUnloaded: self._unloaded,
            GroupRequestRead: self._read,
            GroupRequestAnswered: self._answered,
            JoinPhaseCompleted: self._completed,
            MemberBecame: self._member_became,
        }

    def has(self, group: GroupId, actor: ActorName) -> bool:
        """Whether the coordinator has an id of the member's present life."""
        known, life = self.groups.get(group), self._lives.get(host_of(actor), 0)
        if known is None:
            return False
        entries = [known.entries[each] for each in self._ids.get((actor, life), ()) if each in known.entries]
        return any((entry.actor, entry.life) == (actor, life) for entry in entries)

    def ended_us(self, entry: MemberEntry) -> int | None:
        """Time at which the life with this id ended, in us; None for a life that has not ended, or an unknown life."""
        host = host_of(entry.actor)
        if entry.actor and self._lives.get(host, 0) != entry.life:
            return self.down_us.get(host)
        progress = self.members.get(entry.actor)
        if progress is not None and progress.state == ENDED[0]:
            return progress.since_us
        return self.down_us[host] if self.down_us.get(host, -1) >= 0 and not self._runs(host) else None

    def is_over(self, member_id: MemberId, entry: MemberEntry) -> bool:
        """Whether the process with this id has ended, or has another id now."""
        actor = entry.actor or member_id
        progress, life = self.members.get(actor), self._lives.get(host_of(actor), 0)
        another = progress is not None and progress.member_id not in ("", member_id)
        return another or not life or entry.life not in (0, life)

    def _runs(self, host: str) -> bool:
        return self._lives.get(host, 0) > 0

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self.group_of.update(fact.members)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._lives[fact.host] = fact.life
        self._forget(fact.host)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._lives[fact.host] = 0
        self.down_us[fact.host] = seen.at_us
        self._forget(fact.host)

    def _forget(self, host: str) -> None:
        for actor in [actor for actor in self.members if host_of(actor) == host]:
            del self.members[actor]
        for actor in [
            actor for actor, join in self.joins.items() if host in (host_of(actor), host_of(join.speaker[0]))
        ]:
            del self.joins[actor]

    # --- the coordinator ---------------------------------------------------------------------------------------

    def _group(self, seen: Seen, *, anew: bool = False) -> CoordinatorsGroup | None:
        """The group as known by the coordinator of this fact, empty at its first report; None for a deposed
        coordinator.
        """
        name, speaker = seen.fact.group, (seen.actor, seen.life)
        if not self._is_current(seen):
            return None
        group = self.groups.get(name)
        if group is None or anew or group.speaker != speaker:
            group = self.groups[name] = CoordinatorsGroup(speaker, seen.at_us)
        return group

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        actor = fact.client_id
        known = self._known[fact.member_id] = actor, self._lives.get(host_of(actor), 0)
        self._ids.setdefault(known, {})[fact.member_id] = None
        group, join = self._group(seen), self.joins.get(actor)
        if join is not None and not join.member_id:
            join.member_id = fact.member_id
        if group is not None:
            group.entries[fact.member_id] = self._entry(fact.member_id, seen)
            group.pending.pop(fact.member_id, None)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        group = self._group(seen)
        if group is not None:
            group.entries.pop(fact.member_id, None)
            group.removed_us = seen.at_us

    def _refused(self, seen: Seen, fact: RequestRefused) -> None:
        if fact.error is ErrorCode.MEMBER_ID_REQUIRED:
            group = self._group(seen)
            if group is not None:
                group.pending[fact.member_id] = seen.at_us
        elif fact.error is ErrorCode.GROUP_MAX_SIZE_REACHED:
            group = self._group(seen)
            if group is not None and (fact.member_id in group.pending or group.removed_us == seen.at_us):
                group.overlooked = True
                group.pending.pop(fact.member_id, None)
        elif fact.error is ErrorCode.REBALANCE_IN_PROGRESS and fact.api == "JoinGroup":
            group = self._group(seen)
            if group is not None and group.state == "PreparingRebalance":
                group.turned_away = True

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        group = self._group(seen)
        if group is not None:
            group.state, group.since_us, group.turned_away = fact.new, seen.at_us, False
            if fact.new == "PreparingRebalance":
                group.began_empty, group.overlooked = fact.old == "Empty", False
        if fact.new == "Dead":
            self._unloaded(seen, fact)

    def _unloaded(self, seen: Seen, fact: GroupUnloaded | GroupBecame) -> None:
        speaker = seen.actor, seen.life
        self.joins = {
            actor: join for actor, join in self.joins.items() if (join.group, join.speaker) != (fact.group, speaker)
        }

    def _read(self, seen: Seen, fact: GroupRequestRead) -> None:
        if fact.api == "JoinGroup":
            before, join = self.joins.get(fact.client), WaitingJoin(seen, fact)
            if before is not None and (before.speaker, before.member_id) == (join.speaker, join.member_id):
                join.since_us = before.since_us  # the client gave up waiting for the answer and retries
            self.joins[fact.client] = join

    def _answered(self, seen: Seen, fact: GroupRequestAnswered) -> None:
        join = self.joins.get(fact.client)
        if join is not None and (join.speaker[0], join.name) == (seen.actor, (fact.connection, fact.request_id)):
            del self.joins[fact.client]

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        group = self._group(seen)
        if group is not None:
            group.leader = fact.leader
            group.entries = {each: group.entries.get(each) or self._entry(each, seen) for each in fact.members}

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self.groups[fact.group] = CoordinatorsGroup((seen.actor, seen.life), seen.at_us)
        group.state = fact.state
        group.entries = {each: self._entry(each, seen) for each in fact.members}

    def _entry(self, member_id: MemberId, seen: Seen) -> MemberEntry:
        return MemberEntry(*self._known.get(member_id, ("", 0)), seen.at_us)

    # --- members -----------------------------------------------------------------------------------------------

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        self.group_of[seen.actor] = fact.group
        self.members[seen.actor] = MemberProgress(seen.life, fact.member_id, fact.new, seen.at_us, fact.why)
