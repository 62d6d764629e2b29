"""The parts of a report over time, each an observer: hosts, groups, leaders, reassignments, tasks, ranges and faults.

A lane sees each fact after the panel. After the run, ``frames`` gives its rows (``kemu.tools.report.frames``).
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kemu.actors.consumer.modern_state import ModernState
from kemu.actors.consumer.state import MemberState
from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.watching.applications import CLOSED
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import TopicPartition, broker_host, host_of
from kemu.protocol.notes import groups, ranges, replication, streams
from kemu.tools.report.frames import Cell, Frame, States, frame_of, listed, name_of

Handlers = Mapping[type, Callable[[Seen, Any], None]]
JOINING = (MemberState.PREPARING.value, MemberState.COMPLETING.value, ModernState.JOINING.value)
"""The states of a member that joins its group. A member of the consumer protocol has no second step."""
IN_GROUP = (
    MemberState.STABLE.value,
    *(state.value for state in (ModernState.RECONCILING, ModernState.ACKNOWLEDGING, ModernState.PREPARE_LEAVING)),
)
"""The states of a member that processes records. While a member reconciles, it keeps its other partitions."""


class Lane(Protocol):
    """A part of a report over time."""

    on: Handlers
    """Type of fact -> its handler."""

    def frames(self, at_us: int) -> dict[str, Frame]:
        """The rows by name; the run ended at this time."""
        ...


class HostLane:
    """Hosts that are down or paused."""

    def __init__(self, panel: Panel) -> None:
        self._states = States(("host",), ("state", "how"))
        self.on: Handlers = {
            facts.HostDown: self._down,
            facts.HostPaused: self._paused,
            facts.HostResumed: self._runs,
            facts.HostStarted: self._runs,
        }

    def _down(self, seen: Seen, fact: facts.HostDown) -> None:
        self._states.put(seen.at_us, (fact.host,), "down", fact.how)

    def _paused(self, seen: Seen, fact: facts.HostPaused) -> None:
        self._states.put(seen.at_us, (fact.host,), "paused", "")

    def _runs(self, seen: Seen, fact: facts.HostStarted | facts.HostResumed) -> None:
        self._states.end(seen.at_us, (fact.host,))

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``hosts``: how a host was down or paused."""
        return {"hosts": self._states.frame(at_us)}


class GroupLane:
    """The states of groups and members with their reasons, and the steps that a group waits for."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._groups = States(("group",), ("state", "generation", "why"))
        self._members = States(("group", "member"), ("state", "generation", "why"))
        self.on: Handlers = {
            groups.GroupBecame: self._group,
            groups.MemberBecame: self._member,
            facts.HostDown: self._down,
        }

    def _group(self, seen: Seen, fact: groups.GroupBecame) -> None:
        if self._panel.is_current(seen):
            self._groups.put(seen.at_us, (fact.group,), fact.new, fact.generation, fact.why)

    def _member(self, seen: Seen, fact: groups.MemberBecame) -> None:
        self._members.put(seen.at_us, (fact.group, seen.actor), fact.new, fact.generation, fact.why)

    def _down(self, seen: Seen, fact: facts.HostDown) -> None:
        self._members.end_all(seen.at_us, lambda key: host_of(str(key[1])) == fact.host)

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``groups`` and ``members``: states. ``group_waits``: the step that a group waits for, and its actor."""
        waits = States(("group",), ("cause", "actor"))
        for group, stages in self._panel.interruptions.groups.items():
            for since_us, cause, actor in stages.stages:
                waits.put(since_us, (group,), str(cause), actor)
        return {
            "groups": self._groups.frame(at_us),
            "members": self._members.frame(at_us),
            "group_waits": waits.frame(at_us),
        }


