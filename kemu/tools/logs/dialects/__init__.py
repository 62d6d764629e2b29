"""Dialects of logs: one file for each program that writes logs. A new dialect is one new file with a ``DIALECT``."""

from collections.abc import Mapping

from kemu.emulator.package_modules import modules_of
from kemu.tools.logs.wordings.wordings import Dialect

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (m.DIALECT for m in modules_of(__name__))}
"""Name -> dialect, of every file in this folder."""
