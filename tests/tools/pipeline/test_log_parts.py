"""Logs on Spark: the events and the account are those of one process."""

from pathlib import Path
from typing import TYPE_CHECKING

from kemu.tools.logs.parts import ReadLogs, parts_of
from kemu.tools.pipeline.log_parts import events_on_spark
from tests.tools.logs.test_parts import unpacked
from tests.tools.logs.test_recordings import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_gives_the_same_events(spark: "SparkSession", tmp_path: Path) -> None:
    """Tasks on Spark read parts of 5 kB; the driver puts the events in order."""
    paths = unpacked(tmp_path, "d-sticky-kill/server.log", "d-sticky-kill/consumers-c2.log")
    packed = FOLDER / "d-sticky-kill" / "consumers.log.gz"
    whole, divided = (ReadLogs(parts_of([*paths, packed], (), {}, size)) for size in (1 << 30, 5_000))

    assert list(events_on_spark(spark.sparkContext, divided)) == list(whole.events())
    assert [one.records for one in divided.summaries] == [one.records for one in whole.summaries]
