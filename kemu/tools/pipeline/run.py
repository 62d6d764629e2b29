"""Run an analysis: ingest new traces, check constraints, compute summaries and export them.

OUT/tables/...                the tables that ``ingest`` writes
OUT/summaries/NAME.parquet    each summary; also as NAME.csv and NAME.json
"""

import csv
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pyarrow.parquet as pq
from attrs import field, mutable
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.errors import CampaignError, Unfinished
from kemu.tools.pipeline.ingest import SCHEMAS, New, Tables, Views
from kemu.tools.pipeline.quality import BrokenConstraint, check
from kemu.tools.pipeline.summaries import SUMMARIES
from kemu.tools.pipeline.tables.derived import TABLES, DerivedTable
from kemu.tools.pipeline.tables.schemas import BAD_RECORDS, RUNS

Say = Callable[[str], None]
T = TypeVar("T")


@mutable
class Analysis:
    """The results of an analysis. ``seconds``: table or summary -> duration."""

    new_units: int = 0
    rows: dict[str, int] = field(factory=dict)
    seconds: dict[str, float] = field(factory=dict)
    broken: list[BrokenConstraint] = field(factory=list)
    bad_records: list[dict[str, Any]] = field(factory=list)
    headline: list[dict[str, Any]] = field(factory=list)


@frozen
class _Clock:
    into: dict[str, float]
    say: Say

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        began_s = time.perf_counter()
        yield
        self.into[name] = round(time.perf_counter() - began_s, 3)
        self.say(f"{name}: {self.into[name]:.1f} s")


def analyze(context: SparkContext, root: Path, out: Path, *, say: Say) -> Analysis:
    """Add the new runs of a folder to its tables, and compute all summaries.

    Args:
        context: Spark.
        root: A folder with campaigns or traces, or one trace.
        out: The folder for tables and summaries.
        say: Called with each step and its duration.

    Raises:
        CampaignError: the folder has no run, or a file is damaged or changed.
        Unfinished: the disk is full, or Spark failed.
    """
    done = Analysis()
    clock = _Clock(done.seconds, say)
    try:
        tables = Tables(context, (out / "tables").resolve())
        new = tables.find_new(root)
        if not new and not tables.parts:
            raise CampaignError(f"{root}: neither a campaign's results nor a trace in it")
        done.new_units = len(new.units)
        if new:
            _add(tables, new, clock)
        with clock.time("counts"):
            done.rows = {name: tables.known.rows(name) for name in SCHEMAS}
        views = Views(tables)

        summaries = out / "summaries"
        summaries.mkdir(parents=True, exist_ok=True)

        def judge(summary: str) -> None:
            with clock.time(f"summary {summary}" if summary else "constraints"):
                if summary:
                    write_summary(summary, views, done.rows, summaries)
                else:
                    done.broken = check(views, done.rows)

        side_by_side(judge, ["", *SUMMARIES])
        done.bad_records = bad_records(tables)
        done.headline = json.loads((summaries / "headline.json").read_text(encoding="utf-8"))
    except CampaignError:
        raise
    except OSError as error:
        raise Unfinished(f"{error.filename or out} cannot be written: {error.strerror}") from error
    except Exception as error:
        why = _plain(error)
        raise (CampaignError if "is damaged" in why else Unfinished)(why) from error
    return done


def _add(tables: Tables, new: New, clock: _Clock) -> None:
    """Add a part with the recorded tables and the derived tables."""
    with clock.time("ingest"):
        part, facts = tables.ingest(new)
    make_derived(tables, part, facts, clock)
    tables.commit(part, new)


def make_derived(tables: Tables, part: str, facts: frozenset[str], clock: _Clock) -> None:
    """Make the derived tables (``TABLES``) of a part from its recorded tables, without those about other facts."""
    views = Views(tables, [part])
    campaign = views[RUNS.name].select("run_id", "campaign")
    wanted = [table for table in TABLES if not table.about or not facts.isdisjoint(table.about)]
    made = {table.schema.name: Event() for table in wanted}

    def make(table: DerivedTable) -> None:
        needs = [schema.name for schema in table.needs]
        for name in needs:
            if name in made:
                made[name].wait()  # ``side_by_side`` began it earlier
        try:
            with clock.time(table.schema.name):
                rows = table.make(*(views[name].drop("campaign") for name in needs))
                tables.write(part, table.schema, rows.join(campaign, "run_id", how="inner"))
        finally:
            made[table.schema.name].set()

    side_by_side(make, wanted)


def side_by_side(work: Callable[[T], None], items: Iterable[T]) -> None:
    """Call a function for several items at a time, in their order, because Spark plans a query on one core."""
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        for done in [pool.submit(work, item) for item in items]:
            done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after an interrupt, Java ends the calls that have begun


def bad_records(tables: Tables) -> list[dict[str, Any]]:
    """The unreadable data, ordered by file and place."""
    found = [row for path in tables.known.files(BAD_RECORDS.name) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found, key=lambda row: (row["path"], row["at_byte"]))


def write_summary(name: str, views: Mapping[str, DataFrame], rows: Mapping[str, int], folder: Path) -> None:
    """Compute a summary, and write it as Parquet, CSV and JSON, each by a rename of a complete file.

    Args:
        name: The summary of ``SUMMARIES``.
        views: Name -> table.
        rows: Name -> number of rows; a summary of a table without rows is empty, and Spark runs nothing for it.
        folder: The folder of the summaries.
    """
    summary = SUMMARIES[name]
    made = summary.make(views)
    table = made.toArrow() if rows[summary.of.name] else to_arrow_schema(made.schema).empty_table()
    found = table.to_pylist()
    with _whole(folder / f"{name}.parquet") as path:
        pq.write_table(table, path)
    with _whole(folder / f"{name}.json") as path:
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    with _whole(folder / f"{name}.csv") as path:
        write_csv(path, table.column_names, found)


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as CSV, with an empty field for null."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _plain(error: BaseException) -> str:
    """Spark's exception in one line."""
    text = str(error)
    for line in text.splitlines():
        _, found, reason = line.partition("ChunkFailed: ")
        if found:
            return reason.strip()
    for mark in ("No space left on device", "File too large", "is not a Parquet file", "Permission denied"):
        for line in text.splitlines():
            if mark in line:
                return line.strip()[:400]
    return text.strip().splitlines()[0][:400] if text.strip() else type(error).__name__
