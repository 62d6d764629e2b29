"""What checkers are shown: the facts they have handlers for, or all, if they look themselves."""

import pytest

from kemu.emulator import facts
from kemu.emulator.checkers import CHECKERS
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.leadership import LeadershipChecker
from kemu.emulator.checkers.lifecycle import Lifecycle
from kemu.emulator.facts import Seen
from kemu.protocol.commands import Start
from kemu.protocol.notes.replication import BecameLeader


class LooksItself(Checker):
    """Counts everything."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def see(self, seen: Seen) -> None:
        """Count."""
        self.count += 1


def test_a_checker_wants_what_it_has_handlers_for() -> None:
    checker = LeadershipChecker()

    assert checker.wants(BecameLeader)
    assert not checker.wants(Start)


def test_a_checker_that_looks_at_facts_itself_wants_all() -> None:
    assert LooksItself().wants(facts.Healed)
    assert LooksItself().wants(Start)
    assert Lifecycle().wants(Start), "it looks at whoever speaks"


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_every_checker_wants_something(name: str) -> None:
    checker = CHECKERS[name]()

    assert checker.on, "it can never speak"
    assert all(checker.wants(kind) for kind in checker.on)
