"""The metadata store: a ZooKeeper ensemble as one actor (``zk``) that keeps what it has said and is never down.

One actor executes everything in the order it arrives, so writes are linearizable and a read is never staler than its
way back; faults that make a client's view older (a frozen session, delayed watches) keep the order that a session is
promised: every event and reply of a session arrives in the order of the changes.

Sessions: each request of a client keeps its session alive; one that is silent for its timeout expires, its ephemeral
nodes go, and whoever watched them is told. The client learns of it when it speaks to the store again.

Faults are told as commands: ``LoseStoreAnswer`` (executed, then the connection goes dead), ``FreezeSession``,
``DelayWatches``, ``ExpireSession``.

Source: ZooKeeper 3.5 programmer's guide, "ZooKeeper Sessions", "ZooKeeper Watches"; spec section 0.
"""

from actors.machine import Caller, Event, LinkDown, Machine, Received, TimerFired, Told, caller_of
from actors.store_tree import Change, Tree, Watches
from protocol.commands import (
    DelayWatches,
    ExpireSession,
    FreezeSession,
    LoseStoreAnswer,
    RemoveNode,
    SeedNodes,
    Start,
)
from protocol.messages.store import (
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
from protocol.names import ActorName
from protocol.notes import NodeWritten, SessionEnded, SessionOpened, StoreFaultHit

READS = (StoreOpKind.EXISTS, StoreOpKind.GET_DATA, StoreOpKind.GET_CHILDREN)


class _Session:
    """A live session and the actors that speak under it."""

    __slots__ = ("client", "frozen", "id", "inbox", "timeout_us")

    def __init__(self, number: int, client: ActorName, timeout_us: int) -> None:
        self.id = number
        self.client = client
        """Who opened it."""
        self.timeout_us = timeout_us
        self.frozen = False
        """Whether nothing is heard of its clients and said to them; it may expire so."""
        self.inbox: list[Received] = []
        """What arrived while it is frozen."""


class _Channel:
    """The connection of one actor. ``dead``: nothing is heard or said on it any more."""

    __slots__ = ("caller", "dead", "delay_us", "held", "session")

    def __init__(self, caller: Caller, session: _Session) -> None:
        self.caller = caller
        self.session = session
        self.dead = False
        self.delay_us = 0
        """How long to keep back the next watch event."""
        self.held: list[tuple[Caller, object]] | None = None
        """What waits behind a watch event that is kept back; None when none is."""


class Store(Machine):
    """The store. Give it no rule that crashes its host: an ensemble's state outlives any of its servers."""

    def __init__(self, name: ActorName = "zk") -> None:
        super().__init__(name)
        self.tree = Tree()
        self.watches = Watches()
        self.sessions: dict[int, _Session] = {}
        self._channels: dict[ActorName, _Channel] = {}
        self._frozen: dict[int, _Session] = {}
        self._last_session = 0
        self._losses: list[LoseStoreAnswer] = []

    def handle(self, event: Event) -> None:
        """Requests of sessions; silence; broken connections; faults."""
        match event:
            case Received(message=OpenSession() | StoreOps() | Ping() | CloseSession()):
                frozen = self._frozen.get(event.message.session_id) if self._frozen else None
                if frozen is not None:
                    frozen.inbox.append(event)
                else:
                    self._heard(event)
            case TimerFired(key=("session", number)):
                self._end(self.sessions[int(number)], "expired")
            case TimerFired(key=("thaw", number)):
                self._thaw(self._frozen.pop(int(number)))
            case TimerFired(key=("release", client)):
                self._release(client)
            case LinkDown(peer=peer):
                self._channels.pop(peer, None)
                self.watches.forget(peer)
                self.stop_timer(("release", peer))
            case Told(command=LoseStoreAnswer() as command):
                self._losses.append(command)
            case Told(command=FreezeSession(client=client, for_us=for_us)):
                self._freeze(client, for_us)
            case Told(command=DelayWatches(client=client, for_us=for_us)):
                if client in self._channels:
                    self._channels[client].delay_us = for_us
            case TimerFired(key=("linger", number)):
                self._remove_ephemerals(int(number), "")
            case Told(command=ExpireSession(client=client, linger_us=linger_us)):
                for session in [each for each in self.sessions.values() if each.client == client]:
                    self.note(StoreFaultHit(fault="ExpireSession", client=client))
                    self._end(session, "expired", linger_us)
            case Told(command=SeedNodes(nodes=nodes)):
                for path, data in nodes:
                    self._changed(self.tree.make(path, data), "")
            case Told(command=RemoveNode(path=path)):
                removal = StoreOp(kind=StoreOpKind.DELETE, path=path)
                self._changed(self.tree.write(NO_SESSION, (removal,))[1], "")
            case Told(command=Start()):
                pass
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _heard(self, event: Received) -> None:
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
        self.start_timer(("session", str(session.id)), session.timeout_us)
        match request:
            case StoreOps():
                self._execute(event, request, channel)
            case Ping():
                self._say(channel, caller_of(event), PingReply(code=StoreCode.OK))
            case CloseSession():
                self._end(session, "closed")
                self._say(channel, caller_of(event), CloseSessionReply(code=StoreCode.OK))

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
        self.start_timer(("session", str(session.id)), session.timeout_us)
        self.stop_timer(("release", event.peer))
        channel = self._channels[event.peer] = _Channel(caller_of(event), session)
        timeout_ms = session.timeout_us // 1000
        self.reply(event, OpenSessionReply(code=StoreCode.OK, session_id=session.id, timeout_ms=timeout_ms))
        fired = self.watches.reset(event.peer, request.watches, request.last_zxid, self.tree)
        if fired:
            self._say_events(channel, fired)

    def _end(self, session: _Session, why: str, linger_us: int = 0) -> None:
        """Its nodes go. Its clients' watches, too; what they sent and was not heard will find no session."""
        del self.sessions[session.id]
        self.stop_timer(("session", str(session.id)))
        self.note(SessionEnded(session_id=session.id, client=session.client, why=why))
        for client in [client for client, channel in self._channels.items() if channel.session is session]:
            self.watches.forget(client)
        if linger_us:
            self.start_timer(("linger", str(session.id)), linger_us)
        else:
            self._remove_ephemerals(session.id, session.client)

    def _remove_ephemerals(self, session_id: int, client: ActorName) -> None:
        self._changed(self.tree.end_session(session_id), client)

    def _changed(self, changes: list[Change], client: ActorName) -> None:
        """Changes that no operation of a client made."""
        for change in changes:
            self._note(change, client)
        self._tell_changes(changes)

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
        changes: list[Change] = []
        results = tuple(
            self._transaction(event.peer, request.session_id, each, changes) for each in request.transactions
        )
        if self._losses and self._loses(event.peer):
            channel.dead, channel.held = True, None
            self.note(StoreFaultHit(fault="LoseStoreAnswer", client=event.peer))
        self._tell_changes(changes)
        self._say(channel, caller_of(event), StoreOpsReply(code=StoreCode.OK, zxid=self.tree.zxid, results=results))

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

    def _loses(self, client: ActorName) -> bool:
        """Whether a LoseStoreAnswer is due with this request; all that match count it."""
        due = -1
        for index, loss in enumerate(self._losses):
            if loss.client in ("", client):
                self._losses[index] = LoseStoreAnswer(client=loss.client, nth=loss.nth - 1)
                if loss.nth <= 1 and due < 0:
                    due = index
        if due >= 0:
            del self._losses[due]
        return due >= 0

    # --- telling -----------------------------------------------------------------------------------------------

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

    def _tell_changes(self, changes: list[Change]) -> None:
        """Fire the watches of these changes: one message per client, before any reply that shows them."""
        told: dict[ActorName, list[WatchEvent]] = {}
        for change in changes:
            for watcher, event in self.watches.fire(change):
                told.setdefault(watcher, []).append(event)
        for watcher, events in told.items():
            channel = self._channels.get(watcher)
            if channel is not None:
                self._say_events(channel, events)

    def _say_events(self, channel: _Channel, events: list[WatchEvent]) -> None:
        if channel.delay_us and channel.held is None:
            self.note(StoreFaultHit(fault="DelayWatches", client=channel.caller.actor))
            self.start_timer(("release", channel.caller.actor), channel.delay_us)
            channel.delay_us = 0
            channel.held = []
        self._say(channel, channel.caller, StoreEvents(zxid=self.tree.zxid, events=tuple(events)))

    def _say(self, channel: _Channel, caller: Caller, message: object) -> None:
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
        if channel is None or channel.held is None or channel.session.frozen:
            return
        held, channel.held = channel.held, None
        for caller, message in held:
            self._say(channel, caller, message)

    # --- frozen sessions ---------------------------------------------------------------------------------------

    def _freeze(self, client: ActorName, for_us: int) -> None:
        channel = self._channels.get(client)
        if channel is None or channel.session.id not in self.sessions:
            return
        session = channel.session
        session.frozen = True
        self._frozen[session.id] = session
        self.note(StoreFaultHit(fault="FreezeSession", client=client))
        self.start_timer(("thaw", str(session.id)), for_us)

    def _thaw(self, session: _Session) -> None:
        session.frozen = False
        for client in [client for client, channel in self._channels.items() if channel.session is session]:
            self._release(client)
        inbox, session.inbox = session.inbox, []
        for event in inbox:
            self._heard(event)
