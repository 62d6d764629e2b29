"""Round trip: runs of the emulator, written as logs of a release and imported again, tell the same story."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.trace.traces import read_trace
from kemu.tools.commands.explain import explain
from kemu.tools.commands.import_log import import_log
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.incident.incident import Incident
from kemu.tools.logs.events import Event
from kemu.tools.logs.reading import LogReader
from kemu.tools.logs.writing import log_lines

SCENARIO = """
draws = "calm"
summary = "A member crashes, another is slow, a static member closes"
duration = "90s"
[topics.orders]
partitions = 6
rate = "20/s"
[groups.g]
topics = ["orders"]
members = 4
assignors = ["range"]
config.session.timeout.ms = 10000
[groups.g.overrides.c4]
instance = "i4"
[[plan]]
at = "20s"
do = "crash"
host = "c2"
mode = "process"
for = "25s"
[[plan]]
at = "60s"
do = "close-host"
host = "c3"
[[plan]]
at = "65s"
do = "pause"
host = "c1"
for = "12s"
"""
RELEASES = ("2.3", "2.6", "2.8", "3.4", "4.0")
STATED_BY_SOME = ("members", "leader", "assigned")
"""Facts that no record of some releases states: the leader before 3.0, ids of members without DEBUG before 2.6."""


@functools.cache
def _run(release: str) -> tuple[Event, ...]:
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "run.kemu"
        run(scenario_from_toml(SCENARIO), seed=2, loop="bare", trace=trace, profile=f"kafka-{release}")
        return tuple(events_of_trace(read_trace(trace)))


@functools.cache
def _lines(release: str) -> tuple[str, ...]:
    return tuple(log_lines(_run(release), release))


def _read(lines: Sequence[str]) -> list[Event]:
    return list(LogReader("x").events(lines))


def _table(events: Sequence[Event]) -> dict[tuple[str, int], dict[str, Any]]:
    return {
        (row.group, row.generation): {
            "begins": row.begins and row.begins[-12:],
            "cause": row.cause,
            "member": row.member,
            "members": row.members,
            "leader": row.leader,
            "empty": row.empty is not None,
            "revoked": row.revoked,
            "assigned": row.assigned,
        }
        for row in Incident(events).generations
    }


def _stated(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wanted.items() if key not in STATED_BY_SOME or found[key] is not None}


@pytest.mark.parametrize("release", RELEASES)
def test_a_run_written_as_logs_is_imported_with_the_same_rebalances(release: str) -> None:
    """Begins, causes, members and owners of each generation are equal; every line is understood."""
    reader = LogReader("x")
    imported = list(reader.events(_lines(release)))
    wanted, found = _table(_run(release)), _table(imported)

    assert len(wanted) >= 5
    assert {key: _stated(wanted[key], found[key]) for key in wanted} == {
        key: _stated(row, row) for key, row in found.items()
    }
    assert reader.summary.understood == len(_lines(release))
    if release >= "3":
        assert all(row["leader"] and row["members"] for row in found.values() if row["assigned"])
    for product, releases in reader.summary.releases.items():
        since, until = releases.since or release, releases.until or release
        assert since <= release <= until, (product, since, until)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(RELEASES), st.data())
def test_dropped_shuffled_and_torn_lines_invent_nothing(release: str, data: st.DataObject) -> None:
    """A row of a damaged log states what the whole log states; a number or an id is never another one.

    The generation of an assignment follows from the lines before, so the assignment may be of a later generation.
    """
    whole = _table(_read(_lines(release)))
    owned: dict[str, list[Any]] = {}
    for row in whole.values():
        for owner, names in (row["assigned"] or {}).items():
            owned.setdefault(owner, []).append(names)
    kept = data.draw(st.lists(st.sampled_from(_lines(release)), unique=True, min_size=10, max_size=80))
    ordered = sorted(kept, key=_lines(release).index) if data.draw(st.booleans()) else kept
    cuts = data.draw(st.lists(st.tuples(st.integers(0, len(kept) - 1), st.integers(1, 300)), max_size=3))
    for place, cut in cuts:
        ordered[place] = ordered[place][:cut]

    for key, row in _table(_read(ordered)).items():
        assert key in whole
        for field in ("cause", "members", "leader"):
            assert row[field] in (None, whole[key][field])
        member = whole[key]["member"]
        assert row["member"] is None or (member is not None and member.startswith(row["member"]))
        for owner, names in (row["assigned"] or {}).items():
            assert names in owned[owner]


def test_a_trace_is_printed_as_logs(tmp_path: Path) -> None:
    """``--format log`` has the release of the run, and the filters of the command."""
    trace = tmp_path / "run.kemu"
    run(scenario_from_toml(SCENARIO), seed=2, loop="bare", trace=trace, profile="kafka-3.4")
    lines = CliRunner().invoke(explain, [str(trace), "--format", "log"]).stdout.splitlines()

    assert tuple(lines) == _lines("3.4")
    assert lines[0] == (
        "[1970-01-01 00:00:00,002] INFO [Consumer clientId=c2, groupId=g] Discovered group coordinator b0:9092"
        " (id: 2147483647 rack: null) (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
    )
    log = tmp_path / "server.log"
    arguments = ["--format", "log", "--actor", "b0", "--from", "20s", "--grep", "Preparing"]
    log.write_text(CliRunner().invoke(explain, [str(trace), *arguments]).stdout)
    assert len(log.read_text().splitlines()) >= 3
    assert "expire" in CliRunner().invoke(import_log, [str(log)]).stdout
    refused = CliRunner().invoke(explain, [str(trace), "--format", "log", "--step", "3"])
    assert (refused.exit_code, "--format log has no steps" in refused.output) == (2, True)
