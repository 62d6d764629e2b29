"""Runs whose traces lie outside of any campaign, analysed together; each test reads its part of the same tables."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from kemu.actors.consumer.consumer import Consumer
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.pipeline.run import Analysis

SEEDS = range(1, 101)
BUGS = ("KAFKA-1211", "KAFKA-6361", "KAFKA-1382", "KAFKA-4443")
"""Of replicas and controllers; both verdicts and three checkers among them."""
REPLICATED: Mapping[str, tuple[str, ...]] = {
    "unclean-election": (),
    "zombie-controller": (),
    "rolling-broker-restart": (),
    "replicated-steady": (
        "create-topic topic=extra partitions=2 at=10s",
        "crash host=b1 at=15s for=12s",
        "delete-topic topic=extra at=40s",
        "create-topic topic=extra partitions=1 at=50s",
        "crash host=b2 at=55s for=10s",
    ),
}
"""Preset -> what is added to its plan: elections, pauses, shut-downs, a topic that goes and comes back."""
STREAMS = "streams-scale-down"
"""A run whose tasks are learned elsewhere and move."""
MOVED = "reassign-limits-lowered"
"""A run that moves partitions in batches on limited machines."""


@frozen
class Made:
    """A run: how it ended live, and its trace."""

    live: RunResult
    trace: Path

    @property
    def run_id(self) -> str:
        """As tables name it."""
        return f"{self.trace.resolve()}@16"


def first_violating(folder: Path, name: str, of_seed: Callable[[int], Scenario], profile: str | None = None) -> Made:
    """The first seed that breaks a rule, with its trace."""
    path = folder / f"{name}.kemu"
    for seed in SEEDS:
        live = run(of_seed(seed), seed=seed, profile=profile, loop="bare", trace=path)
        if live.violations:
            return Made(live, path)
    raise AssertionError(f"{name}: no seed of {SEEDS} breaks a rule")


def runs_of_groups(folder: Path) -> Iterator[Made]:
    """Expected violations, the same not expected, and KAFKA-12983 switched on by the profile."""
    preset = load_scenario("custom-assignor-without-generation")
    yield first_violating(folder, "expected", lambda seed: preset)
    fixed = load_scenario("custom-assignor-with-generation")
    yield first_violating(folder, "unfixed", lambda seed: fixed, "kafka-2.4-unfixed")
    left = evolve(load_scenario("one-eager-member-left-behind"), expect=())
    yield first_violating(folder, "liveness", lambda seed: left)


def runs_of_replicas(folder: Path) -> Iterator[Made]:
    """Past bugs of replication and control switched on."""
    for issue in BUGS:
        scenario, path = load_scenario(issue), folder / f"{issue}.kemu"
        live = run(scenario, seed=scenario.seed, loop="bare", trace=path)
        assert live.violations
        yield Made(live, path)


def broken_run(folder: Path) -> Made:
    """A machine that fails an assertion of its own in the midst of a run."""
    step = Consumer.step

    def fail_later(self: Consumer, now_us: int, event: Any) -> Any:
        assert now_us < 20_000_000, "made to fail"
        return step(self, now_us, event)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Consumer, "step", fail_later)
        live = run(load_scenario("steady-group"), seed=1, loop="bare", trace=folder / "broken.kemu")
    return Made(live, folder / "broken.kemu")


def replicated_run(folder: Path, name: str) -> Made:
    """A preset of ``REPLICATED`` with little load."""
    scenario = with_values(load_scenario(name), ["rate=1/s"])
    if REPLICATED[name]:
        scenario = with_actions(scenario, REPLICATED[name])
    trace = folder / f"{name}.kemu"
    return Made(run(scenario, seed=3, loop="bare", trace=trace), trace)


@frozen
class LoneRuns:
    """All of them. ``wrong``: those that violate something; ``replicated``: by preset."""

    root: Path
    wrong: tuple[Made, ...]
    replicated: Mapping[str, Made]
    moved: Made
    streams: Made

    @property
    def all(self) -> tuple[Made, ...]:
        """Every run."""
        return (*self.wrong, *self.replicated.values(), self.moved, self.streams)


def make_lone_runs(root: Path) -> LoneRuns:
    """Run them, a trace each."""
    wrong = (*runs_of_groups(root), *runs_of_replicas(root), broken_run(root))
    moved = Made(run(load_scenario(MOVED), seed=5, loop="bare", trace=root / "moved.kemu"), root / "moved.kemu")
    trace = root / "streams.kemu"
    streams = Made(run(load_scenario(STREAMS), seed=1, loop="bare", trace=trace), trace)
    return LoneRuns(root, wrong, {name: replicated_run(root, name) for name in REPLICATED}, moved, streams)


@frozen
class Analyzed:
    """The folder of an analysis, and what it came to."""

    out: Path
    analysis: Analysis
