"""A run that tells all that it draws and does, entry by entry, in one order: what two processes can be compared by.

An entry is a packable tuple, its first item the kind: ("draw", purpose, bits, value), or what a trace's recorder is
told: ("step", ...), ("packet", ...), ("fact", ...), ("broken", ...).
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
Tell: TypeAlias = Callable[[Entry], None]


class _Draws:
    """``chance.Seeded``, each draw of which is told."""

    tie = None

    def __init__(self, seed: int, tell: Tell) -> None:
        self._seeded = Seeded(seed)
        self._tell = tell

    def stream(self, purpose: str) -> Stream:
        """The draws for a purpose."""
        bits = self._seeded.stream(purpose).bits
        tell = self._tell

        def told(count: int) -> int:
            value = bits(count)
            tell(("draw", purpose, count, value))
            return value

        return Stream(told)


class _Records:
    """A trace's ``Recorder`` that tells its records."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def step(self, row: StepRow) -> None:
        """One step of one machine."""
        self._tell(("step", *row))

    def packet(self, row: PacketRow) -> None:
        """What became of a packet."""
        self._tell(("packet", *row))

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """A fact of the world."""
        self._tell(("fact", seq, at_us, to_row(fact)))

    def broken(self, row: BrokenRow) -> None:
        """A machine's own assertion failed in this step."""
        self._tell(("broken", *row))


def run_telling(scenario: Scenario, seed: int, profile: str, tell: Tell) -> None:
    """Make the run that ``runner.run`` makes, and tell each of its draws and records as it is made."""
    Run(scenario, seed=seed, profile=profile, choices=_Draws(seed, tell), recorder=_Records(tell)).run_with(run_plain)


def words(entry: Entry) -> str:
    """An entry for people, in a line."""
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
            raise AssertionError(f"{entry!r:.80} is no entry")


def plain(entry: Entry) -> Any:
    """An entry as data that can be compared field by field: what a step did has its fields by name."""
    if entry[0] != "step":
        return entry
    step = Step(*entry[1:])._asdict()
    return {**step, "effects": [effect_data(row) for row in step["effects"]]}


def first_unequal(here: Any, there: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """Where two plain values first differ, as a path into them, and what stands there in each."""
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        pairs = [(f"{where}.{key}", here[key], there[key]) for key in here]
    elif isinstance(here, list | tuple) and isinstance(there, list | tuple) and len(here) == len(there):
        pairs = [(f"{where}[{number}]", *pair) for number, pair in enumerate(zip(here, there, strict=True))]
    else:
        return None if here == there else (where, here, there)
    found = (first_unequal(mine, theirs, at) for at, mine, theirs in pairs)
    return next((each for each in found if each is not None), None)
