"""Kafka's one run beside the emulator's many: figure by figure, what agrees, what is explained, what differs.

| figure | agrees when |
|---|---|
| how many generations | 5 % and 95 % quantile of the emulator are both Kafka's number |
| who was in each generation; who owned what in each | at least one run in twenty has exactly Kafka's |
| a rebalance's duration; downtime, its sum and its longest span | Kafka's lies between the 5 % and the 95 % quantile |
| an error that members were answered with (API and code), how often | likewise |

A figure that does not agree *differs*, unless a duration is off by no more than the recordings' machine accounts for
(``HAND_OVER_S`` for each span in it, and at most a tenth of a sum), or the plans' table of explanations says why it may
(``explained``). What is known of a difference that ought not to be stands in that table too (``causes``): it is printed
and stays a difference.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from kemu.tools.conformance.course import Course, RebalanceSeen

FEWEST = 0.05
"""Of all runs: an outcome that fewer have is none that the emulator gives."""
HAND_OVER_S = 0.1
"""Between threads and processes of the loaded machine that the recordings come from it took 20-160 ms where it takes a
few on an idle one: so much of each span is that machine's, not Kafka's."""
MOST_OF_A_SUM = 0.1
"""Of Kafka's sum of downtime: more than this is never put down to the machine, however many spans there are."""
HAND_OVER = "hand-over"
"""Name of the reason that every duration has."""


class FigureStanding(StrEnum):
    """What a row comes to."""

    AGREES = "agrees"
    EXPLAINED = "explained"
    DIFFERS = "differs"


class ComparedKind(StrEnum):
    """What is measured."""

    GENERATIONS = "generations"
    MEMBERS = "members"
    REBALANCE = "rebalance"
    OWNERS = "owners"
    DOWNTIME = "downtime"
    ERROR = "error"


DURATIONS = (ComparedKind.REBALANCE, ComparedKind.DOWNTIME)


@frozen
class SeedRange:
    """The emulator's runs: median, and what 90 % of them lie between."""

    median: float
    low: float
    high: float

    def holds(self, value: float, slack: float = 0) -> bool:
        """Whether a value lies in it or not further than ``slack`` outside, ends included."""
        return self.low - slack <= value <= self.high + slack


@frozen
class ComparedFigure:
    """One row. ``kafka`` and ``emulated`` None: that side has no such figure in (most of) its runs.

    ``runs_like_it``: how many runs have exactly Kafka's outcome (members, owners), or this figure at all.
    """

    plan: str
    name: str
    kind: ComparedKind
    unit: str
    kafka: float | None
    emulated: SeedRange | None
    runs_like_it: int
    runs: int
    standing: FigureStanding
    why: str = ""
    """A reason by its name."""


@frozen
class ComparedPlan:
    """All rows of one plan, and how many runs of it held."""

    plan: str
    source: str
    runs: int
    held: int
    figures: tuple[ComparedFigure, ...]


@frozen
class Explanations:
    """Why figures do not agree: plan -> reason (by name) -> figures.

    ``explained``: they may differ. ``causes``: they must not, and this is why they do. ``reasons``: names -> texts.
    ``unsaid``: plan -> what a scenario lacks to say it.
    """

    reasons: Mapping[str, str]
    explained: Mapping[str, Mapping[str, tuple[str, ...]]]
    causes: Mapping[str, Mapping[str, tuple[str, ...]]]
    unsaid: Mapping[str, str]

    def text_of(self, reason: str) -> str:
        """A reason in words."""
        if reason == HAND_OVER:
            return f"off by at most {HAND_OVER_S:g} s a span: that is the hand-over on the recordings' loaded machine"
        return self.reasons[reason]

    def unknown(self) -> list[str]:
        """Names of reasons that have no text."""
        used = (reason for table in (self.explained, self.causes) for plan in table.values() for reason in plan)
        return sorted(set(used) - set(self.reasons))

    def needless(self, compared: Sequence[ComparedPlan]) -> list[str]:
        """Explanations of what agrees, or of a figure that is not there."""
        needed = {
            (row.plan, row.name)
            for plan in compared
            for row in plan.figures
            if row.standing is not FigureStanding.AGREES
        }
        here = {plan.plan for plan in compared}
        return [
            f"{plan}: {figure}"
            for table in (self.explained, self.causes)
            for plan, reasons in table.items()
            for figures in reasons.values()
            for figure in figures
            if plan in here and (plan, figure) not in needed
        ]


def interval_of(values: Sequence[float]) -> SeedRange:
    """Median and 5-95 % range; quantiles are interpolated, and of one value all three are that value."""
    if len(values) == 1:
        return SeedRange(values[0], values[0], values[0])
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return SeedRange(statistics.median(values), cuts[0], cuts[-1])


