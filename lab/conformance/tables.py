"""The results of the comparison as text, Markdown or JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence

import attrs

from lab.conformance.comparing import (
    DURATIONS,
    OUTSIDE,
    ComparedExchange,
    ComparedFigure,
    ComparedKind,
    ComparedPlan,
    Explanations,
    FigureStanding,
    differing,
    durations_inside,
    most_outside,
)

MARKS: Mapping[FigureStanding, str] = {
    FigureStanding.AGREES: "",
    FigureStanding.EXPLAINED: "explained",
    FigureStanding.DIFFERS: "DIFFERS",
}
HEAD = ("figure", "Kafka", "median", "5-95 %", "", "why")
EXCHANGES = ("answers to", "in order", "periodic", "runs with this order", "", "why", "what differs")


def as_json(compared: Sequence[ComparedPlan], explanations: Explanations) -> str:
    """All results as JSON."""
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
    """Text for a terminal, with aligned columns."""
    lines = []
    for plan in compared:
        lines += [f"{plan.plan}  ({plan.held} of {plan.runs} runs held)", ""]
        lines += [*_columns([HEAD, *map(_cells, plan.figures)]), ""]
        if plan.exchanges:
            lines += [*_columns([EXCHANGES, *map(_exchange_cells, plan.exchanges)]), ""]
    legend = [f"{name}: {text}" for name, text in _legend(compared, explanations)]
    return "\n".join([*lines, *legend, "", *summary(compared, explanations)])


def as_markdown(compared: Sequence[ComparedPlan], explanations: Explanations) -> str:
    """Markdown: a table with one row for each plan, followed by a table for each plan."""
    lines = [*summary(compared, explanations), ""]
    lines += _table(("plan", "generations", "durations in range", "differ", "runs that held"), map(_overview, compared))
    for plan in compared:
        lines += ["", f"## {plan.plan}", "", plan.source.partition(": ")[2] or plan.source, ""]
        lines += _table(HEAD, map(_cells, plan.figures))
        if plan.exchanges:
            lines += ["", *_table(EXCHANGES, map(_exchange_cells, plan.exchanges))]
    lines += ["", "## Why", ""]
    lines += _table(("reason", "in words"), _legend(compared, explanations))
    if explanations.unsaid:
        lines += ["", "## Plans that no scenario can say yet", ""]
        lines += _table(("plan", "what is missing"), explanations.unsaid.items())
    return "\n".join(lines)


def summary(compared: Sequence[ComparedPlan], explanations: Explanations) -> list[str]:
    """A summary of the agreement in a few lines."""
    inside, durations = durations_inside(compared)
    counts = [row for plan in compared for row in plan.figures if row.kind is ComparedKind.GENERATIONS]
    equal = sum(row.standing is FigureStanding.AGREES for row in counts)
    rows = [row for plan in compared for row in plan.rows]
    explained = sum(row.standing is FigureStanding.EXPLAINED for row in rows)
    share = f" ({inside / durations:.0%})" if durations else ""
    exchanges = [row for plan in compared for row in plan.exchanges]
    answers = sum(step.kafka for row in exchanges for step in row.steps)
    in_order = sum(row.standing is FigureStanding.AGREES for row in exchanges)
    lines = [
        f"- the number of generations is equal in {equal} of {len(counts)} plans",
        f"- {inside} of {durations} of Kafka's durations{share} lie in the emulator's 5-95 % range. For equal"
        f" systems, {durations * OUTSIDE:.0f} lie outside on average,"
        f" and at most {most_outside(durations)} in 99 of 100 comparisons",
        f"- {in_order} of {len(exchanges)} connections of members have the same responses ({answers} responses)",
        f"- of {len(rows)} rows {len(differing(compared))} differ, {explained} are explained",
    ]
    unknown = sum(not row.why for row in differing(compared))
    if unknown:
        lines.append(f"- of {unknown} that differ the cause is not known")
    return lines + [f"- {plan} is not compared: {missing}" for plan, missing in explanations.unsaid.items()]


def every_answer(compared: Sequence[ComparedPlan]) -> str:
    """Text with one response to a member per line, in Kafka's order, with the numbers of periodic responses on both
    sides.
    """
    lines = []
    for plan in compared:
        for exchange in plan.exchanges:
            alike = f"{exchange.runs_like_it} of {exchange.runs} runs have this order"
            lines += ["", f"{plan.plan}, {exchange.name} ({alike})", ""]
            rows = [("answer", "Kafka", "here", "")]
            for step in exchange.steps:
                here = (
                    ""
                    if not exchange.runs_like_it
                    else f"{step.low}" + (f" - {step.high}" if step.high != step.low else "")
                )
                rows.append((step.what, f"{step.kafka}", here, "" if step.agrees else "differs"))
            lines += _columns(rows)
    return "\n".join(lines)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(["", *cells, row[-1]]).rstrip())
    return lines


def _exchange_cells(row: ComparedExchange) -> tuple[str, ...]:
    in_order = sum(not step.periodic for step in row.steps)
    periodic = sum(step.kafka for step in row.steps if step.periodic)
    alike = f"{row.runs_like_it} of {row.runs}"
    return (
        row.name,
        str(in_order),
        str(periodic),
        alike,
        MARKS[row.standing],
        row.why,
        "; ".join(row.differences.values()),
    )


def _legend(compared: Sequence[ComparedPlan], explanations: Explanations) -> list[tuple[str, str]]:
    """(name, text) of the used reasons, in the order of their appearance."""
    rows = [row for plan in compared for row in plan.rows if row.why]
    given = dict.fromkeys(name for row in rows for name in row.why.split(", "))
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
    mark = MARKS[row.standing]
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
