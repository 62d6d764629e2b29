"""Whoever hands in the choices steers the run: its streams, and what comes first of all that is due at one instant."""

import ast
from collections.abc import Callable, Iterator, Sequence
from random import Random

from kemu.emulator.chance import Choices, Entry, Seeded, Stream
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import World
from kemu.emulator.trace.traces import TraceWriter
from tests.emulator.engine.toys import HEADER, Caller, Echo, call, digest, echo
from tests.sources import ONE_PROCESS, ROOT, nodes

SECOND = 1_000_000


class Steered(Seeded):
    """Every packet takes as long as any other; of what is due at one instant, ``pick`` says what comes first."""

    def __init__(self, pick: Callable[[Sequence[Entry]], int]) -> None:
        super().__init__(1)
        self.tie = pick  # type: ignore[assignment]
        self.asked: list[str] = []

    def stream(self, purpose: str) -> Stream:
        self.asked.append(purpose)
        return Stream(lambda bits: 0) if purpose.startswith("net/") else super().stream(purpose)


def _world(choices: Choices) -> World:
    world = World(choices, TraceWriter(None, HEADER), latency_us=(200, 2_000))
    world.add_host("b0", {"b0": lambda life: Echo("b0")})
    for name in ("c1", "c2", "c3"):
        world.add_host(name, {name: lambda life, name=name: Caller(name)})
    for host in list(world.hosts.values()):
        world.start(host)
    run_plain(world, 0)
    for number, name in enumerate(("c1", "c2", "c3")):
        call(world, number, name)
    return world


def _arrivals(choices: Choices) -> tuple[list[int], str]:
    world = _world(choices)
    run_plain(world, SECOND)
    return [number for _, number in echo(world).got], digest(world)


def _orders(choices: int) -> Iterator[int]:
    """Every sequence of picks, as the digits of the number of a run."""
    while True:
        yield choices % 3
        choices //= 3


def test_a_tie_goes_to_the_entry_that_is_picked() -> None:
    """Three requests that left and arrive at the same instants come in every order, each order again when repeated."""
    seen: dict[tuple[int, ...], str] = {}
    for number in range(9):
        outcomes = []
        for _ in range(2):
            digits = _orders(number)
            outcomes.append(_arrivals(Steered(lambda ties, digits=digits: next(digits) % len(ties))))  # type: ignore[misc]
        assert outcomes[0] == outcomes[1]
        order, made = outcomes[0]
        assert seen.setdefault(tuple(order), made) == made

    assert set(seen) == {(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)}


def test_picking_the_first_of_every_tie_is_the_seeds_own_order() -> None:
    class First(Seeded):
        tie = staticmethod(lambda ties: 0)  # type: ignore[assignment]

    assert _arrivals(First(7)) == _arrivals(Seeded(7))
    assert _arrivals(First(7)) != _arrivals(Seeded(8))


def test_candidates_are_due_at_one_instant_and_never_what_the_world_put_in_order() -> None:
    def pick(ties: Sequence[Entry]) -> int:
        assert len(ties) >= 2
        assert len({entry[0] for entry in ties}) == 1
        assert all(entry[1] >= 0 for entry in ties)
        assert list(ties) == sorted(ties, key=lambda entry: entry[:3])
        return len(ties) - 1

    order, _ = _arrivals(Steered(pick))

    assert sorted(order) == [0, 1, 2]


def test_every_stream_of_a_world_is_asked_of_its_choices_once() -> None:
    choices = Steered(lambda ties: 0)
    _arrivals(choices)

    assert choices.asked[:2] == ["threads", "ties"]
    assert len(choices.asked) == len(set(choices.asked)) > 3


def test_a_streams_draws_are_those_of_python_with_few_draws_and_with_many() -> None:
    of_python = Random("7/c1/life 1")
    drawn = [of_python.getrandbits(32) for _ in range(9)]

    words = Seeded(7).stream("c1/life 1")
    of_python.seed("7/c1/life 1")
    assert [words.word() for _ in range(3_000)] == [of_python.getrandbits(32) for _ in range(3_000)]
    below = Seeded(7).stream("c1/life 1")
    assert [below.below(1_000) for _ in drawn] == [1_000 * each >> 32 for each in drawn]
    mixed = Seeded(7).stream("c1/life 1")
    assert [mixed.below(9), mixed.bits(32), mixed.between(1, 9)] == [
        9 * drawn[0] >> 32,
        drawn[1],
        1 + (9 * drawn[2] >> 32),
    ]
    bits = Seeded(7).stream("c1/life 1").bits
    assert [bits(32) for _ in drawn] == drawn
    begun = Seeded(7).stream("c1/life 1")
    assert [begun.word(), begun.bits(32), begun.word()] == drawn[:3]


@ONE_PROCESS
def test_chance_is_made_in_one_module() -> None:
    """Only ``emulator.chance`` imports ``random``; in ``lab`` benches, samples and cases for a real Kafka do, too."""
    cases = ("task_assignors/cases.py", "assignors/cases.py", "raw/drawing.py", "target_assignors/cases.py")
    own = (
        "lab/bench/",
        "lab/damaged_logs.py",
        "lab/drawn_frames.py",
        "lab/from_schema.py",
        "lab/fuzz.py",
        "lab/operators.py",
        "lab/prose.py",
        *(f"lab/conformance/{each}" for each in cases),
    )
    for folder in ("kemu", "lab"):
        for path in (ROOT / folder).rglob("*.py"):
            place = path.relative_to(ROOT).as_posix()
            if place == "kemu/emulator/chance.py" or place.startswith(own):
                continue
            for node in nodes(path):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                assert not {"random", "_random", "secrets"} & set(names), f"{place}:{getattr(node, 'lineno', 0)}"
