"""Reasons for rejoining or leaving, in the words of Kafka's consumer logs. Requests contain a reason since 3.2
(KIP-800).

Source: ``AbstractCoordinator`` and ``ConsumerCoordinator`` 3.4.1; the words are the same through 4.1.
"""

from types import MappingProxyType
from typing import Final

from kemu.actors.consumer.state import Generation, MemberState
from kemu.protocol.errors import ErrorCode

REASON_LIMIT: Final = 255
"""The longest reason in a request, in characters. Source: Kafka's ``JoinGroupRequest.maybeTruncateReason``."""

ALREADY_REBALANCING: Final = "group is already rebalancing"
COMMIT_WHILE_REBALANCING: Final = "offset commit failed since group is already rebalancing"
METADATA_CHANGED: Final = "cached metadata has changed"
SUBSCRIPTION_CHANGED: Final = "subscription has changed"
NOT_SUBSCRIBED: Final = "received assignment does not match the current subscription"
LEAVING: Final = "consumer pro-actively leaving the group"
"""The reason to rejoin after leaving; LeaveGroup has the reason for leaving."""
CLOSED: Final = "the consumer is being closed"
UNSUBSCRIBED: Final = "the consumer unsubscribed from all topics"
POLL_TIMEOUT: Final = "consumer poll timeout has expired."
UNJOINED: Final = "UnjoinedGroupException"

_API_KEYS = MappingProxyType(
    {
        "JoinGroup": "JOIN_GROUP",
        "SyncGroup": "SYNC_GROUP",
        "Heartbeat": "HEARTBEAT",
        "OffsetCommit": "OFFSET_COMMIT",
    }
)
_EXCEPTIONS = MappingProxyType(
    {
        ErrorCode.NETWORK_EXCEPTION: "DisconnectException",
        ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
        ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    }
)


def on_the_wire(reason: str) -> str:
    """The reason, truncated to the limit of a request."""
    return reason[:REASON_LIMIT]


def encountered(api: str, error: ErrorCode) -> str:
    """The reason after an answer that reported an invalid membership (``resetStateOnResponseError``)."""
    return f"encountered {error.name} from {_API_KEYS.get(api, api)} response"


def exception_of(error: ErrorCode) -> str:
    """The simple name of the exception that Kafka's client makes of an error."""
    return _EXCEPTIONS.get(error) or "".join(part.capitalize() for part in error.name.split("_")) + "Exception"


def rebalance_failed(exception: str) -> str:
    """The reason after a failed join (``joinGroupIfNeeded``)."""
    return f"rebalance failed due to {exception}"


def given_id(member_id: str) -> str:
    """The reason after MEMBER_ID_REQUIRED since 3.7 (``ClientRules.names_the_given_id``)."""
    return f"need to re-join with the given member-id: {member_id}"


def overtaken_by_reset(generation: Generation, state: MemberState) -> str:
    """The reason after the heartbeat thread reset the membership between the answer and the next poll."""
    protocol = generation.protocol or "null"
    said = f"Generation{{generationId={generation.id}, memberId='{generation.member_id}', protocol='{protocol}'}}"
    return (
        f"rebalance failed since the generation/state was modified by heartbeat thread to {said}/{state.value} "
        "before the rebalance callback triggered"
    )
