"""Plans in their plain form, read as a scenario reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kemu.emulator.plan.entries import Plan
from kemu.emulator.plan.known import Known
from kemu.emulator.scenario.plan_reading import plan_from_tables
from kemu.emulator.text.tables import Problem, ScenarioError, Table


def plan_from_dicts(rows: Sequence[Mapping[str, Any]], known: Known) -> Plan:
    """The plan of these rows: everything that is wrong is told at once."""
    problems: list[Problem] = []
    plan = plan_from_tables([Table(row, ("plan", index), problems) for index, row in enumerate(rows)], known)
    if problems:
        raise ScenarioError(problems)
    return plan
