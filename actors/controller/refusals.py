"""What a broker that does not control answers to requests for the controller."""

from typing import Any

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    ControlledShutdown,
    ControlledShutdownReply,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    ElectLeaders,
    ElectLeadersReply,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    PartitionOutcome,
    TopicOutcome,
)


def refusal(request: Any) -> Any:
    """NOT_CONTROLLER, in the shape of the request's reply."""
    error = ErrorCode.NOT_CONTROLLER
    match request:
        case ControlledShutdown():
            return ControlledShutdownReply(error_code=error, remaining_partitions=())
        case CreateTopics(topics=topics):
            return CreateTopicsReply(topics=tuple(TopicOutcome(name=each.name, error_code=error) for each in topics))
        case CreatePartitions(topics=topics):
            rows = tuple(TopicOutcome(name=each.name, error_code=error) for each in topics)
            return CreatePartitionsReply(topics=rows)
        case DeleteTopics(topic_names=names):
            return DeleteTopicsReply(topics=tuple(TopicOutcome(name=name, error_code=error) for name in names))
        case IncrementalAlterConfigs(changes=changes):
            names = tuple(dict.fromkeys(change.topic for change in changes))
            rows = tuple(TopicOutcome(name=name, error_code=error) for name in names)
            return IncrementalAlterConfigsReply(topics=rows)
        case ElectLeaders(topic_partitions=asked):
            outcomes = tuple(
                PartitionOutcome(topic_name=topic, partition_index=number, error_code=error)
                for topic, number in asked or ()
            )
            return ElectLeadersReply(error_code=error, replica_election_results=outcomes)
        case _:
            raise AssertionError(f"nobody waits for an answer to {request}")
