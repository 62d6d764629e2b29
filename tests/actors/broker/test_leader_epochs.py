"""The epoch cache and truncation by epoch. Mirrors LeaderEpochFileCacheTest and the cases of KIP-101 and KIP-279."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.broker.leader_epochs import UNDEFINED, EpochEndOffset, LeaderEpochs, truncation_for
from kemu.protocol.replication import Truncation

MULTI, SINGLE = Truncation.MULTI_ROUND, Truncation.SINGLE_ROUND


def cache(*entries: tuple[int, int]) -> LeaderEpochs:
    """The cache after these assignments, in order."""
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("assigned", "kept"),
    [
        pytest.param([(2, 11), (2, 12)], [(2, 11)], id="an epoch keeps its first start"),
        pytest.param([(2, 6), (3, 8), (4, 11)], [(2, 6), (3, 8), (4, 11)], id="epochs and starts rise"),
        pytest.param([(2, 9), (3, 9)], [(3, 9)], id="an epoch without records gives way"),
        pytest.param([(2, 6), (3, 5)], [(3, 5)], id="a start that went back removes what it contradicts"),
        pytest.param([(1, 5), (2, 6), (1, 7)], [(1, 7)], id="an epoch that went back removes what it contradicts"),
        pytest.param([(5, 11), (6, 12), (7, 13), (7, 12)], [(5, 11), (7, 12)], id="the latest may move back"),
        pytest.param([(0, 0)], [(0, 0)], id="the first"),
    ],
)
def test_assigning_keeps_epochs_and_starts_ascending(assigned, kept):
    """LeaderEpochFileCacheTest: shouldNotOverwrite..., shouldEnforceMonotonically..., shouldPersist..."""
    assert cache(*assigned).entries == tuple(kept)


@pytest.mark.parametrize(
    ("entries", "log_end", "epoch", "answer"),
    [
        pytest.param([], 0, 0, UNDEFINED, id="nothing is known"),
        pytest.param([(2, 100)], 100, -1, UNDEFINED, id="asked about no epoch"),
        pytest.param([(2, 100)], 100, 3, UNDEFINED, id="asked about a newer epoch than any known"),
        pytest.param([(2, 11)], 19, 2, EpochEndOffset(2, 19), id="the latest ends where the log ends"),
        pytest.param([(5, 11), (6, 12), (7, 13)], 14, 4, EpochEndOffset(4, 11), id="older than the first known"),
        pytest.param([(5, 11), (6, 12), (7, 13)], 14, 5, EpochEndOffset(5, 12), id="ends where the next begins"),
        pytest.param([(0, 10), (2, 13), (4, 17)], 20, 1, EpochEndOffset(0, 13), id="a gap: the one below"),
        pytest.param([(0, 10), (2, 13), (4, 17)], 20, 2, EpochEndOffset(2, 17), id="a known one"),
        pytest.param([(0, 10), (2, 13), (4, 17)], 20, 3, EpochEndOffset(2, 17), id="another gap"),
        pytest.param([(5, 11), (6, 12), (7, 13), (7, 12)], 14, 6, EpochEndOffset(5, 12), id="one that was overwritten"),
        pytest.param([(5, 11), (6, 12), (7, 13), (7, 12)], 14, 5, EpochEndOffset(5, 12), id="the one below that"),
        pytest.param([(0, 0), (1, 1), (2, 2)], 3, 0, EpochEndOffset(0, 1), id="a record each: the first"),
        pytest.param([(0, 0), (1, 1), (2, 2)], 3, 2, EpochEndOffset(2, 3), id="a record each: the last"),
        pytest.param([(1, 5), (2, 6), (1, 7)], 8, 1, EpochEndOffset(1, 8), id="after going back, the new one"),
        pytest.param([(1, 5), (2, 6), (1, 7)], 8, 2, UNDEFINED, id="after going back, the forgotten one"),
    ],
)
def test_an_epoch_ends_where_the_next_known_one_begins(entries, log_end, epoch, answer):
    """LeaderEpochFileCacheTest: shouldReturn...EndOffset...; KIP-101, KIP-279."""
    assert cache(*entries).end_offset_for(epoch, log_end) == answer


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        (8, [(2, 6)]),
        (9, [(2, 6), (3, 8)]),
        (11, [(2, 6), (3, 8)]),
        (12, [(2, 6), (3, 8), (4, 11)]),
        (0, []),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_cutting_the_end_forgets_epochs_that_began_there(end, kept):
    """LeaderEpochFileCacheTest: shouldDropEntriesOnEpochBoundary..., shouldNotResetEpochHistoryHeadIfUndefined..."""
    epochs = cache((2, 6), (3, 8), (4, 11))

    epochs.truncate_end(end)

    assert epochs.entries == tuple(kept)


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        (-1, [(2, 6), (3, 8), (4, 11)]),
        (1, [(2, 6), (3, 8), (4, 11)]),
        (6, [(2, 6), (3, 8), (4, 11)]),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (10, [(3, 10), (4, 11)]),
        (11, [(4, 11)]),
        (13, [(4, 13)]),
    ],
)
def test_cutting_the_start_keeps_the_epoch_of_the_first_record(start, kept):
    """LeaderEpochFileCacheTest: shouldPreserveResetOffsetOnClearEarliest..., shouldUpdateSavedOffsetWhen...,
    shouldNotClearAnythingIfOffset..., shouldUpdateOffsetBetweenEpochBoundaries..., shouldRetainLatestEpoch...,
    shouldNotResetEpochHistoryTailIfUndefinedPassed.
    """
    epochs = cache((2, 6), (3, 8), (4, 11))

    epochs.truncate_start(start)

    assert epochs.entries == tuple(kept)


def test_an_empty_cache_stays_empty_and_knows_no_epoch():
    """LeaderEpochFileCacheTest: shouldFetchLatestEpochOfEmptyCache, shouldClear{Earliest,Latest}OnEmptyCache."""
    epochs = cache()

    assert epochs.latest == -1
    epochs.truncate_start(5)
    epochs.truncate_end(5)
    assert epochs.entries == ()
    assert epochs.end_offset_for(7, 0) == UNDEFINED


def test_all_can_be_forgotten():
    """LeaderEpochFileCacheTest.shouldClearAllEntries."""
    epochs = cache((2, 6), (3, 8))
    epochs.clear()

    assert epochs.entries == ()
    assert epochs.assign(1, 0), "what comes next begins anew"


def test_epochs_are_followed_through_many_leader_changes():
    """LeaderEpochFileCacheTest: shouldIncreaseAndTrackEpochsAsLeadersChangeManyTimes, ...AsFollowerReceives..."""
    epochs = cache((0, 0))
    assert not epochs.assign(0, 0) and epochs.end_offset_for(0, 0) == EpochEndOffset(0, 0)
    assert epochs.assign(1, 0) and epochs.entries == ((1, 0),), "nothing was written in epoch 0"
    assert epochs.end_offset_for(1, 3) == EpochEndOffset(1, 3)
    assert epochs.assign(2, 3) and not epochs.assign(2, 4), "more records of an epoch move nothing"
    assert (epochs.latest, epochs.entries) == (2, ((1, 0), (2, 3)))
    assert epochs.end_offset_for(1, 5) == EpochEndOffset(1, 3)
    assert epochs.end_offset_for(2, 5) == EpochEndOffset(2, 5)


def truncated(
    follower: LeaderEpochs,
    follower_end: int,
    leader: LeaderEpochs,
    leader_end: int,
    mode: Truncation,
    watermark: int = 0,
) -> tuple[int, int]:
    """The follower's log end after all its requests, and the number of requests."""
    for rounds in range(1, 20):
        answer = leader.end_offset_for(follower.latest, leader_end)
        cut = truncation_for(answer, follower, follower_end, watermark, mode)
        follower_end = min(follower_end, cut.end_offset)
        follower.truncate_end(cut.end_offset)
        if cut.done:
            return follower_end, rounds
    raise AssertionError("it asks for ever")


