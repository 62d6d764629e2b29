"""A scenario from a log of a group of the consumer protocol (KIP-848) repeats the group's epochs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import kemu
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.config import ConsumerConfig
from kemu.tools.cli import kemu as command
from kemu.tools.diagnosis.repeated import RowDifference, run_reproduction
from kemu.tools.diagnosis.reproduce import reproduce
from kemu.tools.diagnosis.reproduction import Reproduction
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.sources import read_incident

LOGS = Path(__file__).parents[2] / "data" / "consumer-logs"
TOOK = "seconds from begin to completion"


def repeated(log: Path) -> tuple[Reproduction, int, list[RowDifference]]:
    read = read_incident([log])
    incident = Incident(read.events)
    found = reproduce(incident, "", read.broker_release)
    return found, *run_reproduction(found, incident)


@pytest.mark.parametrize(
    ("name", "profile", "equal", "plan"),
    [
        ("4.0.2-kill", "kafka-4.0", 34, ["crash of"]),
        ("4.1.1-migration-up", "kafka-4.1", 43, []),
        ("4.2.1-pause", "kafka-4.1", 36, ["pause of"]),
        ("4.2.1-topic-grows", "kafka-4.1", 29, ["growth of"]),
        ("4.3.0-scale-out", "kafka-4.3", 40, []),
    ],
)
def test_a_coordinators_log_is_repeated(name: str, profile: str, equal: int, plan: list[str]) -> None:
    """Causes, members and sizes of all epochs are those of real brokers; durations depend on phases of heartbeats."""
    found, same, differences = repeated(LOGS / f"kafka-{name}.log")

    assert [each.text for each in differences if each.field != TOOK or not each.why] == []
    assert same >= equal
    parts = {part.what: part for part in found.parts}
    assert parts["profile"].value == profile
    assert [what for what in parts if what.endswith(" of") and what not in ("start of", "close of")] == plan


def test_the_scenario_has_the_settings_of_the_consumer_protocol() -> None:
    found, *_ = repeated(LOGS / "kafka-4.0.2-kill.log")
    scenario = found.scenario

    assert scenario.profile == "kafka-4.0"
    (group,) = scenario.groups.values()
    config = group.consumer("g", "c1", 0, ConsumerConfig())
    assert (config.group_protocol, config.group_remote_assignor) == ("consumer", "uniform")
    assert list(scenario.topics) == ["orders-4-kill-1"]
    assert scenario.topics["orders-4-kill-1"].partitions == 12


def test_lines_at_level_info_are_enough_for_members_and_epochs(tmp_path: Path) -> None:
    """Brokers write targets at DEBUG: without them topics and assignor are assumed."""
    log = tmp_path / "server.log"
    lines = (LOGS / "kafka-4.0.2-kill.log").read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "] INFO " in line), encoding="utf-8")
    found, same, differences = repeated(log)

    assert [each.text for each in differences] == []
    assert same >= 14
    basis = {part.what: part.basis for part in found.parts}
    assert (basis["topic"], basis["group.remote.assignor"], basis["crash of"]) == ("assumed", "assumed", "inferred")


@pytest.mark.parametrize(
    ("preset", "least", "what"),
    [
        ("consumer-protocol-slow-member", 40, "stop of polling of"),
        ("consumer-protocol-zombie", 70, "pause of"),
    ],
)
def test_a_run_of_kemu_is_repeated_from_its_events_alone(preset: str, least: int, what: str, tmp_path: Path) -> None:
    trace = tmp_path / "run.kemu"
    run(load_scenario(preset), seed=1, loop="bare", trace=trace)
    found, same, differences = repeated(trace)

    assert [each.text for each in differences] == []
    assert same >= least
    assert what in [part.what for part in found.parts]


def test_members_that_change_the_protocol_are_upgraded(tmp_path: Path) -> None:
    """Up and down, with a crash of a member and of the coordinator."""
    trace = tmp_path / "run.kemu"
    run(load_scenario("consumer-protocol-migration"), seed=1, loop="bare", trace=trace)
    found, same, _ = repeated(trace)

    changes = [part.value for part in found.parts if part.what == "upgrade of"]
    assert sum(value.endswith("to consumer") for value in changes) >= 3
    assert sum("to classic" in value for value in changes) >= 3
    assert same >= 150


def test_the_logs_of_members_alone_tell_when_they_joined() -> None:
    """Java's consumer states its way from UNSUBSCRIBED to JOINING. One of the logs begins later than its member."""
    found, *_ = repeated(LOGS.parent / "logs" / "java-4.1-kip848-client-two-members.log")

    starts = [(part.basis, [event.line for event in part.evidence]) for part in found.parts if part.what == "start of"]
    assert starts == [("assumed", [2]), ("read", [20])]
    assert "group.protocol" in [part.what for part in found.parts]


def test_a_group_of_streams_is_refused_in_one_line(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    line = (LOGS / "kafka-4.2.1-pause.log").read_text(encoding="utf-8").splitlines()[0]
    log.write_text(line.replace("consumer group using the consumer", "streams group using the streams") + "\n")
    result = CliRunner().invoke(command, ["reproduce", str(log)])

    assert result.exit_code == 2
    assert result.output.startswith(f'error: {log}: the group "g-5-pause-1" has the streams protocol: only groups of')


def test_a_member_that_did_not_give_partitions_up_in_time_tells_the_poll_interval(tmp_path: Path) -> None:
    """The rebalance timeout of a member is its ``max.poll.interval.ms``."""
    log = tmp_path / "server.log"
    text = (LOGS / "kafka-4.0.2-kill.log").read_text(encoding="utf-8")
    reason = "the member session expired."
    assert text.count(reason) == 1
    log.write_text(text.replace(reason, "it failed to transition from epoch 3 within 12000ms."), encoding="utf-8")
    found = kemu.reproduce(log)

    parts = {part.what: (part.basis, part.value) for part in found.parts}
    assert parts["max.poll.interval.ms"] == ("read", "12000")
    assert "stop of polling of" in parts


def test_partitions_of_a_log_of_4_3_have_no_assignment_epochs() -> None:
    """Brokers since 4.3 write ``topic-0@2``."""
    read = read_incident([LOGS / "kafka-4.3.0-scale-out.log"])
    listed = [name for event in read.events for name in event.partitions or ()]

    assert listed
    assert all(name.rpartition("-")[2].isdigit() for name in listed)
