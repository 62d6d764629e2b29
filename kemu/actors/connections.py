"""One request at a time per connection: a broker reads the next request after it answered the previous request.

So a client's heartbeat waits behind its SyncGroup, its LeaveGroup behind its JoinGroup, and its Metadata
request behind its fetch. A batch waits behind a batch that is still being replicated.
Source: ``SocketServer.Processor.processCompletedReceives``, which mutes the channel, and the protocol guide: "a single
in-flight request per connection".

A broker does not notice the end of a muted channel. The broker still reads the requests sent before a connection broke,
which may be older than requests on the client's new connection. Reading ends with the first failed send
(``Selector.close``). The first answer to a departed client is written, and the client's host resets the connection. The
next answer fails, and the channel closes with all unread requests (``Selector.pollSelectionKeys``: NOTIFY_ONLY).
Requests that arrive later at the closed channel are lost, too.
"""

from collections.abc import Callable

from kemu.actors.machine import Caller, Machine, Received
from kemu.protocol.names import ActorName, is_real_client


class Connections:
    """Muted connections, and the requests that arrived on muted connections.

    A server calls ``keeps(event)`` for each request, and ``mute`` for a request that it serves. At the end
    of each step with ``readable`` requests the server calls ``read_on()``.

    Args:
        machine: the server.
        handle: the function for a request that was read late.
    """

    __slots__ = ("_closed", "_gone", "_handle", "_machine", "_newest", "_reset_since_us", "_unread", "readable")

    def __init__(self, machine: Machine, handle: Callable[[Received], None]) -> None:
        self._machine = machine
        self._handle = handle
        self._closed: dict[tuple[ActorName, int], None] = {}
        """(Client, connection) of the channels that a failed answer closed."""
        self._gone: dict[ActorName, None] = {}
        """Clients that ended with unanswered requests."""
        self._newest: dict[ActorName, int] = {}
        """Client -> its newest connection with a request. A client has one connection at a time; numbers increase."""
        self._reset_since_us: dict[tuple[ActorName, int], int] = {}
        """(Client, abandoned connection) -> the time of the first answer that was written to the connection."""
        self._unread: dict[tuple[ActorName, int], list[Received]] = {}
        """(Client, connection) of each unanswered request -> the requests that followed it."""
        self.readable: list[list[Received]] = []
        """Requests that can be read now, because the request before them was answered in this step."""

    def keeps(self, event: Received) -> bool:
        """Whether this request was kept for later, because its connection is muted, or lost, because it is closed."""
        if event[:2] in self._closed:
            return True
        waiting = self._unread.get(event[:2])
        if waiting is None:
            return False
        waiting.append(event)
        return True

    def mute(self, caller: Caller | Received) -> None:
        """Serve this request, and read no further request of its connection until it is answered."""
        self._unread[caller[:2]] = []
        client, connection = caller[:2]
        if connection > self._newest.get(client, 0):
            self._newest[client] = connection

    def has_left(self, caller: Caller | Received) -> bool:
        """Whether the client of this request has a newer connection."""
        client, connection = caller[:2]
        return self._newest.get(client, 0) > connection

    def answered(self, caller: Caller | Received) -> None:
        """Make the connection of an answered request readable at the end of this step."""
        waiting = self._unread.pop(caller[:2], None)
        if not waiting and self._gone and caller[0] in self._gone:
            self._forget_unless_asked(caller[0])
        if waiting is None or (self.has_left(caller) and self._fails(caller[:2])):
            return
        if waiting:
            self.readable.append(waiting)

    def link_down(self, client: ActorName) -> None:
        """Forget a real client's connection once its requests are answered. Its name is never used again."""
        if is_real_client(client):
            self._gone[client] = None
            self._forget_unless_asked(client)

    def is_gone(self, client: ActorName) -> bool:
        """Whether the connection of a real client has ended."""
        return client in self._gone

    def _forget_unless_asked(self, client: ActorName) -> None:
        if any(actor == client for actor, _ in self._unread):
            return
        del self._gone[client]
        self._newest.pop(client, None)
        for rows in (self._closed, self._reset_since_us):
            for at in [at for at in rows if at[0] == client]:
                del rows[at]

    def _fails(self, at: tuple[ActorName, int]) -> bool:
        """Whether the client's reset has arrived when this answer is written.

        The first answer causes the reset, so the reset arrives after the time of the first answer. The delay of a reset
        is unknown here, so any later time is late enough.
        """
        now_us = self._machine.now_us
        if self._reset_since_us.setdefault(at, now_us) == now_us:
            return False
        del self._reset_since_us[at]
        self._closed[at] = None
        return True

    def read_on(self) -> None:
        """Read the readable requests of each connection, up to the next request without an immediate answer."""
        readable = self.readable
        while readable:
            waiting = readable.pop(0)
            event = waiting.pop(0)
            self._handle(event)
            if waiting:
                self._put_back(event[:2], waiting)
        for client in tuple(self._gone):
            self._forget_unless_asked(client)

    def _put_back(self, at: tuple[ActorName, int], waiting: list[Received]) -> None:
        if at in self._unread:
            self._unread[at] = waiting
        else:
            self.readable.insert(0, waiting)
