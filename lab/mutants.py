"""``python -m kemu.lab.mutants``: how many generated mutants of the machines the checkers catch in runs alone."""

import importlib
import json
import sys
import tomllib
from pathlib import Path

import click

from kemu.lab.budget import budget
from kemu.lab.campaign import MutantResult, as_row, baselines, from_row, results, tree_hash
from kemu.lab.operators import ROOT, all_mutants, drawn
from kemu.lab.score import report

RUNS = ROOT / "runs" / "mutants"
"""Outside git."""


@click.command()
@click.option("--count", default=320, show_default=True, help="how many mutants")
@click.option("--seed", default=1, show_default=True, help="of the draw of mutants")
@click.option("--jobs", default=2, show_default=True, help="how many processes")
@click.option("--cpu", default=25.0, show_default=True, help="seconds of CPU of one mutant")
@click.option("--room", default="", help="only mutants of this room")
@click.option("--results", "path", type=click.Path(path_type=Path), help="JSONL file of results; goes on where it ends")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def main(count: int, seed: int, jobs: int, cpu: float, room: str, path: Path | None, as_json: bool) -> None:
    """Draw mutants, run each against the budget, and print the score."""
    mutants = [each for each in all_mutants() if not room or each.room == room]
    files = sorted({each.file for each in mutants})
    mutants = drawn(mutants, count, seed)
    for file in files:
        importlib.import_module("kemu." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    path = path or RUNS / f"{tree_hash()}-{seed}-{cpu:g}{'-' + room if room else ''}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    all_files = sorted({each.file for each in all_mutants()}) if room else files
    known = baselines(budget(), all_files, RUNS / "baselines.json", jobs)
    done: dict[str, MutantResult] = {}
    if path.exists():
        rows = [from_row(json.loads(row)) for row in path.read_text(encoding="utf-8").splitlines() if row.strip()]
        done = {each.mutant.name: each for each in rows}
    left = [each for each in mutants if each.name not in done]
    with path.open("a", encoding="utf-8") as stream:
        for each in results(left, known, jobs=jobs, cpu_s=cpu):
            done[each.mutant.name] = each
            stream.write(json.dumps(as_row(each)) + "\n")
            stream.flush()
            sys.stderr.write(f"{len(done)}/{len(mutants)} {each.verdict} {each.mutant.name[:90]!r} {each.cpu_s:.1f}s\n")
    reviewed = tomllib.loads((ROOT / "lab" / "survivors.toml").read_text(encoding="utf-8")).get("survivor", [])
    click.echo(report([done[each.name] for each in mutants if each.name in done], reviewed, as_json=as_json))


if __name__ == "__main__":
    main()
