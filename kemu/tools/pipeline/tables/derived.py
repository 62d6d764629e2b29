"""Tables derived from the recorded ones: pure functions, DataFrame to DataFrame, each with its contract.

``TABLES`` lists them: every analysis makes and checks them, and queries know them by name. ``n`` orders the facts of a
run. Times are often equal (a step reports many facts), so queries about earlier facts order by ``n`` and not by time.
"""

from collections.abc import Callable, Mapping

from attrs import frozen
from pyspark.sql import DataFrame

from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.groups import commits, generations, layouts, ownership, unowned
from kemu.tools.pipeline.tables.replication import isr_changes, leaderless, leaderships
from kemu.tools.pipeline.tables.schemas import (
    COMMITS,
    GENERATIONS,
    ISR_CHANGES,
    LAYOUTS,
    LEADERLESS,
    LEADERSHIPS,
    NOTES,
    OWNERSHIP,
    TASK_INTERVALS,
    UNOWNED,
)
from kemu.tools.pipeline.tables.streams import task_intervals


@frozen
class DerivedTable:
    """A derived table: its schema, its function, and the tables that the function takes, in order."""

    schema: Schema
    make: Callable[..., DataFrame]
    needs: tuple[Schema, ...]
    """Recorded tables, or derived tables listed before this one."""
    about: str = ""
    """A fact without which the table is empty, such as one that only clusters with replication report."""


TABLES = (
    DerivedTable(GENERATIONS, generations, (NOTES,)),
    DerivedTable(LAYOUTS, layouts, (NOTES,)),
    DerivedTable(COMMITS, commits, (NOTES,)),
    DerivedTable(OWNERSHIP, ownership, (NOTES,)),
    DerivedTable(UNOWNED, unowned, (NOTES, OWNERSHIP)),
    DerivedTable(TASK_INTERVALS, task_intervals, (NOTES,), "TaskBecame"),
    DerivedTable(ISR_CHANGES, isr_changes, (NOTES,), "NodeWritten"),
    DerivedTable(LEADERSHIPS, leaderships, (NOTES, ISR_CHANGES), "NodeWritten"),
    DerivedTable(LEADERLESS, leaderless, (NOTES, LEADERSHIPS, ISR_CHANGES), "NodeWritten"),
)
"""The tables in the order of their making."""

DERIVED: Mapping[str, Schema] = {table.schema.name: table.schema for table in TABLES}
"""The tables' schemas by name."""
