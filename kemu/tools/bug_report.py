"""The report of an unexpected error: one line on standard error, and a file with the details."""

import platform
import shlex
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("kemu", "attrs", "cattrs", "click", "msgpack", "rich", "trio")


def report_bug(error: BaseException, arguments: Sequence[str]) -> str:
    """Write the details of an error to a new file; return one line that names the file.

    ``arguments``: the command line. The notes of the error name the run (``emulator.runner.run``).
    """
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
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
