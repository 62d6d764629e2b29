"""The report of coverage, as text or JSON values: a heat map for each role, transitions, and probes."""

from collections.abc import Iterable
from typing import Any

import click

from kemu.emulator.exploring.coverage import DECLARED, ROLES, Coverage, Point
from kemu.emulator.exploring.probes import PROBES
from kemu.tools.report.layout import TableColumn, table

SHADES = (" ", "░", "▒", "▓", "█")
"""Characters for counts: 0, up to 9, up to 99, up to 999, more."""


def shade(count: int) -> str:
    """The character for a count; a larger count has a darker character."""
    return SHADES[min(len(SHADES) - 1, len(str(count)))] if count else SHADES[0]


def short(count: int) -> str:
    """A count in at most four characters: 987, 12k, 3M."""
    if count < 1_000:
        return str(count)
    return f"{count // 1_000}k" if count < 1_000_000 else f"{count // 1_000_000}M"


def as_text(coverage: Coverage, role: str | None = None) -> Iterable[str]:
    """The lines of the report: the tables of all roles, transitions and probes, or only the table of ``role``."""
    runs = "1 run" if coverage.runs == 1 else f"{coverage.runs} runs"
    yield f"{runs}; {len(coverage.points)} pairs of state and message with their outcomes"
    for name in ROLES if role is None else (role,):
        yield from _table(name, [point for point in coverage.points if point.role == name], coverage)
    if role is not None:
        return
    untaken = coverage.untaken()
    yield ""
    yield f"transitions taken: {len(DECLARED) - len(untaken)} of {len(DECLARED)}; never:"
    for name in dict.fromkeys(move.table for move in untaken):
        said = ", ".join(f"{move.old} -> {move.new}" for move in untaken if move.table == name)
        yield f"  {name}: {said}"
    hit = [(name, coverage.probes[name]) for name in PROBES if coverage.probes[name]]
    yield ""
    yield f"probes hit: {len(hit)} of {len(PROBES)}"
    columns = (TableColumn("", right=True), TableColumn(), TableColumn(wraps=True))
    yield from table(columns, [(short(count), name, PROBES[name].says) for name, count in hit])
    yield "never hit:"
    yield from table(columns, [("", name, PROBES[name].says) for name in coverage.unhit()])


def _table(role: str, points: list[Point], coverage: Coverage) -> Iterable[str]:
    """The lines of a role's table, with a row for each message and outcome, and a column for each state."""
    yield ""
    if not points:
        yield f"{role}: never met a message"
        return
    states = sorted({point.state for point in points})
    rows = []
    before = ""
    yield click.style(role, bold=True)
    for message, outcome in sorted({(point.message, point.outcome) for point in points}):
        counts = [coverage.points[Point(role, state, message, outcome)] for state in states]
        cells = [f"{short(count)} {shade(count)}" if count else "" for count in counts]
        rows.append([message if message != before else "", outcome, *cells])
        before = message
    yield from table(
        [TableColumn(), TableColumn(), *(TableColumn(state, right=True) for state in states)], rows, keys=2
    )


def as_dict(coverage: Coverage, role: str | None = None) -> dict[str, Any]:
    """The coverage as values for JSON."""
    points = [
        {**point._asdict(), "count": count}
        for point, count in sorted(coverage.points.items())
        if role in (None, point.role)
    ]
    moves = [{**move._asdict(), "count": coverage.moves[move]} for move in sorted(DECLARED | coverage.moves.keys())]
    return {
        "runs": coverage.runs,
        "points": points,
        "transitions": moves,
        "probes": {name: coverage.probes[name] for name in PROBES},
    }
