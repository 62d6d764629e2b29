"""A replica's log and its journal: a restart finds a former state of the log."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kemu.actors.broker.replica_log import (
    DELETED_ENTRY,
    ReplicaLog,
    batch_entry,
    batch_of,
    emptied_entry,
    epoch_entry,
    restored,
    topic_id_entry,
    truncation_entry,
)
from kemu.actors.machine import Record
from kemu.protocol.messages.data import ReplicaBatch
from tests.examples import examples


def batch(log: ReplicaLog, count: int, epoch: int, contents: bool = False) -> ReplicaBatch:
    """The next batch of a log."""
    base = log.end_offset
    records = tuple((b"k%d" % offset, b"v" if offset % 3 else None) for offset in range(base, base + count))
    return ReplicaBatch(
        base_offset=base,
        count=count,
        append_time_ms=base,
        leader_epoch=epoch,
        producer_id=epoch,
        producer_epoch=0,
        sequence=base,
        records=records if contents else (),
    )


def seen(log: ReplicaLog) -> tuple[object, ...]:
    """All relevant state of a log."""
    copies = log.copy_from(0, 1 << 30, 1)
    return log.end_offset, log.epochs.entries, copies, log.contents()


class JournaledLog(RuleBasedStateMachine):
    """A log, its journal, and a naive model: the epoch of every record."""

    def __init__(self) -> None:
        super().__init__()
        self.log = ReplicaLog()
        self.journal: list[Record] = []
        self.model: list[int] = []
        self.epoch = 0

    @rule(count=st.integers(1, 5), contents=st.booleans())
    def append(self, count: int, contents: bool) -> None:
        one = batch(self.log, count, self.epoch, contents)
        self.log.take(one)
        self.journal += batch_entry(one)
        self.model += [self.epoch] * count

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        if self.log.epochs.assign(self.epoch, self.log.end_offset):
            self.journal.append(epoch_entry(self.epoch, self.log.end_offset))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, len(self.model)), "end")
        if self.log.truncate_to(end):
            self.journal.append(truncation_entry(end))
        del self.model[end:]

    @rule()
    def delete(self) -> None:
        self.journal.append(DELETED_ENTRY)
        self.log, self.model = ReplicaLog(), []

    @invariant()
    def the_log_is_the_model(self) -> None:
        found = [one.leader_epoch for one in self.log.copy_from(0, 1 << 30, 1) for _ in range(one.count)]
        assert found == self.model
        assert self.log.high_watermark <= self.log.end_offset
        for epoch, start in self.log.epochs.entries:
            assert start == len(self.model) or self.model[start] == epoch

    @invariant()
    def a_restart_finds_the_log_again(self) -> None:
        found = restored(self.journal)
        if found is None:
            assert not self.model
            return
        kept, again = seen(self.log), seen(found)
        assert (kept[0], kept[2], kept[3]) == (again[0], again[2], again[3])
        assert found.stored_end == found.end_offset


TestJournaledLog = JournaledLog.TestCase
TestJournaledLog.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)


@given(lost=st.integers(0, 7))
def test_a_torn_last_append_is_as_if_it_had_not_been(lost):
    """A power cut may remove the end of a journal: a batch with missing records is ignored."""
    log = ReplicaLog()
    first, second = batch(log, 2, 0, True), None
    log.take(first)
    second = batch(log, 6, 1, True)
    journal = [*batch_entry(first), *batch_entry(second)]

    found = restored(journal[: len(journal) - lost])

    assert found is not None
    assert found.end_offset == (8 if lost == 0 else 2)
    assert found.epochs.latest == (1 if lost == 0 else 0)


@given(lost=st.integers(1, 7))
def test_appends_after_a_torn_append_are_kept(lost):
    """broker-upgrade-under-a-live-group with random faults, seed 29: a broker restarted twice after a power cut."""
    log = ReplicaLog()
    first = batch(log, 2, 0, True)
    log.take(first)
    journal = [*batch_entry(first), *batch_entry(batch(log, 6, 1, True))]
    third = batch(log, 3, 1, True)

    found = restored([*journal[: len(journal) - lost], *batch_entry(third)])

    assert found is not None
    assert found.end_offset == 5


def test_a_part_of_a_batch_is_nobodys():
    """A producer must not recognize half a batch as its own (KIP-98)."""
    log = ReplicaLog()
    log.take(batch(log, 5, 0))
    log.truncate_to(3)

    (part,) = log.copy_from(1, 1_000, 1)

    assert (part.base_offset, part.count, part.producer_id, part.sequence) == (1, 2, -1, -1)


def test_followers_copy_whole_batches_but_at_least_one():
    """KIP-74, for followers."""
    log = ReplicaLog()
    for _ in range(4):
        log.take(batch(log, 10, 0))

    assert [one.count for one in log.copy_from(0, 25, 1)] == [10, 10]
    assert [one.count for one in log.copy_from(10, 1, 1)] == [10]
    assert log.copy_from(40, 1, 1) == ()


def test_consumers_read_below_the_high_watermark_only():
    """Offsets between the high watermark and the end are valid, but not readable."""
    log = ReplicaLog()
    log.take(batch(log, 10, 0))

    assert log.read(0, 100, 1) == ()
    log.high_watermark = 4
    (found,) = log.read(1, 100, 1)
    assert (found.base_offset, found.count) == (1, 3)
    assert log.read(7, 100, 1) == ()


def test_a_log_knows_its_topic_until_it_is_deleted():
    """Kafka's ``partition.metadata`` is in the log's directory, and is deleted with it (KIP-516)."""
    kept = restored([topic_id_entry("7"), epoch_entry(0, 0), emptied_entry(5), truncation_entry(5)])
    fresh = restored([topic_id_entry("7"), DELETED_ENTRY, epoch_entry(0, 0)])

    assert kept is not None and kept.topic_id == "7"
    assert fresh is not None and fresh.topic_id == ""


@given(st.integers(1, 9), st.booleans())
def test_a_disk_is_told_by_a_journals_entries_which_batches_it_writes(count: int, contents: bool) -> None:
    """One head per batch, with its offset and its number of records; no other entry is a head."""
    log = ReplicaLog()
    log.take(batch(log, 4, 0))
    one = batch(log, count, 1, contents)

    others = (truncation_entry(2), emptied_entry(3), epoch_entry(1, 4), topic_id_entry("7"), DELETED_ENTRY)
    told = [batch_of(record) for record in (*batch_entry(one), *others)]

    (found,) = [each for each in told if each is not None]
    assert (found.base_offset, found.records) == (4, count)
