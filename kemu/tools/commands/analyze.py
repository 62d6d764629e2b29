"""``kemu analyze`` makes tables of recorded runs, and compares the runs."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.tools.commands.pipeline_errors import clear_errors, interruptible, spark_settings
from kemu.tools.commands.query import as_table
from kemu.tools.exits import BROKEN
from kemu.tools.interrupt import same_command
from kemu.tools.pipeline.files import ANALYSIS
from kemu.tools.progress import busy
from kemu.tools.report.layout import print_lines

SMALL_BYTES = 16 << 20
"""Largest size of results and tables for which Spark compiles no queries, and Java compiles little: some 100 runs."""

if TYPE_CHECKING:
    from kemu.tools.pipeline.run import Analysis


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help=f"Default: DIR/{ANALYSIS}.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master URL, as for spark-submit.")
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

    A second call reads only new runs.
    """
    with clear_errors("spark"), interruptible(lambda: f"finished tables are kept; repeat with: {same_command()}"):
        from kemu.tools.pipeline.lock import locked
        from kemu.tools.pipeline.session import FEW_ROWS, LEAN, in_background, spark_context

        place = out or (folder if folder.is_dir() else folder.parent) / ANALYSIS
        is_small = bytes_in(folder, place) <= SMALL_BYTES
        options = {
            "master": master,
            "memory": memory,
            "log": place / "spark.log",
            "settings": {**(FEW_ROWS if is_small else {}), **spark_settings(conf)},
            "java_options": LEAN if is_small else "",
        }
        imported = in_background(_import_analyze)  # while Java starts
        with (
            locked(place, "kemu analyze"),
            spark_context("kemu analyze", **options) as context,
            busy("analyze") as tell,
        ):
            say = (lambda text: click.echo(text, err=True)) if verbose else tell
            done = imported()(context, folder, place, say=say)
    if form == "json":
        click.echo(json.dumps(as_dict(done), indent=2))
    else:
        print_analysis(done, place)
    for broken in done.broken:
        click.echo(f"{click.style('constraint', fg='red')}: {broken.text()}", err=True)
    sys.exit(BROKEN if done.broken else 0)


def _import_analyze() -> "Callable[..., Analysis]":
    from kemu.tools.pipeline.run import analyze

    return analyze


def bytes_in(*places: Path) -> int:
    """The size of files and folders; a file in two of them counts twice."""
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    return sum(path.stat().st_size for path in files)


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
    headline = as_table(
        [name for row in done.headline[:1] for name in row], [list(row.values()) for row in done.headline]
    )
    print_lines([*headline, "", f"{done.new_units} new; {counts}"])
    for bad in done.bad_records:
        print_lines([f"{click.style('not read', fg='yellow')}: {bad['path']}: byte {bad['at_byte']}: {bad['why']}"])
    example = "select * from differences where differs and figure = 'downtime_us'"
    print_lines(
        [f"summaries: {place / 'summaries'} (Parquet, CSV, JSON)", f'query with: kemu query {place} "{example}"']
    )
