"""The metadata store's data: nodes, versions, transactions, watches; without sessions or time.

All changes have one total order: the zxid of a change is one more than the last zxid. A transaction is one change.
Source: ZooKeeper's ``DataTree``, which also has two tables of watches (data and children).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kemu.protocol.messages.store import (
    ANY_VERSION,
    NO_SESSION,
    CreateMode,
    OpResult,
    StoreCode,
    StoreOp,
    StoreOpKind,
    TransactionResult,
    Watch,
    WatchEvent,
    WatchEventKind,
    WatchKind,
)
from kemu.protocol.names import ActorName

ROOT = "/"


def parent_of(path: str) -> str:
    """The path without its last name."""
    return path[: path.rindex("/")] or ROOT


class Node:
    """A node of the store. ``pzxid``: the zxid of the last change of its children."""

    __slots__ = ("children", "created", "czxid", "data", "mzxid", "owner", "pzxid", "version")

    def __init__(self, data: bytes, zxid: int, owner: int = NO_SESSION) -> None:
        self.data = data
        self.version = 0
        self.czxid = self.mzxid = self.pzxid = zxid
        self.owner = owner
        self.children: dict[str, None] = {}
        self.created = 0
        """The number of children ever created, which the next sequential name contains."""


class Change(NamedTuple):
    """The change of a transaction to one node: created, set or deleted. ``version``: the node's version afterwards."""

    what: str
    path: str
    data: bytes
    version: int


