"""Compare one run of Kafka with many runs of the emulator: each figure agrees, is explained, or differs.

| figure | agrees when |
|---|---|
| number of generations | 5 % and 95 % quantile of the emulator are both Kafka's number |
| members of each generation; owners in each | at least one run in twenty has exactly Kafka's |
| a rebalance's duration; downtime, its sum and its longest span | Kafka's lies between the 5 % and the 95 % quantile |
| number of responses to members with an error (API and code) | likewise |
| the responses to a member on a connection, in order | see ``compare_exchanges`` |

Durations are compared only with runs whose earlier generations had the same members. A figure that does not agree
*differs*, unless

- the slow machine of the recordings explains the difference of a duration (``HAND_OVER_S`` per span, at most a tenth of
  a sum),
- a duration lies outside the 5-95 % range but within the range of all runs, as chance allows for one duration in ten
  (``allow_for_chance``),
- or the plans' table of explanations permits it (``explained``). Only a race explains a number of generations: at
  least one run in twenty must have Kafka's number.

A race with a condition (``lab.conformance.races``) explains nothing in a run without the race. Generations are counted
in the runs with the same outcome of the race as in Kafka's run. At least one run in twenty must have this outcome.

The table also has the known causes of unwanted differences (``causes``). Such differences remain differences.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import groupby

import attrs
from attrs import field, frozen

from kemu.protocol.names import number_of
from lab.conformance.course import Course, Exchange, RebalanceSeen, is_periodic
from lab.conformance.races import CONDITIONS, affected, explained_by

FEWEST = 0.05
"""Least share of runs with an outcome. A rarer outcome is not an outcome of the emulator."""
HAND_OVER_S = 0.1
"""Tolerance for each span, in seconds. A hand-over between threads or processes took 20-160 ms on the loaded machine of
the recordings, and a few ms on an idle machine."""
MOST_OF_A_SUM = 0.1
"""Largest share of Kafka's sum of downtime that the loaded machine can explain."""
HAND_OVER = "hand-over"
CHANCE = "chance"
"""Name of a reason that every duration may have."""
OUTSIDE = 0.1
"""Share of durations that lie outside the 5-95 % range by chance, if both sides are alike."""
BEATS = 1
MOST_OF_BEATS = 0.05
"""Tolerance for the number of periodic responses between two other responses: one, or one in twenty."""
TOO_UNLIKELY = 0.01
"""A number of outliers with a lower probability is not due to chance."""


class FigureStanding(StrEnum):
    """The result of comparing a row."""

    AGREES = "agrees"
    EXPLAINED = "explained"
    DIFFERS = "differs"


class ComparedKind(StrEnum):
    """The kind of a figure."""

    GENERATIONS = "generations"
    MEMBERS = "members"
    REBALANCE = "rebalance"
    OWNERS = "owners"
    DOWNTIME = "downtime"
    ERROR = "error"


DURATIONS = (ComparedKind.REBALANCE, ComparedKind.DOWNTIME)


@frozen
class SeedRange:
    """The range of a figure in the emulator's runs: median, 5-95 % range, least and most."""

    median: float
    low: float
    high: float
    least: float
    most: float

    def holds(self, value: float, slack: float = 0) -> bool:
        """Whether a value lies in the 5-95 % range, extended by ``slack`` at both ends."""
        return self.low - slack <= value <= self.high + slack


