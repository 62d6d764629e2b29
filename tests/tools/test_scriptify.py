"""``kemu scriptify``: the real clients of a recorded run become scripted clients, which repeat their conversation."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from kemu.actors.machine import Received
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.facts import FaultApplied, Seen, received
from kemu.emulator.runner import Run, RunResult, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.server import for_serving
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import facts_of, read_trace
from kemu.protocol.commands import AskOn, CloseConnection, NameClient, OpenConnection
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Metadata
from kemu.protocol.messages.group import FindCoordinator, Heartbeat, HeartbeatReply, JoinGroup, JoinProtocol
from kemu.protocol.notes.groups import (
    GroupBecame,
    JoinPhaseCompleted,
    OffsetCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    ScriptDeparted,
    ScriptEnded,
)
from kemu.protocol.wire.codec import seal
from kemu.tools.cli import kemu

RECORDED = Path(__file__).parents[1] / "data" / "scripted" / "two-clients.toml"
"""Made by ``kemu scriptify`` from a run of ``kemu serve`` with the scenario of ``real_clients.REPLICATED``."""
STORY = (GroupBecame, JoinPhaseCompleted, PartitionsAssigned, PartitionsRevoked, OffsetCommitted)
SCRIPT = (ScriptDeparted, ScriptEnded)


class _Noted:
    """An observer that keeps facts of some kinds, with their times and actors."""

    def __init__(self, kinds: Iterable[type]) -> None:
        self._kinds = tuple(kinds)
        self.facts: list[tuple[int, str, Any]] = []

    def wants(self, kind: type) -> bool:
        return kind in self._kinds

    def see(self, seen: Seen) -> None:
        self.facts.append((seen.at_us, seen.actor, seen.fact))


def _ran(scenario: Scenario, loop: str = "bare", profile: str | None = None) -> tuple[RunResult, list[Any]]:
    """The result, and the facts about scripts."""
    noted = _Noted(SCRIPT)
    result = run(scenario, seed=scenario.seed, loop=loop, profile=profile, observers=[noted])
    return result, [fact for _, _, fact in noted.facts]


@pytest.fixture(scope="module")
def recorded() -> Scenario:
    return load_scenario(RECORDED)


def test_a_script_runs_twice_with_one_digest_in_both_loops(recorded: Scenario) -> None:
    """The run ends without a departure: each answer has the error of the recording."""
    first, facts = _ran(recorded)
    second, _ = _ran(recorded, "trio")
    assert first.digest == second.digest
    assert first.verdict == "holds"
    assert facts == [ScriptEnded(departures=0)] * 2
    assert [each.generation for each in first.figures.rebalances] == [1, 2, 3, 4]


def test_a_crash_of_the_coordinator_is_followed_and_told(recorded: Scenario) -> None:
    """Kafka's clients look up the coordinator after a broken connection, and so do scripted clients."""
    crash = with_actions(with_values(recorded, ["duration=60s"]), ["crash host=b1 mode=process at=5200ms for=3s"])
    result, facts = _ran(crash)
    assert result.verdict == "holds"
    lost = [each for each in facts if isinstance(each, ScriptDeparted) and each.now == "no answer"]
    assert {each.request for each in lost} >= {"Fetch", "OffsetCommit", "JoinGroup"}
    assert {each.then for each in lost} == {"looks up", "continues"}
    assert sum(isinstance(each, ScriptEnded) for each in facts) == 2
    assert _ran(crash)[0].digest == result.digest


def test_the_report_tells_departures(tmp_path: Path) -> None:
    options = ["--set", "duration=60s", "--do", "kill-coordinator group=payments at=5800ms for=8s", "--verbose"]
    out = _kemu("run", str(RECORDED), *options)
    assert out.exit_code == 0
    assert "x-app departs from its script: Heartbeat of 00:05.940, recorded NONE, now no answer" in out.output
    assert "x-app sent its whole script with 2 departures" in out.output


@pytest.mark.parametrize("profile", ["kafka-2.4", "kafka-4.0"])
def test_a_script_runs_with_other_releases(recorded: Scenario, profile: str) -> None:
    """Brokers of 2.4 know Fetch up to v11, the recorded client sent v12."""
    result, facts = _ran(recorded, profile=profile)
    assert result.verdict == "holds"
    assert not [each for each in facts if isinstance(each, ScriptDeparted) and each.then == "stops"]
    assert sum(isinstance(each, ScriptEnded) for each in facts) == 2


def test_other_member_ids_are_mapped(recorded: Scenario) -> None:
    """Another seed gives other member ids and another order of the leader's list."""
    result, facts = _ran(evolve(recorded, seed=11))
    assert result.verdict == "holds"
    assert facts == [ScriptEnded(departures=0)] * 2


def test_a_served_cluster_refuses_a_script(recorded: Scenario) -> None:
    with pytest.raises(ScenarioError, match="is not for kemu serve"):
        for_serving(recorded)


# --- from a trace ----------------------------------------------------------------------------------------------------

PLAIN = """
duration = "40s"
[brokers]
count = 2
[topics.orders]
partitions = 2
rate = 0
[clients]
names = ["app", "web"]
[[plan]]
at = "30s"
do = "isolate"
host = "x-web"
"""


