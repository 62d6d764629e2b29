"""Positions and fetching: where a member starts, what a poll returns, what an idle one costs."""

from itertools import pairwise

import pytest

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchReply, ListOffsets, Metadata, RecordBatch
from kemu.protocol.messages.group import FetchedOffset, FindCoordinator, OffsetFetch, OffsetFetchReply
from kemu.protocol.notes.groups import MemberFailed, PositionSet, Processed
from tests.actors.consumer.consumer_harness import Harness

SECOND = 1_000_000


def stable(topics: dict[str, int] | None = None, **config: object) -> Harness:
    """A stable group of one with positions, its history forgotten."""
    harness = Harness(topics, **config).stable()  # type: ignore[arg-type]
    harness.run(100_000)
    harness.forget()
    return harness


def read(harness: Harness, partition: int = 0) -> list[tuple[int, int]]:
    """The ranges processed of a partition of t."""
    return [(note.first, note.last) for note in harness.facts(Processed) if note.partition == partition]


# --- positions ---------------------------------------------------------------------------------------------------


def test_a_committed_offset_is_where_a_member_starts() -> None:
    """ConsumerCoordinator.initWithCommittedOffsetsIfNeeded; the others by auto.offset.reset."""
    harness = Harness(start=False)
    harness.cluster.committed[("t", 1)] = 42
    harness.cluster.ends = {("t", number): 100 for number in range(4)}
    from kemu.protocol.commands import Start

    harness.tell(Start())
    harness.stable()
    harness.run(50_000)

    started = {note.partition: (note.offset, note.why) for note in harness.facts(PositionSet)}
    assert started == {0: (0, "reset"), 1: (42, "committed"), 2: (0, "reset"), 3: (0, "reset")}


def test_latest_starts_at_the_end() -> None:
    """auto.offset.reset=latest: ListOffsets with timestamp -1."""
    harness = Harness(start=False, auto_offset_reset="latest")
    harness.cluster.ends = {("t", number): 100 for number in range(4)}
    from kemu.protocol.commands import Start

    harness.tell(Start())
    harness.stable()
    harness.run(50_000)
    assert {note.offset for note in harness.facts(PositionSet)} == {100}
    assert {row.timestamp_ms for one in harness.requests(ListOffsets) for row in one.questions} == {-1}


def test_without_a_reset_policy_a_missing_position_is_fatal() -> None:
    """auto.offset.reset=none: NoOffsetForPartitionException."""
    harness = Harness(auto_offset_reset="none")
    harness.run_until(lambda: harness.state == "FAILED")
    assert "no committed offset" in harness.facts(MemberFailed)[0].why


def test_an_offset_out_of_range_is_reset() -> None:
    """FetchCollector: OFFSET_OUT_OF_RANGE: the position goes to where the policy says (records are gone)."""
    harness = stable()
    harness.cluster.starts[("t", 0)] = 30
    harness.append(("t", 0), 50)
    harness.run(SECOND)
    (note,) = harness.facts(PositionSet)
    assert (note.partition, note.offset, note.why) == (0, 30, "reset")
    assert read(harness) == [(30, 50)]


@pytest.mark.parametrize("error", [14, 15, 16, 88])
def test_fetching_the_committed_offsets_is_retried(error: int) -> None:
    """OffsetFetchResponseHandler: 14 and 88 after a backoff, 15 and 16 with a new coordinator, looked up twice: the
    connection to it is backed off.
    """
    harness = Harness()
    if error == 88:
        harness.answer_next(
            "OffsetFetch",
            lambda request: OffsetFetchReply(
                offsets=(FetchedOffset(topic="t", partition=0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT),)
            ),
        )
    else:
        harness.answer_next("OffsetFetch", error)
    harness.stable()
    harness.run(SECOND)
    assert len(harness.requests(OffsetFetch)) == 2
    assert len(harness.facts(PositionSet)) == 4
    assert len(harness.requests(FindCoordinator)) == (3 if error in (15, 16) else 1)


@pytest.mark.parametrize("error", [3, 5, 14])
def test_an_error_of_one_partition_is_raised_when_committed_offsets_are_fetched(error: int) -> None:
    """OffsetFetchResponseHandler (3.4.1): "Topic or Partition t-0 does not exist", also where the error may pass."""
    harness = Harness()
    row = FetchedOffset(topic="t", partition=0, error=ErrorCode(error))
    harness.answer_next("OffsetFetch", lambda request: OffsetFetchReply(offsets=(row,)))
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode(error)