@frozen
class ComparedFigure:
    """A compared figure. ``kafka`` is None if Kafka's run lacks the figure, ``emulated`` if most runs of the emulator
    lack the figure.

    ``runs_like_it``: number of runs with exactly Kafka's outcome (members, owners), or with this figure.
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
    """Name of the reason that explains the difference; "" without a reason."""

    @property
    def is_out_of_all(self) -> bool:
        """Whether the figure is a duration that differs and lies outside the range of all runs."""
        if self.standing is not FigureStanding.DIFFERS or self.kind not in DURATIONS:
            return False
        if self.emulated is None or self.kafka is None:
            return False
        return not self.emulated.least <= self.kafka <= self.emulated.most


@frozen
class ComparedStep:
    """A response at its place in the order, or the number of periodic responses at the place (``periodic``).

    ``low``, ``high``: fewest and most responses in the runs with Kafka's order.
    """

    what: str
    kafka: int
    low: int
    high: int
    periodic: bool

    @property
    def agrees(self) -> bool:
        """Whether the number is within the tolerance; True for a response that is not periodic."""
        off = max(BEATS, MOST_OF_BEATS * self.kafka)
        return not self.periodic or self.low - off <= self.kafka <= self.high + off

    @property
    def difference(self) -> str:
        """In words."""
        return f"{self.what}: {self.kafka} times, emulated {self.low} to {self.high}"


@frozen
class ComparedExchange:
    """The responses to one member on one of its connections ("c1 coordinator"), one by one.

    ``runs_like_it``: number of runs with Kafka's order. ``steps``: the responses of Kafka. ``why``: names of reasons,
    separated by commas.
    """

    plan: str
    name: str
    steps: tuple[ComparedStep, ...]
    runs_like_it: int
    runs: int
    standing: FigureStanding
    why: str = ""
    differences: Mapping[str, str] = field(factory=dict)
    """Name of a difference in explanations ("c1 coordinator, order", "c1 coordinator, Heartbeat") -> its text."""


@frozen
class ComparedPlan:
    """All rows of one plan, and the number of runs with the verdict "holds"."""

    plan: str
    source: str
    runs: int
    held: int
    figures: tuple[ComparedFigure, ...]
    exchanges: tuple[ComparedExchange, ...] = ()

    @property
    def rows(self) -> tuple[ComparedFigure | ComparedExchange, ...]:
        """The figures, followed by the exchanges."""
        return (*self.figures, *self.exchanges)

    @property
    def is_by_measure(self) -> bool:
        """Whether a duration or a number of periodic responses lies outside all runs, so that more runs may help.

        With forty runs, one in twenty rows lies outside by chance.
        """
        orders = (
            each for each in self.exchanges if each.runs_like_it and f"{each.name}, order" not in each.differences
        )
        return any(each.is_out_of_all for each in self.figures) or any(
            each.standing is FigureStanding.DIFFERS for each in orders
        )


@frozen
class Explanations:
    """Reasons for figures that do not agree: plan -> name of the reason -> figures.

    ``explained``: permitted differences from the recorded run. ``races``: permitted differences from any run, under the
    condition of the reason. ``causes``: known causes of unwanted differences. ``reasons``: names -> texts. ``unsaid``:
    plan -> the missing feature of scenarios.
    """

    reasons: Mapping[str, str]
    explained: Mapping[str, Mapping[str, tuple[str, ...]]]
    causes: Mapping[str, Mapping[str, tuple[str, ...]]]
    unsaid: Mapping[str, str]
    races: Mapping[str, Mapping[str, tuple[str, ...]]] = field(factory=dict)

    def why(self, plan: str, figure: str) -> str:
        """The name of the reason why a figure may differ; "" without a reason."""
        return _reason(self.races, plan, figure) or _reason(self.explained, plan, figure)

    def of_another_run(self, plan: str) -> "Explanations":
        """The explanations that are also valid for runs of this plan other than the recorded run."""
        explained = {name: figures for name, figures in self.explained.items() if name != plan}
        return attrs.evolve(self, explained=explained)

    def of_run(self, course: Course) -> "Explanations":
        """The explanations that are valid for this run. A race with a condition explains only figures that the race
        affects.
        """
        rows = self.races.get(course.plan, {})
        found = {race: explained_by(race, figures, course) for race, figures in rows.items()}
        return attrs.evolve(self, races={**self.races, course.plan: found})

    def conditioned(self, plan: str) -> list[str]:
        """The races of a plan that have a condition."""
        return [race for race in self.races.get(plan, {}) if race in CONDITIONS]

    def text_of(self, reason: str) -> str:
        """The text of a reason."""
        if reason == HAND_OVER:
            return f"differs by at most {HAND_OVER_S:g} s an interval: thread switches on the loaded machine"
        if reason == CHANCE:
            return "outside the 5-95 % range, inside the range of all runs: one in ten by chance, for equal systems"
        return self.reasons[reason]

    def unknown(self) -> list[str]:
        """Names of reasons without a text."""
        used = (
            reason for table in (self.explained, self.races, self.causes) for plan in table.values() for reason in plan
        )
        return sorted(set(used) - set(self.reasons))

    def needless(self, compared: Sequence[ComparedPlan]) -> list[str]:
        """Explanations of figures that agree or are missing. Races are not included, because a race need not occur in
        every run.
        """
        figures = [row for plan in compared for row in plan.figures]
        needed = [(row.plan, row.name) for row in figures if row.standing is not FigureStanding.AGREES]
        needed += [(row.plan, about) for plan in compared for row in plan.exchanges for about in row.differences]
        here = {plan.plan for plan in compared}
        return [
            f"{plan}: {figure}"
            for table in (self.explained, self.causes)
            for plan, reasons in table.items()
            for figures in reasons.values()
            for figure in figures
            if plan in here and not any(plan == other and fnmatchcase(name, figure) for other, name in needed)
        ]


def interval_of(values: Sequence[float]) -> SeedRange:
    """Median and 5-95 % range, with interpolated quantiles. For a single value, all quantiles equal the value."""
    if len(values) == 1:
        return SeedRange(values[0], values[0], values[0], values[0], values[0])
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return SeedRange(statistics.median(values), cuts[0], cuts[-1], min(values), max(values))


def compare_plan(kafka: Course, emulated: Sequence[Course], explanations: Explanations) -> ComparedPlan:
    """Compare Kafka's course of one plan with the courses of one or more emulated runs."""
    explanations = explanations.of_run(kafka)
    rows = _Rows(kafka, emulated, explanations)
    rows.generations()
    rows.same("members of all generations", ComparedKind.MEMBERS, _members, but_for=_changes)
    for place, seen in enumerate(kafka.rebalances):
        rows.rebalance(place, seen)
    spans = sum(map(len, kafka.downtime_ms.values()))
    rows.duration("downtime, sum", "partition-s", lambda course: course.downtime_sum_ms / 1000, spans=spans)
    rows.duration("downtime, longest", "s", lambda course: course.downtime_longest_ms / 1000)
    for name in sorted({name for course in (kafka, *emulated) for name in course.errors}):
        rows.counted(name, ComparedKind.ERROR, lambda course: course.errors.get(name, 0))  # noqa: B023 - called at once
    held = sum(course.verdict == "holds" for course in emulated)
    exchanges = compare_exchanges(kafka, emulated, explanations)
    return ComparedPlan(kafka.plan, kafka.source, len(emulated), held, tuple(rows.figures), exchanges)


