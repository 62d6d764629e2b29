"""A trace replays on today's machines; where they would answer differently, the replay says so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kemu.actors.coordinator.coordinator import Coordinator
from kemu.emulator.chance import Seeded
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.replay import replay, rerun, state_of
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.traces import Trace, read_trace
from kemu.protocol.config import BrokerConfig

PRESETS = ["steady-group", "gc-pause-zombie", "coordinator-moved", "rolling-restart-static", "disk-tail-lost"]
SECOND = 1_000_000


class Traces(dict[str, Path]):
    """Name of a preset -> its trace, made when a test first asks; a group at rest for 40 s is long enough."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        scenario = load_scenario(name)
        if name == "steady-group":
            scenario = with_values(scenario, ["duration=40s"])
        path = self[name] = self._folder / f"{name}.kemu"
        run(scenario, seed=3, loop="bare", trace=path)
        return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    return Traces(tmp_path_factory.mktemp("traces"))


@pytest.mark.parametrize("name", PRESETS)
def test_a_fresh_trace_replays_without_a_difference(traces: dict[str, Path], name: str) -> None:
    outcome = replay(read_trace(traces[name]))

    assert outcome.difference is None
    assert outcome.steps > 1000
    assert outcome.torn == ""


def test_one_actor_can_be_replayed_alone(traces: dict[str, Path]) -> None:
    whole = replay(read_trace(traces["steady-group"]))
    alone = replay(read_trace(traces["steady-group"]), actor="c1")

    assert alone.difference is None
    assert 0 < alone.steps < whole.steps


def test_the_state_of_an_actor_at_an_instant_is_shown(traces: dict[str, Path]) -> None:
    early = replay(read_trace(traces["steady-group"]), actor="c1", until_us=3 * SECOND)
    later = replay(read_trace(traces["steady-group"]), actor="c1", until_us=20 * SECOND)

    assert early.state is not None
    assert later.state is not None
    assert early.state["membership"]["state"] == "PREPARING"
    assert later.state["membership"]["state"] == "STABLE"


def test_a_machine_that_changed_its_mind_is_found_at_the_step_where_it_shows(
    traces: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's default replaced by another timer: the replay stops at the first step that would arm it."""
    start = Coordinator.start_timer

    def longer(self: Coordinator, key: tuple[str, ...], after_us: int) -> None:
        start(self, key, after_us + (1 if key[0] == "session" else 0))

    monkeypatch.setattr(Coordinator, "start_timer", longer)
    outcome = replay(read_trace(traces["steady-group"]))

    assert outcome.difference is not None
    assert outcome.difference.step.actor.endswith("/coordinator")
    assert any("session" in line for line in outcome.difference.made)
    assert outcome.difference.before


def test_a_machine_that_breaks_now_is_a_difference(traces: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Coordinator, *_: object) -> None:
        raise AssertionError("on purpose")

    monkeypatch.setattr(Coordinator, "_heartbeat", broken)
    outcome = replay(read_trace(traces["steady-group"]))

    assert outcome.difference is not None
    assert "on purpose" in outcome.difference.why


def test_another_profile_answers_differently_from_some_step_on(traces: dict[str, Path]) -> None:
    outcome = replay(read_trace(traces["steady-group"]), profile="kafka-2.4")

    assert outcome.difference is not None


@pytest.mark.parametrize("loop", ["bare", "trio"])
def test_running_the_plan_again_gives_the_recorded_digest(traces: dict[str, Path], loop: str) -> None:
    result, recorded = rerun(read_trace(traces["gc-pause-zombie"]), loop=loop)

    assert recorded == result.digest


def test_a_torn_trace_replays_up_to_where_it_ends(traces: dict[str, Path], tmp_path: Path) -> None:
    torn = tmp_path / "torn.kemu"
    torn.write_bytes(traces["steady-group"].read_bytes()[:-1000])

    outcome = replay(read_trace(torn))

    assert outcome.difference is None
    assert outcome.steps > 1000
    assert "byte" in outcome.torn


def test_a_live_trace_cannot_be_run_again(tmp_path: Path) -> None:
    path = tmp_path / "live.kemu"
    scenario = load_scenario("steady-group")
    with path.open("wb") as sink:
        one = Run(scenario, seed=1, sink=sink, live=True)
        one.run_with(lambda world, _: run_trio(world, 50_000))
        one.writer.finish("holds", one.world.now_us)

    assert replay(read_trace(path)).difference is None
    with pytest.raises(TraceError, match="wall clock"):
        rerun(read_trace(path))


@pytest.mark.parametrize("repeat", [replay, rerun])
def test_a_run_whose_choices_were_its_callers_is_not_repeated_from_its_trace(
    repeat: Callable[[Trace], object], tmp_path: Path
) -> None:
    """An explorer steers by ``Choices`` of its own: the seed in the trace says nothing of them."""
    path = tmp_path / "steered.kemu"
    with path.open("wb") as sink:
        one = Run(load_scenario("steady-group"), seed=1, sink=sink, choices=Seeded(2))
        one.run_with(lambda world, _: run_plain(world, 50_000))
        one.writer.finish("holds", one.world.now_us)

    with pytest.raises(TraceError, match=r"steered\.kemu: the choices of this run were its caller's"):
        repeat(read_trace(path))


def test_the_state_shown_does_not_run_in_circles(traces: dict[str, Path]) -> None:
    coordinator = Coordinator("b0/coordinator", 0, BrokerConfig())

    assert state_of(coordinator)["name"] == "b0/coordinator"
