"""What is made of a run's facts: a verdict, violations, losses and figures. The same live, over a trace, inside Spark,
and over facts that no world produced (recorded from real logs): ``judge`` takes any of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from attrs import frozen

from kemu.emulator.checkers import make_checkers
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Seen
from kemu.emulator.findings import Loss, Violation
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.metrics.metrics import Metrics
from kemu.emulator.watching.panel import Panel


@frozen
class Judgement:
    """What a run came to.

    ``verdict``: "holds", "violated" (something bad happened), "liveness" (something good did not happen in time), or
    "broken" (a machine failed an assertion of its own). ``violations``: in the order of time, the expected ones too.
    """

    verdict: str
    violations: tuple[Violation, ...]
    losses: tuple[Loss, ...]
    figures: Figures


class Judging:
    """The panel, the checkers and the metrics of one run: show them every fact in order, then ``finish``.

    Args:
        checkers: fresh ones; they read the panel.
        expect: names of checkers that may speak: what they find makes no verdict.
        panel: one that others read, too; None: a new one.
    """

    def __init__(
        self, checkers: Iterable[Checker], *, expect: Collection[str] = (), panel: Panel | None = None
    ) -> None:
        self.panel = Panel() if panel is None else panel
        self.checkers = tuple(checkers)
        for checker in self.checkers:
            checker.attach(self.panel)
        self.metrics = Metrics(self.panel)
        self._expect = expect
        self._watching: dict[type, tuple[Callable[[Seen], None], ...]] = {}

    @property
    def observers(self) -> "tuple[Panel | Checker | Metrics, ...]":
        """Who sees the facts, in this order."""
        return (self.panel, *self.checkers, self.metrics)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        kind = type(seen.fact)
        watching = self._watching.get(kind)
        if watching is None:
            watching = tuple(observer.see for observer in self.observers if observer.wants(kind))
            self._watching[kind] = watching
        for see in watching:
            see(seen)

    @property
    def well(self) -> bool:
        """Whether no checker still waits for something good."""
        return all(checker.satisfied for checker in self.checkers)

    def finish(self, at_us: int, broke: str = "") -> Judgement:
        """The run is over at this time of the world; ``broke``: what broke, "" if nothing did."""
        violations: list[Violation] = []
        for checker in self.checkers:
            checker.finish(at_us)
            violations += checker.violations
        violations.sort(key=lambda violation: (violation.at_us, violation.seq, violation.checker, violation.text))
        self.metrics.finish(at_us)
        return Judgement(
            verdict=self._verdict(violations, broke),
            violations=tuple(violations),
            losses=tuple(loss for checker in self.checkers for loss in checker.losses),
            figures=self.metrics.figures(),
        )

    def _verdict(self, violations: Sequence[Violation], broke: str) -> str:
        if broke:
            return "broken"
        unexpected = [violation for violation in violations if violation.checker not in self._expect]
        if any(not violation.liveness for violation in unexpected):
            return "violated"
        return "liveness" if unexpected else "holds"


def judge(
    facts: Iterable[Seen],
    *,
    ended_us: int,
    checkers: Iterable[Checker] | None = None,
    expect: Collection[str] = (),
    broke: str = "",
) -> Judgement:
    """What checkers and metrics make of facts, wherever these come from.

    Args:
        facts: in order of time; ``Seen.seq`` rises, ``Seen.life`` counts the starts of the actor's host. The first is
            a ``RunStarted``, and a ``HostStarted`` tells of each host, or members and hosts are not known as running.
        ended_us: when the run was over.
        checkers: fresh ones (``checkers_for`` makes a scenario's); None: all, with their defaults.
        expect: names of checkers that may speak: what they find makes no verdict.
        broke: what broke, "" if nothing did.
    """
    judging = Judging(make_checkers() if checkers is None else checkers, expect=expect)
    for seen in facts:
        judging.see(seen)
    return judging.finish(ended_us, broke)
