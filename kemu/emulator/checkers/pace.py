"""The intervals between requests, and the waits after failures.

- Heartbeat: each ``heartbeat.interval.ms``, from SyncGroup to JoinGroup,
  LeaveGroup, or the callback of ``close()``, which first stops the heartbeat
  thread.
- Ping (store): each third of the session timeout.
- OffsetCommit: not before ``auto.commit.interval.ms`` (Streams:
  ``commit.interval.ms``), except before a member gives up partitions.
- Follower's Fetch: one in flight to a leader; the next is sent at once after the answer.
- JoinGroup, SyncGroup, OffsetFetch, Metadata: one in flight per client. In the consumer protocol, a new assignment
  may send another OffsetFetch.
- AlterIsr: one in flight per broker; the next 50 ms after an error, 100 ms after a lost answer.
- ControlledShutdown: after ``controlled.shutdown.retry.backoff.ms``.
- Controller's requests: one in flight per broker; the next 100 ms after a lost request.

Kinds: too-many (also 30 equal StoreOps or AlterIsr within a second),
too-soon (four consecutive requests: emulated time may skip hours once), overdue,
too-late (an unchanged retry).

Source: Kafka 3.4 ``AbstractCoordinator.HeartbeatThread``, ``Fetcher``,
``AbstractFetcherThread``, ``DefaultMetadataUpdater``,
``RequestSendThread``; ZooKeeper ``ClientCnxn``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Self, TypeAlias

from kemu.actors.consumer.modern_state import ModernState
from kemu.actors.consumer.reasons import CLOSED
from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, Seen, received, sent
from kemu.emulator.watching.settings import Settings
from kemu.protocol.catch_up import PART
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.control import (
    AlterIsr,
    AlterIsrReply,
    ControlledShutdown,
    ControlledShutdownReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from kemu.protocol.messages.data import Fetch, FetchReply, Metadata, MetadataReply, Produce, ProduceReply
from kemu.protocol.messages.group import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.ranges import RangeCommit, RangeCommitReply
from kemu.protocol.messages.store import (
    CloseSession,
    OpenSession,
    OpenSessionReply,
    Ping,
    PingReply,
    StoreCode,
    StoreOpKind,
    StoreOps,
)
from kemu.protocol.names import ActorName, host_of, role_of
from kemu.protocol.notes.groups import CallbackReturned, MemberBecame, MemberFailed

_US = 1_000
SLACK_US = 1_500_000
"""Longest delay of a due request, in us, because a thread wakes late, or the previous request is still being
written."""
WRITE_US = 5_000_000
"""Longest time for a follower to write the records of one fetch, in us."""
ALTER_BACKOFF_US, ALTER_LOST_US = 50_000, 100_000
"""Back-offs of AlterIsr after an error and after a lost answer, in us. Source: ``DefaultAlterPartitionManager``,
``BrokerToControllerRequestThread`` (2.7 to 3.9)."""
ORDER_BACKOFF_US = 100_000
"""Back-off of a controller's request to a broker, in us. Source: ``RequestSendThread.backoff``."""
SHORTEST_US = 1_000_000
"""Shortest judged ``commit.interval.ms``, in us. With shorter intervals, the flush before a commit hides the
interval."""
MAX_IN_FLIGHT = 5
"""``max.in.flight.requests.per.connection``."""
LOOK_US = 1_000_000
STORM, STORM_US = 30, 1_000_000
"""(number of equal requests, time in us): so many equal requests within the time are a storm."""
WRITES = (StoreOpKind.SET_DATA, StoreOpKind.DELETE)
EARLY = 4
"""Number of consecutive requests that must be too soon for a violation."""
_NEVER_US = 1 << 62


_Key: TypeAlias = ActorName | tuple[ActorName, ActorName]
"""The sender of requests, with the receiver if the requests to each receiver have a pace of their own."""


class Gap(NamedTuple):
    """The least and the most allowed time until the next request, in us."""

    least_us: int
    most_us: int


_gap = lru_cache(maxsize=64)(Gap)
"""``Gap`` for members: the members of a group share it."""


