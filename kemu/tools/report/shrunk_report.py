"""The report of shrinking: the violation, sizes before and after, and the story of the smallest run."""

from collections.abc import Iterable

from kemu.emulator.exploring.pasteable import violation_line
from kemu.emulator.exploring.shrinking import Shrunk
from kemu.emulator.runner import RunResult, run
from kemu.tools.report.layout import TableColumn, table
from kemu.tools.report.run_report import told_lines
from kemu.tools.report.story import Story


def sizes(shrunk: Shrunk) -> Iterable[str]:
    """The lines of a table with the sizes of the scenario before and after shrinking."""
    rows = [
        (what, f"{before}", f"{after}")
        for (what, before), (_, after) in zip(shrunk.before.rows(), shrunk.after.rows(), strict=True)
    ]
    yield from table((TableColumn(), TableColumn("before", right=True), TableColumn("after", right=True)), rows)


def story_of(shrunk: Shrunk) -> tuple[RunResult, tuple[str, ...]]:
    """Run the shrunk scenario to its end; return the result and the lines of the story."""
    story = Story()
    result = run(shrunk.scenario, seed=shrunk.scenario.seed, loop="bare", observers=(story,))
    return result, tuple(told_lines(story.lines))


def shrunk_text(shrunk: Shrunk) -> Iterable[str]:
    """The lines of the report."""
    yield f"shows: {violation_line(shrunk.violation)}"
    ended = "" if shrunk.complete else "; interrupted, a smaller one may exist"
    yield f"shrunk in {shrunk.runs} runs{ended}"
    yield from sizes(shrunk)
    yield ""
    yield "What happened"
    yield from story_of(shrunk)[1]
