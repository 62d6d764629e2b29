"""What the events of a run cost its groups, as figures that protocols and assignors can be compared by.

An observer beside the metrics. All times are microseconds of the world's clock, all figures sums over the groups.

*Episode*: from an event from outside (a fault or an operator's action, a member's host that starts, goes down, pauses
or resumes, a topic that grows) to the first instant of *balance* that is not followed by another rebalance before the
next event. Events that come before that belong to the same episode. A group is balanced when it is Stable, every
partition of its topics is owned, and no running member owns two more than another; or no member runs. What a group
needs to form at first is no episode.

*Strict stop of the world*: the time, after a partition was served for the first time, in which none is and at least one
member runs.

*Weighted unavailability*: the integral of the part of the partitions that nobody serves.

Downtime, moves and duplicates are those of ``emulator.metrics.metrics``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    MemberHostAdded,
    RunStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)

STABLE = "Stable"


@frozen
class Bill:
    """The figures of one run; times in microseconds."""

    rebalances: int
    """Join phases completed, each follow-up counted; without those that formed the groups."""
    moved: int
    """Partitions that went to another client."""
    downtime_sum: int
    """Over all partitions: without anybody who serves them, from when they first were."""
    downtime_max: int
    """Of the partition that was down longest."""
    stopped: int
    """Strict stop of the world."""
    unavailable: int
    """Weighted unavailability: the downtime's sum over the number of partitions."""
    to_balance: int
    """The longest episode; one that never ended lasts until the run does."""
    duplicates: int
    """Records processed again."""
    unfinished: int
    """Episodes that never came to balance."""


FIGURES: Mapping[str, str] = {
    "rebalances": "generations begun, follow-ups included, once the group had formed",
    "moved": "partitions whose assignment went to another member",
    "downtime_sum": "time without anybody serving it, summed over the partitions",
    "downtime_max": "the same, of the partition that was down longest",
    "stopped": "strict stop of the world: no partition served while a member runs",
    "unavailable": "weighted: the part of the partitions not served, integrated over time",
    "to_balance": "longest time from an event to Stable, everything owned, loads within 1",
    "duplicates": "records processed more than once",
    "unfinished": "events after which balance never came",
}
"""Every figure of a ``Bill`` in a line."""

TIMES = ("downtime_sum", "downtime_max", "stopped", "unavailable", "to_balance")


class _Group:
    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = tuple(topics)
        self.formed = False
        self.rounds = 0
        """Join phases completed since it had formed."""
        self.began_us = -1
        """When the running episode began; -1 between two."""
        self.balanced_us = -1
        """Since when it has been balanced; -1 while it is not."""
        self.longest_us = 0
        self.unfinished = 0
        self.served = False
        self.stopped_since_us = -1
        self.stopped_us = 0


class Costs:
    """Feed it every fact in order, each after its panel, then ``finish``, then ask for the ``bill``.

    ``topics``: by group, the topics it is subscribed to.
    """

    def __init__(self, panel: Panel, topics: Mapping[str, Sequence[str]]) -> None:
        self._panel = panel
        self._groups = {name: _Group(subscribed) for name, subscribed in topics.items()}
        self._finished = False
        self._on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._look,
            MemberHostAdded: self._look,
            HostStarted: self._event,
            HostDown: self._event,
            HostPaused: self._event,
            HostResumed: self._event,
            TopicGrown: self._event,
            FaultApplied: self._event,
            FaultEnded: self._event,
            Healed: self._event,
            MemberFailed: self._look,
            GroupBecame: self._look,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._look,
            PartitionsAssigned: self._look,
            PartitionsRevoked: self._look,
            PartitionsLost: self._look,
        }

    def wants(self, kind: type) -> bool:
        """Facts that some figure needs."""
        return kind in self._on

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        handler = self._on.get(type(seen.fact))
        if handler is not None:
            handler(seen, seen.fact)

    def finish(self, at_us: int) -> None:
        """The run is over at this time."""
        assert not self._finished, "a run ends once"
        self._finished = True
        for group in self._groups.values():
            self._end_episode(group)
            if group.began_us >= 0:
                group.unfinished += 1
                group.longest_us = max(group.longest_us, at_us - group.began_us)
            if group.stopped_since_us >= 0:
                group.stopped_us += at_us - group.stopped_since_us

    def bill(self, figures: Figures) -> Bill:
        """The figures of costs, with those of the run's metrics."""
        groups = self._groups.values()
        downtime = figures.downtime_us
        unavailable = 0
        for name, group in self._groups.items():
            count = sum(self._panel.topics.get(topic, 0) for topic in group.topics)
            down = sum(us for key, us in downtime.items() if key.startswith(f"{name}/"))
            unavailable += down // max(1, count)
        return Bill(
            rebalances=sum(group.rounds for group in groups),
            moved=sum(rebalance.moved for rebalance in figures.rebalances),
            downtime_sum=sum(downtime.values()),
            downtime_max=max(downtime.values(), default=0),
            stopped=sum(group.stopped_us for group in groups),
            unavailable=unavailable,
            to_balance=max((group.longest_us for group in groups), default=0),
            duplicates=figures.duplicates,
            unfinished=sum(group.unfinished for group in groups),
        )

    # --- events ------------------------------------------------------------------------------------------------

    def _event(self, seen: Seen, fact: object) -> None:
        for group in self._groups.values():
            self._end_episode(group)
            if group.began_us < 0:
                group.began_us = seen.at_us
            group.balanced_us = -1
        self._look(seen, fact)

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        group = self._groups.get(fact.group)
        if group is not None and group.formed and fact.members and self._panel.is_current(seen):
            group.rounds += 1
        self._look(seen, fact)

    # --- judging -----------------------------------------------------------------------------------------------

    def _look(self, seen: Seen, fact: object) -> None:
        for name, group in self._groups.items():
            self._look_at(name, group, seen.at_us)

    def _look_at(self, name: str, group: _Group, at_us: int) -> None:
        holdings = self._panel.holdings
        running = self._panel.running_members(name)
        loads = [len(holdings[actor].owned) if actor in holdings else 0 for actor in running]
        served = any(loads)
        group.served = group.served or served
        if group.served and not served and running:
            if group.stopped_since_us < 0:
                group.stopped_since_us = at_us
        elif group.stopped_since_us >= 0:
            group.stopped_us += at_us - group.stopped_since_us
            group.stopped_since_us = -1
        wanted = sum(self._panel.topics.get(topic, 0) for topic in group.topics)
        watched = self._panel.groups.get(name)
        stable = watched is not None and watched.state == STABLE
        balanced = stable and bool(loads) and sum(loads) == wanted and max(loads) - min(loads) <= 1
        if not balanced and running:
            group.balanced_us = -1
        elif group.balanced_us < 0:
            group.balanced_us = at_us

    def _end_episode(self, group: _Group) -> None:
        """The next event comes: if there was balance, the episode ended when that began."""
        if group.began_us < 0 or group.balanced_us < 0:
            return
        if group.formed:
            group.longest_us = max(group.longest_us, group.balanced_us - group.began_us)
        group.formed = group.formed or group.served
        group.began_us = -1
