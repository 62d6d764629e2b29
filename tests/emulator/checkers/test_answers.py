"""Whether what servers answer is so."""

from collections.abc import Callable

import pytest
from attrs import evolve

from kemu.emulator.checkers.answers import Answers
from kemu.emulator.facts import FaultApplied
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    UNCLEAN_ELECTION,
    AlteredIsr,
    AlterIsr,
    AlterIsrReply,
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    ElectLeaders,
    ElectLeadersReply,
    MorePartitions,
    NewIsr,
    NewReplicas,
    NewTopic,
    PartitionOutcome,
    ReassignmentOutcome,
    TopicOutcome,
)
from kemu.protocol.messages.data import (
    FetchedPartition,
    FetchReply,
    NewLeader,
    PartitionMetadata,
    ProducedBatch,
    ProduceReply,
    TopicMetadata,
)
from kemu.protocol.nodes import (
    PartitionState,
    ReplicaAssignment,
    broker_path,
    delete_path,
    state_data,
    state_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.groups import AnswerInjected
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, MetadataCached, NodeWritten
from tests.emulator.checkers.wired import Wired

CONTROLLER = "b0/controller"
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_LEADER, STORAGE = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR


def writes(told: Wired, path: str, data: bytes = b"", version: int = 3) -> None:
    fact = NodeWritten(what="set", path=path, data=data, version=version, zxid=7, client=CONTROLLER)
    told.note("zk", fact)


ROW = PartitionMetadata(partition=0, leader=0, leader_epoch=5, isr=(0, 1), replicas=(1, 0), error=NONE)
TOPIC = TopicMetadata(topic="t", error=NONE, partitions=(ROW,))
CACHED = MetadataCached(live_brokers=(0, 1), topics=(TOPIC,), gone=())
FOLLOWS = BecameFollower(topic="t", partition=0, leader_epoch=5, leader=0, end_offset=0, high_watermark=0)


@pytest.fixture
def told() -> Wired:
    """t-0 is on b1 and b0, led by b0 in epoch 5, in version 3 of its node; all know it, and nothing hits them."""
    story = Wired(Answers)
    for broker in (0, 1):
        writes(story, broker_path(broker))
    writes(story, topic_path("t"), topic_data({0: ReplicaAssignment((1, 0))}))
    writes(story, state_path("t", 0), state_data(PartitionState(0, 5, (0, 1), 1)))
    leads = BecameLeader(topic="t", partition=0, leader_epoch=5, isr=(0, 1), end_offset=0, high_watermark=0, epochs=())
    story.note("b0", leads)
    for host in ("b0", "b1"):
        story.note(host, CACHED)
    story.wait(30)
    return story


def fetched(told: Wired, broker: str, error: ErrorCode, partition: int = 0) -> None:
    told.replies(broker, "c1", FetchReply(partitions=(FetchedPartition(topic="t", partition=partition, error=error),)))


@pytest.mark.parametrize(
    ("broker", "partition", "error", "is_true"),
    [
        ("b1", 0, NOT_LEADER, True),
        ("b0", 0, NOT_LEADER, False),
        ("b1", 0, UNKNOWN, False),
        ("b1", 1, UNKNOWN, True),
        ("b0", 0, STORAGE, False),
        ("b0", 0, ErrorCode.OFFSET_OUT_OF_RANGE, True),
    ],
)
def test_a_broker_says_why_it_serves_no_fetch(
    told: Wired, broker: str, partition: int, error: ErrorCode, is_true: bool
) -> None:
    fetched(told, broker, error, partition)
    fetched(told, "b1", NONE)

    assert told.said() == [] if is_true else ["untrue"]


@pytest.mark.parametrize(
    ("error", "leader", "epoch", "is_true"),
    [
        (NOT_LEADER, 0, 5, True),
        (ErrorCode.FENCED_LEADER_EPOCH, 0, 5, True),
        (NOT_LEADER, 1, 5, False),
        (NOT_LEADER, 0, 6, False),
        (ErrorCode.OFFSET_OUT_OF_RANGE, 0, 5, False),
    ],
)
def test_an_error_names_a_leader_that_was_elected(
    told: Wired, error: ErrorCode, leader: int, epoch: int, is_true: bool
) -> None:
    """KIP-951."""
    named = NewLeader(topic="t", partition=0, leader_id=leader, leader_epoch=epoch, broker=None)
    row = FetchedPartition(topic="t", partition=0, error=error)
    told.replies("b1", "c1", FetchReply(partitions=(row,), new_leaders=(named,)))

    assert told.said() == ([] if is_true else ["untrue"])


@pytest.mark.parametrize(
    ("error", "to", "version", "is_true"),
    [
        (NOT_LEADER, "c1", 16, False),
        (ErrorCode.FENCED_LEADER_EPOCH, "c1", 16, False),
        (NOT_LEADER, "c1", 15, True),
        (NOT_LEADER, "b0", 16, True),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "c1", 16, True),
    ],
)
@pytest.mark.parametrize("broker_follows_in", [None, 5])
def test_an_error_names_the_leader_that_the_broker_knows(
    told: Wired, error: ErrorCode, to: str, version: int, is_true: bool, broker_follows_in: int | None
) -> None:
    """KIP-951. A broker with a replica knows the leader by its replica, too."""
    if broker_follows_in is None:
        writes(told, topic_path("t"), topic_data({0: ReplicaAssignment((0,))}))
    else:
        told.note("b1", evolve(FOLLOWS, leader_epoch=broker_follows_in))
    row = FetchedPartition(topic="t", partition=0, error=error)
    told.replies("b1", to, FetchReply(partitions=(row,)), version=version)

    assert told.said() == ([] if is_true else ["untrue"])


