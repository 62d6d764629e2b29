"""What groups have committed, as their logs have it: what a log loses, and what it gets back."""

from kemu.emulator.facts import Seen
from kemu.emulator.watching.group_commits import NOTHING, GroupCommits
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.notes.groups import OffsetCommitted, OffsetRemoved, RecordsAppended
from kemu.protocol.notes.replication import BecameLeader

AT, LOG = ("t", 0), (OFFSETS_TOPIC, 0)


class Watched:
    """A group whose log is led by one broker after the other. A commit is a record of that log."""

    def __init__(self) -> None:
        self.logs = WatchedLogs()
        self.commits = GroupCommits(self.logs, lambda seen: seen.actor != "zombie", lambda group: LOG)
        self.end = 0

    def leads(self, epoch: int, end: int, epochs: tuple[tuple[int, int], ...]) -> None:
        topic, number = LOG
        fact = BecameLeader(
            topic=topic, partition=number, leader_epoch=epoch, isr=(), end_offset=end, high_watermark=0, epochs=epochs
        )
        for part in (self.logs, self.commits):
            part.on[BecameLeader](Seen(0, 0, f"b{epoch}", 1, fact), fact)
        self.end = end

    def commits_offset(self, offset: int, actor: str = "b0") -> None:
        topic, number = LOG
        appended = RecordsAppended(topic=topic, partition=number, base_offset=self.end, count=1)
        self.logs.on[RecordsAppended](Seen(0, 0, actor, 1, appended), appended)
        fact = OffsetCommitted(
            group="g", topic="t", partition=0, offset=offset, member_id="m", generation=1, position=self.end
        )
        self.commits.on[OffsetCommitted](Seen(0, 0, actor, 1, fact), fact)
        self.end += 1


def told() -> Watched:
    watched = Watched()
    watched.leads(0, 0, ((0, 0),))
    for offset in (10, 20, 30):
        watched.commits_offset(offset)
    return watched


def test_what_the_log_has_lost_is_committed_no_more() -> None:
    """The commit before counts again; a reader of the panel is told what changed."""
    watched = told()
    watched.leads(1, 2, ((0, 0), (1, 2)))

    assert watched.commits.of("g", AT) == 20
    assert watched.commits.changed == [(("g", AT), 20)]


def test_a_log_without_any_commit_leaves_nothing_and_another_brings_all_back() -> None:
    """A replica that was not in time to lose them leads later."""
    watched = told()
    watched.leads(1, 0, ((1, 0),))
    lost = watched.commits.of("g", AT)
    watched.leads(2, 3, ((0, 0), (2, 3)))

    assert (lost, watched.commits.of("g", AT)) == (NOTHING, 30)
    assert watched.commits.changed == [(("g", AT), 30)]


def test_what_may_be_another_record_of_its_epoch_is_committed_no_more() -> None:
    """Its leader lost two commits, led on in its epoch, and wrote two others; the next leader may have kept the first.

    Behind them is one record only.
    """
    watched = told()
    watched.leads(0, 1, ((0, 0),))
    for offset in (40, 50):
        watched.commits_offset(offset)
    watched.leads(1, 3, ((0, 0),))

    assert watched.commits.of("g", AT) == 10
    assert watched.commits.changed == [(("g", AT), 10)]
    watched.commits_offset(60, actor="b1")
    watched.leads(2, 4, ((0, 0), (1, 3)))
    assert (watched.commits.of("g", AT), watched.commits.changed) == (60, [])


def test_what_a_deposed_coordinator_says_is_nobodys() -> None:
    """Nor is anything changed by a leader that has the whole log."""
    watched = told()
    watched.commits_offset(99, actor="zombie")
    watched.leads(1, 3, ((0, 0), (1, 3)))

    assert (watched.commits.of("g", AT), watched.commits.changed) == (30, [])


def test_a_removed_commit_is_told_with_what_it_was() -> None:
    """Expiry, an operator, a topic that is deleted."""
    watched = told()
    fact = OffsetRemoved(group="g", topic="t", partition=0, why="expired")
    watched.commits.on[OffsetRemoved](Seen(0, 0, "b0", 1, fact), fact)

    assert (watched.commits.before, watched.commits.of("g", AT)) == (30, NOTHING)
