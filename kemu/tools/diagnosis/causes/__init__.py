"""The causes that ``kemu diagnose`` knows: a new file with a subclass of ``KnownCause`` adds a cause."""

from collections.abc import Mapping

from kemu.emulator.package_modules import subclasses_in
from kemu.tools.diagnosis.causes.base import KnownCause

CAUSES: Mapping[str, type[KnownCause]] = {
    cause.id: cause for cause in sorted(subclasses_in(__name__, KnownCause), key=lambda cause: cause.id) if cause.id
}
"""Id of a cause -> class."""
