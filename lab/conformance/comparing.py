"""Compare a run of Kafka with many runs of the emulator, row by row.

- *runs that hold*: agrees if every run has the verdict "holds".
- *outcomes* (number of generations, their members, leader, owners and reason of each, order of the responses):
  agree if more than ``RARE`` of the runs have exactly Kafka's outcome.
- *counts* (responses to each member by API, errors by API and code): agree likewise.
- *durations* (of rebalances and of downtime): agree if Kafka's value lies between the least and the most of the runs.
- *between* (periodic responses at their places in the order): agrees if Kafka's distance from the medians is at most
  the distance of some run.
- *hand-overs* (mean time of members from JoinGroup's response to SyncGroup): as durations. The emulator's machine is
  fitted to these times, so the row is no evidence for durations.

No row has a tolerance. Generation N is compared with the runs that had Kafka's members until then. The order of a
connection is followed response by response: each response must be among the runs with the same order before the
response. A row with fewer than ``FEWEST_RUNS`` such runs is *not compared*, and with fewer runs no range is.

A row that does not agree *differs*, unless an excuse of ``lab.conformance.excuses`` allows the difference, or chance
does (``allow_for_chance``). An excuse has a condition on Kafka's run, a direction and a bound. ``uses`` counts excuses.

A *constant* is a row with one value on both sides, or a duration that a timer fixes (``FIXED``). A constant can differ,
but its agreement is no evidence, so summaries do not count constants that agree.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum

import attrs
from attrs import frozen
from scipy.special import stdtr

from kemu.protocol.names import number_of
from lab.conformance.course import Course, Exchange, is_periodic, totals_by_member
from lab.conformance.excuses import EXCUSES, Excuse

RARE = 0.02
"""An outcome of at most this share of the runs is not an outcome of the emulator."""
NARROW = 0.1
"""Greatest chance of an outlier in a row of the narrow kind; outliers of narrow and wide rows are counted apart."""
LEAST_MS = 0.5
"""Least hand-over, because logs have a resolution of milliseconds."""
FEWEST_RUNS = 10
"""Least number of runs with Kafka's course so far, so that the next outcome can be compared."""
FIXED = 0.01
"""Largest width of the 5-95 % range of a fixed duration, divided by the median."""
Figure = Callable[[Course], float | None]
"""A figure of a course, such as seconds of downtime; None if the course does not have it."""
TOO_UNLIKELY = 0.01
"""Level of the tests: outliers of a whole comparison with a lower probability are not due to chance."""


class RowMark(StrEnum):
    """The result of comparing a row."""

    AGREES = "agrees"
    CHANCE = "chance"
    RACE = "race"
    KNOWN = "known"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"


class RowKind(StrEnum):
    """The kind of a row."""

    HOLDS = "holds"
    GENERATIONS = "generations"
    MEMBERS = "members"
    LEADER = "leader"
    OWNERS = "owners"
    REASON = "reason"
    ORDER = "order"
    TOTAL = "total"
    ERROR = "error"
    BETWEEN = "between"
    HAND_OVERS = "hand-overs"
    REBALANCE = "rebalance"
    DOWNTIME = "downtime"


OUTCOMES = (
    RowKind.HOLDS,
    RowKind.GENERATIONS,
    RowKind.MEMBERS,
    RowKind.LEADER,
    RowKind.OWNERS,
    RowKind.REASON,
    RowKind.ORDER,
)
"""Kinds whose values are equal or not."""
COUNTS = (RowKind.TOTAL, RowKind.ERROR)
DURATIONS = (RowKind.REBALANCE, RowKind.DOWNTIME)
"""Kinds whose values are seconds."""


@frozen
class SeedRange:
    """The range of a figure in the emulator's runs: median, 5-95 % range, least and most."""

    median: float
    low: float
    high: float
    least: float
    most: float


