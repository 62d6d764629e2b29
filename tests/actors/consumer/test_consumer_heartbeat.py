"""Heartbeats, the session, max.poll.interval: what the heartbeat thread does while the application may be busy."""

from itertools import pairwise

import pytest

from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import FindCoordinator, Heartbeat, JoinGroup, LeaveGroup, OffsetCommit
from kemu.protocol.notes.groups import (
    CoordinatorKnown,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Processed,
)
from tests.actors.consumer.consumer_harness import COORDINATOR, Harness
from tests.actors.coordinator.scenarios import scenario

SECOND = 1_000_000
CALLBACKS = (PartitionsRevoked, PartitionsLost, PartitionsAssigned)


class Late:
    """The draw ``heartbeat.found``, in us, and the calm value of all others."""

    def __init__(self, late_us: int) -> None:
        self._late_us = late_us

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        return self._late_us if name is DrawName.HEARTBEAT_FOUND else calm_us

    def identity(self, readable: str) -> str:
        return readable


def stable(**config: object) -> Harness:
    """A member of a stable group of one, its history forgotten."""
    harness = Harness(**config).stable()  # type: ignore[arg-type]
    harness.run(100_000)
    harness.forget()
    return harness


def late_heartbeat() -> Harness:
    """A heartbeat of generation 1 is held; the member is stable in generation 2."""
    harness = stable()
    harness.hold("Heartbeat")
    harness.run_until(lambda: bool(harness.held["Heartbeat"]))
    harness.unhold("Heartbeat")
    harness.rejoin_now()
    harness.stable()
    assert harness.generation()[0] == 2
    harness.forget()
    return harness


def test_heartbeats_go_out_every_interval_and_carry_the_membership() -> None:
    """Heartbeat.sentHeartbeat: the interval runs from sending to sending."""
    harness = stable(group_instance_id="i1", heartbeat_interval_ms=2_000)
    harness.run(20 * SECOND)

    at = [us for us, _, message in harness.sent if isinstance(message, Heartbeat)]
    assert len(at) == 10 and {after - before for before, after in pairwise(at)} == {2 * SECOND}
    beat = harness.requests(Heartbeat)[0]
    assert (beat.group, beat.generation, beat.member_id, beat.instance_id) == ("g", 1, "c1-1", "i1")


