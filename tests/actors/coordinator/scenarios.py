"""The tests that show each of Kafka's own scenarios (``tests/vectors/group_scenarios.json``)."""

from collections.abc import Callable
from typing import TypeVar

from tests.case_files import load

Test = TypeVar("Test", bound=Callable[..., None])

VECTORS = load("group_scenarios.json")
COVERED: dict[str, list[str]] = {}
"""Scenario id -> tests that show it, filled as the test modules are imported."""


def scenario(*ids: str) -> Callable[[Test], Test]:
    """Mark a test as showing these scenarios; its docstring must cite each id with Kafka's name of the test."""

    def mark(test: Test) -> Test:
        text = test.__doc__ or ""
        for wanted in ids:
            (vector,) = [vector for vector in VECTORS if vector["id"] == wanted]
            assert wanted in text and vector["test"] in text, f"{test.__name__} must cite {wanted} {vector['test']}"
            COVERED.setdefault(wanted, []).append(test.__name__)
        return test

    return mark
