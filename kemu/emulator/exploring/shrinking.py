"""Shrinking: from a scenario that breaks a rule to a small one that breaks the same rule.

The method is delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002). The
search removes plan lines, groups, members, topics, partitions, records, brokers, settings and time, and rounds numbers.
Each attempt is a run. Shrinking keeps an attempt that shows the same violation (``trial.Signature``). The passes repeat
until no pass makes the scenario smaller, or until the allowed number of runs is used up. Shrinking uses no clock and no
random numbers: equal inputs give equal results.

If the violation needs a plan, an attempt that shows the violation without its plan is refused. Otherwise a group that
"did not come to rest" would end as a group without enough time.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs

from kemu.emulator.exploring.trial import Signature, Trials, Tried
from kemu.emulator.findings import Violation
from kemu.emulator.scenario.expectations import UNMET
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.units import duration_text, duration_us
from kemu.protocol.frozen import frozen
from kemu.protocol.names import consumer_host

T = TypeVar("T")
Data: TypeAlias = dict[str, Any]
"""A scenario as plain data, as in a TOML file."""

DEFAULT_RUNS = 600
SECOND_US = 1_000_000
ROUND_US = (60_000_000, 30_000_000, 10_000_000, 5_000_000, SECOND_US, 500_000, 100_000, 10_000, 1_000)
"""A duration is rounded to a multiple of the first of these steps that works, in us."""
ASSUMED: Mapping[str, Any] = {"factor": 3}
"""Settings that remain in the shrunk scenario even if the value equals the default."""
HOST_KEYS = frozenset({"host", "hosts", "by", "to", "from", "sender", "receiver", "a", "b", "side", "other"})


class NothingToShrink(Exception):
    """Raised if the run holds, or does not show the wanted violation."""


@frozen(kw_only=True)
class ScenarioSize:
    """The size of a scenario: numbers of groups, members, brokers, plan lines and so on."""

    plan: int
    groups: int
    members: int
    topics: int
    partitions: int
    brokers: int
    records_per_s: int
    duration_us: int
    settings: int
    """Number of optional keys that the scenario sets."""

    def rows(self) -> tuple[tuple[str, str], ...]:
        """(unit, count) for each unit."""
        plain = ("plan", "groups", "members", "topics", "partitions", "brokers", "settings")
        names = {"plan": "lines of the plan"}
        counts = [(names.get(name, name), str(getattr(self, name))) for name in plain]
        return (
            *counts[:-1],
            ("records per second", str(self.records_per_s)),
            ("duration", duration_text(self.duration_us)),
            counts[-1],
        )


def size_of(scenario: Scenario) -> ScenarioSize:
    """The size of a scenario."""
    return ScenarioSize(
        plan=len(scenario.plan),
        groups=len(scenario.groups),
        members=sum(group.members for group in scenario.groups.values()),
        topics=len(scenario.topics),
        partitions=sum(topic.partitions for topic in scenario.topics.values()),
        brokers=scenario.brokers.count,
        records_per_s=sum(topic.records_per_s for topic in scenario.topics.values()),
        duration_us=scenario.duration_us,
        settings=len(_settings(scenario.to_dict())),
    )


@frozen(kw_only=True)
class Shrunk:
    """The result of shrinking: the small scenario with its own seed, and the sizes before and after.

    ``complete``: False if shrinking was interrupted or used up its runs; a longer search may find a smaller scenario.
    """

    scenario: Scenario
    signature: Signature
    violation: Violation
    before: ScenarioSize
    after: ScenarioSize
    runs: int
    complete: bool


@frozen
class ShrinkProgress:
    """The progress of shrinking: present pass, number of runs, smallest size so far."""

    step: str
    runs: int
    size: ScenarioSize


def choose(tried: Tried, wanted: str = "") -> Signature:
    """Choose the violation to keep: the violation that decides the verdict, or the first of "CHECKER" or
    "CHECKER:KIND".

    Raises:
        NothingToShrink: the run has no such violation.
    """
    if not wanted:
        worst = tried.worst()
        if worst is None:
            expected = " (but an expected violation: --keep CHECKER chooses it)" if tried.found else ""
            raise NothingToShrink(f"this run has no violation{expected}: there is nothing to shrink")
        return worst
    checker, _, kind = wanted.partition(":")
    for signature in tried.found:
        if signature.checker == checker and kind in ("", signature.kind):
            return signature
    found = ", ".join(dict.fromkeys(f"{each.checker}:{each.kind}" for each in tried.found)) or "nothing"
    raise NothingToShrink(f"this run does not violate {wanted}; it found: {found}")


class Shrinker:
    """Makes a failing scenario smaller. ``best`` and ``shrunk`` are valid at any time, even after an interruption.

    Args:
        scenario, seed: the failing run.
        trials: runs the attempts.
        keep: the violation to keep (see ``choose``).
        runs: the largest number of attempts.
        tries: number of seeds that must hold before an attempt is refused.
        tell: called before each attempt.

    Raises:
        NothingToShrink: the run does not fail.
        ScenarioError: a machine refuses its configuration.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        trials: Trials,
        *,
        keep: str = "",
        runs: int = DEFAULT_RUNS,
        tries: int = 1,
        tell: Callable[[ShrinkProgress], None] | None = None,
    ) -> None:
        self._trials = trials
        self._most_runs = runs
        self._tries = max(1, tries)
        self._tell = tell
        self._step = ""
        self._known: set[str] = set()
        """The scenarios of past attempts, as text; no scenario is tried twice."""
        first = trials.run(scenario, seed)
        self.signature = choose(first, keep)
        self.violation = first.found[self.signature]
        self._before = size_of(scenario)
        self.complete = False
        bare = scenario if self.signature.checker == UNMET else attrs.evolve(scenario, expect=())
        self.scenario = bare
        self.seed = seed
        self.best: Data = {"plan": [], **bare.to_dict()}
        self._known.add(json.dumps(bare.to_dict()))
        self._plan_matters = bool(bare.plan) and not self._fails_anyway(bare, seed)

    def shrink(self) -> Shrunk:
        """Shrink until no pass makes the scenario smaller, or until the runs are used up."""
        try:
            while self._go_round():
                pass
            self.complete = True
        except _OutOfRuns:
            pass
        return self.shrunk()

    def shrunk(self) -> Shrunk:
        """The smallest scenario so far, with its seed and release."""
        profile = self._trials.profile or self.scenario.profile
        return Shrunk(
            scenario=attrs.evolve(self.scenario, seed=self.seed, profile=profile),
            signature=self.signature,
            violation=self.violation,
            before=self._before,
            after=size_of(self.scenario),
            runs=self._trials.runs,
            complete=self.complete,
        )

    def _go_round(self) -> bool:
        """Run all passes once; return whether anything got smaller."""
        before = json.dumps(self.best)
        for name, work in PASSES:
            self._step = name
            work(self)
        return json.dumps(self.best) != before

    # --- attempts ------------------------------------------------------------------------------------------------

    def works(self, data: Data) -> bool:
        """Whether this scenario shows the violation, too. A scenario that shows the violation becomes ``best``."""
        try:
            scenario = scenario_from_dict(data)
        except ScenarioError:
            return False
        key = json.dumps(scenario.to_dict())
        if key in self._known:
            return False
        self._known.add(key)
        others = [seed for seed in range(1, self._tries + 1) if seed != self.seed]
        for seed in (self.seed, *others[: self._tries - 1]):
            if self._trials.runs >= self._most_runs:
                raise _OutOfRuns
            if self._tell is not None:
                self._tell(ShrinkProgress(self._step, self._trials.runs, size_of(self.scenario)))
            try:
                tried = self._trials.run(scenario, seed, until=self.signature)
            except ScenarioError:
                return False
            if self.signature in tried.found and not (self._plan_matters and self._fails_anyway(scenario, seed)):
                self._adopt(scenario, seed, tried.found[self.signature])
                return True
        return False

    def _expect(self, attempts: Iterable[Data]) -> None:
        """Announce the next attempts, if each attempt before the next one is refused."""
        scenarios: list[Scenario] = []
        for data in attempts if self._trials.ahead else ():
            try:
                scenario = scenario_from_dict(data)
            except ScenarioError:
                continue
            if json.dumps(scenario.to_dict()) not in self._known:
                scenarios.append(scenario)
            if len(scenarios) == self._trials.ahead:
                break
        if scenarios:
            self._trials.expect(scenarios, self.seed, self.signature)

    def _fails_anyway(self, scenario: Scenario, seed: int) -> bool:
        """Whether the scenario shows the violation without its plan."""
        calm = attrs.evolve(scenario, plan=())
        return self.signature in self._trials.run(calm, seed, until=self.signature).found

    def _adopt(self, scenario: Scenario, seed: int, violation: Violation) -> None:
        self.scenario, self.seed, self.violation = scenario, seed, violation
        self.best = {"plan": [], **scenario.to_dict()}

    def minimize(self, items: Sequence[T], with_items: Callable[[Sequence[T]], Data]) -> None:
        """Keep as few of these items as possible (ddmin). ``with_items``: items to keep -> scenario with only these
        items.
        """
        left, parts = list(items), 2
        if not left:
            return
        self._expect(with_items(rest) for rest in ([], *_rests(left, parts)))
        if self.works(with_items([])):
            return
        while len(left) >= 2:
            rests = _rests(left, parts)
            for number, rest in enumerate(rests):
                self._expect(with_items(each) for each in rests[number:])
                if self.works(with_items(rest)):
                    left, parts = rest, max(parts - 1, 2)
                    break
            else:
                if parts >= len(left):
                    return
                parts = min(2 * parts, len(left))

    def lower(self, value: int, least: int, with_value: Callable[[int], Data], unit: int = 1) -> None:
        """Lower a number as far as possible in steps of ``unit``: first try the least value, otherwise bisect."""
        if value <= least:
            return
        self._expect(map(with_value, (least, _middle(least, value, unit))))
        if self.works(with_value(least)):
            return
        low, high = least, value
        while high - low > unit:
            middle = _middle(low, high, unit)
            if middle >= high:
                return
            self._expect(map(with_value, (middle, _middle(middle, high, unit), _middle(low, middle, unit))))
            if self.works(with_value(middle)):
                high = middle
            else:
                low = middle


