"""The value that every printer of a comparison reads: cells with the figures of the same seeds.

A cell is a variant of ``kemu compare``, or a cell of a campaign. A row of a cell is JSON data; text, JSON and the page
print it. ``kemu.tools.report.campaign_report`` makes the rows of a campaign.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kemu.emulator.metrics.figure import Better, Figure, Unit
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.watching.interruptions import Cause
from kemu.protocol.frozen import frozen
from kemu.tools.files import write_text
from kemu.tools.intervals import spread
from kemu.tools.report.compare_report import EQUAL, LONGEST_NAME, NO_DIFFERENCE, differences
from kemu.tools.report.frames import Frame, frame_of

HEADLINES = (
    *("service_lost", "stopped", "downtime_max", "task_downtime", "task_downtime_max", "tasks_moved", "task_learning"),
    *("reassigning", "peak_extra", "leaderless", "under_min_isr", "to_balance", "delay_p99", "lag_max", "lost"),
    *("reprocessed", "acknowledged_lost", "moved", "rebalances", "rebalances_in_all", "join_wait", "leader_changes"),
)  # fmt: skip
"""The figures of the first table, in the order of their importance; the others follow in the order of ``FIGURES``."""
MOST_HEADLINES = 8
"""Maximum number of figures in the first table."""
_SPREAD = ("median", "low", "high", "p95", "max")
_FRACTION = 1_000_000
"""Values in percent are kept in millionths."""


@frozen(kw_only=True)
class ComparisonReport:
    """Cells for the page of a comparison or a campaign.

    ``kind``: "compare" or "campaign". ``command`` repeats it. ``rows``: see ``kemu compare --format json``; a row of a
    campaign has its ``scenario``, too. ``note``: one line about the origin of the numbers.
    """

    kind: str
    title: str
    summary: str
    command: str
    note: str
    rows: Sequence[Mapping[str, Any]]

    def failures(self) -> Iterator[Mapping[str, Any]]:
        """The failed runs of all cells."""
        for row in self.rows:
            yield from row["failing"]


def summary_of(values: Sequence[float | None]) -> dict[str, float | None]:
    """A figure over the seeds: median, interval, 95th percentile and maximum; None if too few runs have a value."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(_SPREAD)
    found = spread(known)
    return {"median": found.median, "low": found.low, "high": found.high, "p95": found.p95, "max": found.largest}


def with_differences(rows: Sequence[dict[str, Any]]) -> None:
    """Add to each cell of one scenario the paired differences to the first cell that worked."""
    worked = [row for row in rows if row["figures"]]
    for row in rows:
        row["differences"] = differences(worked[0], row) if row in worked[1:] else {}


def causes_of(figures: Figures) -> dict[str, int]:
    """Cause -> time of a run in which partitions waited for it, in us summed over partitions.

    The sum of all causes is the figure ``downtime_sum``.
    """
    found: Counter[str] = Counter()
    for row in figures.downtime:
        for piece in row.pieces:
            found[piece.cause.name] += piece.until_us - piece.from_us
    return dict(found)


def short_names(names: Sequence[str]) -> list[str]:
    """A label of at most 20 characters for each name.

    A label has no word that all names share, no "kafka-", no key before a word, and no setting that the other labels
    do not need. A long label with a setting keeps the end, which has the value. Equal labels get numbers.
    """
    words = [name.split() for name in names]
    shared = set.intersection(*(set(each) for each in words)) if len(names) > 1 else set()
    found = []
    for each in words:
        text = " ".join(word for word in each if word not in shared) or " ".join(each)
        found.append(re.sub(r"[\w.]+=(?!(?:true|false)\b)(?=[a-z])", "", re.sub(r"\bkafka-(?=\d)", "", text)))
    for number, text in enumerate(found):
        bare = re.sub(r"\+\S+", "", text)
        found[number] = text if bare in found else bare
    found = [text if len(text) <= LONGEST_NAME else text.replace("cooperative", "coop.") for text in found]
    found = [_shortened(text) for text in found]
    return [
        text if found.count(text) == 1 else f"{text[: LONGEST_NAME - 4]} ({number})"
        for number, text in enumerate(found, start=1)
    ]


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_NAME:
        return text
    return f"…{text[1 - LONGEST_NAME :]}" if "=" in text else f"{text[: LONGEST_NAME - 1]}…"


# --- the page --------------------------------------------------------------------------------------------------------


def page_of_comparison(report: ComparisonReport) -> str:
    """The page of a comparison or a campaign."""
    from kemu.tools.report.page import document

    return document(
        title=f"{report.kind}: {report.title}",
        styles=("report", "compare"),
        scripts=("data", "view", "marks", "compare"),
        head={"command": report.command},
        texts=_texts(report),
        frames=_frames(report),
    )


def write_comparison(report: ComparisonReport, path: Path) -> None:
    """Write the page of a comparison or a campaign.

    Raises:
        BadInput: the file cannot be written, or is of another kind.
    """
    write_text(path, page_of_comparison(report))


