"""The end of the warm-up, after which a cluster behaves as if it had run undisturbed for hours.

Periodic work of members is in phase when a group forms, and drifts apart over hours. A scenario does not run for hours.
So each host draws the time of its next heartbeat, ping or check after every group is Stable with all initial members.
If an action of the plan occurs earlier, no phase is drawn.
"""

from collections.abc import Callable

from kemu.emulator import facts
from kemu.emulator.draws import DrawSet
from kemu.emulator.engine.world import World
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.draws import DRAWS, DrawName
from kemu.protocol.notes.groups import GroupBecame, MemberAdded, MemberRemoved

STABLE = "Stable"
SETTLE_US = 1_000_000
"""Time for which a group must be Stable, so that members use their assignments, in us."""
ALONE_US = 10_000_000
"""Duration of the warm-up of a cluster without members, in us."""

PHASES = tuple(name for name in DrawName if name.value.endswith(".phase"))
SEEN = (GroupBecame, MemberAdded, MemberRemoved, facts.FaultApplied)
assert all(name.value in DRAWS for name in PHASES)


def draws_phases(draws: DrawSet) -> bool:
    """Whether the draws contain a phase."""
    return any(draws.of(name) is not None for name in PHASES)


class WarmUp:
    """Calls ``over`` once at the end of the warm-up, unless the plan begins earlier."""

    def __init__(self, world: World, scenario: Scenario, over: Callable[[], None]) -> None:
        self._world = world
        self._over = over
        self._waits = draws_phases(scenario.draws)
        self._expected: dict[str, set[str]] = {}
        for host, group, _ in scenario.member_names():
            self._expected.setdefault(group, set()).add(host)
        self._members: dict[str, set[str]] = {group: set() for group in self._expected}
        self._stable: dict[str, bool] = dict.fromkeys(self._expected, False)
        self._asked = False
        """Whether a check is scheduled."""

    def begin(self) -> None:
        """Begin the wait for Stable groups."""
        if self._waits and not self._expected:
            self._world.at(ALONE_US, self._look)

    def wants(self, kind: type) -> bool:
        """Whether the warm-up uses facts of this type: states of groups, and the start of the plan."""
        return self._waits and kind in SEEN

    def see(self, fact: object) -> None:
        """Note a state of a group, or the start of the plan."""
        if not self._waits:
            return
        match fact:
            case GroupBecame(group=group, new=new) if group in self._stable:
                self._stable[group] = new == STABLE
            case MemberAdded(group=group, client_id=client) if group in self._members:
                self._members[group].add(client)
            case MemberRemoved(group=group, client_id=client) if group in self._members:
                self._members[group].discard(client)
            case facts.FaultApplied():
                self._waits = False
        if self._waits and not self._asked and self._all_there:
            self._asked = True
            self._world.at(self._world.now_us + SETTLE_US, self._look)

    @property
    def _all_there(self) -> bool:
        return all(self._stable.values()) and all(
            hosts <= self._members[group] for group, hosts in self._expected.items()
        )

    def _look(self) -> None:
        self._asked = False
        if self._waits and self._all_there:
            self._waits = False
            self._world.report(facts.WarmUpEnded())
            self._over()
