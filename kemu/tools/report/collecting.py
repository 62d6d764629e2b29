"""The value that every printer of one run's report reads, collected while facts are seen.

``RunReport`` has the result of a run, its story, its owners and its frames (``kemu.tools.report.frames``). Text, JSON
and the HTML page print it. ``kemu.tools.report.recorded`` makes one from a trace.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from kemu.emulator import facts
from kemu.emulator.engine.world import Observer
from kemu.emulator.facts import Handler
from kemu.emulator.judging import Judging
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.runner import RunResult
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.recorder import Recorder
from kemu.protocol.frozen import frozen
from kemu.tools.report.frames import FROM, UNTIL, Frame, frame_of, frame_of_values, listed, name_of
from kemu.tools.report.ownership import Ownership
from kemu.tools.report.story import Emit, Story

if TYPE_CHECKING:
    from kemu.tools.report.lanes import Lane
    from kemu.tools.report.messages import Messages

MOST_WAITS = 4
"""Causes of one downtime with rows of their own in the frame ``down_waits``."""
OTHER_WAITS = "other causes"


@frozen(kw_only=True)
class RunReport:
    """One run for its printers. ``command`` repeats it; ``torn``: why its trace ends early, "" if it does not."""

    result: RunResult
    scenario: Scenario
    story: Story
    ownership: Ownership
    command: str
    trace: Path | None = None
    torn: str = ""
    frames: Mapping[str, Frame]
    """Rows by name. ``ownership`` and ``story`` are always there, the others if the report has pictures."""


class Collector:
    """Collects a run for its report.

    Args:
        pictures: whether the report needs all frames, and not only those of text and JSON.
        messages: the kind of messages in the report (``messages.KINDS``).
        emit: takes each line of the story at once.
    """

    def __init__(self, *, pictures: bool = False, messages: str = "all", emit: Emit | None = None) -> None:
        self.story = Story(emit)
        self.ownership: Ownership
        self._messages = _messages(messages) if pictures and messages != "none" else None
        self._pictures = pictures
        self._lanes: list[Lane] = []

    @property
    def recorder(self) -> Recorder | None:
        """Takes the records of the run; None: the report has no messages."""
        return self._messages

    def readers(self, judging: Judging) -> Sequence[Observer]:
        """The observers of a run, after those that judge it (``runner.Readers``)."""
        panel = judging.panel
        self.ownership = Ownership(panel)
        if self._pictures:
            from kemu.tools.report.lag_lane import LagLane
            from kemu.tools.report.lanes import LANES

            self._lanes = [*(lane(panel) for lane in LANES), LagLane(panel, judging.metrics.waiting)]
        return (self.story, self.ownership, *(_Shown(lane) for lane in self._lanes))

    def finish(
        self, result: RunResult, scenario: Scenario, command: str, trace: Path | None = None, torn: str = ""
    ) -> RunReport:
        """The report of the run that has ended."""
        self.ownership.finish()
        self.story.still(result.waiting, result.virtual_us)
        frames = {"ownership": self.ownership.frame(), "story": _story(self.story)}
        if self._pictures:
            for lane in self._lanes:
                frames |= lane.frames(result.virtual_us)
            frames |= _of_figures(result.figures)
            if self._messages is not None:
                frames |= self._messages.frames(result.virtual_us)
        return RunReport(
            result=result,
            scenario=scenario,
            story=self.story,
            ownership=self.ownership,
            command=command,
            trace=trace,
            torn=torn,
            frames=frames,
        )


def _messages(kind: str) -> "Messages":
    from kemu.tools.report.messages import Messages

    return Messages(kind)


class _Shown:
    """A lane as an observer."""

    def __init__(self, lane: "Lane") -> None:
        self._on = lane.on

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a type (``facts.handlers_of``)."""
        handler = self._on.get(kind)
        return () if handler is None else (handler,)

    def see(self, seen: facts.Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)


def _story(story: Story) -> Frame:
    rows = [(line.at_us, line.kind, line.text()) for line in story.lines]
    return frame_of(("at_us", "kind", "text"), sorted(rows, key=lambda row: row[0]))


def _of_figures(figures: Figures) -> dict[str, Frame]:
    """The intervals of the figures as frames; their sums are the figures."""
    spans = (FROM, UNTIL)
    down = sorted(figures.downtime, key=lambda row: (row.from_us, row.group, row.topic, row.partition))
    waits: list[tuple[int, int, str, str]] = []
    for index, row in enumerate(down):
        spent: dict[tuple[str, str], int] = {}
        for piece in row.pieces:
            key = piece.cause.value, piece.actor
            spent[key] = spent.get(key, 0) + piece.until_us - piece.from_us
        longest = sorted(spent.items(), key=lambda item: (-item[1], item[0]))
        waits += [(index, us, *key) for key, us in longest[:MOST_WAITS]]
        if len(longest) > MOST_WAITS:
            waits.append((index, sum(us for _, us in longest[MOST_WAITS:]), OTHER_WAITS, ""))
    found = {
        "down": frame_of_values(
            down, (*spans, "group", "member", "cause"), partition=lambda row: name_of((row.topic, row.partition))
        ),
        "down_waits": frame_of(("down", "spent_us", "cause", "actor"), waits),
        "rebalances": frame_of_values(
            figures.rebalances,
            (
                *("started_us", "ended_us", "group", "generation", "reason", "members", "rounds", "moved"),
                "stop_the_world_us",
            ),
        ),
    }
    kept = figures.replication
    for name in ("leaderless", "under_min_isr", "under_replicated"):
        found[name] = frame_of_values(
            sorted(getattr(kept, name, ()), key=lambda row: row.from_us),
            spans,
            partition=lambda row: name_of((row.topic, row.partition)),
        )
    moves = figures.reassignment
    found["steps"] = frame_of_values(
        moves.steps if moves is not None else (),
        ("started_us", "committed_us", "number", "kind", "moved_records", "moved_bytes"),
        partition=lambda row: name_of((row.topic, row.partition)),
        replicas=lambda row: listed(row.replicas),
        adding=lambda row: listed(row.adding),
        removing=lambda row: listed(row.removing),
    )
    found["received"] = frame_of(("broker", "second", "bytes"), moves.received if moves is not None else ())
    stops = [
        evolve(row, task=f"{application}/{row.task}")
        for application, streams in figures.streams.items()
        for row in streams.task_downtime
    ]
    found["task_stops"] = frame_of_values(
        sorted(stops, key=lambda row: row.from_us),
        (*spans, "task", "instance", "taken_by", "cause", "detect_us", "barrier_us", "restore_us", "pause_us"),
    )
    return found
