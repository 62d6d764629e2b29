"""Before and after a join: commits, callbacks, what is given up and taken, for eager and cooperative members."""

from collections.abc import Callable

import pytest

from kemu.actors.consumer.listener import Outcome, Raised, Took
from kemu.protocol.assign.base import Assignment as Decision
from kemu.protocol.assign.base import Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.commands import Start, Subscribe
from kemu.protocol.messages.data import Metadata
from kemu.protocol.messages.group import Heartbeat, JoinedMember, JoinGroup, OffsetCommit, SyncGroup
from kemu.protocol.messages.member import Subscription, decode_subscription, encode_subscription
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    ListenerFailed,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Processed,
)
from kemu.protocol.rebalancing.rules import COOPERATIVE, EAGER, given_while_owned
from tests.actors.consumer.consumer_harness import Harness
from tests.actors.coordinator.scenarios import scenario

SECOND = 1_000_000
CALLBACKS = (PartitionsRevoked, PartitionsLost, PartitionsAssigned)
COOPERATIVE_STICKY = ("cooperative-sticky",)
ALL = tuple(("t", number) for number in range(4))

Partitions = tuple[TopicPartition, ...]


class Scripted:
    """A listener whose outcomes a test sets, and which remembers its calls."""

    def __init__(self, **outcomes: Outcome) -> None:
        self.outcomes = outcomes
        self.calls: list[tuple[str, Partitions]] = []

    def _call(self, name: str, partitions: Partitions) -> Outcome:
        self.calls.append((name, partitions))
        return self.outcomes.get(name, Took(0))

    def on_revoked(self, partitions: Partitions) -> Outcome:
        return self._call("revoked", partitions)

    def on_lost(self, partitions: Partitions) -> Outcome:
        return self._call("lost", partitions)

    def on_assigned(self, partitions: Partitions) -> Outcome:
        return self._call("assigned", partitions)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def stable(topics: dict[str, int] | None = None, **config: object) -> Harness:
    """A stable group of one with positions, its history forgotten."""
    harness = Harness(topics, **config).stable()  # type: ignore[arg-type]
    harness.run(100_000)
    harness.forget()
    return harness


def follower(given: Partitions, **config: object) -> Harness:
    """A stable member that another one leads."""
    harness = Harness(start=False, **config)  # type: ignore[arg-type]
    harness.cluster.leader = "c0-1"
    harness.cluster.given = given
    harness.tell(Start())
    harness.stable()
    harness.run(100_000)
    harness.forget()
    return harness


def busy(harness: Harness, count: int = 10) -> Harness:
    """The application works on records."""
    harness.append(("t", 0), count)
    return harness.run_until(lambda: not harness.consumer.polling)


# --- eager -------------------------------------------------------------------------------------------------------


def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    """onJoinPrepare, EAGER: revoke all, then JoinGroup; everything assigned is new."""
    harness = stable()
    harness.rejoin_now()
    harness.stable()

    revoked, assigned = (note for note in harness.notes if isinstance(note, CALLBACKS))
    assert (revoked.revoked, revoked.owned, revoked.generation) == (ALL, (), 1)
    assert (assigned.added, assigned.owned, assigned.generation) == (ALL, ALL, 2)
    order = [type(message) for _, _, message in harness.sent if isinstance(message, OffsetCommit | JoinGroup)]
    assert order[:2] == [OffsetCommit, JoinGroup]


def test_an_eager_member_that_owns_nothing_is_called_back_all_the_same() -> None:
    """onJoinPrepare, EAGER: onPartitionsRevoked with an empty list; onPartitionsAssigned is called when empty."""
    listener = Scripted()
    harness = follower((), listener=listener)
    assert listener.calls == [("assigned", ())]
    harness.rejoin_now()
    harness.stable()
    assert listener.calls == [("assigned", ()), ("revoked", ()), ("assigned", ())]


def test_lost_is_not_called_for_a_member_that_owns_nothing() -> None:
    """onJoinPrepare: generation or id were reset; nothing assigned: no callback."""
    listener = Scripted()
    harness = follower((), listener=listener)
    harness.answer_next("Heartbeat", 25)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    harness.stable()
    assert listener.names() == ["assigned", "assigned"]


def test_records_are_not_returned_any_more_once_the_commit_before_the_join_is_sent() -> None:
    """maybeMarkPartitionsPendingRevocation, EAGER: what is buffered is dropped and read again later, not lost."""
    harness = stable()
    harness.hold("OffsetCommit")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["OffsetCommit"]))
    harness.append(("t", 0), 7)
    harness.run(SECOND)
    assert not harness.facts(Processed)
    harness.release("OffsetCommit")
    harness.run_until(lambda: bool(harness.facts(Processed)))

    processed = harness.facts(Processed)[0]
    assert (processed.first, processed.last, processed.generation) == (0, 7, 2)


