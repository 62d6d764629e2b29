"""Write new chunks and traces as Parquet, each exactly once.

Executors decode traces, compute figures and write Parquet through Arrow. Rows do not pass through Spark's Java process,
which would need several times as long for tables with so many columns.

``parts.json`` (``parts``) records the chunks and files of each part, so that no chunk or file is ingested twice. The
next ingestion deletes invalid parts of a killed ingestion. An analysis refuses parts of a kemu with other columns.
"""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.campaign import SPEC, Campaign, load
from kemu.tools.pipeline.decode import Span
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.parts import CAMPAIGN, Parts, read_parts
from kemu.tools.pipeline.session import in_background, session_of_context
from kemu.tools.pipeline.source import batches, run_prefix, spans_of, trace_files
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.derived import DERIVED
from kemu.tools.pipeline.tables.schemas import (
    BAD_RECORDS,
    COUNTED,
    FAULTS,
    NOTES,
    OF_TRACES,
    PACKETS,
    RECORDED,
    RUNS,
    STEPS,
    VIOLATIONS,
)
from kemu.tools.pipeline.worker import TRACES, ChunkFailed

OF_CHUNKS = (RUNS, NOTES, FAULTS, VIOLATIONS, *COUNTED)
OF_CAMPAIGN_TRACES = frozenset(schema.name for schema in (STEPS, PACKETS, NOTES, BAD_RECORDS))
"""The tables that an ingestion reads from a campaign's traces; the chunks contain the other tables as Parquet."""
OF_LONE_TRACES = frozenset(schema.name for schema in (*OF_TRACES, *COUNTED))
"""The tables that an ingestion reads or computes from traces outside campaigns, including the tables of metrics."""
JOB_BYTES = 48 << 20
ONE_TASK_BYTES = 2 << 20
"""Largest table that one task reads whole, so that Spark plans no exchange between tasks, for some 100 runs."""
GROUP_ROWS = 1 << 17
"""Maximum number of rows in a row group of a Parquet file."""
T = TypeVar("T")
LONE = "traces"
"""Value of the column ``campaign`` for traces outside campaigns."""


@frozen
class New:
    """Chunks and traces that no part contains yet."""

    chunks: tuple[Path, ...]
    """Folders of chunks."""
    traces: tuple[Path, ...]
    """Trace files outside campaigns."""
    units: Mapping[str, list[int]]
    """Path -> (bytes, modification time in ns), with which a later analysis detects changed traces."""

    def __bool__(self) -> bool:
        return bool(self.units)


SCHEMAS: Mapping[str, Schema] = {**RECORDED, **DERIVED}
"""Every table of this version of kemu."""


