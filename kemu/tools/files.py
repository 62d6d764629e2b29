"""Writing the file of ``--out``: never over an input, a link or a file of another kind, and never half of it."""

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kemu.emulator.trace.blocks import MAGIC
from kemu.tools.errors import BadInput

PERFETTO = b"\n\x04P\x01h\x01"
"""The first bytes of a file for Perfetto (``report.perfetto``)."""
START_BYTES = 4_096
"""Number of bytes that tell the kind of a file, apart from TOML."""
LARGEST_TOML = 10_000_000
"""Number of bytes of a TOML file that are read; the rest of a longer file is missing, so it is no scenario."""


def check_out(path: Path, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file of ``--out`` that must not be replaced, before the work begins.

    Args:
        inputs: the files and names that the command reads.

    Raises:
        BadInput: the file is an input, a link or of another kind, or its folder does not exist.
    """
    if not path.parent.is_dir():
        raise _refused(path, f"there is no folder {path.parent}")
    if path.is_symlink():
        raise _refused(path, "a symbolic link is not replaced: name the file")
    if any(Path(each).is_file() and path.exists() and path.samefile(each) for each in inputs):
        raise _refused(path, "it is an input of this command: name another file")
    if path.is_file() and not _is_ours(path):
        raise _refused(path, "the file is of another kind and is not replaced")


def write_text(path: Path, text: str, inputs: Iterable[str | Path] = ()) -> None:
    """Write a file as ``written`` does."""
    with written(path, inputs) as file:
        file.write(text.encode())


@contextmanager
def written(path: Path, inputs: Iterable[str | Path] = ()) -> Iterator[BinaryIO]:
    """Open a file that ``check_out`` accepts for its new content; after an error, the file is as it was.

    Raises:
        BadInput: the file cannot be written.
    """
    check_out(path, inputs)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:  # a pipe or a device
                yield file
            return
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with part.open("wb") as file:
                yield file
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, f"cannot be written: {error.strerror}") from None


def _refused(path: Path, why: str) -> BadInput:
    return BadInput(f"{path}: {why}")


def _is_ours(path: Path) -> bool:
    """Whether a file is empty, or could be an earlier result: trace, scenario, test of kemu, page, picture, or JSON."""
    try:
        with path.open("rb") as file:
            start = file.read(LARGEST_TOML if path.suffix == ".toml" else START_BYTES)
        if start.startswith(MAGIC):
            return True
        if path.suffix == ".pftrace":
            return start[: len(PERFETTO)] in (b"", PERFETTO)
        text = start.decode(errors="ignore" if len(start) == START_BYTES else "strict")
        if path.suffix == ".toml":
            from kemu.emulator.scenario.keys import declared
            from kemu.emulator.scenario.scenario import Scenario

            known = {each.name for each in declared(Scenario)}
            return not (tomllib.loads(text).keys() - known)
    except (OSError, ValueError, RecursionError):
        return False
    if path.suffix == ".html":
        return not text or text.startswith("<!doctype html>")
    if path.suffix == ".svg":
        return not text or text.startswith("<svg ")
    return not text or (path.suffix == ".py" and "import kemu" in text) or (path.suffix == ".json" and text[0] in "{[")