class Tree:
    """All nodes of the store. ``zxid``: the zxid of the last change."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, Node] = {ROOT: Node(b"", 0)}
        self.ephemerals: dict[int, dict[str, None]] = {}
        """Session -> the session's ephemeral nodes, oldest first."""

    def read(self, op: StoreOp) -> OpResult:
        """Answer EXISTS, GET_DATA or GET_CHILDREN."""
        node = self.nodes.get(op.path)
        if node is None:
            return OpResult(code=StoreCode.NO_NODE)
        match op.kind:
            case StoreOpKind.GET_DATA:
                return _stat(node, data=node.data)
            case StoreOpKind.GET_CHILDREN:
                return _stat(node, children=tuple(sorted(node.children)))
            case _:
                return _stat(node)

    def write(self, session_id: int, ops: tuple[StoreOp, ...]) -> tuple[TransactionResult, list[Change]]:
        """Execute all operations, or none; returns the results, and the changes in order."""
        undo: list[Callable[[], None]] = []
        changes: list[Change] = []
        results: list[OpResult] = []
        zxid = self.zxid + 1
        for index, op in enumerate(ops):
            result = self._do(session_id, op, zxid, undo, changes)
            if result.code is not StoreCode.OK:
                for revert in reversed(undo):
                    revert()
                results = [OpResult(code=StoreCode.OK) for _ in range(index)]
                results.append(result)
                rest = len(ops) - index - 1
                results.extend(OpResult(code=StoreCode.RUNTIME_INCONSISTENCY) for _ in range(rest))
                return TransactionResult(code=result.code, results=tuple(results)), []
            results.append(result)
        if changes:
            self.zxid = zxid
        return TransactionResult(code=StoreCode.OK, results=tuple(results)), changes

    def end_session(self, session_id: int) -> list[Change]:
        """Delete the session's ephemeral nodes, in one change."""
        owned = self.ephemerals.pop(session_id, None)
        if not owned:
            return []
        self.zxid += 1
        changes = []
        for path in owned:
            node = self.nodes.pop(path)
            parent = self.nodes[parent_of(path)]
            del parent.children[path[path.rindex("/") + 1 :]]
            parent.pzxid = self.zxid
            changes.append(Change("deleted", path, node.data, node.version))
        return changes

    def make(self, path: str, data: bytes) -> list[Change]:
        """Create a persistent node, with its parents; an existing node gets the data."""
        if path in self.nodes:
            return self.write(NO_SESSION, (StoreOp(kind=StoreOpKind.SET_DATA, path=path, data=data),))[1]
        above = [] if parent_of(path) in self.nodes else self.make(parent_of(path), b"")
        return above + self.write(NO_SESSION, (StoreOp(kind=StoreOpKind.CREATE, path=path, data=data),))[1]

    # --- operations --------------------------------------------------------------------------------------------

    def _do(
        self, session_id: int, op: StoreOp, zxid: int, undo: list[Callable[[], None]], changes: list[Change]
    ) -> OpResult:
        match op.kind:
            case StoreOpKind.CREATE:
                return self._create(session_id, op, zxid, undo, changes)
            case StoreOpKind.SET_DATA | StoreOpKind.DELETE | StoreOpKind.CHECK:
                node = self.nodes.get(op.path)
                if node is None:
                    return OpResult(code=StoreCode.NO_NODE)
                if op.version not in (ANY_VERSION, node.version):
                    return OpResult(code=StoreCode.BAD_VERSION)
                if op.kind is StoreOpKind.SET_DATA:
                    return self._set(op, node, zxid, undo, changes)
                if op.kind is StoreOpKind.DELETE:
                    return self._delete(op, node, zxid, undo, changes)
                return _stat(node)
            case _:
                return OpResult(code=StoreCode.BAD_ARGUMENTS)  # a read is not allowed inside a transaction

    def _create(
        self, session_id: int, op: StoreOp, zxid: int, undo: list[Callable[[], None]], changes: list[Change]
    ) -> OpResult:
        if not op.path.startswith("/") or op.path.endswith("/"):
            return OpResult(code=StoreCode.BAD_ARGUMENTS)
        above = parent_of(op.path)
        parent = self.nodes.get(above)
        if parent is None:
            return OpResult(code=StoreCode.NO_NODE)
        if parent.owner != NO_SESSION:
            return OpResult(code=StoreCode.NO_CHILDREN_FOR_EPHEMERALS)
        path = op.path
        if op.mode is CreateMode.PERSISTENT_SEQUENTIAL:
            path = f"{path}{parent.created:010d}"
        if path in self.nodes:
            return OpResult(code=StoreCode.NODE_EXISTS)
        owner = session_id if op.mode is CreateMode.EPHEMERAL else NO_SESSION
        node = self.nodes[path] = Node(op.data, zxid, owner)
        name = path[path.rindex("/") + 1 :]
        before = parent.pzxid
        parent.children[name] = None
        parent.created += 1
        parent.pzxid = zxid
        if owner != NO_SESSION:
            self.ephemerals.setdefault(owner, {})[path] = None
        changes.append(Change("created", path, op.data, 0))

        def revert() -> None:
            del self.nodes[path], parent.children[name]
            parent.created -= 1
            parent.pzxid = before
            if owner != NO_SESSION:
                del self.ephemerals[owner][path]

        undo.append(revert)
        return _stat(node, path=path)

    def _set(
        self, op: StoreOp, node: Node, zxid: int, undo: list[Callable[[], None]], changes: list[Change]
    ) -> OpResult:
        before = node.data, node.mzxid

        def revert() -> None:
            node.data, node.mzxid = before
            node.version -= 1

        undo.append(revert)
        node.data, node.mzxid = op.data, zxid
        node.version += 1
        changes.append(Change("set", op.path, op.data, node.version))
        return _stat(node)

    def _delete(
        self, op: StoreOp, node: Node, zxid: int, undo: list[Callable[[], None]], changes: list[Change]
    ) -> OpResult:
        if node.children:
            return OpResult(code=StoreCode.NOT_EMPTY)
        if op.path == ROOT:
            return OpResult(code=StoreCode.BAD_ARGUMENTS)
        parent = self.nodes[parent_of(op.path)]
        name = op.path[op.path.rindex("/") + 1 :]
        before = parent.pzxid
        del self.nodes[op.path], parent.children[name]
        parent.pzxid = zxid
        if node.owner != NO_SESSION:
            del self.ephemerals[node.owner][op.path]
        changes.append(Change("deleted", op.path, node.data, node.version))

        def revert() -> None:
            self.nodes[op.path] = node
            parent.children[name] = None
            parent.pzxid = before
            if node.owner != NO_SESSION:
                self.ephemerals[node.owner][op.path] = None

        undo.append(revert)
        return OpResult(code=StoreCode.OK)


