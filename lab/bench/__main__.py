"""``python -m lab.bench AREA [--format json]``: measure costs as ratios to a limit that is measured in the same run."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

import click

AREAS: Mapping[str, str] = {
    "cases": "runs by load, size and loop, presets, starts of commands; --against COMMIT compares interleaved",
    "engine": "steps of both loops compared with raw Trio and a bare heap; cost by group size",
    "assign": "the assignors compared with other Python clients' assignors, and their growth",
    "replication": "failovers of 20 brokers with 2,000 partitions, cost per step compared with a small cluster",
    "reassign": "planning reassignments of up to 10,000 partitions, and its growth",
    "report": "the page of a run: size, cost compared with the run, speed in a browser",
    "logs": "kemu import-log over a large log of a broker, in one process and on Spark; --size 1GB",
    "served": "a served cluster beside franz-go's kfake: READY, round trips, CPU per request, idle cost; needs Go",
    "join": "one member joins a cooperative group of 50, beside kfake's group, until balanced; needs Go",
    "pipeline": "campaigns compared with a loop in one process, the trace source with Parquet, cost by events",
}
"""Area -> description. Each area is a module of ``lab.bench`` with a function ``measure(say) -> dict``."""


@click.command()
@click.argument("area", type=click.Choice(list(AREAS)))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quick", is_flag=True, help="Use smaller sizes and fewer repetitions: a trial of the benchmark.")
@click.option("--against", metavar="COMMIT", default="", help="cases: measure this commit, too, in turns.")
@click.option("--pairs", metavar="N", default=3, show_default=True, help="cases: number of measurements of a case.")
@click.option("--only", metavar="PART", multiple=True, help="cases: the cases and presets with this part; repeatable.")
@click.option("--size", metavar="SIZE", default="1GB", show_default=True, help="logs: the size of the log.")
def main(area: str, form: str, quick: bool, against: str, pairs: int, only: tuple[str, ...], size: str) -> None:
    """Measure an AREA."""
    module = importlib.import_module(f"lab.bench.{area}")
    more: dict[str, Any] = {"against": against, "pairs": pairs, "only": only} if area == "cases" else {}
    more |= {"size": size} if area == "logs" else {}
    try:
        result: dict[str, Any] = module.measure(lambda text: click.echo(text, err=True), quick=quick, **more)
    except RuntimeError as missing:
        raise click.UsageError(str(missing)) from None
    if form == "json":
        click.echo(json.dumps(result, indent=2))
        return
    for key, value in result.items():
        click.echo(f"{key:32} {value}")


if __name__ == "__main__":
    main()
