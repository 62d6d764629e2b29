"""``kemu query``: SQL over the tables of an analysis."""

import csv
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.tools.commands.pipeline_errors import clear_errors, interruptible
from kemu.tools.interrupt import same_command
from kemu.tools.progress import busy
from kemu.tools.report.layout import GAP, TableColumn, print_lines, table, terminal_width

if TYPE_CHECKING:
    from kemu.tools.pipeline.query import QueryAnswer

MOST_ROWS = 1_000_000_000
"""Maximum of ``--limit``."""
MOST_CELL = 24
"""Characters of a cell that are always printed."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would steer the terminal."""
MOST_LINES = 4
"""Lines of a cell in a table of one line per column."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.argument("sql", required=False)
@click.option("--format", "form", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True)
@click.option(
    "--limit", type=click.IntRange(0, MOST_ROWS), default=1_000, show_default=True, help="Most rows; 0 = all."
)
@click.option("--master", help="Ask Spark on this master, such as local[*], and in Spark's SQL.")
@click.option("--memory", default="2g", show_default=True, help="Heap of the driver's JVM, with --master.")
def query(folder: Path, sql: str | None, form: str, limit: int, master: str | None, memory: str) -> None:
    """Query the tables that "kemu analyze" made of DIR; without SQL, list tables and columns.

    SQL is one SELECT in DuckDB's SQL. It reads the tables of the analysis and nothing else. "select *" leaves columns
    of JSON and bytes out; name these columns to see them.
    """
    with (
        clear_errors("spark" if master else "query"),
        interruptible(lambda: f"repeat with: {same_command()}"),
        busy("query"),
    ):
        answer = _answer(folder, sql, limit, master, memory)
    if form == "json":
        click.echo(json.dumps(answer.dicts(), indent=1, default=str))
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        print_lines(as_table(answer.columns, answer.rows, whole=sql is None))
    if answer.left_out:
        click.echo(f"left out, because the query does not name them: {', '.join(answer.left_out)}", err=True)
    if answer.more:
        click.echo(f"only the first {limit:,} rows; --limit 0 shows all", err=True)


def _answer(folder: Path, sql: str | None, limit: int, master: str | None, memory: str) -> "QueryAnswer":
    from kemu.tools.pipeline.query import analysis_of, ask, tables_and_columns

    place = analysis_of(folder)
    if sql is None:
        return tables_and_columns(place)
    if master is None:
        return ask(place, sql, limit)
    from kemu.tools.pipeline.query_on_spark import ask_spark
    from kemu.tools.pipeline.session import spark_session

    with spark_session("kemu query", master=master, memory=memory) as spark:
        return ask_spark(spark, place, sql, limit)


def as_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, whole: bool = False) -> list[str]:
    """Rows as a table that fits the terminal; notes at the end name what is not shown.

    Columns without a value are left out. Few rows with many columns become a table of one line per column. Long cells
    are cut, with "…", unless ``whole`` asks for all of them.
    """
    if not rows:
        return ["no rows"]
    every = range(len(columns))
    full = [at for at in every if any(row[at] is not None for row in rows)] or list(every)
    empty = [name for at, name in enumerate(columns) if at not in full]
    names = [columns[at] for at in full]
    cells = [[_said(row[at]) for at in full] for row in rows]
    width = terminal_width()
    sides = [(len(name), max(map(len, column))) for name, column in zip(names, zip(*cells, strict=True), strict=True)]
    longest = max(size for _, size in sides)
    least = longest if whole else max(MOST_CELL, width // 3)
    # The longest cells that let the table fit; else the shortest that are always printed.
    most = next((most for most in range(min(longest, width), least, -1) if _needed(sides, most) <= width), least)
    room = (width - max(map(len, names))) // len(rows) - GAP
    if _needed(sides, most) > width and room >= MOST_CELL:
        most = MOST_LINES * room
        cut = _cut(cells, most)
        heads = [TableColumn(), *(TableColumn(wraps=True) for _ in rows)]
        lines = table(heads, [[name, *row] for name, row in zip(names, zip(*cut, strict=True), strict=True)], indent=0)
    else:
        cut = _cut(cells, most)
        numbers = [all(row[at] is None or isinstance(row[at], int | float) for row in rows) for at in full]
        heads = [TableColumn(name, right=number) for name, number in zip(names, numbers, strict=True)]
        lines = table(heads, cut, indent=0, keys=2 if len(names) > 2 else 1)
    if cut != cells:
        lines.append(f"cells longer than {most} characters are cut; --format csv or json has them whole")
    if empty:
        lines.append(f"without a value: {', '.join(empty)}")
    return lines


def _needed(sides: Sequence[tuple[int, int]], most: int) -> int:
    """The width of a table, from the lengths of each column's head and longest cell."""
    return sum(max(head, min(longest, most)) + GAP for head, longest in sides) - GAP


def _cut(cells: Sequence[Sequence[str]], most: int) -> list[list[str]]:
    return [
        list(line) for line in zip(*(_cut_column(column, most) for column in zip(*cells, strict=True)), strict=True)
    ]


def _cut_column(texts: Sequence[str], most: int) -> list[str]:
    """The texts without their ends; without their middles if different texts would look equal."""
    ends = [text if len(text) <= most else text[: most - 1] + "…" for text in texts]
    if len(set(ends)) == len(set(texts)):
        return ends
    tail = (most - 1) // 2
    return [text if len(text) <= most else f"{text[: most - 1 - tail]}…{text[-tail:]}" for text in texts]


def _said(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list):
        return _said(" ".join(map(str, value)))
    if isinstance(value, int):
        return f"{value:,}"
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(value))
