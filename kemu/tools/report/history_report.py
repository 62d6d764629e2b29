"""The anomalies of a run's history for people, as a table, and as plain data."""

from collections.abc import Iterator
from typing import Any

from attrs import asdict, frozen

from kemu.emulator.exploring.history import EXPLANATIONS, Anomaly, Occurrence, counted

MOST = 20
"""Unexplained anomalies that are told one by one; the json has all."""


@frozen
class RunHistory:
    """One run and the anomalies of its history. ``broke``: what broke, "" if nothing did."""

    source: str
    seed: int
    profile: str
    verdict: str
    virtual_us: int
    found: tuple[Occurrence, ...]
    broke: str = ""

    @property
    def unexplained(self) -> tuple[Occurrence, ...]:
        """What nothing explains."""
        return tuple(each for each in self.found if not each.explained)


def as_dict(told: RunHistory) -> dict[str, Any]:
    """Plain data: all counts, and each anomaly that nothing explains."""
    counts = counted(told.found)
    return {
        "source": told.source,
        "seed": told.seed,
        "profile": told.profile,
        "verdict": told.verdict,
        "virtual_us": told.virtual_us,
        "broke": told.broke,
        "anomalies": [
            {"anomaly": kind.value, "explained": why, "times": times, "records": records}
            for kind in Anomaly
            for why, (times, records) in sorted(counts.get(kind, {}).items())
        ],
        "unexplained": [asdict(each) | {"anomaly": each.anomaly.value} for each in told.unexplained],
    }


def as_text(told: RunHistory) -> Iterator[str]:
    """A row for each anomaly and what explains it; then what nothing explains."""
    took = f"{told.virtual_us / 1_000_000:.1f} s"
    yield f"{told.source}, seed {told.seed}, {told.profile}: {took}, verdict {told.verdict}"
    if told.broke:
        yield f"it broke, and the history ends there: {told.broke.splitlines()[0]}"
    counts = counted(told.found)
    yield f"{'anomaly':28} {'times':>7} {'records':>9}  explained by"
    for kind in Anomaly:
        rows = counts.get(kind, {})
        if not rows:
            yield f"{kind.value:28} {0:7,} {0:9,}"
        for why, (times, records) in sorted(rows.items(), key=lambda row: (row[0] != "", row[0])):
            said = f"{why} ({EXPLANATIONS[why]})" if why else "NOTHING"
            yield f"{kind.value:28} {times:7,} {records:9,}  {said}"
    unexplained = told.unexplained
    yield f"unexplained: {len(unexplained)}"
    for each in unexplained[:MOST]:
        yield f"  {each.at_us / 1_000_000:12.6f} s  {each.anomaly.value}: {each.text}"
    if len(unexplained) > MOST:
        yield f"  ... and {len(unexplained) - MOST} more (--format json has all)"
