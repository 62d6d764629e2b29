"""A coordinator's notes on the wire protocol: requests of group members, and the answers to these requests."""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.actors.coordinator.replies import leaving
from kemu.actors.machine import Caller, Received
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    OffsetCommit,
    OffsetCommitReply,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.ranges import RangeCommit, RangeCommitReply
from kemu.protocol.notes.groups import GroupRequestAnswered, GroupRequestRead
from kemu.protocol.wire.compile import maker

_read = maker(GroupRequestRead)
_answered = maker(GroupRequestAnswered)
_BY_A_MEMBER = frozenset((Heartbeat, OffsetCommit, RangeCommit))


def request_read(event: Received) -> GroupRequestRead | None:
    """The note of a request; None if the request concerns no member."""
    client, connection, request_id, _, request = event
    api = type(request)
    if api in _BY_A_MEMBER:
        return _read(
            group=request.group,
            api=api.__name__,
            client=client,
            connection=connection,
            request_id=request_id,
            ids=((request.member_id, request.instance_id),),
            generation=request.generation,
        )
    about: dict[str, Any] = {}
    if api is SyncGroup:
        about["generation"] = request.generation
        about["rows"] = tuple([(row.member_id, row.assignment) for row in request.assignments])
    elif api is JoinGroup:
        about["session_timeout_ms"] = request.session_timeout_ms
        about["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        about["rows"] = tuple([(protocol.name, protocol.metadata) for protocol in request.protocols])
    elif api is not LeaveGroup:
        return None
    if api is LeaveGroup:
        ids = tuple([(entry.member_id, entry.instance_id) for entry in leaving(event.version, request)])
    else:
        ids = ((request.member_id, request.instance_id),)
    return _read(
        group=request.group,
        api=api.__name__,
        client=client,
        connection=connection,
        request_id=request_id,
        ids=ids,
        **about,
    )


def _of_join(reply: JoinGroupReply) -> dict[str, Any]:
    return {
        "error": reply.error,
        "generation": reply.generation,
        "protocol": reply.protocol_name,
        "leader": reply.leader,
        "member_id": reply.member_id,
        "members": tuple([row.member_id for row in reply.members]),
    }


def _of_leave(reply: LeaveGroupReply) -> dict[str, Any]:
    return {"error": next((row.error for row in reply.members if row.error is not ErrorCode.NONE), reply.error)}


def _of_commit(reply: OffsetCommitReply | RangeCommitReply) -> dict[str, Any] | None:
    if not reply.outcomes:
        return None  # an empty commit has no outcome
    wrong = [row.error for row in reply.outcomes if row.error is not ErrorCode.NONE]
    return {"error": wrong[0] if wrong else ErrorCode.NONE}


_ANSWERS: Mapping[type, Callable[[Any], dict[str, Any] | None]] = {
    # ``request_answered`` checks the most frequent answer first
    HeartbeatReply: lambda reply: {"error": reply.error},
    JoinGroupReply: _of_join,
    SyncGroupReply: lambda reply: {"error": reply.error, "assignment": reply.assignment},
    LeaveGroupReply: _of_leave,
    OffsetCommitReply: _of_commit,
    RangeCommitReply: _of_commit,
}


def request_answered(caller: Caller | Received, message: object) -> GroupRequestAnswered | None:
    """The note of an answer; None if the answer concerns no member."""
    of = _ANSWERS.get(type(message))
    if of is None:
        return None
    client, connection, request_id = caller[:3]
    if isinstance(message, HeartbeatReply):
        return _answered(client=client, connection=connection, request_id=request_id, error=message.error)
    fields = of(message)
    if fields is None:
        return None
    return _answered(client=client, connection=connection, request_id=request_id, **fields)
