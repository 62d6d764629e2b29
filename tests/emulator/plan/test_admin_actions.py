"""What an admin client is asked to do in whole clusters: each action as it is obeyed, and as it is refused."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kemu.emulator import facts
from kemu.emulator.plan.actions import (
    AddMembers,
    ChangeSubscription,
    ConfigsAlteration,
    Crash,
    DeleteTopic,
    GroupDeletion,
    GroupDescription,
    GroupsListing,
    Isolate,
    LeadersElection,
    ListenerFailure,
    MembersExpulsion,
    OffsetsDeletion,
    OffsetsReset,
    PartitionsPause,
    PartitionsResumption,
    Pause,
    PollingStop,
    PositionChange,
    RebalanceRequest,
    RemoveMembers,
    StartHost,
    Unsubscription,
)
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Stage
from kemu.emulator.runner import run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.commands import AlterConfigs
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import (
    AdminAnswered,
    GroupDescribed,
    JoinPhaseCompleted,
    ListenerFailed,
    MemberRemoved,
    PartitionsAssigned,
    PositionSet,
    Processed,
    RecordsAcknowledged,
)
from kemu.protocol.notes.replication import LeaderElectedForPartition
from kemu.tools.report.story import Story
from tests.emulator.engine.toys import Watcher
from tests.emulator.plan.plain import plan_from_dicts

S = 1_000_000
NONE = ErrorCode.NONE


class Watched:
    """A run that holds, its facts and its story."""

    def __init__(
        self,
        *plan: Entry,
        static: bool = False,
        replicated: bool = False,
        config: dict[str, int] | None = None,
        overrides: dict[str, MemberSpec] | None = None,
    ) -> None:
        made = Scenario(
            draws="calm",
            name="admin",
            duration_us=60 * S,
            brokers=BrokersSpec(
                count=3,
                replication=ReplicationSpec(session_us=6 * S, lag_us=6 * S) if replicated else None,
                config={"offsets.topic.num.partitions": 3},
            ),
            topics={"t": TopicSpec(partitions=2, records_per_s=10), "other": TopicSpec(partitions=2, records_per_s=5)},
            groups={
                "g": GroupSpec(topics=("t",), members=2, static=static, config=config or {}, overrides=overrides or {})
            },
            checks=ChecksSpec(stable_within_us=200 * S),
            plan=plan,
        )
        self.watcher, story = Watcher(), Story()
        self.result = run(made, seed=1, loop="bare", observers=(self.watcher, story))
        assert self.result.verdict == "holds", (self.result.broke, self.result.violations[:3])
        self.told = [line.text() for line in story.lines]

    def seen(self, kind: type) -> list[Any]:
        return [seen.fact for seen in self.watcher.facts if type(seen.fact) is kind]

    def answer(self) -> tuple[str, ErrorCode, str]:
        (fact,) = self.seen(AdminAnswered)
        return fact.api, fact.error, fact.text


EMPTY = At(20 * S, RemoveMembers(group="g", count=2))
BACK = (At(40 * S, StartHost(host="c1")), At(40 * S, StartHost(host="c2")))


def test_groups_are_listed_by_their_coordinators() -> None:
    """ListGroups goes to every broker; each says which groups it coordinates."""
    watched = Watched(At(15 * S, GroupsListing()))

    assert watched.answer() == ("ListGroups", NONE, "g (Stable)")
    assert "ListGroups: done: g (Stable)" in watched.told


def test_groups_are_listed_by_type_and_state_where_brokers_have_types() -> None:
    """ListGroups v4 (KIP-518) and v5 (KIP-848). The action's filters are those of ``kafka-consumer-groups --list``."""
    orders = ("", "types=consumer", "types=classic", "states=stable", "states=empty")
    actions = [f"list-groups at={20 + number}s {order}" for number, order in enumerate(orders)]
    watcher = Watcher()
    run(with_actions(load_scenario("consumer-protocol-steady"), actions), seed=1, loop="bare", observers=(watcher,))

    listed = "g (Stable, consumer)"
    answers = [seen.fact.text for seen in watcher.facts if type(seen.fact) is AdminAnswered]
    assert answers == [listed, listed, "none", listed, "none"]


