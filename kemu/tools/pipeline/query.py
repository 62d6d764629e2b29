"""SQL over an analysis, without Spark and Java.

DuckDB answers, in this process. The query can read the tables and summaries of the analysis and nothing else, and it
can write nothing, by construction:

* The database is in memory. The tables are views of Parquet files that pyarrow opens, so DuckDB itself opens no file.
* DuckDB may not open files, load extensions or look up Python variables (``enable_external_access``,
  ``python_enable_replacements``), nor use a folder for temporary data. ``lock_configuration`` keeps a query from
  changing this.
* Only one SELECT is accepted.
"""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from kemu.emulator.text.tables import nearest
from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.files import ANALYSIS
from kemu.tools.pipeline.parts import CAMPAIGN, Parts, read_parts

SUMMARIES = "summaries"
CHUNK = 10_000
"""Number of rows that are read at once."""
INTERRUPT_AGAIN_S = 0.05
"""Time after which a query that has not begun is interrupted again."""
CLOSED = {
    "temp_directory": "",  # first: the others close it, too
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
}
"""DuckDB's settings that close it; ``lock_configuration`` follows when the tables are there."""


@frozen
class QueryAnswer:
    """The answer to a query."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    more: bool = False
    """Whether the query has more rows than were asked for."""
    left_out: tuple[str, ...] = ()
    """Columns of JSON or bytes that the query did not name."""

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as mappings; of equal names, the second becomes "name_2"."""
        names: list[str] = []
        for name in self.columns:
            same = sum(name == other for other in self.columns[: len(names)])
            names.append(f"{name}_{same + 1}" if same else name)
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def analysis_of(folder: Path) -> Path:
    """The analysis of a folder: the folder itself, or "analysis" in it.

    Raises:
        CampaignError: there is none.
    """
    place = folder if (folder / "tables").is_dir() else folder / ANALYSIS
    if not (place / "tables").is_dir():
        raise CampaignError(f"{folder} has not been analyzed: kemu analyze {folder}")
    return place


def parts_of(place: Path) -> Parts:
    """The parts of an analysis.

    Raises:
        CampaignError: the analysis has none, or they cannot be read.
    """
    found = read_parts((place / "tables").resolve())
    if found is None or not found.parts:
        raise CampaignError(f"{place} holds no tables: kemu analyze makes them")
    return found


def summaries_of(place: Path) -> dict[str, Path]:
    """The files of an analysis' summaries, by name."""
    found = sorted((place / SUMMARIES).glob("[a-z]*.parquet"))
    return {path.stem: path.resolve() for path in found if re.fullmatch(r"[a-z_]+", path.stem)}


def tables_and_columns(place: Path) -> QueryAnswer:
    """Every table and summary with its columns."""
    import pyarrow.parquet as pq

    listed = {name: (*schema.names, CAMPAIGN) for name, schema in parts_of(place).tables.items()}
    try:
        listed |= {name: tuple(pq.read_schema(path).names) for name, path in summaries_of(place).items()}
    except (pa.ArrowException, OSError) as error:
        raise CampaignError(f"a summary is damaged: {first_line(error)}") from None
    return QueryAnswer(("table", "columns"), [(name, ", ".join(columns)) for name, columns in listed.items()])


def ask(place: Path, sql: str, limit: int) -> QueryAnswer:
    """Run a query with DuckDB.

    Args:
        place: The folder of an analysis.
        sql: The query, in DuckDB's SQL.
        limit: The largest number of rows; 0 = all.

    Raises:
        CampaignError: no tables there, a damaged file, or a query that DuckDB does not understand or may not do.
        ModuleNotFoundError: DuckDB is not installed.
    """
    import duckdb

    parts = parts_of(place)
    names = (*parts.tables, *summaries_of(place))
    with duckdb.connect(":memory:") as database:
        try:
            for name, table in _datasets(parts, place):
                database.register(name, table)
            for setting, value in CLOSED.items():
                database.execute(f"set {setting} = {value!r}")
            database.execute("set lock_configuration = true")
            _only_a_select(database, sql)
            columns, rows = _rows_of(database, sql, limit)
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            raise CampaignError(f"the query: {_reason(error, names)}") from None
    return shown(columns, rows, limit, parts, sql)


