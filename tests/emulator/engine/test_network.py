"""The network keeps TCP's promises: in order per connection, or a broken connection; never in between."""

import pytest

from kemu.actors.machine import LinkDown
from kemu.emulator.chance import Seeded
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.network import DROP, HOLD, LOOPBACK_US, PASS, Delay, Judgement, Packet, Rule
from kemu.emulator.engine.rules import DuplicateRule, HoldRule, LossyRule, SlowRule, SplitRule
from kemu.protocol.commands import SetRate
from tests.emulator.engine.toys import Caller, Echo, call, caller, echo, small_world

SECOND = 1_000_000


class Verdicts(Rule):
    """Gives prepared verdicts, then passes."""

    def __init__(self, *verdicts: Judgement) -> None:
        super().__init__()
        self.verdicts = list(verdicts)

    def judge(self, packet: Packet) -> Judgement:
        return self.verdicts.pop(0) if self.verdicts else PASS


@pytest.mark.parametrize("seed", range(30))
def test_packets_of_one_connection_arrive_in_the_order_they_were_sent(seed: int) -> None:
    world = small_world(seed=seed)
    for number in range(20):
        call(world, number)

    run_plain(world, SECOND)

    assert echo(world).got == [("c1", number) for number in range(20)]


def test_requests_of_different_clients_overtake_each_other_in_some_seed() -> None:
    orders = set()
    for seed in range(30):
        world = small_world(2, seed=seed)
        call(world, 1, "c1")
        call(world, 2, "c2")
        run_plain(world, SECOND)
        orders.add(tuple(echo(world).got))

    assert len(orders) == 2


def test_a_dropped_packet_breaks_its_connection_and_both_ends_learn_it() -> None:
    world = small_world()
    call(world, 1)
    run_plain(world, SECOND)
    world.network.install(Verdicts(DROP))
    call(world, 2)
    run_plain(world, 2 * SECOND)

    assert echo(world).got == [("c1", 1)]
    assert len(caller(world).downs) == 1
    assert echo(world).downs == ["c1"]
    assert len(caller(world).answers) == 1


def test_after_a_break_the_next_request_opens_a_new_connection() -> None:
    world = small_world()
    world.network.install(Verdicts(DROP))
    call(world, 1)
    run_plain(world, SECOND)
    call(world, 2)
    run_plain(world, 2 * SECOND)

    assert echo(world).got == [("c1", 2)]
    assert len(caller(world).answers) == 1


def test_what_is_sent_between_the_break_and_its_notice_is_lost_with_it() -> None:
    world = small_world(latency_us=(1000, 1000))
    call(world, 1)
    run_plain(world, SECOND)
    world.network.install(Verdicts(DROP))
    call(world, 2)
    call(world, 3)
    run_plain(world, 2 * SECOND)

    assert echo(world).got == [("c1", 1)]
    assert len(caller(world).downs) == 1


def test_held_packets_arrive_in_order_when_the_rule_goes_and_others_wait_behind_them() -> None:
    world = small_world()
    rule = Verdicts(HOLD)
    world.network.install(rule)
    for number in (1, 2, 3):
        call(world, number)
    run_plain(world, SECOND)
    assert echo(world).got == []

    world.network.remove(rule)
    run_plain(world, 2 * SECOND)

    assert echo(world).got == [("c1", 1), ("c1", 2), ("c1", 3)]
    assert rule.hits == 1


def test_a_packet_held_by_two_rules_waits_for_the_second_one_too() -> None:
    world = small_world()
    first, second = Verdicts(HOLD), HoldRule("c1", "b0", "")
    world.network.install(first)
    world.network.install(second)
    call(world, 1)
    run_plain(world, SECOND)
    world.network.remove(first)
    run_plain(world, 2 * SECOND)
    assert echo(world).got == []

    world.network.remove(second)
    run_plain(world, 3 * SECOND)

    assert echo(world).got == [("c1", 1)]


def test_a_split_holds_what_crosses_and_heals_with_delivery() -> None:
    world = small_world(2)
    rule = SplitRule(("c1",), (), one_way=False)
    world.network.install(rule)
    call(world, 1, "c1")
    call(world, 2, "c2")
    run_plain(world, SECOND)
    assert echo(world).got == [("c2", 2)]

    world.network.remove(rule)
    run_plain(world, 2 * SECOND)

    assert echo(world).got == [("c2", 2), ("c1", 1)]
    assert len(caller(world, "c1").answers) == 1


