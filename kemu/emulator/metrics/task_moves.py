"""Effects of events on Streams applications: moves, rebalances by reason, balance, rest (a part of the metrics).

*Episode*: the time from an external event to *rest*. External events are faults, operators' actions, growing topics,
and hosts that start, go down, pause or resume. At rest the group is Stable, every task runs, and no task is paused,
restored, learned or warmed up. No other rebalance follows before the next event. Events within a second of each other,
and events before rest, belong to one episode. An event without effect begins no episode. An instance that closes after
the transfer of all its tasks begins no episode, either. An application has formed when it is first Stable with every
task running at an event.

*Balance*: the group is Stable, every task has an owner, and leaving instances have no tasks. The loads of other
instances are as even as the assignor promises (``watching/balance.py``).

*Time to balance*: from the start of an episode to the start of balance that lasts until the next event. A rebalance
that keeps the balance does not end it.

A task *moved* under two conditions. A decision that took effect gave the task to another instance than the last owner.
The last owner took part in this rebalance, or in the rebalance that revoked the task. A task whose owner had left or
failed did not move.

*Minimum*: the tasks beyond the instances' quotas, summed over the instances that existed from the start to the end of
the episode. Quotas are as even as weights allow, rounded up for the instances with more tasks. The quota of a leaving
instance is 0. An assignor that tolerates imbalance may move fewer tasks. *Back and forth*: a task moved from x to y and
back to x.

Rebalances are counted per generation, under the coordinator's reason. *Empty*: a generation without any change of
roles.

Source: Kafka's ``TaskAssignorConvergenceTest``, ``AssignmentTestUtils`` (definition of balance); KIP-429's page.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any

from kemu.actors.consumer.state import MemberState
from kemu.actors.coordinator.state import GroupState
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.metrics.figures import EpisodeFigures
from kemu.emulator.watching.applications import ACTIVE, CLOSED, WatchedApplication
from kemu.emulator.watching.balance import at_work, is_balanced
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import ActorName, GroupId, MemberId
from kemu.protocol.notes.groups import GroupBecame, JoinPhaseCompleted, MemberAdded, MemberBecame, MemberRemoved, Rejoin
from kemu.protocol.notes.streams import (
    InstanceLeaving,
    InstanceReleased,
    InstanceStarted,
    TaskBecame,
    TasksDecided,
)

BURST_US = 1_000_000
"""Events closer to each other than this time belong to one episode."""
PREPARING, STABLE = GroupState.PREPARING.value, GroupState.STABLE.value


class Reason(StrEnum):
    """The reason for which a coordinator prepared for a rebalance."""

    JOINED = "joined"
    """A new member joined."""
    GONE = "gone"
    """A member left, or its session expired."""
    READY = "ready"
    """KIP-429's page: a learner has caught up."""
    LEAVING = "leaving"
    """An operator asked an instance to leave, or cancelled the request."""
    EXPIRED = "expired"
    """``scale.down.timeout.ms`` has expired."""
    FOLLOW_UP = "follow-up"
    """A member revoked partitions for other members."""
    PROBING = "probing"
    """KIP-441: a probing rebalance."""
    OTHER = "other"
    """Any other reason, such as changed topics, a restarted leader or a failed write of an assignment."""


_REASONS: Mapping[str, Reason] = {
    Rejoin.READY: Reason.READY,
    Rejoin.LEAVING: Reason.LEAVING,
    Rejoin.STAYING: Reason.LEAVING,
    Rejoin.EXPIRED: Reason.EXPIRED,
    Rejoin.REVOKED: Reason.FOLLOW_UP,
    Rejoin.PROBING: Reason.PROBING,
}


class _Episode:
    __slots__ = (
        *("back_and_forth", "balanced_us", "began_us", "before", "empty", "event_us", "first", "min_moves", "moved"),
        *("owners", "planned", "reasons", "rested_us"),
    )

    def __init__(self, at_us: int, before: Mapping[str, str]) -> None:
        self.began_us = self.event_us = at_us
        """Start of the episode, and time of its last event."""
        self.planned: dict[str, None] = {}
        """The planned actions among the events of the episode."""
        self.first = ""
        """The first event of the episode, in words."""
        self.before = dict(before)
        """Task -> its process at the start of the episode."""
        self.balanced_us: int | None = None
        self.rested_us: int | None = None
        """Start of the current rest; None without rest."""
        self.reasons: Counter[str] = Counter()
        self.empty = 0
        self.moved = 0
        self.min_moves = 0
        self.back_and_forth = 0
        self.owners: dict[str, list[str]] = {task: [process] for task, process in before.items()}

    def event(self, at_us: int, fact: object) -> None:
        """Note an event: the application has to reach balance and rest after the event."""
        self.event_us, self.balanced_us, self.rested_us = at_us, None, None
        self.first = self.first or _in_words(fact)
        if isinstance(fact, FaultApplied):
            self.planned[fact.text] = None

    @property
    def why(self) -> str:
        """A short description of the episode's events."""
        return "; ".join(self.planned) or self.first


