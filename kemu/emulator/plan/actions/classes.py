"""The classes of all actions and no other name: type checkers take the names ``kemu.NAME`` of actions from here.

Every module below begins with the comment ``mypy: no-implicit-reexport``, so that the names that a module imports are
not names of the module. Helpers of one module begin with an underscore.
"""

from kemu.emulator.plan.actions.admin import *  # noqa: F403
from kemu.emulator.plan.actions.consumers import *  # noqa: F403
from kemu.emulator.plan.actions.hosts import *  # noqa: F403
from kemu.emulator.plan.actions.network import *  # noqa: F403
from kemu.emulator.plan.actions.operators import *  # noqa: F403
from kemu.emulator.plan.actions.order import *  # noqa: F403
from kemu.emulator.plan.actions.replies import *  # noqa: F403
from kemu.emulator.plan.actions.store import *  # noqa: F403
from kemu.emulator.plan.actions.streams import *  # noqa: F403
