"""New chunks and traces into Parquet, each exactly once.

    TABLES/parts.json                                      which parts there are, and what each was made of
    TABLES/part=0003/table=notes/campaign=.../*.parquet    one ingestion's rows

A part counts from the moment ``parts.json`` names it; what a killed ingestion left behind is removed by the next one.
``parts.json`` also says which chunk or file went into which part, so nothing is taken twice.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tools.pipeline.campaign import SPEC, Campaign, CampaignError, load
from tools.pipeline.folds import judged, rebalances_of, with_figures
from tools.pipeline.schemas import (
    EVENTS,
    FAULTS,
    NOTES,
    OF_TRACES,
    REBALANCES,
    RUNS,
    VIOLATIONS,
    Schema,
)
from tools.pipeline.source import KemuSource, run_prefix, trace_files
from tools.pipeline.worker import TRACES

PARTS = "parts.json"
OF_CHUNKS = (RUNS, NOTES, FAULTS, VIOLATIONS, REBALANCES)
FILES_PER_TASK_BYTES = 32 << 20
LONE = "traces"
"""The campaign that traces outside of any campaign belong to."""


@frozen
class New:
    """What was found and has not been ingested yet."""

    chunks: tuple[Path, ...]
    """Folders of chunks."""
    traces: tuple[Path, ...]
    """Trace files outside of campaigns."""
    units: Mapping[str, list[int]]
    """What of it to remember: path -> (bytes, modification time in ns); a chunk's never change."""

    def __bool__(self) -> bool:
        return bool(self.units)


