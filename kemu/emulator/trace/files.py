"""How a trace comes to its place on disk: written beside it, then renamed, so that an old one is never half gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_beside(path: Path) -> Iterator[BinaryIO]:
    """A new file for ``path``, which takes its place at the end; also an interrupt's, whose tail is torn.

    What is no regular file (a pipe, a device) is written as it is.

    Raises:
        OSError: it cannot be written, as on a full disk; names ``path``, where all is as it was before.
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
