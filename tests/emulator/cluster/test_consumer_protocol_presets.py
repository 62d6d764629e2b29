"""The presets of the consumer protocol (KIP-848) show the behaviour that their summaries state."""

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.emulator.watching.interruptions import Cause
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    MemberAdded,
    MemberFailed,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsRevoked,
    Removal,
)
from tests.emulator.cluster.test_group_plans import Played


def played(name: str, profile: str | None = None) -> Played:
    """The preset with seed 1."""
    return Played(load_scenario(f"consumer-protocol-{name}"), profile=profile).held()


@pytest.mark.parametrize(
    ("state", "profile", "epoch"),
    [
        ("Assigning", "kafka-4.0", 7),
        ("Empty", "kafka-4.0", 4),
        ("Reconciling", "kafka-4.0", 7),
        ("Stable", "kafka-4.0", 7),
        ("Assigning", "kafka-4.3", 8),
        ("Reconciling", "kafka-4.3", 8),
    ],
)
def test_a_coordinator_fails_over_in_each_state(state: str, profile: str, epoch: int) -> None:
    """The first epoch of a group is 2 in 4.3."""
    run = played(f"failover-{state.lower()}", profile)

    (loaded,) = run.seen(GroupLoaded)
    assert (loaded.state, loaded.generation) == (state, epoch)


def test_classic_members_share_a_group_of_the_consumer_protocol() -> None:
    """c3 and c4 are classic. All members get partitions, and the group is never converted."""
    run = played("mixed")

    joined = [fact.why for fact in run.seen(GroupBecame) if fact.new == "Assigning"]
    assert [why.endswith("with the classic protocol") for why in joined] == [False, False, True, True, False, False]
    stable_s = max(at_s for at_s, fact in zip(run.times_s(GroupBecame), run.seen(GroupBecame), strict=True))
    assert 60 < stable_s < 70
    given = zip(run.times_s(MemberReconciled), run.seen(MemberReconciled), strict=True)
    shares = {fact.member_id: len(fact.assigned) for at_s, fact in given if at_s < 60}
    assert sorted(shares.values()) == [2, 2, 2, 3, 3]
    assert run.seen(GroupConverted) == []


def test_static_members_that_restart_in_turn_raise_no_epoch() -> None:
    run = played("rolling-restart-static")

    assert max(run.times_s(GroupEpochsChanged)) < 30
    assert [fact.why.startswith(Removal.REPLACED) for fact in run.seen(MemberRemoved)] == [True] * 6


def test_a_slow_member_delays_only_its_own_partition() -> None:
    """Each of three members gives one of its four partitions to the new member; c1 does not poll for a minute."""
    run = played("slow-member")

    slow_id = next(fact.member_id for fact in run.seen(MemberAdded) if fact.client_id == "c1")
    revoked = [
        (fact.member_id == slow_id, at_s, len(fact.revoked))
        for at_s, fact in zip(run.times_s(PartitionsRevoked), run.seen(PartitionsRevoked), strict=True)
        if at_s > 30
    ]
    assert [(slow, count) for slow, _, count in revoked] == [(False, 1), (False, 1), (True, 1)]
    assert max(at_s for slow, at_s, _ in revoked if not slow) < 40
    assert revoked[-1][1] > 89


def test_a_zombie_is_fenced_and_rejoins_with_its_id() -> None:
    run = played("zombie")

    assert [fact.why for fact in run.seen(MemberRemoved)] == [Removal.SESSION_EXPIRED]
    ids = [fact.member_id for fact in run.seen(MemberAdded) if fact.client_id == "c2"]
    assert len(ids) == 2
    assert len(set(ids)) == 1


