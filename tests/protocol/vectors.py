"""The rows of tests/vectors/wire_examples.json, by schema."""

from typing import Any

import pytest

from tests.case_files import load

ROWS: list[dict[str, Any]] = load("wire_examples.json")
TESTED = {
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "StickyAssignorUserData",
    "CooperativeStickyUserData",
    "GroupMetadataKey",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "GroupMetadataValue",
    "group->offsets partition (50 partitions)",
}


def examples(schema: str) -> list[Any]:
    """The rows of one schema as pytest parameters."""
    rows = [row for row in ROWS if row["schema"] == schema]
    return [
        pytest.param(row, id=f"v{row.get('version')}-{row.get('example', index)}") for index, row in enumerate(rows)
    ]


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def pairs(rows: list[list[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((topic, partition) for topic, partition in rows)
