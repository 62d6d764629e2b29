"""The members of a group: static instances, pending ids, and counts of the protocols that all members support.

This module only stores data: it sends no message, parks no request, and does not know the group's state. The other
parts of the group decide.
"""

from collections.abc import Iterator

from kemu.actors.coordinator.hash_order import HashMaps, MemberTable, vote_order
from kemu.actors.coordinator.timers import session_key
from kemu.actors.machine import TimerKey
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinedMember, JoinProtocol
from kemu.protocol.messages.records import StoredMember
from kemu.protocol.names import GroupId, MemberId


class NoCommonProtocol(Exception):
    """The error of a vote that selects a protocol without the support of all members.

    Duplicate names in one member's list cause this error.

    Kafka throws here, too: ``MemberMetadata.vote``, ``metadata`` (3.4.1), ``ClassicGroupMember`` (4.0).
    """


class Member:
    """One member of a group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "timer",
    )

    def __init__(
        self,
        group: GroupId,
        member_id: MemberId,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[JoinProtocol, ...],
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = is_new
        """True until the end of the member's first join phase: the new-member timeout replaces the session timeout
        during this phase.
        """
        self.timer: TimerKey = session_key(group, member_id)

    def metadata(self, protocol: str | None) -> bytes:
        """The member's subscription for this protocol. Raises ``NoCommonProtocol`` if the member lacks the protocol."""
        for own in self.protocols:
            if own.name == protocol:
                return own.metadata
        raise NoCommonProtocol(f"member {self.member_id} does not support {protocol}")

    def stored(self, protocol: str | None, assignments: dict[MemberId, bytes] | None) -> StoredMember:
        """The member's entry in the group's record, with the new assignment, or (None) with the present assignment."""
        return StoredMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment if assignments is None else assignments.get(self.member_id, b""),
        )


class Members:
    """The members of one group, in order of arrival. A replaced static member moves to the end."""

    __slots__ = ("_maps", "_table", "by_id", "leader", "pending", "static", "support")

    def __init__(self, maps: HashMaps = HashMaps.JAVA) -> None:
        self._maps = maps
        self._table = MemberTable(maps)
        self.by_id: dict[MemberId, Member] = {}
        self.static: dict[str, MemberId] = {}
        """Instance id -> member id."""
        self.pending: dict[MemberId, None] = {}
        """Ids issued with MEMBER_ID_REQUIRED that have not joined yet. No other field contains such an id."""
        self.support: dict[str, int] = {}
        """Protocol name -> number of its occurrences in the members' lists."""
        self.leader: MemberId | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_id.values())

    def why_not(self, member_id: MemberId, instance_id: str | None) -> ErrorCode:
        """NONE, or the reason why the group has no member with these ids.

        The instance id is checked before the member id (KIP-345).
        """
        if instance_id is not None:
            owner = self.static.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    # --- changes -----------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Add a member; the first member becomes the leader."""
        assert member.member_id not in self.by_id
        if member.instance_id is not None:
            assert member.instance_id not in self.static
            self.static[member.instance_id] = member.member_id
        self._table.put(len(self.by_id))
        self.by_id[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: MemberId) -> Member | None:
        """Remove a member or a pending id. The next leader is the first member in the order of the
        coordinator's map.
        """
        self.pending.pop(member_id, None)
        member = self.by_id.pop(member_id, None)
        if member is None:
            return None
        self._count(member.protocols, -1)
        if member.instance_id is not None:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.hashed()), None)
        return member

    def rename(self, member: Member, member_id: MemberId, group: GroupId) -> None:
        """Assign a new member id to a static instance; a leader remains the leader."""
        assert member.instance_id is not None
        assert member_id not in self.by_id
        old = member.member_id
        del self.by_id[old]
        member.member_id = member_id
        member.timer = session_key(group, member_id)
        self._table.put(len(self.by_id))
        self.by_id[member_id] = member
        self.static[member.instance_id] = member_id
        if self.leader == old:
            self.leader = member_id

    def update(
        self, member: Member, protocols: tuple[JoinProtocol, ...], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Update a member from its new join."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _count(self, protocols: tuple[JoinProtocol, ...], step: int) -> None:
        support = self.support
        for protocol in protocols:
            support[protocol.name] = support.get(protocol.name, 0) + step

    # --- queries that visit every member -----------------------------------------------------------------------

    def vote(self) -> str:
        """The protocol that most members prefer, of the protocols that all members support.

        The hash order of the names decides a tie.

        Raises:
            NoCommonProtocol: a member supports none of these protocols.
        """
        everyone = len(self.by_id)
        assert everyone, "no members to vote"
        votes: dict[str, int] = {}
        for member in self:
            choice = next((own.name for own in member.protocols if self.support[own.name] == everyone), None)
            if choice is None:
                raise NoCommonProtocol(f"{member.member_id} supports no protocol that all members support")
            votes[choice] = votes.get(choice, 0) + 1
        return max(vote_order(self._maps, votes), key=votes.__getitem__)

    def hashed(self) -> list[MemberId]:
        """All member ids, in the order of the coordinator's map."""
        return self._table.ordered(self.by_id)

    def supported_by_all(self, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Whether every member supports one of these protocols."""
        everyone = len(self.by_id)
        return any(self.support.get(protocol.name, 0) == everyone for protocol in protocols)

    def rebalance_timeout_ms(self) -> int:
        """The time limit of a join or sync phase: the longest timeout of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def listed(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """The list of members that the leader gets."""
        return tuple(
            [
                JoinedMember(member_id=m.member_id, instance_id=m.instance_id, metadata=m.metadata(protocol))
                for m in map(self.by_id.__getitem__, self.hashed())
            ]
        )
