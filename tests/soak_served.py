"""A served cluster with three kinds of real clients and six faults: replayed, scriptified, and run twice.

    python -m tests.soak_served --for 300 --place /tmp/served

Every acknowledged record must be read. The trace must replay without a difference. The scriptified scenario must run
twice with one digest. The command prints the figures of each step, and the first difference between the recorded run
and the scripted run.
"""

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from kemu.emulator.replay import replay
from kemu.emulator.runner import RunResult, run
from kemu.emulator.serving.payloads import with_values
from kemu.emulator.trace.traces import facts_of, read_trace
from kemu.protocol.notes.groups import (
    GroupBecame,
    JoinPhaseCompleted,
    MemberRemoved,
    OffsetCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    ScriptDeparted,
)
from kemu.tools.report.story import Story
from kemu.tools.scriptify import Scripted, scriptified
from kemu.tools.testkit.served import ServedCluster, serving
from tests.tools.real_clients import CLIENTS, REPLICATED

WARM_S = 4
FAULTS = (
    "kill-coordinator group=payments for=5s",
    "crash host=b2 mode=process for=5s",
    "slow sender=x-kafka-python add=150ms jitter=50ms for=10s",
    "lossy sender=x-aiokafka per_mille=100 for=6s",
    "isolate host=x-librdkafka for=5s",
)
"""The faults of the plan, which do not overlap in 40 s. The sixth fault is an order: a third broker crashes."""
STORY = (
    *(GroupBecame, JoinPhaseCompleted, MemberRemoved, PartitionsAssigned, PartitionsRevoked, OffsetCommitted),
)  # fmt: skip
EVERY_S = 3.0
"""Time between two batches of a producer."""
COMMIT_EVERY = 7
"""Number of polls between two commits of a consumer."""
END_WITHIN_S = 120.0
"""Longest wait for the end of the producers, and then for the last records."""


@frozen
class Repeated:
    """The outcome of a live run, its replay, and its two scripted runs."""

    verdict: str
    steps: int
    messages: int
    live_s: float
    difference: object
    scripted: Scripted
    results: tuple[RunResult, RunResult]
    departures: tuple[str, ...]
    """The story's lines about scripted clients that depart from their scripts."""
    told: tuple[int, int]
    """Number of facts about the group in the recorded run, and how many of them are equal in the scripted run."""
    acknowledged: int
    read: int
    unread: tuple[bytes, ...]
    """Acknowledged records that no consumer has read."""


class _Workers:
    """A consumer and a producer of each kind of client, each in a thread of its own."""

    def __init__(self, cluster: ServedCluster) -> None:
        self._cluster = cluster
        self._last_batches, self._ended = threading.Event(), threading.Event()
        self._numbers = count()
        self.acknowledged: dict[bytes, None] = {}
        self.read: dict[bytes, None] = {}
        self.errors: Counter[str] = Counter()
        self._producers, self._consumers = (
            [threading.Thread(target=work, args=(kind,), daemon=True) for kind in CLIENTS]
            for work in (self._produce, self._consume)
        )
        for each in (*self._producers, *self._consumers):
            each.start()

    def _consume(self, kind: str) -> None:
        consumer: Any = CLIENTS[kind](self._cluster.clients[kind])
        for number in count(1):
            self._tried(kind, lambda: self.read.update(dict.fromkeys(consumer.read())))
            if number % COMMIT_EVERY == 0:
                self._tried(kind, consumer.commit)
            if self._ended.is_set():
                break
        self._tried(kind, consumer.close)

    def _produce(self, kind: str) -> None:
        while not self._last_batches.wait(EVERY_S):
            values = [b"value %d" % next(self._numbers) for _ in range(10)]
            if self._tried(kind, partial(CLIENTS[kind].produce, self._cluster.clients[kind], values)):
                self.acknowledged.update(dict.fromkeys(values))

    def _tried(self, kind: str, call: Any) -> bool:
        try:
            call()
        except Exception as error:  # a client may give up during a fault
            self.errors[f"{kind}: {type(error).__name__}"] += 1
            return False
        return True

    @property
    def unread(self) -> tuple[bytes, ...]:
        """The acknowledged records that no consumer has read."""
        return tuple([value for value in self.acknowledged if value not in self.read])

    def end(self) -> None:
        """End the producers, let the consumers read the last records, and end the consumers."""
        late_s = time.monotonic() + END_WITHIN_S
        self._last_batches.set()
        for each in self._producers:
            each.join(max(0.0, late_s - time.monotonic()))
        late_s = time.monotonic() + END_WITHIN_S
        while self.unread and time.monotonic() < late_s:
            time.sleep(0.2)
        self._ended.set()
        for each in self._consumers:
            each.join(20)


