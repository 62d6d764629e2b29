"""Network cards: flows share them evenly, what one leaves goes to the others, nobody overtakes on a connection."""

from attrs import define, field

from kemu.emulator.chance import Seeded
from kemu.emulator.engine.agenda import Agenda
from kemu.emulator.engine.bandwidth import Bandwidth

S = 1_000_000


@define
class Load:
    """A packet."""

    bytes: int
    is_alive: bool = True


@define
class Bench:
    """Cards in a world of their own; ``through``: (when, which packet) left them."""

    now_us: int = 0
    agenda: Agenda = field(factory=lambda: Agenda(Seeded(1)))
    through: list[tuple[int, Load]] = field(factory=list)
    cards: Bandwidth[Load] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.cards = Bandwidth(self.agenda, lambda load, extra_us: self.through.append((self.now_us, load)))

    def send(self, size: int, sender: str, receiver: str, link: int, *, bulk: bool = True) -> Load | None:
        """A packet on a link; None if it left at once."""
        load = Load(size)
        waits = self.cards.takes(load, (link, 0), (sender, receiver), 0, self.now_us, bulk=bulk)
        return load if waits else None

    def pass_to(self, until_us: int) -> None:
        """Let time go on."""
        while self.agenda.heap and self.agenda.heap[0][0] <= until_us:
            entry = self.agenda.pop(self.agenda.heap)
            self.now_us = entry[0]
            entry[3](entry)
        self.now_us = until_us

    def times(self) -> dict[int, int]:
        """Size -> when a packet of that size was through."""
        return {load.bytes: at_us for at_us, load in self.through}


def test_a_packet_takes_its_size_by_the_narrower_card():
    """Max-min fairness with one flow: the bottleneck alone counts."""
    bench = Bench()
    bench.cards.limit("b0", 1_000, 0)
    bench.cards.limit("b1", 500, 0)
    bench.send(1_000, "b0", "b1", 1)
    bench.pass_to(10 * S)

    assert bench.times() == {1_000: 2 * S}


def test_flows_share_a_card_evenly_and_what_one_cannot_use_goes_to_the_others():
    """Progressive filling: b1 takes 200 of b0's 1,000 bytes a second, so the flow to b2 gets 800."""
    bench = Bench()
    bench.cards.limit("b0", 1_000, 0)
    bench.cards.limit("b1", 200, 0)
    bench.send(401, "b0", "b1", 1)
    bench.send(800, "b0", "b2", 2)
    bench.send(399, "b3", "b1", 3)  # b1's other sender: each gets 100
    bench.pass_to(30 * S)

    times = bench.times()
    assert times[800] == -(-800 * S // 900), "b0 has 900 left for it"
    assert times[399] == -(-399 * S // 100)
    assert times[399] < times[401] <= times[399] + 11_000, "and then all of b1 is the other's"


def test_both_ways_of_a_card_are_its_own():
    """Full duplex: what comes does not slow what goes."""
    bench = Bench()
    bench.cards.limit("b0", 1_000, 0)
    bench.send(1_000, "b0", "b1", 1)
    bench.send(1_001, "b1", "b0", 2)
    bench.pass_to(10 * S)

    assert bench.times() == {1_000: S, 1_001: 1_001_000}


def test_small_packets_pass_but_not_on_their_own_connection():
    """A heartbeat goes between two megabytes of records; an answer behind records stays behind them (TCP's order)."""
    bench = Bench()
    bench.cards.limit("b0", 1_000, 0)
    bench.send(1_000, "b0", "b1", 1)

    assert bench.send(10, "b0", "b2", 2, bulk=False) is None
    assert bench.send(11, "b0", "b1", 1, bulk=False) is not None
    assert bench.send(12, "c1", "c2", 3) is None, "no card of theirs is limited"
    bench.pass_to(10 * S)
    assert [load.bytes for _, load in bench.through] == [1_000, 11]


def test_a_broken_connection_makes_place_for_the_others():
    """Its packets are told as gone, at once."""
    bench = Bench()
    bench.cards.limit("b0", 1_000, 0)
    dead = bench.send(9_000, "b0", "b1", 1)
    bench.send(1_000, "b0", "b2", 2)
    bench.pass_to(S)
    assert dead is not None
    dead.is_alive = False
    bench.cards.drop_dead(S)
    bench.pass_to(10 * S)

    assert bench.times() == {9_000: S, 1_000: S + S // 2}


def test_another_limit_counts_from_now_on():
    """What went through before stays; without a limit the rest leaves at once."""
    bench = Bench()
    bench.cards.limit("b0", 1_000, 0)
    bench.send(2_000, "b0", "b1", 1)
    bench.pass_to(S)
    bench.cards.limit("b0", 500, S)
    bench.pass_to(2 * S)
    assert bench.through == []
    bench.cards.limit("b0", 0, 2 * S)
    bench.pass_to(2 * S)
    assert bench.times() == {2_000: 2 * S}
