"""Read ZooKeeper's transaction log: every write of a cluster, in order.

Source: ZooKeeper 3.4 to 3.6 ``FileTxnLog``, ``TxnHeader``, ``CreateTxn``, ``SetDataTxn``, ``MultiTxn`` (big-endian,
lengths before strings and buffers).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"ZKLG"
_FILE_HEADER = 16
_CREATE, _DELETE, _SET_DATA, _CHECK, _MULTI, _CREATE_2 = 1, 2, 5, 13, 14, 15


class StoreWrite(NamedTuple):
    """A write of a node. ``what``: created, set or deleted. ``at_ms``: time of the wall clock."""

    at_ms: int
    zxid: int
    what: str
    path: str
    data: bytes


class TransactionLogError(ValueError):
    """A file is not a transaction log of ZooKeeper."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        (value,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(value)

    def long(self) -> int:
        (value,) = struct.unpack_from(">q", self._data, self._at)
        self._at += 8
        return int(value)

    def buffer(self) -> bytes:
        length = max(self.number(), 0)
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self) -> str:
        return self.buffer().decode()


def read_writes(data: bytes) -> Iterator[StoreWrite]:
    """All successful writes of a log file, oldest first.

    Raises:
        TransactionLogError: the file has another header.
    """
    if data[:4] != MAGIC:
        raise TransactionLogError("no transaction log of ZooKeeper")
    at = _FILE_HEADER
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)  # a checksum precedes the length
        if length == 0:
            return  # the file is filled up with zeros
        reader = _Reader(data[at + 12 : at + 12 + length])
        at += 12 + length + 1  # one byte marks the end
        reader.long()  # the session's id
        reader.number()  # the request's number in the session
        zxid, at_ms, kind = reader.long(), reader.long(), reader.number()
        for what, path, content in _writes(kind, reader):
            yield StoreWrite(at_ms, zxid, what, path, content)


def _writes(kind: int, reader: _Reader) -> Iterator[tuple[str, str, bytes]]:
    if kind in (_CREATE, _CREATE_2):
        yield "created", reader.text(), reader.buffer()
    elif kind == _SET_DATA:
        yield "set", reader.text(), reader.buffer()
    elif kind == _DELETE:
        yield "deleted", reader.text(), b""
    elif kind == _MULTI:
        for _ in range(reader.number()):
            inner = reader.number()
            yield from _writes(inner, _Reader(reader.buffer()))
