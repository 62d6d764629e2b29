"""Orders to a live run: actions that are not in the plan, with the same checks as actions of a scenario.

A line is an action as JSON without a time: ``{"do": "scale-down", "group": "app", "to": "80%"}``. The answer is
``{"done": description, "at_us": time, "hosts": affected hosts}`` or ``{"error": reason}``. A refused order changes
nothing. No order ends the run: an unexpected exception is the answer, too.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kemu.emulator.facts import MemberHostAdded, Seen
from kemu.emulator.injection.injector import Injector
from kemu.emulator.plan.entries import At
from kemu.emulator.scenario.files import set_only_group
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import duration_text
from kemu.protocol.notes.streams import InstanceLeaving


class Orders:
    """Carries out orders, and observes the run to find the affected hosts."""

    def __init__(self, scenario: Scenario, injector: Injector) -> None:
        self._scenario = scenario
        self._injector = injector
        self._heard: list[str] = []

    def wants(self, kind: type) -> bool:
        """Whether a fact of this type names an affected host."""
        return kind is InstanceLeaving or kind is MemberHostAdded

    def see(self, seen: Seen) -> None:
        """Note the host that a fact names."""
        fact = seen.fact
        self._heard.append(fact.instance if type(fact) is InstanceLeaving else fact.host)

    def take(self, line: bytes, answer: Callable[[bytes], None]) -> None:
        """Carry out an order between two turns; answer the order after the affected hosts have received the action."""
        try:
            text = self._do(line)
        except ScenarioError as error:
            answer(_as_line({"error": "; ".join(str(error).splitlines())}))
            return
        except Exception as error:
            answer(_as_line({"error": f"a bug of kemu: {type(error).__name__}: {error}"}))
            return
        world = self._injector.world

        def answered() -> None:
            answer(_as_line({"done": text, "at_us": world.now_us, "hosts": self._heard}))

        world.at(world.now_us, answered)

    def _do(self, line: bytes) -> str:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise _refused("an order is one JSON object on a line, with the keys of a plan's entry")
        scenario = self._with(row)
        entry = scenario.plan[-1]
        assert isinstance(entry, At), entry
        self._heard = []
        outcome = self._injector.order(entry.action)
        if outcome is not None:
            raise _refused(outcome)
        self._scenario = scenario
        return entry.action.words()

    def _with(self, row: Mapping[str, Any]) -> Scenario:
        """Return the scenario with this order as an entry of its plan; ``group`` defaults to the only group."""
        for key in ("at", "when", "after", "jitter"):
            if key in row:
                raise _refused(f'"{key}" is not for orders: they are carried out now')
        now_us = self._injector.world.now_us
        entry = {"at": duration_text(now_us), **row}
        set_only_group(entry, self._scenario)
        data = self._scenario.to_dict()
        plan = [*data.get("plan", ()), entry]
        try:
            longer = duration_text(max(self._scenario.duration_us, now_us))
            return scenario_from_dict({**data, "duration": longer, "plan": plan})
        except ScenarioError as error:
            problems = [attrs.evolve(problem, path=problem.path[2:]) for problem in error.problems]
            raise ScenarioError(problems) from None


def _refused(text: str) -> ScenarioError:
    return ScenarioError([Problem((), text)])


def _as_line(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer).encode()
