"""Control over HTTP: paths, statuses, limits, and the refusal of web pages."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from kemu.emulator.engine.control import LONGEST_LINE, MOST_CONNECTIONS, OrderReply
from kemu.emulator.engine.control_http import LONGEST_HEAD, ControlPort
from kemu.emulator.engine.trio_loop import Outside


class _Verbs:
    """Answers each order with the order, and ``events`` with numbers until the reader goes."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.streams: list[OrderReply] = []

    def take(self, line: bytes, answer: OrderReply) -> None:
        text = line.decode()
        self.orders.append(text)
        if "events" in text:
            answer.stream()
            self.streams.append(answer)
            for number in range(3):
                answer.put(json.dumps({"number": number}).encode())
            return
        row: dict[str, Any] = {"heard": text}
        if "wrong" in text:
            row = {"error": "it is wrong"}
        if "vain" in text:
            row = {"error": "not within 1s", "seen": "nothing"}
        answer.put(json.dumps(row).encode())
        answer.end()


def with_port(use: Callable[[ControlPort, _Verbs], Awaitable[None]]) -> None:
    """Run a function beside a port."""
    verbs = _Verbs()
    port = ControlPort(0, verbs.take)

    async def turns(outside: Outside) -> None:
        while True:
            await outside.wait()
            for action in outside.take():
                action()

    async def main() -> None:
        outside = Outside()
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(port.serve, outside)
                nursery.start_soon(turns, outside)
                await use(port, verbs)
                nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    finally:
        port.close()


def request(port: ControlPort, method: str, path: str, body: bytes = b"", **heads: str) -> bytes:
    """The bytes of a request."""
    given = {"Host": f"127.0.0.1:{port.port}", "Content-Length": f"{len(body)}", **heads}
    lines = [f"{method} {path} HTTP/1.1", *[f"{name.replace('_', '-')}: {value}" for name, value in given.items()]]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def all_of(stream: trio.SocketStream) -> bytes:
    """The bytes until the end of the connection."""
    data = b""
    try:
        async for each in stream:
            data += each
    except trio.BrokenResourceError:
        pass
    return data


async def asked(port: ControlPort, data: bytes) -> tuple[int, dict[str, Any]]:
    """(Status, row) of the answer to one request."""
    async with await trio.open_tcp_stream("127.0.0.1", port.port) as stream:
        await stream.send_all(data)
        head, _, body = (await _response(stream)).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body or b"{}")


async def _response(stream: trio.SocketStream) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data or not data.endswith(b"\n"):
        more = await stream.receive_some()
        if not more:
            break
        data += more
    return data


ORDERS = {
    ("GET", "/state", b""): "state",
    ("GET", "/leader/orders-0", b""): '{"leader": "orders-0"}',
    ("GET", "/leader/a%20b", b""): '{"leader": "a b"}',
    ("POST", "/do", b"crash host=b1 for=5s"): "crash host=b1 for=5s",
    ("POST", "/do", b'{"do": "crash",\n "host": "b1"}'): '{"do": "crash",  "host": "b1"}',
    ("POST", "/wait", b"group g Stable within 10s\n"): "wait group g Stable within 10s",
    ("POST", "/wait", b'{"wait": "lag g 0"}'): '{"wait": "lag g 0"}',
}


def test_each_path_is_an_order_of_the_control_socket() -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        for (method, path, body), order in ORDERS.items():
            assert await asked(port, request(port, method, path, body)) == (200, {"heard": order})

    with_port(use)


def test_several_orders_follow_each_other_on_one_connection() -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port.port) as stream:
            await stream.send_all(request(port, "GET", "/state") + request(port, "GET", "/state", Connection="close"))
            data = await all_of(stream)
        assert data.count(b"HTTP/1.1 200") == 2
        assert verbs.orders == ["state", "state"]

    with_port(use)


def test_a_wrong_order_is_400_and_a_wait_in_vain_is_409() -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        assert await asked(port, request(port, "POST", "/do", b"wrong")) == (400, {"error": "it is wrong"})
        vain = await asked(port, request(port, "POST", "/wait", b"vain"))
        assert vain == (409, {"error": "not within 1s", "seen": "nothing"})

    with_port(use)


REFUSED: list[tuple[Callable[[ControlPort], bytes], int, str]] = [
    (lambda port: request(port, "GET", "/state", Host="evil.example"), 403, "the Host of a request must be"),
    (lambda port: request(port, "GET", "/state", Host=f"evil.example:{port.port}"), 403, "the Host of a request"),
    (lambda port: request(port, "POST", "/do", b"x", Origin="http://127.0.0.1:1"), 403, "web pages"),
    (lambda port: request(port, "GET", "/", b""), 404, "/ is no path: use POST /do"),
    (lambda port: request(port, "GET", "/do", b""), 405, "/do needs POST"),
    (lambda port: request(port, "POST", "/state", b""), 405, "/state needs GET"),
    (lambda port: request(port, "POST", "/do", b"x" * (LONGEST_LINE + 1)), 413, "at most 65536 bytes"),
    (lambda port: request(port, "GET", "/state", X="y" * 4 * LONGEST_HEAD), 431, "too long"),
    (lambda port: b"nonsense\r\n\r\n", 400, "illegal request line"),
]


@pytest.mark.parametrize(
    ("data", "status", "text"), REFUSED, ids=[f"{status}-{text[:12]}" for _, status, text in REFUSED]
)
def test_a_request_that_is_no_order_reaches_no_verb(
    data: Callable[[ControlPort], bytes], status: int, text: str
) -> None:
    """A page of another site cannot name the loopback address as its own host, and always has an origin."""

    async def use(port: ControlPort, verbs: _Verbs) -> None:
        found, row = await asked(port, data(port))
        assert (found, verbs.orders) == (status, [])
        assert text in row["error"].lower() or text in row["error"]

    with_port(use)


def test_localhost_is_a_name_of_the_port() -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        assert (await asked(port, request(port, "GET", "/state", Host=f"LOCALHOST:{port.port}")))[0] == 200

    with_port(use)


def test_events_stream_until_the_reader_closes_the_connection() -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port.port) as stream:
            await stream.send_all(request(port, "GET", "/events/GroupBecame/HostDown"))
            data = b""
            while b'{"number": 2}' not in data:
                data += await stream.receive_some()
            assert verbs.streams[0].is_open
        while verbs.streams[0].is_open:
            await trio.sleep(0.01)
        assert b"200" in data.splitlines()[0]
        assert json.loads(verbs.orders[0]) == {"events": ["GroupBecame", "HostDown"]}

    with_port(use)


def test_a_connection_above_the_limit_is_closed_at_once() -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        streams = [await trio.open_tcp_stream("127.0.0.1", port.port) for _ in range(MOST_CONNECTIONS)]
        await trio.testing.wait_all_tasks_blocked()
        async with await trio.open_tcp_stream("127.0.0.1", port.port) as refused:
            assert await all_of(refused) == b""
        for stream in streams:
            await stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (await asked(port, request(port, "GET", "/state")))[0] == 200

    with_port(use)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_client_that_goes_in_the_middle_harms_nobody(cut: int) -> None:
    async def use(port: ControlPort, verbs: _Verbs) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port.port) as stream:
            await stream.send_all(request(port, "POST", "/do", b"crash host=b1")[:cut])
        await trio.testing.wait_all_tasks_blocked()
        assert (await asked(port, request(port, "GET", "/state")))[0] == 200
        assert verbs.orders == ["state"]

    with_port(use)
