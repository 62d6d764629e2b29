"""Earlier releases' consumers around their membership: ``ClientRules``, value by value.

Each test runs the release that has the value and the one after it. Sources: AbstractCoordinator (AC) and
ConsumerCoordinator (CC) at the tags named.
"""

import pytest
from attrs import evolve

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat, JoinGroup, OffsetFetch
from kemu.protocol.notes.groups import MemberBecame, Processed
from kemu.protocol.profiles import PROFILES
from kemu.protocol.rebalancing.client_rules import (
    CLIENT_2_4,
    CLIENT_2_6,
    CLIENT_2_7,
    CLIENT_3_2,
    CLIENT_3_7,
    CLIENT_3_9,
    CLIENT_4_0,
    CLIENT_4_1,
    CLIENT_4_2,
    ClientRules,
)
from tests.actors.consumer.consumer_harness import Harness

SECOND = 1_000_000
COOPERATIVE = ("cooperative-sticky",)


def stable(client: ClientRules, **config: object) -> Harness:
    """A member of a stable group of one, its history forgotten."""
    harness = Harness(client=client, **config).stable()  # type: ignore[arg-type]
    harness.run(100_000)
    harness.forget()
    return harness


def rejoining(client: ClientRules, **config: object) -> Harness:
    """Its JoinGroup is held."""
    harness = stable(client, **config)
    harness.hold("JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.forget()
    return harness


@pytest.mark.parametrize(("client", "processes"), [(CLIENT_2_4, False), (CLIENT_2_6, True), (CLIENT_3_2, True)])
def test_before_2_5_a_poll_returns_nothing_while_a_join_goes_on(client: ClientRules, processes: bool) -> None:
    """KafkaConsumer.poll 2.4.1: empty unless updateAssignmentMetadataIfNeeded; 2.5.1: waitForJoinGroup = false."""
    harness = rejoining(client, partition_assignment_strategy=COOPERATIVE)

    harness.append(("t", 0), 3)
    harness.run(2 * SECOND)
    assert bool(harness.facts(Processed)) is processes

    harness.release("JoinGroup")
    harness.stable()
    harness.run(SECOND)
    assert harness.facts(Processed), "after the join they come"


@pytest.mark.parametrize(("client", "beats"), [(CLIENT_2_4, 0), (CLIENT_2_6, 3)])
def test_before_2_6_no_heartbeat_goes_out_until_the_sync_is_answered(client: ClientRules, beats: int) -> None:
    """AC 2.5.1 initiateJoinGroup: the thread is enabled when the join future is done; 2.6.3: in the join's answer."""
    harness = rejoining(client)

    harness.hold("SyncGroup")
    harness.release("JoinGroup")
    harness.run(10 * SECOND)
    assert len(harness.requests(Heartbeat)) == beats

    harness.release("SyncGroup")
    harness.stable()
    harness.forget()
    harness.run(10 * SECOND)
    assert len(harness.requests(Heartbeat)) == 3


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize(("client", "resets"), [(CLIENT_2_4, True), (CLIENT_2_6, False)])
def test_before_2_6_the_late_answer_to_an_old_heartbeat_ends_the_new_membership(
    client: ClientRules, resets: bool, error: ErrorCode
) -> None:
    """AC 2.6.3 CoordinatorResponseHandler.generationUnchanged: not there before."""
    harness = stable(client)
    harness.hold("Heartbeat")
    harness.run_until(lambda: bool(harness.held["Heartbeat"]))
    harness.unhold("Heartbeat")
    harness.rejoin_now()
    harness.stable()
    assert harness.generation() == (2, "c1-1")
    harness.forget()

    harness.release("Heartbeat", error)
    harness.run(50_000)

    assert ("UNJOINED" in [fact.new for fact in harness.facts(MemberBecame)]) is resets


@pytest.mark.parametrize(("client", "member_id"), [(CLIENT_2_7, ""), (CLIENT_3_2, "c1-1")])
def test_before_3_2_a_lost_generation_costs_the_member_its_id(client: ClientRules, member_id: str) -> None:
    """AC 3.1.2 resetGenerationOnResponseError; 3.2.3 resetStateOnResponseError: ILLEGAL_GENERATION keeps the id."""
    harness = stable(client)
    harness.answer_next("Heartbeat", ErrorCode.ILLEGAL_GENERATION)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert harness.requests(JoinGroup)[0].member_id == member_id


@pytest.mark.parametrize(("client", "member_id"), [(CLIENT_2_4, "c1-1"), (CLIENT_2_6, ""), (CLIENT_2_7, "c1-1")])
def test_in_2_6_a_join_that_got_no_answer_makes_the_member_forget_itself(client: ClientRules, member_id: str) -> None:
    """AC 2.6.3 joinGroupIfNeeded: resetStateAndRejoin before the back-off; 2.5.1 and 2.7.2 have none there."""
    harness = rejoining(client)
    harness.disconnect()
    harness.unhold("JoinGroup")
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert harness.requests(JoinGroup)[0].member_id == member_id


@pytest.mark.parametrize(("client", "processes"), [(CLIENT_2_7, False), (CLIENT_3_2, True)])
def test_before_3_2_the_commit_before_a_cooperative_join_holds_polls_up(client: ClientRules, processes: bool) -> None:
    """CC 3.1.2 onJoinPrepare: maybeAutoCommitOffsetsSync; 3.2.3: an asynchronous commit that polls look after."""
    harness = stable(client, partition_assignment_strategy=COOPERATIVE, auto_commit_interval_ms=600_000)
    harness.append(("t", 0), 1)
    harness.run(SECOND)
    harness.hold("OffsetCommit", "JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["OffsetCommit"]))
    harness.forget()

    harness.append(("t", 1), 1)
    harness.run(2 * SECOND)
    assert bool(harness.facts(Processed)) is processes

    harness.release("OffsetCommit")
    harness.run(2 * SECOND)
    assert harness.facts(Processed), "while the join itself goes on they are returned in both"


@pytest.mark.parametrize(("client", "again"), [(CLIENT_3_2, False), (CLIENT_3_9, True)])
@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION])
def test_before_3_9_an_offset_fetch_is_asked_again_after_two_errors_alone(
    error: ErrorCode, client: ClientRules, again: bool
) -> None:
    """CC OffsetFetchResponseHandler 3.8.0: all but 14 and 16 is an unexpected error; 3.9.0: retriable ones are not."""
    harness = Harness(client=client)
    harness.answer_next("OffsetFetch", error)
    harness.run(10 * SECOND)

    assert harness.state == ("STABLE" if again else "FAILED")
    assert len(harness.requests(OffsetFetch)) == (2 if again else 1)