def _rests(items: Sequence[T], parts: int) -> list[list[T]]:
    """The items without the first part, without the second part, and so on; no list without items."""
    size = -(-len(items) // parts)
    rests = [[*items[:start], *items[start + size :]] for start in range(0, len(items), size)]
    return [rest for rest in rests if rest]


def _middle(low: int, high: int, unit: int) -> int:
    return low + max(unit, (high - low) // 2 // unit * unit)


class _OutOfRuns(Exception):
    """Raised when the allowed number of attempts is used up."""


# --- passes ----------------------------------------------------------------------------------------------------------


def _with(data: Data, path: Sequence[str | int], value: Any) -> Data:
    """A copy of the scenario with another value at this path."""
    copy: Data = json.loads(json.dumps(data))
    place: Any = copy
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return copy


def _without(data: Data, paths: Iterable[Sequence[str | int]]) -> Data:
    """A copy of the scenario without the values at these paths."""
    copy: Data = json.loads(json.dumps(data))
    for path in paths:
        place: Any = copy
        for part in path[:-1]:
            place = place.get(part, {}) if isinstance(place, dict) else place[int(part)]
        if isinstance(place, dict):
            place.pop(path[-1], None)
    return copy


def _plan(shrinker: Shrinker) -> None:
    best = shrinker.best
    shrinker.minimize(best["plan"], lambda rows: {**best, "plan": list(rows)})


def _calm(shrinker: Shrinker) -> None:
    if shrinker.best.get("draws") != "calm":
        shrinker.works({**shrinker.best, "draws": "calm"})


def _groups(shrinker: Shrinker) -> None:
    best = shrinker.best
    if len(best["groups"]) > 1:
        shrinker.minimize(list(best["groups"]), lambda names: _only_groups(best, names))


def _only_groups(data: Data, names: Sequence[str]) -> Data:
    """The scenario with only these groups; the members have new numbers."""
    hosts = list(_hosts(data))
    kept = [host for host, group in hosts if group in names]
    return _renumbered({**data, "groups": {name: data["groups"][name] for name in names}}, kept)


def _members(shrinker: Shrinker) -> None:
    for group in list(shrinker.best["groups"]):
        best = shrinker.best
        hosts = [host for host, of in _hosts(best) if of == group]
        others = [host for host, of in _hosts(best) if of != group]

        def with_members(
            kept: Sequence[str],
            best: Data = best,
            group: str = group,
            hosts: Sequence[str] = tuple(hosts),
            others: Sequence[str] = tuple(others),
        ) -> Data:
            changed = _with(best, ("groups", group, "members"), len(kept))
            labels = dict(zip(hosts, best["groups"][group].get("labels", ()), strict=False))
            if labels:
                changed["groups"][group]["labels"] = [labels.get(host, host) for host in kept]
            order = [host for host, _ in _hosts(best) if host in kept or host in others]
            return _renumbered(changed, order)

        shrinker.minimize(hosts, with_members)


def _hosts(data: Data) -> Iterable[tuple[str, str]]:
    """(host, group) of every member, as scenarios number them."""
    number = 0
    for name, group in data["groups"].items():
        for _ in range(group.get("members", 3)):
            number += 1
            yield consumer_host(number), name


def _renumbered(data: Data, kept: Sequence[str]) -> Data:
    """Rename the members ``kept`` to c1, c2, ..., and remove the optional settings of other members."""
    names = {host: consumer_host(number) for number, host in enumerate(kept, start=1)}

    def renamed(item: Any) -> Any:
        if isinstance(item, str):
            # A removed member gets a name that no host has, so that its plan lines are refused and removed with the
            # member.
            return names.get(item, "gone" if re.fullmatch(r"c\d+", item) else item)
        return [renamed(each) for each in item] if isinstance(item, list) else item

    def row(given: Mapping[str, Any]) -> Data:
        return {
            key: row(item) if isinstance(item, dict) else renamed(item) if key in HOST_KEYS else item
            for key, item in given.items()
        }

    copy: Data = json.loads(json.dumps(data))
    copy["plan"] = [row(each) for each in copy["plan"]]
    for group in copy["groups"].values():
        if "overrides" in group:
            group["overrides"] = {names[host]: own for host, own in group["overrides"].items() if host in names}
    if "away" in copy.get("checks", {}):
        hosts = [renamed(host) for host in copy["checks"]["away"]["hosts"]]
        copy = _with_away(copy, [host for host in hosts if host != "gone"])
    if "links" in copy.get("network", {}):
        links = [row(link) for link in copy["network"]["links"]]
        copy["network"]["links"] = [link for link in links if "gone" not in (link["a"], link["b"])]
    return copy


def _away(shrinker: Shrinker) -> None:
    best = shrinker.best
    if "away" in best.get("checks", {}):
        shrinker.minimize(best["checks"]["away"]["hosts"], lambda hosts: _with_away(best, hosts))


def _with_away(data: Data, hosts: Sequence[str]) -> Data:
    """The scenario in which only these hosts stay away; without hosts, everything is healed."""
    copy: Data = json.loads(json.dumps(data))
    if hosts:
        copy["checks"]["away"]["hosts"] = list(hosts)
    else:
        del copy["checks"]["away"]
    return copy


def _topics(shrinker: Shrinker) -> None:
    best = shrinker.best
    if len(best["topics"]) > 1:
        shrinker.minimize(list(best["topics"]), lambda names: _only_topics(best, names))


def _only_topics(data: Data, names: Sequence[str]) -> Data:
    copy: Data = json.loads(json.dumps(data))
    copy["topics"] = {name: spec for name, spec in copy["topics"].items() if name in names}
    for group in copy["groups"].values():
        if "topics" in group:
            group["topics"] = [topic for topic in group["topics"] if topic in names or topic not in data["topics"]]
    return copy


def _partitions(shrinker: Shrinker) -> None:
    for topic in list(shrinker.best["topics"]):
        best = shrinker.best

        def with_partitions(count: int, best: Data = best, topic: str = topic) -> Data:
            changed = _with(best, ("topics", topic, "partitions"), count)
            spec = changed["topics"][topic]
            for key in ("assignment", "shares", "initial_records_each"):
                if key in spec:
                    spec[key] = spec[key][:count]
            return changed

        shrinker.lower(best["topics"][topic]["partitions"], 1, with_partitions)


def _records(shrinker: Shrinker) -> None:
    for topic in list(shrinker.best["topics"]):
        spec = shrinker.scenario.topics[topic]
        for key, value, text in (
            ("rate", spec.records_per_s, lambda count: f"{count}/s"),
            ("initial_records", spec.initial_records, lambda count: count),
        ):
            best = shrinker.best
            path = ("topics", topic, key)
            shrinker.lower(value, 0, lambda count, best=best, path=path, text=text: _with(best, path, text(count)))  # type: ignore[misc]
        key = "initial_records_each"
        for number, count in enumerate(shrinker.best["topics"][topic].get(key, ())):
            best = shrinker.best
            place = ("topics", topic, key, number)
            shrinker.lower(count, 0, lambda count, best=best, place=place: _with(best, place, count))  # type: ignore[misc]


def _brokers(shrinker: Shrinker) -> None:
    best = shrinker.best
    count = best["brokers"].get("count", 3)
    factor = best["brokers"].get("replication", {}).get("factor")

    def with_count(wanted: int) -> Data:
        changed = _with(best, ("brokers", "count"), wanted)
        if factor is not None and factor > wanted:
            changed = _with(changed, ("brokers", "replication", "factor"), wanted)
        return changed

    shrinker.lower(count, 1, with_count)


def _settings(data: Data) -> list[tuple[str | int, ...]]:
    """The paths of all optional keys; a table's path is before the paths of its keys.

    Parts with a pass of their own (such as hosts that stay away) are left out. ``checks`` is left out, too, because the
    table defines the failure.
    """
    found: list[tuple[str | int, ...]] = []

    def look(table: Mapping[str, Any], path: tuple[str | int, ...], own: frozenset[str]) -> None:
        for key, item in table.items():
            if key in own or item == ASSUMED.get(key):
                continue
            found.append((*path, key))
            if isinstance(item, dict):
                look(item, (*path, key), frozenset())

    look({key: item for key, item in data.items() if key in ("producers", "network")}, (), frozenset())
    look(data["brokers"], ("brokers",), frozenset({"count"}))
    for name, topic in data["topics"].items():
        look(topic, ("topics", name), frozenset({"partitions", "rate", "initial_records"}))
    for name, group in data["groups"].items():
        look(group, ("groups", name), frozenset({"topics", "members", "labels"}))
    return found


def _left_out(shrinker: Shrinker) -> None:
    best = shrinker.best
    paths = _settings(best)
    shrinker.minimize(paths, lambda kept: _without(best, [path for path in paths if path not in kept]))


def _time(shrinker: Shrinker) -> None:
    """Move all events earlier, and shorten the run."""
    best = shrinker.best
    timed = [duration_us(row["at"]) for row in best["plan"] if "at" in row]
    earliest_us = min(timed, default=0) // SECOND_US * SECOND_US
    if earliest_us:

        def earlier(kept_us: int) -> Data:
            by_us = earliest_us - kept_us
            rows = [
                {**row, "at": duration_text(duration_us(row["at"]) - by_us)} if "at" in row else row
                for row in best["plan"]
            ]
            duration = duration_text(max(SECOND_US, duration_us(best["duration"]) - by_us))
            return {**best, "plan": rows, "duration": duration}

        shrinker.lower(earliest_us, 0, earlier, SECOND_US)
    best = shrinker.best
    whole_us = duration_us(best["duration"])
    shrinker.lower(
        whole_us, SECOND_US, lambda us: {**best, "duration": duration_text(us // SECOND_US * SECOND_US)}, SECOND_US
    )


def _rounder(shrinker: Shrinker) -> None:
    """Round each duration of the plan as coarsely as possible; lower ranks and counts toward 1."""
    for index in range(len(shrinker.best["plan"])):
        row = shrinker.best["plan"][index]
        for key, item in row.items():
            if isinstance(item, str) and _is_duration(item):
                _round_off(shrinker, ("plan", index, key), duration_us(item))
            elif key in ("nth", "records", "per_mille", "count") and isinstance(item, int) and item > 1:
                best = shrinker.best
                shrinker.lower(item, 1, lambda n, best=best, at=(index, key): _with(best, ("plan", *at), n))  # type: ignore[misc]


def _round_off(shrinker: Shrinker, path: tuple[str | int, ...], us: int) -> None:
    for step_us in ROUND_US:
        if us % step_us == 0:
            return
        for rounded_us in (us // step_us * step_us, -(-us // step_us) * step_us):
            if rounded_us and shrinker.works(_with(shrinker.best, path, duration_text(rounded_us))):
                return


def _is_duration(text: str) -> bool:
    try:
        return duration_us(text) > 0
    except ValueError:
        return False


PASSES: tuple[tuple[str, Callable[[Shrinker], None]], ...] = (
    ("the plan", _plan),
    ("hosts that stay away", _away),
    ("groups", _groups),
    ("members", _members),
    ("topics", _topics),
    ("partitions", _partitions),
    ("settings", _left_out),
    ("calm draws", _calm),
    ("brokers", _brokers),
    ("records", _records),
    ("time", _time),
    ("round numbers", _rounder),
)
"""(name, function) of each pass, in order. All passes repeat until a whole round makes nothing smaller."""