def allow_for_chance(compared: Sequence[ComparedPlan]) -> list[ComparedPlan]:
    """The same plans, with durations outside the 5-95 % range but within the range of all runs explained by chance.

    If more durations lie outside than chance allows (``TOO_UNLIKELY``), all these durations differ.
    """
    inside, durations = durations_inside(compared)
    if durations - inside > most_outside(durations):
        return list(compared)
    return [attrs.evolve(plan, figures=tuple(map(_by_chance, plan.figures))) for plan in compared]


def most_outside(durations: int) -> int:
    """Most of this number of durations that may lie outside the 5-95 % range if both sides are alike."""
    likely = 0.0
    for outside in range(durations + 1):
        likely += math.comb(durations, outside) * OUTSIDE**outside * (1 - OUTSIDE) ** (durations - outside)
        if likely >= 1 - TOO_UNLIKELY:
            return outside
    return durations


def _by_chance(row: ComparedFigure) -> ComparedFigure:
    if row.standing is not FigureStanding.DIFFERS or row.kind not in DURATIONS or row.is_out_of_all:
        return row
    if row.emulated is None or row.kafka is None:
        return row
    return attrs.evolve(row, standing=FigureStanding.EXPLAINED, why=CHANCE)


def compare_exchanges(
    kafka: Course, emulated: Sequence[Course], explanations: Explanations
) -> tuple[ComparedExchange, ...]:
    """Compare the responses to each member on each of its connections, one by one.

    The order agrees if at least one run in twenty has exactly Kafka's order, including error codes and the generations
    of JoinGroup. Periodic responses are counted between the other responses. Kafka's number agrees if it is at most one
    (``BEATS``), or one in twenty, outside the numbers in the runs with Kafka's order. Every difference needs an
    explanation.
    """
    places = sorted({place for course in (kafka, *emulated) for place in course.exchanges}, key=_by_member)
    return tuple(_exchange(kafka, emulated, explanations, place) for place in places if kafka.exchanges)


