"""Wordings of many releases, one record each, as the sources of Kafka and of clients print them."""

import re
from pathlib import Path

import pytest

from kemu.tools.logs.dialects import DIALECTS
from kemu.tools.logs.reading import LogReader
from kemu.tools.logs.wordings.releases import parse

CASES = [
    line
    for line in Path(__file__).with_name("wordings.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def _text(value: object) -> str:
    """The value of a field as the table writes it."""
    return (",".join(map(str, value)) if isinstance(value, list) else str(value)).replace(" ", "_")


@pytest.mark.parametrize("case", CASES)
def test_a_record_gives_its_kind_and_fields(case: str) -> None:
    """One event with the stated kind and fields."""
    head, _, record = case.partition(" | ")
    kind, *fields = head.split()
    (event,) = (event.as_json() for event in LogReader("x").events(record.split("⏎")))

    assert event["kind"] == kind
    for field in fields:
        name, _, value = field.partition("=")
        assert (name, _text(event.get(name))) == (name, value)


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_releases_of_a_dialect_are_ranges(name: str) -> None:
    """Each row states ``since..until`` with since not after until, and its pattern compiles."""
    for row in DIALECTS[name].rows:
        assert row.pattern and row.torn_patterns is not None
        assert re.fullmatch(r"(?:[\d.]*\d)?\.\.(?:[\d.]*\d)?|", row.releases), row.text
        since, _, until = row.releases.partition("..")
        assert not (since and until) or parse(since) <= (*parse(until), 99)
