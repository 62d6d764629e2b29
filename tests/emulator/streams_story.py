"""Streams applications told by hand: the facts of a few instances, in seconds and few words."""

from collections.abc import Iterator, Mapping
from typing import Any

from kemu.emulator.checkers.tasks import Tasks
from kemu.emulator.facts import FaultApplied, HostStarted, RecordSizes, Seen
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberRemoved,
    RecordsAppended,
)
from kemu.protocol.notes.streams import (
    InstanceStarted,
    TaskBecame,
    TaskRestored,
    TasksDecided,
    TasksGiven,
    TasksSaid,
)

S = 1_000_000
APP, COORDINATOR = "app", "b0/coordinator"
BOUND_S = 60
Told = tuple[int, str, object]


class StreamsStory:
    """Facts of an application with one sub-topology, told in seconds."""

    def __init__(
        self,
        *,
        assignor: str = "learner",
        standbys: int = 0,
        imbalance: str = "",
        ready_lag: int = 0,
        probing_us: int = 0,
    ) -> None:
        self.told: list[Told] = [(0, "", RecordSizes(topics=(("log", 100),)))]
        self.generation = 0
        self.state = "Empty"
        self._settings = (assignor, standbys, imbalance, ready_lag)
        self._probing_us = probing_us
        self._states: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._ends: dict[str, int] = {}
        self._members: dict[str, None] = {}
        """The ids of the members in the group."""

    def say(self, at_s: float, actor: str, *facts: object) -> None:
        """An actor reports."""
        self.told += [(round(at_s * S), actor, fact) for fact in facts]
        for fact in facts:
            if isinstance(fact, MemberAdded):
                self._members[fact.member_id] = None
            elif isinstance(fact, MemberRemoved):
                self._members.pop(fact.member_id, None)
            elif isinstance(fact, GroupLoaded):
                self._members = dict.fromkeys(fact.members)

    def start(self, at_s: float, *hosts: str, weight: int = 1) -> None:
        """Hosts start, and their instances, whose threads are members at once."""
        assignor, standbys, imbalance, ready_lag = self._settings
        for host in hosts:
            self.say(at_s, "", HostStarted(host=host, life=1, kept_disk=True))
            started = InstanceStarted(
                application=APP,
                instance=host,
                process=host.upper(),
                assignor=assignor,
                threads=1,
                weight=weight,
                standbys=standbys,
                warmups=2,
                ready_lag=ready_lag,
                imbalance=imbalance,
                probing_us=self._probing_us,
                changelogs=("log",),
                sources=(("in",),),
            )
            self.say(at_s, host, started)
            self.say(
                at_s,
                COORDINATOR,
                MemberAdded(group=APP, member_id=f"{host}-id", client_id=f"{host}/t1", instance_id=None),
            )

    def prepare(self, at_s: float, why: str, *facts: object) -> None:
        """The coordinator prepares for a rebalance."""
        became = GroupBecame(group=APP, old=self.state, new="PreparingRebalance", generation=self.generation, why=why)
        self.say(at_s, COORDINATOR, *facts, became)
        self.state = "PreparingRebalance"

    def rejoin(self, at_s: float, host: str, why: str) -> None:
        """A member joins again for a reason of its own, and the coordinator hears of it 0.1 s later."""
        rejoins = MemberBecame(
            group=APP, member_id=f"{host}-id", old="STABLE", new="PREPARING_REBALANCE", generation=1, why=why
        )
        self.say(at_s, f"{host}/t1", rejoins)
        self.prepare(at_s + 0.1, f"Updating metadata for member {host}-id during {self.state}")

    def decide(
        self,
        at_s: float,
        rows: Mapping[str, str],
        tasks: str = "0 1 2 3",
        leaving: str = "",
        decided_after_s: float = 0,
    ) -> None:
        """A generation begins; its leader gives tasks ("0 1 | learn 2 | standby 3"), and the group is Stable."""
        self.generation += 1
        completed = JoinPhaseCompleted(
            group=APP,
            generation=self.generation,
            protocol="stream",
            leader="x",
            members=tuple(self._members),
        )
        self.say(at_s, COORDINATOR, completed)
        said, given = [], []
        learned = {task for text in rows.values() for kind, tasks in _parts(text) if kind == "learn" for task in tasks}
        for host, text in rows.items():
            parts = {"active": (), "learn": (), "standby": ()} | dict(_parts(text))
            said.append(
                TasksSaid(
                    process=host.upper(),
                    assigned=(),
                    revoked=(),
                    learning=(),
                    ready=(),
                    leaving=host in leaving.split(),
                )
            )
            given.append(
                TasksGiven(
                    process=host.upper(),
                    assigned=parts["active"],
                    revoked=(),
                    learning=parts["learn"],
                    being_learned=tuple(task for task in parts["active"] if task in learned),
                    standby=parts["standby"],
                    shutdown=False,
                )
            )
        names = _names(tasks)
        decided = TasksDecided(
            application=APP,
            instance=next(iter(rows)),
            tasks=names,
            stateful=names,
            said=tuple(said),
            given=tuple(given),
            size=0,
            fresh=False,
            learners=True,
        )
        at_s += decided_after_s
        self.say(at_s, next(iter(rows)), decided)
        stable = GroupBecame(group=APP, old="CompletingRebalance", new="Stable", generation=self.generation, why="done")
        self.say(at_s, COORDINATOR, stable)
        self.state = "Stable"

    def sync(self, at_s: float, host: str) -> None:
        """A thread has its answer to SyncGroup."""
        synced = MemberBecame(
            group=APP, member_id=f"{host}-id", old="COMPLETING_REBALANCE", new="STABLE", generation=1, why="synced"
        )
        self.say(at_s, f"{host}/t1", synced)

    def copy(self, at_s: float, host: str, task: str, role: str, *states: str, position: int = 0) -> None:
        """A copy of a task becomes this."""
        for state in states:
            key = (host, task, "t1")
            before = self._states.get(key, ("", ""))[1]
            became = TaskBecame(
                application=APP,
                instance=host,
                member_id=f"{host}-id",
                task=f"0_{task}",
                role=role,
                before=before,
                state=state,
                position=position,
                thread="t1",
            )
            self.say(at_s, host, became)
            self._states[key] = (role, "" if state == "CLOSED" else state)

    def start_over(self, host: str, task: str) -> None:
        """Nothing is left of a copy: its host was down."""
        self._states.pop((host, task, "t1"), None)

    def runs(self, at_s: float, **owners: str) -> None:
        """Tasks run, on these, for the first time."""
        for host, tasks in owners.items():
            for task in tasks.split():
                self.copy(at_s, host, task, "active", "CREATED", "RESTORING", "RUNNING")

    def read(self, at_s: float, host: str, task: str, role: str, first: int, last: int) -> None:
        """A copy applies records of its changelog."""
        restored = TaskRestored(
            application=APP, instance=host, task=f"0_{task}", role=role, first=first, last=last, thread="t1"
        )
        self.say(at_s, host, restored)

    def log_ends(self, at_s: float, task: str, end: int) -> None:
        """The changelog of a task has at least so many records."""
        before = self._ends.get(task, 0)
        if end > before:
            appended = RecordsAppended(topic="log", partition=int(task), base_offset=before, count=end - before)
            self.say(at_s, "b0", appended)
            self._ends[task] = end

    def plan(self, at_s: float, text: str) -> None:
        """An entry of the plan."""
        self.say(at_s, "", FaultApplied(index=0, kind="x", text=text))

    def seen(self) -> Iterator[Seen]:
        """The facts in order; what one actor says at one time is one step."""
        step, before = 0, (0, "")
        for at_us, actor, fact in sorted(self.told, key=lambda row: row[0]):
            step, before = step + ((at_us, actor) != before), (at_us, actor)
            yield Seen(step, at_us, actor, 1, fact)


def _names(text: str) -> tuple[str, ...]:
    return tuple(f"0_{task}" for task in text.split())


def _parts(text: str) -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for part in text.split("|"):
        words = part.split()
        kind = words.pop(0) if words and words[0] in ("learn", "standby") else "active"
        found.append((kind, _names(" ".join(words))))
    return found


def formed(**settings: Any) -> StreamsStory:
    """Two instances with two tasks each, running since second 2."""
    told = StreamsStory(**settings)
    told.start(0, "a", "b")
    told.prepare(0.5, "a-id joined")
    told.decide(1, {"a": "0 1", "b": "2 3"})
    told.runs(2, a="0 1", b="2 3")
    return told


def kinds(
    told: StreamsStory,
    until_s: float = 200,
    exactly_once: tuple[str, ...] = (),
    commit_us: Mapping[str, int] | None = None,
) -> list[str]:
    """What the checker of tasks finds."""
    panel, checker = Panel(), Tasks(BOUND_S * S, exactly_once, commit_us)
    checker.attach(panel)
    for seen in told.seen():
        panel.see(seen)
        for handler in checker.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)
    checker.finish(round(until_s * S))
    return [each.kind for each in checker.violations]