def _exchange(kafka: Course, emulated: Sequence[Course], explanations: Explanations, place: str) -> ComparedExchange:
    theirs = _in_order(kafka.exchanges.get(place, ()))
    ours = [_in_order(course.exchanges.get(place, ())) for course in emulated]
    alike = [each for each in ours if each.order == theirs.order]
    steps: list[ComparedStep] = []
    for at, gap in enumerate(theirs.gaps):
        names = sorted({*gap, *(name for each in alike for name in each.gaps[at])})
        for name in names:
            counts = [each.gaps[at].get(name, 0) for each in alike] or [0]
            steps.append(ComparedStep(name, gap.get(name, 0), min(counts), max(counts), periodic=True))
        if at < len(theirs.order):
            steps.append(ComparedStep(theirs.order[at], 1, 1, 1, periodic=False))
    if len(alike) >= max(1, FEWEST * len(emulated)):
        differ = {f"{place}, {step.what}": step.difference for step in steps if not step.agrees}
    else:
        differ = {
            f"{place}, order": _first_difference(
                theirs.order, [each.order for each in ours if each.order != theirs.order]
            )
        }
    explained = [explanations.why(kafka.plan, about) for about in differ]
    if any(race in CONDITIONS and not _alike_until(race, kafka, theirs, ours) for race in explained):
        explained = [""]
    if not differ:
        standing, why = FigureStanding.AGREES, ""
    elif all(explained):
        standing, why = FigureStanding.EXPLAINED, ", ".join(dict.fromkeys(explained))
    else:
        causes = (_reason(explanations.causes, kafka.plan, about) for about in differ)
        standing, why = FigureStanding.DIFFERS, ", ".join(dict.fromkeys(filter(None, causes)))
    return ComparedExchange(kafka.plan, place, tuple(steps), len(alike), len(emulated), standing, why, differ)


@frozen
class _InOrder:
    """``gaps[n]``: the periodic responses before ``order[n]``. The last gap has the periodic responses after the whole
    order.
    """

    order: tuple[str, ...]
    gaps: tuple[Mapping[str, int], ...]


def _in_order(exchanges: Sequence[Exchange]) -> _InOrder:
    order: list[str] = []
    gaps: list[dict[str, int]] = [{}]
    for what, times in exchanges:
        if is_periodic(what):
            gaps[-1][what] = gaps[-1].get(what, 0) + times
        else:
            for _ in range(times):
                order.append(what)
                gaps.append({})
    return _InOrder(tuple(order), tuple(gaps))


def _alike_until(race: str, kafka: Course, theirs: _InOrder, ours: Sequence[_InOrder]) -> bool:
    """Whether enough runs have Kafka's order up to the first generation in which a race occurred."""
    first = f"JoinGroup {affected(race, kafka)[0]}"
    until = theirs.order.index(first) if first in theirs.order else len(theirs.order)
    alike = sum(each.order[:until] == theirs.order[:until] for each in ours)
    return alike >= max(1, FEWEST * len(ours))


def _first_difference(theirs: Sequence[str], ours: Sequence[Sequence[str]]) -> str:
    """The first difference of the run that has the longest common beginning with Kafka's order."""

    def common(order: Sequence[str]) -> int:
        pairs = enumerate(zip(theirs, order, strict=False))
        return next((at for at, (one, other) in pairs if one != other), min(len(theirs), len(order)))

    longest = max(ours, key=common)
    at = common(longest)
    kafka, here = (order[at] if at < len(order) else "nothing more" for order in (theirs, longest))
    return f"after {at} equal responses: {kafka}, emulated {here}"


def _by_member(place: str) -> tuple[int, str]:
    return number_of(place.partition(" ")[0]), place


def _reason(table: Mapping[str, Mapping[str, tuple[str, ...]]], plan: str, figure: str) -> str:
    rows = table.get(plan, {}).items()
    return next((reason for reason, figures in rows if any(fnmatchcase(figure, each) for each in figures)), "")


def _members(course: Course) -> tuple[tuple[str, ...], ...]:
    return tuple(seen.members for seen in course.rebalances)