def an_election(told: Wired) -> None:
    writes(told, state_path("t", 0), state_data(PartitionState(1, 6, (0, 1), 1)))


@pytest.mark.parametrize(
    "hinders",
    [
        pytest.param(an_election, id="its metadata is old"),
        pytest.param(lambda told: told.note("b1", evolve(FOLLOWS, leader_epoch=4)), id="its replica is old"),
        pytest.param(lambda told: told.note("b1", evolve(CACHED, topics=(), gone=(("t", 0),))), id="no metadata"),
    ],
)
def test_an_error_need_not_name_a_leader_that_the_broker_does_not_know(
    told: Wired, hinders: Callable[[Wired], None]
) -> None:
    told.note("b1", FOLLOWS)
    hinders(told)
    row = FetchedPartition(topic="t", partition=0, error=NOT_LEADER)
    told.replies("b1", "c1", FetchReply(partitions=(row,)), version=16)

    assert told.said() == []


def test_who_gives_up_an_office_may_say_so_just_before(told: Wired) -> None:
    fetched(told, "b0", NOT_LEADER)
    fact = BecameFollower(topic="t", partition=0, leader_epoch=6, leader=1, end_offset=0, high_watermark=0)
    told.note("b0", fact)
    fetched(told, "b1", UNKNOWN, 1)

    assert told.said() == []


def test_an_error_of_storage_is_believed_once_a_fault_hit_a_disk(told: Wired) -> None:
    told.world(FaultApplied(index=0, kind="fail-log-dir", text="", links=(), lasts=True))
    fetched(told, "b0", STORAGE)

    assert told.said() == []


@pytest.mark.parametrize(("partitions", "said"), [((0,), ["untrue"]), ((0, 1), [])])
def test_a_batch_may_be_refused_long_before_the_others_are_decided(
    told: Wired, partitions: tuple[int, ...], said: list[str]
) -> None:
    rows = tuple(ProducedBatch(topic="t", partition=number, error=NOT_LEADER) for number in partitions)
    told.replies("b0", "p1", ProduceReply(batches=rows))
    fetched(told, "b1", UNKNOWN, 1)

    assert told.said() == said


ASK = AlterIsr(
    broker_id=0,
    broker_epoch=7,
    partitions=(NewIsr(topic_name="t", partition_index=0, leader_epoch=5, new_isr=(0,), current_isr_version=3),),
)


def altered(error: ErrorCode = NONE, isr: tuple[int, ...] = (), leader: int = -1, epoch: int = -1) -> AlterIsrReply:
    row = AlteredIsr(topic_name="t", partition_index=0, error_code=error, leader_id=leader, leader_epoch=epoch, isr=isr)
    return AlterIsrReply(error_code=NONE, partitions=(row,))


@pytest.mark.parametrize(
    ("reply", "is_true"),
    [
        (altered(NONE, (0,), 0, 5), True),
        (altered(NONE, (0, 1), 0, 5), False),
        (altered(NONE, (0,), 0, 4), False),
        (altered(ErrorCode.INELIGIBLE_REPLICA), True),
        (altered(ErrorCode.INELIGIBLE_REPLICA, (0, 1), 0, 5), False),
        (altered(ErrorCode.FENCED_LEADER_EPOCH), False),
        (altered(ErrorCode.INVALID_UPDATE_VERSION), False),
        (AlterIsrReply(error_code=NONE), False),
        (AlterIsrReply(error_code=ErrorCode.NOT_CONTROLLER), True),
        (AlterIsrReply(error_code=ErrorCode.STALE_BROKER_EPOCH), False),
    ],
)
def test_a_leader_hears_what_became_of_the_isrs_that_it_asked_for(
    told: Wired, reply: AlterIsrReply, is_true: bool
) -> None:
    """KIP-497."""
    told.asks("b0", CONTROLLER, ASK)
    told.answers(CONTROLLER, "b0", reply)

    assert told.said() == ([] if is_true else ["untrue"])


def test_what_changed_a_moment_ago_its_controller_need_not_know(told: Wired) -> None:
    writes(told, state_path("t", 0), state_data(PartitionState(0, 5, (0, 1), 1)), version=3)
    told.asks("b0", CONTROLLER, ASK)
    told.answers(CONTROLLER, "b0", altered(ErrorCode.INVALID_UPDATE_VERSION))

    assert told.said() == []


