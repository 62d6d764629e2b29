"""The language of the metadata store: ZooKeeper's operations, sessions and watches.

A client (a broker's controller actor, or the broker itself) opens a session, or attaches to one that its process has
already: a Kafka broker has one session for both roles. Then it sends ``StoreOps``: transactions, executed in order, one
answer each. Everything the store says to a client travels on the connection the client opened, in order:

* the reply to each request, in the order of the requests;
* ``StoreEvents``: fired watches, said unasked (as a further reply to the ``OpenSession``). They leave before any reply
  that shows the new state, so that a client sees a watch's event before what it was about.

Watches are one-shot and belong to the connection's client; one that reconnects says which it still has (ZooKeeper's
setWatches), and the store fires at once those whose node changed meanwhile. Between an event and the next registration
changes are not signalled: register, then read.

A lost connection leaves the client not knowing whether its last writes happened. Expiry is learned only from the store.

These keys are ours (Kafka's stay below 100): ZooKeeper's protocol has opcodes instead, which ``StoreOpKind`` keeps.
Source: ZooKeeper 3.5 programmer's guide; spec section 0.
"""

from enum import IntEnum

from kemu.protocol.wire.schema import REPLY, REQUEST, message, struct

ANY_VERSION = -1
NO_SESSION = 0


class StoreOpKind(IntEnum):
    """ZooKeeper's opcodes."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_CHILDREN = 12
    CHECK = 13


class CreateMode(IntEnum):
    """ZooKeeper's flags. Sequential: ten digits, counted by the parent, are put behind the name."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2


class StoreCode(IntEnum):
    """ZooKeeper's result codes."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    """An operation of a transaction that failed because of another one."""
    CONNECTION_LOSS = -4
    """Never sent: how a client says that it does not know."""
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112


class WatchKind(IntEnum):
    """Which read set a watch, and so what fires it: get or exists (on a node, or on its absence), or children."""

    DATA = 0
    EXIST = 1
    CHILD = 2


class WatchEventKind(IntEnum):
    """ZooKeeper's event types."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


# --- sessions ------------------------------------------------------------------------------------------------------


@struct
class Watch:
    """A watch that a client has set."""

    kind: WatchKind
    path: str


@message(api_key=100, kind=REQUEST, versions=range(0, 1))
class OpenSession:
    """Begin a session (id 0), or take up the one with this id on this connection.

    ``timeout_ms`` is for a new one. ``watches``: those of this client that are still set; all others of it are
    forgotten. ``last_zxid``: the last change this client has seen; a watch whose node changed after it fires at once.
    """

    session_id: int = NO_SESSION
    timeout_ms: int
    watches: tuple[Watch, ...] = ()
    last_zxid: int = 0


@message(api_key=100, kind=REPLY, versions=range(0, 1))
class OpenSessionReply:
    """OK, or SESSION_EXPIRED: the id is no session (any more)."""

    code: StoreCode
    session_id: int
    timeout_ms: int


@message(api_key=101, kind=REQUEST, versions=range(0, 1))
class Ping:
    """Keep the session alive. Every other request does so, too."""

    session_id: int


@message(api_key=101, kind=REPLY, versions=range(0, 1))
class PingReply:
    """The store hears."""

    code: StoreCode


@message(api_key=102, kind=REQUEST, versions=range(0, 1))
class CloseSession:
    """End a session: its ephemeral nodes and watches go at once."""

    session_id: int


@message(api_key=102, kind=REPLY, versions=range(0, 1))
class CloseSessionReply:
    """The session is over."""

    code: StoreCode


# --- operations ----------------------------------------------------------------------------------------------------


@struct
class StoreOp:
    """One operation. ``version`` -1: whatever it is. ``watch`` counts for EXISTS, GET_DATA and GET_CHILDREN."""

    kind: StoreOpKind
    path: str
    data: bytes = b""
    version: int = ANY_VERSION
    mode: CreateMode = CreateMode.PERSISTENT
    watch: bool = False


@struct
class Transaction:
    """Operations that happen all or not at all (ZooKeeper's multi). Reads stand alone."""

    ops: tuple[StoreOp, ...]


@message(api_key=103, kind=REQUEST, versions=range(0, 1))
class StoreOps:
    """Transactions to be executed one after the other: what ZooKeeper's client pipelines over its connection."""

    session_id: int
    transactions: tuple[Transaction, ...]


@struct
class OpResult:
    """What one operation came to.

    ``path``: of the node created. ``data``, ``version``, ``czxid`` (of the creating change), ``ephemeral_owner`` (a
    session, or 0): the node after the operation. ``children``: names, sorted.
    """

    code: StoreCode
    path: str = ""
    data: bytes = b""
    children: tuple[str, ...] = ()
    version: int = -1
    czxid: int = -1
    ephemeral_owner: int = NO_SESSION


@struct
class TransactionResult:
    """``code``: OK, or that of the operation that failed; then nothing happened."""

    code: StoreCode
    results: tuple[OpResult, ...]


@message(api_key=103, kind=REPLY, versions=range(0, 1))
class StoreOpsReply:
    """A result per transaction; with a code other than OK (SESSION_EXPIRED) there are none and nothing was done."""

    code: StoreCode
    zxid: int
    results: tuple[TransactionResult, ...]


@struct
class WatchEvent:
    """A watch fired: it is gone, and what it watched changed."""

    kind: WatchEventKind
    path: str


@message(api_key=104, kind=REPLY, versions=range(0, 1))
class StoreEvents:
    """Watches that fired, in the order of the changes."""

    zxid: int
    events: tuple[WatchEvent, ...]
