"""Writes plain data as TOML. A TOML reader gets equal data from the text. Tables follow the values of their parent."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LITERAL = re.compile(r"[^'\x00-\x1f\x7f]*")
"""A string that TOML can hold between single quotes, without escapes."""


def toml_text(data: Mapping[str, Any]) -> str:
    """Return the text of a file: values first, tables second, and ``[[...]]`` for each table of a list."""
    lines = list(_table(data, ()))
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """Return a key, or one part of a header, with quotes if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Return a value as TOML on one line; tables are inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if '"' in value and _LITERAL.fullmatch(value):
            return f"'{value}'"
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    return str(value)


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: item for key, item in data.items() if isinstance(item, Mapping)}
    lists = {key: item for key, item in data.items() if _is_list_of_tables(item)}
    values = {key: item for key, item in data.items() if key not in tables and key not in lists}
    if path and (values or not data):
        yield from ("", f"[{_header(path)}]")
    for key, item in values.items():
        if isinstance(item, list | tuple) and len(item) > 1 and any('"' in str(each) for each in item):
            yield f"{toml_key(key)} = ["  # lines of JSON
            yield from (f"  {toml_value(each)}," for each in item)
            yield "]"
        else:
            yield f"{toml_key(key)} = {toml_value(item)}"
    for key, table in tables.items():
        yield from _table(table, (*path, key))
    for key, rows in lists.items():
        for row in rows:
            yield from ("", f"[[{_header((*path, key))}]]")
            for name, item in row.items():
                yield f"{toml_key(name)} = {toml_value(item)}"


def _header(path: tuple[str, ...]) -> str:
    return ".".join(toml_key(part) for part in path)


def _is_list_of_tables(item: Any) -> bool:
    return isinstance(item, Sequence) and len(item) > 0 and all(isinstance(row, Mapping) for row in item)
