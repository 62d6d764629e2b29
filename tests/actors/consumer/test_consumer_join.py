"""JoinGroup and SyncGroup: what a member sends, and what it does with every answer (Kafka's reaction table)."""

from itertools import pairwise

import pytest

from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Metadata
from kemu.protocol.messages.group import (
    FindCoordinator,
    JoinedMember,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.member import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kemu.protocol.messages.versions import LATEST
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CoordinatorKnown,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
)
from tests.actors.consumer.consumer_harness import Harness
from tests.actors.coordinator.scenarios import scenario

STABLE_JOIN = ["UNJOINED", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"]


def joined(**config: object) -> Harness:
    """A member of a stable group of one."""
    harness = Harness(**config).stable()  # type: ignore[arg-type]
    harness.forget()
    return harness


def joining(*apis: str, **config: object) -> Harness:
    """A member whose request of this API is held: "JoinGroup" with an id, or "SyncGroup"."""
    harness = Harness(**config)  # type: ignore[arg-type]
    if apis == ("JoinGroup",):
        harness.run_until(lambda: bool(harness.requests(JoinGroup)))
        harness.run(1_000)
    harness.hold(*apis)
    harness.run_until(lambda: bool(harness.held[apis[0]]))
    harness.forget()
    return harness


def overtaken(api: str) -> Harness:
    """As a rejoining member of generation 1, with the request held, and its generation reset (22) since it was sent."""
    harness = Harness().stable()
    harness.hold("Heartbeat", api)
    harness.run(3_100_000)
    (late,) = harness.held["Heartbeat"]
    harness.unhold("Heartbeat")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held[api]))
    if api == "SyncGroup":
        harness.answer_next("Heartbeat", 22)
        harness.run_until(lambda: harness.state == "UNJOINED")
    else:
        harness.held["Heartbeat"] = [late]
        harness.release("Heartbeat", 22)
        harness.run_until(lambda: harness.state == "UNJOINED")
    harness.forget()
    return harness


# --- joining -----------------------------------------------------------------------------------------------------


def test_a_new_member_finds_its_coordinator_joins_with_the_id_it_is_given_and_owns_everything() -> None:
    """AbstractCoordinator, the whole way: FindCoordinator, JoinGroup twice (KIP-394), SyncGroup."""
    harness = Harness().stable()

    kinds = [type(message) for _, _, message in harness.sent]
    assert [kind for kind in kinds if kind is not Metadata][:4] == [FindCoordinator, JoinGroup, JoinGroup, SyncGroup]
    assert [note.new for note in harness.facts(MemberBecame)] == STABLE_JOIN[1:]
    (assigned,) = harness.facts(PartitionsAssigned)
    assert assigned.added == assigned.owned == tuple(("t", number) for number in range(4))
    (received,) = harness.facts(AssignmentReceived)
    assert (received.generation, received.partitions) == (1, assigned.owned)


@scenario("S110")
def test_member_id_required_is_answered_at_once_with_the_id_given() -> None:
    """S110 AbstractCoordinatorTest.testJoinGroupRequestWithMemberIdRequired: keep the id, generation -1, rejoin."""
    harness = Harness().stable()

    first, second = harness.requests(JoinGroup)
    assert (first.member_id, second.member_id) == ("", "c1-1")
    sent_at = [at for at, _, message in harness.sent if isinstance(message, JoinGroup)]
    assert sent_at[1] - sent_at[0] == 2_000, "one round trip later: no backoff"
    assert decode_subscription(second.protocols[0].metadata).generation == -1


def test_a_static_member_joins_without_being_told_an_id_first() -> None:
    """KIP-345: an instance id makes the first JoinGroup the real one."""
    harness = Harness(group_instance_id="i1").stable()

    (join,) = harness.requests(JoinGroup)
    assert (join.member_id, join.instance_id) == ("", "i1")
    (sync,) = harness.requests(SyncGroup)
    assert (sync.member_id, sync.instance_id) == ("c1-1", "i1")


