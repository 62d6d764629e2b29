"""A scenario as Python, and as TOML: what is read back is equal, for everything a scenario can say."""

from typing import Any

import pytest

import kemu
from kemu.emulator.exploring.python_text import entry_text, python_text
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml
from kemu.emulator.scenario.presets import presets
from kemu.emulator.text.toml_text import toml_text
from tests.emulator.exploring.failing import failing
from tests.emulator.scenario.test_scenario import IN_PYTHON


def evaluated(text: str) -> Any:
    """What an expression of the public names is."""
    return eval(text, {"kemu": kemu})


@pytest.mark.parametrize("scenario", [IN_PYTHON, failing()], ids=lambda each: each.name)
def test_a_scenario_that_says_everything_comes_back(scenario: kemu.Scenario) -> None:
    """Every key, every kind of value."""
    assert evaluated(python_text(scenario)) == scenario
    assert scenario_from_toml(toml_text(scenario.to_dict())) == scenario


def test_every_preset_comes_back() -> None:
    """What comes with the package."""
    for preset in presets():
        scenario = load_scenario(preset.name)
        assert evaluated(python_text(scenario)) == scenario, preset.name
        assert scenario_from_toml(toml_text(scenario.to_dict())) == scenario, preset.name


def test_entries_are_written_as_people_write_them() -> None:
    """Texts for times, names for error codes."""
    crash = kemu.At("90s", kemu.Crash(host="b0", for_us=1_500_000))
    error = kemu.When(
        kemu.Sends(api="SyncGroup", by="leader of g", nth=2),
        kemu.ErrorReply(api="SyncGroup", error=kemu.ErrorCode.UNKNOWN_MEMBER_ID),
        after_us="5ms",
    )

    assert entry_text(crash) == 'kemu.At("1m30s", kemu.Crash(host="b0", for_us=kemu.duration_us("1500ms")))'
    assert entry_text(error) == (
        'kemu.When(kemu.Sends(api="SyncGroup", by="leader of g", nth=2), '
        'kemu.ErrorReply(api="SyncGroup", error=kemu.ErrorCode.UNKNOWN_MEMBER_ID), after_us="5ms")'
    )


def test_names_that_toml_has_to_quote_are_quoted() -> None:
    """Kafka's keys and topics have dots in them."""
    data = {"a.b": 1, "t": {"x y": {"k.l": "\\\"'", "none": [], "yes": True}}, "rows": [{"at": "1s", "when": {"n": 2}}]}

    assert toml_text(data) == (
        '"a.b" = 1\n\n[t."x y"]\n"k.l" = "\\\\\\"\'"\nnone = []\nyes = true\n\n[[rows]]\nat = "1s"\nwhen = { n = 2 }\n'
    )
