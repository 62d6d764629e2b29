"""The results of the comparison as text, Markdown or JSON."""

import json
from collections.abc import Iterable, Sequence

import attrs

from lab.conformance.comparing import (
    DURATIONS,
    OUTCOMES,
    ComparedRow,
    Comparison,
    RowKind,
    RowMark,
    differing,
    evidence,
    uses,
)
from lab.conformance.excuses import EXCUSES
from lab.conformance.ranks import coverage, exchangeability, over_several_runs
from lab.conformance.recordings import release_in

HEAD = ("row", "Kafka", "emulated: least, 5-95 %, most", "Kafka's outcome in", "rank", "", "why")


def as_json(compared: Sequence[Comparison]) -> str:
    """All rows as JSON."""
    plans = [
        {**attrs.asdict(plan), "rows": [{**attrs.asdict(row), "constant": row.is_constant} for row in plan.rows]}
        for plan in compared
    ]
    tests = [attrs.asdict(test) for test in over_several_runs(compared)]
    data = {"plans": plans, "excuses": uses(compared), "several_runs": tests, "differ": len(differing(compared))}
    return json.dumps(data, indent=2)


def as_text(compared: Sequence[Comparison]) -> str:
    """Text for a terminal, with aligned columns."""
    lines = []
    for plan in compared:
        lines += [_heading(plan), "", *_columns([HEAD, *map(_cells, _shown(plan))]), "", f"  {_constants(plan)}", ""]
    return "\n".join([*lines, *summary(compared)])


def as_runs(compared: Sequence[Comparison]) -> str:
    """Markdown: a table with one row for each run of Kafka, then the summary."""
    head = ("run", "release", "rarest outcome", "durations in 5-95 %", "evidence", "differ", "chance", "not compared")
    return "\n".join([*_table(head, map(_run, compared)), "", *summary(compared)])


def _run(plan: Comparison) -> tuple[str, ...]:
    counted, found, differs = evidence(plan.rows), coverage([plan]), differing([plan])
    outcomes = [row for row in counted if row.kind in OUTCOMES]
    rarest = min(outcomes, key=lambda row: row.probability) if outcomes else None
    names = f" ({', '.join(row.name for row in differs)})" if differs else ""
    return (
        plan.plan,
        release_in(plan),
        "all seeds" if rarest is None else f"{rarest.name}: {rarest.runs_like_it} of {rarest.runs}",
        f"{found.inside} of {found.durations}",
        str(len(counted)),
        f"{len(differs)}{names}",
        str(sum(row.standing is RowMark.CHANCE for row in plan.rows)),
        str(sum(row.standing is RowMark.NOT_COMPARED for row in plan.rows)),
    )


def as_markdown(compared: Sequence[Comparison]) -> str:
    """Markdown: the summary, a table with one row for each plan, and a table for each plan."""
    lines = [*summary(compared), ""]
    head = ("plan", "sample", "evidence", "durations in 5-95 %", "least probability", "differ", "runs that hold")
    lines += _table(head, map(_overview, compared))
    for plan in compared:
        lines += ["", f"## {plan.plan}", "", plan.source.partition(": ")[2] or plan.source, ""]
        lines += [*_table(HEAD, map(_cells, _shown(plan))), "", _constants(plan)]
    lines += ["", "## Excuses", ""]
    used = uses(compared)
    lines += _table(
        ("name", "rows", "kind", "difference", "Kafka"),
        (
            (each.name, str(used[each.name]), "known" if each.is_a_fault else "race", each.text, each.source)
            for each in EXCUSES
        ),
    )
    return "\n".join(lines)


def summary(compared: Sequence[Comparison]) -> list[str]:
    """A summary in a few lines, by sample."""
    lines = []
    for fitted, sample in ((False, "out-of-sample"), (True, "in-sample")):
        plans = [plan for plan in compared if plan.fitted is fitted]
        if plans:
            lines += _of_sample(sample, plans)
    for test in over_several_runs(compared)[:5]:
        lines.append(
            f"- {test.plan}, {test.name}: ranks over {test.runs} runs of Kafka are uniform with p = {test.p_ranks:.3f}"
        )
    for name, count in uses(compared).items():
        lines.append(f"- excuse {name}: " + (f"{count} rows" if count else "unused"))
    lines += [f"- differs: {row.plan}, {row.name}{f' ({row.why})' if row.why else ''}" for row in differing(compared)]
    return lines


