"""The bench of replication runs and gives every figure it promises (how fast is not a test)."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from lab.bench import replication
from lab.bench.__main__ import main

FAILURES = ("controller_failover", "broker_crash")
STEADY = ("steady_idle", "steady_flowing")


@pytest.fixture(scope="module")
def quick(few_objects: None) -> Any:
    made = CliRunner().invoke(main, ["replication", "--quick", "--format", "json"])
    assert made.exit_code == 0, made.output
    return json.loads(made.stdout)


def test_a_quick_run_has_every_row(quick: Any) -> None:
    compared = [f"{name}_step_vs_small" for name in (*FAILURES, *STEADY)]
    compared += [f"{name}_small_vs_group_step" for name in STEADY]

    assert set(quick) == {
        *("brokers", "partitions", "partition_replicas", "bytes_per_partition_replica"),
        *FAILURES,
        *(f"{name}_small" for name in FAILURES),
        *STEADY,
        *compared,
    }
    assert all(quick[name] > 0 for name in compared)
    assert quick["bytes_per_partition_replica"] > 500


@pytest.mark.parametrize("name", [*FAILURES, *(f"{name}_small" for name in FAILURES)])
def test_a_failover_follows_the_end_of_the_session(quick: Any, name: str) -> None:
    row = quick[name]

    assert 12_000 <= row["session_expired_ms"] <= 18_000 + 1_000
    assert row["session_expired_ms"] < row["all_led_elsewhere_ms"] < row["all_brokers_know_ms"]
    assert row["steps"] > 100
    assert row["partitions_led"] > 0


def test_only_the_loss_of_the_controller_elects_another(quick: Any) -> None:
    assert quick["controller_failover"]["elected_ms"] < quick["controller_failover"]["ready_ms"]
    assert "elected_ms" not in quick["broker_crash"]


def test_records_flow_at_the_rate_asked_for(quick: Any) -> None:
    assert quick["steady_idle"]["records_per_virtual_s"] == 0
    assert quick["steady_flowing"]["records_per_virtual_s"] == quick["partitions"]


def test_a_failover_is_over_when_every_broker_knows_every_new_leader() -> None:
    failure = replication.fail(replication.SMALL, controller=False)

    assert failure.led_by_it in (4, 5)  # of 12 partitions over 3 brokers, perhaps the one of __consumer_offsets
    assert failure.session_ms < failure.led_ms < failure.known_ms < failure.session_ms + 1_000
