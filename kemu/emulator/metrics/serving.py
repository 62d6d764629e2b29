"""How long partitions are without service, as users feel it (a part of the metrics).

A partition of a group is *down* from the last record processed before an interruption to the first one processed after
it, if records waited that long: else from the moment the oldest of them came or the interruption began, whichever was
first. Where no record waits, from the moment nobody owns it to the moment its new owner has its position. So callbacks
are in it, and a partition with nothing to do is not down unless nobody owns it. Counting begins when the group first
has a position there; if service does not come back, a partition is down until the end of the run.

What interrupts (``cause``): its owner gave it up ("revoked", "lost"), failed for good ("failed"), closed ("closed"),
is "paused" or its host is "down"; another member was given it while an owner that is cut off still believes in it
("taken over"); its owner keeps it and is busy with callbacks about others ("callbacks"); the broker that led it is down
or paused, and no other leads ("leaderless"). A slow application or network interrupts no service: delays and lag show
them.

*Owning* is the panel's: by a member's own callbacks, while its host runs. Where the facts tell no positions (logs that
others recorded), service is back with ownership, or with the first record where some wait. A Streams thread serves a
partition when it also runs the task.

Each interval is a chain of pieces, each with what it waited for (``emulator.watching.interruptions``).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from kemu.actors.consumer.state import MemberState
from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.emulator.metrics.figures import DowntimeFigures
from kemu.emulator.metrics.waiting import Waiting
from kemu.emulator.watching.applications import RUNNING
from kemu.emulator.watching.panel import Panel, Service
from kemu.protocol.names import ActorName, GroupId, TopicPartition, part_on
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
    **dict.fromkeys((HostStarted, HostResumed, AssignmentReceived, PartitionsAssigned), "down"),  # another life
}
"""Facts by which a member may begin or cease to serve, and what that interrupts service as."""

_LEADS = (BecameLeader, BecameFollower, ReplicaStopped, NodeWritten, PartitionHosted)
"""Facts by which a partition may get or lose its leader, beside those about hosts."""
_EVER = 1 << 62


class _State(Enum):
    NEW = 1
    """The group never had a position there."""
    UP = 2
    DOUBTFUL = 3
    """Owned, and interrupted if a record that came before ``doubt_us`` waits until its owner's next work."""
    DOWN = 4


_NEW, _UP, _DOUBTFUL, _DOWN = _State  # to look a member up in its class is slow on CPython 3.11


class _Served:
    """One partition in one group."""

    __slots__ = (
        *("began_us", "busy_us", "cause", "doubt_us", "down_us", "first_us", "owner", "owners", "owner_before"),
        *("since_us", "state", "up_us"),
    )

    def __init__(self) -> None:
        self.state = _NEW
        self.owners = 0
        """How many own it; a zombie is one."""
        self.owner: ActorName = ""
        """The last that got it."""
        self.owner_before: ActorName = ""
        """Who had it when service was interrupted."""
        self.began_us = 0
        """When somebody last began to own it."""
        self.first_us = -1
        self.up_us = 0
        """When service was last back."""
        self.since_us = 0
        self.doubt_us = 0
        self.busy_us = _EVER
        """Since when its owner has been in callbacks, while there is doubt for that reason."""
        self.cause = ""
        self.down_us = 0


