"""The admin tool: finding the coordinator, asking again, giving up."""

from collections.abc import Sequence
from typing import Any

import pytest

from kemu.actors.client import DEADLINE
from kemu.actors.clients.admin import Admin
from kemu.actors.machine import Effect, Hangup, LinkDown, Note, Received, Send, StartTimer, StopTimer, TimerFired, Told
from kemu.protocol.commands import (
    AddPartitions,
    Close,
    DeleteGroup,
    DescribeGroup,
    MakeTopic,
    RemoveMember,
    RemoveTopic,
    Start,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from kemu.protocol.messages.control import (
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    MorePartitions,
    NewTopic,
    TopicConfigEntry,
    TopicOutcome,
)
from kemu.protocol.messages.data import BrokerMetadata, Metadata, MetadataReply
from kemu.protocol.messages.group import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsReply,
    FindCoordinator,
    FindCoordinatorReply,
    GroupOutcome,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
)
from kemu.protocol.messages.negotiation import versions_reply
from kemu.protocol.messages.versions import KAFKA_2_3, LATEST, SpokenVersions
from kemu.protocol.notes.groups import AdminAnswered, GroupDescribed

NONE = ErrorCode.NONE
FOUND = FindCoordinatorReply(error=NONE, node_id=1, host="b1/coordinator")


class NoJitter:
    """Chance that leaves every backoff as it is."""

    def below(self, bound: int) -> int:
        return bound // 2


class Bench:
    """An admin that knows b0 and b1; the last request is ``asked``."""

    def __init__(self, versions: SpokenVersions = LATEST, *, describes_consumers: bool = False) -> None:
        self.admin = Admin(
            "admin", ("b0", "b1"), versions=versions, chance=NoJitter(), describes_consumers=describes_consumers
        )
        self.now_us = 0
        self.timers: dict[tuple[str, ...], int] = {}
        self.notes: list[Any] = []
        self.hung_up: list[str] = []
        self.asked: list[Send] = []
        self.step(Told(Start()))

    def step(self, event: Any) -> Sequence[Effect]:
        effects = self.admin.step(self.now_us, event)
        for effect in effects:
            match effect:
                case Send():
                    self.asked.append(effect)
                case Note(fact=fact):
                    self.notes.append(fact)
                case Hangup(peer=peer):
                    self.hung_up.append(peer)
                case StartTimer(key=key, after_us=after_us):
                    self.timers[key] = self.now_us + after_us
                case StopTimer(key=key):
                    self.timers.pop(key, None)
        return effects

    def answer(self, message: object) -> None:
        """Answer the last request."""
        send = self.asked[-1]
        self.step(Received(send.to, 0, send.request_id, send.version, message))

    def wait(self, for_us: int) -> None:
        """Let time pass and timers fire."""
        end_us = self.now_us + for_us
        while self.timers and min(self.timers.values()) <= end_us:
            key = min(self.timers, key=lambda key: (self.timers[key], key))
            self.now_us = self.timers.pop(key)
            self.step(TimerFired(key))
        self.now_us = end_us


def test_a_classic_group_is_described_in_a_second_request_by_brokers_with_the_consumer_protocol():
    """ConsumerGroupDescribe comes first. Source: ``DescribeConsumerGroupsHandler`` 4.0."""
    bench = Bench(describes_consumers=True)
    bench.step(Told(DescribeGroup(group="g")))
    bench.answer(FOUND)
    assert bench.asked[-1].message == ConsumerGroupDescribe(groups=("g",))
    bench.answer(ConsumerGroupDescribeReply(groups=(_consumers(error=ErrorCode.GROUP_ID_NOT_FOUND),)))
    bench.answer(FOUND)
    assert bench.asked[-1].message == DescribeGroups(groups=("g",))


def test_all_members_of_a_consumer_protocol_group_are_removed_static_members_by_their_instances():
    """``KafkaAdminClient.getMembersFromGroup`` 4.0."""
    bench = Bench(describes_consumers=True)
    bench.step(Told(RemoveMember(group="g", instance_id="")))
    bench.answer(FOUND)
    members = (DescribedConsumer(member_id="m1"), DescribedConsumer(member_id="m2", instance_id="i2"))
    bench.answer(ConsumerGroupDescribeReply(groups=(_consumers(members=members),)))
    bench.answer(FOUND)

    left = bench.asked[-1].message
    assert isinstance(left, LeaveGroup)
    assert [(each.member_id, each.instance_id) for each in left.members] == [("m1", None), ("", "i2")]


def _consumers(*, error: ErrorCode = NONE, members: tuple[DescribedConsumer, ...] = ()) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(error=error, group="g", state="Stable", members=members)


