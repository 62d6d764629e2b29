"""Control of a live run over HTTP on a loopback port, with the orders of the control socket.

``POST /do`` (an action, as words or JSON), ``POST /wait`` (a condition, ``within 10s`` at its end, or JSON),
``GET /state``, ``GET /leader/orders-0``, ``GET /events``, ``GET /events/GroupBecame`` (lines of JSON without an end).
Status 200: done. 400: the order is wrong or refused. 409: a wait was in vain.

No web page can use the port: a request with an ``Origin`` is refused. The ``Host`` of a request must be the loopback
address, because a foreign name may resolve to this address (DNS rebinding).
"""

import json
import socket
from functools import partial
from urllib.parse import unquote

import h11
import trio

from kemu.emulator.engine.control import LONGEST_LINE, MOST_CONNECTIONS, OrderReply, Take
from kemu.emulator.engine.trio_loop import Outside

ADDRESS = "127.0.0.1"
LONGEST_HEAD = 16_384
"""Longest request line with headers, in bytes."""
CHUNK_BYTES = 16_384
IDLE_S = 60.0
"""Longest wait for a request, in seconds."""


class _Wrong(Exception):
    """A request that is no order."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ControlPort:
    """A listening port for control over HTTP.

    Args:
        port: the port; 0 lets the system choose a free port.

    Raises:
        OSError: the port is in use.
    """

    def __init__(self, port: int, take: Take) -> None:
        self._take = take
        self._connections = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((ADDRESS, port))
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])

    async def serve(self, outside: Outside) -> None:
        """Accept connections until cancelled."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        await trio.serve_listeners(partial(self._connected, outside), [listener])

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    async def _connected(self, outside: Outside, stream: trio.SocketStream) -> None:
        if self._connections == MOST_CONNECTIONS:
            return
        self._connections += 1
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        try:
            while await self._exchange(outside, stream, http):
                http.start_next_cycle()
        except (trio.BrokenResourceError, h11.LocalProtocolError):
            pass  # the client has closed its connection
        finally:
            self._connections -= 1

    async def _exchange(self, outside: Outside, stream: trio.SocketStream, http: h11.Connection) -> bool:
        """OrderReply one request; return whether the connection may carry another request."""
        try:
            order = await _order(stream, http)
        except _Wrong as wrong:
            await _respond(stream, http, wrong.status, wrong.text)
            return False
        except h11.RemoteProtocolError as error:
            await _respond(stream, http, error.error_status_hint, str(error))
            return False
        if order is None:
            return False
        answer, is_taken = OrderReply(), trio.Event()

        def take() -> None:
            self._take(order, answer)
            is_taken.set()

        outside.call(take)
        try:
            await is_taken.wait()
            if answer.is_stream:
                await _stream(stream, http, answer)
                return False
            async for line in answer.lines:
                await _respond(stream, http, _status_of(line), line)
        finally:
            answer.end()
        return http.our_state is h11.DONE and http.their_state is h11.DONE


async def _order(stream: trio.SocketStream, http: h11.Connection) -> bytes | None:
    """Read a request; return its order, or None at the end of the connection.

    Raises:
        _Wrong: the request is not allowed, or is no order.
        h11.RemoteProtocolError: the bytes are no request.
    """
    request, body = None, b""
    with trio.move_on_after(IDLE_S):
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                if http.they_are_waiting_for_100_continue:
                    await stream.send_all(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                http.receive_data(await stream.receive_some(CHUNK_BYTES))
            elif isinstance(event, h11.Request):
                request = event
                _check_head(request, stream.socket.getsockname()[1])
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > LONGEST_LINE:
                    raise _Wrong(413, f"an order has at most {LONGEST_LINE} bytes")
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return _order_of(request.method, request.target, body)
            else:
                return None
    return None


def _check_head(request: h11.Request, port: int) -> None:
    """Refuse requests of web pages."""
    heads = dict(request.headers)
    if heads.get(b"host", b"").decode("latin-1").lower() not in [f"{name}:{port}" for name in (ADDRESS, "localhost")]:
        raise _Wrong(403, f"the Host of a request must be {ADDRESS}:{port} or localhost:{port}")
    if b"origin" in heads:
        raise _Wrong(403, "web pages may not send orders")


def _order_of(method: bytes, target: bytes, body: bytes) -> bytes:
    """The line of the control socket that means the same as a request."""
    path, body = unquote(target.decode("latin-1").partition("?")[0]), body.replace(b"\n", b" ").strip()
    match path.split("/")[1:]:
        case ["do"]:
            known, order = b"POST", body
        case ["wait"]:
            known, order = b"POST", body if body.startswith(b"{") else b"wait " + body
        case ["state"]:
            known, order = b"GET", b"state"
        case ["leader", partition]:
            known, order = b"GET", json.dumps({"leader": partition}).encode()
        case ["events", *kinds]:
            known, order = b"GET", json.dumps({"events": [each for each in kinds if each]}).encode()
        case _:
            paths = "POST /do, POST /wait, GET /state, GET /leader/PARTITION, GET /events/KIND"
            raise _Wrong(404, f"{path:.80} is no path: use {paths}")
    if method != known:
        raise _Wrong(405, f"{path} needs {known.decode()}")
    return order


def _status_of(line: bytes) -> int:
    row = json.loads(line)
    return 200 if "error" not in row else 409 if "seen" in row else 400


async def _respond(stream: trio.SocketStream, http: h11.Connection, status: int, said: bytes | str) -> None:
    """Send a whole response: a line of JSON, or the text of an error."""
    body = (said if isinstance(said, bytes) else json.dumps({"error": said}).encode()) + b"\n"
    heads = [*_HEADS, ("content-length", f"{len(body)}")]
    out = http.send(h11.Response(status_code=status, headers=heads)) or b""
    out += http.send(h11.Data(data=body)) or b""
    out += http.send(h11.EndOfMessage()) or b""
    await stream.send_all(out)


async def _stream(stream: trio.SocketStream, http: h11.Connection, answer: OrderReply) -> None:
    """Send lines until the reader closes the connection."""

    async def read() -> None:
        try:
            while await stream.receive_some(CHUNK_BYTES):
                pass
        except trio.BrokenResourceError:
            pass
        answer.end()

    async def write() -> None:
        try:
            await stream.send_all(http.send(h11.Response(status_code=200, headers=_HEADS)) or b"")
            async for line in answer.lines:
                await stream.send_all(http.send(h11.Data(data=line + b"\n")) or b"")
        except trio.BrokenResourceError:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await write()
        nursery.cancel_scope.cancel()


_HEADS = [("content-type", "application/json"), ("cache-control", "no-store")]
