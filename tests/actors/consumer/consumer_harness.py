"""One consumer in virtual time, against a small scripted cluster.

By default the cluster behaves: one coordinator (``b0/coordinator``), brokers that lead partitions in turn, logs of
offsets, and a group with the consumer as its only member (or as a follower, ``cluster.leader``). Its answers can be
scripted per API: ``answer_next("SyncGroup", 22)``, ``hold("JoinGroup")`` (keep the request), ``release``.
"""

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs

from kemu.actors.consumer.application import Application
from kemu.actors.consumer.consumer import Consumer
from kemu.actors.consumer.listener import Listener
from kemu.actors.machine import (
    Draws,
    Event,
    Hangup,
    LinkDown,
    Note,
    Received,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
)
from kemu.protocol.assign.base import Assignor
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.commands import Close, Start
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.draws import CALM
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicNumbers
from kemu.protocol.messages.control import (
    EpochEnd,
    EpochQuestion,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Fetch,
    FetchedPartition,
    FetchReply,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    OffsetAnswer,
    PartitionMetadata,
    RecordBatch,
    TopicMetadata,
)
from kemu.protocol.messages.group import (
    FetchedOffset,
    FindCoordinator,
    FindCoordinatorReply,
    Heartbeat,
    HeartbeatReply,
    JoinedMember,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.member import Assignment, decode_assignment, encode_assignment
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import MemberBecame
from kemu.protocol.rebalancing.client_rules import CLIENT_3_9, ClientRules
from kemu.protocol.rebalancing.rules import of_client
from kemu.protocol.wire.codec import seal, unseal
from kemu.protocol.wire.schema import SPECS
from kemu.protocol.wire.values import to_row

T = TypeVar("T")

LATENCY_US = 1_000
COORDINATOR = "b0/coordinator"


class Middle:
    """Randomness without surprises: no jitter, the first broker first."""

    def below(self, bound: int) -> int:
        """Always in the middle (and 0 of a few)."""
        return bound // 2 if bound > 8 else 0


@attrs.define
class Cluster:
    """State of the fake servers; tests change it at will."""

    topics: dict[str, int]
    brokers: int = 2
    leader: str = ""
    """Member id of a leader other than the consumer; "" = the consumer leads."""
    given: tuple[TopicPartition, ...] | None = None
    """Assignment of a follower (a leader gets its own decision)."""
    others: tuple[JoinedMember, ...] = ()
    generation: int = 0
    protocol: str = ""
    skip_assignment: bool = False
    committed: dict[TopicPartition, int] = attrs.Factory(dict)
    starts: dict[TopicPartition, int] = attrs.Factory(dict)
    ends: dict[TopicPartition, int] = attrs.Factory(dict)
    next_member: int = 0
    leaders: dict[TopicPartition, int] = attrs.Factory(dict)
    """Leaders of partitions that are not at their default place."""
    epochs: dict[TopicPartition, tuple[int, ...]] = attrs.Factory(dict)
    """Start offset of each leader epoch, of partitions that have any; the last one is the leader's."""
    committed_epochs: dict[TopicPartition, int] = attrs.Factory(dict)

    def leader_of(self, at: TopicPartition) -> int:
        """Node id of the partition's leader."""
        return self.leaders.get(at, at[1] % self.brokers)


@attrs.define
class Pending:
    """A request that has arrived and is not answered."""

    to: str
    request_id: int
    version: int
    message: Any


class Harness:
    """See the module. Times are virtual microseconds; ``sent`` holds every request in order."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        *,
        subscribe: tuple[str, ...] = ("t",),
        pattern: str = "",
        listener: Listener | None = None,
        application: Application | None = None,
        assignors: dict[str, Assignor] | None = None,
        versions: SpokenVersions = LATEST,
        draws: Draws = CALM,
        client: ClientRules = CLIENT_3_9,
        start: bool = True,
        **config: Any,
    ) -> None:
        config.setdefault("auto_offset_reset", "earliest")
        self.config = ConsumerConfig(**{"partition_assignment_strategy": ("range",), **config})
        self.cluster = Cluster(topics or {"t": 4})
        self.versions = versions
        self.consumer = Consumer(
            "c1",
            self.config,
            subscribe,
            bootstrap=("b0", "b1"),
            assignors=assignors or dict(ASSIGNORS),
            chance=Middle(),
            draws=draws,
            listener=listener,
            application=application,
            rules_of=of_client(client),
            versions=versions,
            pattern=pattern,
        )
        self.now_us = 0
        self.steps = 0
        self.most_effects = 0
        """Largest number of effects of a single step so far."""
        self.notes: list[Any] = []
        self.noted_at: list[tuple[int, Any]] = []
        self.told: list[Any] = []
        """Notes and requests in the order they left the machine; never forgotten."""
        self.sent: list[tuple[int, str, Any]] = []
        self.held: dict[str, list[Pending]] = defaultdict(list)
        self.hangups: list[str] = []
        self._hold: set[str] = set()
        self._scripts: dict[str, deque[Callable[[Any], Any]]] = defaultdict(deque)
        self._sequence = itertools.count()
        self._timers: dict[tuple[str, ...], int] = {}
        self._agenda: list[tuple[int, int, str, Any]] = []
        self._open: dict[int, str] = {}
        """Request id -> peer, of requests without an answer."""
        self._parked: dict[int, Pending] = {}
        if start:
            self.step(Told(Start()))

    # --- driving -----------------------------------------------------------------------------------------------

    def step(self, event: Event) -> list[Any]:
        """One event now; its effects, performed."""
        self.steps += 1
        effects = list(self.consumer.step(self.now_us, event))
        self.most_effects = max(self.most_effects, len(effects))
        for effect in effects:
            self._perform(effect)
        return effects

    def run(self, us: int = 0) -> "Harness":
        """Deliver everything due within this time."""
        until = self.now_us + us
        while self._agenda and self._agenda[0][0] <= until:
            self._next()
        self.now_us = until
        return self

    def run_until(self, condition: Callable[[], bool], within_us: int = 120_000_000) -> "Harness":
        """Deliver until the condition holds.

        Raises:
            AssertionError: it does not within this time.
        """
        until = self.now_us + within_us
        while not condition():
            assert self._agenda and self._agenda[0][0] <= until, f"not within {within_us} us; {self.story()}"
            self._next()
        return self

    def stable(self, within_us: int = 120_000_000) -> "Harness":
        """Run until the consumer is STABLE and has taken its assignment."""
        membership = self.consumer.membership
        return self.run_until(
            lambda: (
                membership.state.value == "STABLE"
                and membership.outcome is None
                and not membership.rejoin_needed
                and self.consumer.polling
            ),
            within_us,
        )

    def run_out_of_order(self, index: int) -> None:
        """Deliver any one thing that is under way, later things before earlier ones."""
        if self._agenda:
            chosen = sorted(self._agenda)[index % len(self._agenda)]
            self._agenda.remove(chosen)
            heapq.heapify(self._agenda)
            self._deliver(*chosen)

    def _next(self) -> None:
        self._deliver(*heapq.heappop(self._agenda))

    def _deliver(self, due: int, number: int, kind: str, what: Any) -> None:
        if kind == "timer":
            if self._timers.get(what) != number:
                return
            del self._timers[what]
            self.now_us = max(self.now_us, due)
            self.step(TimerFired(what))
            return
        self.now_us = max(self.now_us, due)
        if kind == "arrive":
            self._arrived(what)
        elif kind == "unpark":
            if what.request_id in self._parked:
                del self._parked[what.request_id]
                self._answer(what, self._fetch_reply(what.message, everything=True))
        elif what.request_id in self._open:
            del self._open[what.request_id]
            self.step(what)

    def _at(self, due: int, kind: str, what: Any) -> int:
        number = next(self._sequence)
        heapq.heappush(self._agenda, (due, number, kind, what))
        return number

    def _perform(self, effect: Any) -> None:
        match effect:
            case Send(to, _, request_id, version, message):
                message, version = unseal(seal(message, version))
                self.sent.append((self.now_us, to, message))
                self.told.append(message)
                self._open[request_id] = to
                self._at(self.now_us + LATENCY_US, "arrive", Pending(to, request_id, version, message))
            case Hangup(peer):
                self.hangups.append(peer)
                self._forget(peer)
            case StartTimer(key, after_us):
                self._timers[key] = self._at(self.now_us + after_us, "timer", key)
            case StopTimer(key):
                self._timers.pop(key, None)
            case Note(fact):
                to_row(fact)
                self.notes.append(fact)
                self.told.append(fact)
                self.noted_at.append((self.now_us, fact))
            case _:
                raise AssertionError(effect)

    def _forget(self, peer: str) -> None:
        self._open = {number: to for number, to in self._open.items() if to != peer}

    # --- disturbing --------------------------------------------------------------------------------------------

    def disconnect(self, peer: str = COORDINATOR) -> None:
        """Break the connection to a peer."""
        self._forget(peer)
        self.step(LinkDown(peer))

    def answer_next(self, api: str, *errors: int | Callable[[Any], Any]) -> None:
        """Answer the next requests of an API with these errors (or what a function of the request returns)."""
        for error in errors:
            self._scripts[api].append(error if callable(error) else _refusal(api, ErrorCode(error)))

    def hold(self, *apis: str) -> None:
        """Keep requests of these APIs unanswered (in ``held``)."""
        self._hold.update(apis)

    def unhold(self, *apis: str) -> None:
        """Answer further requests of these APIs; those held stay held."""
        self._hold.difference_update(apis)

    def release(self, api: str, error: int | Callable[[Any], Any] | None = None) -> None:
        """Answer the requests held, and hold no more; with an error, or as the cluster would."""
        self._hold.discard(api)
        held, self.held[api] = self.held[api], []
        for pending in held:
            if error is not None:
                self.answer_next(api, error)
            self._arrived(pending)

    def tell(self, command: Any) -> None:
        """A command from outside."""
        self.step(Told(command))

    def generation(self) -> tuple[int, str]:
        """The consumer's generation and member id."""
        generation = self.consumer.membership.generation
        return generation.id, generation.member_id

    def rejoin_now(self) -> None:
        """Have the next heartbeat answered with REBALANCE_IN_PROGRESS, and run until that answer is here."""
        self.answer_next("Heartbeat", 27)
        self.run_until(lambda: self.consumer.membership.rejoin_needed)

    def close(self) -> "Harness":
        """Close cleanly and wait for it."""
        self.tell(Close())
        return self.run_until(lambda: self.state == "CLOSED")

    def append(self, at: TopicPartition, count: int) -> None:
        """Records arrive in a partition's log; a parked Fetch for it is answered."""
        self.cluster.ends[at] = self.cluster.ends.get(at, 0) + count
        for pending in list(self._parked.values()):
            reply = self._fetch_reply(pending.message)
            if reply.partitions:
                del self._parked[pending.request_id]
                self._answer(pending, reply)

    # --- asking ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The member's state."""
        return self.consumer.membership.state.value

    def requests(self, kind: type[T]) -> list[T]:
        """All requests of a class sent so far."""
        return [message for _, _, message in self.sent if isinstance(message, kind)]

    def facts(self, kind: type[T]) -> list[T]:
        """All notes of a class so far."""
        return [fact for fact in self.notes if isinstance(fact, kind)]

    def names(self, *kinds: type) -> list[str]:
        """The names of these notes, in order."""
        return [type(fact).__name__ for fact in self.notes if isinstance(fact, kinds)]

    def timers(self) -> list[tuple[str, ...]]:
        """The timers that run."""
        return list(self._timers)

    def forget(self) -> None:
        """Start counting anew."""
        self.notes.clear()
        self.noted_at.clear()
        self.sent.clear()
        self.hangups.clear()
        self.steps = 0

    def story(self) -> str:
        """The last states, for messages of failing tests."""
        return "; ".join(f"{one.old}->{one.new}: {one.why}" for one in self.facts(MemberBecame)[-6:])

    # --- the servers -------------------------------------------------------------------------------------------

    def _arrived(self, pending: Pending) -> None:
        if pending.request_id not in self._open:
            return
        api = SPECS[type(pending.message)].name
        if api in self._hold:
            self.held[api].append(pending)
            return
        script = self._scripts[api]
        reply = script.popleft()(pending.message) if script else self._serve(pending)
        if reply is not None:
            self._answer(pending, reply)

    def _answer(self, pending: Pending, reply: Any) -> None:
        reply, version = unseal(seal(reply, pending.version))
        event = Received(pending.to, 1, pending.request_id, version, reply)
        self._at(self.now_us + LATENCY_US, "reply", event)

    def _serve(self, pending: Pending) -> Any:
        request = pending.message
        match request:
            case FindCoordinator():
                return FindCoordinatorReply(error=ErrorCode.NONE, node_id=0, host=COORDINATOR)
            case Metadata(topics=topics):
                return self._metadata(self.cluster.topics if topics is None else topics)
            case JoinGroup():
                return self._join(request)
            case SyncGroup():
                return self._sync(request)
            case Heartbeat():
                return HeartbeatReply(error=ErrorCode.NONE)
            case ConsumerGroupHeartbeat():
                return self._beat(request)
            case LeaveGroup():
                return LeaveGroupReply(error=ErrorCode.NONE)
            case OffsetFetch(topics=topics):
                assert topics is not None
                wanted = [(row.topic, number) for row in topics for number in row.partitions]
                return OffsetFetchReply(offsets=tuple(self._fetched_offset(at) for at in wanted))
            case OffsetCommit():
                self.cluster.committed.update({(row.topic, row.partition): row.offset for row in request.offsets})
                self.cluster.committed_epochs.update(
                    {(row.topic, row.partition): row.leader_epoch for row in request.offsets}
                )
                return commit_reply(request, ErrorCode.NONE)
            case ListOffsets():
                return ListOffsetsReply(answers=tuple(self._listed(row) for row in request.questions))
            case OffsetForLeaderEpoch():
                return OffsetForLeaderEpochReply(answers=tuple(self._epoch_end(row) for row in request.questions))
            case Fetch():
                reply = self._fetch_reply(request)
                if reply.partitions:
                    return reply
                self._parked[pending.request_id] = pending
                self._at(self.now_us + request.max_wait_ms * 1000, "unpark", pending)
                return None
            case _:
                raise AssertionError(request)

    def _metadata(self, names: Iterable[str]) -> MetadataReply:
        brokers = tuple(BrokerMetadata(node_id=node, host=f"b{node}") for node in range(self.cluster.brokers))
        return MetadataReply(brokers=brokers, topics=tuple(self._topic(name) for name in names))

    def _topic(self, name: str) -> TopicMetadata:
        if name not in self.cluster.topics:
            return TopicMetadata(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=name, partitions=())
        partitions = tuple(
            PartitionMetadata(
                error=ErrorCode.NONE,
                partition=number,
                leader=self.cluster.leader_of((name, number)),
                leader_epoch=len(self.cluster.epochs.get((name, number), ())) - 1,
                replicas=(self.cluster.leader_of((name, number)),),
                isr=(),
            )
            for number in range(self.cluster.topics[name])
        )
        return TopicMetadata(error=ErrorCode.NONE, topic=name, topic_id=f"id-{name}", partitions=partitions)

    def _beat(self, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatReply:
        """The member is alone in a group of the consumer protocol: it gets all partitions when it joins."""
        numbers = self.cluster.topics.items()
        everything = tuple(TopicNumbers(topic_id=f"id-{name}", partitions=tuple(range(n))) for name, n in numbers)
        return ConsumerGroupHeartbeatReply(
            error=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=1,
            heartbeat_interval_ms=5_000,
            assignment=everything if request.member_epoch == 0 else None,
        )

    def _join(self, request: JoinGroup) -> JoinGroupReply:
        if not request.member_id and not request.instance_id and self.versions["JoinGroup"] >= 4:
            self.cluster.next_member += 1
            member_id = f"c1-{self.cluster.next_member}"
            return JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        if not request.member_id:
            self.cluster.next_member += 1
        member_id = request.member_id or f"c1-{self.cluster.next_member}"
        self.cluster.generation += 1
        chosen = next(
            one for one in request.protocols if one.name == self.cluster.protocol or not self.cluster.protocol
        )
        leads = not self.cluster.leader
        me = JoinedMember(member_id=member_id, instance_id=request.instance_id, metadata=chosen.metadata)
        return JoinGroupReply(
            error=ErrorCode.NONE,
            generation=self.cluster.generation,
            protocol_type="consumer",
            protocol_name=chosen.name,
            leader=self.cluster.leader or member_id,
            skip_assignment=leads and self.cluster.skip_assignment,
            member_id=member_id,
            members=(me, *self.cluster.others) if leads else (),
        )

    def _sync(self, request: SyncGroup) -> SyncGroupReply:
        decided = {row.member_id: row.assignment for row in request.assignments}
        given = self.cluster.given
        if request.member_id in decided and given is None:
            mine = decided[request.member_id]
        else:
            mine = encode_assignment(Assignment(given or ()))
        return SyncGroupReply(
            error=ErrorCode.NONE, protocol_type="consumer", protocol_name=request.protocol_name, assignment=mine
        )

    def _fetched_offset(self, at: TopicPartition) -> FetchedOffset:
        offset = self.cluster.committed.get(at, -1)
        epoch = self.cluster.committed_epochs.get(at, -1)
        return FetchedOffset(topic=at[0], partition=at[1], offset=offset, leader_epoch=epoch, error=ErrorCode.NONE)

    def _epoch_end(self, row: EpochQuestion) -> EpochEnd:
        at = (row.topic, row.partition)
        starts = self.cluster.epochs[at]
        assert row.current_leader_epoch == len(starts) - 1
        ends = (*starts[1:], self.cluster.ends.get(at, 0))
        return EpochEnd(
            topic=at[0],
            partition=at[1],
            error_code=ErrorCode.NONE,
            leader_epoch=row.leader_epoch,
            end_offset=ends[row.leader_epoch],
        )

    def _listed(self, row: Any) -> OffsetAnswer:
        at = (row.topic, row.partition)
        offset = self.cluster.starts.get(at, 0) if row.timestamp_ms == -2 else self.cluster.ends.get(at, 0)
        return OffsetAnswer(topic=row.topic, partition=row.partition, error=ErrorCode.NONE, offset=offset)

    def _batches(self, at: TopicPartition, first: int, end: int) -> tuple[RecordBatch, ...]:
        starts = self.cluster.epochs.get(at)
        if starts is None:
            return (RecordBatch(base_offset=first, count=end - first, append_time_ms=0),)
        return tuple(
            RecordBatch(
                base_offset=max(first, start), count=upto - max(first, start), append_time_ms=0, leader_epoch=epoch
            )
            for epoch, (start, upto) in enumerate(zip(starts, (*starts[1:], end), strict=True))
            if max(first, start) < upto
        )

    def _fetch_reply(self, request: Fetch, *, everything: bool = False) -> FetchReply:
        rows = []
        for row in request.partitions:
            at = (row.topic, row.partition)
            start, end = self.cluster.starts.get(at, 0), self.cluster.ends.get(at, 0)
            error, batches = ErrorCode.NONE, ()
            if not start <= row.fetch_offset <= end:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            elif row.fetch_offset < end:
                batches = self._batches(at, row.fetch_offset, end)
            if batches or error or everything:
                rows.append(
                    FetchedPartition(topic=at[0], partition=at[1], error=error, high_watermark=end, batches=batches)
                )
        return FetchReply(partitions=tuple(rows))


def commit_reply(request: OffsetCommit, error: ErrorCode) -> OffsetCommitReply:
    """The same outcome for every partition."""
    return OffsetCommitReply(
        outcomes=tuple(OffsetOutcome(topic=row.topic, partition=row.partition, error=error) for row in request.offsets)
    )


def assigned_in(reply: SyncGroupReply) -> tuple[TopicPartition, ...]:
    """The partitions a SyncGroup answer carries."""
    return decode_assignment(reply.assignment).partitions


def _refusal(api: str, error: ErrorCode) -> Callable[[Any], Any]:
    """How a server says an error."""

    def refuse(request: Any) -> Any:
        match api:
            case "FindCoordinator":
                return FindCoordinatorReply(error=error, node_id=-1, host="")
            case "JoinGroup":
                member_id = "c1-77" if error is ErrorCode.MEMBER_ID_REQUIRED else request.member_id
                return JoinGroupReply(error=error, member_id=member_id)
            case "SyncGroup":
                return SyncGroupReply(error=error)
            case "Heartbeat":
                return HeartbeatReply(error=error)
            case "LeaveGroup":
                return LeaveGroupReply(error=error)
            case "OffsetCommit":
                return commit_reply(request, error)
            case "OffsetFetch":
                return OffsetFetchReply(offsets=(), error=error)
            case "ListOffsets":
                return ListOffsetsReply(
                    answers=tuple(
                        OffsetAnswer(topic=row.topic, partition=row.partition, error=error) for row in request.questions
                    )
                )
            case "OffsetForLeaderEpoch":
                return OffsetForLeaderEpochReply(
                    answers=tuple(
                        EpochEnd(topic=row.topic, partition=row.partition, error_code=error)
                        for row in request.questions
                    )
                )
            case "Fetch":
                return FetchReply(
                    partitions=tuple(
                        FetchedPartition(topic=row.topic, partition=row.partition, error=error)
                        for row in request.partitions
                    )
                )
            case _:
                raise AssertionError(api)

    return refuse
