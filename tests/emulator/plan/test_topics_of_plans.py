"""What operators have a controller do, in whole clusters with all checkers on: topics and elections."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from kemu.emulator import facts
from kemu.emulator.plan.actions import (
    CloseHost,
    Crash,
    CreateTopic,
    DeleteTopic,
    Duplicate,
    ElectPreferredLeaders,
    ErrorReply,
    FrozenSession,
    GrowTopic,
    StartHost,
)
from kemu.emulator.plan.entries import At, Entry, Receives, When
from kemu.emulator.replay import replay
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.nodes import PREFERRED_ELECTION, read_topic, topic_path
from kemu.protocol.notes.groups import AdminAnswered, Processed, RecordsAcknowledged
from kemu.protocol.notes.replication import (
    BecameController,
    BecameLeader,
    LeaderElectedForPartition,
    NodeWritten,
    TopicCreated,
    TopicDeleted,
)
from tests.emulator.engine.toys import Watcher

S = 1_000_000


def scenario(*plan: Entry, brokers: int = 3, subscribed: tuple[str, ...] = ("orders",), seconds: int = 70) -> Scenario:
    """Three replicas of everything, short sessions, a group."""
    return Scenario(
        draws="calm",
        name="topics",
        duration_us=seconds * S,
        brokers=BrokersSpec(
            count=brokers,
            replication=ReplicationSpec(session_us=6 * S, lag_us=6 * S, min_isr=2),
            config={"offsets.topic.num.partitions": 2},
        ),
        topics={"orders": TopicSpec(partitions=3, records_per_s=12), "spare": TopicSpec(partitions=2)},
        groups={"g": GroupSpec(topics=subscribed, members=2, config={"metadata.max.age.ms": 5_000})},
        checks=ChecksSpec(stable_within_us=200 * S),
        plan=plan,
    )


class Watched:
    """A run with all checkers, which holds; every fact of it."""

    def __init__(self, made: Scenario, seed: int = 1) -> None:
        self.watcher = Watcher()
        self.result: RunResult = run(made, seed=seed, loop="bare", observers=(self.watcher,))
        assert self.result.verdict == "holds", (self.result.broke, self.result.violations[:3])
        self.fired = [fault.fired for fault in self.result.faults]

    def seen(self, kind: type) -> list[tuple[float, Any]]:
        """(second, fact)."""
        return [(seen.at_us / S, seen.fact) for seen in self.watcher.facts if type(seen.fact) is kind]

    def answers(self) -> list[tuple[str, str, str]]:
        """(API, error, text) of what the admin client was answered."""
        return [(fact.api, fact.error.name, fact.text) for _, fact in self.seen(AdminAnswered)]

    def applied(self) -> list[str]:
        return [fact.text for _, fact in self.seen(facts.FaultApplied)]


SEEDS = pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 11))])
"""More than one of each is for the long sweeps."""


# --- topics --------------------------------------------------------------------------------------------------------


@SEEDS
def test_a_topic_is_created_while_a_broker_is_down_and_read_by_those_who_waited_for_it(seed: int) -> None:
    """ControllerIntegrationTest.testTopicCreationWithOfflineReplica, in the large; two of the live ones replicate."""
    watched = Watched(
        scenario(
            At(15 * S, Crash(host="b1", for_us=20 * S)),
            At(25 * S, CreateTopic(topic="new", partitions=4, replication_factor=2, records_per_s=20)),
            subscribed=("orders", "new"),
        ),
        seed,
    )

    assert watched.fired == [1, 1]
    ((created_s, created),) = [(at_s, fact) for at_s, fact in watched.seen(TopicCreated) if fact.topic == "new"]
    assert created.partitions == 4
    assert 25 <= created_s < 26
    (replicated,) = [fact for _, fact in watched.seen(facts.TopicReplicated) if fact.topic == "new"]
    assert all(set(replicas) == {0, 2} for replicas in replicated.replicas)
    acknowledged = {fact.partition for _, fact in watched.seen(RecordsAcknowledged) if fact.topic == "new"}
    assert acknowledged == {0, 1, 2, 3}
    processed = {fact.partition for _, fact in watched.seen(Processed) if fact.topic == "new"}
    assert processed == {0, 1, 2, 3}


def test_a_topic_needs_as_many_brokers_as_replicas() -> None:
    """ZkAdminManager.createTopics: INVALID_REPLICATION_FACTOR; b1 is gone, so that three replicas find no place."""
    watched = Watched(
        scenario(At(15 * S, Crash(host="b1", for_us=20 * S)), At(25 * S, CreateTopic(topic="new", partitions=2)))
    )

    ((api, error, text),) = watched.answers()
    assert (api, error) == ("CreateTopics", "INVALID_REPLICATION_FACTOR")
    assert "3" in text and "2" in text
    assert "new" not in [fact.topic for _, fact in watched.seen(TopicCreated)]


@SEEDS
def test_a_topic_is_deleted_when_its_last_replica_is_back(seed: int) -> None:
    """TopicDeletionManagerTest.testDeletionWithBrokerOffline; deleted, it may be created again, and is another one."""
    watched = Watched(
        scenario(
            At(15 * S, Crash(host="b1", for_us=20 * S)),
            At(25 * S, DeleteTopic(topic="spare")),
            At(26 * S, DeleteTopic(topic="spare")),
            At(50 * S, CreateTopic(topic="spare", partitions=3, records_per_s=9)),
        ),
        seed,
    )

    assert watched.answers() == [
        ("DeleteTopics", "NONE", "spare"),
        ("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", "no topic spare"),  # KafkaApis: the metadata has no such topic
        ("CreateTopics", "NONE", "spare: 3 partitions"),
    ]
    ((deleted_s, _),) = watched.seen(TopicDeleted)
    assert 35 < deleted_s < 40
    ((again_s, again),) = [(at_s, fact) for at_s, fact in watched.seen(TopicCreated) if fact.topic == "spare"]
    assert again.partitions == 3
    assert again_s > 50
    led = [fact for at_s, fact in watched.seen(BecameLeader) if fact.topic == "spare" and at_s > 50]
    assert {fact.partition for fact in led if (fact.leader_epoch, fact.end_offset) == (0, 0)} == {0, 1, 2}
    acknowledged = [fact for at_s, fact in watched.seen(RecordsAcknowledged) if fact.topic == "spare" and at_s > 50]
    assert {fact.partition for fact in acknowledged} == {0, 1, 2}


@SEEDS
def test_a_deletion_outlives_the_controller_that_began_it(seed: int) -> None:
    """DeleteTopicTest.testResumeDeleteTopicOnControllerFailover."""
    watched = Watched(
        scenario(At(20 * S, DeleteTopic(topic="spare")), At(20 * S + 8_000, Crash(host="controller", for_us=20 * S))),
        seed,
    )

    assert [fact.controller_epoch for _, fact in watched.seen(BecameController)] == [1, 2]
    ((deleted_s, _),) = watched.seen(TopicDeleted)
    assert deleted_s > 24


def test_what_does_not_exist_is_neither_deleted_nor_grown() -> None:
    """The controller's refusals, by Kafka's names."""
    watched = Watched(
        scenario(
            At(15 * S, DeleteTopic(topic="spare")),
            At(20 * S, DeleteTopic(topic="spare")),
            At(20 * S, GrowTopic(topic="spare", partitions=5)),
            At(20 * S, ElectPreferredLeaders(topics=("spare",))),
        )
    )

    assert watched.fired == [1, 1, 1, 1], "the admin client was told"
    assert sorted((api, error) for api, error, _ in watched.answers()[1:]) == [
        ("CreatePartitions", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("ElectLeaders", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_topic_that_is_not_gone_yet_is_not_created_again() -> None:
    """ZkAdminManager.createTopics: TOPIC_ALREADY_EXISTS while a dead broker delays the deletion; nothing appends."""
    watched = Watched(
        scenario(
            At(15 * S, Crash(host="b1", for_us=20 * S)),
            At(25 * S, DeleteTopic(topic="spare")),
            At(28 * S, CreateTopic(topic="spare", partitions=3, records_per_s=9)),
        )
    )

    assert watched.answers()[1] == ("CreateTopics", "TOPIC_ALREADY_EXISTS", "there is a topic spare")
    assert "spare" not in {fact.topic for at_s, fact in watched.seen(RecordsAcknowledged) if at_s > 26}


def test_a_created_topic_grows_like_any_other() -> None:
    """Its first replicas stay where they are."""
    watched = Watched(
        scenario(
            At(15 * S, CreateTopic(topic="new", partitions=2, records_per_s=12)),
            At(25 * S, GrowTopic(topic="new", partitions=4)),
        )
    )

    assert watched.fired == [1, 1]
    written = [fact for _, fact in watched.seen(NodeWritten) if fact.path == topic_path("new")]
    assert [fact.what for fact in written] == ["created", "set"]
    first, grown = (read_topic(fact.data) for fact in written)
    assert {number: grown[number] for number in first} == first
    assert {fact.partition for _, fact in watched.seen(BecameLeader) if fact.topic == "new"} == {0, 1, 2, 3}


def test_without_a_store_such_a_plan_is_refused() -> None:
    """Made in Python it is checked as a file is."""
    plan = (
        At(S, CreateTopic(topic="new")),
        At(S, DeleteTopic(topic="spare")),
        At(S, ElectPreferredLeaders()),
    )

    with pytest.raises(ScenarioError) as caught:
        attrs.evolve(scenario(*plan, seconds=10), brokers=BrokersSpec())

    assert len(caught.value.problems) == 3
    assert all("needs brokers that replicate" in problem.text for problem in caught.value.problems)


# --- preferred leaders ---------------------------------------------------------------------------------------------


def leaders(watched: Watched, at_s: float) -> dict[tuple[str, int], int]:
    """Who led what, by the store."""
    found: dict[tuple[str, int], int] = {}
    for when_s, fact in watched.seen(LeaderElectedForPartition):
        if when_s <= at_s:
            found[fact.topic, fact.partition] = fact.leader
    return found


@SEEDS
@pytest.mark.parametrize("through", ["controller", "store"])
@pytest.mark.parametrize("closed", [False, True])
def test_leaders_move_back_to_a_broker_that_returned_when_operators_ask_for_it(
    seed: int, closed: bool, through: str
) -> None:
    """backToBackPreferredReplicaLeaderElections, in the large: after a crash, and after a controlled shutdown."""
    away = (
        (At(15 * S, CloseHost(host="b1")), At(30 * S, StartHost(host="b1")))
        if closed
        else (At(15 * S, Crash(host="b1", for_us=15 * S)),)
    )
    watched = Watched(scenario(*away, At(50 * S, ElectPreferredLeaders(through=through))), seed)

    at_first, before, after = (leaders(watched, at_s) for at_s in (10, 49, 60))
    preferred = {at for at, leader in at_first.items() if leader == 1}
    assert preferred
    assert 1 not in before.values(), "nothing comes back by itself so soon"
    assert after == at_first, "the first replica of each partition led at the start"
    moved = {
        (fact.topic, fact.partition)
        for _, fact in watched.seen(LeaderElectedForPartition)
        if fact.strategy == "preferred"
    }
    assert moved == preferred, "what its preferred replica leads already keeps its epoch"
    gone = [fact.what for _, fact in watched.seen(NodeWritten) if fact.path == PREFERRED_ELECTION]
    if through == "store":
        assert gone == ["created", "deleted"]
        assert watched.answers() == []
    else:
        assert gone == []
        assert watched.answers() == [
            ("ElectLeaders", "NONE", f"all topics: {len(preferred)} of {len(preferred)} elected")
        ]


def test_only_the_topics_asked_for_are_elected() -> None:
    """``topics``; the offsets topic may be named, too: the group's coordinator moves with it."""
    watched = Watched(
        scenario(
            At(15 * S, Crash(host="b1", for_us=15 * S)), At(50 * S, ElectPreferredLeaders(topics=(OFFSETS_TOPIC,)))
        )
    )

    moved = {fact.topic for _, fact in watched.seen(LeaderElectedForPartition) if fact.strategy == "preferred"}
    assert moved == {OFFSETS_TOPIC}


