"""The columns of every table.

Times are microseconds of the world's clock and end with ``_us``. A type that ends with "?" may be null; ``quality``
checks that other columns never are. ``run_id`` is unique over all analysed runs. ``n`` orders the facts of a run; it
rises, with gaps.
"""

from kemu.emulator.metrics.figure import Unit
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.watching.interruptions import Cause
from kemu.tools.pipeline.tables.columns import Schema


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
    scenario_json json, result_json json?, command string?
    """
    + ", ".join(
        f"{each.column} {'double' if each.unit is Unit.PERCENT else 'long'}?"
        for each in FIGURES.values()
        if each.column
    ),
)
"""One row per run. ``traced``: its trace was ingested, so its facts are complete and its steps and packets are in the
tables. ``settings`` and ``actions``: as set by a campaign's grid and by --do. ``verdict`` is null if the record is
torn. ``result_json``: the output of ``kemu run --format json``, on one line. The other columns are the run's figures
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
"""The network's decision on each packet; ``due_us`` -1: the packet does not arrive."""

NOTES = _schema(
    "notes",
    """
    run_id string, n long, seq long, at_us long, actor string, life int, fact string
    group string?, member_id string?, client_id string?, instance_id string?, generation long?, leader string?
    topic string?, partition int?, partitions strings?, owned strings?, members strings?
    old string?, new string?, state string?, why string?, error string?, api string?, host string?, how string?
    offset long?, base_offset long?, end_offset long?, first long?, last long?, count long?, started_us long?
    fault_index int?, kind string?, text string?, protocol string?, host_life int?, rest json?, row binary
    """,
)
"""Facts of machines and of the world (actor ""). A fact's fields are in the columns of their names, its partitions as
"topic-0"; fields without a column are in ``rest`` (JSON). ``row`` is the fact as recorded."""

FAULTS = _schema(
    "faults",
    """
    run_id string, fault_index int, kind string, text string, fired long?, applied long, first_us long?
    ended_us long?
    """,
)
"""One row per entry of a run's plan. ``applied``: number of times that its moment came. ``fired``: number of times that
it took effect; a rule of the network takes effect once per packet. Null only in traces of a kemu that did not record
it."""

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
"""As counted by the metrics of a run (``metrics.rebalances``); ``ended_us`` is null if the rebalance did not end."""

DOWNTIME = _schema(
    "downtime",
    """
    run_id string, group string, partition string, member string, cause string, from_us long, until_us long
    """
    + ", ".join(f"{cause.name.lower()}_us long" for cause in Cause),
)
"""One row per interval in which a partition was without service, as counted by ``metrics.serving``. ``member``: the
member that served it before. The columns after ``until_us`` add up to the interval: its wait for each ``Cause`` of
``watching.interruptions``."""

REASSIGNMENT_STEPS = _schema(
    "reassignment_steps",
    """
    run_id string, topic string, partition string, number int, kind string, replicas ints, adding ints, removing ints
    started_us long, committed_us long?, moved_records long, moved_bytes long
    """,
)
"""One row per step of a partition's reassignment, as counted by ``metrics.reassigning``. ``number``: of this partition,
from 1. ``replicas``: the replicas after the step. ``committed_us`` is null if the step was cancelled or did not end.
``moved``: data copied by adding replicas until they were in sync."""

TASK_DOWNTIME = _schema(
    "task_downtime",
    """
    run_id string, application string, task string, instance string, taken_by string, cause string
    from_us long, until_us long, detect_us long, barrier_us long, restore_us long, pause_us long
    """,
)
"""One row per interval in which no instance could process a task, as counted by ``metrics.task_downtime``.
``instance``: the instance that processed it before. ``taken_by``: the instance that processed it after, "" if there is
none. The four parts add up to the interval."""

RESTORES = _schema(
    "restores",
    """
    run_id string, application string, number int, task string, instance string, role string, from_us long
    until_us long, ready_us long?, first long, last long, records long, read_bytes long, wasted_bytes long
    avoidable_bytes long, outcome string
    """,
)
"""One row per copy of a task and role in which it read its changelog, as counted by ``metrics.restoring``.
``ready_us``: time at which a learner had caught up. ``outcome``: used, discarded, kept, unfinished."""

