"""Coverage for people: a heat map per role, transitions never taken, probes; and the same as plain data."""

from collections.abc import Iterable
from typing import Any

from kemu.emulator.exploring.coverage import DECLARED, ROLES, Coverage, Point
from kemu.emulator.exploring.probes import PROBES

SHADES = (" ", "░", "▒", "▓", "█")
"""None, up to 9, up to 99, up to 999, more."""


def shade(count: int) -> str:
    """How dark a cell is."""
    return SHADES[min(len(SHADES) - 1, len(str(count)))] if count else SHADES[0]


def short(count: int) -> str:
    """A count in at most four characters: 987, 12k, 3M."""
    if count < 1_000:
        return str(count)
    return f"{count // 1_000}k" if count < 1_000_000 else f"{count // 1_000_000}M"


def as_text(coverage: Coverage, role: str | None = None) -> Iterable[str]:
    """All of it, or one role's table."""
    runs = "1 run" if coverage.runs == 1 else f"{coverage.runs} runs"
    yield f"{runs}; {len(coverage.points)} pairs of state and message with their outcomes"
    for name in ROLES if role is None else (role,):
        yield from _table(name, [point for point in coverage.points if point.role == name], coverage)
    if role is not None:
        return
    untaken = coverage.untaken()
    yield ""
    yield f"transitions taken: {len(DECLARED) - len(untaken)} of {len(DECLARED)}; never:"
    for table in dict.fromkeys(move.table for move in untaken):
        said = ", ".join(f"{move.old} -> {move.new}" for move in untaken if move.table == table)
        yield f"  {table}: {said}"
    hit = [(name, coverage.probes[name]) for name in PROBES if coverage.probes[name]]
    yield ""
    yield f"probes hit: {len(hit)} of {len(PROBES)}"
    for name, count in hit:
        yield f"  {short(count):>5}  {name:32} {PROBES[name].says}"
    yield "never hit:"
    for name in coverage.unhit():
        yield f"  {'':5}  {name:32} {PROBES[name].says}"


def _table(role: str, points: list[Point], coverage: Coverage) -> Iterable[str]:
    """Rows: messages and outcomes; columns: states."""
    yield ""
    if not points:
        yield f"{role}: never met a message"
        return
    states = sorted({point.state for point in points})
    rows = sorted({(point.message, point.outcome) for point in points})
    yield role
    width = max(len(message) for message, _ in rows)
    wide = max(len(outcome) for _, outcome in rows)
    widths = [max(len(state), 6) for state in states]
    heads = "  ".join(f"{state:>{size}}" for state, size in zip(states, widths, strict=True))
    yield f"  {'':{width}}  {'':{wide}}  {heads}".rstrip()
    before = ""
    for message, outcome in rows:
        counts = [coverage.points[Point(role, state, message, outcome)] for state in states]
        cells = "  ".join(
            f"{(short(count) + ' ' + shade(count)) if count else '':>{size}}"
            for count, size in zip(counts, widths, strict=True)
        )
        yield f"  {message if message != before else '':{width}}  {outcome:{wide}}  {cells}".rstrip()
        before = message


def as_dict(coverage: Coverage, role: str | None = None) -> dict[str, Any]:
    """As plain data."""
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
