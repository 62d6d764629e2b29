"""The report of a failed test: seed, violations, a short story, and the command that repeats the test."""

from collections.abc import Iterator
from pathlib import Path

import click

from kemu.emulator.exploring.pasteable import violation_line
from kemu.emulator.exploring.python_text import python_text
from kemu.emulator.exploring.shrinking import NothingToShrink, Shrinker
from kemu.emulator.exploring.trial import Trials
from kemu.emulator.scenario.expectations import split
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.wire.codec import CodecError
from kemu.tools.report.shrunk_report import sizes, story_of
from kemu.tools.report.story import clock_text
from kemu.tools.testkit.cluster import EmulatedCluster

LINES = 40
"""Maximum number of printed lines of a story that was not shrunk."""


def failure_text(cluster: EmulatedCluster, trace: Path, command: str, shrink_runs: int) -> Iterator[str]:
    """Write the trace of the run to ``trace``, and yield the lines of the report.

    ``command`` repeats the test. ``shrink_runs``: the limit of runs for shrinking; 0: do not shrink.
    """
    scenario = cluster.inside.scenario
    yield f"{scenario.name}, seed {cluster.seed}, {cluster.inside.profile}"
    outcome = cluster.outcome
    unexpected = split(outcome.violations, scenario.expect)[0] if outcome is not None else ()
    for each in unexpected[:3]:
        yield f"violated: {violation_line(each)}"
    if outcome is not None and outcome.broke:
        yield f"broke: {outcome.broke.splitlines()[0]}"
    shrunk = list(_shrunk(cluster, shrink_runs)) if outcome is not None and shrink_runs else []
    if shrunk:
        yield from shrunk
    else:
        yield "events:"
        for line in cluster.story.lines[-LINES:]:
            yield f"  {clock_text(line.at_us)}  {line.text()}"
    yield f"repeat with: {command}"
    try:
        trace.parent.mkdir(parents=True, exist_ok=True)
        cluster.inside.writer.flush()
        trace.write_bytes(cluster.trace.getvalue())
    except OSError as error:
        yield f"the trace could not be written to {trace}: {error.strerror}"
    else:
        yield f"trace: {trace}   (kemu explain {trace})"
        yield from _page(trace, command)


def _page(trace: Path, command: str) -> Iterator[str]:
    """Write the page of the run beside its trace, and yield a line with its path."""
    from kemu.tools.report.page import write_page
    from kemu.tools.report.recorded import report_of

    page = trace.with_suffix(".html")
    try:
        recorded = read_trace(trace)
        write_page(report_of(recorded, command), page, recorded)
    except (OSError, TraceError, CodecError) as error:
        yield f"the report could not be written to {page}: {error}"
    else:
        yield f"report: {page}   (open it in a browser)"


def _shrunk(cluster: EmulatedCluster, runs: int) -> Iterator[str]:
    """Yield the lines about the smallest scenario with the same violation; no lines if the cluster runs test code."""
    if cluster.own_code:
        return
    scenario = cluster.as_scenario()
    try:
        shrinker = Shrinker(scenario, cluster.seed, Trials(profile=cluster.inside.profile), runs=runs)
    except (NothingToShrink, ScenarioError):
        return
    shrunk = shrinker.shrink()
    yield f"shrunk in {shrunk.runs} runs to what shows: {violation_line(shrunk.violation)}"
    yield from sizes(shrunk)
    yield from map(click.unstyle, story_of(shrunk)[1])
    yield ""
    yield python_text(shrunk.scenario, before="scenario = ")
    yield f"kemu.check(scenario, seeds=[{shrunk.scenario.seed}])"
    yield ""
