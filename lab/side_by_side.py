"""``python -m lab.side_by_side FOLDER``: the tables of ``docs/explanation/classic-and-consumer.md``.

Each row is a call of ``kemu compare``. The formation of a group of the consumer protocol moves partitions, and a
classic group waits for its members before the first assignment. So a table has the cost of an event alone. The cost is
the figure of the run, minus the figure of the same seed and protocol until 40 s, when the event begins.

FOLDER keeps the answer of each call as JSON, so that an interrupted command continues where it stopped. ``--write``
replaces the tables in the page.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from typing import Any

import click
from attrs import frozen

from kemu.emulator.facts import Handler, Seen, sent
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.group import Heartbeat
from kemu.tools.intervals import spread
from lab.operators import ROOT

PAGE = ROOT / "docs" / "explanation" / "classic-and-consumer.md"
SCENARIO = "consumer-protocol-steady"
COOPERATIVE, EAGER, CONSUMER = "classic+cooperative-sticky", "classic+range", "consumer"
SEEDS = "1:40"
DEFAULT_S: Mapping[str, int] = {COOPERATIVE: 3, EAGER: 3, CONSUMER: 5}
"""Protocol -> Kafka's default heartbeat interval, in seconds."""
SHOWN: Mapping[str, str] = {
    "downtime_sum": "downtime, partition-s",
    "stopped": "all stopped, s",
    "moved": "moved",
    "reprocessed": "reprocessed",
}
"""Figure -> the head of its column. All are sums over the run."""


@frozen
class MeasuredEvent:
    """A row of a table: an event, and the options of ``kemu compare SCENARIO`` that cause the event.

    ``settings``: options of the group before the event, with a name for files. The first of ``protocols`` is the base
    of the comparison.
    """

    name: str
    said: str
    plan: str
    settings: tuple[str, str] = ("", "")
    protocols: Sequence[str] = (COOPERATIVE, EAGER, CONSUMER)

    @property
    def formation(self) -> "MeasuredEvent":
        """The start of the group alone."""
        return MeasuredEvent(f"start{self.settings[0]}", "", "--set duration=40s", self.settings)

    @property
    def words(self) -> list[str]:
        """The words of the command, after "kemu"."""
        options = shlex.split(f"{self.settings[1]} {self.plan}")
        return ["compare", SCENARIO, *options, "--protocols", ",".join(self.protocols), "--seeds", SEEDS]


def _every(seconds: int) -> tuple[str, str]:
    """The settings that give the members of both protocols one heartbeat interval."""
    settings = (
        "heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
    )
    # Only a classic group has the first setting. A variant of the consumer protocol leaves it out.
    changes = ("group.protocol=classic", *(f"{name}={seconds}000" for name in settings))
    return f"-{seconds}s", " ".join(f"--set {each}" for each in changes)


_JOINS = '--do "add-members group=g at=40s"'
_LEAVES = '--do "remove-members group=g at=40s"'
_RESTARTS = '--set duration=190s --do "rolling-restart group=g at=40s every=20s down=8s"'
_TO = '--set duration=190s --do "rolling-upgrade group=g at=40s every=20s down=8s settings=group.protocol={}"'
_STATIC = ("-static", "--set static=true")
_CHANGES = (("join", "a member joins", _JOINS), ("leave", "a member leaves", _LEAVES))
_RESTART = ("restart", "six members restart in turn", _RESTARTS)

TABLES: Mapping[str, Sequence[MeasuredEvent]] = {
    "events": (
        MeasuredEvent("start", "six members start within 2 s", "--set duration=40s"),
        *(MeasuredEvent(*each) for each in _CHANGES),
        MeasuredEvent("double", "six members join at once", '--do "add-members group=g at=40s count=6"'),
        MeasuredEvent(*_RESTART),
        MeasuredEvent("restart-static", "six static members restart in turn", _RESTARTS, _STATIC),
        MeasuredEvent("crash", "a crash; back after 20 s", '--set duration=150s --do "crash host=c2 at=40s for=20s"'),
        MeasuredEvent("pause", "a member pauses for 60 s", '--set duration=150s --do "pause host=c2 at=40s for=60s"'),
        MeasuredEvent(
            "slow",
            "a member joins while another does not poll for 30 s",
            '--set duration=120s --do "stop-polling host=c1 at=39s for=30s" --do "add-members group=g at=40s"',
        ),
        MeasuredEvent(
            "failover", "the coordinator crashes", '--set duration=120s --do "kill-coordinator group=g at=40s for=20s"'
        ),
        MeasuredEvent(
            "join-failover",
            "a member joins; the coordinator crashes 2 s later",
            '--set duration=120s --do "add-members group=g at=40s" --do "kill-coordinator group=g at=42s for=20s"',
        ),
    ),
    "migration": (
        MeasuredEvent(
            "migrate",
            "six members restart in turn, from classic to consumer",
            _TO.format("consumer"),
            protocols=(COOPERATIVE, EAGER),
        ),
        MeasuredEvent(
            "migrate-back",
            "six members restart in turn, from consumer to classic",
            _TO.format("classic"),
            protocols=(CONSUMER,),
        ),
        MeasuredEvent(
            "migrate-static",
            "six static members restart in turn, from classic to consumer",
            _TO.format("consumer"),
            _STATIC,
            (COOPERATIVE, EAGER),
        ),
    ),
}