def repeated(place: Path, for_s: float) -> Repeated:
    """Run the clients for a time, and repeat the run."""
    began_s = time.monotonic()
    step_s = for_s / (len(FAULTS) + 2)
    plan = [f"{fault} at={round(1_000 * (WARM_S + step_s * number))}ms" for number, fault in enumerate(FAULTS, start=1)]
    options = ["--warm", f"{WARM_S}s", *_options("--client", CLIENTS), *_options("--do", plan)]
    with serving(REPLICATED, place, options) as cluster:
        workers = _Workers(cluster)
        time.sleep(step_s * (len(FAULTS) + 1))
        cluster.do("crash", host="b0", mode="process", for_="4s")
        time.sleep(max(0.0, began_s + for_s - time.monotonic()))
        workers.end()
        cluster.close()
    live_s = time.monotonic() - began_s
    print("\n".join(cluster.output), *workers.errors.items(), sep="\n", file=sys.stderr)
    trace = read_trace(cluster.trace)
    found, scripted = replay(trace), scriptified(trace, "again")
    again = place / "again.kemu"
    results = [run(scripted.scenario, seed=scripted.scenario.seed, loop="bare", trace=again) for _ in range(2)]
    footer = trace.footer()
    first, second = list(story_of(cluster.trace)), list(story_of(again))
    equal = next((index for index, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    if equal is not None:
        print(f"recorded {first[equal]}\nscripted {second[equal]}", file=sys.stderr)
    return Repeated(
        verdict=cluster.verdict,
        steps=footer.steps,
        messages=footer.messages,
        live_s=live_s,
        difference=found.difference,
        scripted=scripted,
        results=(results[0], results[1]),
        departures=tuple(_departures(again)),
        told=(len(first), min(len(first), len(second)) if equal is None else equal),
        acknowledged=len(workers.acknowledged),
        read=len(workers.read),
        unread=workers.unread,
    )


def _options(name: str, values: Sequence[str] | dict[str, Any]) -> list[str]:
    return [word for value in values for word in (name, value)]


def _departures(trace: Path) -> list[str]:
    lines: list[str] = []
    story = Story.told(lines.append)
    for seen in facts_of(read_trace(trace)):
        if type(seen.fact) is ScriptDeparted:
            story.see(seen)
    return lines


def story_of(trace: Path) -> Iterator[Any]:
    """Facts about the group. The order of simultaneous expiries is drawn anew in the scripted run, so these are sorted,
    and the group's reason, which names the first of them, is left out.
    """
    seen = (each for each in facts_of(read_trace(trace), lambda kind: kind in STORY) if type(each.fact) in STORY)
    for at_us, facts in groupby(seen, lambda each: each.at_us):
        several = list(facts)
        told = [(at_us, each.actor, each.fact) for each in several]
        if sum(type(each.fact) is MemberRemoved for each in several) > 1:
            told = [(*place, with_values(fact, why="") if type(fact) is GroupBecame else fact) for *place, fact in told]
            told.sort(key=repr)
        yield from told


@click.command()
@click.option("--for", "for_s", type=float, default=300.0, show_default=True, help="Seconds of the live run.")
@click.option("--place", type=click.Path(path_type=Path, file_okay=False), help="Keep the traces in this folder.")
def main(for_s: float, place: Path | None) -> None:
    """Print the figures; exit with 1 if a record is not read, the trace does not replay, or the digests differ."""
    with tempfile.TemporaryDirectory() as other:
        folder = place or Path(other)
        folder.mkdir(exist_ok=True)
        found = repeated(folder, for_s)
    first, second = found.results
    click.echo(f"live: {found.live_s:.0f} s, {found.steps:,} steps, {found.messages:,} messages, {found.verdict}")
    click.echo(
        f"records: {found.acknowledged} acknowledged, {found.read} read, {len(found.unread)} acknowledged and not read"
    )
    click.echo(f"replay: {'no difference' if found.difference is None else found.difference}")
    for client, asked in found.scripted.asked.items():
        lost = found.scripted.unanswered[client]
        click.echo(f"{client}: {sum(asked.values())} requests, {lost} without an answer; {dict(asked)}")
    size = sum(map(len, found.scripted.scenario.clients.script))
    click.echo(f"script: {len(found.scripted.scenario.clients.script):,} lines, {size:,} bytes")
    click.echo(f"scripted: {first.steps:,} steps, {first.messages:,} messages, {first.verdict}, {first.wall_s:.1f} s")
    click.echo(f"digests: {first.digest} {second.digest}")
    click.echo("\n".join((f"departures: {len(found.departures)}", *found.departures)))
    click.echo(f"story: {found.told[1]} of {found.told[0]} facts about the group equal, until the first difference")
    sys.exit(bool(found.unread) or found.difference is not None or first.digest != second.digest)


if __name__ == "__main__":
    main()