@pytest.mark.parametrize(("name", "stable"), [("kafka-2.4", False), ("kafka-2.6", True), ("kafka-4.0", True)])
def test_since_2_5_stable_offsets_alone_are_asked_for(name: str, stable: bool) -> None:
    """CC sendOffsetFetchRequest 2.5.1, KIP-447: requireStable is true, whatever the isolation level; 2.4.1 has none."""
    harness = Harness(versions=PROFILES[name].versions).stable()
    harness.run(SECOND)

    assert [request.require_stable for request in harness.requests(OffsetFetch)] == [stable]


def test_each_release_has_the_consumer_of_its_time() -> None:
    """The table of ``protocol.profiles``, read through the rules that its members get."""
    expected = {
        "kafka-2.3": CLIENT_2_4,
        "kafka-2.4": CLIENT_2_4,
        "kafka-2.4-unfixed": CLIENT_2_4,
        "kafka-2.6": CLIENT_2_6,
        "kafka-2.8": CLIENT_2_7,
        "kafka-3.0": CLIENT_2_7,
        "kafka-3.7": CLIENT_3_7,
        "kafka-3.9": CLIENT_3_9,
        "kafka-4.0": CLIENT_4_0,
        "kafka-4.1": CLIENT_4_1,
        "kafka-4.2": CLIENT_4_2,
        "kafka-4.3": CLIENT_3_9,
    }
    for name, profile in PROFILES.items():
        assignors = (profile.assignors["range"],)
        client = profile.rules_of(evolve(profile.consumer, group_id="g"), assignors).client
        assert client == expected.get(name, CLIENT_3_2), name