@pytest.mark.parametrize(
    ("follower", "follower_end", "leader", "leader_end", "kept"),
    [
        pytest.param([(1, 0)], 2, [(1, 0)], 4, 2, id="a prefix of the leader's log stays whole"),
        pytest.param([(1, 0)], 2, [(1, 0), (2, 2)], 4, 2, id="a prefix that ends with an epoch stays whole"),
        pytest.param([(1, 0)], 4, [(1, 0), (3, 2)], 4, 2, id="the same epoch, the follower longer"),
        pytest.param([(1, 0), (2, 2)], 4, [(1, 0), (3, 2)], 4, 2, id="an epoch that the leader never saw"),
        pytest.param([(1, 0), (2, 1)], 4, [(1, 0), (3, 2)], 4, 1, id="a fork inside the older epoch"),
        pytest.param([(2, 0)], 4, [(1, 0), (3, 1)], 4, 0, id="no epoch in common"),
    ],
)
def test_a_follower_keeps_what_it_has_in_common_with_its_leader(follower, follower_end, leader, leader_end, kept):
    """KIP-101, KIP-279: seven worked cases."""
    end, _ = truncated(cache(*follower), follower_end, cache(*leader), leader_end, MULTI)

    assert end == kept


def test_one_round_keeps_records_the_leader_never_had_and_several_do_not():
    """KIP-279 (KAFKA-6361): after fast leader changes the leader knows neither of the follower's last epochs."""
    follower, leader = [(1, 0), (2, 3), (4, 5)], [(1, 0), (3, 6), (5, 8)]

    assert truncated(cache(*follower), 7, cache(*leader), 10, SINGLE) == (7, 1)
    assert truncated(cache(*follower), 7, cache(*leader), 10, MULTI) == (3, 2)


def test_without_an_answer_the_high_watermark_decides():
    """Before KIP-101, and with a leader that knows no epochs."""
    end, rounds = truncated(cache((3, 0)), 9, cache(), 9, MULTI, watermark=4)

    assert (end, rounds) == (4, 1)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs as epochs per record, with a common beginning; the rest was written in different epochs."""
    common = sorted(draw(st.lists(st.integers(0, 4), max_size=6)))
    base = common[-1] if common else 0
    tails: list[list[int]] = []
    odd = [base + 1 + 2 * step for step in range(4)]
    even = [base + 2 + 2 * step for step in range(4)]
    for choices in (odd, even):
        tails.append(sorted(draw(st.lists(st.sampled_from(choices), max_size=6))))
    return common + tails[0], common + tails[1]


def epochs_of(log: list[int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for offset, epoch in enumerate(log):
        made.assign(epoch, offset)
    return made


@given(histories())
def test_truncation_ends_and_leaves_a_prefix_of_the_leaders_log(logs):
    """Log matching: after any fork the follower keeps a prefix of the leader's log, and no common record is removed."""
    follower, leader = logs
    leader_epochs = epochs_of(leader)
    leader_epochs.assign(100, len(leader))  # the leader's own epoch: KAFKA-7415

    end, _ = truncated(epochs_of(follower), len(follower), leader_epochs, len(leader), MULTI)

    same = next((i for i, (a, b) in enumerate(zip(follower, leader, strict=False)) if a != b), min(map(len, logs)))
    assert follower[:end] == leader[:end]
    assert end == same or not follower
