"""The reasons that members tell in JoinGroup and LeaveGroup, as Kafka's consumers do since 3.2 (KIP-800)."""

import pytest

from kemu.actors.consumer.reasons import exception_of
from kemu.protocol.commands import EnforceRebalance
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup, LeaveGroup, SyncGroup
from kemu.protocol.messages.versions import KAFKA_3_0
from kemu.protocol.rebalancing.client_rules import CLIENT_3_2, CLIENT_3_7, ClientRules
from tests.actors.consumer.consumer_harness import Harness

_E = ErrorCode


def next_reason(harness: Harness) -> str | None:
    """Of the next JoinGroup."""
    harness.forget()
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    return harness.requests(JoinGroup)[0].reason


@pytest.mark.parametrize(
    ("api", "error", "reason"),
    [
        ("JoinGroup", _E.UNKNOWN_MEMBER_ID, "rebalance failed due to UnknownMemberIdException"),
        ("JoinGroup", _E.COORDINATOR_LOAD_IN_PROGRESS, "rebalance failed due to CoordinatorLoadInProgressException"),
        ("JoinGroup", _E.NOT_COORDINATOR, "rebalance failed due to NotCoordinatorException"),
        ("SyncGroup", _E.REBALANCE_IN_PROGRESS, "rebalance failed due to RebalanceInProgressException"),
        ("SyncGroup", _E.ILLEGAL_GENERATION, "rebalance failed due to IllegalGenerationException"),
        ("Heartbeat", _E.REBALANCE_IN_PROGRESS, "group is already rebalancing"),
        ("Heartbeat", _E.UNKNOWN_MEMBER_ID, "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"),
        ("Heartbeat", _E.ILLEGAL_GENERATION, "encountered ILLEGAL_GENERATION from HEARTBEAT response"),
        ("OffsetCommit", _E.REBALANCE_IN_PROGRESS, "offset commit failed since group is already rebalancing"),
        ("OffsetCommit", _E.UNKNOWN_MEMBER_ID, "encountered UNKNOWN_MEMBER_ID from OFFSET_COMMIT response"),
    ],
)
def test_a_join_after_an_error_tells_it_in_kafkas_words(api: str, error: ErrorCode, reason: str) -> None:
    """AbstractCoordinator 3.4.1: joinGroupIfNeeded, resetStateOnResponseError, HeartbeatResponseHandler."""
    harness = Harness()
    if api == "JoinGroup":
        harness.answer_next(api, error)
        harness.run_until(lambda: bool(harness.requests(JoinGroup)))
        assert harness.requests(JoinGroup)[0].reason == ""
    elif api == "SyncGroup":
        harness.answer_next(api, error)
        harness.run_until(lambda: bool(harness.requests(SyncGroup)))
    else:
        harness.stable()
        harness.append(("t", 0), 3)
        harness.answer_next(api, error)

    assert next_reason(harness) == reason


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        (CLIENT_3_2, "rebalance failed due to MemberIdRequiredException"),
        (CLIENT_3_7, "need to re-join with the given member-id: {}"),
    ],
)
def test_a_join_with_a_given_id_names_the_id_since_3_7(client: ClientRules, reason: str) -> None:
    """AbstractCoordinator.joinGroupIfNeeded 3.6.0 and 3.7.0; JoinGroupResponseHandler names the id in both."""
    harness = Harness(client=client).stable()

    _, second = harness.requests(JoinGroup)

    assert second.reason == reason.format(second.member_id)


def test_a_connection_that_breaks_in_a_join_is_a_disconnect_exception() -> None:
    """ConsumerNetworkClient raises DisconnectException for whoever waits for an answer."""
    harness = Harness()
    harness.hold("JoinGroup")
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.unhold("JoinGroup")
    harness.disconnect()

    assert next_reason(harness) == "rebalance failed due to DisconnectException"


def test_who_polls_too_late_says_so_when_it_leaves_and_that_it_left_when_it_is_back() -> None:
    """HeartbeatThread.run, resetGenerationOnLeaveGroup."""
    harness = Harness(max_poll_interval_ms=1_000, session_timeout_ms=6_000, emulated_process_us_per_record=1_500_000)
    harness.stable()
    harness.append(("t", 0), 1)
    harness.run_until(lambda: bool(harness.requests(LeaveGroup)))

    assert harness.requests(LeaveGroup)[0].members[0].reason == "consumer poll timeout has expired."
    assert next_reason(harness) == "consumer pro-actively leaving the group"


def test_a_leader_whose_topics_grew_tells_that_its_metadata_changed() -> None:
    """ConsumerCoordinator.rejoinNeededOrPending."""
    harness = Harness(metadata_max_age_ms=5_000).stable()
    harness.cluster.topics["t"] = 5

    assert next_reason(harness) == "cached metadata has changed"


def test_an_application_that_asks_for_a_rebalance_tells_its_own_reason_cut_to_255_characters() -> None:
    """JoinGroupRequest.maybeTruncateReason."""
    harness = Harness().stable()
    harness.forget()
    harness.tell(EnforceRebalance(reason="x" * 300))
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert harness.requests(JoinGroup)[0].reason == "x" * 255


def test_before_3_2_no_reason_goes_on_the_wire() -> None:
    """JoinGroup has the field since v8, LeaveGroup since v5."""
    harness = Harness(versions=KAFKA_3_0).stable()
    harness.close()

    assert {join.reason for join in harness.requests(JoinGroup)} == {None}
    assert harness.requests(LeaveGroup)[0].members[0].reason is None


def test_errors_have_the_names_of_kafkas_exceptions() -> None:
    """org.apache.kafka.common.errors."""
    assert exception_of(_E.FENCED_INSTANCE_ID) == "FencedInstanceIdException"
    assert exception_of(_E.UNKNOWN_SERVER_ERROR) == "UnknownServerException"
    assert exception_of(_E.REQUEST_TIMED_OUT) == "TimeoutException"
