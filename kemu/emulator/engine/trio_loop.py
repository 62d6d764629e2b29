"""The Trio loop takes the turns of a world.

In the Trio loop every actor is a Trio task in its host's cancel scope. The task's coroutine waits for events. A
dispatcher takes the next turn from the world, and resumes the coroutine of that actor with the event. The coroutine
runs in the context of its own task until it waits again. So Trio's scheduling decides nothing, and a turn needs no trip
through Trio's scheduler: such a trip costs a third of a turn. After ``TURNS_A_TRIP`` turns, other tasks of the loop
run. An interrupt or a cancellation waits for this trip.

A live run follows the clock of the Trio loop: the dispatcher waits until an entry is due, or until an outside call.
"""

import types
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import TypeAlias

import trio

from kemu.actors.machine import Event
from kemu.emulator.engine.hosts import Actor
from kemu.emulator.engine.shell import run_actor
from kemu.emulator.engine.world import World


class Outside:
    """Calls from other tasks of the same Trio loop, such as a test or the task of a socket, into a running world.

    A call is made between two turns, at the present virtual time. In a live run the call wakes the dispatcher, and
    virtual time follows the clock of the Trio loop. In other runs the present virtual time is the time of the last
    turn.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []
        self._called = trio.Event()

    def call(self, action: Callable[[], object]) -> None:
        """Queue a call, which the dispatcher makes after the present turn. Use this method only in the loop's own
        thread.
        """
        self._calls.append(action)
        self._called.set()

    def take(self) -> list[Callable[[], object]]:
        """Remove and return the waiting calls, oldest first."""
        calls, self._calls = self._calls, []
        if self._called.is_set():
            self._called = trio.Event()
        return calls

    async def wait(self) -> None:
        """Wait until a call is queued."""
        await self._called.wait()


TURNS_A_TRIP = 50
"""Turns between two trips through Trio's scheduler, which then runs other tasks: a millisecond or two."""


@types.coroutine
def _next_event() -> Generator[None, Event, Event]:
    """Suspend the coroutine of an actor until the dispatcher resumes it with an event."""
    return (yield)


class _Desk:
    """The port of an actor's task: the place where the actor's coroutine waits for its next event."""

    def __init__(self, dispatcher: "_Dispatcher", actor: Actor) -> None:
        self._dispatcher = dispatcher
        self.take_turn: Callable[[Event], None] = partial(dispatcher.world.take_turn, actor)
        """Take one turn of this actor."""
        self.scope = trio.CancelScope()
        self.next_event: Callable[[], Awaitable[Event]] = _next_event
        """Wait for the next event."""
        self.resume: Callable[[Event], object]
        """Let the coroutine take a turn in the context of its task; raise what the turn raised."""

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Keep the actor's coroutine until cancelled; the end of its host cancels it."""
        coroutine = run_actor(self)
        coroutine.send(None)
        run: Callable[..., object] = trio.lowlevel.current_task().context.run
        self.resume = partial(run, coroutine.send)
        self._dispatcher.wake()
        try:
            with self.scope:
                await trio.lowlevel.wait_task_rescheduled(_at_once)
        finally:
            coroutine.close()


