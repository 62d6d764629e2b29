"""Values of a recorded run and their counterparts in this run, for a scripted client.

Each recorded answer is compared with the answer that the client receives in its place, field by field. The compared
fields are member ids, generations, producer ids and epochs, offsets, leader epochs, fetch sessions, coordinators and
leaders. Requests of the recording get the counterparts in place of the recorded values.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kemu.actors.clients.script import ABOUT_PARTITIONS, REPLY_ROWS, ROWS, ScriptAsks
from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import FINAL_EPOCH, FULL_EPOCH, NO_FETCH_SESSION
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.messages import consumer_group, control, data, group
from kemu.protocol.messages.negotiation import ApiVersionsReply, built_for, highest_of
from kemu.protocol.names import ActorName, TopicPartition, broker_host, coordinator_on, host_of, is_coordinator
from kemu.protocol.wire.codec import CodecError, seal
from kemu.protocol.wire.schema import SPECS

MOST_OFFSETS = 1_000
"""Largest number of remembered offsets of a partition; the oldest is forgotten."""
_LAST_FETCHED_SINCE = 12
"""The first version of Fetch with the field ``last_fetched_epoch``."""
_NONE = ErrorCode.NONE


class Departed(Exception):
    """The recorded request has no counterpart; the text has the reason."""


@frozen
class Outgoing:
    """A request to send."""

    to: ActorName
    version: int
    request: Any


class _Session:
    """The fetches of a consumer from one broker: all partitions as recorded, and the session with the broker."""

    def __init__(self) -> None:
        self.rows: dict[TopicPartition, Any] = {}
        self.sent: dict[TopicPartition, int] = {}
        """Partition -> the offset of the last fetch."""
        self.broker = ""
        self.id = NO_FETCH_SESSION
        self.epoch = FINAL_EPOCH


class Counterparts:
    """Recorded values -> values of this run, as far as one client has received both.

    Args:
        brokers: the initial brokers of this run.
    """

    def __init__(self, brokers: Sequence[str]) -> None:
        self._brokers = tuple(brokers)
        self._members: dict[str, str] = {}
        self._generations: dict[tuple[str, int], int] = {}
        self._producers: dict[int, int] = {}
        self._producer_epochs: dict[tuple[int, int], int] = {}
        self._leader_epochs: dict[tuple[str, int, int], int] = {}
        self._offsets: dict[TopicPartition, dict[int, int]] = {}
        """Partition -> recorded offset -> offset in this run, the newest last."""
        self._sessions: dict[tuple[ActorName, int], _Session] = {}
        """(Recorded broker, recorded id of the session) -> session. A session outlives its connection (KIP-227)."""
        self._fetching: dict[str, _Session] = {}
        """Connection -> the session of its last fetch."""
        self._coordinators: dict[str, tuple[str, str]] = {}
        """Group -> (recorded coordinator, coordinator in this run)."""
        self._leaders: dict[TopicPartition, tuple[str, str]] = {}
        self._other_lists: dict[str, str] = {}
        """Group -> why the leader's recorded assignment does not fit the last generation."""
        self._protocols: dict[tuple[str, str | None], str | None] = {}
        self._topic_ids: dict[str, str] = {}
        self._assignments: dict[tuple[str, tuple[Any, ...]], tuple[Any, ...]] = {}
        """(Recorded member id, recorded assignment of a heartbeat's answer) -> the assignment in this run."""
        self._versions: dict[str, Mapping[int, int]] = {}
        self.known_brokers = self._brokers
        """The brokers of the last metadata."""

    # --- requests --------------------------------------------------------------------------------------------------

    def requests_for(self, step: ScriptAsks) -> list[Outgoing]:
        """The request of a step with the values of this run: one request, or one for each leader of its partitions.

        Raises:
            Departed: a value has no counterpart, or a broker does not support the request.
        """
        request, to = self._translated(step), step.to
        if isinstance(request, data.Fetch):
            return self._fetches(step, request)
        if isinstance(request, ABOUT_PARTITIONS):
            name = ROWS[type(request)]
            by_leader = self._by_leader(step, getattr(request, name))
            if len(by_leader) > 1:
                return [self._out(at, step, _with(request, **{name: tuple(rows)})) for at, rows in by_leader.items()]
            to = next(iter(by_leader), to)
        elif is_coordinator(to):
            then, now = self._coordinators.get(getattr(request, "group", ""), ("", ""))
            to = coordinator_on(now) if then == host_of(to) else to
        return [self._out(to, step, request)]

    def _out(self, to: ActorName, step: ScriptAsks, request: Any) -> Outgoing:
        broker = host_of(to)
        if broker not in self.known_brokers and broker not in self._brokers:
            there = self._brokers[sum(map(ord, broker)) % len(self._brokers)]
            to = coordinator_on(there) if is_coordinator(to) else there
        spec = SPECS[type(request)]
        version = min(step.version, self._versions.get(host_of(to), {}).get(spec.api_key, step.version))
        if isinstance(request, data.Metadata) and request.topic_ids:
            version = step.version  # brokers state the versions that have no ids in kemu's codec
        built = built_for(request, version)
        if isinstance(built, data.Fetch) and version < _LAST_FETCHED_SINCE:
            built = _with(built, partitions=tuple([_with(row, last_fetched_epoch=-1) for row in built.partitions]))
        try:
            if built is None:
                raise Departed(f"{host_of(to)} supports no equivalent version of {spec.name} v{step.version}")
            seal(built, version)
        except CodecError as error:
            raise Departed(f"{host_of(to)} supports {spec.name} up to v{version}: {error}") from None
        return Outgoing(to, version, built)

    def _translated(self, step: ScriptAsks) -> Any:
        request = step.request
        match request:
            case group.SyncGroup():
                if request.group in self._other_lists:
                    raise Departed(self._other_lists[request.group])
                name = self._protocols.get((request.group, request.protocol_name), request.protocol_name)
                rows = tuple([_with(row, member_id=self._member(row.member_id)) for row in request.assignments])
                return _with(request, assignments=rows, protocol_name=name, **self._membership(request))
            case group.JoinGroup():
                return _with(request, member_id=self._member(request.member_id))
            case group.LeaveGroup():
                members = tuple([_with(row, member_id=self._member(row.member_id)) for row in request.members])
                return _with(request, member_id=self._member(request.member_id), members=members)
            case group.Heartbeat():
                return _with(request, **self._membership(request))
            case consumer_group.ConsumerGroupHeartbeat():
                return self._heartbeat(request)
            case group.OffsetFetch(member_id=str() as member_id):
                epoch = self._generations.get((request.group, request.member_epoch), request.member_epoch)
                return _with(request, member_id=self._member(member_id), member_epoch=epoch)
            case data.Metadata():
                return _with(request, topic_ids=tuple([self._topic_ids.get(each, each) for each in request.topic_ids]))
            case group.OffsetCommit():
                offsets = tuple([self._commit(row) for row in request.offsets])
                return _with(request, offsets=offsets, **self._membership(request))
            case data.InitProducerId(producer_id=old, producer_epoch=epoch):
                return _with(
                    request, producer_id=self._producers.get(old, old), producer_epoch=self._producer_epoch(old, epoch)
                )
            case data.Produce():
                return _with(request, batches=tuple(map(self._batch, request.batches)))
            case data.ListOffsets():
                return _with(
                    request,
                    questions=tuple([_with(row, current_leader_epoch=self._epoch(row)) for row in request.questions]),
                )
            case control.OffsetForLeaderEpoch():
                questions = [
                    _with(row, current_leader_epoch=self._epoch(row), leader_epoch=self._epoch(row, row.leader_epoch))
                    for row in request.questions
                ]
                return _with(request, questions=tuple(questions))
            case _:
                return request

    def _membership(self, request: Any) -> dict[str, Any]:
        generation = self._generations.get((request.group, request.generation), request.generation)
        return {"member_id": self._member(request.member_id), "generation": generation}

    def _heartbeat(self, request: Any) -> Any:
        """A heartbeat with the member's epoch, and with the partitions that the member was given in this run."""
        epoch = self._generations.get((request.group, request.member_epoch), request.member_epoch)
        owned = request.owned
        if owned is not None:
            rows = [_with(row, topic_id=self._topic_ids.get(row.topic_id, row.topic_id)) for row in owned]
            owned = self._assignments.get((request.member_id, owned), tuple(rows))
        return _with(request, member_id=self._member(request.member_id), member_epoch=epoch, owned=owned)

    def _member(self, old: str) -> str:
        return self._members.get(old, old)

    def _commit(self, row: Any) -> Any:
        at = (row.topic, row.partition)
        return _with(row, offset=self._offset(at, row.offset), leader_epoch=self._epoch(row, row.leader_epoch))

    def _batch(self, batch: Any) -> Any:
        old = batch.producer_id
        epoch = self._producer_epoch(old, batch.producer_epoch)
        return _with(batch, producer_id=self._producers.get(old, old), producer_epoch=epoch)

    def _producer_epoch(self, producer_id: int, old: int) -> int:
        return self._producer_epochs.get((producer_id, old), old)

    def _epoch(self, row: Any, old: int | None = None) -> int:
        old = row.current_leader_epoch if old is None else old
        return self._leader_epochs.get((row.topic, row.partition, old), old)

    def _offset(self, at: TopicPartition, old: int) -> int:
        """The offset in place of a recorded offset; not above the offset up to which the client has read."""
        known = self._offsets.get(at)
        if not known:
            return old
        return known[old] if old in known else min(old, next(reversed(known.values())))

    def _by_leader(self, step: ScriptAsks, rows: Iterable[Any]) -> dict[ActorName, list[Any]]:
        """The rows by the broker that leads them now."""
        found: dict[ActorName, list[Any]] = {}
        for row in rows:
            then, now = self._leaders.get((row.topic, row.partition), ("", ""))
            found.setdefault(now if now and then == host_of(step.to) else step.to, []).append(row)
        return found

    # --- fetches ---------------------------------------------------------------------------------------------------

    def _fetches(self, step: ScriptAsks, request: Any) -> list[Outgoing]:
        """Fetches of all partitions, or, in a session with the broker, of partitions whose offset has changed."""
        former = self._sessions.get((step.to, request.session_id), _Session())
        session = former if request.session_epoch > 0 else _Session()
        self._fetching[step.connection] = session
        listed = {(row.topic, row.partition): row for row in request.partitions}
        session.rows.update(listed)
        for at in request.forgotten:
            session.rows.pop(at, None)
        now = [
            _with(
                row,
                fetch_offset=self._offset((row.topic, row.partition), row.fetch_offset),
                current_leader_epoch=self._epoch(row),
            )
            for row in session.rows.values()
        ]
        before, session.sent = session.sent, {(row.topic, row.partition): row.fetch_offset for row in now}
        by_leader = self._by_leader(step, now) or {session.broker or step.to: []}
        to = next(iter(by_leader))
        if len(by_leader) == 1 and session.id and request.session_epoch > 0 and to == session.broker:
            rows = [row for row in now if _changed(row, listed, before)]
            message = _with(request, session_id=session.id, session_epoch=session.epoch, partitions=tuple(rows))
            session.epoch += 1
            return [self._out(to, step, message)]
        epoch = FULL_EPOCH if len(by_leader) == 1 and request.session_epoch == FULL_EPOCH else FINAL_EPOCH
        ended, former.id = (former.broker, former.id), NO_FETCH_SESSION
        session.broker = to
        return [
            self._out(
                at,
                step,
                _with(
                    request,
                    session_id=ended[1] if at == ended[0] else NO_FETCH_SESSION,
                    session_epoch=epoch,
                    partitions=tuple(rows),
                    forgotten=(),
                ),
            )
            for at, rows in by_leader.items()
        ]

    def _fetched(self, step: ScriptAsks, then: Any, now: Any) -> None:
        session = self._fetching[step.connection]
        if then.session_id:
            self._sessions[step.to, then.session_id] = session
        if now.error is not _NONE:
            session.id = NO_FETCH_SESSION
        elif now.session_id and now.session_id != session.id:
            session.id, session.epoch = now.session_id, 1
        rows_then = {(row.topic, row.partition): row for row in then.partitions}
        rows_now = {(row.topic, row.partition): row for row in now.partitions}
        for at in {**rows_then, **rows_now}:
            if at in session.rows:
                old = _next_offset(rows_then.get(at), session.rows[at].fetch_offset)
                self._read_to(at, old, _next_offset(rows_now.get(at), session.sent[at]))

    def _read_to(self, at: TopicPartition, old: int, new: int) -> None:
        """The client has read up to ``new`` where it had read up to ``old`` in the recording."""
        known = self._offsets.setdefault(at, {})
        known.pop(old, None)
        known[old] = new
        if len(known) > MOST_OFFSETS:
            del known[next(iter(known))]

    # --- answers ---------------------------------------------------------------------------------------------------

    def learn(self, step: ScriptAsks, to: ActorName, now: Any) -> None:
        """Compare the recorded answer of a step with the answer in this run, of the actor ``to``."""
        then, request = step.answer, step.request
        match then, now:
            case group.JoinGroupReply(), group.JoinGroupReply():
                self._joined(request.group, then, now)
            case consumer_group.ConsumerGroupHeartbeatReply(), consumer_group.ConsumerGroupHeartbeatReply():
                self._beaten(request.group, then, now)
            case group.FindCoordinatorReply(error=ErrorCode.NONE), group.FindCoordinatorReply(error=ErrorCode.NONE):
                self._coordinators[request.key] = host_of(then.host), host_of(now.host)
            case data.MetadataReply(), data.MetadataReply():
                self._described(then, now)
            case data.FetchReply(), data.FetchReply():
                self._fetched(step, then, now)
            case ApiVersionsReply(), ApiVersionsReply(error=ErrorCode.NONE):
                self._versions[host_of(to)] = highest_of(now)
            case data.InitProducerIdReply(), data.InitProducerIdReply(error=ErrorCode.NONE):
                self._producers[then.producer_id] = now.producer_id
                self._producer_epochs[then.producer_id, then.producer_epoch] = now.producer_epoch
            case group.OffsetFetchReply(), group.OffsetFetchReply():
                self._positioned(then.offsets, now.offsets)
            case data.ListOffsetsReply(), data.ListOffsetsReply():
                self._positioned(then.answers, now.answers)
            case _:
                pass

    def _beaten(self, of: str, then: Any, now: Any) -> None:
        self._generations[of, then.member_epoch] = now.member_epoch
        if then.member_id and now.member_id:
            self._members[then.member_id] = now.member_id
        if then.assignment is not None and now.assignment is not None:
            self._assignments[then.member_id, then.assignment] = now.assignment

    def _joined(self, of: str, then: Any, now: Any) -> None:
        self._generations[of, then.generation] = now.generation
        self._protocols[of, then.protocol_name] = now.protocol_name
        self._members[then.member_id] = now.member_id
        self._other_lists.pop(of, None)
        rest_then = [row for row in then.members if row.member_id != then.member_id]
        rest_now = [row for row in now.members if row.member_id != now.member_id]
        for is_same in (_same_id, _same_instance, _same_client, _any):
            for old in list(rest_then):
                new = next((row for row in rest_now if is_same(old, row, self._members)), None)
                if new is not None:
                    self._members[old.member_id] = new.member_id
                    rest_then.remove(old)
                    rest_now.remove(new)
        if now.members and not then.members:
            self._other_lists[of] = "this member leads the group now, and the recording has no assignment of it"
        elif now.members and (rest_then or rest_now):
            counts = f"{len(then.members)} members, now {len(now.members)}"
            self._other_lists[of] = f"the leader assigned partitions to {counts}"

    def _described(self, then: Any, now: Any) -> None:
        self.known_brokers = tuple([broker_host(row.node_id) for row in now.brokers]) or self._brokers
        rows_now = {(topic.topic, row.partition): row for topic in now.topics for row in topic.partitions}
        ids_now = {topic.topic: topic.topic_id for topic in now.topics}
        for topic in then.topics:
            self._topic_ids[topic.topic_id] = ids_now.get(topic.topic, topic.topic_id)
            for row in topic.partitions:
                at = (topic.topic, row.partition)
                new = rows_now.get(at)
                if new is None:
                    continue
                self._leaders[at] = _host(row.leader), _host(new.leader)
                if row.leader_epoch >= 0 <= new.leader_epoch:
                    self._leader_epochs[*at, row.leader_epoch] = new.leader_epoch

    def _positioned(self, then: Iterable[Any], now: Iterable[Any]) -> None:
        rows_now = {(row.topic, row.partition): row for row in now}
        for row in then:
            new = rows_now.get((row.topic, row.partition))
            if new is not None and row.offset >= 0 <= new.offset:
                self._read_to((row.topic, row.partition), row.offset, new.offset)

    def renamed(self, old: str, new: str) -> None:
        """A member has this id now; "": none."""
        self._members[old] = new

    # --- lookups of this run ---------------------------------------------------------------------------------------

    def found_coordinator(self, of: str, step: ScriptAsks, host: ActorName) -> None:
        """A lookup of this run found the coordinator in place of the receiver of a step."""
        self._coordinators[of] = host_of(step.to), host_of(host)

    def found_leaders(self, step: ScriptAsks, now: Any) -> None:
        """A lookup of this run found the leaders of a step's partitions."""
        self.known_brokers = tuple([broker_host(row.node_id) for row in now.brokers]) or self._brokers
        for topic in now.topics:
            for row in topic.partitions:
                at = (topic.topic, row.partition)
                then = self._leaders.get(at, (host_of(step.to), ""))[0]
                self._leaders[at] = then, _host(row.leader)
                for old in [key[2] for key in self._leader_epochs if key[:2] == at] if row.leader_epoch >= 0 else ():
                    self._leader_epochs[*at, old] = row.leader_epoch


