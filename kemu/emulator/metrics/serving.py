"""The time in which partitions are without service for users (a part of the metrics).

A partition of a group is *down* from the last record processed before an interruption to the first record processed
after it. If no record waited since the last processing, downtime begins at the append of the oldest waiting record or
at the interruption, whichever is earlier. If no record waits, the partition is down from the loss of its owner to the
position of the new owner. So downtime includes callbacks, and a partition without records is down only without an
owner. Downtime is counted from the group's first position. If service does not return, the partition is down until the
end of the run.

The ``cause`` of an interruption:
* the owner gave up the partition ("revoked", "lost"), failed permanently ("failed") or closed ("closed");
* the owner is "paused", or its host is "down";
* another member received the partition while an isolated owner keeps it ("taken over");
* the owner keeps the partition and is busy with callbacks about other partitions ("callbacks");
* the leading broker is down or paused, and no other broker leads ("leaderless").

A slow application or network does not interrupt service; it shows in delays and lag.

A partition's owner is the member whose callbacks say so, while the member's host runs (``Panel``). In traces without
positions (recorded from other systems), ownership restores service, or the first processed record if records wait. A
Streams thread serves a partition while the thread runs the partition's task.

Each interval consists of consecutive pieces; each piece has one reason to wait (``emulator.watching.interruptions``).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from kemu.actors.consumer.state import MemberState
from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, Seen, only_news
from kemu.emulator.metrics.figures import DowntimeFigures
from kemu.emulator.metrics.waiting import Waiting
from kemu.emulator.watching.applications import RUNNING
from kemu.emulator.watching.panel import Panel, Service
from kemu.protocol.names import ActorName, GroupId, TopicPartition, part_on, shared
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CallbackReturned,
    MemberBecame,
    MemberFailed,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, NodeWritten, ReplicaStopped
from kemu.protocol.notes.streams import TaskBecame

TAKEN_OVER = "taken over"
LEADERLESS = "leaderless"
CALLBACKS = "callbacks"

MOVERS: Mapping[type, str] = {
    PartitionsRevoked: "revoked",
    PartitionsLost: "lost",
    MemberFailed: "failed",
    MemberBecame: "closed",
    HostPaused: "paused",
    HostDown: "down",
    **dict.fromkeys((HostStarted, HostResumed, AssignmentReceived, PartitionsAssigned), "down"),  # a new life
}
"""Type of a fact that may begin or end a member's service -> the cause of an interruption that begins with the fact."""

_LEADS = (BecameLeader, BecameFollower, ReplicaStopped, NodeWritten, PartitionHosted)
"""Facts that may change whether a partition has a running leader, besides facts about hosts."""
_EVER = 1 << 62


class _State(Enum):
    NEW = 1
    """A partition on which the group never had a position."""
    UP = 2
    DOUBTFUL = 3
    """A partition with an owner in callbacks. Service is interrupted if a record from before ``doubt_us`` waits until
    the owner's next processing."""
    DOWN = 4
    DELETED = 5
    """A partition of a deleted topic, which members may own until they learn of the deletion."""


_NEW, _UP, _DOUBTFUL, _DOWN, _DELETED = _State  # looking up a member in its class is slow on CPython 3.11


class _Served:
    """The service of one partition in one group."""

    __slots__ = (
        *("began_us", "busy_us", "cause", "doubt_us", "down_us", "first_us", "owner", "owners", "owner_before"),
        *("since_us", "state", "up_us"),
    )

    def __init__(self) -> None:
        self.state = _NEW
        self.owners = 0
        """Number of owners, including zombies."""
        self.owner: ActorName = ""
        """The member that last became owner."""
        self.owner_before: ActorName = ""
        """The owner at the interruption of service."""
        self.began_us = 0
        """Time at which a member last became owner."""
        self.first_us = -1
        """Time at which the partition was first served, also before a deletion; -1: never."""
        self.up_us = 0
        """Time at which service last returned."""
        self.since_us = 0
        self.doubt_us = 0
        self.busy_us = _EVER
        """Start of the owner's callbacks, while they make service doubtful."""
        self.cause = ""
        self.down_us = 0

    def begins(self, at_us: int) -> None:
        """Note that a partition without service is served from now on."""
        self.up_us = at_us
        if self.first_us < 0:
            self.first_us = at_us


