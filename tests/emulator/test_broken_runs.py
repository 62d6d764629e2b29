"""A machine that fails an assertion of its own in a run: all who listen are told, and a replay breaks there too."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from attrs import frozen

from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.machine import Received
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.exploring.coverage import UNANSWERED, Coverage, Point
from kemu.emulator.replay import Replayed, replay
from kemu.emulator.runner import Run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.trace.recorder import MemoryRecorder, RecorderOfAll
from kemu.emulator.trace.traces import Broken, Step, Trace, read_trace
from kemu.protocol.messages.group import Heartbeat

S = 1_000_000
WHY = "AssertionError: made to fail"


def breaks_later(self: Coordinator, now_us: int, event: Any) -> Any:
    """As a coordinator steps, but the first heartbeat after 20 s finds a mistake in it."""
    if now_us >= 20 * S and isinstance(event, Received) and isinstance(event.message, Heartbeat):
        raise AssertionError("made to fail")
    return _step(self, now_us, event)


_step = Coordinator.step


@frozen
class Recorded:
    """The run, as everybody who listened has it."""

    broke: str
    run: Run
    memory: MemoryRecorder
    coverage: Coverage
    trace: Trace


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Listened to by memory, by what counts coverage, and by a trace."""
    memory, coverage, sink = MemoryRecorder(), Coverage(), BytesIO()
    listening = coverage.of_run()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Coordinator, "step", breaks_later)
        recorder = RecorderOfAll(memory, listening)
        one = Run(load_scenario("steady-group"), seed=1, loop="bare", sink=sink, recorder=recorder)
        broke = one.run_with(run_plain)
    listening.finish()
    one.writer.finish("broken", one.world.now_us)
    path = tmp_path_factory.mktemp("broken") / "run.kemu"
    path.write_bytes(sink.getvalue())
    yield Recorded(broke, one, memory, coverage, read_trace(path))


def replayed(recorded: Recorded, *, mended: bool, actor: str | None = None) -> Replayed:
    """Replay it, with the mistake or without."""
    with pytest.MonkeyPatch.context() as patched:
        if not mended:
            patched.setattr(Coordinator, "step", breaks_later)
        return replay(recorded.trace, actor=actor)


def test_the_step_that_broke_is_the_last_of_the_record(broken: Recorded) -> None:
    """It has its event and the reason, and no effects; memory holds what the file holds."""
    last = broken.memory.records[-1]

    assert isinstance(last, Broken)
    assert (last.actor, last.text) == ("b0/coordinator", WHY)
    assert last.at_us >= 20 * S
    assert last.seq == broken.run.world.steps
    assert broken.broke == f"b0/coordinator at {last.at_us} us, step {last.seq}: {WHY}"
    recorded = [each for each in broken.trace.records() if isinstance(each, Step | Broken)]
    assert recorded == [each for each in broken.memory.records if isinstance(each, Step | Broken)]


def test_what_a_broken_machine_met_counts_as_met_and_unanswered(broken: Recorded) -> None:
    """A heartbeat in a stable group; those before it were answered."""
    heartbeats = {point: n for point, n in broken.coverage.points.items() if point.message == "Heartbeat"}

    assert heartbeats.pop(Point("coordinator", "Stable", "Heartbeat", UNANSWERED)) == 1
    assert {point.outcome for point in heartbeats} == {"NONE"}


def test_a_machine_that_still_breaks_there_replays_without_a_difference(broken: Recorded) -> None:
    """The mistake is still in it: all steps before agree, and this one breaks again."""
    steps = [each for each in broken.memory.records if isinstance(each, Step)]

    again = replayed(broken, mended=False)
    assert again.difference is None
    assert again.steps == len(steps)


def test_a_machine_that_was_mended_parts_from_the_record_where_it_broke(broken: Recorded) -> None:
    """What it does instead is shown beside the reason why the recorded one did nothing."""
    difference = replayed(broken, mended=True).difference

    assert difference is not None
    assert difference.why == f"the recorded machine broke here ({WHY}); this one did not"
    assert difference.step.seq == broken.run.world.steps
    assert difference.recorded == ()
    assert any("HeartbeatReply" in effect for effect in difference.made)
    assert difference.before[-1].seq < difference.step.seq


@pytest.mark.parametrize(("actor", "parts"), [("b0/coordinator", True), ("c1", False)])
def test_of_one_actor_alone_only_its_own_break_is_compared(broken: Recorded, actor: str, parts: bool) -> None:
    """A mended coordinator makes no difference to a member's steps."""
    alone = replayed(broken, mended=True, actor=actor)

    assert alone.steps > 10
    assert (alone.difference is not None) == parts
