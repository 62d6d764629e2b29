"""Pages of presets that several tests look at, made once in each process."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.report.collecting import Collector, RunReport
from kemu.tools.report.page import page_of
from tests.tools.report.reading import ReadPage, read_page

ONE_PROCESS = pytest.mark.xdist_group("pages")
"""The mark of tests that look at these pages."""
SIX = (
    *("rolling-restart-dynamic", "cooperative-rolling-restart", "broker-crash-and-return"),
    *("streams-scale-down-by-half", "reassign-controller-dies", "catch-up-second-crash"),
)  # fmt: skip
"""Eager, cooperative, replicated, Streams, reassignment, catch-up."""


class MadePage(NamedTuple):
    """A report of a run, its page, and the data of the page."""

    report: RunReport
    page: str
    read: ReadPage


@cache
def made(preset: str) -> MadePage:
    """The page of a preset, collected during the run."""
    scenario, collector = load_scenario(preset), Collector(pictures=True)
    result = run(scenario, seed=1, loop="bare", readers=collector.readers, recorder=collector.recorder)
    report = collector.finish(result, scenario, f"kemu run {preset} --seed 1")
    page = page_of(report)
    return MadePage(report, page, read_page(page))


@cache
def traced(preset: str) -> Path:
    """The trace of a preset, kept until the process ends."""
    place = Path(_FOLDER.name) / f"{preset}.kemu"
    run(load_scenario(preset), seed=1, loop="bare", trace=place)
    return place


_FOLDER = TemporaryDirectory(prefix="kemu-report-tests-")
