"""An analysis of a small campaign, a lone trace, a torn and a foreign file: right, complete, incremental."""

import csv
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.commands.analyze import as_dict as analysis_as_dict
from kemu.tools.commands.query import as_table
from kemu.tools.pipeline.campaign import Campaign
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.ingest import Tables, Views, register
from kemu.tools.pipeline.quality import check
from kemu.tools.pipeline.query import QueryAnswer, ask, tables_and_columns
from kemu.tools.pipeline.run import Analysis, analyze
from kemu.tools.pipeline.summaries import SUMMARIES
from kemu.tools.pipeline.tables.derived import DERIVED
from kemu.tools.pipeline.tables.schemas import FAULTS, REBALANCES, RECORDED, RUNS
from kemu.tools.report.run_report import as_dict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def analysis(spark: "SparkSession", small_campaign: Campaign) -> Analysis:
    return analyze(spark.sparkContext, small_campaign.out, small_campaign.out / "analysis", say=lambda text: None)


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", small_campaign: Campaign, analysis: Analysis) -> Tables:
    return Tables(spark.sparkContext, (small_campaign.out / "analysis" / "tables").resolve())


def test_every_constraint_holds_and_everything_unreadable_is_listed(
    small_campaign: Campaign, analysis: Analysis
) -> None:
    """Right result, never silently less. The constraints compare Spark's sums with the runs' own metrics."""
    assert analysis.broken == []
    assert [(Path(bad["path"]).name, bad["why"][:20]) for bad in analysis.bad_records] == [
        ("foreign.kemu", "not a kemu trace"),
        ("torn.kemu", "the file ends inside"),
    ]
    assert analysis.rows["runs"] == 14
    assert analysis.new_units == len(small_campaign.chunks) + 3
    of_others = {"isr_changes", "leaderships", "leaderless", "task_intervals", "epochs", "member_epochs"}
    assert {name for name in DERIVED if not analysis.rows[name]} == of_others
    assert json.loads(json.dumps(analysis_as_dict(analysis)))["rows"] == analysis.rows


def test_the_numbers_are_those_of_kemu_run(small_campaign: Campaign, tables: Tables) -> None:
    """Numbers in Spark equal ``kemu run --format json`` on every run, and on lone traces too."""
    rows = {row["run_id"]: row.asDict() for row in tables.read(RUNS).where("verdict is not null").collect()}
    downtime: dict[str, dict[str, int]] = {}
    register(Views(tables), "downtime")
    for row in tables.spark.sql(
        "select run_id, `group`, partition, sum(until_us - from_us) us from downtime group by all"
    ).collect():
        downtime.setdefault(row["run_id"], {})[f"{row['group']}/{row['partition']}"] = row["us"]
    lone = str((small_campaign.out / "lone.kemu").resolve())

    for run_id, row in rows.items():
        scenario = load_scenario(small_campaign.out / "small.toml")
        result = as_dict(run(scenario, seed=row["seed"], profile=row["profile"], loop="bare"))
        assert (row["digest"], row["verdict"]) == (result["digest"], result["verdict"])
        for name in ("steps", "messages", "virtual_us", "reprocessed", "lost", "skipped", "zombie_records"):
            assert row[name] == result[name], name
        assert row["rebalances"] == len(result["rebalances"])
        assert row["processed"] == result["records"]["processed"]
        assert downtime.get(run_id, {}) == {name: us for name, us in result["downtime_us"].items() if us}
        if row["result_json"] is None:
            assert run_id.startswith(lone)
        else:
            told = json.loads(row["result_json"])
            assert {**told, "wall_s": 0} == json.loads(json.dumps({**result, "wall_s": 0}))
    assert len(rows) == 13


def test_tables_have_their_declared_schemas(tables: Tables, analysis: Analysis) -> None:
    """What is read back is the contract plus the campaign."""
    for schema in (*RECORDED.values(), *DERIVED.values()):
        table = tables.read(schema)
        assert table.schema == schema.spark().add("campaign", "string"), schema.name


def test_summaries_are_exported_for_notebooks(small_campaign: Campaign, analysis: Analysis) -> None:
    """CSV and JSON beside Parquet, the same rows."""
    folder = small_campaign.out / "analysis" / "summaries"
    for name in SUMMARIES:
        rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            assert len(list(csv.DictReader(file))) == len(rows)
    cells = [(row["cell"], row["runs"], row["torn"]) for row in analysis.headline]
    assert cells == [("small kafka-2.4", 6, 0), ("small kafka-3.4", 6, 0), ("small kafka-3.4", 2, 1)]
    shown = as_table(list(analysis.headline[0]), [list(row.values()) for row in analysis.headline])
    assert click.unstyle(shown[0]).split()[:3] == ["campaign", "cell", "runs"]