def test_a_group_is_described_by_its_coordinator():
    """DescribeGroups."""
    bench = Bench()
    bench.step(Told(DescribeGroup(group="g")))
    assert (bench.asked[-1].to, bench.asked[-1].message) == ("b0", FindCoordinator(key="g"))
    bench.answer(FOUND)
    assert (bench.asked[-1].to, bench.asked[-1].message) == ("b1/coordinator", DescribeGroups(groups=("g",)))

    member = DescribedMember(member_id="c1-1", client_id="c1", client_host="/c1", metadata=b"", assignment=b"")
    group = DescribedGroup(
        error=NONE, group="g", state="Stable", protocol_type="consumer", protocol="range", members=(member,)
    )
    bench.answer(DescribeGroupsReply(groups=(group,)))

    assert bench.notes == [GroupDescribed(group="g", state="Stable", members=("c1-1",), error=NONE)]
    assert set(bench.timers) <= {DEADLINE}, "the client's own may wait for nothing"


@pytest.mark.parametrize("error", [NONE, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_static_member_is_removed_by_its_instance_id(error):
    """KIP-345: batch LeaveGroup with an empty member id; the member's own error counts."""
    bench = Bench()
    bench.step(Told(RemoveMember(group="g", instance_id="i1")))
    bench.answer(FOUND)
    request = bench.asked[-1].message
    assert isinstance(request, LeaveGroup)
    assert request.members == (LeavingMember(instance_id="i1", reason="removed by an admin"),)

    left = LeftMember(member_id="", instance_id="i1", error=error)
    bench.answer(LeaveGroupReply(error=NONE, members=(left,)))

    assert bench.notes == [AdminAnswered(group="g", api="LeaveGroup", error=error, text="" if error else "1 member")]


def test_removing_members_from_a_group_of_an_older_broker_fails_at_once():
    """Kafka 2.3 takes one member id per LeaveGroup, and no instance id: ``NetworkClient.doSend``, versionMismatch."""
    bench = Bench(LATEST.asking())
    bench.step(Told(RemoveMember(group="g", instance_id="i1")))
    bench.answer(versions_reply(KAFKA_2_3))
    bench.answer(FOUND)
    bench.answer(versions_reply(KAFKA_2_3))
    bench.wait(1)

    why = "the broker supports no version of the request: LeaveGroup"
    assert bench.notes == [AdminAnswered(group="g", api="LeaveGroup", error=ErrorCode.UNSUPPORTED_VERSION, text=why)]
    assert not bench.hung_up


@pytest.mark.parametrize("error", [NONE, ErrorCode.NON_EMPTY_GROUP])
def test_a_group_is_deleted_or_the_refusal_is_reported(error):
    """DeleteGroups."""
    bench = Bench()
    bench.step(Told(DeleteGroup(group="g")))
    bench.answer(FOUND)
    assert bench.asked[-1].message == DeleteGroups(groups=("g",))

    bench.answer(DeleteGroupsReply(outcomes=(GroupOutcome(group="g", error=error),)))

    assert bench.notes == [AdminAnswered(group="g", api="DeleteGroups", error=error)]


METADATA = MetadataReply(
    brokers=(BrokerMetadata(node_id=0, host="b0"), BrokerMetadata(node_id=1, host="b1")), controller_id=1, topics=()
)


@pytest.mark.parametrize("error", [NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
@pytest.mark.parametrize(
    ("command", "request_", "reply", "text"),
    [
        (
            MakeTopic(topic="t", partitions=2, configs=(("min.insync.replicas", "2"),)),
            CreateTopics(
                topics=(
                    NewTopic(
                        name="t",
                        num_partitions=2,
                        configs=(TopicConfigEntry(name="min.insync.replicas", value="2"),),
                    ),
                ),
                timeout_ms=30_000,
            ),
            CreateTopicsReply,
            "t: 2 partitions",
        ),
        (
            AddPartitions(topic="t", partitions=1),
            CreatePartitions(topics=(MorePartitions(name="t", count=1),), timeout_ms=30_000),
            CreatePartitionsReply,
            "t: 1 partition",
        ),
        (RemoveTopic(topic="t"), DeleteTopics(topic_names=("t",), timeout_ms=30_000), DeleteTopicsReply, "t"),
    ],
)
def test_topics_are_the_controllers_and_its_answer_is_reported(error, command, request_, reply, text):
    """The controller is looked up, and once more after NOT_CONTROLLER, which means outdated metadata."""
    bench = Bench()
    bench.step(Told(command))
    assert bench.asked[-1].message == Metadata(topics=())
    bench.answer(METADATA)
    assert (bench.asked[-1].to, bench.asked[-1].message) == ("b1/controller", request_)
    bench.answer(reply(topics=(TopicOutcome(name="t", error_code=ErrorCode.NOT_CONTROLLER),)))
    assert bench.notes == []
    bench.wait(100_000)
    assert bench.asked[-1].message == Metadata(topics=())
    bench.answer(METADATA)

    why = "so it is" if error else None
    bench.answer(reply(topics=(TopicOutcome(name="t", error_code=error, error_message=why),)))

    api = type(request_).__name__
    assert bench.notes == [AdminAnswered(group="", api=api, error=error, text=why or text)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
def test_a_coordinator_that_is_not_ready_or_not_it_is_looked_for_again(error):
    """Codes 14, 15, 16, from FindCoordinator and from the coordinator itself."""
    bench = Bench()
    bench.step(Told(DeleteGroup(group="g")))
    bench.answer(FindCoordinatorReply(error=error, node_id=-1, host=""))
    bench.wait(100_000)
    assert (bench.asked[-1].to, len(bench.asked)) == ("b1", 2)
    bench.answer(FOUND)
    bench.answer(DeleteGroupsReply(outcomes=(GroupOutcome(group="g", error=error),)))

    bench.wait(199_999)
    assert len(bench.asked) == 3
    bench.wait(1)

    assert isinstance(bench.asked[-1].message, FindCoordinator)
    assert bench.notes == []


@pytest.mark.parametrize("silent", [True, False])
def test_a_broken_or_silent_connection_is_tried_again_elsewhere(silent):
    """request.timeout.ms hangs up; answers that come later say nothing."""
    bench = Bench()
    bench.step(Told(DescribeGroup(group="g")))
    first = bench.asked[-1]
    if silent:
        bench.wait(30_000_000)
    else:
        bench.step(LinkDown("b0"))
    bench.wait(100_000)

    assert bench.hung_up == (["b0"] if silent else [])
    assert bench.asked[-1].to == "b1"
    bench.step(Received("b0", 0, first.request_id, first.version, FOUND))
    assert bench.asked[-1].to == "b1"


def test_a_task_that_finds_no_coordinator_ends_with_the_api_timeout():
    """default.api.timeout.ms; each command reports its own outcome."""
    bench = Bench()
    for command in (
        DescribeGroup(group="g"),
        DeleteGroup(group="h"),
        RemoveMember(group="g", instance_id="i"),
    ):
        bench.step(Told(command))
    bench.wait(61_000_000)

    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert bench.notes == [
        GroupDescribed(group="g", state="", members=(), error=timed_out),
        AdminAnswered(group="h", api="DeleteGroups", error=timed_out),
        AdminAnswered(group="g", api="LeaveGroup", error=timed_out),
    ]
    assert bench.timers == {}


def test_close_ends_the_tool_and_its_timers():
    """Close."""
    bench = Bench()
    bench.step(Told(DescribeGroup(group="g")))

    bench.step(Told(Close()))

    assert bench.admin.finished and bench.timers == {} and bench.notes == []


def test_the_controller_is_looked_up_once_and_again_when_it_is_another():
    """AdminMetadataManager: it is cached until NOT_CONTROLLER; an answer that names none is not the last."""
    bench = Bench()
    brokers = tuple(BrokerMetadata(node_id=node, host=f"b{node}") for node in (0, 1))
    done = DeleteTopicsReply(topics=(TopicOutcome(error_code=NONE, name="t"),))
    bench.step(Told(RemoveTopic(topic="t")))
    assert bench.asked[-1].message == Metadata(topics=())
    bench.answer(MetadataReply(brokers=brokers, topics=(), controller_id=-1))
    bench.wait(120_000)
    assert [send.message for send in bench.asked[1:]] == [Metadata(topics=())]
    bench.answer(MetadataReply(brokers=brokers, topics=(), controller_id=1))
    assert bench.asked[-1].to == "b1/controller"
    bench.answer(done)

    bench.step(Told(RemoveTopic(topic="t")))
    assert bench.asked[-1].to == "b1/controller", "no question before it"
    bench.answer(DeleteTopicsReply(topics=(TopicOutcome(error_code=ErrorCode.NOT_CONTROLLER, name="t"),)))
    bench.wait(240_000)
    assert bench.asked[-1].message == Metadata(topics=())
    bench.answer(MetadataReply(brokers=(), topics=()))  # from a starting broker
    assert bench.asked[-1].message == Metadata(topics=()), "not the former controller"
    bench.wait(480_000)
    assert bench.asked[-1].message == Metadata(topics=())
    bench.answer(MetadataReply(brokers=brokers, topics=(), controller_id=0))
    bench.wait(120_000)
    assert bench.asked[-1].to == "b0/controller"
    bench.answer(done)

    assert [(note.api, note.error) for note in bench.notes] == [("DeleteTopics", NONE)] * 2
