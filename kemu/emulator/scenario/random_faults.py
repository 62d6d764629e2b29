"""Random faults: a plan drawn from a seed, to run any scenario under.

A few faults of the usual kinds at random moments, each of bounded length, all over when the scenario heals. They are
drawn from a stream of their own, so that the same seed means the same plan whatever protocol, assignor or settings run
under it. What may be drawn stands with each action.
"""

import attrs

from kemu.emulator.chance import Seeded
from kemu.emulator.plan.action import Drawn
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.plan.draw import SECOND, Draw
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.scenario.scenario import Scenario


def swarm(replicated: bool) -> tuple[Drawn, ...]:
    """What may be drawn, each as likely as the others: what hits members, then what is drawn only under replication."""
    rows = [row for row in ACTIONS.values() if row.replicated in (None, replicated)]
    forms = [form for row in rows for form in row.drawn]
    return (*forms, *(form for row in rows for form in row.drawn_replicated)) if replicated else tuple(forms)


def random_faults(scenario: Scenario, seed: int, count: int) -> Plan:
    """So many faults, at times between the group's start and the end of the scenario's load.

    Where brokers replicate, power cuts take what was not flushed, disks lose their ends or all, and unclean elections
    may be allowed: what Kafka's own rules let go by that is told as expected losses. Elsewhere nothing is drawn that
    loses what a disk was asked to keep: checkers of committed offsets stay as strict as ever.
    """
    draw = Draw(
        Seeded(seed).stream("swarm"),
        members=tuple(host for host, _, _ in scenario.member_names()),
        brokers=scenario.broker_names(),
        groups=tuple(scenario.groups),
    )
    latest_us = max(2 * SECOND, scenario.heal_at_us - SECOND)
    forms = swarm(scenario.brokers.replication is not None)
    entries = []
    for _ in range(count):
        at_us = draw.chance.between(SECOND, latest_us)
        entries.append(At(at_us=at_us, action=forms[draw.chance.below(len(forms))](draw)))
    return tuple(sorted(entries, key=lambda entry: entry.at_us))


def with_random_faults(scenario: Scenario, seed: int, count: int) -> Scenario:
    """The scenario with ``random_faults`` after its own plan."""
    return attrs.evolve(scenario, plan=(*scenario.plan, *random_faults(scenario, seed, count)))
