"""A coordinator's answers, removals and rebalances are compared with the requests that it read."""

import pytest

from kemu.emulator.checkers.assignments import broken_promises
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import Assignment, Subscription, encode_assignment, encode_subscription
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged
from tests.emulator.checkers.story import GROUP, TOPIC, partitions
from tests.emulator.checkers.wire_story import REBALANCE_S, SESSION_S, WireStory, subscribed


@pytest.fixture
def story():
    """c1 and c2 are Stable in generation 1."""
    told = WireStory("c1", "c2", "c3")
    told.stable()
    return told


def test_a_group_whose_members_heartbeat_and_commit_is_right(story):
    story.beats(2 * SESSION_S, "c1", "c2")
    story.ask("OffsetCommit", "c1", generation=1)

    assert story.found() == []


# --- evicted -------------------------------------------------------------------------------------------------------


def test_a_member_that_is_removed_although_its_heartbeats_come_is_evicted(story):
    story.beats(2 * SESSION_S, "c1", "c2")
    story.by(story.coordinator, story.removal("c2"), story.state_of("PreparingRebalance"))

    assert story.found() == ["evicted"]


def test_a_member_that_misses_its_session_may_be_removed(story):
    story.beats(SESSION_S + 1, "c1")
    story.by(story.coordinator, story.removal("c2"), story.state_of("PreparingRebalance"))

    assert story.found() == []


def test_a_member_that_leaves_may_be_removed(story):
    story.ask("LeaveGroup", "c2", story.removal("c2"), story.state_of("PreparingRebalance"))

    assert story.found() == []


def test_a_member_goes_only_by_a_leave_that_names_it(story):
    story.ask("LeaveGroup", "c1", story.removal("c2"), story.state_of("PreparingRebalance"))

    assert story.found() == ["members", "evicted"], "c1 stays, and c2 goes"


@pytest.mark.parametrize(("seconds", "kinds"), [(REBALANCE_S + 1, []), (REBALANCE_S / 2, ["evicted"])])
def test_a_member_that_does_not_rejoin_has_as_long_as_the_join_phase(story, seconds, kinds):
    c3 = story.enter("c3", story.state_of("PreparingRebalance"))
    c1 = story.read("JoinGroup", "c1", rows=subscribed())
    story.by(story.coordinator, c1)
    for _ in range(int(seconds) // 5):
        story.wait(5)
        story.beat("c2", ErrorCode.REBALANCE_IN_PROGRESS)
    story.by(story.coordinator, story.removal("c2"))
    story.complete_phase(2, {"c1": c1, "c3": c3}, "c1")

    assert story.found() == kinds


@pytest.mark.parametrize(
    ("seconds", "error", "kinds"),
    [
        (3, ErrorCode.REBALANCE_IN_PROGRESS, []),
        (1, ErrorCode.REBALANCE_IN_PROGRESS, ["evicted"]),
        (3, ErrorCode.COORDINATOR_NOT_AVAILABLE, ["evicted"]),
    ],
)
def test_a_member_that_a_failed_conversion_turned_away_has_as_long_as_the_initial_delay(seconds, error, kinds):
    """``GroupMetadataManager.convertToConsumerGroup`` (4.0 to 4.3) first answers the joins, and then may fail."""
    story = WireStory("c1", "c2")
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    c2 = story.enter("c2")
    story.wait(seconds)
    story.by(story.coordinator, story.answer(c2, error))
    story.by(story.coordinator, story.removal("c2"))
    story.complete_phase(1, {"c1": c1}, "c1")

    assert [kind for kind in story.found(initial_s=3) if kind == "evicted"] == kinds


# --- refused and accepted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
)
@pytest.mark.parametrize("api", ["Heartbeat", "SyncGroup", "OffsetCommit"])
def test_a_member_of_the_generation_is_not_refused(story, api, error):
    story.ask(api, "c2", error=error, generation=1)

    assert story.found() == ["refused"]


@pytest.mark.parametrize("api", ["Heartbeat", "SyncGroup", "OffsetCommit", "RangeCommit"])
def test_a_generation_that_is_over_is_refused(story, api):
    story.ask(api, "c2", generation=0)
    story.ask(api, "c2", generation=0, error=ErrorCode.ILLEGAL_GENERATION)

    assert "accepted" in story.found()
    assert "refused" not in story.found()