def test_brokers_without_types_refuse_a_listing_by_type() -> None:
    watched = Watched(At(15 * S, GroupsListing(types=("consumer",))))

    assert watched.answer()[:2] == ("ListGroups", ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(("order", "said"), [("types=share", "classic, consumer"), ("states=ready", "Stable, Empty")])
def test_a_listing_by_an_unknown_type_or_state_is_refused(order: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=f"is none of {said}"):
        with_actions(load_scenario("steady-group"), [f"list-groups at=15s {order}"])


def test_a_group_is_described_with_its_members() -> None:
    """DescribeGroups."""
    watched = Watched(At(15 * S, GroupDescription(group="g")))

    (described,) = watched.seen(GroupDescribed)
    assert (described.state, len(described.members), described.error) == ("Stable", 2, NONE)
    assert any(line.startswith("DescribeGroups of g: Stable (2 members: c") for line in watched.told)


def test_a_group_with_members_is_not_deleted() -> None:
    """KIP-229: NON_EMPTY_GROUP."""
    watched = Watched(At(15 * S, GroupDeletion(group="g")))

    assert watched.answer() == ("DeleteGroups", ErrorCode.NON_EMPTY_GROUP, "")
    assert "DeleteGroups of g: refused, NON_EMPTY_GROUP" in watched.told


def test_a_group_without_members_is_deleted_and_a_second_time_not_found() -> None:
    """KIP-229."""
    watched = Watched(EMPTY, At(30 * S, GroupDeletion(group="g")), At(32 * S, GroupDeletion(group="g")), *BACK)

    assert [fact.error for fact in watched.seen(AdminAnswered)] == [NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert {fact.why for fact in watched.seen(PositionSet)[-2:]} == {"reset"}, "its offsets are gone"


def test_members_removed_by_an_admin_come_back_by_themselves() -> None:
    """KIP-571: they are told UNKNOWN_MEMBER_ID, since nobody stopped them."""
    watched = Watched(At(15 * S, MembersExpulsion(group="g")))

    assert watched.answer() == ("LeaveGroup", NONE, "2 members")
    assert len(watched.seen(MemberRemoved)) == 2
    assert len(watched.seen(JoinPhaseCompleted)[-1].members) == 2


def test_an_instance_that_is_not_there_is_not_removed() -> None:
    """KIP-345: the member's own error."""
    watched = Watched(At(15 * S, MembersExpulsion(group="g", instance="nobody")), static=True)

    assert watched.answer() == ("LeaveGroup", ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_offsets_are_not_reset_while_the_group_is_stable() -> None:
    """KIP-122: "Assignments can only be reset if the group is inactive"."""
    watched = Watched(At(15 * S, OffsetsReset(group="g", topic="t", to="earliest")))

    text = "the group is Stable; its members must stop first"
    assert watched.answer() == ("OffsetCommit", ErrorCode.NON_EMPTY_GROUP, text)
    assert f"OffsetCommit of g: refused, NON_EMPTY_GROUP: {text}" in watched.told


@pytest.mark.parametrize(
    ("to", "offset", "expected"),
    [("earliest", 0, {0}), ("offset", 7, {7}), ("shift", -5, None), ("latest", 0, None), ("offset", 1 << 40, None)],
)
def test_members_that_start_again_read_from_where_offsets_were_reset_to(
    to: str, offset: int, expected: set[int] | None
) -> None:
    """KIP-122; what lies beyond the log's end is brought back to it."""
    watched = Watched(EMPTY, At(30 * S, OffsetsReset(group="g", topic="t", to=to, offset=offset)), *BACK)

    api, error, text = watched.answer()
    assert (api, error) == ("OffsetCommit", NONE)
    said = {int(part.rpartition(" ")[2]) for part in text.split(", ")}
    before, after = watched.seen(PositionSet)[:2], watched.seen(PositionSet)[-2:]
    assert {fact.offset for fact in before} == {0}
    assert {fact.offset for fact in after} == said
    assert expected in (None, said)
    if to == "shift":
        assert all(0 < each < 200 for each in said)


def test_offsets_of_a_topic_that_members_read_are_not_deleted() -> None:
    """KIP-496: GROUP_SUBSCRIBED_TO_TOPIC."""
    watched = Watched(At(15 * S, OffsetsDeletion(group="g", topic="t")))

    assert watched.answer()[:2] == ("OffsetDelete", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)


def test_deleted_offsets_make_members_begin_anew() -> None:
    """KIP-496."""
    watched = Watched(EMPTY, At(30 * S, OffsetsDeletion(group="g", topic="t")), *BACK)

    assert watched.answer() == ("OffsetDelete", NONE, "t: 2 partitions")
    assert {fact.why for fact in watched.seen(PositionSet)[-2:]} == {"reset"}


def test_preferred_leaders_are_elected_by_the_controller() -> None:
    """KIP-460; a second time no election is needed, which is no error."""
    watched = Watched(
        At(15 * S, Crash(host="b1", for_us=8 * S)),  # not the controller: a new one looks after preferred leaders soon
        At(50 * S, LeadersElection(topic="t")),
        At(55 * S, LeadersElection(topic="t")),
        replicated=True,
    )

    first, second = watched.seen(AdminAnswered)
    assert (first.error, second.error) == (NONE, NONE)
    assert first.text.startswith("t: 1 of 2") or first.text.startswith("t: 2 of 2")
    assert second.text == "t: 0 of 2 elected"


def test_a_preferred_leader_that_is_down_is_not_elected() -> None:
    """KIP-460: PREFERRED_LEADER_NOT_AVAILABLE."""
    watched = Watched(
        At(15 * S, Crash(host="b0", mode="process", for_us=30 * S)),
        At(35 * S, LeadersElection(topic="t")),
        replicated=True,
    )

    assert watched.answer()[1] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_setting_of_all_brokers_counts_from_their_notification_on() -> None:
    """KIP-226: with min.insync.replicas 3 nothing is acknowledged any more once a broker is out of the ISRs."""
    down = At(15 * S, Crash(host="b2", mode="process", for_us=25 * S))
    altered = At(10 * S, ConfigsAlteration(key="min.insync.replicas", value="3"))

    watched, before = Watched(altered, down, replicated=True), Watched(down, replicated=True)

    assert watched.answer() == ("IncrementalAlterConfigs", NONE, "all brokers: min.insync.replicas=3")
    stuck, going = (
        [
            seen.at_us / S
            for seen in each.watcher.facts
            if type(seen.fact) is RecordsAcknowledged and 28 * S < seen.at_us < 40 * S
        ]
        for each in (watched, before)
    )
    assert stuck == []
    assert len(going) > 100
    assert (replication := watched.result.figures.replication) is not None
    assert sum(replication.under_min_isr_us.values()) > 15 * S


def test_a_topics_setting_is_altered_by_any_broker() -> None:
    """KIP-339."""
    watched = Watched(
        At(20 * S, ConfigsAlteration(topic="t", key="min.insync.replicas", value="2")),
        replicated=True,
    )

    assert watched.answer() == ("IncrementalAlterConfigs", NONE, "t: min.insync.replicas=2")


def test_a_member_subscribes_to_another_topic_and_the_group_rebalances() -> None:
    """Members of a group may subscribe to different topics."""
    watched = Watched(At(20 * S, ChangeSubscription(host="c1", topics=("t", "other"))))

    assert [fault.fired for fault in watched.result.faults] == [1]
    assert len(watched.seen(JoinPhaseCompleted)) >= 2
    topics = {topic for fact in watched.seen(PartitionsAssigned) for topic, _ in fact.added}
    assert topics == {"t", "other"}


def test_a_member_that_unsubscribes_leaves_its_partitions_to_the_others() -> None:
    """``consumer.unsubscribe()`` sends LeaveGroup; its process goes on."""
    watched = Watched(At(20 * S, Unsubscription(host="c1")))

    assert len(watched.seen(JoinPhaseCompleted)[-1].members) == 1
    assert [fact.host for fact in watched.seen(facts.HostDown)] == []


def test_a_member_that_does_not_poll_for_longer_than_it_may_leaves_and_comes_back() -> None:
    """max.poll.interval.ms: its heartbeats go on, so the member leaves by itself, before any session expires."""
    watched = Watched(At(20 * S, PollingStop(host="c1", for_us=15 * S)), config={"max.poll.interval.ms": 8_000})

    assert [len(fact.members) for fact in watched.seen(JoinPhaseCompleted)][-2:] == [1, 2]
    (removed,) = watched.seen(MemberRemoved)
    left_s = next(seen.at_us / S for seen in watched.watcher.facts if type(seen.fact) is MemberRemoved)
    assert removed.client_id == "c1"
    assert 27.9 < left_s < 29, "eight seconds after its last poll"


def test_a_member_that_polls_again_in_time_stays_and_works_nothing_meanwhile() -> None:
    """One member that does not poll from t1 to t2 while it heartbeats: no rebalance."""
    watched = Watched(At(20 * S, PollingStop(host="c1", for_us=15 * S)))

    assert len(watched.seen(JoinPhaseCompleted)) == 1
    worked = [seen.at_us / S for seen in watched.watcher.facts if type(seen.fact) is Processed and seen.actor == "c1"]
    assert [at_s for at_s in worked if 21 < at_s < 35] == []
    assert any(at_s > 35 for at_s in worked)


@pytest.mark.parametrize("callback", ["onPartitionsRevoked", "onPartitionsAssigned"])
def test_a_listener_raises_once(callback: str) -> None:
    """ConsumerCoordinator: what a callback raises, poll() raises; the group goes on."""
    watched = Watched(
        At(20 * S, ListenerFailure(host="c1", callback=callback)), At(25 * S, AddMembers(group="g", count=1))
    )

    (failed,) = watched.seen(ListenerFailed)
    assert (failed.callback, failed.why) == (callback, "a fault of the plan")
    assert f"{callback} of c1 failed: a fault of the plan" in watched.told


def test_a_listener_that_raises_in_onPartitionsLost_is_reported_and_the_member_comes_back() -> None:  # noqa: N802
    """ConsumerCoordinator.onJoinPrepare: the member is fenced while it stands still, loses all, and joins again."""
    watched = Watched(
        At(15 * S, ListenerFailure(host="c1", callback="onPartitionsLost")),
        At(20 * S, Pause(host="c1", for_us=15 * S)),
        config={"session.timeout.ms": 6_000},
    )

    (failed,) = watched.seen(ListenerFailed)
    assert (failed.callback, failed.why) == ("onPartitionsLost", "a fault of the plan")
    assert "onPartitionsLost of c1 failed: a fault of the plan" in watched.told
    assert [len(fact.members) for fact in watched.seen(JoinPhaseCompleted)][-2:] == [1, 2]


def processed_by(watched: Watched, partition: int, from_s: float, to_s: float) -> list[int]:
    """Offsets of a partition of t, in the order in which they were processed then."""
    return [
        offset
        for seen in watched.watcher.facts
        if type(seen.fact) is Processed and seen.fact.partition == partition and from_s < seen.at_us / S < to_s
        for offset in range(seen.fact.first, seen.fact.last)
    ]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_paused_partition_is_not_read_until_it_is_resumed(resumed: bool) -> None:
    """KafkaConsumer.pause(): the member goes on polling; its other partitions go on, no rebalance."""
    early = (At(25 * S, PartitionsResumption(host="c1", partitions=("t-0",))),) if resumed else ()
    watched = Watched(At(15 * S, PartitionsPause(host="c1", partitions=("t-0", "t-1"), for_us=15 * S)), *early)

    assert len(watched.seen(JoinPhaseCompleted)) == 1
    assert processed_by(watched, 0, 16, 25) == []
    assert bool(processed_by(watched, 0, 25, 30)) == resumed
    assert processed_by(watched, 0, 30, 40)
    assert processed_by(watched, 1, 16, 25), "c2's is not paused"


def test_a_member_that_seeks_back_reads_records_again() -> None:
    """KafkaConsumer.seek(): no rebalance; what was processed is processed once more, from there on."""
    watched = Watched(At(20 * S, PositionChange(host="c1", topic="t", partition=0, offset=3)))

    assert [fault.fired for fault in watched.result.faults] == [1]
    assert 3 in processed_by(watched, 0, 0, 20)
    assert 3 in processed_by(watched, 0, 20, 60)
    assert 2 not in processed_by(watched, 0, 20, 60)
    assert len(watched.seen(JoinPhaseCompleted)) == 1


def test_a_member_that_enforces_a_rebalance_gets_one() -> None:
    """KIP-568."""
    watched = Watched(At(20 * S, RebalanceRequest(host="c1")))

    assert len(watched.seen(JoinPhaseCompleted)) == 2


def test_a_member_that_is_to_start_later_waits_for_the_plan() -> None:
    """``start_later`` and start-host: it is declared, and joins when it is started."""
    watched = Watched(At(30 * S, StartHost(host="c2")), overrides={"c2": MemberSpec(start_later=True)})

    assert [len(fact.members) for fact in watched.seen(JoinPhaseCompleted)] == [1, 2]
    started = [seen for seen in watched.watcher.facts if type(seen.fact) is facts.HostStarted]
    assert [seen.at_us / S for seen in started if seen.fact.host == "c2"] == [30.0]


def test_a_refused_setting_is_told_with_the_reason() -> None:
    """IncrementalAlterConfigs of a topic that was deleted: UNKNOWN_TOPIC_OR_PARTITION."""
    watched = Watched(
        At(15 * S, DeleteTopic(topic="other")),
        At(25 * S, ConfigsAlteration(topic="other", key="min.insync.replicas", value="1")),
        replicated=True,
    )

    assert [(fact.api, fact.error) for fact in watched.seen(AdminAnswered)] == [
        ("DeleteTopics", NONE),
        ("IncrementalAlterConfigs", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    refused = "IncrementalAlterConfigs: refused, UNKNOWN_TOPIC_OR_PARTITION"
    assert any(line.startswith(refused) for line in watched.told)


def test_any_live_replica_leads_when_an_unclean_election_is_asked_for() -> None:
    """KIP-460: the last in-sync replicas are gone; before, and without asking, nobody leads."""
    watched = Watched(
        At(20 * S, Isolate(host="b2", for_us=15 * S)),
        At(34 * S, Crash(host="b0", mode="process")),
        At(34 * S, Crash(host="b1", mode="process")),
        At(45 * S, LeadersElection(topic="t", unclean=True)),
        replicated=True,
    )

    (answer,) = watched.seen(AdminAnswered)
    assert (answer.api, answer.error) == ("ElectLeaders", NONE)
    elected = [fact for fact in watched.seen(LeaderElectedForPartition) if fact.topic == "t" and fact.leader == 2]
    assert {fact.partition for fact in elected if fact.strategy == "offline"} == {0, 1}


def test_a_member_that_does_not_run_can_be_told_nothing() -> None:
    """The entry has no effect, and says why."""
    watched = Watched(At(20 * S, RemoveMembers(group="g", count=1)), At(30 * S, Unsubscription(host="c2")))

    assert [fault.fired for fault in watched.result.faults] == [1, 0]
    assert any(line.endswith("c2 unsubscribes: no effect, c2 does not run") for line in watched.told)


KNOWN = Known(brokers=("b0",), members=("c1",), groups=("g",), topics=(("t", 2),), replicated=True, producers=("p1",))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"do": "reset-offsets", "group": "g", "topic": "t", "to": "earlest"}, 'did you mean "earliest"?'),
        ({"do": "reset-offsets", "group": "g", "topic": "t", "to": "offset"}, 'offset: is missing; to = "offset"'),
        (
            {"do": "reset-offsets", "group": "g", "topic": "t", "to": "latest", "offset": 3},
            'offset: does not go with to = "latest"',
        ),
        ({"do": "reset-offsets", "group": "g", "topic": "t", "to": "offset", "offset": -3}, "must not be negative"),
        ({"do": "delete-group", "group": "h"}, 'group: "h" is no group; known: g'),
        ({"do": "alter-configs", "topic": "t", "key": "min.isr", "value": "2"}, "is no setting of topics here"),
        (
            {"do": "alter-configs", "topic": "t", "key": "min.insync.replicas", "value": "two"},
            "must be a whole number of at least 1",
        ),
        ({"do": "subscribe", "host": "c1", "topics": ["tt"]}, 'topics: "tt" is no topic'),
        ({"do": "subscribe", "host": "c1", "topics": []}, "must name at least one"),
        ({"do": "unsubscribe", "host": "b0"}, '"b0" is no member'),
        ({"do": "stop-polling", "host": "c1"}, "for: is missing; a duration is required"),
        (
            {"do": "fail-listener", "host": "c1", "callback": "onPartitionsRevoke"},
            'did you mean "onPartitionsRevoked"?',
        ),
        ({"do": "pause-partitions", "host": "c1", "partitions": ["t-2"]}, '"t-2" is no partition'),
        ({"do": "pause-partitions", "host": "c1", "partitions": ["t-²"]}, '"t-²" is no partition'),
        ({"do": "pause-partitions", "host": "c1", "partitions": ["t-" + "1" * 5_000]}, "is no partition"),
        (
            {"do": "alter-configs", "topic": "t", "key": "min.insync.replicas", "value": "1" * 5_000},
            "must be a whole number of at least 1",
        ),
        ({"do": "resume-partitions", "host": "c1", "partitions": []}, "must name at least one"),
        ({"do": "seek", "host": "c1", "topic": "t", "partition": 2, "offset": 0}, "must be less than t has (2)"),
        ({"do": "delete-grop", "group": "g"}, 'did you mean "delete-group"?'),
    ],
)
def test_what_is_wrong_is_told_with_its_key(given: dict[str, object], message: str) -> None:
    """One clear message, with the nearest name."""
    with pytest.raises(ScenarioError) as caught:
        plan_from_dicts([{"at": "1s", **given}], KNOWN)

    assert message in str(caught.value)


def test_a_limit_may_have_its_name_of_kip_435s_text() -> None:
    """The request has the name of KIP-435's table."""
    asked: list[AlterConfigs] = []
    stage = SimpleNamespace(cluster=SimpleNamespace(alter_configs=asked.append))
    entry = {"at": "1s", "do": "alter-configs", "key": "reassignment.max.parallel.replica.count", "value": "1"}

    (planned,) = plan_from_dicts([entry], KNOWN)
    planned.action.apply(cast(Stage, stage))

    assert [each.key for each in asked] == ["reassignment.max.concurrent.replica.movements"]
    with pytest.raises(ScenarioError, match="must be a whole number of at least 1"):
        plan_from_dicts([{**entry, "value": "0"}], KNOWN)


def test_what_stands_for_nothing_said_is_no_choice_to_offer() -> None:
    """``through`` may be left out; a wrong one is told the two that there are."""
    moves = {"at": "1s", "do": "reassign-partitions", "topic": "t", "to": ["0"], "through": "mail"}
    with pytest.raises(ScenarioError) as caught:
        plan_from_dicts([moves], KNOWN)

    assert '"mail"' in str(caught.value) and "; known: controller, store" in str(caught.value)


def test_a_shift_may_be_negative() -> None:
    """Back by so many records."""
    (entry,) = plan_from_dicts(
        [{"at": "1s", "do": "reset-offsets", "group": "g", "topic": "t", "to": "shift", "offset": -5}], KNOWN
    )

    assert entry.action == OffsetsReset(group="g", topic="t", to="shift", offset=-5)
    assert entry.action.words() == "reset the offsets of g in t by -5"
