"""A rolling restart of the consumer protocol, recorded with Kafka 4.0.0, beside the emulator."""

from itertools import pairwise

import pytest

from kemu.actors.coordinator.consumer_group.heartbeats import ConsumerGroupConfig, HeartbeatAnswers, removed
from kemu.actors.coordinator.consumer_group.state import ConsumerGroup
from kemu.protocol.consumer_group.assignors import ASSIGNORS_4_0_0
from kemu.protocol.consumer_group.rules import RULES_4_0_1
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat, TopicNumbers
from lab.conformance.rolling import FROM_MS, JOINED, LEFT, TOLD, RecordedHeartbeat, Rolling, delays_of, emulate, load

TOPIC = Topic("orders", "kKaZ3NqOQRarcyJnHHLrkQ", 24)
TOLERANCE_MS = 250


@pytest.fixture(scope="module")
def recorded() -> Rolling:
    return load()


@pytest.fixture(scope="module")
def emulated() -> Rolling:
    return emulate(1)


def request_of(beat: RecordedHeartbeat) -> ConsumerGroupHeartbeat:
    owned = None if beat.owned is None else tuple(
        TopicNumbers(topic_id=TOPIC.topic_id, partitions=beat.owned) for _ in beat.owned[:1]
    )  # fmt: skip
    return ConsumerGroupHeartbeat(
        group="g-new",
        member_id=beat.member_id,
        member_epoch=beat.epoch,
        rebalance_timeout_ms=beat.rebalance_timeout_ms,
        topics=(TOPIC.name,) if beat.topics else None,
        owned=owned,
    )


def test_the_coordinator_answers_the_recorded_heartbeats_as_kafka_did(recorded: Rolling) -> None:
    """Every epoch, every assignment, and every target until all members close."""
    answers = HeartbeatAnswers({TOPIC.name: TOPIC}, ConsumerGroupConfig(), RULES_4_0_1, ASSIGNORS_4_0_0)
    group = ConsumerGroup("g-new")
    targets: dict[str, dict[str, tuple[int, ...]]] = {}
    for place, beat in enumerate(recorded.heartbeats):
        request = request_of(beat)
        if beat.epoch < 0:
            heard = answers.leave(group, request)
            if heard.removed is not None:
                removed(group, None, RULES_4_0_1, heard.removed)
        else:
            heard = answers.heartbeat(group, request, is_stale=place == 0)
        sets = None if heard.reply.assignment is None else [row.partitions for row in heard.reply.assignment]
        assigned = None if sets is None else tuple(sorted(number for numbers in sets for number in numbers))
        assert (heard.reply.member_epoch, assigned) == (beat.answered_epoch, beat.assigned), f"heartbeat {place}"
        target = {
            each: tuple(sorted(numbers for share in group.target_of(each).values() for numbers in share))
            for each in group.members
        }
        targets.setdefault(str(group.target_epoch), target)
    for epoch, wanted in recorded.target_of.items():
        assert targets[epoch] == wanted, f"target {epoch}"
    assert len(recorded.target_of) == 18


def test_the_same_clients_raise_the_epoch_in_the_same_order(recorded: Rolling, emulated: Rolling) -> None:
    """A close and a start of each member: two epochs and two targets, at most 100 ms apart from the recording."""
    mine, others = ([each for each in run.epochs if 20_000 <= each.at_ms < 90_000] for run in (recorded, emulated))

    assert [(each.client, each.did, each.epoch) for each in mine] == [
        (each.client, each.did, each.epoch) for each in others
    ]
    assert [each.did for each in mine] == [LEFT, JOINED] * 6
    assert max(abs(a.at_ms - b.at_ms) for a, b in zip(mine, others, strict=True)) < 100


def test_the_first_restart_goes_step_by_step_as_recorded(recorded: Rolling, emulated: Rolling) -> None:
    """The owners acknowledge just after the joined member's heartbeat, so that it gets their partitions 5 s later."""
    seen = []
    for run in (recorded, emulated):
        steps = [each for each in run.steps if 20_000 <= each.at_ms < 34_200]
        joined_ms = next(each.at_ms for each in run.epochs if each.epoch == 8)
        told_ms = [each.at_ms for each in steps if each.state == TOLD and each.at_ms < 30_000]
        freed_ms = [
            next(done.at_ms for done in steps if done.client == each.client and done.at_ms > each.at_ms)
            for each in steps
            if each.state == TOLD and each.at_ms < 30_000
        ]
        got_ms = next(each.at_ms for each in steps if each.client == "c1" and each.assigned)
        computed_ms = next(at_ms for at_ms, epoch in run.targets if epoch == 7)
        assert joined_ms + 5_000 < min(freed_ms) + 20 < got_ms - 4_500
        seen.append([computed_ms, *told_ms, *freed_ms, got_ms])

    assert len(seen[0]) == len(seen[1]) == 10, "four owners give up a partition each"
    assert max(abs(a - b) for a, b in zip(*seen, strict=True)) < TOLERANCE_MS


def test_freed_partitions_wait_for_the_joined_member(recorded: Rolling, emulated: Rolling) -> None:
    """The largest part of the recorded downtime, and less with phases that differ (the draws of a life)."""
    apart = emulate(1, ["draws=life"])
    waits = [delays_of(run) for run in (recorded, emulated, apart)]
    sums = [sum(each.handed) / max(len(each.handed), 1) for each in waits]

    assert sums[0] > 4_000 and sums[1] > 4_000
    assert sums[2] < 3_500
    assert recorded.downtime_sum_ms() > 1.3 * apart.downtime_sum_ms()
    assert max(recorded.downtime_ms().values(), key=len)[0][0] >= FROM_MS


def test_a_run_whose_commits_before_revocations_follow_each_other_quickly_holds() -> None:
    """With heartbeats every second, a member gives up partitions, and so commits, several times in five seconds."""
    settings = [f"group.consumer.{each}heartbeat.interval.ms=1000" for each in ("min.", "")]

    given_up: dict[str, list[int]] = {}
    for each in emulate(2, ["draws=life", *settings]).callbacks:  # asserts the verdict
        if each.what == "revoked":
            given_up.setdefault(each.client, []).append(each.at_ms)
    assert any(after - before < 5_000 for times in given_up.values() for before, after in pairwise(times))