class _Dispatcher:
    def __init__(self, world: World, nursery: trio.Nursery) -> None:
        self.world = world
        self._nursery = nursery
        self._task = trio.lowlevel.current_task()
        self._desks: dict[Actor, _Desk] = {}
        self._births: list[_Desk] = []
        for host in world.hosts.values():
            for actor in host.actors.values():
                self.came(actor)
        world.actor_came = self.came
        world.actor_went = self.went

    def wake(self) -> None:
        """Wake the dispatcher; called by a new task once its coroutine waits."""
        trio.lowlevel.reschedule(self._task)

    def came(self, actor: Actor) -> None:
        """Register an actor whose life begins."""
        desk = self._desks[actor] = _Desk(self, actor)
        self._births.append(desk)

    def went(self, actor: Actor) -> None:
        """Remove an actor whose life has ended."""
        self._desks.pop(actor).scope.cancel()

    async def start_newborn(self) -> None:
        """Start a task for every new actor, and let the task run to its first wait."""
        births, self._births = self._births, []
        for desk in births:
            if not desk.scope.cancel_called:
                self._nursery.start_soon(desk.run)
                await trio.lowlevel.wait_task_rescheduled(_when_it_is_whole)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def take_turns(self, until_us: int, outside: Outside | None, live: bool) -> None:
        """Take turns until no entry is due by ``until_us``; see ``run_in_trio``."""
        world, desks, turns = self.world, self._desks, 0
        clock = _Clock(world.now_us) if live else None
        while True:
            if outside is not None:
                for action in outside.take():
                    world.at(world.now_us if clock is None else min(clock.now_us(), until_us), action)
            due_us = until_us
            if clock is not None and not world.stopped:
                next_us = world.next_due_us()
                due_us = until_us if next_us is None else min(next_us, until_us)
                if await clock.sleep(due_us, outside):
                    continue
            turn = world.next_turn(due_us)
            if turn is None:
                if due_us == until_us or world.stopped:
                    return
                continue
            if self._births:
                await self.start_newborn()
            actor, event = turn
            desks[actor].resume(event)
            turns += 1
            if turns % TURNS_A_TRIP == 0:
                await trio.lowlevel.checkpoint()  # a cancellation has ended the actors' tasks as well


class _Clock:
    """The clock of the Trio loop as virtual time: microseconds since the creation of this object."""

    def __init__(self, now_us: int) -> None:
        self._began_s = trio.current_time() - now_us / 1_000_000

    def now_us(self) -> int:
        return round((trio.current_time() - self._began_s) * 1_000_000)

    async def sleep(self, until_us: int, outside: Outside | None) -> bool:
        """Sleep until ``until_us`` or an outside call; return whether a call ended the sleep."""
        wake_s = self._began_s + until_us / 1_000_000
        if outside is None:
            await trio.sleep_until(wake_s)
            return False
        with trio.move_on_at(wake_s):
            await outside.wait()
            return True
        return False


@trio.lowlevel.enable_ki_protection
async def run_in_trio(world: World, until_us: int, *, live: bool = False, outside: Outside | None = None) -> None:
    """Take turns inside a running Trio loop, such as the loop of an async test or of a server.

    Args:
        world: the world; only one loop at a time may run it.
        until_us: virtual time of the end, unless the world stops before.
        live: whether entries wait for their time on the loop's clock (which a test may fake). If False, turns follow
        each other at once. A live run lasts until ``until_us``, even without further entries.
        outside: calls from other tasks of the loop.

    Raises:
        MachineBroke: a machine, or the user's code in a machine, raised. The exception is not wrapped in an exception
        group.
        Livelock: virtual time makes no progress.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            dispatcher = _Dispatcher(world, nursery)
            try:
                await dispatcher.take_turns(until_us, outside, live)
            except (trio.Cancelled, GeneratorExit):
                raise
            except BaseException as error:
                failure = error
            nursery.cancel_scope.cancel()
    finally:
        world.actor_came = world.actor_went = _nobody_cares
    if failure is not None:
        raise failure


Beside: TypeAlias = Callable[[Outside], Awaitable[None]]
"""A task in the same Trio loop that acts on the world."""


async def _run(world: World, until_us: int, live: bool, beside: Beside | None) -> None:
    if beside is None:
        await run_in_trio(world, until_us, live=live)
        return
    outside = Outside()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside, outside)
        await run_in_trio(world, until_us, live=live, outside=outside)
        nursery.cancel_scope.cancel()


def run_in_new_loop(world: World, until_us: int, live: bool, beside: Beside | None) -> None:
    """Take turns in a new Trio loop; see ``loop.run_trio``."""
    try:
        trio.run(_run, world, until_us, live, beside)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


def _nobody_cares(_: Actor) -> None:
    return None


def _at_once(_: object) -> trio.lowlevel.Abort:
    """Allow the cancellation of an actor that waits."""
    return trio.lowlevel.Abort.SUCCEEDED


def _when_it_is_whole(_: object) -> trio.lowlevel.Abort:
    """Refuse the cancellation of the dispatcher while a new task begins."""
    return trio.lowlevel.Abort.FAILED