def compare_plan(kafka: Course, emulated: Sequence[Course], explanations: Explanations) -> ComparedPlan:
    """All figures of one plan: Kafka's course beside those of at least one emulated run."""
    rows = _Rows(kafka, emulated, explanations)
    rows.counted("generations", ComparedKind.GENERATIONS, lambda course: len(course.rebalances), exact=True)
    rows.same("members of all generations", ComparedKind.MEMBERS, _members)
    for place, seen in enumerate(kafka.rebalances):
        rows.rebalance(place, seen)
    spans = sum(map(len, kafka.downtime_ms.values()))
    rows.duration("downtime, sum", "partition-s", lambda course: course.downtime_sum_ms / 1000, spans=spans)
    rows.duration("downtime, longest", "s", lambda course: course.downtime_longest_ms / 1000)
    for name in sorted({name for course in (kafka, *emulated) for name in course.errors}):
        rows.counted(name, ComparedKind.ERROR, lambda course: course.errors.get(name, 0))  # noqa: B023 - called at once
    held = sum(course.verdict == "holds" for course in emulated)
    return ComparedPlan(kafka.plan, kafka.source, len(emulated), held, tuple(rows.figures))


def _reason(table: Mapping[str, Mapping[str, tuple[str, ...]]], plan: str, figure: str) -> str:
    return next((reason for reason, figures in table.get(plan, {}).items() if figure in figures), "")


def _members(course: Course) -> tuple[tuple[str, ...], ...]:
    return tuple(seen.members for seen in course.rebalances)


class _Rows:
    """The rows of one plan as they are made."""

    def __init__(self, kafka: Course, emulated: Sequence[Course], explanations: Explanations) -> None:
        self.figures: list[ComparedFigure] = []
        self._kafka = kafka
        self._emulated = emulated
        self._explanations = explanations

    def counted(self, name: str, kind: ComparedKind, count: Callable[[Course], int], *, exact: bool = False) -> None:
        """A count that every course has."""
        values = [count(course) for course in self._emulated]
        ours, theirs = interval_of(values), count(self._kafka)
        agrees = ours.low == ours.high == theirs if exact else ours.holds(theirs)
        self._add(name, kind, "", theirs, ours, values.count(theirs), agrees)

    def same(self, name: str, kind: ComparedKind, outcome: Callable[[Course], object]) -> None:
        """Something that is equal or is not."""
        wanted = outcome(self._kafka)
        equal = sum(outcome(course) == wanted for course in self._emulated)
        self._add(name, kind, "", None, None, equal, self._enough(equal))

    def duration(self, name: str, unit: str, figure: Callable[[Course], float], *, spans: int = 1) -> None:
        """Seconds of downtime; ``spans``: how many went into it on Kafka's side."""
        ours, theirs = interval_of([figure(course) for course in self._emulated]), figure(self._kafka)
        slack = min(HAND_OVER_S * spans, max(HAND_OVER_S, MOST_OF_A_SUM * theirs))
        near = HAND_OVER if ours.holds(theirs, slack) else ""
        self._add(name, ComparedKind.DOWNTIME, unit, theirs, ours, len(self._emulated), ours.holds(theirs), near)

    def rebalance(self, place: int, seen: RebalanceSeen) -> None:
        """Duration and owners of the n-th generation; runs that have none, or not finished, have no duration."""
        number = seen.generation
        there = [course.rebalances[place] for course in self._emulated if place < len(course.rebalances)]
        took = [each.took_ms / 1000 for each in there if each.took_ms is not None]
        if seen.took_ms is not None:
            ours = interval_of(took) if self._enough(len(took)) else None
            theirs = seen.took_ms / 1000
            agrees = ours is not None and ours.holds(theirs)
            near = HAND_OVER if ours is not None and ours.holds(theirs, HAND_OVER_S) else ""
            self._add(f"rebalance {number}", ComparedKind.REBALANCE, "s", theirs, ours, len(took), agrees, near)
        equal = sum(each.owners == seen.owners for each in there)
        self._add(f"owners {number}", ComparedKind.OWNERS, "", None, None, equal, self._enough(equal))

    def _enough(self, runs: int) -> bool:
        return runs > 0 and runs >= FEWEST * len(self._emulated)

    def _add(
        self,
        name: str,
        kind: ComparedKind,
        unit: str,
        kafka: float | None,
        ours: SeedRange | None,
        runs: int,
        agrees: bool,
        near: str = "",
    ) -> None:
        plan = self._kafka.plan
        explained = _reason(self._explanations.explained, plan, name) or near
        cause = _reason(self._explanations.causes, plan, name)
        if agrees:
            standing, why = FigureStanding.AGREES, ""
        elif explained:
            standing, why = FigureStanding.EXPLAINED, explained
        else:
            standing, why = FigureStanding.DIFFERS, cause
        self.figures.append(
            ComparedFigure(plan, name, kind, unit, kafka, ours, runs, len(self._emulated), standing, why)
        )


def differing(compared: Sequence[ComparedPlan]) -> list[ComparedFigure]:
    """Every row that neither agrees nor is explained."""
    return [row for plan in compared for row in plan.figures if row.standing is FigureStanding.DIFFERS]


def durations_inside(compared: Sequence[ComparedPlan]) -> tuple[int, int]:
    """(how many of Kafka's durations lie in the emulator's range, how many there are); explained ones do not count."""
    rows = [row for plan in compared for row in plan.figures if row.kind in DURATIONS]
    return sum(row.standing is FigureStanding.AGREES for row in rows), len(rows)
