"""The presets of the consumer protocol (KIP-848) show the behaviour that their summaries state."""

import pytest

from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.consumer_groups import GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    GroupLoaded,
    MemberAdded,
    MemberFailed,
    MemberRemoved,
    PartitionsRevoked,
    Removal,
)
from tests.emulator.cluster.test_group_plans import Played


def played(name: str) -> Played:
    """The preset with seed 1."""
    return Played(load_scenario(f"consumer-protocol-{name}")).held()


@pytest.mark.parametrize("state", ["Assigning", "Reconciling", "Stable"])
def test_a_coordinator_fails_over_in_each_state(state: str) -> None:
    run = played(f"failover-{state.lower()}")

    (loaded,) = run.seen(GroupLoaded)
    assert (loaded.state, loaded.generation) == (state, 7)


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


def test_a_static_member_that_returns_too_early_fails_and_its_partitions_wait_for_its_session() -> None:
    run = played("static-returns-early")

    assert [fact.error for fact in run.seen(MemberFailed)] == [ErrorCode.UNRELEASED_INSTANCE_ID]
    (removed_s,) = run.times_s(MemberRemoved)
    assert 70 < removed_s < 76  # the session of 45 s began with the last heartbeat before 30 s


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
    given = {topic for fact in run.seen(MemberReconciled) for topic, _ in fact.assigned}
    assert given == {"orders-eu", "orders-us", "orders-asia", "orders-africa", "returns", "unread"}