@pytest.mark.parametrize(("profile", "rejoins_at_once"), [("kafka-4.1", False), ("kafka-4.2", True)])
def test_a_member_whose_epoch_the_coordinator_does_not_know_rejoins_by_release(
    profile: str, rejoins_at_once: bool
) -> None:
    """The coordinator that loads an old log at 63 s fences both members. Their sessions end at 78 s."""
    run = Played(load_scenario("consumer-protocol-fenced"), profile=profile).held()

    assert 60 < max(run.times_s(GroupLoaded)) < 80
    removed = zip(run.times_s(MemberRemoved), run.seen(MemberRemoved), strict=True)
    expired = [at_s for at_s, fact in removed if fact.why == Removal.SESSION_EXPIRED and at_s < 80]
    given = min(at_s for at_s in run.times_s(PartitionsAssigned) if at_s > 63)
    assert len(expired) == (1 if rejoins_at_once else 3)  # the member that left belongs to the old log, too
    assert (given < min(expired)) is rejoins_at_once


def test_a_static_member_that_returns_too_early_fails_and_its_partitions_wait_for_its_session() -> None:
    run = played("static-returns-early")

    assert [fact.error for fact in run.seen(MemberFailed)] == [ErrorCode.UNRELEASED_INSTANCE_ID]
    (removed_s,) = run.times_s(MemberRemoved)
    assert 70 < removed_s < 76  # the session of 45 s began with the last heartbeat before 30 s


def test_partitions_of_a_removed_member_wait_for_an_assignment() -> None:
    """A closed member leaves at once; only a crashed member has a session that must end."""
    steady = load_scenario("consumer-protocol-steady")
    waits = {}
    for action in ("remove-members group=g at=30s", "crash host=c2 at=30s for=50s"):
        result = run(with_actions(steady, [action]), seed=1, loop="bare")
        pieces = [piece for row in result.figures.downtime if row.until_us > 30_000_000 for piece in row.pieces]
        waits[action.partition(" ")[0]] = {
            cause: sum(piece.until_us - piece.from_us for piece in pieces if piece.cause is cause)
            for cause in (Cause.SESSION, Cause.ASSIGNMENT)
        }
    assert waits["remove-members"][Cause.SESSION] == 0
    assert waits["remove-members"][Cause.ASSIGNMENT] > 1_000_000
    assert waits["crash"][Cause.SESSION] > 2 * 35_000_000
    assert 0 < waits["crash"][Cause.ASSIGNMENT] < 2 * 11_000_000


def test_brokers_resolve_patterns_through_new_topics_and_a_failover() -> None:
    """A topic is created one second before the coordinator crashes: the next coordinator resolves the patterns."""
    run = played("pattern-growing-topics")

    (loaded_s,) = [at_s for at_s in run.times_s(GroupLoaded) if at_s > 60]
    of_africa = [
        at_s
        for at_s, fact in zip(run.times_s(MemberReconciled), run.seen(MemberReconciled), strict=True)
        if any(topic == "orders-africa" for topic, _ in fact.assigned)
    ]
    assert loaded_s < min(of_africa) < loaded_s + 30
    became = zip(run.times_s(GroupBecame), run.seen(GroupBecame), strict=True)
    stable_s = min(at_s for at_s, fact in became if at_s > 130 and fact.new == "Stable")
    assert stable_s < 145, "c3 still owns a deleted topic, so that its commit before the revocation is refused for good"
    given = {topic for fact in run.seen(MemberReconciled) for topic, _ in fact.assigned}
    assert given == {"orders-eu", "orders-us", "orders-asia", "orders-africa", "returns", "unread"}


def test_the_reason_of_a_rebalance_says_what_a_heartbeat_changed() -> None:
    """In the plan, orders-us grows at 60 s, orders-asia is deleted at 112 s, and c3 subscribes to unread at 130 s."""
    run = played("pattern-growing-topics")

    began = zip(run.times_s(GroupBecame), run.seen(GroupBecame), strict=True)
    reasons = {at_s: fact.why for at_s, fact in began if fact.new == "Assigning"}
    others = [at_s for at_s, why in reasons.items() if why == "topics of the subscription changed"]
    assert [int(at_s) // 10 for at_s in others] == [6, 11]
    (subscribed_s,) = [at_s for at_s, why in reasons.items() if why.endswith(" changed its subscription")]
    assert 130 < subscribed_s < 140
