"""The figures of a run, computed from its facts alone.

``Metrics`` is an observer: live, over a trace, or inside Spark. Each module defines the figures that it counts:

* ``rebalances``, ``closing``, ``reassigning``;
* ``serving`` (downtime), ``service`` (lost service, stops);
* ``waiting`` (record delay, lag in seconds), ``freshness`` (ages, gaps, order), ``progress`` (records);
* ``leading`` (controllers, leaders, ISRs);
* ``streaming`` (Streams applications).

All times are microseconds of the world's clock.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kemu.emulator.facts import Handler, Seen
from kemu.emulator.metrics.closing import Closing
from kemu.emulator.metrics.costs import parts_of
from kemu.emulator.metrics.figure import DECLARED, FactCounter, Figure, values_of
from kemu.emulator.metrics.figures import DelayFigures, Figures, GroupFigures, RecordFigures
from kemu.emulator.metrics.freshness import freshness_of, freshness_together
from kemu.emulator.metrics.leading import Leaders
from kemu.emulator.metrics.progress import Progress
from kemu.emulator.metrics.reassigning import Reassigning
from kemu.emulator.metrics.rebalances import Rebalances
from kemu.emulator.metrics.service import ServiceLost, service_lost
from kemu.emulator.metrics.serving import Serving
from kemu.emulator.metrics.spread import WeightedSpread
from kemu.emulator.metrics.streaming import Streaming
from kemu.emulator.metrics.waiting import Waiting
from kemu.emulator.watching.panel import Panel
from kemu.protocol.frozen import evolve

FIGURES: Mapping[str, Figure] = MappingProxyType(
    dict(sorted(DECLARED.items(), key=lambda item: issubclass(item[1].of, FactCounter)))
)
"""Every declared figure, by name. The imports of this module declare all figures. Figures of a ``FactCounter`` are
last."""


class Metrics:
    """Computes the figures of a run. Call ``see`` with every fact in order, after the panel has taken the fact. At the
    end of the run, call ``finish`` and ``figures``.
    """

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._rebalances = Rebalances(panel)
        self.waiting = Waiting(panel)
        self._serving = Serving(panel, self.waiting)
        self._progress = Progress(panel)
        self._leading = Leaders(panel)
        self._reassigning = Reassigning(panel)
        self._closing = Closing(panel, self._progress)
        self._streaming = Streaming(panel)
        self._on: dict[type, tuple[Handler, ...]] = {}
        counting = [
            of(panel) for of in dict.fromkeys(each.of for each in FIGURES.values()) if issubclass(of, FactCounter)
        ]
        own = (self._rebalances, self.waiting, self._serving, self._progress, self._leading, self._reassigning)
        self._sources: dict[type, object] = {type(part): part for part in (*own, *counting)}
        # ``Serving`` judges an interruption by the records that waited before this fact.
        parts = (
            self._rebalances.on,
            self._serving.on,
            self.waiting.on,
            self._progress.on,
            self._leading.on,
            self._reassigning.on,
            self._closing.on,
            *self._streaming.parts,
            *(part.on for part in counting),
        )
        for part in parts:
            for kind, handler in part.items():
                self._on[kind] = (*self._on.get(kind, ()), handler)
        self._lost: dict[str, ServiceLost] = {}
        self._ended_us = 0
        self._finished = False

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of this type (``facts.handlers_of``)."""
        return self._on.get(kind, ())

    def see(self, seen: Seen) -> None:
        """Show this fact to all counters of its type. A fact without a handler costs one look-up."""
        for handler in self._on.get(type(seen.fact), ()):
            handler(seen, seen.fact)

    def finish(self, at_us: int) -> None:
        """Complete all figures at the end of the run."""
        assert not self._finished, "a run ends once"
        self._finished, self._ended_us = True, at_us
        self._serving.finish(at_us)
        for group, first_us in self._serving.first_us().items():
            rows = (row for row in self._serving.intervals if row.group == group)
            lost = self._lost[group] = service_lost(rows, first_us, at_us)
            for stop in lost.stops:
                self._rebalances.stopped(group, *stop)
        self._rebalances.finish()
        self._progress.finish()
        self._leading.finish(at_us)
        self._streaming.finish(at_us)

    def figures(self, expected_losses: int = 0) -> Figures:
        """The figures after ``finish``. ``expected_losses``: number of losses that checkers found to be allowed."""
        progress, delays = self._progress, self.waiting.delays
        lost, skipped, lag, processed = progress.lost(), progress.skipped(), progress.lag(), progress.processed()
        first_stable_us = self._rebalances.first_stable_us()
        fresh = self.waiting.freshness(self._ended_us)
        rebalanced: dict[str, int] = {}
        for rebalance in self._rebalances.all:
            rebalanced[rebalance.group] = rebalanced.get(rebalance.group, 0) + 1
        groups = {
            group: GroupFigures(
                first_stable_us=first_stable_us.get(group),
                rebalances=rebalanced.get(group, 0),
                processed=processed.get(group, 0),
                reprocessed=progress.reprocessed.get(group, 0),
                lost=lost.get(group, 0),
                skipped=skipped.get(group, 0),
                zombie_records=progress.zombies.get(group, 0),
                commits=progress.commits.get(group, 0),
                commits_failed=progress.commits_failed.get(group, 0),
                lag=lag.get(group, 0),
                delay=_delays(delays.get(group, WeightedSpread())),
                freshness=fresh.get(group) or freshness_of(()),
                metadata_max_bytes=self._rebalances.record_of(group)[0],
                margin_to_limit=self._rebalances.record_of(group)[1],
                generations_too_large=self._rebalances.record_of(group)[2],
            )
            for group in sorted(first_stable_us.keys() | lag.keys())
        }
        figures = Figures(
            rebalances=tuple(rebalance.figures() for rebalance in self._rebalances.all),
            num_incompatible_rebalance=dict(sorted(self._rebalances.incompatible.items())),
            downtime_us=self._serving.downtime_us(),
            downtime=tuple(
                evolve(row, protocol=self._rebalances.protocol_at(row.group, row.from_us))
                for row in self._serving.intervals
            ),
            service={group: lost.figures for group, lost in self._lost.items()},
            delay=_delays(WeightedSpread().merge(delays.values())),
            freshness=freshness_together(fresh.values()),
            reprocessed=sum(progress.reprocessed.values()),
            lost=sum(lost.values()) + progress.acknowledged_lost,
            expected_losses=expected_losses,
            acknowledged_lost=progress.acknowledged_lost,
            skipped=sum(skipped.values()),
            zombie_records=sum(progress.zombies.values()),
            records=RecordFigures(
                appended=self._panel.logs.appended,
                acknowledged=self._panel.progress.acknowledged,
                failed=progress.produce_failed,
                processed=sum(processed.values()),
            ),
            lag=progress.lags(self.waiting, self._ended_us),
            replication=self._leading.figures(),
            reassignment=self._reassigning.figures(),
            closings=tuple(self._closing.all),
            groups=groups,
            streams=self._streaming.figures(),
        )
        return evolve(figures, values=values_of({**parts_of(figures), **self._sources}))


def _delays(spread: WeightedSpread) -> DelayFigures:
    return DelayFigures(
        records=spread.total,
        p50_us=spread.percentile(50),
        p99_us=spread.percentile(99),
        max_us=spread.percentile(100),
    )
