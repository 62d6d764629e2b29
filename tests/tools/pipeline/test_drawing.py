"""The page of a campaign: it comes from tables and summaries without Spark, and leads to the pages of failed runs."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from kemu.emulator.watching.interruptions import Cause
from kemu.tools.cli import kemu
from kemu.tools.pipeline.campaign import Campaign, begin
from kemu.tools.pipeline.cells import Spec, make_cells
from kemu.tools.pipeline.ingest import SCHEMAS
from kemu.tools.pipeline.parts import Parts
from kemu.tools.pipeline.shipping import fingerprint
from kemu.tools.pipeline.worker import run_chunk
from tests.tools.pipeline.conftest import write_mixed
from tests.tools.report.reading import ReadPage, read_page

SEEDS = range(1, 5)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two cells of four seeds, of which some fail, with the tables and summaries that ``kemu analyze`` makes."""
    root = tmp_path_factory.mktemp("campaign")
    cells = make_cells([str(write_mixed(root, SEEDS))], ["kafka-2.4", "kafka-3.4"], [])
    spec = Spec(cells, SEEDS[0], SEEDS[-1], "failing", fingerprint())
    made = begin(root, spec, {0: 1.0, 1: 1.0}, 1)
    for chunk in made.chunks:
        run_chunk(str(root), made.id, chunk, cells[chunk.cell], spec.keep_traces, spec.fingerprint)
    part = root / "analysis" / "tables" / "part=0000"
    for name in SCHEMAS:
        for place in sorted((root / "chunks").glob(f"*/{name}.parquet")):
            folder = part / f"table={name}" / f"campaign={made.id}"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, folder / f"{place.parent.name}.parquet")
    Parts(part.parent, SCHEMAS, {}).adding("0000", {"chunks": []})
    _summaries(made, root / "analysis" / "summaries")
    return made


def _summaries(campaign: Campaign, folder: Path) -> None:
    """The two summaries that the page reads, as the functions on Spark define them."""
    folder.mkdir()
    runs, downtime = ((campaign.out / "chunks" / "*" / f"{name}.parquet").as_posix() for name in ("runs", "downtime"))
    parts = ", ".join(
        f'sum("{cause.name.lower()}_us") / sum(until_us - from_us) as "{cause.name.lower()}"' for cause in Cause
    )
    duckdb.sql(
        f"copy (select '{campaign.id}' as campaign, cell, cause, sum(until_us - from_us) / 1e6 as partition_s, {parts} "
        f"from '{downtime}' join '{runs}' using (run_id) group by cell, cause) to '{folder}/downtime_by_cause.parquet'"
    )
    duckdb.sql(
        f"copy (select '{campaign.id}' as campaign, cell, 0 as did_not_work, null::varchar as why "
        f"from '{runs}' group by cell) to '{folder}/headline.parquet'"
    )


@pytest.fixture(scope="module")
def page(campaign: Campaign) -> ReadPage:
    """The page, made by the command without Spark."""
    before = sys.modules.get("pyspark.sql")
    said = CliRunner().invoke(kemu, ["report", str(campaign.out)])
    assert (said.exit_code, said.output) == (0, f"report: {campaign.out / 'report.html'}\n"), said.output
    assert sys.modules.get("pyspark.sql") is before, "Spark was loaded"
    return read_page((campaign.out / "report.html").read_text(encoding="utf-8"))


def results_of(campaign: Campaign) -> list[list[dict[str, Any]]]:
    """The rows of runs by cell, in the order of the seeds."""
    runs = (campaign.out / "chunks" / "*" / "runs.parquet").as_posix()
    found = duckdb.sql(f"select * from '{runs}' order by cell, seed")
    assert found is not None
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    return [[row for row in rows if row["cell"] == cell.name] for cell in campaign.spec.cells]


def test_the_page_has_the_cells_in_the_order_of_the_campaign_with_their_values(
    campaign: Campaign, page: ReadPage
) -> None:
    """Of each seed; the labels are short, and the command repeats the campaign."""
    cells = page.texts["cells"]
    names = [each["name"] for each in page.texts["figures"]]
    values = {(names[figure], cell, seed): value for figure, cell, seed, value in page.frames["values"].rows()}

    assert [(cell["name"], cell["short"], cell["runs"]) for cell in cells] == [
        ("kafka-2.4", "2.4", 4),
        ("kafka-3.4", "3.4", 4),
    ]
    assert page.head["command"].startswith(f"kemu campaign {campaign.spec.cells[0].source} --profiles kafka-2.4,kafka")
    assert page.head["command"].endswith(f"--seeds 1:4 --out {campaign.out}")
    for cell, rows in enumerate(results_of(campaign)):
        for row in rows:
            assert values["downtime_sum", cell, row["seed"]] == row["downtime_us"]
            assert values["processed", cell, row["seed"]] == row["processed"]


def test_the_stacked_causes_are_the_downtime(campaign: Campaign, page: ReadPage) -> None:
    """Shares of a total in the summary, so a microsecond may be lost in each part."""
    for cell, rows in enumerate(results_of(campaign)):
        drawn = [us for of, _, us in page.frames["causes"].rows() if of == cell]

        assert sum(drawn) == pytest.approx(sum(row["downtime_us"] for row in rows), abs=len(drawn))


def test_failed_runs_have_commands_reasons_and_pages(campaign: Campaign, page: ReadPage) -> None:
    """Traces of failed runs are kept, so each has a page, whose address is relative."""
    failing = list(page.frames["failing"].rows())
    wanted = [
        (cell, row["seed"], row["verdict"], row["command"])
        for cell, rows in enumerate(results_of(campaign))
        for row in rows
        if row["verdict"] != "holds"
    ]

    assert [(cell, seed, verdict, command) for cell, seed, verdict, _, command, _ in failing] == wanted
    assert 0 < len(wanted) < 8
    for _, seed, verdict, reason, command, address in failing:
        assert reason
        run = read_page((campaign.out / address).read_text(encoding="utf-8"))
        assert (run.texts["seed"], run.texts["verdict"], run.head["command"]) == (seed, verdict, command)


def test_json_has_the_same_cells(campaign: Campaign, page: ReadPage) -> None:
    """On the standard output."""
    said = CliRunner().invoke(kemu, ["report", str(campaign.out), "--format", "json"])
    told = json.loads(said.stdout)

    assert [cell["variant"] for cell in told["cells"]] == [cell["name"] for cell in page.texts["cells"]]
    assert told["cells"][0]["figures"]["moved"].keys() == {"median", "low", "high", "p95", "max"}


def test_a_folder_without_an_analysis_is_one_message(tmp_path: Path) -> None:
    """With the command that makes one."""
    said = CliRunner().invoke(kemu, ["report", str(tmp_path)])

    assert said.exit_code == 2
    assert said.output == f"error: {tmp_path} has not been analyzed: kemu analyze {tmp_path}\n"
