"""The client's side of the metadata store: a session, its watches, and operations that survive a lost connection.

The session is a part of a machine. Operations whose connection was lost are sent again over the next connection. The
store may have executed the operations before. So a retried create may answer NODE_EXISTS and a retried conditional
write BAD_VERSION; the submitter must check. When the session expires, all submitted operations are dropped.

At most ``max_in_flight`` transactions are in flight; others wait, in order. A connection is closed after two thirds of
the session's timeout without a message from the store, however young its requests are. Source: Kafka's
``ZooKeeperClient`` and ``KafkaZkClient.retryRequestsUntilConnected``; ZooKeeper's ``ClientCnxn``.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from kemu.actors.client import DISCONNECTED, Backoff, Client
from kemu.actors.machine import Draws, Event, LinkDown, Machine, Received, TimerFired, TimerKey
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.messages.store import (
    NO_SESSION,
    CloseSession,
    CloseSessionReply,
    OpenSession,
    OpenSessionReply,
    Ping,
    PingReply,
    StoreCode,
    StoreEvents,
    StoreOpKind,
    StoreOps,
    StoreOpsReply,
    Transaction,
    TransactionResult,
    Watch,
    WatchEvent,
    WatchEventKind,
    WatchKind,
)
from kemu.protocol.names import ActorName

VERSION = 0
RECONNECT_BACKOFF_US = 500_000
"""ZooKeeper's client waits a random time below a second before it reconnects; this constant is the mean."""

TIMERS = "store"
"""The first element of a session's timer keys."""


class SessionTimer(StrEnum):
    """The second element of a session's timer keys."""

    PING = "ping"
    """A third of the session's timeout has passed."""
    READ = "read"
    """The client closes the connection if two thirds of the timeout have passed without a message, or if a close
    was not answered.
    """
    RECONNECT = "reconnect"
    """The back-off before a new connection has passed."""


PING, READ_TIMEOUT, RECONNECT = ((TIMERS, timer) for timer in SessionTimer)

Done: TypeAlias = Callable[[tuple[TransactionResult, ...]], None]


class SessionState(Enum):
    """The state of the session.

    CLOSED -> CONNECTING (open, attach) -> CONNECTED <-> CONNECTING; -> EXPIRED (learned from the store) -> CONNECTING
    (open, attach again); CLOSING -> CLOSED.
    """

    CLOSED = "closed"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    EXPIRED = "expired"
    CLOSING = "closing"


class SessionUser(Protocol):
    """The user of a session, which is its machine."""

    def session_opened(self, session_id: int) -> None:
        """React to a session that was opened, or to which the process attached."""

    def session_expired(self) -> None:
        """React to the expiry of the session; submitted operations will not be answered."""

    def session_closed(self, code: StoreCode) -> None:
        """React to the end of the session after ``close``."""

    def watch_fired(self, event: WatchEvent) -> None:
        """React to a watch that fired and was removed."""


class _Submission:
    """The transactions of one call, which are answered together."""

    __slots__ = ("done", "left", "results")

    def __init__(self, count: int, done: Done) -> None:
        self.results: list[TransactionResult | None] = [None] * count
        self.left = count
        self.done = done


class _Item(NamedTuple):
    """One transaction of a submission, with its index in the submission."""

    submission: _Submission
    place: int
    transaction: Transaction