@frozen
class ComparedRow:
    """A compared row.

    ``kafka``: Kafka's value; None for an outcome. ``runs``: number of the emulator's runs that are compared;
    ``runs_like_it``: the runs with exactly Kafka's outcome. ``rank``: the share of runs below Kafka's value (equal
    values count half); None for an outcome. ``values``: the number of different values in the runs. ``chance``: the
    probability that a run of an equal system is an outlier.
    """

    plan: str
    name: str
    kind: RowKind
    kafka: float | None
    emulated: SeedRange | None
    runs_like_it: int
    runs: int
    values: int
    rank: float | None
    standing: RowMark
    chance: float = 0.0
    why: str = ""
    """Name of the excuse, or the first difference of an order."""

    @property
    def is_constant(self) -> bool:
        """Whether all runs on both sides have one value, or a timer fixes the duration."""
        if self.kind in DURATIONS and self.emulated is not None:
            return _is_fixed(self.emulated)
        return self.values == 1 and self.runs_like_it == self.runs

    @property
    def probability(self) -> float:
        """The share of runs with exactly Kafka's outcome."""
        return self.runs_like_it / self.runs if self.runs else 0.0


@frozen
class Place:
    """The place of a duration among other runs: its rank, and whether the duration lies in their 5-95 % range."""

    rank: float
    is_inside: bool


@frozen
class Comparison:
    """All rows of one run of Kafka. ``fitted``: whether drawn times of the emulator were measured in this run.

    ``places``: for Kafka's run and then for each run of the emulator, the places of its durations among all other runs
    (``places_of_durations``).
    """

    plan: str
    source: str
    fitted: bool
    runs: int
    held: int
    rows: tuple[ComparedRow, ...]
    places: tuple[tuple[Place, ...], ...] = ()

    @property
    def is_undecided(self) -> bool:
        """Whether a row differs or could not be compared, so that more runs may help."""
        doubtful = (RowMark.DIFFERS, RowMark.NOT_COMPARED)
        return self.held == self.runs and any(row.standing in doubtful for row in self.rows)


def range_of(values: Sequence[float]) -> SeedRange:
    """Median and 5-95 % range. A further value of an equal system lies in the range with a probability of 90 %; with
    inclusive quantiles only of 81 % for 20 values. For a single value, all quantiles equal the value.
    """
    if len(values) == 1:
        return SeedRange(values[0], values[0], values[0], values[0], values[0])
    cuts = statistics.quantiles(values, n=20, method="exclusive")
    return SeedRange(statistics.median(values), cuts[0], cuts[-1], min(values), max(values))


def rank_of(value: float, values: Sequence[float]) -> float:
    """The share of values below this value, where an equal value counts half."""
    return (sum(each < value for each in values) + sum(each == value for each in values) / 2) / len(values)


def compare(kafka: Course, emulated: Sequence[Course], *, excuses: Sequence[Excuse] = EXCUSES) -> Comparison:
    """Compare a run of Kafka with one or more runs of the emulator."""
    rows = _Rows(kafka, emulated, excuses)
    rows.holds()
    rows.outcome("generations", RowKind.GENERATIONS, lambda course: len(course.rebalances), emulated)
    rows.outcome("members of all generations", RowKind.MEMBERS, _members, emulated)
    for place in range(len(kafka.rebalances)):
        rows.generation(place)
    alike = _alike(kafka, emulated)
    rows.measured("downtime, sum", RowKind.DOWNTIME, _downtime_s, alike)
    rows.measured("downtime, longest", RowKind.DOWNTIME, _longest_s, alike)
    rows.measured("hand-overs, mean", RowKind.HAND_OVERS, _mean_hand_over, emulated)
    if kafka.exchanges:
        rows.totals()
        rows.errors()
        rows.connections()
    held = sum(course.verdict == "holds" for course in emulated)
    return Comparison(kafka.plan, kafka.source, kafka.is_fitted, len(emulated), held, tuple(rows.found))


