"""A process that is starting has done nothing yet: who closes it then ends it, and nobody ever hears of it."""

import pytest

from kemu.emulator import facts
from kemu.emulator.draws import DrawSet
from kemu.emulator.plan.actions import CloseHost, Crash, Isolate, StartHost
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.protocol.notes.groups import MemberAdded
from tests.emulator.engine.toys import Watcher

S = 1_000_000
STARTS = "uniform 10s 10s"


def ran(*plan: At, replicated: bool) -> tuple[RunResult, Watcher]:
    """A run in which every start after the first of a broker takes ten seconds."""
    watcher = Watcher()
    made = Scenario(
        name="starting",
        draws=DrawSet("calm", (("broker.start", STARTS), ("member.start", STARTS))),
        duration_us=60 * S,
        brokers=BrokersSpec(count=3, replication=ReplicationSpec(session_us=6 * S) if replicated else None),
        topics={"t": TopicSpec(partitions=4, records_per_s=10)},
        groups={"g": GroupSpec(topics=("t",), members=3, config={"session.timeout.ms": 10_000})},
        checks=ChecksSpec(stable_within_us=200 * S),
        plan=plan,
    )
    result = run(made, seed=1, loop="bare", observers=(watcher,))
    assert result.verdict == "holds", (result.broke, result.violations[:3])
    return result, watcher


def starts(watcher: Watcher, host: str) -> list[int]:
    """When its lives began, in seconds."""
    return [
        seen.at_us // S for seen in watcher.facts if type(seen.fact) is facts.HostStarted and seen.fact.host == host
    ]


@pytest.mark.parametrize("replicated", [False, True])
def test_a_member_that_is_closed_while_it_starts_never_comes(replicated: bool) -> None:
    """It is down at 20 s and would be up at 35 s; at 30 s it is closed, and stays away as after any close."""
    plan = (At(20 * S, Crash(host="c2", for_us=5 * S)), At(30 * S, CloseHost(host="c2")))
    result, watcher = ran(*plan, replicated=replicated)

    assert starts(watcher, "c2") == [10]
    assert [each.fired for each in result.faults] == [1, 1]
    joined = [seen.at_us // S for seen in watcher.facts if type(seen.fact) is MemberAdded]
    assert all(at_s < 20 for at_s in joined), "it did not join again"


@pytest.mark.parametrize("replicated", [False, True])
def test_a_broker_that_is_closed_while_it_starts_comes_when_all_is_healed(replicated: bool) -> None:
    """At 60 s, and ten seconds later it is up; closing it once more meanwhile, there was nothing to close."""
    plan = (
        At(20 * S, Crash(host="b1", for_us=5 * S)),
        At(30 * S, CloseHost(host="b1")),
        At(36 * S, CloseHost(host="b1")),
    )
    result, watcher = ran(*plan, replicated=replicated)

    assert starts(watcher, "b1") == [0, 70]
    assert [each.fired for each in result.faults] == [1, 1, 0]
    said = [seen.fact.text for seen in watcher.facts if type(seen.fact) is facts.FaultApplied]
    assert said[-1] == "close b1: no effect, b1 is down already"


def test_a_broker_that_still_closes_when_all_is_healed_comes_back() -> None:
    """It reaches its controller no more until 60 s, and ends then (``KafkaServer.controlledShutdown`` 3.4.1)."""
    plan = (At(55 * S, Isolate(host="b1", for_us=20 * S)), At(56 * S, CloseHost(host="b1")))
    _, watcher = ran(*plan, replicated=True)

    (down,) = [seen.at_us for seen in watcher.facts if type(seen.fact) is facts.HostDown and seen.fact.host == "b1"]
    assert down > 60 * S
    assert starts(watcher, "b1") == [0, (down + 10 * S) // S]


@pytest.mark.parametrize("replicated", [False, True])
def test_who_was_closed_while_starting_can_be_started_again(replicated: bool) -> None:
    """The new start takes its own time; what is left of the first does not bring it up earlier."""
    plan = (
        At(20 * S, Crash(host="c2", for_us=5 * S)),
        At(30 * S, CloseHost(host="c2")),
        At(32 * S, StartHost(host="c2")),
    )
    _, watcher = ran(*plan, replicated=replicated)

    assert starts(watcher, "c2") == [10, 42]


@pytest.mark.parametrize("replicated", [False, True])
def test_a_crash_cuts_a_start_short(replicated: bool) -> None:
    """It is down at 20 s and would be up at 35 s; at 30 s the power is cut for ten seconds, and it starts once more."""
    plan = (At(20 * S, Crash(host="c2", for_us=5 * S)), At(30 * S, Crash(host="c2", for_us=10 * S)))
    result, watcher = ran(*plan, replicated=replicated)

    assert starts(watcher, "c2") == [10, 50]
    assert [each.fired for each in result.faults] == [1, 1]


def test_a_crash_without_an_end_keeps_a_starting_host_down() -> None:
    """Until all is healed, at 60 s; a second one finds it down."""
    plan = (
        At(20 * S, Crash(host="b1", for_us=5 * S)),
        At(30 * S, Crash(host="b1")),
        At(36 * S, Crash(host="b1")),
    )
    result, watcher = ran(*plan, replicated=True)

    assert starts(watcher, "b1") == [0, 70]
    assert [each.fired for each in result.faults] == [1, 1, 0]
