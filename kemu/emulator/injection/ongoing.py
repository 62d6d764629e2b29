"""The lasting faults of a plan, their ends, and the number of effects of each entry."""

from collections.abc import Callable
from typing import TypeAlias

from kemu.emulator import facts
from kemu.emulator.chance import Stream
from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.engine.network import Rule
from kemu.emulator.engine.world import World
from kemu.emulator.plan.stage import Operators, Outcome
from kemu.protocol.commands import AnswerNext
from kemu.protocol.names import means
from kemu.protocol.notes.groups import AnswerInjected
from kemu.protocol.notes.replication import StoreFaultHit

End: TypeAlias = Callable[[], object]


class Ongoing:
    """The lasting faults of a plan. ``fired[i]`` is the number of effects of entry i, except for entries with a network
    rule, whose rule counts.
    """

    def __init__(self, world: World, cluster: Operators, entries: int) -> None:
        self.cluster = cluster
        self.world = world
        self.fired = [0] * entries
        self.rules: dict[int, Rule] = {}
        """Index of an entry -> network rule that the entry installed."""
        self._armed: set[int] = set()
        """Indexes of entries that arm a fault; a note shows when the fault takes effect."""
        self._injected: list[tuple[int, AnswerNext]] = []
        """(index of an entry, error to answer) for requests that have not arrived yet."""
        self.parts: dict[int, list[int]] = {}
        """Index of an entry with parts -> [finished parts, parts]."""
        self._endings: dict[int, tuple[str, End]] = {}
        self._put: dict[tuple[str, str], tuple[End, dict[int, End]]] = {}
        """(kind of entry, setting) -> (action that restores the setting, entry -> action that sets the setting)."""

    def counts(self) -> list[int]:
        """Return the number of effects of each entry of the plan."""
        return [self.rules[index].hits if index in self.rules else count for index, count in enumerate(self.fired)]

    def count_done(self, index: int) -> None:
        """Count an effect of an entry that was carried out, unless a later note will show the effect."""
        if index not in self.rules and index not in self._armed:
            self.fired[index] += 1

    def count_injected(self, fact: AnswerInjected) -> None:
        """Count an effect of the entry whose injected error a server has sent."""
        for position, (index, command) in enumerate(self._injected):
            if command.api == fact.api and command.error == fact.error and means(command.sender, fact.sender):
                self.fired[index] += 1
                del self._injected[position]
                return

    def count_hit(self, fact: StoreFaultHit) -> None:
        """Count an effect of the entry whose fault of the store took effect."""
        if fact.number >= 0:
            self.fired[fact.number] += 1

    # --- beginning and ending ----------------------------------------------------------------------------------

    def lasts(self, index: int, kind: str, for_us: int, end: End) -> None:
        """Schedule the end of a fault after ``for_us`` (0 for the end of all faults)."""
        self._endings[index] = (kind, end)
        if for_us:
            self.world.at(self.world.now_us + for_us, lambda: self.end(index))

    def lasts_now(self, index: int) -> bool:
        """Whether the fault of an entry lasts."""
        return index in self._endings

    def end(self, index: int) -> None:
        """End the fault of an entry, if it lasts."""
        ending = self._endings.pop(index, None)
        if ending is not None:
            kind, end = ending
            end()
            self.world.report(facts.FaultEnded(index=index, kind=kind))

    def end_all(self) -> None:
        """End all faults that last."""
        for index in list(self._endings):
            self.end(index)

    def puts(self, index: int, kind: str, what: str, put: End, back: End) -> Callable[[], None]:
        """Change a setting; see ``Stage.puts``."""
        before, lasting = self._put.setdefault((kind, what), (back, {}))
        lasting[index] = put
        put()

        def end() -> None:
            del lasting[index]
            next(reversed(lasting.values()), before)()
            if not lasting:
                del self._put[kind, what]

        return end

    def install(self, index: int, kind: str, for_us: int, rule: Rule) -> None:
        """Install a network rule; the rule's verdicts are the effects of the entry."""
        self.rules[index] = rule
        self.world.network.install(rule)
        self.lasts(index, kind, for_us, lambda: self.world.network.remove(rule))

    def inject(self, index: int, command: AnswerNext) -> None:
        """Let servers answer a request with an error."""
        self._armed.add(index)
        self._injected.append((index, command))
        self.cluster.tell_servers(command)

    def tell_store(self, index: int, command: object) -> Outcome:
        """Arm a fault of the store."""
        self._armed.add(index)
        return self.cluster.replicated.tell_store(command)


class EntryStage:
    """The ``emulator.plan.stage.Stage`` of an entry that is being carried out."""

    def __init__(self, ongoing: Ongoing, index: int, kind: str) -> None:
        self.world = ongoing.world
        self.cluster = ongoing.cluster
        self.index = index
        self._ongoing = ongoing
        self._kind = kind

    def host(self, name: str) -> Host | str:
        """Return the host with a name or role, or the reason of a refusal."""
        resolved = self.cluster.resolve(name)
        host = self.world.hosts.get(resolved) if resolved else None
        return host if host is not None else f"there is no {name} now"

    def take_down(self, name: str, how: Condition) -> Host | str:
        """End a host that runs or is starting; return the host, or the reason of a refusal."""
        host = self.host(name)
        if isinstance(host, str):
            return host
        if host.running:
            self.world.take_down(host, how)
        elif not self.cluster.not_started_after_all(host.name):
            return f"{host.name} is down already"
        return host

    def lasts(self, for_us: int, end: End) -> None:
        self._ongoing.lasts(self.index, self._kind, for_us, end)

    def puts(self, what: str, put: End, back: End) -> Callable[[], None]:
        return self._ongoing.puts(self.index, self._kind, what, put, back)

    def install(self, for_us: int, rule: Rule) -> None:
        self._ongoing.install(self.index, self._kind, for_us, rule)

    def end(self) -> None:
        """End the fault of this entry, if it lasts."""
        self._ongoing.end(self.index)

    def inject(self, command: AnswerNext) -> None:
        self._ongoing.inject(self.index, command)

    def tell_store(self, command: object) -> Outcome:
        return self._ongoing.tell_store(self.index, command)

    def parts(self, count: int) -> None:
        """Set the number of parts of this entry."""
        self._ongoing.parts.setdefault(self.index, [0, 0])[1] += count

    def part_done(self) -> None:
        """Count a finished part of this entry."""
        self._ongoing.parts[self.index][0] += 1

    def chance(self) -> Stream:
        """Return the random stream of this entry."""
        return self.world.choices.stream(f"fault {self.index}")

    def end_all(self) -> None:
        """End all faults that last."""
        self._ongoing.end_all()
