"""After an interrupt (Ctrl-C), print the results so far, and the command that does the remaining work."""

import _thread
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Literal, Self

import click

from kemu.tools.errors import bad_input_text
from kemu.tools.output import is_read

ARGUMENTS = "kemu.arguments"
"""Key of click's ``Context.meta`` for the arguments of the command line; the first argument is the subcommand."""

ALLOWS_CODE = "kemu.allows_code"
"""Key of click's ``Context.meta`` that is set by ``--allow-code``."""


LATER_S = 0.001
"""Time after which an interrupt that a destructor has lost is repeated, or is delayed again."""
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_last_signal = signal.SIGINT


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C inside the block; a signal that the caller ignores stays ignored.

    No interrupt is lost: Python prints and forgets an exception in a destructor, so the interrupt is repeated.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [each for each in _ENDING if signal.getsignal(each) is signal.SIG_DFL]
    blocks = signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask")

    def handle(number: int, frame: FrameType | None) -> None:
        global _last_signal
        _last_signal = signal.Signals(number)
        if blocks:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.raise_signal(signal.SIGINT)  # the handler of SIGINT, such as Trio's, knows when to interrupt

    if blocks:  # as in a background job: Ctrl-C is still ignored, and SIGTERM can use its handler
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in handled:
        signal.signal(each, handle)
    reported, ended = sys.unraisablehook, threading.Event()

    def report(lost: Any) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            threading.Thread(target=repeat, daemon=True).start()
        else:
            reported(lost)

    def repeat() -> None:
        """Interrupt the main thread outside of ``report``, in which Python would lose the interrupt again."""
        while not ended.wait(LATER_S):
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            while frame is not None and frame.f_code is not report.__code__:
                frame = frame.f_back
            if frame is None:
                _thread.interrupt_main()
                return

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = reported
        ended.set()
        for each in handled:
            signal.signal(each, signal.SIG_DFL)
        if blocks:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def exit_code() -> int:
    """Return the exit code after an interrupt: 128 and the number of the signal."""
    return 128 + _last_signal


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception that ended a command is an interrupt."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt | click.Abort)


class _NoReader(Exception):
    """The reader of standard output closed the pipe."""


class Interrupt:
    """A context that an interrupt (Ctrl-C) or an unexpected error ends, so that the finished results are printed.

    Bad input passes. ``exit`` raises an unexpected error again. If the reader of standard output closes the pipe, the
    context ends as if the work were finished.
    """

    def __init__(self) -> None:
        self.happened = False
        """Whether an interrupt or an error ended the context."""
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer an interrupt until the end of the block, so that a result is both counted and printed, or neither."""
        pending = []
        is_main = threading.current_thread() is threading.main_thread()
        defers = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if defers:  # only here: during a run, Trio has a handler of its own
            signal.signal(signal.SIGINT, lambda number, frame: pending.append(number))
        try:
            yield
        finally:
            if defers:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if pending:
            raise KeyboardInterrupt
        if not is_read():
            raise _NoReader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> Literal[True] | None:
        if isinstance(error, _NoReader):
            return True
        if isinstance(error, Exception) and bad_input_text(error) is None:
            self._error = error
        elif error is None or not is_interrupt(error):
            return None
        self.happened = True
        return True

    def as_dict(self, done: int, total: int) -> dict[str, Any]:
        """Return the fields that mark a JSON answer as partial; empty without an interrupt."""
        return {"interrupted": {"finished": done, "of": total}} if self.happened else {}

    def exit_with_seeds(self, done: int, seeds: Sequence[int], form: str) -> None:
        """Call ``exit`` after the first ``done`` seeds; the printed command runs the remaining seeds."""
        left = seeds[done:]
        options = {"seeds": f"{left[0]}:{left[-1]}"} if done and left else {}
        self.exit(done, len(seeds), "runs", form, **options)

    def exit(self, done: int, total: int, what: str, form: str = "json", **rest: str) -> None:
        """After an interrupt: say how much is done and print the command for the rest; exit with its code.

        Args:
            what: the unit of ``done`` and ``total``, such as "runs".
            form: "text" prints to stdout, "json" to stderr.
            rest: options with which the command does only the remaining work; without options, all work is repeated.
        """
        if not self.happened:
            return
        how = "continue" if rest else "repeat"
        why = "interrupted" if self._error is None else "stopped by an error"
        said = f"{why}: {done} of {total} {what} finished; {how} with: {same_command(**rest)}"
        click.echo(said, err=form == "json")
        if self._error is not None:
            raise self._error
        sys.exit(exit_code())


def code_words() -> list[str]:
    """Return ``--allow-code`` as a word of a command that repeats a run, if the command line has the option."""
    context = click.get_current_context(silent=True)
    return ["--allow-code"] if context is not None and context.meta.get(ALLOWS_CODE) else []


def same_command(**options: str) -> str:
    """Return the command line of this process, with the values of ``options`` added or replaced."""
    context = click.get_current_context()
    words = list(context.meta.get(ARGUMENTS) or [context.info_name or ""])
    for name, value in options.items():
        flag = f"--{name}"
        places = [index for index, word in enumerate(words) if word == flag or word.startswith(f"{flag}=")]
        if not places:
            words += [flag, value]
            continue
        at = places[-1]
        words[at : at + (2 if words[at] == flag else 1)] = [flag, value]
    return f"kemu {shlex.join(words)}"
