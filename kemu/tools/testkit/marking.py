"""The decorator ``@kemu_test`` sets the scenario, seeds and profile of a test."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kemu.emulator.scenario.scenario import Scenario

Test = TypeVar("Test", bound=Callable[..., Any])


def kemu_test(
    scenario: Scenario | str | Path | Callable[[], Scenario] | None = None,
    *,
    seeds: int | Iterable[int] | None = None,
    swarm: bool = False,
    profile: str | None = None,
    allow_unfired: bool = False,
) -> Callable[[Test], Test]:
    """Mark a test that uses the fixture ``kemu``, like ``pytest.mark.kemu``, but with typed arguments.

    pytest-trio runs async tests with this mark, also if pytest-asyncio is installed.

    Args:
        scenario: A scenario, a preset's name, a .toml file, or a function that makes a scenario. None: the test starts
            a cluster by ``kemu.group``, or with ``swarm`` each seed draws a scenario.
        seeds: The seeds of the test; a number n means 1 to n. Options of the command line override this argument.
        swarm: Whether each seed also draws faults, with about half of the families of faults disabled.
        profile: The release of brokers and clients.
        allow_unfired: Whether entries of the plan may have no effect.
    """
    given = {"seeds": seeds, "swarm": swarm, "profile": profile, "allow_unfired": allow_unfired}
    mark: Callable[[Test], Test] = pytest.mark.kemu(scenario, **given)
    return mark