@frozen(kw_only=True)
class PaceRow:
    """A request with a known pace.

    ``owner``: function from the sender to the actor or host whose requests share a pace; None for requests without a
    pace. ``by_peer``: whether the requests to each receiver have a pace of their own. ``span``: the interval after a
    good answer. ``backoff_us``: the wait after an error; ``lost_us``: the wait after a lost connection;
    ``backoff_after``: the wait after a certain answer. ``exact``: whether an unchanged retry must be soon after the
    back-off. ``begins``: a request and the good reply that starts the rhythm. ``ends``: sent or received requests that
    end the rhythm. ``judges``: whether an actor has this pace; None for all actors.
    """

    replies: type
    owner: Callable[[ActorName], str | None]
    by_peer: bool = False
    at_a_time: int = 0
    span: Callable[[Settings, ActorName], Gap | None] | None = None
    backoff_us: Callable[[Settings, ActorName], int] | None = None
    lost_us: Callable[[Settings, ActorName], int] | None = None
    backoff_after: Callable[[Any], int] | None = None
    exact: bool = False
    begins: tuple[type, type] | None = None
    ends: tuple[type, ...] = ()
    judges: Callable[[Settings, ActorName], bool] | None = None


def _of(*roles: str) -> Callable[[ActorName], str | None]:
    return lambda actor: actor if role_of(actor) in roles else None


def _heartbeats(settings: Settings, actor: ActorName) -> Gap | None:
    config = settings.consumer(actor)
    if config is None:
        return None
    interval_us = max(1, config.heartbeat_interval_ms) * _US
    return _gap(interval_us, interval_us + max(1, config.retry_backoff_ms) * _US + SLACK_US)


def _is_classic(settings: Settings, actor: ActorName) -> bool:
    """Whether a member uses the classic protocol.

    A member of the consumer protocol asks for the offsets of another assignment before the answer for the former one.
    Source: ``OffsetsRequestManager.canReusePendingOffsetFetchEvent`` 4.0.
    """
    config = settings.consumer(actor)
    return config is None or not config.uses_consumer_protocol


def _member_backoff_us(settings: Settings, actor: ActorName) -> int:
    config = settings.consumer(actor)
    return 0 if config is None else config.retry_backoff_ms * _US


def _pings(settings: Settings, actor: ActorName) -> Gap:
    third_us = settings.controller.zookeeper_session_timeout_ms * _US // 3
    return Gap(third_us, third_us + SLACK_US)


def _interval_commits(settings: Settings, actor: ActorName) -> Gap | None:
    """The interval of a member that commits only by interval. ``group-progress`` and ``tasks`` judge the latest
    time of a commit.
    """
    config, streams_us = settings.consumer(actor), settings.streams_commit_us(actor)
    if streams_us >= SHORTEST_US:
        return _gap(streams_us, _NEVER_US)
    if config is None or not config.enable_auto_commit or config.emulated_commit_after_poll:
        return None
    if config.enable_parallel_rebalance or settings.is_streams(actor):
        return None
    return _gap(max(1, config.auto_commit_interval_ms) * _US, _NEVER_US)


def _second_commits(settings: Settings, actor: ActorName) -> Gap | None:
    """The interval of a second consumer that commits only by interval. ``catch-up`` judges the latest time of a
    commit.
    """
    config = settings.consumer(actor)
    if config is None or not config.enable_auto_commit or config.emulated_commit_after_poll:
        return None
    return _gap(max(1, config.auto_commit_interval_ms) * _US, _NEVER_US)


def _follower_fetches(settings: Settings, actor: ActorName) -> Gap:
    """The interval of a follower's fetches: the next fetch is sent when the records are written."""
    return Gap(0, settings.replicas.replica_fetch_wait_max_ms * _US + WRITE_US)


def _fetch_backoff_us(settings: Settings, actor: ActorName) -> int:
    """Back-off after a lost fetch, in us. Up to 3.0 the thread waits, and each partition waits afterwards
    (``AbstractFetcherThread`` 3.0.2, KAFKA-8529).
    """
    waits_twice = settings.broker_profile(actor).waits_twice_for_lost_fetches
    return settings.replicas.replica_fetch_backoff_ms * _US * (1 + waits_twice)


def _shutdown_backoff_us(settings: Settings, actor: ActorName) -> int:
    return settings.replicas.controlled_shutdown_retry_backoff_ms * _US


