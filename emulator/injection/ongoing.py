"""What a plan has begun: what lasts and how it ends, and how often each entry took effect."""

from collections.abc import Callable
from typing import TypeAlias

from kemu.emulator import facts
from kemu.emulator.chance import Stream
from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.engine.hosts import Host
from kemu.emulator.engine.network import Rule
from kemu.emulator.plan import actions as faults
from kemu.protocol.commands import AnswerNext
from kemu.protocol.notes.groups import AnswerInjected
from kemu.protocol.notes.replication import StoreFaultHit

End: TypeAlias = Callable[[], object]


class Ongoing:
    """``fired[i]`` counts what entry i of the plan did, but for rules of the network, which count themselves."""

    def __init__(self, cluster: Cluster, entries: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.fired = [0] * entries
        self.rules: dict[int, Rule] = {}
        """Entry -> the rule it installed."""
        self.injected: list[tuple[int, AnswerNext]] = []
        """(entry, the error to answer) of what was not answered yet."""
        self._endings: dict[int, tuple[str, End]] = {}

    def counts(self) -> list[int]:
        """How often each entry of the plan took effect."""
        return [self.rules[index].hits if index in self.rules else count for index, count in enumerate(self.fired)]

    def lasts(self, index: int, action: faults.Action, for_us: int, end: End) -> None:
        """It ends after ``for_us`` (0 = when all is healed), by doing this."""
        self._endings[index] = (faults.kind_of(action), end)
        if for_us:
            self.world.at(self.world.now_us + for_us, lambda: self.end(index))

    def end(self, index: int) -> None:
        """End what this entry began, if it still lasts."""
        ending = self._endings.pop(index, None)
        if ending is not None:
            kind, end = ending
            end()
            self.world.report(facts.FaultEnded(index=index, kind=kind))

    def end_all(self) -> None:
        """End everything that lasts."""
        for index in list(self._endings):
            self.end(index)

    def install(self, index: int, action: faults.Action, for_us: int, rule: Rule) -> None:
        """A rule of the network that lasts; what it judges counts."""
        self.rules[index] = rule
        self.world.network.install(rule)
        self.lasts(index, action, for_us, lambda: self.world.network.remove(rule))

    def host(self, name: str) -> Host | str:
        """The host, or why there is none."""
        resolved = self.cluster.resolve(name)
        host = self.world.hosts.get(resolved) if resolved else None
        return host if host is not None else f"there is no {name} now"

    def chance(self, index: int) -> Stream:
        """This entry's own stream."""
        return self.world.choices.stream(f"fault {index}")

    def count_injected(self, fact: AnswerInjected) -> None:
        """An injected error was answered: it counts for the entry that asked for it."""
        for position, (index, command) in enumerate(self.injected):
            if command.api == fact.api and command.error == fact.error and command.sender in ("", fact.sender):
                self.fired[index] += 1
                del self.injected[position]
                return

    def count_hit(self, fact: StoreFaultHit) -> None:
        """A fault told to the store took effect."""
        if fact.number >= 0:
            self.fired[fact.number] += 1