def test_the_join_carries_all_assignors_in_order_and_what_is_owned() -> None:
    """ConsumerCoordinator.metadata: topics sorted, owned and generation inside, one entry per assignor, reason."""
    harness = Harness(
        {"b": 1, "a": 2},
        subscribe=("b", "a"),
        partition_assignment_strategy=("cooperative-sticky",),
        client_rack="r1",
        max_poll_interval_ms=60_000,
    ).stable()
    harness.rejoin_now()
    harness.stable()

    join = harness.requests(JoinGroup)[-1]
    subscription = decode_subscription(join.protocols[0].metadata)
    assert subscription.topics == ("a", "b")
    assert subscription.owned == (("a", 0), ("a", 1), ("b", 0))
    assert (subscription.generation, subscription.rack) == (1, "r1")
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (45_000, 60_000)
    assert join.reason == "group is already rebalancing"

    several = Harness(partition_assignment_strategy=("roundrobin", "range")).stable()
    assert [one.name for one in several.requests(JoinGroup)[-1].protocols] == ["roundrobin", "range"]


def test_an_eager_member_claims_nothing_because_it_gave_up_everything() -> None:
    """ConsumerCoordinator.onJoinPrepare, EAGER: ownedPartitions is always empty; only the generation is told."""
    harness = joined()
    harness.rejoin_now()
    harness.stable()

    subscription = decode_subscription(harness.requests(JoinGroup)[-1].protocols[0].metadata)
    assert (subscription.owned, subscription.generation) == ((), 1)


def test_the_sticky_assignor_remembers_its_last_assignment_in_its_user_data() -> None:
    """StickyAssignor.subscriptionUserData: null before the first assignment, partitions and generation after."""
    harness = Harness(partition_assignment_strategy=("sticky",)).stable()
    first = decode_subscription(harness.requests(JoinGroup)[-1].protocols[0].metadata)
    harness.rejoin_now()
    harness.stable()

    second = decode_subscription(harness.requests(JoinGroup)[-1].protocols[0].metadata)
    assert first.user_data is None
    assert second.user_data is not None and second.user_data.endswith(b"\x00\x00\x00\x01")


def test_old_versions_are_spoken_when_the_profile_says_so() -> None:
    """Before KIP-394 (JoinGroup v3) no id is required; LeaveGroup v2 names one member; subscription v1 has no rack."""
    old = LATEST.but(JoinGroup=3, SyncGroup=1, Heartbeat=1, LeaveGroup=1, OffsetCommit=3, OffsetFetch=3, subscription=1)
    harness = Harness(versions=old).stable()
    harness.close()

    (join,) = harness.requests(JoinGroup)
    assert join.protocols[0].metadata[:2] == b"\x00\x01"
    (leave,) = harness.requests(LeaveGroup)
    assert (leave.member_id, leave.members) == ("c1-1", ())


# --- leading -----------------------------------------------------------------------------------------------------


def test_the_leader_assigns_for_everybody() -> None:
    """ConsumerCoordinator.onLeaderElected: the selected assignor over all subscriptions; everyone is listed."""
    harness = Harness(start=False)
    other = encode_subscription(Subscription(("t",)))
    harness.cluster.others = (JoinedMember(member_id="c0-1", metadata=other),)
    start(harness)

    (sync,) = harness.requests(SyncGroup)
    decided = {row.member_id: decode_assignment(row.assignment).partitions for row in sync.assignments}
    assert decided == {"c0-1": (("t", 0), ("t", 1)), "c1-1": (("t", 2), ("t", 3))}


def test_the_leader_waits_for_metadata_of_topics_it_does_not_subscribe_to_itself() -> None:
    """ConsumerCoordinator.updateGroupSubscription: widen the interest, then wait for fresh metadata."""
    harness = Harness({"t": 2, "u": 3}, start=False)
    other = encode_subscription(Subscription(("u",)))
    harness.cluster.others = (JoinedMember(member_id="c0-1", metadata=other),)
    start(harness)

    asked = [set(message.topics or ()) for message in harness.requests(Metadata)]
    assert asked == [{"t"}, {"t", "u"}]
    (sync,) = harness.requests(SyncGroup)
    decided = {row.member_id: decode_assignment(row.assignment).partitions for row in sync.assignments}
    assert decided == {"c0-1": (("u", 0), ("u", 1), ("u", 2)), "c1-1": (("t", 0), ("t", 1))}


