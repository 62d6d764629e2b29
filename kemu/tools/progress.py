"""Progress of long work: a bar on a terminal, no output elsewhere or with ``--quiet``."""

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
    """Show a bar on stderr, if that is a terminal and the command is not quiet.

    Args:
        what: Name of the counted things, such as "runs".
        total: Number of things.

    Yields:
        A function to call after each thing, with the text to show ("": ``what``) and whether that thing failed.
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