def test_no_heartbeat_while_a_join_is_under_way() -> None:
    """HeartbeatThread: disabled in PREPARING_REBALANCE; the coordinator takes the parked join for a sign of life."""
    harness = stable()
    harness.hold("JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.forget()
    harness.run(40 * SECOND)
    assert not harness.requests(Heartbeat)

    harness.hold("SyncGroup")
    harness.release("JoinGroup")
    harness.run(10 * SECOND)
    assert len(harness.requests(Heartbeat)) == 3, "COMPLETING_REBALANCE beats again, an interval after the answer"


# --- the reaction table: Heartbeat -------------------------------------------------------------------------------


def test_rebalance_in_progress_makes_a_stable_member_rejoin_with_what_it_is() -> None:
    """HeartbeatResponseHandler, 27 in STABLE: rejoin; generation and id are kept, partitions are revoked."""
    harness = stable()
    harness.rejoin_now()
    harness.stable()

    assert harness.requests(JoinGroup)[0].member_id == "c1-1"
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked", "PartitionsAssigned"]
    assert harness.generation() == (2, "c1-1")


@scenario("S114")
def test_rebalance_in_progress_is_ignored_while_rebalancing() -> None:
    """S114 AbstractCoordinatorTest.testHeartbeatRebalanceInProgressResponseDuringRebalancing."""
    harness = Harness()
    harness.hold("SyncGroup")
    harness.answer_next("Heartbeat", 27)
    harness.run(10 * SECOND)
    assert len(harness.requests(Heartbeat)) == 3
    harness.release("SyncGroup")
    harness.stable()
    joins = len(harness.requests(JoinGroup))
    harness.run(10 * SECOND)

    assert harness.state == "STABLE"
    assert len(harness.requests(JoinGroup)) == joins == 2


@scenario("S115")
@pytest.mark.parametrize(("error", "member_id"), [(22, "c1-1"), (25, "")])
def test_being_no_member_any_more_loses_the_partitions_at_the_next_poll(error: int, member_id: str) -> None:
    """S115 ConsumerCoordinatorTest.testIllegalGeneration: 22 keeps the id, 25 drops it; lost, not revoked."""
    harness = stable()
    harness.answer_next("Heartbeat", error)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert harness.requests(JoinGroup)[0].member_id == member_id
    harness.stable()

    assert harness.names(*CALLBACKS) == ["PartitionsLost", "PartitionsAssigned"]
    lost = harness.facts(PartitionsLost)[0]
    assert (lost.member_id, len(lost.lost)) == ("c1-1", 4)
    assert harness.facts(MemberBecame)[0].new == "UNJOINED"


def test_a_fenced_instance_is_fatal_at_the_next_poll() -> None:
    """HeartbeatResponseHandler, 82 unchanged: reset, and poll raises the heartbeat thread's failure.

    The close that follows finds no generation, so all partitions are lost (ConsumerCoordinator.onLeavePrepare 3.4.1). A
    static member leaves without a request.
    """
    harness = stable(group_instance_id="i1")
    harness.answer_next("Heartbeat", 82)
    harness.run_until(lambda: harness.state == "FAILED")

    assert harness.facts(MemberFailed)[0].error == ErrorCode.FENCED_INSTANCE_ID
    assert harness.names(*CALLBACKS) == ["PartitionsLost"]
    assert not harness.requests(LeaveGroup)


@pytest.mark.parametrize("error", [22, 25, 82])
def test_errors_about_a_generation_that_is_over_are_ignored(error: int) -> None:
    """The guard "unchanged": the heartbeat was sent in generation 1, the member is in generation 2."""
    harness = late_heartbeat()
    harness.release("Heartbeat", error)
    harness.run(10 * SECOND)

    assert (harness.state, harness.generation()) == ("STABLE", (2, "c1-1"))
    assert not harness.facts(MemberBecame) and not harness.requests(JoinGroup)


@pytest.mark.parametrize("error", [15, 16])
def test_a_coordinator_that_is_none_is_looked_up_again(error: int) -> None:
    """HeartbeatResponseHandler: coordinator unknown; the connection is closed, the generation stays.

    The first lookup finds a coordinator whose connection is backed off, so a second one follows after the backoff
    (``ConsumerNetworkClient.isUnavailable``, ``ClusterConnectionStates.disconnected``).
    """
    harness = stable()
    harness.answer_next("Heartbeat", error)
    harness.run(5 * SECOND)

    assert harness.hangups == [COORDINATOR]
    looked_up = [at for at, _, message in harness.sent if isinstance(message, FindCoordinator)]
    assert len(looked_up) == 2
    assert looked_up[1] - looked_up[0] >= harness.config.reconnect_backoff_ms * 800
    assert [note.host for note in harness.facts(CoordinatorKnown)] == ["", COORDINATOR]
    assert (harness.state, harness.generation()) == ("STABLE", (1, "c1-1"))
    assert not harness.requests(JoinGroup)


@pytest.mark.parametrize("error", [14, 30, 35, -1])
def test_any_other_heartbeat_error_is_retried_after_the_backoff(error: int) -> None:
    """HeartbeatThread.onFailure: failHeartbeat; even an authorization failure."""
    harness = stable()
    harness.answer_next("Heartbeat", error)
    harness.run_until(lambda: len(harness.requests(Heartbeat)) == 2)

    first, second = (us for us, _, message in harness.sent if isinstance(message, Heartbeat))
    assert second - first == 102_000, "the round trip and retry.backoff.ms"
    assert harness.state == "STABLE"


@pytest.mark.parametrize(("most_ms", "waits"), [(0, [100, 100, 100, 100]), (1_000, [100, 200, 400, 800])])
def test_heartbeats_that_go_on_failing_come_ever_later_since_3_7(most_ms: int, waits: list[int]) -> None:
    """Heartbeat.failHeartbeat: 3.4.1 retryBackoffMs, 3.7.1 retryBackoff.backoff(heartbeatAttempts++)."""
    harness = stable(retry_backoff_max_ms=most_ms, session_timeout_ms=45_000)
    harness.answer_next("Heartbeat", *[14] * 4, 0, 14)
    harness.run_until(lambda: len(harness.requests(Heartbeat)) == 7)

    at = [us for us, _, message in harness.sent if isinstance(message, Heartbeat)]
    between = [(after - before - 2_000) // 1_000 for before, after in pairwise(at)]
    assert between[:4] == waits
    assert between[5] == 100, "one that succeeded between them begins the count anew"


def test_a_broken_connection_loses_the_coordinator_and_keeps_the_membership() -> None:
    """CoordinatorResponseHandler.onFailure(DisconnectException)."""
    harness = stable()
    harness.disconnect()
    assert harness.facts(CoordinatorKnown)[0].host == ""
    harness.run(5 * SECOND)

    assert (harness.state, harness.generation()) == ("STABLE", (1, "c1-1"))
    assert harness.requests(Heartbeat)


def test_a_busy_member_finds_its_new_coordinator_without_its_application() -> None:
    """HeartbeatThread: coordinator unknown: lookupCoordinator after retry.backoff.ms, whatever the application does."""
    harness = Harness(emulated_process_us_per_record=1_000_000, max_poll_records=10).stable()
    harness.run(100_000)
    harness.append(("t", 0), 10)
    harness.run(10_000)
    harness.forget()
    harness.disconnect()
    harness.run(200_000)

    assert not harness.consumer.polling
    assert [note.host for note in harness.facts(CoordinatorKnown)] == ["", COORDINATOR]


# --- session -----------------------------------------------------------------------------------------------------


def test_a_coordinator_silent_for_the_session_timeout_is_given_up() -> None:
    """HeartbeatThread: session timer expired without an answer: coordinator unknown, generation kept."""
    harness = stable(session_timeout_ms=10_000, request_timeout_ms=30_000)
    harness.hold("Heartbeat")
    harness.run_until(lambda: bool(harness.facts(CoordinatorKnown)))

    lost = harness.facts(CoordinatorKnown)[0]
    assert "session timeout" in lost.why
    assert 9_000_000 <= harness.now_us <= 10_100_000
    assert harness.state == "STABLE"
    harness.release("Heartbeat")
    harness.run(5 * SECOND)
    assert harness.requests(FindCoordinator) and harness.generation() == (1, "c1-1")


def test_a_heartbeat_that_is_never_answered_closes_the_connection() -> None:
    """NetworkClient: request.timeout.ms; everything in flight to that node fails with it."""
    harness = stable(request_timeout_ms=8_000)
    harness.hold("Heartbeat")
    harness.run_until(lambda: bool(harness.hangups))

    sent_us = next(us for us, _, message in harness.sent if isinstance(message, Heartbeat))
    assert harness.now_us == sent_us + 8_000_000
    assert harness.hangups == [COORDINATOR]
    assert not [flight for flight in harness.consumer.client.in_flight.values() if flight.peer == COORDINATOR]


# --- max.poll.interval -------------------------------------------------------------------------------------------


def slow(**config: object) -> Harness:
    """A member that takes 20 s over a batch with max.poll.interval.ms 8,000, busy with its first batch."""
    harness = Harness(
        max_poll_interval_ms=8_000,
        emulated_process_us_per_record=2_000_000,
        max_poll_records=10,
        **config,  # type: ignore[arg-type]
    )
    harness.stable()
    harness.run(100_000)
    harness.append(("t", 0), 10)
    harness.run(10_000)
    harness.forget()
    return harness


def test_an_application_that_does_not_poll_in_time_leaves_the_group() -> None:
    """HeartbeatThread: poll timer expired: LeaveGroup, generation and id reset; lost at the next poll.

    The thread notices after one of its waits of ``retry.backoff.ms``, which begin with the last heartbeat.
    """
    harness = slow()
    began_us = harness.now_us
    harness.run_until(lambda: harness.state == "UNJOINED")
    last_beat_us = max(at_us for at_us, _, message in harness.sent if isinstance(message, Heartbeat))
    assert 8 * SECOND <= harness.now_us - began_us + 10_000 < 8 * SECOND + 100_000
    assert (harness.now_us - last_beat_us) % 100_000 == 0
    (leave,) = harness.requests(LeaveGroup)
    assert leave.members[0].member_id == "c1-1"
    assert leave.members[0].reason == "consumer poll timeout has expired."
    assert not harness.names(*CALLBACKS), "the polling thread is busy: it still thinks it owns everything"

    harness.run_until(lambda: harness.state == "STABLE")
    assert harness.facts(Processed)[0].generation == 1, "processed as a zombie of generation 1"
    assert harness.names(*CALLBACKS)[0] == "PartitionsLost"
    assert harness.now_us - began_us >= 19 * SECOND
    assert harness.requests(JoinGroup)[0].member_id == ""


def test_who_polls_too_late_without_a_coordinator_first_finds_one_and_then_leaves() -> None:
    """HeartbeatThread.run (3.4.1): coordinatorUnknown() is looked at before pollTimeoutExpired()."""
    harness = slow()
    harness.hold("FindCoordinator")
    harness.disconnect()
    harness.run(15 * SECOND)
    assert harness.state == "STABLE"
    assert not harness.requests(LeaveGroup)

    harness.unhold("FindCoordinator")
    harness.release("FindCoordinator")
    harness.run_until(lambda: harness.state == "UNJOINED")
    harness.run(2_000)
    (leave,) = harness.requests(LeaveGroup)
    assert leave.members[0].reason == "consumer poll timeout has expired."


def test_who_polls_again_before_a_coordinator_is_found_stays() -> None:
    """HeartbeatThread.run (3.4.1): Heartbeat.poll() has reset the poll timer by then."""
    harness = slow()
    harness.hold("FindCoordinator")
    harness.disconnect()
    harness.run_until(lambda: harness.consumer.poll_span_us != (0, 0))

    harness.unhold("FindCoordinator")
    harness.release("FindCoordinator")
    harness.run(5 * SECOND)
    assert (harness.state, harness.generation()[0]) == ("STABLE", 1)
    assert not harness.requests(LeaveGroup)


def test_a_static_member_that_does_not_poll_in_time_just_goes_quiet() -> None:
    """AbstractCoordinator.maybeLeaveGroup: only dynamic members send LeaveGroup; the reset is the same."""
    harness = slow(group_instance_id="i1")
    harness.run_until(lambda: harness.state == "UNJOINED")
    harness.run(SECOND)

    assert not harness.requests(LeaveGroup)
    beats = len(harness.requests(Heartbeat))
    harness.run(5 * SECOND)
    assert len(harness.requests(Heartbeat)) == beats


def test_heartbeats_go_on_while_the_application_is_busy_and_a_rebalance_waits_for_it() -> None:
    """KIP-62: the heartbeat thread learns of the rebalance (27); the join starts at the next poll."""
    harness = Harness(emulated_process_us_per_record=1_000_000, max_poll_records=10)
    harness.stable()
    harness.run(100_000)
    harness.append(("t", 0), 10)
    harness.run(10_000)
    harness.forget()
    harness.answer_next("Heartbeat", 27)
    harness.run(9 * SECOND)
    assert len(harness.requests(Heartbeat)) == 3
    assert not harness.requests(JoinGroup)

    harness.run(2 * SECOND)
    assert harness.facts(Processed)
    assert harness.requests(JoinGroup)


def test_a_busy_application_takes_the_join_answer_only_when_it_polls() -> None:
    """The heartbeat thread sleeps in PREPARING_REBALANCE, so nobody reads the answer."""
    harness = Harness(
        emulated_process_us_per_record=1_000_000,
        max_poll_records=10,
        partition_assignment_strategy=("cooperative-sticky",),
    ).stable()
    harness.run(100_000)
    harness.hold("JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.append(("t", 0), 10)
    harness.run(10_000)
    harness.release("JoinGroup")
    harness.run(5 * SECOND)
    assert harness.state == "PREPARING_REBALANCE"

    harness.run(6 * SECOND)
    assert harness.state == "STABLE"


def test_an_idle_application_polls_all_the_time_and_never_times_out() -> None:
    """poll() without records returns after its timeout and is called again."""
    harness = stable(max_poll_interval_ms=8_000)
    harness.run(60 * SECOND)
    assert harness.state == "STABLE" and not harness.facts(MemberBecame)


@pytest.mark.parametrize(("late_us", "first"), [(0, ["Heartbeat", "OffsetCommit"]), (5, ["OffsetCommit", "Heartbeat"])])
def test_a_due_heartbeat_and_a_due_commit_race_once_poll_has_found_the_coordinator(
    late_us: int, first: list[str]
) -> None:
    """``AbstractCoordinator.pollHeartbeat`` wakes the heartbeat thread, and poll() commits (3.4.1, 3.9.1, 4.1.1)."""
    harness = Harness(draws=Late(late_us)).stable()
    harness.append(("t", 0), 3)
    harness.run(100_000)
    harness.hold("FindCoordinator")
    harness.disconnect()
    harness.run(6 * SECOND)
    harness.forget()
    harness.unhold("FindCoordinator")
    harness.release("FindCoordinator")
    harness.run_until(lambda: bool(harness.requests(Heartbeat) and harness.requests(OffsetCommit)))

    sent = [type(message).__name__ for _, _, message in harness.sent if isinstance(message, Heartbeat | OffsetCommit)]
    assert sent[:2] == first


def test_a_poll_that_ended_in_a_pause_of_the_process_is_followed_by_one_that_begins_with_the_resume() -> None:
    """select() ends with nothing (EINTR), and the application calls poll() again."""
    harness = stable()
    harness.now_us += 20_037_000
    harness.run(1_000)

    assert harness.consumer.poll_span_us[0] in range(harness.now_us - 1_000, harness.now_us + 1)
