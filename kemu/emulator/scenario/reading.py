"""Scenarios from their plain form, such as a TOML file has: all is checked, all mistakes are reported at once."""

from collections.abc import Mapping
from typing import Any

from kemu.emulator.scenario.forms import read
from kemu.emulator.scenario.scenario import Scenario


def scenario_from_dict(data: Mapping[str, Any], *, name: str = "") -> Scenario:
    """The scenario a plain dict describes; ``name`` where it gives none.

    Raises:
        ScenarioError: everything that is wrong with it, at once.
    """
    return read({"name": name or "scenario", **data}, Scenario)