def places_of_each(kafka: Course, emulated: Sequence[Course]) -> tuple[tuple[Place, ...], ...]:
    """``Comparison.places``."""
    runs = (kafka, *emulated)
    return tuple(places_of_durations(each, [*runs[:at], *runs[at + 1 :]]) for at, each in enumerate(runs))


def places_of_durations(run: Course, others: Sequence[Course]) -> tuple[Place, ...]:
    """The places of a run's durations among other runs, by the rules of ``compare``, without fixed durations.

    No place depends on an excuse or a standing, so a run of an equal system has the places of each of the others.
    """
    alike = _alike(run, others)
    durations = [(_rebalance_s(place), _alike(run, others, place + 1)) for place in range(len(run.rebalances))] + [
        (_downtime_s, alike),
        (_longest_s, alike),
    ]
    places = []
    for of, runs in durations:
        theirs, ours = of(run), _values(of, runs)
        if theirs is not None and len(ours) >= FEWEST_RUNS and not _is_fixed(spread := range_of(ours)):
            places.append(Place(rank_of(theirs, ours), spread.low <= theirs <= spread.high))
    return tuple(places)


def _alike(run: Course, others: Sequence[Course], generations: int | None = None) -> list[Course]:
    """The runs with the same members in the first generations; None for all generations."""
    members = _members(run)[:generations]
    return [course for course in others if _members(course)[:generations] == members]


def _values(of: Figure, runs: Sequence[Course]) -> list[float]:
    return [value for course in runs if (value := of(course)) is not None]


def _rebalance_s(place: int) -> Figure:
    def took_s(course: Course) -> float | None:
        took_ms = course.rebalances[place].took_ms
        return None if took_ms is None else took_ms / 1000

    return took_s


def _downtime_s(course: Course) -> float:
    return course.downtime_sum_ms / 1000


def _longest_s(course: Course) -> float:
    return course.downtime_longest_ms / 1000


def _is_fixed(ours: SeedRange) -> bool:
    """Whether a timer fixes a duration."""
    return ours.high - ours.low <= FIXED * ours.median


