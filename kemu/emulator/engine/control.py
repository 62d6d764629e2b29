"""The control socket of a live run: another process on the same machine sends one line per order and receives one line
per answer.

Only the user of the process may connect to the Unix socket. Each order is carried out between two turns (``Outside``).
The argument ``take`` of ``ControlSocket`` interprets the lines.
"""

import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from kemu.emulator.engine.loop import Outside

LONGEST_LINE = 65_536
"""Longest allowed order, in bytes. A longer order closes its connection."""
MOST_CONNECTIONS = 64
"""Largest number of open connections. A further connection is closed at once."""
OWNER_ONLY = 0o177
"""File mode bits that the socket does not get."""
Answer: TypeAlias = Callable[[bytes], None]
Take: TypeAlias = Callable[[bytes, Answer], None]
"""Called with a line and a function that sends the answer. The callee calls the function exactly once, at once or
later."""


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
        unread = b""
        self._connections += 1
        try:
            async for data in stream:
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    await stream.send_all(await self._answer_to(line, outside) + b"\n")
                if len(unread) > LONGEST_LINE:
                    return
        except trio.BrokenResourceError:
            pass  # the client has closed its connection
        finally:
            self._connections -= 1

    async def _answer_to(self, line: bytes, outside: Outside) -> bytes:
        answered, answer = trio.Event(), b""

        def answer_with(said: bytes) -> None:
            nonlocal answer
            answer = said
            answered.set()

        outside.call(lambda: self._take(line, answer_with))
        await answered.wait()
        return answer

    def close(self) -> None:
        """Stop listening, and remove the socket."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


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
