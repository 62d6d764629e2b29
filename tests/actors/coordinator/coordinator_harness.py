"""A coordinator on a bench: virtual time, its timers, a log that can be slow or fail, and clients that keep answers.

Every request and reply goes through the codec in its version, so a reply its version cannot carry fails the test.
"""

import heapq
from collections.abc import Callable
from typing import Any

from attrs import define, field

from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import (
    Append,
    Appended,
    Event,
    Note,
    Received,
    Record,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
)
from kemu.protocol.commands import LeadOffsets, ResignOffsets, Start
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    SyncGroup,
    TopicPartitions,
)
from kemu.protocol.messages.member import Subscription, encode_subscription
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, offsets_partition_of
from kemu.protocol.wire.codec import seal, unseal

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
NEW_MEMBER_MS = 300_000
LATEST = {JoinGroup: 9, SyncGroup: 5, Heartbeat: 4, LeaveGroup: 5, OffsetCommit: 9, OffsetFetch: 7}
US = 1_000


def metadata(*topics: str) -> bytes:
    """A subscription to these topics."""
    return encode_subscription(Subscription(topics or ("t",)))


def protocols(*names: str, data: bytes | None = None) -> tuple[JoinProtocol, ...]:
    """Assignors, each with the same subscription."""
    return tuple(JoinProtocol(name=name, metadata=metadata() if data is None else data) for name in names)


@define
class Ask:
    """A request that was sent; ``reply`` is None while it is parked."""

    client: str
    request_id: int
    request: Any
    version: int
    connection: int
    reply: Any = None
    answered_us: int | None = None

    @property
    def error(self) -> ErrorCode | None:
        """The top-level error of the reply."""
        return None if self.reply is None else self.reply.error


@define
class HeldAppend:
    """An append that waits for the test to say how it ends."""

    append: Append
    coordinator: Coordinator


