"""``kemu analyze`` makes tables of recorded runs; ``kemu query`` runs SQL on these tables."""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.tools.commands.campaign import clear_errors, spark_settings
from kemu.tools.exits import BROKEN
from kemu.tools.progress import busy
from kemu.tools.report.layout import TableColumn, print_lines, table, terminal_width

if TYPE_CHECKING:
    from kemu.tools.pipeline.run import Analysis

OUT = "analysis"
"""Default name of the folder for tables and summaries, inside the analyzed folder."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help=f"Default: DIR/{OUT}.")
@click.option("--master", default="local[*]", show_default=True, help="The master of Spark, as for spark-submit.")
@click.option("--memory", default="2g", show_default=True, help="Heap of the driver's JVM.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", is_flag=True, help="Print the time that each table took.")
def analyze(
    folder: Path,
    out: Path | None,
    master: str,
    memory: str,
    conf: tuple[str, ...],
    form: str,
    verbose: bool,
) -> None:
    """Compute tables from the campaigns and traces in DIR, and print a comparison of their configurations.

    A second call reads only new runs. Exit codes: 0 done, 2 bad input, 127 a table breaks a constraint.
    """
    with clear_errors():
        from kemu.tools.pipeline.run import analyze as analyze_folder
        from kemu.tools.pipeline.session import start_spark

        place = out or (folder if folder.is_dir() else folder.parent) / OUT
        make_folder(place)
        settings = spark_settings(conf)
        spark = start_spark("kemu analyze", master=master, memory=memory, log=place / "spark.log", settings=settings)
        try:
            with busy("analyze") as tell:
                say = (lambda text: click.echo(text, err=True)) if verbose else tell
                done = analyze_folder(spark, folder, place, say=say)
        finally:
            spark.stop()
    if form == "json":
        click.echo(json.dumps(as_dict(done), indent=2))
    else:
        print_analysis(done, place)
    for broken in done.broken:
        click.echo(f"{click.style('constraint', fg='red')}: {broken.text()}", err=True)
    sys.exit(BROKEN if done.broken else 0)


def make_folder(place: Path) -> None:
    """Make a folder with its parents.

    Raises:
        CampaignError: the folder cannot be made.
    """
    from kemu.tools.pipeline.campaign import CampaignError

    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CampaignError(f"{place} cannot be made: {error.strerror}") from None


def as_dict(done: "Analysis") -> dict[str, Any]:
    """The analysis as values for JSON."""
    return {
        "new": done.new_units,
        "rows": done.rows,
        "seconds": done.seconds,
        "bad_records": done.bad_records,
        "broken_constraints": [broken.text() for broken in done.broken],
        "headline": done.headline,
    }


def print_analysis(done: "Analysis", place: Path) -> None:
    """Print the headline table, the unreadable records, and the paths of the other tables."""
    counts = ", ".join(f"{rows:,} {name}" for name, rows in done.rows.items() if rows)
    print_lines([*as_table(done.headline), "", f"{done.new_units} new; {counts}"])
    for bad in done.bad_records:
        print_lines([f"{click.style('not read', fg='yellow')}: {bad['path']}: byte {bad['at_byte']}: {bad['why']}"])
    example = "select * from differences where differs and figure = 'downtime_us'"
    print_lines([f"summaries: {place / 'summaries'} (Parquet, CSV, JSON)", f'ask with: kemu query {place} "{example}"'])


def as_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of a table that fits the terminal; "…" marks the end of a shortened cell, and a note explains "…"."""
    if not rows:
        return ["no rows"]
    names = list(rows[0])
    cells = [[_said(row[name]) for name in names] for row in rows]
    most = max(MOST_CELL, terminal_width() // 3)
    cut = [[text if len(text) <= most else text[: most - 1] + "…" for text in line] for line in cells]
    numbers = [all(row[name] is None or isinstance(row[name], int | float) for row in rows) for name in names]
    columns = [TableColumn(name, right=number) for name, number in zip(names, numbers, strict=True)]
    lines = table(columns, cut, indent=0, keys=2 if len(names) > 2 else 1)
    note = f"cells longer than {most} characters are cut; --format csv or json has them whole"
    return [*lines, *([note] if cut != cells else [])]


MOST_CELL = 24
"""Cells of at most this number of characters are never shortened."""


def _said(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.argument("sql", required=False)
@click.option("--format", "form", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True)
@click.option("--limit", default=1_000, show_default=True, help="Maximum number of rows; 0 = all.")
@click.option("--master", default="local[*]", show_default=True, help="The master of Spark, as for spark-submit.")
@click.option("--memory", default="2g", show_default=True, help="Heap of the driver's JVM.")
def query(folder: Path, sql: str | None, form: str, limit: int, master: str, memory: str) -> None:
    """Run a Spark SQL query on the tables that "kemu analyze" made of DIR; without SQL, list tables and columns."""
    with clear_errors():
        from kemu.tools.pipeline.campaign import CampaignError
        from kemu.tools.pipeline.run import ask
        from kemu.tools.pipeline.session import start_spark

        place = folder if (folder / "tables").is_dir() else folder / OUT
        if not (place / "tables").is_dir():
            raise CampaignError(f"{folder} has not been analyzed: kemu analyze {folder}")
        spark = start_spark("kemu query", master=master, memory=memory, log=place / "spark.log")
        try:
            with busy("query"):
                columns, rows, more = ask(spark, place, sql, limit)
        finally:
            spark.stop()
    if form == "json":
        click.echo(json.dumps(rows, indent=1, default=str))
    elif form == "csv":
        writer = csv.DictWriter(sys.stdout, columns)
        writer.writeheader()
        writer.writerows(rows)
    else:
        print_lines(as_table(rows))
    if more:
        click.echo(f"only the first {limit:,} rows; --limit 0 shows all", err=True)
