"""The socket at which a live run takes orders: others on the same machine ask, a line each, and are answered a line.

A Unix socket: who may write to that file may order, and nobody from elsewhere. What is asked is done to the world
between two turns (``Outside``); what a line means is its taker's business.
"""

import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from kemu.emulator.engine.loop import Outside

LONGEST_LINE = 65_536
Answer: TypeAlias = Callable[[bytes], None]
Take: TypeAlias = Callable[[bytes, Answer], None]
"""(a line, how it is answered: once, at once or later)."""


class ControlSocket:
    """See the module. It listens from the moment it is made; ``close`` takes it away.

    Raises:
        OSError: no socket can be made at this path: a run that is under way has it, or it is another file.
    """

    def __init__(self, path: Path, take: Take) -> None:
        self.path = path
        self._take = take
        _remove_orphan(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(path))
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise

    async def serve(self, outside: Outside) -> None:
        """Take orders until cancelled."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        await trio.serve_listeners(partial(self._connected, outside), [listener])

    async def _connected(self, outside: Outside, stream: trio.SocketStream) -> None:
        unread = b""
        try:
            async for data in stream:
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    await stream.send_all(await self._answer_to(line, outside) + b"\n")
                if len(unread) > LONGEST_LINE:
                    return
        except trio.BrokenResourceError:
            pass  # whoever asked has gone

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
        """Listen no more."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


def _remove_orphan(path: Path) -> None:
    """A socket at which nobody listens was left behind by a run that was killed."""
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
