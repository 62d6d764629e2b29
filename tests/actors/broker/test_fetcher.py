"""Replication, one message at a time: fences, missed elections and shorter leaders at a follower.

Mirrors tests of Kafka's AbstractFetcherThreadTest, of its ReplicaManagerTest about followers, and of
EpochDrivenReplicationProtocolAcceptanceTest.
"""

import pytest
from attrs import evolve

from kemu.actors.broker.leader_epochs import UNDEFINED, EpochEndOffset, LeaderEpochs
from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.machine import LinkDown
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import OffsetForLeaderEpoch
from kemu.protocol.messages.data import DivergingEpoch, Fetch, FetchReply
from kemu.protocol.notes.replication import Truncated
from kemu.protocol.replication import Truncation
from tests.actors.broker.replica_world import Bench

S = 1_000_000
ASKING = evolve(TODAY, truncation=Truncation.MULTI_ROUND)
"""Inter-broker protocol 2.6: followers request the end of their epoch before they fetch."""


def led(count: int = 2, **how: object) -> Bench:
    """b0 leads, all replicas are in sync, the log is empty."""
    bench = Bench(count, **how)  # type: ignore[arg-type]
    bench.elect(0, tuple(range(count)))
    bench.settle(S)
    return bench


def log_of(bench: Bench, name: str) -> list[int]:
    """The epoch of every record."""
    log = bench.replica(name).log
    return [batch.leader_epoch for batch in log.copy_from(0, 1 << 30, 1) for _ in range(batch.count)]


def cuts(bench: Bench, name: str) -> list[tuple[int, int, str]]:
    """The truncations of a broker: (old end, new end, why)."""
    found = [fact for who, fact in bench.notes if who == name and isinstance(fact, Truncated)]
    return [(fact.old_end_offset, fact.end_offset, fact.why) for fact in found]


def under_way(bench: Bench, sender: str, to: str) -> list[object]:
    """The messages between two brokers that have not arrived yet."""
    return [getattr(event, "message", event) for event in bench.mail.get((sender, to), ())]


def fetch_errors(bench: Bench, sender: str, to: str) -> list[ErrorCode]:
    """The errors in fetch answers on their way."""
    replies = [each for each in under_way(bench, sender, to) if isinstance(each, FetchReply)]
    return [row.error for reply in replies for row in reply.partitions]


# --- fences --------------------------------------------------------------------------------------------------------


def test_a_fenced_follower_stops_fetching_until_the_controller_tells_it_more():
    """AbstractFetcherThreadTest.testFencedFetch: the leader has a later epoch than its follower knows."""
    bench = led()
    bench.elect(0, (0, 1), to=(0,))
    bench.produce("b0", 3)
    bench.settle(5 * S)

    assert not bench.copies("b1")
    assert bench.replica("b1").log.end_offset == 0

    bench.tell_state("b1")
    bench.settle(2 * S)

    assert bench.copies("b1")
    assert log_of(bench, "b1") == log_of(bench, "b0") == [1, 1, 1]


def test_a_follower_of_a_later_epoch_than_its_leader_asks_again_after_a_pause():
    """AbstractFetcherThreadTest.testUnknownLeaderEpochWhileFetching: the leader does not know of its election yet."""
    bench = led()
    bench.elect(0, (0, 1), to=(1,))
    while not any(fetch_errors(bench, "b0", "b1")):
        bench.deliver("b0", "b1")
        bench.deliver("b1", "b0")
        bench.pass_time(50_000)
    assert fetch_errors(bench, "b0", "b1") == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    bench.deliver("b0", "b1")

    assert bench.copies("b1")
    bench.pass_time(900_000)
    assert under_way(bench, "b1", "b0") == [], "replica.fetch.backoff.ms is not over"

    bench.tell_state("b0")
    bench.produce("b0", 2)
    bench.settle(2 * S)
    assert log_of(bench, "b1") == [1, 1]


