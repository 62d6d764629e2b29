"""A run that stops early has a verdict and an owner in both loops: endless loops, and code that raises."""

import faulthandler
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from kemu.actors.consumer.application import PollLoop, Returned
from kemu.actors.consumer.listener import Outcome, TimedListener
from kemu.emulator.checkers import checkers_for
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.lifecycle import Lifecycle
from kemu.emulator.engine import step_watch, world
from kemu.emulator.engine.raised import LIVELOCK, loop_words
from kemu.emulator.exploring.shrinking import Shrinker
from kemu.emulator.exploring.trial import Trials
from kemu.emulator.facts import HostStarted, Seen
from kemu.emulator.metrics import metrics
from kemu.emulator.replay import replay
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.names import TopicPartition

LOOPS = ("bare", "trio")


@pytest.fixture
def scenario() -> Scenario:
    return load_scenario("steady-group")


class Spinning(PollLoop):
    """Works for no time at all, for ever."""

    def polled(self, records: Sequence[Returned]) -> None:
        self._calls.work(0)

    def worked(self) -> None:
        self._calls.work(0)


class Crawling(PollLoop):
    """Works for a microsecond at a time, for ever."""

    def polled(self, records: Sequence[Returned]) -> None:
        self._calls.work(1)

    def worked(self) -> None:
        self._calls.work(1)


class Endless(PollLoop):
    """Does not return from its first call, or only after a while."""

    cpu_s = 3_600.0

    def polled(self, records: Sequence[Returned]) -> None:
        until_s = time.process_time() + self.cpu_s
        while time.process_time() < until_s:
            pass
        super().polled(records)


class Long(Endless):
    cpu_s = 0.01


class Short(Endless):
    cpu_s = 0.0


class Raising(TimedListener):
    """Raises what it was made with when it is assigned something."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(ConsumerConfig())
        self._error = error

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        raise self._error


class BrokenChecker(Checker):
    name = "my-checker"

    def __init__(self, at_end: bool) -> None:
        super().__init__()
        self._at_end = at_end

    def see(self, seen: Seen) -> None:
        if not self._at_end and seen.at_us > 5_000_000:
            raise KeyError("x")

    def finish(self, at_us: int) -> None:
        if self._at_end:
            raise KeyError("x")


def spin(scenario: Scenario, loop: str, trace: Path | None = None) -> RunResult:
    return run(scenario, seed=1, loop=loop, trace=trace, applications={"c1": Spinning})


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """End the process, with the stack of each thread, if a run hangs."""
    faulthandler.dump_traceback_later(180, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_a_cycle_is_said_by_its_events() -> None:
    assert loop_words(["x", *"ababababab"]) == "a -> b -> a"
    assert loop_words(["a"] * 9) == "a -> a"
    assert loop_words(list("abcdefgh")) == "a -> b -> c -> d -> e -> f -> g -> h"


def test_an_endless_loop_at_one_instant_is_a_livelock_in_both_loops(scenario: Scenario, tmp_path: Path) -> None:
    trace = tmp_path / "loop.kemu"
    results = [spin(scenario, "bare", trace), spin(scenario, "trio")]
    assert [result.verdict for result in results] == ["livelock", "livelock"]
    assert results[0].digest == results[1].digest
    assert results[0].reason == results[1].reason
    assert results[0].reason.startswith(f"{LIVELOCK}c1: timer ")
    replayed = replay(read_trace(trace), applications={"c1": Spinning})
    assert replayed.difference is None


def test_a_loop_that_takes_a_microsecond_a_turn_is_a_livelock(scenario: Scenario) -> None:
    result = run(scenario, seed=1, loop="bare", applications={"c1": Crawling})
    assert result.verdict == "livelock"
    assert result.reason.startswith(f"{LIVELOCK}c1: timer ")


def test_the_commands_for_many_new_partitions_are_no_livelock(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fuzzer of the control socket found this: 100,000 new partitions are as many steps at one instant."""
    monkeypatch.setattr(world, "STEPS_OF_A_SPAN", 300)
    monkeypatch.setattr(world, "STEPS_OF_AN_ACTOR", 5)
    grown = with_actions(with_values(scenario, ["duration=8s"]), ["grow-topic topic=orders partitions=2000 at=6s"])
    assert run(grown, seed=1, loop="bare").verdict == "holds"