@pytest.mark.parametrize("most_ms", [0, 1_000])
def test_resets_are_tried_again_after_retry_backoff_ms_every_time(most_ms: int) -> None:
    """OffsetFetcher (3.4.1), OffsetFetcherUtils (3.9.0): subscriptions.requestFailed(..., now + retryBackoffMs)."""
    harness = Harness(retry_backoff_max_ms=most_ms)
    harness.answer_next("ListOffsets", *[6] * 8)
    harness.stable()
    harness.run(2 * SECOND)
    at = sorted({us for us, _, message in harness.sent if isinstance(message, ListOffsets)})
    assert [(after - before - 2_000) // 1_000 for before, after in pairwise(at)] == [100] * 4, "of both leaders at once"


@pytest.mark.parametrize(("most_ms", "waits"), [(0, [100, 100, 100, 100]), (1_000, [100, 200, 400, 800])])
def test_committed_offsets_are_asked_for_ever_later_since_3_7(most_ms: int, waits: list[int]) -> None:
    """ConsumerCoordinator.fetchCommittedOffsets: 3.4.1 retryBackoffMs, 3.7.1 retryBackoff.backoff(attempts++)."""
    harness = Harness(retry_backoff_max_ms=most_ms)
    harness.answer_next("OffsetFetch", *[14] * 4)
    harness.stable()
    harness.run(3 * SECOND)
    at = [us for us, _, message in harness.sent if isinstance(message, OffsetFetch)]
    assert [(after - before - 2_000) // 1_000 for before, after in pairwise(at)] == waits


def test_no_right_to_the_committed_offsets_is_fatal() -> None:
    """OffsetFetchResponseHandler: GROUP_AUTHORIZATION_FAILED."""
    harness = Harness()
    harness.answer_next("OffsetFetch", 30)
    harness.run_until(lambda: harness.state == "FAILED")


@pytest.mark.parametrize("error", [3, 5, 6, 74])
def test_a_reset_answered_by_the_wrong_leader_is_retried_with_new_metadata(error: int) -> None:
    """OffsetFetcher: retriable per partition; metadata is asked for again."""
    harness = Harness()
    harness.answer_next("ListOffsets", error, error)
    harness.stable()
    metadata = len(harness.requests(Metadata))
    harness.run(SECOND)
    assert len(harness.facts(PositionSet)) == 4
    assert len(harness.requests(Metadata)) > metadata
    assert 3 <= len(harness.requests(ListOffsets)) <= 4


def test_an_answer_about_an_assignment_that_is_over_is_ignored() -> None:
    """The committed offsets of a lost assignment do not become positions of the new one."""
    harness = Harness()
    harness.hold("OffsetFetch")
    harness.stable()
    harness.run(10_000)
    assert len(harness.held["OffsetFetch"]) == 1
    harness.answer_next("Heartbeat", 25)
    harness.run_until(lambda: harness.generation()[0] == 2)
    harness.stable()
    harness.cluster.committed = {("t", number): 7 for number in range(4)}
    harness.cluster.ends = {("t", number): 200 for number in range(4)}
    stale = harness.held["OffsetFetch"][:1]
    harness.held["OffsetFetch"] = stale
    harness.release(
        "OffsetFetch",
        lambda request: OffsetFetchReply(
            offsets=tuple(
                FetchedOffset(topic="t", partition=number, offset=99, error=ErrorCode.NONE) for number in range(4)
            )
        ),
    )
    harness.run(SECOND)
    assert {note.offset for note in harness.facts(PositionSet)} == {7}


# --- polls -------------------------------------------------------------------------------------------------------


def test_a_poll_returns_at_most_max_poll_records_and_the_rest_stays_buffered() -> None:
    """max.poll.records: partition after partition; nothing is fetched twice."""
    harness = stable(max_poll_records=100, emulated_process_us_per_record=10)
    harness.append(("t", 0), 250)
    harness.append(("t", 2), 30)
    harness.run(SECOND)
    assert read(harness, 0) == [(0, 100), (100, 200), (200, 250)]
    assert read(harness, 2) == [(0, 30)]


def test_processing_is_reported_partition_by_partition_when_it_is_done() -> None:
    """A poll's records are worked through in order; each partition's part is reported at its end."""
    harness = stable(emulated_process_us_per_record=1_000)
    harness.hold("Fetch")
    harness.run(600_000)
    harness.cluster.ends.update({("t", 0): 10, ("t", 2): 20})
    began_us = harness.now_us
    harness.release("Fetch")
    harness.run(SECOND)

    done = [(at, note) for at, note in harness.noted_at if isinstance(note, Processed)]
    assert [(note.partition, at - began_us) for at, note in done] == [(0, 11_000), (2, 31_000)]
    assert [note.started_us - began_us for _, note in done] == [1_000, 11_000]


def test_the_next_fetch_leaves_before_the_records_are_processed() -> None:
    """ClassicKafkaConsumer.poll: sendFetches before returning, so that fetching and processing overlap."""
    harness = stable(emulated_process_us_per_record=100_000)
    harness.append(("t", 0), 10)
    harness.run_until(lambda: not harness.consumer.polling)
    fetches = harness.requests(Fetch)
    assert next(row.fetch_offset for row in fetches[-1].partitions if row.partition == 0) == 10
    assert not read(harness)


def test_one_fetch_per_leader_is_in_flight() -> None:
    """Fetcher: nodes with pending fetch requests are skipped."""
    harness = stable()
    harness.append(("t", 0), 1_000)
    harness.append(("t", 1), 1_000)
    for _ in range(500):
        harness.run(1_000)
        flights = [flight.peer for flight in harness.consumer.client.in_flight.values() if flight.peer in ("b0", "b1")]
        assert len(flights) == len(set(flights))
    assert read(harness, 1)[-1][1] == 1_000


def test_a_busy_application_sends_no_fetches() -> None:
    """Only the polling thread sends fetches; answers that come meanwhile are buffered."""
    harness = stable(emulated_process_us_per_record=1_000_000)
    harness.append(("t", 0), 5)
    harness.run(100_000)
    harness.forget()
    harness.append(("t", 1), 5)
    harness.run(4 * SECOND)
    assert not harness.requests(Fetch)
    harness.run(2 * SECOND)
    assert harness.requests(Fetch)


def test_batches_with_a_gap_and_batches_that_begin_before_the_offset_are_read_right() -> None:
    """Compaction leaves gaps; a batch may begin before the fetch offset. Only what is there and new is returned."""
    harness = stable()

    def batches(request: Fetch) -> FetchReply:
        rows = ((0, 0), (0, 5), (5, 5), (20, 10))
        parts = tuple(RecordBatch(base_offset=base, count=count, append_time_ms=0) for base, count in rows if count)
        return FetchReply(partitions=(FetchedPartition(topic="t", partition=0, error=ErrorCode.NONE, batches=parts),))

    harness.cluster.ends[("t", 0)] = 30
    harness.answer_next("Fetch", lambda request: FetchReply(partitions=()), lambda request: FetchReply(partitions=()))
    harness.run(500_000)
    harness.answer_next("Fetch", batches)
    harness.run(SECOND)
    assert read(harness)[-1][1] == 30
    assert harness.consumer.positions.partitions[("t", 0)].position == 30


@pytest.mark.parametrize("error", [3, 6, 9, 56, 74, -1])
def test_a_fetch_from_the_wrong_leader_waits_for_metadata(error: int) -> None:
    """FetchCollector: metadata is asked for; the partition is not fetched before it came."""
    harness = stable()
    harness.answer_next("Fetch", error, error)
    harness.run(SECOND)
    refreshes = len(harness.requests(Metadata))
    assert 1 <= refreshes <= 3
    assert len(harness.requests(Fetch)) <= 10
    harness.append(("t", 0), 5)
    harness.append(("t", 1), 5)
    harness.run(SECOND)
    assert read(harness, 0) == read(harness, 1) == [(0, 5)]


def test_a_leader_that_does_not_know_its_epoch_yet_is_asked_again() -> None:
    """UNKNOWN_LEADER_EPOCH: the broker is behind the client's metadata, which asks for no newer one (Fetcher)."""
    harness = stable()
    harness.answer_next("Fetch", 75, 75)
    harness.append(("t", 0), 5)
    harness.append(("t", 1), 5)
    harness.run(SECOND)
    assert not harness.requests(Metadata)
    assert read(harness, 0) == read(harness, 1) == [(0, 5)]


def test_a_leader_that_moves_is_followed() -> None:
    """NOT_LEADER_OR_FOLLOWER: the next Fetch goes to the new leader from the same position."""
    harness = stable(topics={"t": 1})
    harness.append(("t", 0), 3)
    harness.run(100_000)
    harness.cluster.leaders[("t", 0)] = 1
    harness.answer_next("Fetch", 6)
    harness.run(2 * SECOND)
    to = {peer for at, peer, message in harness.sent if isinstance(message, Fetch) and at > harness.now_us - SECOND}
    assert to == {"b1"}


def test_a_broken_connection_to_a_leader_is_retried_with_a_backoff() -> None:
    """Reconnect backoff: 50 ms doubling to 1 s; metadata is asked for."""
    harness = stable()
    for _ in range(10):
        harness.disconnect("b0")
        harness.run(5_000)
    harness.forget()
    harness.run(900_000)
    assert not [1 for _, peer, message in harness.sent if peer == "b0" and isinstance(message, Fetch)]
    harness.run(2 * SECOND)
    assert [1 for _, peer, message in harness.sent if peer == "b0" and isinstance(message, Fetch)]


# --- the cost of doing nothing -----------------------------------------------------------------------------------


def test_an_idle_consumer_is_driven_by_answers_and_timers_only() -> None:
    """One fetch round per leader and fetch.max.wait, one heartbeat, one commit per interval: no polling in vain."""
    harness = stable()
    harness.run(60 * SECOND)
    fetches, rounds = len(harness.requests(Fetch)), 2 * 60 * 2
    assert rounds * 0.95 <= fetches <= rounds
    # Answers to fetches; 20 heartbeats and 12 commits, each with its timer and its answer; request deadlines.
    assert harness.steps <= fetches + 2 * (20 + 12) + 5


def test_the_fetch_of_an_idle_leader_is_the_same_object_every_time() -> None:
    """An idle round makes no new objects: O(1) work, however many partitions there are."""
    harness = stable(topics={"t": 100})
    flights = [flight for flight in harness.consumer.client.in_flight.values() if flight.peer == "b0"]
    plan = flights[0].context[1]
    harness.run(5 * SECOND)
    flights = [flight for flight in harness.consumer.client.in_flight.values() if flight.peer == "b0"]
    assert flights[0].context[1] is plan
