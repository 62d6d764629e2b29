"""Tables derived from the recorded tables, by pure functions from DataFrames to a DataFrame.

``TABLES`` lists the derived tables. Every analysis makes and checks all of ``TABLES``, and queries can name them. The
column ``n`` orders the facts of a run. Facts often have equal times, because a step reports several facts, so queries
about earlier facts order by ``n``.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.groups import (
    commits,
    epochs,
    generations,
    layouts,
    member_epochs,
    ownership,
    unowned,
)
from kemu.tools.pipeline.tables.replication import isr_changes, leaderless, leaderships
from kemu.tools.pipeline.tables.schemas import (
    COMMITS,
    EPOCHS,
    GENERATIONS,
    ISR_CHANGES,
    LAYOUTS,
    LEADERLESS,
    LEADERSHIPS,
    MEMBER_EPOCHS,
    NOTES,
    OWNERSHIP,
    RUNS,
    TASK_INTERVALS,
    UNOWNED,
)
from kemu.tools.pipeline.tables.streams import task_intervals


@frozen
class DerivedTable:
    """A derived table: its schema, the function that makes the table, and the tables that the function needs."""

    schema: Schema
    make: Callable[..., DataFrame]
    needs: tuple[Schema, ...]
    """The arguments of the function, in order: recorded tables, or earlier derived tables of ``TABLES``."""
    about: tuple[str, ...] = ()
    """Types of facts; the table is empty for runs without such facts. (): any facts."""


TABLES = (
    DerivedTable(OWNERSHIP, ownership, (NOTES,)),
    DerivedTable(GENERATIONS, generations, (NOTES,)),
    DerivedTable(EPOCHS, epochs, (NOTES,), ("GroupEpochsChanged",)),
    DerivedTable(MEMBER_EPOCHS, member_epochs, (NOTES,), ("MemberReconciled",)),
    DerivedTable(LAYOUTS, layouts, (NOTES, MEMBER_EPOCHS)),
    DerivedTable(COMMITS, commits, (NOTES,)),
    DerivedTable(UNOWNED, unowned, (NOTES, OWNERSHIP, RUNS)),
    DerivedTable(TASK_INTERVALS, task_intervals, (NOTES,), ("TaskBecame",)),
    DerivedTable(ISR_CHANGES, isr_changes, (NOTES,), ("NodeWritten", "LeadershipStated")),
    DerivedTable(LEADERSHIPS, leaderships, (NOTES, ISR_CHANGES), ("NodeWritten",)),
    DerivedTable(LEADERLESS, leaderless, (NOTES, LEADERSHIPS, ISR_CHANGES), ("NodeWritten",)),
)
"""The derived tables in the order in which an analysis makes them."""

DERIVED: Mapping[str, Schema] = {table.schema.name: table.schema for table in TABLES}
"""Name of a derived table -> schema."""