def test_a_one_way_split_lets_the_other_direction_pass() -> None:
    world = small_world()
    world.network.install(SplitRule(("b0",), ("c1",), one_way=True))
    call(world, 1)
    run_plain(world, SECOND)

    assert echo(world).got == [("c1", 1)]
    assert caller(world).answers == []


def test_a_client_that_hung_up_never_gets_the_late_answer_but_the_server_executes_the_request() -> None:
    world = small_world()
    rule = SplitRule(("c1",), (), one_way=False)
    world.network.install(rule)
    call(world, 1)
    run_plain(world, SECOND)
    world.network.hang_up(world.hosts["c1"].actors["c1"], "b0")
    world.network.remove(rule)
    run_plain(world, 2 * SECOND)

    assert echo(world).got == [("c1", 1)]
    assert caller(world).answers == []
    assert caller(world).downs == []


def test_a_slow_link_delays_and_keeps_order() -> None:
    world = small_world(latency_us=(1000, 1000))
    world.network.install(SlowRule("c1", "b0", 50_000, 20_000, Seeded(1).stream("x")))
    for number in range(5):
        call(world, number)
    run_plain(world, SECOND)

    assert echo(world).got == [("c1", number) for number in range(5)]
    assert caller(world).answers[0][0] >= 50_000 + 2_000


def test_a_lossy_link_loses_about_its_share() -> None:
    rule = LossyRule("", "", 100, Seeded(5).stream("loss"))
    world = small_world()
    world.network.install(rule)
    sent = 0
    for second in range(1, 400):
        call(world, second)
        sent += 1
        run_plain(world, second * SECOND)

    assert 0.05 < rule.hits / (2 * sent) < 0.15
    assert len(caller(world).answers) + rule.hits == sent


def test_the_duplicate_rule_lets_the_request_through_and_loses_its_answer() -> None:
    world = small_world()
    world.network.install(DuplicateRule("Heartbeat", "c1", 2))
    for second in (1, 2, 3):
        call(world, second)
        run_plain(world, second * SECOND)

    assert echo(world).got == [("c1", 1), ("c1", 2), ("c1", 3)]
    assert [request for _, request in caller(world).answers] == [1, 3]
    assert len(caller(world).downs) == 1


def test_delay_rules_do_not_let_later_packets_overtake() -> None:
    world = small_world()
    world.network.install(Verdicts(Delay(500_000)))
    call(world, 1)
    call(world, 2)
    run_plain(world, SECOND)

    assert echo(world).got == [("c1", 1), ("c1", 2)]


def test_a_host_without_power_is_silent_to_its_peers() -> None:
    world = small_world()
    call(world, 1)
    run_plain(world, SECOND)
    world.take_down(world.hosts["b0"], Condition.SILENT)
    call(world, 2)
    run_plain(world, 60 * SECOND)

    assert caller(world).downs == []
    assert len(caller(world).answers) == 1


def test_a_process_that_dies_resets_its_connections_at_once() -> None:
    world = small_world()
    call(world, 1)
    run_plain(world, SECOND)
    world.take_down(world.hosts["b0"], Condition.CRASHED)
    run_plain(world, 2 * SECOND)

    assert len(caller(world).downs) == 1
    call(world, 2)
    run_plain(world, 3 * SECOND)
    assert len(caller(world).downs) == 2, "connection refused"


def test_after_a_silent_restart_an_old_connection_is_reset_at_its_first_packet() -> None:
    world = small_world()
    call(world, 1)
    run_plain(world, SECOND)
    world.take_down(world.hosts["b0"], Condition.SILENT)
    world.start(world.hosts["b0"])
    run_plain(world, 2 * SECOND)
    assert caller(world).downs == []

    call(world, 2)
    run_plain(world, 3 * SECOND)
    assert echo(world).got == []
    assert len(caller(world).downs) == 1


