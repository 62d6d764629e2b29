"""Why a group rebalances, in the words that each release's coordinator logs."""

import pytest

from kemu.actors.coordinator.reasons import Reasons
from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.actors.coordinator.state import COMPLETING, STABLE
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import LeavingMember
from kemu.protocol.notes.groups import GroupBecame
from tests.actors.coordinator.coordinator_harness import REBALANCE_MS, SESSION_MS, Bench


def why(bench: Bench) -> str:
    """Of the last rebalance."""
    return [note.why for note in bench.noted(GroupBecame) if note.new == "PreparingRebalance"][-1]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("java", "Adding new member {} with group instance id null; client reason: not provided"),
        ("scala", "Adding new member {} with group instance id None; client reason: not provided"),
        ("scala-2.8", "Adding new member {} with group instance id None"),
        ("scala-2.4", "Adding new member {} with group instance id None"),
    ],
)
def test_a_new_member_is_named_with_its_instance_and_its_reason(kind: str, said: str) -> None:
    """GroupCoordinator.addMemberAndRebalance; GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1")
    bench.join_twice("c2")

    (new,) = [member_id for member_id in bench.group.members.by_id if member_id not in formed.ids.values()]
    assert why(bench) == said.format(new)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("java", "explicit `LeaveGroup` request for ({c2}) members."),
        ("scala", "Removing member {c2} on LeaveGroup; client reason: enough"),
        ("scala-2.6", "Removing member {c2} on LeaveGroup"),
    ],
)
def test_who_left_is_named_with_its_reason(kind: str, said: str) -> None:
    """GroupCoordinator.handleLeaveGroup; GroupMetadataManager.classicGroupLeaveToClassicGroup."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1", "c2")
    bench.leave("c2", LeavingMember(member_id=formed.ids["c2"], reason="enough"))

    assert why(bench) == said.format(**formed.ids)


@pytest.mark.parametrize(("kind", "stop"), [("java", "."), ("scala", "")])
def test_who_is_silent_is_removed_on_heartbeat_expiration(kind: str, stop: str) -> None:
    """GroupCoordinator.onExpireHeartbeat; GroupMetadataManager.expireClassicGroupMemberHeartbeat."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1", "c2")
    bench.advance(SESSION_MS // 2)
    bench.heartbeat("c1", formed.ids["c1"], 1)
    bench.advance(SESSION_MS // 2 + 1)

    assert why(bench) == f"removing member {formed.ids['c2']} on heartbeat expiration{stop}"


def test_a_leader_that_comes_back_and_a_follower_with_news_are_told_apart() -> None:
    """GroupCoordinator.doCurrentMemberJoinGroup: the leader in Stable, whoever has other metadata."""
    bench = Bench(coordinator_kind="scala")
    formed = bench.stable_group("c1", "c2", names=("range", "roundrobin"))
    bench.join("c1", formed.ids["c1"], names=("range", "roundrobin"))
    assert why(bench) == f"Leader {formed.ids['c1']} re-joining group during Stable; client reason: not provided"

    other = Bench(coordinator_kind="scala")
    formed = other.stable_group("c1", "c2", names=("range", "roundrobin"))
    other.join("c2", formed.ids["c2"], names=("range",))
    assert why(other) == f"Updating metadata for member {formed.ids['c2']} during Stable; client reason: not provided"


@pytest.mark.parametrize(("kind", "listed"), [("java", "[{}]"), ("scala", "Set({})")])
def test_who_never_syncs_is_named(kind: str, listed: str) -> None:
    """GroupCoordinator.onExpirePendingSync; GroupMetadataManager.expirePendingSync."""
    bench = Bench(coordinator_kind=kind)
    first, second = bench.join_twice("c1"), bench.join_twice("c2")
    bench.until_answered(first, second)
    leader, follower = first.reply.member_id, second.reply.member_id
    bench.sync("c1", leader, 1, {leader: b"a", follower: b"b"})
    for _ in range(REBALANCE_MS // (SESSION_MS // 2) + 1):
        if follower in bench.group.members.by_id:
            bench.heartbeat("c1", leader, 1)
            bench.heartbeat("c2", follower, 1)
        bench.advance(SESSION_MS // 2)

    reasons = [note.why for note in bench.noted(GroupBecame) if note.new == "PreparingRebalance"]
    assert f"Removing {listed.format(follower)} on pending sync request expiration" in reasons


@pytest.mark.parametrize(
    ("kind", "full", "unwritten"),
    [
        ("java", "Freshly-loaded group g (size 5) is over capacity 4. ", "(member: c1-1)."),
        ("scala", "Freshly-loaded group is over capacity (4). ", "(member: c1-1)"),
    ],
)
def test_what_only_a_coordinator_does_is_worded_as_its_release_words_it(kind: str, full: str, unwritten: str) -> None:
    """GroupCoordinator.onGroupLoaded, doSyncGroup, updateStaticMemberAndRebalance; GroupMetadataManager's."""
    words = Reasons(GROUP_RULES[kind])
    assert words.over_capacity("g", 5, 4) == full + (
        "Rebalancing in order to give a chance for consumers to commit offsets"
    )
    assert words.not_stored(ErrorCode.NOT_COORDINATOR, "c1-1") == (
        f"Error NOT_COORDINATOR when storing group assignment during SyncGroup {unwritten}"
    )
    assert words.replaced_while_completing("c1-2", "i1", "r") == (
        "Updating metadata for static member c1-2 with instance id i1; client reason: r"
    )
    assert words.replacement_changes_vote("c1-2", "i1", "r").endswith(
        "joined with change of protocol; client reason: r"
    )
    assert words.new_metadata("c1-2", COMPLETING, "") == (
        "Updating metadata for member c1-2 during CompletingRebalance; client reason: "
        + ("not provided" if kind.startswith("java") else "")
    )
    assert words.leader_rejoins("c1-2", STABLE, "r") == "Leader c1-2 re-joining group during Stable; client reason: r"
