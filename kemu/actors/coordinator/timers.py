"""The timers of a coordinator, and their keys."""

from enum import StrEnum

from kemu.actors.machine import TimerKey
from kemu.protocol.names import GroupId, MemberId


class GroupTimer(StrEnum):
    """First element of a timer's key; the docstrings name the other elements."""

    SESSION = "session"
    """(group, id): the only timer of an id, whether pending, new, or a member with a session."""
    JOIN = "join"
    """(group): the initial delay, or the rebalance timeout of a join phase."""
    SYNC = "sync"
    """(group): time limit for the syncs of a generation (KAFKA-12890)."""
    LOAD = "load"
    """(partition): the turn of a partition of the offsets topic to be read, or the end of its reading."""
    WRITE = "write"
    """(number): time limit of an append, or of an answer behind one (Java). In Scala the broker sets the limit."""
    LINGER = "linger"
    """(partition): append the gathered writes of a partition of the offsets topic (Java)."""
    EXPIRE = "expire"
    """(): the next check for expired offsets."""


def session_key(group: GroupId, member_id: MemberId) -> TimerKey:
    """The key of an id's timer."""
    return (GroupTimer.SESSION, group, member_id)
