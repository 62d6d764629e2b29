"""Random faults: a plan drawn from a seed, for any scenario.

The plan has a few faults of bounded length at random times. All faults end before the scenario heals. The faults have a
separate random stream, so that a seed gives the same plan for every protocol, assignor and setting. Each action
declares its random forms.
"""

from kemu.emulator.chance import Seeded
from kemu.emulator.plan.action import Drawn
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.plan.draw import SECOND, Draw
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.frozen import evolve


def swarm(replicated: bool) -> tuple[Drawn, ...]:
    """Return the random forms of all actions, all equally likely. Forms for replicated brokers are last."""
    rows = [row for row in ACTIONS.values() if row.replicated in (None, replicated)]
    forms = [form for row in rows for form in row.drawn]
    return (*forms, *(form for row in rows for form in row.drawn_replicated)) if replicated else tuple(forms)


def random_faults(scenario: Scenario, seed: int, count: int) -> Plan:
    """Draw ``count`` faults between the group's start and the end of the load.

    With replicated brokers the faults include power cuts that lose unflushed records, disks that lose their end or all
    of their content, and unclean elections. Records that Kafka itself would lose are reported as expected losses.
    Without replication no fault loses flushed records, so checkers of committed offsets stay strict.
    """
    draw = Draw(
        Seeded(seed).stream("swarm"),
        members=tuple(host for host, _, _ in scenario.member_names()),
        brokers=scenario.broker_names(),
        groups=tuple(scenario.groups),
    )
    earliest_us, latest_us = fault_times_us(scenario)
    forms = swarm(scenario.brokers.replication is not None)
    entries = []
    for _ in range(count):
        at_us = draw.chance.between(earliest_us, latest_us)
        entries.append(At(at_us=at_us, action=forms[draw.chance.below(len(forms))](draw)))
    return tuple(sorted(entries, key=lambda entry: entry.at_us))


def fault_times_us(scenario: Scenario) -> tuple[int, int]:
    """Return the earliest and the latest time of a random fault, in us: after the groups' start, before the heal."""
    ends_us = min(scenario.heal_at_us, scenario.runs_us)
    return min(SECOND, ends_us // 2), min(ends_us, max(2 * SECOND, scenario.heal_at_us - SECOND))


def with_random_faults(scenario: Scenario, seed: int, count: int) -> Scenario:
    """Return the scenario with ``random_faults`` after its own plan."""
    return evolve(scenario, plan=(*scenario.plan, *random_faults(scenario, seed, count)))
