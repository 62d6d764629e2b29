"""The store's disk, which has every answered write: ZooKeeper answers a write when the write is on the disk.

After a restart the store gets the log ``transactions``, a snapshot. The snapshot has one record for the whole store,
one for each session, and one for each node. Parents precede their children. Children of one parent are in the order of
their creation, and so are a session's nodes.

=====  =============================================================================================================
key    value
=====  =============================================================================================================
``z``  last zxid, last session id (16 bytes)
``s``  a session: id, timeout (us), then the client that opened it
``n``  followed by the path; czxid, mzxid, pzxid, owner, version, children ever created, then the data
=====  =============================================================================================================

A restart is the election of a new leader in the ensemble. A zxid has the number of leaders so far in its upper half,
and the number of the leader's changes in its lower half. So a zxid after an election is far above all earlier zxids.
Source: ZooKeeper's ``ZxidUtils``.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kemu.actors.machine import Record
from kemu.actors.store.tree import Node, Tree, parent_of
from kemu.protocol.messages.store import NO_SESSION
from kemu.protocol.names import ActorName

TRANSACTIONS = "transactions"
"""The name of the store's log."""

_WHOLE = struct.Struct(">qq")
_SESSION = struct.Struct(">qq")
_NODE = struct.Struct(">qqqqii")
_WHOLE_KEY, _SESSION_KEY, _NODE_KEY = b"z", b"s", b"n"
_CHANGES_BITS = 32


class SavedSession(NamedTuple):
    """A live session: its id, its timeout and the client that opened it."""

    id: int
    timeout_us: int
    client: ActorName


def saved(tree: Tree, sessions: Iterable[SavedSession], last_session: int) -> tuple[Record, ...]:
    """The records of the store's present state."""
    return tuple(_records(tree, sessions, last_session))


def _records(tree: Tree, sessions: Iterable[SavedSession], last_session: int) -> Iterator[Record]:
    yield _WHOLE_KEY, _WHOLE.pack(tree.zxid, last_session)
    for session in sessions:
        yield _SESSION_KEY, _SESSION.pack(session.id, session.timeout_us) + session.client.encode()
    for path, node in tree.nodes.items():
        numbers = _NODE.pack(node.czxid, node.mzxid, node.pzxid, node.owner, node.version, node.created)
        yield _NODE_KEY + path.encode(), numbers + node.data


def loaded(records: Iterable[Record]) -> tuple[Tree, list[SavedSession], int]:
    """The tree under the next leader, the sessions, and the last session id, read from the records of ``saved``."""
    tree, sessions, last_session = Tree(), [], 0
    for key, value in records:
        assert value is not None, key
        if key == _WHOLE_KEY:
            zxid, last_session = _WHOLE.unpack(value)
            tree.zxid = ((zxid >> _CHANGES_BITS) + 1) << _CHANGES_BITS
        elif key == _SESSION_KEY:
            number, timeout_us = _SESSION.unpack_from(value)
            sessions.append(SavedSession(number, timeout_us, ActorName(value[_SESSION.size :].decode())))
        else:
            _put(tree, key[len(_NODE_KEY) :].decode(), value)
    return tree, sessions, last_session


def _put(tree: Tree, path: str, value: bytes) -> None:
    czxid, mzxid, pzxid, owner, version, created = _NODE.unpack_from(value)
    node = tree.nodes[path] = Node(value[_NODE.size :], czxid, owner)
    node.mzxid, node.pzxid, node.version, node.created = mzxid, pzxid, version, created
    above = parent_of(path)
    if path != above:
        tree.nodes[above].children[path[path.rindex("/") + 1 :]] = None
    if owner != NO_SESSION:
        tree.ephemerals.setdefault(owner, {})[path] = None