@pytest.mark.parametrize(("twice", "waits_us"), [(False, S), (True, 2 * S)])
def test_a_fetch_that_is_not_answered_holds_its_loop_back_once_and_to_3_0_twice(twice: bool, waits_us: int):
    """AbstractFetcherThread.processFetchRequest: it awaited the back-off, then delayed all partitions (KAFKA-8529)."""
    bench = led(rules=evolve(TODAY, waits_twice_for_lost_fetches=twice))
    bench.settle(S)
    bench.step("b1", LinkDown("b0"))
    bench.mail[("b1", "b0")].clear()
    bench.mail.pop(("b0", "b1"), None)

    bench.pass_time(waits_us - 1)
    assert not any(isinstance(each, Fetch) for each in under_way(bench, "b1", "b0"))
    bench.pass_time(1)
    assert any(isinstance(each, Fetch) for each in under_way(bench, "b1", "b0"))


def test_a_follower_that_asks_about_epochs_too_early_asks_again():
    """AbstractFetcherThreadTest.testUnknownLeaderEpochInTruncation."""
    bench = led(rules=ASKING)
    bench.produce("b0", 2)
    bench.settle(S)
    bench.elect(0, (0, 1), to=(1,))
    bench.settle(2 * S)
    bench.tell_state("b0")
    bench.produce("b0", 1)
    bench.settle(2 * S)

    assert log_of(bench, "b1") == [0, 0, 1]
    assert cuts(bench, "b1") == []


def _stale_answer(rules: ReplicaRules) -> Bench:
    """b1 sent b0 an epoch request in epoch 1; b0 is in epoch 2 and fences it; b1 learns of epoch 2 meanwhile."""
    bench = led(rules=rules)
    bench.produce("b0", 2)
    bench.settle(S)
    bench.elect(0, (0, 1), to=(1,))
    while not isinstance((under_way(bench, "b1", "b0") or [None])[-1], OffsetForLeaderEpoch):
        assert bench.deliver("b1", "b0") or bench.deliver("b0", "b1") or bench.pass_time(100_000) is None
    bench.elect(0, (0, 1), to=(0,))
    while bench.deliver("b1", "b0"):
        pass
    bench.tell_state("b1")
    while bench.deliver("b0", "b1"):
        pass
    return bench


def test_an_answer_to_a_question_of_an_earlier_epoch_is_not_believed():
    """AbstractFetcherThreadTest.testLeaderEpochChangeDuringFencedFetchEpochsFromLeader; KAFKA-7786."""
    bench = _stale_answer(ASKING)

    assert bench.copies("b1")
    bench.produce("b0", 1)
    bench.settle(2 * S)
    assert log_of(bench, "b1") == [0, 0, 2]

    past = _stale_answer(evolve(ASKING, checks_answer_epoch=False))
    past.produce("b0", 1)
    past.settle(20 * S)
    assert not past.copies("b1"), "with the old decision it waits for an election that may never come"


# --- a leader whose log is shorter ---------------------------------------------------------------------------------


def test_a_follower_whose_log_is_longer_than_the_leaders_cuts_it_to_the_leaders_end():
    """AbstractFetcherThreadTest.testFollowerFetchOutOfRangeHigh: as after an unclean election before KIP-101."""
    bench = led(rules=evolve(TODAY, truncation=Truncation.HIGH_WATERMARK))
    bench.produce("b0", 2)
    bench.settle(2 * S)
    bench.crash("b1")
    bench.tell_brokers()
    bench.elect(0, (0,))
    bench.produce("b0", 3)
    bench.settle(2 * S)
    assert bench.replica("b0").log.high_watermark == 5
    bench.start("b1")
    bench.elect(1, (1,))
    bench.settle(3 * S)

    assert cuts(bench, "b0") == [(5, 2, "out-of-range")]
    bench.produce("b1", 2)
    bench.settle(2 * S)
    assert log_of(bench, "b0") == log_of(bench, "b1") == [0, 0, 2, 2]


# --- elections a follower did not hear of --------------------------------------------------------------------------


def _missed_election(rules: ReplicaRules) -> Bench:
    """b2 copied records of b0 that b1 did not. b1 leads an epoch unknown to b2, and b0 truncates them; b0 leads
    again.
    """
    bench = led(3, rules=rules)
    bench.produce("b0", 2)
    bench.settle(S)
    bench.produce("b0", 3, acks=1)
    while log_of(bench, "b2") != [0] * 5:
        assert bench.deliver("b2", "b0") or bench.deliver("b0", "b2")
        bench.write_all()
    bench.elect(1, (0, 1, 2), to=(0, 1))
    for _ in range(30):
        bench.deliver("b0", "b1")
        bench.deliver("b1", "b0")
        bench.write_all()
    assert log_of(bench, "b0") == log_of(bench, "b1") == [0, 0]
    bench.elect(0, (0, 1, 2), to=(0, 1))
    bench.produce("b0", 1, acks=1)
    bench.tell_state("b2")
    bench.settle(3 * S)
    return bench