def test_a_second_analysis_reads_only_what_is_new(
    spark: "SparkSession", small_campaign: Campaign, analysis: Analysis, tmp_path: Path
) -> None:
    """Incremental; a file that changed is refused, since what was read of it would count twice."""
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(small_campaign.out / "lone.kemu", root / "a.kemu")
    folder = (tmp_path / "tables").resolve()

    def take() -> int:
        tables = Tables(spark.sparkContext, folder)
        new = tables.find_new(root)
        if new:
            tables.commit(tables.ingest(new)[0], new)
        return len(new.units)

    taken = [take(), take()]
    (folder / "part=0001" / "table=runs").mkdir(parents=True)
    (folder / "part=0001" / "left-by-a-killed-analysis").touch()
    shutil.copy(small_campaign.out / "lone.kemu", root / "b.kemu")
    taken.append(take())

    assert taken == [1, 0, 1]
    assert Tables(spark.sparkContext, folder).read(RUNS).count() == 2
    assert not (folder / "part=0001" / "left-by-a-killed-analysis").exists()
    with (root / "b.kemu").open("ab") as file:
        file.write(b"more")
    with pytest.raises(CampaignError, match="has changed since it was analyzed"):
        Tables(spark.sparkContext, folder).find_new(root)


def test_tables_of_a_kemu_with_other_columns_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    """Old parts would lack what new ones have, and nobody would see it."""
    for columns, said in (
        ("0", "if an older kemu made it, remove"),
        ({"runs": [["run_id", "string"]]}, "other tables or columns"),
    ):
        (tmp_path / "parts.json").write_text(json.dumps({"columns": columns, "parts": {}}), encoding="utf-8")

        with pytest.raises(CampaignError, match=said):
            Tables(spark.sparkContext, tmp_path)


def test_a_constraint_that_does_not_hold_is_found(spark: "SparkSession", tables: Tables) -> None:
    """Otherwise the checks above prove nothing. A table without rows is not read, and its sums are 0."""
    runs = tables.read(RUNS).where("verdict is not null").limit(3).cache()
    wrong = runs.unionByName(runs.limit(1)).selectExpr("* except (digest)", "'short' as digest")
    moved = runs.where("moved > 0").count()
    stray = tables.read(FAULTS).limit(1).selectExpr("* except (run_id)", "'nobody' as run_id")
    asked = {"runs": wrong, "faults": stray, "rebalances": tables.read(REBALANCES)}
    found = {
        (broken.constraint.name, broken.rows) for broken in check(asked, {"runs": 4, "faults": 1, "rebalances": 0})
    }

    assert found == {
        ("(run_id) is unique", 1),
        ("a digest has 32 hexadecimal digits", 4),
        ("every row belongs to a run", 1),
        ("adds up to runs.rebalances", 3),
        *([("adds up to runs.moved", moved)] if moved else []),
    }


def test_tables_and_summaries_can_be_asked_in_sql(small_campaign: Campaign, analysis: Analysis) -> None:
    """``kemu query``: every table that Spark wrote, and every summary."""
    out = small_campaign.out / "analysis"

    answer = ask(out, "select cell, runs from headline order by cell, runs", 2)
    listed = {row[0] for row in tables_and_columns(out).rows}

    assert answer == QueryAnswer(("cell", "runs"), [("small kafka-2.4", 6), ("small kafka-3.4", 2)], more=True)
    assert listed == {*RECORDED, *DERIVED, *SUMMARIES}
    for name in listed:
        columns = ", ".join(f'count("{column}")' for column in ask(out, f"select * from {name}", 1).columns)
        ((rows, *_),) = ask(out, f"select count(*), {columns} from {name}", 0).rows
        assert name in SUMMARIES or rows == analysis.rows[name]


def test_a_folder_with_nothing_in_it_is_a_clear_error(spark: "SparkSession", tmp_path: Path) -> None:
    """Not an empty table."""
    with pytest.raises(CampaignError, match="neither a campaign's results nor a trace"):
        analyze(spark.sparkContext, tmp_path, tmp_path / "out", say=lambda text: None)
