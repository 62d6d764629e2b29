"""Finding the coordinator and the leaders: retries, backoff, bootstrap rotation, broken connections."""

from itertools import pairwise

import pytest

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import BrokerMetadata, Fetch, Metadata, MetadataReply, TopicMetadata
from kemu.protocol.messages.group import FindCoordinator, FindCoordinatorReply, Heartbeat, JoinGroup
from kemu.protocol.notes.groups import CoordinatorKnown, MemberFailed, PartitionsLost, PartitionsRevoked
from kemu.protocol.profiles import PROFILES
from tests.actors.consumer.consumer_harness import COORDINATOR, Harness

SECOND = 1_000_000


def times(harness: Harness, kind: type) -> list[int]:
    """When requests of a class were sent."""
    return [at for at, _, message in harness.sent if isinstance(message, kind)]


def test_a_coordinator_that_is_not_available_is_looked_up_ever_more_slowly() -> None:
    """lookupCoordinator: retry.backoff.ms 100 doubling to retry.backoff.max.ms 1,000 (KIP-580), in one long poll()."""
    harness = Harness(emulated_poll_timeout_ms=60_000)
    harness.answer_next("FindCoordinator", *[15] * 6)
    harness.stable()
    at = times(harness, FindCoordinator)
    waits = [(after - before - 4_000) // 1_000 for before, after in pairwise(at)]  # answers to it and to Metadata
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_each_poll_counts_its_lookups_anew_and_none_waits_longer_than_its_poll() -> None:
    """``ensureCoordinatorReady`` (3.7): ``attempts`` is its own, and ``timer.sleep`` ends with the poll's timer, as
    does ``awaitMetadataUpdate``, where metadata that brings nothing new is asked for ever more slowly, too.
    """
    harness = Harness(emulated_poll_timeout_ms=500)
    harness.answer_next("FindCoordinator", *[15] * 6)
    harness.stable()
    at = times(harness, FindCoordinator)
    began_us = at[0]
    assert [(each - began_us) // 1_000 for each in at] == [0, 104, 308, 500, 912, 1_000, 1_500]


def test_before_3_7_a_lookup_that_fails_is_followed_by_another_when_there_is_metadata() -> None:
    """``awaitMetadataUpdate``: asked at once, or retry.backoff.ms after the last answer; no sleep before KIP-580."""
    profile = PROFILES["kafka-3.4"]
    harness = Harness(retry_backoff_max_ms=profile.consumer.retry_backoff_max_ms, emulated_poll_timeout_ms=60_000)
    harness.answer_next("FindCoordinator", *[15] * 6)
    harness.stable()
    lookups, asked = times(harness, FindCoordinator), times(harness, Metadata)

    assert [before - after for before, after in zip(lookups[1:], asked[1:], strict=False)] == [2_000] * 6
    assert [(after - before) // 1_000 for before, after in pairwise(asked[:7])] == [102] * 6
    assert PROFILES["kafka-4.0"].consumer.retry_backoff_max_ms == 1_000


def test_before_3_7_each_poll_begins_with_a_lookup_and_waits_for_metadata_as_long_as_it_lasts() -> None:
    """As recorded with 3.4.1 while nobody coordinates: a lookup, Metadata, a lookup, and the next poll(), of 100 ms."""
    profile = PROFILES["kafka-3.4"]
    harness = Harness(retry_backoff_max_ms=profile.consumer.retry_backoff_max_ms)
    harness.answer_next("FindCoordinator", *[15] * 8)
    harness.stable()
    asked = [
        (at, "M" if isinstance(message, Metadata) else "F")
        for at, _, message in harness.sent
        if isinstance(message, Metadata | FindCoordinator)
    ]

    assert "".join(kind for _, kind in asked[2:14]) == "FMF" * 4
    began_us = next(at for at, kind in asked if kind == "F")
    assert [(at - began_us) // 1_000 for at, _ in asked[2:8]] == [100, 102, 104, 200, 204, 206]


def test_the_heartbeat_thread_waits_while_the_polling_thread_looks_for_the_coordinator() -> None:
    """AbstractCoordinator.ensureCoordinatorReady (3.4.1) is synchronized, so the heartbeat thread cannot look, too."""
    profile = PROFILES["kafka-3.4"]
    counts = []
    for joined in (False, True):
        harness = Harness(retry_backoff_max_ms=profile.consumer.retry_backoff_max_ms)
        if joined:
            harness.stable()
            harness.disconnect("b0/coordinator")
        harness.answer_next("FindCoordinator", *[15] * 100)
        harness.forget()
        harness.run(3 * SECOND)
        counts.append(len(times(harness, FindCoordinator)))

    assert all(57 <= count <= 61 for count in counts), counts


def test_an_unanswered_lookup_is_sent_again_by_the_next_poll_if_the_heartbeat_thread_runs() -> None:
    """HeartbeatThread forgets the lookup (KAFKA-10793). A member of 3.9.1 sent four behind a waiting Fetch."""
    harness = Harness().stable()
    harness.hold("FindCoordinator")
    harness.forget()
    harness.disconnect("b0/coordinator")
    harness.run(450_000)

    asked = times(harness, FindCoordinator)
    assert 3 <= len(asked) <= 5
    assert all(90_000 <= later - earlier <= 210_000 for earlier, later in pairwise(asked))


def test_poll_sends_no_fetch_while_it_sleeps_because_the_coordinator_cannot_be_connected_to_yet() -> None:
    """``ensureCoordinatorReady`` (3.4.1, 3.9.1, 4.1.1) sleeps within poll() until its timeout, here 100 ms.

    A member of 3.9.1 stood still for 20 s: lookups 8 ms after its end, the next Fetch after 102 ms, a lookup after
    104 ms, JoinGroup after 113 ms.
    """
    harness = Harness().stable().run(100_000)
    harness.forget()
    harness.disconnect()
    began_us, _ = harness.consumer.poll_span_us
    harness.append(("t", 0), 3)  # answers the Fetch in flight
    harness.run(began_us + 99_999 - harness.now_us)

    assert harness.requests(FindCoordinator)
    assert not harness.requests(Fetch)

    harness.run(10_000)
    (at_us, *_), lookups = times(harness, Fetch), times(harness, FindCoordinator)
    assert at_us == began_us + 100_000, "at the timeout of poll()"
    assert lookups[-1] >= at_us, "the next poll() looks up the coordinator again"


@pytest.mark.parametrize(("timeout_ms", "returned"), [(100, [0, 3]), (0, [3, 3])])
def test_poll_returns_no_records_while_it_looks_for_the_coordinator(timeout_ms: int, returned: list[int]) -> None:
    """``ConsumerCoordinator.poll`` (2.4 to 4.3) waits for a lookup until the timeout of poll(); poll(0) waits never."""
    harness = Harness(emulated_poll_timeout_ms=timeout_ms).stable().run(100_000)
    harness.hold("FindCoordinator")
    harness.disconnect()
    harness.append(("t", 0), 3)
    positions = []
    for _ in returned:
        harness.run(60_000)
        positions.append(harness.consumer.positions.partitions[("t", 0)].position)

    assert positions == returned
    harness.release("FindCoordinator")
    harness.stable()


def test_another_broker_is_asked_after_a_failure() -> None:
    """Bootstrap rotation: the next node in turn; one in reconnect backoff is passed over."""
    harness = Harness()
    harness.disconnect("b0")
    harness.stable()
    asked = [peer for _, peer, message in harness.sent if isinstance(message, FindCoordinator | Metadata)]
    assert asked[0] == "b0" and "b1" in asked


def test_a_response_without_brokers_is_ignored_and_another_broker_asked_after_the_backoff() -> None:
    """NetworkClient.DefaultMetadataUpdater.handleSuccessfulResponse (2.4 to 4.3): ``failedUpdate``.

    A starting broker knows no brokers and no topics yet. A member that subscribes to a pattern must not take the
    topics as deleted (swarm, kafka-4.3, seeds 6327 and 6330).
    """
    harness = Harness().stable().run(100_000)
    known = harness.consumer.metadata.cluster
    harness.forget()
    empty = TopicMetadata(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="t", partitions=())
    harness.answer_next("Metadata", *[lambda request: MetadataReply(brokers=(), topics=(empty,))] * 3)
    harness.run(302 * SECOND)  # metadata.max.age.ms

    asked = times(harness, Metadata)
    assert len(asked) == 4
    assert all(later - earlier >= 70_000 for earlier, later in pairwise(asked)), "retry.backoff.ms, with jitter"
    assert len({peer for _, peer, message in harness.sent if isinstance(message, Metadata)}) > 1
    assert harness.consumer.metadata.cluster == known
    assert harness.state == "STABLE"


def test_no_right_to_the_group_is_fatal() -> None:
    """FindCoordinator: GROUP_AUTHORIZATION_FAILED."""
    harness = Harness()
    harness.answer_next("FindCoordinator", 30)
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_no_right_to_a_topic_is_fatal() -> None:
    """Metadata: TOPIC_AUTHORIZATION_FAILED."""
    harness = Harness()
    harness.answer_next(
        "Metadata",
        lambda request: MetadataReply(
            brokers=(BrokerMetadata(node_id=0, host="b0"),),
            topics=(TopicMetadata(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="t", partitions=()),),
        ),
    )
    harness.run_until(lambda: harness.state == "FAILED")


def test_a_coordinator_that_moves_is_followed_with_the_same_membership() -> None:
    """NOT_COORDINATOR: the new one is asked with the old generation; nothing is given up by that alone."""
    harness = Harness().stable()
    harness.run(100_000)
    harness.forget()
    moved = FindCoordinatorReply(error=ErrorCode.NONE, node_id=1, host="b1/coordinator")
    harness.answer_next("Heartbeat", 16)
    harness.answer_next("FindCoordinator", lambda request: moved)
    harness.run(7 * SECOND)

    beats = [peer for _, peer, message in harness.sent if isinstance(message, Heartbeat)]
    assert beats[0] == "b0/coordinator" and set(beats[1:]) == {"b1/coordinator"} and len(beats) >= 2
    assert [note.host for note in harness.facts(CoordinatorKnown)] == ["", "b1/coordinator"]
    assert not harness.facts(PartitionsRevoked) and not harness.facts(PartitionsLost)


def test_a_coordinator_whose_connections_always_break_is_not_stormed() -> None:
    """Reconnect backoff on top of the retry backoff."""
    harness = Harness()
    for _ in range(20):
        harness.run_until(lambda: bool(harness.consumer.discovery.ready()) and bool(harness.requests(JoinGroup)))
        harness.disconnect()
        harness.run(2_000)
    assert harness.now_us >= 10 * SECOND
    assert len(harness.requests(JoinGroup)) <= 40
    harness.stable()


def test_a_coordinator_whose_connection_has_just_failed_is_looked_up_again_and_not_waited_for() -> None:
    """AbstractCoordinator.checkAndGetCoordinator; ensureCoordinatorReady sleeps retry.backoff.ms in between.

    A member is with the new coordinator long before the back-off of the old one's connection is over.
    """
    profile = PROFILES["kafka-3.4"]
    harness = Harness(retry_backoff_max_ms=profile.consumer.retry_backoff_max_ms).stable()
    for _ in range(6):
        harness.run_until(lambda: bool(harness.consumer.discovery.ready()))
        harness.disconnect()
    back_us = harness.consumer.client.available_at(COORDINATOR)
    assert back_us - harness.now_us >= 800_000, "it grows with each failure"
    harness.forget()
    harness.run(500_000)
    assert 4 <= len(times(harness, FindCoordinator)) <= 6, "one thread asks, every 100 ms"
    assert not harness.consumer.discovery.ready()

    moved = FindCoordinatorReply(error=ErrorCode.NONE, node_id=1, host="b1/coordinator")
    harness.answer_next("FindCoordinator", *[lambda request: moved] * 2)
    harness.run(150_000)

    assert harness.consumer.discovery.coordinator == "b1/coordinator"
    assert harness.now_us < back_us


def test_a_join_may_take_as_long_as_the_rebalance_timeout_and_a_bit() -> None:
    """JoinGroup's own timeout: max(request.timeout.ms, rebalance timeout + 5 s)."""
    harness = Harness(max_poll_interval_ms=60_000, request_timeout_ms=10_000)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    harness.run(1_000)
    harness.hold("JoinGroup")
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    sent_us = times(harness, JoinGroup)[-1]
    harness.run_until(lambda: "b0/coordinator" in harness.hangups)
    assert harness.now_us - sent_us == 65 * SECOND
    harness.unhold("JoinGroup")
    harness.stable()


@pytest.mark.parametrize("api", ["FindCoordinator", "Metadata", "OffsetFetch", "ListOffsets", "Fetch", "SyncGroup"])
def test_a_request_that_is_never_answered_is_given_up_and_the_member_gets_there_all_the_same(api: str) -> None:
    """request.timeout.ms closes the connection; whatever it was is tried again."""
    harness = Harness(request_timeout_ms=5_000)
    harness.hold(api)
    harness.run_until(lambda: bool(harness.hangups))
    harness.unhold(api)
    harness.stable()
    harness.append(("t", 0), 3)
    harness.append(("t", 1), 3)
    harness.run_until(lambda: all(harness.consumer.positions.partitions[("t", n)].position == 3 for n in (0, 1)))


def test_one_timer_watches_all_deadlines() -> None:
    """Requests are hot: no timer each."""
    harness = Harness().stable()
    harness.run(40 * SECOND)
    assert len([key for key in harness.timers() if key == ("deadline",)]) == 1
    assert len(harness.timers()) <= 6
