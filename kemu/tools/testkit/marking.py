"""``@kemu_test``: what a test is run with, said at the test."""

import inspect
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
) -> Callable[[Test], Test]:
    """Mark a test that takes the fixture ``kemu``; an async one runs under pytest-trio.

    Args:
        scenario: what runs: a scenario, a preset's name, a .toml file, or a function that makes one. None: the test
            says it (``kemu.group``), or with ``swarm`` each seed draws it.
        seeds: with which the test is run; a number means 1 to so many. Options of the command line come first.
        swarm: each seed also draws faults, about half of their families off (``emulator.exploring.swarm``).
        profile: which release everybody is.
    """
    found = None if seeds is None else tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)

    def mark(test: Test) -> Test:
        marked: Test = pytest.mark.kemu(scenario, seeds=found, swarm=swarm, profile=profile)(test)
        if inspect.iscoroutinefunction(test):
            marked = pytest.mark.trio(marked)
        return marked

    return mark