@pytest.mark.parametrize("rules", [TODAY, ASKING], ids=["on-fetch", "asking"])
def test_a_follower_that_missed_an_election_truncates_though_its_leader_is_the_same(rules: ReplicaRules):
    """ReplicaManagerTest.testBecomeFollowerWhenLeaderIsUnchangedButMissedLeaderUpdate; KAFKA-7164."""
    bench = _missed_election(rules)

    assert log_of(bench, "b0") == log_of(bench, "b1") == log_of(bench, "b2") == [0, 0, 2]

    past = _missed_election(evolve(ASKING, follows_same_leader_again=False))
    assert log_of(past, "b2") != log_of(past, "b0"), "with the old decision it keeps what its leader has cut"


# --- many elections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [True, False], ids=["every leader writes", "only the first and the last do"])
def test_logs_survive_fast_leader_changes(writes: bool):
    """EpochDriven...AcceptanceTest.shouldSurviveFastLeaderChange; epochs without records count (KAFKA-7415)."""
    bench = led()
    bench.produce("b0", 1)
    bench.settle(S)
    rounds = 6
    for number in range(1, rounds + 1):
        leader, other = number % 2, 1 - number % 2
        bench.crash(f"b{other}")
        bench.tell_brokers()
        bench.elect(leader, (leader,))
        if writes or number == rounds:
            bench.produce(f"b{leader}", 1)
        bench.settle(300_000)
        bench.start(f"b{other}")
        bench.tell_brokers()
        bench.elect(leader, (leader,))
        bench.settle(2 * S)
        assert bench.isr == (leader, other), "it caught up and may lead next"

    # Two elections a round: epochs 2n - 1 and 2n; the write is in the first.
    written = [0, *(range(1, 2 * rounds, 2) if writes else [2 * rounds - 1])]
    assert log_of(bench, "b0") == log_of(bench, "b1") == written
    assert cuts(bench, "b0") == cuts(bench, "b1") == []


def _unclean_turns(rules: ReplicaRules) -> Bench:
    """b0 and b1 lead alone in turns, each without the other's records; then both are up and b1 leads."""
    bench = led(rules=rules)
    bench.produce("b0", 3)
    bench.settle(S)
    bench.crash("b1")
    for leader, count in [(0, 1), (1, 2), (0, 2), (1, 1)]:
        if f"b{1 - leader}" in bench.brokers:
            bench.crash(f"b{1 - leader}")
        if f"b{leader}" not in bench.brokers:
            bench.start(f"b{leader}")
        bench.tell_brokers()
        bench.elect(leader, (leader,))
        bench.produce(f"b{leader}", count, acks=1)
        bench.settle(300_000)
    bench.start("b0")
    bench.tell_brokers()
    bench.elect(1, (1,))
    bench.produce("b1", 3)
    bench.settle(4 * S)
    return bench


@pytest.mark.parametrize("rules", [TODAY, ASKING], ids=["on-fetch", "asking"])
def test_logs_do_not_diverge_through_unclean_elections(rules: ReplicaRules):
    """EpochDriven...AcceptanceTest.logsShouldNotDivergeOnUncleanLeaderElections; KIP-279."""
    bench = _unclean_turns(rules)

    assert log_of(bench, "b0") == log_of(bench, "b1") == [0, 0, 0, 2, 2, 4, 5, 5, 5]
    assert cuts(bench, "b0") == [(6, 4, "leader-epoch"), (4, 3, "leader-epoch")], "it had to be told twice"
    assert bench.isr == (1, 0)

    past = _unclean_turns(evolve(TODAY, truncation=Truncation.SINGLE_ROUND))
    assert log_of(past, "b0") != log_of(past, "b1"), "one question (KIP-101) is not enough"


