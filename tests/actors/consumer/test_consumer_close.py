"""Leaving: close, unsubscribe, and the silence after."""

import pytest

from kemu.actors.consumer.reasons import UNSUBSCRIBED
from kemu.protocol.commands import Close, Start, StopPolling, Subscribe, Unsubscribe
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup, LeaveGroup, OffsetCommit
from kemu.protocol.notes.groups import (
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Processed,
)
from tests.actors.consumer.consumer_harness import COORDINATOR, Harness

SECOND = 1_000_000
CALLBACKS = (PartitionsRevoked, PartitionsLost, PartitionsAssigned)


def stable(**config: object) -> Harness:
    """A stable group of one with positions, its history forgotten."""
    harness = Harness(**config).stable()  # type: ignore[arg-type]
    harness.run(100_000)
    harness.forget()
    return harness


def silent(harness: Harness) -> bool:
    """Nothing is sent, noted or stepped from now on, whatever arrives."""
    harness.forget()
    harness.tell(Close())
    harness.disconnect("b0")
    harness.run(100 * SECOND)
    return not harness.sent and not harness.notes


def test_close_commits_calls_back_leaves_and_is_silent() -> None:
    """ConsumerCoordinator.close: sync auto-commit, onPartitionsRevoked, LeaveGroup."""
    harness = stable()
    harness.append(("t", 0), 8)
    harness.run(100_000)
    harness.forget()
    harness.close()

    assert [type(message) for _, _, message in harness.sent] == [OffsetCommit, LeaveGroup]
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked"]
    assert harness.cluster.committed[("t", 0)] == 8
    assert [note.new for note in harness.facts(MemberBecame)] == ["UNJOINED", "CLOSED"]
    assert harness.consumer.finished
    assert silent(harness)


def test_a_static_member_does_not_say_goodbye() -> None:
    """AbstractCoordinator.maybeLeaveGroup: static members never send LeaveGroup."""
    harness = stable(group_instance_id="i1")
    harness.close()
    assert not harness.requests(LeaveGroup) and harness.requests(OffsetCommit)


def test_a_pending_id_leaves_on_close() -> None:
    """KIP-394: an id handed out by 79 and not yet joined is given back."""
    harness = Harness()
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    harness.run(1_000)
    harness.hold("JoinGroup")
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.close()
    (leave,) = harness.requests(LeaveGroup)
    assert leave.members[0].member_id == "c1-1"


def test_a_member_without_an_id_has_nothing_to_leave() -> None:
    """state UNJOINED, or no member id: no LeaveGroup."""
    harness = Harness()
    harness.hold("FindCoordinator")
    harness.run(SECOND)
    harness.close()
    assert not harness.requests(LeaveGroup)


def test_close_waits_for_the_batch_to_be_processed() -> None:
    """close() is called by the application's thread, after its loop."""
    harness = stable(emulated_process_us_per_record=100_000)
    harness.append(("t", 0), 10)
    harness.run_until(lambda: not harness.consumer.polling)
    harness.close()
    (processed,) = harness.facts(Processed)
    assert harness.cluster.committed[("t", 0)] == processed.last == 10


