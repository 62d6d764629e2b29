"""Tasks of Streams applications: one owner each, moved only when paused or learned, nothing lost and nothing doubled.

Theory (KIP-429, page version 99, and what any task assignor must keep):

* I1: a task is not active and running on two instances at once, members of their group both. Who fell out of it may
  work on for a while: that is a zombie, and what it does twice is counted elsewhere.
* I2: a task with state that runs, and that its owner has not paused, does not go to another owner in one rebalance.
* I3: if a learner of a paused task is ready and stays, a ready learner of it becomes its owner.
* I4: nobody learns what it owns, nobody is leaving that learns, a task has one learner at most, an instance one role.
* I5: every task has an owner, or is taken from the one that had it for the rebalance that follows.
* I7: who is told to shut down is leaving and has nothing left.
* I8: what owners are told is being learned is what others learn.

I6 (a group left alone comes to rest) is liveness's, I9 (committed offsets never go back) is commits'.
"""

from collections import Counter

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.protocol.names import host_of
from kemu.protocol.notes.streams import TaskBecame, TasksDecided, TasksGiven, TasksSaid

At = tuple[str, str]
"""(application, task)"""


class Tasks(Checker):
    """See the module."""

    name = "tasks"

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[At, dict[str, str]] = {}
        """Active and running: host -> member id."""
        self.on = {
            TaskBecame: self._became,
            TasksDecided: self._decided,
            HostDown: self._gone,
            HostStarted: self._gone,
            HostPaused: self._gone,
            HostResumed: self._gone,
        }

    # --- I1 --------------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        at = fact.application, fact.task
        holders = self._running.setdefault(at, {})
        if fact.role != "active" or fact.state != "RUNNING":
            holders.pop(fact.instance, None)
            return
        group = self.panel.groups.get(fact.application)
        known = () if group is None else group.members
        for host in holders:
            members = [actor for actor in known if host_of(actor) == host]
            if host != fact.instance and members and not self.panel.hosts[host].paused:
                text = f"{fact.task} of {fact.application} runs on {fact.instance} and on {host}"
                self.violation(seen, "runs-twice", (fact.application, fact.task), text)
        holders[fact.instance] = fact.member_id

    def _gone(self, seen: Seen, fact: HostDown | HostStarted | HostPaused | HostResumed) -> None:
        """A host that stands still or stood still may be thrown out without knowing it yet."""
        for holders in self._running.values():
            holders.pop(fact.host, None)

    # --- a leader's decision ---------------------------------------------------------------------------------------

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        said = {row.process: row for row in fact.said}
        owners: dict[str, list[str]] = {}
        for row in fact.given:
            for task in row.assigned:
                owners.setdefault(task, []).append(row.process)
        self._owners(seen, fact, owners)
        self._moves(seen, fact, said, owners)
        self._copies(seen, fact, said, owners)
        for row in fact.given:
            if row.shutdown and (not said[row.process].leaving or row.assigned or row.learning):
                self._broken(seen, fact, "shut-down-early", "", f"{row.process} is told to shut down and has {row}")

    def _owners(self, seen: Seen, fact: TasksDecided, owners: dict[str, list[str]]) -> None:
        """I5, and no task with two owners."""
        taken = {task for row in fact.given for task in row.revoked}
        for task in fact.tasks:
            count = len(owners.get(task, ()))
            if count > 1:
                self._broken(seen, fact, "owned-twice", task, f"{task} is given to {owners[task]}")
            elif not count and task not in taken and any(task in (*row.assigned, *row.revoked) for row in fact.said):
                self._broken(seen, fact, "task-lost", task, f"{task} is given to nobody and taken from nobody")

    def _moves(self, seen: Seen, fact: TasksDecided, said: dict[str, TasksSaid], owners: dict[str, list[str]]) -> None:
        """I2 and I3."""
        for task in fact.stateful:
            keepers = [process for process, row in said.items() if task in row.assigned]
            new = owners.get(task, ())
            if len(keepers) == 1 and new and list(new) != keepers:
                text = f"{task} runs on {keepers[0]} and goes to {new[0]} without being paused"
                self._broken(seen, fact, "moved-while-running", task, text)
            ready = [process for process, row in said.items() if task in row.ready and not row.leaving]
            paused = any(task in row.revoked for row in said.values())
            if fact.learners and paused and not keepers and ready and not set(new) & set(ready):
                text = f"{task} is paused and ready on {ready}, and goes to {list(new) or 'nobody'}"
                self._broken(seen, fact, "ready-passed-over", task, text)

    def _copies(self, seen: Seen, fact: TasksDecided, said: dict[str, TasksSaid], owners: dict[str, list[str]]) -> None:
        """I4 and I8."""
        learners = Counter(task for row in fact.given for task in row.learning)
        marked = {task for row in fact.given for task in row.being_learned}
        for row in fact.given:
            self._roles(seen, fact, row)
            if row.learning and said[row.process].leaving:
                text = f"{row.process} is leaving and is to learn {', '.join(row.learning)}"
                self._broken(seen, fact, "learner-misplaced", row.learning[0], text)
        for task, count in learners.items():
            if count > 1:
                self._broken(seen, fact, "learner-misplaced", task, f"{task} is learned by {count} instances")
            if task in owners and task not in marked:
                text = f"{task} is learned, and its owner is not told"
                self._broken(seen, fact, "marks-differ", task, text)
        for task in sorted(marked - set(learners)):
            self._broken(seen, fact, "marks-differ", task, f"the owner of {task} is told of a learner; there is none")

    def _roles(self, seen: Seen, fact: TasksDecided, row: TasksGiven) -> None:
        counts = Counter((*row.assigned, *row.learning, *row.standby))
        for task, count in counts.items():
            if count > 1:
                text = f"{row.process} has {task} in {count} roles"
                self._broken(seen, fact, "learner-misplaced", task, text)

    def _broken(self, seen: Seen, fact: TasksDecided, kind: str, task: str, text: str) -> None:
        self.violation(seen, kind, (fact.application, task) if task else (fact.application,), text)
