"""Hypothesis strategies: ``kemu.strategies.scenarios()``, ``.plans(scenario)``, ``.configs()``; in ``kemu[test]``."""

from kemu.tools.testkit.strategies import configs, plans, scenarios

__all__ = ["configs", "plans", "scenarios"]
