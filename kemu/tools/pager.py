"""A pager for long output on a terminal, chosen as git chooses a pager."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from kemu.tools.output import is_read


class Printer:
    """Prints lines, to a pager or to standard output."""

    def __init__(self, command: str = "") -> None:
        """``command``: the shell command of the pager, which starts with the first line; "" for standard output."""
        self._command = command
        self._pager: subprocess.Popen[str] | None = None
        context = click.get_current_context(silent=True)
        self._is_plain = context is not None and context.color is False
        self._is_closed = False

    def line(self, text: str) -> None:
        """Print a line; do nothing if nobody reads any more."""
        if not self._command:
            click.echo(text)
            return
        if self._pager is None:
            self._pager = _started(self._command)
        if not self._is_closed:
            assert self._pager.stdin is not None
            try:
                self._pager.stdin.write((click.unstyle(text) if self._is_plain else text) + "\n")
            except BrokenPipeError:
                self._is_closed = True

    @property
    def is_read(self) -> bool:
        """Whether somebody reads: the user may have quit the pager."""
        return not self._is_closed if self._command else is_read()

    def end(self) -> None:
        """Close the input of the pager, and wait for its end; Ctrl-C is a key of the pager."""
        if self._pager is None:
            return
        assert self._pager.stdin is not None
        while self._pager.poll() is None or not self._pager.stdin.closed:
            with suppress(BrokenPipeError, KeyboardInterrupt):
                self._pager.stdin.close()
                self._pager.wait()


def pager_command() -> str:
    """Return the shell command of the pager: PAGER, else ``less``, else ``more``; "" if there is none.

    An empty PAGER and "cat" mean no pager.
    """
    asked = os.environ.get("PAGER")
    for command in ("less", "more") if asked is None else (asked,):
        words = command.split()
        if words and words != ["cat"] and shutil.which(words[0]) is not None:
            return command
    return ""


@contextmanager
def paged(wanted: bool = True) -> Iterator[Printer]:
    """Yield a printer: a pager, if it is wanted and standard output is a terminal.

    ``less`` shows colours, and ends at once if the output fits on the screen, unless the user has set LESS. After the
    block, the command waits for the pager, also after an interrupt.
    """
    printer = Printer(pager_command() if wanted and sys.stdout.isatty() else "")
    try:
        yield printer
    finally:
        printer.end()


def _started(command: str) -> "subprocess.Popen[str]":
    sys.stdout.flush()
    return subprocess.Popen(
        command,
        shell=True,  # PAGER is a shell command, as for git and man
        stdin=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={"LESS": "FRX", **os.environ},
    )
