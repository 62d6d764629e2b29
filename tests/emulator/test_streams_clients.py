"""What a stream thread's clients do in whole clusters: commits, producers, defaults, ends that nobody tells."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run
from kemu.emulator.scenario.files import scenario_from_dict
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.protocol.commands import ENFORCED
from kemu.protocol.notes.groups import (
    CommitAnswered,
    MemberBecame,
    OffsetCommitted,
    PartitionsLost,
    PartitionsRevoked,
    ProducerStarted,
    RecordsAcknowledged,
)
from kemu.protocol.notes.streams import TaskBecame, TasksDecided
from kemu.protocol.profiles import PROFILES
from kemu.protocol.streams.releases import consumer_of_streams, producer_of_streams

CHANGELOGS = ("app-store-changelog", "app-other-changelog")
JOIN = {"at": "20s", "do": "add-members", "group": "app"}


def instances(
    *plan: Mapping[str, Any],
    seconds: int = 40,
    rate: int = 20,
    profile: str = "kafka-2.4",
    **settings: object,
) -> list[tuple[int, str, Any]]:
    """(time, actor, fact) of a run of two sub-topologies with state, two tasks each; it holds."""
    data: dict[str, Any] = {
        "name": "clients",
        "duration": f"{seconds}s",
        "draws": "calm",
        "profile": profile,
        "producers": {"config": {"emulated.batch.interval.ms": 500}},
        "brokers": {"config": {"group.initial.rebalance.delay.ms": 0}},
        "topics": {
            **{topic: {"partitions": 2, "rate": f"{rate}/s"} for topic in ("in", "on")},
            **{topic: {"partitions": 2, "rate": "0/s"} for topic in CHANGELOGS},
        },
        "groups": {
            "app": {
                "members": 1,
                "streams": {
                    "subtopologies": [f"in -> {CHANGELOGS[0]}", f"on -> {CHANGELOGS[1]}"],
                    "config": {key.replace("_", "."): value for key, value in settings.items()},
                },
            }
        },
        "plan": list(plan),
    }
    recorder = MemoryRecorder()
    one = Run(scenario_from_dict(data), seed=1, recorder=recorder)
    assert one.run_with(run_plain) == ""
    return [(seen.at_us, seen.actor, seen.fact) for seen in recorder.facts()]


@pytest.mark.parametrize("profile", ["kafka-2.3", "kafka-2.4", "kafka-3.4"])
def test_a_thread_commits_its_tasks_before_it_gives_them_up(profile: str) -> None:
    """``TaskManager.handleRevocation`` (3.4.1), ``StreamTask.suspend`` (2.3.1): changelog, offsets, then SUSPENDED."""
    found = instances(JOIN, profile=profile, acceptable_recovery_lag=1_000_000)
    suspended = [
        (number, fact.task)
        for number, (at_us, _, fact) in enumerate(found)
        if type(fact) is TaskBecame and (fact.instance, fact.state) == ("c1", "SUSPENDED") and at_us < 35_000_000
    ]
    assert len(suspended) >= 2

    for number, task in suspended:
        topic, partition = ("in", "on")[int(task[0])], int(task[2])
        before = found[:number]
        committed = [
            (index, fact.offset)
            for index, (_, _, fact) in enumerate(before)
            if type(fact) is OffsetCommitted and (fact.topic, fact.partition) == (topic, partition)
        ]
        at, offset = committed[-1]
        acknowledged = sum(
            fact.count
            for _, _, fact in found[:at]
            if type(fact) is RecordsAcknowledged
            and (fact.topic, fact.partition) == (CHANGELOGS[int(task[0])], partition)
        )
        assert acknowledged == offset, "one changelog record for each record that was processed, all of them there"
        assert found[number][0] - found[at][0] < 50_000, "for this, not by interval"


def test_a_join_in_which_a_thread_gives_nothing_up_commits_nothing() -> None:
    """``enable.auto.commit`` is false inside Streams: no commit before JoinGroup but the thread's own."""
    found = instances({"at": "20s", "do": "enforce-rebalance", "host": "c1"}, commit_interval_ms=100_000)

    assert [fact for _, _, fact in found if type(fact) is MemberBecame and fact.why == ENFORCED]
    assert not [fact for _, _, fact in found if type(fact) is CommitAnswered]
    assert not [fact for _, _, fact in found if type(fact) is PartitionsRevoked]


