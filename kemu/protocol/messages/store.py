"""Messages of the metadata store: ZooKeeper's operations, sessions and watches.

A client is a broker's controller actor, or the broker itself. A client opens a session, or attaches to the one of its
process:
a Kafka broker has one session for both roles. Then it sends ``StoreOps``: transactions, executed in order, with one
answer each. All messages from the store to a client travel in order on the connection that the client opened:

* the reply to each request, in the order of the requests;
* ``StoreEvents``: fired watches, sent unasked (as further replies to ``OpenSession``). Fired watches precede any reply
  that shows the new state, so that a client sees a watch's event before the change itself.

Watches are one-shot and belong to the connection's client. A client that reconnects sends its remaining watches
(ZooKeeper's setWatches), and the store fires at once those whose node changed meanwhile. Between an event and the next
registration changes are not signalled: register, then read.

After a lost connection the client does not know whether its last writes happened. Only the store reports an expiry.

The API keys are kemu's own (Kafka's stay below 100); ``StoreOpKind`` has the opcodes of ZooKeeper's protocol.
Source: ZooKeeper 3.5 programmer's guide.
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
    """ZooKeeper's flags. Sequential: the store appends a ten-digit counter of the parent to the name."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2


class StoreCode(IntEnum):
    """ZooKeeper's result codes."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    """An operation of a transaction failed because of another one."""
    CONNECTION_LOSS = -4
    """Never sent: a client's own code for an unknown result."""
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112


class WatchKind(IntEnum):
    """The read that set a watch, which decides what fires it: get or exists (a node, or its absence), or children."""

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
    """Open a session (id 0), or attach this connection to an existing one.

    ``timeout_ms`` is for a new one. ``watches``: the client's remaining watches; the store drops all others of this
    client.
    ``last_zxid``: the last change this client has seen; a watch whose node changed after it fires at once.
    """

    session_id: int = NO_SESSION
    timeout_ms: int
    watches: tuple[Watch, ...] = ()
    last_zxid: int = 0


@message(api_key=100, kind=REPLY, versions=range(0, 1))
class OpenSessionReply:
    """OK, or SESSION_EXPIRED if the session does not exist (any more)."""

    code: StoreCode
    session_id: int
    timeout_ms: int


@message(api_key=101, kind=REQUEST, versions=range(0, 1))
class Ping:
    """Keep the session alive. Every other request does so, too."""

    session_id: int


@message(api_key=101, kind=REPLY, versions=range(0, 1))
class PingReply:
    """The store has received the ping."""

    code: StoreCode


@message(api_key=102, kind=REQUEST, versions=range(0, 1))
class CloseSession:
    """End a session: its ephemeral nodes and watches are removed at once."""

    session_id: int


@message(api_key=102, kind=REPLY, versions=range(0, 1))
class CloseSessionReply:
    """The session has ended."""

    code: StoreCode


# --- operations ----------------------------------------------------------------------------------------------------


@struct
class StoreOp:
    """One operation. ``version`` -1: any. ``watch`` applies to EXISTS, GET_DATA and GET_CHILDREN."""

    kind: StoreOpKind
    path: str
    data: bytes = b""
    version: int = ANY_VERSION
    mode: CreateMode = CreateMode.PERSISTENT
    watch: bool = False


@struct
class Transaction:
    """Operations that all happen or none (ZooKeeper's multi). A read is always alone in its transaction."""

    ops: tuple[StoreOp, ...]


@message(api_key=103, kind=REQUEST, versions=range(0, 1))
class StoreOps:
    """Transactions to execute in order: ZooKeeper's client pipelines them over its connection."""

    session_id: int
    transactions: tuple[Transaction, ...]


@struct
class OpResult:
    """The result of one operation.

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
    """``code``: OK, or the code of the failed operation; then the transaction had no effect."""

    code: StoreCode
    results: tuple[OpResult, ...]


@message(api_key=103, kind=REPLY, versions=range(0, 1))
class StoreOpsReply:
    """A result per transaction; with a code other than OK (SESSION_EXPIRED) none was executed."""

    code: StoreCode
    zxid: int
    results: tuple[TransactionResult, ...]


@struct
class WatchEvent:
    """A watch fired: the watched node changed, and the watch is removed."""

    kind: WatchEventKind
    path: str


@message(api_key=104, kind=REPLY, versions=range(0, 1))
class StoreEvents:
    """Watches that fired, in the order of the changes."""

    zxid: int
    events: tuple[WatchEvent, ...]
