"""How far a long piece of work is: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[str, bool], None]]:
    """A bar on stderr while it is a terminal.

    Args:
        what: what is counted, such as "runs".
        total: how many there are.

    Yields:
        What to call after each: with what comes next or is going on ("" = nothing to say), and whether it failed.
    """
    if not sys.stderr.isatty():
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
