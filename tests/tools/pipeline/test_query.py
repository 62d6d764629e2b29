"""``kemu query``: it answers without Java, reads the analysis and nothing else, and writes nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from kemu.tools.commands.query import as_table
from kemu.tools.commands.query import query as query_command
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.ingest import SCHEMAS
from kemu.tools.pipeline.parts import read_parts
from kemu.tools.pipeline.query import QueryAnswer, ask, tables_and_columns
from kemu.tools.pipeline.query_on_spark import ask_spark
from kemu.tools.pipeline.tables.schemas import DOWNTIME, RUNS
from tests.tools.pipeline.small_analysis import CELL, write_analysis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_analysis(tmp_path / "runs" / "analysis")


def test_a_query_reads_tables_and_summaries(place: Path) -> None:
    """The campaign is part of the files' paths, and a column."""
    runs = ask(place, "select campaign, seed, moved from runs order by seed desc", 2)
    joined = ask(place, "select r.seed from runs r join headline h using (cell) where r.moved = h.moved", 0)

    assert runs == QueryAnswer(("campaign", "seed", "moved"), [("c-1", 3, 30), ("c-1", 2, 20)], more=True)
    assert joined.rows == [(2,)]


def test_a_table_without_rows_has_its_columns(place: Path) -> None:
    """An empty answer is no error."""
    assert ask(place, 'select "group", campaign from downtime', 0) == QueryAnswer(("group", "campaign"), [])
    assert DOWNTIME.names[0] in dict(tables_and_columns(place).rows)["downtime"].split(", ")


def test_columns_of_json_are_left_out_unless_they_are_named(place: Path) -> None:
    """20,000 characters in a table help nobody."""
    everything = ask(place, "select * from runs", 1)
    named = ask(place, "select *, scenario_json from runs", 1)
    only = ask(place, "select result_json from runs", 1)

    assert everything.left_out == ("scenario_json", "result_json")
    assert len(everything.columns) == len(RUNS.names) + 1 - 2
    assert "scenario_json" in named.columns and "result_json" not in named.columns
    assert only.rows == [("{}",)]


ESCAPES = (
    "create table evil as select 1 x",
    "copy runs to '{folder}/out.csv'",
    "copy (select 1) to '{folder}/out.csv'",
    "export database '{folder}/out'",
    "attach '{folder}/out.db'",
    "install httpfs",
    "load httpfs",
    "set threads = 1",
    "set enable_external_access = true",
    "reset enable_external_access",
    "call pragma_version()",
    "select 1; drop view runs",
    "prepare q as select 1",
    "explain analyze select 1",
    "",
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from glob('/etc/*')",
    "select * from parquet_metadata('{parquet}')",
    "select * from read_parquet('{parquet}')",
    "select * from sniff_csv('/etc/passwd')",
    "select getenv('HOME')",
    "select * from place",
    "select * from sql",
)
"""Statements that would write, or read anything else."""


