"""All figures of Streams applications (a part of the metrics).

The figures are defined in ``emulator.metrics.task_downtime``, ``emulator.metrics.restoring``,
``emulator.metrics.task_moves`` and ``emulator.metrics.task_work``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.metrics.figures import EpisodeFigures, StreamsFigures
from kemu.emulator.metrics.restoring import ROLES, Restoring
from kemu.emulator.metrics.task_downtime import TaskDowntime
from kemu.emulator.metrics.task_moves import Reason, TaskMoves
from kemu.emulator.metrics.task_work import TaskWork
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import GroupId

P99 = 99


class Streaming:
    """Computes the figures of Streams applications."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._downtime = TaskDowntime(panel)
        self._restoring = Restoring(panel)
        self._moves = TaskMoves(panel)
        self._work = TaskWork(panel)
        self._ended_us = 0

    @property
    def parts(self) -> tuple[Mapping[type, Callable[[Seen, Any], None]], ...]:
        """For each part: type of fact -> handler."""
        return (self._downtime.on, self._restoring.on, self._moves.on, self._work.on)

    def finish(self, at_us: int) -> None:
        """Complete the figures of all parts at the end of the run."""
        self._ended_us = at_us
        self._downtime.finish(at_us)
        self._restoring.finish()
        self._moves.finish(at_us)
        self._work.finish(at_us)

    def figures(self) -> dict[GroupId, StreamsFigures]:
        """The figures by application."""
        return {name: self._figures_of(name) for name in sorted(self._panel.applications.all)}

    def _figures_of(self, name: GroupId) -> StreamsFigures:
        down = tuple(self._downtime.intervals.get(name, ()))
        restores = self._restoring.figures(name)
        episodes = self._moves.episodes(name)
        by_task = self._downtime.downtime_us(name)
        reasons = sum((Counter(each.rebalances) for each in episodes), Counter[str]())
        read = {role: sum(row.read_bytes for row in restores if row.role == role) for role in ROLES}
        return StreamsFigures(
            downtime_us=by_task,
            downtime_max_us=max(by_task.values(), default=0),
            downtime_p99_us=_nearest_rank(sorted(by_task.values()), P99),
            tasks_down=sum(1 for us in by_task.values() if us),
            detect_us=sum(row.detect_us for row in down),
            barrier_us=sum(row.barrier_us for row in down),
            restore_us=sum(row.restore_us for row in down),
            pause_us=sum(row.pause_us for row in down),
            learner_us=self._work.learner_us(name),
            idle_ready_us=self._work.idle_us(name),
            imbalance_us=self._work.imbalance_us(name),
            join_waits_us=self._work.waits_us(name),
            moved=sum(each.moved for each in episodes),
            min_moves=sum(each.min_moves for each in episodes),
            back_and_forth=sum(each.back_and_forth for each in episodes),
            read_bytes={role: count for role, count in read.items() if count},
            wasted_bytes=sum(row.wasted_bytes for row in restores),
            avoidable_bytes=sum(row.avoidable_bytes for row in restores),
            rebalances={str(reason): reasons[reason] for reason in Reason if reasons[reason]},
            empty_rebalances=sum(each.empty for each in episodes),
            to_balance_us=max((self._to_balance_us(each) for each in episodes), default=0),
            unfinished=sum(1 for each in episodes if each.balanced_us is None),
            task_downtime=down,
            restores=restores,
            episodes=episodes,
        )

    def _to_balance_us(self, episode: EpisodeFigures) -> int:
        until_us = self._ended_us if episode.balanced_us is None else episode.balanced_us
        return until_us - episode.began_us


def _nearest_rank(values: Sequence[int], percent: int) -> int:
    """The percentile of sorted values by nearest rank; 0 without values."""
    return values[-(-percent * len(values) // 100) - 1] if values else 0
