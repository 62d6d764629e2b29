"""One order to a live run and its answer, over the control socket or over HTTP.

The caller waits until the socket is readable, so that one thread can wait for several answers and for the keyboard.
"""

import json
import re
import select
import socket
from typing import Any

from kemu.protocol.frozen import frozen
from kemu.tools.errors import BadInput

CONNECT_WITHIN_S = 5.0
_REST_WITHIN_S = 1.0
"""Longest wait for more lines of a run that has ended."""
_CHUNK_BYTES = 65_536
_URL = re.compile(r"(?:https?://)?(?:127\.0\.0\.1|localhost):([0-9]+)/?")


@frozen
class Address:
    """The path of a control socket, or the port of control over HTTP on 127.0.0.1."""

    path: str = ""
    port: int = 0

    def __str__(self) -> str:
        return self.path or f"http://127.0.0.1:{self.port}"


def address_of(text: str) -> Address:
    """The address that a text names: a path, a port, or the URL that ``kemu serve --control PORT`` prints.

    Raises:
        BadInput: the text is a number, and no port.
    """
    url = _URL.fullmatch(text)
    number = url[1] if url is not None else text
    if not (number.isascii() and number.isdecimal()):
        return Address(path=text)
    if not 0 < len(number) <= 5 or not 0 < int(number) <= 65_535:
        raise BadInput(f"{text:.40} is no port: use 1 to 65535")
    return Address(port=int(number))


class Exchange:
    """One order on a connection of its own; ``rows`` returns the lines of the answer.

    Raises:
        OSError: nobody listens at the address.
        ModuleNotFoundError: the address is a port, and h11 is not installed.
    """

    def __init__(self, address: Address, order: str) -> None:
        self.order = order
        self.is_over = False
        """Whether the answer is complete, or its connection has ended."""
        self._address = address
        self._unread = b""
        self._http: Any = None
        self._socket = socket.socket(socket.AF_INET if address.port else socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(CONNECT_WITHIN_S)
        try:
            self._socket.connect(("127.0.0.1", address.port) if address.port else address.path)
            self._socket.sendall(self._request(order.encode()))
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def _request(self, order: bytes) -> bytes:
        if not self._address.port:
            return order + b"\n"
        import h11

        self._http = h11.Connection(h11.CLIENT)
        heads = [("host", f"127.0.0.1:{self._address.port}"), ("content-length", f"{len(order)}")]
        sent: list[bytes | None] = [
            self._http.send(h11.Request(method="POST", target="/do", headers=heads)),
            self._http.send(h11.Data(data=order)),
            self._http.send(h11.EndOfMessage()),
        ]
        return b"".join(each or b"" for each in sent)

    def fileno(self) -> int:
        """The descriptor of the socket, for ``select``."""
        return self._socket.fileno()

    def rows(self) -> list[dict[str, Any]]:
        """The lines that have arrived since the last call.

        Raises:
            BadInput: the other side does not speak kemu's control protocol.
        """
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if self._http is None:
            self.is_over = not data
        else:
            data = self._body(data)
        *lines, self._unread = (self._unread + data).split(b"\n")
        try:
            rows = [json.loads(line) for line in lines]
        except ValueError:
            rows = [None]
        if not all(isinstance(row, dict) for row in rows):
            raise BadInput(f"{self._address}: this is no control of kemu; kemu serve --control PATH has one")
        return rows

    def rest(self) -> list[dict[str, Any]]:
        """The lines until the end of the connection, whose other side has ended or is ending.

        Raises:
            BadInput: the other side does not speak kemu's control protocol.
        """
        rows: list[dict[str, Any]] = []
        while not self.is_over and select.select([self], [], [], _REST_WITHIN_S)[0]:
            rows += self.rows()
        return rows

    def _body(self, data: bytes) -> bytes:
        """The bytes of the answer in a part of the HTTP response."""
        import h11

        body = b""
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                match event:
                    case h11.Data():
                        body += bytes(event.data)
                    case h11.EndOfMessage() | h11.ConnectionClosed():
                        self.is_over = True
                        break
                    case _:
                        pass
        except h11.RemoteProtocolError:  # the server closed the connection within a stream
            self.is_over = True
        return body

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