class _Application:
    __slots__ = ("decided", "episode", "episodes", "formed", "last", "layout", "preparing", "taken")

    def __init__(self) -> None:
        self.formed = False
        self.episode: _Episode | None = None
        self.episodes: list[_Episode] = []
        self.layout: dict[str, str] = {}
        """Task -> last process that owned the task."""
        self.taken: dict[str, bool] = {}
        """Task without an owner -> whether its last owner took part in the rebalance that took it."""
        self.decided: TasksDecided | None = None
        """The leader's last decision, while the decision has not taken effect."""
        self.last: TasksDecided | None = None
        """The last decision that took effect."""
        self.preparing = Reason.OTHER
        """The reason for the next generation."""


class TaskMoves:
    """Counts the episodes of all applications."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._of: dict[GroupId, _Application] = {}
        self._why: dict[MemberId, str] = {}
        """Member -> the reason for the member's last join."""
        self._arrived: tuple[int, ActorName] | None = None
        """(step, coordinator) of the last fact ``MemberAdded``."""
        self._removed: tuple[int, ActorName] | None = None
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            HostStarted: self._event,
            HostDown: self._host_down,
            HostPaused: self._event,
            HostResumed: self._event,
            TopicGrown: self._event,
            FaultApplied: self._event,
            FaultEnded: self._event,
            Healed: self._event,
            MemberAdded: self._added,
            MemberRemoved: self._member_removed,
            MemberBecame: self._member_became,
            GroupBecame: self._became,
            JoinPhaseCompleted: self._completed,
            TasksDecided: self._decided,
            TaskBecame: self._task_became,
            InstanceStarted: self._event,
            InstanceLeaving: self._look,
            InstanceReleased: self._look,
        }

    def finish(self, at_us: int) -> None:
        """End unfinished episodes at the end of the run."""
        for name, mine in self._of.items():
            if mine.episode is not None:
                self._close(name, mine)

    def episodes(self, application: GroupId) -> tuple[EpisodeFigures, ...]:
        """The application's episodes in order of time."""
        mine = self._of.get(application)
        return tuple(_told(episode) for episode in mine.episodes) if mine is not None else ()

    # --- events ------------------------------------------------------------------------------------------------

    def _host_down(self, seen: Seen, fact: HostDown) -> None:
        for application in self._panel.applications.all.values():
            instance = application.instances.get(fact.host)
            if instance is not None and instance.released:
                self._look(seen, fact)
                return
        self._event(seen, fact)

    def _event(self, seen: Seen, fact: Any) -> None:
        for name in self._panel.applications.all:
            mine = self._application(name)
            episode = mine.episode
            if episode is not None and episode.rested_us is not None and seen.at_us - episode.event_us > BURST_US:
                self._close(name, mine)
            if mine.formed and mine.episode is None:
                mine.episode = _Episode(seen.at_us, mine.layout)
            if mine.episode is not None:
                mine.episode.event(seen.at_us, fact)
        self._look(seen, fact)

    def _close(self, name: GroupId, mine: _Application) -> None:
        episode, mine.episode = mine.episode, None
        assert episode is not None
        if not episode.reasons and episode.rested_us == episode.event_us:
            return
        episode.min_moves = self._min_moves(self._panel.applications.of(name), episode.before, mine.layout)
        mine.episodes.append(episode)

    def _application(self, name: GroupId) -> _Application:
        mine = self._of.get(name)
        if mine is None:
            mine = self._of[name] = _Application()
        return mine

    # --- reasons -----------------------------------------------------------------------------------------------

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        self._arrived = (seen.seq, seen.actor)

    def _member_removed(self, seen: Seen, fact: MemberRemoved) -> None:
        self._removed = (seen.seq, seen.actor)

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new == MemberState.PREPARING.value:
            self._why[fact.member_id] = fact.why

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.group not in self._panel.applications.all or not self._panel.is_current(seen):
            return
        mine, here = self._application(fact.group), (seen.seq, seen.actor)
        if fact.new == PREPARING:
            if self._arrived == here:
                mine.preparing = Reason.JOINED
            elif self._removed == here:
                mine.preparing = Reason.GONE
            else:  # a note of the coordinator names the joining member
                told = next((self._why[word] for word in fact.why.split() if word in self._why), "")
                mine.preparing = _REASONS.get(told, Reason.OTHER)
        elif fact.new == STABLE and mine.decided is not None:
            decided, mine.decided = mine.decided, None
            self._becomes_theirs(mine, decided)
        self._look(seen, fact)

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        if fact.group not in self._panel.applications.all or not self._panel.is_current(seen):
            return
        mine = self._application(fact.group)
        mine.decided = None
        if mine.episode is not None and fact.members:
            mine.episode.reasons[mine.preparing] += 1
        mine.preparing = Reason.OTHER
        self._look(seen, fact)

    # --- decisions ---------------------------------------------------------------------------------------------

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        self._application(fact.application).decided = fact

    @staticmethod
    def _becomes_theirs(mine: _Application, decided: TasksDecided) -> None:
        last, mine.last = mine.last, decided
        said = {row.process for row in decided.said}
        given = {task: row.process for row in decided.given for task in row.assigned}
        for task in [task for task in mine.layout if task not in decided.tasks]:
            del mine.layout[task]
        episode = mine.episode
        if episode is not None and last is not None and _roles(last) == _roles(decided):
            episode.empty += 1
        for task in decided.tasks:
            before, new = mine.layout.get(task), given.get(task)
            if new is None:
                if before is not None:
                    mine.taken.setdefault(task, before in said)
                continue
            took_part = mine.taken.pop(task, False) or before in said
            if before not in (None, new) and episode is not None:
                owners = episode.owners.setdefault(task, [])
                if owners[-2:-1] == [new]:
                    episode.back_and_forth += 1
                owners.append(new)
                episode.moved += took_part
            mine.layout[task] = new

    def _min_moves(self, application: WatchedApplication, before: Mapping[str, str], now: Mapping[str, str]) -> int:
        there = {
            instance.started.process: (0 if instance.leaving or instance.released else instance.started.weight)
            for host, instance in application.instances.items()
            if self._panel.runs(host) or instance.released
        }
        loads = Counter(process for task, process in before.items() if task in now)
        weights = {process: weight for process, weight in there.items() if weight}
        if not weights:
            return 0
        fair = {process: Fraction(len(now) * weight, sum(weights.values())) for process, weight in weights.items()}
        quotas = {process: share.__floor__() for process, share in fair.items()}
        more = [process for process, share in fair.items() if share.denominator > 1]
        more.sort(key=lambda process: (loads[process] <= quotas[process], -fair[process] % 1, process))
        for process in more[: len(now) - sum(quotas.values())]:
            quotas[process] += 1
        return sum(max(0, loads[process] - quotas.get(process, 0)) for process in there)

    # --- balance and rest --------------------------------------------------------------------------------------

    def _look(self, seen: Seen, fact: object) -> None:
        for name, mine in self._of.items():
            if mine.episode is not None:
                self._look_at(seen, name, mine.episode, owners_too=True)
            elif not mine.formed:
                mine.formed = self._serves(name)

    def _task_became(self, seen: Seen, fact: TaskBecame) -> None:
        mine, watched = self._application(fact.application), self._panel.applications
        if not mine.formed:
            mine.formed = self._serves(fact.application)
        elif mine.episode is not None:
            changed = (fact.role == ACTIVE) != (watched.role_before == ACTIVE) or fact.state == CLOSED
            self._look_at(seen, fact.application, mine.episode, owners_too=changed)

    def _look_at(self, seen: Seen, name: GroupId, episode: _Episode, *, owners_too: bool) -> None:
        application = self._panel.applications.of(name)
        stable = self._is_stable(name)
        if stable and owners_too:
            if not is_balanced(self._panel, application):
                episode.balanced_us = None
            elif episode.balanced_us is None:
                episode.balanced_us = seen.at_us
        if not (stable and self._rests(application)):
            episode.rested_us = None
        elif episode.rested_us is None:
            episode.rested_us = seen.at_us

    def _is_stable(self, name: GroupId) -> bool:
        group = self._panel.groups.get(name)
        return group is not None and group.state == STABLE and group.loaded

    def _serves(self, name: GroupId) -> bool:
        """Whether every task of the application runs."""
        decided = self._panel.applications.of(name).decided
        copies = self._panel.applications.of(name).copies
        if decided is None or len(copies) < len(decided.tasks) or not self._is_stable(name):
            return False
        return bool(decided.tasks) and {copy.task for copy in copies.values() if copy.works}.issuperset(decided.tasks)

    def _rests(self, application: WatchedApplication) -> bool:
        return not application.unsettled and not at_work(application)