class Bench:
    """One coordinator that leads every partition of a test's groups.

    It gathers no writes (``linger_ms`` 0), since most tests check decisions at once.
    """

    def __init__(
        self, *, node_id: int = 0, started: bool = True, lead: bool = True, linger_ms: int = 0, **config: Any
    ) -> None:
        self.config = BrokerConfig(group_coordinator_append_linger_ms=linger_ms, **config)
        self.node_id = node_id
        self.now_us = 0
        self.epoch = 1
        self.notes: list[Any] = []
        self.asks: list[Ask] = []
        self.logs: dict[str, list[Record]] = {}
        self.append_us = 0
        self.hold_appends = False
        self.held: list[HeldAppend] = []
        self.append_errors: list[ErrorCode] = []
        """Errors of the next appends, in order; after them all succeed."""
        self.timers: dict[tuple[str, ...], tuple[int, int]] = {}
        self.life_began = 0
        """The id of the last request before this life of the coordinator."""
        self.connection = 0
        """Connection of all requests; 0: a new connection for each."""
        self.after_step: Callable[[], None] = lambda: None
        self._due: list[tuple[int, int, Event]] = []
        self._count = 0
        self._waiting: dict[tuple[str, int], Ask] = {}
        self.coordinator = Coordinator(f"b{node_id}/coordinator", node_id, self.config)
        if started:
            self.feed(Told(Start()))
        if lead:
            self.lead(GROUP)

    # --- driving -----------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """One step, and the steps that follow from it at this instant."""
        effects = self.coordinator.step(self.now_us, event)
        for effect in effects:
            self._perform(effect)
        self.after_step()
        self._run_due()

    def _run_due(self) -> None:
        while self._due and self._due[0][0] <= self.now_us:
            _, _, event = heapq.heappop(self._due)
            self.feed(event)

    def _perform(self, effect: Any) -> None:
        match effect:
            case Send():
                self._answered(effect)
            case StartTimer(key=key, after_us=after_us):
                assert after_us >= 0
                self._count += 1
                self.timers[key] = (self.now_us + after_us, self._count)
            case StopTimer(key=key):
                self.timers.pop(key, None)
            case Append():
                assert effect.records
                if self.hold_appends:
                    self.held.append(HeldAppend(effect, self.coordinator))
                else:
                    self._finish(effect, self.append_errors.pop(0) if self.append_errors else ErrorCode.NONE)
            case Note(fact=fact):
                self.notes.append(fact)
            case _:
                raise AssertionError(effect)

    def _finish(self, append: Append, error: ErrorCode) -> None:
        base_offset = -1
        if error is ErrorCode.NONE:
            log = self.logs.setdefault(append.log, [])
            base_offset = len(log)
            log.extend(append.records)
        self._count += 1
        event = Appended(append.token, error, base_offset)
        heapq.heappush(self._due, (self.now_us + self.append_us, self._count, event))

    def release(self, error: ErrorCode = ErrorCode.NONE, *, log: str | None = None) -> None:
        """End held appends (of one log), the oldest first."""
        ending = [held for held in self.held if log in (None, held.append.log)]
        self.held = [held for held in self.held if held not in ending]
        for held in ending:
            if held.coordinator is self.coordinator:
                self._finish(held.append, error)
        self._run_due()

    def _answered(self, send: Send) -> None:
        ask = self._waiting.pop((send.to, send.request_id))
        assert send.connection == ask.connection, "every reply goes over the connection of its request"
        assert send.version == ask.version
        ask.reply = unseal(seal(send.message, send.version))[0]
        ask.answered_us = self.now_us

    def advance(self, ms: int) -> None:
        """Let time pass; timers and appends happen in the order they are due."""
        self.advance_us(ms * US)

    def advance_us(self, us: int) -> None:
        """As ``advance``."""
        end = self.now_us + us
        while True:
            timer = min(self.timers.items(), key=lambda item: item[1], default=None)
            append_at = self._due[0][0] if self._due else None
            timer_at = timer[1][0] if timer is not None else None
            at = min((t for t in (append_at, timer_at) if t is not None), default=None)
            if at is None or at > end:
                break
            self.now_us = max(self.now_us, at)
            if append_at == at:
                self._run_due()
            elif timer is not None:
                del self.timers[timer[0]]
                self.feed(TimerFired(timer[0]))
        self.now_us = end

    def until_answered(self, *asks: Ask) -> None:
        """Let time pass until the last of these is answered, and no longer."""
        while any(ask.reply is None for ask in asks):
            at = min(due for due, _ in self.timers.values())
            self.advance_us(max(at - self.now_us, 0))

    @property
    def unanswered(self) -> dict[tuple[str, int], Ask]:
        """The requests of this life of the coordinator that have no reply, by client and request id."""
        return self._waiting

    @property
    def writing(self) -> bool:
        """Whether writes are gathered, or an append is in progress."""
        return bool(self.held or self._due) or any(key[0] == GroupTimer.LINGER for key in self.timers)

    # --- commands ----------------------------------------------------------------------------------------------

    def lead(
        self, group: str, *, load_us: int = 0, wait_us: int = 0, records: tuple[Record, ...] | None = None
    ) -> None:
        """Lead the partition of a group, with what its log holds."""
        number = offsets_partition_of(group, self.config.offsets_topic_num_partitions)
        if records is None:
            records = tuple(self.logs.get(f"__consumer_offsets-{number}", ()))
        else:
            self.logs[f"__consumer_offsets-{number}"] = list(records)
        self.epoch += 1
        command = LeadOffsets(
            partition=number, leader_epoch=self.epoch, records=records, load_us=load_us, wait_us=wait_us
        )
        self.feed(Told(command))

    def resign(self, group: str = GROUP) -> None:
        """Another broker leads the partition of a group; pending writes are in the log before that broker reads it."""
        number = offsets_partition_of(group, self.config.offsets_topic_num_partitions)
        self.epoch += 1
        self.feed(Told(ResignOffsets(partition=number, leader_epoch=self.epoch)))
        self.release(log=f"__consumer_offsets-{number}")

    def crash_and_restart(self, *, load_us: int = 0, groups: tuple[str, ...] = (GROUP,)) -> None:
        """The process dies (parked requests, timers and unfinished appends with it) and a new one reads the logs."""
        self.timers.clear()
        self._due.clear()
        self.held.clear()
        self._waiting.clear()
        self.life_began = self._count
        self.coordinator = Coordinator(f"b{self.node_id}/coordinator", self.node_id, self.config)
        self.feed(Told(Start()))
        for group in groups:
            self.lead(group, load_us=load_us)

    # --- asking ------------------------------------------------------------------------------------------------

    def ask(self, client: str, request: Any, version: int | None = None) -> Ask:
        """Send a request. All events of this instant have happened on return."""
        ask, event = self.mail(client, request, version)
        self.feed(event)
        return ask

    def mail(self, client: str, request: Any, version: int | None = None) -> tuple[Ask, Received]:
        """A request as it arrives, for a test that feeds it itself."""
        self._count += 1
        version = LATEST.get(type(request), 0) if version is None else version
        ask = Ask(client, self._count, request, version, self.connection or self._count)
        self.asks.append(ask)
        self._waiting[client, ask.request_id] = ask
        message = unseal(seal(request, version))[0]
        return ask, Received(client, ask.connection, ask.request_id, version, message)

    @property
    def group(self) -> Group:
        """The group of most tests."""
        return self.coordinator.groups[GROUP]

    def log(self, group: str = GROUP) -> list[Record]:
        """The log of a group's partition."""
        number = offsets_partition_of(group, self.config.offsets_topic_num_partitions)
        return self.logs.get(f"__consumer_offsets-{number}", [])

    def noted(self, kind: type) -> list[Any]:
        """The notes of one kind, in order."""
        return [note for note in self.notes if type(note) is kind]

    def left_ms(self, *key: str) -> int | None:
        """How long until a timer fires; None when it does not run."""
        if key not in self.timers:
            return None
        return (self.timers[key][0] - self.now_us) // US

    # --- requests ----------------------------------------------------------------------------------------------

    def join(
        self,
        client: str,
        member_id: str = UNKNOWN_MEMBER,
        *,
        names: tuple[str, ...] = ("range",),
        data: bytes | None = None,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        group: str = GROUP,
        version: int = 9,
        given: tuple[JoinProtocol, ...] | None = None,
    ) -> Ask:
        """A JoinGroup."""
        request = JoinGroup(
            group=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
            member_id=member_id,
            instance_id=instance,
            protocol_type=protocol_type,
            protocols=protocols(*names, data=data) if given is None else given,
        )
        return self.ask(client, request, version)

    def join_twice(self, client: str, **how: Any) -> Ask:
        """The two joins of a new dynamic member: get an id, return with it."""
        required = self.join(client, **how)
        assert required.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(client, required.reply.member_id, **how)

    def sync(
        self,
        client: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = 5,
        group: str = GROUP,
    ) -> Ask:
        """A SyncGroup; ``assignments`` is the leader's."""
        given = {} if assignments is None else assignments
        request = SyncGroup(
            group=group,
            generation=generation,
            member_id=member_id,
            instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=tuple(MemberAssignment(member_id=m, assignment=a) for m, a in given.items()),
        )
        return self.ask(client, request, version)

    def heartbeat(
        self, client: str, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        """A Heartbeat's answer."""
        return ErrorCode(self.beat(client, member_id, generation, instance=instance, group=group).reply.error)

    def beat(
        self, client: str, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> Ask:
        """A Heartbeat, whose answer Java's coordinator delays while a write is in progress."""
        request = Heartbeat(group=group, generation=generation, member_id=member_id, instance_id=instance)
        return self.ask(client, request)

    def leave(self, client: str, *members: LeavingMember, group: str = GROUP) -> Ask:
        """A LeaveGroup for a batch."""
        return self.ask(client, LeaveGroup(group=group, members=members))

    def commit(
        self,
        client: str,
        offset: int = 1,
        *,
        member_id: str = UNKNOWN_MEMBER,
        generation: int = NO_GENERATION,
        instance: str | None = None,
        topic: str = "t",
        partition: int = 0,
        group: str = GROUP,
        version: int = 9,
        retention_ms: int = -1,
    ) -> Ask:
        """An OffsetCommit of one partition."""
        request = OffsetCommit(
            group=group,
            generation=generation,
            member_id=member_id,
            instance_id=instance,
            retention_time_ms=retention_ms,
            offsets=(OffsetToCommit(topic=topic, partition=partition, offset=offset),),
        )
        return self.ask(client, request, version)

    def commit_error(self, client: str, **how: Any) -> ErrorCode:
        """The outcome of a commit of one partition."""
        (outcome,) = self.commit(client, **how).reply.outcomes
        return ErrorCode(outcome.error)

    def fetch(
        self, *partitions: tuple[str, int], group: str = GROUP, stable: bool = False, version: int = 7
    ) -> dict[tuple[str, int], Any]:
        """The rows of OffsetFetch, by partition; without partitions, all committed ones."""
        topics = tuple(TopicPartitions(topic=t, partitions=(p,)) for t, p in partitions)
        request = OffsetFetch(group=group, topics=topics or None, require_stable=stable)
        reply = self.ask("admin", request, version).reply
        assert reply.error is ErrorCode.NONE
        return {(row.topic, row.partition): row for row in reply.offsets}

    def committed(self, topic: str = "t", partition: int = 0, group: str = GROUP) -> int:
        """The committed offset of one partition, -1 without."""
        return int(self.fetch((topic, partition), group=group)[topic, partition].offset)

    # --- whole groups ------------------------------------------------------------------------------------------

    def stable_group(self, *clients: str, static: bool = False, **how: Any) -> "Formed":
        """A group of these clients (the first one leads), Stable in its first generation."""
        joins: dict[str, Ask] = {}
        for client in clients:
            if static:
                joins[client] = self.join(client, instance=f"i-{client}", **how)
            else:
                joins[client] = self.join_twice(client, **how)
        self.until_answered(*joins.values())
        return self.form(joins)

    def form(self, joins: dict[str, Ask]) -> "Formed":
        """Sync all members whose join was answered; the leader gives each ``b"for-<client>"``."""
        ids = {client: join.reply.member_id for client, join in joins.items()}
        for join in joins.values():
            assert join.error is ErrorCode.NONE, join.reply
        replies = [join.reply for join in joins.values()]
        leader, generation, protocol = replies[0].leader, replies[0].generation, replies[0].protocol_name
        given = {ids[client]: f"for-{client}".encode() for client in joins}
        syncs = {}
        for client, join in joins.items():
            member_id = ids[client]
            plan = given if member_id == leader else None
            syncs[client] = self.sync(
                client, member_id, generation, plan, instance=join.request.instance_id, protocol=protocol
            )
        for client, sync in syncs.items():
            assert sync.error is ErrorCode.NONE
            assert sync.reply.assignment == given[ids[client]]
        return Formed(generation, leader, ids, joins, syncs)


@define
class Formed:
    """A Stable group: its member ids by client."""

    generation: int
    leader: str
    ids: dict[str, str]
    joins: dict[str, Ask] = field(repr=False)
    syncs: dict[str, Ask] = field(repr=False)