def test_close_while_rebalancing_loses_what_is_owned() -> None:
    """onLeavePrepare: rebalance in progress: onPartitionsLost."""
    harness = stable(partition_assignment_strategy=("cooperative-sticky",))
    harness.hold("JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.close()
    assert harness.names(*CALLBACKS) == ["PartitionsLost"]
    assert harness.requests(LeaveGroup)


def test_close_with_slow_listener_sends_no_heartbeats() -> None:
    """AbstractCoordinator.close: the heartbeat thread is closed first."""
    harness = stable(emulated_on_revoked_ms=10_000, max_poll_interval_ms=5_000)
    harness.tell(Close())
    harness.run(9 * SECOND)
    assert {type(message) for _, _, message in harness.sent} <= {OffsetCommit}
    harness.run(2 * SECOND)
    assert harness.state == "CLOSED"
    assert len(harness.requests(LeaveGroup)) == 1


@pytest.mark.parametrize("trouble", ["held commit", "held leave", "no coordinator"])
def test_close_ends_within_its_timeout_whatever_happens(trouble: str) -> None:
    """close(timeout): best effort, for 30 s or request.timeout.ms, whichever is less (KafkaConsumer.close)."""
    harness = stable(default_api_timeout_ms=8_000, request_timeout_ms=5_000)
    if trouble == "held commit":
        harness.hold("OffsetCommit")
    elif trouble == "held leave":
        harness.hold("LeaveGroup")
    else:
        harness.hold("FindCoordinator")
        harness.disconnect()
    harness.tell(Close())
    harness.run_until(lambda: harness.state == "CLOSED", within_us=11 * SECOND)
    assert silent(harness)


def test_the_timeout_of_close_covers_its_commit_and_its_leave_together() -> None:
    """AbstractCoordinator.close(timer) (3.4.1): pending requests, the leave's too, are awaited while time is left."""
    harness = stable(request_timeout_ms=5_000)
    harness.hold("OffsetCommit", "LeaveGroup")
    began_us = harness.now_us
    harness.tell(Close())
    harness.run(3 * SECOND)
    harness.release("OffsetCommit")
    harness.run_until(lambda: harness.state == "CLOSED")
    assert len(harness.requests(LeaveGroup)) == 1
    assert harness.now_us - began_us == 5 * SECOND


def test_a_close_whose_time_is_over_sends_its_leave_and_waits_for_no_answer() -> None:
    """AbstractCoordinator.maybeLeaveGroup (3.4.1): sent and polled once; then the timer has expired."""
    harness = stable(request_timeout_ms=60_000)
    harness.hold("OffsetCommit", "LeaveGroup")
    began_us = harness.now_us
    harness.tell(Close())
    harness.run_until(lambda: harness.state == "CLOSED")
    assert len(harness.requests(LeaveGroup)) == 1
    assert harness.now_us - began_us <= 30 * SECOND + 10


@pytest.mark.parametrize("timeout_s", [0, 2])
def test_the_timeout_of_close_is_a_setting(timeout_s: int) -> None:
    """ClassicKafkaConsumer.close (4.1.1). Commit and leave are sent once, also without time for their answers."""
    harness = stable(emulated_close_timeout_ms=timeout_s * 1_000)
    harness.append(("t", 0), 8)
    harness.run(100_000)
    harness.forget()
    harness.hold("OffsetCommit", "LeaveGroup")
    began_us = harness.now_us
    harness.tell(Close())
    harness.run_until(lambda: harness.state == "CLOSED")

    assert [type(message) for _, _, message in harness.sent] == [OffsetCommit, LeaveGroup]
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked"]
    assert timeout_s * SECOND <= harness.now_us - began_us <= timeout_s * SECOND + 10


def test_a_close_without_time_does_not_wait_for_a_coordinator() -> None:
    """ConsumerCoordinator.commitOffsetsSync, maybeLeaveGroup (4.1.1): nothing is sent to an unknown coordinator."""
    harness = stable(emulated_close_timeout_ms=0)
    harness.append(("t", 0), 8)
    harness.run(100_000)
    harness.hold("FindCoordinator")
    harness.disconnect()
    harness.forget()
    harness.tell(Close())
    harness.run(10)

    assert harness.state == "CLOSED"
    assert not harness.requests(OffsetCommit)
    assert not harness.requests(LeaveGroup)


def failing(**config: object) -> Harness:
    """Its application's commitSync() is answered GROUP_AUTHORIZATION_FAILED, which poll() never retries."""
    harness = stable(enable_auto_commit=False, emulated_commit_after_poll=True, **config)
    harness.answer_next("OffsetCommit", 30)
    harness.append(("t", 0), 5)
    return harness


def test_an_application_that_is_thrown_a_fatal_error_closes_its_consumer() -> None:
    """KafkaConsumer's usual loop: try poll, finally close: onPartitionsRevoked, LeaveGroup (3.4.1)."""
    harness = failing()
    harness.hold("LeaveGroup")
    harness.run_until(lambda: bool(harness.held["LeaveGroup"]))
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked"]
    assert not harness.facts(MemberFailed), "it still closes"

    harness.release("LeaveGroup")
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert silent(harness)


def test_a_process_that_is_told_to_end_while_its_failed_consumer_closes_ends() -> None:
    """The consumer alone does not end its process: whoever told it so did."""
    harness = failing()
    harness.hold("LeaveGroup")
    harness.run_until(lambda: bool(harness.held["LeaveGroup"]))
    harness.tell(Close())
    harness.release("LeaveGroup")
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.consumer.finished


def test_who_does_not_leave_on_close_fails_without_a_word() -> None:
    """AbstractCoordinator.close (3.4.1): without internal.leave.group.on.close neither callback nor LeaveGroup."""
    harness = failing(internal_leave_group_on_close=False)
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.names(*CALLBACKS) == []
    assert not harness.requests(LeaveGroup)


@pytest.mark.parametrize("instance", [None, "i1"])
@pytest.mark.parametrize(("operation", "leaves"), [("leave", 1), ("remain", 0)])
def test_the_operation_of_close_decides_whether_a_member_leaves(
    instance: str | None, operation: str, leaves: int
) -> None:
    """AbstractCoordinator.shouldSendLeaveGroupRequest (4.1 to 4.3); unsubscribe() leaves by default."""
    harness = stable(group_instance_id=instance, emulated_close_membership=operation)
    harness.tell(Close())
    harness.run_until(lambda: harness.state == "CLOSED")
    assert len(harness.requests(LeaveGroup)) == leaves

    harness = stable(group_instance_id=instance, emulated_close_membership=operation)
    harness.tell(Unsubscribe())
    harness.run(SECOND)
    assert len(harness.requests(LeaveGroup)) == (instance is None)


def test_a_leave_that_breaks_is_not_retried() -> None:
    """Best effort, no retry."""
    harness = stable()
    harness.hold("LeaveGroup")
    harness.tell(Close())
    harness.run_until(lambda: bool(harness.held["LeaveGroup"]))
    harness.disconnect(COORDINATOR)
    assert harness.state == "CLOSED"
    assert len(harness.requests(LeaveGroup)) == 1


@pytest.mark.parametrize("order", [Subscribe(topics=("u",)), Unsubscribe()])
def test_who_is_inside_poll_subscribes_and_unsubscribes_after_that_poll(order: Subscribe | Unsubscribe) -> None:
    """ClassicKafkaConsumer.subscribe, unsubscribe: calls of the thread that is inside poll(Duration)."""
    harness = stable(topics={"t": 4, "u": 2}, emulated_poll_timeout_ms=300)
    harness.run(20_000)
    began_us, ends_us = harness.consumer.poll_span_us
    assert began_us < harness.now_us < ends_us - 1
    harness.tell(order)
    harness.run(ends_us - harness.now_us - 1)
    assert harness.consumer.subscription.topics == ("t",)
    harness.run(1)
    assert harness.consumer.subscription.topics == (order.topics if isinstance(order, Subscribe) else ())


def test_who_is_inside_poll_stops_to_poll_after_it_and_for_the_whole_time() -> None:
    """The loop of the application sees the order when poll(Duration) has returned."""
    harness = stable(emulated_poll_timeout_ms=300)
    harness.run(20_000)
    _, ends_us = harness.consumer.poll_span_us
    harness.tell(StopPolling(for_us=SECOND))
    harness.run(ends_us - harness.now_us - 1)
    assert harness.consumer.polling
    harness.run(1)
    assert not harness.consumer.polling
    harness.run(SECOND - 1)
    assert not harness.consumer.polling
    harness.run(1)
    assert harness.consumer.polling


def test_an_order_that_ends_poll_lets_the_application_unsubscribe_before_it() -> None:
    """Such as close(), for which the application leaves poll() at once."""
    harness = stable()
    harness.run(30_000)
    harness.tell(Unsubscribe())
    assert not harness.requests(LeaveGroup)
    harness.tell(Close())
    harness.run(SECOND)
    (left,) = harness.requests(LeaveGroup)
    assert left.members[0].reason == UNSUBSCRIBED


def test_unsubscribe_revokes_and_leaves_without_a_commit_and_subscribe_comes_back() -> None:
    """KafkaConsumer.unsubscribe: onLeavePrepare, maybeLeaveGroup; the consumer lives on."""
    harness = stable()
    harness.tell(Unsubscribe())
    harness.run(SECOND)
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked"]
    assert [type(message) for _, _, message in harness.sent] == [LeaveGroup]
    harness.forget()
    harness.run(600 * SECOND)
    assert not harness.sent, "an unsubscribed consumer has nothing to say"

    harness.tell(Subscribe(topics=("t",)))
    harness.stable()
    assert len(harness.consumer.positions.owned()) == 4
    assert harness.requests(JoinGroup)[0].member_id == ""


def test_unsubscribe_while_a_join_is_under_way() -> None:
    """The answer to the join is for nobody; a later subscription joins properly."""
    harness = stable()
    harness.hold("JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.tell(Unsubscribe())
    harness.run(SECOND)
    harness.release("JoinGroup")
    harness.run(SECOND)
    assert harness.state == "UNJOINED"
    harness.tell(Subscribe(topics=("t",)))
    harness.stable()


def test_close_right_after_start() -> None:
    """A consumer that never did anything closes at once."""
    harness = Harness(start=False)
    harness.tell(Start())
    harness.tell(Close())
    assert harness.state == "CLOSED" and silent(harness)
