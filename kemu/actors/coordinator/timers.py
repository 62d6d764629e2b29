"""The timers of a coordinator, and their keys."""

from enum import StrEnum

from kemu.actors.machine import TimerKey
from kemu.protocol.names import GroupId, MemberId


class GroupTimer(StrEnum):
    """The first element of a timer's key, and what follows it."""

    SESSION = "session"
    """(group, id): the one timer of an id, while it is pending, new, or a member with a session."""
    JOIN = "join"
    """(group): the initial delay, or the rebalance timeout of a join phase."""
    SYNC = "sync"
    """(group): how long the members of a generation have to sync (KAFKA-12890)."""
    LOAD = "load"
    """(partition): it is the turn of a partition of the offsets topic to be read, or its log has been read."""
    WRITE = "write"
    """(number): how long an append, or an answer behind one, may take (Java; Scala's are timed by their broker)."""
    LINGER = "linger"
    """(partition): the writes gathered for a partition of the offsets topic are appended (Java)."""
    EXPIRE = "expire"
    """(): the next look for offsets that nobody needs."""


def session_key(group: GroupId, member_id: MemberId) -> TimerKey:
    """The timer of an id."""
    return (GroupTimer.SESSION, group, member_id)
