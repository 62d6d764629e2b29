"""Logs of partitions as their leaders tell: where there are two records of one epoch, and who may have which."""

import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import BecameLeader

AT = ("t", 0)


class Told:
    """One partition, in few words."""

    def __init__(self) -> None:
        self.logs = WatchedLogs()

    def leads(self, broker: int, epoch: int, end: int, *epochs: tuple[int, int]) -> None:
        fact = BecameLeader(
            topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=end, high_watermark=0, epochs=epochs
        )
        self.logs.on[BecameLeader](Seen(0, 0, f"b{broker}", 1, fact), fact)

    def appends(self, broker: int, base: int, count: int) -> None:
        fact = RecordsAppended(topic="t", partition=0, base_offset=base, count=count)
        self.logs.on[RecordsAppended](Seen(0, 0, f"b{broker}", 1, fact), fact)


@pytest.fixture(name="told")
def wrote_twice() -> Told:
    """b1 loses records 4 to 9, leads on in its epoch and writes six others there, and six more."""
    told = Told()
    told.leads(1, 0, 0, (0, 0))
    told.appends(1, 0, 10)
    told.leads(1, 0, 4, (0, 0))
    told.appends(1, 4, 12)
    return told


def test_the_next_leader_may_have_what_was_lost_or_what_came_there(told: Told) -> None:
    """And so may each leader after it; what lies behind is one record only."""
    assert told.logs.unsure is None, "b1 has what it wrote last"
    for epoch, broker in ((1, 2), (2, 1), (3, 3)):
        told.leads(broker, epoch, 16, (0, 0))
        assert (told.logs.cut, told.logs.unsure, told.logs.changed) == (None, (4, 10), True)
    told.leads(3, 4, 16, (0, 0))
    assert not told.logs.changed, "it has what it had"


def test_all_that_was_lost_is_there_twice(told: Told) -> None:
    """It loses records once more, and from an earlier one on."""
    told.leads(1, 0, 2, (0, 0))
    told.leads(2, 1, 16, (0, 0))

    assert told.logs.unsure == (2, 16)


@pytest.mark.parametrize(("end", "unsure"), [(16, (4, 10)), (10, (4, 10)), (7, (4, 7)), (4, None), (0, None)])
def test_where_the_next_leader_has_none_there_is_one_afterwards(told: Told, end: int, unsure: object) -> None:
    told.leads(2, 1, end, (0, 0), (1, end))
    assert told.logs.unsure == unsure
    told.appends(2, end, 20)
    told.leads(1, 2, end + 20, (0, 0), (1, end))
    assert told.logs.unsure == unsure


def test_a_leader_of_another_epoch_lost_nothing_that_others_may_keep() -> None:
    """They are told where the former epoch ended in its log."""
    told = Told()
    told.leads(1, 0, 0, (0, 0))
    told.appends(1, 0, 10)
    told.leads(1, 1, 4, (0, 0), (1, 4))
    told.appends(1, 4, 12)
    told.leads(2, 2, 16, (0, 0), (1, 4))

    assert not told.logs.changed
