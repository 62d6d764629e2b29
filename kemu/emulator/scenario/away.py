"""Hosts of a scenario that stay faulty when all other faults end."""

from attrs import field

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import words
from kemu.protocol.frozen import frozen

CRASHED, PAUSED, CUT_OFF = "crashed", "paused", "cut off"
WAYS = (CRASHED, PAUSED, CUT_OFF)
"""Ways to stay faulty: without power, paused, or isolated from all healed hosts."""


@frozen(kw_only=True)
class AwaySpec:
    """Brokers and members that stay faulty after the time of healing. All other hosts form the core.

    A host that is down at the time of healing stays down; other hosts of the list fail as ``how`` says. The metadata
    store, producers and the admin client always belong to the core. With ``recalled``, brokers that the core needs for
    its recovery are healed, too. Without ``recalled``, a core that cannot recover is checked for safety only
    (``emulator.injection.core``).

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    hosts: tuple[str, ...] = field(
        converter=words, metadata=key("brokers and members", at_least=1, what="host", always=True)
    )
    how: str = field(
        default=CRASHED, metadata=key("kind of the lasting fault", choices=lambda: WAYS, what="way to stay away")
    )
    recalled: bool = field(default=True, metadata=key("whether brokers that the core needs are healed"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
