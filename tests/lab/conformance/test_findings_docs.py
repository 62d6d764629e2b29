"""docs/explanation/conformance.md names tests and presets that there are."""

import re
from pathlib import Path

from kemu.emulator.scenario.presets import presets

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "explanation" / "conformance.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_0-9/]+\.py)::(test_\w+)`", PAGE)

    assert len(named) > 50
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_every_preset_that_the_page_names_is_there() -> None:
    named = [name for line in PAGE.splitlines() for name in re.findall(r"; `([a-z-]+)` \|$", line)]

    assert len(named) >= 5
    assert set(named) <= {preset.name for preset in presets()}
