"""What a checker is: an observer of facts that says what must not have happened.

It reads who owns, runs and leads off the panel (``emulator.watching.panel``). The same object runs online, over a trace
file afterwards, and inside Spark. It sees every fact once, in order, keeps only what it needs, and is cheap per fact;
what needs the whole run is said in ``finish``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import Handler, Seen, is_of_the_wire, kind_of
from kemu.emulator.findings import KINDS, STAYS_SO, Loss, Unmended, Violation
from kemu.emulator.watching.panel import Panel

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

    def shown_to(self, on: Mapping[type, Callable[[Seen, Any], None]]) -> None:
        """A part of the checker takes these facts, too, before the checker does."""
        for kind, takes in on.items():
            own = self.on.get(kind)
            self.on[kind] = takes if own is None else _both(takes, own)

    def rest(self) -> None:
        """Nothing that it watches can happen in this run: it is shown nothing."""
        self.on, self.every = {}, None

    def attach(self, panel: Panel) -> None:
        """Read this panel; whoever shows facts to the checker shows them to the panel before."""
        self.panel = panel

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """What takes facts of a type (``facts.handlers_of``); a subclass with its own ``see`` is shown all."""
        if is_of_the_wire(kind):
            return (self.on[kind],) if kind in self.on else ()
        if type(self).see is not Checker.see:
            return (self._shown,)
        return tuple([handler for handler in (self.every, self.on.get(kind)) if handler is not None])

    def _shown(self, seen: Seen, _: Any) -> None:
        self.see(seen)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        kind = kind_of(seen.fact)
        for handler in (None if is_of_the_wire(kind) else self.every, self.on.get(kind)):
            if handler is not None:
                handler(seen, seen.fact)

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

    def stays_so(self, at_us: int, what: str, why: str, text: str) -> None:
        """Say that something did not get well, for a reason of ``STAYS_SO``."""
        assert why in STAYS_SO, f"no reason: {why}"
        self.unmended.append(Unmended(at_us, what, why, text))

    def violation(self, seen: Seen, kind: str, entities: tuple[str, ...], text: str, *, liveness: bool = False) -> None:
        """Say that the rule is broken, and how (one of its ``KINDS``, which scenarios expect)."""
        assert kind in KINDS.get(self.name, (kind,)), f"{self.name} has no kind {kind}"
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(self.name, seen.at_us, seen.seq, entities, text, liveness, kind))
        else:
            self.suppressed += 1


def _both(first: Callable[[Seen, Any], None], second: Callable[[Seen, Any], None]) -> Callable[[Seen, Any], None]:
    def take(seen: Seen, fact: Any) -> None:
        first(seen, fact)
        second(seen, fact)

    return take
