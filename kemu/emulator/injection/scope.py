"""The links between hosts that an action of a plan disturbs. Checkers may excuse delays on these links only."""

from kemu.emulator.plan.action import KINDS, Action
from kemu.emulator.plan.actions.hosts import (
    ClockDrift,
    FailedLogDir,
    KillCoordinator,
    LoseDiskTail,
    Pause,
    Restart,
)
from kemu.emulator.plan.actions.order import TieOrder
from kemu.emulator.plan.actions.store import ExpiredSession, FrozenSession, LateWatches, LostStoreAnswer
from kemu.emulator.plan.stage import Operators
from kemu.emulator.watching.disturbances import Link
from kemu.protocol.names import STORE

EVERY_LINK: tuple[Link, ...] = (("", ""),)
MATERIAL_DRIFT_PPM = 10_000
"""Smallest drift that is a disturbance; checkers' bounds allow for a clock error of one per cent."""
_TOLD_BY_THE_HOST = (FailedLogDir, KillCoordinator, LoseDiskTail, Pause, Restart)
"""Actions whose effects other facts report: facts about hosts that are down or paused, or about failed log
directories."""
_OF_A_SESSION = (ExpiredSession, FrozenSession, LateWatches, LostStoreAnswer)
_SIDES = ("side", "other")


def links_hit(action: Action, cluster: Operators) -> tuple[Link, ...]:
    """Return the links that a fault disturbs; () if the fault disturbs no link, or if facts about hosts report the
    fault.

    The link ("c1", "") stands for every link of c1. Actions of operators and users disturb no link.
    """

    def named(field: str) -> str:
        name: str = getattr(action, field, "")
        return cluster.resolve(name) if name else ""

    if KINDS[type(action)].workload or isinstance(action, (*_TOLD_BY_THE_HOST, TieOrder)) or hasattr(action, "mode"):
        return ()
    if isinstance(action, ClockDrift) and abs(action.ppm) < MATERIAL_DRIFT_PPM:
        return ()
    if isinstance(action, _OF_A_SESSION):
        return ((named("host"), STORE),)
    if hasattr(action, "side"):
        sides: list[list[str]] = [[cluster.resolve(name) for name in getattr(action, field)] for field in _SIDES]
        return tuple((one, other) for one in sides[0] for other in sides[1] or [""])
    for first, second in (("sender", "receiver"), ("a", "b"), ("host", "")):
        if hasattr(action, first):
            return ((named(first), named(second) if second else ""),)
    return EVERY_LINK
