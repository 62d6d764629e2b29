"""``format("kemu")`` in Spark: batch and streaming."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kemu.emulator.trace.traces import read_runs
from kemu.tools.pipeline.campaign import Campaign
from kemu.tools.pipeline.source import KemuSource
from kemu.tools.pipeline.tables.schemas import BAD_RECORDS, EVENTS, OF_TRACES, PACKETS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_folder_of_traces_is_one_table_of_all_kinds(spark: "SparkSession", small_campaign: Campaign) -> None:
    """Whole, torn and foreign files together; the counts are those of the files' own footers."""
    spark.dataSource.register(KemuSource)
    events = spark.read.format("kemu").load(str(small_campaign.out)).cache()
    counts = {row["table"]: row["count"] for row in events.groupBy("table").count().collect()}
    told = events.where("table = 'runs'").select("run_id", "verdict", "steps", "digest").collect()

    assert events.schema == EVENTS.spark()
    assert counts["runs"] == 14
    assert counts["bad_records"] == 2
    whole = [row for row in told if row["verdict"] is not None]
    steps = events.where("table = 'steps'").groupBy("run_id").count().collect()
    by_run = {row["run_id"]: row["count"] for row in steps}
    assert len(whole) == 13
    assert all(by_run[row["run_id"]] == row["steps"] for row in whole)
    digests = {(line.cell, line.seed): line.digest for line in small_campaign.lines()}
    named = {row["run_id"]: row["digest"] for row in whole}
    for (cell, seed), digest in digests.items():
        assert named[f"{small_campaign.id}/{cell}/{seed}"] == digest
    events.unpersist()


def test_one_table_has_its_own_narrow_schema(spark: "SparkSession", small_campaign: Campaign) -> None:
    """Explicit: nothing is inferred from the data; a table there is not is an error that names those there are."""
    spark.dataSource.register(KemuSource)
    lone = small_campaign.out / "lone.kemu"
    packets = spark.read.format("kemu").option("table", "packets").load(str(lone))

    assert packets.schema == PACKETS.spark()
    (trace,) = read_runs(lone)
    assert packets.count() == sum(type(record).__name__ == "PacketRecord" for record in trace.records())
    with pytest.raises(Exception, match="there are: " + ", ".join(schema.name for schema in OF_TRACES)):
        spark.read.format("kemu").option("table", "pakets").load(str(lone)).count()


def test_what_cannot_be_read_is_a_table_of_its_own(spark: "SparkSession", small_campaign: Campaign) -> None:
    """One row per torn or foreign file, with where and why."""
    spark.dataSource.register(KemuSource)
    bad = spark.read.format("kemu").option("table", "bad_records").load(str(small_campaign.out))

    rows = bad.orderBy("path").collect()

    assert bad.schema == BAD_RECORDS.spark()
    assert [(Path(row["path"]).name, row["at_byte"] > 0) for row in rows] == [
        ("foreign.kemu", False),
        ("torn.kemu", True),
    ]
    assert all(row["why"] and row["unread_bytes"] > 0 for row in rows)


def test_a_table_read_alone_says_aloud_which_files_were_bad(
    small_campaign: Campaign, caplog: pytest.LogCaptureFixture
) -> None:
    """Never silently less. The reader as an executor calls it."""

    def lines(**options: str) -> list[str]:
        source = KemuSource({"path": str(small_campaign.out), **options})
        reader = source.reader(source.schema())
        caplog.clear()
        for part in reader.partitions():
            for batch in reader.read(part):
                assert batch.schema.names == source.schema().names
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    foreign, torn = lines(table="packets")

    assert "foreign.kemu: byte 0: not a kemu trace" in foreign
    assert "torn.kemu: byte " in torn and 'table "packets" may lack rows; table "bad_records" lists it' in torn
    assert len(lines(table="runs")) == 2
    assert lines(table="bad_records") == lines() == lines(table="packets", warn="false") == []


def test_a_stream_over_a_growing_folder_reads_everything_once(
    spark: "SparkSession", small_campaign: Campaign, tmp_path: Path
) -> None:
    """A directory that is being written: half a file, then the rest, then another one."""
    spark.dataSource.register(KemuSource)
    content = (small_campaign.out / "lone.kemu").read_bytes()
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()

    def read_what_is_there() -> None:
        stream = spark.readStream.format("kemu").option("table", "steps").load(str(folder))
        place = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "at"))
        place.trigger(availableNow=True).start(str(out)).awaitTermination()

    (folder / "a.kemu").write_bytes(content[: len(content) // 2])
    read_what_is_there()
    some = spark.read.parquet(str(out)).count()
    (folder / "a.kemu").write_bytes(content)
    (folder / "b.kemu").write_bytes(content)
    read_what_is_there()

    rows = spark.read.parquet(str(out)).groupBy("run_id").count().collect()
    (trace,) = read_runs(small_campaign.out / "lone.kemu")
    steps = sum(type(record).__name__ == "Step" for record in trace.records())
    assert 0 < some < steps
    assert [row["count"] for row in rows] == [steps, steps]
    assert json.dumps(sorted(row["run_id"].rpartition("/")[2] for row in rows)) == '["a.kemu@16", "b.kemu@16"]'
