"""A world inside a running Trio loop: driven from an async test, woken from outside, stopped between two turns."""

import signal
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest
import trio
from trio.testing import MockClock

from kemu.actors.machine import Event
from kemu.emulator.engine.hosts import Actor
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.trio_loop import TURNS_A_TRIP, Outside, run_in_trio
from kemu.emulator.engine.world import MachineBroke, World
from kemu.emulator.facts import Seen
from kemu.emulator.runner import Run
from kemu.protocol.commands import Close
from kemu.protocol.notes.groups import GroupBecame
from lab.bench.engine import steady
from tests.emulator.engine.test_loop import stormy_world
from tests.emulator.engine.toys import call, caller, digest, small_world

SECOND = 1_000_000


def in_trio(test: Callable[[], Awaitable[None]]) -> None:
    """Run an async test under a clock that jumps to whatever is waited for."""
    trio.run(test, clock=MockClock(autojump_threshold=0))


def test_a_drive_in_a_running_loop_takes_the_same_turns() -> None:
    inside, alone = stormy_world(4), stormy_world(4)

    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await trio.lowlevel.checkpoint()
                ticks += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            await run_in_trio(inside, SECOND)
            nursery.cancel_scope.cancel()
        assert ticks >= inside.steps // TURNS_A_TRIP > 4, "others in the loop have their turns too"

    in_trio(main)
    run_plain(alone, SECOND)

    assert digest(inside) == digest(alone)


def test_every_actor_is_a_task_and_its_turns_run_in_the_context_of_that_task() -> None:
    """The dispatcher resumes the coroutine of a task without Trio's scheduler, but in the task's own context."""
    mark, world = ContextVar("mark", default=0), stormy_world(4)
    seen: dict[object, list[int]] = {}
    take_turn = world.take_turn

    def taken(actor: Actor, event: Event) -> None:
        seen.setdefault(actor, []).append(mark.get())
        mark.set(mark.get() + 1)
        take_turn(actor, event)

    world.take_turn = taken  # type: ignore[method-assign]
    tasks: list[str] = []

    async def main() -> None:
        me = trio.lowlevel.current_task()
        world.at(500, lambda: tasks.extend(each.name for each in me.child_nurseries[-1].child_tasks))
        await run_in_trio(world, SECOND)

    in_trio(main)

    assert sum(map(len, seen.values())) == world.steps
    assert all(marks == list(range(len(marks))) for marks in seen.values())
    assert len(tasks) == sum(len(host.actors) for host in world.hosts.values()), tasks
    assert mark.get() == 0


def test_a_live_world_is_woken_from_outside_and_acts_at_that_virtual_time() -> None:
    """Nothing is due: the dispatcher sleeps until its end, unless somebody calls."""
    world, outside = small_world(latency_us=(1000, 1000)), Outside()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run_in_trio(world, 10 * SECOND, live=True, outside=outside))
            began_s = trio.current_time()
            for number in (1, 2):
                await trio.sleep(2.5)
                outside.call(lambda number=number: call(world, number))  # type: ignore[misc]
        assert trio.current_time() - began_s == pytest.approx(10)

    in_trio(main)

    assert world.now_us == 10 * SECOND
    opened, warm = (at_us for at_us, _ in caller(world).answers)
    assert abs(opened - 2_503_000) <= 10, "2.5 s, the handshake's round trip, the answer's way"
    assert abs(warm - 5_002_000) <= 10


def test_an_async_test_drives_a_cluster_and_talks_to_it() -> None:
    """A member is closed from the test as soon as the test has seen the group become stable."""
    stable, outside, became = trio.Event(), Outside(), list[tuple[int, str]]()

    class Watch:
        def see(self, seen: Seen) -> None:
            if isinstance(seen.fact, GroupBecame):
                became.append((seen.at_us, seen.fact.new))
                if seen.fact.new == "Stable":
                    stable.set()

    one = Run(steady(2, 4, 30, rate=0), seed=1, observers=(Watch(),))

    async def main() -> None:
        one.cluster.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run_in_trio(one.world, 30 * SECOND, live=True, outside=outside))
            await stable.wait()
            outside.call(lambda: one.world.tell("c2", Close()))

    in_trio(main)

    states = [new for _, new in became]
    assert states.count("Stable") == 2, states
    assert not one.world.hosts["c2"].running


def test_a_call_without_live_comes_between_two_turns_at_the_worlds_time() -> None:
    world, outside = small_world(beat_us=5_000), Outside()
    called_us: list[int] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run_in_trio(world, SECOND, outside=outside))
            while world.steps < 10:
                await trio.lowlevel.checkpoint()
            outside.call(lambda: called_us.append(world.now_us))

    in_trio(main)

    assert len(called_us) == 1
    assert 0 < called_us[0] < SECOND


@pytest.mark.parametrize("turns", range(1, 30))
def test_a_cancelled_drive_leaves_a_world_that_goes_on_as_if_nothing_was(turns: int) -> None:
    """Cancellation falls between two turns, never inside one: the rest of the run is that of a whole run."""
    stopped, whole = stormy_world(6), stormy_world(6)

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: run_in_trio(stopped, SECOND))
                while stopped.steps < turns:
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        assert scope.cancelled_caught

    in_trio(main)
    run_trio(whole, SECOND)

    assert turns <= stopped.steps < whole.steps


def test_a_drive_that_is_cancelled_by_the_world_it_drives_ends_quietly() -> None:
    world = stormy_world(6)

    async def main() -> None:
        with trio.CancelScope() as scope:
            world.at(500_000, scope.cancel)
            await run_in_trio(world, SECOND)
        assert scope.cancelled_caught

    in_trio(main)

    assert world.now_us >= 500_000


def test_a_broken_machine_is_raised_without_a_group_around_it() -> None:
    world = small_world()

    def break_down(*_: object) -> None:
        raise ValueError("no more")

    caller(world).call = break_down  # type: ignore[method-assign]
    call(world, 1)

    async def main() -> None:
        with pytest.raises(MachineBroke, match="no more"):
            await run_in_trio(world, SECOND)

    in_trio(main)


def test_an_interrupt_ends_a_trio_drive_soon_and_between_two_turns(request: pytest.FixtureRequest) -> None:
    """Ctrl-C anywhere, also inside a machine's step: a KeyboardInterrupt comes out, and nothing else."""
    # A shell has what it starts in the background ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    for turn in (1, 7, 20, 45):
        world = stormy_world(2)
        _interrupt_in(world, turn)
        with pytest.raises(KeyboardInterrupt):
            run_trio(world, SECOND)
        assert turn <= world.steps < turn + TURNS_A_TRIP


def _interrupt_in(world: World, turn: int) -> None:
    take_turn = world.take_turn

    def taken(*event: object) -> None:
        take_turn(*event)  # type: ignore[arg-type]
        if world.steps == turn:
            signal.raise_signal(signal.SIGINT)

    world.take_turn = taken  # type: ignore[method-assign]
