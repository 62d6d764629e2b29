"""The page of a run that continues: written again from the growing trace, until the run ends.

An open page of such a run reloads itself, and keeps its window. The last page does not reload.
"""

import multiprocessing
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.files import growing_file
from kemu.emulator.trace.traces import Header, read_trace
from kemu.protocol.wire.codec import CodecError
from kemu.tools.errors import BadInput
from kemu.tools.report.page import write_page
from kemu.tools.report.recorded import report_of

PACE_S = 3.0
"""Seconds between two pages of one run, at least."""
REST = 4
"""A pause lasts at least this many times as long as the work on the page before."""


def follow(
    trace: Path,
    page: Path,
    command: Callable[[Header], str],
    *,
    messages: str = "all",
    rest: Callable[[float], bool],
    written: Callable[[], None] = lambda: None,
) -> str:
    """Write the page of a growing trace until its run ends.

    Args:
        command: makes the command that repeats the run.
        rest: pauses for some seconds; returns whether the run has ended.
        written: is called after each page.

    Returns:
        "" for a complete trace, else the place at which the run stopped.

    Raises:
        BadInput: the page cannot be written.
        TraceError: the trace is damaged, or does not exist.
    """
    has_ended = False
    with TemporaryDirectory(prefix="kemu-report-") as place:
        copy = Path(place) / trace.name
        while True:
            began_s = time.monotonic()
            growing, continues = growing_file(trace)
            continues &= not has_ended
            try:
                shutil.copyfile(growing, copy)
                recorded = read_trace(copy)
            except FileNotFoundError:
                if trace.exists():
                    continue  # the run ended, and its file got another name, between two lines of this function
                raise TraceError(f"{trace}: no such file, and no run that writes it") from None
            except TraceError:
                if not continues:
                    raise  # else: no complete header yet
            else:
                with recorded.interpreted(), code_allowed(Code.NONE):
                    made = report_of(recorded, command(recorded.header), messages)
                write_page(made, page, recorded, reload_s=PACE_S if continues else 0)
                written()
                if not continues:
                    return made.torn
            has_ended = rest(max(PACE_S, REST * (time.monotonic() - began_s)))


@contextmanager
def followed(trace: Path, page: Path, command: str) -> Iterator[None]:
    """Let another process write the page of the run of this block, from its trace.

    Raises:
        BadInput: the page could not be written.
    """
    context = multiprocessing.get_context("spawn")
    ended = context.Event()
    process = context.Process(target=_follow, args=(trace, page, command, ended), daemon=True)
    process.start()
    try:
        yield
    except Exception:
        process.kill()
        raise
    finally:
        ended.set()
        process.join()
    if process.exitcode:
        raise BadInput(f"{page}: the process that writes the page has failed")


def _follow(trace: Path, page: Path, command: str, ended: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt ends the run, and the run ends this process
    while not growing_file(trace)[1] and not ended.wait(0.1):
        pass  # until the run has begun: a file of this name belongs to an earlier run
    try:
        follow(trace, page, lambda header: command, rest=ended.wait)
    except (click.ClickException, TraceError, CodecError, OSError) as error:
        click.echo(f"no page: {error}", err=True)
        sys.exit(1)
