"""The network: TCP connections between actors.

Packets of a connection arrive in order, or the connection breaks. A lost packet breaks its connection: both ends learn
of a disconnect, and all requests in flight fail. TCP's retransmissions delay packets but lose no packet. During a
partition packets wait, and arrive when the partition heals, if the connection is still open. Only frozen messages cross
the network.

A link connects one actor, the client, to another actor, the server. A link has at most one connection at a time.
Packets within a host take microseconds, and no fault of the network affects these packets.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from kemu.actors.machine import LinkDown, Received, Send
from kemu.emulator.chance import Choices, Entry, Stream
from kemu.emulator.engine.agenda import Agenda
from kemu.emulator.engine.bandwidth import Bandwidth
from kemu.emulator.engine.hosts import Actor, Condition, Host, Turn
from kemu.emulator.engine.mail import LARGE_BYTES, Decoding, LargeReplies, Unreadable, loss_of, seal_mail
from kemu.emulator.trace.traces import PacketRow
from kemu.protocol.draws import Distribution
from kemu.protocol.names import host_of, is_real_client, part_on, path_and_peer
from kemu.protocol.wire.schema import SPECS

_API: dict[type, tuple[str, dict[int, Callable[[Any], bool] | None]]] = {
    cls: (spec.name, {}) for cls, spec in SPECS.items()
}
"""Message -> Kafka's name of its API, and ``loss_of`` by version, filled on first use. The import of
``emulator.engine.mail`` has declared all messages.
"""

LOOPBACK_US = (20, 60)
"""Least and most latency between actors of one host, such as a broker and its coordinator, in us."""


MOST_RETRANSMIT_US = 120_000_000
"""Longest time between two retransmissions of TCP, in us. Source: Linux, ``TCP_RTO_MAX``."""


class Verdict(StrEnum):
    """Fate of a packet, as in the trace."""

    SENT = "sent"
    LOST = "lost"
    """The connection is closed, or a rule dropped the packet and broke the connection."""
    QUEUED = "queued"
    """The packet carries records and waits for the bandwidth of its sender's and receiver's network cards."""
    HELD = "held"
    RELEASED = "released"
    REFUSED = "refused"
    """The receiving host does not know the connection, and resets the sender's connection."""
    VANISHED = "vanished"
    """The receiving host is without power, or the receiving actor's life has ended."""
    UNREADABLE = "unreadable"


_new = tuple.__new__
_PAUSED, _SENT = Condition.PAUSED, Verdict.SENT  # to look a member up in its class is slow on CPython 3.11


class Pass(NamedTuple):
    """Let the packet pass."""


class Drop(NamedTuple):
    """Lose the packet and break its connection."""


class Delay(NamedTuple):
    """Delay the packet, and all later packets of its connection, by this time."""

    extra_us: int


class HoldBack(NamedTuple):
    """Hold the packet until the rule releases it."""


Judgement = Pass | Drop | Delay | HoldBack
PASS, DROP, HOLD = Pass(), Drop(), HoldBack()


class Way:
    """One direction of a link, with its last message, so that a repeated message is encoded only once.

    Messages are frozen, so the same object has the same bytes. An idle client sends the same request repeatedly and
    gets the same answer. The bytes and the decoded message are computed once and used for each repetition. A message
    that is not repeated costs one comparison.
    """

    __slots__ = ("data", "held", "message", "next_us", "opened", "version")

    def __init__(self) -> None:
        self.next_us = 0
        """Earliest arrival of the next packet."""
        self.held: Rule | None = None
        """The rule that holds packets, or None. Later packets wait behind the held packets."""
        self.message: Any = None
        self.version = -1
        self.data: bytes | None = None
        """Encoded message; None until the message was sent twice in a row."""
        self.opened: Any = None


