"""What a checker is: an observer of facts that says what must not have happened.

It reads who owns, runs and leads off the panel (``emulator.watching.panel``). The same object runs online, over a trace
file afterwards, and inside Spark. It sees every fact once, in order, keeps only what it needs, and is cheap per fact;
what needs the whole run is said in ``finish``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kemu.emulator.facts import Handler, Seen, is_of_the_wire, kind_of
from kemu.emulator.findings import KINDS, STAYS_DEGRADED, Loss, Unmended, Violation
from kemu.emulator.watching.panel import Panel

NEVER_US = 1 << 62
MAX_VIOLATIONS = 100
"""Per checker and run: a machine broken at its root breaks its rule at every step; the first cases are enough."""


class Checker:
    """Base of all checkers; ``name`` is their row in ``CHECKERS``.

    A subclass fills ``on``: for each type of fact it wants, the method that takes it.
    """

    name = ""
    panel: Panel
    """What it reads: it has taken the fact that the checker is shown."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.losses: list[Loss] = []
        """What may be lost, and was."""
        self.unmended: list[Unmended] = []
        """What need not get well, and did not."""
        self.suppressed = 0
        """Violations beyond the first ``MAX_VIOLATIONS``."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {}
        self.every: Handler | None = None
        """What takes every fact, whatever its type, before the method of its type; None: nothing does."""
        self.parts: list[object] = []
        """Objects that take facts for this checker (``shown_to``)."""
        self.looks_us = NEVER_US
        """The first fact of this time or later is shown to ``look`` before it is shown to any checker."""
        self.clock: Clock | None = None
        """The judge's function that shows this checker a fact; None while the checker calls its own methods."""

    def shown_to(self, on: Mapping[type, Callable[[Seen, Any], None]]) -> None:
        """A part of the checker takes these facts, too, before the checker does."""
        for kind, takes in on.items():
            part = getattr(takes, "__self__", self)
            if not any(part is each for each in (self, *self.parts)):
                self.parts.append(part)
            own = self.on.get(kind)
            self.on[kind] = takes if own is None else _both(takes, own)

    def rest(self) -> None:
        """Nothing that it watches can happen in this run: it is shown nothing."""
        self.on, self.every, self.looks_us = {}, None, NEVER_US

    def look(self, seen: Seen) -> None:
        """Judge what only the time has brought, and say by ``looks_us`` when to look again."""
        raise NotImplementedError

    def look_at(self, us: int) -> None:
        """Look at this time, and not when it was to be."""
        self.looks_us = us
        if self.clock is not None:
            self.clock.looks_us = min(self.clock.looks_us, us)

    def _time_passes(self, seen: Seen, _: Any) -> None:
        if seen.at_us >= self.looks_us:
            self.look(seen)

    def attach(self, panel: Panel) -> None:
        """Read this panel; whoever shows facts to the checker shows them to the panel before."""
        self.panel = panel

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """What takes facts of a type (``facts.handlers_of``); a subclass with its own ``see`` is shown all."""
        shown_whole = type(self).see is not Checker.see and not is_of_the_wire(kind)
        return (self._shown,) if shown_whole else self.takers_of(kind)

    def takers_of(self, kind: type) -> tuple[Handler, ...]:
        """Which methods take facts of a kind."""
        own = self.on.get(kind)
        if is_of_the_wire(kind):
            return () if own is None else (own,)
        looks = self._time_passes if self.clock is None and self.looks else None
        return tuple([handler for handler in (looks, self.every, own) if handler is not None])

    def _shown(self, seen: Seen, _: Any) -> None:
        self.see(seen)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.takers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    @property
    def looks(self) -> bool:
        """Whether it ever looks."""
        return bool(self.on) and type(self).look is not Checker.look

    @property
    def satisfied(self) -> bool:
        """False while something good has yet to happen. A run may end early when all checkers are satisfied."""
        return True

    @property
    def judges_at_us(self) -> int | None:
        """When it says at the latest whether what is good came about, if that time is known; a run lasts until then."""
        return None

    def finish(self, at_us: int) -> None:
        """The run is over at this time of the world."""

    def stays_degraded(self, at_us: int, what: str, why: str, text: str) -> None:
        """Say that something did not get well, for a reason of ``STAYS_DEGRADED``."""
        assert why in STAYS_DEGRADED, f"no reason: {why}"
        self.unmended.append(Unmended(at_us, what, why, text))

    def violation(self, seen: Seen, kind: str, entities: tuple[str, ...], text: str, *, liveness: bool = False) -> None:
        """Say that the rule is broken, and how (one of its ``KINDS``, which scenarios expect)."""
        assert kind in KINDS.get(self.name, (kind,)), f"{self.name} has no kind {kind}"
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(self.name, seen.at_us, seen.seq, entities, text, liveness, kind))
        else:
            self.suppressed += 1


class Clock:
    """Has checkers look when it is time: with each fact one comparison, however many they are."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._checkers = [checker for checker in checkers if checker.looks]
        for checker in self._checkers:
            checker.clock = self
        self.looks_us = 0

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """What takes facts of a type (``facts.handlers_of``)."""
        return () if is_of_the_wire(kind) or not self._checkers else (self._time_passes,)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    def _time_passes(self, seen: Seen, _: Any) -> None:
        if seen.at_us >= self.looks_us:
            for checker in self._checkers:
                if seen.at_us >= checker.looks_us:
                    checker.look(seen)
            self.looks_us = min(checker.looks_us for checker in self._checkers)


def _both(first: Callable[[Seen, Any], None], second: Callable[[Seen, Any], None]) -> Callable[[Seen, Any], None]:
    def take(seen: Seen, fact: Any) -> None:
        first(seen, fact)
        second(seen, fact)

    return take
