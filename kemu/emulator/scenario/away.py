"""Hosts of a scenario that stay faulty when all other faults end."""

from attrs import field

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import words
from kemu.protocol.frozen import frozen

CRASHED, PAUSED, CUT_OFF = "crashed", "paused", "cut off"
WAYS = (CRASHED, PAUSED, CUT_OFF)
"""Ways to stay faulty: without power, paused, or isolated from all hosts that are healed."""


@frozen(kw_only=True)
class AwaySpec:
    """Brokers and members that stay faulty from the time of healing on. All other hosts form the core.

    A host that is down at that time stays down; the others fail as ``how`` says. The metadata store, producers and the
    admin client always belong to the core. With ``recalled`` brokers that the core needs to recover are healed, too.
    Otherwise only safety is checked from then on (``emulator.injection.core``).

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    hosts: tuple[str, ...] = field(
        converter=words, metadata=key("brokers and members", at_least=1, what="host", always=True)
    )
    how: str = field(
        default=CRASHED, metadata=key("kind of the lasting fault", choices=lambda: WAYS, what="way to stay away")
    )
    recalled: bool = field(default=True, metadata=key("whether brokers that the others need are healed"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
