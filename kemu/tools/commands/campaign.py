"""``kemu campaign`` runs many scenarios, profiles, settings and seeds on Spark."""

import csv
import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.tools.commands.pipeline_errors import clear_errors, interruptible, spark_settings
from kemu.tools.commands.run_options import seed_range
from kemu.tools.determinism.sweep import ASLEEP
from kemu.tools.determinism.sweep import print_difference as say_differs
from kemu.tools.determinism.watch import Differs, SweptRun, canary, first_difference
from kemu.tools.estimate import ask_before
from kemu.tools.exits import BROKEN, NONDETERMINISM, worst
from kemu.tools.interrupt import same_command
from kemu.tools.pipeline.files import write_whole
from kemu.tools.report.layout import TableColumn, print_lines, table

if TYPE_CHECKING:
    from kemu.tools.pipeline.campaign import Campaign, RunLine

LISTED = 20
"""Maximum number of failed seeds that are printed; failures.csv lists all failed seeds."""
SAY_EVERY_S = 10.0


@click.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--seeds", required=True, metavar="A:B", help="Run the seeds A to B, both included.")
@click.option(
    "--profiles", metavar="P,P", help="Emulate these profiles (kemu describe profiles; default: each scenario's)."
)
@click.option("--grid", multiple=True, metavar="KEY=V1,V2", help="Run with each of these values of KEY; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to every plan; repeatable.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="The campaign's folder.")
@click.option("--resume", "resumed", is_flag=True, help="Continue the campaign in --out.")
@click.option(
    "--keep-traces", type=click.Choice(["failing", "all", "none"]), default="failing", show_default=True,
    help="The runs whose traces are written.",
)  # fmt: skip
@click.option("--master", default="local[*]", show_default=True, help="Spark's master URL, as for spark-submit.")
@click.option("--memory", default="1g", show_default=True, help="Heap of the driver's JVM.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def campaign(
    scenarios: tuple[str, ...],
    seeds: str,
    profiles: str | None,
    grid: tuple[str, ...],
    actions: tuple[str, ...],
    out: Path,
    resumed: bool,
    keep_traces: str,
    master: str,
    memory: str,
    conf: tuple[str, ...],
    form: str,
) -> None:
    """Run every SCENARIO under every profile, with every setting of the grid and every seed; list the failures.

    KEY of --grid and ACTION of --do have the syntax of "kemu run", and each run has the result of "kemu run". Use
    --resume to continue a killed campaign. With a master that is not local, driver and executors must share the folder
    of --out. The executors' Python must have attrs, msgpack, pyarrow and trio. Assignors of the user must be entry
    points "kemu.assignors" of an installed package. Next: "kemu analyze OUT".
    """
    with clear_errors("spark"), interruptible(lambda: kept(out)), code_allowed(Code.INSTALLED):
        from kemu.tools.pipeline.campaign import (
            begin,
            differing,
            executors_see,
            refuse_existing,
            resume,
            run_rest,
            sample_runs,
        )
        from kemu.tools.pipeline.cells import Spec, make_cells
        from kemu.tools.pipeline.lock import locked
        from kemu.tools.pipeline.session import LEAN, in_background, spark_context
        from kemu.tools.pipeline.shipping import fingerprint

        wanted = seed_range(seeds)
        cells = make_cells(scenarios, _names(profiles), grid, actions)
        spec = Spec(cells, wanted[0], wanted[-1], keep_traces, fingerprint())
        settings = spark_settings(conf)
        ask_before([(cell.build(), len(wanted)) for cell in cells], cores_of(master))
        if resumed:
            resume(out, spec)
        else:
            refuse_existing(out)
        with locked(out, "kemu campaign"):
            samples_made = in_background(lambda: sample_runs(spec))
            with spark_context(
                f"kemu campaign {out.name}",
                master=master,
                memory=memory,
                log=out / "spark.log",
                settings=settings,
                java_options=LEAN,
            ) as context:
                samples = samples_made()
                seconds = {cell: taken for (cell, _), (_, taken) in samples.items()}
                running = resume(out, spec) if resumed else begin(out, spec, seconds, cores_of(master))
                click.echo(
                    f"{len(cells)} cells, {spec.runs:,} runs in {len(running.chunks)} tasks on {master}", err=True
                )
                began_s = time.perf_counter()
                seen = in_background(lambda: executors_see(context, canary()))
                with telling(spec.runs) as tell:
                    run_rest(context, running, tell)
                awake = seen()
            lines = running.lines()
            report(running, lines, time.perf_counter() - began_s, form)
        different = differing(lines, samples)
        for number, seed, here, there in different:
            cell = cells[number]
            asked = SweptRun(cell.build(), seed, cell.profile, cell.command(seed))
            say_differs(Differs(asked, here, there, first_difference(asked)))
        if not awake:
            click.echo(f"on the executors {ASLEEP}", err=True)
    sys.exit(NONDETERMINISM if different else worst(line.verdict for line in lines) if awake else BROKEN)


def kept(out: Path) -> str:
    """The finished runs of an interrupted campaign, and the command that continues."""
    from kemu.tools.pipeline.campaign import load
    from kemu.tools.pipeline.errors import CampaignError

    command = same_command()
    try:
        campaign = load(out)
    except CampaignError:
        return f"no run is finished; repeat with: {command}"
    done = campaign.done()
    runs = sum(chunk.runs for chunk in campaign.chunks if chunk.number in done)
    more = "" if "--resume" in command.split() else " --resume"
    return f"{runs} of {campaign.spec.runs} runs are finished and kept; continue with: {command}{more}"


def _names(profiles: str | None) -> list[str]:
    return [name.strip() for name in profiles.split(",")] if profiles else []


def cores_of(master: str) -> int:
    """Number of tasks that run at a time: exact for local masters, 16 for other masters, which do not tell."""
    import os
    import re

    found = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else (os.cpu_count() or 1) if master.startswith("local") else 16


@contextmanager
def telling(total: int) -> "Iterator[Callable[[list[RunLine], int], None]]":
    """Show progress on standard error: one changing line on a terminal, else a line every 10 s."""
    from kemu.tools.pipeline.campaign import Rate
    from kemu.tools.progress import is_quiet

    if is_quiet():
        yield lambda lines, done: None
        return
    rate = Rate(total)
    live = sys.stderr.isatty()
    said_s = time.monotonic()

    def tell(lines: "list[RunLine]", done: int) -> None:
        nonlocal said_s
        text = rate.text(lines, done)
        if live:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        elif time.monotonic() - said_s >= SAY_EVERY_S:
            said_s = time.monotonic()
            click.echo(text, err=True)

    try:
        yield tell
    finally:
        if live:
            click.echo("", err=True)


def report(running: "Campaign", lines: "Sequence[RunLine]", wall_s: float, form: str) -> None:
    """Print the results of all runs, and for each failed run the command that repeats the run."""
    from kemu.tools.pipeline.campaign import table_of_cells

    cells = running.spec.cells
    failed = [line for line in lines if line.failed]
    commands = [(line, cells[line.cell].command(line.seed)) for line in failed]
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(("cell", "seed", "verdict", "reason", "command"))
    writer.writerows((cells[line.cell].name, line.seed, line.verdict, line.reason, said) for line, said in commands)
    write_whole(running.out / "failures.csv", file.getvalue())
    cells_table = table_of_cells(cells, lines)
    if form == "json":
        failures = [{"cell": cells[line.cell].name, "seed": line.seed, "verdict": line.verdict, "command": said}
                    for line, said in commands]  # fmt: skip
        summary: dict[str, Any] = {
            "campaign": running.id,
            "runs": len(lines),
            "wall_s": round(wall_s, 3),
            "cells": cells_table,
        }
        click.echo(json.dumps({**summary, "failures": failures}, indent=2))
        return
    print_lines(_report_text(running, lines, wall_s, cells_table, commands))


def _report_text(
    running: "Campaign",
    lines: "Sequence[RunLine]",
    wall_s: float,
    cells_table: Sequence[Mapping[str, Any]],
    commands: "Sequence[tuple[RunLine, str]]",
) -> Iterator[str]:
    """Print the table of cells, then each failed run with the command that repeats the run."""
    cells = running.spec.cells
    rows = [
        [
            row["cell"],
            f"{row['runs']}",
            f"{row['failed']}",
            "" if row["first_failing_seed"] is None else f"{row['first_failing_seed']}",
            f"{row['mean_wall_s']:.3f}",
        ]
        for row in cells_table
    ]
    heads = ("runs", "failed", "first failing seed", "s per run")
    yield from table([TableColumn("cell"), *(TableColumn(head, right=True) for head in heads)], rows, indent=0)
    yield ""
    yield f"{len(lines) - len(commands):,} of {len(lines):,} hold; {wall_s:.1f} s"
    for row in cells_table:
        if "never_fired" in row:
            yield f"{row['cell']}: lines of the plan that took effect in no run: {row['never_fired']}"
    for line, command in commands[:LISTED]:
        yield f"{cells[line.cell].name}, seed {line.seed} {line.verdict}: {line.reason}"
        yield f"  {command}"
    if len(commands) > LISTED:
        yield f"... and {len(commands) - LISTED} more in {running.out / 'failures.csv'}"
    yield f"next: kemu analyze {running.out}"
