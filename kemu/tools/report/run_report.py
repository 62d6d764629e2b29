"""The report of a run, as text or as JSON values."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import click
from attrs import evolve

from kemu.emulator.facts import RealClientsUnchecked
from kemu.emulator.findings import LOSS_REASONS, STAYS_BLOCKED, STAYS_DEGRADED, Loss, Unmended
from kemu.emulator.metrics import task_downtime
from kemu.emulator.metrics.figure import FactCounter
from kemu.emulator.metrics.figures import (
    ClosingFigures,
    Figures,
    ReassignmentFigures,
    RebalanceFigures,
    ReplicationFigures,
    StreamsFigures,
    plain,
)
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.runner import RunResult, unfired_in_all
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.scenario import Scenario, known_names
from kemu.protocol.frozen import frozen
from kemu.protocol.names import broker_host
from kemu.tools.exits import OF_VERDICT
from kemu.tools.report.collecting import RunReport
from kemu.tools.report.first_screen import COLOURS, cost_line, event_line, events_text, still_line, verdict_line
from kemu.tools.report.frames import plain_frames
from kemu.tools.report.layout import TableColumn, table, terminal_width, without_zeros
from kemu.tools.report.ownership import picture
from kemu.tools.report.reasons import short_members, short_reason
from kemu.tools.report.story import Story, StoryLine, clock_text, core_text, span_text, still_text

MOST_REBALANCES = 30
MOST_LOSSES = 20
MOST_WAITING = 20
REBALANCE_HEADS = ("gen", "began", "took", "stopped", "members", "moved")
TASK_HEADS = ("from", "down", "detect", "barrier", "restore", "pause")
_CAUSES = {task_downtime.STILL: "host paused"}
"""Cause of a task's downtime in JSON -> text of the cause in the report."""
MOST_LABELS = 12
"""Maximum number of printed labels of a group's members."""
LAST_LINES = 120
"""Maximum number of printed lines of a story; the middle of a longer story is left out."""


def as_dict(result: RunResult) -> dict[str, Any]:
    """The result as values for JSON: the fields of the run and of its figures in one object."""
    left_out = {"figures", *(name for name in ("core", "labels", "unchecked") if not getattr(result, name))}
    own = attrs.asdict(result, filter=lambda field, _: field.name not in left_out)
    figures = plain(result.figures)
    own["losses"] = [
        {**attrs.asdict(loss), "records": loss.records, "allowed": LOSS_REASONS[loss.why]} for loss in result.losses
    ]
    own["unmended"] = [{**attrs.asdict(each), "explained": STAYS_DEGRADED[each.why]} for each in result.unmended]
    own["wall_s"] = round(result.wall_s, 6)
    clash = own.keys() & figures.keys()
    assert not clash, f"figures must not reuse {sorted(clash)}"
    return {**own, **figures}


def report_as_dict(report: RunReport) -> dict[str, Any]:
    """The report as plain data: the result, the command that repeats the run, and the frames, by column."""
    return {**as_dict(report.result), "command": report.command, "frames": plain_frames(report.frames)}


def as_json(report: RunReport) -> str:
    """The report as one JSON object."""
    import json

    return json.dumps(report_as_dict(report), indent=2)


