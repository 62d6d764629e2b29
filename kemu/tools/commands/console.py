"""``kemu console`` shows a live run, and takes orders."""

import os
import sys

import click

from kemu.tools.exits import HOLDS


@click.command()
@click.argument("address", metavar="PATH|PORT")
@click.option("--plain", is_flag=True, help="Print lines instead of a full screen, as without a terminal.")
@click.pass_context
def console(ctx: click.Context, address: str, plain: bool) -> None:
    """Show a live run, and take orders: groups, members, lag, leaders, ISRs and the story.

    PATH is the control socket, and PORT the HTTP port, of "kemu serve --control" or "kemu run --live --control".

    On a terminal, the state fills the upper part, and the story the lower part. An order at the prompt is carried out
    at once: any action of a plan, or wait, leader, state, events, help, quit. Tab completes actions, keys and names.
    Ctrl-D ends the console, and never the run.

    Without a terminal (or with TERM=dumb), the state and then each event is a line, and standard input has one order
    for each line. Each order waits for the answer to the order before it. The end of the input ends the console. The
    exit code is 2 after a refused order, and 8 after a wait in vain.

    \b
    kemu serve cluster.toml --control control
    kemu console control
    echo "kill-coordinator group=payments for=5s" | kemu console control
    """  # noqa: D301 (click's own mark)
    from kemu.tools.console.exchange import address_of
    from kemu.tools.console.plain import run_plain

    where, code = address_of(address), None
    if not plain and _is_terminal():
        try:
            from kemu.tools.console.screen import run_screen

            session, code = run_screen(where, ctx.color is not False), HOLDS
        except ModuleNotFoundError as error:
            click.echo(f"plain lines, because the full screen needs {error.name}: pip install 'kemu[serve]'", err=True)
    if code is None:
        session = run_plain(where)
        code = session.code
    if session.has_run_ended:
        click.echo("the run has ended", err=True)
    sys.exit(code)


def _is_terminal() -> bool:
    return os.environ.get("TERM", "dumb") not in ("", "dumb") and sys.stdin.isatty() and sys.stdout.isatty()
