"""``python -m kemu``, and the installed command ``kemu``."""

import atexit
import gc
import os
import signal
import sys
from types import FrameType

YOUNG_OBJECTS = 200_000
"""Number of new objects after which Python collects garbage: more than the imports make, else they take a tenth
longer."""


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once: during the imports there is nothing to keep, and a KeyboardInterrupt there prints a traceback."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def _end(codes: list[int]) -> None:
    """End the process with this exit code. Without this call, Python would free every object one by one, which takes a
    sixth of the time of a short command.
    """
    if codes and sys.stdout is not None and sys.stderr is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


def main() -> None:
    """Run the command line."""
    gc.set_threshold(YOUNG_OBJECTS)
    codes: list[int] = []
    atexit.register(_end, codes)  # registered first, and therefore called last
    try:
        _run()
    except SystemExit as ended:
        codes += [ended.code] if isinstance(ended.code, int) else []
        raise


def _run() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # the caller ignores Ctrl-C
        from kemu.tools.cli import main as command_line

        command_line()
        return
    signal.signal(signal.SIGINT, _leave)
    from kemu.tools.cli import main as command_line

    command_line(imported=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


if __name__ == "__main__":
    main()
