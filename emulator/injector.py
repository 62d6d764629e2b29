"""Carries out a plan: does each entry at its time or when its trigger is seen, and knows which ones took effect."""

from collections.abc import Callable
from typing import Any

from emulator import facts, faults
from emulator.chance import Stream
from emulator.cluster import Cluster
from emulator.facts import Seen
from emulator.hosts import Condition, Host
from emulator.members import upgraded_to
from emulator.network import Packet, Rule
from emulator.network_rules import DuplicateRule, HoldRule, LossyRule, SlowRule, SplitRule, said_api
from emulator.plan import At, Noted, Plan, Receives, Sends, When
from emulator.plan_text import describe_action
from protocol.commands import AnswerNext
from protocol.names import host_of
from protocol.notes import AnswerInjected

End = Callable[[], object]


class _Watch:
    """A trigger that still waits, and how many sightings it lacks."""

    def __init__(self, index: int, entry: When) -> None:
        self.index = index
        self.entry = entry
        self.left = max(1, entry.trigger.nth)


class Injector:
    """One run's plan. ``fired[i]`` counts what entry i did: packets it judged, or 1 for what happens once."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.plan = plan
        self.fired = [0] * len(plan)
        self._rules: dict[int, Rule] = {}
        self._endings: dict[int, tuple[str, End]] = {}
        self._injected: list[tuple[int, AnswerNext]] = []
        self._on_send: list[_Watch] = []
        self._on_arrival: list[_Watch] = []
        self._on_note: list[_Watch] = []

    def arm(self) -> None:
        """Put the plan on the agenda and begin to watch for its triggers."""
        for index, entry in enumerate(self.plan):
            if isinstance(entry, At):
                self.world.at(entry.at_us, self._doing(index, entry.action))
            elif isinstance(entry.trigger, Sends):
                self._on_send.append(_Watch(index, entry))
            elif isinstance(entry.trigger, Receives):
                self._on_arrival.append(_Watch(index, entry))
            else:
                self._on_note.append(_Watch(index, entry))
        if self._on_send:
            self.world.watch_sends = self._sent
        if self._on_arrival:
            self.world.network.watch_arrivals = self._arrived

    def heal(self) -> None:
        """End everything that lasts; stop watching; start what is to run."""
        self._on_send, self._on_arrival, self._on_note = [], [], []
        self._end_all()
        self.cluster.revive()

    def counts(self) -> list[int]:
        """How often each entry of the plan took effect; 0 is a fault that never fired."""
        for index, rule in self._rules.items():
            self.fired[index] = rule.hits
        return list(self.fired)

    # --- triggers ----------------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Notes that some entry of the plan waits for, and answers to injected errors."""
        notes = {
            entry.trigger.note for entry in self.plan if isinstance(entry, When) and isinstance(entry.trigger, Noted)
        }
        return kind is AnswerInjected or kind.__name__ in notes

    def see(self, seen: Seen) -> None:
        """Look whether a note triggers something, or shows that an injected error was answered."""
        fact = seen.fact
        if self._injected and type(fact) is AnswerInjected:
            self._count_injected(fact)
        for watch in list(self._on_note):
            trigger = watch.entry.trigger
            assert isinstance(trigger, Noted)
            if type(fact).__name__ == trigger.note and all(
                _plain(getattr(fact, name)) == wanted for name, wanted in trigger.fields
            ):
                self._sighted(watch, self._on_note)

    def _sent(self, packet: Packet, message: Any) -> None:
        for watch in list(self._on_send):
            if self._matches(watch, packet, message):
                self._sighted(watch, self._on_send)

    def _arrived(self, packet: Packet, message: Any) -> None:
        for watch in list(self._on_arrival):
            if self._matches(watch, packet, message):
                self._sighted(watch, self._on_arrival)

    def _matches(self, watch: _Watch, packet: Packet, message: Any) -> bool:
        trigger = watch.entry.trigger
        assert not isinstance(trigger, Noted)
        if said_api(packet) != trigger.api:
            return False
        if trigger.generation is not None and getattr(message, "generation", None) != trigger.generation:
            return False
        by, to = (packet.receiver, packet.sender) if isinstance(trigger, Receives) else (packet.sender, packet.receiver)
        return self._is(trigger.by, by) and self._is(trigger.to, to)

    def _is(self, wanted: str, actor: str) -> bool:
        return not wanted or self.cluster.resolve(wanted) == host_of(actor)

    def _sighted(self, watch: _Watch, among: list[_Watch]) -> None:
        watch.left -= 1
        if watch.left == 0:
            among.remove(watch)
            self.world.at(self.world.now_us + watch.entry.after_us, self._doing(watch.index, watch.entry.action))

    # --- doing -------------------------------------------------------------------------------------------------

    def _doing(self, index: int, action: faults.Action) -> Callable[[], None]:
        def do() -> None:
            self._do(index, action)

        return do

    def _do(self, index: int, action: faults.Action) -> None:
        kind = faults.kind_of(action)
        outcome = _APPLY[type(action)](self, index, action)
        effective = outcome is None
        text = describe_action(action) + ("" if effective else f": no effect, {outcome}")
        if effective and index not in self._rules and not isinstance(action, faults.ErrorReply):
            self.fired[index] += 1
        self.world.report(facts.FaultApplied(index=index, kind=kind, text=text))

    def _lasts(self, index: int, action: faults.Action, for_us: int, end: End) -> None:
        self._endings[index] = (faults.kind_of(action), end)
        if for_us:
            self.world.at(self.world.now_us + for_us, lambda: self._end(index))

    def _end(self, index: int) -> None:
        ending = self._endings.pop(index, None)
        if ending is not None:
            kind, end = ending
            end()
            self.world.report(facts.FaultEnded(index=index, kind=kind))

    def _end_all(self) -> None:
        for index in list(self._endings):
            self._end(index)

    def _install(self, index: int, action: faults.Action, for_us: int, rule: Rule) -> None:
        self._rules[index] = rule
        self.world.network.install(rule)
        self._lasts(index, action, for_us, lambda: self.world.network.remove(rule))

    def _host(self, name: str) -> Host | str:
        """The host, or why there is none."""
        resolved = self.cluster.resolve(name)
        host = self.world.hosts.get(resolved) if resolved else None
        return host if host is not None else f"there is no {name} now"

    def _chance(self, index: int) -> Stream:
        return Stream(self.world.seed, f"fault {index}")

    def _count_injected(self, fact: AnswerInjected) -> None:
        for position, (index, command) in enumerate(self._injected):
            if command.api == fact.api and command.error == fact.error and command.sender in ("", fact.sender):
                self.fired[index] += 1
                del self._injected[position]
                return