def test_a_leader_that_waits_for_metadata_and_is_reset_meanwhile_joins_again() -> None:
    """The heartbeat thread runs while the leader waits; what it resets must not leave the join hanging."""
    harness = Harness({"t": 2, "u": 3}, start=False)
    harness.cluster.others = (JoinedMember(member_id="c0-1", metadata=encode_subscription(Subscription(("u",)))),)
    harness.hold("SyncGroup")
    start(harness, stable=False)
    harness.run_until(lambda: harness.state == "PREPARING_REBALANCE")
    harness.hold("Metadata")
    harness.run_until(lambda: harness.state == "COMPLETING_REBALANCE")
    assert not harness.held["SyncGroup"]
    harness.answer_next("Heartbeat", 25)
    harness.run_until(lambda: len(harness.requests(JoinGroup)) == 3)
    harness.release("Metadata")
    harness.unhold("SyncGroup")

    harness.stable()
    assert harness.generation() == (2, "c1-2")


@scenario("S119")
def test_a_leader_told_to_skip_the_assignment_sends_none_but_watches_metadata() -> None:
    """S119 ConsumerCoordinatorTest.testOnLeaderElectedShouldSkipAssignment (KIP-814)."""
    harness = Harness(group_instance_id="i1", start=False)
    harness.cluster.skip_assignment = True
    harness.cluster.given = (("t", 1),)
    start(harness)

    (sync,) = harness.requests(SyncGroup)
    assert sync.assignments == ()
    assert harness.consumer.positions.owned() == (("t", 1),)

    harness.forget()
    harness.cluster.topics["t"] = 5
    harness.run_until(lambda: bool(harness.requests(JoinGroup)), within_us=301_000_000)


def test_a_subscription_the_leader_cannot_read_is_fatal() -> None:
    """KIP-429, upgrade: an old leader that cannot parse a newer subscription fails with a schema error."""
    harness = Harness(start=False)
    harness.cluster.others = (JoinedMember(member_id="c0-1", metadata=b"\x00"),)
    start(harness, stable=False)
    harness.run_until(lambda: harness.state == "FAILED")

    (failed,) = harness.facts(MemberFailed)
    assert "cannot be read" in failed.why


def start(harness: Harness, *, stable: bool = True) -> None:
    """Start a harness that was made with ``start=False``."""
    from kemu.protocol.commands import Start

    harness.tell(Start())
    if stable:
        harness.stable()


# --- the reaction table: JoinGroup -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [14, 15, 16, 25, 27])
def test_join_errors_that_are_tried_again(error: int) -> None:
    """AbstractCoordinator.JoinGroupResponseHandler: 14, 15, 16 after a backoff, 25 and 27 at once."""
    harness = joining("JoinGroup")
    asked_us = harness.now_us
    harness.release("JoinGroup", error)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    again_us = next(at for at, _, message in harness.sent if isinstance(message, JoinGroup)) - asked_us
    assert (again_us < 50_000) == (error in (25, 27))
    lost = [note.host for note in harness.facts(CoordinatorKnown)]
    assert lost == (["", "b0/coordinator"] if error in (15, 16) else [])
    expected_id = "" if error == 25 else "c1-1"
    assert harness.requests(JoinGroup)[0].member_id == expected_id
    harness.stable()


