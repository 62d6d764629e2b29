"""``python -m lab.bench AREA [--format json]``: measure costs as ratios to a limit that is measured in the same run."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

import click

AREAS: Mapping[str, str] = {
    "engine": "steps of both loops compared with raw Trio and a bare heap; cost by group size",
    "assign": "the assignors compared with other Python clients' assignors, and their growth",
    "replication": "failovers of 20 brokers with 2,000 partitions, cost per step compared with a small cluster",
    "reassign": "planning reassignments of up to 10,000 partitions, and its growth",
    "report": "the page of a run: size, cost compared with the run, speed in a browser",
    "pipeline": "campaigns compared with a loop in one process, the trace source with Parquet, cost by events",
}
"""Area -> description. Each area is a module of ``lab.bench`` with a function ``measure(say) -> dict``."""


@click.command()
@click.argument("area", type=click.Choice(list(AREAS)))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quick", is_flag=True, help="Use smaller sizes and fewer repetitions: a trial of the benchmark.")
def main(area: str, form: str, quick: bool) -> None:
    """Measure an AREA."""
    module = importlib.import_module(f"lab.bench.{area}")
    result: dict[str, Any] = module.measure(lambda text: click.echo(text, err=True), quick=quick)
    if form == "json":
        click.echo(json.dumps(result, indent=2))
        return
    for key, value in result.items():
        click.echo(f"{key:32} {value}")


if __name__ == "__main__":
    main()
