"""What was done with records that a log loses, and with those that it gets back."""

from kemu.emulator.facts import Seen
from kemu.emulator.watching.done import RecordsDone
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import BecameLeader

AT = ("t", 0)


class Watched:
    """One partition and what was done with its records."""

    def __init__(self) -> None:
        self.logs, self.done, self.changes = WatchedLogs(), RecordsDone(), list[int]()

    def leads(self, broker: str, epoch: int, end: int, epochs: tuple[tuple[int, int], ...]) -> None:
        """A leader with this log; what was done follows it."""
        fact = BecameLeader(
            topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=end, high_watermark=0, epochs=epochs
        )
        self.logs.on[BecameLeader](Seen(0, 0, broker, 1, fact), fact)
        self.changes.append(self.done.follow(self.logs))

    def appends(self, broker: str, base: int, count: int) -> None:
        """Nothing is done with them yet."""
        fact = RecordsAppended(topic="t", partition=0, base_offset=base, count=count)
        self.logs.on[RecordsAppended](Seen(0, 0, broker, 1, fact), fact)


def lost_and_led() -> Watched:
    """b1 appends ten records, which are done with; it loses them all, and leads again."""
    told = Watched()
    told.leads("b1", 0, 0, ((0, 0),))
    told.appends("b1", 0, 10)
    told.done.add(0, 10)
    told.leads("b1", 0, 0, ((0, 0),))
    return told


def test_records_that_another_replica_still_had_are_done_when_it_leads() -> None:
    """All but the last, which it did not copy."""
    told = lost_and_led()
    told.leads("b3", 3, 9, ((0, 0), (3, 9)))

    assert (list(told.done), told.changes) == ([(0, 9)], [0, 10, -9])


def test_what_came_in_their_place_is_not_what_was_done() -> None:
    """A leader in its old epoch gives the same offsets once more; the epoch does not tell the records apart."""
    told = lost_and_led()
    told.appends("b1", 0, 4)
    told.leads("b2", 1, 4, ((0, 0), (1, 4)))

    assert list(told.done) == []


def test_a_replica_with_other_records_leads_and_what_lies_behind_them_is_done_still() -> None:
    """b1 loses records 6 to 9 and leads on in epoch 1; b2 keeps those of epoch 0, and copies 10 and 11 behind them."""
    told = Watched()
    told.leads("b1", 0, 0, ((0, 0),))
    told.appends("b1", 0, 8)
    told.leads("b1", 1, 8, ((0, 0), (1, 8)))
    told.appends("b1", 8, 2)
    told.done.add(0, 10)
    told.leads("b1", 1, 6, ((0, 0), (1, 6)))
    told.appends("b1", 6, 6)
    told.done.add(10, 12)
    told.leads("b2", 2, 12, ((0, 0), (1, 8), (2, 12)))

    assert list(told.done) == [(0, 12)]


def test_records_of_another_epoch_at_these_offsets_are_others() -> None:
    """Nothing is back."""
    told = lost_and_led()
    told.leads("b3", 3, 9, ((2, 0), (3, 9)))

    assert list(told.done) == []
