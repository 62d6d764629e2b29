"""Results of pure functions of frozen values, computed once while many clients of one cluster get the same value."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")

KEPT = 16
"""Number of results that are kept of a function."""


class OncePerValue(Generic[R]):
    """A pure function that remembers its last results by the identity of its first argument."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._results: dict[tuple[Any, ...], tuple[object, R]] = {}
        """(id, other arguments) -> the value, which keeps its id in use, and the result."""

    def __call__(self, value: object, *others: bool) -> R:
        """Return the function's result."""
        key = (id(value), *others)
        known = self._results.get(key)
        if known is None:
            if len(self._results) >= KEPT:
                del self._results[next(iter(self._results))]
            known = self._results[key] = (value, self._function(value, *others))
        return known[1]
