"""Any order of answers, errors, broken connections, timers and commands: what must never happen, and the end that must
come.

Kafka's ``AbstractCoordinatorTest`` plays a few of these races by hand; here Hypothesis looks for them.
"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kemu.actors.consumer.listener import Outcome, Raised, Took
from kemu.protocol.commands import Close, Subscribe, Unsubscribe
from kemu.protocol.messages.group import JoinGroup, OffsetCommit
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    MemberBecame,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from tests.actors.consumer.consumer_harness import COORDINATOR, Harness
from tests.examples import examples

SECOND = 1_000_000

ERRORS = {
    "FindCoordinator": (14, 15, 16),
    "JoinGroup": (14, 15, 16, 25, 27, 79),
    "SyncGroup": (15, 16, 22, 25, 27),
    "Heartbeat": (14, 15, 16, 22, 25, 27, 30),
    "OffsetCommit": (3, 7, 12, 14, 15, 16, 22, 25, 27, 28),
    "OffsetFetch": (14, 15, 16, 88),
    "ListOffsets": (3, 6, 74),
    "Fetch": (1, 3, 6, 56, 74),
    "LeaveGroup": (15, 16, 25),
}
FATAL = {"JoinGroup": (23, 81, 82), "SyncGroup": (14, 30), "OffsetCommit": (30,), "FindCoordinator": (30,)}
PEERS = ("b0", "b1", COORDINATOR)


class Moody:
    """A listener that takes its time and raises now and then."""

    def __init__(self) -> None:
        self.next: list[Outcome] = []

    def _outcome(self) -> Outcome:
        return self.next.pop() if self.next else Took(0)

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        return self._outcome()

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        return self._outcome()

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        return self._outcome()


class AnyOrder(RuleBasedStateMachine):
    """One consumer against the harness' cluster, everything under way delivered in any order."""

    harness: Harness
    listener: Moody

    @initialize(
        strategy=st.sampled_from([("range",), ("cooperative-sticky",), ("roundrobin", "range")]),
        static=st.booleans(),
        auto_commit=st.booleans(),
        commit_sync=st.booleans(),
        slow=st.booleans(),
    )
    def begin(self, strategy: Any, static: bool, auto_commit: bool, commit_sync: bool, slow: bool) -> None:
        self.listener = Moody()
        self.harness = Harness(
            {"t": 3, "u": 2},
            subscribe=("t", "u"),
            listener=self.listener,
            partition_assignment_strategy=strategy,
            group_instance_id="i1" if static else None,
            enable_auto_commit=auto_commit,
            emulated_commit_after_poll=commit_sync,
            emulated_process_us_per_record=1_500_000 if slow else 200,
            max_poll_interval_ms=20_000,
            session_timeout_ms=10_000,
            default_api_timeout_ms=15_000,
            max_poll_records=10,
        )
        self.closing = False
        self.subscribed = True
        self.ended = False
        self.seen = 0
        self.positions: dict[TopicPartition, int] = {}
        """Position of each owned partition, according to the notes."""
        self.owned: tuple[TopicPartition, ...] = ()

    # --- what may happen ---------------------------------------------------------------------------------------

    @rule(index=st.integers(0, 30), count=st.integers(1, 10))
    def deliver(self, index: int, count: int) -> None:
        for _ in range(count):
            self.harness.run_out_of_order(index)

    @rule(us=st.sampled_from([1_000, 100_000, 5 * SECOND, 40 * SECOND]))
    def time_passes(self, us: int) -> None:
        self.harness.run(us)

    @rule(peer=st.sampled_from(PEERS))
    def disconnect(self, peer: str) -> None:
        self.harness.disconnect(peer)

    @rule(data=st.data(), api=st.sampled_from(sorted(ERRORS)))
    def answer_with_an_error(self, data: st.DataObject, api: str) -> None:
        self.harness.answer_next(api, data.draw(st.sampled_from(ERRORS[api])))

    @rule(api=st.sampled_from(sorted(ERRORS)))
    def stop_answering(self, api: str) -> None:
        self.harness.hold(api)

    @rule(api=st.sampled_from(sorted(ERRORS)))
    def answer_again(self, api: str) -> None:
        self.harness.release(api)

    @rule(topic=st.sampled_from(["t", "u"]), number=st.integers(0, 1), count=st.integers(1, 40))
    def records_arrive(self, topic: str, number: int, count: int) -> None:
        self.harness.append((topic, number), count)

    @rule(outcome=st.sampled_from([Took(500_000), Took(25 * SECOND), Raised(0, "boom"), Raised(500_000, "late boom")]))
    def listener_will(self, outcome: Outcome) -> None:
        self.listener.next.append(outcome)

    @rule()
    def grow(self) -> None:
        self.harness.cluster.topics["t"] = min(6, self.harness.cluster.topics["t"] + 1)

    @precondition(lambda self: not self.closing)
    @rule(topics=st.sampled_from([("t",), ("t", "u"), ("u",)]))
    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.subscribed = True
        self.harness.tell(Subscribe(topics=topics))

    @precondition(lambda self: not self.closing)
    @rule()
    def unsubscribe(self) -> None:
        self.subscribed = False
        self.harness.tell(Unsubscribe())

    @precondition(lambda self: not self.closing)
    @rule(data=st.data(), api=st.sampled_from(sorted(FATAL)))
    def answer_with_a_fatal_error(self, data: st.DataObject, api: str) -> None:
        if data.draw(st.integers(0, 9)) == 0:
            self.harness.answer_next(api, data.draw(st.sampled_from(FATAL[api])))

    @rule(sure=st.integers(0, 19))
    def close(self, sure: int) -> None:
        if sure == 0 and not self.closing:
            self.closing = True
            self.harness.tell(Close())

    # --- what never happens ------------------------------------------------------------------------------------

    @invariant()
    def one_join_at_most(self) -> None:
        flights = [
            flight for flight in self.harness.consumer.client.in_flight.values() if type(flight.context) is not dict
        ]
        joins = [one for one in flights if one.answered.__name__ == "_join_answered"]
        syncs = [one for one in flights if one.answered.__name__ == "_sync_answered"]
        assert len(joins) + len(syncs) <= 1

    @invariant()
    def steps_are_small(self) -> None:
        assert self.harness.most_effects <= 80

    @invariant()
    def notes_tell_a_story_that_holds(self) -> None:
        """Owned are the assigned partitions without revoked ones; positions move without a gap; commits never lead."""
        told, self.seen = self.harness.told[self.seen :], len(self.harness.told)
        for one in told:
            assert not self.ended, f"{one} after the end"
            match one:
                case PartitionsAssigned():
                    assert set(one.owned) == {*self.owned, *one.added}, "what is given up was told before"
                    self.owned = one.owned
                case PartitionsRevoked():
                    assert set(one.owned) == set(self.owned) - set(one.revoked)
                    self.owned = one.owned
                case PartitionsLost():
                    assert set(one.lost) == set(self.owned) != set()
                    self.owned = ()
                case PositionSet():
                    assert (one.topic, one.partition) in self.owned
                    self.positions[one.topic, one.partition] = one.offset
                case Processed():
                    at = (one.topic, one.partition)
                    assert at in self.owned and one.first == self.positions[at] < one.last
                    self.positions[at] = one.last
                case OffsetCommit():
                    for row in one.offsets:
                        assert (row.topic, row.partition) in self.owned
                        assert row.offset == self.positions[row.topic, row.partition]
                case MemberBecame(new="CLOSED" | "FAILED"):
                    self.ended = True

    # --- what happens in the end -------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        harness = self.harness
        self.listener.next.clear()
        for api in sorted(ERRORS):
            harness.release(api)
        harness._scripts.clear()
        harness.run((900 + 2 * sum(harness.cluster.ends.values())) * SECOND)
        self.notes_tell_a_story_that_holds()
        if harness.state == "FAILED":
            return
        if self.closing:
            assert harness.state == "CLOSED"
            return
        assert harness.state == ("STABLE" if self.subscribed else "UNJOINED"), harness.story()
        harness.forget()
        harness.run(60 * SECOND)
        assert harness.steps <= 60 * 15, f"{harness.steps} steps in an idle minute"
        assert not [message for _, _, message in harness.sent if isinstance(message, JoinGroup)]
        if self.subscribed:
            owned = harness.consumer.positions.owned()
            wanted = [
                (topic, number)
                for topic in harness.consumer.subscription.topics
                for number in range(harness.cluster.topics[topic])
            ]
            assert sorted(owned) == sorted(wanted)
            assert all(
                harness.consumer.positions.partitions[at].position == harness.cluster.ends.get(at, 0) for at in owned
            )


ANY = settings(stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))


def test_any_order() -> None:
    """The same sixty lives every time: what fails here fails for everybody."""
    run_state_machine_as_test(
        AnyOrder, settings=settings(ANY, max_examples=examples(60), derandomize=True, database=None)
    )


@pytest.mark.soak
def test_many_lives_in_any_order() -> None:
    """Other lives every time."""
    run_state_machine_as_test(AnyOrder, settings=settings(ANY, max_examples=1_000))
