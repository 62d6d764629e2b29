"""Schedules: orders of messages, as the last lines of a plan, and strategies that draw or enumerate them.

The seed of a run determines the order of its messages. A schedule changes only the order: of events at one instant
(``ties``), of slow links (``priorities``), of single delayed messages (``delay``). A schedule is a few plan lines, so
its run is repeated, recorded, replayed and shrunk like any other run. A schedule never lets a packet overtake another
packet on the same connection.

Sources: priorities: Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", 2010.
Delays: Emmi et al., "Delay-bounded scheduling", 2011 (most ordering bugs need only a few late messages).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Protocol

import attrs

from kemu.emulator.engine.network import PASS, Judgement, Packet, Rule
from kemu.emulator.engine.rules import said_api
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import LateMessage, LinkPriorities, TieOrder
from kemu.emulator.plan.entries import At, Plan, entry_to_dict
from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of

SEED_ORDER: Plan = ()
"""The schedule of a plain run: the seed's own order."""


@frozen
class SentMessage:
    """A message as a plan names it: the ``nth`` message of an API from one host to another."""

    api: str
    sender: str
    receiver: str
    nth: int


class SentMessages(Rule):
    """A rule of the network that passes all packets and records their messages, in order, until ``stop``."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[SentMessage] = []
        self.counting = True
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._last = 0

    def stop(self) -> None:
        """Record no more messages."""
        self.counting = False

    def judge(self, packet: Packet) -> Judgement:
        """Record the packet's messages and pass the packet."""
        if packet.id > self._last and self.counting:
            self._last = packet.id
            kind = said_api(packet), host_of(packet.sender), host_of(packet.receiver)
            self._counts[kind] += 1
            self.seen.append(SentMessage(*kind, self._counts[kind]))
        return PASS


@frozen(kw_only=True)
class Ran:
    """The result of a run for a strategy: schedule, messages, amount of new coverage."""

    schedule: Plan
    sent: Sequence[SentMessage]
    new: int
    """Number of new points (role, state, message, outcome), transitions and probes."""


class OrderStrategy(Protocol):
    """Chooses the schedules of one seed's runs. Callers call ``next`` and ``learn`` in turns."""

    def next(self) -> Plan | None:
        """The next schedule; None if no schedule is left."""
        ...

    def learn(self, ran: Ran) -> None:
        """Learn from the result of a run."""
        ...

    def copy(self) -> "OrderStrategy":
        """An independent copy of this strategy, in the same state."""
        ...


@frozen(kw_only=True)
class StrategyOptions:
    """Options of all strategies.

    ``grain_us``: events within this time are ties. ``within_us``: longest delay of a link. ``depth``: number of change
    points plus one (a bug of depth d needs d - 1 change points). ``bound``: most delayed messages. ``spans_us``:
    possible delays of a message. ``messages``: only these APIs are delayed ("SyncGroup", "SyncGroupReply"; () for all
    APIs).
    """

    grain_us: int = 10_000
    within_us: int = 1_000_000
    depth: int = 3
    bound: int = 2
    spans_us: tuple[int, ...] = (1_000_000, 10_000_000)
    messages: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Hosts that a plan can name. Messages of other hosts are not delayed."""


class _Plain:
    """A strategy with one schedule: the seed's own order."""

    def __init__(self, options: StrategyOptions) -> None:
        self._left: list[Plan] = [SEED_ORDER]

    def next(self) -> Plan | None:
        return self._left.pop() if self._left else None

    def learn(self, ran: Ran) -> None:
        return None

    def copy(self) -> "_Plain":
        found = copy(self)
        found._left = [*self._left]
        return found


class _Numbered:
    """A strategy with the seed's own order first, and afterwards one plan line per order 1, 2, ...

    ``line_of``: (order, number of messages in the plain run) -> plan line.
    """

    def __init__(self, line_of: Callable[[int, int], Action]) -> None:
        self._line_of = line_of
        self._sent = 1
        self._order = -1

    def next(self) -> Plan | None:
        self._order += 1
        return (At(at_us=0, action=self._line_of(self._order, self._sent)),) if self._order else SEED_ORDER

    def learn(self, ran: Ran) -> None:
        if ran.schedule == SEED_ORDER:
            self._sent = max(1, len(ran.sent))

    def copy(self) -> "_Numbered":
        return copy(self)


def _ties(options: StrategyOptions) -> _Numbered:
    """A strategy that changes the order of events at one instant."""
    return _Numbered(lambda order, _: TieOrder(order=order, grain_us=options.grain_us))


def _priorities(options: StrategyOptions) -> _Numbered:
    """The strategy PCT: drawn priorities of links, with depth - 1 change points among the messages of a plain run."""
    within_us, changes = options.within_us, options.depth - 1
    return _Numbered(
        lambda order, sent: LinkPriorities(order=order, within_us=within_us, changes=changes, messages=sent)
    )


