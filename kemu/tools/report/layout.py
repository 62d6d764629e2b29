"""Text that fits the terminal: wrapped lines, and tables drawn by rich.

The width is the variable COLUMNS, or the width of the terminal, or 80. A backslash continues a long command on the next
line, so that a shell reads the copied lines as one command.
"""

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

import click

from kemu.protocol.frozen import frozen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH = 80
"""Width of the output without a terminal, in characters."""
NARROWEST = 40
"""Minimum width of the output, in characters."""
GAP = 2
"""Number of spaces between two columns of a table."""
ZERO = re.compile(r"|-|[0,.]*0( (ms|s|%))?")
"""Matches empty cells and cells with a zero."""
_COMMAND = re.compile(r"^(?P<before>(?:.*?: )?\s*)(?P<command>kemu [a-z-]+ .*)$")
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")


def terminal_width() -> int:
    """The width of the output: COLUMNS, else the width of the terminal, else ``WIDTH``."""
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)


def print_lines(lines: Iterable[str], err: bool = False) -> None:
    """Print lines, wrapped to the terminal's width; ``err``: print to standard error."""
    for line in lines:
        for part in fold(line, terminal_width()):
            click.echo(part, err=err)


def fold(line: str, width: int, hang: int | None = None) -> list[str]:
    """A long line as several lines of at most ``width`` characters.

    Args:
        line: The line, possibly styled.
        width: The maximum number of characters in a line.
        hang: Indentation of continued lines; None: as ``hanging_indent`` returns.
    """
    plain = click.unstyle(line)
    if len(plain) <= width:
        return [line]
    command = _COMMAND.match(plain)
    if command is not None:
        return _folded_command(command["before"], command["command"], width)
    indent = len(plain) - len(plain.lstrip())
    hanging = min(indent + hanging_indent(plain[indent:]) if hang is None else hang, width // 2)
    if plain == line:
        return textwrap.wrap(
            line[indent:],
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * hanging,
            break_on_hyphens=False,
        )
    return _folded_styled(line, width, indent, hanging)


def _folded_styled(line: str, width: int, indent: int, hanging: int) -> list[str]:
    from rich.text import Text

    console, body = _console(width), Text.from_ansi(line)[indent:]
    first, *_ = body.wrap(console, width - indent)
    rest = body[len(first.plain) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    wrapped = [(indent, first), *((hanging, part) for part in rest.wrap(console, width - hanging))]
    return [" " * spaces + _ansi(part) for spaces, part in wrapped if part.plain.strip()]


def hanging_indent(plain: str) -> int:
    """Indentation of continued lines: under the text that follows a first word and two spaces; else 2."""
    column = re.match(r"\S{1,20} {2,}(?=\S)", plain)
    return column.end() if column is not None else 2


def _folded_command(before: str, command: str, width: int) -> list[str]:
    """The lines of a long command, with backslashes, so that a shell reads one command."""
    if len(before) + len(command) <= width:
        return [before + command]
    if len(before) > width // 3 and before.strip():
        return [*fold(before.rstrip(), width), *_folded_command("  ", command, width)]
    lines = [before.rstrip(" ") + (" " if before.strip() else before)]
    room = width - 2  # for " \"
    for number, word in enumerate(_WORD.findall(command)):
        space = "" if number == 0 else " "
        if number and len(lines[-1]) + len(space) + len(word) > room:
            lines[-1] += " \\"
            lines.append(" " * 4)
            space = ""
        lines[-1] += space + word
        while len(lines[-1]) > width:
            lines[-1:] = _split_word(lines[-1], width)
    return lines


def _split_word(line: str, width: int) -> list[str]:
    """Split a line inside a too long last word; a quoted word is closed, and reopened at the start of the next line."""
    cut = width - 2
    quotes = [quote for quote in "'\"" if line[:cut].count(quote) % 2]
    quote = quotes[0] if quotes else ""
    return [line[:cut] + quote + "\\", quote + line[cut:]]


def _console(width: int) -> "Console":
    from rich.console import Console

    return Console(
        file=StringIO(),
        width=width,
        force_terminal=True,
        color_system="standard",
        highlight=False,
        legacy_windows=False,
    )


def _ansi(text: "Text") -> str:
    console = _console(10_000)
    text.rstrip()
    console.print(text, end="", soft_wrap=True)
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


# --- tables --------------------------------------------------------------------------------------------------------


@frozen
class TableColumn:
    """A column of a table. ``right``: cells are aligned right. ``wraps``: the column gets the remaining width."""

    head: str = ""
    right: bool = False
    wraps: bool = False


def table(
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    indent: int = 2,
    keys: int = 1,
) -> list[str]:
    """The lines of a table, of at most ``width`` characters (default: the terminal's width).

    Columns that do not fit form further tables below. Each table repeats the first ``keys`` columns.
    """
    room = (terminal_width() if width is None else width) - indent
    widest = [
        max(len(column.head), *(len(click.unstyle(row[at])) for row in rows), 1) for at, column in enumerate(columns)
    ]
    wraps = [
        column.wraps or size > max(room // 2, len(column.head)) for column, size in zip(columns, widest, strict=True)
    ]
    least = [
        min(size, max(room // 3, len(column.head))) if wrap else size
        for column, size, wrap in zip(columns, widest, wraps, strict=True)
    ]
    lines: list[str] = []
    for block in _blocks(least, room, keys):
        if lines:
            lines.append("")
        heads, cells = [columns[at] for at in block], [[row[at] for at in block] for row in rows]
        fits = sum(widest[at] + GAP for at in block) - GAP <= room
        if fits and all(_is_plain(cell) for row in cells for cell in row):
            lines += _aligned(heads, cells)
        else:
            lines += _drawn(heads, cells, [wraps[at] for at in block], room)
    return [(" " * indent + line).rstrip() for line in lines]


def _blocks(least: Sequence[int], room: int, keys: int) -> list[list[int]]:
    """The columns of each table: the first ``keys`` columns, then as many other columns as fit."""
    start = list(range(min(keys, len(least))))
    blocks = [list(start)]
    for at in range(len(start), len(least)):
        used = sum(least[each] + GAP for each in blocks[-1])
        if used + least[at] > room and len(blocks[-1]) > len(start):
            blocks.append(list(start))
        blocks[-1].append(at)
    return blocks


def _is_plain(cell: str) -> bool:
    """Whether each character of a cell takes one column of the terminal, and no line ends or style begins in it."""
    return cell.isascii() and cell.isprintable()


def _aligned(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table that fits, without rich, whose import takes longer than a short run's report."""
    widths = [max(map(len, cells)) for cells in zip([column.head for column in columns], *rows, strict=True)]

    def line(cells: Iterable[str]) -> str:
        padded = zip(columns, cells, widths, strict=True)
        return (" " * GAP).join(cell.rjust(size) if column.right else cell.ljust(size) for column, cell, size in padded)

    headed = any(column.head for column in columns)
    heads = [click.style(line(column.head for column in columns).rstrip(), bold=True)] if headed else []
    return [*heads, *(line(row) for row in rows)]


def _drawn(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], wraps: Sequence[bool], room: int
) -> list[str]:
    from rich.table import Table
    from rich.text import Text

    headed = any(column.head for column in columns)
    drawn = Table(box=None, show_header=headed, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column, wrap in zip(columns, wraps, strict=True):
        drawn.add_column(column.head, justify="right" if column.right else "left", no_wrap=not wrap, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text.from_ansi(cell) for cell in row))
    console = _console(room)
    console.print(drawn)
    file = console.file
    assert isinstance(file, StringIO)
    return [_trimmed(line) for line in file.getvalue().splitlines()]


def _trimmed(line: str) -> str:
    """The line without trailing spaces, also without spaces before trailing style codes."""
    return re.sub(r"\s+((?:\x1b\[[0-9;]*m)*)$", r"\1", line)


def without_zeros(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], keys: int = 1
) -> tuple[list[TableColumn], list[list[str]]]:
    """The table without columns that have only zeros; the first ``keys`` columns stay."""
    kept = [
        at for at in range(len(columns)) if at < keys or any(not ZERO.fullmatch(click.unstyle(row[at])) for row in rows)
    ]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def natural(name: str) -> tuple[str, ...]:
    """A sort key of names that puts c2 before c10."""
    return tuple(part.zfill(20) if part.isdigit() else part for part in re.split(r"(\d+)", name))
