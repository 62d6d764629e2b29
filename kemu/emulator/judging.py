"""What is made of a run's facts: a verdict, violations, losses and figures. The same live, over a trace, inside Spark,
and over facts that no world produced (recorded from real logs): ``judge`` takes any of them.
"""

from collections.abc import Iterable

from attrs import frozen

from kemu.emulator.checkers import make_checkers
from kemu.emulator.checkers.base import Checker, Clock
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.engine.raised import LIVELOCK, owner_among, raised_text
from kemu.emulator.facts import Handler, Seen, handlers_of, kind_of
from kemu.emulator.findings import MEMBER_FAILED, Loss, Unmended, Violation
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.metrics.metrics import Metrics
from kemu.emulator.scenario.expectations import UNMET, Expected, expectations, split
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.waiting_at_end import StillWaiting, WaitingAtEnd


@frozen
class Judgement:
    """What a run came to.

    ``verdict``: "holds", "violated" (something bad happened), "liveness" (something good did not happen in time),
    "livelock" (virtual time stood still) or "broken" (a machine, a checker or the user's code raised).
    ``violations``: in the order of time, the expected ones too,
    and one for each expectation that did not come true. ``unmended``: what did not get well, for reasons that are
    Kafka's own. ``reason``: why it does not hold, in a line; "" if it holds.
    ``did_not_work``: why its figures mean nothing, "" if they do (see ``_did_not_work``).
    """

    verdict: str
    violations: tuple[Violation, ...]
    losses: tuple[Loss, ...]
    figures: Figures
    unmended: tuple[Unmended, ...] = ()
    reason: str = ""
    did_not_work: str = ""
    broke: str = ""
    """What broke, a traceback behind its first line; "" if nothing did."""
    waiting: tuple[StillWaiting, ...] = ()
    """What still waits at the end, and for what."""


class Judging:
    """The panel, the checkers and the metrics of one run: show them every fact in order, then ``finish``.

    Args:
        checkers: fresh ones; they read the panel.
        expect: violations that make no verdict, and that are missed if they do not come (``scenario.expectations``).
        panel: one that others read, too; None: a new one.
    """

    def __init__(
        self, checkers: Iterable[Checker], *, expect: str | Iterable[Expected] = (), panel: Panel | None = None
    ) -> None:
        self.panel = Panel() if panel is None else panel
        self.checkers = tuple(checkers)
        for checker in self.checkers:
            checker.attach(self.panel)
        self._clock = Clock(self.checkers)
        self.metrics = Metrics(self.panel)
        self._waiting = WaitingAtEnd(self.panel)
        self._expect = expectations(expect)
        self._watching: dict[type, tuple[Handler, ...]] = {}

    @property
    def observers(self) -> "tuple[Panel | Clock | Checker | Metrics | WaitingAtEnd, ...]":
        """Who sees the facts, in this order."""
        return (self.panel, self._clock, *self.checkers, self.metrics, self._waiting)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        fact = seen.fact
        for handler in self._watchers_of(kind_of(fact)):
            handler(seen, fact)

    def wants(self, kind: type) -> bool:
        """Whether anybody watches facts of a kind: what ``facts_of`` asks for messages, which are in no note."""
        return bool(self._watchers_of(kind))

    def _watchers_of(self, kind: type) -> tuple[Handler, ...]:
        watching = self._watching.get(kind)
        if watching is None:
            watching = self._watching[kind] = handlers_of(self.observers, kind)
        return watching

    @property
    def well(self) -> bool:
        """Whether no checker still waits for something good; what cannot get well is watched to the end."""
        return not self.panel.unrecoverable and all(checker.satisfied for checker in self.checkers)

    def _is_demanded(self, violation: Violation) -> bool:
        """Whether it counts: what a core cannot have is not asked of it."""
        healed_us = self.panel.core_healed_us
        hopeless = self.panel.unrecoverable and healed_us is not None and violation.at_us >= healed_us
        return not (hopeless and violation.liveness)

    @property
    def judges_at_us(self) -> int:
        """When the last of the checkers judges whether what is good came about; 0 where none says."""
        return max([checker.judges_at_us or 0 for checker in self.checkers], default=0)

    def raised(self, error: BaseException, at_us: int) -> str:
        """Which checker raised this, as ``finish`` takes it; what no checker raised is raised again."""
        theirs = (each for each in self.checkers if owner_among(error, (each, *each.parts)) is not None)
        checker = next(theirs, None)
        if checker is None and isinstance(error, Exception):
            raise error
        whose = "code of the run's caller" if checker is None else f"the checker {checker.name}"
        return raised_text(whose, error, at_us)

    def finish(self, at_us: int, broke: str = "") -> Judgement:
        """The run is over at this time of the world; ``broke``: what broke, "" if nothing did."""
        violations: list[Violation] = []
        for checker in self.checkers:
            try:
                checker.finish(at_us)
            except (Exception, SystemExit) as error:
                broke = broke or self.raised(error, at_us)
            violations += filter(self._is_demanded, checker.violations)
        violations.sort(key=lambda violation: (violation.at_us, violation.seq, violation.checker, violation.text))
        unexpected, unmet = split(violations, self._expect)
        seq = self.panel.now.seq if self.panel.now is not None else 0
        missed = tuple(
            Violation(UNMET, at_us, seq, (), f"expected {each.words}: it did not come true", True, "unmet")
            for each in unmet
        )
        self.metrics.finish(at_us)
        losses = tuple(loss for checker in self.checkers for loss in checker.losses)
        figures = self.metrics.figures(expected_losses=sum(loss.records for loss in losses))
        verdict, reason = _verdict((*unexpected, *missed), broke)
        return Judgement(
            verdict=verdict,
            violations=(*violations, *missed),
            losses=losses,
            figures=figures,
            unmended=tuple(each for checker in self.checkers for each in checker.unmended),
            reason=reason,
            did_not_work=_did_not_work(violations, self.checkers),
            broke=broke,
            waiting=self._waiting.found(),
        )


