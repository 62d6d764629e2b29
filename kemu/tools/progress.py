"""Progress of long work: on standard error while it is a terminal, nothing elsewhere."""

import sys
import threading
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


SHOWN_AFTER_S = 1.0
"""A single run that is shorter than this shows no bar."""
_LOOK_EVERY_S = 0.2


@contextmanager
def virtual_progress(total_us: int, now_us: Callable[[], int], quiet: bool = False) -> Iterator[None]:
    """A bar of one run's virtual time, from the first second on.

    Args:
        total_us: The virtual time of the whole run.
        now_us: Returns the virtual time reached; another thread calls it.
        quiet: Whether no bar is shown even on a terminal.
    """
    if quiet or is_quiet() or not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        if ended.wait(SHOWN_AFTER_S):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("virtual time", total=total_us / 1e6)
            while not ended.wait(_LOOK_EVERY_S):
                done_s = min(now_us(), total_us) / 1e6
                bar.update(task, completed=done_s, description=f"virtual time {done_s:,.0f} of {total_us / 1e6:,.0f} s")

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """A line with the elapsed time, for work of unknown length.

    Args:
        what: the work, such as "query".

    Yields:
        A function that takes the last finished part of the work, in words.
    """
    if is_quiet() or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda text: bar.update(task, description=f"{what}, done: {text}")
