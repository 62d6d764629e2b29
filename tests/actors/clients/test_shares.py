"""The division of a producer's records among partitions."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.clients.shares import MILLIONTHS, LoadShares
from kemu.protocol.messages.data import Produce
from tests.actors.clients.test_producer import NONE, Bench

SHARES = st.lists(st.integers(0, 1_000), min_size=1, max_size=8).filter(any)
ARISEN = st.lists(st.integers(0, 50 * MILLIONTHS), max_size=30)


@given(SHARES, ARISEN)
def test_the_records_of_a_partition_are_the_whole_part_of_its_share(given_shares: list[int], arisen: list[int]) -> None:
    """At any time, however often records are taken: no fraction is lost, and none is counted twice."""
    shares = LoadShares(given_shares)
    shares.grow(len(given_shares))
    taken: Counter[int] = Counter()
    sum_so_far = 0
    for millionths in arisen:
        shares.add(millionths)
        sum_so_far += millionths
        taken.update(dict(shares.take()))
        whole = Fraction(sum_so_far, MILLIONTHS)
        exact = [whole * share / sum(given_shares) for share in given_shares]
        assert [taken[partition] for partition in range(len(given_shares))] == [int(records) for records in exact]


@given(SHARES, st.integers(1, 6), ARISEN, ARISEN)
def test_new_partitions_get_the_smallest_share_and_older_ones_keep_their_records(
    given_shares: list[int], more: int, before: list[int], after: list[int]
) -> None:
    """Also when the sum of the shares changes, as it does when a topic grows, no fraction is lost."""
    shares = LoadShares(given_shares)
    taken: Counter[int] = Counter()
    exact = dict.fromkeys(range(len(given_shares) + more), Fraction(0))
    grown = [*given_shares, *[min(given_shares)] * more]
    for weights, arisen in ((given_shares, before), (grown, after)):
        shares.grow(len(weights))
        for millionths in arisen:
            shares.add(millionths)
            taken.update(dict(shares.take()))
            for partition, share in enumerate(weights):
                exact[partition] += Fraction(millionths * share, MILLIONTHS * sum(weights))
    assert {partition: taken[partition] for partition in exact} == {at: int(records) for at, records in exact.items()}


@pytest.mark.parametrize("interval_ms", [1, 100, 700])
def test_a_producer_divides_its_rate(interval_ms: int) -> None:
    """90 % of 1,000 records/s go to partition 0, whatever the interval between batches is; partition 2 gets none."""
    bench = Bench(0, 1, 0, shares=(9, 1, 0), emulated_records_per_s=1_000, emulated_batch_interval_ms=interval_ms)
    appended: Counter[int] = Counter()
    for _ in range(100):
        bench.wait(70_000)
        while sent := bench.take(Produce):
            for send in sent:
                appended.update({row.partition: row.count for row in send.message.batches})
                bench.answer(send, NONE)
    until_us = 7_000_000 // (interval_ms * 1_000) * interval_ms * 1_000
    assert appended == Counter({0: 900 * until_us // 1_000_000, 1: 100 * until_us // 1_000_000})


def test_without_shares_every_partition_gets_records() -> None:
    """Round-robin, as before."""
    bench = Bench(0, 1, emulated_records_per_s=1_000)
    bench.wait(100_000)
    assert sorted(row.count for send in bench.take(Produce) for row in send.message.batches) == [50, 50]
