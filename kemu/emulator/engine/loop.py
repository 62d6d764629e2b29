"""The loops: who takes the turns. All take the same turns in the same order, so their traces are equal.

Bare: a loop. For sweeps.

Trio: every actor is a Trio task in its host's cancel scope; a dispatcher takes the next turn from the world, wakes that
one actor, and sleeps until the actor waits for its next event. Trio's own order and clock decide nothing: at any moment
one task can run. The hand-off goes through ``trio.lowlevel``, which costs a third of a channel and a quiet check; it is
never torn: an interrupt or a cancellation waits until the actor's turn is whole.
Live: the same under the clock of the Trio loop; the dispatcher waits until an entry is due, or somebody outside calls.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from kemu.actors.machine import Event
from kemu.emulator.engine.hosts import Actor
from kemu.emulator.engine.shell import run_actor
from kemu.emulator.engine.world import World


def run_plain(world: World, until_us: int) -> None:
    """Take turns until nothing is due by then, or the world stopped."""
    next_turn, take_turn = world.next_turn, world.take_turn
    while (turn := next_turn(until_us)) is not None:
        actor, event = turn
        take_turn(actor, event)


class Outside:
    """The door into a driven world: what others in the same Trio loop (a socket's task, a test) do to it.

    What is done is done between two turns, at the world's present time: under a live loop that is the time of the
    Trio loop, and the dispatcher wakes for it; else it is the time of the last turn.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []
        self._called = trio.Event()

    def call(self, action: Callable[[], object]) -> None:
        """Do this to the world as soon as no turn is being taken. From the loop's own thread."""
        self._calls.append(action)
        self._called.set()

    def take(self) -> list[Callable[[], object]]:
        """All that was asked for and not taken yet, oldest first."""
        calls, self._calls = self._calls, []
        if self._called.is_set():
            self._called = trio.Event()
        return calls

    async def wait(self) -> None:
        """Until somebody calls."""
        await self._called.wait()


class _Desk:
    """An actor's port: where its task waits and where the dispatcher finds it."""

    def __init__(self, dispatcher: "_Dispatcher", actor: Actor) -> None:
        self._dispatcher = dispatcher
        self._actor = actor
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None
        self.event: Event | None = None

    async def next_event(self) -> Event:
        """Park until the dispatcher has an event; hand control back to it first."""
        self.task = trio.lowlevel.current_task()
        self._dispatcher.wake()
        await trio.lowlevel.wait_task_rescheduled(_at_once)
        event, self.event = self.event, None
        assert event is not None
        return event

    def take_turn(self, event: Event) -> None:
        """One turn of this actor; what goes wrong in it is the dispatcher's to raise."""
        try:
            self._dispatcher.world.take_turn(self._actor, event)
        except BaseException as error:  # also what no Exception is: a task that ends here would leave nobody to go on
            self._dispatcher.failure = error

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """The actor's task: ends only by cancellation, which is how a host dies."""
        with self.scope:
            await run_actor(self)


class _Dispatcher:
    def __init__(self, world: World, nursery: trio.Nursery) -> None:
        self.world = world
        self.failure: BaseException | None = None
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
        """Called by an actor's task, just before it parks."""
        trio.lowlevel.reschedule(self._task)

    def came(self, actor: Actor) -> None:
        """An actor's life begins."""
        desk = self._desks[actor] = _Desk(self, actor)
        self._births.append(desk)

    def went(self, actor: Actor) -> None:
        """An actor's life is over."""
        self._desks.pop(actor).scope.cancel()

    async def start_newborn(self) -> None:
        """Give every new actor its task, and let it come to its first wait."""
        births, self._births = self._births, []
        for desk in births:
            if not desk.scope.cancel_called:
                self._nursery.start_soon(desk.run)
                await trio.lowlevel.wait_task_rescheduled(_when_it_is_whole)

    async def hand_over(self, actor: Actor, event: Event) -> None:
        """Let this one actor take its turn; back when it waits again, or is gone."""
        if self._births:
            await self.start_newborn()
        await trio.lowlevel.checkpoint_if_cancelled()  # then the parked actors are gone as well
        desk = self._desks[actor]
        assert desk.task is not None
        desk.event = event
        trio.lowlevel.reschedule(desk.task)
        await trio.lowlevel.wait_task_rescheduled(_when_it_is_whole)
        if self.failure is not None:
            raise self.failure

    async def take_turns(self, until_us: int, outside: Outside | None, live: bool) -> None:
        """Take turns until nothing is due by then; see ``run_in_trio``."""
        world = self.world
        next_turn, hand_over = world.next_turn, self.hand_over
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
            turn = next_turn(due_us)
            if turn is not None:
                await hand_over(*turn)
            elif due_us == until_us or world.stopped:
                return


class _Clock:
    """The Trio loop's clock as the world's: virtual microseconds since its first instant."""

    def __init__(self, now_us: int) -> None:
        self._began_s = trio.current_time() - now_us / 1_000_000

    def now_us(self) -> int:
        return round((trio.current_time() - self._began_s) * 1_000_000)

    async def sleep(self, until_us: int, outside: Outside | None) -> bool:
        """Sleep until then; whether somebody outside called before."""
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
    """Take turns in the running Trio loop, so that an async test or a server can have a world inside its own.

    Args:
        world: whose turns; one loop at a time.
        until_us: the virtual time to stop at, unless the world stops before.
        live: no entry before its time on the loop's clock (which a test may fake); else as fast as it goes.
            A live loop stays until ``until_us``, also when nothing is due any more.
        outside: what others in this loop do to the world meanwhile.

    Raises:
        MachineBroke: a machine, or the user's code in it, raised; no group is around it.
        Livelock: virtual time stands still.
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
"""What runs in the same Trio loop as a driven world, and acts on it."""


async def _run(world: World, until_us: int, live: bool, beside: Beside | None) -> None:
    if beside is None:
        await run_in_trio(world, until_us, live=live)
        return
    outside = Outside()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside, outside)
        await run_in_trio(world, until_us, live=live, outside=outside)
        nursery.cancel_scope.cancel()


def run_trio(world: World, until_us: int, *, live: bool = False, beside: Beside | None = None) -> None:
    """As ``run_plain``, with every actor a Trio task; ``live``: no entry before its time on the wall clock.

    ``beside``: a task in the same loop that acts on the world, until the loop is over.
    """
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
    """A parked actor can go at any time."""
    return trio.lowlevel.Abort.SUCCEEDED


def _when_it_is_whole(_: object) -> trio.lowlevel.Abort:
    """The dispatcher cannot go while an actor has the turn."""
    return trio.lowlevel.Abort.FAILED
