"""Folders of logs: the files that are logs, and the reasons why other files are none."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from kemu.tools.errors import BadInput
from kemu.tools.kafka_files.input_files import STDIN
from kemu.tools.logs.lines import open_log, sample_of
from kemu.tools.logs.wrappers.wrappers import opened


@attrs.frozen
class SkippedFile:
    """A file of a folder that was not read."""

    path: Path
    why: str


def log_files(
    paths: Sequence[Path], also: Callable[[Path], bool] | None = None
) -> tuple[list[Path], list[SkippedFile]]:
    """The files to read: named files, and the logs in named folders and their subfolders.

    Args:
        paths: files, folders, or ``-`` for the standard input.
        also: tells further files of a folder that the caller reads, such as traces.

    Raises:
        BadInput: a file does not exist, or a folder has no log.
    """
    files: list[Path] = []
    skipped: list[SkippedFile] = []
    for path in paths:
        if not path.is_dir():
            if str(path) != STDIN and not path.exists():
                raise BadInput(f"{path}: no such file or folder")
            files.append(path)
            continue
        before = len(files)
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            why = "" if also is not None and also(file) else _why_no_log(file)
            if why:
                skipped.append(SkippedFile(file, why))
            else:
                files.append(file)
        if len(files) == before:
            raise BadInput(f"{path}: no file of this folder is a log: no file has lines with a time or a level")
    return list(dict.fromkeys(files)), skipped


def _why_no_log(path: Path) -> str:
    """Why a file of a folder is no log; "" for a log."""
    try:
        with open_log(path) as lines:
            sample = sample_of(lines)
    except BadInput as error:
        return error.message.removeprefix(f"{path}: ")
    if any("\0" in line for line in sample):
        return "no text"
    if not any(opened(line.rstrip("\r\n")).starts_record for line in sample):
        return "no line with a time or a level"
    return ""


def skipped_lines(skipped: Sequence[SkippedFile]) -> Iterator[str]:
    """The files that were not read, by folder and reason."""
    for folder, why in dict.fromkeys((each.path.parent, each.why) for each in skipped):
        names = [each.path.name for each in skipped if (each.path.parent, each.why) == (folder, why)]
        yield from textwrap.wrap(f"skipped in {folder}, {why}: {', '.join(names)}", 100, subsequent_indent="  ")
