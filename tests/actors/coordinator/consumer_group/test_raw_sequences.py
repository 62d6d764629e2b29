"""A group answers recorded sequences of heartbeats as Kafka 4.0.0 did (``lab.conformance.raw.heartbeats``)."""

from collections.abc import Mapping
from typing import Any

import pytest

from lab.conformance.raw.heartbeats import differing_heartbeats, read_sequences

SEQUENCES = read_sequences()


@pytest.mark.parametrize("sequence", SEQUENCES, ids=[str(each["seed"]) for each in SEQUENCES])
def test_the_answers_are_those_of_kafka(sequence: Mapping[str, Any]) -> None:
    assert list(differing_heartbeats(sequence)) == []


def test_another_answer_is_a_difference() -> None:
    sequence = SEQUENCES[0]
    log = [{**row, "answer": {**row["answer"], "error": 99}} if "epoch" in row else row for row in sequence["log"]]

    differing = list(differing_heartbeats({**sequence, "log": log}))

    assert len(differing) == sum("epoch" in row for row in log)
    assert all(", error: " in each and each.endswith(" instead of 99") for each in differing)
