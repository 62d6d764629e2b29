"""The time of healing and of recovery in a scenario."""

from attrs import field, frozen
from attrs.converters import optional

from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import LONGEST_US, microseconds


@frozen(kw_only=True)
class ChecksSpec:
    """When everything is healed, and how soon after that all must be well again.

    ``heal_after_us``: time of the world; None = at the scenario's ``duration_us``. From then on every group must get
    Stable (or Empty without members) with every partition owned within ``stable_within_us``; None = the longest that
    Kafka's own timeouts may keep a group waiting (see ``Scenario.stable_within_us``). ``away``: who is not healed, nor
    waited for.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    heal_after_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key("when everything is healed", at_least=0, at_most=LONGEST_US, shown="at the end of duration"),
    )
    stable_within_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key(
            "how soon after that all must be well",
            at_least=1,
            at_most=LONGEST_US,
            shown="what the members' timeouts may take",
        ),
    )
    away: AwaySpec | None = field(default=None, metadata=key("who stays away then; all others must get well"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