def _stat(node: Node, *, data: bytes = b"", children: tuple[str, ...] = (), path: str = "") -> OpResult:
    return OpResult(
        code=StoreCode.OK,
        path=path,
        data=data,
        children=children,
        version=node.version,
        czxid=node.czxid,
        ephemeral_owner=node.owner,
    )


# --- watches -------------------------------------------------------------------------------------------------------

_FIRES = {
    "created": WatchEventKind.NODE_CREATED,
    "set": WatchEventKind.NODE_DATA_CHANGED,
    "deleted": WatchEventKind.NODE_DELETED,
}


class Watches:
    """The clients to inform of the next change of each node. A watch that fires is removed."""

    def __init__(self) -> None:
        self._data: dict[str, dict[ActorName, None]] = {}
        self._child: dict[str, dict[ActorName, None]] = {}
        self._of: dict[ActorName, dict[tuple[bool, str], None]] = {}
        """Client -> (whether the watch is a child watch, path)."""

    def add(self, client: ActorName, path: str, *, child: bool) -> None:
        """Set a watch. Setting an existing watch has no effect."""
        (self._child if child else self._data).setdefault(path, {})[client] = None
        self._of.setdefault(client, {})[child, path] = None

    def forget(self, client: ActorName) -> None:
        """Remove a disconnected client's watches."""
        for child, path in self._of.pop(client, {}):
            table = self._child if child else self._data
            del table[path][client]
            if not table[path]:
                del table[path]

    def fire(self, change: Change) -> Iterator[tuple[ActorName, WatchEvent]]:
        """The events of a change, by client. A watcher of both data and children of a deleted node gets one event."""
        kind = _FIRES[change.what]
        event = WatchEvent(kind=kind, path=change.path)
        clients = self._take(self._data, change.path, child=False)
        if kind is WatchEventKind.NODE_DELETED:
            clients.update(self._take(self._child, change.path, child=True))
        for client in clients:
            yield client, event
        if kind is not WatchEventKind.NODE_DATA_CHANGED:
            above = parent_of(change.path)
            children_changed = WatchEvent(kind=WatchEventKind.NODE_CHILDREN_CHANGED, path=above)
            for client in self._take(self._child, above, child=True):
                yield client, children_changed

    def reset(self, client: ActorName, watches: tuple[Watch, ...], last_zxid: int, tree: Tree) -> list[WatchEvent]:
        """Replace a client's watches. Watches on nodes that changed after ``last_zxid`` fire at once.

        Source: ZooKeeper's ``DataTree.setWatches``.
        """
        self.forget(client)
        fired = []
        for watch in watches:
            node = tree.nodes.get(watch.path)
            kind: WatchEventKind | None = None
            if watch.kind is WatchKind.EXIST:
                kind = WatchEventKind.NODE_CREATED if node is not None else None
            elif node is None:
                kind = WatchEventKind.NODE_DELETED
            elif watch.kind is WatchKind.DATA and node.mzxid > last_zxid:
                kind = WatchEventKind.NODE_DATA_CHANGED
            elif watch.kind is WatchKind.CHILD and node.pzxid > last_zxid:
                kind = WatchEventKind.NODE_CHILDREN_CHANGED
            if kind is None:
                self.add(client, watch.path, child=watch.kind is WatchKind.CHILD)
            else:
                fired.append(WatchEvent(kind=kind, path=watch.path))
        return fired

    def _take(self, table: dict[str, dict[ActorName, None]], path: str, *, child: bool) -> dict[ActorName, None]:
        clients = table.pop(path, {})
        for client in clients:
            del self._of[client][child, path]
        return clients
