"""Each broker's copy by the identity of its records, and the log that counts: what it lost, and what it has again."""

from kemu.emulator.facts import DiskFound, DiskTailLost, HostDown, HostStarted, Seen
from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import BecameLeader, RecordsReplicated

AT = ("t", 0)


class Told:
    """One partition, in few words."""

    def __init__(self) -> None:
        self.copies = Copies()
        self.logs = WatchedLogs(self.copies)
        self.lives: dict[str, int] = {}

    def tell(self, actor: str, fact: object) -> None:
        seen = Seen(0, 0, actor, self.lives.setdefault(actor, 1), fact)
        for part in (self.copies, self.logs):
            if type(fact) in part.on:
                part.on[type(fact)](seen, fact)

    def leads(self, broker: int, epoch: int) -> None:
        end = self.copies.on_host(f"b{broker}", AT).log.end
        fact = BecameLeader(topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=end, high_watermark=0)
        self.tell(f"b{broker}", fact)

    def appends(self, broker: int, base: int, count: int) -> None:
        self.tell(f"b{broker}", RecordsAppended(topic="t", partition=0, base_offset=base, count=count))

    def copies_from(self, leader: int, broker: int, end: int) -> None:
        log = self.copies.on_host(f"b{broker}", AT).log
        for first, last, (epoch, life) in self.copies.on_host(f"b{leader}", AT).log.runs_from(log.end):
            if first < end:
                fact = RecordsReplicated(
                    topic="t",
                    partition=0,
                    base_offset=first,
                    count=min(last, end) - first,
                    leader_epoch=epoch,
                    life=life,
                )
                self.tell(f"b{broker}", fact)

    def loses(self, broker: int, end: int) -> None:
        """Its disk loses the end of its log, and it starts again."""
        host = f"b{broker}"
        log = self.copies.on_host(host, AT).log
        self.tell("", HostDown(host=host, life=self.lives[host], how="power"))
        self.tell("", DiskTailLost(host=host, log="replica/t-0", records=1, end_offset=end))
        runs = tuple((first, *term) for first, _, term in log.runs_from(0) if first < end)
        self.lives[host] += 1
        self.tell("", HostStarted(host=host, life=self.lives[host], kept_disk=True))
        self.tell("", DiskFound(host=host, logs=(("replica/t-0", 0, end, runs),)))


def led_on() -> Told:
    """b1 loses records 4 to 9, which b2 has, leads on in its epoch and writes twelve; b2 copies the last six."""
    told = Told()
    told.leads(1, 0)
    told.appends(1, 0, 10)
    told.copies_from(1, 2, 10)
    told.loses(1, 4)
    told.leads(1, 0)
    told.appends(1, 4, 12)
    told.copies_from(1, 2, 16)
    return told


def test_the_next_leader_has_what_was_lost_and_not_what_came_there() -> None:
    told = led_on()
    told.leads(2, 1)

    assert told.logs.lost == [(4, 10, (0, 2))]
    assert told.logs.returned == [(4, 10, (0, 1))]
    told.leads(1, 2)
    assert (told.logs.lost, told.logs.returned) == ([(4, 10, (0, 1))], [(4, 10, (0, 2))])


def test_two_logs_may_differ_where_a_disk_lost_records_and_its_broker_led_on_in_that_epoch() -> None:
    told = led_on()

    assert told.copies.may_differ(AT, 4, (0, 1), (0, 2))
    assert told.copies.may_differ(AT, 9, (0, 2), (0, 1))
    assert not told.copies.may_differ(AT, 10, (0, 1), (0, 2)), "its disk lost no such record"
    assert not told.copies.may_differ(AT, 4, (0, 1), (1, 2)), "another epoch is told"


def test_what_a_disk_lost_is_lost_until_its_broker_has_that_again() -> None:
    told = Told()
    told.leads(1, 0)
    told.appends(1, 0, 10)
    told.copies_from(1, 2, 10)
    told.loses(2, 4)
    lost = told.copies.on_host("b2", AT).lost
    told.copies_from(1, 2, 7)

    assert lost == [((4, 10, (0, 1)), "lost-tail")]
    assert told.copies.on_host("b2", AT).lost == [((7, 10, (0, 1)), "lost-tail")]


def test_a_broker_that_finds_less_than_its_disk_has_says_so() -> None:
    told = Told()
    told.leads(1, 0)
    told.appends(1, 0, 10)
    fact = BecameLeader(topic="t", partition=0, leader_epoch=1, isr=(), end_offset=6, high_watermark=0)
    told.tell("b1", fact)

    assert told.copies.on_host("b1", AT).gap == 10
