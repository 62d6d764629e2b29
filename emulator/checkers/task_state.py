"""What state tasks have when they run: a part of the checker of tasks.

An active task runs only with its whole changelog applied. Ranges that the copy applied count as far as they follow its
checkpoint without a gap. When its restore begins, readers can be told of every record below the changelog's high
watermark (its end, where one broker has it alone): all these must be applied when the task runs. A task that was given
up and comes back is restored anew, however long it was away.

========================  ==========================================================================================
kind                      rule
========================  ==========================================================================================
runs-without-state        an active task runs only with what its changelog had when its restore began
checkpoint-without-state  a copy begins no further than a copy on that disk ever was
open-state-kept           exactly once: state that was open when its process was killed is of no use
========================  ==========================================================================================

Not asked for: records that the changelog lost or deleted since, or that another broker, which also takes itself for the
leader, does not have. Source: Kafka 3.4 ``StoreChangelogReader``, ``ProcessorStateManager``.
"""

from collections.abc import Collection, Iterator

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Handler, HostDown, HostStarted, Seen
from kemu.emulator.watching.applications import ACTIVE, CLOSED, CREATED, RESTORING, RUNNING
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import ActorName, GroupId, TopicPartition, host_of
from kemu.protocol.notes.groups import ProduceFailed, RecordsAcknowledged
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, HighWatermarkAdvanced, ReplicaStopped
from kemu.protocol.notes.streams import InstanceStarted, TaskBecame, TaskRestored

Disk = tuple[GroupId, str, str]
"""(application, instance, task)"""
_KILLED = "process"
"""How a host goes down whose disk is as its process left it."""


def undisturbed_since_us(panel: Panel, *instances: str) -> int | None:
    """Since when these instances work undisturbed with the brokers that are up; None: a fault hits one of them now."""
    brokers = [broker for broker in panel.applications.brokers if panel.runs(broker)]
    return panel.disturbances.undisturbed_since_us([*instances, *brokers]) if brokers else None


class CopyState:
    """What a copy of a task applied of its changelog."""

    __slots__ = ("applied", "changelog", "due", "host", "role", "state", "thread")

    def __init__(self, fact: TaskBecame, changelog: TopicPartition) -> None:
        self.changelog = changelog
        self.host = fact.instance
        self.thread = fact.thread
        self.role = fact.role
        self.state = fact.state
        self.applied = 0
        """The offset up to which it has its changelog without a gap."""
        self.due = 0
        """The offset that it must reach before it runs as an active copy."""


