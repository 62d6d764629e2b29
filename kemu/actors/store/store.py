"""The metadata store: a ZooKeeper ensemble as one actor (``zk``) with durable state.

One actor executes all requests in the order of arrival. So writes are linearizable, and a read is at most as stale as
its answer's latency. Some faults make a client's view older (a frozen session, delayed watches). Such faults keep
the order that ZooKeeper guarantees: all events and replies of a session arrive in the order of the changes.

Sessions: each request of a client keeps its session alive. A session expires after its timeout without a message: the
store removes its ephemeral nodes, and watches on the nodes fire. The client learns of the expiry with its next request.

While the store's host is down, no client is served: no server is up, or the servers elect a leader. The restart is the
start of the new leader, which has all nodes and sessions (``disk``), but no connection or watch. Each session's timeout
begins again, however long the store was down. So a client's session expires only if the client does not reconnect in
time. Clients set their watches again when they connect.

Faults are commands: ``LoseStoreAnswer`` (executed or not, then the connection is silent), ``FreezeSession``,
``DelayWatches``, ``ExpireSession``; ``EndStoreFault`` ends a fault. Each fault that takes effect is noted
(``StoreFaultHit``).

Source: ZooKeeper 3.5 programmer's guide, "ZooKeeper Sessions", "ZooKeeper Watches"; ``SessionTrackerImpl`` (tracks
every session anew when a leader begins), ``ZooKeeperServer.loadData`` (removes nodes of expired sessions).
"""

from kemu.actors.machine import Caller, Event, LinkDown, Loaded, Machine, Received, Record, TimerFired, Told, caller_of
from kemu.actors.store.disk import SavedSession, loaded, saved
from kemu.actors.store.tree import Change, Tree, Watches
from kemu.protocol.commands import (
    DelayWatches,
    EndStoreFault,
    ExpireSession,
    FreezeSession,
    LoseStoreAnswer,
    RemoveNode,
    SeedNodes,
    Start,
)
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
    StoreOp,
    StoreOpKind,
    StoreOps,
    StoreOpsReply,
    Transaction,
    TransactionResult,
    WatchEvent,
)
from kemu.protocol.names import STORE, ActorName
from kemu.protocol.notes.replication import (
    EXPIRED,
    NodeWritten,
    SessionEnded,
    SessionOpened,
    StoreFaultHit,
    StoreTookOver,
)

READS = (StoreOpKind.EXISTS, StoreOpKind.GET_DATA, StoreOpKind.GET_CHILDREN)


class _Session:
    """A live session and the actors that use it."""

    __slots__ = ("client", "frozen_by", "id", "inbox", "timeout_us")

    def __init__(self, number: int, client: ActorName, timeout_us: int) -> None:
        self.id = number
        self.client = client
        """The actor that opened the session."""
        self.timeout_us = timeout_us
        self.frozen_by: dict[int, None] = {}
        """The numbers of the faults that freeze the session.

        Messages to and from the clients of a frozen session wait, and the session may expire.
        """
        self.inbox: list[Received] = []
        """Messages that arrived while the session is frozen."""

    @property
    def frozen(self) -> bool:
        """Whether any fault freezes the session."""
        return bool(self.frozen_by)


class _Channel:
    """The connection of one actor. ``dead``: whether all messages of the connection are dropped."""

    __slots__ = ("caller", "dead", "held", "held_by", "session")

    def __init__(self, caller: Caller, session: _Session) -> None:
        self.caller = caller
        self.session = session
        self.dead = False
        self.held_by = -1
        """The number of the fault that delays a watch event."""
        self.held: list[tuple[Caller, object]] | None = None
        """Messages that wait after a delayed watch event; None without a delayed event."""


