"""The anomalies of a run's history, as a table and as values for JSON."""

from collections.abc import Iterator
from typing import Any

from attrs import asdict

from kemu.emulator.exploring.history import EXPLANATIONS, Anomaly, Occurrence, counted
from kemu.protocol.frozen import frozen
from kemu.tools.report.layout import TableColumn, table, terminal_width

MOST = 20
"""Maximum number of unexplained anomalies in the text; the JSON lists all anomalies."""


@frozen
class RunHistory:
    """One run and the anomalies of its history. ``broke``: the error of a broken run, else ""."""

    source: str
    seed: int
    profile: str
    verdict: str
    virtual_us: int
    found: tuple[Occurrence, ...]
    broke: str = ""

    @property
    def unexplained(self) -> tuple[Occurrence, ...]:
        """The anomalies without an explanation."""
        return tuple(each for each in self.found if not each.explained)


def as_dict(history: RunHistory) -> dict[str, Any]:
    """Values for JSON: all counts, and each unexplained anomaly."""
    counts = counted(history.found)
    return {
        "source": history.source,
        "seed": history.seed,
        "profile": history.profile,
        "verdict": history.verdict,
        "virtual_us": history.virtual_us,
        "broke": history.broke,
        "anomalies": [
            {"anomaly": kind.value, "explained": why, "times": times, "records": records}
            for kind in Anomaly
            for why, (times, records) in sorted(counts.get(kind, {}).items())
        ],
        "unexplained": [asdict(each) | {"anomaly": each.anomaly.value} for each in history.unexplained],
    }


def as_text(history: RunHistory, indent: int = 0) -> Iterator[str]:
    """The lines of a table with a row for each anomaly and explanation, then each unexplained anomaly.

    ``indent``: number of characters by which the caller indents the lines.
    """
    took = f"{history.virtual_us / 1_000_000:.1f} s"
    yield f"{history.source}, seed {history.seed}, {history.profile}: {took}, verdict {history.verdict}"
    if history.broke:
        yield f"the run broke, and the history ends there: {history.broke.splitlines()[0]}"
    counts = counted(history.found)
    columns = (TableColumn("anomaly"), TableColumn("times", right=True), TableColumn("records", right=True),
               TableColumn("explained by", wraps=True))  # fmt: skip
    rows = [
        (kind.value, f"{times:,}", f"{records:,}", f"{why} ({EXPLANATIONS[why]})" if why else "NOTHING")
        for kind in Anomaly
        for why, (times, records) in sorted(counts.get(kind, {}).items(), key=lambda row: (row[0] != "", row[0]))
    ]
    if rows:
        yield from table(columns, rows, indent=0, width=terminal_width() - indent)
    absent = [kind.value for kind in Anomaly if not counts.get(kind)]
    if absent:
        yield f"none of: {', '.join(absent)}"
    unexplained = history.unexplained
    yield f"unexplained: {len(unexplained)}"
    for each in unexplained[:MOST]:
        yield f"  {each.at_us / 1_000_000:.6f} s  {each.anomaly.value}: {each.text}"
    if len(unexplained) > MOST:
        yield f"  ... and {len(unexplained) - MOST} more (--format json has all)"
