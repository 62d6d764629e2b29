"""Messages of the metadata store: ZooKeeper's operations, sessions and watches.

A client is a broker's controller actor, or the broker itself. A client opens a session, or attaches to the session of
its process: a Kafka broker has one session for both roles. In the session the client sends ``StoreOps``: transactions,
executed in order, with one answer each. All messages from the store to a client arrive in order on the connection that
the client opened. The store sends:

* the reply to each request, in the order of the requests;
* ``StoreEvents``: watches that fired, as further replies to ``OpenSession``. Such an event precedes any reply with the
  new state, so that a client sees a watch's event before the change itself.

Watches belong to the connection's client, and fire once. A client that reconnects sends its remaining watches
(ZooKeeper's setWatches). Watches on nodes that have changed since the last connection fire at once. Changes between an
event and the next registration fire no watch, so clients first register and then read.

After a lost connection the client does not know whether the store executed its last writes. Only the store reports an
expiry.

The API keys are kemu's own (Kafka's keys are below 100); ``StoreOpKind`` has the opcodes of ZooKeeper's protocol.
Source: ZooKeeper 3.5 programmer's guide.
"""

from enum import IntEnum

from kemu.protocol.wire.schema import REPLY, REQUEST, message, struct

ANY_VERSION = -1
NO_SESSION = 0


class StoreOpKind(IntEnum):
    """The kinds of operations, with ZooKeeper's opcodes."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_CHILDREN = 12
    CHECK = 13


class CreateMode(IntEnum):
    """The mode of a new node, with ZooKeeper's flags. Sequential: the name ends with a ten-digit counter of
    the parent.
    """

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2


class StoreCode(IntEnum):
    """ZooKeeper's result codes."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    """An operation of a transaction failed because another operation failed."""
    CONNECTION_LOSS = -4
    """A client's own code for an unknown result; the store never sends it."""
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112


class WatchKind(IntEnum):
    """The read that set a watch: get or exists (of a node or its absence), or children. The read determines the
    changes that fire the watch.
    """

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
    """Open a session (id 0), or attach this connection to an existing session.

    ``timeout_ms``: the timeout of a new session. ``watches``: the client's remaining watches; the store drops all other
    watches of this client. ``last_zxid``: the last change that this client has seen; a watch whose node changed later
    fires at once.
    """

    session_id: int = NO_SESSION
    timeout_ms: int
    watches: tuple[Watch, ...] = ()
    last_zxid: int = 0


@message(api_key=100, kind=REPLY, versions=range(0, 1))
class OpenSessionReply:
    """The reply to OpenSession: OK, or SESSION_EXPIRED if the session does not exist."""

    code: StoreCode
    session_id: int
    timeout_ms: int


@message(api_key=101, kind=REQUEST, versions=range(0, 1))
class Ping:
    """Keep the session alive. Every other request also keeps the session alive."""

    session_id: int


@message(api_key=101, kind=REPLY, versions=range(0, 1))
class PingReply:
    """The reply to Ping: the store has received the ping."""

    code: StoreCode


@message(api_key=102, kind=REQUEST, versions=range(0, 1))
class CloseSession:
    """End a session: the store removes its ephemeral nodes and watches at once."""

    session_id: int


@message(api_key=102, kind=REPLY, versions=range(0, 1))
class CloseSessionReply:
    """The reply to CloseSession: the session has ended."""

    code: StoreCode


# --- operations ----------------------------------------------------------------------------------------------------


@struct
class StoreOp:
    """One operation. ``version`` -1: any version. ``watch`` applies to EXISTS, GET_DATA and GET_CHILDREN."""

    kind: StoreOpKind
    path: str
    data: bytes = b""
    version: int = ANY_VERSION
    mode: CreateMode = CreateMode.PERSISTENT
    watch: bool = False


@struct
class Transaction:
    """Operations that all succeed or all fail (ZooKeeper's multi). A read is always alone in its transaction."""

    ops: tuple[StoreOp, ...]


@message(api_key=103, kind=REQUEST, versions=range(0, 1))
class StoreOps:
    """Transactions to execute in order; ZooKeeper's client pipelines transactions over its connection."""

    session_id: int
    transactions: tuple[Transaction, ...]


@struct
class OpResult:
    """The result of one operation.

    ``path``: the path of the created node. ``data``, ``version``, ``czxid`` (of the creating change),
    ``ephemeral_owner`` (a session, or 0): the node after the operation. ``children``: the names of the children,
    sorted.
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
    """The result of a transaction. ``code``: OK, or the code of the failed operation. A failed transaction had no
    effect.
    """

    code: StoreCode
    results: tuple[OpResult, ...]


@message(api_key=103, kind=REPLY, versions=range(0, 1))
class StoreOpsReply:
    """The reply to StoreOps: a result per transaction. With another code than OK (SESSION_EXPIRED) no transaction was
    executed.
    """

    code: StoreCode
    zxid: int
    results: tuple[TransactionResult, ...]


@struct
class WatchEvent:
    """The event of a watch that fired: the watched node changed, and the watch is removed."""

    kind: WatchEventKind
    path: str


@message(api_key=104, kind=REPLY, versions=range(0, 1))
class StoreEvents:
    """Store -> client: events of watches that fired, in the order of the changes."""

    zxid: int
    events: tuple[WatchEvent, ...]
