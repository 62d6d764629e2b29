"""Members that fail permanently: for a reason of Kafka's own, or by a violation."""

import pytest

from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.facts import DiskTailLost, MemberReconfigured
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.consumer_groups import GroupConverted, MemberReconciled
from tests.emulator.checkers.story import GROUP, Story


@pytest.fixture
def story():
    """A group of two in generation 1, ten records in each partition."""
    told = Story("c1", "c2", "c3")
    told.down("c3", "closed")
    told.form(c1="0", c2="1")
    return told


def modern_liveness():
    """The checker of a run whose group uses the consumer protocol."""
    checker = Liveness()
    checker.consumer_protocol_groups = frozenset((GROUP,))
    return checker


def fails_for_good(story, error, member_id="c1-new", why="told"):
    story.by("c1", notes.MemberFailed(group=GROUP, member_id=member_id, error=error, why=why))
    return story.kinds(modern_liveness())


def test_a_static_member_of_the_consumer_protocol_that_returns_too_early_fails_for_good(story):
    """The coordinator has the member of the former process (``throwIfInstanceIdIsUnreleased`` 4.0)."""
    story.add("c1", instance="c1")

    assert fails_for_good(story, ErrorCode.UNRELEASED_INSTANCE_ID) == ["unreleased-instance"]


@pytest.mark.parametrize(("loaded", "kind"), [(("c1", "c2"), "unreleased-instance"), (("c2",), "member-failed")])
def test_the_log_of_the_next_coordinator_may_have_a_static_member_that_was_removed(story, loaded, kind):
    """The removal was not replicated (kafka-4.0 operated, seed 9371)."""
    story.add("c1", instance="c1")
    story.remove(story.ids["c1"])
    story.load("b1/coordinator", 1, *loaded)

    assert fails_for_good(story, ErrorCode.UNRELEASED_INSTANCE_ID) == [kind]


@pytest.mark.parametrize("error", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_a_static_member_of_the_consumer_protocol_fails_for_good_without_another_process(story, error):
    """The coordinator removed the former member, or the error is another one."""
    story.add("c1", instance="c1")
    if error is ErrorCode.UNRELEASED_INSTANCE_ID:
        story.remove(story.ids["c1"])

    assert fails_for_good(story, error) == ["member-failed"]


@pytest.mark.parametrize(("end", "kind"), [(15, "forgotten-instance"), (16, "member-failed")])
@pytest.mark.parametrize("state", ["Stable", "Reconciling"])
def test_a_classic_static_member_of_such_a_group_is_fenced_after_the_log_lost_its_id(story, state, end, kind):
    """``throwIfInstanceIdIsFenced`` (4.0), operated swarm of kafka-4.1, seed 2011. The id is written at once."""
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=15))
    story.become(state)
    story.add("c1", instance="c1")
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=15, count=6))
    story.groups_log("b1", 1, (0, 0), (1, end), end=end)

    assert fails_for_good(story, ErrorCode.FENCED_INSTANCE_ID, member_id="") == [kind]


@pytest.mark.parametrize(
    ("epochs", "kind"),
    [((1,), "unreleased-instance"), ((1, -2), "member-failed"), ((-2, 0, 1), "unreleased-instance")],
)
@pytest.mark.parametrize("member_id", ["c1-1", "c1-new"])
def test_an_instance_is_unreleased_until_its_member_leaves_for_a_while(story, member_id, epochs, kind):
    """Also for a repeated join of the same process (``throwIfInstanceIdIsUnreleased`` 4.0, kafka-4.0 seed 64), and for
    a member that returns with its id (operated swarm of kafka-4.3, seed 64).
    """
    story.add("c1", instance="c1")
    for epoch in epochs:
        reconciled = MemberReconciled(
            group=GROUP, member_id=story.ids["c1"], epoch=epoch, state="STABLE", assigned=(), revoking=()
        )
        story.by(story.coordinator, reconciled)

    assert fails_for_good(story, ErrorCode.UNRELEASED_INSTANCE_ID, member_id) == [kind]