# --- the commit before the join ----------------------------------------------------------------------------------


@scenario("S120")
def test_the_commit_before_a_join_is_retried_until_the_rebalance_timeout_then_the_member_joins_anyway() -> None:
    """S120 ConsumerCoordinatorTest.testOnJoinPrepareWithOffsetCommitShouldKeepJoinAfterRebalanceTimeout."""
    harness = stable(max_poll_interval_ms=10_000)
    harness.answer_next("OffsetCommit", *[14] * 1_000)
    harness.rejoin_now()
    began_us = harness.now_us
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert harness.now_us - began_us == 10 * SECOND
    assert 50 <= len(harness.requests(OffsetCommit)) <= 100, "every retry.backoff.ms and a round trip"
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked"]


def test_a_commit_before_the_join_that_is_not_answered_does_not_hold_it_back_for_ever() -> None:
    """onJoinPrepare: joinPrepareTimer; heartbeats continue meanwhile."""
    harness = stable(max_poll_interval_ms=10_000)
    harness.hold("OffsetCommit")
    harness.rejoin_now()
    began_us = harness.now_us
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert harness.now_us - began_us == 10 * SECOND
    assert len(harness.requests(Heartbeat)) >= 3


@pytest.mark.parametrize("error", [12, 28, 22])
def test_a_commit_before_the_join_that_fails_for_good_does_not_hold_it_back(error: int) -> None:
    """onJoinPrepare: a non-retriable failure is logged, and the join continues; after ILLEGAL_GENERATION the partitions
    are lost.
    """
    harness = stable()
    harness.answer_next("OffsetCommit", error)
    harness.rejoin_now()
    began_us = harness.now_us
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert harness.now_us - began_us < 10_000
    assert harness.names(*CALLBACKS) == ["PartitionsLost" if error == 22 else "PartitionsRevoked"]


def test_without_auto_commit_nothing_is_committed_before_a_join() -> None:
    """enable.auto.commit=false."""
    harness = stable(enable_auto_commit=False)
    harness.rejoin_now()
    harness.stable()
    assert not harness.requests(OffsetCommit)


def test_a_cooperative_member_that_keeps_consuming_joins_after_one_commit() -> None:
    """KAFKA-14024: a commit that succeeded is enough, though positions have moved on; else it would loop for ever."""
    harness = stable(partition_assignment_strategy=COOPERATIVE_STICKY, emulated_process_us_per_record=100)
    harness.hold("OffsetCommit")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["OffsetCommit"]))
    for _ in range(20):
        harness.append(("t", 0), 5)
        harness.run(10_000)
    assert len(harness.facts(Processed)) == 20, "records are returned all the while"
    assert not harness.requests(JoinGroup)
    harness.release("OffsetCommit")
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert len(harness.requests(OffsetCommit)) == 1
    assert harness.names(*CALLBACKS) == []


def test_a_cooperative_member_that_cannot_commit_joins_within_the_rebalance_timeout() -> None:
    """KAFKA-14024's bound, under load: the rebalance timeout and not more than one batch on top."""
    harness = stable(
        partition_assignment_strategy=COOPERATIVE_STICKY,
        emulated_process_us_per_record=10_000,
        max_poll_records=10,
        max_poll_interval_ms=5_000,
    )
    harness.answer_next("OffsetCommit", *[14] * 1_000)
    harness.rejoin_now()
    began_us = harness.now_us
    harness.append(("t", 0), 5_000)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert harness.now_us - began_us <= 5 * SECOND + 100_000


# --- cooperative -------------------------------------------------------------------------------------------------


def cooperative(given: Partitions, **config: object) -> Harness:
    """A cooperative follower."""
    return follower(given, partition_assignment_strategy=COOPERATIVE_STICKY, **config)


def test_a_cooperative_member_gives_up_only_what_is_taken_away_and_then_rejoins() -> None:
    """onJoinComplete, COOPERATIVE: revoke before the assignment changes, assign the added, join again."""
    listener = Scripted()
    harness = cooperative(ALL, listener=listener)
    listener.calls.clear()
    harness.cluster.given = (("t", 0), ("t", 1))
    harness.rejoin_now()
    harness.run_until(lambda: len(harness.requests(SyncGroup)) == 2)
    harness.stable()

    assert listener.calls == [("revoked", (("t", 2), ("t", 3))), ("assigned", ()), ("assigned", ())]
    revoked = harness.facts(PartitionsRevoked)[0]
    assert (revoked.revoked, revoked.owned) == ((("t", 2), ("t", 3)), (("t", 0), ("t", 1)))
    claims = [decode_subscription(join.protocols[0].metadata).owned for join in harness.requests(JoinGroup)]
    assert claims == [ALL, (("t", 0), ("t", 1))]
    assert harness.requests(JoinGroup)[1].reason == "need to revoke partitions and re-join"


