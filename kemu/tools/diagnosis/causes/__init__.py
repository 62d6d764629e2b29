"""The causes that ``kemu diagnose`` knows: a new file with a subclass of ``KnownCause`` adds a cause."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from kemu.tools.diagnosis.causes.base import KnownCause


def _causes_of_this_package() -> Iterator[type[KnownCause]]:
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, KnownCause) and value.__module__ == module.__name__:
                yield value


CAUSES: Mapping[str, type[KnownCause]] = {
    cause.id: cause for cause in sorted(_causes_of_this_package(), key=lambda cause: cause.id) if cause.id
}
"""Id of a cause -> class."""
