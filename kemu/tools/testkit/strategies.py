"""Hypothesis strategies for clusters, plans and settings; Hypothesis shrinks a failing example.

The strategies use the swarm's functions (``emulator.exploring.swarm``) with a stream of Hypothesis's choices. The
smallest choice is the simplest choice, so a failing plan shrinks to few, early and short faults of the first host.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kemu.emulator.chance import Stream
from kemu.emulator.exploring.swarm import drawn_config, drawn_plan, drawn_scenario, fault_families
from kemu.emulator.plan.entries import Plan
from kemu.emulator.scenario.scenario import Scenario


class _Drawn(Stream):
    """A ``Stream`` whose draws are choices of Hypothesis."""

    __slots__ = ("_draw",)

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        super().__init__(lambda bits: draw(st.integers(0, (1 << bits) - 1)))
        self._draw = draw

    def below(self, bound: int) -> int:
        """See ``Stream``."""
        return self._draw(st.integers(0, bound - 1))

    def between(self, low: int, high: int) -> int:
        """See ``Stream``."""
        return self._draw(st.integers(low, high))


@st.composite
def scenarios(
    draw: Callable[[st.SearchStrategy[Any]], Any], *, replicated: bool | None = None, profile: str | None = None
) -> Scenario:
    """Draw small clusters with their load, without faults.

    Args:
        draw: The function ``draw`` of Hypothesis.
        replicated: Whether brokers replicate; None: Hypothesis chooses.
        profile: The release of brokers and clients; None: the default release.
    """
    return drawn_scenario(_Drawn(draw), profile=profile, replicated=replicated)


@st.composite
def plans(draw: Callable[[st.SearchStrategy[Any]], Any], scenario: Scenario, *, at_most: int = 6) -> Plan:
    """Draw faults for a scenario, in order of time; ``attrs.evolve(scenario, plan=plan)`` adds the faults."""
    return drawn_plan(scenario, _Drawn(draw), fault_families(scenario), at_most=at_most)


@st.composite
def configs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """Draw consistent consumer settings by Kafka's keys, for ``GroupSpec(config=...)``."""
    return drawn_config(_Drawn(draw))