class StoreSession:
    """A client's session. ``store``: the store's actor.

    The machine passes every event to ``handle`` first, which returns whether the event was the session's.
    """

    def __init__(
        self,
        machine: Machine,
        user: SessionUser,
        *,
        store: ActorName,
        timeout_ms: int,
        max_in_flight: int = 10,
        draws: Draws = CALM,
    ) -> None:
        self._draws = draws
        self._machine = machine
        self._user = user
        self._store = store
        self._timeout_us = timeout_ms * 1000
        self._silence_us = self._timeout_us * 2 // 3
        self._max_in_flight = max_in_flight
        self._client = Client(
            machine,
            request_timeout_us=self._silence_us,
            reconnect=Backoff(RECONNECT_BACKOFF_US, RECONNECT_BACKOFF_US),
            chance=None,
            link_lost=self._lost_connection,
            deadline=READ_TIMEOUT,
        )
        self._last_received_us = 0
        """The time of the last message from the store, or of the last connection attempt."""
        self._timers: Mapping[TimerKey, Callable[[], None]] = {
            PING: self._ping,
            READ_TIMEOUT: self._client.deadline_passed,
            RECONNECT: self._connect,
        }
        self.state = SessionState.CLOSED
        self.id = NO_SESSION
        self._announced = False
        """Whether the user knows of this session."""
        self._in_flight = 0
        """The number of transactions in flight."""
        self._to_resend: list[_Item] = []
        """Transactions that were in flight when the connection broke; the next connection sends them first."""
        self._waiting: deque[_Item] = deque()
        self._watches: dict[tuple[WatchKind, str], None] = {}
        self._last_zxid = 0

    # --- the user's calls ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open a new session; attempts are repeated until one succeeds."""
        assert self.state in (SessionState.CLOSED, SessionState.EXPIRED), self.state
        self._begin(NO_SESSION)

    def attach(self, session_id: int) -> None:
        """Use the session that another actor of the process opened, unless it is already in use."""
        if self.state in (SessionState.CONNECTING, SessionState.CONNECTED):
            if session_id == self.id:
                return
            self._drop()
        self._begin(session_id)

    def close(self, timeout_us: int) -> None:
        """End the session; unanswered operations are dropped. ``session_closed`` is called at the end."""
        if self.state is not SessionState.CONNECTED:
            self._drop()
            self._finish_close(StoreCode.CONNECTION_LOSS)
            return
        self._drop_work()
        self.state = SessionState.CLOSING
        self._call(CloseSession(session_id=self.id), self._closed, timeout_us=timeout_us)

    def submit(self, transactions: Sequence[Transaction], done: Done) -> None:
        """Execute transactions in order, each separately; ``done`` gets a result per transaction."""
        if self.state not in (SessionState.CONNECTING, SessionState.CONNECTED):
            return  # dropped with its session, as if submitted just before the expiry
        submission = _Submission(len(transactions), done)
        if not transactions:
            done(())
            return
        for place, transaction in enumerate(transactions):
            self._waiting.append(_Item(submission, place, transaction))
        self._pump()

    # --- events ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> bool:
        """React to an event of the session; False for other events."""
        match event:
            case Received(peer=peer) if peer == self._store:
                self._received(event)
            case LinkDown(peer=peer) if peer == self._store:
                self._client.connection_broke(peer, DISCONNECTED)
            case TimerFired(key=key) if key in self._timers:
                self._timers[key]()
            case _:
                return False
        return True

    def _call(
        self,
        request: object,
        answered: Callable[[Any, Any], None],
        items: Sequence[_Item] = (),
        timeout_us: int | None = None,
    ) -> None:
        """Send a request. The connection is lost after the time limit for silence, or without an answer in
        ``timeout_us``.
        """
        left_us = self._last_received_us + self._silence_us - self._machine.now_us
        if timeout_us is not None:
            left_us = min(left_us, timeout_us)
        self._client.call(self._store, request, VERSION, answered, self._unanswered, items, max(1, left_us))

    def _unanswered(self, why: str, items: Sequence[_Item]) -> None:
        self._to_resend.extend(items)

    def _ping(self) -> None:
        if self.state is SessionState.CONNECTED:
            self._call(Ping(session_id=self.id), self._pinged)
            self._machine.start_timer(PING, self._timeout_us // 3)

    def hours_pass(self) -> None:
        """Ping now, and move the next ping to a random point of the interval."""
        if self.state is SessionState.CONNECTED:
            self._ping()
            every_us = self._timeout_us // 3
            self._machine.start_timer(PING, self._draws.us(DrawName.STORE_PING_PHASE, every_us, every_us))

    def _received(self, event: Received) -> None:
        if self.state is not SessionState.CLOSING:
            self._last_received_us = self._machine.now_us
            self._client.postpone(self._store, self._last_received_us + self._silence_us)
        match event.message:
            case StoreEvents(zxid=zxid, events=events):
                if self.state is SessionState.CONNECTED:
                    self._fired(zxid, events)
            case _:
                self._client.reply_arrived(event)  # False: an answer to an abandoned request

    def _fired(self, zxid: int, events: tuple[WatchEvent, ...]) -> None:
        self._last_zxid = max(self._last_zxid, zxid)
        for fired in events:
            self._forget_watch(fired)
        for fired in events:
            self._user.watch_fired(fired)

    def _pinged(self, reply: PingReply, _: object) -> None:
        if reply.code is StoreCode.SESSION_EXPIRED:
            self._expired()

    def _closed(self, reply: CloseSessionReply, _: object) -> None:
        self._finish_close(reply.code)

    # --- connection --------------------------------------------------------------------------------------------

    def _begin(self, session_id: int) -> None:
        self.id = session_id
        self._watches = {}
        self._announced = False
        self._connect()

    def _connect(self) -> None:
        self.state = SessionState.CONNECTING
        watches = tuple(Watch(kind=kind, path=path) for kind, path in self._watches)
        request = OpenSession(
            session_id=self.id, timeout_ms=self._timeout_us // 1000, watches=watches, last_zxid=self._last_zxid
        )
        self._last_received_us = self._machine.now_us
        self._call(request, self._opened)

    def _opened(self, reply: OpenSessionReply, _: object) -> None:
        if reply.code is not StoreCode.OK:
            self._expired()
            return
        self.state = SessionState.CONNECTED
        self.id = reply.session_id
        self._machine.start_timer(PING, self._timeout_us // 3)
        if not self._announced:
            self._announced = True
            self._user.session_opened(self.id)
        self._waiting.extendleft(reversed(self._to_resend))
        self._to_resend = []
        self._pump()

    def _lost_connection(self, store: ActorName, why: str) -> None:
        """Send transactions in flight again, before the waiting ones: their result is unknown."""
        if self.state is SessionState.CLOSING:
            self._finish_close(StoreCode.CONNECTION_LOSS)
        elif self.state in (SessionState.CONNECTED, SessionState.CONNECTING):
            self.state = SessionState.CONNECTING
            self._in_flight = 0
            self._stop_timers()
            wait_us = self._client.available_at(store) - self._machine.now_us
            self._machine.start_timer(RECONNECT, self._draws.us(DrawName.STORE_RECONNECT, wait_us))

    def _expired(self) -> None:
        self._drop()
        self.state = SessionState.EXPIRED
        self._user.session_expired()

    def _drop(self) -> None:
        self._client.forget(self._store)
        self._drop_work()
        self._stop_timers()
        self._watches = {}
        self.id = NO_SESSION
        self.state = SessionState.CLOSED

    def _finish_close(self, code: StoreCode) -> None:
        self._drop()
        self._user.session_closed(code)

    def _drop_work(self) -> None:
        self._client.forget_requests(self._store)
        self._in_flight = 0
        self._to_resend = []
        self._waiting.clear()

    def _stop_timers(self) -> None:
        for key in (PING, RECONNECT):
            self._machine.stop_timer(key)

    # --- operations --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        while self.state is SessionState.CONNECTED and self._waiting and self._in_flight < self._max_in_flight:
            count = min(self._max_in_flight - self._in_flight, len(self._waiting))
            items = [self._waiting.popleft() for _ in range(count)]
            request = StoreOps(session_id=self.id, transactions=tuple(item.transaction for item in items))
            self._in_flight += count
            self._call(request, self._answered, items)

    def _answered(self, reply: StoreOpsReply, items: list[_Item]) -> None:
        if reply.code is StoreCode.SESSION_EXPIRED:
            self._expired()
            return
        if reply.code is not StoreCode.OK:
            self._to_resend.extend(items)
            self._machine.hang_up(self._store)
            self._client.connection_broke(self._store, reply.code.name)
            return
        self._in_flight -= len(items)
        self._last_zxid = max(self._last_zxid, reply.zxid)
        finished: list[_Submission] = []
        for item, result in zip(items, reply.results, strict=True):
            submission = item.submission
            submission.results[item.place] = result
            submission.left -= 1
            if submission.left == 0:
                finished.append(submission)
            op = item.transaction.ops[0]
            if op.watch:
                self._remember_watch(op.kind, op.path, result.code)
        for submission in finished:
            submission.done(tuple(result for result in submission.results if result is not None))
        self._pump()

    # --- watches -----------------------------------------------------------------------------------------------

    def _remember_watch(self, kind: StoreOpKind, path: str, code: StoreCode) -> None:
        if code is StoreCode.OK:
            child = kind is StoreOpKind.GET_CHILDREN
            self._watches[WatchKind.CHILD if child else WatchKind.DATA, path] = None
        elif kind is StoreOpKind.EXISTS:
            self._watches[WatchKind.EXIST, path] = None

    def _forget_watch(self, event: WatchEvent) -> None:
        kinds = {
            WatchEventKind.NODE_CREATED: (WatchKind.DATA, WatchKind.EXIST),
            WatchEventKind.NODE_DATA_CHANGED: (WatchKind.DATA, WatchKind.EXIST),
            WatchEventKind.NODE_CHILDREN_CHANGED: (WatchKind.CHILD,),
            WatchEventKind.NODE_DELETED: (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD),
        }[event.kind]
        for kind in kinds:
            self._watches.pop((kind, event.path), None)