def test_a_cooperative_member_that_gives_up_nothing_does_not_rejoin() -> None:
    """It follows heartbeat 27 only."""
    harness = cooperative((("t", 0),))
    harness.cluster.given = (("t", 0), ("t", 1))
    harness.rejoin_now()
    harness.stable()
    harness.run(30 * SECOND)

    assert len(harness.requests(JoinGroup)) == 1
    (assigned,) = harness.facts(PartitionsAssigned)
    assert (assigned.added, assigned.owned) == ((("t", 1),), (("t", 0), ("t", 1)))


def test_a_cooperative_member_keeps_positions_of_what_it_keeps() -> None:
    """SubscriptionState.assignFromSubscribed: only new partitions are initialised."""
    harness = cooperative((("t", 0),))
    harness.append(("t", 0), 10)
    harness.run(SECOND)
    harness.cluster.given = (("t", 0), ("t", 1))
    harness.rejoin_now()
    harness.stable()
    harness.run(SECOND)

    from kemu.protocol.notes.groups import PositionSet

    assert [note.partition for note in harness.facts(PositionSet)] == [1]
    assert harness.consumer.positions.partitions[("t", 0)].position == 10


def test_a_cooperative_member_that_was_reset_loses_everything() -> None:
    """onJoinPrepare: any reset means onPartitionsLost and an empty owned list, even in COOPERATIVE."""
    harness = cooperative(ALL)
    harness.answer_next("Heartbeat", 22)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert decode_subscription(harness.requests(JoinGroup)[0].protocols[0].metadata).owned == ()
    assert harness.names(*CALLBACKS) == ["PartitionsLost"]


def test_a_cooperative_member_gives_up_topics_it_unsubscribed_before_the_join() -> None:
    """onJoinPrepare, COOPERATIVE: only partitions whose topic is not subscribed any more."""
    harness = stable({"t": 2, "u": 2}, subscribe=("t", "u"), partition_assignment_strategy=COOPERATIVE_STICKY)
    harness.tell(Subscribe(topics=("t",)))
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    (revoked,) = harness.facts(PartitionsRevoked)
    assert (revoked.revoked, revoked.owned) == ((("u", 0), ("u", 1)), (("t", 0), ("t", 1)))
    harness.stable()


class GivesAway:
    """A cooperative assignor of somebody's own that moves a partition at once."""

    name = "mine"
    version = 0
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: dict[str, Subscriber]) -> Decision:
        return {member: [("t", 0)] if member == "c1-1" else [] for member in members}


def test_the_leader_refuses_what_a_foreign_cooperative_assignor_moves_too_early() -> None:
    """ConsumerCoordinator.validateCooperativeAssignment: added and revoked intersect: an error for the application."""
    claims = encode_subscription(Subscription(("t",), owned=(("t", 0),)))
    harness = Harness(
        start=False,
        assignors={"mine": GivesAway()},  # type: ignore[dict-item]
        partition_assignment_strategy=("mine",),
    )
    harness.cluster.others = (JoinedMember(member_id="c0-1", metadata=claims),)
    harness.tell(Start())
    harness.run_until(lambda: harness.state == "FAILED")

    assert "mine assigned partitions that other members still own: t-0" in harness.facts(MemberFailed)[0].why
    assert not harness.requests(SyncGroup)
    members = {"a": Subscriber(("t",), (("t", 0),)), "b": Subscriber(("t",))}
    assert given_while_owned("cooperative-sticky", members, {"a": [], "b": [("t", 0)]}) == ()
    assert EAGER.moved_too_early("mine", members, {"a": [], "b": [("t", 0)]}) == ()
    assert COOPERATIVE.moved_too_early("mine", members, {"a": [], "b": [("t", 0)]}) == (("t", 0),)


# --- the listener ------------------------------------------------------------------------------------------------


