"""The network's faults as rules: each judges packets while it is installed. The first that drops or holds decides."""

from collections.abc import Callable

from kemu.emulator.chance import Stream
from kemu.emulator.engine.network import DROP, HOLD, PASS, Delay, Judgement, Packet, Rule
from kemu.protocol.names import host_of
from kemu.protocol.wire.schema import SPECS

_NAMES = frozenset(cls.__name__ for cls in SPECS)
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

    def holds(self, packet: Packet, api: str = "") -> bool:
        """Whether it is one of those that it looks for (with ``api``: of this one), and may still arrive."""
        return self._meant(packet) and api in ("", said_api(packet)) and packet.is_connected

    def _meant(self, packet: Packet) -> bool:
        return self.concerns(packet) and (not self._api or said_api(packet) == self._api)

    def judge(self, packet: Packet) -> Judgement:
        """Hold what goes this way."""
        return HOLD if self._meant(packet) else PASS


class BarrierRule(HoldRule):
    """Holds until messages of so many senders are there; then ``open`` is called, after the last of them is held."""

    def __init__(self, sender: str, receiver: str, api: str, senders: int, come: Callable[[], object]) -> None:
        super().__init__(sender, receiver, api)
        self._senders = senders
        self._come = come

    def judge(self, packet: Packet) -> Judgement:
        """Hold what goes this way."""
        if not self._meant(packet):
            return PASS
        there = {each.sender for each in self.waiting if self.holds(each)} | {packet.sender}
        if len(there) == self._senders:
            self._come()
        return HOLD


class NthRule(LinkRule):
    """Base of rules for one message: the nth of an API that goes this way from now on."""

    def __init__(self, sender: str, receiver: str, api: str, nth: int) -> None:
        super().__init__(sender, receiver)
        self._api = api
        self._left = nth
        self._last = 0
        self._found = 0

    def is_it(self, packet: Packet) -> bool:
        """Whether it is that one; a packet that is judged again, because it was held, is not counted again."""
        if packet.id > self._last and self._left and said_api(packet) == self._api and self.concerns(packet):
            self._last = packet.id
            self._left -= 1
            if not self._left:
                self._found = packet.id
        return packet.id == self._found


class LateRule(NthRule):
    """One message comes later, and all that is behind it on its connection."""

    def __init__(self, sender: str, receiver: str, api: str, nth: int, by_us: int) -> None:
        super().__init__(sender, receiver, api, nth)
        self._late = Delay(by_us)

    def judge(self, packet: Packet) -> Judgement:
        """Delay the one."""
        return self._late if self.is_it(packet) else PASS


class LoseRule(NthRule):
    """One message is lost, and its connection with it."""

    def judge(self, packet: Packet) -> Judgement:
        """Drop the one."""
        return DROP if self.is_it(packet) else PASS


class PriorityRule(Rule):
    """Messages of a link, or of a host, have a priority: they come later by the same span, the lower the later.

    The first half of the span is for priorities that are drawn; who loses its own at a change point comes later than
    all of these. Source: PCT (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding
    bugs", 2010), where the threads are links and a step is a message sent.
    """

    def __init__(self, of_links: bool, within_us: int, changes: int, messages: int, chance: Stream) -> None:
        super().__init__()
        self._of_links = of_links
        self._half_us = within_us // 2
        self._count = changes
        self._changes = {chance.between(1, messages): rank for rank in range(1, changes + 1)}
        """Number of a message -> how much lower than other changed ones its link comes to be."""
        self._chance = chance
        self._late_us: dict[tuple[str, str], int] = {}
        self._messages = self._last = 0

    def judge(self, packet: Packet) -> Judgement:
        """Delay it by what its link's priority makes it wait."""
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
    """Judges nothing; while it is there, the network goes the way on which packets wait for their grain."""

    def judge(self, packet: Packet) -> Judgement:
        """No objection."""
        return PASS


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
    """Kafka's name of a packet's API; an answer has "Reply" at its end (what a store tells by itself is none)."""
    answer = packet.api + "Reply"
    return answer if packet.reply and answer in _NAMES else packet.api