@pytest.mark.parametrize("api", ["Heartbeat", "SyncGroup", "OffsetCommit"])
def test_an_id_that_is_no_member_is_refused(story, api):
    story.ask(api, "c3", generation=1)
    story.ask(api, "c3", generation=1, error=ErrorCode.UNKNOWN_MEMBER_ID)

    assert "accepted" in story.found()
    assert "refused" not in story.found()


@pytest.mark.parametrize(("assignor", "kinds"), [("range", ["refused"]), ("sticky", [])])
@pytest.mark.parametrize("member", ["c2", "c3"])
def test_a_join_is_inconsistent_only_if_it_shares_no_protocol_with_all_members(story, member, assignor, kinds):
    """``ClassicGroup.supportsProtocols`` (4.0)."""
    member_id = "" if member == "c3" else None
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    story.ask("JoinGroup", member, error=error, rows=subscribed(assignor=assignor), member_id=member_id)

    assert story.found() == kinds


def test_a_join_is_inconsistent_after_a_member_joined_without_that_protocol(story):
    story.ask("JoinGroup", "c1", story.state_of("PreparingRebalance"), rows=subscribed(assignor="sticky"))
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    story.ask("JoinGroup", "c3", error=error, rows=subscribed(), member_id="")

    assert "refused" not in story.found()


def test_nobody_outside_the_group_commits_while_it_has_members(story):
    story.ask("OffsetCommit", "c1", member_id="", generation=-1)

    assert story.found() == ["accepted"]


def test_a_sync_is_answered_when_the_assignment_is_in_the_log():
    story = WireStory("c1")
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    story.complete_phase(1, {"c1": c1}, "c1")
    story.ask("SyncGroup", "c1", generation=1, rows=((story.ids["c1"], b""),))

    assert story.found() == ["accepted"]


@pytest.mark.parametrize(
    ("member_id", "instance", "goes", "error", "kinds"),
    [
        ("", "i3", True, ErrorCode.NONE, []),
        ("", "i3", False, ErrorCode.NONE, ["members"]),
        ("", "i3", False, ErrorCode.UNKNOWN_MEMBER_ID, ["refused"]),
        ("", "i4", False, ErrorCode.UNKNOWN_MEMBER_ID, []),
        ("", "i4", False, ErrorCode.NONE, ["accepted"]),
        ("another", "i3", False, ErrorCode.FENCED_INSTANCE_ID, []),
    ],
)
def test_a_leave_removes_the_member_that_its_instance_names(story, member_id, instance, goes, error, kinds):
    """KIP-345: an operator knows the instance alone; with a member id, that one must be its own."""
    static_c3(story)
    gone = [story.removal("c3"), story.state_of("PreparingRebalance")] if goes else []
    story.ask("LeaveGroup", "c3", *gone, member_id=member_id, instance=instance, error=error)

    assert story.found() == kinds


# --- join-phase ----------------------------------------------------------------------------------------------------


def rebalances(story: WireStory, seconds: float) -> list[str]:
    """c1 changes its subscription, c2 follows, and the join phase ends so much later."""
    waiting = {member: story.read("JoinGroup", member, rows=subscribed("0")) for member in ("c1", "c2")}
    story.by(story.coordinator, waiting["c1"], story.state_of("PreparingRebalance"))
    story.by(story.coordinator, waiting["c2"])
    story.wait(seconds)
    story.complete_phase(story.generation + 1, waiting, "c1")
    return story.found()


@pytest.mark.parametrize(("seconds", "kinds"), [(0, []), (2, ["join-phase"])])
def test_a_join_phase_that_waits_for_nobody_ends(story, seconds, kinds):
    assert rebalances(story, seconds) == kinds


def test_an_id_that_a_full_group_refused_is_forgotten(story):
    asks = story.read("JoinGroup", "c3", member_id="", rows=subscribed())
    required = story.answer(asks, ErrorCode.MEMBER_ID_REQUIRED, member_id=story.ids["c3"])
    story.by(story.coordinator, asks, required)
    joins = story.read("JoinGroup", "c3", rows=subscribed())
    story.by(story.coordinator, joins, story.answer(joins, ErrorCode.GROUP_MAX_SIZE_REACHED))
    leaves = story.read("LeaveGroup", "c3")
    story.by(story.coordinator, leaves, story.answer(leaves, ErrorCode.UNKNOWN_MEMBER_ID))

    assert story.found() == []


