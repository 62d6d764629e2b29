"""The requests of an admin client's tasks, their targets, and the errors in the answers."""

from collections.abc import Generator, Iterable
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupDescribeReply
from kemu.protocol.messages.control import (
    AlterPartitionReassignmentsReply,
    CreatePartitionsReply,
    CreateTopicsReply,
    DeleteTopicsReply,
    ElectLeadersReply,
    IncrementalAlterConfigsReply,
    ListPartitionReassignmentsReply,
)
from kemu.protocol.messages.data import DeleteRecordsReply, ListOffsetsReply, MetadataReply
from kemu.protocol.messages.group import (
    DeleteGroupsReply,
    DescribeGroupsReply,
    LeaveGroupReply,
    ListGroupsReply,
    OffsetCommitReply,
    OffsetDeleteReply,
    OffsetFetchReply,
)


class Target(StrEnum):
    """The kind of a request's target."""

    COORDINATOR = "coordinator"
    CONTROLLER = "controller"
    ANY = "any"
    ANY_PART = "any controller part"
    """The controller part of any broker, active or not: Kafka 2.8 does not forward such requests."""
    NAMED = "named"


class Ask(NamedTuple):
    """A request and its target; ``name``: the coordinator's group, or the target's address."""

    target: Target
    request: object
    name: str = ""


class TaskRefused(Exception):
    """The error that ends a task."""

    def __init__(self, error: ErrorCode, text: str = "") -> None:
        super().__init__(error.name)
        self.error = error
        self.text = text


Steps: TypeAlias = Generator[Ask, Any, str]
"""A sequence of requests. The generator receives the answer to each request; its result is the report's text."""


def expect(error: ErrorCode, text: str = "") -> None:
    """Raise TaskRefused for any error but NONE."""
    if error is not ErrorCode.NONE:
        raise TaskRefused(error, text)


def counted(partitions: int) -> str:
    """A number of partitions as text."""
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def partitions_of(reply: MetadataReply, topic: str) -> list[int]:
    """The numbers of a topic's partitions; raises TaskRefused."""
    for row in reply.topics:
        if row.topic == topic:
            expect(row.error)
            return [partition.partition for partition in row.partitions]
    raise TaskRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def errors_of(reply: object) -> Iterable[ErrorCode]:
    """All errors in an answer."""
    match reply:
        case LeaveGroupReply(error=error) | ListGroupsReply(error=error) | OffsetFetchReply(error=error):
            return (error,)
        case OffsetDeleteReply(error=error, outcomes=rows):
            return (error, *(row.error for row in rows))
        case DeleteGroupsReply(outcomes=groups):
            return [row.error for row in groups]
        case DescribeGroupsReply(groups=described):
            return [row.error for row in described]
        case ConsumerGroupDescribeReply(groups=consumers):
            return [row.error for row in consumers]
        case OffsetCommitReply(outcomes=commits):
            return [row.error for row in commits]
        case DeleteRecordsReply(partitions=deleted):
            return [row.error for row in deleted]
        case ListOffsetsReply(answers=answers):
            return [row.error for row in answers]
        case MetadataReply(topics=topics):
            return [topic.error for topic in topics]
        case ElectLeadersReply(error_code=error, replica_election_results=elections):
            return (error, *(row.error_code for row in elections))
        case AlterPartitionReassignmentsReply(error_code=error, responses=moved):
            return (error, *(row.error_code for row in moved))
        case ListPartitionReassignmentsReply(error_code=error):
            return (error,)
        case IncrementalAlterConfigsReply(responses=altered):
            return [row.error_code for row in altered]
        case CreateTopicsReply(topics=rows) | CreatePartitionsReply(topics=rows) | DeleteTopicsReply(topics=rows):
            return [row.error_code for row in rows]
        case _:
            raise AssertionError(f"nothing answers with {reply}")
