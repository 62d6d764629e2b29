"""What copies of tasks read of their changelogs, and what of it was for nothing (a part of the metrics).

A row is what one copy read in one role: "active" (nobody processes meanwhile), "learner", "warm-up" (a standby beyond
``num.standby.replicas``) or "standby". Bytes are records times the size of the changelog's records, 1,000 where nobody
said how large they are.

*Wasted* is what was read for a copy that was closed, or whose host went down, before it was ever active and running;
what learners and warm-ups read that the run's end finds unused; and what is *avoidable*: what an active copy had to
read, more than its assignor's ready lag (``InstanceStarted``), though a copy on another instance that stays was within
that lag when it began. What standbys read is never wasted.

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


class _Reading:
    """What a copy reads in one role."""

    __slots__ = (
        *("avoidable", "copy", "first", "from_us", "last", "others", "outcome", "ready_us", "records", "role"),
        *("until_us", "wasted"),
    )

    def __init__(self, copy: WatchedCopy, role: str, fact: TaskRestored, at_us: int, others: int) -> None:
        self.copy = copy
        self.role = role
        self.from_us = at_us
        self.until_us = at_us
        self.first = fact.first
        self.last = fact.first
        self.records = 0
        self.ready_us: int | None = None
        self.others = others
        """How far the best copy elsewhere was when it began; -1: there is none."""
        self.outcome = ""
        self.wasted = self.avoidable = False


class Restoring:
    """See the module."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._sizes: dict[str, int] = {}
        self._all: list[_Reading] = []
        self._open: dict[int, list[_Reading]] = {}
        """By number of a copy, what it read and nobody knows the use of yet."""
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            RecordSizes: self._sized,
            TaskRestored: self._restored,
            LearnerReady: self._ready,
            TaskBecame: self._became,
            HostDown: self._down,
        }

    def finish(self) -> None:
        """What was read and not used yet never will be."""
        for rows in list(self._open.values()):
            for row in rows:
                row.outcome = UNFINISHED
                row.wasted = row.role in (LEARNER, WARM_UP)
        self._open.clear()

    def figures(self, application: GroupId) -> tuple[RestoreFigures, ...]:
        """The rows of an application, in the order they began."""
        return tuple(self._told(row) for row in self._all if row.copy.application == application)

    def _told(self, row: _Reading) -> RestoreFigures:
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
            others = self._furthest_elsewhere(copy) if role == ACTIVE else -1
            row = _Reading(copy, role, fact, seen.at_us, others)
            rows.append(row)
            self._all.append(row)
        row = rows[-1]
        row.records += fact.last - fact.first
        row.last, row.until_us = fact.last, seen.at_us

    def _furthest_elsewhere(self, mine: WatchedCopy) -> int:
        """Of copies on instances that stay, and that are not owners themselves."""
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
                row.avoidable = row.last - row.first > lag and row.others >= 0 and row.last - row.others <= lag
