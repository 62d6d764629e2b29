"""Progress of long work: on standard error while it is a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

QUIET = "kemu.quiet"
"""Key of click's ``Context.meta``: the user asked for no progress."""


def is_quiet() -> bool:
    """Return whether the command was called with ``--quiet``."""
    asked = click.get_current_context(silent=True)
    return asked is not None and bool(asked.meta.get(QUIET))


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[str, bool], None]]:
    """A bar on stderr while it is a terminal.

    Args:
        what: the things counted, such as "runs". total: their number.

    Yields:
        A function to call after each: with a description of the current work ("" = none), and whether it failed.
    """
    if is_quiet() or not sys.stderr.isatty():
        yield lambda text, failed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        failures = 0

        def advance(text: str, failed: bool) -> None:
            nonlocal failures
            failures += failed
            said = [text or what, *([f"{failures} failed"] if failures else ())]
            bar.update(task, advance=1, description=", ".join(said))

        yield advance
