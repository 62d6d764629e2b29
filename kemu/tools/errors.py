"""The texts of errors: bad input in one line, and the report of an unexpected error."""

import shlex
from collections.abc import Sequence
from typing import IO, Any

import click

from kemu.tools.exits import BAD_INPUT

PACKAGES = ("kemu", "attrs", "cattrs", "click", "msgpack", "rich", "trio")
LONGEST_LINE = 2_000
"""Number of characters of an error's line that are printed."""


class CommandError(click.ClickException):
    """An error that ends a command, with one message for the user."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        say_error(self.format_message())


class BadInput(CommandError):
    """Bad input."""

    exit_code = BAD_INPUT


def say_error(text: str) -> None:
    """Print an error on standard error; each line gets the prefix "error", has no control characters and ends early."""
    from kemu.emulator.text.tables import printable

    for line in text.splitlines():
        end = " ..." if len(line) > LONGEST_LINE else ""
        click.echo(f"{click.style('error', fg='red')}: {printable(line[:LONGEST_LINE])}{end}", err=True)


def show_error(error: click.ClickException) -> None:
    """Print an error of a command; an error in the use of an option has the usage of its command before it."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command_path
        click.echo(f"{error.ctx.get_usage()}\nTry '{command} --help' for help.\n", err=True)
    say_error(error.format_message())


def bad_input_text(error: BaseException) -> str | None:
    """Return the message of an error that the user's input or files caused; None for another error."""
    from kemu.emulator.text.tables import ScenarioError, printable
    from kemu.emulator.trace.blocks import TraceError
    from kemu.protocol.wire.compile import CodecError

    if isinstance(error, ScenarioError | TraceError | CodecError):
        return printable(str(error))
    if isinstance(error, click.ClickException) and error.exit_code == BAD_INPUT:
        return error.message
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None


def report_bug(error: BaseException, arguments: Sequence[str]) -> str:
    """Write the details of an error to a new file; return one line that names the file.

    ``arguments``: the command line. The notes of the error name the run (``emulator.runner.run``).
    """
    import platform
    import tempfile
    import traceback

    said = f"{type(error).__name__}: {error}".rstrip(": ").splitlines()[0][:200]
    where = "; ".join(note for note in getattr(error, "__notes__", ()) if "\n" not in note)
    line = f"this is a bug in kemu: {said}{f' ({where})' if where else ''}"
    lines = [
        f"command: {shlex.join(['kemu', *arguments])}",
        f"versions: {', '.join(f'{name} {_version(name)}' for name in PACKAGES)}",
        f"Python {platform.python_version()} on {platform.platform()}",
        "",
        *(each.rstrip("\n") for each in traceback.format_exception(error)),
    ]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="kemu-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write("\n".join(lines) + "\n")
    except OSError as failed:
        return f"{line}; the details cannot be written: {failed.strerror}"
    return f"{line}; please report it with the details in {file.name}"


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
