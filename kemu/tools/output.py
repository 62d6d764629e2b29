"""Standard output and standard error of the command line: a closed pipe is no error, a full disk is one line."""

import io
import os
import sys
from typing import Any, TextIO


class OutputFailed(Exception):
    """Standard output cannot be written, for another reason than a reader that closed the pipe."""


class _Stream(io.FileIO):
    """A standard stream that ignores further output after the first failure."""

    def __init__(self, number: int, *, tells: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self._tells = tells
        self.failed = False
        """Whether nobody reads this stream any more."""

    def write(self, data: Any) -> int:
        """Write, or ignore the data.

        Raises:
            OutputFailed: the first failure, such as a full disk; a closed pipe only sets ``failed``.
        """
        if not self.failed:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.failed = True
            except OSError as error:
                self.failed = True
                if self._tells:
                    raise OutputFailed(error.strerror or str(error)) from None
        return len(data)


def open_outputs() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that survive a closed pipe.

    Raises:
        OutputFailed: standard output is closed.
    """
    sys.stderr = _replaced(sys.stderr, tells=False)
    if sys.stdout is None:
        raise OutputFailed("standard output is closed")
    sys.stdout = _replaced(sys.stdout, tells=True)


def _replaced(stream: TextIO | None, tells: bool) -> Any:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    buffer = getattr(stream, "buffer", None)
    if type(getattr(buffer, "raw", buffer)) is not io.FileIO:  # with PYTHONUNBUFFERED, the buffer is the file itself
        return stream  # a test's stream, or replaced before
    stream.flush()
    raw = _Stream(stream.fileno(), tells=tells)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering)
    )


def is_read() -> bool:
    """Return whether standard output still has a reader; a command that only prints may end without one."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return not getattr(raw, "failed", False)
