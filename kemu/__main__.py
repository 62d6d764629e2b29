"""``python -m kemu``, and the installed command ``kemu``."""

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once: during the imports there is nothing to keep, and a KeyboardInterrupt there prints a traceback."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # the caller ignores Ctrl-C
        from kemu.tools.cli import main as command_line

        command_line()
        return
    signal.signal(signal.SIGINT, _leave)
    from kemu.tools.cli import main as command_line

    command_line(imported=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


if __name__ == "__main__":
    main()
