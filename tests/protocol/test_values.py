"""Notes, commands and facts: recorded values survive the record."""

from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings

import kemu.emulator.facts  # noqa: F401 (the import fills the registry)
from kemu.protocol import notes
from kemu.protocol.commands import AnswerNext, Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import AssignmentReceived, Processed
from kemu.protocol.wire.codec import Malformed
from kemu.protocol.wire.schema import STRUCTS, WHOLE
from kemu.protocol.wire.values import VALUES, from_row, to_row, value
from tests.strategies import instances

EVERY_VALUE = [pytest.param(cls, id=name) for name, cls in VALUES.items()]
RECEIVED = AssignmentReceived(group="g", member_id="m", generation=1, partitions=(("t", 0), ("t", 1)))


def recorded(row: Any) -> Any:
    """The row as a trace gives it back."""
    return msgpack.unpackb(msgpack.packb(row, use_bin_type=True), use_list=False)


@pytest.mark.parametrize("cls", EVERY_VALUE)
def test_every_value_survives_the_record(cls: type):
    """Values drawn from the declarations, every field of every struct in them set."""

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(instances(cls, STRUCTS[cls], WHOLE))
    def round_trip(one: Any) -> None:
        row = recorded(to_row(one))
        assert row[0] == cls.__name__
        assert from_row(row) == one
        assert type(from_row(row)) is cls

    round_trip()


def test_every_value_is_registered_under_its_own_name():
    """Names are what a trace keeps; a class that lost its registration could not be read again."""
    assert {cls.__name__ for cls in VALUES.values()} == set(VALUES)
    assert len(set(VALUES.values())) == len(VALUES)
    assert {"Start", "Processed", "GroupBecame"} <= set(VALUES)


def test_a_name_declared_twice_is_our_mistake():
    """Notes, commands and facts share one set of names."""
    with pytest.raises(AssertionError, match="Start is declared twice"):
        value(type("Start", (), {}))
    assert VALUES["Start"] is Start


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (None, "not a row of a value"),
        ((), "not a row of a value"),
        ("Start", "not a row of a value"),
        (([],), "not a row of a value"),
        (({},), "not a row of a value"),
        ((1, 2), "not a row of a value"),
        (("Stop",), "unknown value 'Stop'"),
        (("Heartbeat", "g", 1, "m", None), "unknown value 'Heartbeat'"),
        (("Start", 1), "Start has 0 fields, got 1"),
        (("Processed", "g"), "Processed has 8 fields, got 1"),
        (("AnswerNext", "SyncGroup", "", 1, 12_345), "AnswerNext.error cannot be 12345"),
        (("AnswerNext", "SyncGroup", "", "1", 27), "AnswerNext.nth cannot be '1'"),
        (("AnswerNext", "SyncGroup", "", 1 << 63, 27), "AnswerNext.nth cannot be 9223372036854775808"),
        (("AssignmentReceived", "g", "m", 1, ("t", 0)), "partitions cannot be an array of 2"),
        (("AssignmentReceived", "g", "m", 1, (("t", 0, 1),)), "partitions cannot be an array of 1"),
        (("AssignmentReceived", "g", "m", 1, (("t", "0"),)), "partitions cannot be an array of 1"),
        (("LeadOffsets", 1, 1, ((None, b""),), 0, 0), "records cannot be an array of 1"),
    ],
)
def test_a_row_that_is_no_value_says_so(row: Any, said: str):
    """A damaged trace is refused at the row, with the value and the field."""
    with pytest.raises(Malformed, match=said):
        from_row(row)


def test_rows_may_be_lists_and_enums_come_back_as_enums():
    """A trace read as JSON has lists on the outside; an error code is more than its number."""
    one = AnswerNext(api="SyncGroup", sender="", nth=2, error=ErrorCode.REBALANCE_IN_PROGRESS)
    assert from_row(list(recorded(to_row(one)))) == one
    assert from_row(recorded(to_row(one))).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert from_row(recorded(to_row(RECEIVED))) == RECEIVED
    assert to_row(RECEIVED) == ("AssignmentReceived", "g", "m", 1, (("t", 0), ("t", 1)))
    assert "started_us" in {field.name for field in STRUCTS[Processed]}


def test_importing_the_notes_registers_all_of_them():
    """A trace reader need not import anything else; a note that is not registered cannot be read back."""
    assert set(notes.__all__) == {file.stem for file in Path(notes.__file__).parent.glob("*.py")} - {"__init__"}
