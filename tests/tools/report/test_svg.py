"""The small picture of a run: well-formed, the same for equal runs, and its red is the downtime."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kemu.tools.cli import kemu
from kemu.tools.report.svg import GUTTER, RIGHT, WIDTH, lanes_of, svg_of
from lab.docs.pages import DOCS
from lab.docs.pictures import RUNS
from tests.tools.report.presets import ONE_PROCESS, SIX, made, traced

pytestmark = ONE_PROCESS

LANES = {
    "rolling-restart-dynamic": ["members", "partitions"],
    "streams-scale-down-by-half": ["tasks"],
    "reassign-controller-dies": ["reassignments"],
    "catch-up-second-crash": ["ranges"],
}


@pytest.mark.parametrize("preset", SIX)
def test_the_picture_is_small_and_well_formed(preset: str) -> None:
    """XML without a script, an address or a number outside of the picture."""
    text = svg_of(made(preset).report)
    root = ElementTree.fromstring(text)
    starts = [
        float(x)
        for path in root.iter("{http://www.w3.org/2000/svg}path")
        for x in re.findall(r"M([\d.]+)", path.get("d", ""))
    ]

    assert len(text) < 30_000
    assert "<script" not in text and text.count("http") == 1
    assert starts and all(GUTTER <= x <= WIDTH - RIGHT + 0.1 for x in starts)
    if preset in LANES:
        assert [name for name, _ in lanes_of(made(preset).report)] == LANES[preset]


def test_red_bars_are_the_downtime() -> None:
    """Of every partition, to the microsecond."""
    report = made("rolling-restart-dynamic").report
    partitions = dict(lanes_of(report))["partitions"]
    drawn = {
        f"g/{label}": sum(until - since for since, until, colour, _ in bars if colour == "red")
        for label, bars in partitions.items()
    }

    assert drawn == dict(report.result.figures.downtime_us)


def test_every_state_of_a_member_in_its_group_has_a_colour() -> None:
    """Also while a member of the consumer protocol takes a new assignment."""
    members = dict(lanes_of(made("consumer-protocol-scale-out").report))["members"]

    assert len(members) == 7
    for bars in members.values():
        drawn = sorted((since, until) for since, until, colour, _ in bars if colour)
        assert {"stable", "joining"} <= {colour for _, _, colour, _ in bars}
        assert all(until == since for (_, until), (since, _) in pairwise(drawn))


def test_the_command_draws_what_the_run_drew(tmp_path: Path) -> None:
    """From a trace, beside the trace."""
    trace = tmp_path / "run.kemu"
    trace.write_bytes(traced("catch-up-second-crash").read_bytes())
    said = CliRunner().invoke(kemu, ["report", str(trace), "--format", "svg"])

    assert said.output == f"report: {tmp_path / 'run.svg'}\n"
    assert (tmp_path / "run.svg").read_text(encoding="utf-8") == svg_of(made("catch-up-second-crash").report)


@pytest.mark.parametrize("name", ["second-consumer", "in-batches"])
def test_pictures_of_the_pages_are_up_to_date(name: str) -> None:
    """``python -m lab.docs --write`` rewrites all of them."""
    assert (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == RUNS[name].svg()


def test_each_picture_stands_on_a_page_with_its_command() -> None:
    """A reader can draw the picture again."""
    pages = [path.read_text(encoding="utf-8") for path in DOCS.glob("*/*.md")]

    for name, drawn in RUNS.items():
        assert any(f"(../pictures/{name}.svg)" in page and f"`{drawn.command}`" in page for page in pages), name
