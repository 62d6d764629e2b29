"""Recordings of Kafka 3.4.1: the logs of broker and clients give what the applications' callbacks wrote."""

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kemu.emulator.checkers import CHECKERS, OF_LOGS
from kemu.emulator.facts import LogRecord
from kemu.emulator.replay import replay
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.rows import NOTE, TOLD
from kemu.emulator.trace.traces import Step, read_trace
from kemu.protocol.notes.groups import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from kemu.protocol.wire.values import from_row
from kemu.tools.commands.advise import read_source
from kemu.tools.commands.explain import explain
from kemu.tools.commands.import_log import import_log
from kemu.tools.commands.report import report
from kemu.tools.diagnosis.diagnose import diagnose
from kemu.tools.diagnosis.reproduce import reproduce
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.sources import read_incident
from kemu.tools.logs.clocks import clock_offsets
from kemu.tools.logs.facts import UNCERTAIN_US, LogFacts, facts_of_events
from kemu.tools.logs.reading import read_events

FOLDER = Path(__file__).parents[2] / "data" / "kafka-3.4.1" / "logs"
PLANS = tuple(sorted(path.name for path in FOLDER.iterdir()))
"""All plans. The folders have no request log, except b and d, so that the files stay small."""
LATE = {
    ("d-sticky-kill", "consumers-c2.log.gz", 211),
    ("q-paused-in-rebalance", "consumers-c2.log.gz", 211),
    ("q-paused-in-rebalance", "consumers-c4.log.gz", 211),
}
"""Records 50 to 81 ms before their callbacks: the first call of a process, which loads its classes first.

The client writes "Adding newly assigned partitions" before the call, and its next record 126 to 225 ms later. So the
logs do not tell the time of the call, and the facts say so.
"""
UNCERTAIN = {
    "c-coop-scale": 4,
    "d-sticky-kill": 2,
    "f-topic-grows": 2,
    "h-twenty-at-once": 6,
    "j-assignor-upgrade": 4,
    "n-three-brokers": 2,
    "p-coop-several-topics": 7,
    "q-paused-in-rebalance": 4,
}
"""Calls of each plan that may be more than 50 ms after their records."""
_KINDS = {
    PartitionsAssigned: ("assigned", "added"),
    PartitionsRevoked: ("revoked", "revoked"),
    PartitionsLost: ("lost", "lost"),
}


class Callback(NamedTuple):
    """A call of a rebalance listener."""

    client: str
    event: str
    partitions: tuple[str, ...]
    generation: int
    member: str


def _logs(plan: str) -> list[Path]:
    return sorted((FOLDER / plan).glob("*.log.gz"))


def _facts(plan: str) -> LogFacts:
    events, _ = read_events(_logs(plan))
    return facts_of_events(events, clock_offsets(events))


class Fact(NamedTuple):
    """A callback of the facts: the latest possible time of the call, and the place of the record."""

    callback: Callback
    at_us: int
    until_us: int
    place: tuple[str, int]


def _imported(facts: LogFacts) -> Iterator[Fact]:
    for step in facts.steps:
        for note in step.notes:
            if type(note) in _KINDS:
                event, field = _KINDS[type(note)]
                names = tuple(sorted(f"{topic}-{number}" for topic, number in getattr(note, field)))
                client = facts.clients[step.actor].partition(" in ")[0]
                generation = getattr(note, "generation", -1)
                at_us, place = facts.first_us + step.at_us, (step.record.file, step.record.line)
                callback = Callback(client, event, names, generation, note.member_id)
                yield Fact(callback, at_us, at_us + facts.calls_within_us[place], place)


