"""``format("kemu")`` reads trace files as a DataFrame, in batches or as a stream.

    spark.dataSource.register(KemuSource)
    spark.read.format("kemu").option("table", "packets").load("runs/")
    spark.readStream.format("kemu").option("table", "runs").load("runs/")

Options:
* ``path``: a file, or a folder with its subfolders; or ``files``: a JSON list of files.
* ``table``: a table of ``schemas.OF_TRACES``; by default, rows of all these tables in the wide schema ``EVENTS``.
* ``splitBytes``: size from which a file is divided at the beginnings of runs.
* ``warn``: "false" suppresses messages about unreadable data.

A partition of the DataFrame is a file, or a part of a large file. Unreadable data becomes rows of the table
``bad_records``. A reader of any other table prints a line about unreadable data to standard error (on a cluster, of
the executor). A stream reads an unfinished last block of a file later, and stores its progress as a byte offset.
"""

import json
import logging
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from kemu.emulator.trace.blocks import MAGIC, TraceError, blocks_of, first_block
from kemu.emulator.trace.traces import HEADER, read_runs
from kemu.tools.pipeline.campaign import SPEC, load
from kemu.tools.pipeline.decode import Decoder, Span
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.schemas import BAD_RECORDS, EVENTS, OF_TRACES, RECORDED

SUFFIX = ".kemu"
BATCH_ROWS = 20_000
SPLIT_BYTES = 64 << 20
_HEAD_BYTES = len(MAGIC) + 2
"""Number of bytes before the first block of a file."""
_LOG = logging.getLogger(__name__)
_TABLES: Mapping[str, Schema] = {schema.name: schema for schema in OF_TRACES}


class _Part(InputPartition):
    def __init__(self, spans: tuple[Span, ...]) -> None:
        self.spans = spans


class KemuSource(DataSource):
    """Spark's data source for trace files."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kemu"

    def schema(self) -> T.StructType:
        """The columns of the chosen table, or of the wide schema."""
        return self._schema().spark()

    def _schema(self) -> Schema:
        table = self.options.get("table")
        if table is None:
            return EVENTS
        if table not in _TABLES:
            raise ValueError(f'"{table}" is no table of a trace; there are: {", ".join(_TABLES)}')
        return _TABLES[table]

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """The reader for ``spark.read``."""
        return _BatchReader(self._schema(), dict(self.options))

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader for ``spark.readStream``."""
        return _StreamReader(self._schema(), dict(self.options))