class Tables:
    """A folder of parts."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._known = self._load()

    def _load(self) -> dict[str, dict[str, list[int]]]:
        path = self.folder / PARTS
        if not path.exists():
            return {}
        try:
            known: dict[str, dict[str, list[int]]] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CampaignError(f"{path} is damaged ({error}): remove {self.folder} and analyze anew") from None
        return known

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that count."""
        return tuple(sorted(self._known))

    def units(self) -> dict[str, list[int]]:
        """Everything that was ingested."""
        return {unit: stamp for units in self._known.values() for unit, stamp in units.items()}

    def find_new(self, root: Path) -> New:
        """What lies at or below a folder and is not in any part.

        Raises:
            CampaignError: a trace has changed since it was ingested, or a campaign cannot be read.
        """
        known = self.units()
        units: dict[str, list[int]] = {}
        chunks = []
        for campaign in campaigns_below(root, self.folder):
            for chunk in campaign.chunks:
                name = f"{campaign.id}/{chunk.number}"
                if name not in known and chunk.number in campaign.done():
                    chunks.append(campaign.out / "chunks" / chunk.folder)
                    units[name] = []
        traces = []
        for path in trace_files(root):
            if run_prefix(path) or self.folder in path.parents:
                continue
            status = path.stat()
            stamp = [status.st_size, status.st_mtime_ns]
            name = str(path.resolve())
            if name not in known:
                traces.append(path.resolve())
                units[name] = stamp
            elif known[name] != stamp:
                raise CampaignError(
                    f"{path} has changed since it was analyzed; what was read of it would count twice: "
                    "analyze into another --out"
                )
        return New(tuple(chunks), tuple(traces), units)

    def ingest(self, new: New) -> str:
        """Make a part of it; the part's name."""
        for left in self.folder.glob("part=*"):
            if left.name.removeprefix("part=") not in self._known:
                shutil.rmtree(left)
        name = f"{len(self._known):04d}"
        part = self.folder / f"part={name}"
        self.folder.mkdir(parents=True, exist_ok=True)
        if new.chunks:
            self._ingest_chunks(part, new.chunks)
        if new.traces:
            self._ingest_lone(part, new.traces)
        return name

    def commit(self, name: str, new: New) -> None:
        """From now on the part counts."""
        self._known[name] = dict(new.units)
        fresh = self.folder / f".{PARTS}.{os.getpid()}"
        fresh.write_text(json.dumps(self._known), encoding="utf-8")
        fresh.replace(self.folder / PARTS)

    def read(self, schema: Schema, parts: Sequence[str] | None = None) -> DataFrame:
        """A table: of all parts that count, or of these; its columns, then ``campaign``."""
        names = self.parts if parts is None else parts
        folders = [self.folder / f"part={name}" / f"table={schema.name}" for name in names]
        there = [str(folder) for folder in folders if folder.is_dir()]
        wanted = schema.spark().add("campaign", "string")
        if not there:
            return self.spark.createDataFrame([], wanted)
        return self.spark.read.schema(wanted).option("basePath", str(self.folder)).parquet(*there).select(*wanted.names)

    def write(self, part: str, schema: Schema, rows: DataFrame) -> None:
        """Add rows (a table's columns, then ``campaign``) to a part."""
        place = self.folder / f"part={part}" / f"table={schema.name}"
        rows.write.mode("append").partitionBy("campaign").parquet(str(place))

    # --- ingestion ---------------------------------------------------------------------------------------------

    def _ingest_chunks(self, part: Path, chunks: Sequence[Path]) -> None:
        for schema in OF_CHUNKS:
            files = [str(folder / f"{schema.name}.parquet") for folder in chunks]
            rows = self.spark.read.schema(schema.spark()).parquet(*files)
            tasks = 1 + sum(os.path.getsize(file) for file in files) // FILES_PER_TASK_BYTES
            rows = rows.withColumn("campaign", F.substring_index("run_id", "/", 1)).coalesce(tasks)
            self.write(part.name.removeprefix("part="), schema, rows)
        traces = [folder / TRACES for folder in chunks if (folder / TRACES).exists()]
        if traces:
            self._ingest_traces(part, traces, leave_out=(RUNS, FAULTS, VIOLATIONS))

    def _ingest_lone(self, part: Path, traces: Sequence[Path]) -> None:
        name = part.name.removeprefix("part=")
        self._ingest_traces(part, traces, leave_out=(RUNS,))
        told = self._events(traces, RUNS).drop("campaign").cache()
        notes = self.read(NOTES, [name]).where(F.col("campaign") == LONE)
        verdicts = judged(notes, told).cache()
        campaign = F.lit(LONE).alias("campaign")
        self.write(name, RUNS, with_figures(told, verdicts).select("*", campaign))
        self.write(name, REBALANCES, rebalances_of(verdicts).select("*", campaign))
        verdicts.unpersist()
        told.unpersist()

    def _ingest_traces(self, part: Path, traces: Sequence[Path], leave_out: Sequence[Schema]) -> None:
        """All tables in one pass over the files."""
        wanted = [schema.name for schema in OF_TRACES if schema not in leave_out]
        events = self._events(traces, EVENTS).where(F.col("table").isin(wanted))
        events.write.mode("append").partitionBy("table", "campaign").parquet(str(part))

    def _events(self, traces: Sequence[Path], schema: Schema) -> DataFrame:
        self.spark.dataSource.register(KemuSource)
        reader = self.spark.read.format("kemu").option("files", json.dumps([str(path) for path in traces]))
        if schema is not EVENTS:
            reader = reader.option("table", schema.name)
        path = F.coalesce("run_id", "path") if schema is EVENTS else F.col("run_id")
        # A campaign's runs are named campaign/cell/seed, lone ones by their file's absolute path.
        lone = path.startswith("/") | path.contains(":")
        return reader.load().withColumn("campaign", F.when(lone, LONE).otherwise(F.substring_index(path, "/", 1)))


def campaigns_below(root: Path, leave_out: Path) -> list[Campaign]:
    """Every campaign at or below a folder."""
    if root.is_file():
        return []
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name != "chunks" and Path(folder, name) != leave_out
        )
        if SPEC in names:
            found.append(load(Path(folder)))
    return found
