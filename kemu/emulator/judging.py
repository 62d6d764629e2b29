"""Judge the facts of a run: verdict, violations, losses and figures.

``judge`` takes facts of a live run, of a trace, inside Spark, or recorded from real logs.
"""

from collections.abc import Iterable

from attrs import frozen

from kemu.emulator.checkers import make_checkers
from kemu.emulator.checkers.base import Checker, Clock
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.engine.raised import LIVELOCK, owner_among, raised_text
from kemu.emulator.facts import Seen, Watching
from kemu.emulator.findings import MEMBER_FAILED, Loss, Unmended, Violation
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.metrics.metrics import Metrics
from kemu.emulator.scenario.expectations import UNMET, Expected, expectations, split
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.waiting_at_end import StillWaiting, WaitingAtEnd


@frozen
class Judgement:
    """The judgement of a run.

    ``verdict``: "holds", "violated" (a forbidden event happened), "liveness" (a required event did not happen in
    time), "livelock" (virtual time did not advance) or "broken" (a machine, a checker or the user's code raised).
    ``violations``: by time, with the expected ones and one for each unmet expectation. ``unmended``: conditions that
    Kafka itself never ends. ``reason``: why the run does not hold, in one line; "" if it holds. ``did_not_work``: why
    the run's figures mean nothing; "" if the figures are meaningful (see ``_did_not_work``).
    """

    verdict: str
    violations: tuple[Violation, ...]
    losses: tuple[Loss, ...]
    figures: Figures
    unmended: tuple[Unmended, ...] = ()
    reason: str = ""
    did_not_work: str = ""
    broke: str = ""
    """The error of a broken run, with its traceback from the second line on; "" if none."""
    waiting: tuple[StillWaiting, ...] = ()
    """Groups, members and partitions that still wait at the end, and for what."""


class Judging(Watching):
    """The panel, the checkers and the metrics of one run: show them every fact in order, then call ``finish``.

    Args:
        checkers: new checkers, which read the panel.
        expect: expected violations; an expectation that is not met is a violation (``scenario.expectations``).
        panel: a panel with other readers; None: a new one.
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
        super().__init__(self.observers)

    @property
    def observers(self) -> "tuple[Panel | Clock | Checker | Metrics | WaitingAtEnd, ...]":
        """The observers of facts, in this order."""
        return (self.panel, self._clock, *self.checkers, self.metrics, self._waiting)

    @property
    def recovered(self) -> bool:
        """Whether all checkers are satisfied. A run that cannot recover is watched to its end."""
        return not self.panel.unrecoverable and all(checker.satisfied for checker in self.checkers)

    def _is_demanded(self, violation: Violation) -> bool:
        """Whether a violation counts. If the core cannot recover, required events do not count."""
        healed_us = self.panel.core_healed_us
        hopeless = self.panel.unrecoverable and healed_us is not None and violation.at_us >= healed_us
        return not (hopeless and violation.liveness)

    @property
    def judges_at_us(self) -> int:
        """Latest time at which a checker judges required events, in us; 0 if none."""
        return max([checker.judges_at_us or 0 for checker in self.checkers], default=0)

    def raised(self, error: BaseException, at_us: int) -> str:
        """The text of an error that a checker raised, for ``finish``. Raise the error again if no checker raised it."""
        theirs = (each for each in self.checkers if owner_among(error, (each, *each.parts)) is not None)
        checker = next(theirs, None)
        if checker is None and isinstance(error, Exception):
            raise error
        whose = "code of the run's caller" if checker is None else f"the checker {checker.name}"
        return raised_text(whose, error, at_us)

    def finish(self, at_us: int, broke: str = "") -> Judgement:
        """End the run at this time of the world. ``broke``: the error that broke the run, "" if none."""
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
            Violation(UNMET, at_us, seq, (), f"expected {each.words}, which did not happen", True, "unmet")
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
    """The verdict, and its reason in one line."""
    if broke:
        return "livelock" if broke.startswith(LIVELOCK) else "broken", broke.splitlines()[0]
    worst = next((each for each in unexpected if not each.liveness), unexpected[0] if unexpected else None)
    if worst is None:
        return "holds", ""
    return "liveness" if worst.liveness else "violated", f"{worst.checker}: {worst.text}"


def _did_not_work(violations: Iterable[Violation], checkers: Iterable[Checker]) -> str:
    """Why the figures of a run mean nothing: a member failed, or a group processed no record; "" if they mean
    something.

    A group that does no work costs nothing: no rebalances, no reprocessing, no downtime. Comparisons must leave such a
    run out, whether its violations were expected or not.
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
    return f"group {idle[0][0]} processed none of {idle[0][1]:,} records" if idle else ""


def judge(
    facts: Iterable[Seen],
    *,
    ended_us: int,
    checkers: Iterable[Checker] | None = None,
    expect: str | Iterable[Expected] = (),
    broke: str = "",
) -> Judgement:
    """Judge facts from any source.

    Args:
        facts: by time; ``Seen.seq`` rises. ``Seen.life`` counts the starts of the actor's host. A ``RunStarted`` comes
            first, and a ``HostStarted`` for each host that runs.
        ended_us: end of the run.
        checkers: new checkers (``checkers_for`` creates a scenario's); None: all, with their defaults.
        expect: expected violations (``scenario.expectations``).
        broke: the error that broke the run; "" if none.
    """
    judging = Judging(make_checkers() if checkers is None else checkers, expect=expect)
    for seen in facts:
        judging.see(seen)
    return judging.finish(ended_us, broke)