class LeaderLane:
    """Leaders, epochs, ISRs and replicas in the metadata store, and the terms of controllers."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._leaders = States(("partition",), ("leader", "epoch", "isr", "replicas"))
        self._controllers = States(("role",), ("broker", "epoch"))
        self._ready: list[tuple[Cell, ...]] = []
        self.on: Handlers = {
            replication.NodeWritten: self._written,
            replication.BecameController: self._controls,
            replication.ControllerReady: self._is_ready,
            replication.ControllerResigned: self._resigned,
            facts.HostDown: self._down,
        }

    def _written(self, seen: Seen, fact: replication.NodeWritten) -> None:
        changed = {at for at in (self._panel.written, *self._panel.replicas_changed) if at is not None}
        for at in sorted(changed):
            state, assigned = self._panel.states.get(at), self._panel.assigned.get(at)
            if state is None:
                self._leaders.end(seen.at_us, (name_of(at),))
            else:
                replicas = listed(assigned.replicas) if assigned is not None else ""
                self._leaders.put(
                    seen.at_us, (name_of(at),), state.leader, state.leader_epoch, listed(state.isr), replicas
                )

    def _controls(self, seen: Seen, fact: replication.BecameController) -> None:
        self._controllers.put(seen.at_us, ("controller",), broker_host(fact.broker_id), fact.controller_epoch)

    def _is_ready(self, seen: Seen, fact: replication.ControllerReady) -> None:
        self._ready.append((seen.at_us, broker_host(fact.broker_id), fact.controller_epoch))

    def _resigned(self, seen: Seen, fact: replication.ControllerResigned) -> None:
        self._end_term(seen, broker_host(fact.broker_id))

    def _down(self, seen: Seen, fact: facts.HostDown) -> None:
        self._end_term(seen, fact.host)

    def _end_term(self, seen: Seen, host: str) -> None:
        now = self._controllers.open.get(("controller",))
        if now is not None and now[1][0] == host:
            self._controllers.end(seen.at_us, ("controller",))

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``leaders``, ``controllers`` (terms), and ``controllers_ready`` (ends of failovers)."""
        return {
            "leaders": self._leaders.frame(at_us),
            "controllers": self._controllers.frame(at_us),
            "controllers_ready": frame_of(("at_us", "broker", "epoch"), self._ready),
        }


