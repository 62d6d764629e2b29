"""A disk that writes so many bytes a second: one write after the other, for as long as what asked for them lives."""

import pytest

from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import World
from kemu.protocol.errors import ErrorCode
from tests.emulator.engine.toys import call, caller, echo, small_world

MS = 1_000
SECOND = 1_000_000
RECORD_BYTES = 5
"""What an ``Echo`` writes: a key of one byte and four digits."""


def limited_world(bytes_per_s: int = RECORD_BYTES) -> World:
    """Its disk takes a second for a record, unless otherwise said; packets take a millisecond."""
    world = small_world(callers=2, latency_us=(MS, MS))
    world.append_us = 10 * MS
    world.limit_disk(world.hosts["b0"], bytes_per_s)
    return world


def written(world: World, *numbers: int, by: str = "c1", until_s: float = 60) -> list[float]:
    """Have these written now: when each is answered, in seconds to the hundredth."""
    for number in numbers:
        call(world, number, by)
    run_plain(world, round(until_s * SECOND))
    return [round(at_us / SECOND, 2) for at_us, _ in caller(world, by).answers]


def test_writes_take_their_size_one_after_the_other() -> None:
    assert written(limited_world(), 1000, 1001, 1002) == [1, 2, 3]
    assert written(limited_world(10), 1000, 1001, 1002) == [0.5, 1, 1.5]


def test_a_disk_that_is_fast_enough_takes_the_time_of_an_append() -> None:
    assert written(limited_world(1_000_000), 1000, 1001) == [0.01, 0.01]


def test_another_speed_counts_from_now_on_for_what_is_left() -> None:
    """Half of the first is written by 0.5 s; ten times as fast, it lacks 50 ms, and the others 100 ms each."""
    world = limited_world()
    world.at(501 * MS, lambda: world.limit_disk(world.hosts["b0"], 10 * RECORD_BYTES))

    assert written(world, 1000, 1001, 1002) == [0.55, 0.65, 0.75]


def test_without_a_limit_what_waits_is_written_now_in_its_order() -> None:
    world = limited_world()
    world.at(501 * MS, lambda: world.limit_disk(world.hosts["b0"], 0))

    assert written(world, 1000, 1001, 1002) == [0.5, 0.5, 0.5]
    assert world.hosts["b0"].disk.logs["log"] == [(b"k", b"1000"), (b"k", b"1001"), (b"k", b"1002")]
    call(world, 1003)
    run_plain(world, 61 * SECOND)
    assert caller(world).answers[-1][0] == 60 * SECOND + 12 * MS


@pytest.mark.parametrize(
    ("how", "answered_s"), [(Condition.SILENT, 2.0), (Condition.CRASHED, 4.0), (Condition.CLOSED, 4.0)]
)
def test_what_waits_goes_with_the_power_and_not_with_the_process(how: Condition, answered_s: float) -> None:
    """The system writes on what a dead process had asked for: who comes next waits behind it, until 3 s."""
    world = limited_world()
    written(world, 1000, 1001, 1002, until_s=0.5)
    world.take_down(world.hosts["b0"], how)
    run_plain(world, SECOND)
    world.start(world.hosts["b0"])

    assert written(world, 1003, by="c2") == [answered_s]
    assert echo(world).parked == {}


def test_an_empty_disk_has_nothing_that_waits() -> None:
    world = limited_world()
    written(world, 1000, 1001, 1002, until_s=0.5)
    world.take_down(world.hosts["b0"], Condition.CRASHED)
    world.start(world.hosts["b0"], keep_disk=False)

    assert written(world, 1003, by="c2") == [1.5]
    assert world.hosts["b0"].disk.logs["log"] == [(b"k", b"1003")]


def test_writes_that_fail_are_told_at_once_and_keep_the_disk_busy() -> None:
    """What its leader gave up is still on its way to the device."""
    world = limited_world()
    written(world, 1000, 1001, until_s=0.5)
    world.fail_writes(world.hosts["b0"], "log", ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert written(world, 1002) == [0.5, 0.5, 3.0]
    assert world.hosts["b0"].disk.logs["log"] == [(b"k", b"1002")]


def test_a_narrow_card_passes_what_carries_no_records_at_once() -> None:
    """A world that nobody tells what messages carry has none that carries records."""
    plain, narrow = small_world(latency_us=(MS, MS)), small_world(latency_us=(MS, MS))
    narrow.network.limit_bandwidth("b0", 1)

    assert written(narrow, 1, 2, 3) == written(plain, 1, 2, 3) == [0, 0, 0]
    assert caller(narrow).answers == caller(plain).answers


def test_what_carries_records_takes_its_size_each_way_of_the_card() -> None:
    """A request there, its answer back: each way has its own 5,000 bytes a second, and its own queue."""
    narrow = small_world(latency_us=(MS, MS))
    narrow.network.weigh = lambda message: 5_000
    narrow.network.limit_bandwidth("b0", 5_000)
    times = written(narrow, 1, 2, 3)

    assert times == [2.01, 3.01, 4.01]