def as_text(report: RunReport, *, told: bool = False, verbose: bool = False) -> Iterable[str]:
    """The lines of the report: the first screen, then the details.

    ``told``: the story was printed during the run. ``verbose``: the report has the whole story, with Kafka's reasons in
    full.
    """
    width = terminal_width()
    result, scenario, story = report.result, report.scenario, report.story
    restarts = Restarts(scenario, story)
    yield from _head(result, scenario)
    yield ""
    yield verdict_line(result, scenario, width)
    yield cost_line(result.figures, width)
    yield from filter(None, [still_line(result, width)])
    if not told:
        yield ""
        lines = [restarts.amended(line) for line in story.lines]
        if verbose:
            yield click.style("What happened", bold=True)
            yield from (event_line(line, line.text(verbose=True)) for line in lines)
        else:
            yield from events_text(lines, width)
    if result.violations or result.did_not_work or result.broke:
        yield from _section("Violations" if result.violations else "What went wrong")
        yield from _violations(result, scenario)
    for group in scenario.groups:
        if group in report.ownership.intervals:
            yield from _section(f"Who owned what in {group}")
            yield from picture(report.ownership, group, columns=width)
            yield from _labels(scenario, group, verbose)
    yield from _section("What it cost")
    yield from costs_of(result.figures, verbose)
    yield from story.fenced_text()
    yield from _group_records(result.figures, scenario)
    if result.faults:
        yield from _section("Faults")
        yield from _faults(result, restarts)
    if result.losses:
        yield from _section("Expected losses")
        yield from _losses(result.losses)
    if result.unmended:
        yield from _section("Not recovered, for Kafka's own reasons")
        yield from _unmended(result.unmended)
    if result.waiting:
        yield from _section("Still waiting at the end")
        yield from _waiting(result)
    if result.unchecked:
        yield from _section(NOT_CHECKED)
        yield from (f"  {line}" for line in unchecked_lines(result.unchecked))
    if result.core is not None:
        yield from _section("Repaired core")
        yield f"  {core_text(result.core)}"
    yield from _section("The run")
    yield from _run_itself(report)


NOT_CHECKED = "Not checked of real clients"


def unchecked_lines(rows: Iterable[RealClientsUnchecked]) -> Iterable[str]:
    """A line for each checker that could not judge real clients: "its timeouts (requests)"."""
    return (f"{each.unknown} ({each.checker})" for each in rows)


class Restarts:
    """The real down times of hosts, in place of the planned down times, which random draws change."""

    PLANNED = re.compile(r"each down for (?P<planned>\S+)$")

    def __init__(self, scenario: Scenario, story: Story) -> None:
        self._scenario = scenario
        self._story = story

    def amended(self, line: StoryLine) -> StoryLine:
        """The story line, with real down times if the line is about a rolling restart."""
        found = re.match(r"fault (\d+): ", line.sentence) if line.kind == "fault" else None
        if found is None:
            return line
        return evolve(line, sentence=self.in_text(int(found[1]), line.sentence))

    def in_text(self, index: int, text: str) -> str:
        """The text of an entry of the plan, with real down times."""
        planned = self.PLANNED.search(text)
        spans = self._spans(index) if planned is not None else []
        if planned is None or not spans:
            return text
        least, most = span_text(min(spans)), span_text(max(spans))
        real = least if least == most else f"{least} to {most}"
        return f"{text[: planned.start()]}each down for {real} (planned: {planned['planned']})"

    def _spans(self, index: int) -> list[int]:
        """The down times of the hosts in the group of an entry, after the entry was applied, in us."""
        applied_us = self._story.applied_us.get(index)
        group = getattr(self._scenario.plan[index].action, "group", None) if index < len(self._scenario.plan) else None
        if applied_us is None or group is None or group not in self._scenario.groups:
            return []
        hosts = known_names(self._scenario).members_of(group)
        return [up - down for host, down, up in self._story.restarts if host in hosts and down >= applied_us]


@frozen
class Column:
    """A column of the table of seeds; ``value`` returns the figure of a run, or None for a run without the figure."""

    head: str
    value: Callable[[Figures], float | None]
    said: Callable[[float | None], str]


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.2f}"


