"""One request at a time of each connection: a broker reads the next one when the one before is answered.

So a heartbeat waits behind the SyncGroup of its own client, a LeaveGroup behind its JoinGroup, a consumer's Metadata
behind its fetch, a batch behind the one that is still to be replicated. What was sent before a connection broke is read
all the same. Source: ``SocketServer.Processor.processCompletedReceives`` (it mutes the channel), and the protocol's
guide: "a single in-flight request per connection".
"""

from collections.abc import Callable

from kemu.actors.machine import Caller, Received
from kemu.protocol.names import ActorName


class Connections:
    """Which connections are muted, and what came on them meanwhile.

    A host asks ``keeps(event)`` of each request, has it muted where its answer can wait, and calls ``read_on()`` at the
    end of each step that leaves something ``readable``.

    Args:
        handle: takes a request that is read late.
    """

    __slots__ = ("_handle", "_unread", "readable")

    def __init__(self, handle: Callable[[Received], None]) -> None:
        self._handle = handle
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

    def answered(self, caller: Caller | Received) -> None:
        """It is answered: its connection is read on, in this step, after all that led to the answer."""
        waiting = self._unread.pop(caller[:2], None)
        if waiting:
            self.readable.append(waiting)

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
