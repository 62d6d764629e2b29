"""What a scaling tool sees of Streams instances: how many tasks each works on, and how large their states are."""

from collections.abc import Iterable

from kemu.protocol.names import number_of
from kemu.protocol.notes.streams import TaskBecame


class TaskCounts:
    """Active tasks by host, as they are told."""

    def __init__(self) -> None:
        self._active: dict[str, dict[str, int]] = {}
        """Host -> task -> the end of its state."""

    def see(self, fact: TaskBecame) -> None:
        """Take a fact."""
        tasks = self._active.setdefault(fact.instance, {})
        if fact.role == "active" and fact.state in ("RESTORING", "RUNNING"):
            tasks[fact.task] = fact.position
        elif fact.state == "CLOSED" or fact.role != "active":
            tasks.pop(fact.task, None)

    def fewest_first(self, hosts: Iterable[str], leader: str) -> list[str]:
        """By active tasks, then by state, then the later named first; the leader's host last."""

        def order(host: str) -> tuple[bool, int, int, int]:
            tasks = self._active.get(host, {})
            return host == leader, len(tasks), sum(tasks.values()), -number_of(host)

        return sorted(hosts, key=order)
