"""The JSON Schema of scenario files: it takes what the reader takes, and refuses the usual mistakes."""

import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.json_schema import scenario_schema
from kemu.emulator.scenario.presets import presets
from tests.emulator.scenario.test_scenario import IN_PYTHON, SMALL, WHOLE

VALIDATOR = Draft202012Validator(scenario_schema())


def plain(text: str) -> Any:
    """A TOML text as an editor's validator sees it."""
    return json.loads(json.dumps(tomllib.loads(text)))


def test_the_schema_is_one_of_draft_2020_12() -> None:
    """Judged by the draft's own schema."""
    Draft202012Validator.check_schema(scenario_schema())


@pytest.mark.parametrize("preset", [preset.name for preset in presets()])
def test_every_preset_is_valid(preset: str) -> None:
    """They are what people begin with."""
    text = (files("kemu.emulator") / "presets" / f"{preset}.toml").read_text(encoding="utf-8")

    assert [error.message for error in VALIDATOR.iter_errors(plain(text))] == []


def test_a_file_with_each_key_and_its_plain_form_are_valid() -> None:
    """Bare and quoted keys of Kafka, durations, lists and what a trace records."""
    assert [error.message for error in VALIDATOR.iter_errors(plain(WHOLE))] == []
    assert [error.message for error in VALIDATOR.iter_errors(json.loads(json.dumps(IN_PYTHON.to_dict())))] == []


def test_keys_of_every_entry_and_of_notes_are_valid() -> None:
    """The reader takes them with any action."""
    text = (
        SMALL
        + """
        [[plan]]
        at = "3s"
        do = "crash"
        host = "c1"
        jitter = "1s"
        [[plan]]
        when = { noted = "MemberFailed", group = "g", error = "FENCED_INSTANCE_ID", nth = 2 }
        after = "1s"
        do = "heal"
    """
    )

    assert scenario_from_toml(text).plan
    assert [error.message for error in VALIDATOR.iter_errors(plain(text))] == []


ENTRY = '[[plan]]\nat = "3s"\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[topics]\n",
        'duration = "2x"\n' + SMALL,
        "duration = 20\n" + SMALL,
        'profile = "kafka-3.5"\n' + SMALL,
        "expect = [1]\n" + SMALL,
        "[topics.t]\npartitons = 3\n",
        "[topics.t]\npartitions = 0\n",
        "[topics.t]\npartitions = 1000000000\n",
        "[topics.t]\npartitions = 3\nrate = '5/h'\n",
        SMALL + "members = 1000000000\n",
        SMALL + "static = 1\n",
        SMALL + "config.session.timout.ms = 1\n",
        SMALL + '[groups.g.config]\n"session.timeout.ms" = true\n',
        SMALL + "config.auto.offset.reset = 'earlist'\n",
        SMALL + "config.group.id = 'x'\n",
        SMALL + "[brokers]\ncount = 0\n",
        SMALL + "[brokers.replication]\nbugs = ['KAFKA-0']\n",
        SMALL + "[network]\nlatency = ['1ms', '2ms', '3ms']\n",
        SMALL + "[[network.links]]\na = 'c1'\nb = 'b0'\n",
        SMALL + ENTRY,
        SMALL + ENTRY + 'do = "crsh"\n',
        SMALL + ENTRY + 'do = "crash"\n',
        SMALL + ENTRY + 'do = "crash"\nhost = "c1"\nmode = "pwer"\n',
        SMALL + ENTRY + 'do = "crash"\nhost = "c1"\nfor_us = 3\n',
        SMALL + ENTRY + 'do = "crash"\nhost = "c1"\nafter = "1s"\n',
        SMALL + '[[plan]]\ndo = "heal"\n',
        SMALL + '[[plan]]\nat = "1s"\ndo = "heal"\nwhen = { sends = "SyncGroup" }\n',
        SMALL + '[[plan]]\ndo = "heal"\nwhen = { sends = "SyncGrup" }\n',
        SMALL + ENTRY + 'do = "error-reply"\napi = "SyncGroup"\nerror = "NOT_COORDINATR"\n',
        SMALL + ENTRY + 'do = "error-reply"\napi = "SyncGrup"\nerror = "NOT_COORDINATOR"\n',
        SMALL + ENTRY + 'do = "rolling-upgrade"\ngroup = "g"\nevery = "5s"\ndown = "1s"\nprofile = "kafka-3.5"\n',
        SMALL + '[[plan]]\ndo = "heal"\nwhen = { noted = "MemberFailed", grup = "g" }\n',
    ],
)
def test_a_usual_mistake_is_not_valid(text: str) -> None:
    """Misspelt, of the wrong type, out of bounds, missing, or too much."""
    assert not VALIDATOR.is_valid(plain(text))
