"""Tables of what the files of a package define (a new file in the package is a new row), and texts of a package."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def text_of(file: str) -> str:
    """The text of a file of ``kemu.emulator``, whose modules may be in a zip file, too.

    Raises:
        OSError: there is no such file.
    """
    found = pkgutil.get_data("kemu.emulator", file)
    assert found is not None
    return found.decode()


def modules_of(package: str) -> Iterator[ModuleType]:
    """The modules of a package, in the order of their names."""
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
        yield importlib.import_module(f"{package}.{found.name}")


def subclasses_in(package: str, base: type[T]) -> Iterator[type[T]]:
    """The subclasses of ``base`` that the modules of a package define."""
    for module in modules_of(package):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__:
                yield value
