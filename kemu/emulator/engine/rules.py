"""Faults of the network as rules that judge packets. The first rule that drops or holds a packet decides."""

from collections.abc import Callable

from kemu.emulator.chance import Stream
from kemu.emulator.engine.network import DROP, HOLD, PASS, Delay, Judgement, Packet, Rule
from kemu.protocol.names import host_of
from kemu.protocol.wire.schema import SPECS

_NAMES = frozenset(cls.__name__ for cls in SPECS)
Side = Callable[[str], bool]
"""Tells whether a host belongs to one side of a fault."""


def side_of(hosts: tuple[str, ...]) -> Side:
    """Return the side with these hosts; the side of all hosts if ``hosts`` is empty."""
    return (lambda _: True) if not hosts else frozenset(hosts).__contains__


class SplitRule(Rule):
    """A network partition: packets between the sides wait until the partition heals or the packets' connection is
    closed.
    """

    def __init__(self, side: tuple[str, ...], other: tuple[str, ...], one_way: bool) -> None:
        super().__init__()
        self._side = frozenset(side)
        self._other = frozenset(other)
        self._one_way = one_way

    def judge(self, packet: Packet) -> Judgement:
        """Hold packets between the sides."""
        sender, receiver = host_of(packet.sender), host_of(packet.receiver)
        if self._crosses(sender, receiver) or (not self._one_way and self._crosses(receiver, sender)):
            return HOLD
        return PASS

    def _crosses(self, sender: str, receiver: str) -> bool:
        if sender not in self._side or receiver in self._side:
            return False
        return not self._other or receiver in self._other


