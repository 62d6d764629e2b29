"""The first request of a client on each connection, for the request versions that the broker supports (KIP-35).

A broker supports all versions up to its release. A client uses the highest common version.
Source: ``ApiVersionsRequest``, ``NodeApiVersions.latestUsableVersion``.
"""

from collections.abc import Mapping

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import LeaveGroup, OffsetFetch
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.wire.schema import MESSAGES, REPLY, REQUEST, Kind, message, struct

NEGOTIATION_VERSION = 2
"""The version of emulated clients' ApiVersions. Kafka 2.4's v3 adds the name of the client's software, which kemu does
not use.
"""


_STABLE_SINCE, _BATCH_SINCE = 7, 3


@message(api_key=18, kind=REQUEST, versions=range(0, 4))
class ApiVersions:
    """Client -> broker: the first request on a connection."""


@struct
class ApiVersionRange:
    """The versions of one API, from the lowest to the highest supported version."""

    api_key: int
    min_version: int
    max_version: int


@message(api_key=18, kind=REPLY, versions=range(0, 4))
class ApiVersionsReply:
    """The reply to ApiVersions: one row per API whose versions differ between releases in kemu. Brokers support all
    versions of other APIs.
    """

    error: ErrorCode
    api_keys: tuple[ApiVersionRange, ...]


def versions_reply(versions: SpokenVersions) -> ApiVersionsReply:
    """The reply of a broker whose release has these versions, in the order of the keys."""
    rows = [
        ApiVersionRange(api_key=spec.api_key, min_version=spec.versions[0], max_version=versions.requests[spec.name])
        for spec in MESSAGES.values()
        if spec.kind is Kind.REQUEST and spec.name in versions.requests
    ]
    return ApiVersionsReply(error=ErrorCode.NONE, api_keys=tuple(sorted(rows, key=_key)))


def highest_of(reply: ApiVersionsReply) -> Mapping[int, int]:
    """API key -> the highest version that the broker supports."""
    return {row.api_key: row.max_version for row in reply.api_keys}


def built_for(message: object, version: int) -> object | None:
    """A request in the form of an older version; None if the older version cannot express the request.

    Source: ``OffsetFetchRequest.Builder.build`` (drops the flag), ``LeaveGroupRequest.Builder.build`` (one member, only
    by its id).
    """
    if isinstance(message, OffsetFetch) and version < _STABLE_SINCE:
        return OffsetFetch(group=message.group, topics=message.topics)
    if isinstance(message, LeaveGroup) and version < _BATCH_SINCE and message.members:
        (first, *more) = message.members
        is_one = not more and first.instance_id is None
        return LeaveGroup(group=message.group, member_id=first.member_id) if is_one else None
    return message


def _key(row: ApiVersionRange) -> int:
    return row.api_key
