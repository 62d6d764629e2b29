"""One request at a time of each connection: a broker reads the next one when the one before is answered.

So a heartbeat waits behind the SyncGroup of its own client, a LeaveGroup behind its JoinGroup, a consumer's Metadata
behind its fetch, a batch behind the one that is still to be replicated. Source:
``SocketServer.Processor.processCompletedReceives`` (it mutes the channel), and the protocol's guide: "a single
in-flight request per connection".

What was sent before a connection broke is read all the same, and so may be older than what its client has sent since
over another one: the end of a muted channel is not noticed. It is read until a send fails (``Selector.close``): the
first answer that a client which has gone gets is written, and comes back as a reset; what is answered after that is
not, and the channel is closed with all that it had still to read (``Selector.pollSelectionKeys``: NOTIFY_ONLY).
"""

from collections.abc import Callable

from kemu.actors.machine import Caller, Machine, Received
from kemu.protocol.names import ActorName


class Connections:
    """Which connections are muted, and what came on them meanwhile.

    A host asks ``keeps(event)`` of each request, has it muted where its answer can wait, and calls ``read_on()`` at the
    end of each step that leaves something ``readable``.

    Args:
        machine: whose connections they are.
        handle: takes a request that is read late.
    """

    __slots__ = ("_handle", "_machine", "_newest", "_reset_since_us", "_unread", "readable")

    def __init__(self, machine: Machine, handle: Callable[[Received], None]) -> None:
        self._machine = machine
        self._handle = handle
        self._newest: dict[ActorName, int] = {}
        """Client -> the last connection that a request came on; it has one at a time, and their numbers rise."""
        self._reset_since_us: dict[tuple[ActorName, int], int] = {}
        """(Client, connection that it has left) -> when an answer was written to it the first time since."""
        self._unread: dict[tuple[ActorName, int], list[Received]] = {}
        """(Client, connection) of each request that is not answered yet -> what came after it."""
        self.readable: list[list[Received]] = []
        """What can be read now: the request before it was answered in this step."""

    def keeps(self, event: Received) -> bool:
        """Whether a request is read later: the connection it came on is muted."""
        waiting = self._unread.get(event[:2])
        if waiting is None:
            return False
        waiting.append(event)
        return True

    def mute(self, caller: Caller | Received) -> None:
        """This request is being served: nothing more is read on its connection until it is answered."""
        self._unread[caller[:2]] = []
        client, connection = caller[:2]
        if connection > self._newest.get(client, 0):
            self._newest[client] = connection

    def has_left(self, caller: Caller | Received) -> bool:
        """Whether the client of this request has another connection by now."""
        client, connection = caller[:2]
        return self._newest.get(client, 0) > connection

    def answered(self, caller: Caller | Received) -> None:
        """It is answered: its connection is read on, in this step, after all that led to the answer."""
        waiting = self._unread.pop(caller[:2], None)
        if waiting and not (self.has_left(caller) and self._fails(caller[:2])):
            self.readable.append(waiting)

    def _fails(self, at: tuple[ActorName, int]) -> bool:
        """Whether the client's reset is there when this answer is written: not yet with the first, nor at its instant.

        Nobody here knows how long it takes; with anything that has to be waited for it is taken to be there.
        """
        now_us = self._machine.now_us
        if self._reset_since_us.setdefault(at, now_us) == now_us:
            return False
        del self._reset_since_us[at]
        return True

    def read_on(self) -> None:
        """Read what can be read, up to the next request of each connection that is not answered at once."""
        readable = self.readable
        while readable:
            waiting = readable.pop(0)
            event = waiting.pop(0)
            self._handle(event)
            if waiting:
                self._put_back(event[:2], waiting)

    def _put_back(self, at: tuple[ActorName, int], waiting: list[Received]) -> None:
        if at in self._unread:
            self._unread[at] = waiting
        else:
            self.readable.insert(0, waiting)
