"""Dialects of logs: one file for each program that writes logs. A new dialect is one new file with a ``DIALECT``."""

import importlib
import pkgutil
from collections.abc import Mapping

from kemu.tools.logs.wordings.wordings import Dialect

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for found in pkgutil.iter_modules(__path__)
    for dialect in (importlib.import_module(f"{__name__}.{found.name}").DIALECT,)
}
"""Name -> dialect, of every file in this folder."""
