"""The parts of an analysis, as ``TABLES/parts.json`` lists them, with the columns of all tables.

    TABLES/parts.json                                      the parts, the source files of each, the tables' columns
    TABLES/part=0003/table=notes/campaign=.../*.parquet    the rows of one ingestion

A part counts from the moment that ``parts.json`` names it. This module needs neither Spark nor the emulator, so a query
without Spark starts at once.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pyarrow.parquet as pq

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.files import damaged, read_file, write_whole
from kemu.tools.pipeline.tables.columns import KINDS, Schema

PARTS = "parts.json"
CAMPAIGN = "campaign"
"""The column that every table has after its own: part of the files' paths."""
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_PART = re.compile(r"[0-9]{4,9}", re.ASCII)

Stamp = list[int]
Units = Mapping[str, Stamp]
"""Path -> (bytes, modification time in ns), to recognise it later; chunks never change and have none."""


@frozen
class Parts:
    """The tables' folder, the columns of its tables, and its parts by name."""

    folder: Path
    tables: Mapping[str, Schema]
    parts: Mapping[str, Units]

    def units(self) -> dict[str, Stamp]:
        """All ingested paths, with their sizes and times."""
        return {unit: stamp for units in self.parts.values() for unit, stamp in units.items()}

    def folders(self, table: str, parts: Sequence[str]) -> list[Path]:
        """The folders of a table's rows in these parts; none if there are no rows."""
        places = [self.folder / f"part={name}" / f"table={table}" for name in parts]
        return [place for place in places if place.is_dir()]

    def files(self, table: str) -> list[Path]:
        """The files of a table's rows, sorted."""
        found = (place.glob(f"{CAMPAIGN}=*/*.parquet") for place in self.folders(table, sorted(self.parts)))
        return sorted(path for paths in found for path in paths if not path.name.startswith((".", "_")))

    def rows(self, table: str) -> int:
        """The number of a table's rows, from the ends of its files."""
        return sum(pq.read_metadata(path).num_rows for path in self.files(table))

    def adding(self, name: str, units: Units) -> "Parts":
        """Write ``parts.json`` with one more part."""
        more = attrs.evolve(self, parts={**self.parts, name: dict(units)})
        columns = {name: schema.columns for name, schema in self.tables.items()}
        write_whole(self.folder / PARTS, json.dumps({"columns": columns, "parts": more.parts}))
        return more


def read_parts(folder: Path) -> Parts | None:
    """Read ``parts.json`` of a folder; None if there is none.

    Raises:
        CampaignError: it cannot be read, or is damaged.
    """
    path = folder / PARTS
    if not path.exists():
        return None
    try:
        file = read_file(path, _PartsFile)
    except CampaignError as error:
        raise CampaignError(f"{error}; if an older kemu made it, remove {folder} and analyze anew") from None
    tables = {name: Schema(name, columns) for name, columns in file.columns.items()}
    # These names become parts of paths and of queries.
    names = [*tables, *(column for schema in tables.values() for column in schema.names)]
    kinds = [kind for schema in tables.values() for _, kind in schema.columns]
    if not all(map(_NAME.fullmatch, names)) or not set(kinds) <= KINDS:
        raise damaged(path, "columns must map names of tables to names and types of columns")
    if not all(map(_PART.fullmatch, file.parts)):
        raise damaged(path, "parts must have numbers of four digits as names")
    return Parts(folder, tables, file.parts)


@frozen
class _PartsFile:
    """The content of ``parts.json``."""

    columns: dict[str, tuple[tuple[str, str], ...]]
    parts: dict[str, dict[str, list[int]]]
