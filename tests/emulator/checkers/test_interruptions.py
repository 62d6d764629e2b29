"""An owner takes its assignment and gets a position in the time that settings allow, unless a fault hits it."""

import pytest

from kemu.emulator.checkers.interruptions import BoundedWaits, Timeouts
from kemu.emulator.facts import FaultApplied, FaultEnded, HostStarted
from kemu.emulator.judging import Judging
from kemu.protocol.notes.groups import MemberBecame, PartitionHosted, PositionSet
from tests.emulator.metrics.test_metrics import MS, T0, T1, Told

TIMEOUTS = Timeouts(poll_us=10_000 * MS, request_us=5_000 * MS)
SLACK_MS = 15_000


class Group(Told):
    """b0 coordinates and leads; c1 is in generation 1 from second 2 on."""

    def __init__(self) -> None:
        super().__init__()
        self.checker = BoundedWaits(TIMEOUTS)
        self.judging = Judging((self.checker,))
        for host in ("b0", "c1"):
            self.at(0, "", HostStarted(host=host, life=1, kept_disk=True))
        for partition in (0, 1):
            self.at(0, "b0", PartitionHosted(topic="t", partition=partition, end_offset=0))
        self.rebalanced(1_000, 1_500, 1, "c1")
        became = MemberBecame(
            group="g", member_id="c1", old="PREPARING_REBALANCE", new="STABLE", generation=1, why=""
        )  # fmt: skip
        self.at(1_900, "c1", became)

    def positioned(self, at_ms: int, partition: int) -> None:
        fact = PositionSet(group="g", member_id="c1", topic="t", partition=partition, offset=0, why="committed")
        self.at(at_ms, "c1", fact)

    def found(self, at_ms: int) -> list[str]:
        self.judging.finish(at_ms * MS)
        return [violation.text.partition(" since")[0] for violation in self.checker.violations]


@pytest.mark.parametrize(
    ("late_ms", "texts"), [(0, []), (1_000, ["t-1 in g waits for the committed offset or a reset (c1)"])]
)
def test_an_owner_that_gets_no_position_is_unexplained_after_the_request_timeout(late_ms: int, texts: list[str]):
    told = Group()
    told.assigned(2_000, "c1", 1, T0, T1)
    told.positioned(2_100, 0)

    assert told.found(2_000 + 5_000 + SLACK_MS + late_ms) == texts


@pytest.mark.parametrize(("late_ms", "count"), [(0, 0), (1_000, 2)])
def test_an_owner_that_does_not_take_its_assignment_is_unexplained_after_the_poll_interval(late_ms: int, count: int):
    told = Group()
    told.received(2_000, "c1", 1, T0, T1)

    texts = told.found(2_000 + 10_000 + SLACK_MS + late_ms)
    assert texts == [f"t-{number} in g waits for the owner to take its assignment (c1)" for number in range(count)]


def test_an_owner_owes_no_position_while_a_fault_hits_it():
    told = Group()
    told.assigned(2_000, "c1", 1, T0)
    told.at(3_000, "", FaultApplied(index=0, kind="isolate", text="c1 is cut off", links=(("c1", ""),), lasts=True))
    told.at(60_000, "", FaultEnded(index=0, kind="isolate"))

    assert told.found(60_000 + SLACK_MS) == []