class Tables:
    """The tables of an analysis, in a folder of parts.

    Raises:
        CampaignError: ``parts.json`` is damaged, or lists other columns than this version of kemu has.
    """

    def __init__(self, context: SparkContext, folder: Path) -> None:
        self.context = context
        self.folder = folder
        self._session: Callable[[], SparkSession] = session_of_context
        self.known = read_parts(folder) or Parts(folder, SCHEMAS, {})
        if self.known.tables != SCHEMAS:
            raise CampaignError(
                f"{folder} was made by a kemu with other tables or columns: its parts would hold less than new "
                "ones; remove it and analyze anew, or analyze into another --out"
            )

    @cached_property
    def spark(self) -> SparkSession:
        """The session that reads and writes the tables."""
        return self._session()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the valid parts."""
        return tuple(sorted(self.known.parts))

    def find_new(self, root: Path) -> New:
        """Return the chunks and traces at or below a folder that no part contains.

        Raises:
            CampaignError: a trace has changed since its ingestion, or a campaign cannot be read.
        """
        known = self.known.units()
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

    def ingest(self, new: New) -> tuple[str, frozenset[str]]:
        """Make a part from new chunks and traces; return the name of the part, and the types of its facts."""
        for left in self.folder.glob("part=*"):
            if left.name.removeprefix("part=") not in self.known.parts:
                shutil.rmtree(left)
        name = f"{len(self.known.parts):04d}"
        part = self.folder / f"part={name}"
        part.mkdir(parents=True)
        jobs = jobs_of(new, part, self.context.defaultParallelism)
        self._session = in_background(session_of_context)  # Python workers do most of the work meanwhile
        facts = self.context.parallelize(jobs, len(jobs)).map(convert).collect()
        return name, frozenset[str]().union(*facts)

    def commit(self, name: str, new: New) -> None:
        """Make a part valid: write its name, chunks and files into ``parts.json``."""
        self.known = self.known.adding(name, new.units)

    def read(self, schema: Schema, parts: Sequence[str] | None = None) -> DataFrame:
        """The rows of a table in all valid parts, or in ``parts``, with a last column ``campaign``."""
        there = [str(place) for place in self.known.folders(schema.name, self.parts if parts is None else parts)]
        wanted = schema.spark().add(CAMPAIGN, "string")
        if not there:
            nothing = [f"cast(null as {column.dataType.simpleString()}) `{column.name}`" for column in wanted]
            return self.spark.range(1).where("false").selectExpr(*nothing)  # Spark plans no work for such a table
        rows = self.spark.read.schema(wanted).option("basePath", str(self.folder)).parquet(*there).drop("part", "table")
        size = sum(path.stat().st_size for place in there for path in Path(place).glob(f"{CAMPAIGN}=*/*.parquet"))
        return rows.coalesce(1) if size <= ONE_TASK_BYTES else rows

    def write(self, part: str, schema: Schema, rows: DataFrame) -> None:
        """Write rows of a table, with a last column ``campaign``, into a part."""
        place = self.folder / f"part={part}" / f"table={schema.name}"
        rows.write.mode("append").partitionBy(CAMPAIGN).parquet(str(place))


class Views(Mapping[str, DataFrame]):
    """Name -> table, of all valid parts or of ``parts``; a table is read when it is first asked for."""

    def __init__(self, tables: Tables, parts: Sequence[str] | None = None) -> None:
        self._tables = tables
        self._parts = parts
        self._read: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._read:
            self._read[name] = self._tables.read(SCHEMAS[name], self._parts)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SCHEMAS)

    def __len__(self) -> int:
        return len(SCHEMAS)


def register(tables: Mapping[str, DataFrame], sql: str) -> None:
    """Register the tables that the SQL names as Spark views with their names."""
    words = set(re.findall(r"\w+", sql.lower()))
    for name in tables:
        if name in words:
            tables[name].createOrReplaceTempView(name)


@frozen
class IngestJob:
    """The work of one task: tables of chunks to merge into larger files, and traces to decode."""

    part: str
    campaign: str
    number: int
    chunks: tuple[str, ...]
    spans: tuple[Span, ...]
    tables: frozenset[str]
    """The tables to decode from the spans."""


def jobs_of(new: New, part: Path, cores: int) -> list[IngestJob]:
    """Divide the work into tasks of similar size: a task with several small files, or with a part of a large file."""
    jobs: list[IngestJob] = []

    def add(campaign: str, chunks: Sequence[Path], spans: Sequence[Span], tables: frozenset[str]) -> None:
        jobs.append(IngestJob(str(part), campaign, len(jobs), tuple(map(str, chunks)), tuple(spans), tables))

    by_campaign: dict[str, list[Path]] = {}
    for chunk in new.chunks:
        by_campaign.setdefault(run_prefix(chunk / TRACES).rpartition("/")[0], []).append(chunk)
    for campaign, chunks in by_campaign.items():
        sized = [(chunk, sum(item.stat().st_size for item in chunk.iterdir())) for chunk in chunks]
        for bin_ in _bins(sized, cores):
            spans = [span for chunk in bin_ if (chunk / TRACES).exists() for span in spans_of(chunk / TRACES)]
            add(campaign, bin_, spans, OF_CAMPAIGN_TRACES)
    lone = [(span, _bytes_of(span)) for path in new.traces for span in spans_of(path)]
    for some in _bins(lone, cores):
        add(LONE, (), some, OF_LONE_TRACES)
    return jobs


def _bytes_of(span: Span) -> int:
    return min(span.end, os.path.getsize(span.path)) - span.start


def _bins(sized: Sequence[tuple[T, int]], cores: int) -> Iterator[list[T]]:
    """Divide items into consecutive groups of about ``JOB_BYTES``, or less if cores would otherwise be idle."""
    limit = min(JOB_BYTES, sum(size for _, size in sized) // cores + 1)
    items: list[T] = []
    total = 0
    for item, size in sized:
        if items and total + size > limit:
            yield items
            items, total = [], 0
        items.append(item)
        total += size
    if items:
        yield items


def convert(job: IngestJob) -> frozenset[str]:
    """Do a job on an executor; return the types of the written facts.

    The executor writes a file under a temporary name, and then renames the file. The final name depends only on the
    job, so a repeated job replaces the file.

    Raises:
        ChunkFailed: a table of a chunk is damaged, or the part cannot be written.
    """
    try:
        return _convert(job)
    except OSError as error:
        raise ChunkFailed(f"{job.part} cannot be written: {os.strerror(error.errno or errno.EIO)}") from None


def _convert(job: IngestJob) -> frozenset[str]:
    facts: set[str] = set()
    with ExitStack() as stack:
        files = {name: stack.enter_context(_Growing(job, schema)) for name, schema in RECORDED.items()}
        for name, batch in chain(_of_chunks(job.chunks), batches(job.spans, job.tables)):
            files[name].write(batch)
            if name == NOTES.name:
                facts.update(pc.unique(batch.column("fact")).to_pylist())
    return frozenset(facts)


def _of_chunks(chunks: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for chunk in chunks:
        for schema in OF_CHUNKS:
            for batch in _read(Path(chunk) / f"{schema.name}.parquet", schema).to_batches():
                yield schema.name, batch


def _read(path: Path, schema: Schema) -> pa.Table:
    """A chunk's table.

    Raises:
        ChunkFailed: the file is damaged.
    """
    try:
        return pq.read_table(path, schema=schema.arrow())
    except (pa.ArrowException, OSError) as error:
        raise ChunkFailed(f"{path} is damaged: {str(error).splitlines()[0][:200]}") from None


class _Growing:
    """A context manager that writes a Parquet file; the file gets its name only if the block raises no exception."""

    def __init__(self, job: IngestJob, schema: Schema) -> None:
        self._schema = schema
        self._final = Path(job.part, f"table={schema.name}", f"{CAMPAIGN}={job.campaign}", f"{job.number:05d}.parquet")
        self._fresh = self._final.with_name(f".{self._final.name}.{uuid.uuid4().hex}")
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0

    def __enter__(self) -> "_Growing":
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._held.append(batch)
        self._held_rows += batch.num_rows
        if self._held_rows >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held)
        self._held, self._held_rows = [], 0
        if not table.num_rows:
            return
        if self._writer is None:
            self._final.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._fresh, self._schema.arrow(), compression="zstd")
        self._writer.write_table(table)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._held:
                self._flush()
            if self._writer is not None:
                self._writer.close()
                if kind is None:
                    self._fresh.replace(self._final)
        finally:
            self._fresh.unlink(missing_ok=True)


def campaigns_below(root: Path, leave_out: Path) -> list[Campaign]:
    """The folders of all campaigns at or below a folder."""
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
