"""What a client asks first on each connection: which versions of which requests does this broker speak? KIP-35.

Each release's broker speaks older versions, too, and none that came later: a client takes the highest that both have.
Source: ``ApiVersionsRequest``, ``NodeApiVersions.latestUsableVersion``.
"""

from collections.abc import Mapping

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import LeaveGroup, OffsetFetch
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.wire.schema import MESSAGES, REPLY, REQUEST, Kind, message, struct

NEGOTIATION_VERSION = 2
"""What clients ask in. Kafka 2.4 made a v3 with names of the client's software, which nobody here would read."""


_STABLE_SINCE, _BATCH_SINCE = 7, 3


@message(api_key=18, kind=REQUEST, versions=range(0, 3))
class ApiVersions:
    """Client -> broker, before anything else on a connection."""


@struct
class ApiVersionRange:
    """The versions of one API, both included."""

    api_key: int
    min_version: int
    max_version: int


@message(api_key=18, kind=REPLY, versions=range(0, 3))
class ApiVersionsReply:
    """One row per API whose versions differ between releases here; of any other, whatever there is goes."""

    error: ErrorCode
    api_keys: tuple[ApiVersionRange, ...]


def told_of(versions: SpokenVersions) -> ApiVersionsReply:
    """What a broker of a release that speaks these says, in the order of the keys."""
    rows = [
        ApiVersionRange(api_key=spec.api_key, min_version=spec.versions[0], max_version=versions.requests[spec.name])
        for spec in MESSAGES.values()
        if spec.kind is Kind.REQUEST and spec.name in versions.requests
    ]
    return ApiVersionsReply(error=ErrorCode.NONE, api_keys=tuple(sorted(rows, key=_key)))


def highest_of(reply: ApiVersionsReply) -> Mapping[int, int]:
    """API key -> the highest version that the broker speaks."""
    return {row.api_key: row.max_version for row in reply.api_keys}


def built_for(message: object, version: int) -> object | None:
    """A request as it is written in an older version than it was made for; None: it cannot be.

    Source: ``OffsetFetchRequest.Builder.build`` (the flag is dropped), ``LeaveGroupRequest.Builder.build`` (one member
    is named by its id alone).
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
