"""Reads a scenario from its plain form, as in a TOML file, and checks the whole scenario."""

from collections.abc import Mapping
from typing import Any

from kemu.emulator.scenario.forms import read
from kemu.emulator.scenario.scenario import Scenario


def scenario_from_dict(data: Mapping[str, Any], *, name: str = "") -> Scenario:
    """Return the scenario of a plain dict; ``name`` is the default of the scenario's name.

    Raises:
        ScenarioError: lists every mistake.
    """
    return read({"name": name or "scenario", **data}, Scenario)