class Store(Machine):
    """The metadata store. An ensemble's state survives its servers: the next start must get ``on_disk``.

    ``tick_us``: the period of session expiry (ZooKeeper's tickTime), starting at ``tick_phase_us``; 0: exact timeouts.
    """

    def __init__(self, name: ActorName = STORE, *, tick_us: int = 0, tick_phase_us: int = 0) -> None:
        super().__init__(name)
        self._tick_us = tick_us
        self._tick_phase_us = tick_phase_us
        self.tree = Tree()
        self.watches = Watches()
        self.sessions: dict[int, _Session] = {}
        self._channels: dict[ActorName, _Channel] = {}
        self._frozen: dict[int, _Session] = {}
        self._last_session = 0
        self._losses: list[LoseStoreAnswer] = []
        self._delays: list[DelayWatches] = []
        """Faults that wait for their request or watch."""
        self._delayed_removals: dict[int, list[int]] = {}
        """Number of an expiry -> the sessions whose nodes are not removed yet."""

    def handle(self, event: Event) -> None:
        """React to requests of sessions, timeouts, broken connections, and faults."""
        match event:
            case Received(message=OpenSession() | StoreOps() | Ping() | CloseSession()):
                frozen = self._frozen.get(event.message.session_id) if self._frozen else None
                if frozen is not None:
                    frozen.inbox.append(event)
                else:
                    self._handle_request(event)
            case TimerFired(key=("session", number)):
                self._end(self.sessions[int(number)], EXPIRED)
            case TimerFired(key=("thaw", number)):
                self._unfreeze(self._frozen[int(number)], None)
            case TimerFired(key=("release", client)):
                self._release(client)
            case LinkDown(peer=peer):
                self._channels.pop(peer, None)
                self.watches.forget(peer)
                self.stop_timer(("release", peer))
            case TimerFired(key=("linger", number)):
                self._remove_ephemerals(int(number), "")
            case Told(command=SeedNodes(nodes=nodes)):
                for path, data in nodes:
                    self._changed(self.tree.make(path, data), "")
            case Told(command=RemoveNode(path=path)):
                removal = StoreOp(kind=StoreOpKind.DELETE, path=path)
                self._changed(self.tree.write(NO_SESSION, (removal,))[1], "")
            case Told(command=Start()):
                pass
            case Loaded(records=records):
                self._take_over(records)
            case Told(command=command):
                self._fault(command)
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _fault(self, command: object) -> None:
        match command:
            case LoseStoreAnswer():
                self._losses.append(command)
            case FreezeSession():
                self._freeze(command)
            case DelayWatches():
                self._delays.append(command)
            case ExpireSession(client=client):
                for session in [each for each in self.sessions.values() if each.client == client]:
                    self._expire(session, command)
            case EndStoreFault(number=number):
                self._end_fault(number)
            case _:
                raise AssertionError(f"{self.name}: {command}")

    def _handle_request(self, event: Received) -> None:
        request = event.message
        if type(request) is OpenSession:
            self._open(event, request)
            return
        session = self.sessions.get(request.session_id)
        channel = self._channels.get(event.peer)
        if channel is not None and channel.caller.connection == event.connection and channel.dead:
            return
        if session is None or channel is None or channel.caller.connection != event.connection:
            self._refuse(event, StoreCode.SESSION_EXPIRED if session is None else StoreCode.CONNECTION_LOSS)
            return
        if type(request) is not Ping or event.peer == session.client:
            # The ping of an attached part does not keep the session alive: the part pings only for its own
            # connection.
            self._keep_alive(session)
        match request:
            case StoreOps():
                self._execute(event, request, channel)
            case Ping():
                self._send(channel, caller_of(event), PingReply(code=StoreCode.OK))
            case CloseSession():
                self._end(session, "closed")
                self._send(channel, caller_of(event), CloseSessionReply(code=StoreCode.OK))

    # --- sessions ----------------------------------------------------------------------------------------------

    def _open(self, event: Received, request: OpenSession) -> None:
        session = self.sessions.get(request.session_id)
        if request.session_id == NO_SESSION:
            self._last_session += 1
            session = self.sessions[self._last_session] = _Session(
                self._last_session, event.peer, request.timeout_ms * 1000
            )
            self.note(SessionOpened(session_id=session.id, client=event.peer))
        if session is None:
            refused = OpenSessionReply(code=StoreCode.SESSION_EXPIRED, session_id=NO_SESSION, timeout_ms=0)
            self.reply(event, refused)
            return
        self._keep_alive(session)
        self.stop_timer(("release", event.peer))
        channel = self._channels[event.peer] = _Channel(caller_of(event), session)
        timeout_ms = session.timeout_us // 1000
        self.reply(event, OpenSessionReply(code=StoreCode.OK, session_id=session.id, timeout_ms=timeout_ms))
        fired = self.watches.reset(event.peer, request.watches, request.last_zxid, self.tree)
        if fired:
            self._send_events(channel, fired)

    def on_disk(self) -> tuple[Record, ...]:
        """The records for the next start: nodes and sessions."""
        sessions = [SavedSession(each.id, each.timeout_us, each.client) for each in self.sessions.values()]
        return saved(self.tree, sessions, self._last_session)

    def _take_over(self, records: tuple[Record, ...]) -> None:
        """Start as a new leader: load nodes and sessions, restart the timeouts, remove nodes of expired sessions."""
        self.tree, sessions, self._last_session = loaded(records)
        self.note(StoreTookOver(zxid=self.tree.zxid, nodes=len(self.tree.nodes), sessions=len(sessions)))
        for each in sessions:
            session = self.sessions[each.id] = _Session(each.id, each.client, each.timeout_us)
            self._keep_alive(session)
        for session_id in [each for each in self.tree.ephemerals if each not in self.sessions]:
            self._remove_ephemerals(session_id, "")

    def _keep_alive(self, session: _Session) -> None:
        """Restart the timeout. The session expires after its timeout, or at the first later check of the period."""
        us = session.timeout_us
        if self._tick_us:
            us += self._tick_us - (self.now_us + us - self._tick_phase_us) % self._tick_us
        self.start_timer(("session", str(session.id)), us)

    def _end(self, session: _Session, why: str, linger_us: int = 0) -> None:
        """Remove the session, its clients' watches and its nodes. Later requests will find no session."""
        del self.sessions[session.id]
        self.stop_timer(("session", str(session.id)))
        self.note(SessionEnded(session_id=session.id, client=session.client, why=why))
        for client in [client for client, channel in self._channels.items() if channel.session is session]:
            self.watches.forget(client)
        if linger_us:
            self.start_timer(("linger", str(session.id)), linger_us)
        else:
            self._remove_ephemerals(session.id, session.client)

    def _expire(self, session: _Session, command: ExpireSession) -> None:
        self.note(StoreFaultHit(fault="ExpireSession", client=command.client, number=command.number))
        if command.linger_us:
            self._delayed_removals.setdefault(command.number, []).append(session.id)
        self._end(session, EXPIRED, command.linger_us)

    def _remove_ephemerals(self, session_id: int, client: ActorName) -> None:
        self._changed(self.tree.end_session(session_id), client)

    def _changed(self, changes: list[Change], client: ActorName) -> None:
        """Note changes that no client's operation made, and fire the watches on the changed nodes."""
        for change in changes:
            self._note(change, client)
        self._fire_watches(changes)

    def _refuse(self, event: Received, code: StoreCode) -> None:
        match event.message:
            case StoreOps():
                self.reply(event, StoreOpsReply(code=code, zxid=self.tree.zxid, results=()))
            case Ping():
                self.reply(event, PingReply(code=code))
            case CloseSession():
                self.reply(event, CloseSessionReply(code=code))

    # --- operations --------------------------------------------------------------------------------------------

    def _execute(self, event: Received, request: StoreOps, channel: _Channel) -> None:
        loss = self._loss(event.peer, request) if self._losses else None
        if loss is not None:
            channel.dead, channel.held = True, None
            self.note(StoreFaultHit(fault="LoseStoreAnswer", client=event.peer, number=loss.number))
            if not loss.executed:
                return
        changes: list[Change] = []
        results = tuple(
            self._transaction(event.peer, request.session_id, each, changes) for each in request.transactions
        )
        self._fire_watches(changes)
        self._send(channel, caller_of(event), StoreOpsReply(code=StoreCode.OK, zxid=self.tree.zxid, results=results))

    def _transaction(
        self, client: ActorName, session_id: int, transaction: Transaction, changes: list[Change]
    ) -> TransactionResult:
        ops = transaction.ops
        if len(ops) == 1 and ops[0].kind in READS:
            result = self.tree.read(ops[0])
            if ops[0].watch:
                self._watch(client, ops[0], result.code)
            return TransactionResult(code=result.code, results=(result,))
        outcome, changed = self.tree.write(session_id, ops)
        changes.extend(changed)
        for change in changed:
            self._note(change, client)
        return outcome

    def _watch(self, client: ActorName, op: StoreOp, code: StoreCode) -> None:
        if code is StoreCode.OK or op.kind is StoreOpKind.EXISTS:
            self.watches.add(client, op.path, child=op.kind is StoreOpKind.GET_CHILDREN)

    def _loss(self, client: ActorName, request: StoreOps) -> LoseStoreAnswer | None:
        """The LoseStoreAnswer for this request, if any. All matching commands count the request."""
        writes = any(op.kind not in READS for each in request.transactions for op in each.ops)
        due: LoseStoreAnswer | None = None
        waiting: list[LoseStoreAnswer] = []
        for loss in self._losses:
            if loss.client not in ("", client) or (loss.writes_only and not writes):
                waiting.append(loss)
            elif loss.nth <= 1 and due is None:
                due = loss
            else:
                waiting.append(_one_less(loss))
        self._losses = waiting
        return due

    # --- sending -------------------------------------------------------------------------------------------------

    def _note(self, change: Change, client: ActorName) -> None:
        self.note(
            NodeWritten(
                what=change.what,
                path=change.path,
                data=change.data,
                version=change.version,
                zxid=self.tree.zxid,
                client=client,
            )
        )

    def _fire_watches(self, changes: list[Change]) -> None:
        """Fire the watches of these changes: one message per client, before any reply that contains the changes."""
        events_by_client: dict[ActorName, list[WatchEvent]] = {}
        for change in changes:
            for watcher, event in self.watches.fire(change):
                events_by_client.setdefault(watcher, []).append(event)
        for watcher, events in events_by_client.items():
            channel = self._channels.get(watcher)
            if channel is not None:
                self._send_events(channel, events)

    def _send_events(self, channel: _Channel, events: list[WatchEvent]) -> None:
        client = channel.caller.actor
        delay = next((each for each in self._delays if each.client == client), None) if self._delays else None
        if delay is not None and channel.held is None and not channel.dead:
            self._delays.remove(delay)
            self.note(StoreFaultHit(fault="DelayWatches", client=client, number=delay.number))
            if delay.for_us:
                self.start_timer(("release", client), delay.for_us)
            channel.held, channel.held_by = [], delay.number
        self._send(channel, channel.caller, StoreEvents(zxid=self.tree.zxid, events=tuple(events)))

    def _send(self, channel: _Channel, caller: Caller, message: object) -> None:
        if channel.dead:
            return
        if channel.held is not None or channel.session.frozen:
            if channel.held is None:
                channel.held = []
            channel.held.append((caller, message))
        else:
            self.reply(caller, message)

    def _release(self, client: ActorName) -> None:
        channel = self._channels.get(client)
        if channel is None or channel.held is None:
            return
        if channel.session.frozen:
            channel.held_by = -1  # the message waits only for the end of the freeze
            return
        held, channel.held, channel.held_by = channel.held, None, -1
        for caller, message in held:
            self._send(channel, caller, message)

    # --- frozen sessions, and the end of faults ------------------------------------------------------------------

    def _freeze(self, command: FreezeSession) -> None:
        session = self._session_of(command.client)
        if session is None:
            return
        session.frozen_by[command.number] = None
        self._frozen[session.id] = session
        self.note(StoreFaultHit(fault="FreezeSession", client=command.client, number=command.number))
        if command.for_us:
            self.start_timer(("thaw", str(session.id)), command.for_us)

    def _session_of(self, client: ActorName) -> _Session | None:
        """The live session that a client uses, or has opened."""
        channel = self._channels.get(client)
        if channel is not None and channel.session.id in self.sessions:
            return channel.session
        return next((each for each in self.sessions.values() if each.client == client), None)

    def _unfreeze(self, session: _Session, number: int | None) -> None:
        """End the freeze of a session by one fault, or (None) by all faults."""
        if number is None:
            session.frozen_by.clear()
        else:
            session.frozen_by.pop(number, None)
        if session.frozen:
            return
        del self._frozen[session.id]
        self.stop_timer(("thaw", str(session.id)))
        for client, channel in list(self._channels.items()):
            if channel.session is session and channel.held_by == -1:
                self._release(client)
        inbox, session.inbox = session.inbox, []
        for event in inbox:
            self._handle_request(event)

    def _end_fault(self, number: int) -> None:
        self._losses = [each for each in self._losses if each.number != number]
        self._delays = [each for each in self._delays if each.number != number]
        for client in [client for client, channel in self._channels.items() if channel.held_by == number]:
            self.stop_timer(("release", client))
            self._release(client)
        for session in [each for each in self._frozen.values() if number in each.frozen_by]:
            self._unfreeze(session, number)
        for session_id in self._delayed_removals.pop(number, ()):
            self.stop_timer(("linger", str(session_id)))
            self._remove_ephemerals(session_id, "")


def _one_less(loss: LoseStoreAnswer) -> LoseStoreAnswer:
    """The fault after a matching request, with one request fewer to count."""
    return LoseStoreAnswer(
        client=loss.client,
        nth=loss.nth - 1,
        executed=loss.executed,
        writes_only=loss.writes_only,
        number=loss.number,
    )