class Link:
    """The connections of one actor to another actor. ``connection`` is 0 while no connection is open."""

    __slots__ = (
        "actor",
        "broken",
        "client",
        "client_host",
        "client_life",
        "connection",
        "drawn",
        "label",
        "least_us",
        "local",
        "number",
        "server",
        "server_host",
        "server_life",
        "span",
        "stream",
        "unheard_us",
        "ways",
    )

    def __init__(
        self,
        client: str,
        server: str,
        hosts: tuple[Host | None, Host | None],
        latency_us: tuple[int, int],
        stream: Stream,
        drawn: Distribution | None = None,
        number: int = 0,
    ) -> None:
        self.number = number
        self.client_host, self.server_host = hosts
        self.least_us, most_us = latency_us
        self.span = most_us - self.least_us + 1
        self.client = client
        self.server = server
        self.actor = client
        """The actor that contains the client, or the client itself."""
        self.label = server
        """The name by which the client addresses the server."""
        self.local = host_of(client) == host_of(server)
        """Whether both ends are on one host. Packets within a host are never lost, and rules do not judge these
        packets."""
        self.connection = 0
        self.broken = False
        self.client_life = 0
        self.server_life = 0
        self.ways = (Way(), Way())
        """The directions to the server, and to the client."""
        self.stream = stream
        self.drawn = drawn
        """Distribution of the latency; None for a uniform distribution between ``least_us`` and the upper bound."""
        self.unheard_us = -1
        """Time of the client's first packet that the server's host has not acknowledged; -1 without such a packet."""

    def latency_us(self) -> int:
        """Return the latency of the next packet in us."""
        if self.drawn is not None:
            return self.drawn.of(self.stream.word())
        return self.least_us + ((self.stream.word() * self.span) >> 32)


class Packet:
    """An encoded message in transit. ``reply`` is also the packet's direction: 0 to the server, 1 to the client."""

    __slots__ = (
        *("api", "connection", "data", "held_us", "id", "link", "message", "records_bytes", "reply", "request_id"),
        *("sender_life", "server_life", "version"),
    )

    def __init__(
        self, number: int, link: Link, connection: int, request_id: int, version: int, reply: int, api: str, data: bytes
    ) -> None:
        self.id = number
        self.link = link
        self.connection = connection
        self.request_id = request_id
        self.version = version
        self.reply = reply
        self.api = api
        self.data = data
        self.message: Any = None
        """The sent message, if the receiver gets the same object; None if the receiver gets a message decoded from
        ``data``."""
        self.server_life = 0
        self.held_us = 0
        self.records_bytes = 0
        """Size of the packet's records in bytes, if bandwidth is limited; ``data`` has only the records' offsets."""
        self.sender_life = 0

    @property
    def bytes(self) -> int:
        """Size of the packet on the wire, in bytes."""
        return self.records_bytes + len(self.data)

    @property
    def is_connected(self) -> bool:
        """Whether the packet's connection is still open."""
        return self.link.connection == self.connection and not self.link.broken

    @property
    def is_alive(self) -> bool:
        """Whether the packet's connection is still open, and the sender runs."""
        link = self.link
        sender = link.server_host if self.reply else link.client_host
        there = sender is not None and sender.running and sender.life == self.sender_life
        return there and self.is_connected

    @property
    def sender(self) -> str:
        """Name of the sending actor."""
        return self.link.server if self.reply else self.link.client

    @property
    def receiver(self) -> str:
        """Name of the receiving actor."""
        return self.link.client if self.reply else self.link.server


class Rule:
    """A fault of the network. An installed rule judges each packet, and counts its verdicts.

    The first rule that drops or holds a packet decides; delays add up. A held packet is judged again on release, by the
    rules that are installed at the release.
    """

    def __init__(self) -> None:
        self.hits = 0
        self.waiting: list[Packet] = []

    def judge(self, packet: Packet) -> Judgement:
        """Return the verdict on a packet."""
        raise NotImplementedError


