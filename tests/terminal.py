"""Signals as a process in a terminal gets them, wherever the tests run."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}


@contextmanager
def terminal_signals() -> Iterator[None]:
    """Let signals end this process and the processes that it starts. A background job ignores SIGINT, nohup SIGHUP.

    Raises:
        AssertionError: the block left another handler.
    """
    before = {number: signal.signal(number, handler) for number, handler in HANDLERS.items()}
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLERS)
    try:
        yield
        assert {number: signal.getsignal(number) for number in HANDLERS} == HANDLERS
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
