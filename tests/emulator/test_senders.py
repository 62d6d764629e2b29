"""Every request that the protocol has is sent by somebody in a run; one that nobody sends is a dead room."""

from types import ModuleType
from typing import Any

import attrs
import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.network import Packet
from kemu.emulator.plan.actions import (
    CloseHost,
    ConfigsAlteration,
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    GroupDeletion,
    GroupDescription,
    GroupsListing,
    GrowTopic,
    OffsetsDeletion,
    OffsetsReset,
    PartitionsReassignment,
    ReassignmentsListing,
    RecordsDeletion,
    RemoveMembers,
    StartHost,
)
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import Run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.protocol.messages import consumer_group, control, data, group
from kemu.protocol.wire.schema import SPECS, Kind

S = 1_000_000

SENT_BY: dict[type, str] = {
    group.FindCoordinator: "a member that starts",
    group.JoinGroup: "a member that starts",
    group.SyncGroup: "a member that starts",
    group.Heartbeat: "a member",
    group.LeaveGroup: "a member that closes",
    group.OffsetCommit: "a member",
    group.OffsetFetch: "a member that starts",
    group.OffsetDelete: "delete-offsets",
    group.DescribeGroups: "describe-group",
    group.ListGroups: "list-groups",
    group.DeleteGroups: "delete-group",
    data.Metadata: "every client",
    data.Produce: "a producer",
    data.Fetch: "a member, a follower",
    data.ListOffsets: "reset-offsets",
    data.DeleteRecords: "delete-records",
    control.LeaderAndIsr: "the controller",
    control.UpdateMetadata: "the controller",
    control.StopReplica: "the controller when a topic is deleted",
    control.ControlledShutdown: "a broker that closes",
    control.OffsetForLeaderEpoch: "a follower of a new leader, to 2.6",
    control.CreateTopics: "create-topic",
    control.CreatePartitions: "grow-topic",
    control.DeleteTopics: "delete-topic",
    control.ElectLeaders: "elect-preferred-leaders",
    control.IncrementalAlterConfigs: "alter-configs",
    control.AlterIsr: "a leader whose ISR changes",
    control.AlterPartitionReassignments: "reassign-partitions",
    control.ListPartitionReassignments: "list-reassignments",
    consumer_group.ConsumerGroupHeartbeat: "a member of the consumer protocol",
    consumer_group.ConsumerGroupDescribe: "describe-group, of the consumer protocol",
}
"""Request -> who sends it; an action of a plan by its kind. A new one needs a row, and what it names in ``PLAN``."""
FROM_OUTSIDE = {
    data.InitProducerId: "a producer of a real client",
    control.DescribeConfigs: "an admin of a real client",
    control.DescribeCluster: "an admin of a real client",
}
"""Request that no emulated actor sends -> who sends it."""

PLAN = (
    At(10 * S, GroupsListing()),
    At(10 * S, GroupDescription(group="g")),
    At(12 * S, RemoveMembers(group="g", count=2)),
    At(15 * S, OffsetsReset(group="g", topic="t", to="earliest")),
    At(17 * S, OffsetsDeletion(group="g", topic="t")),
    At(19 * S, GroupDeletion(group="g")),
    At(20 * S, CreateTopic(topic="new", partitions=2)),
    At(22 * S, GrowTopic(topic="new", partitions=3)),
    At(23 * S, ConfigsAlteration(topic="new", key="min.insync.replicas", value="2")),
    At(23 * S, PartitionsReassignment(topic="t", to=("2", "1", "0"))),
    At(23 * S, ReassignmentsListing()),
    At(24 * S, RecordsDeletion(topic="t", before=5)),
    At(24 * S, DeleteTopic(topic="new")),
    At(26 * S, CloseHost(host="b1")),
    At(32 * S, StartHost(host="b1")),
    At(38 * S, ElectPreferredLeaders()),
)


def requests_of(module: ModuleType) -> set[type]:
    """The request classes that a module declares."""
    return {cls for cls, spec in SPECS.items() if spec.kind is Kind.REQUEST and cls.__module__ == module.__name__}


@pytest.fixture(scope="module")
def sent() -> set[type]:
    """What was sent in small replicated clusters of two releases under the plan."""
    made = Scenario(
        name="senders",
        duration_us=45 * S,
        brokers=BrokersSpec(
            count=3,
            replication=ReplicationSpec(session_us=6 * S, lag_us=6 * S),
            config={"offsets.topic.num.partitions": 1},
        ),
        topics={"t": TopicSpec(partitions=3, records_per_s=6)},
        groups={"g": GroupSpec(topics=("t",), members=2)},
        plan=PLAN,
    )
    kinds: set[type] = set()

    def watch(packet: Packet, message: Any) -> None:
        kinds.add(type(message))

    for profile in ("kafka-3.4", "kafka-2.6"):
        started = Run(attrs.evolve(made, profile=profile), seed=1)
        started.world.watch_sends = watch
        assert not started.run_with(lambda world, _: run_plain(world, made.duration_us))
        assert started.injector.counts() == [1] * len(PLAN)
    described = Scenario(
        name="consumers",
        duration_us=15 * S,
        topics={"t": TopicSpec(partitions=3, records_per_s=6)},
        groups={"g": GroupSpec(topics=("t",), members=2, config={"group.protocol": "consumer"})},
        plan=(At(10 * S, GroupDescription(group="g")),),
        profile="kafka-4.0",
    )
    started = Run(described, seed=1)
    started.world.watch_sends = watch
    assert not started.run_with(lambda world, _: run_plain(world, described.duration_us))
    return kinds


@pytest.mark.parametrize("module", [group, data, control, consumer_group])
def test_every_request_has_a_row_that_says_who_sends_it(module: ModuleType) -> None:
    """A message that is added here without a sender fails this."""
    declared = requests_of(module)

    assert declared
    assert {cls for cls in (*SENT_BY, *FROM_OUTSIDE) if cls.__module__ == module.__name__} == declared


@pytest.mark.parametrize("request_", SENT_BY, ids=lambda cls: cls.__name__)
def test_every_request_is_sent_in_a_run(request_: type, sent: set[type]) -> None:
    """The row is true."""
    assert request_ in sent, f"{request_.__name__} was to be sent by: {SENT_BY[request_]}"
