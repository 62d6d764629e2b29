"""Assignors of the user, named ``module:Class`` on the command line or in a scenario."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from kemu.emulator.text.allowed_code import may_load, may_load_installed
from kemu.emulator.text.tables import nearest
from kemu.protocol.assign.checked import CheckedAssignor, NotAnAssignor, checked

if TYPE_CHECKING:
    from kemu.protocol.streams.registry import TaskAssignor

ENTRY_POINTS = "kemu.assignors"
"""The group of entry points in which installed packages declare assignors."""
OF_PRESETS = "kemu.protocol.assign.examples:StickyByClaims"
"""The custom assignor of kemu's own presets. A kemu that runs from sources declares no entry point."""


def is_custom(name: str) -> bool:
    """Whether a name stands for a class of the user rather than for a built-in assignor."""
    return ":" in name


def load_assignor(place: str) -> CheckedAssignor:
    """Load a consumer assignor, and wrap it in checks of its results.

    Raises:
        NotAnAssignor: as for ``load_made``, or the object is no assignor.
    """
    return checked(load_made(place), place)


def load_task_assignor(place: str) -> "TaskAssignor":
    """Load a task assignor of Streams.

    Raises:
        NotAnAssignor: as for ``load_made``, or the object has no method ``assign``.
    """
    made: Any = load_made(place)
    if not callable(getattr(made, "assign", None)):
        raise NotAnAssignor(f"{place} has no method assign")
    own: TaskAssignor = made
    return own


def find_task_assignor(name: str) -> "TaskAssignor":
    """Return a built-in task assignor by name, or load a task assignor of the user.

    Raises:
        NotAnAssignor: the assignor does not exist.
    """
    if is_custom(name):
        return load_task_assignor(name)
    from kemu.protocol.streams.registry import TASK_ASSIGNORS  # late: many runs have no Streams application

    if name not in TASK_ASSIGNORS:
        raise NotAnAssignor(f'"{name}" is no task assignor{nearest(name, TASK_ASSIGNORS)}')
    return TASK_ASSIGNORS[name]


def _installed() -> set[str]:
    """The assignors that kemu and installed packages declare, as ``module:Class``."""
    from importlib.metadata import entry_points  # many modules, needed for custom assignors only

    return {OF_PRESETS, *(point.value for point in entry_points(group=ENTRY_POINTS))}


def load_made(place: str) -> object:
    """Import ``module:Class`` from the Python path or the current folder, and create an object.

    Raises:
        NotAnAssignor: the module or class does not exist, the class needs arguments, or ``allowed_code`` forbids it.
    """
    module_name, _, class_name = place.partition(":")
    declared = may_load_installed() and place in _installed()
    if not may_load(place) and not declared:
        raise NotAnAssignor(
            f"{place}: only an assignor of an installed package may be loaded here; the package must declare the "
            f'assignor as an entry point of the group "{ENTRY_POINTS}", or the command needs --allow-code'
        )
    with _current_folder() if may_load(place) else nullcontext():
        return _made(place, module_name, class_name)


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let imports find modules of the current folder."""
    here = os.getcwd()
    if here in sys.path:
        yield
        return
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _made(place: str, module_name: str, class_name: str) -> object:
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the import of the user's module may raise any exception
        raise NotAnAssignor(f"{place}: cannot import {module_name}: {type(error).__name__}: {error}") from error
    found = getattr(module, class_name, None) if class_name else None
    if found is None:
        raise NotAnAssignor(f'{place}: module {module_name} has no "{class_name}"')
    try:
        return found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        raise NotAnAssignor(f"{place}: cannot make one: {type(error).__name__}: {error}") from error