def _of_sample(sample: str, plans: Sequence[Comparison]) -> list[str]:
    rows = [row for plan in plans for row in plan.rows]
    counted, found = evidence(rows), coverage(plans)
    outcomes = [row for row in counted if row.kind in OUTCOMES]
    agree = sum(row.standing is RowMark.AGREES for row in counted)
    chance = sum(row.standing is RowMark.CHANCE for row in counted)
    constants = sum(row.is_constant and row.standing is RowMark.AGREES for row in rows)
    missing = sum(row.standing is RowMark.NOT_COMPARED for row in rows)
    lines = [
        f"- {sample}, {len(plans)} runs of Kafka: {agree} of {len(counted)} rows agree, {chance} are chance,"
        f" {len(differing(plans))} differ; {constants} constants agree and are no evidence,"
        f" {missing} rows are not compared",
    ]
    if found.durations:
        lines.append(
            f"- {sample}: {found.inside} of {found.durations} durations ({found.inside / found.durations:.0%}) lie in"
            f" the 5-95 % range, of an equal system {found.expected:.1f} +- {found.deviation:.1f};"
            f" Kafka's runs are like the emulator's with p = {exchangeability(plans):.3f}"
        )
    if outcomes:
        least = min(outcomes, key=lambda row: row.probability)
        lines.append(f"- {sample}: the rarest outcome of Kafka is {least.plan}, {least.name}: {_share(least)}")
    return lines


def _heading(plan: Comparison) -> str:
    sample = "in-sample" if plan.fitted else "out-of-sample"
    return f"{plan.plan}  ({sample}; {plan.held} of {plan.runs} runs hold)"


def _shown(plan: Comparison) -> list[ComparedRow]:
    """The rows without the constants that agree."""
    return [row for row in plan.rows if not (row.is_constant and row.standing is RowMark.AGREES)]


def _constants(plan: Comparison) -> str:
    return f"{len(plan.rows) - len(_shown(plan))} constants agree"


def _share(row: ComparedRow) -> str:
    return f"{row.runs_like_it} of {row.runs} seeds, {row.probability:.1%}"


def _cells(row: ComparedRow) -> tuple[str, ...]:
    mark = "" if row.standing is RowMark.AGREES else "DIFFERS" if row.standing is RowMark.DIFFERS else row.standing
    ours = row.emulated
    spread = ""
    if ours is not None:
        least, low, high, most = (_number(row, each) for each in (ours.least, ours.low, ours.high, ours.most))
        spread = f"{least}, {low} - {high}, {most}"
    like_it = _share(row) if row.kind not in DURATIONS and row.kind is not RowKind.BETWEEN else f"{row.runs} seeds"
    kafka = "" if row.kafka is None else _number(row, row.kafka)
    return (row.name, kafka, spread, like_it, "" if row.rank is None else f"{row.rank:.3f}", mark, row.why)


def _overview(plan: Comparison) -> tuple[str, ...]:
    counted, found = evidence(plan.rows), coverage([plan])
    outcomes = [row.probability for row in counted if row.kind in OUTCOMES]
    return (
        plan.plan,
        "in" if plan.fitted else "out",
        f"{len(counted)} of {len(plan.rows)} rows",
        f"{found.inside} of {found.durations}",
        f"{min(outcomes):.1%}" if outcomes else "",
        str(len(differing([plan]))),
        f"{plan.held} of {plan.runs}",
    )


def _number(row: ComparedRow, value: float) -> str:
    return f"{value:.3f}" if row.kind in DURATIONS else f"{value:g}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(["", *cells, row[-1]]).rstrip())
    return lines


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