# --- truncation on the answer to a fetch ---------------------------------------------------------------------------


def _diverged(rules: ReplicaRules = TODAY, own: int = 3, new: int = 1) -> Bench:
    """b1 led alone and wrote ``new`` records while b0 was down with ``own`` records of its own; b0 is up and
    informed.
    """
    bench = led(rules=rules)
    bench.produce("b0", 2)
    bench.settle(S)
    bench.crash("b1")
    bench.tell_brokers()
    bench.produce("b0", own, acks=1)
    bench.settle(300_000)
    bench.crash("b0")
    bench.start("b1")
    bench.tell_brokers()
    bench.elect(1, (1,))
    bench.produce("b1", new)
    bench.settle(S)
    bench.start("b0")
    bench.tell_brokers()
    bench.tell_state("b0")
    return bench


def test_a_follower_whose_tail_is_another_is_told_where_its_epoch_ends_and_cuts_there():
    """Partition.readRecords, AbstractFetcherThread.truncateOnFetchResponse (2.7.2, 3.4.1); no epoch requests."""
    bench = _diverged()
    (asked,) = [each for each in under_way(bench, "b0", "b1") if isinstance(each, Fetch)]
    assert [(row.fetch_offset, row.last_fetched_epoch) for row in asked.partitions] == [(5, 0)]
    bench.deliver("b0", "b1")
    (reply,) = [each for each in under_way(bench, "b1", "b0") if isinstance(each, FetchReply)]
    (row,) = reply.partitions
    assert (row.error, row.diverging, row.replica_batches) == (
        ErrorCode.NONE,
        DivergingEpoch(epoch=0, end_offset=2),
        (),
    )
    bench.deliver("b1", "b0")
    assert cuts(bench, "b0") == [(5, 2, "leader-epoch")]
    bench.write_all()
    (again,) = [each for each in under_way(bench, "b0", "b1") if isinstance(each, Fetch)]
    assert [(row.fetch_offset, row.last_fetched_epoch) for row in again.partitions] == [(2, 0)]
    bench.settle(S)
    assert log_of(bench, "b0") == log_of(bench, "b1") == [0, 0, 1]


def test_a_fetch_of_a_log_that_parted_ways_moves_nothing_the_leader_knows_of_its_follower():
    """ReplicaManager.updateFollowerFetchState (2.8.2): neither position nor ISR changes; KAFKA-13141 was the
    opposite.
    """
    bench = _diverged(own=1, new=2)
    bench.deliver("b0", "b1")
    follower = bench.replica("b1").followers[0]
    assert (follower.end_offset, bench.replica("b1").in_sync.proposed, bench.isr) == (-1, None, (1,))

    past = _diverged(evolve(TODAY, failed_fetches_count=True), own=1, new=2)
    past.deliver("b0", "b1")
    assert past.replica("b1").followers[0].end_offset == 3, "records that it will cut were taken for copies"


def test_a_follower_behind_its_leaders_end_in_the_same_epoch_is_told_that_end():
    """Partition.readRecords: epochOffset.endOffset < fetchOffset comes before an offset out of range."""
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    assert epochs.divergence(0, 7, 5) == EpochEndOffset(0, 5)
    assert epochs.divergence(0, 5, 5) is None
    assert epochs.divergence(1, 5, 5) == UNDEFINED, "of an epoch that is newer than all known: out of range"


def test_a_follower_without_epochs_asks_about_none_and_fetches_without_one():
    """AbstractFetcherThread.partitionFetchState (3.4.1): latestEpoch empty -> Truncating, without an epoch request."""
    bench = Bench(2)
    bench.elect(0, (0, 1), to=(1,))
    asked = under_way(bench, "b1", "b0")
    assert [type(each) for each in asked] == [Fetch]
    assert [row.last_fetched_epoch for row in asked[0].partitions] == [-1]  # type: ignore[attr-defined]


