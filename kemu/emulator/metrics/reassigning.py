"""Figures of reassignments: steps, moved bytes and extra traffic of brokers (a part of the metrics).

A *step* begins when the controller sends the partition to the adding replicas. The step ends when the store holds
exactly the replicas of the step. A cancelled or overridden step has no end. A step that another controller repeats, or
that a restarted broker receives again, is the same step.

*Moved* bytes: bytes that an adding replica copies before the replica joins the ISR.
The *extra load* of a broker: the moved bytes that the broker received and sent in one second of the run.

*ISR changes* are counted for partitions during their reassignment. A step that adds one replica and removes another
makes two changes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import HostStarted, RecordSizes, Seen
from kemu.emulator.metrics.figures import ReassignmentFigures, ReassignmentStepFigures
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import TopicPartition, broker_host, broker_of
from kemu.protocol.notes.replication import (
    BecameController,
    BecameFollower,
    BecameLeader,
    NodeWritten,
    ReassignmentBlocked,
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentStepCommitted,
    ReassignmentStepStarted,
    ReassignmentWaits,
    RecordsReplicated,
    ReplicaStopped,
)

SECOND_US = 1_000_000
DEFAULT_RECORD_BYTES = 1_000
"""The assumed size of a record of a topic whose record size is unknown."""


class _Step:
    __slots__ = ("committed_us", "fact", "moved_bytes", "moved_records", "number", "started_us")

    def __init__(self, number: int, fact: ReassignmentStepStarted, started_us: int) -> None:
        self.number = number
        self.fact = fact
        self.started_us = started_us
        self.committed_us: int | None = None
        self.moved_records = self.moved_bytes = 0

    def is_about(self, fact: ReassignmentStepStarted) -> bool:
        """Whether the fact repeats this step."""
        ours, theirs = self.fact, fact
        return (ours.replicas, ours.adding, ours.removing) == (theirs.replicas, theirs.adding, theirs.removing)


class _Load:
    """Counts a broker's extra load in the current second and in the second with the most load."""

    __slots__ = ("bytes", "most", "second")

    def __init__(self) -> None:
        self.second = -1
        self.bytes = self.most = 0

    def add(self, at_us: int, count: int) -> None:
        """Add bytes that the broker received or sent at this time."""
        second = at_us // SECOND_US
        if second != self.second:
            self.second, self.bytes = second, 0
        self.bytes += count
        self.most = max(self.most, self.bytes)


