"""LeaveGroup in its versions: one member up to v2, a batch since v3."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember

_BATCH_LEAVE_SINCE = 3


def leaving(version: int, request: LeaveGroup) -> tuple[LeavingMember, ...]:
    """The members that the request removes."""
    if version >= _BATCH_LEAVE_SINCE:
        return request.members
    return (LeavingMember(member_id=request.member_id),)


def leave_reply(version: int, outcomes: tuple[LeftMember, ...]) -> LeaveGroupReply:
    """The answer; up to v2 the single member's error is the error of the whole request."""
    if version >= _BATCH_LEAVE_SINCE:
        return LeaveGroupReply(error=ErrorCode.NONE, members=outcomes)
    return LeaveGroupReply(error=outcomes[0].error)
