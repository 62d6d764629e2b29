"""The text of ``kemu compare``: the differences of each variant to the first variant, and a table of figures.

All variants run with the same seeds. A paired difference is the figure of a variant minus the figure of the first
variant with the same seed. A variant is better or worse if the exact 95 % interval of the median of paired differences
excludes 0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kemu.emulator.metrics.figure import Better
from kemu.emulator.metrics.metrics import FIGURES
from kemu.tools.intervals import FEWEST, FEWEST_FOR_P95, spread
from kemu.tools.report.layout import TableColumn, table

NO_DIFFERENCE = "no difference shown"
EQUAL = "equal"
FEW_FIGURES = 4
"""Up to this number of figures, the table has a row for each variant; above, a row for each figure."""
LONGEST_NAME = 20
"""Maximum number of characters of a variant's name in the table; a list above the table has longer names."""
_ORDER = ("better", "worse", "less", "more")


def differences(base: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The paired differences of a variant to ``base``, for each figure that both rows have.

    Args:
        base: The row of the first variant that worked, with ``by_seed``.
        row: The row of another variant.

    Returns:
        Figure -> ``median``, ``low`` and ``high`` (None for fewer than six pairs), and ``says``: better, worse, more,
        less, "no difference shown", or "equal" if all differences are 0.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, values in row["by_seed"].items():
        pairs = [
            new - old
            for old, new in zip(base["by_seed"].get(name, ()), values, strict=False)
            if old is not None and new is not None
        ]
        if not pairs:
            continue
        middle = spread(pairs)
        says = NO_DIFFERENCE
        if not any(pairs):
            says = EQUAL
        elif middle.low is not None and middle.high is not None and (middle.low > 0 or middle.high < 0):
            says = _word(name, middle.median)
        found[name] = {"median": middle.median, "low": middle.low, "high": middle.high, "says": says}
    return found


def _word(name: str, difference: float) -> str:
    """The word for a difference other than 0: "better" or "worse", or for a neutral figure "more" or "less"."""
    better = FIGURES[name].better
    if better is Better.NEITHER:
        return "more" if difference > 0 else "less"
    return "better" if (difference < 0) == (better is Better.LOWER) else "worse"


def as_text(
    title: str,
    seeds: Sequence[int],
    rows: Sequence[dict[str, Any]],
    show_all: bool = False,
    notes: Sequence[str] = (),
) -> Iterable[str]:
    """The lines of the comparison, from rows with their ``differences``.

    ``title``: name and summary of the scenario. ``show_all``: whether the table has equal figures and largest values.
    ``notes``: sentences about the variants.
    """
    yield title
    yield f"seeds {seeds[0]} to {seeds[-1]}, with the same plan, load and faults for every variant"
    yield from notes
    worked = [row for row in rows if row["figures"]]
    for row in rows:
        if row["did_not_work"]:
            yield f"{row['variant']} did not work {row['did_not_work']}"
    if len(worked) > 1:
        yield ""
        yield from _answers(worked, len(seeds))
    names = _shown(worked, show_all)
    if names:
        yield ""
        yield from _figures(worked, names, len(seeds), show_all)
    yield ""
    for row in rows:
        yield f"{row['variant']}: {_verdicts(row)}"
        yield from (f"{row['variant']}: a fault never fired in any run: {text}" for text in row["never_fired"])


def _answers(worked: Sequence[dict[str, Any]], seeds: int) -> Iterable[str]:
    """The lines that compare each variant with the first variant."""
    base = worked[0]["variant"]
    if seeds < FEWEST:
        yield f"Against {base}: {NO_DIFFERENCE}; {seeds} seeds are too few, {FEWEST} are needed"
        return
    yield f"Against {base}, paired by seed: median difference [95 % interval]"
    for row in worked[1:]:
        yield f"  {row['variant']}"
        by_word: dict[str, list[str]] = {}
        for name, found in row["differences"].items():
            by_word.setdefault(found["says"], []).append(name)
        for says in _ORDER:
            parts = [_difference(name, row["differences"][name]) for name in by_word.get(says, ())]
            if parts:
                yield f"    {says}  {'; '.join(parts)}"
        unclear = by_word.get(NO_DIFFERENCE, [])
        if unclear:
            yield f"    {NO_DIFFERENCE}  {', '.join(map(_words, unclear))}"
        if not (by_word.keys() - {EQUAL}):
            yield "    equal in every figure"


def _difference(name: str, found: dict[str, Any]) -> str:
    said = FIGURES[name].text
    unit = f" {FIGURES[name].unit.value}" if FIGURES[name].unit.value else ""
    low, high = said(found["low"]), said(found["high"])
    return f"{_words(name)} {_signed(said, found['median'])}{unit} [{low}, {high}]"


def _signed(said: Callable[[float], str], value: float) -> str:
    return f"+{said(value)}" if value > 0 else said(value)


def _shown(worked: Sequence[dict[str, Any]], show_all: bool) -> list[str]:
    """The figures of the table: the figures that differ between variants, or for one variant, that are not zero."""
    names = []
    for name in FIGURES:
        known = [row["by_seed"][name] for row in worked]
        if not any(value is not None for values in known for value in values):
            continue
        differs = any(values != known[0] for values in known[1:])
        if show_all or differs or (len(worked) == 1 and any(known[0])):
            names.append(name)
    return names


def _figures(worked: Sequence[dict[str, Any]], names: Sequence[str], seeds: int, show_all: bool) -> Iterable[str]:
    """The lines of the table of medians, after a heading that describes the cells."""
    interval = " [95 % interval of the median]" if seeds >= FEWEST else ""
    high = f" / {'95th percentile' if seeds >= FEWEST_FOR_P95 else 'largest value'}" if show_all else ""
    few = "" if show_all or len(worked) == 1 else "; figures that differ (--all shows every figure)"
    yield f"Median over the seeds{interval}{high}{few}"
    variants = [row["variant"] for row in worked]
    if max(map(len, variants)) > LONGEST_NAME:
        yield from (f"  ({number}) {name}" for number, name in enumerate(variants, start=1))
        variants = [f"({number})" for number in range(1, len(variants) + 1)]
    if len(names) <= FEW_FIGURES and len(worked) > 1:
        heads = [f"{_words(name)} {FIGURES[name].unit.value}".rstrip() for name in names]
        cells = [
            [variant, *(_cell(row, name, show_all) for name in names)]
            for variant, row in zip(variants, worked, strict=True)
        ]
        yield from table([TableColumn("variant"), *(TableColumn(head, right=True) for head in heads)], cells)
    else:
        cells = [
            [_words(name), FIGURES[name].unit.value, *(_cell(row, name, show_all) for row in worked)] for name in names
        ]
        columns = [
            TableColumn("figure"),
            TableColumn("unit"),
            *(TableColumn(variant, right=True) for variant in variants),
        ]
        yield from table(columns, cells, keys=2)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(row: dict[str, Any], name: str, with_high: bool) -> str:
    found = row["figures"][name]
    if found["median"] is None:
        return "-"
    said = FIGURES[name].text
    interval = "" if found["low"] is None else f" [{said(found['low'])}, {said(found['high'])}]"
    high = f" / {said(found['max'] if found['p95'] is None else found['p95'])}" if with_high else ""
    return f"{said(found['median'])}{interval}{high}"


def _verdicts(row: dict[str, Any]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in row["verdicts"].items())