@pytest.mark.parametrize(
    ("profile", "full", "kinds"),
    [("kafka-4.0", True, []), ("kafka-4.0", False, ["join-phase"]), ("kafka-3.9", True, ["join-phase"])],
)
def test_in_4_0_a_full_group_that_turns_a_member_away_does_not_look_whether_all_have_joined(
    story, profile, full, kinds
):
    """GroupMetadataManager.classicGroupJoinToClassicGroup 4.0; GroupCoordinator.handleJoinGroup 3.9 completes."""
    third = story.enter("c3", story.state_of("PreparingRebalance"))
    waiting = {member: story.read("JoinGroup", member, rows=subscribed()) for member in ("c1", "c2")}
    story.by(story.coordinator, waiting["c1"])
    story.by(story.coordinator, waiting["c2"])
    error = ErrorCode.GROUP_MAX_SIZE_REACHED if full else ErrorCode.UNKNOWN_MEMBER_ID
    refused = notes.RequestRefused(group=GROUP, api="JoinGroup", member_id=story.ids["c3"], error=error)
    again = story.read("JoinGroup", "c3", rows=subscribed())
    story.by(
        story.coordinator, again, story.removal("c3"), refused, story.answer(again, error), story.answer(third, error)
    )
    story.wait(REBALANCE_S / 2)
    story.complete_phase(story.generation + 1, waiting, "c1")

    assert [kind for kind in story.found(profile=profile) if kind == "join-phase"] == kinds


@pytest.mark.parametrize(
    ("seconds", "kinds"), [(5, ["join-phase"]), (REBALANCE_S, []), (2 * REBALANCE_S, ["join-phase"])]
)
def test_a_join_phase_waits_for_members_as_long_as_their_rebalance_timeout(story, seconds, kinds):
    """c3, which is static, does not come; that it is in no list is of no interest here."""
    static_c3(story)

    assert [kind for kind in rebalances(story, seconds) if kind == "join-phase"] == kinds


@pytest.mark.parametrize(("seconds", "kinds"), [(1, ["join-phase"]), (3, []), (2 * REBALANCE_S, ["join-phase"])])
def test_the_first_join_phase_lasts_for_the_initial_delay(seconds, kinds):
    story = WireStory("c1")
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    story.wait(seconds)
    story.complete_phase(1, {"c1": c1}, "c1")

    assert story.found(initial_s=3) == kinds


@pytest.mark.parametrize(
    ("before_s", "kinds"), [(SESSION_S - 1, []), (SESSION_S - 2.5, ["join-phase"]), (0, ["join-phase"])]
)
def test_an_id_without_a_join_ends_the_initial_delay_only_when_it_expires(before_s, kinds):
    """GroupMetadataManager.removePendingMemberAndUpdateClassicGroup 4.2 (kafka-4.2 operated, seed 174)."""
    story = WireStory("c1", "c3")
    asks = story.read("JoinGroup", "c3", member_id="", rows=subscribed())
    story.by(story.coordinator, asks, story.answer(asks, ErrorCode.MEMBER_ID_REQUIRED, member_id=story.ids["c3"]))
    story.wait(before_s)
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    story.wait(1)
    story.complete_phase(1, {"c1": c1}, "c1")

    assert story.found(initial_s=3) == kinds


@pytest.mark.parametrize(("seconds", "kinds"), [(4, []), (7, ["join-phase"])])
def test_who_comes_in_the_initial_delay_begins_another_one(seconds, kinds):
    """KIP-134: c2 comes in the first delay of 3 s, so that there is another one, and no third one."""
    story = WireStory("c1", "c2")
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    story.wait(2)
    c2 = story.enter("c2")
    story.wait(seconds)
    story.complete_phase(1, {"c1": c1, "c2": c2}, "c1")

    assert story.found(initial_s=3) == kinds


@pytest.mark.parametrize(("seconds", "kinds"), [(SESSION_S, []), (SESSION_S + 2, ["join-phase"])])
def test_an_id_that_was_handed_out_is_waited_for_until_its_session_is_over(story, seconds, kinds):
    """c3 asks for an id, and never comes; the others are waited for no longer than that."""
    asks = story.read("JoinGroup", "c3", member_id="", rows=subscribed())
    required = story.answer(asks, ErrorCode.MEMBER_ID_REQUIRED, member_id=story.ids["c3"])
    story.by(story.coordinator, asks, required)

    assert rebalances(story, seconds) == kinds