def test_an_election_that_waits_for_its_controller_is_not_asked_for_twice() -> None:
    """The node is there until a controller has done it: the tool refuses to overwrite it."""
    watched = Watched(
        scenario(
            At(15 * S, Crash(host="b1", for_us=15 * S)),
            At(45 * S, FrozenSession(host="controller", for_us=3 * S)),
            At(46 * S, ElectPreferredLeaders(through="store")),
            At(47 * S, ElectPreferredLeaders(through="store")),
        )
    )

    assert watched.fired == [1, 1, 1, 0]
    assert watched.applied()[3].endswith("no effect, the last such election is not done yet")


def test_a_controller_that_dies_over_a_request_is_followed_by_one_that_answers_it() -> None:
    """KafkaAdminClient asks again, whoever controls then; what was done the first time is found done."""
    watched = Watched(
        scenario(
            At(20 * S, CreateTopic(topic="new", partitions=2, records_per_s=12)),
            When(Receives(api="CreateTopics"), Crash(host="controller", mode="process", for_us=20 * S), after_us=4_000),
        )
    )

    assert [fact.controller_epoch for _, fact in watched.seen(BecameController)] == [1, 2]
    ((api, error, _),) = watched.answers()
    assert (api, error) in [("CreateTopics", "NONE"), ("CreateTopics", "TOPIC_ALREADY_EXISTS")]
    assert {fact.partition for _, fact in watched.seen(RecordsAcknowledged) if fact.topic == "new"} == {0, 1}