class _Rows:
    """Collects the rows of one run of Kafka."""

    def __init__(self, kafka: Course, emulated: Sequence[Course], excuses: Sequence[Excuse]) -> None:
        self.found: list[ComparedRow] = []
        self._kafka = kafka
        self._emulated = emulated
        self._excuses = [each for each in excuses if each.condition(kafka)]

    def holds(self) -> None:
        """Add the verdicts of the runs."""
        held = sum(course.verdict == "holds" for course in self._emulated)
        broken = Counter(course.verdict for course in self._emulated if course.verdict != "holds")
        standing = RowMark.AGREES if held == len(self._emulated) else RowMark.DIFFERS
        why = ", ".join(f"{count} {verdict}" for verdict, count in sorted(broken.items()))
        values = len(broken) + (held > 0)
        self._add("runs that hold", RowKind.HOLDS, None, None, held, len(self._emulated), values, None, standing, why)

    def outcome(self, name: str, kind: RowKind, of: Callable[[Course], object], runs: Sequence[Course]) -> None:
        """Add a row that is equal or not."""
        theirs, ours = of(self._kafka), [of(course) for course in runs]
        equal, values = sum(each == theirs for each in ours), len({repr(each) for each in ours})
        if len(runs) < min(FEWEST_RUNS, len(self._emulated)):
            standing, why = RowMark.NOT_COMPARED, ""
        elif equal > RARE * len(runs):
            standing, why = RowMark.AGREES, ""
        else:
            standing, why = self._excused(name, None, None)
        chance = _unseen_share([repr(each) for each in ours])
        self._add(name, kind, None, None, equal, len(runs), values, None, standing, why, chance)

    def measured(self, name: str, kind: RowKind, of: Figure, runs: Sequence[Course]) -> None:
        """Add a number that must lie within the range of the runs. Runs without the figure are left out."""
        if (theirs := of(self._kafka)) is not None:
            self._number(name, kind, theirs, _values(of, runs))

    def generation(self, place: int) -> None:
        """Add leader, owners and duration of the n-th generation, in the runs with the same members so far."""
        seen, alike = self._kafka.rebalances[place], _alike(self._kafka, self._emulated, place + 1)
        if seen.leader:
            self.outcome(f"leader {seen.generation}", RowKind.LEADER, lambda it: it.rebalances[place].leader, alike)
        if seen.reason:
            self.outcome(f"reason {seen.generation}", RowKind.REASON, lambda it: _reason(it, place), alike)
        self.outcome(f"owners {seen.generation}", RowKind.OWNERS, lambda it: it.rebalances[place].owners, alike)
        self.measured(f"rebalance {seen.generation}", RowKind.REBALANCE, _rebalance_s(place), alike)

    def totals(self) -> None:
        """Add the number of responses to each member by API."""
        theirs, ours = totals_by_member(self._kafka), [totals_by_member(course) for course in self._emulated]
        for member, api in sorted({name for each in (theirs, *ours) for name in each}, key=_by_member):
            counts = [each.get((member, api), 0) for each in ours]
            self._number(f"{member} {api}", RowKind.TOTAL, theirs.get((member, api), 0), counts)

    def errors(self) -> None:
        """Add the number of responses to members with each error, by API."""
        for name in sorted({name for course in (self._kafka, *self._emulated) for name in course.errors}):
            counts = [course.errors.get(name, 0) for course in self._emulated]
            self._number(name, RowKind.ERROR, self._kafka.errors.get(name, 0), counts)

    def connections(self) -> None:
        """Add the order of the responses on each connection, and the periodic responses in this order."""
        places = {place for course in (self._kafka, *self._emulated) for place in course.exchanges}
        for place in sorted(places, key=lambda place: _by_member((place.partition(" ")[0], place))):
            theirs = _in_order(self._kafka.exchanges.get(place, ()))
            ours = [_in_order(course.exchanges.get(place, ())) for course in self._emulated]
            self._order(f"{place}, order", theirs, ours)
            alike = [each for each in ours if each.order == theirs.order]
            if any((*theirs.gaps, *(gap for each in alike for gap in each.gaps))):
                off = _distances(theirs, alike)
                self._number(f"{place}, between", RowKind.BETWEEN, off[0], off[1:])

    def _order(self, name: str, theirs: "_InOrder", ours: Sequence["_InOrder"]) -> None:
        alike, values = list(ours), len({each.order for each in ours})
        equal = sum(each.order == theirs.order for each in ours)
        standing, why, chance = RowMark.AGREES, "", _unseen_share([each.order for each in ours])
        for at, step in enumerate([*theirs.order, END] if equal <= RARE * len(ours) else ()):
            if len(alike) < min(FEWEST_RUNS, len(ours)):
                why = f"compared until response {at} of {len(theirs.order)}"
                standing = RowMark.NOT_COMPARED
                break
            here = [(*each.order, END)[at] for each in alike]
            if here.count(step) <= RARE * len(alike):
                usual = Counter(here).most_common(1)[0][0]
                difference = f"after {at} responses: {step}, emulated {usual}"
                standing, why = self._excused(name, None, None, difference)
                chance = _unseen_share(here)
                break
            alike = [each for each, its in zip(alike, here, strict=True) if its == step]
        self._add(name, RowKind.ORDER, None, None, equal, len(ours), values, None, standing, why, chance)

    def _number(self, name: str, kind: RowKind, theirs: float, ours: Sequence[float]) -> None:
        values = len(set(ours))
        if kind not in COUNTS and len(ours) < FEWEST_RUNS:
            self._add(name, kind, theirs, None, 0, len(ours), values, None, RowMark.NOT_COMPARED)
            return
        spread, equal = range_of(ours), ours.count(theirs)
        least = theirs if kind is RowKind.BETWEEN else spread.least
        if equal > RARE * len(ours) if kind in COUNTS else least <= theirs <= spread.most:
            standing, why = RowMark.AGREES, ""
        else:
            standing, why = self._excused(name, theirs, spread)
        rank = rank_of(theirs, ours)
        chance = _chance_of(kind, theirs, ours)
        self._add(name, kind, theirs, spread, equal, len(ours), values, rank, standing, why, chance)

    def _excused(
        self, name: str, theirs: float | None, ours: SeedRange | None, otherwise: str = ""
    ) -> tuple[RowMark, str]:
        """The standing of a row that does not agree, with the excuse that allows the difference."""
        for each in self._excuses:
            between = (ours.least, ours.most) if ours is not None else None
            if each.allows(self._kafka, name, theirs, between):
                return (RowMark.KNOWN if each.is_a_fault else RowMark.RACE), each.name
        return RowMark.DIFFERS, otherwise

    def _add(
        self,
        name: str,
        kind: RowKind,
        kafka: float | None,
        emulated: SeedRange | None,
        like_it: int,
        runs: int,
        values: int,
        rank: float | None,
        standing: RowMark,
        why: str = "",
        chance: float = 0.0,
    ) -> None:
        plan = self._kafka.plan
        self.found.append(
            ComparedRow(plan, name, kind, kafka, emulated, like_it, runs, values, rank, standing, chance, why)
        )


