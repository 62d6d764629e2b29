"""The scenarios that the package contains. This module imports no scenario class, so that a list is printed quickly."""

import tomllib
from functools import cache

from kemu.emulator.package_modules import text_of
from kemu.protocol.frozen import frozen


@frozen
class Preset:
    """A scenario that the package contains."""

    name: str
    summary: str


def preset_names() -> tuple[str, ...]:
    """The names of all presets, sorted."""
    from importlib.resources import files  # imports forty modules

    found = [item.name for item in (files("kemu.emulator") / "presets").iterdir() if item.name.endswith(".toml")]
    return tuple([name.removesuffix(".toml") for name in sorted(found)])


@cache
def presets() -> tuple[Preset, ...]:
    """Return all presets, sorted by name."""
    return tuple([Preset(name, str(tomllib.loads(preset_text(name))["summary"])) for name in preset_names()])


def preset_text(name: str) -> str:
    """The TOML text of a preset.

    Raises:
        OSError: there is no such preset.
    """
    return text_of(f"presets/{name}.toml")
