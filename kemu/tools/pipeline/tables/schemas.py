"""The columns of every table.

Columns of virtual time are in microseconds and end with ``_us``. A column whose type ends with "?" may be null;
``quality`` checks that no other column is null. ``run_id`` is unique over all analysed runs. ``n`` orders the facts of
a run; the numbers rise, with gaps.
"""

from kemu.emulator.metrics.figure import Unit
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.watching.interruptions import Cause
from kemu.tools.pipeline.tables.columns import Schema


def _schema(name: str, text: str) -> Schema:
    """The schema with the columns of ``text``, such as "run_id string, seq long"; lines or commas separate columns."""
    pairs = [part.split() for part in text.replace("\n", ",").split(",") if part.strip()]
    return Schema(name, tuple((column, kind) for column, kind in pairs))


# --- recorded: one row per thing that happened ---------------------------------------------------------------------

RUNS = _schema(
    "runs",
    """
    run_id string, cell string, scenario string, profile string, settings string, actions string, source string
    seed long?
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
"""One row per run. ``traced``: the tables contain the run's trace, with all facts, steps and packets. ``settings`` and
``actions``: values of a campaign's options --grid and --do. ``verdict`` is null if the trace is torn. ``result_json``:
the output of ``kemu run --format json``, on one line. The other columns are the run's figures
(``kemu describe figures``). ``source`` is "log" for a trace of ``kemu import-log``, else "run". Of a log, ``seed``,
``messages`` and each figure that logs do not state are null, and ``verdict`` is "unjudged" if the logs state too few
facts. ``moved`` is null if a member has no log."""

STEPS = _schema(
    "steps",
    """
    run_id string, seq long, at_us long, actor string, life int, local_us long, event string, about string?
    sends int, hangups int, timers_started int, timers_stopped int, appends int, notes int, broke string?
    """,
)
"""One row per step of a machine. ``about``: the packet's id, the timer's key, the peer, the log or the command; for a
record of a log its file, line and kind."""

PACKETS = _schema(
    "packets",
    """
    run_id string, packet_id long, at_us long, sender string, to string, connection long, api string, size long
    verdict string, due_us long
    """,
)
"""One row per packet with the network's decision; ``due_us``: time of arrival, or -1 for a lost packet."""

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
"""One row per fact of machines or of the world (actor ""). Each field of a fact is in the column of the same name, or
else in ``rest`` (JSON). Partitions have the form "topic-0". ``row`` is the fact in the encoding of traces."""

FAULTS = _schema(
    "faults",
    """
    run_id string, fault_index int, kind string, text string, fired long?, applied long, first_us long?
    ended_us long?
    """,
)
"""One row per entry of a run's plan. ``applied``: number of times that the run applied the entry. ``fired``: number of
times that the entry took effect; a rule of the network takes effect once per packet. ``fired`` is null for old traces,
which do not contain the number."""

VIOLATIONS = _schema(
    "violations",
    "run_id string, checker string, at_us long, seq long, entities strings, text string, liveness boolean, kind string",
)

REBALANCES = _schema(
    "rebalances",
    """
    run_id string, number int, group string, generation long, reason string, started_us long, ended_us long?
    members long?, rounds long?, moved long?, stop_the_world_us long?, protocol string
    """,
)
"""One row per rebalance, as ``metrics.rebalances`` computes it; ``ended_us`` is null for an unfinished rebalance.
``members``, ``rounds``, ``moved`` and ``stop_the_world_us`` are null where logs do not state them. ``protocol``: the
group's protocol at the start of the rebalance, classic or consumer."""

DOWNTIME = _schema(
    "downtime",
    """
    run_id string, group string, partition string, member string, cause string, protocol string?, from_us long
    until_us long
    """
    + ", ".join(f"{cause.name.lower()}_us long" for cause in Cause),
)
"""One row per interval in which a partition was without service, as ``metrics.serving`` computes it. ``member``: the
last member that served the partition. ``protocol``: the group's protocol at the start of the interval, classic or
consumer; null before the first rebalance. The columns after ``until_us`` are waits by ``Cause``
(``watching.interruptions``); the sum of these columns is the length of the interval. Logs state no service, so they
have no rows."""

REASSIGNMENT_STEPS = _schema(
    "reassignment_steps",
    """
    run_id string, topic string, partition string, number int, kind string, replicas ints, adding ints, removing ints
    started_us long, committed_us long?, moved_records long, moved_bytes long
    """,
)
"""One row per step of a partition's reassignment, as ``metrics.reassigning`` computes it. ``number``: number of the
step, from 1 for each partition. ``replicas``: the replicas after the step. ``committed_us`` is null for a cancelled or
unfinished step. ``moved_*``: data that adding replicas copied before they joined the ISR."""

TASK_DOWNTIME = _schema(
    "task_downtime",
    """
    run_id string, application string, task string, instance string, taken_by string, cause string
    from_us long, until_us long, detect_us long, barrier_us long, restore_us long, pause_us long
    """,
)
"""One row per interval in which no instance could process a task, as ``metrics.task_downtime`` computes it.
``instance``: the last instance that processed the task. ``taken_by``: the next instance that processed the task, or "".
The sum of ``detect_us``, ``barrier_us``, ``restore_us`` and ``pause_us`` is the length of the interval."""

RESTORES = _schema(
    "restores",
    """
    run_id string, application string, number int, task string, instance string, role string, from_us long
    until_us long, ready_us long?, first long, last long, records long, read_bytes long, wasted_bytes long
    avoidable_bytes long, outcome string
    """,
)
"""One row per restore, in which a copy of a task with one role read its changelog (``metrics.restoring``).
``ready_us``: time at which a learner had caught up. ``outcome``: used, discarded, kept or unfinished."""

BAD_RECORDS = _schema("bad_records", "path string, at_byte long, unread_bytes long, why string")
"""One row per file with unreadable data: files that are no traces, and traces with an unreadable end."""

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

# --- derived from the recorded tables ------------------------------------------------------------------------------

GENERATIONS = _schema(
    "generations",
    """
    run_id string, group string, generation long, at_us long, members int, leader string, prepared_us long?
    reason string?, protocol string?
    """,
)
"""One row per generation. In a group of the consumer protocol: per target that the coordinator computed; the
generation is the epoch of the target, and ``leader`` is "". ``prepared_us`` and ``reason``: start and reason of the
state PreparingRebalance, in a group of the consumer protocol of the state Assigning. ``protocol``: the protocol of the
group, classic or consumer; null if the trace begins after the states that tell the protocol."""

EPOCHS = _schema(
    "epochs",
    "run_id string, group string, epoch long, raised_us long, computed_us long?, stable_us long?",
)
"""One row per epoch of a group of the consumer protocol (KIP-848). ``computed_us``: first target of this or a later
epoch. ``stable_us``: time at which the group was Stable or Empty with this or a later epoch. Null: not until the end of
the run."""

MEMBER_EPOCHS = _schema(
    "member_epochs",
    """
    run_id string, n long, group string, member_id string, actor string?, epoch long, state string, from_us long
    until_us long, assigned strings, revoking strings
    """,
)
"""One row per state of a member of the consumer protocol at its coordinator. The state lasts until the next state, the
removal of the member, or the end of the run. ``state``: STABLE, UNREVOKED_PARTITIONS (the member must give up
``revoking``) or UNRELEASED_PARTITIONS (the member waits for partitions of others). ``actor`` is null for a member that
never received an assignment."""

OWNERSHIP = _schema(
    "ownership",
    """
    run_id string, group string, partition string, actor string, life int, from_us long, until_us long
    ended_by string
    """,
)
"""One row per interval in which a member owned a partition, as the member reports ownership. ``ended_by``: revoked,
lost, failed, down, or end (of the run)."""

UNOWNED = _schema("unowned", "run_id string, group string, partition string, from_us long, until_us long, cause string")
"""One row per interval in which a partition had no owner after its first owner, or only paused owners. ``cause``: end
of the last ownership (revoked, lost, failed, down, paused). An interval of ``downtime`` covers each such interval.
Logs have rows only if each member has a log (``runs.moved`` is not null)."""

COMMITS = _schema(
    "commits",
    """
    run_id string, at_us long, group string, actor string, member_id string, generation long
    what string, partition string?, offset long?, error string
    """,
)
"""One row per event of a commit. ``what``: "durable" (a coordinator wrote the offset of one partition) or "answered" (a
member received the answer to a commit; ``partition`` is null)."""

LAYOUTS = _schema(
    "layouts",
    """
    run_id string, group string, generation long, actor string, at_us long, assigned strings, partitions int
    gained int, kept int, protocol string?
    """,
)
"""One row per member and generation: the assignment, its numbers of all, new and kept partitions, and the protocol of
the group (classic or consumer; null if no earlier state of the group tells the protocol). A member of the
consumer protocol has a row for each epoch that the member reached, even without another assignment. ``at_us`` is then
the time of the coordinator's answer."""

TASK_INTERVALS = _schema(
    "task_intervals",
    """
    run_id string, application string, task string, instance string, thread string, role string, state string
    from_us long, until_us long, ended_by string
    """,
)
"""One row per interval in which a thread of a Streams instance had a copy of a task in one role and state.
``ended_by``: the next state of the copy, "down" (the host went down), or "end" (of the run)."""

ISR_CHANGES = _schema(
    "isr_changes",
    """
    run_id string, n long, at_us long, until_us long, topic string, partition string, by string, why string?
    leader int?, old_leader int?, leader_epoch long?, controller_epoch long?, version long?, isr ints, joined ints
    gone ints, replicas ints?, min_isr int?, under_replicated boolean?, under_min_isr boolean?, unclean boolean?
    """,
)
"""One row per state of a partition in the metadata store, valid from ``at_us`` to ``until_us``. ``by``: the writer of
the state. ``why`` is null if the writer reported no reason (after a crash or a lost answer). ``leader`` -1: no leader.
``joined`` and ``gone``: differences to the previous ISR, empty in the first row of a partition (``old_leader`` null).
``replicas``: assigned replicas without adding replicas. ``unclean``: whether the leader was outside the previous ISR.
``min_isr`` is null for a topic that the scenario does not name. A log states ISRs (``LeadershipStated``): a row begins
when the stated ISR changes, and columns that no record states are null."""

LEADERSHIPS = _schema(
    "leaderships",
    """
    run_id string, partition string, actor string, life int, leader_epoch long, from_us long, until_us long
    ended_by string, why string?
    """,
)
"""One row per interval in which a broker acted as the leader that the store named, in one epoch. ``ended_by``: renewed
(the broker leads in another epoch), deposed (the store named another leader or no leader; ``why``: the writer's
reason), followed, stopped, down, or end (of the run). Empty for logs: they state when a broker begins to lead, and
seldom when the leadership ends, such as by the death of the broker. ``isr_changes`` has the leaders that logs state."""

LEADERLESS = _schema(
    "leaderless",
    """
    run_id string, partition string, from_us long, until_us long, cause string, elect_us long, take_over_us long
    """,
)
"""One row per interval in which a partition had no leader, after its first leader. ``cause``: the end of the last
leadership (down, paused, stopped; for a deposed leader the writer's reason, such as "preferred"). ``elect_us``: time
until the store named the next leader. ``take_over_us``: time between this choice and the first action of the
new leader. The sum of ``elect_us`` and ``take_over_us`` is the length of the interval. Empty for logs, as
``leaderships``."""

# --- one table for all rows of a trace file ------------------------------------------------------------------------

COUNTED = (REBALANCES, DOWNTIME, REASSIGNMENT_STEPS, TASK_DOWNTIME, RESTORES)
"""The tables whose rows metrics compute, because no record of a trace contains such rows."""
OF_TRACES = (RUNS, STEPS, PACKETS, NOTES, VIOLATIONS, FAULTS, BAD_RECORDS)
"""The tables that the data source reads."""


def _union(schemas: tuple[Schema, ...]) -> Schema:
    """The schema with the columns of several tables, which may be null, after a column with the table's name."""
    columns: dict[str, str] = {}
    for schema in schemas:
        for name, kind in schema.columns:
            plain = kind.rstrip("?")
            assert columns.setdefault(name, plain) == plain, (
                f"{schema.name}.{name} is {kind}, elsewhere {columns[name]}"
            )
    return Schema("events", (("table", "string"), *((name, f"{kind}?") for name, kind in columns.items())))


EVENTS = _union(OF_TRACES)