def record_client(place: Path, order: str = "") -> Path:
    """The trace of a run in which a client acts as behind a gateway, in virtual time."""
    path = place / "live.kemu"
    with path.open("wb") as sink:
        one = Run(scenario_from_toml(PLAIN), seed=3, sink=sink, driven=True)
        protocols = (JoinProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff"),)
        join = JoinGroup(group="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
        beat = Heartbeat(group="g", generation=7, member_id="nobody")
        asks: Sequence[tuple[int, str, str, object, int]] = (
            (1_000_000, "1", "b0", Metadata(topics=None), 5),
            (1_100_000, "1", "b0", FindCoordinator(key="g"), 2),
            (1_200_000, "1", "b0/coordinator", join, 3),
            (1_200_000, "1", "b1/coordinator", join, 3),
            (1_500_000, "2", "b1/coordinator", beat, 3),
            (1_500_001, "2", "b1/coordinator", beat, 3),
        )

        def tell(command: object, actor: str = "x-app") -> None:
            assert one.world.tell(actor, command)

        one.world.at(1_000_000, partial(one.cluster.start, "x-app"))
        for connection in ("1", "2"):
            one.world.at(1_000_000, partial(tell, OpenConnection(connection=connection, client_id="app-id")))
            one.world.at(1_700_000, partial(tell, CloseConnection(connection=connection)))
        for at_us, connection, to, message, version in asks:
            one.world.at(at_us, partial(tell, AskOn(connection=connection, to=to, request=seal(message, version))))
        name = NameClient(client="x-app/1", client_id="app-id")
        one.world.at(1_100_000, partial(tell, name, "b1/coordinator"))
        if order:
            action = with_actions(scenario_from_toml(PLAIN), [f"{order} at=1s"]).plan[-1].action
            one.world.at(1_300_000, partial(one.injector.order, action))
        one.begin()
        one.run_until(run_plain, 2_000_000)
        one.writer.finish("holds", one.world.now_us)
    return path


def _kemu(*arguments: str) -> Result:
    return CliRunner().invoke(kemu, [*arguments])


def _told(path: Path) -> list[tuple[int, Any]]:
    """Times and errors of the client's heartbeats' answers, and the states of groups."""
    kinds = (received(HeartbeatReply), GroupBecame)
    seen = facts_of(read_trace(path), lambda kind: kind in kinds)
    return [
        (each.at_us, each.fact.message.error) if isinstance(each.fact, Received) else (each.at_us, each.fact)
        for each in seen
        if isinstance(each.fact, Received | GroupBecame)
    ]


def test_a_trace_becomes_a_scenario_that_repeats_it_to_the_microsecond(tmp_path: Path) -> None:
    """Latencies are drawn by connection, so the same connections of the same seed have the same latencies."""
    live, out, again = record_client(tmp_path), tmp_path / "again.toml", tmp_path / "again.kemu"
    made = _kemu("scriptify", str(live), "--out", str(out))
    assert made.exit_code == 0, made.output
    assert (
        "app: 2 connections, 6 requests (2 Heartbeat, 2 JoinGroup, 1 FindCoordinator, 1 Metadata), 1 without"
        in made.output
    )
    scenario = load_scenario(out)
    assert (scenario.seed, scenario.name, scenario.duration_us, scenario.plan) == (3, "again", 2_000_000, ())
    assert "1 entries of the plan are after the end of the trace, and left out" in made.output
    assert '"again": true' in out.read_text(encoding="utf-8")
    assert run(scenario, seed=3, loop="bare", trace=again).verdict == "holds"
    told = _told(live)
    assert [error for _, error in told if isinstance(error, ErrorCode)] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert _told(again) == told


def test_orders_become_entries_of_the_plan(tmp_path: Path) -> None:
    live, out = record_client(tmp_path, "isolate host=x-web for=200ms"), tmp_path / "again.toml"
    assert "1 orders became entries of the plan" in _kemu("scriptify", str(live), "--out", str(out)).output
    noted = _Noted([FaultApplied])
    run(load_scenario(out), seed=3, loop="bare", observers=[noted])
    assert [(at_us, fact.kind) for at_us, _, fact in noted.facts] == [(1_300_000, "isolate")]


def test_without_out_the_scenario_is_printed(tmp_path: Path) -> None:
    assert scenario_from_toml(_kemu("scriptify", str(record_client(tmp_path))).stdout).clients.script


@pytest.mark.parametrize("wrong", ["missing", "no trace", "no clients", "scripted", "an input"])
def test_a_wrong_input_is_one_message_and_exit_code_2(wrong: str, tmp_path: Path) -> None:
    live, out = tmp_path / "live.kemu", tmp_path / "again.toml"
    texts = {
        "missing": "live.kemu: No such file",
        "no trace": "live.kemu",
        "no clients": "no real client sent a request; kemu serve --trace FILE records real clients",
        "scripted": "its clients are scripted already",
        "an input": "it is an input of this command",
    }
    match wrong:
        case "no trace":
            live.write_text("text", encoding="utf-8")
        case "no clients":
            run(scenario_from_toml(PLAIN), seed=1, loop="bare", trace=live)
        case "scripted":
            _kemu("scriptify", str(record_client(tmp_path)), "--out", str(out))
            run(load_scenario(out), seed=3, loop="bare", trace=live)
        case "an input":
            out = record_client(tmp_path)
        case _:
            pass
    made = _kemu("scriptify", str(live), "--out", str(out))
    error = made.stderr if isinstance(made.exception, SystemExit) else str(made.exception)
    assert texts[wrong] in error
    assert len(error.strip().splitlines()) == 1
    assert made.exit_code in (1, 2)