BAD_RECORDS = _schema("bad_records", "path string, at_byte long, unread_bytes long, why string")
"""Unreadable data of a trace directory: files that are no traces, and the end of the readable part of others."""

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
"""One row per generation that began: its members, its reason, and the time of the group's preparation."""

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
"""One row per interval in which a partition had no owner, after its first one, or only paused owners. ``cause``: the
end of its last owner (revoked, lost, failed, down, paused). Downtime begins no later and ends no earlier."""

COMMITS = _schema(
    "commits",
    """
    run_id string, at_us long, group string, actor string, member_id string, generation long
    what string, partition string?, offset long?, error string
    """,
)
"""``what``: "durable" (a coordinator wrote one partition's offset) or "answered" (a member received the answer to its
commit; no partition)."""

LAYOUTS = _schema(
    "layouts",
    """
    run_id string, group string, generation long, actor string, at_us long, assigned strings, partitions int
    gained int, kept int
    """,
)
"""One row per member and generation: number of partitions in its assignment, and how many of them are new and old."""

TASK_INTERVALS = _schema(
    "task_intervals",
    """
    run_id string, application string, task string, instance string, thread string, role string, state string
    from_us long, until_us long, ended_by string
    """,
)
"""One row per interval in which a thread of a Streams instance had a copy of a task in one role and state.
``ended_by``: its next state, "down" (its host), or "end" (of the run)."""

ISR_CHANGES = _schema(
    "isr_changes",
    """
    run_id string, n long, at_us long, until_us long, topic string, partition string, by string, why string?
    leader int, old_leader int?, leader_epoch long, controller_epoch long, version long, isr ints, joined ints
    gone ints, replicas ints, min_isr int?, under_replicated boolean, under_min_isr boolean?, unclean boolean
    """,
)
"""One row per state of a partition in the metadata store, the newest from ``at_us`` to ``until_us``. ``by``: the actor
that wrote it. ``why`` is null if the writer gave no reason (it crashed, or the answer was lost). ``leader`` -1: none.
``joined`` and ``gone``: differences to the ISR before, empty in a partition's first row (``old_leader`` null).
``replicas``: the assigned ones, without adding replicas. ``unclean``: the leader was not in the ISR before. ``min_isr``
is null for a topic that the scenario does not name."""

LEADERSHIPS = _schema(
    "leaderships",
    """
    run_id string, partition string, actor string, life int, leader_epoch long, from_us long, until_us long
    ended_by string, why string?
    """,
)
"""One row per interval in which a broker acted as the leader that the store named, in one epoch. ``ended_by``: renewed
(it leads in another epoch), deposed (the store named another leader or none; ``why``: the writer's reason), followed,
stopped, down, or end (of the run)."""

LEADERLESS = _schema(
    "leaderless",
    """
    run_id string, partition string, from_us long, until_us long, cause string, elect_us long, take_over_us long
    """,
)
"""One row per interval in which a partition had no leader, after its first one. ``cause``: the end of the last leader
(down, paused, stopped; deposed: the writer's reason, such as "preferred" or "a replica is offline"). The two parts add
up to the interval: until the store named the next leader (all of it if there was none), and until that leader acted."""

# --- one table for all that a trace file holds ---------------------------------------------------------------------

COUNTED = (REBALANCES, DOWNTIME, REASSIGNMENT_STEPS, TASK_DOWNTIME, RESTORES)
"""The tables that a run's metrics compute: no record of a trace contains their rows."""
OF_TRACES = (RUNS, STEPS, PACKETS, NOTES, VIOLATIONS, FAULTS, BAD_RECORDS)
"""The tables that the data source reads."""


def _union(schemas: tuple[Schema, ...]) -> Schema:
    """The columns of several tables in one, after a column with the table's name; all others may be null."""
    columns: dict[str, str] = {}
    for schema in schemas:
        for name, kind in schema.columns:
            plain = kind.rstrip("?")
            assert columns.setdefault(name, plain) == plain, (
                f"{schema.name}.{name} is {kind}, elsewhere {columns[name]}"
            )
    return Schema("events", (("table", "string"), *((name, f"{kind}?") for name, kind in columns.items())))


EVENTS = _union(OF_TRACES)
