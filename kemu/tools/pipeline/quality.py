"""The constraints on each table, and the check of all constraints.

A row that breaks a constraint shows a bug of kemu or a damaged file. The analysis reports the row, and ends with an
error.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from pyspark.sql import DataFrame

from kemu.emulator.watching.interruptions import Cause
from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.ingest import register
from kemu.tools.pipeline.tables import schemas
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.derived import DERIVED


class ConstraintKind(Enum):
    """How the values of a constraint are judged: its sum ``v`` over the rows of a run, and the figure ``f`` of the run.

    The value: SQL for the number of incorrect rows.
    """

    ROWS = "v"
    """``v`` counts incorrect rows."""
    BELONGS = "if(f is null, v, 0)"
    """``v`` counts rows, and ``f`` is null if there is no such run."""
    SUM = "if(f <> coalesce(v, 0), 1, 0)"
    """``v`` must be equal to ``f``, unless ``f`` is null."""


@frozen
class Constraint:
    """A constraint on the rows of a table.

    ``breaks`` is a query that returns incorrect rows. ``per_run`` is an aggregate over the rows of a run; ``check``
    computes the aggregates of all constraints at once. ``figure`` is SQL over the table ``runs``.
    """

    name: str
    table: str
    breaks: str
    per_run: str = ""
    figure: str = ""
    kind: ConstraintKind = ConstraintKind.ROWS


_CAUSES = [f"{cause.name.lower()}_us" for cause in Cause]


def _row(table: str, name: str, holds: str) -> Constraint:
    """The constraint that a condition is true for every row."""
    wrong = f"not coalesce({holds}, false)"
    return Constraint(name, table, f"select * from {table} where {wrong}", f"count_if({wrong})")


def _never_null(schema: Schema) -> Constraint:
    return _row(schema.name, "required columns are there", " and ".join(f"`{c}` is not null" for c in schema.required))


def _unique(table: str, *columns: str) -> Constraint:
    """The constraint that no two rows of a run have equal values in columns."""
    key = ", ".join(f"`{column}`" for column in columns)
    query = f"select {key} from {table} group by {key} having count(*) > 1"
    return Constraint(f"({', '.join(columns)}) is unique", table, query, f"count(*) - count(distinct {key})")


def _belongs(table: str) -> Constraint:
    query = f"select t.run_id from {table} t left anti join runs r on t.run_id = r.run_id"
    return Constraint("every row belongs to a run", table, query, "count(*)", "1", ConstraintKind.BELONGS)


def _sums(table: str, column: str, total: str, *, traced: bool = False) -> Constraint:
    """The constraint that a figure of a run equals the sum over the run's rows in another table."""
    figure = f"if(traced, {column}, null)" if traced else column
    query = (
        f"select r.run_id, r.figure, t.total from (select run_id, {figure} figure from runs) r left join "
        f"(select run_id, {total} total from {table} group by run_id) t on r.run_id = t.run_id "
        "where r.figure is not null and r.figure <> coalesce(t.total, 0)"
    )
    name = f"{'traced runs: ' if traced else ''}adds up to runs.{column}"
    return Constraint(name, table, query, total, figure, ConstraintKind.SUM)


_ONE_LEADER = """
    select run_id, partition, from_us from (
        select *, lead(from_us) over (partition by run_id, partition order by from_us, until_us) next_us
        from leaderships
    ) where next_us < until_us
"""
_AS_WRITERS_SAY = """
    select n.run_id, n.n, n.fact, n.topic, n.partition, n.rest from notes n left anti join isr_changes c
    on c.run_id = n.run_id and c.topic = n.topic and c.partition = concat(n.topic, '-', n.partition) and c.n < n.n
    and c.leader_epoch = get_json_object(n.rest, '$.leader_epoch') and c.leader = get_json_object(n.rest, '$.leader')
    and to_json(c.isr) = get_json_object(n.rest, '$.isr')
    where n.fact in ('IsrChanged', 'LeaderElectedForPartition')
"""

_DOWN_TWICE = """
    select run_id, `group`, partition, from_us from (
        select *, lead(from_us) over (partition by run_id, `group`, partition order by from_us, until_us) next_us
        from downtime
    ) where next_us < until_us
"""
_UNOWNED_AND_UP = """
    select u.run_id, u.`group`, u.partition, u.from_us, u.until_us from unowned u
    join (
        select run_id, `group`, concat(topic, '-', partition) partition, min(at_us) first_us from notes
        where fact = 'PositionSet' group by all
    ) p on p.run_id = u.run_id and p.`group` = u.`group` and p.partition = u.partition and p.first_us <= u.from_us
    join runs r on r.run_id = u.run_id and r.verdict is not null
    left anti join downtime d
    on d.run_id = u.run_id and d.`group` = u.`group` and d.partition = u.partition
    and d.from_us <= u.from_us and d.until_us >= u.until_us
"""
_DOWNTIME_MAX = """
    select r.run_id, r.downtime_max_us, t.longest from runs r left join (
        select run_id, max(us) longest from (
            select run_id, `group`, partition, sum(until_us - from_us) us from downtime group by all
        ) group by run_id
    ) t on r.run_id = t.run_id
    where r.downtime_max_us is not null and r.downtime_max_us <> coalesce(t.longest, 0)
"""