class Serving:
    """Counts the intervals of downtime. ``Serving`` must get each fact before ``Waiting``."""

    def __init__(self, panel: Panel, waiting: Waiting) -> None:
        self._panel = panel
        self._waiting = waiting
        self.intervals: list[DowntimeFigures] = []
        """Intervals in the order in which service returned."""
        self._partitions: dict[Service, _Served] = {}
        self._of: dict[TopicPartition, list[Service]] = {}
        self._positions_told = False
        self._awaiting: dict[Service, Seen] = {}
        """Positions of Streams threads whose task does not run yet."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            **dict.fromkeys(MOVERS, self._moved),
            **dict.fromkeys(_LEADS, self._led),
            CallbackReturned: self._called_back,
            PositionSet: self._positioned,
            TaskBecame: self._task_became,
            Processed: self._processed,
        }

    def finish(self, at_us: int) -> None:
        """End the run: count unfinished downtime until now."""
        for key, served in self._partitions.items():
            self._finish(key, served, at_us)
        self.intervals.sort(key=lambda row: (row.group, row.from_us, row.topic, row.partition))

    def _finish(self, key: Service, served: _Served, at_us: int) -> None:
        if served.state is _DOWN:
            self._back(key, served, at_us)
        elif served.state is _DOUBTFUL:
            self._no_doubt(key, served, at_us)

    def downtime_us(self) -> dict[str, int]:
        """Microseconds of downtime by "group/topic-partition", for every partition that ever had an owner."""
        return {
            f"{group}/{topic}-{number}": self._partitions[group, (topic, number)].down_us
            for group, (topic, number) in sorted(self._partitions)
        }

    def first_us(self) -> dict[GroupId, list[int]]:
        """Group -> times at which the group's partitions were first served."""
        found: dict[GroupId, list[int]] = {}
        for group, partition in sorted(self._partitions):
            served = self._partitions[group, partition]
            first_us = served.first_us
            if first_us < 0 and not self._positions_told:
                first_us = served.began_us
            if first_us >= 0:
                found.setdefault(group, []).append(first_us)
        return found

    # --- who owns what -----------------------------------------------------------------------------------------

    def _moved(self, seen: Seen, fact: object) -> None:
        panel = self._panel
        assert panel.now is seen, "the panel sees a fact before its readers do"
        if panel.ceased:
            cause = MOVERS[type(fact)]
            if isinstance(fact, MemberBecame) and fact.new == MemberState.FAILED.value:
                cause = MOVERS[MemberFailed]
            for key in panel.ceased:
                self._end(seen.at_us, key, cause)
        if panel.served:
            owner = seen.actor if isinstance(fact, PartitionsAssigned) else ""
            for key in panel.served:
                self._begin(seen.at_us, key, owner)
        if isinstance(fact, HostStarted | HostResumed | HostPaused | HostDown):
            self._led(seen, fact)

    def _led(self, seen: Seen, fact: object) -> None:
        """Interrupt partitions that lost their running leader; resume partitions that have a running leader again."""
        if isinstance(fact, NodeWritten) and self._panel.written is not None:
            self._written(seen.at_us, self._panel.written)
        interruptions = self._panel.interruptions
        for at in interruptions.led_changed:
            is_led = interruptions.is_led(at)
            for key in self._of.get(at, ()):
                served = self._partitions[key]
                if not is_led:
                    if served.owners and served.state not in (_NEW, _DOWN, _DELETED):
                        self._interrupt(seen.at_us, key, served, LEADERLESS)
                elif served.state is _DOWN and self._oldest_us(key) is None and interruptions.is_well(key):
                    self._back(key, served, seen.at_us)

    def _written(self, at_us: int, at: TopicPartition) -> None:
        """End the service of a deleted partition, and begin the service of a partition that exists again."""
        is_there = at in self._panel.states
        for key in self._of.get(at, ()):
            served = self._partitions[key]
            if is_there and served.state is _DELETED:
                served.state = _NEW
            elif not is_there:
                self._finish(key, served, at_us)
                served.state = _DELETED

    def _interrupt(self, at_us: int, key: Service, served: _Served, cause: str) -> None:
        served.state, served.cause, served.owner_before = _DOWN, cause, served.owner
        served.since_us = min(at_us, self._waiting_since_us(key, served, at_us))

    def _begin(self, at_us: int, key: Service, owner: ActorName) -> None:
        """Begin service. If ``owner`` is "", the same owner resumes."""
        served = self._partitions.get(key)
        if served is None:
            key = shared(key)
            served = self._partitions[key] = _Served()
            self._of.setdefault(key[1], []).append(key)
        served.owners += 1
        served.began_us = at_us
        before = served.owner
        served.owner = owner or before
        if served.state is _DOWN:
            is_told = owner and self._positions_told
            if not is_told and self._oldest_us(key) is None and self._panel.interruptions.is_led(key[1]):
                self._back(key, served, at_us)
        elif served.state in (_UP, _DOUBTFUL) and owner and served.owners > 1 and before != owner:
            served.state, served.doubt_us = _DOUBTFUL, _EVER
            served.cause, served.owner_before, served.busy_us = TAKEN_OVER, before, _EVER

    def _end(self, at_us: int, key: Service, cause: str) -> None:
        served = self._partitions[key]
        assert served.owners > 0, f"{key}: owned by nobody"
        served.owners -= 1
        if served.owners > 0 or served.state in (_DOWN, _DELETED):
            return
        if served.state is _NEW:
            if self._positions_told:
                return
            served.begins(served.began_us)
        self._interrupt(at_us, key, served, cause)

    def _oldest_us(self, key: Service, offset: int = 0) -> int | None:
        return self._waiting.queue(*key).oldest_us(offset)

    def _waiting_since_us(self, key: Service, served: _Served, otherwise_us: int) -> int:
        """The time since which records wait and none was processed."""
        queue = self._waiting.queue(*key)
        oldest_us = queue.oldest_us()
        if oldest_us is None:
            return otherwise_us
        if oldest_us < served.doubt_us:  # the record waited for the end of callbacks
            oldest_us = min(oldest_us, served.busy_us)
        return max(oldest_us, queue.last_us, served.up_us)

    # --- service -----------------------------------------------------------------------------------------------

    def _task_became(self, seen: Seen, fact: TaskBecame) -> None:
        """A running task serves the partitions on which its thread has positions."""
        thread = part_on(fact.instance, fact.thread)
        for key, known in list(self._awaiting.items()) if fact.state == RUNNING else ():
            if known.actor == thread and not self._panel.applications.awaits_state(key[0], thread, key[1]):
                del self._awaiting[key]
                self._positioned(known._replace(seq=seen.seq, at_us=seen.at_us), known.fact)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self._positions_told = True
        key: Service = (fact.group, (fact.topic, fact.partition))
        self._awaiting.pop(key, None)
        if self._panel.applications.awaits_state(fact.group, seen.actor, key[1]):
            self._awaiting[key] = seen
            return
        served = self._partitions.get(key)
        if served is None or served.state in (_UP, _DELETED) or seen.actor != served.owner:
            return
        if served.state is _NEW:
            served.state = _UP
            served.begins(seen.at_us)
        elif self._oldest_us(key, fact.offset) is not None or not self._panel.interruptions.is_led(key[1]):
            return  # service returns with the first processed record, or with the next leader
        elif served.state is _DOWN:
            self._back(key, served, seen.at_us)
        else:
            self._no_doubt(key, served, seen.at_us)

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        key: Service = (fact.group, (fact.topic, fact.partition))
        served = self._partitions.get(key)
        if served is None or served.state in (_UP, _DELETED) or not served.owners:
            return
        # A host's clock may run slightly fast or slow.
        began_us = min(seen.at_us, max(served.began_us, fact.started_us))
        if served.state is _NEW:
            served.state = _UP
            served.begins(began_us)
        elif served.state is _DOWN:
            if self._panel.interruptions.is_led(key[1]):  # else these records were fetched before the interruption
                self._back(key, served, began_us)
        elif seen.actor == served.owner:
            self._no_doubt(key, served, began_us)

    def _no_doubt(self, key: Service, served: _Served, at_us: int) -> None:
        """The owner processes records: end the doubt, and an interruption if a record waited for the callbacks."""
        served.state = _UP
        oldest_us = self._oldest_us(key)
        if oldest_us is None or oldest_us >= served.doubt_us:
            return
        served.since_us = self._waiting_since_us(key, served, at_us)
        if served.since_us < min(at_us, served.doubt_us):
            self._back(key, served, at_us)

    def _back(self, key: Service, served: _Served, at_us: int) -> None:
        served.state, served.up_us = _UP, at_us
        group, (topic, partition) = key
        since_us = served.since_us
        if at_us <= since_us:
            return
        served.down_us += at_us - since_us
        owners = (served.owner_before, served.owner)
        pieces = self._panel.interruptions.pieces(key, since_us, at_us, owners)
        self.intervals.append(
            DowntimeFigures(
                group=group,
                topic=topic,
                partition=partition,
                member=served.owner_before,
                cause=served.cause,
                from_us=since_us,
                until_us=at_us,
                pieces=pieces,
            )
        )

    # --- callbacks ---------------------------------------------------------------------------------------------

    def _called_back(self, seen: Seen, fact: CallbackReturned) -> None:
        began_us = seen.at_us - fact.took_us
        for partition in self._panel.holding(seen).owned:
            served = self._partitions.get((fact.group, partition))
            if served is None or served.owner != seen.actor:
                continue
            if served.state is _UP:
                served.state, served.doubt_us, served.busy_us = _DOUBTFUL, seen.at_us, began_us
                served.cause, served.owner_before = CALLBACKS, seen.actor
            elif served.state is _DOUBTFUL and served.cause is CALLBACKS:
                oldest_us = self._oldest_us((fact.group, partition))
                if oldest_us is None or oldest_us >= served.doubt_us:  # no record waited until now
                    served.busy_us = began_us
                served.doubt_us = seen.at_us