def _rows_of(database: Any, sql: str, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of a query, which an interrupt ends.

    DuckDB runs in a thread: in the main thread, no signal reaches Python before the query ends.
    """
    is_wanted = True

    def read() -> tuple[list[str], list[tuple[Any, ...]]]:
        found = database.execute(sql)
        rows: list[tuple[Any, ...]] = []
        while is_wanted and (some := found.fetchmany(min(CHUNK, limit + 1 - len(rows)) if limit else CHUNK)):
            rows += some
        return [str(column[0]) for column in found.description or ()], rows

    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(read)
        try:
            return reading.result()
        finally:
            is_wanted = False
            while not reading.done():
                database.interrupt()
                wait([reading], INTERRUPT_AGAIN_S)


def shown(columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int, parts: Parts, sql: str) -> QueryAnswer:
    """An answer without its columns of JSON and bytes, unless the query names them."""
    long = {name for schema in parts.tables.values() for name in schema.long}
    hidden = {name for name in long.intersection(columns) if not re.search(r"\b" + name + r"\b", sql, re.IGNORECASE)}
    if hidden == set(columns):
        hidden = set()
    kept = [at for at, name in enumerate(columns) if name not in hidden]
    some = rows[:limit] if limit else rows
    return QueryAnswer(
        tuple(columns[at] for at in kept),
        [tuple(_plain(row[at]) for at in kept) for row in some],
        bool(limit) and len(rows) > limit,
        tuple(name for name in columns if name in hidden),
    )


def _datasets(parts: Parts, place: Path) -> Iterable[tuple[str, Any]]:
    """The tables and summaries as datasets of pyarrow. No file of a table is opened before a query reads it."""
    import pyarrow.dataset as ds

    campaign = pa.schema([pa.field(CAMPAIGN, pa.string())])
    for name, schema in parts.tables.items():
        columns = pa.schema([*schema.arrow(), *campaign])
        files = [str(path) for path in parts.files(name)]
        if not files:
            yield name, columns.empty_table()
            continue
        yield (
            name,
            ds.dataset(
                files,
                schema=columns,
                format="parquet",
                partitioning=ds.partitioning(campaign, flavor="hive"),
                partition_base_dir=str(parts.folder),
            ),
        )
    for name, path in summaries_of(place).items():
        yield name, ds.dataset(str(path), format="parquet")


def _only_a_select(database: Any, sql: str) -> None:
    import duckdb

    kinds = [statement.type for statement in database.extract_statements(sql)]
    if kinds != [duckdb.StatementType.SELECT]:
        said = ", ".join(kind.name for kind in kinds) or "nothing"
        raise CampaignError(f"the query must be one SELECT, not {said}: a query reads the analysis and changes nothing")


def _reason(error: BaseException, names: Iterable[str]) -> str:
    """DuckDB's message in one line, with a hint."""
    text = first_line(error)
    unknown = re.search(r"Table with name (\S+) does not exist", text)
    if unknown:
        return f'there is no table "{unknown[1]}"{nearest(unknown[1], names)}; without SQL, kemu query lists all tables'
    if '"`"' in text:
        return f"{text}: DuckDB quotes a name with double quotes"
    if "Out of Memory" in text:
        return f"{text}; --master 'local[*]' asks Spark, which needs less"
    return text


def first_line(error: BaseException) -> str:
    """The first line of an error's text, at most 400 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__


def _plain(value: Any) -> Any:
    """A value for JSON and tables: numbers of a fixed scale become floating-point ones."""
    return float(value) if isinstance(value, Decimal) else value
