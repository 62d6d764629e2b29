"""``python -m lab.mutants``: generate mutants of the machines, and count the mutants that checkers catch in runs."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click

from lab.budget import budget
from lab.campaign import CPU_S, MutantResult, as_row, baselines, from_row, results, tree_hash
from lab.operators import ROOMS, ROOT, Mutant, all_mutants, drawn
from lab.score import report

RUNS = ROOT / "runs" / "mutants"
"""Folder for results, ignored by git."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""


@click.command()
@click.option("--count", type=click.IntRange(1), default=320, show_default=True, help="number of mutants")
@click.option("--seed", default=1, show_default=True, help="seed of the draw of mutants")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="number of processes")
@click.option("--cpu", type=click.FloatRange(1), default=CPU_S, show_default=True, help="CPU seconds of one mutant")
@click.option("--room", type=click.Choice([name for name, _ in ROOMS]), help="only mutants of this room")
@click.option(
    "--results",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSONL file of results; an existing file is resumed",
)
@click.option(
    "--again",
    "survivors",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="test the survivors in this file of results with the present checkers",
)
@click.option("--json", "as_json", is_flag=True, help="the report as JSON")
def main(
    count: int,
    seed: int,
    jobs: int,
    cpu: float,
    room: str | None,
    path: Path | None,
    survivors: Path | None,
    as_json: bool,
) -> None:
    """Draw mutants, run the budget with each mutant, and print the score.

    Each result is stored at once: after an interrupt (Ctrl-C) the same command resumes.
    """
    mutants = [each for each in all_mutants() if not room or each.room == room]
    files = sorted({each.file for each in mutants})
    changed: dict[str, tuple[str, ...]] = {}
    if survivors is None:
        mutants = drawn(mutants, count, seed)
    else:
        changed = _changed_by_survivors(survivors, mutants)
        mutants = [each for each in mutants if each.name in changed]
    all_files = sorted({each.file for each in all_mutants()}) if room else files
    name = f"{tree_hash()}-{seed if survivors is None else survivors.stem}-{cpu:g}{'-' + room if room else ''}"
    path = path or RUNS / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {each.mutant.name: each for each in _kept(path)}
    _cut_torn_line(path)
    left = [each for each in mutants if each.name not in done]
    interrupted = False
    try:
        known = baselines(budget(), all_files, RUNS / "baselines.json", jobs) if left else []
        with path.open("a", encoding="utf-8") as stream:
            for each in results(left, known, jobs=jobs, cpu_s=cpu, before=tuple(done.values()), changed=changed):
                done[each.mutant.name] = each
                stream.write(json.dumps(as_row(each)) + "\n")
                stream.flush()
                said = f"{len(done)}/{len(mutants)} {each.verdict} {each.mutant.name[:90]!r} {each.cpu_s:.1f}s"
                click.echo(said, err=True)
    except KeyboardInterrupt:
        interrupted = True
        kept = sum(each.name in done for each in mutants)
        click.echo(f"interrupted: {kept} of {len(mutants)} results are in {path}; the same command goes on", err=True)
    reviewed = tomllib.loads((ROOT / "lab" / "survivors.toml").read_text(encoding="utf-8")).get("survivor", [])
    click.echo(report([done[each.name] for each in mutants if each.name in done], reviewed, as_json=as_json))
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _changed_by_survivors(path: Path, mutants: Sequence[Mutant]) -> dict[str, tuple[str, ...]]:
    """Name of a mutant that survived in a file of results -> runs that the mutant changed.

    The sources may have changed since the results, so a mutant is identified by its texts, and by the nearest line if
    ambiguous.
    """
    found: dict[str, tuple[str, ...]] = {}
    for result in _kept(path):
        if result.verdict in ("survivor", "hang"):
            was = result.mutant
            same = [
                each
                for each in mutants
                if (each.file, each.operator, each.old, each.new) == (was.file, was.operator, was.old, was.new)
            ]
            if same:
                nearest = {abs(each.line - was.line): each for each in same}
                found[nearest[min(nearest)].name] = result.changed
            else:
                click.echo(f"{was.name}: not in these sources", err=True)
    return found


def _kept(path: Path) -> list[MutantResult]:
    """The results in a file, without an incomplete last line.

    Raises:
        click.BadParameter: a line is not a result of a mutant.
    """
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    found = []
    for number, row in enumerate(whole.splitlines(), 1):
        try:
            found.append(from_row(json.loads(row)))
        except (ValueError, KeyError, TypeError) as error:
            raise click.BadParameter(f"{path}: line {number} is no result of a mutant ({error!r:.60})") from None
    return found


def _cut_torn_line(path: Path) -> None:
    """Remove an incomplete last line, which an interrupt left in the file of results."""
    if path.exists():
        content = path.read_bytes()
        path.write_bytes(content[: content.rfind(b"\n") + 1])


if __name__ == "__main__":
    main()
