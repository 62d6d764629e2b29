"""Logs by epochs, readers by epochs, promises: each against a model that keeps every record by itself."""

from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.checkers.replica_truth import PartitionTruth
from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Term, lacking, minus
from kemu.emulator.watching.read_epochs import ReadEpochs

RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)
"""(how much the epoch rises, how many records), one after the other."""
AT = ("t", 0)


def of(epoch: int) -> Term:
    """Every third epoch is another life of the one before."""
    return epoch - epoch % 3, epoch % 3


def log_of(runs: list[tuple[int, int]]) -> tuple[EpochLog, list[int]]:
    """A log, and the number of the term of each of its records."""
    log, records, epoch = EpochLog(), [], 0
    for rise, count in runs:
        epoch += rise
        assert log.append(len(records), count, of(epoch))
        records += [epoch] * count
    return log, records


@given(RUNS, RUNS)
def test_logs_are_the_same_up_to_the_first_record_that_differs(some, others):
    (log, records), (other, theirs) = log_of(some), log_of(others)
    same = 0
    while same < min(len(records), len(theirs)) and records[same] == theirs[same]:
        same += 1

    assert log.same_until(other) == same


@given(RUNS, st.integers(0, 30))
def test_a_log_that_is_cut_has_what_is_below_the_cut(runs, end):
    log, records = log_of(runs)
    log.truncate(end)

    assert [log.term_at(offset) for offset in range(-1, len(records) + 1)] == [
        NO_TERM,
        *map(of, records[:end]),
        *[NO_TERM] * (len(records) + 1 - len(records[:end])),
    ]


@given(RUNS, st.integers(0, 18))
def test_the_records_of_a_term_are_from_its_first_to_its_last(runs, epoch):
    log, records = log_of(runs)
    of_it = [offset for offset, each in enumerate(records) if each == epoch]

    assert log.span_of(of(epoch)) == ((of_it[0], of_it[-1] + 1) if of_it else (0, 0))


@given(RUNS, st.integers(0, 20))
def test_what_there_is_from_an_offset_on_is_each_record_behind_it(runs, offset):
    log, records = log_of(runs)

    found = [(at, term) for first, last, term in log.runs_from(offset) for at in range(first, last)]
    assert found == [(at, of(each)) for at, each in enumerate(records) if at >= offset]


@given(RUNS, RUNS)
def test_what_a_log_lacks_of_another_is_each_record_that_it_has_not(some, others):
    (log, records), (other, theirs) = log_of(some), log_of(others)
    missing = [at for at, each in enumerate(records) if at >= len(theirs) or theirs[at] != each]

    assert [at for first, last, _ in log.without(other) for at in range(first, last)] == missing
    assert minus(log.runs_from(0), log.without(other)) == minus(log.runs_from(0), lacking(log.runs_from(0), other))


# --- readers -------------------------------------------------------------------------------------------------------

TOLD = st.lists(st.tuples(st.integers(0, 20), st.integers(-1, 4)), max_size=6)


@given(st.integers(0, 10), TOLD, st.integers(0, 20), st.integers(1, 10))
def test_a_reader_reads_from_the_epoch_it_named_last_at_or_before_each_record(position, told, first, count):
    reads, model = ReadEpochs(), dict.fromkeys(range(position, 40), NO_TERM)
    reads.positioned("c1", AT, position)
    for offset, epoch in told:
        reads.read_from("c1", AT, offset, (epoch, 0))
        model = {at: each for at, each in model.items() if at < offset} | dict.fromkeys(range(offset, 40), (epoch, 0))
    pieces = reads.pieces("c1", AT, first, first + count)

    assert {at: epoch for begin, end, epoch in pieces for at in range(begin, end)} == {
        at: model[at] for at in range(first, first + count) if model.get(at, NO_TERM)[0] >= 0
    }


def test_a_reader_that_has_no_position_is_not_known():
    assert ReadEpochs().pieces("c1", AT, 0, 5) == []


def test_a_new_position_forgets_what_was_read_before():
    reads = ReadEpochs()
    reads.positioned("c1", AT, 0)
    reads.read_from("c1", AT, 3, (7, 1))
    reads.positioned("c1", AT, 2)

    assert reads.pieces("c1", AT, 2, 6) == []


# --- promises ------------------------------------------------------------------------------------------------------


def lost_promises(promised: list[tuple[int, int]], leaders: list[int], committed: int, kept: list[int]) -> list[int]:
    """What a leader alone acknowledged and the next one (``kept``: its records' epochs) has not."""
    truth = PartitionTruth()
    leader = EpochLog()
    for offset, epoch in enumerate(leaders):
        leader.append(offset, 1, of(epoch))
    truth.committed = leader.copy()
    truth.committed.truncate(committed)
    for first, count in promised:
        truth.acknowledge_by_leader(first, first + count, [leader])
    following = EpochLog()
    for offset, epoch in enumerate(kept):
        following.append(offset, 1, of(epoch))
    return [offset for first, last, _ in truth.lost_by_leader_only(following) for offset in range(first, last)]


@given(RUNS, st.data())
def test_a_promise_is_broken_for_exactly_the_records_that_are_not_in_the_next_log(runs, data):
    _, records = log_of(runs)
    end = len(records)
    committed = data.draw(st.integers(0, end))
    same = data.draw(st.integers(committed, end))
    other = data.draw(st.integers(0, 4))
    kept = [*records[:same], *[100] * other]
    batches: list[tuple[int, int]] = []
    offset = 0
    while offset < end:  # an append is of one epoch
        count = 1
        while offset + count < end and records[offset + count] == records[offset] and data.draw(st.booleans()):
            count += 1
        if data.draw(st.booleans()):
            batches.append((offset, count))
        offset += count

    promised = [at for first, count in batches for at in range(first, first + count)]
    assert lost_promises(batches, records, committed, kept) == [at for at in promised if at >= same]


def test_what_is_told_lost_is_told_once():
    truth = PartitionTruth()
    leader = EpochLog()
    leader.append(0, 5, (0, 1))
    truth.acknowledge_by_leader(0, 5, [leader])

    assert truth.lost_by_leader_only(EpochLog()) == [(0, 5, (0, 1))]
    assert truth.lost_by_leader_only(EpochLog()) == []
