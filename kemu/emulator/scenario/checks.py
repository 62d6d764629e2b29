"""The time of healing and of recovery in a scenario."""

from attrs import field
from attrs.converters import optional

from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import LONGEST_US, microseconds
from kemu.protocol.frozen import frozen


@frozen(kw_only=True)
class ChecksSpec:
    """The end of all faults, and the time for recovery after this end.

    Every fault ends at ``heal_after_us`` of virtual time; None means the end of the plan and the load. Within
    ``stable_within_us`` after the end of the faults, every group must be Stable, or Empty without members, and every
    partition must have an owner. None means the longest time that Kafka's timeouts allow
    (``Scenario.stable_within_us``). Hosts in ``away`` stay faulty, and recovery does not wait for these hosts.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    heal_after_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key("time at which all faults end", at_least=0, at_most=LONGEST_US, shown="at the end of duration"),
    )
    stable_within_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key(
            "time for recovery after the end of the faults",
            at_least=1,
            at_most=LONGEST_US,
            shown="as long as the members' timeouts allow",
        ),
    )
    away: AwaySpec | None = field(default=None, metadata=key("hosts that stay faulty; all other hosts must recover"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