def test_a_connection_that_lost_its_first_packet_to_a_silent_host_delivers_no_later_packet() -> None:
    """TCP delivers in order or not at all (swarm, kafka-4.1, seed 7415: a Metadata request without an answer)."""
    world = small_world()
    world.take_down(world.hosts["b0"], Condition.SILENT)
    call(world, 1)
    run_plain(world, SECOND)
    world.start(world.hosts["b0"])
    call(world, 2)
    run_plain(world, 2 * SECOND)
    assert echo(world).got == []
    assert len(caller(world).downs) == 1

    call(world, 3)
    run_plain(world, 3 * SECOND)
    assert echo(world).got == [("c1", 3)]


def test_packets_on_their_way_to_a_past_life_do_not_reach_the_next_one() -> None:
    world = small_world(latency_us=(100_000, 100_000))
    call(world, 1)
    run_plain(world, 250_000)
    world.take_down(world.hosts["b0"], Condition.SILENT)
    world.start(world.hosts["b0"])
    run_plain(world, SECOND)

    assert echo(world).got == []


def test_answers_to_a_past_life_of_the_client_vanish() -> None:
    world = small_world(latency_us=(100_000, 100_000))
    call(world, 1)
    run_plain(world, 350_000)
    world.take_down(world.hosts["c1"], Condition.CRASHED)
    world.start(world.hosts["c1"])
    run_plain(world, SECOND)

    assert echo(world).got == [("c1", 1)]
    assert caller(world).answers == []
    assert not any(isinstance(event, LinkDown) for event in caller(world).seen)
    assert echo(world).downs == ["c1"]


def test_a_disconnect_breaks_every_connection_between_two_hosts() -> None:
    world = small_world(2)
    for name in ("c1", "c2"):
        call(world, 1, name)
    run_plain(world, SECOND)

    assert world.network.break_between("c1", "b0") == 1
    run_plain(world, 2 * SECOND)

    assert len(caller(world, "c1").downs) == 1
    assert caller(world, "c2").downs == []


def test_what_stays_within_a_host_takes_microseconds_and_no_fault_touches_it() -> None:
    """A coordinator and the broker it lives in have no switch between them."""
    world = small_world(0, start=False)
    world.add_host("b1", {"b1": lambda life: Echo("b1"), "b1/c": lambda life: Caller("b1/c", server="b1")})
    world.start(world.hosts["b1"])
    lossy, hold = LossyRule("", "", 1_000, Seeded(1).stream("loss")), HoldRule("", "", "")
    world.network.install(lossy)
    world.network.install(hold)
    inside = world.hosts["b1"].actors["b1/c"].machine
    assert isinstance(inside, Caller)
    world.tell("b1/c", SetRate(records_per_s=1))
    run_plain(world, SECOND)

    ((answered_us, _),) = inside.answers
    assert 4 * LOOPBACK_US[0] <= answered_us <= 4 * LOOPBACK_US[1]
    assert (lossy.hits, hold.hits) == (0, 0)


def test_what_is_delivered_into_a_split_waits_there_and_what_was_behind_it_behind_it() -> None:
    """A rule that holds lets the first go; the split that came meanwhile holds it; then all come in order."""
    world = small_world()
    hold = HoldRule("c1", "b0", "")
    world.network.install(hold)
    for number in range(3):
        call(world, number)
    run_plain(world, SECOND)
    split = SplitRule(("c1",), (), one_way=False)
    world.network.install(split)

    assert world.network.deliver(hold, hold.holds, 1) == 1

    run_plain(world, 2 * SECOND)
    assert echo(world).got == []
    assert [len(rule.waiting) for rule in (hold, split)] == [0, 3]
    world.network.remove(split)
    run_plain(world, 3 * SECOND)
    assert echo(world).got == [], "the rule that held them first holds them again"
    call(world, 3)
    world.network.remove(hold)
    run_plain(world, 4 * SECOND)
    assert echo(world).got == [("c1", number) for number in range(4)]


def test_delays_add_up_and_do_not_hide_what_drops() -> None:
    """The first that drops or holds decides."""
    world = small_world(latency_us=(1000, 1000))
    call(world, 0)
    run_plain(world, SECOND)
    world.network.install(Verdicts(Delay(5_000), Delay(5_000)))
    world.network.install(Verdicts(Delay(7_000), PASS, DROP))

    call(world, 1)
    run_plain(world, 2 * SECOND)
    assert echo(world).times[-1] == SECOND + 1_000 + 12_000
    call(world, 2)
    run_plain(world, 3 * SECOND)

    assert len(caller(world).downs) == 1