@pytest.mark.parametrize(
    ("settings", "every_ms"),
    [
        ({}, 30_000),
        ({"processing_guarantee": "exactly_once"}, 100),
        ({"processing_guarantee": "exactly_once_v2", "commit_interval_ms": 2_000}, 2_000),
    ],
)
def test_a_thread_commits_by_its_interval_which_is_100_ms_under_exactly_once(
    settings: Mapping[str, object], every_ms: int
) -> None:
    """``StreamThread.maybeCommit``; ``StreamsConfig.EOS_DEFAULT_COMMIT_INTERVAL_MS``, unless it is configured."""
    seconds = 65 if every_ms > 2_000 else 12
    found = instances(seconds=seconds, **settings)
    commits = [at_us for at_us, _, fact in found if type(fact) is CommitAnswered]
    into_interval_ms = {(one - commits[0]) // 1000 % every_ms for one in commits}

    most = seconds * 1_000 // every_ms
    assert (seconds if every_ms == 100 else most - 1) <= len(commits) <= most
    assert {min(each, every_ms - each) < 20 for each in into_interval_ms} == {True}


def test_a_thread_s_one_producer_serves_all_its_changelogs() -> None:
    """``ActiveTaskCreator``: ``threadProducer`` at least once and with exactly_once_v2 (KIP-447)."""
    for guarantee in ("at_least_once", "exactly_once_beta", "exactly_once_v2"):
        found = instances(processing_guarantee=guarantee, num_stream_threads=2, profile="kafka-3.4", seconds=4)
        started = [(actor, fact.topic) for _, actor, fact in found if type(fact) is ProducerStarted]

        assert [row for row in started if row[0].startswith("c1")] == [
            (f"c1/t{thread}-producer", topic) for thread in (1, 2) for topic in CHANGELOGS
        ]


def test_the_first_exactly_once_has_a_producer_for_each_active_task() -> None:
    """``StreamThread.StreamsProducerSupplier`` (2.3.1): made with the task, closed with it; KIP-447 changed that."""
    found = instances(JOIN, processing_guarantee="exactly_once", rate=2)
    started = [actor for _, actor, fact in found if type(fact) is ProducerStarted and "/" in actor]
    last = [fact for _, _, fact in found if type(fact) is TasksDecided][-1]
    moved = next(row for row in last.given if row.process.endswith("2")).assigned

    assert sorted(started[:4]) == [f"c1/t1-{task}-producer" for task in ("0_0", "0_1", "1_0", "1_1")]
    assert sorted(started[4:]) == [f"c2/t1-{task}-producer" for task in sorted(moved)]


def test_a_producer_made_again_is_another_one_to_the_brokers() -> None:
    """A task that comes back: with the same producer id its first batches would be taken for repeated ones."""
    plan = (JOIN, {"at": "40s", "do": "crash", "host": "c2", "mode": "process"})
    found = instances(*plan, processing_guarantee="exactly_once", seconds=100, rate=2)
    started = [actor for _, actor, fact in found if type(fact) is ProducerStarted and actor.startswith("c1/")]
    again = {actor for actor in started if started.count(actor) > 1}
    assert again, "it gave tasks away and got them back"

    for actor in again:
        topic, partition = CHANGELOGS[int(actor[6])], int(actor[8])
        told = [
            fact.base_offset
            for _, who, fact in found
            if type(fact) is RecordsAcknowledged and (who, fact.topic, fact.partition) == (actor, topic, partition)
        ]
        assert told == sorted(set(told)), "each batch has a place of its own"


def test_streams_clients_have_defaults_of_their_own() -> None:
    """``StreamsConfig.CONSUMER_DEFAULT_OVERRIDES``, ``PRODUCER_DEFAULT_OVERRIDES``: 2.3.1 to 3.4.1."""
    for profile in PROFILES.values():
        assert consumer_of_streams(profile.consumer).max_poll_records == 1_000
        assert producer_of_streams(profile.producer).linger_ms == 100


def test_what_was_processed_waits_for_linger_ms_until_it_is_in_the_changelog() -> None:
    """100 ms inside Streams, where a producer alone has 0."""
    found = instances(seconds=20)
    fed, wrote = (
        [at_us for at_us, _, fact in found if type(fact) is RecordsAcknowledged and fact.topic == topic]
        for topic in ("in", CHANGELOGS[0])
    )
    first = next(at_us for at_us in wrote if at_us > 10_000_000)
    since = max(at_us for at_us in fed if at_us < first - 90_000)

    assert 90_000 < first - since < 250_000


def test_the_previous_owners_keep_their_tasks_when_nobody_tells_where_changelogs_end() -> None:
    """``StreamsPartitionAssignor.createTaskAssignor`` (2.6.3): then ``FallbackPriorTaskAssignor`` decides."""
    silent = {"at": "19s", "do": "crash", "host": "b2", "mode": "process", "for": "85s"}
    found = instances(silent, JOIN, profile="kafka-2.6", seconds=150, rate=2, probing_rebalance_interval_ms=60_000)
    given = [
        (at_us, {row.process[-1]: len(row.assigned) for row in fact.given})
        for at_us, _, fact in found
        if type(fact) is TasksDecided and at_us > 20_000_000
    ]

    assert given[0][0] > 70_000_000, "b2 leads a changelog: the leader waits for default.api.timeout.ms"
    assert given[0][1] == {"1": 4, "2": 0}
    assert given[-1][1] == {"1": 2, "2": 2}, "it looks again, and is told then"


@pytest.mark.parametrize(
    "action",
    [
        {"do": "subscribe", "topics": ["on"]},
        {"do": "unsubscribe"},
        {"do": "pause-partitions", "partitions": ["in-0"]},
        {"do": "resume-partitions", "partitions": ["in-0"]},
        {"do": "seek", "topic": "in", "partition": 0, "offset": 0},
        {"do": "fail-listener", "callback": "onPartitionsLost"},
        {"do": "fail-child-consumer", "for": "2s"},
    ],
    ids=lambda action: action["do"],
)
@pytest.mark.parametrize("host", ["c1", "leader of app"])
def test_what_an_application_does_to_a_consumer_of_its_own_is_refused_for_instances(
    host: str, action: Mapping[str, object]
) -> None:
    """``KafkaStreams`` has no such calls: its threads' consumers are theirs alone."""
    with pytest.raises(ScenarioError, match="is an instance of Kafka Streams"):
        instances({"at": "20s", "host": host, **action})


def test_an_instance_that_does_not_poll_is_thrown_out_with_all_its_threads() -> None:
    """``max.poll.interval.ms`` holds for each thread's consumer."""
    plan = ({"at": "20s", "do": "stop-polling", "host": "c1", "for": "310s"},)
    found = instances(*plan, num_stream_threads=2, seconds=350, rate=1)
    gone = [actor for _, actor, fact in found if type(fact) is PartitionsLost]

    assert sorted(set(gone)) == ["c1/t1", "c1/t2"]
