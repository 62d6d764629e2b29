"""Three kinds of real clients and six faults, recorded and repeated by scripted clients (``tests.soak_served``)."""

import gc
import logging
from pathlib import Path

import pytest

from tests.soak_served import repeated

pytestmark = [  # kafka-python and aiokafka use deprecated functions, and leave sockets to the garbage collection
    pytest.mark.filterwarnings(f"ignore::{name}")
    for name in (
        "DeprecationWarning",
        "ResourceWarning",
        "pytest.PytestUnraisableExceptionWarning",
        "pytest.PytestUnhandledThreadExceptionWarning",
    )
]


def test_a_live_run_with_six_faults_replays_and_its_script_has_one_digest(tmp_path: Path) -> None:
    """The scripted run has the recorded generations, owners, commits and removed members, at the recorded times."""
    logging.disable(logging.CRITICAL)  # a captured record of an error keeps a socket, whose warning fails another test
    try:
        found = repeated(tmp_path, 40)
    finally:
        logging.disable(logging.NOTSET)
        gc.collect()
    first, second = found.results
    assert found.verdict == "holds"
    assert found.acknowledged > 0
    assert not found.unread
    assert found.difference is None
    assert first.digest == second.digest
    assert first.verdict == "holds"
    assert found.told[0] > 10
    assert found.told[1] == found.told[0]
    assert not found.departures
    assert [fault.fired > 0 for fault in first.faults] == [True] * 6
    assert set(found.scripted.asked) == {"aiokafka", "kafka-python", "librdkafka"}
