"""The network's faults as rules: each judges packets while it is installed. The first that does not pass decides."""

from collections.abc import Callable

from kemu.emulator.chance import Stream
from kemu.emulator.engine.network import DROP, HOLD, PASS, Delay, Judgement, Packet, Rule
from kemu.protocol.names import host_of

Side = Callable[[str], bool]
"""Whether a host belongs to a side."""


def side_of(hosts: tuple[str, ...]) -> Side:
    """The side of these hosts; of every host when none are named."""
    return (lambda _: True) if not hosts else frozenset(hosts).__contains__


class SplitRule(Rule):
    """Packets between the sides wait, as TCP retransmits them, until the split heals or their connection is closed."""

    def __init__(self, side: tuple[str, ...], other: tuple[str, ...], one_way: bool) -> None:
        super().__init__()
        self._side = frozenset(side)
        self._other = frozenset(other)
        self._one_way = one_way

    def judge(self, packet: Packet) -> Judgement:
        """Hold what crosses."""
        sender, receiver = host_of(packet.sender), host_of(packet.receiver)
        if self._crosses(sender, receiver) or (not self._one_way and self._crosses(receiver, sender)):
            return HOLD
        return PASS

    def _crosses(self, sender: str, receiver: str) -> bool:
        if sender not in self._side or receiver in self._side:
            return False
        return not self._other or receiver in self._other


class LinkRule(Rule):
    """Base of rules for what goes from some hosts to some hosts."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__()
        self._from = side_of((sender,) if sender else ())
        self._to = side_of((receiver,) if receiver else ())

    def concerns(self, packet: Packet) -> bool:
        """Whether the packet goes that way."""
        return self._from(host_of(packet.sender)) and self._to(host_of(packet.receiver))


class SlowRule(LinkRule):
    """Later by a fixed span and a drawn one."""

    def __init__(self, sender: str, receiver: str, add_us: int, jitter_us: int, chance: Stream) -> None:
        super().__init__(sender, receiver)
        self._add_us = add_us
        self._jitter_us = jitter_us
        self._chance = chance

    def judge(self, packet: Packet) -> Judgement:
        """Delay what goes this way."""
        if not self.concerns(packet):
            return PASS
        return Delay(self._add_us + self._chance.between(0, self._jitter_us))


class LossyRule(LinkRule):
    """Lost, now and then, and the connection with it."""

    def __init__(self, sender: str, receiver: str, per_mille: int, chance: Stream) -> None:
        super().__init__(sender, receiver)
        self._per_mille = per_mille
        self._chance = chance

    def judge(self, packet: Packet) -> Judgement:
        """Drop some of what goes this way."""
        return DROP if self.concerns(packet) and self._chance.below(1000) < self._per_mille else PASS


class HoldRule(LinkRule):
    """Held until the rule is removed; with ``api``, from the first packet of that API on (what follows it waits)."""

    def __init__(self, sender: str, receiver: str, api: str) -> None:
        super().__init__(sender, receiver)
        self._api = api

    def judge(self, packet: Packet) -> Judgement:
        """Hold what goes this way."""
        return HOLD if self.concerns(packet) and (not self._api or said_api(packet) == self._api) else PASS


class DuplicateRule(Rule):
    """Loses the reply to the nth request of an API, so that the client's retry is executed a second time."""

    def __init__(self, api: str, sender: str, nth: int) -> None:
        super().__init__()
        self._api = api
        self._is_sender = side_of((sender,) if sender else ())
        self._left = nth

    def judge(self, packet: Packet) -> Judgement:
        """Drop one reply."""
        if not packet.reply or packet.api != self._api or not self._is_sender(host_of(packet.receiver)):
            return PASS
        self._left -= 1
        return DROP if self._left == 0 else PASS


def said_api(packet: Packet) -> str:
    """Kafka's name of a packet's API; an answer has "Reply" at its end."""
    return packet.api + "Reply" if packet.reply else packet.api
