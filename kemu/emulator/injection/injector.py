"""The injector carries out a plan: each entry at its time or on its trigger. The injector also counts the effects of
each entry.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kemu.emulator import facts
from kemu.emulator.draws import CALM_SET, Drawn, DrawSet
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.network import Packet, Rule
from kemu.emulator.engine.rules import SplitRule, said_api
from kemu.emulator.engine.world import World
from kemu.emulator.facts import Seen
from kemu.emulator.injection.ongoing import EntryStage, Ongoing
from kemu.emulator.injection.scope import links_hit
from kemu.emulator.plan.action import Action, kind_of
from kemu.emulator.plan.entries import At, Noted, Plan, Receives, Sends, Trigger, When, entry_to_dict
from kemu.emulator.plan.stage import Operators, Outcome
from kemu.emulator.scenario.away import CRASHED, CUT_OFF
from kemu.protocol.draws import DrawName
from kemu.protocol.names import host_of
from kemu.protocol.notes.groups import AnswerInjected
from kemu.protocol.notes.replication import StoreFaultHit

EXACT = DrawSet(CALM_SET)


class _Watch:
    """A trigger that has not fired, and the number of missing occurrences."""

    def __init__(self, trigger: Trigger, fire: Callable[[], object]) -> None:
        self.trigger = trigger
        self.fire = fire
        self.left = max(1, trigger.nth)


class Injector:
    """Carries out the plan of a run, and counts the effects of each entry."""

    def __init__(self, world: World, cluster: Operators, plan: Plan, draws: DrawSet = EXACT) -> None:
        self._draws = draws
        self.cluster = cluster
        self.world = world
        self.plan = plan
        self._ongoing = Ongoing(world, cluster, len(plan))
        self._cut: SplitRule | None = None
        """Rule that isolates the hosts that stay faulty; None without such hosts."""
        self._on_send: list[_Watch] = []
        self._on_arrival: list[_Watch] = []
        self._on_note: list[_Watch] = []

    def arm(self) -> None:
        """Schedule the plan, and watch for its triggers."""
        for index, entry in enumerate(self.plan):
            if isinstance(entry, At):
                self.world.at(entry.at_us + self._later_us(index), self._doing(index, entry.action))
            else:
                self.watch(entry.trigger, self._firing(index, entry))

    def watch(self, trigger: Trigger, fire: Callable[[], object]) -> Callable[[], None]:
        """Call a function once, in the step that shows the trigger; return a function that ends the watch."""
        watch = _Watch(trigger, fire)
        if isinstance(trigger, Sends):
            among, self.world.watch_sends = self._on_send, self._sent
        elif isinstance(trigger, Receives):
            among, self.world.network.watch_arrivals = self._on_arrival, self._arrived
        else:
            among = self._on_note
            self.world.watch_anew()
        among.append(watch)

        def forget() -> None:
            if watch in among:
                among.remove(watch)

        return forget

    def order(self, action: Action) -> Outcome:
        """Carry out an action now and append it to the plan; return None, or the reason of a refusal."""
        entry = At(at_us=self.world.now_us, action=action)
        self.plan = (*self.plan, entry)
        self._ongoing.fired.append(0)
        import json  # late: only orders to a live run need it

        self.world.report(facts.OrderGiven(entry=json.dumps(entry_to_dict(entry))))
        return self._do(len(self.plan) - 1, action)

    def end(self, index: int) -> None:
        """End the fault of an entry, if it lasts."""
        self._ongoing.end(index)

    def rule_of(self, index: int) -> Rule | None:
        """Return the network rule that an entry installed; None for an entry without a rule."""
        return self._ongoing.rules.get(index)

    def heal(self) -> None:
        """End all faults, ignore further triggers, and start every broker."""
        self._on_send, self._on_arrival, self._on_note = [], [], []
        self._ongoing.end_all()
        self.cluster.revive()

    def heal_core(self, away: Sequence[str], how: str) -> None:
        """Heal all hosts except ``away``, which stay down or faulty as ``how`` says."""
        world = self.world
        self.cluster.keep_away(away)
        self.heal()
        left = [world.hosts[name] for name in away if world.hosts[name].running]
        for host in left if how != CUT_OFF else ():
            if how == CRASHED:
                world.take_down(host, Condition.SILENT)
            else:
                world.pause(host)
        if left and how == CUT_OFF:
            self._cut_off(tuple(host.name for host in left))

    def recall(self, names: Sequence[str], away: Sequence[str]) -> None:
        """Heal these hosts, too; the hosts in ``away`` stay faulty."""
        world = self.world
        self.cluster.keep_away(away)
        if self._cut is not None:
            self._cut_off(tuple(name for name in away if world.hosts[name].running))
        for name in names:
            world.resume(world.hosts[name])
            self.cluster.start(name)

    def _cut_off(self, names: tuple[str, ...]) -> None:
        """Isolate exactly these hosts from all other hosts."""
        before, self._cut = self._cut, SplitRule(names, (), one_way=False)
        self.world.network.install(self._cut)
        if before is not None:
            self.world.network.remove(before)

    def counts(self) -> list[int]:
        """Return the number of effects of each entry; 0 for a fault that never took effect."""
        return self._ongoing.counts()

    def parts(self, index: int) -> tuple[int, int]:
        """Return (finished parts, parts) of an entry such as a rolling restart; (0, 0) for entries without parts."""
        done, count = self._ongoing.parts.get(index, (0, 0))
        return done, count

    # --- triggers ----------------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Whether a fact of this type may trigger an entry, or show an effect of an entry."""
        notes = {watch.trigger.note for watch in self._on_note if isinstance(watch.trigger, Noted)}
        return kind in (AnswerInjected, StoreFaultHit) or kind.__name__ in notes

    def see(self, seen: Seen) -> None:
        """Carry out the entries that a fact triggers, and count the effects that the fact shows."""
        fact = seen.fact
        if type(fact) is AnswerInjected:
            self._ongoing.count_injected(fact)
        elif type(fact) is StoreFaultHit:
            self._ongoing.count_hit(fact)
        for watch in list(self._on_note):
            trigger = watch.trigger
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
        trigger = watch.trigger
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
            watch.fire()

    def _firing(self, index: int, entry: When) -> Callable[[], None]:
        def fire() -> None:
            after_us = entry.after_us + self._later_us(index)
            self.world.at(self.world.now_us + after_us, self._doing(index, entry.action))

        return fire

    # --- doing -------------------------------------------------------------------------------------------------

    def _later_us(self, index: int) -> int:
        """Return the drawn delay of an entry in us: from the entry's jitter, or from the draw for all entries."""
        draws, jitter_us = self._draws, self.plan[index].jitter_us
        if jitter_us:
            draws = DrawSet(draws.name, ((DrawName.PLAN_JITTER.value, f"uniform 0us {jitter_us}us"),))
        return Drawn(self.world.choices, draws, f"line {index}").us(DrawName.PLAN_JITTER, 0)

    def _doing(self, index: int, action: Action) -> Callable[[], None]:
        def do() -> None:
            self._do(index, action)

        return do

    def _do(self, index: int, action: Action) -> Outcome:
        kind = kind_of(action)
        outcome = action.apply(EntryStage(self._ongoing, index, kind))
        text = action.words()
        if outcome is None:
            self._ongoing.count_done(index)
        else:
            text += f": no effect, {outcome}"
        links = links_hit(action, self.cluster) if outcome is None else ()
        lasts = self._ongoing.lasts_now(index)
        self.world.report(facts.FaultApplied(index=index, kind=kind, text=text, links=links, lasts=lasts))
        return outcome


def _plain(given: Any) -> Any:
    return given.name if hasattr(given, "name") and hasattr(given, "value") else given
