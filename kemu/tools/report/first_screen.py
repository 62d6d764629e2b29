"""The first screen of a run's report, with the verdict, the cost and the most important events."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from kemu.emulator.metrics.figures import Figures
from kemu.emulator.runner import RunResult
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.frozen import define
from kemu.tools.report.reasons import short_members
from kemu.tools.report.story import TOLD_US, StoryLine, clock_text, span_text, still_text

COLOURS = {
    "holds": "green",
    "liveness": "red",
    "violated": "red",
    "livelock": "red",
    "broken": "red",
    "unjudged": "yellow",
}
"""Verdict -> colour of the verdict on a terminal."""
KIND_COLOURS = {
    "fault": "yellow",
    "end": "yellow",
    "group": "cyan",
    "member": "magenta",
    "control": "blue",
    "partitions": "blue",
}
"""Kind of a story line -> colour of the line on a terminal."""
MOST_EVENTS = 10
"""Maximum number of events on the first screen."""
HEAD = 8
"""Width of the column with the words "Verdict" and "Cost", in characters."""
_WEIGHTS: Mapping[str, int] = {
    "fault": 9, "end": 9, "effect": 8, "member": 7, "control": 6, "host": 5, "group": 5, "partitions": 4,
}  # fmt: skip
"""Kind of a story line -> its importance."""
_NUMBERS = re.compile(r"\d[\d.,]*( ms| s| min)?")
_WORDS = (
    ("{} started", 1),
    (") ended", 4),
    ("unclean", 8),
    ("{} crashed", 8),
    ("{} paused", 8),
    ("no leader elected", 7),
    ("truncated", 7),
    ("elected leader", 6),
)
"""(words, importance of a story line with these words); the first pair that matches a sentence applies."""


def verdict_line(result: RunResult, scenario: Scenario, width: int) -> str:
    """One line with the verdict and the first violation that the scenario does not expect."""
    said = click.style(result.verdict, fg=COLOURS[result.verdict], bold=True)
    unexpected, _ = split(result.violations, scenario.expect)
    if unexpected:
        first = unexpected[0]
        more = f", and {len(unexpected) - 1} more" if len(unexpected) > 1 else ""
        text = f": {first.checker} ({first.kind}) at {clock_text(first.at_us)}, step {first.seq}{more}"
        said += text if HEAD + len(result.verdict + text) <= width else f": {first.checker} ({first.kind}){more}"
    elif result.broke:
        said += ": the program broke; the details have the error"
    elif result.did_not_work:
        said += ", but the clients did no work: the cost is not comparable"
    return f"{'Verdict':{HEAD}}{said}"


def cost_line(figures: Figures, width: int) -> str:
    """One line with the most important figures that are not zero, as many figures as fit into ``width``."""
    parts: list[str] = []
    used = HEAD
    for part in _costs(figures):
        if used + len(part) + 2 <= width:
            parts.append(part)
            used += len(part) + 2
    return f"{'Cost':{HEAD}}{', '.join(parts) or 'none: no records, no rebalances'}"


def still_line(result: RunResult, width: int) -> str:
    """The longest wait that has not ended, and the number of the others; "" if there is none of a second or more."""
    waits = sorted((each.since_us, place) for place, each in enumerate(result.waiting))
    waits = [each for each in waits if result.virtual_us - each[0] >= TOLD_US]
    if not waits:
        return ""
    text = still_text(result.waiting[waits[0][1]], result.virtual_us)
    more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
    room = width - HEAD - len(more)
    text = text if len(text) <= room else text[: room - 1].rstrip() + "…"
    return f"{'Still':{HEAD}}{click.style(text + more, fg='yellow')}"


def _costs(figures: Figures) -> Iterator[str]:
    """The texts of figures that are not zero, the most important figure first."""
    if figures.lost:
        yield f"{figures.lost:,} records lost"
    if figures.expected_losses:
        yield f"{figures.expected_losses:,} expected losses"
    down_us = sum(figures.downtime_us.values())
    if down_us:
        yield f"{down_us / 1e6:,.1f} partition-s down"
    stopped_us = sum(each.stopped_us for each in figures.service.values())
    if stopped_us:
        yield f"{span_text(stopped_us)} full stop"
    leaderless = figures.values["leaderless"]
    if leaderless:
        yield f"{leaderless / 1e6:,.1f} partition-s leaderless"
    if figures.rebalances:
        yield f"{len(figures.rebalances)} rebalance" + ("s" if len(figures.rebalances) > 1 else "")
    if figures.reprocessed:
        yield f"{figures.reprocessed:,} reprocessed"
    if figures.delay.p99_us is not None:
        yield f"delay p99 {span_text(figures.delay.p99_us)}"
    lag_us = figures.values["lag_max"]
    if lag_us:
        yield f"max lag {span_text(int(lag_us))}"


@define
class KeyEvent:
    """Similar story lines, such as six restarts of a rolling restart: the first line, and the number of lines."""

    first: StoryLine
    place: int
    """Index of the first line in the story."""
    count: int = 1
    last_us: int = -1

    def text(self) -> tuple[str, str]:
        """The first line, followed by the number of similar lines if there are several."""
        said = short_members(self.first.text())
        return said, "" if self.count == 1 else f" ({self.count} times until {clock_text(self.last_us)[:5]})"


def key_events(lines: Sequence[StoryLine], most: int = MOST_EVENTS) -> list[KeyEvent]:
    """The most important events of a story, at most ``most``, in order of time.

    Lines that differ only in numbers, hosts and partitions are one event, except entries of the plan. The effects of a
    fault (crashes, pauses) are as important as the fault. First starts are the least important events.
    """
    events: dict[object, KeyEvent] = {}
    for place, line in enumerate(lines):
        known = events.get(key := _pattern(line, place, len(lines) <= most))
        if known is None:
            events[key] = KeyEvent(line, place)
        else:
            known.count += 1
            known.last_us = line.at_us
    chosen = sorted(events.values(), key=lambda event: (-_weight(event.first), event.place))[:most]
    return sorted(chosen, key=lambda event: event.place)


def _pattern(line: StoryLine, place: int, all_fit: bool) -> object:
    if all_fit or line.kind == "fault":
        return place
    names = re.sub(r"\b[a-z]+\d+(/[\w]+)?\b", "*", line.sentence)
    return line.kind, _NUMBERS.sub("#", names)


def _weight(line: StoryLine) -> int:
    """The importance of a line by ``_WORDS``, or else by ``_WEIGHTS``."""
    found = [weight for words, weight in _WORDS if words in line.sentence]
    return found[0] if found else _WEIGHTS.get(line.kind, 0)


def events_text(lines: Sequence[StoryLine], width: int) -> Iterable[str]:
    """The lines of the section "What happened": one line for each of at most ``MOST_EVENTS`` events."""
    events = key_events(lines)
    hidden = len(lines) - len(events)
    more = f" ({len(events)} of {len(lines)} events; --verbose prints all)" if hidden else ""
    yield click.style("What happened", bold=True) + more
    room = width - len(f"  {clock_text(0)}  ")
    for event in events:
        text, times = event.text()
        if len(text + times) > room:
            text = text[: room - len(times) - 1].rstrip() + "…"
        yield event_line(event.first, text + times)


def event_line(line: StoryLine, text: str) -> str:
    """The line of one event, with the time of the event."""
    colour = KIND_COLOURS.get(line.kind)
    return f"  {clock_text(line.at_us)}  {click.style(text, fg=colour) if colour else text}"
