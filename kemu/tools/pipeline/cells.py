"""The runs of a campaign: cells (combinations of scenario, profile and settings), and chunks of consecutive seeds.

A chunk is the work of one Spark task: consecutive seeds of one cell, a few seconds of work. Spark adds about 50 ms to
each task. The campaign's description contains the chunks, so that a resumed campaign knows the finished chunks.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.tools.request import Request

CHUNK_S = 4.0
"""Estimated seconds of work in a chunk."""
CHUNKS_PER_CORE = 4
"""Minimum number of chunks per core, so that cores finish at about the same time."""
LEFT_PER_CORE = 2
"""Number of chunks per core into which the remaining runs can always be divided: the last chunks are small."""
KEEP = ("failing", "all", "none")
"""The values of ``--keep-traces``: the runs whose traces are written."""


@frozen
class Cell:
    """One combination of scenario, profile and settings.

    ``source``, ``settings`` and ``actions``: texts of the command line. ``scenario``: the scenario as a dict, with the
    settings applied and the actions (``--do``) in its plan.
    """

    source: str
    profile: str
    settings: tuple[str, ...]
    scenario: dict[str, Any]
    actions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in reports, such as "rolling-restart-static kafka-3.4 members=12 + crash host=c2 at=40s"."""
        return " + ".join((" ".join((Path(self.source).stem, self.profile, *self.settings)), *self.actions))

    def build(self) -> Scenario:
        """The scenario as a value."""
        return scenario_from_dict(self.scenario)

    def command(self, seed: int) -> str:
        """The command that repeats the run of a seed."""
        return Request(
            source=self.source,
            scenario=self.build(),
            seeds=(seed,),
            profile=self.profile,
            settings=self.settings,
            actions=self.actions,
            loop="trio",
            trace=None,
            live=False,
        ).command_for(seed)


@frozen
class Chunk:
    """The work of one task: seeds ``first`` to ``last`` (both included) of the cell with the number ``cell``."""

    number: int
    cell: int
    first: int
    last: int

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.last - self.first + 1

    @property
    def folder(self) -> str:
        """The name of the folder with the chunk's results."""
        return f"{self.number:06d}"


@frozen
class Spec:
    """The runs that a campaign must make: every cell with every seed."""

    cells: tuple[Cell, ...]
    first_seed: int
    last_seed: int
    keep_traces: str
    fingerprint: str
    """A digest of the emulator's code (``shipping.fingerprint``)."""

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.cells) * (self.last_seed - self.first_seed + 1)

    def to_dict(self) -> dict[str, Any]:
        """The specification as values for JSON."""
        return attrs.asdict(self)


def make_cells(
    sources: Sequence[str], profiles: Sequence[str], grid: Iterable[str], actions: Sequence[str] = ()
) -> tuple[Cell, ...]:
    """Every combination, ordered by scenario, then by profile, then by settings in the order of the grid.

    Args:
        sources: Names of presets, or files.
        profiles: Names of ``PROFILES``; empty: each scenario's profile, as in ``kemu run``.
        grid: Texts "key=v1,v2,...". Commas inside brackets, braces and quotes belong to a value.
        actions: Lines to add to the plan of every cell, in the syntax of ``kemu run --do``.

    Raises:
        ScenarioError: an unknown scenario, profile, setting or action.
    """
    for profile in profiles:
        if profile not in PROFILES:
            raise ScenarioError([Problem((), f'"{profile}" is no profile{nearest(profile, PROFILES)}')])
    axes = [_axis(text) for text in grid]
    cells = []
    for source in sources:
        loaded = load_scenario(source)
        for profile in profiles or (loaded.profile or DEFAULT_PROFILE,):
            for settings in itertools.product(*axes):
                scenario = with_values(loaded, settings)
                if actions:
                    scenario = with_actions(scenario, actions)
                cells.append(Cell(source, profile, settings, scenario.to_dict(), tuple(actions)))
    names = [cell.name for cell in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ScenarioError([Problem((), f'the campaign would run "{name}" twice') for name in twice])
    return tuple(cells)


def _axis(text: str) -> tuple[str, ...]:
    """Return the settings of one axis: ("members=3", "members=6") for "members=3,6"."""
    key, equals, values = text.partition("=")
    if not (key.strip() and equals and values.strip()):
        raise ScenarioError([Problem((), f'--grid "{text}" must be KEY=VALUE,VALUE,...')])
    return tuple(f"{key.strip()}={value.strip()}" for value in _split(values))


def _split(text: str) -> Iterator[str]:
    """Split a text at commas outside brackets, braces and quotes."""
    depth, quote, start = 0, "", 0
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def make_chunks(spec: Spec, seconds: Mapping[int, float], cores: int) -> tuple[Chunk, ...]:
    """Divide the seeds of every cell into chunks.

    Args:
        spec: The campaign.
        seconds: Number of a cell -> duration of a run of the cell, if known.
        cores: Number of chunks that run at the same time.
    """
    seeds = spec.last_seed - spec.first_seed + 1
    usual = sum(seconds.values()) / len(seconds) if seconds else 1.0
    most = max(1, math.ceil(spec.runs / (cores * CHUNKS_PER_CORE)))
    chunks: list[Chunk] = []
    left = spec.runs
    for number in range(len(spec.cells)):
        usual_runs = min(most, seeds, int(CHUNK_S / max(seconds.get(number, usual), 1e-6)))
        first = spec.first_seed
        while first <= spec.last_seed:
            runs = max(1, min(usual_runs, left // (cores * LEFT_PER_CORE), spec.last_seed + 1 - first))
            chunks.append(Chunk(len(chunks), number, first, first + runs - 1))
            first += runs
            left -= runs
    assert sum(chunk.runs for chunk in chunks) == spec.runs, "every seed of every cell is in one chunk"
    return tuple(chunks)
