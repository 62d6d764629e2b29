"""LeaveGroup in its versions: one member before v3, a batch since."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember

_BATCH_LEAVE_SINCE = 3


def leaving(version: int, request: LeaveGroup) -> tuple[LeavingMember, ...]:
    """The members to remove."""
    if version >= _BATCH_LEAVE_SINCE:
        return request.members
    return (LeavingMember(member_id=request.member_id),)


def leave_reply(version: int, outcomes: tuple[LeftMember, ...]) -> LeaveGroupReply:
    """The answer; before v3 the single member's error is the request's error."""
    if version >= _BATCH_LEAVE_SINCE:
        return LeaveGroupReply(error=ErrorCode.NONE, members=outcomes)
    return LeaveGroupReply(error=outcomes[0].error)
