"""The base class of all checkers: an observer of facts that reports violations of a rule.

A checker reads owners, leaders and running hosts from the panel (``emulator.watching.panel``). The same checker runs
online, over a trace file, and inside Spark. The checker sees every fact once and in order, keeps only its own state,
and is cheap per fact. A handler marked with ``facts.only_news`` does not see facts that only continue an account of the
panel, because these facts would repeat its last judgement. The method ``finish`` judges rules about the whole run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.facts import Handler, Seen, is_of_the_wire, kind_of, once, only_news, take_many_of, takes_only_news
from kemu.emulator.findings import STAYS_DEGRADED, Loss, Unmended, Violation
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.settings import Settings
from kemu.protocol.names import is_real_client

NEVER_US = 1 << 62
_WIRE = (Send, Received, Hangup, LinkDown)
"""Facts of the wire; their first field is the other end of the connection."""
MAX_VIOLATIONS = 100
"""Maximum number of violations per checker and run. A machine with a basic defect breaks a rule at every step, and the
first cases are enough."""


class Checker:
    """Base class of all checkers. A subclass fills ``on``: type of a fact -> method that takes the fact."""

    name = ""
    """The checker's key in ``CHECKERS``."""
    kinds: tuple[str, ...] = ()
    """The kinds of the checker's violations."""
    unknown_of_real_clients: str = ""
    """The unknown facts of real clients (``kemu serve``), for which the checker skips all their facts. "" for a
    checker that judges them by derived facts (``actors.clients.real_client``), or judges no client."""
    skips_real_clients = False
    """Whether real clients may join the run, so that their facts are skipped."""
    panel: Panel
    """The shared state that the checker reads. The panel takes each fact before the checker."""

    def __init__(self) -> None:
        self.consumer_protocol_groups: set[str] = set()
        """The groups of the run that have the consumer protocol (KIP-848) at some time. Groups that real clients join
        are added.
        """
        self.violations: list[Violation] = []
        self.losses: list[Loss] = []
        """Allowed losses that happened."""
        self.unmended: list[Unmended] = []
        """Conditions that Kafka itself never ends."""
        self.suppressed = 0
        """Number of violations beyond the first ``MAX_VIOLATIONS``."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {}
        self.every: Handler | None = None
        """A handler of every fact, called before the method for the fact's type; None without such a handler."""
        self.parts: list[object] = []
        """Objects that take facts for this checker (``shown_to``)."""
        self.looks_us = NEVER_US
        """``look`` is due at this time; the clock calls it before the panel takes the next fact."""
        self.clock: Clock | None = None
        """The clock that calls ``look``; None while the checker calls its own methods."""

    def shown_to(self, on: Mapping[type, Callable[[Seen, Any], None]]) -> None:
        """Show facts of these types to a part of the checker, before the checker takes the facts."""
        for kind, takes in on.items():
            part = getattr(takes, "__self__", self)
            if not any(part is each for each in (self, *self.parts)):
                self.parts.append(part)
            own = self.on.get(kind)
            self.on[kind] = takes if own is None else _both(takes, own)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls()

    def at_rest(self) -> Self:
        """Switch off and return the checker, because no event that the checker judges can happen in the run."""
        self.on, self.every, self.looks_us = {}, None, NEVER_US
        return self

    def look(self, seen: Seen) -> None:
        """Judge rules about elapsed time, and set ``looks_us`` to the time of the next look."""
        raise NotImplementedError

    def look_at(self, us: int) -> None:
        """Set the time of the next look; the new time replaces the former time."""
        self.looks_us = us
        if self.clock is not None:
            self.clock.looks_us = min(self.clock.looks_us, us)

    def _time_passes(self, seen: Seen, _: Any) -> None:
        if seen.at_us >= self.looks_us:
            self.look(seen)

    def attach(self, panel: Panel) -> None:
        """Set the panel that the checker reads. The panel must see each fact before the checker."""
        self.panel = panel

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a type (``facts.handlers_of``). A subclass with its own ``see`` gets all facts."""
        shown_whole = type(self).see is not Checker.see and not is_of_the_wire(kind)
        return (self._shown,) if shown_whole else self.takers_of(kind)

    def takers_of(self, kind: type) -> tuple[Handler, ...]:
        """The methods that take facts of a kind."""
        own, every = self.on.get(kind), self.every
        if self.skips_real_clients and self.unknown_of_real_clients:
            own, every = _but_of_real_clients(own), _but_of_real_clients(every)
        if is_of_the_wire(kind):
            return () if own is None else (own,)
        looks = self._time_passes if self.clock is None and self.looks else None
        return tuple([handler for handler in (looks, every, own) if handler is not None])

    def _shown(self, seen: Seen, _: Any) -> None:
        self.see(seen)

    def see(self, seen: Seen) -> None:
        """Show one fact to the methods for its type."""
        for handler in self.takers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    @property
    def looks(self) -> bool:
        """Whether the checker has a ``look``."""
        return bool(self.on) and type(self).look is not Checker.look

    @property
    def satisfied(self) -> bool:
        """Whether no required event is missing. A run may end early when all checkers are satisfied."""
        return True

    @property
    def judges_at_us(self) -> int | None:
        """Latest time at which required events are judged, in us; None if unknown. A run lasts at least until this
        time.
        """
        return None

    def finish(self, at_us: int) -> None:
        """Judge the rules about the whole run, which ended at this time of the world."""

    def stays_degraded(self, at_us: int, what: str, why: str, text: str) -> None:
        """Report a condition that did not end, for a reason in ``STAYS_DEGRADED``."""
        assert why in STAYS_DEGRADED, f"no reason: {why}"
        self.unmended.append(Unmended(at_us, what, why, text))

    def violation(self, seen: Seen, kind: str, entities: tuple[str, ...], text: str, *, liveness: bool = False) -> None:
        """Report a violation with one of the checker's ``kinds``; scenarios may expect a kind."""
        assert not self.kinds or kind in self.kinds, f"{self.name} has no kind {kind}"
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(self.name, seen.at_us, seen.seq, entities, text, liveness, kind))
        else:
            self.suppressed += 1