def _plain(given: Any) -> Any:
    return given.name if hasattr(given, "name") and hasattr(given, "value") else given


Outcome = str | None
"""None: it took effect. A text: why not."""


def _take_down(injector: Injector, name: str, how: Condition) -> Host | str:
    host = injector._host(name)
    if isinstance(host, str):
        return host
    if not host.running:
        return f"{host.name} is down already"
    injector.world.take_down(host, how)
    return host


def _crash(injector: Injector, index: int, action: faults.Crash) -> Outcome:
    how = Condition.SILENT if action.mode == "power" else Condition.CRASHED
    host = _take_down(injector, action.host, how)
    if isinstance(host, str):
        return host
    if action.for_us:
        injector._lasts(index, action, action.for_us, lambda: injector.cluster.start(host.name))
    return None


def _restart(injector: Injector, index: int, action: faults.Restart) -> Outcome:
    host = injector._host(action.host)
    if isinstance(host, str):
        return host
    if host.running:
        injector.world.take_down(host, Condition.SILENT)
    injector.world.start(host, keep_disk=action.keep_disk)
    return None


def _pause(injector: Injector, index: int, action: faults.Pause) -> Outcome:
    host = injector._host(action.host)
    if isinstance(host, str):
        return host
    if host.condition is not Condition.UP:
        return f"{host.name} does not run"
    life = host.life
    injector.world.pause(host)

    def resume() -> None:
        if host.life == life:
            injector.world.resume(host)

    injector._lasts(index, action, action.for_us, resume)
    return None


