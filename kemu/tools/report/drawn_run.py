"""Run a scenario once, and write the page of the run."""

from pathlib import Path
from tempfile import TemporaryDirectory

from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.traces import read_trace
from kemu.tools.report.collecting import Collector
from kemu.tools.report.page import write_page


def draw_run(scenario: Scenario, file: Path, command: str, *, seed: int | None = None, loop: str = "bare") -> RunResult:
    """Run a scenario and write its page, with the steps around violations.

    Args:
        file: the page.
        command: the command that repeats the run.
        seed: None: the scenario's own.

    Raises:
        BadInput: the file cannot be written, or is of another kind.
    """
    collector = Collector(pictures=True)
    with TemporaryDirectory(prefix="kemu-report-") as place:
        trace = Path(place) / "run.kemu"
        result = run(
            scenario,
            seed=scenario.seed if seed is None else seed,
            loop=loop,
            trace=trace,
            readers=collector.readers,
            recorder=collector.recorder,
        )
        write_page(collector.finish(result, scenario, command), file, read_trace(trace))
    return result