INTERVALS_OF: Sequence[MeasuredEvent] = (MeasuredEvent(*_RESTART),)
"""The events of the table of heartbeat intervals."""
INTERVALS_S = (1,)
"""The columns of this table before the column of Kafka's defaults, in seconds."""


def at_interval(event: MeasuredEvent, seconds: int) -> MeasuredEvent:
    """The event in a group whose members all have this heartbeat interval."""
    said = f"{event.said}; a heartbeat every {seconds} s"
    return MeasuredEvent(f"{event.name}-{seconds}s", said, event.plan, _every(seconds), event.protocols)


def measured_events() -> list[MeasuredEvent]:
    """The events of all tables."""
    listed = [event for events in TABLES.values() for event in events]
    return [*listed, *(at_interval(event, each) for event in INTERVALS_OF for each in INTERVALS_S)]


def costs_of(answer: Mapping[str, Any], formation: Mapping[str, Any] | None) -> dict[str, dict[str, list[float]]]:
    """Protocol -> figure -> the cost of the event by seed, from answers of ``kemu compare --format json``.

    ``formation``: the answer to the run that ends before the event; None counts the whole run. Costs are empty if the
    protocol did not work.
    """
    before = {} if formation is None else {_protocol(each): each["by_seed"] for each in formation["variants"]}
    found: dict[str, dict[str, list[float]]] = {}
    for variant in answer["variants"]:
        protocol = _protocol(variant)
        found[protocol] = {}
        for name in SHOWN if variant["by_seed"] else ():
            values = variant["by_seed"][name]
            earlier = before[protocol][name] if before else [0] * len(values)
            found[protocol][name] = [value - sooner for value, sooner in zip(values, earlier, strict=True)]
    return found


def _protocol(variant: Mapping[str, Any]) -> str:
    return "+".join(filter(None, (variant["protocol"], variant["assignors"])))


def table(rows: Sequence[tuple[MeasuredEvent, Mapping[str, Mapping[str, list[float]]]]]) -> Iterator[str]:
    """The lines of a table in Markdown: a row for each event and protocol, with ``costs_of`` the event.

    A cell has the median over the seeds with its 95 % interval. "Better" and "worse" compare with the event's first
    protocol: the interval of the differences of equal seeds excludes 0.
    """
    yield f"| event | protocol | {' | '.join(SHOWN.values())} |"
    yield f"|---|---|{'---|' * len(SHOWN)}"
    for event, costs in rows:
        base = next(iter(costs.values()))
        for protocol, mine in costs.items():
            cells = [_cell(name, mine[name], base[name]) for name in SHOWN] if mine else ["-"] * len(SHOWN)
            yield f"| {event.said if mine is base else ''} | {protocol} | {' | '.join(cells)} |"


def _cell(name: str, values: Sequence[float], base: Sequence[float]) -> str:
    text, here = FIGURES[name].text, spread(values)
    apart = spread([mine - other for mine, other in zip(values, base, strict=True)])
    assert here.low is not None and here.high is not None and apart.low is not None and apart.high is not None
    says = " better" if apart.high < 0 else " worse" if apart.low > 0 else ""
    around = "" if here.low == here.high else f" [{text(here.low)}, {text(here.high)}]"
    return f"{text(here.median)}{around}{says}"


def answer_of(event: MeasuredEvent, folder: Path) -> Mapping[str, Any]:
    """The answer to an event's command, from its file in the folder, or from a run that writes the file.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    path = folder / f"{event.name}.json"
    if not path.exists():
        command = [sys.executable, "-c", "from kemu.tools.cli import main; main()", *event.words]
        command += ["--format", "json", "--quiet", "--yes"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        path.write_text(done.stdout, encoding="utf-8")
    answer: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return answer


def option_table(events: Sequence[MeasuredEvent]) -> Iterator[str]:
    """The lines of the table of the options that cause the events, in Markdown."""
    yield "| event | options of `kemu compare` |"
    yield "|---|---|"
    for event in events:
        yield f"| {event.said} | `{f'{event.settings[1]} {event.plan}'.strip()}` |"


class _Heartbeats:
    """Reads the last time at which each member sent a heartbeat."""

    def __init__(self) -> None:
        self.last_us: dict[str, int] = {}

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handler of sent heartbeats (``facts.handlers_of``)."""
        return (lambda seen, _: self.see(seen),) if kind in (sent(ConsumerGroupHeartbeat), sent(Heartbeat)) else ()

    def see(self, seen: Seen) -> None:
        """Note a heartbeat."""
        self.last_us[seen.actor] = seen.at_us