# If a controller dies after the store committed a step, the next controller completes the step.
_NOT_COMMITTED = """
    select s.run_id, s.partition, s.number from reassignment_steps s left anti join notes n
    on n.run_id = s.run_id and n.at_us = s.committed_us and (n.fact = 'BecameController' or (
        n.fact = 'ReassignmentStepCommitted' and concat(n.topic, '-', n.partition) = s.partition
        and get_json_object(n.rest, '$.replicas') = to_json(s.replicas)
    ))
    where s.committed_us is not null
"""

ALL = (*schemas.RECORDED.values(), *DERIVED.values())

CONSTRAINTS: tuple[Constraint, ...] = (
    *(_never_null(schema) for schema in ALL),
    *(_belongs(schema.name) for schema in ALL if schema not in (schemas.RUNS, schemas.BAD_RECORDS)),
    _unique("runs", "run_id"),
    _unique("notes", "run_id", "n"),
    _unique("steps", "run_id", "seq"),
    _unique("rebalances", "run_id", "number"),
    _unique("faults", "run_id", "fault_index"),
    _row("runs", "a digest has 32 hexadecimal digits", "digest is null or digest rlike '^[0-9a-f]{32}$'"),
    _row("rebalances", "ends after it began", "ended_us is null or ended_us >= started_us"),
    _row("ownership", "ends after it began", "until_us >= from_us"),
    _row("downtime", "ends after it began", "until_us > from_us"),
    _row("downtime", "its parts add up", f"{' + '.join(_CAUSES)} = until_us - from_us"),
    _row("downtime", "no part is negative", f"least({', '.join(_CAUSES)}) >= 0"),
    Constraint("a partition is down once at a time", "downtime", _DOWN_TWICE),
    _row("unowned", "ends after it began", "until_us > from_us"),
    Constraint("what nobody owns is down", "unowned", _UNOWNED_AND_UP),
    _row(
        "runs",
        "the stop is part of the service lost",
        "stop_the_world_us is null or stop_the_world_us <= service_lost_us + 1",
    ),
    _row(
        "runs",
        "delays are in order",
        "delay_p50_us is null or (delay_p50_us <= delay_p99_us and delay_p99_us <= delay_max_us)",
    ),
    _row("runs", "a delay is a lag", "delay_max_us is null or delay_max_us <= lag_max_us"),
    _unique("epochs", "run_id", "group", "epoch"),
    _row(
        "epochs",
        "raised, then computed, then stable",
        "stable_us is null or (computed_us between raised_us and stable_us)",
    ),
    _row("member_epochs", "ends after it began", "until_us >= from_us"),
    _row("layouts", "gained and kept make up the assignment", "gained + kept = partitions"),
    _unique("isr_changes", "run_id", "n"),
    _row("isr_changes", "ends after it began", "until_us >= at_us"),
    _row("isr_changes", "nobody joins and goes at once", "size(array_intersect(joined, gone)) = 0"),
    Constraint("holds what its writers say they wrote", "isr_changes", _AS_WRITERS_SAY),
    _row("leaderships", "ends after it began", "until_us > from_us"),
    Constraint("a partition has one leader at a time", "leaderships", _ONE_LEADER),
    _row("leaderless", "ends after it began", "until_us > from_us"),
    _row("leaderless", "its parts add up", "elect_us + take_over_us = until_us - from_us"),
    _row("leaderless", "no part is negative", "elect_us >= 0 and take_over_us >= 0"),
    _unique("reassignment_steps", "run_id", "partition", "number"),
    _row("reassignment_steps", "ends after it began", "committed_us is null or committed_us >= started_us"),
    Constraint("the controller said so", "reassignment_steps", _NOT_COMMITTED),
    _sums("reassignment_steps", "reassignment_steps", "count(*)"),
    _sums("reassignment_steps", "moved_bytes", "sum(moved_bytes)"),
    _row("task_downtime", "ends after it began", "until_us > from_us"),
    _row("task_downtime", "its parts add up", "detect_us + barrier_us + restore_us + pause_us = until_us - from_us"),
    _row("task_downtime", "no part is negative", "least(detect_us, barrier_us, restore_us, pause_us) >= 0"),
    _sums("task_downtime", "task_downtime_us", "sum(until_us - from_us)"),
    _unique("restores", "run_id", "application", "number"),
    _row("restores", "what is wasted was read", "avoidable_bytes <= wasted_bytes and wasted_bytes <= read_bytes"),
    _sums("restores", "read_bytes", "sum(read_bytes)"),
    _sums("restores", "read_in_vain_bytes", "sum(wasted_bytes)"),
    _row("task_intervals", "ends after it began", "until_us > from_us"),
    _sums("rebalances", "rebalances", "count(*)"),
    _sums("rebalances", "moved", "sum(moved)"),
    _sums("downtime", "downtime_us", "sum(until_us - from_us)"),
    Constraint("adds up to runs.downtime_max_us", "downtime", _DOWNTIME_MAX, kind=ConstraintKind.SUM),
    _sums("leaderless", "leaderless_us", "sum(until_us - from_us)"),
    _sums("isr_changes", "leader_changes", "count_if(leader <> old_leader)"),
    _sums("isr_changes", "under_replicated_us", "sum(if(under_replicated, until_us - at_us, 0))"),
    _sums("isr_changes", "under_min_isr_us", "sum(if(under_min_isr, until_us - at_us, 0))"),
    _sums("steps", "steps", "count_if(broke is null)", traced=True),  # the run does not count a broken step
    _sums("packets", "messages", "count(distinct packet_id)", traced=True),
)
"""All constraints. Constraints on sums compare derived tables with the figures of the run."""


