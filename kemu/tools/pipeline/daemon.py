"""PySpark's daemon, which forks the Python workers, with the modules that workers of kemu need.

Spark runs this module once in each executor of a local master, in place of ``pyspark.daemon``. Each worker would
otherwise import the modules again. NumPy and PyArrow start threads, which no fork copies, so workers import these.
"""

import gc
import sys
from importlib import import_module
from pathlib import Path

MODULES = (
    "kemu.emulator.runner",
    "kemu.tools.determinism.watch",
    "kemu.tools.pipeline.cells",
    "kemu.tools.pipeline.files",
    "kemu.tools.pipeline.shipping",
    "kemu.tools.report.run_report",
)
"""Most modules of a campaign's workers."""


def is_archive_of_installed(entry: str) -> bool:
    """Whether an entry of ``sys.path`` is an archive inside the installed PySpark, with the same modules.

    Spark puts these archives first. Python would compile their modules at each start.
    """
    lib = Path(entry).parent
    return entry.endswith(".zip") and lib.parts[-3:] == ("pyspark", "python", "lib") and str(lib.parents[2]) in sys.path


def main() -> None:
    """Import the modules, and run PySpark's daemon."""
    sys.path[:] = sorted(sys.path, key=is_archive_of_installed)
    gc.disable()
    for name in MODULES:
        import_module(name)
    from pyspark.daemon import manager

    gc.freeze()  # PySpark collects garbage after each task, and need not look at the modules
    gc.enable()
    manager()


if __name__ == "__main__":
    main()
