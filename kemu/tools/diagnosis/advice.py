"""Advice: the changes that would have helped, from paired runs of one scenario with and without each change.

A change is better or worse in a figure if the exact interval of the median of its paired differences excludes 0. The
confidence of each interval is so high that all comparisons together name a change without effect "better" in fewer
than 5 % of all advices (Bonferroni's correction). A sign test needs no assumption about the differences but one: a
change without effect makes a figure as often larger as smaller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from kemu.emulator.metrics.figure import Better
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.scenario.files import with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import configured
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.units import duration_text
from kemu.protocol.config import BrokerConfig, ConsumerConfig
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.tools.intervals import fewest, spread

RANKED_BY: Mapping[str, str] = {
    "downtime": "downtime_sum",
    "service-lost": "service_lost",
    "delay": "delay_p99",
    "duplicates": "reprocessed",
}
"""Value of ``--by`` -> figure. An advice judges every change in all of these figures."""
SHORTEST_SESSION_MS = 6_000
"""The default of ``group.min.session.timeout.ms``. Source: ``GroupCoordinatorConfig`` (3.9)."""
FALSE_PROMISES = 0.05
"""The share of advices that may name a change without effect "better"."""


@frozen(kw_only=True)
class ProposedChange:
    """A change of a scenario, as settings of ``kemu run --set``."""

    name: str
    settings: tuple[str, ...]
    costs: str = ""
    """The price that the scenario may not show, with its source."""
    unfit: str = ""
    """The reason why the scenario cannot show the effect."""


@frozen
class Unfit:
    """A change that the scenario does not allow, and the reason."""

    change: ProposedChange
    why: str


class Says(StrEnum):
    """The judgement of a change in the figure of the ranking."""

    BETTER = "better"
    UNCLEAR = "no difference shown"
    NOTHING = "does nothing"
    WORSE = "worse"
    FAILED = "did not work"


@frozen
class ChangeEffect:
    """A change's effect on one figure: the median of the paired differences and its interval."""

    says: Says
    median: float
    low: float | None
    high: float | None


@frozen
class Judged:
    """A change with its effects. ``effects``: figure -> effect; empty if a run of the change did not work."""

    change: ProposedChange
    says: Says
    effects: Mapping[str, ChangeEffect]
    row: Mapping[str, Any]

    def elsewhere(self, by: str, says: Says) -> list[str]:
        """The other figures in which the change is better, or worse."""
        return [name for name, effect in self.effects.items() if name != by and effect.says is says]


@frozen
class Advice:
    """All changes, the best one first."""

    by: str
    """The figure of the ranking."""
    seeds: int
    confidence: float
    judged: tuple[Judged, ...]
    base: Mapping[str, Any]

    @property
    def fewest_seeds(self) -> int:
        """The smallest number of seeds that can show a difference."""
        return fewest(self.confidence)

    def of(self, says: Says) -> list[Judged]:
        """The changes with a judgement."""
        return [each for each in self.judged if each.says is says]


def changes_for(scenario: Scenario, profile: str = "") -> tuple[ProposedChange, ...]:
    """The table of changes: what an operator can change, from the scenario's own values on."""
    release = PROFILES[profile or scenario.profile or DEFAULT_PROFILE]
    groups = [(name, group) for name, group in scenario.groups.items() if group.streams is None]
    if not groups:
        return tuple(_broker_changes(scenario))
    configs = [group.consumer(name, "", 0, release.consumer) for name, group in groups]
    static = all(group.static for _, group in groups)
    cooperative = all(group.assignors == ("cooperative-sticky",) for _, group in groups)
    planned = all(len([host for host in group.overrides.values() if host.start_later]) == group.members
                  for _, group in groups)  # fmt: skip
    return (*_group_changes(configs[0], static, cooperative), *_member_changes(groups[0][1].members, planned),
            *_broker_changes(scenario))  # fmt: skip


