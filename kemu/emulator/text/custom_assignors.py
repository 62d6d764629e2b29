"""Assignors of the user, named ``module:Class`` on the command line or in a scenario."""

import importlib
import os
import sys
from typing import Any

from kemu.emulator.text.tables import nearest
from kemu.protocol.assign.checked import CheckedAssignor, NotAnAssignor, checked
from kemu.protocol.streams.registry import TASK_ASSIGNORS, TaskAssignor


def is_custom(name: str) -> bool:
    """Whether a name stands for a class of the user rather than for a built-in assignor."""
    return ":" in name


def load_assignor(place: str) -> CheckedAssignor:
    """Load a consumer assignor, and wrap it in checks of its results.

    Raises:
        NotAnAssignor: as for ``load_made``, or the object is no assignor.
    """
    return checked(load_made(place), place)


def load_task_assignor(place: str) -> TaskAssignor:
    """Load a task assignor of Streams.

    Raises:
        NotAnAssignor: as for ``load_made``, or the object has no method ``assign``.
    """
    made: Any = load_made(place)
    if not callable(getattr(made, "assign", None)):
        raise NotAnAssignor(f"{place} has no method assign")
    own: TaskAssignor = made
    return own


def find_task_assignor(name: str) -> TaskAssignor:
    """Return a built-in task assignor by name, or load a task assignor of the user.

    Raises:
        NotAnAssignor: the assignor does not exist.
    """
    if is_custom(name):
        return load_task_assignor(name)
    if name not in TASK_ASSIGNORS:
        raise NotAnAssignor(f'"{name}" is no task assignor{nearest(name, TASK_ASSIGNORS)}')
    return TASK_ASSIGNORS[name]


def load_made(place: str) -> object:
    """Import ``module:Class`` from the Python path or the current folder, and create an object.

    Raises:
        NotAnAssignor: the module or class does not exist, or the class needs arguments.
    """
    module_name, _, class_name = place.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
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