def _reason(course: Course, place: int) -> str:
    """The reason of the n-th generation. Instance ids of the first recordings have a prefix ("g-c2")."""
    return re.sub(r"\bg-(c\d+)\b", r"\1", course.rebalances[place].reason)


END = "nothing more"


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


def _distances(theirs: _InOrder, ours: Sequence[_InOrder]) -> list[float]:
    """The distance of Kafka's periodic responses from the medians of the runs, followed by each run's distance.

    The distance is the sum of the differences over all gaps and names.
    """
    cells = sorted({(at, name) for each in (theirs, *ours) for at, gap in enumerate(each.gaps) for name in gap})
    medians = [statistics.median([each.gaps[at].get(name, 0) for each in ours] or [0]) for at, name in cells]
    return [
        sum(abs(each.gaps[at].get(name, 0) - median) for (at, name), median in zip(cells, medians, strict=True))
        for each in (theirs, *ours)
    ]


def _members(course: Course) -> tuple[tuple[str, ...], ...]:
    return tuple(seen.members for seen in course.rebalances)


def _by_member(name: tuple[str, str]) -> tuple[int, str]:
    return number_of(name[0]), name[1]


def _mean_hand_over(course: Course) -> float | None:
    """Mean of the hand-overs in seconds, at least half the resolution of logs."""
    spans = [max(span, LEAST_MS) for span in course.hand_overs_ms]
    return statistics.fmean(spans) / 1000 if spans else None


def _unseen_share(ours: Sequence[Hashable]) -> float:
    """The probability that one more run has a value that at most ``RARE`` of these runs have; 0 for a constant.

    The estimate of Good and Turing: the share of runs whose value is as rare, with this run counted.
    """
    few = int(RARE * len(ours)) + 1
    by_value = Counter(ours)
    return sum(times for times in by_value.values() if times <= few) / len(ours) if len(by_value) > 1 else 0.0


def _chance_of(kind: RowKind, theirs: float, ours: Sequence[float]) -> float:
    """The probability that one more run is an outlier of these runs; 0 for runs with one value.

    - Counts: the share of rare values (``_unseen_share``).
    - Hand-overs: that the mean differs from the runs at least as much as Kafka's. The logarithms are nearly normal, so
      one more run has a t distribution.
    - Other numbers: 2 of n + 1 equal systems are the least and the most.
    """
    if kind in COUNTS or len(set(ours)) == 1:
        return _unseen_share(ours)
    if kind is RowKind.HAND_OVERS:
        logs = [math.log(value) for value in ours]
        error = statistics.stdev(logs) * math.sqrt(1 + 1 / len(logs))
        return float(2 * stdtr(len(logs) - 1, -abs(math.log(theirs) - statistics.fmean(logs)) / error))
    return 2 / (len(ours) + 1)


