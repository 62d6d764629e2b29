"""Timelines of real logs equal the timelines that people read in them."""

import pytest

from kemu.tools.incident.incident import ordered
from kemu.tools.incident.timeline import StatedGeneration, timeline_of
from tests.tools.diagnosis.truth import NAMES, truth

FIELDS = (
    *("begins", "completes", "assignment_received", "cause", "member", "members", "leader", "empty", "dead"),
    *("refused", "synced", "target_computed"),
)


def rows_of(name: str) -> dict[tuple[str, int], StatedGeneration]:
    return {(row.group, row.generation): row for row in timeline_of(ordered(truth(name).events))}


@pytest.mark.parametrize("name", NAMES)
def test_the_timeline_states_what_people_read(name: str) -> None:
    rows = rows_of(name)
    for wanted in truth(name).timeline:
        number = wanted.get("generation", wanted.get("epoch"))
        if not isinstance(number, int) or ("target_computed" not in wanted and "epoch" in wanted):
            continue
        found = rows[wanted["group"], number]
        stated = {key: value for key, value in wanted.items() if key in FIELDS}
        if str(stated.get("cause", "")).startswith("not stated"):
            assert found.cause is None
            del stated["cause"]
        if "left" in wanted and "cause" in stated:
            del stated["cause"]  # told by a member that left, not by a coordinator
        if name == "kafka-go-first-join":
            del stated["members"]  # people count the members in lines that are no events
        assert {key: getattr(found, key) for key in stated} == stated


@pytest.mark.parametrize("name", NAMES)
def test_no_generation_is_invented(name: str) -> None:
    stated = {event.generation for event in truth(name).events}
    begun = {event.old_generation + 1 for event in truth(name).events if event.old_generation is not None}
    assert {number for _, number in rows_of(name)} <= stated | begun


def test_members_of_an_epoch_reconcile_at_their_own_times() -> None:
    found = rows_of("broker-3.9-kip848-migration")["avro-consumer2", 4]
    (wanted,) = (row for row in truth("broker-3.9-kip848-migration").timeline if row["epoch"] == 4)
    assert found.reconciled == wanted["reconciled"]