def _alter_backoff_us(reply: AlterIsrReply) -> int:
    """Back-off after an answer, in us. After NOT_CONTROLLER a broker first finds the controller."""
    return ALTER_LOST_US if reply.error_code is ErrorCode.NOT_CONTROLLER else ALTER_BACKOFF_US


def _order(replies: type) -> PaceRow:
    return PaceRow(
        replies=replies,
        owner=_of("controller"),
        by_peer=True,
        at_a_time=1,
        lost_us=lambda settings, actor: ORDER_BACKOFF_US,
        exact=True,
    )


ROWS: Mapping[type, PaceRow] = {
    Heartbeat: PaceRow(
        replies=HeartbeatReply,
        owner=_of("member"),
        span=_heartbeats,
        backoff_us=_member_backoff_us,
        begins=(SyncGroup, SyncGroupReply),
        ends=(JoinGroup, LeaveGroup),
    ),
    Ping: PaceRow(
        replies=PingReply,
        owner=_of("broker", "controller"),
        span=_pings,
        begins=(OpenSession, OpenSessionReply),
        ends=(OpenSession, CloseSession),
    ),
    JoinGroup: PaceRow(replies=JoinGroupReply, owner=_of("member"), at_a_time=1),
    SyncGroup: PaceRow(replies=SyncGroupReply, owner=_of("member"), at_a_time=1),
    OffsetFetch: PaceRow(replies=OffsetFetchReply, owner=_of("member"), at_a_time=1, judges=_is_classic),
    Metadata: PaceRow(replies=MetadataReply, owner=_of("member", "producer"), at_a_time=1),
    OffsetCommit: PaceRow(
        replies=OffsetCommitReply,
        owner=_of("member"),
        span=_interval_commits,
        ends=(JoinGroup, LeaveGroup),
    ),
    RangeCommit: PaceRow(
        replies=RangeCommitReply,
        owner=lambda actor: host_of(actor) if actor.endswith(f"/{PART}") else None,
        span=_second_commits,
        ends=(JoinGroup, LeaveGroup),
    ),
    AlterIsr: PaceRow(
        replies=AlterIsrReply,
        owner=_of("broker"),
        at_a_time=1,
        backoff_us=lambda settings, actor: ALTER_BACKOFF_US,
        lost_us=lambda settings, actor: ALTER_LOST_US,
        backoff_after=_alter_backoff_us,
        exact=True,
    ),
    ControlledShutdown: PaceRow(
        replies=ControlledShutdownReply,
        owner=_of("broker"),
        at_a_time=1,
        backoff_us=_shutdown_backoff_us,
        lost_us=_shutdown_backoff_us,
        exact=True,
    ),
    Fetch: PaceRow(
        replies=FetchReply,
        owner=_of("broker"),
        by_peer=True,
        at_a_time=1,
        span=_follower_fetches,
        lost_us=_fetch_backoff_us,
        exact=True,
        ends=(LeaderAndIsr, StopReplica),
    ),
    Produce: PaceRow(replies=ProduceReply, owner=_of("producer"), by_peer=True, at_a_time=MAX_IN_FLIGHT),
    LeaderAndIsr: _order(LeaderAndIsrReply),
    StopReplica: _order(StopReplicaReply),
    UpdateMetadata: _order(UpdateMetadataReply),
}


def _has_no_error(reply: OffsetCommitReply | RangeCommitReply) -> bool:
    return all(outcome.error is ErrorCode.NONE for outcome in reply.outcomes)


def _all_fetched(reply: FetchReply) -> bool:
    rows = reply.partitions
    return reply.error is ErrorCode.NONE and (not rows or all(row.error is ErrorCode.NONE for row in rows))


def _is_member(reply: HeartbeatReply | SyncGroupReply) -> bool:
    """Whether the sender is still a member. A rebalance is not an error (``Heartbeat.receiveHeartbeat``)."""
    return reply.error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


GOOD: Mapping[type, Callable[[Any], bool]] = {
    PingReply: lambda reply: reply.code is StoreCode.OK,
    OpenSessionReply: lambda reply: reply.code is StoreCode.OK,
    OffsetCommitReply: _has_no_error,
    RangeCommitReply: _has_no_error,
    AlterIsrReply: lambda reply: reply.error_code is ErrorCode.NONE,
    ControlledShutdownReply: lambda reply: reply.error_code is ErrorCode.NONE and not reply.remaining_partitions,
    FetchReply: _all_fetched,
    HeartbeatReply: _is_member,
    SyncGroupReply: _is_member,
}
"""Type of a reply -> function that tells whether a reply is good. Replies of other types are good."""


