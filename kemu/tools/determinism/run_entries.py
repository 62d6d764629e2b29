"""The entries of a run, which are its draws and trace records in order, for a comparison of two processes.

An entry is a tuple of msgpack values: ("draw", purpose, bits, value), or a record of a trace, ("step", ...),
("packet", ...), ("fact", ...) or ("broken", ...).
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from kemu.emulator.chance import Seeded, Stream
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.rows import EVENT_NAMES
from kemu.emulator.trace.traces import BrokenRow, PacketRow, Step, StepRow
from kemu.protocol.wire.values import to_row
from kemu.tools.report.transcript import clock, effect_data

Entry: TypeAlias = tuple[Any, ...]
Report: TypeAlias = Callable[[Entry], None]


class _Draws:
    """A ``chance.Seeded`` that reports each draw."""

    tie = None

    def __init__(self, seed: int, report: Report) -> None:
        self._seeded = Seeded(seed)
        self._report = report

    def stream(self, purpose: str) -> Stream:
        """Return the stream of draws for a purpose."""
        bits = self._seeded.stream(purpose).bits
        report = self._report

        def reported(count: int) -> int:
            value = bits(count)
            report(("draw", purpose, count, value))
            return value

        return Stream(reported)


class _Records:
    """A trace's ``Recorder`` that reports each record."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def step(self, row: StepRow) -> None:
        """Report one step of a machine."""
        self._report(("step", *row))

    def packet(self, row: PacketRow) -> None:
        """Report the outcome of a packet."""
        self._report(("packet", *row))

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Report a fact of the world."""
        self._report(("fact", seq, at_us, to_row(fact)))

    def broken(self, row: BrokenRow) -> None:
        """Report a step in which an assertion of the machine failed."""
        self._report(("broken", *row))


def run_reporting(scenario: Scenario, seed: int, profile: str, report: Report) -> None:
    """Run a scenario as ``runner.run`` does, and pass each draw and each trace record to ``report``."""
    Run(scenario, seed=seed, profile=profile, choices=_Draws(seed, report), recorder=_Records(report)).run_with(
        run_plain
    )


def entry_text(entry: Entry) -> str:
    """Return an entry as one line of text."""
    match entry:
        case ("draw", purpose, count, value):
            return f"draw of {count} bits for {purpose}: {value}"
        case ("packet", number, at_us, sender, to, _, api, _, verdict, _):
            return f"{clock(at_us)} packet {number}, {api} from {sender} to {to}: {verdict}"
        case ("fact", seq, at_us, fact):
            return f"{clock(at_us)} fact {seq}: {fact[0]}"
        case (kind, seq, at_us, actor, life, _, event, *_):
            return f"{clock(at_us)} {kind} {seq} of {actor} (life {life}): {EVENT_NAMES[event[0]]} {event[1:]!r:.100}"
        case _:
            raise AssertionError(f"{entry!r:.80} is not an entry")


def plain(entry: Entry) -> Any:
    """Return an entry as values to compare field by field; the effects of a step have named fields."""
    if entry[0] != "step":
        return entry
    step = Step(*entry[1:])._asdict()
    return {**step, "effects": [effect_data(row) for row in step["effects"]]}


def first_unequal(here: Any, there: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """Return the path to the first difference of two plain values, and the two different values; None: equal."""
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        pairs = [(f"{where}.{key}", here[key], there[key]) for key in here]
    elif isinstance(here, list | tuple) and isinstance(there, list | tuple) and len(here) == len(there):
        pairs = [(f"{where}[{number}]", *pair) for number, pair in enumerate(zip(here, there, strict=True))]
    else:
        return None if here == there else (where, here, there)
    found = (first_unequal(mine, theirs, at) for at, mine, theirs in pairs)
    return next((each for each in found if each is not None), None)
