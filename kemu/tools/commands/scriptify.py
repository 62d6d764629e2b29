"""``kemu scriptify`` turns the real clients of a served cluster's trace into scripted clients."""

from pathlib import Path

import click

from kemu.emulator.text.tables import printable
from kemu.emulator.text.toml_text import toml_text
from kemu.emulator.trace.traces import read_trace
from kemu.tools.files import check_out, write_text
from kemu.tools.scriptify import Scripted, scriptified


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the scenario to this file.")
def scriptify(trace: Path, out: Path | None) -> None:
    """Make a scenario whose clients send what the real clients of TRACE sent.

    TRACE is a file of "kemu serve --trace". The scenario needs no sockets, and runs in virtual time: "kemu run". Each
    run with one seed has one digest. The plan of the served cluster stays; orders during the run become entries of the
    plan. Add faults with --do, and change settings with --set and --profile.

    \b
    kemu serve cluster.toml --trace live.kemu
    kemu scriptify live.kemu --out again.toml
    kemu run again.toml --do "kill-coordinator group=payments at=20s for=8s"
    """  # noqa: D301 (click's own mark)
    if out is not None:
        check_out(out, [trace])
    made = scriptified(read_trace(trace), out.stem if out is not None else "scripted")
    text = toml_text(made.scenario.to_dict())
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(out, text, [trace])
    for line in summary(made):
        click.echo(printable(line), err=True)
    if out is not None:
        click.echo(f"scenario: {out}", err=True)


def summary(made: Scripted) -> list[str]:
    """A line for each client, and lines about orders and a torn trace."""
    lines = []
    for client, asked in made.asked.items():
        said = ", ".join(f"{count} {api}" for api, count in sorted(asked.items(), key=lambda row: (-row[1], row[0])))
        left = made.unanswered[client]
        lines.append(
            f"{client}: {made.connections[client]} connections, {sum(asked.values())} requests ({said})"
            + (f", {left} without an answer" if left else "")
        )
    if made.orders:
        lines.append(f"{made.orders} orders became entries of the plan")
    if made.dropped:
        lines.append(f"{made.dropped} entries of the plan are after the end of the trace, and left out")
    if made.torn:
        lines.append(f"the trace is {made.torn}")
    return lines