def _group_changes(config: ConsumerConfig, static: bool, cooperative: bool) -> Iterator[ProposedChange]:
    session_ms, poll_ms = config.session_timeout_ms, config.max_poll_interval_ms
    crash = "a crashed member is noticed only after session.timeout.ms"
    if not static:
        yield ProposedChange(name="static membership", settings=("static=true",), costs=f"{crash} (KIP-345)")
        yield ProposedChange(
            name="static membership, session x4",
            settings=("static=true", f"session.timeout.ms={4 * session_ms}"),
            costs=f"{crash} (KIP-345)",
        )
        yield ProposedChange(
            name="no LeaveGroup on close",
            settings=("internal.leave.group.on.close=false",),
            costs="a closed member's partitions wait for its session (ConsumerConfig)",
        )
    if not cooperative:
        yield ProposedChange(
            name="cooperative-sticky",
            settings=("assignors=cooperative-sticky",),
            costs="a second rebalance if partitions move; the upgrade takes two rolling restarts (KIP-429)",
        )
    yield ProposedChange(
        name="session x2", settings=(f"session.timeout.ms={2 * session_ms}",), costs=f"{crash} (KIP-735)"
    )
    shorter_ms = max(SHORTEST_SESSION_MS, session_ms // 2)
    if shorter_ms < session_ms:
        beat_ms = min(config.heartbeat_interval_ms, shorter_ms // 3)
        yield ProposedChange(
            name="session / 2" if shorter_ms == session_ms // 2 else f"session {duration_text(1_000 * shorter_ms)}",
            settings=(f"session.timeout.ms={shorter_ms}", f"heartbeat.interval.ms={beat_ms}"),
            costs="a shorter pause ends a membership (KIP-735)",
        )
    yield ProposedChange(
        name="heartbeat / 3",
        settings=(f"heartbeat.interval.ms={max(100, config.heartbeat_interval_ms // 3)}",),
        costs="three times the heartbeats at the coordinator (ConsumerConfig)",
    )
    yield ProposedChange(
        name="max.poll.records / 5",
        settings=(f"max.poll.records={max(1, config.max_poll_records // 5)}",),
        costs="more polls for the same records (KIP-41)",
    )
    yield ProposedChange(
        name="max.poll.interval x4",
        settings=(f"max.poll.interval.ms={4 * poll_ms}",),
        costs="a hanging application is noticed later, and a rebalance may wait longer (KIP-62)",
    )


def _member_changes(members: int, planned: bool) -> Iterator[ProposedChange]:
    unfit = "the plan starts and closes each member" if planned else ""
    yield ProposedChange(
        name="one member more", settings=(f"members={members + 1}",), costs="one more process", unfit=unfit
    )
    if members > 1:
        yield ProposedChange(
            name="one member fewer", settings=(f"members={members - 1}",), costs="more work for each member",
            unfit=unfit,
        )  # fmt: skip


def _broker_changes(scenario: Scenario) -> Iterator[ProposedChange]:
    delay_ms = configured(BrokerConfig(), scenario.brokers.config).group_initial_rebalance_delay_ms
    key = "group.initial.rebalance.delay.ms"
    if delay_ms:
        yield ProposedChange(
            name="no initial delay", settings=(f"{key}=0",), costs="more rebalances at a start (KIP-134)"
        )
    yield ProposedChange(
        name="initial delay x2", settings=(f"{key}={2 * delay_ms or 3_000}",), costs="a later start (KIP-134)"
    )
    if scenario.brokers.replication is not None:
        lag_us = scenario.brokers.replication.lag_us
        yield ProposedChange(
            name="replica lag / 2",
            settings=(f"replica.lag.time.max.ms={lag_us // 2_000}",),
            costs="a slow follower leaves the ISR earlier (KIP-537)",
        )


def fitting(
    scenario: Scenario, changes: Iterable[ProposedChange]
) -> tuple[list[tuple[ProposedChange, Scenario]], list[Unfit]]:
    """The changed scenarios, and the changes that the scenario does not allow or that change nothing in it."""
    fit: list[tuple[ProposedChange, Scenario]] = []
    unfit: list[Unfit] = []
    for change in changes:
        if change.unfit:
            unfit.append(Unfit(change, change.unfit))
            continue
        try:
            changed = with_values(scenario, change.settings)
        except ScenarioError as error:
            unfit.append(Unfit(change, str(error).splitlines()[0]))
            continue
        if changed == scenario:
            unfit.append(Unfit(change, "the scenario has these settings"))
        else:
            fit.append((change, changed))
    return fit, unfit


def confidence_for(changes: int) -> float:
    """The confidence of each interval, so that all comparisons together promise falsely in 5 % of advices at most."""
    return 1 - FALSE_PROMISES / max(1, changes * len(RANKED_BY))


def judge(base: Mapping[str, Any], rows: Sequence[tuple[ProposedChange, Mapping[str, Any]]], by: str) -> Advice:
    """Judge changes by rows of ``kemu compare``, of which ``base`` is the row without a change."""
    confidence = confidence_for(len(rows))
    judged = [_judged(base, change, row, by, confidence) for change, row in rows]
    order = list(Says)
    judged.sort(key=lambda each: (order.index(each.says), _gain(each, by)))
    return Advice(by, base["runs"], confidence, tuple(judged), base)


def _gain(each: Judged, by: str) -> float:
    """Sort key: the largest improvement first."""
    effect = each.effects.get(by)
    if effect is None:
        return 0.0
    return effect.median if FIGURES[by].better is Better.LOWER else -effect.median


def _judged(
    base: Mapping[str, Any], change: ProposedChange, row: Mapping[str, Any], by: str, confidence: float
) -> Judged:
    if not row["by_seed"] or not base["by_seed"]:
        return Judged(change, Says.FAILED, {}, row)
    effects = {
        name: effect
        for name in RANKED_BY.values()
        if (effect := effect_of(name, base["by_seed"][name], row["by_seed"][name], confidence)) is not None
    }
    if all(base["by_seed"][name] == values for name, values in row["by_seed"].items()):
        return Judged(change, Says.NOTHING, effects, row)
    says = effects[by].says if by in effects else Says.UNCLEAR
    return Judged(change, Says.UNCLEAR if says is Says.NOTHING else says, effects, row)


def effect_of(
    name: str, before: Sequence[float | None], after: Sequence[float | None], confidence: float
) -> ChangeEffect | None:
    """The effect on one figure from its values by seed; None if no seed has both values."""
    pairs = [new - old for old, new in zip(before, after, strict=True) if old is not None and new is not None]
    if not pairs:
        return None
    found = spread(pairs, confidence)
    says = Says.UNCLEAR
    if not any(pairs):
        says = Says.NOTHING
    elif found.low is not None and found.high is not None and (found.low > 0 or found.high < 0):
        lower = FIGURES[name].better is Better.LOWER
        says = Says.BETTER if (found.median < 0) == lower else Says.WORSE
    return ChangeEffect(says, found.median, found.low, found.high)