class ReassignmentLane:
    """Reassignments from request to end, reasons to wait, and changes of ISRs that leaders proposed."""

    def __init__(self, panel: Panel) -> None:
        self._moves = States(("partition",), ("replicas", "target"))
        self._waits = States(("partition",), ("why",))
        self._proposals: list[tuple[Cell, ...]] = []
        self.on: Handlers = {
            replication.ReassignmentStarted: self._started,
            replication.ReassignmentFinished: self._finished,
            replication.ReassignmentWaits: self._waits_now,
            replication.ReassignmentBlocked: self._waits_now,
            replication.ReassignmentStepCommitted: self._committed,
            replication.IsrProposed: self._proposed,
            replication.IsrChangePending: self._refused,
            replication.IsrChangeFailed: self._refused,
            replication.IsrWriteRefused: self._write_refused,
        }

    def _started(self, seen: Seen, fact: replication.ReassignmentStarted) -> None:
        key = (_partition(fact),)
        target, before = listed(fact.target), self._moves.open.get(key)
        if before is None or before[1][1] != target:
            self._moves.put(seen.at_us, key, listed(fact.replicas), target)

    def _finished(self, seen: Seen, fact: replication.ReassignmentFinished) -> None:
        self._moves.end(seen.at_us, (_partition(fact),))
        self._waits.end(seen.at_us, (_partition(fact),))

    def _waits_now(self, seen: Seen, fact: replication.ReassignmentWaits | replication.ReassignmentBlocked) -> None:
        self._waits.put(seen.at_us, (_partition(fact),), fact.why)

    def _committed(self, seen: Seen, fact: replication.ReassignmentStepCommitted) -> None:
        self._waits.end(seen.at_us, (_partition(fact),))

    def _proposed(self, seen: Seen, fact: replication.IsrProposed) -> None:
        self._propose(seen, fact, "proposed", "")

    def _refused(self, seen: Seen, fact: replication.IsrChangePending | replication.IsrChangeFailed) -> None:
        self._propose(seen, fact, "refused", fact.why)

    def _write_refused(self, seen: Seen, fact: replication.IsrWriteRefused) -> None:
        self._propose(seen, fact, "refused", "the store has another version of the state than the controller")

    def _propose(self, seen: Seen, fact: Any, what: str, why: str) -> None:
        self._proposals.append((seen.at_us, _partition(fact), host_of(seen.actor), what, listed(fact.isr), why))

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``reassignments``, ``reassignment_waits``, and ``proposals`` of ISRs."""
        return {
            "reassignments": self._moves.frame(at_us),
            "reassignment_waits": self._waits.frame(at_us),
            "proposals": frame_of(("at_us", "partition", "broker", "what", "isr", "why"), self._proposals),
        }


class TaskLane:
    """The copies of Streams tasks by role and state, and the progress of their restores."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._copies = States(("application", "instance", "thread", "task"), ("role", "state", "position"))
        self._restored: list[tuple[Cell, ...]] = []
        self._marks: list[tuple[Cell, ...]] = []
        self.on: Handlers = {
            streams.TaskBecame: self._became,
            streams.TaskRestored: self._read,
            streams.LearnerReady: self._ready,
            streams.TasksDecided: self._decided,
            streams.InstanceLeaving: self._leaving,
            streams.InstanceReleased: self._released,
            facts.HostDown: self._down,
        }

    def _became(self, seen: Seen, fact: streams.TaskBecame) -> None:
        key = (fact.application, fact.instance, fact.thread, fact.task)
        if fact.state == CLOSED:
            self._copies.end(seen.at_us, key)
        else:
            self._copies.put(seen.at_us, key, fact.role, fact.state, fact.position)

    def _read(self, seen: Seen, fact: streams.TaskRestored) -> None:
        application = self._panel.applications.of(fact.application)
        copy = application.copies.get((fact.task, fact.instance, fact.thread))
        if copy is not None and copy.changelog is not None:
            end = max(fact.last, self._panel.logs.of(copy.changelog).records.end)
            place = (fact.application, fact.instance, fact.thread, fact.task)
            self._restored.append((seen.at_us, *place, fact.first, fact.last, end))

    def _ready(self, seen: Seen, fact: streams.LearnerReady) -> None:
        self._mark(seen, fact, f"the learner of {fact.task} on {fact.instance} is ready, {fact.lag} records behind")

    def _decided(self, seen: Seen, fact: streams.TasksDecided) -> None:
        learning = sum(len(row.learning) for row in fact.given)
        more = f", {learning} of them to be learned elsewhere" if learning else ""
        self._mark(seen, fact, f"{fact.instance} assigned {len(fact.tasks)} tasks to {len(fact.given)} instances{more}")

    def _leaving(self, seen: Seen, fact: streams.InstanceLeaving) -> None:
        self._mark(seen, fact, f"{fact.instance} is to {'move its tasks and leave' if fact.leaving else 'stay'}")

    def _released(self, seen: Seen, fact: streams.InstanceReleased) -> None:
        self._mark(seen, fact, f"{fact.instance} has no task left and closes")

    def _mark(self, seen: Seen, fact: Any, text: str) -> None:
        self._marks.append((seen.at_us, fact.application, text))

    def _down(self, seen: Seen, fact: facts.HostDown) -> None:
        self._copies.end_all(seen.at_us, lambda key: key[1] == fact.host)

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``tasks`` (copies), ``restored`` (changelog records read, and the changelog's end), and ``task_marks``."""
        place = ("application", "instance", "thread", "task")
        return {
            "tasks": self._copies.frame(at_us),
            "restored": frame_of(("at_us", *place, "first", "last", "end"), self._restored),
            "task_marks": frame_of(("at_us", "application", "text"), self._marks),
        }


class RangeLane:
    """KIP-333: the ranges of the second consumers, and the work of both consumers on partitions with such a mode."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._parallel: dict[str, None] = {}
        self._ranges = States(("group", "partition", "start", "end"), ("generation", "member"))
        self._work: list[tuple[Cell, ...]] = []
        self._ends: list[tuple[Cell, ...]] = []
        self._seconds = States(("member",), ())
        self.on: Handlers = {
            ranges.ParallelRebalance: self._mode,
            ranges.RangeOpened: self._opened,
            ranges.RangeCommitted: self._committed,
            ranges.RangesRemoved: self._removed,
            ranges.RangeTrimmed: self._trimmed,
            ranges.RangeProcessed: self._second,
            ranges.ChildConsumerStarted: self._child_started,
            ranges.ChildConsumerDied: self._child_died,
            groups.Processed: self._main,
            groups.RecordsAppended: self._appended,
            facts.HostDown: self._down,
        }

    def _mode(self, seen: Seen, fact: ranges.ParallelRebalance) -> None:
        if not self._parallel:
            for topic, count in self._panel.topics.items():
                for number in range(count):
                    end = self._panel.logs.of((topic, number)).records.end
                    self._ends.append((seen.at_us, f"{topic}-{number}", end))
        self._parallel[fact.group] = None

    def _opened(self, seen: Seen, fact: ranges.RangeOpened) -> None:
        if self._panel.is_current(seen):
            key = (fact.group, _partition(fact), fact.start, fact.end)
            self._ranges.put(seen.at_us, key, fact.generation, fact.member_id)

    def _committed(self, seen: Seen, fact: ranges.RangeCommitted) -> None:
        """A range is over once the second commit log has an offset at or behind its end."""
        self._close(seen, fact, lambda end: end <= fact.offset)

    def _removed(self, seen: Seen, fact: ranges.RangesRemoved) -> None:
        self._close(seen, fact, lambda end: True)

    def _close(self, seen: Seen, fact: Any, is_over: Callable[[int], bool]) -> None:
        if self._panel.is_current(seen):
            place = fact.group, _partition(fact)
            self._ranges.end_all(seen.at_us, lambda key: key[:2] == place and is_over(int(key[3])))

    def _trimmed(self, seen: Seen, fact: ranges.RangeTrimmed) -> None:
        self._works(seen, fact, "trimmed")

    def _second(self, seen: Seen, fact: ranges.RangeProcessed) -> None:
        self._works(seen, fact, "second")

    def _main(self, seen: Seen, fact: groups.Processed) -> None:
        if fact.group in self._parallel:
            self._works(seen, fact, "main")

    def _works(self, seen: Seen, fact: Any, who: str) -> None:
        began_us = min(seen.at_us, getattr(fact, "started_us", seen.at_us))
        self._work.append((began_us, seen.at_us, fact.group, _partition(fact), who, fact.first, fact.last))

    def _appended(self, seen: Seen, fact: groups.RecordsAppended) -> None:
        if self._parallel and self._panel.logs.appended_to_log and fact.topic in self._panel.topics:
            self._ends.append((seen.at_us, _partition(fact), fact.base_offset + fact.count))

    def _child_started(self, seen: Seen, fact: ranges.ChildConsumerStarted) -> None:
        self._seconds.put(seen.at_us, (seen.actor,))

    def _child_died(self, seen: Seen, fact: ranges.ChildConsumerDied) -> None:
        self._seconds.end(seen.at_us, (seen.actor,))

    def _down(self, seen: Seen, fact: facts.HostDown) -> None:
        self._seconds.end_all(seen.at_us, lambda key: host_of(str(key[0])) == fact.host)

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``ranges``, ``range_work`` (of the main and the second consumers), ``log_ends`` and ``second_consumers``."""
        return {
            "ranges": self._ranges.frame(at_us),
            "range_work": frame_of(("from_us", "until_us", "group", "partition", "who", "first", "last"), self._work),
            "log_ends": frame_of(("at_us", "partition", "end"), self._ends),
            "second_consumers": self._seconds.frame(at_us),
        }


class FaultLane:
    """The entries of the plan as they took effect."""

    def __init__(self, panel: Panel) -> None:
        self._lasting = States(("index",), ("kind", "text", "operation"))
        self._moments: list[tuple[Cell, ...]] = []
        self.on: Handlers = {facts.FaultApplied: self._applied, facts.FaultEnded: self._ended}

    def _applied(self, seen: Seen, fact: facts.FaultApplied) -> None:
        action = ACTIONS.get(fact.kind)
        values = (fact.kind, fact.text, int(action is not None and action.workload))
        if fact.lasts:
            self._lasting.put(seen.at_us, (fact.index,), *values)
        else:
            self._moments.append((seen.at_us, seen.at_us, fact.index, *values))

    def _ended(self, seen: Seen, fact: facts.FaultEnded) -> None:
        self._lasting.end(seen.at_us, (fact.index,))

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``faults``; ``operation``: 1 for the work of operators and applications."""
        lasting = self._lasting.frame(at_us)
        rows = sorted([*lasting.rows(), *self._moments], key=lambda row: row[:3])
        return {"faults": frame_of(self._lasting.names, rows)}


def _partition(fact: Any) -> str:
    at: TopicPartition = fact.topic, fact.partition
    return name_of(at)


LANES: tuple[Callable[[Panel], Lane], ...] = (
    *(HostLane, GroupLane, LeaderLane, ReassignmentLane, TaskLane, RangeLane, FaultLane),
)
"""All lanes, in the order of their frames."""
