"""What a scaling tool sees of Streams instances: how many tasks each works on, and how large their states are."""

from collections.abc import Iterable

from kemu.emulator.facts import HostDown
from kemu.protocol.names import number_of
from kemu.protocol.notes.streams import InstanceLeaving, TaskBecame


class TaskCounts:
    """Active tasks by host, and who was told to leave, as they are told."""

    SEEN = (TaskBecame, InstanceLeaving, HostDown)

    def __init__(self) -> None:
        self._active: dict[str, dict[str, int]] = {}
        """Host -> task -> the end of its state."""
        self._leaving: set[str] = set()

    def see(self, fact: object) -> None:
        """Take a fact."""
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
        """Whether it was told to leave already."""
        return host in self._leaving

    def fewest_first(self, hosts: Iterable[str], leader: str) -> list[str]:
        """Those that leave already, then by active tasks, by state, the later named first; the leader last."""

        def order(host: str) -> tuple[bool, bool, int, int, int]:
            tasks = self._active.get(host, {})
            return host not in self._leaving, host == leader, len(tasks), sum(tasks.values()), -number_of(host)

        return sorted(hosts, key=order)