class LinkRule(Rule):
    """Base of rules for packets from some hosts to other hosts."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__()
        self._from = side_of((sender,) if sender else ())
        self._to = side_of((receiver,) if receiver else ())

    def concerns(self, packet: Packet) -> bool:
        """Whether the rule applies to the packet."""
        return self._from(host_of(packet.sender)) and self._to(host_of(packet.receiver))


class SlowRule(LinkRule):
    """Delay packets by a fixed time plus a drawn time."""

    def __init__(self, sender: str, receiver: str, add_us: int, jitter_us: int, chance: Stream) -> None:
        super().__init__(sender, receiver)
        self._add_us = add_us
        self._jitter_us = jitter_us
        self._chance = chance

    def judge(self, packet: Packet) -> Judgement:
        """Delay packets in the direction of the rule."""
        if not self.concerns(packet):
            return PASS
        return Delay(self._add_us + self._chance.between(0, self._jitter_us))


class LossyRule(LinkRule):
    """Lose a share of the packets, and break their connections."""

    def __init__(self, sender: str, receiver: str, per_mille: int, chance: Stream) -> None:
        super().__init__(sender, receiver)
        self._per_mille = per_mille
        self._chance = chance

    def judge(self, packet: Packet) -> Judgement:
        """Drop a share of the packets in the direction of the rule."""
        return DROP if self.concerns(packet) and self._chance.below(1000) < self._per_mille else PASS


class HoldRule(LinkRule):
    """Hold packets until the rule is removed. With ``api``, hold packets of this API and all later packets of a
    connection.
    """

    def __init__(self, sender: str, receiver: str, api: str) -> None:
        super().__init__(sender, receiver)
        self._api = api

    def holds(self, packet: Packet, api: str = "") -> bool:
        """Whether a packet matches the rule (and ``api``, if given) and can still arrive."""
        return self._meant(packet) and api in ("", said_api(packet)) and packet.is_connected

    def _meant(self, packet: Packet) -> bool:
        return self.concerns(packet) and (not self._api or said_api(packet) == self._api)

    def judge(self, packet: Packet) -> Judgement:
        """Hold packets in the direction of the rule."""
        return HOLD if self._meant(packet) else PASS


class BarrierRule(HoldRule):
    """Hold messages until ``senders`` senders have sent a message, and call ``come`` at the last message."""

    def __init__(self, sender: str, receiver: str, api: str, senders: int, come: Callable[[], object]) -> None:
        super().__init__(sender, receiver, api)
        self._senders = senders
        self._come = come

    def judge(self, packet: Packet) -> Judgement:
        """Hold packets in the direction of the rule."""
        if not self._meant(packet):
            return PASS
        there = {each.sender for each in self.waiting if self.holds(each)} | {packet.sender}
        if len(there) == self._senders:
            self._come()
        return HOLD


class NthRule(LinkRule):
    """Base of rules for one message: the nth message of an API in one direction, counted from the installation."""

    def __init__(self, sender: str, receiver: str, api: str, nth: int) -> None:
        super().__init__(sender, receiver)
        self._api = api
        self._left = nth
        self._last = 0
        self._found = 0

    def is_it(self, packet: Packet) -> bool:
        """Whether a packet is the nth message. A held packet that is judged again is counted once."""
        if packet.id > self._last and self._left and said_api(packet) == self._api and self.concerns(packet):
            self._last = packet.id
            self._left -= 1
            if not self._left:
                self._found = packet.id
        return packet.id == self._found


class LateRule(NthRule):
    """Delay one message, and all later messages of its connection."""

    def __init__(self, sender: str, receiver: str, api: str, nth: int, by_us: int) -> None:
        super().__init__(sender, receiver, api, nth)
        self._late = Delay(by_us)

    def judge(self, packet: Packet) -> Judgement:
        """Delay the nth message."""
        return self._late if self.is_it(packet) else PASS


class LoseRule(NthRule):
    """Lose one message and break its connection."""

    def judge(self, packet: Packet) -> Judgement:
        """Drop the nth message."""
        return DROP if self.is_it(packet) else PASS


class PriorityRule(Rule):
    """Delay the messages of a link or a host by a drawn priority: the lower the priority, the longer the delay.

    Initial priorities give delays up to half of the longest delay. A link that loses its priority at a change point has
    a delay above this half. Source: PCT (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of
    finding bugs", 2010), with links as threads and sent messages as steps.
    """

    def __init__(self, of_links: bool, within_us: int, changes: int, messages: int, chance: Stream) -> None:
        super().__init__()
        self._of_links = of_links
        self._half_us = within_us // 2
        self._count = changes
        self._changes = {chance.between(1, messages): rank for rank in range(1, changes + 1)}
        """Number of a message -> rank of the message's link after this change point."""
        self._chance = chance
        self._late_us: dict[tuple[str, str], int] = {}
        self._messages = self._last = 0

    def judge(self, packet: Packet) -> Judgement:
        """Delay a packet by the priority of its link."""
        link = host_of(packet.sender), host_of(packet.receiver) if self._of_links else ""
        if packet.id > self._last:
            self._last = packet.id
            self._messages += 1
            rank = self._changes.pop(self._messages, 0)
            if rank:
                self._late_us[link] = self._half_us + self._half_us * rank // self._count
        late_us = self._late_us.get(link)
        if late_us is None:
            late_us = self._late_us[link] = self._chance.between(0, self._half_us)
        return Delay(late_us) if late_us else PASS


class GrainRule(Rule):
    """Pass all packets. While the rule is installed, the network rounds arrivals to ``grain_us``."""

    def judge(self, packet: Packet) -> Judgement:
        """Pass the packet."""
        return PASS


class DuplicateRule(Rule):
    """Lose the reply to the nth request of an API, so that the server executes the client's retry, too."""

    def __init__(self, api: str, sender: str, nth: int) -> None:
        super().__init__()
        self._api = api
        self._is_sender = side_of((sender,) if sender else ())
        self._left = nth

    def judge(self, packet: Packet) -> Judgement:
        """Drop the reply to the nth request."""
        if not packet.reply or packet.api != self._api or not self._is_sender(host_of(packet.receiver)):
            return PASS
        self._left -= 1
        return DROP if self._left == 0 else PASS


def said_api(packet: Packet) -> str:
    """Return Kafka's name of a packet's API, with "Reply" for a reply; "" for watch events of the store."""
    answer = packet.api + "Reply"
    return answer if packet.reply and answer in _NAMES else packet.api
