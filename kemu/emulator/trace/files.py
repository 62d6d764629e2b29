"""Writing a trace file: ``NAME.part`` becomes ``NAME`` when the run is complete, so an old trace stays complete."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from kemu.emulator.trace.blocks import MAGIC

PART = ".part"
"""Suffix of a trace that is being written, or whose run was interrupted."""
_HAS_LOCKS = find_spec("fcntl") is not None
"""False on Windows."""


@contextmanager
def written_beside(path: Path) -> Iterator[BinaryIO]:
    """Open ``path.part``, which replaces ``path`` at the end of the block.

    After an interrupt or an error of the run, the part is kept, and a note of the exception names it. A pipe or a
    device is written directly.

    Raises:
        OSError: the file cannot be written, as on a full disk; ``path`` is a link or no trace; or another process
            writes it. The exception names ``path``, which stays as it was.
    """
    _check_replaceable(path)
    if path.exists() and not path.is_file():
        try:
            with path.open("wb") as sink:
                yield sink
        except OSError as error:
            raise _named(error, path, path) from error
        return
    part = path.with_name(path.name + PART)
    try:
        with _locked(part) as sink:
            yield sink
            sink.flush()
            part.replace(path)
    except OSError as error:
        if error.errno != errno.EAGAIN:
            part.unlink(missing_ok=True)
        raise _named(error, part, path) from error
    except BaseException as error:
        error.add_note(f"the trace so far is in {part}")
        raise


def growing_file(path: Path) -> tuple[Path, bool]:
    """The file with the newest records of a trace, and whether a process still writes it.

    Without file locks (Windows), a part counts as written.
    """
    part = path.with_name(path.name + PART)
    try:
        with part.open("rb") as file:
            return part, not _lock(file) or not _HAS_LOCKS
    except FileNotFoundError:
        return path, False


def _check_replaceable(path: Path) -> None:
    """Refuse a symbolic link and a file that is no trace."""
    try:
        kind = path.lstat().st_mode
        if stat.S_ISREG(kind):
            with path.open("rb") as file:
                start = file.read(len(MAGIC))
            if start not in (b"", MAGIC):
                raise FileExistsError(errno.EEXIST, "the file is no trace and is not replaced", str(path))
        if stat.S_ISLNK(kind) and (path.is_file() or not path.exists()):
            raise FileExistsError(errno.EEXIST, "a symbolic link is not replaced: name the file", str(path))
    except FileNotFoundError:
        return


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """Open an empty file for one writer; a file that an interrupted run left is emptied."""
    if part.is_symlink():
        raise FileExistsError(errno.EEXIST, "its .part is a symbolic link", str(part))
    with open(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as sink:
        if not _lock(sink) or not part.exists() or os.fstat(sink.fileno()).st_ino != part.stat().st_ino:
            raise BlockingIOError(errno.EAGAIN, "another process writes this trace", str(part))
        sink.truncate()
        yield sink


def _lock(file: BinaryIO) -> bool:
    """Lock a file for this process, until the file is closed; return False if another process has the lock."""
    if not _HAS_LOCKS:
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named(error: OSError, written: Path, path: Path) -> OSError:
    """Return the error with the name of the trace, if the error is about the trace."""
    if isinstance(error, BrokenPipeError) or error.filename not in (None, str(written), str(path)):
        return error
    return OSError(error.errno, f"cannot be written: {error.strerror}", str(path))
