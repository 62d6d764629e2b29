"""Orders to a run that is under way: entries of a plan that come from outside, checked as a scenario's are.

A line is an entry's plain form without a time, as JSON: ``{"do": "scale-down", "group": "app", "to": "80%"}``. It is
answered ``{"done": what was done, "at_us": when, "hosts": whom it told or started}`` or ``{"error": why not}``; what is
refused changes nothing.
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
    """See the module. It also watches the run, to tell whom an order reached."""

    def __init__(self, scenario: Scenario, injector: Injector) -> None:
        self._scenario = scenario
        self._injector = injector
        self._heard: list[str] = []

    def wants(self, kind: type) -> bool:
        """Who was told to go or stay, and who came."""
        return kind is InstanceLeaving or kind is MemberHostAdded

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        fact = seen.fact
        self._heard.append(fact.instance if type(fact) is InstanceLeaving else fact.host)

    def take(self, line: bytes, answer: Callable[[bytes], None]) -> None:
        """Do what a line says, now, between two turns; it is answered when those who were told have heard it."""
        try:
            text = self._do(line)
        except ScenarioError as error:
            answer(_as_line({"error": "; ".join(str(error).splitlines())}))
            return
        world = self._injector.world

        def answered() -> None:
            answer(_as_line({"done": text, "at_us": world.now_us, "hosts": self._heard}))

        world.at(world.now_us, answered)

    def _do(self, line: bytes) -> str:
        try:
            row = json.loads(line)
        except ValueError:
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
        """The scenario as it would be had its plan said this, too; ``group`` is the only one if there is but one."""
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