class Network:
    """The links of a cluster, their latencies, and the rules that judge packets. ``tell`` reports later verdicts on
    packets, with the time of arrival (-1 for no arrival).
    """

    def __init__(
        self,
        agenda: Agenda,
        choices: Choices,
        hosts: dict[str, Host],
        latency_us: tuple[int, int],
        links_us: Mapping[tuple[str, str], tuple[int, int]],
        tell: Callable[[Packet, Verdict, int], None],
        drawn: Distribution | None = None,
        retransmit: Callable[[], int] | None = None,
    ) -> None:
        """
        Args:
            drawn: distribution of latency for hosts without bounds of their own; None for a uniform distribution within
            ``latency_us``.
            retransmit: draws TCP's first retransmission time-out (us); None if TCP retransmits nothing.
        """
        self.agenda = agenda
        self._choices = choices
        self.hosts = hosts
        self.latency_us = latency_us
        self.links_us = links_us
        """Pair of hosts -> (least, most) latency, for pairs with latencies of their own."""
        self._drawn = drawn
        self._retransmit = retransmit
        self.rules: list[Rule] = []
        self.now_us = 0
        self.packets = 0
        self.watch_arrivals: Callable[[Packet, Any], None] | None = None
        self._tell = tell
        self.bandwidth: Bandwidth[Packet] | None = None
        """The limited network cards; None without limits."""
        self.weigh: Callable[[Any], int] = _weightless
        """Function that returns the size of a message's records in bytes; called only with limited network cards."""
        self._large = LargeReplies()
        self._hands_over = not Decoding.always
        self._links = 0
        self._connections: dict[int, Link] = {}
        self._last_connection = 0
        self.arrived: Packet
        """The packet whose arrival caused the current turn."""
        self.grain_us = 0
        """While rules are installed, arrivals are rounded up to multiples of this time, in us; 0 for no rounding."""

    # --- sending -----------------------------------------------------------------------------------------------

    def send(self, actor: Actor, send: Send) -> tuple[Packet, PacketRow]:
        """Encode and dispatch a message; return the packet, and the packet's row for the trace with its fate."""
        self.packets = number = self.packets + 1
        to, connection, request_id, version, message = send
        if connection:
            reply = 1
            link = self._connections.get(connection)
            if link is None:
                link = self._link(to, actor.name, 0)
                dead = True
            else:
                dead = link.broken or link.connection != connection
            sender, receiver = link.server, link.client
        else:
            reply = 0
            link = actor.links.get(to)
            if link is None:
                link = actor.links[to] = self._link_of(actor, to)
            if not link.connection:
                self._open(link, actor)
            connection, dead = link.connection, link.broken
            sender, receiver = link.client, link.server
        last = link.ways[reply]
        if last.message is message and last.version == version:
            data = last.data
            if data is None:
                data = last.data = seal_mail(message, version)
        else:
            data = self._large.seal(message, version) if reply else seal_mail(message, version)
            last.message, last.version = message, version
            if last.data is not None:
                last.data = last.opened = None
        api, losses = _API[type(message)]
        packet = Packet(number, link, connection, request_id, version, reply, api, data)
        if self._hands_over:
            if version not in losses:
                losses[version] = loss_of(type(message), version)
            loses = losses[version]
            # a repeated or large message is decoded once, which is cheaper than many looks at its fields
            if loses is None or (last.data is None and len(data) < LARGE_BYTES and not loses(message)):
                packet.message = message
        verdict: Verdict = _SENT
        if dead:
            verdict, due_us = Verdict.LOST, -1
        elif self.rules or self.bandwidth is not None or link.ways[reply].held is not None:
            verdict, due_us = self._send_judged(packet, actor, message)
        else:
            due_us = self._dispatch(packet, 0)
        return packet, (number, self.now_us, sender, receiver, connection, api, len(data), verdict, due_us)

    def _send_judged(self, packet: Packet, actor: Actor, message: Any) -> tuple[Verdict, int]:
        """Dispatch a packet under rules and limited cards; return the fate and the time of arrival (-1 for never)."""
        link, extra_us = packet.link, 0
        if self.bandwidth is not None and not link.local:
            packet.records_bytes, packet.sender_life = self.weigh(message), actor.life
        if (self.rules and not link.local) or link.ways[packet.reply].held is not None:
            judgement = self._judge(packet)
            if judgement is DROP:
                self.break_link(link)
                return Verdict.LOST, -1
            if judgement is HOLD:
                return Verdict.HELD, -1
            if type(judgement) is Delay:
                extra_us = judgement.extra_us
        if self._waits(packet, extra_us):
            return Verdict.QUEUED, -1
        if self.grain_us and not link.local:
            extra_us += -(self.now_us + (latency_us := link.latency_us()) + extra_us) % self.grain_us
            return _SENT, self._dispatch_after(packet, latency_us + extra_us)
        return _SENT, self._dispatch(packet, extra_us)

    def round_arrivals(self, grain_us: int) -> None:
        """Round arrivals up to multiples of ``grain_us`` while rules are installed; 0 ends the rounding."""
        self.grain_us = grain_us

    def limit_bandwidth(self, host: str, bytes_per_s: int) -> None:
        """Set the bandwidth of a host's network card in bytes per second, each way; 0 removes the limit."""
        if self.bandwidth is None:
            self.bandwidth = Bandwidth(self.agenda, self._departs)
        self.bandwidth.limit(host, bytes_per_s, self.now_us)

    def _waits(self, packet: Packet, extra_us: int) -> bool:
        link = packet.link
        ends = (link.client_host, link.server_host)
        if self.bandwidth is None or link.local or not packet.sender_life:
            return False
        sender, receiver = (end.name if end is not None else "" for end in (ends[::-1] if packet.reply else ends))
        way, bulk = (link.number, packet.reply), packet.records_bytes > 0
        return self.bandwidth.takes(packet, way, (sender, receiver), extra_us, self.now_us, bulk=bulk)

    def _departs(self, packet: Packet, extra_us: int) -> None:
        """Dispatch a packet that has passed the network cards, or drop a packet whose connection has broken."""
        if packet.is_alive:
            self._tell(packet, Verdict.SENT, self._dispatch(packet, extra_us))
        else:
            self._tell(packet, Verdict.LOST, -1)

    def _judge(self, packet: Packet, but: Rule | None = None) -> Judgement:
        """Return the verdict of all rules except ``but``."""
        before = packet.link.ways[packet.reply].held
        if before is not None:
            packet.held_us = self.now_us
            before.waiting.append(packet)
            return HOLD
        extra_us = 0
        for rule in self.rules:
            if rule is but or (judgement := rule.judge(packet)) is PASS:
                continue
            rule.hits += 1
            if type(judgement) is Delay:
                extra_us += judgement.extra_us
                continue
            if judgement is HOLD:
                packet.held_us = self.now_us
                rule.waiting.append(packet)
                packet.link.ways[packet.reply].held = rule
            return judgement
        return Delay(extra_us) if extra_us else PASS

    def _dispatch(self, packet: Packet, extra_us: int = 0) -> int:
        link, way = packet.link, packet.reply
        if link.drawn is None:
            due_us = self.now_us + link.least_us + ((link.stream.word() * link.span) >> 32) + extra_us
        else:
            due_us = self.now_us + link.drawn.of(link.stream.word()) + extra_us
        direction = link.ways[way]
        if due_us <= direction.next_us:
            due_us = direction.next_us + 1
        direction.next_us = due_us
        if way:
            self.agenda.push(due_us, self._reply_arrives, packet)
        else:
            server_host = link.server_host
            packet.server_life = server_host.life if server_host is not None and server_host.running else 0
            self.agenda.push(due_us, self._request_arrives, packet)
        return due_us

    def _dispatch_after(self, packet: Packet, after_us: int) -> int:
        """Dispatch a packet with this latency."""
        link, way = packet.link, packet.reply
        link.ways[way].next_us = due_us = max(self.now_us + after_us, link.ways[way].next_us + 1)
        if not way:
            there = link.server_host is not None and link.server_host.running
            packet.server_life = link.server_host.life if there and link.server_host is not None else 0
        self.agenda.push(due_us, self._reply_arrives if way else self._request_arrives, packet)
        return due_us

    def _link_of(self, actor: Actor, label: str) -> Link:
        """Return the link of a client to a server. ``label``: the client part of the actor, and the server."""
        path, server = path_and_peer(label)
        link = self._link(part_on(actor.name, path), server, actor.life)
        link.actor, link.label = actor.name, label
        return link

    def _link(self, client: str, server: str, life: int) -> Link:
        ends = host_of(client), host_of(server)
        own_us = self.links_us.get(ends) or self.links_us.get(ends[::-1])
        latency_us, drawn = own_us or self.latency_us, None if own_us else self._drawn
        if ends[0] == ends[1]:
            latency_us, drawn = LOOPBACK_US, None
        if drawn is not None:
            latency_us = drawn.values[0], drawn.most
        hosts = self.hosts.get(ends[0]), self.hosts.get(ends[1])
        self._links += 1
        stream = self._choices.stream(f"net/{client}.{life}>{server}")
        return Link(client, server, hosts, latency_us, stream, drawn, self._links)

    def _open(self, link: Link, actor: Actor) -> None:
        """Open a connection. The handshake takes a round trip before the first packet leaves."""
        self._last_connection = link.connection = self._last_connection + 1
        self._connections[link.connection] = link
        link.broken = False
        link.unheard_us = -1
        link.client_life = actor.life
        link.server_life = 0
        for way in link.ways:
            way.held = None
        handshake_us = 2 * (link.latency_us())
        link.ways[0].next_us = max(link.ways[0].next_us, self.now_us + handshake_us)

    # --- arriving ----------------------------------------------------------------------------------------------

    def _request_arrives(self, entry: Entry) -> Turn | None:
        packet: Packet = entry[4]
        link = packet.link
        host = link.server_host
        if host is None or not host.running:
            silent = host is not None and host.condition is Condition.SILENT
            self._tell(packet, Verdict.VANISHED if silent else Verdict.REFUSED, -1)
            if not silent:
                self._reset(link, packet.connection)
            elif link.unheard_us < 0 and link.connection == packet.connection:
                link.unheard_us = self.now_us
            return None
        if host.condition is _PAUSED:
            host.held.append(entry)
            return None
        current = link.connection == packet.connection
        # A connection that began while the host was silent delivers nothing: TCP keeps the order, and lost the start.
        if current and link.server_life == 0 and link.unheard_us < 0:
            link.server_life = host.life
        if (link.server_life if current else packet.server_life) != host.life:
            self._tell(packet, Verdict.REFUSED, -1)
            self._reset(link, packet.connection)
            return None
        return self._deliver(packet, host.actors[link.server])

    def _reply_arrives(self, entry: Entry) -> Turn | None:
        packet: Packet = entry[4]
        link = packet.link
        host = link.client_host
        if host is None or not host.running or host.life != link.client_life or link.connection != packet.connection:
            self._tell(packet, Verdict.VANISHED, -1)
            return None
        if host.condition is _PAUSED:
            host.held.append(entry)
            return None
        return self._deliver(packet, host.actors[link.actor])

    def _deliver(self, packet: Packet, actor: Actor) -> Turn | None:
        link, reply, message = packet.link, packet.reply, packet.message
        if message is None:
            data, last = packet.data, link.ways[reply]
            try:
                if last.data is not data:
                    message = self._large.open(data)
                elif (message := last.opened) is None:
                    message = last.opened = self._large.open(data)
            except Unreadable:
                self._tell(packet, Verdict.UNREADABLE, -1)
                self.break_link(link)
                return None
        if self.watch_arrivals is not None:
            self.watch_arrivals(packet, message)
        sender = link.server if reply else link.client
        event = _new(Received, (sender, packet.connection, packet.request_id, packet.version, message))
        self.arrived = packet
        return actor, event

    # --- connections -------------------------------------------------------------------------------------------

    def hang_up(self, actor: Actor, peer: str) -> None:
        """Close a client's connection. The server learns of the end after the packets in flight."""
        link = actor.links.get(peer)
        if link is not None and link.connection:
            self._forget(link)
            self._tell_server(link)
        if link is not None and is_real_client(actor.name):  # each connection of a real client has a new name
            del actor.links[peer]

    def break_link(self, link: Link) -> None:
        """Break a connection. Each end learns of the break after the packets in flight to the same end."""
        if not link.connection or link.broken:
            return
        link.broken = True
        self._drop_dead()
        self._tell_client(link)
        self._tell_server(link)

    def break_between(self, first: str, second: str) -> int:
        """Break every connection between two hosts; return the number of broken connections."""
        links = [
            link
            for link in self._connections.values()
            if not link.broken and {host_of(link.client), host_of(link.server)} == {first, second}
        ]
        for link in links:
            self.break_link(link)
        return len(links)

    def host_down(self, host: Host, silent: bool) -> None:
        """End a host's connections after the end of its process. Peers receive resets, or nothing if ``silent``."""
        for link in [link for link in self._connections.values() if link.client_host is host]:
            self._forget(link)
            if not silent:
                self._tell_server(link)
        if not silent:
            for link in [link for link in self._connections.values() if link.server_host is host]:
                self.break_link(link)
        self._drop_dead()

    def host_up(self, host: Host) -> None:
        """Reset the connections to a started host's former process when TCP retransmits unacknowledged packets."""
        if self._retransmit is None:
            return
        for link in self._connections.values():
            if link.server_host is host and link.unheard_us >= 0 and not link.broken:
                due_us = self._next_retransmission_us(link.unheard_us)
                self.agenda.push(due_us, self._retransmitted, (link, link.connection))

    def _next_retransmission_us(self, first_us: int) -> int:
        """Return the time of TCP's next retransmission of a packet that was first sent at ``first_us``."""
        assert self._retransmit is not None
        wait_us = self._retransmit()
        at_us = first_us + wait_us
        while at_us <= self.now_us:
            wait_us = min(2 * wait_us, MOST_RETRANSMIT_US)
            at_us += wait_us
        return at_us

    def _retransmitted(self, entry: Entry) -> None:
        link, connection = entry[4]
        host = link.server_host
        if host is not None and host.running and link.connection == connection:
            link.unheard_us = -1
            self._reset(link, connection)

    def _reset(self, link: Link, connection: int) -> None:
        if link.connection == connection and not link.broken:
            link.broken = True
            self._drop_dead()
            self._tell_client(link)

    def _forget(self, link: Link) -> None:
        self._connections.pop(link.connection, None)
        link.connection = 0
        self._drop_dead()

    def _drop_dead(self) -> None:
        if self.bandwidth is not None:
            self.bandwidth.drop_dead(self.now_us)

    def _tell_client(self, link: Link) -> None:
        due_us = max(self.now_us + link.least_us, link.ways[1].next_us + 1)
        link.ways[1].next_us = due_us
        self.agenda.push(due_us, self._client_learns, (link, link.connection))

    def _tell_server(self, link: Link) -> None:
        if link.server_life:
            due_us = max(self.now_us + link.least_us, link.ways[0].next_us + 1)
            link.ways[0].next_us = due_us
            self.agenda.push(due_us, self._server_learns, (link, link.server_life))

    def _client_learns(self, entry: Entry) -> Turn | None:
        link, connection = entry[4]
        host = link.client_host
        if link.connection != connection or host is None or not host.running or host.life != link.client_life:
            return None
        if host.condition is _PAUSED:
            host.held.append(entry)
            return None
        self._forget(link)
        return host.actors[link.actor], LinkDown(link.label)

    def is_news_of_client(self, entry: Entry) -> bool:
        """Whether an entry about a broken connection is for the client, and not for the server."""
        return bool(entry[3] == self._client_learns)

    def _server_learns(self, entry: Entry) -> Turn | None:
        link, life = entry[4]
        host = link.server_host
        if host is None or not host.running or host.life != life:
            return None
        if host.condition is _PAUSED:
            host.held.append(entry)
            return None
        return host.actors[link.server], LinkDown(link.client)

    # --- rules -------------------------------------------------------------------------------------------------

    def install(self, rule: Rule) -> None:
        """Add a rule after the installed rules."""
        self.rules.append(rule)

    def remove(self, rule: Rule) -> None:
        """Remove a rule, and release the packets that the rule held, in the order of sending."""
        self.rules.remove(rule)
        waiting, rule.waiting = rule.waiting, []
        for packet in waiting:
            if packet.link.ways[packet.reply].held is rule:
                packet.link.ways[packet.reply].held = None
        if self._retransmit is not None:
            self._release_later(waiting)
            return
        for packet in waiting:
            self._release(packet)

    def deliver(self, rule: Rule, wanted: Callable[[Packet], bool], most: int) -> int:
        """Release the first ``most`` wanted packets that a rule holds (0 for all); return the number of released wanted
        packets.

        Other packets on the same connections are released, too, up to the next wanted packet that stays. So each
        connection keeps its order. The rule stays installed.
        """
        going: list[Packet] = []
        staying: list[Packet] = []
        stopped: dict[tuple[Link, int], None] = {}
        delivered = 0
        for packet in rule.waiting:
            way = packet.link, packet.reply
            if way not in stopped and wanted(packet):
                if most and delivered == most:
                    stopped[way] = None
                else:
                    delivered += 1
            (staying if way in stopped else going).append(packet)
        rule.waiting = staying
        for packet in going:
            if packet.link.ways[packet.reply].held is rule:
                packet.link.ways[packet.reply].held = None
        for packet in going:
            self._release(packet, but=rule)
        for link, back in stopped:
            other = link.ways[back].held
            if other is None:
                link.ways[back].held = rule
            elif other is not rule:  # another rule holds earlier packets of the connection, so later packets wait
                behind = [packet for packet in rule.waiting if packet.link is link and packet.reply == back]
                rule.waiting = [packet for packet in rule.waiting if packet not in behind]
                other.waiting += behind
        return delivered

    def _release_later(self, waiting: list[Packet]) -> None:
        """Release packets at TCP's next retransmission. The packets of a connection keep their order."""
        backlogs: dict[tuple[int, int], Rule] = {}
        for packet in waiting:
            way = packet.connection, packet.reply
            if way not in backlogs:
                backlogs[way] = Rule()
                if packet.link.connection == packet.connection:
                    packet.link.ways[packet.reply].held = backlogs[way]
                due_us = self._next_retransmission_us(packet.held_us)
                self.agenda.push(due_us, self._sent_again, (packet.link, packet.reply, backlogs[way]))
            backlogs[way].waiting.append(packet)

    def _sent_again(self, entry: Entry) -> None:
        link, way, backlog = entry[4]
        if link.ways[way].held is backlog:
            link.ways[way].held = None
        for packet in backlog.waiting:
            self._release(packet)

    def _release(self, packet: Packet, but: Rule | None = None) -> None:
        if self.rules or packet.link.ways[packet.reply].held is not None:
            judgement = self._judge(packet, but)
            if judgement is HOLD:
                return
            if judgement is DROP:
                self._tell(packet, Verdict.LOST, -1)
                self.break_link(packet.link)
                return
        waits = self._waits(packet, 0)
        self._tell(packet, Verdict.QUEUED if waits else Verdict.RELEASED, -1 if waits else self._dispatch(packet))


def _weightless(message: Any) -> int:
    return 0
