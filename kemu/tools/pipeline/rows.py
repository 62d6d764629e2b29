"""Map fields of facts and results to columns of tables (``schemas``).

``worker`` makes rows during a run, and ``decode`` makes rows from a trace, by the same functions.
"""

import json
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

import msgpack

from kemu.emulator.facts import FaultApplied, FaultEnded, Seen
from kemu.emulator.findings import Violation
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.runner import RunResult
from kemu.emulator.trace.traces import Footer
from kemu.emulator.watching.interruptions import Cause, waited_us
from kemu.protocol.notes.groups import Processed, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import HighWatermarkAdvanced, RecordsReplicated
from kemu.protocol.wire.values import to_row
from kemu.tools.pipeline.tables.schemas import NOTES, RUNS

DATA_PATH = (RecordsAppended, RecordsAcknowledged, RecordsReplicated, HighWatermarkAdvanced, Processed)
"""The types of four facts in five. Campaigns write facts of these types only for runs with a trace."""
DATA_PATH_NAMES = tuple(kind.__name__ for kind in DATA_PATH)

_HEAD = ("run_id", "n", "seq", "at_us", "actor", "life", "fact")
_BODY = tuple(name for name in NOTES.names if name not in (*_HEAD, "rest", "row"))
_RENAMED: Mapping[tuple[str, str], str] = {
    ("PartitionsAssigned", "added"): "partitions",
    ("PartitionsRevoked", "revoked"): "partitions",
    ("PartitionsLost", "lost"): "partitions",
    ("FaultApplied", "index"): "fault_index",
    ("FaultEnded", "index"): "fault_index",
    ("TopicGrown", "partitions"): "count",
    ("HostStarted", "life"): "host_life",
    ("HostDown", "life"): "host_life",
}
"""(fact, field) -> column, for fields whose column has another name."""
_KINDS = dict(NOTES.columns)

Cell = Any
_plan_cache: dict[type, tuple[tuple[tuple[int, str, Callable[[Any], Cell]], ...], tuple[str, ...]]] = {}
_partition_names: dict[tuple[str, int], str] = {}


def partition_name(partition: tuple[str, int]) -> str:
    """The name of a partition: "topic-0" for ("topic", 0)."""
    name = _partition_names.get(partition)
    if name is None:
        name = _partition_names[partition] = f"{partition[0]}-{partition[1]}"
    return name


def _partition_names_of(partitions: tuple[tuple[str, int], ...]) -> list[str]:
    return [partition_name(partition) for partition in partitions]


def _same(value: Any) -> Any:
    return value


def _enum_name(value: Any) -> str:
    return str(value.name)


def _plain(value: Any) -> str:
    """The JSON form of a value that ``json`` cannot write; the bytes of a store's node become text."""
    return value.decode("utf-8", "replace") if type(value) is bytes else str(value)


_BY_TYPE: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("string", "<class 'str'>"): _same,
    ("string", "str | None"): _same,
    ("long", "<class 'int'>"): _same,
    ("int", "<class 'int'>"): _same,
    ("int", "int | None"): _same,
    ("strings", "tuple[str, ...]"): list,
    ("strings", "tuple[tuple[str, int], ...]"): _partition_names_of,
}
"""(type of the column, type of the field) -> conversion. Fields of other types are in ``rest``."""


def _plan_of(kind: type) -> tuple[tuple[tuple[int, str, Callable[[Any], Cell]], ...], tuple[str, ...]]:
    """The mapping of a type of fact: ((column, field, conversion), ...), and the fields without a column."""
    placed = []
    rest = []
    for field, declared in kind.__annotations__.items():
        column = _RENAMED.get((kind.__name__, field), field)
        how: Callable[[Any], Cell] | None = None
        if column in _BODY:
            if isinstance(declared, type) and issubclass(declared, Enum):
                how = _enum_name
            else:
                how = _BY_TYPE.get((_KINDS[column].rstrip("?"), str(declared)))
        if how is None:
            rest.append(field)
        else:
            placed.append((_BODY.index(column), field, how))
    return tuple(placed), tuple(rest)


_EMPTY = [None] * len(_BODY)
_encode = json.JSONEncoder(default=_plain).encode
_pack = msgpack.Packer().pack


def note_row(run_id: str, n: int, seq: int, at_us: int, actor: str, life: int, fact: Any) -> tuple[Any, ...]:
    """A fact as a row of ``NOTES``."""
    kind = type(fact)
    plan = _plan_cache.get(kind)
    if plan is None:
        plan = _plan_cache[kind] = _plan_of(kind)
    placed, others = plan
    body: list[Any] = _EMPTY.copy()
    for index, field, how in placed:
        body[index] = how(getattr(fact, field))
    rest = _encode({field: getattr(fact, field) for field in others}) if others else None
    row = _pack(to_row(fact))
    return (run_id, n, seq, at_us, actor, life, kind.__name__, *body, rest, row)


class NoteRows:
    """An observer that collects a run's facts, except facts of ``DATA_PATH``."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._seen: list[Seen] = []

    def wants(self, kind: type) -> bool:
        """Whether the observer needs facts of this type."""
        return kind not in DATA_PATH

    def see(self, seen: Seen) -> None:
        """Process one fact."""
        self._seen.append(seen)

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows of ``NOTES``; together after the run, they take half the time that they take one by one in the run."""
        return [note_row(self.run_id, number, *seen) for number, seen in enumerate(self._seen)]