def test_an_id_that_was_handed_out_long_ago_is_no_member():
    """KIP-394: after its session timeout it is forgotten."""
    story = WireStory("c1")
    asks = story.read("JoinGroup", "c1", member_id="", rows=subscribed())
    story.by(story.coordinator, asks, story.answer(asks, ErrorCode.MEMBER_ID_REQUIRED, member_id=story.ids["c1"]))
    story.wait(2 * SESSION_S)
    joins = story.read("JoinGroup", "c1", rows=subscribed())
    added = notes.MemberAdded(group=GROUP, member_id=story.ids["c1"], client_id="c1", instance_id=None)
    story.by(story.coordinator, joins, added)

    assert story.found() == ["accepted"]


def test_errors_of_the_log_or_the_broker_say_nothing_of_the_group(story):
    story.ask("OffsetCommit", "c2", generation=1, error=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    assert story.found() == []


def static_c3(story: WireStory) -> None:
    """c3, an instance, joins a generation of its own."""
    c3 = story.enter("c3", story.state_of("PreparingRebalance"), instance="i3")
    waiting = {member: story.read("JoinGroup", member, rows=subscribed()) for member in ("c1", "c2")}
    for request in waiting.values():
        story.by(story.coordinator, request)
    story.complete_phase(2, {**waiting, "c3": c3}, "c1")
    story.share("c1", c1="0", c2="1", c3="")


def test_an_instance_is_fenced_by_another_process_only(story):
    static_c3(story)
    story.ask("Heartbeat", "c3", generation=2, instance="i3", error=ErrorCode.FENCED_INSTANCE_ID)

    assert story.found() == ["refused"]


def test_an_instance_that_another_process_replaced_is_fenced(story):
    static_c3(story)
    removed, old = story.removal("c3"), story.ids["c3"]
    story.ids["c3"] = "c3-2"
    added = notes.MemberAdded(group=GROUP, member_id="c3-2", client_id="c3", instance_id="i3")
    joins = story.read("JoinGroup", "c3", member_id="", rows=subscribed(), instance="i3")
    answer = story.answer(joins, generation=2, protocol="range", leader="c1-1", member_id="c3-2")
    story.by(story.coordinator, joins, removed, added, answer)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    story.ask("Heartbeat", "c3", member_id=old, generation=2, instance="i3", error=fenced)

    assert story.found() == []


# --- no-cause ------------------------------------------------------------------------------------------------------


def test_a_join_phase_begins_for_a_cause(story):
    story.wait(1)
    story.by(story.coordinator, story.state_of("PreparingRebalance"))

    assert story.found() == ["no-cause"]


@pytest.mark.parametrize(("seconds", "kinds"), [(REBALANCE_S, []), (2 * REBALANCE_S, ["evicted"])])
def test_a_member_that_sends_no_sync_goes_when_the_rebalance_timeout_is_over_and_no_later(seconds, kinds):
    """KAFKA-12890: its heartbeats keep it in no group that it does not ask for its assignment."""
    story = WireStory("c1", "c2")
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    c2 = story.enter("c2")
    story.complete_phase(1, {"c1": c1, "c2": c2}, "c1")
    story.share("c1", c1="0 1")
    story.beats(seconds, "c1", "c2")
    story.by(story.coordinator, story.removal("c2"), story.state_of("PreparingRebalance"))

    assert [kind for kind in story.found() if kind == "evicted"] == kinds


def test_a_static_member_that_came_back_in_a_generation_owes_it_no_sync(story):
    """Its replacement could not be written, and is undone."""
    static_c3(story)
    removed = story.removal("c3")
    story.ids["c3"] = "c3-2"
    added = notes.MemberAdded(group=GROUP, member_id="c3-2", client_id="c3", instance_id="i3")
    asked = story.read("JoinGroup", "c3", member_id="", rows=subscribed(), instance="i3")
    story.by(story.coordinator, asked, removed, added)
    story.beats(2 * REBALANCE_S, "c1", "c2", "c3")
    story.by(story.coordinator, story.removal("c3"))

    assert [kind for kind in story.found() if kind == "evicted"] == []


@pytest.mark.parametrize(("seconds", "kinds"), [(REBALANCE_S + 1, []), (REBALANCE_S / 2, ["no-cause"])])
def test_an_id_that_never_synced_makes_the_group_rebalance_though_another_has_its_place(seconds, kinds):
    """A static member was replaced before it synced: Kafka's sync timer counts its former id (KAFKA-12890)."""
    story = WireStory("c1", "c2")
    c1 = story.enter("c1", story.state_of("PreparingRebalance"))
    c2 = story.enter("c2", instance="i2")
    story.complete_phase(1, {"c1": c1, "c2": c2}, "c1")
    story.share("c1", c1="0 1")
    removed = story.removal("c2")
    story.ids["c2"] = "c2-2"
    added = notes.MemberAdded(group=GROUP, member_id="c2-2", client_id="c2", instance_id="i2")
    story.by(
        story.coordinator,
        story.read("JoinGroup", "c2", member_id="", rows=subscribed(), instance="i2"),
        removed,
        added,
    )
    story.beats(seconds, "c1")
    story.by(story.coordinator, story.state_of("PreparingRebalance"))

    assert [kind for kind in story.found() if kind == "no-cause"] == kinds


def test_a_follower_that_repeats_its_join_is_answered_and_changes_nothing(story):
    story.ask("JoinGroup", "c2", rows=subscribed())
    assert story.found() == []

    story.by(story.coordinator, story.read("JoinGroup", "c2", rows=subscribed()), story.state_of("PreparingRebalance"))
    assert story.found() == ["no-cause"]


@pytest.mark.parametrize(("member", "rows"), [("c1", subscribed()), ("c2", subscribed("0"))])
def test_the_leader_and_members_with_another_subscription_make_the_group_rebalance(story, member, rows):
    story.by(story.coordinator, story.read("JoinGroup", member, rows=rows), story.state_of("PreparingRebalance"))

    assert story.found() == []


# --- what is told --------------------------------------------------------------------------------------------------


def test_a_join_is_answered_the_generation_in_force(story):
    joins = story.read("JoinGroup", "c2", rows=subscribed())
    answer = story.answer(joins, generation=0, protocol="range", leader="c1-1", member_id="c2-1")
    story.by(story.coordinator, joins, answer)

    assert story.found() == ["join-answer"]


def test_a_member_is_given_what_the_leader_sent_for_it(story):
    request = story.read("SyncGroup", "c2", generation=1)
    story.by(story.coordinator, request, story.answer(request, assignment=b"another"))

    assert story.found() == ["assignment"]


# --- what the leader sends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        ("0 1", "2 3", []),
        ("0 1 2", "3", ["unbalanced"]),
        ("0 1", "1 2", ["not-divided"]),
    ],
)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_assignments_are_balanced_and_disjoint(assignor, first, second, kinds):
    story = WireStory("c1", "c2", count=4)
    story.stable(first, second, assignor=assignor)

    assert story.found() == kinds


