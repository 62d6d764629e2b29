"""The state that all parts of a group share (name, state, generation, members), and the port to their machine."""

from collections.abc import Mapping
from typing import Protocol

from kemu.actors.coordinator.log import OffsetsPartition, Writes
from kemu.actors.coordinator.members import Member, Members
from kemu.actors.coordinator.reasons import Reasons
from kemu.actors.coordinator.rules import GroupRules
from kemu.actors.coordinator.state import DEAD, EMPTY, TRANSITIONS, GroupChange
from kemu.actors.machine import US_PER_MS, Caller, Draws, Received, TimerKey
from kemu.protocol.config import BrokerConfig
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import subscribed_topics
from kemu.protocol.messages.records import GroupMetadata
from kemu.protocol.names import CONSUMER, ActorName, GroupId, MemberId
from kemu.protocol.notes.groups import GroupBecame, LeaderElected, MemberAdded, MemberRemoved
from kemu.protocol.wire.codec import CodecError


class GroupMachine(Protocol):
    """The interface of the coordinator for its parts."""

    name: ActorName
    config: BrokerConfig
    rules: GroupRules
    writes: Writes
    topic_names: dict[str, str]
    """Topic id -> name, of all topics that the coordinator ever knew."""
    existing_names: Mapping[str, str]
    """Topic id -> name of the cluster's present topics. Clients learn nothing of deleted topics."""
    topics: Mapping[str, Topic] | None
    """The cluster's topics by name; None before the broker has told them."""
    topics_version: int
    """The number of times that the broker has told the topics."""
    member_timers: dict[TimerKey, int]
    """The running timers REVOCATION, MEMBER_JOIN and MEMBER_SYNC -> the member's epoch at the start of the timer. They
    run on while a group is classic in between, as in Kafka, whose timers belong to the shard of the coordinator.
    """

    @property
    def now_ms(self) -> int:
        """The time of this host's clock in ms, as in Kafka's records."""
        ...

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request."""
        ...

    def refuse(
        self, caller: Caller | Received, message: object, *, group: GroupId, api: str, member_id: str, error: ErrorCode
    ) -> None:
        """Answer a request with an error, and report it."""
        ...

    def has_left(self, caller: Caller | Received) -> bool:
        """Whether the client of this request has a newer connection, and so perhaps newer requests."""
        ...

    @property
    def draws(self) -> Draws:
        """The draws of the coordinator."""
        ...

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """Start a timer, or start it again."""
        ...

    def stop_timer(self, key: TimerKey) -> None:
        """Stop a timer."""
        ...

    def note(self, fact: object) -> None:
        """Report a fact."""
        ...

    def consumer_session_ms(self, group: GroupId) -> int:
        """The session timeout of members of the consumer protocol in this group."""
        ...

    def new_member_id(self, base: str, partition: OffsetsPartition, *, bare: bool = False) -> MemberId:
        """A unique member id: ``base`` and a random UUID. Source: ``GroupMetadata.generateMemberId`` (3.4).

        ``bare``: without ``base``, for a group of the consumer protocol. The assignors sort by ids, so that the order
        of its classic members is random. Source: ``GroupMetadataManager.classicGroupJoinToConsumerGroup`` (4.0 to 4.3).

        Where identities are not drawn, the broker, its leader epoch and a count follow ``base``. A broker may restart
        unnoticed and lead in the same epoch; its later lives add their number.
        """
        ...


class SharedState:
    """The state that the parts of one group share."""

    def __init__(self, machine: GroupMachine, partition: OffsetsPartition, name: GroupId) -> None:
        self._machine = machine
        self.partition = partition
        self.name = name
        self.state = EMPTY
        self.previous = DEAD
        """The state before the current state."""
        self.since_ms: int | None = machine.now_ms
        """The time of the last change of state; None if the loaded record has no time."""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.members = Members(machine.rules.maps)
        self.reasons = Reasons(machine.rules)
        self._subscriptions: tuple[bytes, ...] | None = None
        self._topics: frozenset[str] | None = None

    def change(self, what: GroupChange, why: str) -> None:
        """Change the group's state. No other code changes the state."""
        old = self.state
        new = TRANSITIONS[old].get(what)
        assert new is not None, f"{self.name}: {what.value} in {old} ({why})"
        self._machine.note(
            GroupBecame(group=self.name, old=old.value, new=new.value, generation=self.generation, why=why)
        )
        self.previous = old
        self.state = new
        if new is not DEAD:
            self.since_ms = self._machine.now_ms

    def start_session(self, member: Member) -> None:
        """Restart a member's session timeout."""
        self._machine.start_timer(member.timer, member.session_timeout_ms * US_PER_MS)

    # --- subscriptions -----------------------------------------------------------------------------------------

    def know_subscriptions(self, subscriptions: tuple[bytes, ...]) -> None:
        """Store the subscriptions of this generation. Only subscriptions of consumers are decoded, on demand."""
        self._subscriptions = subscriptions if self.protocol_type == CONSUMER else None
        self._topics = None

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of the generation's subscriptions; None for other protocol types, or after a failed decoding."""
        if self._topics is None and self._subscriptions is not None:
            try:
                self._topics = frozenset([topic for data in self._subscriptions for topic in subscribed_topics(data)])
            except CodecError:
                self._subscriptions = None
        return self._topics

    # --- notes and records -------------------------------------------------------------------------------------

    def note_leader(self) -> None:
        """Report the new leader."""
        self._machine.note(LeaderElected(group=self.name, member_id=self.members.leader or ""))

    def note_added(self, member: Member) -> None:
        """Report a new member."""
        self._machine.note(
            MemberAdded(
                group=self.name,
                member_id=member.member_id,
                client_id=member.client_id,
                instance_id=member.instance_id,
            )
        )

    def note_removed(self, member: Member, why: str) -> None:
        """Report that a member was removed, or that its id was replaced."""
        self._machine.note(
            MemberRemoved(group=self.name, member_id=member.member_id, client_id=member.client_id, why=why)
        )

    def metadata(self, assignments: dict[MemberId, bytes] | None = None) -> GroupMetadata:
        """The group's record, with these assignments or (None) the present assignments."""
        protocol = self.protocol
        stored = [member.stored(protocol, assignments) for member in self.members]
        return GroupMetadata(
            group=self.name,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.members.leader,
            state_timestamp_ms=-1 if self.since_ms is None else self.since_ms,
            members=tuple(stored),
        )