@pytest.mark.parametrize("most_ms", [0, 1_000])
def test_joins_are_tried_again_after_retry_backoff_ms_every_time(most_ms: int) -> None:
    """AbstractCoordinator.joinGroupIfNeeded (3.4.1, and 3.9.0 after KIP-580): timer.sleep(retryBackoffMs)."""
    harness = joining("JoinGroup", retry_backoff_max_ms=most_ms)
    harness.answer_next("JoinGroup", *[14] * 5)
    harness.release("JoinGroup", 14)
    harness.unhold("JoinGroup")
    harness.stable()

    at = [us for us, _, message in harness.sent if isinstance(message, JoinGroup)]
    assert [(after - before - 2_000) // 1_000 for before, after in pairwise(at)] == [100] * 5


@pytest.mark.parametrize("error", [22, 23, 24, 26, 30, 35, 81, 82, -1])
def test_join_errors_that_are_fatal(error: int) -> None:
    """JoinGroupResponseHandler: raised to the application; the member is silent from then on."""
    harness = joining("JoinGroup")
    harness.release("JoinGroup", error)
    harness.run_until(lambda: harness.state == "FAILED")

    (failed,) = harness.facts(MemberFailed)
    assert failed.error == ErrorCode(error)
    steps = harness.steps
    harness.forget()
    harness.run(60_000_000)
    assert (harness.sent, harness.steps) == ([], 0) and steps


def test_unknown_member_on_join_keeps_the_id_when_the_generation_changed_since() -> None:
    """The guard "unchanged": a reset (22) came while JoinGroup was under way; its 25 is about somebody else."""
    harness = overtaken("JoinGroup")
    assert harness.generation() == (-1, "c1-1")
    harness.release("JoinGroup", 25)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert harness.requests(JoinGroup)[0].member_id == "c1-1"


def test_a_join_that_succeeds_after_the_group_was_left_is_dropped_and_tried_again() -> None:
    """JoinGroupResponseHandler: state is not PREPARING_REBALANCE any more: UnjoinedGroupException, retriable."""
    harness = overtaken("JoinGroup")
    harness.release("JoinGroup")
    harness.run(5_000)
    assert harness.state == "UNJOINED"

    harness.stable()
    assert len(harness.requests(SyncGroup)) == 1


def test_a_join_answered_for_another_protocol_type_is_fatal() -> None:
    """JoinGroupResponseHandler.isProtocolTypeInconsistent: 23."""
    harness = joining("JoinGroup")
    harness.release(
        "JoinGroup",
        lambda request: JoinGroupReply(
            error=ErrorCode.NONE, generation=1, protocol_type="connect", protocol_name="range", member_id="c1-1"
        ),
    )
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# --- the reaction table: SyncGroup -------------------------------------------------------------------------------


@scenario("S112")
@pytest.mark.parametrize(("error", "expected"), [(22, (-1, "c1-1")), (25, (-1, "")), (27, (1, "c1-1"))])
def test_sync_errors_that_mean_another_rebalance(error: int, expected: tuple[int, str]) -> None:
    """S112 ConsumerCoordinatorTest.testIllegalGenerationOnSyncGroup: 22 keeps the id, 25 drops it, 27 keeps all."""
    harness = joining("SyncGroup")
    harness.hold("JoinGroup")
    harness.release("SyncGroup", error)
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))

    assert harness.generation() == expected
    assert harness.requests(JoinGroup)[0].member_id == expected[1]
    harness.release("JoinGroup")
    harness.stable()


@pytest.mark.parametrize("error", [22, 25])
def test_sync_errors_do_nothing_when_the_generation_changed_since(error: int) -> None:
    """The guard "unchanged": reset by a heartbeat (22, id kept) while SyncGroup was under way."""
    harness = overtaken("SyncGroup")
    harness.release("SyncGroup", error)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert harness.requests(JoinGroup)[0].member_id == "c1-1"


@pytest.mark.parametrize("error", [15, 16])
def test_sync_errors_that_lose_the_coordinator_start_over_from_join(error: int) -> None:
    """SyncGroupResponseHandler: coordinator unknown, rediscover, backoff; generation and id are kept."""
    harness = joining("SyncGroup")
    harness.release("SyncGroup", error)
    harness.stable()

    assert harness.requests(JoinGroup)[0].member_id == "c1-1"
    assert [note.host for note in harness.facts(CoordinatorKnown)] == ["", "b0/coordinator"]


@pytest.mark.parametrize("error", [14, 23, 24, 26, 30, 35, 81, 82, -1])
def test_sync_errors_that_are_fatal(error: int) -> None:
    """SyncGroupResponseHandler: 30 and 82 by name, all others (14 too) as unexpected."""
    harness = joining("SyncGroup")
    harness.release("SyncGroup", error)
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode(error)