def of_topic(error: ErrorCode, name: str = "t") -> tuple[TopicOutcome, ...]:
    return (TopicOutcome(name=name, error_code=error),)


def of_partition(error: ErrorCode) -> ElectLeadersReply:
    row = PartitionOutcome(topic_name="t", partition_index=0, error_code=error)
    return ElectLeadersReply(replica_election_results=(row,))


def moved(error: ErrorCode, topic: str = "t") -> AlterPartitionReassignmentsReply:
    row = ReassignmentOutcome(topic_name=topic, partition_index=0, error_code=error)
    return AlterPartitionReassignmentsReply(responses=(row,))


CREATE = CreateTopics(topics=(NewTopic(name="t"),))
CREATE_U = CreateTopics(topics=(NewTopic(name="u"),))
GROW = CreatePartitions(topics=(MorePartitions(name="t", count=2),))
DELETE, DELETE_U = DeleteTopics(topic_names=("t",)), DeleteTopics(topic_names=("u",))
ELECT, ELECT_ALL = ElectLeaders(topic_partitions=(("t", 0),)), ElectLeaders(topic_partitions=None)
UNCLEAN = ElectLeaders(election_type=UNCLEAN_ELECTION, topic_partitions=(("t", 0),))
MOVE = AlterPartitionReassignments(partitions=(NewReplicas(topic_name="t", partition_index=0, replicas=(0,)),))


@pytest.mark.parametrize(
    ("request_", "reply", "is_true"),
    [
        (CREATE, CreateTopicsReply(topics=of_topic(ErrorCode.TOPIC_ALREADY_EXISTS)), True),
        (CREATE_U, CreateTopicsReply(topics=of_topic(ErrorCode.TOPIC_ALREADY_EXISTS, "u")), False),
        (CREATE_U, CreateTopicsReply(topics=of_topic(NONE, "u")), False),
        (evolve(CREATE_U, validate_only=True), CreateTopicsReply(topics=of_topic(NONE, "u")), True),
        (evolve(CREATE, validate_only=True), CreateTopicsReply(topics=of_topic(NONE)), False),
        (CREATE_U, CreateTopicsReply(topics=of_topic(ErrorCode.INVALID_PARTITIONS, "u")), True),
        (GROW, CreatePartitionsReply(topics=of_topic(NONE)), False),
        (GROW, CreatePartitionsReply(topics=of_topic(ErrorCode.INVALID_PARTITIONS)), False),
        (GROW, CreatePartitionsReply(topics=of_topic(ErrorCode.REASSIGNMENT_IN_PROGRESS)), True),
        (DELETE, DeleteTopicsReply(topics=of_topic(NONE)), False),
        (DELETE, DeleteTopicsReply(topics=of_topic(UNKNOWN)), False),
        (DELETE_U, DeleteTopicsReply(topics=of_topic(UNKNOWN, "u")), True),
        (ELECT, of_partition(NONE), False),
        (ELECT, of_partition(ErrorCode.ELECTION_NOT_NEEDED), False),
        (ELECT, of_partition(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), True),
        (UNCLEAN, of_partition(ErrorCode.ELECTION_NOT_NEEDED), True),
        (ELECT_ALL, ElectLeadersReply(replica_election_results=()), False),
        (MOVE, moved(NONE), True),
        (MOVE, moved(NONE, "u"), False),
        (MOVE, moved(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS), True),
    ],
)
def test_an_admin_hears_what_is_so(told: Wired, request_: object, reply: object, is_true: bool) -> None:
    told.asks("a1", CONTROLLER, request_)
    told.answers(CONTROLLER, "a1", reply)

    assert told.said() == ([] if is_true else ["untrue"])


def test_a_topic_whose_deletion_is_queued_is_deleted(told: Wired) -> None:
    told.asks("a1", CONTROLLER, DELETE)
    writes(told, delete_path("t"))
    told.answers(CONTROLLER, "a1", DeleteTopicsReply(topics=of_topic(NONE)))

    assert told.said() == []


def test_a_reassignment_that_runs_can_be_cancelled(told: Wired) -> None:
    writes(told, topic_path("t"), topic_data({0: ReplicaAssignment((1, 0), adding=(0,))}))
    told.wait(30)
    told.asks("a1", CONTROLLER, MOVE)
    told.answers(CONTROLLER, "a1", moved(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))

    assert told.said() == ["untrue"]


def test_an_error_that_a_server_was_told_to_answer_is_none_of_its(told: Wired) -> None:
    told.asks("a1", CONTROLLER, ELECT)
    seq = told._seq
    told.note(CONTROLLER, AnswerInjected(api="ElectLeaders", sender="a1", error=NONE))
    told._seq = seq
    told.answers(CONTROLLER, "a1", of_partition(NONE))

    assert told.said() == []