def test_one_that_controls_no_more_is_not_asked_to_the_end() -> None:
    """NOT_CONTROLLER: the controller is looked for again."""
    error = ErrorReply(api="CreateTopics", error=ErrorCode.NOT_CONTROLLER)
    watched = Watched(scenario(At(19 * S, error), At(20 * S, CreateTopic(topic="new", partitions=2))))

    assert watched.fired == [1, 1]
    assert watched.answers() == [("CreateTopics", "NONE", "new: 2 partitions")]


@SEEDS
def test_operators_and_faults_at_once(seed: int) -> None:
    """Creation, growth, deletion and elections while the store's answers are lost and brokers come and go."""
    made = load_scenario("topic-created-and-deleted")
    more = (
        At(30 * S, Duplicate(api="StoreOps", sender="b2")),
        At(50 * S, ElectPreferredLeaders()),
        At(62 * S, Crash(host="b2", mode="process", for_us=10 * S)),
        At(80 * S, ElectPreferredLeaders()),
    )

    watched = Watched(attrs.evolve(made, plan=(*made.plan, *more)), seed)

    assert {fact.topic for _, fact in watched.seen(TopicDeleted)} == {"old"}
    assert "payments" in {fact.topic for _, fact in watched.seen(Processed)}


def test_a_run_with_created_topics_replays(tmp_path: Path) -> None:
    """The producer of a topic that the plan creates is there, and brokers know its records' size."""
    plan = (
        At(12 * S, CreateTopic(topic="new", partitions=2, records_per_s=20)),
        At(20 * S, DeleteTopic(topic="new")),
    )
    path = tmp_path / "topics.kemu"
    results = [run(scenario(*plan, seconds=25), seed=4, loop=loop, trace=path) for loop in ("trio", "bare")]

    assert results[0].digest == results[1].digest
    assert replay(read_trace(path)).difference is None