def _called(plan: str) -> Iterator[tuple[int, Callback]]:
    for path in sorted((FOLDER / plan).glob("callbacks*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            row = json.loads(line)
            if row["event"] in ("assigned", "revoked", "lost"):
                seconds, _, fraction = row["ts"].removesuffix("Z").partition(".")
                at_us = round(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 1_000_000 + int(fraction[:6])
                names = tuple(sorted(row["partitions"]))
                yield at_us, Callback(row["who"], row["event"], names, row["generation"], row["member"])


@pytest.mark.parametrize("plan", PLANS)
def test_owners_and_generations_equal_the_callbacks(plan: str) -> None:
    """Each call is a fact with the same partitions, generation and member; none is missing, none is invented.

    Times agree within 50 ms, except those of ``LATE``, which are uncertain. Each call is before the next record.
    """
    facts = _facts(plan)
    imported = sorted(_imported(facts))
    called = sorted(_called(plan), key=lambda pair: (pair[1], pair[0]))

    assert [fact.callback for fact in imported] == [callback for _, callback in called]
    for fact, (called_us, _) in zip(imported, called, strict=True):
        late = (plan, *fact.place) in LATE
        assert (abs(called_us - fact.at_us) > UNCERTAIN_US) is late
        assert fact.at_us - 1_000 <= called_us <= fact.until_us + 1_000
        assert not late or fact.until_us - fact.at_us > UNCERTAIN_US
    assert facts.uncertain_calls == UNCERTAIN.get(plan, 0)


def test_each_fact_of_a_trace_names_its_record(tmp_path: Path) -> None:
    """The event of every step is a record; a note without the words of the record is inferred."""
    out = tmp_path / "x.kemu"
    result = CliRunner().invoke(import_log, [*map(str, _logs("d-sticky-kill")), "--out", str(out)])
    assert result.exit_code == 0
    assert "judged: one-owner (holds)" in result.stdout
    assert "2 of 15 calls of rebalance listeners may be more than 50 ms after their records" in result.stdout
    assert "unjudged, because logs do not state their facts:" in result.stdout

    trace = read_trace(out)
    assert trace.header.source == "log"
    steps = [record for record in trace.records() if isinstance(record, Step)]
    lines = {path.name: gzip.decompress(path.read_bytes()).count(b"\n") for path in _logs("d-sticky-kill")}
    for step in steps:
        assert step.event[0] == TOLD
        record = from_row(step.event[1])
        assert isinstance(record, LogRecord)
        assert 1 <= record.line <= lines[record.file]
        notes = {type(from_row(row[1])).__name__ for row in step.effects if row[0] == NOTE}
        assert notes or not record.inferred
    assert set(OF_LOGS) < set(CHECKERS)


def test_a_trace_of_logs_has_the_incident_of_its_logs(tmp_path: Path) -> None:
    """Diagnosis, timeline and scenario of the trace are those of the logs; details without a fact are left out."""
    out = tmp_path / "x.kemu"
    CliRunner().invoke(import_log, [*map(str, _logs("d-sticky-kill")), "--out", str(out)])
    of_logs, of_trace = (Incident(read_incident(files).events) for files in (_logs("d-sticky-kill"), [out]))

    assert [row.as_json() for row in of_trace.generations] == [row.as_json() for row in of_logs.generations]
    assert diagnose(of_trace.events).answers[0].cause == diagnose(of_logs.events).answers[0].cause == "session-expired"
    scenario, profile = read_source(str(out))
    expected = reproduce(of_logs).scenario
    assert profile == "kafka-3.4"
    assert scenario.groups == expected.groups
    assert [type(action) for action in scenario.plan] == [type(action) for action in expected.plan]


def test_a_trace_of_logs_is_explained_and_drawn_but_not_repeated(tmp_path: Path) -> None:
    """``kemu explain`` and ``kemu report`` show the facts; a replay is refused in one line."""
    out = tmp_path / "x.kemu"
    runner = CliRunner()
    runner.invoke(import_log, [*map(str, _logs("b-static-rolling")), "--out", str(out)])

    text = runner.invoke(explain, [str(out)]).stdout
    assert "LogRecord file=server.log.gz" in text
    page = runner.invoke(report, [str(out)])
    assert page.exit_code == 0, page.output
    with pytest.raises(TraceError, match="facts of logs, not of machines"):
        replay(read_trace(out))
