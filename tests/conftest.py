"""What is for all tests: those that take long begin first; a heap in which garbage is found quickly."""

import gc
from collections.abc import Iterator

import pytest

pytest_plugins = ("kemu.tools.testkit.plugin",)
"""The project's own, also where it is not installed."""

LONG = (
    "tests/tools/test_bench_assign.py",
    "tests/test_mutation_canary.py",
)
"""Files of tests that take long: of two processes that share the suite, neither is to sit idle at its end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long ones first, everything else in its order."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(scope="module")
def few_objects() -> Iterator[None]:
    """Collections of garbage look at what is new. Whoever measures has garbage collected before each figure, and some
    hundred thousand objects stand for the tests alone.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