def _verdict(unexpected: tuple[Violation, ...], broke: str) -> tuple[str, str]:
    """The verdict, and why in a line."""
    if broke:
        return "livelock" if broke.startswith(LIVELOCK) else "broken", broke.splitlines()[0]
    worst = next((each for each in unexpected if not each.liveness), unexpected[0] if unexpected else None)
    if worst is None:
        return "holds", ""
    return "liveness" if worst.liveness else "violated", f"{worst.checker}: {worst.text}"


def _did_not_work(violations: Iterable[Violation], checkers: Iterable[Checker]) -> str:
    """Why the figures of a run mean nothing, "" if they do: a member died, or a group did nothing of what there was.

    What does not work costs nothing: it has no rebalances, nothing is reprocessed, nothing is down. Whoever compares
    runs must leave such a run out, whether its violations were expected or not.
    """
    dead = [each for each in violations if each.kind == MEMBER_FAILED]
    if dead:
        more = len({each.entities for each in dead}) - 1
        return dead[0].text + (f"; {more} more {'member' if more == 1 else 'members'} failed" if more else "")
    liveness = [checker for checker in checkers if isinstance(checker, Liveness)]
    killed = [text for checker in liveness for _, text in checker.killed()]
    if killed:
        return killed[0]
    idle = [each for checker in liveness for each in checker.idle()]
    return f"group {idle[0][0]} processed nothing of {idle[0][1]:,} records" if idle else ""


def judge(
    facts: Iterable[Seen],
    *,
    ended_us: int,
    checkers: Iterable[Checker] | None = None,
    expect: str | Iterable[Expected] = (),
    broke: str = "",
) -> Judgement:
    """What checkers and metrics make of facts, wherever these come from.

    Args:
        facts: in order of time; ``Seen.seq`` rises, ``Seen.life`` counts the starts of the actor's host. The first is
            a ``RunStarted``, and a ``HostStarted`` tells of each host, or members and hosts are not known as running.
        ended_us: when the run was over.
        checkers: fresh ones (``checkers_for`` makes a scenario's); None: all, with their defaults.
        expect: violations that make no verdict, and that are missed if they do not come (``scenario.expectations``).
        broke: what broke, "" if nothing did.
    """
    judging = Judging(make_checkers() if checkers is None else checkers, expect=expect)
    for seen in facts:
        judging.see(seen)
    return judging.finish(ended_us, broke)