def test_a_slow_listener_keeps_the_member_from_joining_while_heartbeats_go_on() -> None:
    """While the user is inside onPartitionsRevoked the state is STABLE: heartbeats go out and are answered 27."""
    harness = stable(emulated_on_revoked_ms=10_000)
    harness.rejoin_now()
    harness.answer_next("Heartbeat", 27, 27, 27)
    harness.run(9 * SECOND)
    assert (harness.state, len(harness.requests(Heartbeat))) == ("STABLE", 4)
    assert not harness.facts(PartitionsRevoked), "reported when it is over"
    assert not harness.requests(JoinGroup)
    harness.run(2 * SECOND)

    assert harness.names(*CALLBACKS) == ["PartitionsRevoked", "PartitionsAssigned"]
    assert len(harness.requests(JoinGroup)) == 1


def test_a_member_reset_inside_its_callback_joins_as_a_new_one() -> None:
    """The heartbeat thread resets (25) while onPartitionsRevoked runs; the callback ends as it began."""
    harness = stable(emulated_on_revoked_ms=10_000)
    harness.rejoin_now()
    harness.answer_next("Heartbeat", 25)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert harness.requests(JoinGroup)[0].member_id == ""
    assert harness.names(*CALLBACKS) == ["PartitionsRevoked"]
    harness.stable()


def test_a_listener_slower_than_max_poll_interval_costs_the_membership() -> None:
    """The poll timer runs during callbacks: left as in 2.7; the assignment just taken is lost at the next poll."""
    harness = stable(emulated_on_assigned_ms=10_000, max_poll_interval_ms=11_000)
    assert harness.state == "STABLE"
    late = Harness(emulated_on_assigned_ms=10_000, max_poll_interval_ms=6_000)
    late.run_until(lambda: bool(late.facts(PartitionsAssigned)))
    late.run_until(lambda: late.state == "UNJOINED")
    late.run_until(lambda: bool(late.facts(PartitionsLost)))
    assert late.names(*CALLBACKS) == ["PartitionsAssigned", "PartitionsLost"]


def raising(name: str) -> tuple[Scripted, Callable[[], None]]:
    listener = Scripted(**{name: Raised(0, "boom")})
    return listener, listener.outcomes.clear


def test_a_listener_that_raises_on_revocation_loses_the_partitions_all_the_same_and_is_not_called_again() -> None:
    """onJoinPrepare: everything still happens, then it is raised once; the retry does not repeat the callback."""
    listener = Scripted(revoked=Raised(2_000, "boom"))
    harness = stable(listener=listener)
    listener.calls.clear()
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.facts(ListenerFailed)))
    raised_us = harness.now_us
    assert not harness.requests(JoinGroup) and harness.consumer.positions.owned() == ()
    harness.stable()

    assert listener.names() == ["revoked", "assigned"]
    (failed,) = harness.facts(ListenerFailed)
    assert (failed.callback, failed.why) == ("onPartitionsRevoked", "boom")
    joined_us = next(us for us, _, message in harness.sent if isinstance(message, JoinGroup))
    assert joined_us - raised_us == 100_000, "the application polls again after its poll timeout"


def test_a_listener_that_raises_on_assignment_is_called_again_with_nothing_new() -> None:
    """onJoinComplete: the join future is kept, so the next poll takes the same assignment; added is empty then."""
    listener, heal = raising("assigned")
    harness = Harness(listener=listener)
    harness.run_until(lambda: bool(harness.facts(ListenerFailed)))
    heal()
    harness.stable()

    assert listener.calls == [("assigned", ALL), ("assigned", ())]
    assert len(harness.requests(SyncGroup)) == 1, "no new rebalance"


def test_a_listener_that_always_raises_does_not_make_the_machine_spin() -> None:
    """Each poll raises; polls are emulated.poll.timeout apart, heartbeats continue."""
    listener, _ = raising("assigned")
    harness = Harness(listener=listener)
    harness.run(10 * SECOND)
    assert 90 <= len(harness.facts(ListenerFailed)) <= 100
    assert harness.requests(Heartbeat)


def test_a_cooperative_listener_that_raises_on_revocation_still_sees_the_assignment_and_rejoins() -> None:
    """onJoinComplete: revoked, onAssignment and assigned all run; then the first exception is raised."""
    listener = Scripted(revoked=Raised(0, "boom"))
    harness = cooperative(ALL, listener=listener)
    listener.calls.clear()
    harness.cluster.given = (("t", 0),)
    harness.rejoin_now()
    harness.run_until(lambda: len(harness.requests(JoinGroup)) == 2)
    assert listener.calls == [("revoked", ALL[1:]), ("assigned", ()), ("assigned", ())]