class Serving:
    """Intervals of downtime. Feed it each fact before ``waiting``."""

    def __init__(self, panel: Panel, waiting: Waiting) -> None:
        self._panel = panel
        self._waiting = waiting
        self.intervals: list[DowntimeFigures] = []
        """In the order in which service came back."""
        self._partitions: dict[Service, _Served] = {}
        self._of: dict[TopicPartition, list[Service]] = {}
        self._positions_told = False
        self._awaiting: dict[Service, Seen] = {}
        """Positions of Streams threads that do not run the task yet."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            **dict.fromkeys(MOVERS, self._moved),
            **dict.fromkeys(_LEADS, self._led),
            CallbackReturned: self._called_back,
            PositionSet: self._positioned,
            TaskBecame: self._task_became,
            Processed: self._processed,
        }

    def finish(self, at_us: int) -> None:
        """What is down is down until now."""
        for key, served in self._partitions.items():
            if served.state is _DOWN:
                self._back(key, served, at_us)
            elif served.state is _DOUBTFUL:
                self._no_doubt(key, served, at_us)
        self.intervals.sort(key=lambda row: (row.group, row.from_us, row.topic, row.partition))

    def downtime_us(self) -> dict[str, int]:
        """Microseconds by "group/topic-partition", a row for every partition that was ever owned."""
        return {
            f"{group}/{topic}-{number}": self._partitions[group, (topic, number)].down_us
            for group, (topic, number) in sorted(self._partitions)
        }

    def first_us(self) -> dict[GroupId, list[int]]:
        """Group -> when each of its partitions was first served."""
        found: dict[GroupId, list[int]] = {}
        for group, partition in sorted(self._partitions):
            served = self._partitions[group, partition]
            first_us = served.first_us if served.state is not _NEW else -1
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
        if panel.began:
            owner = seen.actor if isinstance(fact, PartitionsAssigned) else ""
            for key in panel.began:
                self._begin(seen.at_us, key, owner)
        if isinstance(fact, HostStarted | HostResumed | HostPaused | HostDown):
            self._led(seen, fact)

    def _led(self, seen: Seen, fact: object) -> None:
        """Partitions have no leader that runs any more, or have one again."""
        interruptions = self._panel.interruptions
        for at in interruptions.led_changed:
            is_led = interruptions.is_led(at)
            for key in self._of.get(at, ()):
                served = self._partitions[key]
                if not is_led:
                    if served.owners and served.state not in (_NEW, _DOWN):
                        self._interrupt(seen.at_us, key, served, LEADERLESS)
                elif served.state is _DOWN and self._oldest_us(key) is None and interruptions.is_well(key):
                    self._back(key, served, seen.at_us)

    def _interrupt(self, at_us: int, key: Service, served: _Served, cause: str) -> None:
        served.state, served.cause, served.owner_before = _DOWN, cause, served.owner
        served.since_us = min(at_us, self._stood_still_us(key, served, at_us))

    def _begin(self, at_us: int, key: Service, owner: ActorName) -> None:
        """``owner`` "": who had it all the time, and goes on."""
        served = self._partitions.get(key)
        if served is None:
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
        if served.owners > 0 or served.state is _DOWN:
            return
        if served.state is _NEW:
            if self._positions_told:
                return
            served.first_us = served.up_us = served.began_us
        self._interrupt(at_us, key, served, cause)

    def _oldest_us(self, key: Service, offset: int = 0) -> int | None:
        return self._waiting.queue(*key).oldest_us(offset)

    def _stood_still_us(self, key: Service, served: _Served, otherwise_us: int) -> int:
        """Since when records wait and none was processed."""
        queue = self._waiting.queue(*key)
        oldest_us = queue.oldest_us()
        if oldest_us is None:
            return otherwise_us
        if oldest_us < served.doubt_us:  # it waited for the end of callbacks that had begun before
            oldest_us = min(oldest_us, served.busy_us)
        return max(oldest_us, queue.last_us, served.up_us)

    # --- service -----------------------------------------------------------------------------------------------

    def _task_became(self, seen: Seen, fact: TaskBecame) -> None:
        """A task that runs serves the partitions that its thread has positions of."""
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
        if served is None or served.state is _UP or seen.actor != served.owner:
            return
        if served.state is _NEW:
            served.state = _UP
            served.first_us = served.up_us = seen.at_us
        elif self._oldest_us(key, fact.offset) is not None or not self._panel.interruptions.is_led(key[1]):
            return  # its first record will tell, or its leader
        elif served.state is _DOWN:
            self._back(key, served, seen.at_us)
        else:
            self._no_doubt(key, served, seen.at_us)

    def _processed(self, seen: Seen, fact: Processed) -> None:
        key: Service = (fact.group, (fact.topic, fact.partition))
        served = self._partitions.get(key)
        if served is None or served.state is _UP or not served.owners:
            return
        # A host's clock may run a little fast or slow.
        began_us = min(seen.at_us, max(served.began_us, fact.started_us))
        if served.state is _NEW:
            served.state = _UP
            served.first_us = served.up_us = began_us
        elif served.state is _DOWN:
            if self._panel.interruptions.is_led(key[1]):  # if not, the rest of what was fetched before
                self._back(key, served, began_us)
        elif seen.actor == served.owner:
            self._no_doubt(key, served, began_us)

    def _no_doubt(self, key: Service, served: _Served, at_us: int) -> None:
        """Its owner is at work: was it interrupted?"""
        served.state = _UP
        oldest_us = self._oldest_us(key)
        if oldest_us is None or oldest_us >= served.doubt_us:
            return
        served.since_us = self._stood_still_us(key, served, at_us)
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
                if oldest_us is None or oldest_us >= served.doubt_us:  # nothing had waited until now
                    served.busy_us = began_us
                served.doubt_us = seen.at_us