@pytest.mark.parametrize(
    ("api", "error", "kind"),
    [
        ("ConsumerGroupHeartbeat", ErrorCode.COORDINATOR_NOT_AVAILABLE, "unreleased-instance"),
        ("OffsetCommit", ErrorCode.COORDINATOR_NOT_AVAILABLE, "member-failed"),
        ("ConsumerGroupHeartbeat", ErrorCode.UNRELEASED_INSTANCE_ID, "member-failed"),
    ],
)
def test_an_instance_is_unreleased_after_a_leave_that_was_not_written(story, api, error, kind):
    """A deposed coordinator cannot write the leave, and its successor loads the member that has not left (operated
    swarm of kafka-4.2, seed 131). An answered leave stands, also if the coordinator then refuses the join.
    """
    story.add("c1", instance="c1")
    member_id = story.ids["c1"]
    leaves = MemberReconciled(group=GROUP, member_id=member_id, epoch=-2, state="STABLE", assigned=(), revoking=())
    refused = notes.RequestRefused(group=GROUP, api=api, member_id=member_id, error=error)
    story.by(story.coordinator, leaves, refused)

    assert fails_for_good(story, ErrorCode.UNRELEASED_INSTANCE_ID) == [kind]


@pytest.mark.parametrize(
    ("remover", "kind"), [("b0/coordinator", "unreleased-instance"), ("b1/coordinator", "member-failed")]
)
def test_the_removal_by_a_deposed_coordinator_releases_no_instance(story, remover, kind):
    """Its successor has loaded the member, and keeps it (kafka-4.0, seed 314)."""
    story.coordinator = "b0/coordinator"
    story.add("c1", instance="c1")
    story.load("b1/coordinator", 1, "c1", "c2", state="Stable")
    story.coordinator = remover
    story.remove(story.ids["c1"])

    assert fails_for_good(story, ErrorCode.UNRELEASED_INSTANCE_ID) == [kind]


@pytest.mark.parametrize(
    ("is_removed", "api", "kind"),
    [
        (True, "OffsetFetch", "unheard-removal"),
        (False, "OffsetFetch", "member-failed"),
        (True, "ConsumerGroupHeartbeat", "member-failed"),
    ],
)
def test_a_removed_member_fails_if_it_asks_for_offsets_before_a_heartbeat(story, is_removed, api, kind):
    """OffsetFetch gets UNKNOWN_MEMBER_ID, which poll() raises (kafka-4.0, seed 197). A heartbeat makes it rejoin."""
    member_id = story.ids["c1"]
    if is_removed:
        story.remove(member_id)

    assert fails_for_good(story, ErrorCode.UNKNOWN_MEMBER_ID, member_id, why=f"{api}: told") == [kind]


def test_a_member_of_the_consumer_protocol_fails_for_good_after_its_groups_log_was_lost(story):
    story.by("b0", DiskTailLost(host="b0", log="__consumer_offsets-0", records=3, end_offset=0))

    assert fails_for_good(story, ErrorCode.GROUP_ID_NOT_FOUND) == ["forgotten-group"]


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("as in Kafka", "forgotten-group"),
        ("another member removed", "member-failed"),
        ("not deleted", "member-failed"),
        ("created again", "member-failed"),
        ("not told", "member-failed"),
        ("by a deposed coordinator", "member-failed"),
    ],
)
def test_a_removed_member_fails_for_good_after_its_group_was_deleted_and_others_do_not(story, how, kind):
    """``GroupMetadataManager.getOrMaybeCreateConsumerGroup`` 4.0 to 4.3 (operated swarm, kafka-4.2, seed 6103)."""
    story.add("c1")
    story.coordinator = "b0/coordinator"
    story.load("b0/coordinator", 0, "c1", state="Reconciling")
    story.become("Reconciling")
    if how == "by a deposed coordinator":
        story.load("b1/coordinator", 1, "c1", state="Stable")
        story.coordinator = "b0/coordinator"
    story.remove(story.ids["c2" if how == "another member removed" else "c1"])
    story.become("Empty")
    if how != "not deleted":
        story.become("Dead")
    if how == "created again":
        story.become("Assigning")
    error, member_id = ErrorCode.GROUP_ID_NOT_FOUND, story.ids["c1"]
    api = "OffsetCommit" if how == "not told" else "ConsumerGroupHeartbeat"
    story.by(story.coordinator, notes.RequestRefused(group=GROUP, api=api, member_id=member_id, error=error))

    assert fails_for_good(story, error, member_id) == [kind]