def test_a_custom_assignor_promises_nothing():
    story = WireStory("c1", "c2", count=4)
    story.stable("0 1 2", "3", assignor="by-region")

    assert story.found() == []


@pytest.mark.parametrize(("topic", "kinds"), [(TOPIC, []), ("another", ["not-revoked"])])
def test_a_cooperative_member_joins_with_partitions_of_topics_that_it_subscribes_to(topic, kinds):
    """``ConsumerCoordinator.onJoinPrepare``: the others are revoked before."""
    story = WireStory("c1")
    claims = encode_subscription(Subscription((topic,), owned=partitions("0")))
    story.enter("c1", rows=(("cooperative-sticky", claims),))

    assert story.found() == kinds


@pytest.mark.parametrize(("first", "second", "kinds"), [("0 1", "2 3", []), ("2 3", "0 1", ["not-sticky"])])
def test_a_sticky_leader_leaves_members_what_they_own(first, second, kinds):
    story = WireStory("c1", "c2", count=4)
    story.stable(first, second, assignor="cooperative-sticky", owned="0 1")

    assert story.found() == kinds


def test_a_leader_that_sends_no_assignment_ran_no_assignor():
    """A static leader that was told to follow when it came back (KAFKA-9801) syncs as a follower."""
    story = WireStory("c1", "c2", count=4)
    elected = notes.LeaderElected(group=GROUP, member_id=story.ids["c1"])
    joins = subscribed("0 1", "cooperative-sticky")
    c1 = story.enter("c1", elected, story.state_of("PreparingRebalance"), rows=joins)
    c2 = story.enter("c2", rows=subscribed(assignor="cooperative-sticky"))
    story.complete_phase(1, {"c1": c1, "c2": c2}, "c1", "cooperative-sticky")
    story.by(story.coordinator, story.read("SyncGroup", "c1", generation=1))

    assert story.found() == []


