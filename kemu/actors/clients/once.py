"""Results of pure functions of frozen values, computed once for many clients that get the same value."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")

KEPT = 16
"""The number of kept results per function."""


class OncePerValue(Generic[R]):
    """A pure function that remembers its last results by the identity of its first argument."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._results: dict[tuple[Any, ...], tuple[object, R]] = {}
        """(id, other arguments) -> the value and the result. The stored value prevents the reuse of its id."""

    def __call__(self, value: object, *others: bool) -> R:
        """The function's result, computed or remembered."""
        key = (id(value), *others)
        known = self._results.get(key)
        if known is None:
            if len(self._results) >= KEPT:
                del self._results[next(iter(self._results))]
            known = self._results[key] = (value, self._function(value, *others))
        return known[1]