class _Delays:
    """A strategy that delays no message, each single message, each pair, and so on up to the bound; rare messages
    first.

    The strategy takes schedules from two lists in turn. The systematic list has the smallest schedules first. The other
    list has variants of schedules with new coverage: other delays, and one more delay. With enough runs every
    systematic schedule is tried.
    """

    def __init__(self, options: StrategyOptions) -> None:
        self._options = options
        self._systematic: list[deque[Iterator[Plan]]] = [deque() for _ in range(options.bound + 1)]
        self._systematic[0].append(iter([SEED_ORDER]))
        self._promising: deque[Iterator[Plan]] = deque()
        self._had: set[Plan] = set()
        self._turn = 0

    def next(self) -> Plan | None:
        self._turn += 1
        lists: Iterable[Callable[[], Plan | None]] = (self._next_promising, self._next_systematic)
        for take in lists if self._turn % 2 else reversed(list(lists)):
            found = take()
            if found is not None:
                return found
        return None

    def _next_systematic(self) -> Plan | None:
        for size in self._systematic:
            while size:
                for schedule in size[0]:
                    if self._fresh(schedule):
                        return schedule
                size.popleft()
        return None

    def _next_promising(self) -> Plan | None:
        while self._promising:
            for schedule in self._promising[0]:
                if self._fresh(schedule):
                    self._promising.rotate(-1)
                    return schedule
            self._promising.popleft()
        return None

    def _fresh(self, schedule: Plan) -> bool:
        if schedule in self._had:
            return False
        self._had.add(schedule)
        return True

    def learn(self, ran: Ran) -> None:
        grown = self._grown(ran) if len(ran.schedule) < self._options.bound else []
        if grown:
            self._systematic[len(ran.schedule) + 1].append(iter(grown))
        if ran.new and ran.schedule:
            self._promising.append(iter([*self._respanned(ran.schedule), *grown]))

    def copy(self) -> "_Delays":
        found = copy(self)
        found._systematic = [deque(map(copy, size)) for size in self._systematic]
        found._promising = deque(map(copy, self._promising))
        found._had = {*self._had}
        return found

    def _grown(self, ran: Ran) -> list[Plan]:
        """The run's schedule with one more delay: of a message that is sent after all delayed messages."""
        late = {_message(entry) for entry in ran.schedule}
        after = max((index for index, sent in enumerate(ran.sent) if sent in late), default=-1)
        candidates = [sent for sent in ran.sent[after + 1 :] if self._concerns(sent)]
        counts = Counter((sent.api, sent.sender, sent.receiver) for sent in ran.sent)
        rounds: Counter[tuple[str, str, str]] = Counter()
        ranked: list[tuple[int, int, int, SentMessage]] = []
        for index, sent in enumerate(candidates):
            kind = sent.api, sent.sender, sent.receiver
            rounds[kind] += 1
            ranked.append((rounds[kind], counts[kind], index, sent))
        ranked.sort(key=lambda row: row[:3])
        return [
            (*ran.schedule, At(at_us=0, action=_late(sent, span_us)))
            for _, _, _, sent in ranked
            for span_us in self._options.spans_us
        ]

    def _concerns(self, sent: SentMessage) -> bool:
        options = self._options
        known = not options.hosts or {sent.sender, sent.receiver} <= set(options.hosts)
        return known and (not options.messages or sent.api in options.messages)

    def _respanned(self, schedule: Plan) -> list[Plan]:
        """The schedule with its last delay doubled, and with its last delay halved."""
        *before, last = schedule
        action = last.action
        assert isinstance(action, LateMessage)
        spans = (2 * action.by_us, action.by_us // 2)
        return [(*before, attrs.evolve(last, action=attrs.evolve(action, by_us=span))) for span in spans if span]  # type: ignore[misc]


def _late(sent: SentMessage, by_us: int) -> LateMessage:
    return LateMessage(api=sent.api, sender=sent.sender, receiver=sent.receiver, nth=sent.nth, by_us=by_us)


def _message(entry: Any) -> SentMessage:
    action = entry.action
    assert isinstance(action, LateMessage)
    return SentMessage(action.api, action.sender, action.receiver, action.nth)


STRATEGIES: Mapping[str, Callable[[StrategyOptions], OrderStrategy]] = {
    "plain": _Plain,
    "ties": _ties,
    "pct": _priorities,
    "delays": _Delays,
}
"""Name for ``kemu explore --strategy`` -> the constructor of the strategy. Each seed has its own strategy object."""


def as_do(entry: Any) -> str:
    """A line of a schedule as an argument of ``--do``: "delay at=0us api=SyncGroup ..."."""
    row = entry_to_dict(entry)
    kind = row.pop("do")
    return " ".join([kind, *(f'{key}="{item}"' if " " in str(item) else f"{key}={item}" for key, item in row.items())])
