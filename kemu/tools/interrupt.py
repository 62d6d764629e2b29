"""After an interrupt (Ctrl-C), print the results so far, and the command that does the remaining work."""

import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Literal, Self

import click

from kemu.tools.exits import INTERRUPTED

ARGUMENTS = "kemu.arguments"
"""Key of click's ``Context.meta`` for the arguments of the command line; the first argument is the subcommand."""


class Interrupt:
    """A context manager that suppresses ``KeyboardInterrupt``: an interrupt (Ctrl-C) ends only the block."""

    def __init__(self) -> None:
        self.happened = False
        """Whether an interrupt ended the block."""
        self._is_deferring = False
        self._is_pending = False
        self._replaces_handler = False

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._replaces_handler = True
            signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_deferring:
            raise KeyboardInterrupt
        self._is_pending = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer an interrupt until the end of the block, so that the caller finishes the report of a result."""
        self._is_deferring = True
        try:
            yield
        finally:
            self._is_deferring = False
        if self._is_pending:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> Literal[True] | None:
        if self._replaces_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return None
        self.happened = True
        return True

    def as_dict(self, done: int, total: int) -> dict[str, Any]:
        """Return the fields that mark a JSON answer as partial; empty without an interrupt."""
        return {"interrupted": {"finished": done, "of": total}} if self.happened else {}

    def exit_with_seeds(self, done: int, seeds: Sequence[int], form: str) -> None:
        """Call ``exit`` after the first ``done`` seeds; the printed command runs the remaining seeds."""
        left = seeds[done:]
        options = {"seeds": f"{left[0]}:{left[-1]}"} if done and left else {}
        self.exit(done, len(seeds), "runs", form, **options)

    def exit(self, done: int, total: int, what: str, form: str = "json", **rest: str) -> None:
        """After an interrupt, print the progress and the command for the remaining work; exit with ``INTERRUPTED``.

        Args:
            what: the unit of ``done`` and ``total``, such as "runs".
            form: "text" prints to stdout, "json" to stderr.
            rest: options with which the command does only the remaining work; without options, all work is repeated.
        """
        if not self.happened:
            return
        how = "continue" if rest else "repeat"
        said = f"interrupted: {done} of {total} {what} finished; {how} with: {same_command(**rest)}"
        click.echo(said, err=form == "json")
        sys.exit(INTERRUPTED)


def same_command(**options: str) -> str:
    """Return the command line of this process, with the values of ``options`` added or replaced."""
    context = click.get_current_context()
    words = list(context.meta.get(ARGUMENTS) or [context.info_name or ""])
    for name, value in options.items():
        flag = f"--{name}"
        places = [index for index, word in enumerate(words) if word == flag or word.startswith(f"{flag}=")]
        if not places:
            words += [flag, value]
            continue
        at = places[-1]
        words[at : at + (2 if words[at] == flag else 1)] = [flag, value]
    return f"kemu {shlex.join(words)}"
