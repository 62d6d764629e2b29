"""``kemu bugs`` and ``kemu shrink`` draw the run that they show."""

from pathlib import Path

from click.testing import CliRunner

from kemu.tools.cli import kemu
from tests.tools.report.reading import read_page


def test_a_past_bug_is_drawn_with_the_steps_around_its_violation(tmp_path: Path) -> None:
    """The run with the past rule, which a checker catches."""
    file = tmp_path / "it.html"
    said = CliRunner().invoke(kemu, ["bugs", "KAFKA-1382", "--report", str(file)])
    page = read_page(file.read_text(encoding="utf-8"))

    assert said.exit_code == 0 and said.output.endswith(f"report: {file}\n")
    assert page.texts["verdict"] == "liveness"
    assert page.head["command"].startswith("kemu run KAFKA-1382 --seed ")
    assert any(line.startswith(">") for line in page.texts["violations"][0]["around"])


def test_the_smallest_run_is_drawn(tmp_path: Path) -> None:
    """With the command that runs the written scenario."""
    file, out = tmp_path / "it.html", tmp_path / "small"
    said = CliRunner().invoke(kemu, ["shrink", "KAFKA-1382", "--runs", "6", "--out", str(out), "--report", str(file)])
    page = read_page(file.read_text(encoding="utf-8"))

    assert said.exit_code == 0, said.output
    assert f"report: {file}" in said.output
    assert page.texts["verdict"] == "liveness"
    assert page.head["command"] == f"kemu run {out}.toml"


def test_a_report_needs_a_bug() -> None:
    """And does not go with --find."""
    for arguments in (["bugs"], ["bugs", "--find"]):
        said = CliRunner().invoke(kemu, [*arguments, "--report", "it.html"])
        assert said.exit_code == 2
        assert "need the ID of a bug" in said.output or "accepts only" in said.output
