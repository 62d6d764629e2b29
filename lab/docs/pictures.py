"""Pictures of runs for the pages, below ``docs/pictures``."""

from collections.abc import Callable, Mapping
from functools import partial

from attrs import frozen

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.tools.report.collecting import Collector
from kemu.tools.report.svg import svg_of


@frozen
class DrawnPreset:
    """A run of a picture: preset, seed, settings and profile ("": the scenario's)."""

    preset: str
    seed: int = 1
    settings: tuple[str, ...] = ()
    profile: str = ""

    @property
    def command(self) -> str:
        """The command that writes the trace of the run; ``kemu report TRACE --format svg`` draws the trace."""
        words = ["kemu", "run", self.preset, "--seed", str(self.seed), *(f"--set {text}" for text in self.settings)]
        words += [f"--profile {self.profile}"] if self.profile else []
        return " ".join((*words, "--trace", "run.kemu"))

    def svg(self) -> str:
        """The picture."""
        scenario, collector = with_values(load_scenario(self.preset), self.settings), Collector(pictures=True)
        result = run(scenario, seed=self.seed, profile=self.profile or None, loop="bare", readers=collector.readers)
        return svg_of(collector.finish(result, scenario, self.command))


RUNS: Mapping[str, DrawnPreset] = {
    "eager": DrawnPreset("rolling-restart-dynamic"),
    "cooperative": DrawnPreset("cooperative-rolling-restart"),
    "calm": DrawnPreset("rolling-restart-dynamic", settings=("draws=calm",)),
    "second-consumer": DrawnPreset("catch-up-crash"),
    "in-batches": DrawnPreset("reassign-in-batches"),
    "new-instance": DrawnPreset("streams-scale-out"),
    "past-bug": DrawnPreset("KAFKA-1382", seed=load_scenario("KAFKA-1382").seed),
    "broker-crash": DrawnPreset("broker-crash-and-return"),
    "learners": DrawnPreset("streams-scale-up"),
    "two-bounces": DrawnPreset("upgrade-by-assignor-list"),
    "kafka-2.4": DrawnPreset("cooperative-rolling-restart", profile="kafka-2.4"),
}
"""Name of a file -> the run that it shows. The page with the picture names the command."""
PICTURES: Mapping[str, Callable[[], str]] = {name: partial(DrawnPreset.svg, drawn) for name, drawn in RUNS.items()}
