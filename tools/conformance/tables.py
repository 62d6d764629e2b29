"""What the comparison came to, as text, Markdown or JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence

import attrs

from kemu.tools.conformance.comparing import (
    DURATIONS,
    ComparedFigure,
    ComparedKind,
    ComparedPlan,
    Explanations,
    FigureStanding,
    differing,
    durations_inside,
)

MARKS: Mapping[FigureStanding, str] = {
    FigureStanding.AGREES: "",
    FigureStanding.EXPLAINED: "explained",
    FigureStanding.DIFFERS: "DIFFERS",
}
HEAD = ("figure", "Kafka", "median", "5-95 %", "", "why")


def as_json(compared: Sequence[ComparedPlan], explanations: Explanations) -> str:
    """Everything, for programs."""
    inside, durations = durations_inside(compared)
    data = {
        "plans": [attrs.asdict(plan) for plan in compared],
        "reasons": dict(_legend(compared, explanations)),
        "unsaid": dict(explanations.unsaid),
        "durations": durations,
        "durations_inside": inside,
        "differ": len(differing(compared)),
    }
    return json.dumps(data, indent=2)


def as_text(compared: Sequence[ComparedPlan], explanations: Explanations) -> str:
    """For a terminal: columns by width."""
    lines = []
    for plan in compared:
        lines += [f"{plan.plan}  ({plan.held} of {plan.runs} runs held)", ""]
        rows = [HEAD, *map(_cells, plan.figures)]
        widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD) - 1)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join(["", *cells, row[-1]]).rstrip())
        lines.append("")
    legend = [f"{name}: {text}" for name, text in _legend(compared, explanations)]
    return "\n".join([*lines, *legend, "", *summary(compared, explanations)])


def as_markdown(compared: Sequence[ComparedPlan], explanations: Explanations) -> str:
    """For documents: first one line per plan, then each plan's rows."""
    lines = [*summary(compared, explanations), ""]
    lines += _table(("plan", "generations", "durations in range", "differ", "runs that held"), map(_overview, compared))
    for plan in compared:
        lines += ["", f"## {plan.plan}", "", plan.source, ""]
        lines += _table(HEAD, map(_cells, plan.figures))
    lines += ["", "## Why", ""]
    lines += _table(("reason", "in words"), _legend(compared, explanations))
    if explanations.unsaid:
        lines += ["", "## Plans that no scenario can say yet", ""]
        lines += _table(("plan", "what is missing"), explanations.unsaid.items())
    return "\n".join(lines)


def summary(compared: Sequence[ComparedPlan], explanations: Explanations) -> list[str]:
    """How much agrees, in a few lines."""
    inside, durations = durations_inside(compared)
    counts = [row for plan in compared for row in plan.figures if row.kind is ComparedKind.GENERATIONS]
    equal = sum(row.standing is FigureStanding.AGREES for row in counts)
    rows = [row for plan in compared for row in plan.figures]
    explained = sum(row.standing is FigureStanding.EXPLAINED for row in rows)
    share = f" ({inside / durations:.0%})" if durations else ""
    lines = [
        f"- generation counts equal in {equal} of {len(counts)} plans",
        f"- {inside} of {durations} of Kafka's durations{share} lie in the emulator's 5-95 % range",
        f"- of {len(rows)} figures {len(differing(compared))} differ, {explained} are explained",
    ]
    unknown = sum(not row.why for row in differing(compared))
    if unknown:
        lines.append(f"- of {unknown} that differ the cause is not known")
    return lines + [f"- {plan} is not compared: {missing}" for plan, missing in explanations.unsaid.items()]


def _legend(compared: Sequence[ComparedPlan], explanations: Explanations) -> list[tuple[str, str]]:
    """The reasons given, in the order in which they appear."""
    given = dict.fromkeys(row.why for plan in compared for row in plan.figures if row.why)
    return [(name, explanations.text_of(name)) for name in given]


def _overview(plan: ComparedPlan) -> tuple[str, ...]:
    generations = next(row for row in plan.figures if row.kind is ComparedKind.GENERATIONS)
    inside, durations = durations_inside([plan])
    kafka, median, spread = _cells(generations)[1:4]
    return (
        plan.plan,
        f"{kafka} / {median}" + ("" if generations.standing is FigureStanding.AGREES else f" ({spread})"),
        f"{inside} of {durations}",
        str(len(differing([plan]))),
        f"{plan.held} of {plan.runs}",
    )


def _cells(row: ComparedFigure) -> tuple[str, ...]:
    mark = {FigureStanding.AGREES: "", FigureStanding.EXPLAINED: "explained", FigureStanding.DIFFERS: "DIFFERS"}[
        row.standing
    ]
    if row.kind in (ComparedKind.MEMBERS, ComparedKind.OWNERS):
        return (row.name, "", "", f"{row.runs_like_it} of {row.runs} runs", mark, row.why)
    ours = row.emulated
    spread = f"{row.runs_like_it} of {row.runs} runs"
    if ours:
        spread = f"{_number(row, ours.low)} - {_number(row, ours.high)}"
    unit = f" {row.unit}" if row.unit else ""
    kafka = "" if row.kafka is None else _number(row, row.kafka) + unit
    return (row.name, kafka, _number(row, ours.median) if ours else "", spread, mark, row.why)


def _number(row: ComparedFigure, value: float) -> str:
    return f"{value:.3f}" if row.kind in DURATIONS else f"{value:g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
