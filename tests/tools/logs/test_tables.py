"""The tables that an analysis reads from a trace of logs: what logs do not state is null, and never 0."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.trace.traces import read_trace
from kemu.tools.commands.import_log import import_log
from kemu.tools.pipeline.decode import Decoder, Span
from kemu.tools.pipeline.tables.schemas import COUNTED, OF_TRACES, RECORDED
from kemu.tools.report.recorded import report_of
from tests.tools.logs.excerpts import FOLDER
from tests.tools.logs.test_recordings import FOLDER as RECORDINGS


def _tables(tmp_path: Path, *logs: Path) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path / "incident.kemu"
    result = CliRunner().invoke(import_log, [*map(str, logs), "--out", str(out)])
    assert result.exit_code == 0, result.output
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def emit(table: str, row: tuple[Any, ...]) -> None:
        found[table].append(dict(zip(RECORDED[table].names, row, strict=True)))

    wanted = frozenset(schema.name for schema in (*OF_TRACES, *COUNTED))
    for _ in Decoder(emit, wanted).decode(Span(str(out), 0, 1 << 40)):
        pass
    assert not found["bad_records"]
    for table, rows in found.items():
        for row in rows:
            assert all(row[name] is not None for name in RECORDED[table].required), (table, row)
    return found


def test_a_coordinators_log_states_rebalances_and_nothing_else(tmp_path: Path) -> None:
    """Kafka 4's coordinator names no assignment: rebalances have times and reasons, all figures of owners are null."""
    tables = _tables(tmp_path, FOLDER / "broker-4x-java-scale-up.log")

    (run,) = tables["runs"]
    assert (run["source"], run["scenario"], run["verdict"]) == ("log", "incident", "unjudged")
    stated = {each.column for each in FIGURES.values() if each.column and run[each.column] is not None}
    assert stated == {"rebalances"}
    assert (run["seed"], run["messages"]) == (None, None)
    assert run["rebalances"] == len(tables["rebalances"]) == 3
    assert [row["generation"] for row in tables["rebalances"]] == [1, 2, 3]
    for name in ("members", "rounds", "moved", "stop_the_world_us"):
        assert [row[name] for row in tables["rebalances"]] == [None] * 3
    assert not tables["downtime"]


def test_the_logs_of_all_members_state_moves(tmp_path: Path) -> None:
    """With every member's log, the moved partitions are counted; without one member's log, their number is unknown."""
    folder = RECORDINGS / "d-sticky-kill"
    (whole,) = _tables(tmp_path, *sorted(folder.glob("*.log.gz")))["runs"]
    (part,) = _tables(tmp_path, *sorted(folder.glob("server.log.gz")), *sorted(folder.glob("consumers.log.gz")))["runs"]

    assert (whole["rebalances"], part["rebalances"]) == (4, 4)
    assert whole["moved"] > 0
    assert part["moved"] is None


def test_a_member_is_down_from_its_last_record_if_its_membership_expires(tmp_path: Path) -> None:
    """The log of the killed process ends: its partitions have no owner from then on. Plan d kills c2."""
    tables = _tables(tmp_path, *sorted((RECORDINGS / "d-sticky-kill").glob("*.log.gz")))

    (down,) = [row for row in tables["notes"] if row["fact"] == "HostDown"]
    (expired,) = [row for row in tables["notes"] if row["fact"] == "MemberRemoved" and "expir" in row["why"]]
    assert down["host"] == "c2"
    assert 8_000_000 < expired["at_us"] - down["at_us"] < 13_000_000


def test_leaders_and_isrs_are_facts_of_the_trace(tmp_path: Path) -> None:
    """A fact has the partition, the leader, the ISR and the version that its record states; each step has its line."""
    tables = _tables(tmp_path, FOLDER / "leaders-isr-2.0-controlled-shutdown.log")

    facts = [row for row in tables["notes"] if row["fact"] == "LeadershipStated"]
    assert {row["kind"] for row in facts} >= {"isr-expanded", "leader-starts", "follower-starts"}
    (led, *_) = [row for row in facts if row["kind"] == "leader-starts"]
    assert led["partition"] is not None
    assert '"leader": 10' in led["rest"]
    assert all(row["about"].startswith("leaders-isr-2.0-controlled-shutdown.log:") for row in tables["steps"])


def test_the_report_of_logs_has_no_invented_figures(tmp_path: Path) -> None:
    """The report of a trace of logs keeps the verdict of the import, and has no downtime."""
    log = FOLDER / "broker-4x-java-scale-up.log"
    out = tmp_path / "x.kemu"
    CliRunner().invoke(import_log, [str(log), "--out", str(out)])
    report = report_of(read_trace(out), "kemu report x.kemu")

    assert report.result.verdict == "unjudged"
    assert {name for name, value in report.result.figures.values.items() if value is not None} == {"rebalances_in_all"}
