"""Every table's columns, declared once: for Arrow (executors write with it) and for Spark (everybody reads with it).

Times are microseconds of the world's clock and end with ``_us``. A type that ends with "?" may be null; that a column
without it never is, is checked by ``quality``. ``run_id`` is unique over everything analysed together; ``n`` orders the
facts of a run (it rises, and need not be dense).
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import types as T  # noqa: N812 - as every text on Spark names it

from kemu.emulator.metrics.figure import Unit
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.watching.interruptions import Cause

_ARROW: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "ints": pa.list_(pa.field("element", pa.int32())),
    "strings": pa.list_(pa.field("element", pa.string())),
}
_SPARK: Mapping[str, T.DataType] = {
    "string": T.StringType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "binary": T.BinaryType(),
    "ints": T.ArrayType(T.IntegerType()),
    "strings": T.ArrayType(T.StringType()),
}


@frozen
class Schema:
    """A table: its name and its columns, (name, type) in order."""

    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(name for name, _ in self.columns)

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that are never null."""
        return tuple(name for name, kind in self.columns if not kind.endswith("?"))

    def arrow(self) -> pa.Schema:
        """For Arrow."""
        return pa.schema([pa.field(name, _ARROW[kind.rstrip("?")]) for name, kind in self.columns])

    def spark(self) -> T.StructType:
        """For Spark."""
        return T.StructType([T.StructField(name, _SPARK[kind.rstrip("?")]) for name, kind in self.columns])

    def batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        """Rows, in the order of the columns, as Arrow."""
        schema = self.arrow()
        columns = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _schema(name: str, text: str) -> Schema:
    """``text``: one "column type" per line or after a comma."""
    pairs = [part.split() for part in text.replace("\n", ",").split(",") if part.strip()]
    return Schema(name, tuple((column, kind) for column, kind in pairs))


# --- recorded: one row per thing that happened ---------------------------------------------------------------------

RUNS = _schema(
    "runs",
    """
    run_id string, cell string, scenario string, profile string, settings string, actions string, seed long
    verdict string?, digest string?, steps long?, messages long?, virtual_us long?, wall_s double?
    broke string?, traced boolean
    scenario_json string, result_json string?, command string?
    """
    + ", ".join(
        f"{each.column} {'double' if each.unit is Unit.PERCENT else 'long'}?"
        for each in FIGURES.values()
        if each.column
    ),
)
"""One row per run. ``traced``: its trace was ingested, so its facts are complete and its steps and packets are there.
``settings`` and ``actions``: as a campaign's grid and --do set them. ``verdict`` null: its record is torn.
``result_json``: the output of ``kemu run --format json``, on one line. The other columns are the run's figures
(``kemu describe figures``)."""

STEPS = _schema(
    "steps",
    """
    run_id string, seq long, at_us long, actor string, life int, local_us long, event string, about string?
    sends int, hangups int, timers_started int, timers_stopped int, appends int, notes int, broke string?
    """,
)
"""One row per step of a machine. ``about``: the packet's id, the timer's key, the peer, the log or the command."""

PACKETS = _schema(
    "packets",
    """
    run_id string, packet_id long, at_us long, sender string, to string, connection long, api string, size long
    verdict string, due_us long
    """,
)
"""What the network made of each packet; ``due_us`` -1: it does not arrive."""

NOTES = _schema(
    "notes",
    """
    run_id string, n long, seq long, at_us long, actor string, life int, fact string
    group string?, member_id string?, client_id string?, instance_id string?, generation long?, leader string?
    topic string?, partition int?, partitions strings?, owned strings?, members strings?
    old string?, new string?, state string?, why string?, error string?, api string?, host string?, how string?
    offset long?, base_offset long?, end_offset long?, first long?, last long?, count long?, started_us long?
    fault_index int?, kind string?, text string?, protocol string?, host_life int?, rest string?, row binary
    """,
)
"""Facts of machines and of the world (actor ""). A fact's fields lie in the columns of their names, its partitions as
"topic-0"; fields without a column in ``rest`` (JSON). ``row`` is the fact as recorded."""

