"""The code of the user that may be loaded: files are data, and name no code that is then run unasked."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class Code(Enum):
    """The code of the user that may be loaded."""

    ANY = "any"
    """Any module, also of the current folder: Python that the user runs, and ``--allow-code``."""
    INSTALLED = "installed"
    """Classes that an installed package declares as an entry point, and classes that the user's command names."""
    NONE = "none"
    """No code; names of assignors are not even looked up: a recorded run is read."""


_allowed: ContextVar[Code] = ContextVar("allowed", default=Code.ANY)
_named: ContextVar[frozenset[str]] = ContextVar("named", default=frozenset())


@contextmanager
def code_allowed(code: Code) -> Iterator[None]:
    """Load no other code of the user inside the block."""
    before, names_before = _allowed.set(code), _named.set(frozenset())
    try:
        yield
    finally:
        _allowed.reset(before)
        _named.reset(names_before)


def allow_any_code() -> None:
    """Allow any code up to the end of the ``code_allowed`` around this call."""
    _allowed.set(Code.ANY)


def allow_classes(named: Iterable[str]) -> None:
    """Allow these classes up to the end of the ``code_allowed`` around this call."""
    _named.set(frozenset(named))


def may_load(place: str) -> bool:
    """Return whether a class may be loaded that no installed package declares."""
    return _allowed.get() is Code.ANY or (_allowed.get() is Code.INSTALLED and place in _named.get())


def may_load_installed() -> bool:
    """Return whether a class may be loaded that an installed package declares."""
    return _allowed.get() is not Code.NONE


def names_are_checked() -> bool:
    """Return whether a scenario is checked for assignors that cannot be loaded."""
    return _allowed.get() is not Code.NONE