class _Reading:
    """The base of both readers, which reads the options, and returns spans as Arrow batches."""

    def __init__(self, schema: Schema, options: dict[str, str]) -> None:
        self._schema = schema
        if "path" not in options and "files" not in options:
            raise ValueError("kemu: give a path, as in load(PATH)")
        self._options = options
        self._warn = options.get("warn", "true").lower() != "false"
        self._split_bytes = int(options.get("splitbytes", options.get("splitBytes", SPLIT_BYTES)))

    def _files(self) -> list[Path]:
        if "files" in self._options:
            return [Path(name) for name in json.loads(self._options["files"])]
        return trace_files(Path(self._options["path"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; without the table ``bad_records``, print unreadable data to stderr."""
        assert isinstance(partition, _Part)
        wide = self._schema.name == EVENTS.name
        tables = frozenset(_TABLES) if wide else frozenset((self._schema.name, BAD_RECORDS.name))
        for table, batch in batches(partition.spans, tables):
            if wide:
                yield _widened(table, batch)
            elif table == self._schema.name:
                yield batch
            elif self._warn:
                _say_unread(batch, self._schema.name)


def _say_unread(bad: pa.RecordBatch, table: str) -> None:
    for row in bad.to_pylist():
        where = f"{row['path']}: byte {row['at_byte']}: {row['why']}"
        left = f"{row['unread_bytes']} bytes unread" if row["unread_bytes"] else "nothing behind it"
        _LOG.warning('kemu: %s (%s): table "%s" may lack rows; table "bad_records" lists it', where, left, table)


def batches(spans: Iterable[Span], tables: frozenset[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of spans as (table, batch), for the given recorded tables."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in RECORDED}
    decoder = Decoder(lambda table, row: rows[table].append(row), tables)
    for span in spans:
        for _ in decoder.decode(span):
            for name in tables:
                if len(rows[name]) >= BATCH_ROWS:
                    yield name, RECORDED[name].batch(rows[name])
                    rows[name] = []
    for name in sorted(tables):
        if rows[name]:
            yield name, RECORDED[name].batch(rows[name])


def _widened(table: str, narrow: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a table in the wide schema."""
    schema = EVENTS.arrow()
    have = set(narrow.schema.names)
    arrays = [pa.array([table] * narrow.num_rows, pa.string())]
    arrays += [
        narrow.column(field.name) if field.name in have else pa.nulls(narrow.num_rows, field.type)
        for field in schema
        if field.name != "table"
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _BatchReader(_Reading, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        """One partition for each file; a large file has several partitions, each from the beginning of a run."""
        parts: list[InputPartition] = []
        for path in self._files():
            parts += [_Part((span,)) for span in spans_of(path, self._split_bytes)]
        return parts or [_Part(())]


class _StreamReader(_Reading, DataSourceStreamReader):
    """The streaming reader. An offset is the JSON text of {path: [bytes read, position of the last run's header]}."""

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """The offset before the first block of every file."""
        return {"files": "{}"}

    def latestOffset(self, start: dict[str, str] | None = None, limit: Any = None) -> dict[str, str]:  # noqa: N802
        """The offset after the last complete block of every file."""
        known: dict[str, list[int]] = json.loads((start or {"files": "{}"})["files"])
        return {"files": json.dumps({str(path): _whole(path, known.get(str(path))) for path in self._files()})}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """One partition for each file that has grown."""
        before: dict[str, list[int]] = json.loads(start["files"])
        parts: list[InputPartition] = []
        for path, (until, _) in sorted(json.loads(end["files"]).items()):
            since, header_at = before.get(path, [0, -1])
            if until > since:
                span = Span(path, since, until, header_at, growing=True, prefix=run_prefix(Path(path)))
                parts.append(_Part((span,)))
        return parts

    def commit(self, end: dict[str, str]) -> None:
        """Do nothing, because the source keeps all files."""


def _whole(path: Path, known: list[int] | None) -> list[int]:
    """The readable length of a growing file, and the position of the unfinished run's header (-1: none)."""
    offset, header_at = known or (0, -1)
    try:
        if offset == 0:
            offset = first_block(path)
        for at, after, payload in blocks_of(path, offset):
            if isinstance(payload, str):
                break
            if payload[1:2] == bytes((HEADER,)):
                header_at = at
            offset = after
    except (TraceError, OSError):
        size = path.stat().st_size
        # A foreign or damaged file is read once to its end, so that a row of bad_records names the file. A file that
        # does not have its first bytes yet is examined again later.
        return [max(size, 1), header_at] if size >= _HEAD_BYTES or offset else [0, -1]
    return [offset, header_at]


def trace_files(root: Path) -> list[Path]:
    """Every trace file at or below a path, sorted.

    Raises:
        FileNotFoundError: no such path.
    """
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such file or folder")
    found = []
    for folder, folders, names in os.walk(root):
        # Unfinished attempts of a campaign begin with a dot.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(folder) / name for name in names if name.endswith(SUFFIX) and not name.startswith(".")]
    return sorted(found)


def spans_of(path: Path, split_bytes: int = SPLIT_BYTES) -> list[Span]:
    """The spans of a file: one span, or for a large file several spans, which begin with a run."""
    prefix = run_prefix(path)
    size = path.stat().st_size
    end = 1 << 62
    if size <= split_bytes:
        return [Span(str(path), 0, end, prefix=prefix)]
    cuts = [0]
    with suppress(TraceError):  # the reader of the span reports the error
        for number, run in enumerate(read_runs(path)):
            if number and run.start - cuts[-1] >= split_bytes:
                cuts.append(run.start)
    return [Span(str(path), start, until, prefix=prefix) for start, until in zip(cuts, [*cuts[1:], end], strict=True)]


def run_prefix(path: Path) -> str:
    """The prefix of run ids in a campaign's trace; "" for other files."""
    folder = path.parent
    if folder.parent.name != "chunks":
        return ""
    out = folder.parent.parent
    try:
        return _prefixes(out, (out / SPEC).stat().st_mtime_ns).get(folder.name, "")
    except (OSError, CampaignError):
        return ""


@lru_cache(maxsize=64)
def _prefixes(out: Path, _changed_ns: int) -> Mapping[str, str]:
    """Name of a chunk's folder -> prefix of its run ids."""
    campaign = load(out)
    return {chunk.folder: f"{campaign.id}/{chunk.cell}" for chunk in campaign.chunks}


def read_rates(spark: SparkSession, traces: Path, parquet: Path) -> tuple[float, float]:
    """Return the rows of ``steps`` per second that Spark reads from traces, and from Parquet.

    Args:
        spark: The session to use.
        traces: The folder of traces.
        parquet: The path at which to write the same rows as Parquet.
    """
    spark.dataSource.register(KemuSource)
    rows = spark.read.format("kemu").option("table", "steps").load(str(traces))
    rows.write.parquet(str(parquet))
    count = rows.count()
    rates = []
    for table in (rows, spark.read.parquet(str(parquet))):
        best_s = math.inf
        for _ in range(3):
            began_s = time.perf_counter()
            table.write.format("noop").mode("overwrite").save()
            best_s = min(best_s, time.perf_counter() - began_s)
        rates.append(count / best_s)
    return rates[0], rates[1]
