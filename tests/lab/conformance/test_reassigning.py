"""Reassignments beside a real Kafka 3.4.1: its recordings (ISRs by the controller, and by leaders), no Java here.

KIP-455 as shipped: moved, reordered, shrunk, grown, cancelled midway, and with a target broker that is killed midway.
"""

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.conformance.reassigning import recordings
from lab.conformance.reassigning.__main__ import main
from lab.conformance.reassigning.emulated import emulate
from lab.conformance.reassigning.plan import KILL, MOVE, RACES, STEPS
from lab.conformance.reassigning.recording import read_requests
from lab.conformance.reassigning.sequences import Base, Sequences, differences
from lab.conformance.reassigning.zookeeper_log import StoreWrite, TransactionLogError, read_writes

RECORDED = recordings.read_all(recordings.KEPT)


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.name for each in RECORDED])
def test_the_store_and_the_brokers_see_what_kafkas_did(recorded: recordings.Recording) -> None:
    """Replica lists, leaders, ISRs, and every LeaderAndIsr, UpdateMetadata and StopReplica, in order, per broker."""
    ours, verdict = emulate(1, profile=recorded.profile)

    assert verdict == "holds"
    assert differences(recorded.sequences, ours, RACES) == []


def test_the_recordings_have_every_step_and_both_ways_to_an_isr() -> None:
    """Where leaders write ISRs, brokers hear of them by the notification only; the controller tells them at once."""
    by_leaders, by_controller = (each.sequences for each in RECORDED)

    assert [list(each.steps) for each in (by_leaders, by_controller)] == [[step.name for step in STEPS]] * 2
    new = "UpdateMetadata leader 1 epoch 1 isr 0,1,2 version 2 replicas 1,2,0"
    assert new in by_controller.lines(MOVE.name, "moved-1", "b0")
    assert new not in by_leaders.lines(MOVE.name, "moved-1", "b0")


def test_who_joins_first_is_a_race_and_nothing_else_is() -> None:
    """Two replicas that are added together: either may be in sync first. A version, or another pair, may not differ."""
    kafka, swapped, wrong = (Sequences([MOVE.name]) for _ in range(3))
    kafka.add(MOVE.name, "grown-0", "store", "state leader 0 epoch 1 isr 0,1")
    swapped.add(MOVE.name, "grown-0", "store", "state leader 0 epoch 1 isr 0,2")
    wrong.add(MOVE.name, "grown-0", "store", "state leader 0 epoch 2 isr 0,2")

    assert differences(kafka, swapped, RACES) == []
    assert differences(kafka, swapped, {}) != []
    (found,) = differences(kafka, wrong, RACES)
    assert (found.partition, found.who, found.kafka) == ("grown-0", "store", ["state leader 0 epoch 1 isr 0,1"])


def test_what_only_one_side_has_is_a_difference() -> None:
    """In both directions."""
    one, other = Sequences([KILL.name]), Sequences([KILL.name])
    one.add(KILL.name, "killed-0", "b1", "StopReplica epoch 1")

    assert len(differences(one, other, {})) == len(differences(other, one, {})) == 1


# --- reading logs --------------------------------------------------------------------------------------------------


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _entry(zxid: int, kind: int, body: bytes) -> bytes:
    entry = struct.pack(">qiqqi", 7, 1, zxid, 1_000 + zxid, kind) + body
    return struct.pack(">qi", 0, len(entry)) + entry + b"B"


def test_zookeepers_log_tells_every_write_in_order() -> None:
    """FileTxnLog: a create, a set under a check (Kafka's fence) in one transaction, a delete; then zeros."""
    create = _buffer(b"/a") + _buffer(b"1") + struct.pack(">i", 0) + b"\0" + struct.pack(">i", 1)
    check, change = _buffer(b"/c") + struct.pack(">i", 3), _buffer(b"/a") + _buffer(b"2") + struct.pack(">i", 1)
    multi = struct.pack(">i", 2) + b"".join(
        struct.pack(">i", kind) + _buffer(x) for kind, x in ((13, check), (5, change))
    )
    log = b"ZKLG" + bytes(12) + _entry(1, 1, create) + _entry(2, 14, multi) + _entry(3, 2, _buffer(b"/a")) + bytes(64)

    assert list(read_writes(log)) == [
        StoreWrite(1_001, 1, "created", "/a", b"1"),
        StoreWrite(1_002, 2, "set", "/a", b"2"),
        StoreWrite(1_003, 3, "deleted", "/a", b""),
    ]


def test_another_file_is_no_log_of_zookeepers() -> None:
    """It says so, and reads nothing."""
    with pytest.raises(TransactionLogError):
        list(read_writes(b"{}"))


def test_a_request_log_becomes_lines(tmp_path: Path) -> None:
    """kafka.request.logger of 3.4.1, shortened: a row per partition, epochs and versions from where the plan began."""
    log = tmp_path / "requests.log"
    log.write_text(
        '[2026-11-22 05:00:13,578] DEBUG Completed request:{"requestHeader":{"requestApiKeyName":"STOP_REPLICA"},'
        '"request":{"topicStates":[{"topicName":"t","partitionStates":[{"partitionIndex":0,"leaderEpoch":6,'
        '"deletePartition":true}]}]},"totalTimeMs":1.5} (kafka.request.logger)\n'
        '[2026-11-22 05:00:13,579] DEBUG Completed request:{"requestHeader":{"requestApiKeyName":"FETCH"}} (x)\n',
        encoding="utf-8",
    )

    (found,) = read_requests(log, {"t-0": Base(5, 2)})
    assert found[1:] == ("t-0", "StopReplica epoch 1 delete")


# --- the command ---------------------------------------------------------------------------------------------------


def test_the_command_says_what_is_wrong_with_its_input(tmp_path: Path) -> None:
    """One line, exit code 2."""
    alone = CliRunner().invoke(main, ["--protocol", "2.6"])
    assert alone.exit_code == 2
    assert "--record" in alone.output
    (tmp_path / "x.json").write_text('{"steps": {}}', encoding="utf-8")
    other = CliRunner().invoke(main, ["--kept", str(tmp_path)])
    assert other.exit_code == 2
    assert "x.json is no recording" in other.output
