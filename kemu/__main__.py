"""``python -m kemu``: the command line."""

from kemu.tools.cli import main

if __name__ == "__main__":
    main()