def test_a_sync_that_succeeds_after_a_reset_is_taken_for_an_illegal_generation() -> None:
    """SyncGroupResponseHandler: generation reset meanwhile: nothing is assigned, the member joins again."""
    harness = overtaken("SyncGroup")
    harness.release("SyncGroup")
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert not harness.facts(PartitionsAssigned)
    harness.stable()


@pytest.mark.parametrize(("kind", "name"), [("connect", "range"), ("consumer", "roundrobin")])
def test_a_sync_answered_for_another_protocol_is_fatal(kind: str, name: str) -> None:
    """SyncGroupResponseHandler: protocol type or name differ from what was joined: 23."""
    harness = joining("SyncGroup")
    harness.release(
        "SyncGroup",
        lambda request: SyncGroupReply(
            error=ErrorCode.NONE, protocol_type=kind, protocol_name=name, assignment=encode_assignment(Assignment())
        ),
    )
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_a_broken_connection_starts_the_join_over_and_keeps_generation_and_id(api: str) -> None:
    """Disconnect of any request: coordinator unknown, retriable; a broken sync restarts from JoinGroup."""
    harness = joining(api)
    before = harness.generation()
    harness.unhold(api)
    harness.disconnect()
    assert harness.generation() == before
    harness.stable()

    assert harness.requests(JoinGroup)[0].member_id == "c1-1"


# --- taking the assignment ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x05"])
def test_an_assignment_that_is_none_is_fatal(data: bytes) -> None:
    """onJoinComplete: fewer than two bytes is a member that the leader left out; the rest cannot be parsed."""
    harness = joining("SyncGroup")
    harness.release("SyncGroup", lambda request: SyncGroupReply(error=ErrorCode.NONE, assignment=data))
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)


def test_a_protocol_nobody_configured_is_fatal() -> None:
    """onJoinComplete: "Coordinator selected invalid assignment protocol"."""
    harness = joining("JoinGroup")
    harness.release(
        "JoinGroup",
        lambda request: JoinGroupReply(
            error=ErrorCode.NONE, generation=1, protocol_type="consumer", protocol_name="mine", member_id="c1-1"
        ),
    )
    harness.run_until(lambda: harness.state == "FAILED")
    assert "mine" in harness.facts(MemberFailed)[0].why


def test_an_assignment_of_a_topic_not_subscribed_to_is_not_taken() -> None:
    """onJoinComplete: the subscription changed meanwhile: rejoin, without touching anything."""
    harness = joining("SyncGroup")
    foreign = encode_assignment(Assignment((("u", 0),)))
    harness.release("SyncGroup", lambda request: SyncGroupReply(error=ErrorCode.NONE, assignment=foreign))
    harness.stable()

    (assigned,) = harness.facts(PartitionsAssigned)
    assert (assigned.generation, len(assigned.owned)) == (2, 4)


# --- configuration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"partition_assignment_strategy": ("best",)}, "no assignor is called 'best'"),
        ({"partition_assignment_strategy": ()}, "no rebalance protocol in common"),
        ({"auto_offset_reset": "middle"}, "'middle' is not latest, earliest or none"),
        ({"heartbeat_interval_ms": 45_000}, "must be lower than session.timeout.ms"),
    ],
)
def test_a_wrong_configuration_is_one_clear_error(config: dict[str, object], text: str) -> None:
    """KafkaConsumer's constructor: a ConfigException."""
    with pytest.raises(ValueError, match=text):
        Harness(**config)  # type: ignore[arg-type]


def test_the_protocol_is_the_highest_that_all_assignors_have_in_common() -> None:
    """ConsumerCoordinator: cooperative-sticky next to range runs EAGER, alone COOPERATIVE."""
    both = Harness(partition_assignment_strategy=("range", "cooperative-sticky"))
    alone = Harness(partition_assignment_strategy=("cooperative-sticky",))
    assert [one.consumer.rebalancing.rules.protocol.name for one in (both, alone)] == ["EAGER", "COOPERATIVE"]
    assert set(ASSIGNORS) >= {"range", "cooperative-sticky"}
