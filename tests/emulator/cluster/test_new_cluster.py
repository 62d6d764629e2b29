"""The first consumer of a new cluster: ``__consumer_offsets`` is not there until somebody asks for a coordinator."""

from typing import Any

import attrs
import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.network import Packet
from kemu.emulator.facts import Seen, TopicReplicated
from kemu.emulator.plan.actions import Crash, LostMessage, StartHost
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import CreateTopics
from kemu.protocol.messages.group import FindCoordinatorReply
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.notes.groups import GroupBecame
from kemu.protocol.notes.replication import BecameLeader, OffsetsTopicAsked, TopicCreated
from tests.emulator.engine.toys import Watcher

S = 1_000_000
TOML = """
name = "new"
duration = "20s"
draws = "calm"
[brokers]
count = 3
[brokers.config]
"offsets.topic.num.partitions" = 6
[brokers.replication]
new_cluster = true
[topics.t]
partitions = 3
rate = "3/s"
replication_factor = 1
[groups.g]
topics = ["t"]
members = 2
"""


def facts_of(scenario: Scenario) -> tuple[str, list[Seen]]:
    """The verdict and what was seen."""
    watcher = Watcher()
    result = run(scenario, seed=1, loop="bare", observers=(watcher,))
    return result.verdict, watcher.facts


def test_lookups_are_refused_until_the_topic_is_there_and_then_the_group_forms() -> None:
    """KafkaApis.getCoordinator: no topic in the metadata cache: create it, and COORDINATOR_NOT_AVAILABLE."""
    watcher, answers = Watcher(), []
    made = Run(scenario_from_toml(TOML), seed=1, observers=(watcher,))
    creates: list[tuple[int, str, Any]] = []

    def watch(packet: Packet, message: Any) -> None:
        if type(message) is FindCoordinatorReply:
            answers.append(message.error)
        elif type(message) is CreateTopics:
            creates.append((made.world.now_us, packet.link.client, message))

    made.world.watch_sends = watch
    assert not made.run_with(run_plain)

    first = answers.index(ErrorCode.NONE)
    assert first > 0
    assert set(answers[:first]) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    (created,) = [
        seen for seen in watcher.facts if type(seen.fact) is TopicCreated and seen.fact.topic == OFFSETS_TOPIC
    ]
    assert created.fact.partitions == 6
    assert creates
    assert all(sender in ("b0", "b1", "b2") and at_us <= created.at_us + S for at_us, sender, _ in creates)
    (asked,) = {message.topics for _, _, message in creates}
    assert [(each.name, each.num_partitions, each.replication_factor) for each in asked] == [(OFFSETS_TOPIC, 6, 3)]
    assert any(type(seen.fact) is GroupBecame and seen.fact.new == "Stable" for seen in watcher.facts)


def test_a_creation_that_never_arrives_is_asked_for_again_by_the_next_lookup() -> None:
    """DefaultAutoTopicCreationManager: what is in flight is forgotten when its connection breaks."""
    lost = tuple(At(0, LostMessage(api="CreateTopics", sender=f"b{number}")) for number in range(3))
    verdict, facts = facts_of(attrs.evolve(scenario_from_toml(TOML), plan=lost))

    errors = [seen.fact.error for seen in facts if type(seen.fact) is OffsetsTopicAsked]
    assert errors[0] is ErrorCode.NETWORK_EXCEPTION
    assert ErrorCode.NONE in errors
    assert verdict == "holds"
    assert any(type(seen.fact) is GroupBecame and seen.fact.new == "Stable" for seen in facts)


def test_the_first_consumer_waits_until_the_logs_are_made() -> None:
    """Apache Kafka 3.4.1, one broker, 50 partitions: 9.6 s from the first lookup to the first that finds one."""
    _, facts = facts_of(attrs.evolve(load_scenario("first-consumer-of-a-new-cluster"), duration_us=20 * S))
    led = [seen.at_us for seen in facts if type(seen.fact) is BecameLeader and seen.fact.topic == OFFSETS_TOPIC]
    joined = next(seen.at_us for seen in facts if type(seen.fact) is GroupBecame)
    created = next(s.at_us for s in facts if type(s.fact) is TopicCreated and s.fact.topic == OFFSETS_TOPIC)

    assert len(led) == 50
    assert 9 * S < min(led) - created < 10 * S
    assert min(led) < joined < max(led) + S


