"""A real client of a served cluster: the host of its TCP connections.

The process of the client is outside of the run. The gateway passes its requests as commands, one part for each TCP
connection, and sends it the answers. The machine reports what the requests and answers say about the client's group
members: assignments, owned partitions, and committed work. Reports about a member have the actor of the connection over
which the member received its first assignment.

Derived reports:

- A member owns its assignment from the answer to SyncGroup on. It gives partitions up with its next JoinGroup: all
  partitions, or with ``owned_partitions`` in its subscription (KIP-429) the other partitions; and with an assignment
  without these partitions.
- A member of the consumer protocol (KIP-848) owns the partitions of an answer to a heartbeat once the client knows the
  names of their topics. If the member must give partitions up, it does so with the heartbeat that names the others.
- A member loses its partitions with an answer that ends its membership.
- The records below a committed offset are processed, from the member's position on. The first position is the committed
  offset that the client read, or the lowest offset that it fetched. A lower commit is a new position. Positions are
  reported as the choice of the application (``SEEK``), because a client may choose any position.
- A crash of the host resets its connections, and the client's process lives on. So the next life of the host remembers
  the members (``ClientMemory``). A member owns its partitions again from its next request on.
"""

from collections.abc import Iterable
from typing import Any

from kemu.actors.hosting import HostingMachine
from kemu.actors.machine import Event, LinkDown, Machine, Note, Received, Told
from kemu.protocol.commands import AskOn, Close, CloseConnection, OpenConnection, Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import JOINS, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from kemu.protocol.messages.data import Fetch, Metadata, MetadataReply, Produce
from kemu.protocol.messages.group import (
    FetchedOffset,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetToCommit,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.member import decode_assignment, decode_subscription
from kemu.protocol.names import CONSUMER, ActorName, GroupId, MemberId, TopicPartition, part_on
from kemu.protocol.notes.groups import (
    SEEK,
    AssignmentReceived,
    ClientConnected,
    ClientDisconnected,
    CommitAnswered,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.wire.codec import CodecError, unseal

_NONE = ErrorCode.NONE
ENDS_MEMBERSHIP = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH)
"""Errors after which a client has no membership. Source: ``AbstractCoordinator`` (3.4),
``ConsumerHeartbeatRequestManager.handleSpecificExceptionInResponse`` (4.1)."""
MOST_MEMBERS = 1_000
"""Largest number of members that one client's machine remembers; the oldest is forgotten."""


class _Member:
    """A group member of the client."""

    __slots__ = ("connection", "generation", "owned", "positioned", "target", "unreported")

    def __init__(self, connection: str) -> None:
        self.connection = connection
        """The connection that received the first assignment; the member's reports have its name."""
        self.generation = -1
        self.owned: tuple[TopicPartition, ...] = ()
        self.target: tuple[tuple[str, int], ...] = ()
        """Partitions by topic id that a heartbeat's answer gave the member, until the client knows all the topics."""
        self.positioned: dict[TopicPartition, None] = {}
        """Owned partitions with a reported position."""
        self.unreported: tuple[TopicPartition, ...] = ()
        """Partitions from an earlier life of the host; not reported in this life."""


class ClientMemory:
    """The facts that a real client's process keeps when its host crashes."""

    def __init__(self) -> None:
        self.members: dict[tuple[GroupId, MemberId], _Member] = {}
        self.reached: dict[tuple[GroupId, TopicPartition], int] = {}
        """(Group, partition) -> the offset up to which the records of the client are processed."""
        self.fetched: dict[TopicPartition, int] = {}
        """Partition -> the lowest offset fetched since the last position from a committed offset."""
        self.topics: dict[str, str] = {}
        """Topic id -> name, from the metadata that the client received."""

    def begin_life(self) -> None:
        """Note that nothing is reported in the host's next life."""
        for member in self.members.values():
            member.unreported = member.owned or member.unreported
            member.owned, member.positioned = (), {}


class RealClient(HostingMachine):
    """The machine of a real client's host. Commands: ``OpenConnection``, ``AskOn``, ``CloseConnection``.

    Args:
        memory: the same for all lives of the host.
    """

    def __init__(self, name: ActorName, memory: ClientMemory) -> None:
        super().__init__(name)
        memory.begin_life()
        self._members = memory.members
        self._reached = memory.reached
        self._fetched = memory.fetched
        self._topics = memory.topics

    def handle(self, event: Event) -> None:
        """Pass requests and answers to the part of their connection."""
        if self.passed_on(event):
            return
        match event:
            case Told(command=OpenConnection(connection=connection, client_id=client_id, broker=broker)):
                self.admit(connection, self.connection(connection))
                self.note_of(connection, ClientConnected(client_id=client_id, broker=broker))
            case Told(command=AskOn(connection=connection) as ask):
                if self.part(connection) is not None:
                    self.tell_part(connection, ask)
            case Told(command=CloseConnection(connection=connection)):
                if self.part(connection) is not None:
                    self.note_of(connection, ClientDisconnected())
                    self.dismiss(connection)
            case Told(command=Start()):
                pass
            case Told(command=Close()):
                self.finished = True
            case Received() | LinkDown():
                pass  # of a connection that was closed in the meantime
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def connection(self, name: str) -> "RealConnection":
        """The machine of a new connection."""
        return RealConnection(part_on(self.name, name), name, self)

    def note_of(self, connection: str, fact: object) -> None:
        """Report a fact of a connection."""
        self._effects.append(Note(fact, connection))

    # --- reports about members -------------------------------------------------------------------------------------

    def asks(self, connection: str, request: object) -> None:
        """Report what a request says about a member or a position."""
        if isinstance(request, JoinGroup | OffsetCommit):
            self._owns_again(request.group, request.member_id)
        match request:
            case ConsumerGroupHeartbeat():
                self._beats(request)
            case JoinGroup(group=group, member_id=""):  # the client has given up its membership
                for at in [at for at, each in self._members.items() if (at[0], each.connection) == (group, connection)]:
                    self._lost(*at)
            case JoinGroup(group=group, member_id=member_id) if (group, member_id) in self._members:
                self._keeps_only(group, member_id, _owned_in(request))
            case LeaveGroup(group=group):
                for member_id in (request.member_id, *[each.member_id for each in request.members]):
                    self._keeps_only(group, member_id, ())
            case OffsetCommit(group=group, member_id=member_id) if (group, member_id) in self._members:
                self._works(request)
            case Fetch(partitions=rows):
                for row in rows:
                    self._fetched.setdefault((row.topic, row.partition), row.fetch_offset)
            case _:
                pass

    def answered(self, connection: str, request: object, answer: object) -> None:
        """Report what an answer says about a member or a position."""
        match request, answer:
            case SyncGroup(), SyncGroupReply(error=ErrorCode.NONE) if request.protocol_type in (None, CONSUMER):
                self._assigned(connection, request, answer.assignment)
            case Heartbeat(group=group, member_id=member_id), HeartbeatReply(error=ErrorCode.NONE):
                self._owns_again(group, member_id)
            case ConsumerGroupHeartbeat(), ConsumerGroupHeartbeatReply(error=ErrorCode.NONE):
                self._beaten(connection, request, answer)
            case (
                (JoinGroup() | SyncGroup() | Heartbeat() | ConsumerGroupHeartbeat()),
                (JoinGroupReply() | SyncGroupReply() | HeartbeatReply() | ConsumerGroupHeartbeatReply()),
            ) if answer.error in ENDS_MEMBERSHIP:
                self._lost(request.group, request.member_id)
            case Metadata(), MetadataReply(topics=topics):
                self._topics.update({topic.topic_id: topic.topic for topic in topics if topic.topic_id and topic.topic})
                for at in [at for at, member in self._members.items() if member.target]:
                    self._receives(*at)
            case OffsetCommit(offsets=offsets), OffsetCommitReply(outcomes=outcomes) if offsets:
                errors = [each.error for each in outcomes if each.error is not _NONE]
                member = self._members.get((request.group, request.member_id))
                if errors and errors[0] in ENDS_MEMBERSHIP:
                    self._lost(request.group, request.member_id)
                elif member is not None:
                    fact = CommitAnswered(
                        group=request.group,
                        member_id=request.member_id,
                        generation=request.generation,
                        error=errors[0] if errors else _NONE,
                    )
                    self.note_of(member.connection, fact)
            case OffsetFetch(group=group), OffsetFetchReply(error=ErrorCode.NONE, offsets=offsets):
                for row in offsets:
                    where = (self._topic_of(row), row.partition)
                    self._fetched.pop(where, None)
                    self._reached.pop((group, where), None)
                    if row.offset >= 0 and row.error is _NONE:
                        self._reached[group, where] = row.offset
            case _:
                pass

    def _assigned(self, connection: str, request: SyncGroup, assignment: bytes) -> None:
        try:
            partitions = decode_assignment(assignment).partitions if assignment else ()
        except CodecError:
            return  # the bytes are of the user's own protocol
        at = (request.group, request.member_id)
        member = self._member(*at, connection)
        member.generation, member.unreported = request.generation, ()
        about: dict[str, Any] = {
            "group": request.group,
            "member_id": request.member_id,
            "generation": request.generation,
        }
        self.note_of(member.connection, AssignmentReceived(**about, partitions=partitions))
        self._keeps_only(*at, partitions)
        added = tuple([each for each in partitions if each not in member.owned])
        member.owned = tuple(partitions)
        self.note_of(member.connection, PartitionsAssigned(**about, added=added, owned=member.owned))

    def _member(self, group: GroupId, member_id: MemberId, connection: str) -> _Member:
        """The member, the newest of the client's members."""
        at = (group, member_id)
        known = self._members.pop(at, None)
        member = self._members[at] = _Member(connection) if known is None else known
        if len(self._members) > MOST_MEMBERS:
            del self._members[next(iter(self._members))]
        return member

    def _beats(self, request: ConsumerGroupHeartbeat) -> None:
        """Report the partitions that a member of the consumer protocol has given up, and those that it has."""
        at = (request.group, request.member_id)
        if request.member_epoch < JOINS:
            self._keeps_only(*at, ())
        elif request.member_epoch == JOINS:
            self._lost(*at)
        elif at in self._members:
            self._owns_again(*at)
            if request.owned is not None:
                known = [row for row in request.owned if row.topic_id in self._topics]
                owned = [(self._topics[row.topic_id], number) for row in known for number in row.partitions]
                self._acknowledges(*at, tuple(owned))

    def _acknowledges(self, group: GroupId, member_id: MemberId, owned: tuple[TopicPartition, ...]) -> None:
        """Report the changes up to the partitions that a heartbeat names."""
        before = self._members[group, member_id].owned
        if frozenset(owned) != frozenset(before):
            self._keeps_only(group, member_id, owned)
            self._takes(group, member_id, owned)

    def _beaten(self, connection: str, request: ConsumerGroupHeartbeat, answer: ConsumerGroupHeartbeatReply) -> None:
        """Report the partitions that an answer to a heartbeat gives a member."""
        at = (request.group, answer.member_id or request.member_id)
        if request.member_epoch < JOINS:
            self._members.pop(at, None)
            return
        member = self._member(*at, connection)
        member.generation = answer.member_epoch
        self._owns_again(*at)
        if answer.assignment is not None:
            member.target = tuple([(row.topic_id, number) for row in answer.assignment for number in row.partitions])
            self._receives(*at)

    def _receives(self, group: GroupId, member_id: MemberId) -> None:
        """Report a target, as far as the client knows its topics."""
        member = self._members[group, member_id]
        named = tuple([(self._topics[topic], number) for topic, number in member.target if topic in self._topics])
        if member.target and not named:
            return
        if len(named) == len(member.target):
            member.target = ()
        self.note_of(
            member.connection,
            AssignmentReceived(group=group, member_id=member_id, generation=member.generation, partitions=named),
        )
        if frozenset(member.owned) <= frozenset(named):  # else the member gives partitions up first
            self._takes(group, member_id, named)

    def _takes(self, group: GroupId, member_id: MemberId, partitions: Iterable[TopicPartition]) -> None:
        """Report the partitions that a member has, with the additional ones."""
        member = self._members[group, member_id]
        added = tuple([each for each in partitions if each not in member.owned])
        member.owned += added
        about: dict[str, Any] = {"group": group, "member_id": member_id, "generation": member.generation}
        self.note_of(member.connection, PartitionsAssigned(**about, added=added, owned=member.owned))

    def _owns_again(self, group: GroupId, member_id: MemberId) -> None:
        """Report the partitions of a member from an earlier life of the host."""
        member = self._members.get((group, member_id))
        if member is None or not member.unreported:
            return
        member.owned, member.unreported = member.unreported, ()
        about: dict[str, Any] = {"group": group, "member_id": member_id, "generation": member.generation}
        self.note_of(member.connection, AssignmentReceived(**about, partitions=member.owned))
        self.note_of(member.connection, PartitionsAssigned(**about, added=member.owned, owned=member.owned))

    def _keeps_only(self, group: GroupId, member_id: MemberId, partitions: Iterable[TopicPartition]) -> None:
        member = self._members.get((group, member_id))
        if member is None:
            return
        kept = dict.fromkeys(partitions)
        revoked = tuple([each for each in member.owned if each not in kept])
        if revoked:
            member.owned = tuple([each for each in member.owned if each in kept])
            for at in revoked:
                member.positioned.pop(at, None)
            fact = PartitionsRevoked(
                group=group, member_id=member_id, generation=member.generation, revoked=revoked, owned=member.owned
            )
            self.note_of(member.connection, fact)

    def _lost(self, group: GroupId, member_id: MemberId) -> None:
        member = self._members.pop((group, member_id), None)
        if member is not None and member.owned:
            self.note_of(member.connection, PartitionsLost(group=group, member_id=member_id, lost=member.owned))

    def _topic_of(self, row: OffsetToCommit | FetchedOffset) -> str:
        """The topic of a row, which names the topic or its id; a client uses no id that its metadata lacks."""
        return row.topic or self._topics.get(row.topic_id, "")

    def _works(self, request: OffsetCommit) -> None:
        """Report the records below committed offsets as processed, before the coordinator reports the commit."""
        group, member = request.group, self._members[request.group, request.member_id]
        for row in request.offsets:
            topic = self._topic_of(row)
            at = (topic, row.partition)
            about: dict[str, Any] = {
                "group": group,
                "member_id": request.member_id,
                "topic": topic,
                "partition": row.partition,
            }
            first = min(self._reached.get((group, at), self._fetched.get(at, row.offset)), row.offset)
            if at not in member.positioned or row.offset < self._reached.get((group, at), row.offset):
                member.positioned[at] = None
                self.note_of(member.connection, PositionSet(**about, offset=first, why=SEEK))
            self._reached[group, at] = row.offset
            if first < row.offset:
                work: dict[str, Any] = {"generation": request.generation, "first": first, "last": row.offset}
                self.note_of(member.connection, Processed(**about, **work, started_us=self.now_us))


class RealConnection(Machine):
    """One TCP connection of a real client, which is one connection to each broker's actors that it addresses."""

    def __init__(self, name: ActorName, connection: str, client: RealClient) -> None:
        super().__init__(name)
        self._connection = connection
        self._client = client
        self._asked: dict[int, tuple[ActorName, object]] = {}
        """Id of an unanswered request -> (receiver, request)."""

    def handle(self, event: Event) -> None:
        """Send the client's requests, and report the answers."""
        match event:
            case Told(command=AskOn(to=to, request=data)):
                message, version = unseal(data)
                self._client.asks(self._connection, message)
                request_id = self.request(to, message, version)
                if not (isinstance(message, Produce) and message.acks == 0):
                    self._asked[request_id] = to, message
            case Received(request_id=request_id, message=answer):
                _, request = self._asked.pop(request_id)
                self._client.answered(self._connection, request, answer)
            case LinkDown(peer=peer):
                self._asked = {number: asked for number, asked in self._asked.items() if asked[0] != peer}
            case _:
                raise AssertionError(f"{self.name}: {event}")


def _owned_in(request: JoinGroup) -> tuple[TopicPartition, ...]:
    """The partitions that a member keeps during the rebalance, by its subscription; none for an eager member."""
    for protocol in request.protocols if request.protocol_type == CONSUMER else ():
        try:
            return tuple(decode_subscription(protocol.metadata).owned)
        except CodecError:
            continue
    return ()
