"""Orders to a live run: actions that are not in the plan, with the same checks as actions of a scenario.

An order has the keys of a plan's entry without a time: ``{"do": "scale-down", "group": "app", "to": "80%"}``. The
answer is ``{"done": description, "at_us": time, "hosts": affected hosts}``. A refused order changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kemu.emulator.control.conditions import refused
from kemu.emulator.facts import MemberHostAdded, Seen
from kemu.emulator.injection.injector import Injector
from kemu.emulator.plan.entries import At, Trigger, When
from kemu.emulator.scenario.files import set_only_group
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.units import duration_text
from kemu.protocol.notes.streams import InstanceLeaving

Answer = Callable[[Mapping[str, Any]], object]


class Orders:
    """Carries out orders, and observes the run to find the affected hosts."""

    def __init__(self, scenario: Scenario, injector: Injector) -> None:
        self._scenario = scenario
        self.injector = injector
        self._heard: list[str] = []

    def wants(self, kind: type) -> bool:
        """Whether a fact of this type names an affected host."""
        return kind is InstanceLeaving or kind is MemberHostAdded

    def see(self, seen: Seen) -> None:
        """Note the host that a fact names."""
        fact = seen.fact
        self._heard.append(fact.instance if type(fact) is InstanceLeaving else fact.host)

    def take(self, row: Mapping[str, Any], answer: Answer) -> None:
        """Carry out an order between two turns; answer the order after the affected hosts have received the action.

        Raises:
            ScenarioError: the order is wrong, or has no effect. The order is not answered.
        """
        for key in ("at", "when", "after", "jitter"):
            if key in row:
                raise refused(f'"{key}" is not for orders: they are carried out now')
        world = self.injector.world
        scenario = self._with({"at": duration_text(world.now_us), **row})
        entry = scenario.plan[-1]
        assert isinstance(entry, At), entry
        self._heard = []
        outcome = self.injector.order(entry.action)
        if outcome is not None:
            raise refused(outcome)
        self._scenario = scenario

        def answered() -> None:
            answer({"done": entry.action.words(), "at_us": world.now_us, "hosts": self._heard})

        world.at(world.now_us, answered)

    def trigger(self, row: Mapping[str, Any]) -> Trigger:
        """The trigger of a plan in its plain form: ``{"noted": "GroupBecame", "group": "g", "new": "Stable"}``.

        Raises:
            ScenarioError: the trigger is wrong.
        """
        entry = self._with({"when": dict(row), "do": "heal"}).plan[-1]
        assert isinstance(entry, When), entry
        return entry.trigger

    def _with(self, entry: dict[str, Any]) -> Scenario:
        """Return the scenario with this entry in its plan; ``group`` defaults to the only group."""
        set_only_group(entry, self._scenario)
        data = self._scenario.to_dict()
        plan = [*data.get("plan", ()), entry]
        try:
            longer = duration_text(max(self._scenario.duration_us, self.injector.world.now_us))
            return scenario_from_dict({**data, "duration": longer, "plan": plan})
        except ScenarioError as error:
            problems = [attrs.evolve(problem, path=problem.path[2:]) for problem in error.problems]
            raise ScenarioError(problems) from None
