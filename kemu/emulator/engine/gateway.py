"""The gateway of a served cluster: TCP sockets of real clients become connections of emulated hosts.

A door is a set of ports, one for each broker. Each named client has a door of its own; all guests share one. A socket
accepted at a door is a part of the client's host (``actors.clients.real_client``). Its frames become requests of this
part to the broker of the port, or to the group coordinator of the broker's process.

Frames to one actor are passed on as they come. A frame to the other actor of the broker waits until all earlier frames
are answered, because answers must keep the order of the requests.

A port is closed while the broker's process is down, and its sockets are reset. A broker without power, or a paused
broker, is silent: the operating system of this computer still accepts connections at its port. A host of a client that
is down accepts no connections.
"""

import errno
import math
import signal
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import trio

from kemu.actors.machine import LinkDown, Received
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.trio_loop import Outside
from kemu.emulator.engine.world import World
from kemu.emulator.facts import BrokerHostAdded, Handler, HostDown, HostStarted, Seen, kind_of, received
from kemu.emulator.serving.payloads import Payloads
from kemu.emulator.serving.translation import (
    BY_BROKER,
    BY_CONTROLLER,
    BY_COORDINATOR,
    RealRequest,
    frame_of,
    ineffective,
    requests_of,
)
from kemu.protocol.commands import AskOn, CloseConnection, NameClient, OpenConnection
from kemu.protocol.frozen import frozen
from kemu.protocol.kafka_wire.frames import (
    UnsupportedWireVersion,
    WireError,
    WireRequest,
    read_back,
    read_request,
)
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.control import CreateTopics
from kemu.protocol.messages.data import Fetch, Produce
from kemu.protocol.messages.group import JoinGroup
from kemu.protocol.names import TopicPartition, client_of, is_real_client, part_on
from kemu.protocol.wire.codec import seal
from kemu.protocol.wire.schema import MESSAGES, SPECS, Kind

LONGEST_FRAME = 8 * 1024 * 1024
"""Largest frame of a client, in bytes; a longer frame closes its connection."""
MOST_CONNECTIONS = 1_000
"""Largest number of open sockets. A further socket is closed at once."""
MOST_UNANSWERED = 64
"""Largest number of unanswered frames of a connection; further frames stay in the socket."""
MOST_UNSENT = 256
"""Largest number of answers that wait for a slow reader; a further answer closes the connection."""
MOST_GROUPS = 1_000
"""Largest number of groups in an OffsetFetch; a request for more closes its connection."""
CHUNK_BYTES = 65_536
_SIZE = struct.Struct(">i")
_RESET = struct.pack("ii", 1, 0)
"""``SO_LINGER`` that makes a closed socket send RST."""
_DEAD = (Condition.CRASHED.value, Condition.CLOSED.value)
_GUESTS = ""

_REPLIES: Mapping[type, type] = {
    SPECS[cls].cls: MESSAGES[SPECS[cls].api_key, Kind.REPLY].cls
    for cls in (*BY_BROKER, *BY_COORDINATOR, *BY_CONTROLLER)
}
Say: TypeAlias = Callable[[str], object]
"""Called with a line for the user: a refused frame, a limit."""


@frozen
class Door:
    """The ports of one client: broker -> port. ``client``: the client's host; "" for guests."""

    client: str
    ports: Mapping[str, int]

    def bootstrap(self, address: str) -> str:
        """``bootstrap.servers`` of this door."""
        return ",".join(f"{_bracketed(address)}:{port}" for port in self.ports.values())