FAULTS = _schema(
    "faults",
    """
    run_id string, fault_index int, kind string, text string, fired long?, applied long, first_us long?
    ended_us long?
    """,
)
"""One row per entry of a run's plan. ``applied``: how often its moment came. ``fired``: how often it took effect, which
for a rule of the network is once per packet it hit; null only in traces of a kemu that did not write it down."""

VIOLATIONS = _schema(
    "violations",
    "run_id string, checker string, at_us long, seq long, entities strings, text string, liveness boolean, kind string",
)

REBALANCES = _schema(
    "rebalances",
    """
    run_id string, number int, group string, generation long, reason string, started_us long, ended_us long?
    members long, rounds long, moved long, stop_the_world_us long
    """,
)
"""As the metrics of a run count them (``metrics.rebalances``); ``ended_us`` null: not over when the run was."""

DOWNTIME = _schema(
    "downtime",
    """
    run_id string, group string, partition string, member string, cause string, from_us long, until_us long
    """
    + ", ".join(f"{cause.name.lower()}_us long" for cause in Cause),
)
"""One row per interval in which a partition was without service, as the metrics of a run count them
(``metrics.serving``, with its causes). ``member``: who had served it last. The columns behind ``until_us`` add up to
the interval: how long it waited for each ``Cause`` of ``watching.interruptions``."""

REASSIGNMENT_STEPS = _schema(
    "reassignment_steps",
    """
    run_id string, topic string, partition string, number int, kind string, replicas ints, adding ints, removing ints
    started_us long, committed_us long?, moved_records long, moved_bytes long
    """,
)
"""One row per step of a partition that goes to other brokers, as the metrics of a run count them
(``metrics.reassigning``). ``number``: of this partition, from 1; ``replicas``: what it is to have then;
``committed_us`` null: given up, or not over when the run was; ``moved``: copied by replicas being added, until they
were in sync."""

TASK_DOWNTIME = _schema(
    "task_downtime",
    """
    run_id string, application string, task string, instance string, taken_by string, cause string
    from_us long, until_us long, detect_us long, barrier_us long, restore_us long, pause_us long
    """,
)
"""One row per interval in which nobody could process a task of a Streams application, as the metrics of a run count
them (``metrics.task_downtime``). ``instance``: who had processed it last; ``taken_by``: who does since, "" where nobody
does. The four parts add up to the interval."""

RESTORES = _schema(
    "restores",
    """
    run_id string, application string, number int, task string, instance string, role string, from_us long
    until_us long, ready_us long?, first long, last long, records long, read_bytes long, wasted_bytes long
    avoidable_bytes long, outcome string
    """,
)
"""One row per copy of a task and role in which it read its changelog, as the metrics of a run count them
(``metrics.restoring``). ``ready_us``: when a learner had caught up. ``outcome``: used, discarded, kept, unfinished."""

BAD_RECORDS = _schema("bad_records", "path string, at_byte long, unread_bytes long, why string")
"""What could not be read in a trace directory: files that are no traces, and where the good part of others ends."""

RECORDED = {
    schema.name: schema
    for schema in (
        RUNS,
        STEPS,
        PACKETS,
        NOTES,
        FAULTS,
        VIOLATIONS,
        REBALANCES,
        DOWNTIME,
        REASSIGNMENT_STEPS,
        TASK_DOWNTIME,
        RESTORES,
        BAD_RECORDS,
    )
}

# --- derived: what follows from them -------------------------------------------------------------------------------

GENERATIONS = _schema(
    "generations",
    """
    run_id string, group string, generation long, at_us long, members int, leader string, prepared_us long?
    reason string?
    """,
)
"""One row per generation that began: who was in it, what it was for, and since when the group had prepared."""

OWNERSHIP = _schema(
    "ownership",
    """
    run_id string, group string, partition string, actor string, life int, from_us long, until_us long
    ended_by string
    """,
)
"""One row per interval in which a member held a partition by its own account. ``ended_by``: revoked, lost, failed,
down, or end (of the run)."""

