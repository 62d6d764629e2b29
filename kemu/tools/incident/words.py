"""Kafka's error codes in the words of logs. Source: ``org.apache.kafka.common.protocol.Errors`` (3.9), and the texts of
librdkafka, kafka-python, KafkaJS and franz-go for the same codes.
"""

from collections.abc import Mapping

from kemu.tools.logs.events import Event

REBALANCING = "REBALANCE_IN_PROGRESS"
UNKNOWN_MEMBER = "UNKNOWN_MEMBER_ID"
OLD_GENERATION = "ILLEGAL_GENERATION"
NOT_COORDINATOR = "NOT_COORDINATOR"
LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
ID_REQUIRED = "MEMBER_ID_REQUIRED"
FENCED = "FENCED_INSTANCE_ID"
NO_COMMON_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
UNRELEASED = "UNRELEASED_INSTANCE_ID"
FULL = "GROUP_MAX_SIZE_REACHED"
NOT_ALLOWED = "GROUP_AUTHORIZATION_FAILED"

_WORDS: Mapping[str, tuple[str, ...]] = {
    ID_REQUIRED: ("memberidrequired", "valid member id before", "given member-id", "member id required"),
    FENCED: ("fencedinstance", "instance id has been fenced", "gets fenced", "fenced by", "fenced instance",
             "another consumer with the same group.instance.id"),
    UNRELEASED: ("unreleasedinstance", "unreleased instance", "instance id is still used by another member",
                 "instance id is owned by", "instance id is is owned by"),
    NO_COMMON_PROTOCOL: ("inconsistentgroupprotocol", "inconsistent group protocol", "protocol type is incompatible"),
    FULL: ("groupmaxsize", "reached its max size", "group max size", "already has the configured maximum"),
    NOT_ALLOWED: ("groupauthorization", "not authorized to access group", "group authorization",
                  "not authorized to access this group"),
    LOADING: ("coordinator is loading", "load in progress", "coordinatorload", "loading and hence", "still loading"),
    NOT_COORDINATOR: ("not the correct coordinator", "notcoordinator", "not coordinator", "not a valid coordinator",
                      "not coordinated by this broker",
                      "not started or not valid"),
    NOT_AVAILABLE: ("coordinatornotavailable", "coordinator is not available", "coordinator not available"),
    OLD_GENERATION: ("illegalgeneration", "generation id is not valid", "generation id is not  current",
                     "illegal generation", "generation id is not the current"),
    UNKNOWN_MEMBER: ("unknownmember", "unknown member", "not aware of this member", "member_id was not recognized",
                     "member id is not valid", "not part of an active group",
                     "member is not known in the current generation"),
    REBALANCING: ("rebalance in progress", "is rebalancing", "already rebalancing", "rebalanceinprogress",
                  "undergoing a rebalance", "rebalance for the group is in progress"),
}  # fmt: skip
"""Code -> its texts in lower case; a code's own name counts, too."""


def error_of(event: Event) -> str:
    """The error code that the event's error or reason means; "" without a known code."""
    said = f"{event.error or ''} {event.reason or ''}".lower()
    for code, words in _WORDS.items():
        if code.lower() in said or any(word in said for word in words):
            return code
    return ""


def plural(number: int, noun: str) -> str:
    """A number with its noun: "1 member", "2 members"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
