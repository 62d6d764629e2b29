"""What shrinking came to, for people: sizes before and after, the violation, and the short story of it."""

from collections.abc import Iterable

from kemu.emulator.exploring.pasteable import violation_line
from kemu.emulator.exploring.shrinking import Shrunk
from kemu.emulator.runner import RunResult, run
from kemu.tools.report.run_report import told_lines
from kemu.tools.report.story import Story


def sizes(shrunk: Shrunk) -> Iterable[str]:
    """A table: what, before, after."""
    yield f"  {'':22} {'before':>8}  {'after':>8}"
    for (what, before), (_, after) in zip(shrunk.before.rows(), shrunk.after.rows(), strict=True):
        yield f"  {what:22} {before:>8}  {after:>8}"


def story_of(shrunk: Shrunk) -> tuple[RunResult, tuple[str, ...]]:
    """The shrunk scenario run once more, to its end: the result, and what happened, line by line."""
    story = Story()
    result = run(shrunk.scenario, seed=shrunk.scenario.seed, loop="bare", observers=(story,))
    return result, tuple(told_lines(story.lines))


def shrunk_text(shrunk: Shrunk) -> Iterable[str]:
    """The whole of it."""
    yield f"shows: {violation_line(shrunk.violation)}"
    ended = "" if shrunk.complete else "; it ended early, and may be smaller still"
    yield f"shrunk in {shrunk.runs} runs{ended}"
    yield from sizes(shrunk)
    yield ""
    yield "What happens"
    yield from story_of(shrunk)[1]
