"""The fields of requests and answers have the right values.

- JoinGroup: timeouts and instance id as configured; the last assigned
  member id.
- Heartbeat, SyncGroup, OffsetCommit: member id and generation of the last
  JoinGroup answer.
- Fetch, Produce, FindCoordinator: waits, sizes, acks and keys as
  configured.
- Requests of a follower: its id, leader epoch and log end.
- AlterIsr: the broker's id and registration; no later leader epoch than it
  leads in.
- LeaderAndIsr, StopReplica, UpdateMetadata: the controller's id and epoch;
  leader, epoch and ISR as the store had them in that version.
- OpenSession, Ping, StoreOps: the configured timeout; the connection's
  session.
- Answers: Metadata has the controller's data; OffsetFetch at least the committed offset; DescribeGroups the members'
  protocol type. No partition of the store is unknown.

A field without a known right value is not judged.

Source: Kafka 3.4, the schemas of these requests and the classes that build
them.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeAlias

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, Seen, each_of, received, sent
from kemu.emulator.watching.group_commits import NOTHING
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterIsr,
    AlterPartitionReassignmentsReply,
    ControlledShutdown,
    ElectLeadersReply,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from kemu.protocol.messages.data import Fetch, ListOffsets, MetadataReply, Produce
from kemu.protocol.messages.group import (
    DescribeGroupsReply,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchReply,
    SyncGroup,
)
from kemu.protocol.messages.store import OpenSession, OpenSessionReply, Ping, StoreCode, StoreOps
from kemu.protocol.names import ActorName, TopicPartition, broker_host, broker_of, host_of, role_of
from kemu.protocol.nodes import (
    BROKER_IDS,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    PartitionState,
    partition_of_state,
    read_epoch,
    read_state,
)
from kemu.protocol.notes.groups import GroupBecame, OffsetCommitted
from kemu.protocol.notes.replication import ControllerReady, ControllerResigned, MetadataCached, NodeWritten

UNKNOWN: object = object()
"""Stands for an unknown right value."""
Wired: TypeAlias = Send | Received
FORGETS_ITS_MEMBER_ID = (2, 6)
"""The release in which a member joins without its id after a failed join (``AbstractCoordinator.joinGroupIfNeeded``
2.6.3: ``resetStateAndRejoin``; removed in 2.7.2)."""
KEPT_VERSIONS = 20
"""Number of states kept for a partition, because several states may be written while a request waits in a channel."""


class JoinedAs(NamedTuple):
    """The identity in a member's last JoinGroup answer."""

    member_id: str
    generation: int
    protocol: str | None


class FieldRow(NamedTuple):
    """A field, and the function that returns its right value, or ``UNKNOWN``."""

    name: str
    sent_value: Callable[[Any], object]
    right: Callable[["Fields", Seen, Any], object]


def _set(key: str, unset: object = UNKNOWN) -> Callable[["Fields", Seen, Any], object]:
    """A function that returns the value of a member's setting."""

    def right(fields: "Fields", seen: Seen, message: Any) -> object:
        config = fields.settings.consumer(seen.actor) if role_of(seen.actor) == "member" else None
        return unset if config is None else getattr(config, key)

    return right


def _of_replicas(key: str) -> Callable[["Fields", Seen, Any], object]:
    return lambda fields, seen, message: getattr(fields.settings.replicas, key)


def _instance(fields: "Fields", seen: Seen, message: Any) -> object:
    if fields.settings.is_streams(seen.actor) or getattr(message, "member_id", "") == "":
        return UNKNOWN
    return _set("group_instance_id")(fields, seen, message)


def _member(place: int) -> Callable[["Fields", Seen, Any], object]:
    def right(fields: "Fields", seen: Seen, message: Any) -> object:
        known = fields.memberships.get(seen.actor)
        outside = role_of(seen.actor) != "member" or getattr(message, "generation", 0) < 0
        return UNKNOWN if known is None or outside else known[place]

    return right


def _assigned_id(fields: "Fields", seen: Seen, message: JoinGroup) -> object:
    return fields.assigned_ids.get(seen.actor, UNKNOWN)


def _own_id(fields: "Fields", seen: Seen, message: Any) -> object:
    return broker_of(host_of(seen.actor)) if role_of(seen.actor) in ("broker", "controller") else -1


def _own_registration(fields: "Fields", seen: Seen, message: Any) -> object:
    """The zxids of the broker's registrations. A broker that was isolated learns late of its next registration."""
    known = fields.registrations.get(host_of(seen.actor), {})
    return message.broker_epoch if message.broker_epoch in known or not known else next(reversed(known))


