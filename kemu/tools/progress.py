"""Progress bars on standard error, shown only if standard error is a terminal."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

QUIET = "kemu.quiet"
"""Key of click's ``Context.meta`` that is set by ``--quiet``."""


def is_quiet() -> bool:
    """Return whether the command was called with ``--quiet``."""
    asked = click.get_current_context(silent=True)
    return asked is not None and bool(asked.meta.get(QUIET))


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[str, bool], None]]:
    """Show a progress bar on stderr; show nothing if stderr is no terminal.

    Args:
        what: the unit of the work, such as "runs". total: the number of units.

    Yields:
        A function to call after each unit, with a description of the unit ("" = none) and whether the unit failed.
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
"""Wall time after which a single run shows a progress bar."""
_LOOK_EVERY_S = 0.2


@contextmanager
def virtual_progress(total_us: int, now_us: Callable[[], int], quiet: bool = False) -> Iterator[None]:
    """Show a bar of one run's virtual time, from ``SHOWN_AFTER_S`` on.

    Args:
        total_us: The virtual time of the whole run.
        now_us: Returns the present virtual time; another thread calls this function.
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
    """Show a line with the elapsed time, for work of unknown length.

    Args:
        what: the work, such as "query".

    Yields:
        A function to call with the name of each part of the work that is done.
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
