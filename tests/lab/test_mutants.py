"""The command line of ``python -m lab.mutants`` with input that it cannot use."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.mutants import main


@pytest.mark.parametrize(("option", "value"), [("--count", "0"), ("--jobs", "0"), ("--cpu", "-1"), ("--room", "nope")])
def test_a_number_or_room_that_means_nothing_is_refused_by_name(option: str, value: str) -> None:
    result = CliRunner().invoke(main, [option, value])

    assert result.exit_code == 2
    assert option in result.output and value in result.output


@pytest.mark.parametrize("option", ["--again", "--results"])
def test_a_file_without_results_is_refused_with_its_line_and_left_as_it_is(option: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not results\nat all")

    result = CliRunner().invoke(main, [option, str(file)])

    assert result.exit_code == 2
    assert f"{file}: line 1 is no result of a mutant" in result.output
    assert file.read_text() == "not results\nat all"