def test_a_listener_that_raises_when_partitions_are_lost_has_lost_them() -> None:
    """onJoinPrepare: assignment := {} whatever the callback does."""
    listener = Scripted(lost=Raised(1_000, "boom"))
    harness = stable(listener=listener)
    harness.answer_next("Heartbeat", 25)
    harness.run_until(lambda: bool(harness.facts(PartitionsLost)))
    assert harness.facts(ListenerFailed)[0].callback == "onPartitionsLost"
    assert harness.consumer.positions.owned() == ()
    harness.stable()


# --- metadata ----------------------------------------------------------------------------------------------------


def test_a_leader_rejoins_when_a_topic_grows() -> None:
    """ConsumerCoordinator.rejoinNeededOrPending: the assignment's metadata is not the current one any more."""
    harness = stable(metadata_max_age_ms=20_000)
    harness.cluster.topics["t"] = 6
    harness.run_until(lambda: bool(harness.requests(JoinGroup)), within_us=21 * SECOND)
    harness.stable()

    assert len(harness.consumer.positions.owned()) == 6
    assert "metadata" in (harness.requests(JoinGroup)[0].reason or "")


@pytest.mark.parametrize(("later_us", "rejoins"), [(0, True), (110_000, False)])
def test_a_leader_that_finds_its_coordinator_again_looks_at_the_metadata_of_when_its_poll_began(
    later_us: int, rejoins: bool
) -> None:
    """ConsumerCoordinator.poll (3.4.1): poll(100 ms) takes its snapshot, and then only looks for the coordinator.

    Recorded: of leaders whose topic was gone and came back while nobody coordinated some rejoined, others did not.
    """
    harness = Harness(metadata_max_age_ms=1_000).stable()
    harness.hold("FindCoordinator")
    harness.disconnect()
    partitions = harness.cluster.topics.pop("t")
    harness.run(1_500_000)
    harness.cluster.topics["t"] = partitions
    harness.forget()
    harness.run_until(lambda: "t" in harness.consumer.metadata.cluster.topics)
    harness.run(later_us)

    harness.unhold("FindCoordinator")
    harness.release("FindCoordinator")
    harness.run(1_000_000)

    assert [request.reason for request in harness.requests(JoinGroup)] == ["cached metadata has changed"] * rejoins


def test_a_follower_does_not_mind_a_topic_that_grows() -> None:
    """Only the leader watches metadata."""
    harness = follower(ALL, metadata_max_age_ms=20_000)
    harness.cluster.topics["t"] = 6
    harness.run(60 * SECOND)
    assert not harness.requests(JoinGroup)
    assert len(harness.requests(Metadata)) == 3


def test_a_topic_that_does_not_exist_yet_is_assigned_when_it_does() -> None:
    """The leader assigns nothing, keeps asking for the topic with a growing backoff, and rejoins when it is there."""
    harness = Harness({"other": 1})
    harness.stable()
    assert harness.consumer.positions.owned() == ()
    harness.forget()
    harness.run(60 * SECOND)
    assert 55 <= len(harness.requests(Metadata)) <= 75, "no faster than retry.backoff.max.ms in the end"
    harness.cluster.topics["t"] = 2
    harness.run_until(lambda: len(harness.consumer.positions.owned()) == 2, within_us=2 * SECOND)


def test_a_subscription_that_changes_makes_the_member_rejoin() -> None:
    """rejoinNeededOrPending: joinedSubscription differs from the current one."""
    harness = stable({"t": 2, "u": 2})
    harness.tell(Subscribe(topics=("u", "t")))
    harness.run_until(lambda: len(harness.consumer.positions.owned()) == 4)
    assert decode_subscription(harness.requests(JoinGroup)[0].protocols[0].metadata).topics == ("t", "u")


def test_a_changed_subscription_requests_metadata_even_if_all_its_topics_are_known() -> None:
    """SubscriptionState.changeSubscription: the sets differ, so Metadata.requestUpdateForNewTopics."""
    harness = stable({"t": 2, "u": 2}, subscribe=("t", "u"))
    harness.tell(Subscribe(topics=("u", "t")))
    harness.run(SECOND)
    assert not harness.requests(Metadata)
    harness.tell(Subscribe(topics=("t",)))
    harness.run(SECOND)
    assert [asked.topics for asked in harness.requests(Metadata)] == [("t",)]


def test_commands_wait_for_a_busy_application() -> None:
    """subscribe() is a call of the application's own thread."""
    harness = stable({"t": 4, "u": 2}, emulated_process_us_per_record=100_000)
    busy(harness)
    harness.tell(Subscribe(topics=("u",)))
    harness.run(500_000)
    assert harness.consumer.subscription.topics == ("t",)
    harness.run(600_000)
    assert harness.consumer.subscription.topics == ("u",)