@pytest.mark.parametrize("sql", ESCAPES)
def test_a_query_cannot_write_or_read_anything_else(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """Each is one message, and no file appears."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "empty"
    folder.mkdir()
    before = sorted(tmp_path.rglob("*"))
    (parquet,) = (place / "tables").rglob("*.parquet")

    with pytest.raises(CampaignError, match=r"^the query") as refused:
        ask(place, sql.format(folder=folder, parquet=parquet), 0)

    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("how", ["storage = 'file', ", ""])
def test_duckdb_writes_no_log(place: Path, tmp_path: Path, how: str) -> None:
    """Before 2.0, ``lock_configuration`` does not cover ``enable_logging``; the file stays closed nevertheless."""
    before = sorted(tmp_path.rglob("*"))
    with suppress(CampaignError):
        ask(place, f"select * from enable_logging({how}storage_path = '{tmp_path}/log')", 0)

    assert sorted(tmp_path.rglob("*")) == before


def test_more_than_memory_is_not_put_into_files(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """DuckDB would otherwise use a folder ".tmp" where the user stands."""
    monkeypatch.chdir(tmp_path)

    value = ask(place, "select value from duckdb_settings() where name = 'temp_directory'", 0)

    assert value.rows == [("",)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from runz", 'there is no table "runz"; did you mean "runs"?'),
        ("selec 1", "syntax error"),
        ("select nothing from runs", '"nothing" not found'),
    ],
)
def test_a_wrong_query_is_one_line(place: Path, sql: str, said: str) -> None:
    """Exit code 2, the reason, a hint."""
    outcome = CliRunner().invoke(query_command, [str(place), sql])

    assert outcome.exit_code == 2
    assert said in outcome.output
    assert len(outcome.output.strip().splitlines()) == 1


def test_damaged_tables_are_named(place: Path) -> None:
    """A cut file, and an index that is none."""
    (parquet,) = (place / "tables").rglob("*.parquet")
    parquet.write_bytes(parquet.read_bytes()[:500])
    with pytest.raises(CampaignError, match=r"00000\.parquet"):
        ask(place, "select * from runs", 0)
    for text in ("{", "[]", '{"columns": {"runs": [["a", "x"]]}, "parts": {}}', "[" * 100_000, '{"columns": {}}'):
        (place / "tables" / "parts.json").write_text(text, encoding="utf-8")
        with pytest.raises(CampaignError, match=r"parts\.json is damaged"):
            ask(place, "select 1", 0)


def test_what_is_written_is_read(place: Path) -> None:
    """The columns are those of this kemu."""
    found = read_parts(place / "tables")

    assert found is not None
    assert dict(found.tables) == dict(SCHEMAS)
    assert found.units() == {"c/0": []}


def test_a_query_needs_neither_java_nor_spark(place: Path) -> None:
    """As a user calls it; modules of Spark and of the emulator are not imported."""
    code = (
        "import sys; from kemu.tools.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
        "    print('kemu.emulator.runner' in sys.modules, file=sys.stderr)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, "query", str(place), "select seed from runs order by 1", "--format", "json"],
        capture_output=True, text=True, env={**os.environ, "JAVA_HOME": "/nowhere"},
    )  # fmt: skip

    assert json.loads(outcome.stdout) == [{"seed": 1}, {"seed": 2}, {"seed": 3}]
    assert "pyspark" not in outcome.stderr.split()
    assert outcome.stderr.split()[-1] == "False"


def test_tables_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows with many columns are turned; others are cut, and the last lines name what is missing."""
    monkeypatch.setenv("COLUMNS", "60")
    names = [f"figure_{number}" for number in range(20)]

    turned = as_table([*names, "empty"], [[*range(20), None]])
    wide = as_table(names, [[number] * 20 for number in range(10)])
    long = as_table(["a", "b"], [["x" * 100, "\x1b]0;title\x07"]])

    assert all(len(click.unstyle(line)) <= 60 for lines in (turned[:-1], wide, long[:-1]) for line in lines)
    assert [line.split() for line in turned[:2]] == [["figure_0", "0"], ["figure_1", "1"]]
    assert turned[-1] == "without a value: empty"
    assert long[-1].startswith("cells longer than")
    assert "\\x1b]0;title\\x07" in "\n".join(long)


def test_different_cells_do_not_look_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of cells that differ only at the end lose their middle, not their end."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = as_table(["cell", "runs"], [[f"{'scenario ' * 12}profile=kafka-4.{minor}", 1] for minor in range(3)])

    assert [line.split()[-2] for line in lines[1:4]] == [f"profile=kafka-4.{minor}" for minor in range(3)]
    assert all(line.startswith("scenario scenario") and "…" in line for line in lines[1:4])


def test_spark_answers_the_same_and_cannot_write_or_read_anything_else_either(
    spark: "SparkSession", place: Path, tmp_path: Path
) -> None:
    """``--master``: only a query parses, files are no tables, and programs and Java are not called."""
    answer = ask_spark(spark, place, "select campaign, seed, moved from runs order by seed desc", 2)
    before = sorted(tmp_path.rglob("*"))

    assert answer == ask(place, "select campaign, seed, moved from runs order by seed desc", 2)
    assert ask_spark(spark, place, "select * from headline", 0).rows == [(CELL, 20.0)]
    assert ask_spark(spark, place, "select * from runs", 1).left_out == ("scenario_json", "result_json")
    for sql in (
        "create table evil as select 1 x",
        "insert into runs select * from runs",
        "set spark.sql.runSQLOnFiles = true",
        "add jar '/x'",
        "select * from text.`/etc/passwd`",
        f"select * from parquet.`{place / 'summaries' / 'headline.parquet'}`",
        "select transform(seed) using 'cat /etc/passwd' as (x) from runs",
        "select (select count(x) from (select transform(seed) using 'cat' as (x) from runs))",
        "select java_method('java.lang.System', 'getProperty', 'user.home')",
        "select seed from runs where cell = builtin.reflect('java.lang.System', 'getProperty', 'user.home')",
        "select try_reflect('java.lang.System', 'getProperty', 'user.home')",
        "selec 1",
        "select * from headlines",
    ):
        with pytest.raises(CampaignError, match=r"^the query"):
            ask_spark(spark, place, sql, 0)
    assert sorted(tmp_path.rglob("*")) == before
    assert list(Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")).iterdir()) == []


def test_an_interrupt_ends_a_long_query(place: Path) -> None:
    """DuckDB itself looks for signals after the query."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began_s = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(place, "select count(*) from range(20000000) a, range(1000) b where a.range + b.range = 7", 0)
    finally:
        signal.signal(signal.SIGINT, before)

    assert time.monotonic() - began_s < 5