@pytest.mark.parametrize(("left", "kind"), [(2, "forgotten-group"), (5, "member-failed")])
def test_a_group_is_forgotten_only_if_the_copy_of_its_logs_leader_lost_its_records(story, left, kind):
    """b0's disk is empty or lost an end of the log; b1 leads with what it has."""
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=4))
    story.receive("c1", 1, "0")
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=4, count=4))
    story.groups_log("b1", 1, (0, 0), (1, left), end=left)

    assert fails_for_good(story, ErrorCode.GROUP_ID_NOT_FOUND) == [kind]


@pytest.mark.parametrize(("refused", "kind"), [("before", "forgotten-group"), ("after", "member-failed")])
def test_a_member_may_hear_that_its_group_is_forgotten_after_another_member_created_it_again(story, refused, kind):
    """The application was busy when the answer came (operated swarm, kafka-4.1, seed 9734)."""
    member_id, error = story.ids["c1"], ErrorCode.GROUP_ID_NOT_FOUND
    answer = notes.RequestRefused(group=GROUP, api="ConsumerGroupHeartbeat", member_id=member_id, error=error)
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=0, count=4))
    story.receive("c1", 1, "0")
    story.groups_log("b1", 1, (0, 0), (1, 2), end=2)
    if refused == "before":
        story.by(story.coordinator, answer)
    story.by("b1", notes.RecordsAppended(topic="__consumer_offsets", partition=0, base_offset=2, count=4))
    story.receive("c2", 1, "0")
    if refused == "after":
        story.by(story.coordinator, answer)

    assert fails_for_good(story, error, member_id) == [kind]


@pytest.mark.parametrize(
    ("is_changed", "is_refused", "kind"),
    [(True, True, "inconsistent-members"), (False, True, "member-failed"), (True, False, "member-failed")],
)
def test_a_member_is_inconsistent_if_the_plan_changed_assignors_and_a_coordinator_refused_it(
    story, is_changed, is_refused, kind
):
    """Otherwise the settings of the scenario, or the member itself, are wrong."""
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if is_changed:
        story.world(MemberReconfigured(host="c2", profile="", assignors=("cooperative-sticky",), settings=()))
    client = "c1" if is_refused else "c2"
    answered = notes.GroupRequestAnswered(client=client, connection=1, request_id=1, error=inconsistent)
    story.by(story.coordinator, answered)
    failed = notes.MemberFailed(group=GROUP, member_id=story.ids["c1"], error=inconsistent, why="told")
    story.by("c1", failed)

    assert story.kinds(Liveness()) == [kind]


@pytest.mark.parametrize(
    ("former", "member_id", "kind"),
    [
        ("Empty", "c1-new", "unconverted-group"),
        ("Empty", "another", "member-failed"),
        ("Stable", "c1-new", "member-failed"),
    ],
)
def test_a_group_cannot_be_converted_only_in_a_join_phase_that_began_empty(story, former, member_id, kind):
    story.become(former)
    story.become("PreparingRebalance")
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    api = "ConsumerGroupHeartbeat"
    story.by(story.coordinator, notes.RequestRefused(group=GROUP, api=api, member_id=member_id, error=error))

    assert fails_for_good(story, error) == [kind]