def test_a_member_keeps_any_of_its_partitions_where_a_member_of_an_older_generation_claims_some():
    """KAFKA-12984's scenario without the bug: c1 may keep 0 and 1 and give 4 up, though c2 claims 1, too."""
    claims = {
        "c1": ("0 1 4", 2, "0 1"),
        "c3": ("2 3 5", 2, "2 3"),
        "c2": ("1 5", 1, ""),
    }
    subscriptions = {
        member: encode_subscription(Subscription((TOPIC,), owned=partitions(owned), generation=generation))
        for member, (owned, generation, _) in claims.items()
    }
    given = {member: encode_assignment(Assignment(partitions(names))) for member, (_, _, names) in claims.items()}

    assert list(broken_promises("cooperative-sticky", subscriptions, given, {TOPIC: 6})) == []


# --- the consumer protocol (KIP-848) ---------------------------------------------------------------------------------


def converted(story: WireStory, protocol: str, generation: int) -> GroupConverted:
    """The note of the conversion of the group with c1 and c2."""
    story.state, story.generation = "Stable", generation
    members = (story.ids["c1"], story.ids["c2"])
    return GroupConverted(group=GROUP, protocol=protocol, state="Stable", generation=generation, members=members)


def test_a_group_of_the_consumer_protocol_is_not_judged(story):
    story.by(story.coordinator, converted(story, "consumer", 1), story.state_of("Assigning", 2))
    story.ask("Heartbeat", "c2", generation=1, error=ErrorCode.REBALANCE_IN_PROGRESS)
    story.ask("JoinGroup", "c2", rows=subscribed())
    story.by(story.coordinator, story.removal("c1"))

    assert story.found() == []


@pytest.mark.parametrize(
    ("new", "kinds"), [("PreparingRebalance", []), ("CompletingRebalance", ["transition", "generation"])]
)
def test_a_group_that_is_classic_again_is_judged_as_stable(story, new, kinds):
    story.by(story.coordinator, converted(story, "consumer", 1), story.state_of("Assigning", 2))
    story.by(story.coordinator, story.state_of("Stable", 4), converted(story, "classic", 4), story.state_of(new))

    assert story.found() == kinds


def test_a_member_of_a_group_that_is_classic_again_is_not_refused(story):
    story.by(story.coordinator, converted(story, "consumer", 1))
    story.ask("JoinGroup", "c2", rows=subscribed())
    story.by(story.coordinator, converted(story, "classic", 4))
    story.ask("Heartbeat", "c2", generation=4, error=ErrorCode.ILLEGAL_GENERATION)

    assert story.found() == ["refused"]


@pytest.mark.parametrize(("instance", "kinds"), [("i3", []), ("i4", ["accepted"])])
def test_a_static_member_whose_join_waits_during_the_conversion_has_its_instance_id(story, instance, kinds):
    """Its JoinGroup is answered after the conversion (kafka-4.1 seed 273)."""
    story.by(story.coordinator, converted(story, "consumer", 1))
    joins = story.read("JoinGroup", "c3", member_id="", rows=subscribed(), instance="i3")
    added = notes.MemberAdded(group=GROUP, member_id=story.ids["c3"], client_id="c3", instance_id="i3")
    story.by(story.coordinator, joins, added)
    members = (story.ids["c1"], story.ids["c2"], story.ids["c3"])
    story.by(
        story.coordinator,
        GroupConverted(group=GROUP, protocol="classic", state="Stable", generation=4, members=members),
    )
    story.generation = 4
    story.ask("SyncGroup", "c3", generation=4, instance=instance)

    assert story.found() == kinds


def test_a_group_that_a_consumer_member_begins_is_not_judged():
    """The member's heartbeat is no request of a classic member."""
    told = WireStory("c1")
    added = notes.MemberAdded(group=GROUP, member_id=told.ids["c1"], client_id="c1", instance_id=None)
    changed = GroupEpochsChanged(group=GROUP, epoch=1, target_epoch=0)
    told.by(told.coordinator, added, changed, told.state_of("Assigning", 1), told.state_of("Stable", 1))

    assert told.found() == []