class _Connection:
    """One socket of a client."""

    def __init__(self, name: str, broker: str, door: Door, stream: trio.SocketStream) -> None:
        self.name = name
        self.broker = broker
        self.door = door
        self.stream = stream
        self.client = door.client
        """The host; "" until the first frame of a guest."""
        self.client_id = ""
        self.is_open = False
        """Whether the client's machine knows the connection."""
        self.target = ""
        self.unanswered: deque[RealRequest] = deque()
        """Requests that the broker will answer, in order."""
        self.waiting: deque[RealRequest] = deque()
        """Requests to the other actor of the broker."""
        self.room = trio.Event()
        self.fetch_bytes: dict[TopicPartition, int] = {}
        self.send, self.unsent = trio.open_memory_channel[bytes](MOST_UNSENT)
        self.scope = trio.CancelScope()
        self.is_reset = False

    @property
    def load(self) -> int:
        """Number of frames that are not answered."""
        return len(self.unanswered) + len(self.waiting)

    def close(self, *, reset: bool = False) -> None:
        """End the tasks of the socket."""
        self.is_reset = self.is_reset or reset
        self.scope.cancel()


class Gateway:
    """The listening sockets of a served cluster. The sockets are bound, and do not listen yet.

    Args:
        world: the world, whose observers include this gateway.
        start: starts a host.
        brokers: hosts of the initial brokers.
        clients: hosts of named clients.
        guests: hosts for other clients.
        offered: keys of the APIs that the cluster offers (``serving.translation``).
        address: the local address.
        base: the first port; 0 lets the system choose free ports.
        say: gets lines for the user.

    Raises:
        OSError: a port is in use, or the address is not local. The text names the port.
    """

    def __init__(
        self,
        world: World,
        start: Callable[[str], object],
        *,
        brokers: Sequence[str],
        clients: Sequence[str],
        guests: Sequence[str],
        offered: Container[int],
        address: str = "127.0.0.1",
        base: int = 0,
        payloads: Payloads,
        say: Say = lambda line: None,
    ) -> None:
        self._world = world
        self._start = start
        self._offered = offered
        self.address = address
        self._payloads = payloads
        self._say = say
        self._guests: dict[str, str] = dict.fromkeys(guests, "")
        """Host of a guest -> its client id, the longest unused guest first; "" before the first use."""
        self._connections: dict[str, _Connection] = {}
        """Actor of a connection -> connection."""
        self._sockets: dict[_Connection, None] = {}
        self._names = 0
        self._bound: dict[tuple[str, str], socket.socket] = {}
        """(Door's client, broker) -> a bound socket that does not listen, while the broker does not run."""
        self._listening: dict[tuple[str, str], tuple[trio.CancelScope, trio.SocketListener]] = {}
        self._outside: Outside
        self._nursery: trio.Nursery | None = None
        self.doors: list[Door] = []
        stride = max(10, math.ceil(len(brokers) / 10) * 10)
        try:
            for index, client in enumerate([*([_GUESTS] if guests else ()), *clients]):
                ports = {
                    broker: self._bind(client, broker, base + index * stride + node if base else 0)
                    for node, broker in enumerate(brokers)
                }
                self.doors.append(Door(client, ports))
        except OSError:
            self.close()
            raise
        self._on: dict[type, Handler] = {
            LinkDown: self._link_down,
            HostStarted: self._host_started,
            HostDown: self._host_down,
            BrokerHostAdded: self._broker_added,
            **{received(reply): self._answered for reply in _REPLIES.values()},
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a kind (``facts.handlers_of``)."""
        return (self._on[kind],) if kind in self._on else ()

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    def ports(self) -> dict[str, dict[str, int]]:
        """Client ("guests" for clients without a name) -> broker -> port."""
        return {client_of(each.client) if each.client else "guests": dict(each.ports) for each in self.doors}

    # --- listening -------------------------------------------------------------------------------------------------

    def _bind(self, client: str, broker: str, port: int) -> int:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self.address, port))
        except OSError as error:
            bound.close()
            raise OSError(error.errno, f"cannot listen: {error.strerror}", f"{self.address}:{port}") from error
        except OverflowError:
            bound.close()
            raise OSError(errno.EINVAL, "is no port: choose a lower --port", f"{port}") from None
        self._bound[client, broker] = bound
        return int(bound.getsockname()[1])

    async def serve(self, outside: Outside, ready: Callable[[], object] = lambda: None) -> None:
        """Accept connections until cancelled, and then close all sockets. ``ready``: called when all ports are open."""
        self._outside = outside
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for door in self.doors:
                    for broker in door.ports:
                        host = self._world.hosts[broker]
                        if host.running or host.life == 0:
                            self._listen(door, broker)
                ready()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self.close()

    def _listen(self, door: Door, broker: str) -> None:
        at = (door.client, broker)
        if at in self._listening or self._nursery is None or at not in self._bound:
            return
        bound = self._bound.pop(at)
        bound.listen()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound))
        scope = trio.CancelScope()
        self._listening[at] = scope, listener

        async def accept() -> None:
            with scope:
                await trio.serve_listeners(partial(self._accepted, door, broker), [listener], handler_nursery=nursery)

        nursery = self._nursery
        nursery.start_soon(accept)

    def _stop_listening(self, door: Door, broker: str) -> None:
        """Close a port. A bound socket keeps the port, so that no other process takes it."""
        at = (door.client, broker)
        if at not in self._listening:
            return
        scope, listener = self._listening.pop(at)
        scope.cancel()
        listener.socket.close()  # now, because a listening socket keeps the port from being bound
        self._bind(door.client, broker, door.ports[broker])

    def close(self) -> None:
        """Close all ports."""
        for bound in self._bound.values():
            bound.close()
        for _, listener in self._listening.values():
            listener.socket.close()
        self._bound.clear()
        self._listening.clear()

    # --- one socket ------------------------------------------------------------------------------------------------

    async def _accepted(self, door: Door, broker: str, stream: trio.SocketStream) -> None:
        if len(self._sockets) >= MOST_CONNECTIONS:
            self._say(f"refused a connection: {MOST_CONNECTIONS} are open")
            await trio.aclose_forcefully(stream)
            return
        self._names += 1
        connection = _Connection(str(self._names), broker, door, stream)
        self._sockets[connection] = None
        try:
            if door.client and self._is_down(door.client):
                connection.is_reset = True
                return
            async with trio.open_nursery() as nursery:
                connection.scope = nursery.cancel_scope
                nursery.start_soon(self._write, connection)
                await self._read(connection)
                nursery.cancel_scope.cancel()
        finally:
            del self._sockets[connection]
            if connection.is_reset:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
            self._outside.call(partial(self._closed, connection))

    async def _write(self, connection: _Connection) -> None:
        try:
            async for frame in connection.unsent:
                await connection.stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            connection.scope.cancel()

    async def _read(self, connection: _Connection) -> None:
        """Read frames until the end of the stream, or a frame that is refused."""
        unread = bytearray()
        try:
            while True:
                while len(unread) >= _SIZE.size:
                    (size,) = _SIZE.unpack_from(unread)
                    if not 0 < size <= LONGEST_FRAME:
                        self._refuse(connection, f"a frame of {size} bytes; the limit is {LONGEST_FRAME}")
                        return
                    if len(unread) < _SIZE.size + size:
                        break
                    frame = bytes(unread[_SIZE.size : _SIZE.size + size])
                    del unread[: _SIZE.size + size]
                    if not self._took(connection, frame):
                        return
                    while connection.load >= MOST_UNANSWERED:
                        connection.room = trio.Event()
                        await connection.room.wait()
                data = await connection.stream.receive_some(CHUNK_BYTES)
                if not data:
                    return
                unread += data
        except trio.BrokenResourceError:
            return  # the client has reset the connection

    def _took(self, connection: _Connection, frame: bytes) -> bool:
        """Pass a frame on to the world; return whether the frame is a request."""
        request: WireRequest | UnsupportedWireVersion
        try:
            request = read_back(read_request(frame))
            if request.api_key not in self._offered:
                raise WireError(f"API {request.api_key} is not offered")
            if len(request.messages) > MOST_GROUPS:
                raise WireError(f"{len(request.messages)} groups; the limit is {MOST_GROUPS}")
            if getattr(request.message, "replica_id", -1) >= 0:  # Kafka: only with the permission CLUSTER_ACTION
                raise WireError(f"replica_id {request.message.replica_id} is a broker's; a consumer has -1")
        except UnsupportedWireVersion as error:
            if error.api_key != 18:
                self._refuse(connection, str(error))
                return False
            request = error
        except WireError as error:
            self._refuse(connection, str(error))
            return False
        self._outside.call(partial(self._ask, connection, request))
        return True

    def _refuse(self, connection: _Connection, why: str) -> None:
        client = client_of(connection.client) if connection.client else "a guest"
        self._say(f"closed a connection of {client} to {connection.broker}: {why}")

    # --- in the world ----------------------------------------------------------------------------------------------

    def _is_down(self, client: str) -> bool:
        host = self._world.hosts[client]
        return not host.running and host.life > 0

    def _ask(self, connection: _Connection, request: WireRequest | UnsupportedWireVersion) -> None:
        if connection.scope.cancel_called or not (connection.is_open or self._open(connection, request)):
            return
        for asked in requests_of(connection.broker, request):
            if connection.waiting or (connection.unanswered and connection.target != asked.to):
                connection.waiting.append(asked)
            else:
                self._tell(connection, asked)

    def _open(self, connection: _Connection, request: WireRequest | UnsupportedWireVersion) -> bool:
        """Tell the client's machine about a connection; return whether the client's host runs."""
        connection.client_id = request.client_id or ""
        if not connection.client:
            connection.client = self._guest(connection.client_id)
        if not connection.client:
            self._say(f"refused a client: {len(self._guests)} guests are connected; set guests in [clients]")
            connection.close()
            return False
        host = self._world.hosts[connection.client]
        if host.life == 0:
            self._start(connection.client)
        if not host.running:
            connection.close(reset=True)
            return False
        command = OpenConnection(connection=connection.name, client_id=connection.client_id, broker=connection.broker)
        self._world.tell(connection.client, command)
        self._connections[part_on(connection.client, connection.name)] = connection
        connection.is_open = True
        return True

    def _guest(self, client_id: str) -> str:
        """The host of a guest with this client id; "" if all hosts have connections."""
        busy = {each.client for each in self._connections.values()}
        known = [host for host, name in self._guests.items() if name == client_id and self._world.hosts[host].life]
        free = [host for host in self._guests if host not in busy and not self._is_down(host)]
        host = (known or sorted(free, key=lambda each: self._world.hosts[each].life > 0) or [""])[0]
        if host:
            if not known and self._world.hosts[host].running:  # another process than before
                self._world.take_down(self._world.hosts[host], Condition.CLOSED)
                self._start(host)
            del self._guests[host]
            self._guests[host] = client_id
        return host

    def _tell(self, connection: _Connection, asked: RealRequest) -> None:
        connection.target = asked.to
        message, client = asked.message, connection.client
        if isinstance(message, Produce) and asked.wire is not None:
            message, fits = self._payloads.take(message, asked.wire.records)
            asked.message = message
            if not fits:
                most = self._payloads.most_bytes // (1024 * 1024)
                self._say(f"refused records of {client_of(client)}: the store of payloads has its limit of {most} MB")
        elif isinstance(message, Fetch):
            connection.fetch_bytes.update(((row.topic, row.partition), row.max_bytes) for row in message.partitions)
            for at in message.forgotten:
                connection.fetch_bytes.pop(at, None)
        elif isinstance(message, CreateTopics):
            for line in ineffective(message):
                self._say(line)
        elif isinstance(message, JoinGroup | ConsumerGroupHeartbeat):
            name = part_on(client, connection.name)
            self._world.tell(asked.to, NameClient(client=name, client_id=connection.client_id))
        if asked.is_answered:
            connection.unanswered.append(asked)
        data = seal(message, asked.version)
        if not self._world.tell(client, AskOn(connection=connection.name, to=asked.to, request=data)):
            connection.close(reset=True)

    def _answered(self, seen: Seen, fact: Received) -> None:
        connection = self._connections.get(seen.actor)
        if connection is None:
            return
        asked = connection.unanswered.popleft()
        asked.answers.append(fact.message)
        if (asked.wire is None or len(asked.answers) == len(asked.wire.messages)) and not self._sent(connection, asked):
            connection.close()
            return
        if not connection.unanswered:
            while connection.waiting and (not connection.unanswered or connection.waiting[0].to == connection.target):
                self._tell(connection, connection.waiting.popleft())
        if connection.load < MOST_UNANSWERED:
            connection.room.set()

    def _sent(self, connection: _Connection, asked: RealRequest) -> bool:
        """Send the frame that answers a request; return whether the connection stays open."""
        try:
            address = partial(self._address_for, connection.door)
            frame = frame_of(asked, address, self._payloads, connection.fetch_bytes, self._offered)
            if frame is not None:
                connection.send.send_nowait(frame)
            return frame is not None
        except WireError as error:
            self._refuse(connection, f"no answer to {type(asked.message).__name__}: {error}")
        except trio.WouldBlock:
            self._refuse(connection, f"the client reads too slowly: {MOST_UNSENT} answers wait")
        return False

    def _address_for(self, door: Door, broker: str) -> str:
        return f"{self.address}:{door.ports[broker]}" if broker in door.ports else f"{self.address}:0"

    def _link_down(self, seen: Seen, fact: LinkDown) -> None:
        if is_real_client(seen.actor) and (connection := self._connections.get(seen.actor)) is not None:
            connection.close(reset=True)

    def _closed(self, connection: _Connection) -> None:
        """Tell the client's machine that the socket is closed."""
        if connection.is_open:
            self._connections.pop(part_on(connection.client, connection.name), None)
            self._world.tell(connection.client, CloseConnection(connection=connection.name))

    # --- hosts -----------------------------------------------------------------------------------------------------

    def _host_started(self, seen: Seen, fact: HostStarted) -> None:
        for door in self.doors:
            if fact.host in door.ports:
                self._listen(door, fact.host)

    def _host_down(self, seen: Seen, fact: HostDown) -> None:
        if is_real_client(fact.host):
            self._reset(lambda each: each.client == fact.host)
        elif fact.how in _DEAD:
            for door in self.doors:
                if fact.host in door.ports:
                    self._stop_listening(door, fact.host)
            self._reset(lambda each: each.broker == fact.host)

    def _reset(self, wanted: Callable[[_Connection], bool]) -> None:
        for connection in [each for each in self._sockets if wanted(each)]:
            connection.close(reset=True)

    def _broker_added(self, seen: Seen, fact: BrokerHostAdded) -> None:
        """Open ports for a broker that joins the cluster; the system chooses the ports."""
        for index, door in enumerate(self.doors):
            port = self._bind(door.client, fact.host, 0)
            self.doors[index] = Door(door.client, {**door.ports, fact.host: port})


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def serve_until_signal(
    gateway: Gateway,
    world: World,
    outside: Outside,
    *,
    ready: Callable[[], object],
    signals: Sequence[int],
    beside: Sequence[Callable[[Outside], Awaitable[None]]] = (),
) -> None:
    """Serve until cancelled. One of these signals stops the world; ``World.stopped`` has the signal's name.

    Args:
        beside: further tasks that act on the world, such as a control socket.
    """
    async with trio.open_nursery() as nursery:
        for each in beside:
            nursery.start_soon(each, outside)
        nursery.start_soon(gateway.serve, outside, ready)
        if signals:
            with trio.open_signal_receiver(*signals) as received_signals:
                async for number in received_signals:
                    outside.call(partial(_stop, world, signal.Signals(number).name))


def _stop(world: World, why: str) -> None:
    world.stopped = why