def _drift(injector: Injector, index: int, action: faults.ClockDrift) -> Outcome:
    host = injector._host(action.host)
    if isinstance(host, str):
        return host
    host.drift(injector.world.now_us, action.ppm)
    injector._lasts(index, action, action.for_us, lambda: host.drift(injector.world.now_us, 0))
    return None


def _lose_tail(injector: Injector, index: int, action: faults.LoseDiskTail) -> Outcome:
    host = _take_down(injector, action.host, Condition.SILENT)
    if isinstance(host, str):
        return host
    for log in [action.log] if action.log else sorted(host.disk.logs):
        lost = host.disk.lose_tail(log, action.records)
        if lost:
            injector.world.report(facts.DiskTailLost(host=host.name, log=log, records=lost))
    if action.for_us:
        injector._lasts(index, action, action.for_us, lambda: injector.cluster.start(host.name))
    return None


def _isolate(injector: Injector, index: int, action: faults.Isolate) -> Outcome:
    host = injector._host(action.host)
    if isinstance(host, str):
        return host
    injector._install(index, action, action.for_us, SplitRule((host.name,), (), one_way=False))
    return None


def _split(injector: Injector, index: int, action: faults.Split) -> Outcome:
    side = tuple(injector.cluster.resolve(name) for name in action.side)
    other = tuple(injector.cluster.resolve(name) for name in action.other)
    if not all((*side, *other)):
        return "a host of it does not exist now"
    injector._install(index, action, action.for_us, SplitRule(side, other, action.one_way))
    return None


def _way(injector: Injector, sender: str, receiver: str) -> tuple[str, str] | None:
    names = tuple(injector.cluster.resolve(name) if name else "" for name in (sender, receiver))
    missing = (sender and not names[0]) or (receiver and not names[1])
    return None if missing else (names[0], names[1])


def _slow(injector: Injector, index: int, action: faults.Slow) -> Outcome:
    way = _way(injector, action.sender, action.receiver)
    if way is None:
        return "its host does not exist now"
    rule = SlowRule(*way, action.add_us, action.jitter_us, injector._chance(index))
    injector._install(index, action, action.for_us, rule)
    return None


def _lossy(injector: Injector, index: int, action: faults.Lossy) -> Outcome:
    way = _way(injector, action.sender, action.receiver)
    if way is None:
        return "its host does not exist now"
    injector._install(index, action, action.for_us, LossyRule(*way, action.per_mille, injector._chance(index)))
    return None


def _hold(injector: Injector, index: int, action: faults.Hold) -> Outcome:
    way = _way(injector, action.sender, action.receiver)
    if way is None:
        return "its host does not exist now"
    injector._install(index, action, action.for_us, HoldRule(*way, action.api))
    return None


def _disconnect(injector: Injector, index: int, action: faults.Disconnect) -> Outcome:
    first, second = injector.cluster.resolve(action.a), injector.cluster.resolve(action.b)
    if not injector.world.network.break_between(first, second):
        return "they have no connection"
    return None


def _duplicate(injector: Injector, index: int, action: faults.Duplicate) -> Outcome:
    way = _way(injector, action.sender, "")
    if way is None:
        return "its host does not exist now"
    injector._install(index, action, 0, DuplicateRule(action.api, way[0], action.nth))
    return None


