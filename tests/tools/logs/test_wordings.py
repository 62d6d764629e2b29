"""Wordings of many releases, one record each, as the sources of Kafka and of clients print them."""

import re
from pathlib import Path

import pytest

from kemu.tools.logs.dialects import DIALECTS
from kemu.tools.logs.reading import LogReader
from kemu.tools.logs.wordings.releases import parse
from kemu.tools.logs.wordings.wordings import table, torn_fields_of
from kemu.tools.logs.wrappers.wrappers import opened

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


def test_a_torn_record_excuses_only_a_field_of_its_wording() -> None:
    """A correction that reads a field of another name is a bug, also if the record is torn."""
    torn = "Group <group>… owns <topics>", opened("Group g ow")
    (row,) = table(f"x read=own | {torn[0]}", own=lambda fields, _: fields.update(n=fields["topics"]))
    (renamed,) = table(f"x read=own | {torn[0]}", own=lambda fields, _: fields.update(n=fields["topic"]))

    assert torn_fields_of(row, torn[1], "Group g ow") == ({"group": "g", "truncated": True}, 0, 10)
    with pytest.raises(KeyError, match="topic"):
        torn_fields_of(renamed, torn[1], "Group g ow")