def _led_in(fields: "Fields", seen: Seen, message: AlterIsr) -> object:
    """The allowed leader epochs in a request. An ISR change of an earlier epoch may have waited in the broker
    (``unsentIsrUpdates``).
    """
    found = []
    for row in message.partitions:
        epoch, leads = fields.panel.roles.get((seen.actor, (row.topic_name, row.partition_index)), (-1, False))
        found.append(min(epoch, row.leader_epoch) if leads else row.leader_epoch)
    return tuple(found)


def _epoch(fields: "Fields", seen: Seen, message: Any) -> object:
    return fields.controller_epochs.get(host_of(seen.actor), UNKNOWN)


def _session(fields: "Fields", seen: Seen, message: Any) -> object:
    return fields.sessions.get(seen.actor, UNKNOWN)


def _protocol(fields: "Fields", seen: Seen, message: Any) -> object:
    """The group's assignor. SyncGroup has it from version 5 on; a trace has no value of an older message."""
    return _member(2)(fields, seen, message) if seen.fact.version >= 5 else UNKNOWN


_AS_A_MEMBER = (
    FieldRow("member id", lambda m: m.member_id, _member(0)),
    FieldRow("generation", lambda m: m.generation, _member(1)),
    FieldRow("instance id", lambda m: m.instance_id, _instance),
)
_AS_A_CONTROLLER = (
    FieldRow("controller id", lambda m: m.controller_id, _own_id),
    FieldRow("controller epoch", lambda m: m.controller_epoch, _epoch),
)
SENT: Mapping[type, tuple[FieldRow, ...]] = {
    JoinGroup: (
        FieldRow("session timeout", lambda m: m.session_timeout_ms, _set("session_timeout_ms")),
        FieldRow("rebalance timeout", lambda m: m.rebalance_timeout_ms, _set("max_poll_interval_ms")),
        FieldRow("member id", lambda m: m.member_id, _assigned_id),
        FieldRow("instance id", lambda m: m.instance_id, _instance),
    ),
    Heartbeat: _AS_A_MEMBER,
    SyncGroup: (*_AS_A_MEMBER, FieldRow("protocol name", lambda m: m.protocol_name, _protocol)),
    OffsetCommit: _AS_A_MEMBER,
    FindCoordinator: (FieldRow("key", lambda m: m.key, _set("group_id")),),
    Produce: (
        FieldRow(
            "acks",
            lambda m: m.acks,
            lambda fields, seen, m: fields.settings.producer.acks if role_of(seen.actor) == "producer" else UNKNOWN,
        ),
        FieldRow(
            "timeout",
            lambda m: m.timeout_ms,
            lambda fields, seen, m: (
                fields.settings.producer.request_timeout_ms if role_of(seen.actor) == "producer" else UNKNOWN
            ),
        ),
    ),
    ListOffsets: (FieldRow("replica id", lambda m: m.replica_id, _own_id),),
    ControlledShutdown: (FieldRow("broker id", lambda m: m.broker_id, _own_id),),
    AlterIsr: (
        FieldRow("broker id", lambda m: m.broker_id, _own_id),
        FieldRow("broker epoch", lambda m: m.broker_epoch, _own_registration),
        FieldRow("leader epochs", lambda m: tuple(row.leader_epoch for row in m.partitions), _led_in),
    ),
    LeaderAndIsr: _AS_A_CONTROLLER,
    StopReplica: _AS_A_CONTROLLER,
    UpdateMetadata: _AS_A_CONTROLLER,
    OpenSession: (
        FieldRow(
            "timeout",
            lambda m: m.timeout_ms,
            lambda fields, seen, m: fields.settings.controller.zookeeper_session_timeout_ms,
        ),
    ),
    Ping: (FieldRow("session", lambda m: m.session_id, _session),),
    StoreOps: (FieldRow("session", lambda m: m.session_id, _session),),
}
"""Request -> its judged fields."""
OFTEN: Mapping[type, Callable[[Any], tuple[object, ...]]] = {
    Heartbeat: attrgetter("member_id", "generation", "instance_id"),
    OffsetCommit: attrgetter("member_id", "generation", "instance_id"),
    Produce: attrgetter("acks", "timeout_ms"),
    Fetch: attrgetter("max_wait_ms", "min_bytes", "max_bytes", "replica_id"),
}
"""Frequent request -> judged fields. Equal fields are not judged again until the sender joins, leaves or ends.
"""
_BY_A_FOLLOWER = (
    FieldRow("max wait", lambda m: m.max_wait_ms, _of_replicas("replica_fetch_wait_max_ms")),
    FieldRow("min bytes", lambda m: m.min_bytes, _of_replicas("replica_fetch_min_bytes")),
    FieldRow("max bytes", lambda m: m.max_bytes, _of_replicas("replica_fetch_response_max_bytes")),
    FieldRow("replica id", lambda m: m.replica_id, _own_id),
)
_BY_A_CONSUMER = (
    FieldRow("max wait", lambda m: m.max_wait_ms, _set("fetch_max_wait_ms")),
    FieldRow("min bytes", lambda m: m.min_bytes, _set("fetch_min_bytes")),
    FieldRow("max bytes", lambda m: m.max_bytes, _set("fetch_max_bytes")),
    FieldRow("replica id", lambda m: m.replica_id, _own_id),
)


