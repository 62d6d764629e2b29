"""Error codes: names and numbers are Kafka's, and every one has its meaning."""

import pytest

from kemu.protocol.errors import MEANING, ErrorCode

KAFKAS = {
    "NONE": 0,
    "UNKNOWN_SERVER_ERROR": -1,
    "OFFSET_OUT_OF_RANGE": 1,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "BROKER_NOT_AVAILABLE": 8,
    "STALE_CONTROLLER_EPOCH": 11,
    "TOPIC_ALREADY_EXISTS": 36,
    "INVALID_PARTITIONS": 37,
    "INVALID_REPLICATION_FACTOR": 38,
    "INVALID_REPLICA_ASSIGNMENT": 39,
    "INVALID_CONFIG": 40,
    "REASSIGNMENT_IN_PROGRESS": 60,
    "STALE_BROKER_EPOCH": 77,
    "OFFSET_NOT_AVAILABLE": 78,
    "PREFERRED_LEADER_NOT_AVAILABLE": 80,
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": 83,
    "ELECTION_NOT_NEEDED": 84,
    "NO_REASSIGNMENT_IN_PROGRESS": 85,
    "REPLICA_NOT_AVAILABLE": 9,
    "MESSAGE_TOO_LARGE": 10,
    "OFFSET_METADATA_TOO_LARGE": 12,
    "NETWORK_EXCEPTION": 13,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "ILLEGAL_GENERATION": 22,
    "INCONSISTENT_GROUP_PROTOCOL": 23,
    "INVALID_GROUP_ID": 24,
    "UNKNOWN_MEMBER_ID": 25,
    "INVALID_SESSION_TIMEOUT": 26,
    "REBALANCE_IN_PROGRESS": 27,
    "INVALID_COMMIT_OFFSET_SIZE": 28,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "UNSUPPORTED_VERSION": 35,
    "NON_EMPTY_GROUP": 68,
    "GROUP_ID_NOT_FOUND": 69,
    "MEMBER_ID_REQUIRED": 79,
    "GROUP_MAX_SIZE_REACHED": 81,
    "FENCED_INSTANCE_ID": 82,
    "GROUP_SUBSCRIBED_TO_TOPIC": 86,
    "UNSTABLE_OFFSET_COMMIT": 88,
}


@pytest.mark.parametrize(("name", "number"), KAFKAS.items())
def test_codes_have_kafkas_names_and_numbers(name: str, number: int):
    """Source: Kafka 3.9, Errors."""
    assert ErrorCode[name] == number


def test_another_clients_table_agrees():
    """kafka-python carries a table of its own: same numbers, same retriable flags, and six names that differ."""
    table = pytest.importorskip("kafka.errors").kafka_errors
    older = {
        "UNKNOWN_SERVER_ERROR": "UNKNOWN",
        "NONE": "NO_ERROR",
        "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
        "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
        "INVALID_REPLICA_ASSIGNMENT": "INVALID_REPLICATION_ASSIGNMENT",
    }
    for code in ErrorCode:
        if code is ErrorCode.INVALID_REGULAR_EXPRESSION and code.value not in table:  # of Kafka 4.0
            continue
        theirs = table[code.value]
        assert theirs.message == older.get(code.name, code.name)
        assert bool(theirs.retriable) == code.retriable, code


def test_the_table_covers_the_codes_exactly():
    """A code without a meaning would fail only when somebody asks for it."""
    assert set(MEANING) == set(ErrorCode)
    for code, meaning in MEANING.items():
        assert meaning.text
        assert (code.retriable, code.definite) == (meaning.retriable, meaning.definite)


def test_retriable_is_kafkas_flag():
    """Those of our codes whose exception extends RetriableException, and no other."""
    assert [code.name for code in ErrorCode if code.retriable] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_CONTROLLER",
        "KAFKA_STORAGE_ERROR",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "UNSTABLE_OFFSET_COMMIT",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
    ]


def test_only_errors_that_may_hide_a_write_are_indefinite():
    """Maelstrom's question: after this error, may the request have had its effect all the same?"""
    assert [code.name for code in ErrorCode if not code.definite] == [
        "UNKNOWN_SERVER_ERROR",
        "NONE",
        "REQUEST_TIMED_OUT",
        "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "DUPLICATE_SEQUENCE_NUMBER",
        "KAFKA_STORAGE_ERROR",
    ]
