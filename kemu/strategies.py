"""Hypothesis strategies (extra ``kemu[test]``): ``scenarios()``, ``plans(scenario)`` and ``configs()``."""

from kemu.tools.testkit.strategies import configs, plans, scenarios

__all__ = ["configs", "plans", "scenarios"]
