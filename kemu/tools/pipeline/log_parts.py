"""Logs on Spark: each task reads one part of a log with the reader of ``kemu.tools.logs``.

A task writes its events into a file of a scratch folder, which the driver and the executors must share. The driver
takes the files in order, so that its memory does not grow with the logs.
"""

import os
import pickle
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kemu.tools.errors import BadInput
from kemu.tools.logs.events import Event
from kemu.tools.logs.parts import LogPart, PartReader, ReadLogs

if TYPE_CHECKING:
    from pyspark import SparkContext

EVENTS_AT_ONCE = 2_000


def events_on_spark(context: "SparkContext", logs: ReadLogs) -> Iterator[Event]:
    """The events of all files, file by file, as ``ReadLogs.events`` returns them.

    Raises:
        BadInput: a file cannot be read.
    """
    scratch = tempfile.mkdtemp(prefix="kemu-events-")
    numbered = list(enumerate(logs.parts))

    def work(task: tuple[int, LogPart]) -> tuple[PartReader | None, str]:
        return read_into(scratch, *task)

    try:
        done = context.parallelize(numbered, len(numbered)).map(work).collect()
        wrong = next((error for _, error in done if error), "")
        if wrong:
            raise BadInput(wrong)
        read = (
            (part, events_in(Path(scratch) / f"{number}"), reader)
            for (number, part), (reader, _) in zip(numbered, done, strict=True)
            if reader is not None
        )
        yield from logs.joined(read)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def read_into(scratch: str, number: int, part: LogPart) -> tuple[PartReader | None, str]:
    """Read a part, and write its events into the file ``number``. Returns the account, or the error of a bad file."""
    reader = PartReader(part)
    attempt = Path(scratch) / f".{number}.{os.getpid()}"
    try:
        with attempt.open("wb") as file:
            for some in _batches(reader.events()):
                packed = zlib.compress(pickle.dumps(some, pickle.HIGHEST_PROTOCOL), 1)
                file.write(len(packed).to_bytes(4, "big"))
                file.write(packed)
    except BadInput as error:
        return None, str(error)
    attempt.replace(Path(scratch) / f"{number}")
    return reader, ""


def events_in(path: Path) -> Iterator[Event]:
    """The events that ``read_into`` wrote; the file is removed afterwards."""
    with path.open("rb") as file:
        while size := file.read(4):
            yield from pickle.loads(zlib.decompress(file.read(int.from_bytes(size, "big"))))
    path.unlink()


def _batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    some: list[Event] = []
    for event in events:
        some.append(event)
        if len(some) == EVENTS_AT_ONCE:
            yield some
            some = []
    yield some
