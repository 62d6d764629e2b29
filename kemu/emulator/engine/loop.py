"""Event loops take the turns of a world. All loops take the same turns in the same order, so their traces are equal.

The bare loop is a Python loop, for sweeps. The Trio loop (``trio_loop``) runs every actor as a Trio task. Trio takes a
tenth of a second to import, so that only the runs in its loop import it.
"""

from typing import TYPE_CHECKING

from kemu.emulator.engine.world import World

if TYPE_CHECKING:
    from kemu.emulator.engine.trio_loop import Beside


def run_plain(world: World, until_us: int) -> None:
    """Take turns until no entry is due by ``until_us``, or the world has stopped."""
    next_turn, take_turn = world.next_turn, world.take_turn
    while (turn := next_turn(until_us)) is not None:
        actor, event = turn
        take_turn(actor, event)


def run_trio(world: World, until_us: int, *, live: bool = False, beside: "Beside | None" = None) -> None:
    """Take turns in a new Trio loop; see ``trio_loop.run_in_trio``.

    Args:
        live: whether entries wait for their time on the wall clock.
        beside: a task in the same loop that acts on the world until the end.
    """
    from kemu.emulator.engine.trio_loop import run_in_new_loop

    run_in_new_loop(world, until_us, live, beside)
