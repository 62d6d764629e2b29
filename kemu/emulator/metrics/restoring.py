"""The changelog records that copies of tasks read, and the bytes that were read in vain (a part of the metrics).

A row is the reading of one copy in one role. The roles are "active" (no instance processes the task during the
reading), "learner", "warm-up" (a standby beyond ``num.standby.replicas``) and "standby". Bytes are the number of
records times the size of the changelog's records. An unknown size is taken as 1,000 bytes.

*Wasted* bytes are of three kinds:
* read for a copy that closed, or whose host went down, before the copy was active and running;
* read by learners and warm-ups and unused at the end of the run;
* *avoidable*: read by an active copy beyond its assignor's ready lag (``InstanceStarted``), although another staying
  instance began with a copy within the ready lag.

Bytes read by standbys are never wasted.

Source: KIP-429's page, "double task processing"; the restoration of Kafka's ``StoreChangelogReader``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import HostDown, RecordSizes, Seen
from kemu.emulator.metrics.figures import RestoreFigures
from kemu.emulator.watching.applications import ACTIVE, CLOSED, LEARNER, STANDBY, WARM_UP, WatchedCopy
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import GroupId
from kemu.protocol.notes.streams import LearnerReady, TaskBecame, TaskRestored

DEFAULT_RECORD_BYTES = 1_000
ROLES = (ACTIVE, LEARNER, WARM_UP, STANDBY)
USED, DISCARDED, KEPT, UNFINISHED = "used", "discarded", "kept", "unfinished"


class _CopyReading:
    """The reading of one copy in one role."""

    __slots__ = (
        *("avoidable", "copy", "first", "from_us", "last", "best_elsewhere", "outcome", "ready_us", "records", "role"),
        *("until_us", "wasted"),
    )

    def __init__(self, copy: WatchedCopy, role: str, fact: TaskRestored, at_us: int, best_elsewhere: int) -> None:
        self.copy = copy
        self.role = role
        self.from_us = at_us
        self.until_us = at_us
        self.first = fact.first
        self.last = fact.first
        self.records = 0
        self.ready_us: int | None = None
        self.best_elsewhere = best_elsewhere
        """Highest position of a copy on another instance when the reading began; -1 without such a copy."""
        self.outcome = ""
        self.wasted = self.avoidable = False


class Restoring:
    """Counts the changelog reading of all applications."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._sizes: dict[str, int] = {}
        self._all: list[_CopyReading] = []
        self._open: dict[int, list[_CopyReading]] = {}
        """Number of a copy -> readings of the copy with an unknown outcome."""
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            RecordSizes: self._sized,
            TaskRestored: self._restored,
            LearnerReady: self._ready,
            TaskBecame: self._became,
            HostDown: self._down,
        }

    def finish(self) -> None:
        """End the run: readings without an outcome become unfinished, and are wasted for learners and warm-ups."""
        for rows in list(self._open.values()):
            for row in rows:
                row.outcome = UNFINISHED
                row.wasted = row.role in (LEARNER, WARM_UP)
        self._open.clear()

    def figures(self, application: GroupId) -> tuple[RestoreFigures, ...]:
        """The readings of an application, in the order in which they began."""
        return tuple(self._figures_of(row) for row in self._all if row.copy.application == application)

    def _figures_of(self, row: _CopyReading) -> RestoreFigures:
        copy = row.copy
        size = row.records * self._size_of(copy)
        return RestoreFigures(
            task=copy.task,
            instance=copy.instance,
            role=row.role,
            from_us=row.from_us,
            until_us=row.until_us,
            ready_us=row.ready_us,
            first=row.first,
            last=row.last,
            records=row.records,
            read_bytes=size,
            wasted_bytes=size if row.wasted or row.avoidable else 0,
            avoidable_bytes=size if row.avoidable else 0,
            outcome=row.outcome,
        )

    def _size_of(self, copy: WatchedCopy) -> int:
        instance = self._panel.applications.of(copy.application).instances.get(copy.instance)
        changelogs = () if instance is None else instance.started.changelogs
        subtopology = int(copy.task.partition("_")[0])
        name = changelogs[subtopology] if subtopology < len(changelogs) else ""
        return self._sizes.get(name, DEFAULT_RECORD_BYTES)

    def _sized(self, seen: Seen, fact: RecordSizes) -> None:
        self._sizes.update(fact.topics)

    # --- reading -----------------------------------------------------------------------------------------------

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        application = self._panel.applications.of(fact.application)
        copy = application.copies.get((fact.task, fact.instance, fact.thread))
        if copy is None:
            return
        role, rows = application.role_of(copy), self._open.setdefault(copy.number, [])
        if not rows or rows[-1].role != role or rows[-1].outcome:
            best_elsewhere = self._best_elsewhere(copy) if role == ACTIVE else -1
            row = _CopyReading(copy, role, fact, seen.at_us, best_elsewhere)
            rows.append(row)
            self._all.append(row)
        row = rows[-1]
        row.records += fact.last - fact.first
        row.last, row.until_us = fact.last, seen.at_us

    def _best_elsewhere(self, mine: WatchedCopy) -> int:
        """The highest position of the task's standby, learner and warm-up copies on other staying instances; -1 without
        such a copy.
        """
        application = self._panel.applications.of(mine.application)
        found = [
            copy.position
            for copy in application.of(mine.task)
            if copy.instance != mine.instance and copy.role != ACTIVE
            if not application.instances[copy.instance].leaving and not self._panel.is_out(copy.instance)
        ]
        return max(found, default=-1)

    def _ready(self, seen: Seen, fact: LearnerReady) -> None:
        application = self._panel.applications.of(fact.application)
        for copy in application.of(fact.task):
            if copy.instance == fact.instance:
                for row in self._open.get(copy.number, ()):
                    if row.role == LEARNER and row.ready_us is None:
                        row.ready_us = seen.at_us

    # --- what becomes of it ------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        copy = self._panel.applications.changed
        if copy is None or copy.number not in self._open:
            return
        if copy.works:
            self._settle(copy, USED)
        elif copy.state == CLOSED:
            self._settle(copy, DISCARDED)
        elif copy.role == STANDBY and self._panel.applications.role_before != STANDBY:
            self._settle(copy, KEPT)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for copy in self._panel.applications.ended:
            if copy.number in self._open:
                self._settle(copy, DISCARDED)

    def _settle(self, copy: WatchedCopy, outcome: str) -> None:
        instance = self._panel.applications.of(copy.application).instances.get(copy.instance)
        lag = instance.started.ready_lag if instance is not None else 0
        rows = self._open.pop(copy.number)
        for row in rows:
            row.outcome = outcome
            row.wasted = outcome == DISCARDED and STANDBY not in (row.role, rows[-1].role)
            if row.role == ACTIVE:
                row.avoidable = (
                    row.last - row.first > lag and row.best_elsewhere >= 0 and row.last - row.best_elsewhere <= lag
                )