def test_brokers_of_an_older_protocol_ask_for_the_end_of_their_epoch_and_fetch_without_it():
    """ReplicaFetcherThread.isTruncationOnFetchSupported: inter.broker.protocol.version 2.7; any leader accepts both."""
    bench = _diverged(ASKING)
    (asked,) = [each for each in under_way(bench, "b0", "b1") if isinstance(each, OffsetForLeaderEpoch)]
    assert [row.leader_epoch for row in asked.questions] == [0]
    while not any(isinstance(each, Fetch) for each in under_way(bench, "b0", "b1")):
        assert bench.deliver("b0", "b1") or bench.deliver("b1", "b0") or bench.write_all() is None
    (fetch,) = [each for each in under_way(bench, "b0", "b1") if isinstance(each, Fetch)]
    assert [(row.fetch_offset, row.last_fetched_epoch) for row in fetch.partitions] == [(2, -1)]
    bench.settle(S)
    assert log_of(bench, "b0") == log_of(bench, "b1") == [0, 0, 1]


@pytest.mark.parametrize("follower", ["on-fetch", "asking"])
def test_a_follower_finds_the_cut_whichever_protocol_its_leader_has_for_itself(follower: str):
    """A cluster during an upgrade: leader and follower have different inter.broker.protocol.versions."""
    newer = follower == "on-fetch"
    bench = _diverged(ASKING if newer else TODAY)
    bench.crash("b0")
    bench.rules = evolve(TODAY if newer else ASKING, isr_path=bench.rules.isr_path)
    bench.start("b0")
    bench.tell_brokers()
    bench.tell_state("b0")
    asked = under_way(bench, "b0", "b1")
    assert isinstance(asked[-1], Fetch if newer else OffsetForLeaderEpoch)
    bench.settle(2 * S)
    assert log_of(bench, "b0") == log_of(bench, "b1") == [0, 0, 1]


def _late_answer(rules: ReplicaRules) -> Bench:
    """b1's fetch is answered with a record that its leader then truncates; b1 learns of the later epoch before the
    answer.
    """
    bench = led(3, rules=rules)
    bench.produce("b0", 2)
    bench.settle(2 * S)
    bench.produce("b0", 1, acks=1)
    while not any(row.replica_batches for each in under_way(bench, "b0", "b1") for row in each.partitions):  # type: ignore[attr-defined]
        assert bench.deliver("b1", "b0") or bench.deliver("b0", "b1") or bench.pass_time(100_000) is None
        bench.write_all()
    bench.elect(2, (0, 1, 2), to=(0, 2))
    for _ in range(20):
        bench.deliver("b0", "b2")
        bench.deliver("b2", "b0")
        bench.write_all()
    assert log_of(bench, "b0") == [0, 0]
    bench.elect(0, (0, 1, 2), to=(0, 1))
    bench.deliver("b0", "b1")
    return bench


def test_an_answer_to_a_fetch_of_an_earlier_epoch_is_not_believed():
    """KAFKA-18991: AbstractFetcherThread.processFetchRequest compared only the offset."""
    bench = _late_answer(TODAY)
    assert log_of(bench, "b1") == [0, 0]

    past = _late_answer(evolve(TODAY, checks_fetch_epoch=False))
    assert log_of(past, "b1") == [0, 0, 0], "it takes what its leader has cut"


@pytest.mark.parametrize("refuses", [True, False])
def test_a_fetch_of_a_replica_that_is_not_assigned_is_refused_since_3_3_and_before_waits_for_nothing(refuses: bool):
    """Partition.followerReplicaOrThrow (3.3.2): UNKNOWN_LEADER_EPOCH.

    Up to 3.2.3 updateFollowerFetchState (ReplicaManager) discards the records read, no position moves, and
    DelayedFetch.onComplete reads again for all.
    """
    bench = Bench(3, rules=evolve(TODAY, refuses_unassigned=refuses))
    bench.elect(0, (0, 1), to=(1, 2))
    bench.tell_state("b0", replicas=(0, 1))
    bench.produce("b0", 2)
    bench.write_all()
    while not under_way(bench, "b2", "b0"):
        bench.pass_time(100_000)
    bench.deliver("b2", "b0")

    assert 2 not in bench.replica("b0").followers
    assert fetch_errors(bench, "b0", "b2") == ([ErrorCode.UNKNOWN_LEADER_EPOCH] if refuses else [])
    bench.settle(S)
    assert log_of(bench, "b2") == ([] if refuses else [0, 0])
    assert (bench.replica("b0").log.high_watermark, bench.isr) == (2, (0, 1))