def _millis(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"


OF_SEEDS = (
    Column("rebalances", lambda figures: len(figures.rebalances), _count),
    Column("downtime", lambda figures: sum(figures.downtime_us.values()), _seconds),
    Column(
        "service lost",
        lambda figures: max((each.lost_max_percent for each in figures.service.values()), default=0.0),
        _percent,
    ),
    Column("stopped", lambda figures: sum(each.stopped_us for each in figures.service.values()), _seconds),
    Column("delay p50", lambda figures: figures.delay.p50_us, _millis),
    Column("p99", lambda figures: figures.delay.p99_us, _millis),
    Column("max", lambda figures: figures.delay.max_us, _millis),
    Column("lag max", lambda figures: figures.values["lag_max"], _seconds),
    Column("reprocessed", lambda figures: figures.reprocessed, _count),
    Column("lost", lambda figures: figures.lost, _count),
    Column("expected losses", lambda figures: figures.expected_losses, _count),
    Column("leaderless", lambda figures: figures.values["leaderless"] or 0, _seconds),
)
"""The columns of the table of seeds, in order."""


def _of_streams(name: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.values[name]


def _megabytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.1f}"


OF_STREAMS_SEEDS = (
    Column("task downtime", _of_streams("task_downtime"), _seconds),
    Column("detect", _of_streams("task_detect"), _seconds),
    Column("barrier", _of_streams("task_barrier"), _seconds),
    Column("restore", _of_streams("task_restore"), _seconds),
    Column("pause", _of_streams("task_pause"), _seconds),
    Column("tasks moved", _of_streams("tasks_moved"), _count),
    Column("least", _of_streams("tasks_least"), _count),
    Column("MB read", _of_streams("read_bytes"), _megabytes),
    Column("in vain", _of_streams("read_in_vain"), _megabytes),
)
"""Further columns for runs with Streams applications."""


def _median(column: Column, values: Sequence[float | None]) -> str:
    from statistics import median  # only for a table of seeds

    known = [value for value in values if value is not None]
    return column.said(median(known) if known else None)


def table_of_seeds(results: Sequence[RunResult], command_for: Callable[[int], str]) -> Iterable[str]:
    """The lines of a table with one row for each run, then each failed run with the command that repeats the run.

    The table omits columns that are zero in all runs.
    """
    first = results[0]
    failed = [result for result in results if OF_VERDICT[result.verdict]]
    yield f"{first.scenario}, profile {first.profile}, seeds {first.seed} to {results[-1].seed}"
    yield f"{len(results) - len(failed)} of {len(results)} hold"
    yield ""
    yield from _rows_of_seeds(results)
    yield "  seconds; downtime and leaderless in partition-seconds; service lost: the largest share at any moment"
    yield ""
    yield from _sums_of_seeds(results)
    for result in failed:
        yield f"seed {result.seed} {result.verdict}: {result.reason}"
        yield f"  {command_for(result.seed)}"


def _rows_of_seeds(results: Sequence[RunResult]) -> Iterable[str]:
    streams = any(result.figures.streams for result in results)
    columns = (*OF_SEEDS, *OF_STREAMS_SEEDS) if streams else OF_SEEDS
    rows = []
    for result in results:
        idle = result.did_not_work
        costs = ["-" if idle else column.said(column.value(result.figures)) for column in columns]
        verdict = click.style("did not work" if idle else result.verdict, fg=COLOURS[result.verdict])
        rows.append([f"{result.seed}", verdict, *costs])
    if len(results) > 1:
        known = [[column.value(each.figures) for each in results if not each.did_not_work] for column in columns]
        rows.append(["median", "", *(_median(column, values) for column, values in zip(columns, known, strict=True))])
    heads = [TableColumn("seed", right=True), TableColumn("verdict")]
    heads += [TableColumn(column.head, right=True) for column in columns]
    yield from table(*without_zeros(heads, rows, keys=2), keys=2)


def _sums_of_seeds(results: Sequence[RunResult]) -> Iterable[str]:
    """The lines about all runs: losses, unmended parts, and entries of the plan that had no effect."""
    lost = [loss for result in results for loss in result.losses]
    if lost:
        runs = sum(1 for result in results if result.losses)
        reasons = ", ".join(
            f"{sum(each.records for each in lost if each.why == why):,} {why}" for why in _reasons(lost)
        )
        yield f"expected losses in {runs} of {len(results)} runs, in records: {reasons}"
    left = [each.why for result in results for each in result.unmended]
    if left:
        runs = sum(1 for result in results if result.unmended)
        reasons = ", ".join(f"{left.count(why)} {why}" for why in dict.fromkeys(left))
        yield f"not recovered, for Kafka's own reasons, in {runs} of {len(results)} runs: {reasons}"
    for fault in unfired_in_all([result.faults for result in results]):
        yield f"fault {fault.index} never fired in any run: {fault.text}"
    for index, fault in enumerate(results[0].faults):
        short = [each for each in results if each.faults[index].done < each.faults[index].parts]
        if short:
            done = f"{short[0].faults[index].done} of {short[0].faults[index].parts}"
            yield f"fault {index} had no full effect in {len(short)} runs (seed {short[0].seed}: {done}): {fault.text}"
    idle_runs = [result for result in results if result.did_not_work]
    if idle_runs:
        yield f"{len(idle_runs)} of {len(results)} did not work, seed {idle_runs[0].seed}: {idle_runs[0].did_not_work}"


def _section(title: str) -> Iterable[str]:
    yield ""
    yield click.style(title, bold=True)


def _head(result: RunResult, scenario: Scenario) -> Iterable[str]:
    yield click.style(result.scenario, bold=True) + (f": {scenario.summary}" if scenario.summary else "")
    span = f"{span_text(result.virtual_us)} of virtual time in {result.wall_s:.2f} s"
    yield f"seed {result.seed}, profile {result.profile}, {span}"
    if scenario.runs_us > scenario.duration_us:
        longer = f"{span_text(scenario.runs_us)} instead of {span_text(scenario.duration_us)}"
        yield f"the plan takes longer than the duration: the run takes {longer}"


def _labels(scenario: Scenario, group: str, verbose: bool) -> Iterable[str]:
    """A line for each label of a group's members, such as "c1 = billing-1 on /10.0.0.5"."""
    of_all = scenario.labels()
    named = [(host, of_all[host]) for host, of, _ in scenario.member_names() if of == group and host in of_all]
    shown = named if verbose else named[:MOST_LABELS]
    yield from (f"{host} = {label}" for host, label in shown)
    if len(named) > len(shown):
        yield f"... and {len(named) - len(shown)} more labels; --verbose prints all"


def told_lines(lines: Sequence[StoryLine]) -> Iterable[str]:
    """The printed lines of a story; the middle of a long story is left out."""
    half = LAST_LINES // 2
    for number, line in enumerate(lines):
        if len(lines) > LAST_LINES and number == half:
            yield f"  ... {len(lines) - 2 * half} lines left out; --trace FILE and kemu explain FILE show all"
        if len(lines) <= LAST_LINES or number < half or number >= len(lines) - half:
            yield event_line(line, line.text())


def costs_of(figures: Figures, verbose: bool = False) -> Iterable[str]:
    """The lines about the cost of a run, without figures that are zero; ``verbose``: with Kafka's reasons in full."""
    if figures.rebalances:
        yield from _rebalances(figures.rebalances, verbose)
    yield from _downtime(figures)
    if figures.num_incompatible_rebalance:
        counts = ", ".join(f"{client} {count}" for client, count in figures.num_incompatible_rebalance.items())
        yield f"  rebalances in which V0 and V1 members met (num.incompatible.rebalance): {counts}"
    if figures.replication is not None:
        yield from _control(figures.replication)
    if figures.reassignment is not None:
        yield from _reassignment(figures.reassignment)
    if figures.closings:
        yield from _closings(figures.closings)
    for application, streams in figures.streams.items():
        yield from _tasks(application, streams)
    yield from _records(figures)


def _records(figures: Figures) -> Iterable[str]:
    """The lines about records: their number, delay, freshness and lag."""
    records = figures.records
    counts = (
        (records.appended, "appended"),
        (records.processed, "processed"),
        (figures.reprocessed, "reprocessed"),
        (figures.lost, "lost"),
        (figures.expected_losses, "expected losses"),
    )
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    if said:
        yield f"  records: {said}"
    delay = figures.delay
    if delay.p50_us is not None and delay.p99_us is not None and delay.max_us is not None:
        yield (
            f"  record delay (append to processed): p50 {span_text(delay.p50_us)}, p99 {span_text(delay.p99_us)}, "
            f"max {span_text(delay.max_us)}"
        )
    fresh = figures.freshness
    if fresh.gap_max_us:
        yield (
            f"  freshness: while newer records wait, the newest processed one is {span_text(fresh.newest_age_mean_us)} "
            f"old on average, {span_text(fresh.newest_age_max_us)} at most"
        )
        yield (
            f"    after a member's start, a newer record was processed within {span_text(fresh.fresh_after_max_us)}, "
            f"the backlog within {span_text(fresh.gap_max_us)}"
        )
    if fresh.reordered:
        yield f"  records processed after higher offsets: {fresh.reordered:,}, by up to {fresh.reorder_max:,} offsets"
    if figures.zombie_records:
        yield f"  records processed by a member that had lost the partition: {figures.zombie_records:,}"
    if figures.skipped:
        yield f"  records skipped, read by no member: {figures.skipped:,}"
    for name, value in figures.values.items():
        if value and issubclass((each := FIGURES[name]).of, FactCounter):
            yield f"  {each.meaning}: {each.text(value)} {each.unit}".rstrip()
    if any(row.max_lag for row in figures.lag):
        high = max(figures.lag, key=lambda row: row.max_lag)
        total = sum(row.lag for row in figures.lag)
        yield (
            f"  lag: {total:,} records at the end; "
            f"at most {high.max_lag:,} on one partition ({high.group}/{high.topic}-{high.partition})"
        )
        old = max(figures.lag, key=lambda row: row.max_lag_us)
        yield (
            f"  lag in seconds (age of the oldest waiting record): at most {span_text(old.max_lag_us)} "
            f"({old.group}/{old.topic}-{old.partition}), {span_text(max(row.lag_us for row in figures.lag))} at the end"
        )


def _group_records(figures: Figures, scenario: Scenario) -> Iterable[str]:
    """The lines about the size of group metadata records, for Streams and for large groups."""
    for name, group in figures.groups.items():
        spec = scenario.groups.get(name)
        size, margin = group.metadata_max_bytes, group.margin_to_limit
        if size is None or margin is None or not ((spec is not None and spec.streams) or 4 * size > size + margin):
            continue
        said = f"{margin:,} under the limit" if margin >= 0 else f"{-margin:,} over the limit"
        failed = f"; {group.generations_too_large} generations failed for it" if group.generations_too_large else ""
        yield f"  metadata of {name}: {size:,} bytes in one record at most, {said} (message.max.bytes){failed}"


def _reassignment(moves: ReassignmentFigures) -> Iterable[str]:
    """The lines about reassignments: duration, and load on brokers."""
    took = f"in {span_text(moves.took_us)}" if moves.took_us is not None else "and did not end"
    left = f", {moves.unfinished} unfinished" if moves.unfinished else ""
    yield f"  reassignments: {moves.partitions} partitions in {len(moves.steps)} steps, {took}{left}"
    yield (
        f"    {moves.moved_bytes / 1e6:,.1f} MB moved, at most {moves.most_replicas} replicas of a partition at a time,"
        f" {moves.isr_changes} changes of ISRs"
    )
    for name, why in moves.waiting.items():
        yield f"    {name} waits: {why or 'without a reason from the controller'}"
    for name, logs in moves.emptied.items():
        yield f"    {name} has no replica any more" + (f", but {logs} logs remain on its disk" if logs else "")
    loads = sorted(moves.peak_extra_bytes_per_s.items(), key=lambda pair: (-pair[1], pair[0]))
    if loads:
        said = ", ".join(f"{name} {load / 1e6:,.1f}" for name, load in loads[:4])
        yield f"    extra load of brokers by moved data, in the worst second of each broker (MB/s): {said}"


def _tasks(application: str, streams: StreamsFigures) -> Iterable[str]:
    """The lines about a Streams application's tasks: rebalances by event, downtime by task, restores."""
    yield f"  tasks of {application}: {len(streams.downtime_us)}, {streams.tasks_down} down for some time"
    for episode in streams.episodes:
        balanced = "never balanced"
        if episode.balanced_us is not None:
            balanced = f"balanced after {span_text(episode.balanced_us - episode.began_us)}"
        rested = (
            "" if episode.rested_us is None else f", settled after {span_text(episode.rested_us - episode.began_us)}"
        )
        reasons = ", ".join(f"{count} {reason}" for reason, count in episode.rebalances.items()) or "none"
        empty = f" ({episode.empty} without a change)" if episode.empty else ""
        back = f", {episode.back_and_forth} of them back and forth" if episode.back_and_forth else ""
        yield f"    {clock_text(episode.began_us)}  {episode.why}: {balanced}{rested}"
        moved = f"tasks moved: {episode.moved}, at least {episode.min_moves} had to{back}"
        yield f"      {moved}; rebalances: {reasons}{empty}"
    if streams.task_downtime:
        parts = {
            "detection": streams.detect_us,
            "waiting for the others to join": streams.barrier_us,
            "restoring": streams.restore_us,
            "paused for rebalances": streams.pause_us,
        }
        total, most = sum(streams.downtime_us.values()), span_text(streams.downtime_max_us)
        yield f"    downtime of tasks: {total / 1e6:,.2f} task-seconds, at most {most} of one task"
        yield f"      of that: {_shares(parts, 'task-seconds')}"
        yield from _rows_of_tasks(streams)
    waits = streams.join_waits_us
    if any(waits.values()):
        most = max(waits, key=lambda member: waits[member])
        yield (
            f"    waiting for others to join: {sum(waits.values()) / 1e6:,.2f} member-seconds, at most "
            f"{span_text(waits[most])} of {most}"
        )
    if streams.learner_us:
        yield (
            f"    learned or warmed up: {streams.learner_us / 1e6:,.1f} task-seconds, "
            f"{streams.idle_ready_us / 1e6:,.1f} of them by learners that were ready"
        )
    if streams.imbalance_us:
        yield f"    the largest deviation of an instance from its share: {streams.imbalance_us / 1e6:,.1f} task-seconds"
    if streams.read_bytes:
        said = ", ".join(f"{role} {count / 1e6:,.1f}" for role, count in streams.read_bytes.items())
        yield f"    read of changelogs (MB): {said}; wasted: {streams.wasted_bytes / 1e6:,.1f}"
        if streams.avoidable_bytes:
            yield f"      read by owners although another instance had a copy: {streams.avoidable_bytes / 1e6:,.1f}"


def _rows_of_tasks(streams: StreamsFigures) -> Iterable[str]:
    """The lines about the longest downtimes of tasks."""
    rows = streams.task_downtime
    shown = rows
    if len(rows) > MOST_REBALANCES:
        longest = sorted(rows, key=lambda row: row.from_us - row.until_us)[:MOST_REBALANCES]
        shown = tuple(row for row in rows if row in longest)
        yield f"    {len(rows)} times; the longest:"
    heads = [TableColumn("task"), *(TableColumn(head, right=True) for head in TASK_HEADS), TableColumn("cause, owner")]
    cells = []
    for row in shown:
        spent = (row.until_us - row.from_us, row.detect_us, row.barrier_us, row.restore_us, row.pause_us)
        taken = row.taken_by or "no instance"
        owner = f"{row.instance} resumes" if taken == row.instance else f"{row.instance}, then {taken}"
        times = [span_text(us) if us else "-" for us in spent]
        cells.append([row.task, clock_text(row.from_us), *times, f"{_CAUSES.get(row.cause, row.cause)}: {owner}"])
    yield from table(*without_zeros(heads, cells, keys=3), indent=6)


def _spans(what: str, spent_us: Mapping[str, int]) -> Iterable[str]:
    """The lines about partitions with a state such as "without a leader": number, total time, longest times."""
    spans = {name: us for name, us in spent_us.items() if us}
    if spans:
        worst = sorted(spans.items(), key=lambda pair: (-pair[1], pair[0]))
        said = ", ".join(f"{name} {span_text(us)}" for name, us in worst[:4])
        yield f"  {what}: {len(spans)}, {sum(spans.values()) / 1e6:,.2f} partition-seconds in all"
        yield f"    the longest: {said}"


def _downtime(figures: Figures) -> Iterable[str]:
    """The lines about partitions without service: causes, waits, and the share of each group's partitions."""
    yield from _spans("partitions without service for some time", figures.downtime_us)
    if not figures.downtime:
        return
    causes: dict[str, int] = {}
    waits: dict[str, int] = {}
    for row in figures.downtime:
        causes[row.cause] = causes.get(row.cause, 0) + row.until_us - row.from_us
        for piece in row.pieces:
            waits[piece.cause] = waits.get(piece.cause, 0) + piece.until_us - piece.from_us
    yield f"    interrupted as: {_shares(causes)}"
    yield "    waiting, in partition-seconds:"
    for cause, us in sorted(waits.items(), key=lambda pair: (-pair[1], pair[0])):
        yield f"      {us / 1e6:>9,.2f}  for {cause}"
    for group, service in figures.service.items():
        stopped = f", {span_text(service.stopped_us)} at 100 %" if service.stopped_us else ""
        yield (
            f"  service lost of {group}: at most {service.lost_max_percent:g} % of partitions at a time{stopped}; "
            f"{span_text(service.lost_us)} of the whole service in all"
        )


def _shares(spent_us: Mapping[str, int], unit: str = "partition-seconds") -> str:
    rows = sorted(spent_us.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{name} {us / 1e6:,.2f}" for name, us in rows if us) + f" {unit}"


def _control(figures: ReplicationFigures) -> Iterable[str]:
    """The lines about controllers, elections, ISR changes, and partitions without leader or in-sync replicas."""
    terms = [
        f"{broker_host(term.broker)} from {clock_text(term.from_us)} (epoch {term.controller_epoch})"
        for term in figures.controllers
    ]
    yield f"  controllers: {', '.join(terms) or 'none'}"
    chosen = [f"{count} {strategy}" for strategy, count in figures.elections.items() if strategy != "new"]
    if chosen:
        yield f"  elections of leaders: {', '.join(chosen)}"
    if figures.isr_shrinks or figures.isr_expands:
        yield f"  ISRs: shrunk {figures.isr_shrinks:,} times, expanded {figures.isr_expands:,} times"
    yield from _spans("partitions without a leader for some time", figures.leaderless_us)
    yield from _spans("partitions under min.insync.replicas for some time", figures.under_min_isr_us)
    yield from _spans("partitions under-replicated for some time", figures.under_replicated_us)


def _closings(closings: Sequence[ClosingFigures]) -> Iterable[str]:
    """The lines about clean stops of hosts: duration, and work that a host had not finished."""
    slowest = max(closings, key=lambda row: row.took_us)
    many = f"{len(closings)} hosts were closed, the slowest" if len(closings) > 1 else "closed"
    yield f"  {many}: {slowest.host} in {span_text(slowest.took_us)}"
    for row in closings:
        if row.still_led:
            yield f"    {row.host} ended as leader of {row.still_led:,} partitions"
        if row.uncommitted:
            yield f"    {row.host} gave up partitions with {row.uncommitted:,} records processed and not committed"


def _rebalances(rows: Sequence[RebalanceFigures], verbose: bool = False) -> Iterable[str]:
    """The lines about rebalances: every rebalance, or of many rebalances the longest and the total time."""
    shown = rows
    if len(rows) > MOST_REBALANCES:
        longest = sorted(rows, key=lambda row: -row.took_us)[:MOST_REBALANCES]
        shown = [row for row in rows if row in longest]
        yield f"  rebalances: {len(rows)}, {span_text(sum(row.took_us for row in rows))} in all; the longest:"
    else:
        yield "  rebalances"
    heads = [TableColumn("group"), *(TableColumn(head, right=True) for head in REBALANCE_HEADS), TableColumn("reason")]
    cells = [
        [
            row.group,
            f"{row.generation}",
            clock_text(row.started_us),
            "unfinished" if row.ended_us is None else span_text(row.took_us),
            span_text(row.stop_the_world_us),
            f"{row.members}",
            f"{row.moved}",
            row.reason if verbose else short_reason(row.reason),
        ]
        for row in shown
    ]
    yield from table(*without_zeros(heads, cells, keys=4), keys=2, indent=4)


def _faults(result: RunResult, restarts: Restarts) -> Iterable[str]:
    for fault in result.faults:
        said = f"  {fault.index}  {restarts.in_text(fault.index, fault.text)}"
        if fault.parts:
            said += f": fired {fault.done} of {fault.parts}"
            yield said if fault.done == fault.parts else click.style(said, fg="yellow")
        elif fault.fired:
            times = "once" if fault.fired == 1 else f"{fault.fired:,} times"
            yield f"{said}: fired {times}"
        else:
            yield click.style(f"{said}: NEVER FIRED", fg="yellow")


def _reasons(losses: Iterable[Loss]) -> list[str]:
    return list(dict.fromkeys(loss.why for loss in losses))


def _losses(losses: Sequence[Loss]) -> Iterable[str]:
    """The lines about records lost as Kafka's rules allow, by reason."""
    for why in _reasons(losses):
        rows = [loss for loss in losses if loss.why == why]
        yield f"  {sum(loss.records for loss in rows):,} records by {why}: {LOSS_REASONS[why]}"
        for loss in rows[:MOST_LOSSES]:
            which = f"{loss.partition}, offsets {loss.first} to {loss.last}"
            yield f"    {clock_text(loss.at_us)}  {loss.records:,} records of {which}"
        if len(rows) > MOST_LOSSES:
            yield f"    ... and {len(rows) - MOST_LOSSES} more times"


def _unmended(left: Sequence[Unmended]) -> Iterable[str]:
    """The lines about conditions from which Kafka itself does not recover, by reason."""
    for why in dict.fromkeys(each.why for each in left):
        rows = [each for each in left if each.why == why]
        yield f"  {why}: {STAYS_DEGRADED[why]}"
        yield from (f"    {each.text}" for each in rows[:MOST_LOSSES])
        if len(rows) > MOST_LOSSES:
            yield f"    ... and {len(rows) - MOST_LOSSES} more"


def _waiting(result: RunResult) -> Iterable[str]:
    """The lines about hosts and groups that wait at the end, with waiting time and cause."""
    for each in result.waiting[:MOST_WAITING]:
        yield f"  {still_text(each, result.virtual_us)}"
    if len(result.waiting) > MOST_WAITING:
        yield f"  ... and {len(result.waiting) - MOST_WAITING} more"


def _violations(result: RunResult, scenario: Scenario) -> Iterable[str]:
    """The lines about every violation, the error of a broken run, and a run whose figures are not comparable."""
    unexpected, _ = split(result.violations, scenario.expect)
    for violation in result.violations:
        said = "" if violation in unexpected else "expected, "
        what = f"{violation.checker} ({said}{violation.kind})"
        text = short_members(violation.text)
        yield f"  {clock_text(violation.at_us)}  step {violation.seq}: {what}: {text}"
        kafkas_own = STAYS_BLOCKED.get((violation.checker, violation.kind))
        if kafkas_own:
            yield f"    as in Kafka: {kafkas_own}"
    if result.did_not_work:
        yield f"  did not work: {result.did_not_work}"
        yield "  the cost of this run is not comparable with the cost of a run that worked"
    if result.broke:
        yield from (f"  {line}" for line in result.broke.splitlines())


def _run_itself(report: RunReport) -> Iterable[str]:
    """The lines with speed, digest, trace, and the command that repeats the run."""
    result, trace = report.result, report.trace
    speed = result.virtual_us / 1e6 / result.wall_s if result.wall_s else 0
    yield (
        f"  {result.loop} loop, {result.steps:,} steps, {result.messages:,} messages, "
        f"{speed:,.0f} times as fast as real time"
    )
    yield f"  digest: {result.digest}"
    if trace is not None:
        yield f"  trace: {trace}"
        around = " --around violation" if result.violations else ""
        yield f"  read the trace with: kemu explain {trace}{around}"
        yield f"  replay the trace with: kemu replay {trace}"
    yield f"  repeat with: {report.command}"