def _changes(course: Course) -> tuple[tuple[str, ...], ...]:
    """The members of generations; successive generations with the same members are merged."""
    return tuple(members for members, _ in groupby(_members(course)))


def same_course(one: Course, other: Course) -> bool:
    """Whether both courses had the same generations with the same members."""
    return _members(one) == _members(other)


class _Rows:
    """Collects the rows of one plan."""

    def __init__(self, kafka: Course, emulated: Sequence[Course], explanations: Explanations) -> None:
        self.figures: list[ComparedFigure] = []
        self._kafka = kafka
        self._emulated = emulated
        self._explanations = explanations
        alike = [course for course in emulated if same_course(course, kafka)]
        self._alike = alike if self._enough(len(alike)) else emulated
        """The emulator's runs whose downtime is compared."""

    def generations(self) -> None:
        """Add the number of generations, in the runs with the same outcome of conditioned races as in Kafka's run."""
        races = self._explanations.conditioned(self._kafka.plan)
        runs = [
            each for each in self._emulated if all(_shows(race, each) == _shows(race, self._kafka) for race in races)
        ]
        if not self._enough(len(runs)):
            runs = list(self._emulated)
        values, theirs = [len(course.rebalances) for course in runs], len(self._kafka.rebalances)
        ours, like_it = interval_of(values), values.count(theirs)
        agrees = ours.low == ours.high == theirs
        happens = like_it > 0 and like_it >= FEWEST * len(runs)
        kind = ComparedKind.GENERATIONS
        self._add("generations", kind, "", theirs, ours, like_it, agrees, may_be_explained=happens)

    def counted(self, name: str, kind: ComparedKind, count: Callable[[Course], int]) -> None:
        """Add a figure that every course has."""
        values = [count(course) for course in self._emulated]
        ours, theirs = interval_of(values), count(self._kafka)
        self._add(name, kind, "", theirs, ours, values.count(theirs), ours.holds(theirs))

    def same(
        self,
        name: str,
        kind: ComparedKind,
        outcome: Callable[[Course], object],
        *,
        but_for: Callable[[Course], object],
    ) -> None:
        """Add a figure that is equal or not. ``but_for``: the part that must be equal for an explained difference."""
        equal, nearly = (sum(of(course) == of(self._kafka) for course in self._emulated) for of in (outcome, but_for))
        self._add(name, kind, "", None, None, equal, self._enough(equal), may_be_explained=self._enough(nearly))

    def duration(self, name: str, unit: str, figure: Callable[[Course], float], *, spans: int = 1) -> None:
        """Add a duration of downtime in seconds; ``spans``: number of Kafka's spans in the duration."""
        ours, theirs = interval_of([figure(course) for course in self._alike]), figure(self._kafka)
        slack = min(HAND_OVER_S * spans, max(HAND_OVER_S, MOST_OF_A_SUM * theirs))
        near = HAND_OVER if ours.holds(theirs, slack) else ""
        self._add(name, ComparedKind.DOWNTIME, unit, theirs, ours, len(self._alike), ours.holds(theirs), near)

    def rebalance(self, place: int, seen: RebalanceSeen) -> None:
        """Add duration and owners of the n-th generation. A run in which the generation is missing or did not become
        stable has no duration.
        """
        number = seen.generation
        so_far = _members(self._kafka)[: place + 1]
        there = [course.rebalances[place] for course in self._emulated if _members(course)[: place + 1] == so_far]
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
        *,
        may_be_explained: bool = True,
    ) -> None:
        plan = self._kafka.plan
        explained = (self._explanations.why(plan, name) or near) if may_be_explained else ""
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


def _shows(race: str, course: Course) -> bool:
    return bool(affected(race, course))


def differing(compared: Sequence[ComparedPlan]) -> list[ComparedFigure | ComparedExchange]:
    """Every row whose result is "DIFFERS"."""
    rows = [row for plan in compared for row in plan.rows]
    return [row for row in rows if row.standing is FigureStanding.DIFFERS]


def durations_inside(compared: Sequence[ComparedPlan]) -> tuple[int, int]:
    """(number of Kafka's durations inside the emulator's range, number of all durations). An explained duration is not
    inside.
    """
    rows = [row for plan in compared for row in plan.figures if row.kind in DURATIONS]
    return sum(row.standing is FigureStanding.AGREES for row in rows), len(rows)