def phases(protocol: str, seed: int) -> list[float]:
    """The positions of the members' last heartbeats before 40 s in their interval, from 0 to 1, sorted."""
    scenario = with_values(load_scenario(SCENARIO), [f"group.protocol={protocol}", "duration=40s"])
    heartbeats = _Heartbeats()
    run(scenario, seed=seed, loop="bare", observers=(heartbeats,))
    interval_us = DEFAULT_S[CONSUMER if protocol == CONSUMER else COOPERATIVE] * 1_000_000
    return sorted(at_us % interval_us / interval_us for at_us in heartbeats.last_us.values())


def phase_lines(seeds: int) -> Iterator[str]:
    """For each protocol: quartiles of all phases, and of the shortest arc that has all members of a run."""
    for protocol in ("classic", CONSUMER):
        runs = [phases(protocol, seed) for seed in range(1, seeds + 1)]
        everywhere = quantiles([phase for each in runs for phase in each], n=4)
        arcs = [1 - max(b - a for a, b in pairwise([*each, each[0] + 1])) for each in runs]
        arc = quantiles(arcs, n=4)
        yield (
            f"{protocol}: {seeds} seeds, quartiles of the phases {_three(everywhere)}; "
            f"shortest arc with all members of a run {_three(arc)}"
        )


def _three(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def with_table(page: str, name: str, lines: Sequence[str]) -> str:
    """The page with these lines between the marks of the table of this name.

    Raises:
        ValueError: the page has no such marks.
    """
    start, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
    pattern = re.compile(re.escape(start) + r".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no lines {start.strip()} and {end}")
    text = start + "\n" + "\n".join(lines) + "\n\n" + end
    return pattern.sub(lambda _: text, page)


def costs(event: MeasuredEvent, folder: Path) -> dict[str, dict[str, list[float]]]:
    """``costs_of`` an event, from answers in the folder or from runs."""
    formation = None if event.name == event.formation.name else answer_of(event.formation, folder)
    return costs_of(answer_of(event, folder), formation)


def interval_table(events: Sequence[MeasuredEvent], folder: Path) -> Iterator[str]:
    """The lines of the table of downtime by heartbeat interval, in Markdown."""
    figure = next(iter(SHOWN))
    heads = [f"every {seconds} s" for seconds in INTERVALS_S]
    yield f"| {SHOWN[figure]} | protocol | {' | '.join(heads)} | default |"
    yield f"|---|---|{'---|' * (len(heads) + 1)}"
    for event in events:
        found = [costs(each, folder) for each in (*(at_interval(event, each) for each in INTERVALS_S), event)]
        for protocol in event.protocols:
            cells = [_cell(figure, each[protocol][figure], each[event.protocols[0]][figure]) for each in found]
            yield f"| {event.said if protocol == event.protocols[0] else ''} | {protocol} | {' | '.join(cells)} |"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--only", "names", multiple=True, metavar="EVENT", help='Run only this event, "intervals" or "phases"; repeatable.'
)
@click.option("--present", is_flag=True, help="Run nothing: use the events with answers in FOLDER.")
@click.option("--write", is_flag=True, help="Replace the tables in the page.")
def main(folder: Path, names: Sequence[str], present: bool, write: bool) -> None:
    """Run the commands whose answers FOLDER lacks, and print the tables."""
    folder.mkdir(parents=True, exist_ok=True)

    def shown(title: str, lines: Sequence[str]) -> None:
        # A table of some events does not replace the whole table of the page.
        _show(title, lines, write and (not names or title in names))

    def chosen(
        events: Sequence[MeasuredEvent], needs: Callable[[MeasuredEvent], Sequence[MeasuredEvent]], table: str
    ) -> list[MeasuredEvent]:
        named = [event for event in events if not names or event.name in names or table in names]
        calls = {event.name: [call for each in needs(event) for call in (each, each.formation)] for event in named}
        return [e for e in named if not present or all((folder / f"{c.name}.json").exists() for c in calls[e.name])]

    for title, events in TABLES.items():
        rows = chosen(events, lambda event: (event,), title)
        shown(title, list(table([(event, costs(event, folder)) for event in rows])) if rows else [])
    rows = chosen(INTERVALS_OF, lambda event: [event, *(at_interval(event, each) for each in INTERVALS_S)], "intervals")
    if not names or "intervals" in names:
        shown("intervals", list(interval_table(rows, folder)) if rows else [])
    _show("options", list(option_table(measured_events())), write)
    if "phases" in names:
        click.echo("\n".join(phase_lines(40)))


def _show(title: str, lines: Sequence[str], write: bool) -> None:
    if lines:
        click.echo("\n".join((title, *lines, "")))
    if lines and write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), title, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