def _texts(report: ComparisonReport) -> dict[str, Any]:
    rows = report.rows
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    names = _known(rows)
    shorts = {scenario: iter(short_names([row["variant"] for row in rows if row["scenario"] == scenario]))
              for scenario in scenarios}  # fmt: skip
    return {
        "kind": report.kind,
        "title": report.title,
        "summary": report.summary,
        "note": report.note,
        "figures": [_figure(FIGURES[name]) for name in names],
        "causes": {cause.name: cause.value for cause in Cause},
        "scenarios": [_scenario(name, [row for row in rows if row["scenario"] == name]) for name in scenarios],
        "cells": [
            {
                "name": row["variant"],
                "short": next(shorts[row["scenario"]]),
                "scenario": scenarios.index(row["scenario"]),
                "runs": row["runs"],
                "verdicts": row["verdicts"],
                "did_not_work": row["did_not_work"],
                "never_fired": row["never_fired"],
                "figures": {
                    name: _numbers(name, row)
                    for name in names
                    if row["figures"] and row["figures"][name]["median"] is not None
                },
            }
            for row in rows
        ],
    }


def _figure(each: Figure) -> dict[str, Any]:
    better = {Better.LOWER: -1, Better.HIGHER: 1}.get(each.better, 0)
    digits = len(each.text(0.0).partition(".")[2])
    return {"name": each.name, "unit": each.unit.value, "meaning": each.meaning, "how": each.how, "better": better,
            "scale": _scale(each), "digits": digits}  # fmt: skip


def _scale(each: Figure) -> int:
    """Kept whole numbers of one unit of the page."""
    return _FRACTION if each.unit is not Unit.COUNT else 1


def _numbers(name: str, row: Mapping[str, Any]) -> list[Any]:
    """Median, interval, 95th percentile and maximum as kept numbers; the difference to the first cell in a word, its
    median and interval.
    """
    factor = _FRACTION if FIGURES[name].unit is Unit.PERCENT else 1
    found, apart = row["figures"][name], row["differences"].get(name, {})
    values = [*(found[each] for each in _SPREAD), *(apart.get(each) for each in _SPREAD[:3])]
    kept = [None if value is None else value * factor for value in values]
    return [*kept[: len(_SPREAD)], apart.get("says", ""), *kept[len(_SPREAD) :]]


def _known(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures that are not 0 in some run of some cell, headlines first."""
    found = [
        name for name in FIGURES if any(value for row in rows for value in row["by_seed"].get(name, ()))
    ]  # fmt: skip
    return sorted(found, key=lambda name: HEADLINES.index(name) if name in HEADLINES else len(HEADLINES))


def _scenario(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A scenario with the figures of its first table, and the cells that are best in each figure."""
    worked = [row for row in rows if row["figures"]]
    differing = [each for each in _known(worked) if _differs(each, worked)]
    known = differing or _known(worked)
    first = [each for each in known if each in HEADLINES] or known
    return {
        "name": name,
        "shown": first[:MOST_HEADLINES],
        "equal": len(worked) > 1 and not differing,
        "best": {each: _best(each, worked) for each in _known(worked)},
    }


def _differs(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row["by_seed"].get(name) != rows[0]["by_seed"].get(name) for row in rows[1:])


def _best(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The cells that are better than the first cell, and that the paired differences do not tell from the best one."""
    better = FIGURES[name].better
    known = [row for row in rows if row["figures"][name]["median"] is not None]
    if better is Better.NEITHER or not known:
        return []
    sign = 1 if better is Better.LOWER else -1
    best = min(known, key=lambda row: sign * row["figures"][name]["median"])
    return [
        row["variant"]
        for row in known
        if row["differences"].get(name, {}).get("says") == "better"
        and (row is best or differences(best, row)[name]["says"] in (EQUAL, NO_DIFFERENCE))
    ]


def _frames(report: ComparisonReport) -> dict[str, Frame]:
    rows = list(enumerate(report.rows))
    names = _known(report.rows)
    values = [
        (names.index(name), cell, seed, _kept(name, value))
        for name in names
        for cell, row in rows
        for seed, value in zip(row["seeds"], row["by_seed"].get(name, ()), strict=False)
        if value is not None
    ]
    causes = [(cell, cause, us) for cell, row in rows for cause, us in row["causes"].items()]
    failing = [
        (cell, *(each[name] for name in ("seed", "verdict", "reason", "command", "page")))
        for cell, row in rows
        for each in row["failing"]
    ]
    return {
        "values": frame_of(("figure", "cell", "seed", "value"), values),
        "causes": frame_of(("cell", "cause", "us"), causes),
        "failing": frame_of(("cell", "seed", "verdict", "reason", "command", "page"), failing),
    }


def _kept(name: str, value: float) -> int:
    """A value as a whole number: times in us, data in bytes, percent in millionths."""
    scaled = value * _FRACTION if FIGURES[name].unit is Unit.PERCENT else value
    assert math.isclose(scaled, round(scaled), abs_tol=1e-3), f"{name} is no whole number: {value}"
    return round(scaled)
