"""Random faults: a plan drawn from a seed, to run any scenario under.

A few faults of the usual kinds at random moments, each of bounded length, all over when the scenario heals. They are
drawn from a stream of their own, so that the same seed means the same plan whatever protocol, assignor or settings run
under it.
"""

from collections.abc import Callable
from typing import TypeAlias

import attrs

from kemu.emulator.chance import Seeded, Stream
from kemu.emulator.plan.actions import (
    Action,
    Crash,
    Disconnect,
    Duplicate,
    ErrorReply,
    Hold,
    Isolate,
    KillCoordinator,
    Lossy,
    MoveCoordinator,
    Pause,
    Slow,
    Split,
)
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.plan.store_actions import (
    ElectPreferredLeaders,
    ExpiredSession,
    FrozenSession,
    LateWatches,
    LostStoreAnswer,
)
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import STORE

SECOND = 1_000_000
LONGEST_US = 25 * SECOND
ERRORS: tuple[tuple[str, ErrorCode], ...] = (
    ("JoinGroup", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ("JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID),
    ("SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS),
    ("SyncGroup", ErrorCode.UNKNOWN_MEMBER_ID),
    ("SyncGroup", ErrorCode.ILLEGAL_GENERATION),
    ("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID),
    ("Heartbeat", ErrorCode.ILLEGAL_GENERATION),
    ("Heartbeat", ErrorCode.NOT_COORDINATOR),
    ("OffsetCommit", ErrorCode.COORDINATOR_NOT_AVAILABLE),
)
"""Answers that a member has to survive."""


class _Draw:
    """One seed's draws, in the names of one scenario."""

    def __init__(self, scenario: Scenario, chance: Stream) -> None:
        self.chance = chance
        self.members = tuple(host for host, _, _ in scenario.member_names())
        self.brokers = scenario.broker_names()
        self.groups = tuple(scenario.groups)

    def one_of(self, names: tuple[str, ...]) -> str:
        return names[self.chance.below(len(names))]

    def member(self) -> str:
        return self.one_of(self.members)

    def broker_or_controller(self) -> str:
        return self.one_of((*self.brokers, "controller"))

    def group(self) -> str:
        return self.one_of(self.groups)

    def span(self, least_us: int = SECOND, most_us: int = LONGEST_US) -> int:
        return self.chance.between(least_us, most_us)


def _error(draw: _Draw) -> Action:
    api, error = ERRORS[draw.chance.below(len(ERRORS))]
    return ErrorReply(api=api, sender=draw.member(), nth=draw.chance.between(1, 3), error=error)


def _move(draw: _Draw) -> Action:
    return MoveCoordinator(group=draw.group())


def _lost_answer(draw: _Draw) -> Action:
    return LostStoreAnswer(
        host=draw.broker_or_controller(),
        part=draw.one_of(("broker", "controller")),
        nth=draw.chance.between(1, 3),
        applied=draw.chance.below(2) == 0,
    )


def _expiry(draw: _Draw) -> Action:
    linger_us = draw.span(100_000, 5 * SECOND) if draw.chance.below(2) else 0
    return ExpiredSession(host=draw.broker_or_controller(), linger_us=linger_us)


Drawn: TypeAlias = Callable[[_Draw], Action]

SWARM: tuple[Drawn, ...] = (
    lambda draw: Crash(host=draw.member(), mode="power", for_us=draw.span()),
    lambda draw: Crash(host=draw.member(), mode="process", for_us=draw.span()),
    lambda draw: Pause(host=draw.member(), for_us=draw.span()),
    lambda draw: Isolate(host=draw.member(), for_us=draw.span()),
    lambda draw: Slow(sender=draw.member(), add_us=draw.span(1_000, SECOND), jitter_us=SECOND, for_us=draw.span()),
    lambda draw: Lossy(per_mille=draw.chance.between(5, 30), for_us=draw.span()),
    lambda draw: Hold(sender=draw.member(), for_us=draw.span()),
    lambda draw: Disconnect(a=draw.member(), b=draw.one_of(draw.brokers)),
    lambda draw: KillCoordinator(group=draw.group(), for_us=draw.span(5 * SECOND)),
    _move,
    _error,
)
"""What may be drawn; each as likely as the others."""

_WITHOUT_REPLICATION: tuple[Drawn, ...] = (_move,)
"""What is drawn only where brokers do not replicate."""

SWARM_OF_REPLICATION: tuple[Drawn, ...] = (
    lambda draw: Crash(host=draw.one_of(draw.brokers), mode="power", for_us=draw.span()),
    lambda draw: Crash(host=draw.one_of(draw.brokers), mode="process", for_us=draw.span(100_000, 3 * SECOND)),
    lambda draw: Crash(host="controller", mode="power", for_us=draw.span()),
    lambda draw: Pause(host=draw.broker_or_controller(), for_us=draw.span()),
    lambda draw: Isolate(host=draw.one_of(draw.brokers), for_us=draw.span()),
    lambda draw: Split(side=(draw.broker_or_controller(),), other=(STORE,), for_us=draw.span()),
    lambda draw: Hold(sender=draw.one_of(draw.brokers), receiver=draw.one_of(draw.brokers), for_us=draw.span()),
    lambda draw: Disconnect(a=draw.one_of(draw.brokers), b=STORE),
    lambda draw: Duplicate(api="StoreOps", sender=draw.one_of(draw.brokers), nth=draw.chance.between(1, 5)),
    _lost_answer,
    lambda draw: FrozenSession(host=draw.broker_or_controller(), for_us=draw.span()),
    lambda draw: LateWatches(host=draw.broker_or_controller(), for_us=draw.span(100_000)),
    _expiry,
    lambda draw: ElectPreferredLeaders(),
)
"""What may be drawn besides where brokers replicate."""


def random_faults(scenario: Scenario, seed: int, count: int) -> Plan:
    """So many faults, at times between the group's start and the end of the scenario's load.

    Nothing that loses what a disk was asked to keep: checkers of committed offsets stay as strict as ever.
    """
    draw = _Draw(scenario, Seeded(seed).stream("swarm"))
    latest_us = max(2 * SECOND, scenario.heal_at_us - SECOND)
    swarm = SWARM
    if scenario.brokers.replication is not None:
        swarm = (*(drawn for drawn in SWARM if drawn not in _WITHOUT_REPLICATION), *SWARM_OF_REPLICATION)
    entries = []
    for _ in range(count):
        at_us = draw.chance.between(SECOND, latest_us)
        entries.append(At(at_us, swarm[draw.chance.below(len(swarm))](draw)))
    return tuple(sorted(entries, key=lambda entry: entry.at_us))


def with_random_faults(scenario: Scenario, seed: int, count: int) -> Scenario:
    """The scenario with ``random_faults`` after its own plan."""
    return attrs.evolve(scenario, plan=(*scenario.plan, *random_faults(scenario, seed, count)))