_NONE_IN_FLIGHT: dict[int, str] = {}
"""Never changed: most lines have no request in flight, and a dictionary keeps the memory of its former entries."""


class _Line:
    """The requests of one kind and one sender."""

    __slots__ = (
        *("backoff_us", "answered_us", "due_us", "early", "failures", "good", "has_least", "in_flight", "is_paced"),
        *("kind", "last", "lost_us", "owner", "sent_us", "span"),
    )

    def __init__(self, kind: type, owner: ActorName, span: Gap | None, *, fails: bool) -> None:
        self.kind = kind
        self.owner = owner
        self.span = span
        self.is_paced = span is not None or fails
        """Whether answers are judged by content."""
        self.has_least = fails or (span is not None and span.least_us > 0)
        """Whether a request can be too soon."""
        self.in_flight = _NONE_IN_FLIGHT
        """Request id -> receiver."""
        self.sent_us = -1
        self.answered_us = -1
        self.lost_us = -1
        """Time at which the connection of the last request broke, in us; -1 otherwise."""
        self.good = False
        """Whether the last answer was good, or the rhythm has just begun."""
        self.due_us = _NEVER_US
        self.early = 0
        self.backoff_us = 0
        """The back-off after an error, in us."""
        self.failures = 0
        """Number of consecutive failures."""
        self.last: object = None
        """The last request, if a retry can be too late; otherwise None."""


class _Late(NamedTuple):
    """An overdue heartbeat: the time when it was due, in us, and the fact and text of its violation."""

    due_us: int
    seen: Seen
    text: str