class Clock:
    """Calls ``look`` of each checker whose look is due, with one comparison per fact.

    Nothing changes between two facts. A look that became due since the last fact is called before the panel takes the
    next fact, so the look sees everything as it was. If several looks of a checker became due, the first and the last
    are enough: the first starts clocks, and the last reads them.
    """

    def __init__(self, checkers: Sequence[Checker], panel: Panel) -> None:
        self._checkers = [checker for checker in checkers if checker.looks]
        self._panel = panel
        for checker in self._checkers:
            checker.clock = self
        self.looks_us = 0

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a type (``facts.handlers_of``)."""
        return () if is_of_the_wire(kind) or not self._checkers else (self._time_passes,)

    def see(self, seen: Seen) -> None:
        """Call ``look`` of each checker whose look is due."""
        for handler in self.handlers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    @once
    @only_news
    def _time_passes(self, seen: Seen, _: Any) -> None:
        at_us, last = seen.at_us, self._panel.now
        if at_us >= self.looks_us:
            for checker in self._checkers:
                if last is not None and checker.looks_us < at_us:
                    checker.look(last._replace(at_us=max(checker.looks_us, last.at_us)))
                if at_us >= checker.looks_us:
                    checker.look((last or seen)._replace(at_us=at_us))
            self.looks_us = min(checker.looks_us for checker in self._checkers)


def _but_of_real_clients(handler: Handler | None) -> Handler | None:
    if handler is None:
        return None

    def take(seen: Seen, fact: Any) -> None:
        is_of_the_real = is_real_client(seen.actor) or (isinstance(fact, _WIRE) and is_real_client(fact[0]))
        if not is_of_the_real:
            handler(seen, fact)

    take_many = take_many_of(handler)
    if take_many is not None:

        def take_all(seen: Seen, facts: Sequence[Any]) -> None:
            if not is_real_client(seen.actor):
                take_many(seen, facts)

        take.__dict__["take_many"] = take_all
    return only_news(take) if takes_only_news(handler) else take


def _both(first: Callable[[Seen, Any], None], second: Callable[[Seen, Any], None]) -> Callable[[Seen, Any], None]:
    def take(seen: Seen, fact: Any) -> None:
        first(seen, fact)
        second(seen, fact)

    return take
