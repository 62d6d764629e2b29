"""Number and state size of each Streams instance's active tasks, as a scaling tool would measure them."""

from collections.abc import Iterable

from kemu.emulator.facts import HostDown
from kemu.protocol.names import number_of
from kemu.protocol.notes.streams import InstanceLeaving, TaskBecame


class TaskCounts:
    """Active tasks by host, and the hosts that were asked to leave."""

    SEEN = (TaskBecame, InstanceLeaving, HostDown)

    def __init__(self) -> None:
        self._active: dict[str, dict[str, int]] = {}
        """Host -> task -> changelog position of the task's state."""
        self._leaving: set[str] = set()

    def see(self, fact: object) -> None:
        """Note a fact about a task or an instance."""
        match fact:
            case TaskBecame():
                self._became(fact)
            case InstanceLeaving(instance=host, leaving=True):
                self._leaving.add(host)
            case InstanceLeaving(instance=host) | HostDown(host=host):
                self._leaving.discard(host)

    def _became(self, fact: TaskBecame) -> None:
        tasks = self._active.setdefault(fact.instance, {})
        if fact.role == "active" and fact.state in ("RESTORING", "RUNNING"):
            tasks[fact.task] = fact.position
        elif fact.state == "CLOSED" or fact.role != "active":
            tasks.pop(fact.task, None)

    def leaves(self, host: str) -> bool:
        """Whether an instance was asked to leave."""
        return host in self._leaving

    def fewest_first(self, hosts: Iterable[str], leader: str) -> list[str]:
        """Sort instances by (not leaving, leader, active tasks, state size, number descending): the first should leave
        first.
        """

        def order(host: str) -> tuple[bool, bool, int, int, int]:
            tasks = self._active.get(host, {})
            return host not in self._leaving, host == leader, len(tasks), sum(tasks.values()), -number_of(host)

        return sorted(hosts, key=order)
