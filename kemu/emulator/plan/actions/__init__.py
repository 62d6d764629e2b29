"""The actions: faults, and the operations of a cluster's operators and users.

Three conventions hold for all actions:

* Times are integer microseconds (``for_us``); in a scenario file the same field is ``for = "20s"``.
* ``for_us=0`` means "until healed" for lasting effects. A crashed host with ``for_us=0`` stays down.
* A host is a name ("c1", "b0") or a role. Roles are "coordinator of g" (leader of the group's offsets partition) and
  "leader of g" (the member that assigns). A role is resolved when the action is applied. In some fields, "" stands for
  every host.
"""

from kemu.emulator.plan.action import ACTIONS as ACTIONS
from kemu.emulator.plan.actions.classes import *  # noqa: F403

_DRAWN = (
    "crash", "restart", "pause", "lose-disk-tail", "isolate", "split", "slow", "lossy", "hold", "disconnect",
    "duplicate", "kill-coordinator", "move-coordinator", "error-reply", "lose-store-answer", "freeze-session",
    "delay-watches", "expire-session", "elect-preferred-leaders", "alter-configs", "elect-store-leader", "add-broker",
    "fail-log-dir",
)  # fmt: skip
"""The order in which random plans draw these actions; another order would change the plan of every seed. Other actions
follow in the order of declaration."""

for _kind in sorted(ACTIONS, key=lambda kind: _DRAWN.index(kind) if kind in _DRAWN else len(_DRAWN)):
    ACTIONS[_kind] = ACTIONS.pop(_kind)
