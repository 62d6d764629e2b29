"""The estimated time and memory of runs; a command asks before runs that cost much.

The coefficients are fits to runs of CPython 3.11 on one core of a server. The runs had 1 to 30 brokers, 2 to 1,000
members, 1 to 5,000 partitions and 1 to 1,000 groups. Most runs take between half and twice the estimate.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click

from kemu.tools.errors import BadInput

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario

YES = "kemu.yes"
"""Key of click's ``Context.meta`` that is set by ``--yes``."""
MOST_S = 30 * 60
"""Time in seconds from which a command asks."""
MOST_S_OF_A_RUN = 100
"""Time in seconds of one run from which a command asks: most runs take seconds, whatever their number."""
MOST_BYTES = 4_000_000_000
"""Memory in bytes from which a command asks."""

_FETCHER_S = 0.000_30
"""CPU time for a member that fetches from a broker, for each second of virtual time; the next figures are alike."""
_MEMBER_S, _STREAMS_MEMBER_S = 0.000_15, 0.003
_BATCH_S = 0.000_10
_BATCHES_PER_S = 10
"""Maximum number of batches of a partition in a second, for any rate of records."""
_DELIVERY_S = 0.000_10
"""CPU time for a batch that a further group reads."""
_GROUP_OF_MEMBER_S = 0.000_010
"""CPU time for each group when a member starts, because the rules look at all groups."""
_PARTITION_S = 0.000_010
_REPLICA_S = 0.000_040
_REPLICATING_PAIR_S = 0.000_37
_COPY_S = 0.000_25
"""CPU time for the copy of a batch to a follower."""
_BROKER_S = 0.000_5
_STARTS_AND_ENDS_S = 10
"""Virtual time before the load and after it."""
_START_OF_MEMBER_S, _START_OF_REPLICA_S = 0.004, 0.000_2
_MEMBER_IN_REBALANCE_S, _PARTITION_IN_REBALANCE_S = 0.001_5, 0.000_010
_PROCESS_BYTES, _MEMBER_BYTES, _REPLICA_BYTES = 50_000_000, 70_000, 10_000
_BYTES_PER_CPU_S = 750_000


class RunCost(NamedTuple):
    """The cost of a run: CPU time in seconds, and memory in bytes."""

    cpu_s: float
    memory_bytes: float


def cost_of(scenario: "Scenario") -> RunCost:
    """Return the estimated cost of one run. Recovery after the load is short; a run that does not recover is longer."""
    from kemu.emulator.plan.actions import AddMembers, GrowTopic, RollingRestart, RollingUpgrade

    actions = [entry.action for entry in scenario.plan]
    added = {each.group: each.count for each in actions if isinstance(each, AddMembers)}
    members = {name: group.members + added.get(name, 0) for name, group in scenario.groups.items()}
    grown = {each.topic: each.partitions for each in actions if isinstance(each, GrowTopic)}
    topics = {**scenario.topics, **scenario.created_topics()}
    partitions = {name: max(topic.partitions, grown.get(name, 0)) for name, topic in topics.items()}
    brokers, replication = scenario.brokers.count, scenario.brokers.replication
    factor = 1 if replication is None else replication.factor
    count, replicas = sum(partitions.values()), sum(partitions.values()) * factor

    second = _PARTITION_S * count + _BROKER_S * brokers
    readers = Counter(topic for group in scenario.groups.values() for topic in group.topics)
    restarts_s = 0.0
    for name, group in scenario.groups.items():
        read = sum(partitions.get(topic, 0) for topic in group.topics)
        second += _FETCHER_S * min(members[name] * brokers, read)
        second += members[name] * (_MEMBER_S if group.streams is None else _STREAMS_MEMBER_S)
        rebalance = _MEMBER_IN_REBALANCE_S * members[name] + _PARTITION_IN_REBALANCE_S * read
        rolling = [each for each in actions if isinstance(each, RollingRestart | RollingUpgrade) and each.group == name]
        restarts_s += rebalance * 2 * members[name] * len(rolling)
    for name, topic in topics.items():
        batch = _BATCH_S + _COPY_S * (factor - 1)
        batches_per_s = min(topic.records_per_s, _BATCHES_PER_S * partitions[name])
        second += (batch + _DELIVERY_S * max(0, readers[name] - 1)) * batches_per_s
    if replication is not None:
        second += _REPLICA_S * replicas + _REPLICATING_PAIR_S * min(brokers * (brokers - 1), count * (factor - 1))
    everyone = sum(members.values())
    starts_s = _START_OF_MEMBER_S * everyone + _START_OF_REPLICA_S * replicas
    starts_s += _GROUP_OF_MEMBER_S * everyone * len(members)
    cpu_s = second * (scenario.runs_us / 1e6 + _STARTS_AND_ENDS_S) + restarts_s + starts_s
    used = _PROCESS_BYTES + _MEMBER_BYTES * everyone + _REPLICA_BYTES * replicas + _BYTES_PER_CPU_S * cpu_s
    return RunCost(cpu_s, used)


def ask_before(runs: Iterable[tuple["Scenario", int]], jobs: int | None, upper: bool = False) -> None:
    """Ask on a terminal whether runs that cost much are wanted, unless the command line has ``--yes``.

    Args:
        runs: scenarios, each with its number of runs.
        jobs: the number of processes; None: ``jobs_for`` chooses the number.
        upper: whether the number of runs is a maximum.

    Raises:
        BadInput: the runs cost much, and the user has not agreed.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(YES):
        return
    costs = [(cost_of(scenario), count) for scenario, count in runs]
    many, processes = sum(count for _, count in costs), 1
    if many > 1:
        from kemu.tools.jobs import jobs_for

        processes = jobs_for(jobs, many)
    longest_s = max(cost.cpu_s for cost, _ in costs)
    taken_s = max(sum(cost.cpu_s * count for cost, count in costs) / processes, longest_s)
    used = processes * max(cost.memory_bytes for cost, _ in costs)
    if taken_s < MOST_S and longest_s < MOST_S_OF_A_RUN and used < MOST_BYTES:
        return
    said = f"{'at most ' if upper else ''}about {span_text(taken_s)} and {used / 1e9:.1f} GB"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(f"this takes {said}; --yes runs it")
    if not click.confirm(f"This takes {said}. Run it?", err=True):
        raise BadInput("not run")


def span_text(seconds: float) -> str:
    """Return a long time in one unit: "40 min", "7 h", "12 days"."""
    for unit, length in (("days", 86_400), ("h", 3_600)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 60:,.0f} min"