UNOWNED = _schema("unowned", "run_id string, group string, partition string, from_us long, until_us long, cause string")
"""One row per interval in which nobody owned a partition that had been owned, or only members that stood still.
``cause``: how its last owner stopped (revoked, lost, failed, down, paused). Downtime begins no later and ends no
earlier."""

COMMITS = _schema(
    "commits",
    """
    run_id string, at_us long, group string, actor string, member_id string, generation long
    what string, partition string?, offset long?, error string
    """,
)
"""``what``: "durable" (a coordinator wrote one partition's offset) or "answered" (a member learned how its commit went;
no partition)."""

LAYOUTS = _schema(
    "layouts",
    """
    run_id string, group string, generation long, actor string, at_us long, assigned strings, partitions int
    gained int, kept int
    """,
)
"""One row per member and generation: how many partitions its assignment holds, how many of them it had not and had in
its assignment before."""

TASK_INTERVALS = _schema(
    "task_intervals",
    """
    run_id string, application string, task string, instance string, thread string, role string, state string
    from_us long, until_us long, ended_by string
    """,
)
"""One row per interval in which a thread of a Streams instance had a copy of a task in one role and state.
``ended_by``: the state it had next, "down" (its host), or "end" (of the run)."""

ISR_CHANGES = _schema(
    "isr_changes",
    """
    run_id string, n long, at_us long, until_us long, topic string, partition string, by string, why string?
    leader int, old_leader int?, leader_epoch long, controller_epoch long, version long, isr ints, joined ints
    gone ints, replicas ints, min_isr int?, under_replicated boolean, under_min_isr boolean?, unclean boolean
    """,
)
"""One row per state of a partition in the metadata store, the newest from ``at_us`` to ``until_us``. ``by``: the actor
that wrote it; ``why`` null: it never said (it died, or the answer was lost). ``leader`` -1: none. ``joined`` and
``gone``: the ISR against the one before, empty in a partition's first row (``old_leader`` null). ``replicas``: those
assigned, without those being added. ``unclean``: the leader comes from outside the ISR before. ``min_isr`` null: a
topic that the scenario does not know."""

LEADERSHIPS = _schema(
    "leaderships",
    """
    run_id string, partition string, actor string, life int, leader_epoch long, from_us long, until_us long
    ended_by string, why string?
    """,
)
"""One row per interval in which a broker acted as the leader that the store named, in one epoch. ``ended_by``: renewed
(it goes on in another epoch), deposed (the store named another leader or none; ``why`` as the writer said), followed,
stopped, down, or end (of the run)."""

LEADERLESS = _schema(
    "leaderless",
    """
    run_id string, partition string, from_us long, until_us long, cause string, elect_us long, take_over_us long
    """,
)
"""One row per interval in which nobody led a partition that had been led. ``cause``: how the last leader ended (down,
paused, stopped; deposed: what the store's writer said, such as "preferred" or "a replica is offline"). The two parts
add up to the interval: until the store named the leader that took over (all of it where it named none), until that one
acted."""

# --- one table for all that a trace file holds ---------------------------------------------------------------------

COUNTED = (REBALANCES, DOWNTIME, REASSIGNMENT_STEPS, TASK_DOWNTIME, RESTORES)
"""What a run's metrics count: no record of a trace says it."""
OF_TRACES = (RUNS, STEPS, PACKETS, NOTES, VIOLATIONS, FAULTS, BAD_RECORDS)
"""What the data source reads."""


def _union(schemas: tuple[Schema, ...]) -> Schema:
    """All columns of several tables, behind the name of the table a row belongs to; all but that may be null."""
    columns: dict[str, str] = {}
    for schema in schemas:
        for name, kind in schema.columns:
            plain = kind.rstrip("?")
            assert columns.setdefault(name, plain) == plain, (
                f"{schema.name}.{name} is {kind}, elsewhere {columns[name]}"
            )
    return Schema("events", (("table", "string"), *((name, f"{kind}?") for name, kind in columns.items())))


EVENTS = _union(OF_TRACES)
