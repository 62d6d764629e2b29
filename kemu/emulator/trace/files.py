"""Writes a trace into a temporary file that is renamed at the end, so that an old trace stays complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_beside(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` at the end, also after an interrupt (with a torn tail).

    A pipe or a device is written directly.

    Raises:
        OSError: the file cannot be written, as on a full disk. The error names ``path``, whose file is unchanged.
    """
    in_place = path.exists() and not path.is_file()
    beside = path if in_place else path.with_name(path.name + ".part")
    try:
        with beside.open("wb") as sink:
            yield sink
    except OSError as error:
        if not in_place:
            beside.unlink(missing_ok=True)
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(beside)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        if not in_place:
            beside.replace(path)
        raise
    if not in_place:
        beside.replace(path)
