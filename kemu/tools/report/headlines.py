"""The first lines of a report's page: at most five figures in words, and what is still wrong at the end."""

from collections.abc import Iterator

from kemu.emulator.metrics.figures import Figures
from kemu.emulator.runner import RunResult
from kemu.protocol.frozen import frozen
from kemu.tools.report.story import TOLD_US, clock_text, span_text, still_text

MOST_TILES = 5
SMALL_US = 100_000
"""A figure below this is no headline: it comes last."""


@frozen
class Tile:
    """One figure: the number with its noun, a line about it, and its time in the run (-1: none)."""

    head: str
    text: str
    at_us: int = -1
    small: bool = False


def tiles(figures: Figures) -> list[Tile]:
    """At most five tiles: the run's own system first, then records, rebalances and delay, then small figures."""
    own = [*_tasks(figures), *_moves(figures), *_service(figures), *_leaders(figures)]
    found = [*(tile for tile in own if not tile.small), *_records(figures), *_groups(figures)]
    return [*found, *(tile for tile in own if tile.small)][:MOST_TILES]


def still(result: RunResult) -> list[tuple[str, int]]:
    """(sentence, start in us) of each wait of a second or more that has not ended, the longest first."""
    waits = sorted(result.waiting, key=lambda each: each.since_us)
    end_us = result.virtual_us
    return [(still_text(each, end_us), each.since_us) for each in waits if end_us - each.since_us >= TOLD_US]


def _tasks(figures: Figures) -> Iterator[Tile]:
    for name, streams in figures.streams.items():
        head = f"{streams.moved} task{'s' * (streams.moved != 1)} moved, at least {streams.min_moves} had to"
        longest = max(streams.task_downtime, key=lambda row: row.until_us - row.from_us, default=None)
        stop = "" if longest is None else f"; longest stop {span_text(longest.until_us - longest.from_us)}"
        learning = f", {span_text(streams.learner_us)} of learning" if streams.learner_us else ""
        yield Tile(head, f"{name}{stop}{learning}", -1 if longest is None else longest.from_us)


def _moves(figures: Figures) -> Iterator[Tile]:
    moves = figures.reassignment
    if moves is not None:
        took = "not ended" if moves.took_us is None else f"in {span_text(moves.took_us)}"
        text = f"{took}, {moves.moved_bytes / 1e6:,.1f} MB copied"
        yield Tile(f"{moves.finished} of {moves.partitions} partitions moved", text, moves.began_us)


def _service(figures: Figures) -> Iterator[Tile]:
    for group, service in sorted(figures.service.items(), key=lambda item: (-item[1].lost_us, item[0])):
        if service.lost_us:
            stopped = f", {span_text(service.stopped_us)} at 100 %" if service.stopped_us else ""
            text = f"{group} as a whole; worst {service.lost_max_percent:.3g} % at once{stopped}"
            worst = max(service.series, key=lambda pair: pair[1], default=(-1, 0.0))
            small = service.lost_us < SMALL_US
            yield Tile(f"{span_text(service.lost_us)} of service lost", text, int(worst[0]), small)
    spent = {name: us for name, us in figures.downtime_us.items() if us}
    if spent:
        name = max(spent, key=lambda each: (spent[each], each))
        text = f"{name}; {len(spent)} of {len(figures.downtime_us)} partitions interrupted"
        first_us = next(
            (row.from_us for row in figures.downtime if f"{row.group}/{row.topic}-{row.partition}" == name), -1
        )
        yield Tile(f"{span_text(spent[name])} down at most", text, first_us, spent[name] < SMALL_US)


def _leaders(figures: Figures) -> Iterator[Tile]:
    kept = figures.replication
    for verb, spans in () if kept is None else (
        ("leaderless", kept.leaderless), ("under min ISR", kept.under_min_isr),
    ):  # fmt: skip
        if spans:
            worst = max(spans, key=lambda span: span.until_us - span.from_us)
            took_us = worst.until_us - worst.from_us
            count = len({(span.topic, span.partition) for span in spans})
            text = f"{worst.topic}-{worst.partition}; {count} partition{'s' * (count != 1)} at some time"
            yield Tile(f"{span_text(took_us)} {verb}", text, worst.from_us, took_us < SMALL_US)


def _records(figures: Figures) -> Iterator[Tile]:
    if figures.records.appended:
        parts = ["records"]
        if figures.expected_losses:
            parts.append(f"{figures.expected_losses:,} expected losses")
        if figures.zombie_records:
            parts.append(f"{figures.zombie_records:,} by members without the partition")
        yield Tile(f"{figures.lost:,} lost, {figures.reprocessed:,} twice", "; ".join(parts))


def _groups(figures: Figures) -> Iterator[Tile]:
    count = len(figures.rebalances)
    if count:
        longest = max(figures.rebalances, key=lambda row: row.took_us)
        text = f"longest {span_text(longest.took_us)} at {clock_text(longest.started_us)[:5]}"
        yield Tile(f"{count} rebalance{'s' * (count != 1)}", text, longest.started_us)
    delay = figures.delay
    if delay.p99_us is not None and delay.max_us is not None:
        yield Tile(f"p99 {span_text(delay.p99_us)}, max {span_text(delay.max_us)}", "from append to processed")