def _error_reply(injector: Injector, index: int, action: faults.ErrorReply) -> Outcome:
    way = _way(injector, action.sender, "")
    if way is None:
        return "its host does not exist now"
    command = AnswerNext(api=action.api, sender=way[0], nth=max(1, action.nth), error=action.error)
    injector._injected.append((index, command))
    injector.cluster.tell_servers(command)
    return None


def _heal(injector: Injector, index: int, action: faults.Heal) -> Outcome:
    injector._end_all()
    return None


def _start_host(injector: Injector, index: int, action: faults.StartHost) -> Outcome:
    host = injector._host(action.host)
    if isinstance(host, str):
        return host
    return None if injector.cluster.start(host.name) else f"{host.name} runs already"


def _close_host(injector: Injector, index: int, action: faults.CloseHost) -> Outcome:
    host = injector._host(action.host)
    if isinstance(host, str):
        return host
    return None if injector.cluster.close(host.name) else f"{host.name} is down already"


def _rolling(injector: Injector, index: int, action: faults.RollingRestart) -> Outcome:
    injector.cluster.rolling_restart(action.group, action.every_us, action.down_us, action.how)
    return None


def _upgrade(injector: Injector, index: int, action: faults.RollingUpgrade) -> Outcome:
    becomes = upgraded_to(action)
    hosts = tuple(injector.cluster.resolve(name) for name in action.hosts)
    if not all(hosts):
        return "a host of it does not exist now"
    injector.cluster.rolling_upgrade(action.group, action.every_us, action.down_us, action.how, becomes, hosts)
    return None


def _add(injector: Injector, index: int, action: faults.AddMembers) -> Outcome:
    injector.cluster.add_members(action.group, action.count)
    return None


def _remove(injector: Injector, index: int, action: faults.RemoveMembers) -> Outcome:
    return None if injector.cluster.remove_members(action.group, action.count) else "the group has no running member"


def _grow(injector: Injector, index: int, action: faults.GrowTopic) -> Outcome:
    return injector.cluster.grow_topic(action.topic, action.partitions)


def _rate(injector: Injector, index: int, action: faults.SetRateOf) -> Outcome:
    return injector.cluster.set_rate(action.topic, action.records_per_s)


def _move(injector: Injector, index: int, action: faults.MoveCoordinator) -> Outcome:
    to = injector.cluster.resolve(action.to) if action.to else ""
    return injector.cluster.move_coordinator(action.group, to)


def _kill(injector: Injector, index: int, action: faults.KillCoordinator) -> Outcome:
    name = injector.cluster.coordinator_of(action.group)
    host = _take_down(injector, name, Condition.SILENT) if name else "the group has no coordinator now"
    if isinstance(host, str):
        return host
    injector.cluster.expect_takeover(action.group)
    if action.for_us:
        injector._lasts(index, action, action.for_us, lambda: injector.cluster.start(host.name))
    return None


_APPLY: dict[type, Callable[[Injector, int, Any], Outcome]] = {
    faults.Crash: _crash,
    faults.Restart: _restart,
    faults.Pause: _pause,
    faults.ClockDrift: _drift,
    faults.LoseDiskTail: _lose_tail,
    faults.Isolate: _isolate,
    faults.Split: _split,
    faults.Slow: _slow,
    faults.Lossy: _lossy,
    faults.Hold: _hold,
    faults.Disconnect: _disconnect,
    faults.Duplicate: _duplicate,
    faults.ErrorReply: _error_reply,
    faults.Heal: _heal,
    faults.StartHost: _start_host,
    faults.CloseHost: _close_host,
    faults.RollingRestart: _rolling,
    faults.RollingUpgrade: _upgrade,
    faults.AddMembers: _add,
    faults.RemoveMembers: _remove,
    faults.GrowTopic: _grow,
    faults.SetRateOf: _rate,
    faults.MoveCoordinator: _move,
    faults.KillCoordinator: _kill,
}
"""What each action does. Every row of ``faults.ACTIONS`` has one here; a test holds the two tables together."""
