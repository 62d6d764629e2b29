"""KIP-73: the measured rate, the throttled replicas, and the waits.

Mirrors ReplicationQuotaManagerTest and parts of ReplicaManagerQuotasTest.
"""

import pytest
from attrs import evolve

from kemu.actors.broker.quotas import ReplicationQuota
from tests.actors.broker.replica_world import AT, Bench

S = 1_000_000
KEY = "leader.replication.throttled.replicas"


def quota(text: str, rate: str | None = "100") -> ReplicationQuota:
    """The quota of broker 1, with this list for topic t."""
    made = ReplicationQuota(1, KEY, {"t": {KEY: text}})
    made.configure(rate)
    return made


def test_a_list_names_partitions_by_broker_and_a_star_all() -> None:
    """ConfigCommand's format: partition:broker pairs; pairs of other brokers are ignored."""
    assert [quota("0:1,1:2,2:1").concerns(("t", number)) for number in range(4)] == [True, False, True, False]
    assert quota("*").concerns(("t", 9)) and not quota("*").concerns(("u", 9)) and not quota("").concerns(("t", 0))


def test_the_rate_is_a_mean_over_the_last_ten_seconds_and_the_one_under_way() -> None:
    """SimpleRate: bytes of the first second count over the time since, at least one second."""
    one = quota("*")
    one.record(("t", 0), 300, S)
    assert one.holds_back(("t", 0), S), "300 bytes in less than a second"
    assert one.holds_back(("t", 0), 3 * S)
    assert not one.holds_back(("t", 0), 4 * S), "300 bytes in three seconds are 100 a second"
    one.record(("t", 0), 1_000, 5 * S)
    assert one.holds_back(("t", 0), 6 * S)
    assert not one.holds_back(("t", 0), 17 * S), "nothing of it is younger than eleven seconds"


def test_what_is_in_no_list_is_neither_counted_nor_held_back() -> None:
    """Without a rate nothing is throttled, either."""
    one = quota("0:1")
    one.record(("t", 1), 10_000, S)
    assert not one.holds_back(("t", 0), S) and not one.holds_back(("t", 1), S)
    free = quota("*", rate=None)
    free.record(("t", 0), 10_000, S)
    assert not free.holds_back(("t", 0), S)


def caught_up_after(side: str, *, in_sync: bool = False) -> int:
    """Seconds until b1 has 200 records of 100 bytes, with 1,000 bytes a second on b0 (leader) or b1 (follower).

    It fetches one record's worth at a time, which is the size of a batch here.
    """
    bench = Bench(2)
    bench.elect(0, (0, 1) if in_sync else (0,), to=(0,))
    bench.settle(S)
    broker = bench.brokers["b0" if side == "leader" else "b1"]
    broker.manager.configure(AT[0], {f"{side}.replication.throttled.replicas": "*"})
    broker.manager.configure_own({f"{side}.replication.throttled.rate": "1000"})
    for _ in range(40):
        bench.produce("b0", 5, acks=1)
    bench.settle(S)
    for each in bench.brokers.values():
        each.manager.replication = evolve(each.manager.replication, replica_fetch_max_bytes=500)
    bench.tell_state("b1")
    for second in range(1, 60):
        bench.settle(S)
        if bench.replica("b1").log.end_offset == 200:
            return second
    raise AssertionError("it never caught up")


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_not_in_sync_catches_up_at_the_rate(side: str) -> None:
    """ReplicaManagerQuotasTest.shouldExcludeSubsequentThrottledPartitions and kin: 20,000 bytes at 1,000 a second."""
    assert 15 <= caught_up_after(side) <= 25


def test_a_leader_holds_back_nobody_who_is_in_sync() -> None:
    """ReplicaManagerQuotasTest.shouldIncludeInSyncThrottledReplicas."""
    assert caught_up_after("leader", in_sync=True) <= 3