class Pace(Checker):
    """Judges the intervals between requests, and retries.

    Args:
        settings: the settings in force; without settings nothing is judged.
    """

    name = "pace"
    unknown_of_real_clients = "the intervals of its requests"
    kinds = ("overdue", "too-late", "too-many", "too-soon")

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._lines: dict[ActorName, tuple[_Line, ...]] = {}
        """Owner -> its lines."""
        self._line_of: dict[type, dict[_Key, _Line | None]] = {kind: {} for kind in ROWS}
        """Request -> sender, or (sender, receiver) -> line."""
        self._broke = (-1, "", "")
        """(step, client, peer) of the last broken connection. The client also abandons requests of the same step to the
        same peer.
        """
        self._storms: dict[ActorName, tuple[int, dict[object, int]]] = {}
        """Sender -> (start of the counted second, request -> number of equal requests in this second)."""
        self._late: dict[ActorName, _Late] = {}
        """Member -> its overdue heartbeat, until the member shows whether close() stopped its heartbeats."""
        self._may_begin: dict[tuple[type, ActorName], None] = {}
        """(kind, sender) of rhythms whose first request was sent after their last end."""
        self._called_back: dict[ActorName, tuple[int, int]] = {}
        """Member -> (step in which its listener gave up partitions, begin of this callback in us)."""
        self._looks_us = 0
        self._last = Seen(0, 0, "", 0, None)
        if settings is None:
            return
        self._settings = settings
        self.on = {
            Hangup: self._connection_broke,
            LinkDown: self._connection_broke,
            HostDown: self._down,
            CallbackReturned: self._callback_returned,
            MemberFailed: self._failed,
            MemberBecame: self._became,
        }
        self.on[sent(StoreOps)] = self._storms_by
        begins = [(*row.begins, kind) for kind, row in ROWS.items() if row.begins is not None]
        ended = [(message, kind) for kind, row in ROWS.items() for message in row.ends]
        for kind, row in ROWS.items():
            if kind is Fetch and not settings.replicated:
                continue
            self.on[sent(kind)] = self._asks_as(kind)
            self.on[received(row.replies)] = self._answered_as(kind)
        self.shown_to(dict.fromkeys((received(OffsetCommitReply), received(RangeCommitReply)), self._commit_answered))
        self.shown_to({sent(AlterIsr): self._storms_by})
        for message, kind in ended:
            self.shown_to({sent(message): self._ended_as(kind), received(message): self._ended_as(kind)})
        for request, reply, kind in begins:
            self.shown_to({sent(request): self._begins_as(kind), received(reply): self._begun_as(kind)})
        self.shown_to(settings.on)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings)

    # --- requests ----------------------------------------------------------------------------------------------

    def _line(self, kind: type, key: _Key) -> _Line | None:
        row, actor = ROWS[kind], key if isinstance(key, str) else key[0]
        owner = row.owner(actor) if row.judges is None or row.judges(self._settings, actor) else None
        line = None
        if owner is not None:
            span = None if row.span is None else row.span(self._settings, actor)
            line = _Line(kind, owner, span, fails=row.backoff_us is not None)
            self._lines[owner] = (*self._lines.get(owner, ()), line)
        self._line_of[kind][key] = line
        return line

    def _asks_as(self, kind: type) -> Callable[[Seen, Send], None]:
        row, known = ROWS[kind], self._line_of[kind]
        at_a_time, by_peer = row.at_a_time, row.by_peer
        follows, produces, beats = kind is Fetch, kind is Produce, kind is Heartbeat

        def asks(seen: Seen, fact: Send) -> None:
            to, _, request_id, _, request = fact
            if follows and request.replica_id < 0:  # consumers send too many fetches to watch each fetch
                return
            if produces and not request.acks:  # never answered
                return
            key = (seen[2], to) if by_peer else seen[2]
            line = known[key] if key in known else self._line(kind, key)
            if line is None:
                return
            if beats and seen[2] in self._late:
                self._say_late(seen[2])
            in_flight = line.in_flight
            if at_a_time and len(in_flight) >= at_a_time:
                self._say(seen, "too-many", seen.actor, kind, f"while {len(in_flight)} sent before have no answer")
            if line.sent_us >= 0:
                if line.has_least and (not row.exact or request == line.last):  # another request may be sent at once
                    self._judge_interval(seen, row, kind, line)
            elif line.lost_us >= 0 and row.lost_us is not None and request == line.last:
                self._judge_backoff(seen, kind, seen.at_us - line.lost_us, line.backoff_us)
            if row.exact:
                if line.failures == 1:
                    self._judge_retry(seen, kind, line, request)
                line.last = request
            if self._broke != (seen[0], seen[2], to):
                if in_flight:
                    in_flight[request_id] = to
                else:
                    line.in_flight = {request_id: to}
            line.sent_us, line.lost_us, line.good, line.due_us = seen[1], -1, False, _NEVER_US

        return asks

    def _judge_interval(self, seen: Seen, row: PaceRow, kind: type, line: _Line) -> None:
        after_us = seen.at_us - line.sent_us
        if line.good and line.span is not None:
            line.early = line.early + 1 if after_us < line.span.least_us * 9 // 10 else 0
            if line.early >= EARLY:
                text = f"{after_us / 1e6:.3f} s after the one before it, instead of {line.span.least_us / 1e6:.3f} s"
                self._say(seen, "too-soon", seen.actor, kind, text)
                line.early = 0
        elif not line.good and line.answered_us >= line.sent_us and row.backoff_us is not None:
            self._judge_backoff(seen, kind, seen.at_us - line.answered_us, line.backoff_us)

    def _judge_backoff(self, seen: Seen, kind: type, after_us: int, least_us: int) -> None:
        if after_us < least_us * 3 // 4:
            text = f"{after_us / 1e6:.3f} s after a failed one, instead of {least_us / 1e6:.3f} s"
            self._say(seen, "too-soon", seen.actor, kind, text)

    def _judge_retry(self, seen: Seen, kind: type, line: _Line, request: object) -> None:
        """Judge the first retry. Later retries may also wait for the connection."""
        failed_us = line.answered_us if line.sent_us >= 0 else line.lost_us
        after_us, host = seen.at_us - failed_us, host_of(seen.actor)
        if failed_us < 0 or after_us <= line.backoff_us * 3 // 2 or request != line.last:
            return
        able_us = self.panel.disturbances.undisturbed_since_us((host,))
        if able_us is not None and able_us < failed_us:
            text = f"{after_us / 1e6:.3f} s after the same request failed, instead of {line.backoff_us / 1e6:.3f} s"
            self._say(seen, "too-late", seen.actor, kind, text)

    def _answered_as(self, kind: type) -> Callable[[Seen, Received], None]:
        row, by_peer = ROWS[kind], ROWS[kind].by_peer
        known, is_good = self._line_of[kind], GOOD.get(row.replies)

        def answered(seen: Seen, fact: Received) -> None:
            key = (seen[2], fact[0]) if by_peer else seen[2]
            line = known.get(key)
            if line is None or line.in_flight.pop(fact[2], None) is None:
                return
            is_last = not line.in_flight
            if is_last:
                line.in_flight = _NONE_IN_FLIGHT
            line.failures = 0
            if not line.is_paced:
                if is_last and row.at_a_time == 1:  # such requests are rare, and nothing is known but their answers
                    del known[key]
                    self._lines[line.owner] = tuple([each for each in self._lines[line.owner] if each is not line])
                return
            at_us = seen.at_us
            if is_last:  # otherwise the answer to the last request is outstanding
                line.answered_us = at_us
                line.good = line.sent_us >= 0 and (is_good is None or is_good(fact[4]))
                if not line.good and row.backoff_us is not None:
                    line.failures = 1
                    after = row.backoff_after
                    line.backoff_us = row.backoff_us(self._settings, seen.actor) if after is None else after(fact[4])
            if line.good and line.span is not None:
                line.due_us = max(line.sent_us + line.span.most_us, at_us + SLACK_US)
                if at_us >= self._looks_us:
                    self._look(seen)

        return answered

    def _begins_as(self, kind: type) -> Callable[[Seen, Send], None]:
        def begins(seen: Seen, fact: Send) -> None:
            self._may_begin[kind, seen.actor] = None

        return begins

    def _begun_as(self, kind: type) -> Callable[[Seen, Received], None]:
        known = self._line_of[kind]

        def begun(seen: Seen, fact: Received) -> None:
            if (kind, seen.actor) not in self._may_begin:  # a late answer to a member that has left or joins again
                return
            line = known[seen.actor] if seen.actor in known else self._line(kind, seen.actor)
            if line is not None and GOOD[type(fact.message)](fact.message):
                line.in_flight = _NONE_IN_FLIGHT
                line.sent_us, line.lost_us, line.good, line.early = seen.at_us, -1, True, 0
                line.due_us = _NEVER_US if line.span is None else seen.at_us + line.span.most_us

        return begun

    def _ended_as(self, kind: type) -> Callable[[Seen, Any], None]:
        def ended(seen: Seen, fact: Any) -> None:
            if kind is Heartbeat and not isinstance(fact.message, LeaveGroup):  # MemberBecame tells why it left
                self._say_late(seen.actor)
            self._leave(kind, seen.actor)

        return ended

    def _leave(self, kind: type, actor: ActorName) -> None:
        """End the rhythm; the answer to an earlier request does not begin the rhythm again.

        Source: ``AbstractCoordinator.SyncGroupResponseHandler``, ``hasGenerationReset``.
        """
        self._may_begin.pop((kind, actor), None)
        self._end(kind, actor)

    def _end(self, kind: type, actor: ActorName) -> None:
        for line in self._lines.get(actor, ()):
            if line.kind is kind:
                line.due_us, line.sent_us, line.lost_us, line.early = _NEVER_US, -1, -1, 0

    def _commit_answered(self, seen: Seen, fact: Received) -> None:
        """End the rhythm after an error, which may end the membership."""
        if any(outcome.error is not ErrorCode.NONE for outcome in fact.message.outcomes):
            self._end(Heartbeat, seen.actor)

    def _failed(self, seen: Seen, fact: MemberFailed) -> None:
        self._say_late(seen.actor)
        self._leave(Heartbeat, seen.actor)

    def _callback_returned(self, seen: Seen, fact: CallbackReturned) -> None:
        # A Streams thread closes its tasks before its consumer.
        if fact.callback != "onPartitionsAssigned" and not self._settings.is_streams(seen.actor):
            self._called_back[seen.actor] = (seen.seq, seen.at_us - fact.took_us)

    def _say_late(self, actor: ActorName, stopped_us: int = _NEVER_US) -> None:
        """Report the overdue heartbeat of a member, unless heartbeats were stopped when it was due.

        ``close()`` stops the heartbeat thread, calls the listener, and then leaves. A host that ends earlier does not
        show whether ``close()`` had begun. Source: ``AbstractCoordinator.close`` (2.4 to 4.3).
        """
        late = self._late.pop(actor, None)
        if late is not None and late.due_us < stopped_us:
            self._say(late.seen, "overdue", actor, Heartbeat, late.text, liveness=True)

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        step, began_us = self._called_back.pop(seen.actor, (-1, 0))
        self._say_late(seen.actor, began_us if fact.why == CLOSED and step == seen.seq else _NEVER_US)
        if fact.new in ("CLOSED", "FAILED", "UNJOINED"):  # A static member that polls too late sends no LeaveGroup.
            self._leave(Heartbeat, seen.actor)
        if fact.new == ModernState.RECONCILING.value:  # AbstractMembershipManager commits before a revocation
            self._end(OffsetCommit, seen.actor)

    def _storms_by(self, seen: Seen, fact: Send) -> None:
        since_us, counts = self._storms.get(seen.actor, (-STORM_US, {}))
        if seen.at_us - since_us >= STORM_US:
            since_us, counts = self._storms[seen.actor] = seen.at_us, {}
        request = fact.message
        if isinstance(request, StoreOps) and any(op.kind in WRITES for each in request.transactions for op in each.ops):
            counts.clear()  # a repeated read may return another state
        counts[request] = number = counts.get(request, 0) + 1
        if number == STORM:
            self._say(seen, "too-many", seen.actor, type(request), f"{number} times within a second, all equal")

    # --- connections and hosts ---------------------------------------------------------------------------------

    def _connection_broke(self, seen: Seen, fact: Hangup | LinkDown) -> None:
        self._broke = (seen.seq, seen.actor, fact.peer)
        for line in self._lines.get(seen.actor, ()):
            lost = [number for number, peer in line.in_flight.items() if peer == fact.peer]
            for number in lost:
                del line.in_flight[number]
            line.due_us, line.sent_us = _NEVER_US, -1
            lost_us = ROWS[line.kind].lost_us
            if lost and lost_us is not None:
                line.lost_us, line.backoff_us = seen.at_us, lost_us(self._settings, seen.actor)
                line.failures += 1

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._late = {actor: late for actor, late in self._late.items() if host_of(actor) != fact.host}
        self._may_begin = {key: None for key in self._may_begin if host_of(key[1]) != fact.host}
        self._lines = {actor: lines for actor, lines in self._lines.items() if host_of(actor) != fact.host}
        for known in self._line_of.values():
            for key in [key for key in known if host_of(key if isinstance(key, str) else key[0]) == fact.host]:
                del known[key]

    # --- time --------------------------------------------------------------------------------------------------

    def finish(self, at_us: int) -> None:
        """Judge the requests that are overdue at the end of the run."""
        self._look(self._last._replace(at_us=at_us))
        for actor in tuple(self._late):
            self._say_late(actor)

    def _look(self, seen: Seen) -> None:
        self._looks_us, self._last = seen.at_us + LOOK_US, seen
        overdue = [
            (actor, line.kind, line)
            for actor, lines in self._lines.items()
            for line in lines
            if line.due_us < seen.at_us
        ]
        for actor, kind, line in overdue:
            assert line.span is not None
            able_us = self._able_since_us(kind, host_of(actor))
            if able_us is not None and seen.at_us > max(line.due_us, able_us + line.span.most_us):
                text = f"for {(seen.at_us - line.sent_us) / 1e6:.3f} s, although one is due after"
                text += f" {line.span.least_us / 1e6:.3f} s"
                if kind is Heartbeat:
                    self._late[actor] = _Late(line.due_us, seen, text)
                else:
                    self._say(seen, "overdue", actor, kind, text, liveness=True)
                line.due_us = _NEVER_US

    def _able_since_us(self, kind: type, host: str) -> int | None:
        """Time since which a host can send this request, in us; None for a host that cannot send now. A follower first
        writes to a disk, which may be slow.
        """
        disturbances = self.panel.disturbances
        return disturbances.undisturbed_since_us((host,)) if kind is Fetch else disturbances.runs_since_us(host)

    def _say(self, seen: Seen, kind: str, actor: str, request: type, text: str, *, liveness: bool = False) -> None:
        verb = "sent no" if liveness else "sent a"
        text = f"{actor} {verb} {request.__name__} {text}"
        self.violation(seen, kind, (actor, request.__name__), text, liveness=liveness)