@pytest.mark.parametrize(
    ("protocol", "is_removed", "kind"),
    [
        ("classic", True, "downgraded-group"),
        ("classic", False, "member-failed"),
        ("consumer", True, "member-failed"),
    ],
)
def test_a_removed_member_of_a_group_that_became_classic_fails_for_good_and_others_do_not(
    story, protocol, is_removed, kind
):
    """``GroupMetadataManager.getOrMaybeCreateConsumerGroup`` 4.0 to 4.3: "is not a consumer group"."""
    story.add("c1")
    if is_removed:
        story.remove(story.ids["c1"])
    converted = GroupConverted(group=GROUP, protocol=protocol, state="Stable", generation=3, members=())
    story.by(story.coordinator, converted)

    assert fails_for_good(story, ErrorCode.GROUP_ID_NOT_FOUND, story.ids["c1"]) == [kind]


@pytest.mark.parametrize(
    ("asked", "kind"), [("b0/coordinator", "downgraded-group"), ("b1/coordinator", "member-failed")]
)
def test_a_member_that_a_deposed_coordinator_removed_fails_for_good_if_it_asks_this_coordinator(story, asked, kind):
    """Its successor still has the member (kafka-4.0, seed 5093)."""
    story.add("c1")
    story.coordinator = "b0/coordinator"
    story.load("b1/coordinator", 1, "c1", state="Stable")
    story.coordinator = "b0/coordinator"
    story.by("c1", notes.CoordinatorKnown(group=GROUP, host=asked, why="found"))
    story.remove(story.ids["c1"])
    story.by(
        story.coordinator,
        GroupConverted(group=GROUP, protocol="classic", state="Stable", generation=3, members=()),
    )

    assert fails_for_good(story, ErrorCode.GROUP_ID_NOT_FOUND, story.ids["c1"]) == [kind]


@pytest.mark.parametrize(
    ("is_removed", "states", "kind"),
    [
        (True, "Empty PreparingRebalance", "downgraded-group"),
        (False, "Empty PreparingRebalance", "member-failed"),
        (True, "PreparingRebalance Empty Assigning", "member-failed"),
    ],
)
def test_a_removed_member_fails_for_good_if_a_classic_member_joined_its_empty_group(story, is_removed, states, kind):
    """``GroupMetadataManager.maybeDeleteEmptyConsumerGroup`` 4.0 to 4.3 (kafka-4.3, seed 5093)."""
    story.add("c1")
    if is_removed:
        story.remove(story.ids["c1"])
    for state in states.split():
        story.become(state)

    assert fails_for_good(story, ErrorCode.GROUP_ID_NOT_FOUND, story.ids["c1"]) == [kind]


def test_a_member_whose_group_is_not_found_without_a_loss_is_a_violation(story):
    assert fails_for_good(story, ErrorCode.GROUP_ID_NOT_FOUND) == ["member-failed"]


LOADS = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("by", "api", "error", "since_4_0", "kind"),
    [
        ("b1/coordinator", "SyncGroup", LOADS, True, "sync-while-loading"),
        ("b1/coordinator", "SyncGroup", LOADS, False, "member-failed"),
        ("b0/coordinator", "SyncGroup", LOADS, True, "member-failed"),
        ("b1/coordinator", "JoinGroup", LOADS, True, "member-failed"),
        ("b1/coordinator", "SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS, True, "member-failed"),
    ],
    ids=["as in Kafka", "of an earlier release", "has loaded the group", "another request", "another answer"],
)
def test_a_classic_member_fails_if_it_syncs_while_a_coordinator_of_4_0_loads_its_group(
    story, by, api, error, since_4_0, kind
):
    """GroupCoordinatorService.syncGroup (operated swarm, kafka-4.3, seed 9555). b0 has loaded the group, b1 has not."""
    member_id = story.ids["c1"]
    story.by(by, notes.RequestRefused(group=GROUP, api=api, member_id=member_id, error=error))
    story.by("c1", notes.MemberFailed(group=GROUP, member_id=member_id, error=LOADS, why="SyncGroup: loads"))

    assert story.kinds(Liveness(refuses_syncs=lambda coordinator: since_4_0)) == [kind]
