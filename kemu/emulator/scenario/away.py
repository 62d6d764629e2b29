"""The part of a scenario that says who stays away when all else is healed."""

from attrs import field, frozen

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import words

CRASHED, PAUSED, CUT_OFF = "crashed", "paused", "cut off"
WAYS = (CRASHED, PAUSED, CUT_OFF)
"""How a host can stay away: without power, standing still, or without a link to anybody who does not stay away."""


@frozen(kw_only=True)
class AwaySpec:
    """Brokers and members that stay away for good from the healing on; all others are the core, which is healed.

    Who is down at that time stays down; the others are away as ``how`` says. The store, producers and the admin client
    are always of the core. ``recalled``: brokers that hold what the core could not go on without are healed, too;
    otherwise only safety is checked from then on (``emulator.injection.core``).

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    hosts: tuple[str, ...] = field(
        converter=words, metadata=key("brokers and members", at_least=1, what="host", always=True)
    )
    how: str = field(default=CRASHED, metadata=key("how they stay away", choices=lambda: WAYS, what="way to stay away"))
    recalled: bool = field(default=True, metadata=key("whether brokers come back that the others cannot go on without"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
