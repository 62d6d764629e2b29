"""The grid and its cut into chunks; no Spark."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.runner import run
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.profiles import DEFAULT_PROFILE
from kemu.tools.commands.run import run as run_command
from kemu.tools.pipeline.campaign import begin, load
from kemu.tools.pipeline.cells import KEEP, Cell, Spec, make_cells, make_chunks
from tests.tools.pipeline.conftest import write_small


def spec_of(cells: int, first: int, last: int) -> Spec:
    """A campaign of cells that are never built."""
    made = tuple(Cell(f"s{number}", "kafka-3.4", (), {}) for number in range(cells))
    return Spec(made, first, last, KEEP[0], "f")


def test_the_grid_is_scenarios_by_profiles_by_settings_in_the_order_given(tmp_path: Path) -> None:
    """``kemu campaign``: every SCENARIO under every profile with every setting."""
    path = str(write_small(tmp_path))

    cells = make_cells([path], ["kafka-3.4", "kafka-2.4"], ["members=2,3", 'assignors=["range"],["sticky", "range"]'])

    assert [cell.name for cell in cells[:4]] == [
        'small kafka-3.4 members=2 assignors=["range"]',
        'small kafka-3.4 members=2 assignors=["sticky", "range"]',
        'small kafka-3.4 members=3 assignors=["range"]',
        'small kafka-3.4 members=3 assignors=["sticky", "range"]',
    ]
    assert [cell.profile for cell in cells] == ["kafka-3.4"] * 4 + ["kafka-2.4"] * 4
    assert cells[2].build().groups["g"].members == 3
    assert cells[1].build().groups["g"].assignors == ("sticky", "range")


def test_without_profiles_every_scenario_has_its_own() -> None:
    """As ``kemu run`` has it: a preset that is about a release is run as that release."""
    cells = make_cells(["custom-assignor-without-generation", "steady-group"], [], [])

    assert [cell.profile for cell in cells] == ["kafka-2.4-unfixed", DEFAULT_PROFILE]


def test_a_cells_command_repeats_its_run_exactly(tmp_path: Path) -> None:
    """A failing seed is listed with the command that repeats it."""
    path = str(write_small(tmp_path))
    (cell,) = make_cells([path], ["kafka-2.4"], ["members=2"])

    assert cell.command(7) == f"kemu run {path} --seed 7 --profile kafka-2.4 --set members=2"


def test_actions_are_in_every_cells_plan_name_and_command(tmp_path: Path) -> None:
    """``--do``: the command that is printed repeats the run, digest and all."""
    path = str(write_small(tmp_path))
    actions = ["crash host=c2 at=20s for=5s", "pause host=c3 at=30s for=2s"]

    cells = make_cells([path], ["kafka-2.4"], ["members=3,4"], actions)

    assert [cell.name for cell in cells] == [
        f"small kafka-2.4 members={members} + crash host=c2 at=20s for=5s + pause host=c3 at=30s for=2s"
        for members in (3, 4)
    ]
    assert all(len(cell.build().plan) == 3 for cell in cells)
    words = shlex.split(cells[1].command(7))
    assert words[:5] == ["kemu", "run", path, "--seed", "7"]
    said = json.loads(CliRunner().invoke(run_command, [*words[2:], "--format", "json"]).stdout)
    assert said["digest"] == run(cells[1].build(), seed=7, profile="kafka-2.4", loop="bare").digest
    assert said["digest"] != run(make_cells([path], ["kafka-2.4"], ["members=4"])[0].build(), seed=7).digest


@pytest.mark.parametrize(
    ("profiles", "grid", "actions", "said"),
    [
        (["kafka-9"], [], [], '"kafka-9" is no profile'),
        (["kafka-3.4"], ["members"], [], "must be KEY=VALUE"),
        (["kafka-3.4"], ["membres=3"], [], '"membres" is no key'),
        (["kafka-3.4"], [], ["crush host=c1 at=5s"], "crush"),
        (["kafka-3.4", "kafka-3.4"], [], [], "twice"),
    ],
)
def test_a_grid_that_cannot_be_is_one_clear_error(
    tmp_path: Path, profiles: list[str], grid: list[str], actions: list[str], said: str
) -> None:
    """A user's bad input is no traceback."""
    with pytest.raises(ScenarioError, match=said):
        make_cells([str(write_small(tmp_path))], profiles, grid, actions)


@given(
    cells=st.integers(1, 5),
    first=st.integers(0, 9),
    seeds=st.integers(1, 200),
    cores=st.integers(1, 16),
    seconds=st.dictionaries(st.integers(0, 4), st.floats(0.001, 30)),
)
def test_chunks_hold_every_seed_of_every_cell_once(
    cells: int, first: int, seeds: int, cores: int, seconds: dict[int, float]
) -> None:
    """Nothing lost and nothing counted twice, however long runs take."""
    spec = spec_of(cells, first, first + seeds - 1)

    chunks = make_chunks(spec, {cell: taken for cell, taken in seconds.items() if cell < cells}, cores)

    held = [(chunk.cell, seed) for chunk in chunks for seed in range(chunk.first, chunk.last + 1)]
    assert sorted(held) == [(cell, seed) for cell in range(cells) for seed in range(first, first + seeds)]
    assert len(held) == len(set(held))
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))


def test_the_last_chunks_are_small_so_that_no_core_waits_long() -> None:
    """Two cores: the last core to finish has one run more than the other."""
    runs = [chunk.runs for chunk in make_chunks(spec_of(1, 1, 600), {0: 0.2}, 2)]

    assert runs[:20] == [20] * 20
    assert runs == sorted(runs, reverse=True)
    assert runs[-2:] == [1, 1]


def test_a_specification_survives_being_written_down(tmp_path: Path) -> None:
    """campaign.json is all that --resume knows."""
    cells = make_cells([str(write_small(tmp_path))], ["kafka-2.4"], ["members=2,3"], ["crash host=c2 at=20s"])
    spec = Spec(cells, 3, 9, "all", "f")

    begin(tmp_path / "out", spec, {}, 2)

    assert load(tmp_path / "out").spec == spec
