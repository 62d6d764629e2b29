"""Kafka's error codes: their numbers and meanings, and the conclusions that a client may draw from them.

``retriable``: Kafka's own flag (the exception extends RetriableException): the same request may succeed later.
``definite``: the request certainly had no effect. After an indefinite error the sender does not know whether the
request took effect, as in Maelstrom. Only indefinite errors can hide a successful write.

Source: Kafka 3.9 ``Errors``.
"""

from enum import IntEnum

from kemu.protocol.frozen import frozen


@frozen
class Meaning:
    """The properties of an error code besides its name and number."""

    retriable: bool
    definite: bool
    text: str


class ErrorCode(IntEnum):
    """The error codes in answers of emulated components; names and numbers are Kafka's."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    NOT_CONTROLLER = 41
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    REASSIGNMENT_IN_PROGRESS = 60
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    INELIGIBLE_REPLICA = 107
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    INVALID_REGULAR_EXPRESSION = 128

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return MEANING[self].retriable

    @property
    def definite(self) -> bool:
        """Whether the request certainly had no effect."""
        return MEANING[self].definite


_E = ErrorCode
_RETRY, _GIVE_UP = True, False
_NO_EFFECT, _UNKNOWN_EFFECT = True, False

MEANING: dict[ErrorCode, Meaning] = {
    _E.UNKNOWN_SERVER_ERROR: Meaning(_GIVE_UP, _UNKNOWN_EFFECT, "an unexpected error of the server"),
    _E.NONE: Meaning(_GIVE_UP, _UNKNOWN_EFFECT, "done"),
    _E.OFFSET_OUT_OF_RANGE: Meaning(_GIVE_UP, _NO_EFFECT, "the offset is outside the partition's log"),
    _E.UNKNOWN_TOPIC_OR_PARTITION: Meaning(_RETRY, _NO_EFFECT, "this broker does not host the partition"),
    _E.LEADER_NOT_AVAILABLE: Meaning(_RETRY, _NO_EFFECT, "the partition has no leader at the moment"),
    _E.NOT_LEADER_OR_FOLLOWER: Meaning(_RETRY, _NO_EFFECT, "the broker is not the partition's leader"),
    _E.REQUEST_TIMED_OUT: Meaning(_RETRY, _UNKNOWN_EFFECT, "no answer in time"),
    _E.BROKER_NOT_AVAILABLE: Meaning(_GIVE_UP, _NO_EFFECT, "the broker is not alive"),
    _E.REPLICA_NOT_AVAILABLE: Meaning(_RETRY, _NO_EFFECT, "the replica is not on this broker"),
    _E.MESSAGE_TOO_LARGE: Meaning(_GIVE_UP, _NO_EFFECT, "larger than the broker accepts"),
    _E.STALE_CONTROLLER_EPOCH: Meaning(_GIVE_UP, _NO_EFFECT, "a newer controller is active"),
    _E.OFFSET_METADATA_TOO_LARGE: Meaning(_GIVE_UP, _NO_EFFECT, "the commit's metadata is too long"),
    _E.NETWORK_EXCEPTION: Meaning(_RETRY, _UNKNOWN_EFFECT, "the connection broke before the answer"),
    _E.COORDINATOR_LOAD_IN_PROGRESS: Meaning(_RETRY, _NO_EFFECT, "the coordinator is still loading its log"),
    _E.COORDINATOR_NOT_AVAILABLE: Meaning(_RETRY, _NO_EFFECT, "there is no coordinator at the moment"),
    _E.NOT_COORDINATOR: Meaning(_RETRY, _NO_EFFECT, "another broker coordinates the group"),
    _E.INVALID_TOPIC_EXCEPTION: Meaning(_GIVE_UP, _NO_EFFECT, "not a legal topic name"),
    _E.RECORD_LIST_TOO_LARGE: Meaning(_GIVE_UP, _NO_EFFECT, "the batch is larger than a segment"),
    _E.NOT_ENOUGH_REPLICAS: Meaning(_RETRY, _NO_EFFECT, "fewer in-sync replicas than required"),
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Meaning(_RETRY, _UNKNOWN_EFFECT, "appended, but to too few replicas"),
    _E.INVALID_REQUIRED_ACKS: Meaning(_GIVE_UP, _NO_EFFECT, "acks must be -1, 0 or 1"),
    _E.ILLEGAL_GENERATION: Meaning(_GIVE_UP, _NO_EFFECT, "the generation is not the group's"),
    _E.INCONSISTENT_GROUP_PROTOCOL: Meaning(_GIVE_UP, _NO_EFFECT, "no protocol in common with the group"),
    _E.INVALID_GROUP_ID: Meaning(_GIVE_UP, _NO_EFFECT, "not a legal group id"),
    _E.UNKNOWN_MEMBER_ID: Meaning(_GIVE_UP, _NO_EFFECT, "the coordinator does not know the member"),
    _E.INVALID_SESSION_TIMEOUT: Meaning(_GIVE_UP, _NO_EFFECT, "outside the broker's limits"),
    _E.REBALANCE_IN_PROGRESS: Meaning(_GIVE_UP, _NO_EFFECT, "the group is rebalancing: rejoin"),
    _E.INVALID_COMMIT_OFFSET_SIZE: Meaning(_GIVE_UP, _NO_EFFECT, "the commit does not fit into a record"),
    _E.TOPIC_AUTHORIZATION_FAILED: Meaning(_GIVE_UP, _NO_EFFECT, "no access to the topic"),
    _E.GROUP_AUTHORIZATION_FAILED: Meaning(_GIVE_UP, _NO_EFFECT, "no access to the group"),
    _E.UNSUPPORTED_VERSION: Meaning(_GIVE_UP, _NO_EFFECT, "the version of the request is not supported"),
    _E.TOPIC_ALREADY_EXISTS: Meaning(_GIVE_UP, _NO_EFFECT, "the topic exists already"),
    _E.INVALID_PARTITIONS: Meaning(_GIVE_UP, _NO_EFFECT, "the number of partitions is invalid"),
    _E.INVALID_REPLICATION_FACTOR: Meaning(_GIVE_UP, _NO_EFFECT, "more replicas than brokers, or none"),
    _E.INVALID_REPLICA_ASSIGNMENT: Meaning(_GIVE_UP, _NO_EFFECT, "the replicas named are invalid"),
    _E.NOT_CONTROLLER: Meaning(_RETRY, _NO_EFFECT, "another broker is the controller"),
    _E.INVALID_CONFIG: Meaning(_GIVE_UP, _NO_EFFECT, "a setting is unknown or its value is not allowed"),
    _E.INVALID_REQUEST: Meaning(_GIVE_UP, _NO_EFFECT, "the request is invalid"),
    _E.POLICY_VIOLATION: Meaning(_GIVE_UP, _NO_EFFECT, "the request breaks a policy of the cluster"),
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: Meaning(_GIVE_UP, _NO_EFFECT, "a batch is missing before this one"),
    _E.DUPLICATE_SEQUENCE_NUMBER: Meaning(_GIVE_UP, _UNKNOWN_EFFECT, "the batch was appended before"),
    _E.INVALID_PRODUCER_EPOCH: Meaning(_GIVE_UP, _NO_EFFECT, "the producer wrote with a newer epoch already"),
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning(_GIVE_UP, _NO_EFFECT, "transactions are not permitted"),
    _E.OPERATION_NOT_ATTEMPTED: Meaning(_GIVE_UP, _NO_EFFECT, "another operation must complete first"),
    _E.KAFKA_STORAGE_ERROR: Meaning(_RETRY, _UNKNOWN_EFFECT, "the disk failed"),
    _E.REASSIGNMENT_IN_PROGRESS: Meaning(_GIVE_UP, _NO_EFFECT, "a partition of the topic is being reassigned"),
    _E.NON_EMPTY_GROUP: Meaning(_GIVE_UP, _NO_EFFECT, "the group has members"),
    _E.GROUP_ID_NOT_FOUND: Meaning(_GIVE_UP, _NO_EFFECT, "no such group"),
    _E.FETCH_SESSION_ID_NOT_FOUND: Meaning(
        _RETRY, _NO_EFFECT, "the broker has evicted the fetch session, or restarted"
    ),
    _E.INVALID_FETCH_SESSION_EPOCH: Meaning(_RETRY, _NO_EFFECT, "not the next fetch of the session"),
    _E.TOPIC_DELETION_DISABLED: Meaning(_GIVE_UP, _NO_EFFECT, "delete.topic.enable is false"),
    _E.FENCED_LEADER_EPOCH: Meaning(_RETRY, _NO_EFFECT, "the leader epoch is older than the broker's"),
    _E.UNKNOWN_LEADER_EPOCH: Meaning(_RETRY, _NO_EFFECT, "the leader epoch is newer than the broker's"),
    _E.STALE_BROKER_EPOCH: Meaning(_GIVE_UP, _NO_EFFECT, "sent to a former registration of the broker"),
    _E.OFFSET_NOT_AVAILABLE: Meaning(_RETRY, _NO_EFFECT, "the new leader does not know the committed offset yet"),
    _E.MEMBER_ID_REQUIRED: Meaning(_GIVE_UP, _NO_EFFECT, "rejoin with this member id"),
    _E.PREFERRED_LEADER_NOT_AVAILABLE: Meaning(_RETRY, _NO_EFFECT, "the preferred replica is not alive and in sync"),
    _E.GROUP_MAX_SIZE_REACHED: Meaning(_GIVE_UP, _NO_EFFECT, "the group is full"),
    _E.FENCED_INSTANCE_ID: Meaning(_GIVE_UP, _NO_EFFECT, "another member took this instance id"),
    _E.ELIGIBLE_LEADERS_NOT_AVAILABLE: Meaning(_RETRY, _NO_EFFECT, "no replica is eligible as leader"),
    _E.ELECTION_NOT_NEEDED: Meaning(_RETRY, _NO_EFFECT, "the leader is already the wanted one"),
    _E.NO_REASSIGNMENT_IN_PROGRESS: Meaning(_GIVE_UP, _NO_EFFECT, "the partition is not being reassigned"),
    _E.GROUP_SUBSCRIBED_TO_TOPIC: Meaning(_GIVE_UP, _NO_EFFECT, "the group still consumes the topic"),
    _E.UNSTABLE_OFFSET_COMMIT: Meaning(_RETRY, _NO_EFFECT, "a transaction on the offset is still open"),
    _E.INVALID_UPDATE_VERSION: Meaning(_GIVE_UP, _NO_EFFECT, "the version has changed meanwhile"),
    _E.UNKNOWN_TOPIC_ID: Meaning(_RETRY, _NO_EFFECT, "no topic has this id, as far as the broker knows"),
    _E.INCONSISTENT_TOPIC_ID: Meaning(_RETRY, _NO_EFFECT, "the log belongs to another topic of this name"),
    _E.INELIGIBLE_REPLICA: Meaning(_GIVE_UP, _NO_EFFECT, "a replica is not eligible for the ISR"),
    _E.FENCED_MEMBER_EPOCH: Meaning(_GIVE_UP, _NO_EFFECT, "the member's epoch is not the coordinator's: rejoin"),
    _E.UNRELEASED_INSTANCE_ID: Meaning(_GIVE_UP, _NO_EFFECT, "another member still uses the instance id"),
    _E.UNSUPPORTED_ASSIGNOR: Meaning(_GIVE_UP, _NO_EFFECT, "the broker has no such assignor"),
    _E.STALE_MEMBER_EPOCH: Meaning(_GIVE_UP, _NO_EFFECT, "the member's epoch changed: rejoin or retry"),
    _E.INVALID_REGULAR_EXPRESSION: Meaning(_GIVE_UP, _NO_EFFECT, "the pattern is not a regular expression"),
}
"""The properties of every error code; ``tests/protocol/test_errors.py`` compares the table with the enum."""
