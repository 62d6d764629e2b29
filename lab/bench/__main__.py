"""``python -m lab.bench AREA [--format json]``: measure costs as ratios to a limit that is measured in the same run."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

import click

AREAS: Mapping[str, str] = {
    "engine": "steps of both loops against raw Trio and a bare heap; cost by group size",
    "assign": "the assignors against those of other Python clients, and their growth",
    "replication": "failovers of 20 brokers with 2,000 partitions, cost per step against a small cluster",
    "reassign": "planning reassignments of up to 10,000 partitions, and its growth",
    "report": "the page of a run: its size, its cost beside the run, its speed in a browser",
    "pipeline": "campaigns against a loop in one process, the trace source against Parquet, cost by number of events",
}
"""Area -> description. Each area is a module of this package with ``measure(say) -> dict``."""


@click.command()
@click.argument("area", type=click.Choice(list(AREAS)))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quick", is_flag=True, help="Smaller sizes and fewer repetitions: only shows that the benchmark runs.")
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
