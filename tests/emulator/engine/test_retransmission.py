"""What TCP sends again: to a host that is back, and after a split has healed. Source: RFC 6298; Linux."""

import pytest

from kemu.emulator.chance import Seeded
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.rules import SplitRule
from kemu.emulator.engine.world import World
from kemu.emulator.trace.traces import TraceWriter
from tests.emulator.engine.toys import HEADER, Caller, Echo, call, caller, echo

SECOND = 1_000_000


def world_of(callers: int, *, resends: bool = True) -> World:
    world = World(
        Seeded(1), TraceWriter(None, HEADER), latency_us=(1000, 1000), retransmit=(lambda: 200_000) if resends else None
    )
    world.add_host("b0", {"b0": lambda life: Echo("b0")})
    for name in (f"c{number}" for number in range(1, callers + 1)):
        world.add_host(name, {name: lambda life, name=name: Caller(name)})  # type: ignore[misc]
    for host in list(world.hosts.values()):
        world.start(host)
    return world


def silent_from_1_to_11_s(world: World) -> None:
    """The server loses power after it answered; a request is on its way then; it is back ten seconds later."""
    call(world, 1)
    run_plain(world, SECOND)
    world.take_down(world.hosts["b0"], Condition.SILENT)
    call(world, 2)
    run_plain(world, 11 * SECOND)
    world.start(world.hosts["b0"])
    run_plain(world, 40 * SECOND)


def test_a_connection_of_a_former_life_is_reset_when_what_was_not_acknowledged_is_sent_again() -> None:
    """The first retransmission after the host is back: 12.6 s after the request, not its deadline."""
    world = world_of(1)
    silent_from_1_to_11_s(world)
    (down_us,) = caller(world).downs
    assert down_us == pytest.approx(1 * SECOND + 12.6 * SECOND, abs=10_000)
    assert echo(world).got == []


def test_without_retransmission_such_a_connection_stays_silent() -> None:
    """The set calm: the client waits for its own deadline."""
    world = world_of(1, resends=False)
    silent_from_1_to_11_s(world)
    assert caller(world).downs == []


def test_a_connection_on_which_nothing_waits_is_not_reset() -> None:
    """An idle client learns it when it sends something."""
    world = world_of(1)
    call(world, 1)
    run_plain(world, SECOND)
    world.take_down(world.hosts["b0"], Condition.SILENT)
    run_plain(world, 11 * SECOND)
    world.start(world.hosts["b0"])
    run_plain(world, 40 * SECOND)
    assert caller(world).downs == []


def test_what_a_split_held_arrives_spread_and_in_order_when_it_heals() -> None:
    """Each connection at its own next retransmission, not all at once."""
    world = world_of(2)
    for name in ("c1", "c2"):
        call(world, 1, name)
    run_plain(world, SECOND)
    rule = SplitRule(("b0",), (), one_way=False)
    world.network.install(rule)
    call(world, 2, "c1")
    run_plain(world, 4 * SECOND)
    call(world, 3, "c1")
    call(world, 2, "c2")
    run_plain(world, 10 * SECOND)
    world.network.remove(rule)
    run_plain(world, 11 * SECOND)
    call(world, 3, "c2")
    run_plain(world, 40 * SECOND)

    assert [number for name, number in echo(world).got if name == "c1"] == [1, 2, 3]
    assert [number for name, number in echo(world).got if name == "c2"] == [1, 2, 3]
    answered = {name: caller(world, name).answers[1][0] / SECOND for name in ("c1", "c2")}
    assert answered["c1"] == pytest.approx(1 + 12.6, abs=0.02)
    assert answered["c2"] == pytest.approx(4 + 6.2, abs=0.02)


def test_what_waits_on_a_closed_connection_holds_up_no_other_one() -> None:
    """An answer is on its way when a split begins; its client gives up, and asks over a new connection."""
    world = world_of(1)
    world.append_us = 10_000
    call(world, 1000)
    run_plain(world, 5_000)
    rule = SplitRule(("b0",), (), one_way=False)
    world.network.install(rule)
    run_plain(world, 9 * SECOND)
    world.network.hang_up(world.hosts["c1"].actors["c1"], "b0")
    call(world, 3)
    run_plain(world, 10 * SECOND)
    world.network.remove(rule)
    run_plain(world, 40 * SECOND)

    assert [number for _, number in echo(world).got] == [1000, 3]
    assert [us / SECOND for us, _ in caller(world).answers] == [pytest.approx(9 + 1.4, abs=0.02)]
