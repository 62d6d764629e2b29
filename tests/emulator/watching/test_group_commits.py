"""What groups have committed, as their logs have it: what a log loses, and what it gets back."""

from kemu.emulator.facts import Seen
from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.group_commits import NOTHING, GroupCommits
from kemu.emulator.watching.logs import WatchedLogs
from kemu.emulator.watching.topic_names import TopicNames
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.notes.groups import OffsetCommitted, OffsetRemoved, RecordsAppended
from kemu.protocol.notes.replication import BecameLeader, LogCleaned

AT, LOG = ("t", 0), (OFFSETS_TOPIC, 0)


class Watched:
    """A group whose log is led by one broker after the other. A commit is a record of that log."""

    def __init__(self) -> None:
        self.copies = Copies()
        self.logs = WatchedLogs(self.copies)
        self.commits = GroupCommits(self.logs, lambda seen: seen.actor != "zombie", lambda group: LOG, TopicNames())
        self.life, self.end = 1, 0

    def leads(self, epoch: int, kept: int, broker: str = "", life: int = 1) -> None:
        """A broker leads that has the log of the one before up to here."""
        broker = broker or f"b{epoch}"
        log = self.logs.of(LOG).records.copy()
        log.truncate(kept)
        self.copies.on_host(broker, LOG).log = log
        self.lead(broker, epoch, life)

    def lead(self, broker: str, epoch: int, life: int = 1) -> None:
        """A broker leads with what it has."""
        topic, number = LOG
        self.end = self.copies.on_host(broker, LOG).log.end
        self.life = life
        fact = BecameLeader(
            topic=topic, partition=number, leader_epoch=epoch, isr=(), end_offset=self.end, high_watermark=0
        )
        for part in (self.copies, self.logs, self.commits):
            part.on[BecameLeader](Seen(0, 0, broker, life, fact), fact)

    def commits_offset(self, offset: int, actor: str = "b0") -> None:
        topic, number = LOG
        appended = RecordsAppended(topic=topic, partition=number, base_offset=self.end, count=1)
        for part in (self.copies, self.logs):
            part.on[RecordsAppended](Seen(0, 0, actor, self.life, appended), appended)
        fact = OffsetCommitted(
            group="g", topic="t", partition=0, offset=offset, member_id="m", generation=1, position=self.end
        )
        self.commits.on[OffsetCommitted](Seen(0, 0, actor, self.life, fact), fact)
        self.end += 1


def told() -> Watched:
    watched = Watched()
    watched.leads(0, 0)
    for offset in (10, 20, 30):
        watched.commits_offset(offset)
    return watched


def test_what_the_log_has_lost_is_committed_no_more() -> None:
    """The commit before counts again; a reader of the panel is told what changed."""
    watched = told()
    watched.leads(1, 2)

    assert watched.commits.of("g", AT) == 20
    assert watched.commits.changed == [(("g", AT), 20)]


def test_a_log_without_any_commit_leaves_nothing_and_another_brings_all_back() -> None:
    """A replica that was not in time to lose them leads later."""
    watched = told()
    watched.leads(1, 0)
    lost = watched.commits.of("g", AT)
    watched.lead("b0", 2)

    assert (lost, watched.commits.of("g", AT)) == (NOTHING, 30)
    assert watched.commits.changed == [(("g", AT), 30)]


def test_a_leader_that_kept_lost_commits_has_those_and_not_what_came_in_their_place() -> None:
    """b0 lost two commits, led on in its epoch, and wrote two others; b1 kept the first two of three."""
    watched = told()
    kept = watched.copies.on_host("b1", LOG).log = watched.logs.of(LOG).records.copy()
    kept.truncate(2)
    watched.leads(0, 1, life=2)
    for offset in (40, 50):
        watched.commits_offset(offset)
    kept.append(2, 1, (0, 2))
    watched.lead("b1", 1)

    assert watched.commits.of("g", AT) == 50
    watched.copies.on_host("b2", LOG).log.grow_from(kept, 2)
    watched.lead("b2", 2)
    assert (watched.commits.of("g", AT), watched.commits.changed) == (20, [(("g", AT), 20)])


def test_what_a_deposed_coordinator_says_is_nobodys() -> None:
    """Nor is anything changed by a leader that has the whole log."""
    watched = told()
    watched.commits_offset(99, actor="zombie")
    watched.leads(1, 3)

    assert (watched.commits.of("g", AT), watched.commits.changed) == (30, [])


def test_a_removed_commit_is_no_committed_offset_any_more() -> None:
    """Expiry, an operator, a topic that is deleted."""
    watched = told()
    fact = OffsetRemoved(group="g", topic="t", partition=0, why="expired")
    watched.commits.on[OffsetRemoved](Seen(0, 0, "b0", 1, fact), fact)

    assert watched.commits.of("g", AT) == NOTHING


def cleans(watched: Watched, end_offset: int) -> None:
    """A broker removes superseded commits below this offset."""
    fact = LogCleaned(topic=LOG[0], partition=LOG[1], end_offset=end_offset, removed_records=1)
    watched.commits.on[LogCleaned](Seen(0, 0, "b0", 1, fact), fact)


def test_superseded_commits_that_every_copy_has_are_forgotten() -> None:
    """The log cleaner removed them; later commits still count, or are lost, as before."""
    watched = told()
    watched.leads(1, 3)
    for offset in (40, 50):
        watched.commits_offset(offset, "b1")
    watched.copies.on_host("b0", LOG).log = watched.logs.of(LOG).records.copy()
    cleans(watched, 4)
    kept = watched.commits.account("g", AT).kept
    assert kept is not None
    assert [offset for _, _, offset in kept._written] == [40, 50]

    watched.leads(2, 4, "b0")
    assert watched.commits.of("g", AT) == 40


def test_a_commit_that_one_copy_lacks_keeps_the_commit_before() -> None:
    watched = told()
    watched.leads(1, 3)
    watched.copies.on_host("b0", LOG).log.truncate(2)
    watched.commits_offset(40, "b1")
    cleans(watched, 4)
    kept = watched.commits.account("g", AT).kept
    assert kept is not None

    assert [offset for _, _, offset in kept._written] == [20, 30, 40], "b0 has 20 and may lead again"


def test_after_the_loss_of_a_cleaned_part_no_commit_is_known() -> None:
    """The log that lost the newest commit had no older commit any more."""
    watched = told()
    cleans(watched, 3)
    watched.leads(1, 1)

    assert watched.commits.of("g", AT) == NOTHING
    assert watched.commits.changed == [(("g", AT), NOTHING)]