class FaultTimes:
    """The times at which each entry of a plan first took effect and last ended, from a run's facts."""

    def __init__(self) -> None:
        self.first_us: dict[int, int] = {}
        self.ended_us: dict[int, int] = {}
        self.applied: dict[int, int] = {}

    def wants(self, kind: type) -> bool:
        """Whether the observer needs facts of this type: facts about faults."""
        return kind is FaultApplied or kind is FaultEnded

    def see(self, seen: Seen) -> None:
        """Process one fact."""
        fact = seen.fact
        if type(fact) is FaultApplied:
            self.first_us.setdefault(fact.index, seen.at_us)
            self.applied[fact.index] = self.applied.get(fact.index, 0) + 1
        elif type(fact) is FaultEnded:
            self.ended_us[fact.index] = seen.at_us

    def of(self, index: int) -> tuple[int, int | None, int | None]:
        """The number of applications, the first time, and the last end of an entry of the plan."""
        return self.applied.get(index, 0), self.first_us.get(index), self.ended_us.get(index)


def figure_columns(figures: Figures) -> dict[str, int | float | None]:
    """The columns of ``RUNS`` that a run's figures fill."""
    return {each.column: figures.values[name] for name, each in FIGURES.items() if each.column}


def rebalance_rows(run_id: str, figures: Figures, source: str = "run") -> list[tuple[Any, ...]]:
    """Rows of ``REBALANCES``. Of logs, columns are null that the logs do not state (``metrics.of_logs``)."""
    logs = source == "log"
    moves = not logs or figures.values["moved"] is not None
    return [
        (run_id, number, row.group, row.generation, row.reason, row.started_us, row.ended_us,
         *((None, None) if logs and not row.rounds else (row.members, row.rounds)),
         row.moved if moves else None, None if logs else row.stop_the_world_us, row.protocol)
        for number, row in enumerate(figures.rebalances)
    ]  # fmt: skip


def downtime_rows(run_id: str, figures: Figures) -> list[tuple[Any, ...]]:
    """Rows of ``DOWNTIME``."""
    return [
        (run_id, row.group, partition_name((row.topic, row.partition)), row.member, row.cause,
         row.protocol, row.from_us, row.until_us, *[waited_us(row.pieces, cause) for cause in Cause])
        for row in figures.downtime
    ]  # fmt: skip


def reassignment_step_rows(run_id: str, figures: Figures) -> list[tuple[Any, ...]]:
    """Rows of ``REASSIGNMENT_STEPS``."""
    return [
        (run_id, row.topic, partition_name((row.topic, row.partition)), row.number, row.kind, list(row.replicas),
         list(row.adding), list(row.removing), row.started_us, row.committed_us, row.moved_records, row.moved_bytes)
        for row in (figures.reassignment.steps if figures.reassignment is not None else ())
    ]  # fmt: skip


def task_downtime_rows(run_id: str, figures: Figures) -> list[tuple[Any, ...]]:
    """Rows of ``TASK_DOWNTIME``."""
    return [
        (run_id, name, row.task, row.instance, row.taken_by, row.cause, row.from_us, row.until_us,
         row.detect_us, row.barrier_us, row.restore_us, row.pause_us)
        for name, streams in figures.streams.items()
        for row in streams.task_downtime
    ]  # fmt: skip


def restore_rows(run_id: str, figures: Figures) -> list[tuple[Any, ...]]:
    """Rows of ``RESTORES``."""
    return [
        (run_id, name, number, row.task, row.instance, row.role, row.from_us, row.until_us, row.ready_us, row.first,
         row.last, row.records, row.read_bytes, row.wasted_bytes, row.avoidable_bytes, row.outcome)
        for name, streams in figures.streams.items()
        for number, row in enumerate(streams.restores)
    ]  # fmt: skip


def fault_row(run_id: str, index: int, kind: str, text: str, fired: int | None, times: FaultTimes) -> tuple[Any, ...]:
    """An entry of a plan as a row of ``FAULTS``; ``fired`` is None for old traces, which do not have the number."""
    return (run_id, index, kind, text, fired, *times.of(index))


def violation_row(run_id: str, v: Violation) -> tuple[Any, ...]:
    """A violation as a row of ``VIOLATIONS``."""
    return (run_id, v.checker, v.at_us, v.seq, list(v.entities), v.text, v.liveness, v.kind)


def run_row(
    *,
    run_id: str,
    cell: str,
    scenario: str,
    profile: str,
    seed: int,
    scenario_json: str,
    end: RunResult | Footer | None,
    broke: str | None,
    traced: bool,
    settings: str = "",
    actions: str = "",
    source: str = "run",
    measured: Mapping[str, Cell] = MappingProxyType({}),
) -> tuple[Cell, ...]:
    """A run as a row of ``RUNS``.

    Args:
        end: The result or the footer of the run; None: the trace is torn.
        measured: Columns that no trace contains (from ``measured_columns``, or for a trace from ``figure_columns``).
    """
    row: dict[str, Cell] = dict.fromkeys(RUNS.names)
    row |= {
        "run_id": run_id,
        "cell": cell,
        "scenario": scenario,
        "profile": profile,
        "settings": settings,
        "actions": actions,
        "source": source,
        "seed": seed if source == "run" else None,
        "broke": broke or None,
        "traced": traced,
        "scenario_json": scenario_json,
    }
    if end is not None:
        row |= {name: getattr(end, name) for name in ("verdict", "digest", "steps", "messages", "virtual_us")}
        row["messages"] = end.messages if source == "run" else None
    return tuple({**row, **measured}.values())


def measured_columns(result: RunResult, result_json: str, command: str) -> dict[str, Cell]:
    """The columns of ``RUNS`` that no trace contains: figures, wall time, the result as JSON, and the command."""
    return {
        "wall_s": result.wall_s,
        **figure_columns(result.figures),
        "result_json": result_json,
        "command": command,
    }
