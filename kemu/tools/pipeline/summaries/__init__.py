"""Small tables over all runs, which every analysis computes again. ``SUMMARIES`` lists the functions."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from kemu.tools.pipeline.summaries.comparison import differences, headline, quantiles
from kemu.tools.pipeline.summaries.coverage import first_violations, refusals, transitions
from kemu.tools.pipeline.summaries.faults import fault_effects
from kemu.tools.pipeline.summaries.rebalancing import balance, downtime_by_cause, moves, rebalance_reasons
from kemu.tools.pipeline.summaries.replication import isr_health, leader_changes, leaderless_by_cause, reassignments
from kemu.tools.pipeline.summaries.streams import restores_by_role, task_downtime_by_cause

Tables = Mapping[str, DataFrame]

SUMMARIES: Mapping[str, Callable[[Tables], DataFrame]] = {
    "headline": headline,
    "quantiles": quantiles,
    "differences": differences,
    "rebalance_reasons": rebalance_reasons,
    "downtime_by_cause": downtime_by_cause,
    "moves": moves,
    "balance": balance,
    "isr_health": isr_health,
    "leader_changes": leader_changes,
    "leaderless_by_cause": leaderless_by_cause,
    "reassignments": reassignments,
    "task_downtime_by_cause": task_downtime_by_cause,
    "restores_by_role": restores_by_role,
    "fault_effects": fault_effects,
    "first_violations": first_violations,
    "transitions": transitions,
    "refusals": refusals,
}
"""Name -> the function that computes the summary from the tables."""