def _with(message: Any, **changes: Any) -> Any:
    """A message with other values; mypy does not know that messages are attrs classes."""
    return evolve(message, **changes)


def merged(answers: Sequence[Any]) -> Any:
    """The answers of several leaders to the parts of one request, as one answer."""
    first = answers[0]
    if len(answers) == 1:
        return first
    name = REPLY_ROWS[type(first)]
    return _with(first, **{name: tuple([row for answer in answers for row in getattr(answer, name)])})


def _host(node: int) -> str:
    return broker_host(node) if node >= 0 else ""


def _changed(row: Any, listed: Mapping[TopicPartition, Any], before: Mapping[TopicPartition, int]) -> bool:
    at = (row.topic, row.partition)
    return at in listed or before.get(at) != row.fetch_offset


def _next_offset(row: Any | None, fetched: int) -> int:
    """The offset after the records of a fetched partition."""
    return row.batches[-1].base_offset + row.batches[-1].count if row is not None and row.batches else fetched


def _same_id(old: Any, new: Any, members: Mapping[str, str]) -> bool:
    return bool(members.get(old.member_id, old.member_id) == new.member_id)


def _same_instance(old: Any, new: Any, members: Mapping[str, str]) -> bool:
    return old.instance_id is not None and bool(old.instance_id == new.instance_id)


def _same_client(old: Any, new: Any, members: Mapping[str, str]) -> bool:
    """The UUID at the end of a member id has 36 characters."""
    return bool(old.metadata == new.metadata and old.member_id[:-36] == new.member_id[:-36])


def _any(old: Any, new: Any, members: Mapping[str, str]) -> bool:
    return True
