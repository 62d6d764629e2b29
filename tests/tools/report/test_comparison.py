"""The page of a comparison: its numbers are those of the runs, and its labels are short."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.metrics.metrics import FIGURES
from kemu.tools.cli import kemu
from kemu.tools.report.comparison import short_names
from tests.tools.report.reading import ReadPage, read_page

ARGUMENTS = (
    *("compare", "cooperative-scale-out-by-one", "--profiles", "kafka-2.4,kafka-3.4", "--assignors", "range,sticky"),
    *("--seeds", "1:2", "--jobs", "1"),
)  # fmt: skip


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], ReadPage, Result]:
    """One comparison as JSON, as a page, and the outcome of its command."""
    file = tmp_path_factory.mktemp("compared") / "it.html"
    said = CliRunner().invoke(kemu, [*ARGUMENTS, "--report", str(file), "--format", "json"])
    return json.loads(said.stdout), read_page(file.read_text(encoding="utf-8")), said


def values_of(page: ReadPage, cell: int, figure: str) -> dict[int, float]:
    """Seed -> value, in the unit of the JSON."""
    place = next(at for at, each in enumerate(page.texts["figures"]) if each["name"] == figure)
    percent = page.texts["figures"][place]["unit"] == "%"
    return {
        seed: value / 1e6 if percent else value
        for number, of, seed, value in page.frames["values"].rows()
        if (number, of) == (place, cell)
    }


def test_the_page_has_the_value_of_every_seed(compared: tuple[dict[str, Any], ReadPage, Result]) -> None:
    """Of every figure that is not 0 in some run; medians and verdicts are those of the JSON."""
    data, page, said = compared
    names = [each["name"] for each in page.texts["figures"]]

    assert said.exit_code == 0
    assert {name for name in FIGURES if any(any(row["by_seed"][name]) for row in data["variants"])} == set(names)
    for cell, row in enumerate(data["variants"]):
        told = page.texts["cells"][cell]
        assert (told["name"], told["runs"], told["verdicts"]) == (row["variant"], 2, row["verdicts"])
        for name in names:
            known = {
                seed: value
                for seed, value in zip(data["seeds"], row["by_seed"][name], strict=True)
                if value is not None
            }
            assert values_of(page, cell, name) == pytest.approx(known), name
            if known:
                factor = 1e6 if FIGURES[name].unit == "%" else 1
                assert told["figures"][name][0] == pytest.approx(row["figures"][name]["median"] * factor)


def test_causes_add_up_to_the_downtime(compared: tuple[dict[str, Any], ReadPage, Result]) -> None:
    """The stacked bar of a cell is the sum of its downtime, to the microsecond."""
    data, page, _ = compared
    spent: dict[int, int] = {}
    for cell, _, us in page.frames["causes"].rows():
        spent[cell] = spent.get(cell, 0) + us

    assert spent == {cell: sum(row["by_seed"]["downtime_sum"]) for cell, row in enumerate(data["variants"])}


def test_the_head_has_the_command_that_repeats_the_comparison(
    compared: tuple[dict[str, Any], ReadPage, Result],
) -> None:
    """And the text output names the file."""
    assert compared[1].head["command"] == "kemu " + " ".join(ARGUMENTS[:-2])


def test_a_failed_run_is_listed_with_its_command(tmp_path: Path) -> None:
    """The command draws the run; its settings are those of the variant."""
    file = tmp_path / "it.html"
    said = CliRunner().invoke(
        kemu,
        [*("compare", "steady-group", "--profiles", "kafka-2.4+session.timeout.ms=10000", "--seeds", "1:1", "--jobs"),
         *("1", "--do", "crash host=b0 at=10s", "--set", "duration=40s", "--report", str(file))],
    )  # fmt: skip
    page = read_page(file.read_text(encoding="utf-8"))
    failed = list(page.frames["failing"].rows())

    assert f"report: {file}" in said.output
    assert len(failed) == (said.exit_code != 0)
    assert all("--set session.timeout.ms=10000" in row[4] for row in failed)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (
            ["kafka-2.4 range", "kip-429-v99+rebalance.protocol=cooperative sticky", "kafka-3.4 cooperative-sticky"],
            ["2.4 range", "kip-429-v99 sticky", "3.4 coop.-sticky"],
        ),
        (["a kafka-3.4 members=3", "a kafka-3.4 members=6"], ["members=3", "members=6"]),
        (["kafka-3.4+x=1 range", "kafka-3.4 range"], ["3.4+x=1", "3.4"]),
        (
            ["kafka-3.4 session.timeout.ms=10000", "kafka-3.4 session.timeout.ms=45000"],
            ["…on.timeout.ms=10000", "…on.timeout.ms=45000"],
        ),
        (["one"], ["one"]),
        (["w" * 30 + "1", "w" * 30 + "2"], ["w" * 16 + " (1)", "w" * 16 + " (2)"]),
    ],
)
def test_labels_are_short_and_distinct(names: list[str], short: list[str]) -> None:
    """The page has the whole names, too."""
    assert short_names(names) == short
    assert max(map(len, short)) <= 20