def led_again(create: str) -> tuple[int, int]:
    """When one broker first led the first of its offsets, and when again after it died."""
    text = TOML.replace("count = 3", "count = 1").replace("new_cluster = true", "factor = 1\nnew_cluster = true")
    text += f"[brokers.replication.config]\nemulated.log.create.us = {create}\n"
    scenario = attrs.evolve(scenario_from_toml(text), plan=(At(10 * S, Crash(host="b0", mode="process", for_us=S)),))
    _, facts = facts_of(scenario)
    led = [seen.at_us for seen in facts if type(seen.fact) is BecameLeader and seen.fact.topic == OFFSETS_TOPIC]
    return min(led), min(at_us for at_us in led if at_us > 10 * S)


def test_a_broker_that_comes_back_has_its_logs_and_makes_none() -> None:
    """LogManager.getOrCreateLog: only what is not there takes its time."""
    slow, quick = led_again("500000"), led_again("0")

    assert 3 * S < slow[0] - quick[0] < 5 * S
    assert abs(slow[1] - quick[1]) < S // 10


def too_few(factor: int, *plan: At) -> Scenario:
    """Three brokers, b2 comes after 10 s; so many replicas of the offsets are asked for."""
    text = f"{TOML}[brokers.replication.config]\noffsets.topic.replication.factor = {factor}\n"
    return attrs.evolve(scenario_from_toml(text), plan=(At(at_us=100_000, action=Crash(host="b2")), *plan))


@pytest.mark.parametrize(("factor", "comes"), [(2, False), (3, True)])
def test_the_topic_waits_for_as_many_live_brokers_as_it_is_to_have_replicas(factor: int, comes: bool) -> None:
    """offsets.topic.replication.factor: creation fails until the cluster is large enough; every lookup tries again."""
    scenario = too_few(factor, At(12 * S, StartHost(host="b2")))
    waits = attrs.evolve(scenario, groups={"g": attrs.evolve(scenario.groups["g"], start_us=9 * S)})
    _, facts = facts_of(attrs.evolve(with_values(waits, ["session=2s"]), duration_us=25 * S))
    errors = [seen.fact.error for seen in facts if type(seen.fact) is OffsetsTopicAsked]
    created = next(s.at_us for s in facts if type(s.fact) is TopicCreated and s.fact.topic == OFFSETS_TOPIC)

    assert (created > 12 * S) is comes
    assert (ErrorCode.INVALID_REPLICATION_FACTOR in errors) is comes
    assert errors[-1] in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def test_a_cluster_that_is_too_small_for_its_offsets_never_has_a_group() -> None:
    """Members look for ever, and the run says that the group did not come to rest."""
    text = f"{TOML}[brokers.replication.config]\noffsets.topic.replication.factor = 4\n"
    verdict, facts = facts_of(with_values(scenario_from_toml(text), ["checks.stable_within=20s", "duration=10s"]))

    assert verdict == "liveness"
    asked = {seen.fact.error for seen in facts if type(seen.fact) is OffsetsTopicAsked}
    assert asked == {ErrorCode.INVALID_REPLICATION_FACTOR}
    assert not [seen for seen in facts if type(seen.fact) is GroupBecame]


def test_a_cluster_that_has_its_offsets_has_brokers_for_them() -> None:
    """Its own number of replicas, if that is said."""
    text = (
        TOML.replace("new_cluster = true\n", "") + "[brokers.replication.config]\noffsets.topic.replication.factor = "
    )
    _, facts = facts_of(attrs.evolve(scenario_from_toml(f"{text}1\n"), duration_us=2 * S))
    (made,) = [seen.fact for seen in facts if type(seen.fact) is TopicReplicated and seen.fact.topic == OFFSETS_TOPIC]
    assert {len(replicas) for replicas in made.replicas} == {1}

    with pytest.raises(
        ScenarioError, match=r"offsets\.topic\.replication\.factor: must not exceed the number of brok"
    ):
        scenario_from_toml(f"{text}4\n")