class TaskStates:
    """See the module. ``exactly_once``: the applications whose state is of no use unless it was closed."""

    def __init__(self, checker: Checker, exactly_once: Collection[GroupId] = ()) -> None:
        self._checker = checker
        self._exactly_once = frozenset(exactly_once)
        self._changelogs: dict[tuple[GroupId, int], str] = {}
        """(application, subtopology) -> topic."""
        self.copies: dict[Disk, dict[str, CopyState]] = {}
        """Copies with a changelog: by instance and task, then by thread."""
        self._of_changelog: dict[TopicPartition, dict[Disk, None]] = {}
        """Changelog -> instances and tasks that ever had a copy of it."""
        self._on_disk: dict[Disk, int] = {}
        """The furthest that a copy on this disk ever was."""
        self._open: dict[Disk, None] = {}
        """Copies whose state was open when the host's process died."""
        self.closed: dict[tuple[GroupId, str], dict[str, int]] = {}
        """(application, instance) -> task -> where its copy was when it was closed."""
        self._watermarks: dict[TopicPartition, dict[ActorName, int]] = {}
        """Changelog -> the high watermark of each broker that takes itself for its leader."""
        self.on: dict[type, Handler] = {
            InstanceStarted: self._instance_started,
            TaskBecame: self._became,
            TaskRestored: self._restored,
            RecordsAcknowledged: self._acknowledged,
            ProduceFailed: self._produce_failed,
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._leads,
            BecameFollower: self._leads_no_more,
            ReplicaStopped: self._leads_no_more,
            HostDown: self._down,
            HostStarted: self._started,
        }

    # --- changelogs --------------------------------------------------------------------------------------------

    def known_end(self, at: TopicPartition) -> int:
        """The offset that whoever asks now where a changelog ends is told at least."""
        end = self._checker.panel.logs.of(at).records.end
        return min([end, *self._watermarks.get(at, {}).values()])

    def missing_of(self, one: CopyState) -> int:
        """How many records of the changelog a copy lacks that it could have read."""
        start = self._checker.panel.logs.of(one.changelog).records.start
        return max(self.known_end(one.changelog) - max(one.applied, start), 0)

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        leading = self._watermarks.get((fact.topic, fact.partition))
        if leading is not None and seen.actor in leading:
            leading[seen.actor] = fact.high_watermark

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        at = fact.topic, fact.partition
        self._watermarks.setdefault(at, {})[seen.actor] = fact.high_watermark
        known = self.known_end(at)
        for one in self._copies_of(at):  # it may be told of less now
            one.due = min(one.due, known)

    def _leads_no_more(self, seen: Seen, fact: BecameFollower | ReplicaStopped) -> None:
        self._watermarks.get((fact.topic, fact.partition), {}).pop(seen.actor, None)

    def _copies_of(self, at: TopicPartition) -> Iterator[CopyState]:
        for disk in self._of_changelog.get(at, ()):
            yield from self.copies.get(disk, {}).values()

    # --- copies ------------------------------------------------------------------------------------------------

    def _instance_started(self, seen: Seen, fact: InstanceStarted) -> None:
        for number, topic in enumerate(fact.changelogs):
            if topic:
                self._changelogs[fact.application, number] = topic

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        disk = fact.application, fact.instance, fact.task
        if fact.state == CLOSED:
            self.closed.setdefault(disk[:2], {})[fact.task] = fact.position
        if fact.before == CREATED:
            self._begins_on(seen, fact, disk)
        subtopology, _, partition = fact.task.partition("_")
        topic = self._changelogs.get((fact.application, int(subtopology)))
        if topic is None:
            return
        copies = self.copies.setdefault(disk, {})
        one = copies.get(fact.thread)
        if one is None or not fact.before:
            one = copies[fact.thread] = CopyState(fact, (topic, int(partition)))
            self._of_changelog.setdefault(one.changelog, {})[disk] = None
        before, one.role, one.state = (one.role, one.state), fact.role, fact.state
        if fact.before == CREATED and fact.state == RESTORING:
            self._reads_checkpoint(seen, fact, one, disk)
        if fact.state == CLOSED:
            del copies[fact.thread]
        elif fact.role == ACTIVE and fact.state == RESTORING:
            one.due = self.known_end(one.changelog)
        elif fact.role == ACTIVE and fact.state == RUNNING and before != (ACTIVE, RUNNING):
            self._runs(seen, fact, one)

    def _reads_checkpoint(self, seen: Seen, fact: TaskBecame, one: CopyState, disk: Disk) -> None:
        had = self._on_disk.get(disk, 0)
        if fact.position > had:
            text = (
                f"{fact.task} of {fact.application} begins on {fact.instance} at {fact.position} of its changelog, "
                f"and no copy on that disk was further than {had}"
            )
            self._checker.violation(seen, "checkpoint-without-state", (fact.application, fact.task), text)
        self._reached(disk, one, min(fact.position, had))

    def _runs(self, seen: Seen, fact: TaskBecame, one: CopyState) -> None:
        at, records = one.changelog, self._checker.panel.logs.of(one.changelog).records
        if max(one.applied, records.start) < min(one.due, self.known_end(at)):
            text = (
                f"{fact.task} of {fact.application} runs on {fact.instance} with {one.applied} of the {one.due} "
                f"records that {at[0]}-{at[1]} had when its restore began"
            )
            self._checker.violation(seen, "runs-without-state", (fact.application, fact.task), text)

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        disk = fact.application, fact.instance, fact.task
        one = self.copies.get(disk, {}).get(fact.thread)
        if one is not None and fact.first <= max(one.applied, self._checker.panel.logs.of(one.changelog).records.start):
            self._reached(disk, one, fact.last)

    def _reached(self, disk: Disk, one: CopyState, end: int) -> None:
        one.applied = max(one.applied, end)
        self._on_disk[disk] = max(self._on_disk.get(disk, 0), one.applied)

    # --- what an active copy writes ------------------------------------------------------------------------------

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        self._wrote(seen, (fact.topic, fact.partition), fact.base_offset + fact.count)

    def _produce_failed(self, seen: Seen, fact: ProduceFailed) -> None:
        """Its state has the records all the same, wherever they are in the changelog."""
        at = fact.topic, fact.partition
        if at in self._of_changelog:
            self._wrote(seen, at, self._checker.panel.logs.of(at).records.end)

    def _wrote(self, seen: Seen, at: TopicPartition, end: int) -> None:
        host = host_of(seen.actor)
        for disk in self._of_changelog.get(at, ()):
            for one in self.copies.get(disk, {}).values() if disk[1] == host else ():
                if one.role == ACTIVE and one.state == RUNNING:
                    self._reached(disk, one, end)

    def may_have(self, disk: Disk) -> bool:
        """Whether a disk may have a checkpoint of a task: one of a commit before its process died, for instance."""
        return self._on_disk.get(disk, 0) > 0 and disk not in self._open

    # --- disks ---------------------------------------------------------------------------------------------------

    def _begins_on(self, seen: Seen, fact: TaskBecame, disk: Disk) -> None:
        if disk not in self._open:
            return
        del self._open[disk]
        if fact.position > 0:
            text = (
                f"{fact.task} of {fact.application} begins on {fact.instance} at {fact.position} of its changelog, "
                "with state that was open when the process died"
            )
            self._checker.violation(seen, "open-state-kept", (fact.application, fact.task), text)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for watermarks in self._watermarks.values():
            for actor in [actor for actor in watermarks if host_of(actor) == fact.host]:
                del watermarks[actor]
        for copy in self._checker.panel.applications.ended:
            disk = copy.application, copy.instance, copy.task
            self.copies.pop(disk, None)
            self._open.pop(disk, None)
            if fact.how == _KILLED and copy.application in self._exactly_once and copy.state in (RUNNING, RESTORING):
                self._open[disk] = None

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if fact.kept_disk:
            return
        for disk in [disk for disk in self._open if disk[1] == fact.host]:
            del self._open[disk]
        for disk in [disk for disk in self._on_disk if disk[1] == fact.host]:
            del self._on_disk[disk]
        for at in [at for at in self.closed if at[1] == fact.host]:
            del self.closed[at]