def _roles(decided: TasksDecided) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Process -> its tasks by role, for processes with tasks."""
    given = {row.process: (row.assigned, row.learning, row.standby) for row in decided.given}
    return {process: roles for process, roles in given.items() if any(roles)}


def _told(episode: _Episode) -> EpisodeFigures:
    return EpisodeFigures(
        why=episode.why,
        began_us=episode.began_us,
        last_event_us=episode.event_us,
        balanced_us=episode.balanced_us,
        rested_us=episode.rested_us,
        rebalances={str(reason): episode.reasons[reason] for reason in Reason if episode.reasons[reason]},
        empty=episode.empty,
        moved=episode.moved,
        min_moves=episode.min_moves,
        back_and_forth=episode.back_and_forth,
    )


_WORDS: Mapping[type, str] = {
    FaultApplied: "{0.text}",
    FaultEnded: "{0.kind} is over",
    HostStarted: "{0.host} starts",
    HostDown: "{0.host} goes down",
    HostPaused: "{0.host} is paused",
    HostResumed: "{0.host} resumes",
    TopicGrown: "{0.topic} grows",
    InstanceStarted: "{0.instance} starts",
}


def _in_words(fact: object) -> str:
    """A short description of an event."""
    return _WORDS.get(type(fact), "all is healed").format(fact)
