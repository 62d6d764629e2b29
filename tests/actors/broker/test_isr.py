"""The ISR rules. Mirrors Kafka's IsrExpirationTest and PartitionTest."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.broker.isr import Follower, InSync, fallen_behind, may_join, watermark_for
from kemu.actors.broker.rules import TODAY

LAG_US = 10_000_000
S = 1_000_000


def follower(broker: int, end: int = 0, caught_up_us: int = 0, epoch: int = 5) -> Follower:
    made = Follower(broker)
    made.end_offset, made.caught_up_us, made.seen_epoch = end, caught_up_us, epoch
    return made


def in_sync(*members: int, proposed: tuple[int, ...] | None = None) -> InSync:
    made = InSync()
    made.settle(members, 0)
    made.proposed = proposed
    return made


def behind(followers, isr, own_end, now_us, rules=TODAY):
    return fallen_behind(followers, isr, own_end, now_us, LAG_US, rules)


def test_a_stuck_follower_falls_out_when_it_was_caught_up_too_long_ago():
    """IsrExpirationTest.testIsrExpirationForStuckFollowers: at 10 s in sync, at 15 s not."""
    one = follower(1)
    one.fetched(10, 10, 5, 2 * S)

    assert behind([one], in_sync(0, 1), 20, 10 * S) == ()
    assert behind([one], in_sync(0, 1), 20, 12 * S) == ()
    assert behind([one], in_sync(0, 1), 20, 15 * S) == (1,)


def test_a_follower_that_never_fetched_falls_out():
    """IsrExpirationTest.testIsrExpirationIfNoFetchRequestMade."""
    one = Follower(1)
    one.reset(caught_up_us=0)

    assert behind([one], in_sync(0, 1), 1, LAG_US + 1) == (1,)


def test_a_slow_follower_that_is_always_one_batch_behind_stays():
    """IsrExpirationTest.testIsrExpirationForSlowFollowers: the follower counts as caught up at its last fetch."""
    one = follower(1)
    end = 0
    for half_seconds in range(1, 100):
        one.fetched(end, end + 10, 5, half_seconds * S // 2)
        end += 10
        assert behind([one], in_sync(0, 1), end, half_seconds * S // 2) == ()


def test_a_follower_that_has_everything_stays_however_long_ago_it_asked():
    """IsrExpirationTest.testIsrExpirationForCaughtUpFollowers; PartitionTest.shouldNotShrinkIsrIf...; KAFKA-7152."""
    one = follower(1, end=15, caught_up_us=0)

    assert behind([one], in_sync(0, 1), 15, 100 * S) == ()
    assert behind([one], in_sync(0, 1), 15, 100 * S, evolve(TODAY, shrinks_idle=True)) == (1,)


def test_the_high_watermark_of_the_example_moves_when_followers_ask_again():
    """A appends offset 0; B and C fetch at 0, then at 1: A's high watermark is 1."""
    b, c = follower(1), follower(2)
    isr = in_sync(0, 1, 2)
    b.fetched(0, 1, 5, S), c.fetched(0, 1, 5, S)
    assert watermark_for(1, [b, c], isr, S, LAG_US, TODAY) == 0
    b.fetched(1, 1, 5, 2 * S)
    assert watermark_for(1, [b, c], isr, 2 * S, LAG_US, TODAY) == 0
    c.fetched(1, 1, 5, 2 * S)
    assert watermark_for(1, [b, c], isr, 2 * S, LAG_US, TODAY) == 1


def test_a_replica_joins_only_when_it_reached_the_start_of_the_leaders_epoch():
    """PartitionTest.testFollowerDoesNotJoinISRUntilCaughtUpToOffsetWithinCurrentLeaderEpoch; KAFKA-7128."""
    for end, joins in [(0, False), (4, False), (5, True), (6, True)]:
        assert may_join(follower(3, end=end), 0, 5, 5, True, TODAY) is joins
    assert may_join(follower(3, end=0), 0, 5, 5, True, evolve(TODAY, joins_at_epoch_start=False))


@pytest.mark.parametrize(
    ("end", "epoch", "alive", "joins"),
    [(9, 5, True, True), (8, 5, True, False), (9, 4, True, False), (9, 5, False, False), (-1, 5, True, False)],
)
def test_a_replica_joins_with_everything_committed_after_a_fetch_in_this_epoch_and_alive(end, epoch, alive, joins):
    """KAFKA-14140 (the broker is live); the fetch is of the current leader epoch."""
    assert may_join(follower(3, end=end, epoch=epoch), 9, 2, 5, alive, TODAY) is joins


def test_while_a_change_is_under_way_those_it_adds_count_and_those_it_removes_count():
    """KAFKA-13091: the result is unknown; both must be safe (the maximal ISR)."""
    old = follower(2, end=3, caught_up_us=-2 * LAG_US)

    assert watermark_for(9, [old], in_sync(0, 1), 0, LAG_US, TODAY) == 9
    assert watermark_for(9, [old], in_sync(0, 1, proposed=(0, 1, 2)), 0, LAG_US, TODAY) == 3
    assert watermark_for(9, [old], in_sync(0, 1, 2, proposed=(0, 1)), 0, LAG_US, TODAY) == 3
    past = evolve(TODAY, maximal_isr=False)
    assert watermark_for(9, [old], in_sync(0, 1, proposed=(0, 1, 2)), 0, LAG_US, past) == 9


@given(
    ends=st.lists(st.integers(-1, 30), min_size=2, max_size=4),
    own=st.integers(0, 30),
    members=st.sets(st.integers(1, 4)),
    added=st.sets(st.integers(1, 4)),
    recent=st.sets(st.integers(1, 4)),
)
def test_the_high_watermark_is_never_above_anybody_who_may_count(ends, own, members, added, recent):
    """WeakIsr of the TLA+ models: everything below it is on every member of the maximal ISR."""
    now_us = 100 * S
    followers = [follower(broker, end, now_us if broker in recent else 0) for broker, end in enumerate(ends, start=1)]
    isr = in_sync(0, *sorted(members), proposed=(0, *sorted(added)))

    mark = watermark_for(own, followers, isr, now_us, LAG_US, TODAY)

    assert mark <= own
    for one in followers:
        if one.broker in members | added | recent:
            assert mark <= one.end_offset