def test_a_livelock_can_be_shrunk(scenario: Scenario) -> None:
    trials = Trials(applications={"c1": Spinning})
    shrunk = Shrinker(scenario, 1, trials, runs=3).shrink()
    assert shrunk.violation.text.startswith(LIVELOCK)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_step_without_end_is_a_livelock_that_names_the_code(
    scenario: Scenario, loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_watch, "STEP_CPU_S", 0.2)
    trace = tmp_path / "endless.kemu"
    result = run(scenario, seed=1, loop=loop, trace=trace, applications={"c1": Endless})
    assert result.verdict == "livelock"
    assert result.reason.startswith(f"{LIVELOCK}c1: Fetch") and "application (test_stopped_runs.py:" in result.reason
    assert replay(read_trace(trace), applications={"c1": Endless}).difference is None


def test_a_long_step_is_let_end_and_no_thread_outlives_its_run(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_watch, "STEP_CPU_S", 0.2)
    scenario = attrs.evolve(scenario, duration_us=6_000_000)
    long, short = (run(scenario, seed=1, loop="bare", applications={"c1": each}) for each in (Long, Short))
    assert (long.verdict, long.digest) == ("holds", short.digest)
    deadline_s = time.monotonic() + 10
    while any(each.name == step_watch.THREAD_NAME for each in threading.enumerate()):
        assert time.monotonic() < deadline_s


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(0), pytest.fail.Exception("no")])
def test_code_of_the_user_that_raises_is_named(
    scenario: Scenario, loop: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # as outside a test
    result = run(scenario, seed=1, loop=loop, listeners={"c1": Raising(error)})
    assert result.verdict == "broken"
    assert result.reason.startswith(f"the listener of c1 raised {type(error).__name__}({error}) at 00:")
    assert "on_assigned" in result.broke


@pytest.mark.parametrize("loop", LOOPS)
def test_an_interrupt_in_the_code_of_the_user_interrupts(scenario: Scenario, loop: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(scenario, seed=1, loop=loop, listeners={"c1": Raising(KeyboardInterrupt())})


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("outcome", [pytest.fail.Exception("no"), pytest.skip.Exception("not here")])
def test_an_outcome_of_pytest_reaches_pytest(loop: str, outcome: BaseException) -> None:
    with pytest.raises(type(outcome)):
        run(load_scenario("steady-group"), seed=1, loop=loop, listeners={"c1": Raising(outcome)})


def test_a_checker_is_named_for_what_its_parts_raise(scenario: Scenario) -> None:
    class Part:
        def starts(self, seen: Seen, fact: HostStarted) -> None:
            raise KeyError("x")

    checker = Lifecycle({})
    checker.shown_to({HostStarted: Part().starts})

    assert run(scenario, seed=1, checkers=[checker]).reason.startswith("the checker lifecycle raised KeyError('x')")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("at_end", [False, True])
def test_a_checker_that_raises_is_named(scenario: Scenario, loop: str, at_end: bool) -> None:
    checkers = (*checkers_for(scenario), BrokenChecker(at_end))
    result = run(scenario, seed=1, loop=loop, checkers=checkers)
    assert result.verdict == "broken"
    assert result.reason.startswith("the checker my-checker raised KeyError('x') at 0")
    assert "Traceback" in result.broke


@pytest.mark.parametrize(
    ("place", "metric"),
    [("kemu.emulator.metrics.progress._Log", "Progress"), (f"{metrics.__name__}.GroupFigures", "Metrics")],
)
def test_a_metric_that_raises_is_named_and_the_figures_are_empty(
    scenario: Scenario, place: str, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it takes a fact, or at the end."""
    monkeypatch.setattr(place, None)
    result = run(scenario, seed=1, loop="bare")

    assert result.verdict == "broken"
    assert result.reason.startswith(f"the metric {metric} raised TypeError('NoneType' object is not callable) at 0")
    assert result.figures.groups == {}


def test_any_other_error_names_the_run(scenario: Scenario) -> None:
    class Fails:
        def see(self, seen: Seen) -> None:
            raise KeyError("x")

    with pytest.raises(KeyError) as raised:
        run(scenario, seed=7, loop="bare", observers=(Fails(),))

    assert raised.value.__notes__ == [f"in the run of {scenario.name} with seed 7 under kafka-3.4"]