class Reassigning:
    """Counts the figures of reassignments."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._sizes: dict[str, int] = {}
        self._moving: dict[TopicPartition, tuple[int, ...]] = {}
        """Partition under reassignment -> target replicas."""
        self._steps: list[_Step] = []
        self._running: dict[TopicPartition, _Step] = {}
        self._numbers: dict[TopicPartition, int] = {}
        self._loads: dict[int, _Load] = {}
        self._received: dict[tuple[int, int], int] = {}
        """(second, broker) -> moved bytes that the broker received in that second."""
        self._asked = 0
        self._finished = 0
        self._blocked = 0
        self._began_us: int | None = None
        self._ended_us: int | None = None
        self._churn = 0
        self._most_replicas = 0
        self._waits: dict[TopicPartition, str] = {}
        """Partition -> the controller's last reason to wait."""
        self._left: dict[int, None] = {}
        """Brokers from which steps removed replicas."""
        self._logs: dict[str, dict[TopicPartition, None]] = {}
        """Broker -> partitions whose logs are on the broker's disk."""
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            RecordSizes: self._sized,
            BecameController: self._controls,
            ReassignmentStarted: self._started,
            ReassignmentStepStarted: self._step_started,
            ReassignmentStepCommitted: self._committed,
            ReassignmentBlocked: self._is_blocked,
            ReassignmentWaits: self._waits_now,
            ReassignmentFinished: self._ended,
            RecordsReplicated: self._replicated,
            NodeWritten: self._written,
            BecameLeader: self._hosts,
            BecameFollower: self._hosts,
            ReplicaStopped: self._stopped,
            HostStarted: self._host_started,
        }

    def figures(self) -> ReassignmentFigures | None:
        """The figures of all reassignments; None for a run without reassignments."""
        if self._began_us is None:
            return None
        done = not self._moving and self._ended_us is not None
        steps = [
            ReassignmentStepFigures(
                topic=step.fact.topic,
                partition=step.fact.partition,
                number=step.number,
                kind=step.fact.kind,
                replicas=step.fact.replicas,
                adding=step.fact.adding,
                removing=step.fact.removing,
                started_us=step.started_us,
                committed_us=step.committed_us,
                moved_records=step.moved_records,
                moved_bytes=step.moved_bytes,
            )
            for step in self._steps
        ]
        return ReassignmentFigures(
            partitions=self._asked,
            finished=self._finished,
            unfinished=len(self._moving),
            waiting={f"{at[0]}-{at[1]}": self._waits.get(at, "") for at in self._moving},
            blocked=self._blocked,
            began_us=self._began_us,
            took_us=self._ended_us - self._began_us if done and self._ended_us is not None else None,
            moved_bytes=sum(step.moved_bytes for step in self._steps),
            peak_extra_bytes_per_s={broker_host(node): self._loads[node].most for node in sorted(self._loads)},
            received=tuple(
                (broker_host(node), second, count) for (second, node), count in sorted(self._received.items())
            ),
            isr_changes=self._churn,
            most_replicas=self._most_replicas,
            emptied=self._emptied(),
            steps=tuple(steps),
        )

    def _emptied(self) -> dict[str, int]:
        assigned = {broker for each in self._panel.assigned.values() for broker in each.replicas}
        names = [broker_host(broker) for broker in sorted(self._left) if broker not in assigned]
        return {name: len(self._logs.get(name, ())) for name in names}

    def _sized(self, seen: Seen, fact: RecordSizes) -> None:
        self._sizes.update(fact.topics)

    # --- the controller's word ---------------------------------------------------------------------------------

    def _started(self, seen: Seen, fact: ReassignmentStarted) -> None:
        at = (fact.topic, fact.partition)
        if self._began_us is None:
            self._began_us = seen.at_us
        self._asked += at not in self._moving and not fact.resumed
        self._moving[at] = fact.target

    def _step_started(self, seen: Seen, fact: ReassignmentStepStarted) -> None:
        at = (fact.topic, fact.partition)
        self._waits[at] = fact.waits_for
        running = self._running.get(at)
        if running is not None and running.is_about(fact):
            return
        number = self._numbers[at] = self._numbers.get(at, 0) + 1
        step = self._running[at] = _Step(number, fact, seen.at_us)
        self._steps.append(step)

    def _committed(self, seen: Seen, fact: ReassignmentStepCommitted) -> None:
        self._waits.pop((fact.topic, fact.partition), None)
        step = self._running.pop((fact.topic, fact.partition), None)
        if step is not None and step.fact.replicas == fact.replicas:
            step.committed_us = seen.at_us
            self._left.update(dict.fromkeys(step.fact.removing))

    def _is_blocked(self, seen: Seen, fact: ReassignmentBlocked) -> None:
        self._blocked += 1

    def _waits_now(self, seen: Seen, fact: ReassignmentWaits) -> None:
        self._waits[fact.topic, fact.partition] = fact.why

    def _ended(self, seen: Seen, fact: ReassignmentFinished) -> None:
        self._arrived((fact.topic, fact.partition), seen.at_us)

    def _arrived(self, at: TopicPartition, at_us: int) -> None:
        if at in self._moving:
            del self._moving[at]
            self._finished += 1
            self._ended_us = at_us

    def _controls(self, seen: Seen, fact: BecameController) -> None:
        """Compare the unfinished steps of the former controller with the store, and end the steps that the store has
        completed.
        """
        self._waits = {}
        for at, target in list(self._moving.items()):
            stored = self._panel.assigned.get(at)
            if stored is None or stored.is_being_reassigned:
                continue
            step = self._running.pop(at, None)
            if stored.replicas == target:
                if step is not None and step.fact.replicas == target:
                    step.committed_us = seen.at_us
                    self._left.update(dict.fromkeys(step.fact.removing))
                self._arrived(at, seen.at_us)
            else:  # the former controller did not write the reassignment, so it did not answer the request
                del self._moving[at]
                self._asked -= 1

    # --- disks -------------------------------------------------------------------------------------------------

    def _hosts(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        self._logs.setdefault(seen.actor, {})[fact.topic, fact.partition] = None

    def _host_started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            self._logs.pop(fact.host, None)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        if fact.deleted:
            self._logs.get(seen.actor, {}).pop((fact.topic, fact.partition), None)

    # --- what it does ------------------------------------------------------------------------------------------

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        if not self._running:
            return
        at = (fact.topic, fact.partition)
        step, state = self._running.get(at), self._panel.states.get(at)
        node = broker_of(seen.actor)
        if step is None or state is None or node not in step.fact.adding or node in state.isr:
            return
        moved = fact.count * self._sizes.get(fact.topic, DEFAULT_RECORD_BYTES)
        step.moved_records += fact.count
        step.moved_bytes += moved
        key = seen.at_us // SECOND_US, node
        self._received[key] = self._received.get(key, 0) + moved
        for one in (node, state.leader):
            if one >= 0:
                load = self._loads.get(one)
                if load is None:
                    load = self._loads[one] = _Load()
                load.add(seen.at_us, moved)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        panel = self._panel
        at, before = panel.written, panel.state_before
        if at is not None and at in self._moving and before is not None and at in panel.states:
            self._churn += set(before.isr) != set(panel.states[at].isr)
        for changed in panel.replicas_changed:
            assignment = panel.assigned[changed]
            if changed in self._moving or assignment.adding:
                self._most_replicas = max(self._most_replicas, len(assignment.replicas))