_fields_of_fetch = OFTEN[Fetch]


class Fields(Checker):
    """Judges the fields of requests and answers.

    Args:
        settings: the settings in force; without settings nothing is judged.
    """

    name = "fields"
    unknown_of_real_clients = "its configuration"
    kinds = ("wrong",)
    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self.memberships: dict[ActorName, JoinedAs] = {}
        self.assigned_ids: dict[ActorName, str] = {}
        """Member -> assigned member id, which the next JoinGroup must have."""
        self.registrations: dict[str, dict[int, None]] = {}
        """Broker -> zxids of its registrations."""
        self.controller_epochs: dict[str, int] = {}
        """Host -> controller epoch that the host last wrote."""
        self.sessions: dict[ActorName, int] = {}
        """Client of the store -> session of the client."""
        self._versions: dict[TopicPartition, dict[int, PartitionState]] = {}
        """Partition -> version of the state node -> state in the store."""
        self._deleted: dict[str, None] = {}
        """Topics with a deletion request at any time."""
        self._right: dict[type, dict[ActorName, tuple[object, ...]]] = {kind: {} for kind in OFTEN}
        """Request type of ``OFTEN`` -> sender -> last right values."""
        self._right_fetches = self._right[Fetch]
        self._cached: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        """Broker -> partition -> (leader, epoch) in the broker's metadata."""
        self._questions: dict[tuple[ActorName, int, int], str] = {}
        """(coordinator, connection, request id) -> the group of the OffsetFetch."""
        self._since_deleted: dict[str, dict[TopicPartition, None]] = {}
        """Group that a coordinator began to delete -> partitions with a later commit. The deletion may be in the log
        even if the coordinator stopped before its report."""
        self._deletes: dict[str, dict[TopicPartition, None]] = {}
        """Group -> partitions whose committed offset an OffsetDelete named, without a later commit. The removal may be
        in the log even if the coordinator stopped before its report."""
        self._resigned: dict[ActorName, None] = {}
        """Controllers that resigned and are not ready again. Such a controller knows no partition."""
        self._types: dict[str, str] = {}
        """Group -> protocol type in the last JoinGroup."""
        if settings is None:
            return
        self.settings = settings
        self.on = {sent(kind): self._compared(kind, rows) for kind, rows in SENT.items()}
        more: tuple[tuple[type, Callable[[Seen, Any], None]], ...] = (
            (sent(Fetch), self._fetches),
            (sent(LeaveGroup), self._leaves),
            (received(JoinGroup), self._joins),
            (received(JoinGroupReply), self._joined),
            (received(OpenSessionReply), self._session_opened),
            (received(LeaderAndIsr), self._ordered),
            (received(UpdateMetadata), self._ordered),
            (sent(MetadataReply), self._metadata_answered),
            (received(OffsetFetch), self._asked_for_offsets),
            (received(OffsetDelete), self._deletes_offsets),
            (sent(OffsetFetchReply), self._offsets_answered),
            (sent(DescribeGroupsReply), self._describes),
            (sent(AlterPartitionReassignmentsReply), self._knows_partitions),
            (sent(ElectLeadersReply), self._knows_partitions),
            (NodeWritten, self._written),
            (MetadataCached, self._caches),
            (GroupBecame, self._group_ends),
            (OffsetCommitted, each_of(self._committed)),
            (ControllerResigned, self._resigns),
            (ControllerReady, self._is_ready),
            (HostDown, self._down),
            (Hangup, self._lost_connection),
            (LinkDown, self._lost_connection),
        )
        self.on.update(more)
        self.shown_to(settings.on)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings)

    # --- comparing ---------------------------------------------------------------------------------------------

    def _compared(self, kind: type, rows: tuple[FieldRow, ...]) -> Callable[[Seen, Send], None]:
        says, before = OFTEN.get(kind), self._right.get(kind)
        if says is None or before is None:

            def compare_all(seen: Seen, fact: Send) -> None:
                self._compare(seen, fact, rows)

            return compare_all

        def compare(seen: Seen, fact: Send) -> None:
            sent_value = says(fact[4])
            if before.get(seen[2]) != sent_value and self._compare(seen, fact, rows):
                before[seen.actor] = sent_value

        return compare

    def _compare(self, seen: Seen, fact: Send, rows: tuple[FieldRow, ...]) -> bool:
        message, is_right = fact.message, True
        for row in rows:
            sent_value, right = row.sent_value(message), row.right(self, seen, message)
            if right is not UNKNOWN and sent_value != right:
                self._say(seen, fact, row.name, sent_value, right)
                is_right = False
        return is_right

    def _say(self, seen: Seen, fact: Wired, field: str, sent_value: object, right: object) -> None:
        api = type(fact.message).__name__
        to = fact.to if isinstance(fact, Send) else seen.actor
        by = seen.actor if isinstance(fact, Send) else fact.peer
        text = f"{by} sent {to} a {api} whose {field} is {sent_value}, instead of {right}"
        self.violation(seen, "wrong", (by, api, field), text)

    # --- members -----------------------------------------------------------------------------------------------

    def _joins(self, seen: Seen, fact: Received) -> None:
        self._types[fact.message.group] = fact.message.protocol_type

    def _joined(self, seen: Seen, fact: Received) -> None:
        reply: JoinGroupReply = fact.message
        self.assigned_ids.pop(seen.actor, None)
        self._member_changed(seen.actor)
        if reply.error is ErrorCode.NONE:
            self.memberships[seen.actor] = JoinedAs(reply.member_id, reply.generation, reply.protocol_name)
        elif reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.assigned_ids[seen.actor] = reply.member_id

    def _leaves(self, seen: Seen, fact: Send) -> None:
        self.assigned_ids.pop(seen.actor, None)
        self.memberships.pop(seen.actor, None)
        self._member_changed(seen.actor)

    def _lost_connection(self, seen: Seen, fact: Hangup | LinkDown) -> None:
        if seen.actor in self.assigned_ids and self.settings.profile(seen.actor).release == FORGETS_ITS_MEMBER_ID:
            del self.assigned_ids[seen.actor]

    def _member_changed(self, actor: ActorName) -> None:
        for kind in (Heartbeat, OffsetCommit):
            self._right[kind].pop(actor, None)

    # --- fetches -----------------------------------------------------------------------------------------------

    def _fetches(self, seen: Seen, fact: Send) -> None:
        request: Fetch = fact[4]
        sent_value, before = _fields_of_fetch(request), self._right_fetches
        if before.get(seen[2]) != sent_value:
            rows = _BY_A_FOLLOWER if role_of(seen.actor) == "broker" else _BY_A_CONSUMER
            if self._compare(seen, fact, rows):
                before[seen.actor] = sent_value
        if request.replica_id >= 0:
            self._fetches_to_copy(seen, fact, request)

    def _fetches_to_copy(self, seen: Seen, fact: Send, request: Fetch) -> None:
        for row in request.partitions:
            at = (row.topic, row.partition)
            role, end = self.panel.roles.get((seen.actor, at)), self.panel.copies.on_host(seen.actor, at).log.end
            if role is not None and row.current_leader_epoch not in (role[0], -1):
                self._say(seen, fact, f"leader epoch of {at[0]}-{at[1]}", row.current_leader_epoch, role[0])
            if role is not None and row.fetch_offset != end:
                self._say(seen, fact, f"fetch offset of {at[0]}-{at[1]}", row.fetch_offset, end)

    # --- controllers -------------------------------------------------------------------------------------------

    def _ordered(self, seen: Seen, fact: Received) -> None:
        """Judge whether a controller sends the store's state of the version in its request."""
        for row in fact.message.partition_states:
            at = (row.topic_name, row.partition_index)
            state = self._versions.get(at, {}).get(row.zk_version)
            if state is None or row.leader < -1 or row.leader_epoch != state.leader_epoch:
                continue
            sent_value, right = (row.leader, row.isr), (state.leader, state.isr)
            if sent_value != right:
                self._say(seen, fact, f"leader and ISR of {at[0]}-{at[1]}", sent_value, right)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        deleted = fact.what == "deleted"
        at = partition_of_state(fact.path)
        if at is not None:
            if deleted:
                self._versions.pop(at, None)
                return
            states = self._versions.setdefault(at, {})
            states[fact.version] = read_state(fact.data)
            while len(states) > KEPT_VERSIONS:
                del states[next(iter(states))]
        elif fact.path == CONTROLLER_EPOCH and fact.client and not deleted:
            self.controller_epochs[host_of(fact.client)] = read_epoch(fact.data)
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            self._deleted[fact.path.rpartition("/")[2]] = None
        elif fact.path.startswith(f"{BROKER_IDS}/") and not deleted:
            host = broker_host(int(fact.path.rpartition("/")[2]))
            self.registrations.setdefault(host, {})[fact.zxid] = None

    def _session_opened(self, seen: Seen, fact: Received) -> None:
        reply: OpenSessionReply = fact.message
        self.sessions.pop(seen.actor, None)
        if reply.code is StoreCode.OK:
            self.sessions[seen.actor] = reply.session_id

    # --- answers -----------------------------------------------------------------------------------------------

    def _caches(self, seen: Seen, fact: MetadataCached) -> None:
        cache = self._cached.setdefault(seen.actor, {})
        for topic in fact.topics:
            for row in topic.partitions:
                cache[topic.topic, row.partition] = (row.leader, row.leader_epoch)
        for at in fact.gone:
            cache.pop(at, None)

    def _metadata_answered(self, seen: Seen, fact: Send) -> None:
        cache = self._cached.get(seen.actor)
        if cache is None:
            return
        for topic in fact.message.topics:
            for row in topic.partitions:
                right = cache.get((topic.topic, row.partition))
                if right is not None and (row.leader, row.leader_epoch) != right:
                    name = f"leader and epoch of {topic.topic}-{row.partition}"
                    self._say(seen, fact, name, (row.leader, row.leader_epoch), right)

    def _asked_for_offsets(self, seen: Seen, fact: Received) -> None:
        self._questions[seen.actor, fact.connection, fact.request_id] = fact.message.group

    def _offsets_answered(self, seen: Seen, fact: Send) -> None:
        group = self._questions.pop((seen.actor, fact.connection, fact.request_id), "")
        known = self.panel.groups.get(group)
        if known is None or known.coordinator != seen.actor:
            return
        for row in fact.message.offsets:
            at = self.panel.topic_names.partition_of(row)
            right, known_since = self.panel.commits.of(group, at), self._since_deleted.get(group)
            if row.offset == NOTHING and at in self._deletes.get(group, ()):
                continue
            is_known = known_since is None or at in known_since
            if row.error is ErrorCode.NONE and row.offset < right and is_known:
                if row.offset in self.panel.commits.unreported(group, at, (seen.actor, seen.life)):
                    continue
                self._say(seen, fact, f"offset of {at[0]}-{at[1]}", row.offset, f"{right} or more")

    def _deletes_offsets(self, seen: Seen, fact: Received) -> None:
        request: OffsetDelete = fact.message
        named = self._deletes.setdefault(request.group, {})
        named.update({(row.topic, partition): None for row in request.topics for partition in row.partitions})

    def _group_ends(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.new == "Dead":
            self._since_deleted[fact.group] = {}

    def _committed(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        deletes, since_deleted = self._deletes.get(seen.fact.group), self._since_deleted.get(seen.fact.group)
        for fact in facts if deletes or since_deleted is not None else ():
            if deletes:
                deletes.pop((fact.topic, fact.partition), None)
            if since_deleted is not None:
                since_deleted[fact.topic, fact.partition] = None

    def _describes(self, seen: Seen, fact: Send) -> None:
        for group in fact.message.groups:
            right = self._types.get(group.group)
            if group.error is ErrorCode.NONE and group.members and right is not None and group.protocol_type != right:
                self._say(seen, fact, f"protocol type of {group.group}", group.protocol_type, right)

    def _knows_partitions(self, seen: Seen, fact: Send) -> None:
        reply = fact.message
        if seen.actor in self._resigned:  # it is active again if it reads its former node (KafkaController.elect)
            return
        rows = reply.replica_election_results if isinstance(reply, ElectLeadersReply) else reply.responses
        for row in rows:
            at = (row.topic_name, row.partition_index)
            unknown = row.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown and at in self.panel.states and at[0] not in self._deleted:
                self._say(seen, fact, f"error of {at[0]}-{at[1]}", row.error_code.name, ErrorCode.NONE.name)

    # --- hosts -------------------------------------------------------------------------------------------------

    def _resigns(self, seen: Seen, fact: ControllerResigned) -> None:
        self._resigned[seen.actor] = None

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        self._resigned.pop(seen.actor, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        tables: tuple[dict[ActorName, Any], ...] = (
            *(self.memberships, self.assigned_ids),
            *(self.sessions, self._resigned),
        )
        for known in (*tables, *self._right.values()):
            for actor in [actor for actor in known if host_of(actor) == fact.host]:
                del known[actor]
        self._cached.pop(fact.host, None)