def allow_for_chance(compared: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons, with outliers as chance, if there are as few as equal systems have.

    An outlier is an outcome or a count that (nearly) no run has, or another number outside all runs. A number may lie
    outside by at most the width of the range. Equal systems have outliers with the probability ``ComparedRow.chance``.
    If there are more than in 99 of 100 comparisons of equal systems, all outliers differ. Rows with a small chance
    (``NARROW``) are counted apart, because outliers are usual in other rows. An outlier of hand-overs has a test of its
    own, at the same level for all such rows.
    """
    rows = [row for plan in compared for row in plan.rows]
    tested = sum(row.kind is RowKind.HAND_OVERS and row.rank is not None for row in rows)
    few = {narrow: _has_few_outliers([row for row in rows if _is_narrow(row) is narrow]) for narrow in (True, False)}

    def is_chance(row: ComparedRow) -> bool:
        if row.kind is RowKind.HAND_OVERS:
            return row.standing is RowMark.DIFFERS and row.chance > TOO_UNLIKELY / tested
        return _is_outlier(row) and few[_is_narrow(row)]

    return [
        attrs.evolve(
            plan,
            rows=tuple(attrs.evolve(row, standing=RowMark.CHANCE) if is_chance(row) else row for row in plan.rows),
        )
        for plan in compared
    ]


def _is_narrow(row: ComparedRow) -> bool:
    return row.chance <= NARROW


def _has_few_outliers(rows: Sequence[ComparedRow]) -> bool:
    """Whether these rows have no more outliers than 99 of 100 comparisons of equal systems."""
    numbers = [row for row in rows if _may_be_outlier(row)]
    outliers = sum(_is_outlier(row) for row in numbers)
    return outliers <= most_by_chance(len(numbers), sum(row.chance for row in numbers))


def _may_be_outlier(row: ComparedRow) -> bool:
    """Whether a value of Kafka that no run has, or just outside the runs, proves nothing: new values are likely."""
    likely = row.chance > 0 and row.standing is not RowMark.NOT_COMPARED
    return likely and row.kind not in (RowKind.HOLDS, RowKind.HAND_OVERS)


def _is_outlier(row: ComparedRow) -> bool:
    ours = row.emulated
    if row.standing is not RowMark.DIFFERS or not _may_be_outlier(row):
        return False
    if ours is None or row.kafka is None:
        return True
    width = ours.most - ours.least
    return ours.least - width <= row.kafka <= ours.most + width


def most_by_chance(rows: int, expected: float) -> int:
    """Most of these rows that lie outside by chance in 99 of 100 comparisons of equal systems (binomial)."""
    share, likely = expected / rows if rows else 0.0, 0.0
    for outside in range(rows + 1):
        likely += math.comb(rows, outside) * share**outside * (1 - share) ** (rows - outside)
        if likely >= 1 - TOO_UNLIKELY:
            return outside
    return rows


def differing(compared: Iterable[Comparison]) -> list[ComparedRow]:
    """Every row whose result is "differs"."""
    return [row for plan in compared for row in plan.rows if row.standing is RowMark.DIFFERS]


def evidence(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    """The rows that are compared and no constants that agree."""
    return [
        row
        for row in rows
        if row.standing is not RowMark.NOT_COMPARED and not (row.is_constant and row.standing is RowMark.AGREES)
    ]


def uses(compared: Iterable[Comparison], *, excuses: Sequence[Excuse] = EXCUSES) -> dict[str, int]:
    """Name of an excuse -> number of rows that the excuse allowed. An unused excuse has the number 0."""
    by_name = Counter(
        row.why for plan in compared for row in plan.rows if row.standing in (RowMark.RACE, RowMark.KNOWN)
    )
    return {each.name: by_name[each.name] for each in excuses}
