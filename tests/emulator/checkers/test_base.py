"""What checkers are shown: the facts they have handlers for, or all, if they look themselves."""

import pytest

from kemu.emulator.checkers import CHECKERS, checkers_for
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.leadership import LeadershipChecker
from kemu.emulator.checkers.lifecycle import Lifecycle
from kemu.emulator.facts import Seen, TopicGrown
from kemu.emulator.judging import Judging
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.commands import Start
from kemu.protocol.notes.replication import BecameLeader
from tests.emulator.engine.toys import Watcher


class LooksItself(Checker):
    """Keeps everything it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []

    def see(self, seen: Seen) -> None:
        """Keep."""
        self.seen.append(seen)


def test_a_checker_is_shown_what_it_has_handlers_for() -> None:
    checker = LeadershipChecker()

    assert checker.handlers_of(BecameLeader)
    assert not checker.handlers_of(Start)
    assert Lifecycle().handlers_of(Start), "it looks at whoever speaks"


def test_a_checker_that_looks_at_facts_itself_is_shown_all_of_a_run() -> None:
    """A user's own checker may have a ``see`` instead of handlers; it takes part in the verdict as any other."""
    checker, watcher = LooksItself(), Watcher()
    result = run(load_scenario("steady-group"), seed=1, loop="bare", observers=(watcher,), checkers=(checker,))

    assert result.verdict == "holds"
    assert checker.seen == watcher.facts
    assert len({type(seen.fact) for seen in checker.seen}) > 10


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_every_checker_is_shown_something(name: str) -> None:
    checker = CHECKERS[name]()
    if not checker.on:  # it needs the settings in force
        given = checkers_for(load_scenario("replicated-steady"))
        checker = next(each for each in given if each.name == name)

    assert checker.on, "it can never speak"
    assert all(checker.handlers_of(kind) for kind in checker.on)


class LooksEverySecond(Checker):
    """Notes the times of its looks, with the topics that exist then."""

    def __init__(self) -> None:
        super().__init__()
        self.looks_us = 0
        self.looked: list[tuple[int, int]] = []
        self.on = {TopicGrown: lambda seen, fact: None}

    def look(self, seen: Seen) -> None:
        """Note the look."""
        self.looked.append((seen.at_us, len(self.panel.topics)))
        self.looks_us = seen.at_us + 1_000


@pytest.mark.parametrize(
    ("at_us", "looks"),
    [
        ((0, 999), [(0, 0)]),
        ((0, 1_000), [(0, 0), (1_000, 1)]),
        ((0, 1_500), [(0, 0), (1_000, 1)]),
        ((0, 1_500, 1_999, 2_000), [(0, 0), (1_000, 1), (2_000, 3)]),
        ((0, 90_500, 90_600), [(0, 0), (1_000, 1), (90_500, 1)]),  # the first and the last look of a long silence
    ],
)
def test_a_look_sees_the_cluster_as_it_was_when_the_look_was_due(
    at_us: tuple[int, ...], looks: list[tuple[int, int]]
) -> None:
    """A condition that the next fact ends still lasts when the checker looks."""
    checker = LooksEverySecond()
    judging = Judging([checker])
    for seq, each_us in enumerate(at_us):
        judging.see(Seen(seq, each_us, "", 0, TopicGrown(topic=f"t{seq}", partitions=1)))

    assert checker.looked == looks
