"""From which leader epoch a member's two consumers read."""

from kemu.emulator.facts import Seen
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.watching.logs import reader_of
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.ranges import RangeProcessed


class SecondConsumers:
    """An observer: what second consumers processed, and whether the panel knew by then from where they read it."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.known: list[bool] = []

    def wants(self, kind: type) -> bool:
        return kind is RangeProcessed

    def see(self, seen: Seen) -> None:
        fact = seen.fact
        at = (fact.topic, fact.partition)
        self.known.append(bool(self._panel.logs.reads.pieces(reader_of(seen), at, fact.first, fact.last)))


def test_what_the_second_consumer_of_a_member_read_is_known_by_its_epoch() -> None:
    """Else whatever became of the log would count as read from it."""
    panel = Panel()
    second = SecondConsumers(panel)
    run(load_scenario("catch-up-crash"), seed=1, loop="bare", observers=(second,), panel=panel)

    assert len(second.known) > 5
    assert all(second.known)
