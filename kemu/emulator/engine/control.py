"""The control socket of a live run. Another process on the same machine sends one line per order.

The answer is one line, or several lines until the next order. Only the user of the process may connect to the Unix
socket. Each order is carried out between two turns (``Outside``). The argument ``take`` of ``ControlSocket`` interprets
the lines. ``control_http`` serves the same orders over HTTP.
"""

import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from kemu.emulator.engine.trio_loop import Outside

LONGEST_LINE = 65_536
"""Longest allowed order, in bytes. A longer order closes its connection."""
MOST_CONNECTIONS = 64
"""Largest number of open connections. A further connection is closed at once."""
MOST_UNREAD = 2_000
"""Largest number of lines that wait for a slow reader; further lines are lost."""
OWNER_ONLY = 0o177
"""File mode bits that the socket does not get."""


class OrderReply:
    """The answer to one order: lines for the connection that sent the order."""

    def __init__(self) -> None:
        self._send, self.lines = trio.open_memory_channel[bytes](MOST_UNREAD)
        self.is_stream = False
        """Whether lines follow until the reader ends the answer."""
        self._is_wanted = True
        self.is_open = True
        """Whether anybody still reads the answer."""

    def put(self, line: bytes) -> bool:
        """Send a line; return False if the line is lost, because the reader is too slow or has gone."""
        try:
            self._send.send_nowait(line)
        except (trio.WouldBlock, trio.ClosedResourceError, trio.BrokenResourceError):
            return False
        return True

    def stream(self) -> None:
        """Say that lines follow until the reader ends the answer."""
        self.is_stream = True
        if not self._is_wanted:
            self.end()

    def next_order(self) -> None:
        """End a stream, because the reader sent another order or nothing more."""
        self._is_wanted = False
        if self.is_stream:
            self.end()

    def end(self) -> None:
        """End the answer."""
        self.is_open = False
        self._send.close()


Take: TypeAlias = Callable[[bytes, OrderReply], object]
"""Called with an order. The callee sends and ends the answer, at once or later."""


class _Lines:
    """The lines of a stream. A cancelled read loses nothing."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._unread = b""

    async def next(self) -> bytes | None:
        """The next line; None at the end of the stream, or for a line that is too long."""
        while b"\n" not in self._unread:
            if len(self._unread) > LONGEST_LINE:
                return None
            data = await self._stream.receive_some()
            if not data:
                line, self._unread = self._unread, b""
                return line or None
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line if len(line) <= LONGEST_LINE else None


class ControlSocket:
    """A listening control socket; ``close`` removes it.

    Raises:
        OSError: another run uses the path, or the path is another file.
    """

    def __init__(self, path: Path, take: Take) -> None:
        self.path = path
        self._take = take
        self._connections = 0
        _remove_orphan(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(OWNER_ONLY)
        try:
            self._socket.bind(str(path))
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        finally:
            os.umask(mask)

    async def serve(self, outside: Outside) -> None:
        """Accept connections until cancelled."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        await trio.serve_listeners(partial(self._connected, outside), [listener])

    async def _connected(self, outside: Outside, stream: trio.SocketStream) -> None:
        if self._connections == MOST_CONNECTIONS:
            return
        self._connections += 1
        lines = _Lines(stream)
        try:
            line = await lines.next()
            while line is not None:
                line = await self._answered(outside, stream, line, lines)
        except trio.BrokenResourceError:
            pass  # the client has closed its connection
        finally:
            self._connections -= 1

    async def _answered(self, outside: Outside, stream: trio.SocketStream, order: bytes, lines: _Lines) -> bytes | None:
        """OrderReply an order; return the next order, None at the end of the connection."""
        answer, found = OrderReply(), list[bytes | None]()

        async def read_on() -> None:
            try:
                found.append(await lines.next())
            except trio.BrokenResourceError:
                found.append(None)
            answer.next_order()

        outside.call(partial(self._take, order, answer))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read_on)
                sent = await _sent(stream, answer)
                nursery.cancel_scope.cancel()
        finally:
            answer.end()
        if not sent:
            return None
        return found[0] if found else await lines.next()

    def close(self) -> None:
        """Stop listening, and remove the socket."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


async def _sent(stream: trio.SocketStream, answer: OrderReply) -> bool:
    """Send the lines of an answer; return False if the reader has gone."""
    try:
        async for line in answer.lines:
            await stream.send_all(line + b"\n")
    except trio.BrokenResourceError:
        return False
    return True


def _remove_orphan(path: Path) -> None:
    """Remove the socket of a killed run, if no process listens on the socket."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
