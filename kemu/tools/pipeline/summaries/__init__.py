"""Small tables over all runs, which every analysis computes again. ``SUMMARIES`` lists the functions."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.summaries.comparison import differences, headline, quantiles
from kemu.tools.pipeline.summaries.coverage import first_violations, refusals, transitions
from kemu.tools.pipeline.summaries.faults import fault_effects
from kemu.tools.pipeline.summaries.rebalancing import balance, downtime_by_cause, moves, rebalance_reasons, reconciling
from kemu.tools.pipeline.summaries.replication import isr_health, leader_changes, leaderless_by_cause, reassignments
from kemu.tools.pipeline.summaries.streams import restores_by_role, task_downtime_by_cause
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.schemas import (
    DOWNTIME,
    EPOCHS,
    ISR_CHANGES,
    LAYOUTS,
    LEADERLESS,
    NOTES,
    REASSIGNMENT_STEPS,
    REBALANCES,
    RESTORES,
    RUNS,
    TASK_DOWNTIME,
    VIOLATIONS,
)

Tables = Mapping[str, DataFrame]


@frozen
class Summary:
    """A summary: the function that computes it from the tables, and a table without whose rows it has none."""

    make: Callable[[Tables], DataFrame]
    of: Schema


SUMMARIES: Mapping[str, Summary] = {
    "headline": Summary(headline, RUNS),
    "quantiles": Summary(quantiles, RUNS),
    "differences": Summary(differences, RUNS),
    "rebalance_reasons": Summary(rebalance_reasons, REBALANCES),
    "downtime_by_cause": Summary(downtime_by_cause, DOWNTIME),
    "moves": Summary(moves, LAYOUTS),
    "balance": Summary(balance, LAYOUTS),
    "reconciling": Summary(reconciling, EPOCHS),
    "isr_health": Summary(isr_health, ISR_CHANGES),
    "leader_changes": Summary(leader_changes, ISR_CHANGES),
    "leaderless_by_cause": Summary(leaderless_by_cause, LEADERLESS),
    "reassignments": Summary(reassignments, REASSIGNMENT_STEPS),
    "task_downtime_by_cause": Summary(task_downtime_by_cause, TASK_DOWNTIME),
    "restores_by_role": Summary(restores_by_role, RESTORES),
    "fault_effects": Summary(fault_effects, RUNS),
    "first_violations": Summary(first_violations, VIOLATIONS),
    "transitions": Summary(transitions, RUNS),
    "refusals": Summary(refusals, NOTES),
}
"""Every summary by name."""
