"""Line numbers of keys in a TOML file, which the parser of the standard library does not give.

The functions read only files that the parser has accepted, so no function looks for syntax errors.
"""

import re

from kemu.emulator.text.tables import Path

_HEADER = re.compile(r"\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?$")
_KEY_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")
_STRINGS = ('"""', "'''", '"', "'")


def key_lines(text: str) -> dict[Path, int]:
    """Return the line (from 1) of each table and key by path, except for keys of inline tables."""
    lines: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    rest = _Value()
    for number, line in enumerate(text.splitlines(), start=1):
        if rest.open:
            rest.take(line)
            continue
        header = _HEADER.match(line)
        if header:
            table = _resolve(_parts(header[2])[0], counts)
            if header[1] == "[[":
                index = counts[table] = counts.get(table, -1) + 1
                lines.setdefault(table, number)
                table = (*table, index)
            lines.setdefault(table, number)
            continue
        parts, end = _parts(line)
        if parts and line[end : end + 1] == "=":
            for length in range(1, len(parts) + 1):
                lines.setdefault((*table, *parts[:length]), number)
            rest.take(line[end + 1 :])
    return lines


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """Return the line of a path, or of the nearest table that contains the path; None without such a table."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _parts(text: str) -> tuple[tuple[str, ...], int]:
    """Return the dotted key at the start of a text, and the index of its end."""
    parts: list[str] = []
    position = 0
    while match := _KEY_PART.match(text, position):
        parts.append(next(part for part in match.groups() if part is not None))
        position = match.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    return tuple(parts), position


def _resolve(names: tuple[str, ...], counts: dict[Path, int]) -> Path:
    """Return the path of a header, with the index of the current entry after each name of a list of tables."""
    path: Path = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path])
    return (*path, *names[-1:])


class _Value:
    """Tracks whether a value continues on the next line, with an open bracket or long string."""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""

    @property
    def open(self) -> bool:
        return self.depth > 0 or len(self.quote) == 3

    def take(self, line: str) -> None:
        position = 0
        while position < len(line):
            if self.quote:
                position = self._in_string(line, position)
                continue
            character = line[position]
            quote = next((mark for mark in _STRINGS if line.startswith(mark, position)), "")
            if character == "#":
                break
            self.quote = quote
            self.depth += (character in "[{") - (character in "]}")
            position += len(quote) or 1
        if len(self.quote) == 1:
            self.quote = ""

    def _in_string(self, line: str, position: int) -> int:
        if self.quote[0] == '"' and line[position] == "\\":
            return position + 2
        if line.startswith(self.quote, position):
            position += len(self.quote)
            self.quote = ""
            return position
        return position + 1
