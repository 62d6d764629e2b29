"""One Spark session and one small campaign for all tests of this folder."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.pipeline.campaign import Campaign, begin, run_rest
from kemu.tools.pipeline.cells import Spec, make_cells
from kemu.tools.pipeline.run import analyze
from kemu.tools.pipeline.session import FEW_ROWS, start_spark
from kemu.tools.pipeline.shipping import fingerprint
from tests.tools.pipeline.lone import Analyzed, LoneRuns, make_lone_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {**FEW_ROWS, "spark.default.parallelism": "2"}
SHORT = (
    "test_every_run_has_the_digest_of_kemu_run",
    "test_executors_find_that_a_run_which_must_fail_does",
    "test_a_folder_of_traces_is_one_table_of_all_kinds",
    "test_what_cannot_be_read_is_a_table_of_its_own",
)
"""The tests with Spark in the short set: they need the small campaign, and no analysis."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives a minute."""

SMALL = """
summary = "Three members, one of which is away for longer than its session"
duration = "{duration}"
[topics.orders]
partitions = 4
rate = "4/s"
[groups.g]
topics = ["orders"]
members = 3
start_spread = "1s"
[groups.g.config]
session.timeout.ms = 8000
[[plan]]
at = "12s"
do = "crash"
host = "c1"
for = "10s"
[checks]
stable_within = "{within}"
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share the session run in one process; only a few of them belong to the short set.

    The hook comes first, because pytest-xdist and ``-m`` read the marks in the same hook.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            if config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("spark"))
            if getattr(item, "originalname", "") not in SHORT:
                item.add_marker(pytest.mark.full("Spark plans each query for a second; an analysis takes a minute"))


def write_small(folder: Path, *, name: str = "small", duration: str = "40s", within: str = "60s") -> Path:
    """A scenario whose runs take a few hundredths of a second."""
    path = folder / f"{name}.toml"
    path.write_text(SMALL.replace("{within}", within).replace("{duration}", duration), encoding="utf-8")
    return path


def write_mixed(folder: Path, seeds: range) -> Path:
    """The same with a bound for getting well again that some of these seeds keep and others do not."""
    low_us, high_us = 1, 60_000_000
    while low_us < high_us:
        middle_us = (low_us + high_us) // 2
        path = write_small(folder, name="mixed", duration="14s", within=f"{middle_us}us")
        scenario = load_scenario(path)
        holding = sum(run(scenario, seed=seed, loop="bare").verdict == "holds" for seed in seeds)
        if 0 < holding < len(seeds):
            return path
        low_us, high_us = (low_us, middle_us) if holding else (middle_us + 1, high_us)
    raise AssertionError("all seeds take equally long")


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario that some of the seeds 1 to 8 hold and others do not."""
    return write_mixed(tmp_path_factory.mktemp("mixed"), range(1, 9))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    if hasattr(request.config, "workerinput"):
        # All processes of a run have their folders in one; a second session would double minutes, unnoticed.
        (tmp_path_factory.getbasetemp().parent / "spark runs").touch(exist_ok=False)
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = start_spark("tests", master="local[2]", log=log, settings=SETTINGS, java_options=QUICK)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def small_campaign(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two cells of six seeds, every trace kept; beside it a lone trace, a torn one and a file that is none."""
    root = tmp_path_factory.mktemp("campaign")
    cells = make_cells([str(write_small(root))], ["kafka-2.4", "kafka-3.4"], [])
    campaign = begin(root, Spec(cells, 1, 6, "all", fingerprint()), {0: 1.0, 1: 1.5}, 1)
    run_rest(spark.sparkContext, campaign, lambda lines, done: None)
    scenario = load_scenario(root / "small.toml")
    run(scenario, seed=50, loop="bare", trace=root / "lone.kemu")
    content = (root / "lone.kemu").read_bytes()
    (root / "torn.kemu").write_bytes(content[: len(content) * 2 // 3])
    (root / "foreign.kemu").write_text("not a trace", encoding="utf-8")
    return campaign


@pytest.fixture(scope="session")
def lone_runs(tmp_path_factory: pytest.TempPathFactory) -> LoneRuns:
    """Runs that violate, replicate and reassign, as traces in one folder."""
    return make_lone_runs(tmp_path_factory.mktemp("lone"))


@pytest.fixture(scope="session")
def lone(spark: "SparkSession", lone_runs: LoneRuns) -> Analyzed:
    """The same, analyzed once for all that ask."""
    out = lone_runs.root / "analysis"
    return Analyzed(out, analyze(spark.sparkContext, lone_runs.root, out, say=lambda text: None))