@frozen
class BrokenConstraint:
    """A broken constraint, with the number of incorrect rows and an example."""

    constraint: Constraint
    rows: int
    example: str

    def text(self) -> str:
        """The constraint in one line."""
        return f"{self.constraint.table}: {self.constraint.name}: {self.rows} rows break this, such as {self.example}"


def check(tables: Mapping[str, DataFrame], rows: Mapping[str, int]) -> list[BrokenConstraint]:
    """Return the broken constraints.

    Args:
        tables: Name -> table. Tables that a constraint names become Spark views.
        rows: Name -> number of rows. A table without rows is not read.
    """
    asked = [
        each for each in CONSTRAINTS if each.table in tables and (rows[each.table] or each.kind is ConstraintKind.SUM)
    ]
    at_once = [each for each in asked if each.per_run]
    others = [each for each in asked if not each.per_run]
    single = " union all ".join(f"select {k} k, count(*) bad from ({each.breaks})" for k, each in enumerate(others))
    broken = []
    for constraints, query in ((at_once, _all_at_once(at_once, rows)), (others, single)):
        for index, bad in _ask(tables, query).where("bad > 0").orderBy("k").collect() if query else ():
            example = _ask(tables, constraints[index].breaks).first()
            broken.append(BrokenConstraint(constraints[index], bad, _said(example)))
    return broken


def _ask(tables: Mapping[str, DataFrame], query: str) -> DataFrame:
    register(tables, query)
    return tables[next(iter(tables))].sparkSession.sql(query)


def _all_at_once(constraints: Sequence[Constraint], rows: Mapping[str, int]) -> str:
    """A query for (k, bad): the index of a constraint, and the number of its incorrect rows.

    Each table is aggregated once, and all aggregates are added up in one more step, because planning a query takes
    longer than reading a few rows.
    """
    numbered = list(enumerate(constraints))
    parts = []
    for table in dict.fromkeys(each.table for each in constraints):
        values = [(index, f"cast({each.per_run} as long)") for index, each in numbered if each.table == table]
        run_id = "run_id" if table != schemas.BAD_RECORDS.name else "''"
        if rows[table]:
            parts.append(_tall(f"select {run_id} run_id", values, f"from {table} group by 1", "v", "f"))
    figures = [(index, f"cast({each.figure} as long)") for index, each in numbered if each.figure]
    if figures:
        parts.append(_tall("select run_id", figures, "from runs", "f", "v"))
    kinds = " ".join(
        f"when k in ({', '.join(str(index) for index, each in numbered if each.kind is kind)}) then {kind.value}"
        for kind in {each.kind: None for each in constraints}
    )
    return (
        f"select k, sum(case {kinds} end) bad from (select k, run_id, sum(v) v, max(f) f from "
        f"({' union all '.join(parts)}) group by k, run_id) group by k"
    )


def _tall(select: str, values: Sequence[tuple[int, str]], source: str, filled: str, empty: str) -> str:
    """A query with one row (run_id, k, v, f) per run and value; ``filled`` is the column of the values."""
    wide = ", ".join(f"{expression} c{index}" for index, expression in values)
    pairs = ", ".join(f"{index}, c{index}" for index, _ in values)
    inner = f"{select}, {wide} {source}"
    tall = f"select run_id, stack({len(values)}, {pairs}) as (k, {filled}) from ({inner})"
    return f"(select run_id, k, {_column('v', empty)}, {_column('f', empty)} from ({tall}))"


def _column(name: str, empty: str) -> str:
    return f"cast(null as long) {name}" if name == empty else name


def _said(row: object) -> str:
    text = str(row)
    return text if len(text) <= 200 else f"{text[:200]}..."
