"""The drives: who takes the turns. Both take the same turns in the same order, so their traces are equal.

Bare: a loop. For sweeps.

Trio: every actor is a Trio task in its host's cancel scope; a dispatcher takes the next turn from the world, wakes that
one actor, and sleeps until the actor waits for its next event. Trio's own order and clock decide nothing: at any moment
one task can run. The hand-off goes through ``trio.lowlevel``, which costs a third of a channel and a quiet check.
Live: the same under the wall clock; the dispatcher waits until an entry is due.
"""

import trio

from kemu.actors.machine import Event
from kemu.emulator.engine.hosts import Actor
from kemu.emulator.engine.shell import run_actor
from kemu.emulator.engine.world import World


def drive_bare(world: World, until_us: int) -> None:
    """Take turns until nothing is due by then, or the world stopped."""
    next_turn, take_turn = world.next_turn, world.take_turn
    while (turn := next_turn(until_us)) is not None:
        take_turn(*turn)


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
        await trio.lowlevel.wait_task_rescheduled(_always_cancellable)
        event, self.event = self.event, None
        assert event is not None
        return event

    def take_turn(self, event: Event) -> None:
        """One turn of this actor; what goes wrong in it is the dispatcher's to raise."""
        try:
            self._dispatcher.world.take_turn(self._actor, event)
        except Exception as error:
            self._dispatcher.failure = error

    async def run(self) -> None:
        """The actor's task: ends only by cancellation, which is how a host dies."""
        with self.scope:
            await run_actor(self)


class _Dispatcher:
    def __init__(self, world: World, nursery: trio.Nursery) -> None:
        self.world = world
        self.failure: Exception | None = None
        self._nursery = nursery
        self._task = trio.lowlevel.current_task()
        self._desks: dict[Actor, _Desk] = {}
        self._births: list[_Desk] = []
        world.actor_came = self._came
        world.actor_went = self._went

    def wake(self) -> None:
        """Called by an actor's task, just before it parks."""
        trio.lowlevel.reschedule(self._task)

    def _came(self, actor: Actor) -> None:
        desk = self._desks[actor] = _Desk(self, actor)
        self._births.append(desk)

    def _went(self, actor: Actor) -> None:
        self._desks.pop(actor).scope.cancel()

    async def start_newborn(self) -> None:
        """Give every new actor its task, and let it come to its first wait."""
        births, self._births = self._births, []
        for desk in births:
            if not desk.scope.cancel_called:
                self._nursery.start_soon(desk.run)
                await trio.lowlevel.wait_task_rescheduled(_always_cancellable)

    async def hand_over(self, actor: Actor, event: Event) -> None:
        """Let this one actor take its turn; back when it waits again, or is gone."""
        if self._births:
            await self.start_newborn()
        desk = self._desks[actor]
        assert desk.task is not None
        desk.event = event
        trio.lowlevel.reschedule(desk.task)
        await trio.lowlevel.wait_task_rescheduled(_always_cancellable)
        if self.failure is not None:
            raise self.failure


async def _drive(world: World, until_us: int, live: bool) -> None:
    async with trio.open_nursery() as nursery:
        dispatcher = _Dispatcher(world, nursery)
        for host in world.hosts.values():
            for actor in host.actors.values():
                dispatcher._came(actor)
        began_s = trio.current_time() - world.now_us / 1_000_000
        while True:
            if live and (due_us := world.next_due_us()) is not None and due_us <= until_us:
                await trio.sleep_until(began_s + due_us / 1_000_000)
            turn = world.next_turn(until_us)
            if turn is None:
                break
            await dispatcher.hand_over(*turn)
        nursery.cancel_scope.cancel()


def drive_trio(world: World, until_us: int, *, live: bool = False) -> None:
    """As ``drive_bare``, with every actor a Trio task; ``live``: no entry before its time on the wall clock."""
    try:
        trio.run(_drive, world, until_us, live)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
    finally:
        world.actor_came = world.actor_went = _nobody_cares


def _nobody_cares(_: Actor) -> None:
    return None


def _always_cancellable(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.SUCCEEDED
