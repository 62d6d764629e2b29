"""The parts of an analysis, as ``TABLES/parts.json`` lists them, with the columns of all tables.

    TABLES/parts.json                                      the parts, the source files of each, the tables' columns
    TABLES/part=0003/table=notes/campaign=.../*.parquet    the rows of one ingestion

A part counts from the moment that ``parts.json`` names it. This module needs neither Spark nor the emulator, so a query
without Spark starts at once.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.files import Damaged, read_json
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

    def adding(self, name: str, units: Units) -> "Parts":
        """Write ``parts.json`` with one more part."""
        more = attrs.evolve(self, parts={**self.parts, name: dict(units)})
        columns = {name: schema.columns for name, schema in self.tables.items()}
        fresh = self.folder / f".{PARTS}.{os.getpid()}"
        fresh.write_text(json.dumps({"columns": columns, "parts": more.parts}), encoding="utf-8")
        fresh.replace(self.folder / PARTS)
        return more


def read_parts(folder: Path) -> Parts | None:
    """Read ``parts.json`` of a folder; None if there is none.

    Raises:
        CampaignError: it is damaged, or written by a kemu that did not list columns.
    """
    path = folder / PARTS
    if not path.exists():
        return None
    data = read_json(path)
    try:
        if isinstance(data, dict) and isinstance(data.get("columns"), str):
            raise CampaignError(f"{folder} was made by an older kemu: remove it and analyze anew")
        tables = {name: _schema_of(name, columns) for name, columns in _mapping(data, "columns").items()}
        parts = {name: _units_of(name, units) for name, units in _mapping(data, "parts").items()}
    except Damaged as error:
        raise CampaignError(f"{path} is damaged: {error}: remove {folder} and analyze anew") from None
    return Parts(folder, tables, parts)


def _mapping(data: Any, key: str) -> Mapping[str, Any]:
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise Damaged(f'"{key}" must be an object')
    return found


def _schema_of(name: str, columns: Any) -> Schema:
    """A table's columns. Names are checked, because they become parts of paths and of queries."""
    pairs = [tuple(pair) for pair in columns if isinstance(pair, list)] if isinstance(columns, list) else []
    good = pairs and len(pairs) == len(columns) and all(map(_is_column, pairs)) and _NAME.fullmatch(name)
    if not good:
        raise Damaged(f'"columns.{name}" must list pairs of a name and a type')
    return Schema(name, tuple(pairs))


def _is_column(pair: tuple[Any, ...]) -> bool:
    if len(pair) != 2 or not all(isinstance(each, str) for each in pair):
        return False
    return _NAME.fullmatch(pair[0]) is not None and pair[1] in KINDS


def _units_of(name: str, units: Any) -> Units:
    good = _PART.fullmatch(name) and isinstance(units, dict) and all(map(_is_stamp, units.values()))
    if not good:
        raise Damaged(f'"parts.{name}" must map paths to sizes and times')
    return dict(units)


def _is_stamp(stamp: Any) -> bool:
    return isinstance(stamp, list) and len(stamp) in (0, 2) and all(type(number) is int for number in stamp)
